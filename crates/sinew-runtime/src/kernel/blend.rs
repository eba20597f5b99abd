//! Linear blend skinning with normals, eight vertices at a time: `M = Σ_b w_b T_b`, then `v = M v̂` and `n ∝ M n̂`.
//!
//! Positions alone need no blended matrix and are faster as points (see `points`).
//!
//! Eights in a row and scattered ones are posed by code of their own: blending needs every register, and a loop that holds
//! both ways to write keeps some in memory.

use std::ops::Range;

use super::blocks::{Blocks, Eight, JOINT};
use super::lanes::{Kernel, Lanes, Row};
use super::{Matrix, Put};
use crate::Skin;

/// A skin ready for the kernel: its vertices in blocks.
#[derive(Debug, Clone)]
pub(crate) struct BlendSkin {
    /// Eights in a row first. Its joints are places in `sources`.
    blocks: Blocks<1>,
    /// How many are in a row.
    in_a_row: usize,
    /// The matrices of the palette that any block visits, ascending.
    sources: Vec<u32>,
    /// Weights, a row of lanes for every joint of every block.
    weights: Vec<[Row; 1]>,
    /// Rest positions x, y, z, (B).
    rest: Vec<[[Row; 3]; 1]>,
    /// Rest normals x, y, z, (B).
    normals: Vec<[[Row; 3]; 1]>,
}

impl BlendSkin {
    /// Prepares `skin` for rest positions and normals, (V) each.
    pub fn new(skin: &Skin, rest: &[[f32; 3]], rest_normals: &[[f32; 3]]) -> Self {
        let mut blocks = Blocks::new(rest.len(), JOINT, |v| skin.vertex(v).map(|(joint, _)| joint));
        let in_a_row = blocks.rows_first();
        // A joint may be listed twice; its weights add up.
        let weight = |v, j| skin.vertex(v).filter(|&(joint, _)| joint == j).map(|(_, weight)| weight).sum();
        let (rest, normals) = (blocks.points(rest), blocks.points(rest_normals));
        let weights = blocks.rows(weight);
        let mut sources = blocks.joints.clone();
        sources.sort_unstable();
        sources.dedup();
        for joint in &mut blocks.joints {
            *joint = sources.binary_search(joint).expect("it was listed") as u32;
        }
        Self { weights, rest, normals, sources, blocks, in_a_row }
    }

    /// Room for the matrices that it reads.
    pub fn room(&self) -> Vec<Spread> {
        vec![Spread::default(); self.sources.len()]
    }
}

/// Poses blocks and turns the rest normals along.
pub(crate) struct PositionsAndNormals<'a, P, N> {
    pub skin: &'a BlendSkin,
    pub palette: &'a [Matrix],
    /// Room for the palette with every entry in all lanes, see [`BlendSkin::room`]: a multiply-add then takes it straight
    /// from memory.
    pub spread: &'a mut [Spread],
    pub put: P,
    pub put_normal: N,
}

/// The square of a length of 1e-15, which no blend of matrices has unless it cancels out; added, it keeps 1/√ finite.
const TINY: f32 = 1e-30;

/// A 3×4 matrix row by row, each entry in all lanes.
pub(crate) type Spread = [Row; 12];

impl<P: Put, N: Put> Kernel for PositionsAndNormals<'_, P, N> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, s: L) {
        for (spread, &source) in self.spread.iter_mut().zip(&self.skin.sources) {
            // Through a register: left to itself the compiler may write lane by lane, a tenth of the whole frame.
            for (row, &entry) in spread.iter_mut().zip(&self.palette[source as usize].0) {
                *row = Row(s.array(s.splat(entry)));
            }
        }
        let (rows, all) = (self.skin.in_a_row, self.skin.blocks.len());
        self.pose::<true, L>(s, 0..rows);
        self.pose::<false, L>(s, rows..all);
    }
}

