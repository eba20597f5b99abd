//! Dual quaternion skinning, eight vertices at a time (Kavan, Collins, Žára and O'Sullivan, 2007).
//!
//! Each lane adds up its joints' dual quaternions on the side of its own heaviest joint, divides by the length of the
//! real part, and applies the result `(r, d)` to its point as `v + 2 r×(r×v + r_w v) + 2 (r_w d − d_w r + r×d)`.

use std::ops::Range;

use super::Put;
use super::blocks::{Blocks, JOINT, LANES};
use super::lanes::{Kernel, Lanes, Row};
use super::points::framed;
use crate::Skin;

/// A dual quaternion: real x, y, z, w, dual x, y, z, w.
pub(crate) type Dual = Row;

/// A skin ready for the kernel.
#[derive(Debug, Clone)]
pub(crate) struct DualSkin {
    pub blocks: Blocks<1>,
    /// Weights, a row of lanes for every joint of every block.
    weights: Vec<[Row; 1]>,
    /// The heaviest joint of each lane, (B).
    pivots: Vec<[u32; LANES]>,
    /// Rest positions x, y, z, (B).
    rest: Vec<[[Row; 3]; 1]>,
}

impl DualSkin {
    /// Prepares `skin` for the rest positions `rest`, given in the frame in which the dual quaternions act.
    pub fn new(skin: &Skin, rest: &[[f32; 3]]) -> Self {
        let blocks: Blocks<1> = Blocks::new(rest.len(), JOINT, |v| skin.vertex(v).map(|(joint, _)| joint));
        let weight = |v, j| skin.vertex(v).filter(|&(joint, _)| joint == j).map(|(_, weight)| weight).sum();
        let pivot = |v: u32| skin.vertex(v as usize).next().map_or(0, |(joint, _)| joint as u32);
        Self {
            weights: blocks.rows(weight),
            pivots: blocks.eights.iter().map(|[eight]| eight.vertices.map(pivot)).collect(),
            rest: blocks.points(rest),
            blocks,
        }
    }
}

/// Poses blocks.
pub(crate) struct Positions<'a, P> {
    pub skin: &'a DualSkin,
    pub palette: &'a [Dual],
    /// Applied last: the root's frame, a 3×4 matrix.
    pub frame: super::Matrix,
    pub blocks: Range<usize>,
    pub put: P,
}

impl<P: Put> Kernel for Positions<'_, P> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, s: L) {
        let blocks = self.skin.blocks.iter(self.blocks.clone());
        let rest = self.skin.rest[self.blocks.clone()].iter().zip(&self.skin.pivots[self.blocks.clone()]);
        for (([eight], slots), ([rest], pivots)) in blocks.zip(rest) {
            let sum = self.blended(s, slots, pivots);
            let point = apply(s, sum, [s.load(&rest[0]), s.load(&rest[1]), s.load(&rest[2])]);
            self.put.put(s, eight, framed(s, &self.frame, point));
        }
    }
}

impl<P> Positions<'_, P> {
    /// Σ ±w (r, d), the sign that brings r to the side of the lane's heaviest joint.
    #[inline(always)]
    fn blended<L: Lanes>(&self, s: L, slots: Range<usize>, pivots: &[u32; LANES]) -> [L::V; 8] {
        let joints = &self.skin.blocks.joints[slots.clone()];
        let zero = s.splat(0.0);
        // One joint needs no side.
        let alone = joints.len() < 2;
        let pivot: [L::V; 4] = if alone { [zero; 4] } else { self.pivot(s, pivots) };
        let mut sum = [zero; 8];
        for (&joint, [weight]) in joints.iter().zip(&self.skin.weights[slots]) {
            let q = &self.palette[joint as usize].0;
            let w = s.load(weight);
            let mut side = s.mul(s.splat(q[0]), pivot[0]);
            for k in 1..4 {
                side = s.mul_add(s.splat(q[k]), pivot[k], side);
            }
            let w = s.select_less(side, zero, s.sub(zero, w), w);
            for k in 0..8 {
                sum[k] = s.mul_add(w, s.splat(q[k]), sum[k]);
            }
        }
        sum
    }

    /// The real part of each lane's heaviest joint.
    #[inline(always)]
    fn pivot<L: Lanes>(&self, s: L, pivots: &[u32; LANES]) -> [L::V; 4] {
        let mut rows = [Row::default(); 4];
        for (lane, &joint) in pivots.iter().enumerate() {
            let dual = &self.palette[joint as usize];
            for k in 0..4 {
                rows[k].0[lane] = dual.0[k];
            }
        }
        [s.load(&rows[0]), s.load(&rows[1]), s.load(&rows[2]), s.load(&rows[3])]
    }
}

/// The rigid motion of the sum applied to a point; a sum that cancels out moves nothing.
#[inline(always)]
fn apply<L: Lanes>(s: L, sum: [L::V; 8], v: [L::V; 3]) -> [L::V; 3] {
    let mut square = s.mul(sum[0], sum[0]);
    for k in 1..4 {
        square = s.mul_add(sum[k], sum[k], square);
    }
    // As in the plain deformer: a length below 1e-12 has no direction.
    let (zero, tiny) = (s.splat(0.0), s.splat(1e-24));
    let scale = s.select_less(square, tiny, zero, s.div(s.splat(2.0), square));
    let [r, d] = [[sum[0], sum[1], sum[2]], [sum[4], sum[5], sum[6]]];
    let (rw, dw) = (sum[3], sum[7]);
    let mut turn = cross(s, r, v);
    for k in 0..3 {
        turn[k] = s.mul_add(rw, v[k], turn[k]);
    }
    let turn = cross(s, r, turn);
    let mut out = cross(s, r, d);
    for k in 0..3 {
        out[k] = s.mul_add(rw, d[k], s.neg_mul_add(dw, r[k], out[k]));
        out[k] = s.mul_add(scale, s.add(turn[k], out[k]), v[k]);
    }
    out
}

#[inline(always)]
fn cross<L: Lanes>(s: L, a: [L::V; 3], b: [L::V; 3]) -> [L::V; 3] {
    [
        s.neg_mul_add(a[2], b[1], s.mul(a[1], b[2])),
        s.neg_mul_add(a[0], b[2], s.mul(a[2], b[0])),
        s.neg_mul_add(a[1], b[0], s.mul(a[0], b[1])),
    ]
}
