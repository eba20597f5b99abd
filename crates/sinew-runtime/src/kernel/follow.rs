//! Proxy bones that follow a bone each and change with terms, two at a time: all that a distilled regression's prediction is.
//!
//! With rows of two proxies side by side in a register, `T_b + F Q_b Σ_k m_k B_k F̂⁻¹` is a product of the terms with a few
//! dozen numbers, turned with the bone that both follow. Nothing is read back, and numbers stand as they are: unpacking
//! 16 bits takes longer than reading 32. The plain twin is that of [`regress`](super::regress).

use glam::DMat3;

use super::Matrix;
use super::correct::{CorrectionRoom, Corrections, folded};
use super::lanes::{Lanes, Row};
use crate::correction::{Drivers, ProxyCorrection};
use crate::deform::RotationalRegression;

/// Pairs of proxies with what changes them.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    /// In the order of their numbers of terms.
    pairs: Vec<Pair>,
    /// Components of all pairs, a term at a time: the three rows of both proxies.
    components: Vec<[Row; 3]>,
}

/// Two proxies that follow the same bone; one that is alone stands there twice.
#[derive(Debug, Clone, Copy)]
struct Pair {
    proxies: [u32; 2],
    bone: u32,
    /// The region's place among the correction's, where its terms stand, and how many they are; none if nothing changes it.
    region: u32,
    at: u32,
    terms: u32,
}

impl Follow {
    /// Lays a regression and its correction `c` out, if every proxy is carried by one bone and changed in the frame of that bone
    /// by polynomials; `changed` is the correction as it stands in the kernel, `rest_frame` F̂.
    pub fn new(
        d: &RotationalRegression,
        c: &ProxyCorrection,
        changed: &Corrections,
        rest_frame: DMat3,
    ) -> Option<Self> {
        let carried = |p: usize| match (d.c2.row(p).next(), d.c2.row(p).count()) {
            (Some((b, block)), 1) => (0..16).all(|k| block[k / 4][k % 4] == f32::from(k % 5 == 0)).then_some(b as u32),
            _ => None,
        };
        let bones: Vec<u32> = (0..d.proxy_count()).map(carried).collect::<Option<_>>()?;
        let polynomials = matches!(c.drivers, Drivers::Polynomials(_));
        if !polynomials || !d.c1.columns.is_empty() || !changed.unmixed() {
            return None;
        }
        let mut follow = Self { pairs: Vec::new(), components: Vec::new() };
        let mut pairs = Vec::new();
        let mut times = vec![0; d.proxy_count()];
        for (region, at, r) in changed.places() {
            let own = &c.regions[r];
            for (i, two) in own.proxies.chunks(2).enumerate() {
                let proxies = [two[0], two[two.len() - 1]];
                if proxies.iter().any(|&p| bones[p as usize] != own.bone as u32) {
                    return None;
                }
                two.iter().for_each(|&p| times[p as usize] += 1);
                let after = rest_frame.transpose();
                let change = |k: usize, half: usize| {
                    folded(&c.mixed_component(r, k, (2 * i + half).min(own.proxies.len() - 1)), after)
                };
                let component = |k: usize| {
                    let halves = [change(k, 0), change(k, 1)];
                    [0, 1, 2].map(|row| Row(std::array::from_fn(|lane| halves[lane / 4][4 * row + lane % 4] as f32)))
                };
                let components: Vec<[Row; 3]> = (0..c.drivers.inputs(r)).map(component).collect();
                let pair = Pair { proxies, bone: own.bone as u32, region, at, terms: components.len() as u32 };
                pairs.push((pair, components));
            }
        }
        if times.iter().any(|&times| times > 1) {
            return None;
        }
        for p in (0..times.len()).filter(|&p| times[p] == 0) {
            pairs.push((Pair { proxies: [p as u32; 2], bone: bones[p], region: 0, at: 0, terms: 0 }, Vec::new()));
        }
        pairs.sort_by_key(|(pair, _)| pair.terms);
        for (pair, components) in pairs {
            follow.pairs.push(pair);
            follow.components.extend(components);
        }
        Some(follow)
    }

    /// Fills in every proxy's world transform from the `bones`'; the terms are in the correction's room.
    #[inline(always)]
    pub fn draw<L: Lanes>(&self, s: L, bones: &[Matrix], room: &CorrectionRoom, proxies: &mut [Matrix]) {
        let mut components = &self.components[..];
        for pair in &self.pairs {
            let own;
            (own, components) = components.split_at(pair.terms as usize);
            let mut rows = both(s, &bones[pair.bone as usize]);
            if pair.terms > 0 {
                let terms = &room.weights[pair.at as usize..][..own.len()];
                let changes = weighted(s, terms, own);
                for (row, [a, b, c]) in room.turn(pair.region as usize).into_iter().enumerate() {
                    let [x, y, z] = changes;
                    let near = s.mul_add(s.splat(a), x, rows[row]);
                    rows[row] = s.mul_add(s.splat(b), y, s.mul_add(s.splat(c), z, near));
                }
            }
            let [one, other] = pair.proxies;
            for row in 0..3 {
                let halves = s.array(rows[row]);
                proxies[one as usize].0[4 * row..][..4].copy_from_slice(&halves[..4]);
                proxies[other as usize].0[4 * row..][..4].copy_from_slice(&halves[4..]);
            }
        }
    }
}

/// The rows of a matrix, each twice.
#[inline(always)]
fn both<L: Lanes>(s: L, matrix: &Matrix) -> [L::V; 3] {
    let row = |k: usize| {
        let [a, b, c, d] = [matrix.0[k], matrix.0[k + 1], matrix.0[k + 2], matrix.0[k + 3]];
        s.load_array(&[a, b, c, d, a, b, c, d])
    };
    [row(0), row(4), row(8)]
}

/// `Σ_k m_k B_k`: rows of both proxies. Even and odd terms apart: with three chains additions wait for each other.
#[inline(always)]
fn weighted<L: Lanes>(s: L, terms: &[f32], components: &[[Row; 3]]) -> [L::V; 3] {
    let [mut even, mut odd] = [[s.splat(0.0); 3]; 2];
    let (twos, last) = components.as_chunks::<2>();
    for ([m, n], [b, c]) in terms.as_chunks::<2>().0.iter().zip(twos) {
        let (m, n) = (s.splat(*m), s.splat(*n));
        for row in 0..3 {
            even[row] = s.mul_add(m, s.load(&b[row]), even[row]);
            odd[row] = s.mul_add(n, s.load(&c[row]), odd[row]);
        }
    }
    if let ([b], Some(m)) = (last, terms.last()) {
        let m = s.splat(*m);
        for row in 0..3 {
            even[row] = s.mul_add(m, s.load(&b[row]), even[row]);
        }
    }
    [s.add(even[0], odd[0]), s.add(even[1], odd[1]), s.add(even[2], odd[2])]
}