impl<P: Put, N: Put> PositionsAndNormals<'_, P, N> {
    /// Poses blocks whose vertices are in a row, or scattered.
    #[inline(always)]
    fn pose<const IN_A_ROW: bool, L: Lanes>(&mut self, s: L, blocks: Range<usize>) {
        let (skin, palette) = (self.skin, &*self.spread);
        let rest = skin.rest[blocks.clone()].iter().zip(&skin.normals[blocks.clone()]);
        // A block's normals are made unit after the next block's matrices are blended: the long chain of operations then
        // finds its input ready, and nothing behind it waits.
        let mut last: Option<(&Eight, [L::V; 3])> = None;
        for (([eight], slots), ([rest], [normal])) in skin.blocks.iter(blocks).zip(rest) {
            let m = blended(s, skin, palette, slots);
            if let Some((eight, normal)) = last {
                put::<IN_A_ROW, L>(s, &mut self.put_normal, eight, unit(s, normal));
            }
            put::<IN_A_ROW, L>(s, &mut self.put, eight, transform(s, &m, rest));
            let [a, b, c, _, d, e, f, _, g, h, i, _] = m;
            last = Some((eight, turned(s, &[[a, b, c], [d, e, f], [g, h, i]], normal)));
        }
        if let Some((eight, normal)) = last {
            put::<IN_A_ROW, L>(s, &mut self.put_normal, eight, unit(s, normal));
        }
    }
}

#[inline(always)]
fn put<const IN_A_ROW: bool, L: Lanes>(s: L, to: &mut impl Put, eight: &Eight, rows: [L::V; 3]) {
    if IN_A_ROW { to.put_row(s, eight, rows) } else { to.put_scattered(s, eight, rows) }
}

/// `M = Σ w T` of the block with these slots, row by row.
#[inline(always)]
fn blended<L: Lanes>(s: L, skin: &BlendSkin, palette: &[Spread], slots: Range<usize>) -> [L::V; 12] {
    let mut m = [s.splat(0.0); 12];
    for (&joint, [weight]) in skin.blocks.joints[slots.clone()].iter().zip(&skin.weights[slots]) {
        let (w, matrix) = (s.load(weight), &palette[joint as usize]);
        for k in 0..12 {
            m[k] = s.mul_add(w, s.load(&matrix[k]), m[k]);
        }
    }
    m
}

/// `M v̂`.
#[inline(always)]
fn transform<L: Lanes>(s: L, m: &[L::V; 12], rest: &[Row; 3]) -> [L::V; 3] {
    let [x, y, z] = [s.load(&rest[0]), s.load(&rest[1]), s.load(&rest[2])];
    let mut out = [x; 3];
    for row in 0..3 {
        out[row] = s.mul_add(m[4 * row + 2], z, m[4 * row + 3]);
        out[row] = s.mul_add(m[4 * row], x, s.mul_add(m[4 * row + 1], y, out[row]));
    }
    out
}

/// `M n̂`.
#[inline(always)]
fn turned<L: Lanes>(s: L, m: &[[L::V; 3]; 3], rest: &[Row; 3]) -> [L::V; 3] {
    let [x, y, z] = [s.load(&rest[0]), s.load(&rest[1]), s.load(&rest[2])];
    let mut out = [x; 3];
    for row in 0..3 {
        let [a, b, c] = m[row];
        out[row] = s.mul_add(a, x, s.mul_add(b, y, s.mul(c, z)));
    }
    out
}

/// Length one to within 4e-4: the processor's estimate of 1/√ is good enough to shade by, and refining it would cost a
/// tenth of the kernel. A vector too short to have a direction shrinks to 0.
#[inline(always)]
pub(super) fn unit<L: Lanes>(s: L, [x, y, z]: [L::V; 3]) -> [L::V; 3] {
    let square = s.mul_add(x, x, s.mul_add(y, y, s.mul_add(z, z, s.splat(TINY))));
    let scale = s.inverse_sqrt_estimate(square);
    [s.mul(x, scale), s.mul(y, scale), s.mul(z, scale)]
}
