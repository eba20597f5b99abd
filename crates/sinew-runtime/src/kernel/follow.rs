//! Proxy bones that follow the plain blend of their bones and a change each, two at a time: what is left of `t = c₁ d + c₂ q`
//! and a correction in a distilled regression, in one pass.
//!
//! With rows of two proxies side by side in a register, `F (Σ_b ω_pb T_b + Q_b Δ) F̂⁻¹` is three rows of sums: a share times a
//! bone's row for every bone, components times their weights, and the rotation F Q_b of the region's bone. Nothing is read
//! back. The plain twin is that of [`regress`](super::regress).

use glam::Affine3A;

use super::Matrix;
use super::correct::{CorrectionRoom, Corrections, Pair};
use super::lanes::{Lanes, Row};
use crate::deform::RotationalRegression;

/// The bones that proxies follow.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    /// Pairs of proxies that a correction changes, in its order; then those that it does not.
    pairs: Vec<[u32; 2]>,
    /// Where each pair's bones end in the lists.
    ends: Vec<u32>,
    /// Places of bones in the sources, and the shares of both proxies.
    bones: Vec<u32>,
    shares: Vec<Row>,
}

impl Follow {
    /// Lays `d` out if its proxies only follow blends of bones and are changed once at most; `bone` gives a bone's place in
    /// the sources.
    pub fn new(d: &RotationalRegression, changed: &Corrections, bone: impl Fn(u16) -> u32) -> Option<Self> {
        let share = |block: &[[f32; 4]; 4]| {
            let diagonal = (0..16).all(|k| block[k / 4][k % 4] == if k % 5 == 0 { block[0][0] } else { 0.0 });
            diagonal.then_some(block[0][0])
        };
        let plain = d.c1.columns.is_empty() && d.c2.blocks.iter().all(|block| share(block).is_some());
        let mut pairs: Vec<[u32; 2]> = changed.pairs.iter().map(|pair| pair.proxies).collect();
        let mut times = vec![0; d.proxy_count()];
        for [one, other] in &pairs {
            times[*one as usize] += 1;
            times[*other as usize] += usize::from(one != other);
        }
        if !plain || times.iter().any(|&times| times > 1) {
            return None;
        }
        let left: Vec<u32> = (0..times.len() as u32).filter(|&p| times[p as usize] == 0).collect();
        pairs.extend(left.chunks(2).map(|two| [two[0], two[two.len() - 1]]));
        let mut follow = Self { ends: Vec::new(), bones: Vec::new(), shares: Vec::new(), pairs };
        for proxies in &follow.pairs {
            let own = |p: u32| d.c2.row(p as usize).map(|(b, block)| (bone(b as u16), block[0][0]));
            let mut bones: Vec<u32> = proxies.iter().flat_map(|&p| own(p)).map(|(b, _)| b).collect();
            bones.sort_unstable();
            bones.dedup();
            for &b in &bones {
                let share = |p: u32| own(p).filter(|&(other, _)| other == b).map(|(_, share)| share).sum::<f32>();
                let both = proxies.map(share);
                follow.shares.push(Row(std::array::from_fn(|lane| both[lane / 4])));
            }
            follow.bones.extend(bones);
            follow.ends.push(follow.bones.len() as u32);
        }
        Some(follow)
    }

    /// Fills in every proxy's world transform; `sources` are the bones' with translations from F's, and the weights of
    /// `changed` are in its room.
    #[inline(always)]
    pub fn draw<L: Lanes>(
        &self,
        s: L,
        frame: Affine3A,
        sources: &[Matrix],
        changed: &Corrections,
        room: &CorrectionRoom,
        proxies: &mut [Matrix],
    ) {
        let origin = frame.translation;
        let at = |c: f32| s.load(&Row([0.0, 0.0, 0.0, c, 0.0, 0.0, 0.0, c]));
        let start = [at(origin.x), at(origin.y), at(origin.z)];
        let (mut changes, mut first) = (&changed.changes[..], 0);
        for (k, (&[one, other], &end)) in self.pairs.iter().zip(&self.ends).enumerate() {
            let mut rows = start;
            let span = first..end as usize;
            first = end as usize;
            for (&bone, share) in self.bones[span.clone()].iter().zip(&self.shares[span]) {
                let (m, share) = (&sources[bone as usize].0, s.load(share));
                for row in 0..3 {
                    let [a, b, c, d] = [m[4 * row], m[4 * row + 1], m[4 * row + 2], m[4 * row + 3]];
                    rows[row] = s.mul_add(share, s.load_array(&[a, b, c, d, a, b, c, d]), rows[row]);
                }
            }
            if let Some(pair) = changed.pairs.get(k) {
                let own;
                (own, changes) = changes.split_at(pair.twos as usize);
                rows = changed_rows(s, pair, own, room, rows);
            }
            for row in 0..3 {
                let both = s.array(rows[row]);
                // One that is alone stands there twice, and the change in the first half.
                proxies[other as usize].0[4 * row..][..4].copy_from_slice(&both[4..]);
                proxies[one as usize].0[4 * row..][..4].copy_from_slice(&both[..4]);
            }
        }
    }
}

/// `rows` with `F Q_b Σ_k a_k B_k` added.
#[inline(always)]
fn changed_rows<L: Lanes>(
    s: L,
    pair: &Pair,
    components: &[[super::lanes::Packed; 3]],
    room: &CorrectionRoom,
    mut rows: [L::V; 3],
) -> [L::V; 3] {
    let [x, y, z] = pair.weighted(s, components, room);
    for (row, [a, b, c]) in pair.turn(room).into_iter().enumerate() {
        rows[row] = s.mul_add(s.splat(a), x, s.mul_add(s.splat(b), y, s.mul_add(s.splat(c), z, rows[row])));
    }
    rows
}
