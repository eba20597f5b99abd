//! Animation space with normals, eight vertices at a time: `v = Σ_b T_b h_b`, and `n ∝ Σ_b T_b w_b n̂` without the translations,
//! w_b being the last number of h_b: the rest normal turned by the blended matrix.
//!
//! Both in one pass: an entry of a joint's matrix is loaded once for the point and for the normal, and no weight is read
//! that the point has not read. 24 operations a joint; blending the matrix instead takes 21, and 9 at the end, but needs
//! more sums than there are registers.

use std::ops::Range;

use super::blend::{put, unit};
use super::blocks::{Blocks, Eight, JOINT};
use super::lanes::{Kernel, Lanes, Row};
use super::{Matrix, Put};
use crate::deform::AnimationSpace;

/// Animation-space coordinates ready for the kernel: the vertices in blocks.
#[derive(Debug, Clone)]
pub(crate) struct TurningPoints {
    /// Eights in a row first.
    blocks: Blocks<1>,
    /// How many are in a row.
    in_a_row: usize,
    /// h, four numbers for every joint of every block.
    coefficients: Vec<[Row; 4]>,
    /// Rest normals x, y, z, (B).
    normals: Vec<[[Row; 3]; 1]>,
}

impl TurningPoints {
    /// Prepares `points` for rest normals, (V).
    pub fn new(points: &AnimationSpace, rest_normals: &[[f32; 3]]) -> Self {
        let mut blocks = Blocks::new(rest_normals.len(), JOINT, |v| points.vertex(v).map(|(joint, _)| joint));
        let in_a_row = blocks.rows_first();
        // A joint may be listed twice; its numbers add up.
        let number = |n: usize| {
            let own = move |v, j| points.vertex(v).filter(|&(joint, _)| joint == j).map(|(_, h)| h[n]).sum();
            blocks.rows(own)
        };
        let [x, y, z, w] = [number(0), number(1), number(2), number(3)];
        let four = |k: usize| [x[k][0], y[k][0], z[k][0], w[k][0]];
        let coefficients = (0..x.len()).map(four).collect();
        Self { normals: blocks.points(rest_normals), coefficients, blocks, in_a_row }
    }
}

/// Poses blocks and turns the rest normals along.
pub(crate) struct PointsAndNormals<'a, P, N> {
    pub skin: &'a TurningPoints,
    pub palette: &'a [Matrix],
    pub put: P,
    pub put_normal: N,
}

impl<P: Put, N: Put> Kernel for PointsAndNormals<'_, P, N> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, s: L) {
        let (rows, all) = (self.skin.in_a_row, self.skin.blocks.len());
        self.pose::<true, L>(s, 0..rows);
        self.pose::<false, L>(s, rows..all);
    }
}

impl<P: Put, N: Put> PointsAndNormals<'_, P, N> {
    /// Poses blocks whose vertices are in a row, or scattered.
    #[inline(always)]
    fn pose<const IN_A_ROW: bool, L: Lanes>(&mut self, s: L, blocks: Range<usize>) {
        let (skin, palette) = (self.skin, self.palette);
        let mut last: Option<(&Eight, [L::V; 3])> = None;
        for (([eight], slots), [normal]) in skin.blocks.iter(blocks.clone()).zip(&skin.normals[blocks]) {
            let [point, normal] = sums(s, skin, palette, slots, normal);
            if let Some((eight, normal)) = last {
                put::<IN_A_ROW, L>(s, &mut self.put_normal, eight, unit(s, normal));
            }
            put::<IN_A_ROW, L>(s, &mut self.put, eight, point);
            last = Some((eight, normal));
        }
        if let Some((eight, normal)) = last {
            put::<IN_A_ROW, L>(s, &mut self.put_normal, eight, unit(s, normal));
        }
    }
}

/// `Σ T h` and `Σ T w n̂` of the block with these slots.
#[inline(always)]
fn sums<L: Lanes>(
    s: L,
    skin: &TurningPoints,
    palette: &[Matrix],
    slots: Range<usize>,
    normal: &[Row; 3],
) -> [[L::V; 3]; 2] {
    let (mut even, mut odd, mut turned) = ([s.splat(0.0); 3], [s.splat(0.0); 3], [s.splat(0.0); 3]);
    for (&joint, h) in skin.blocks.joints[slots.clone()].iter().zip(&skin.coefficients[slots]) {
        let (matrix, w) = (&palette[joint as usize].0, s.load(&h[3]));
        for column in 0..3 {
            let (h, n) = (s.load(&h[column]), s.mul(w, s.load(&normal[column])));
            // Even and odd columns in sums of their own: a single chain would wait for itself.
            let point = if column % 2 == 0 { &mut even } else { &mut odd };
            for row in 0..3 {
                let entry = s.splat(matrix[4 * row + column]);
                point[row] = s.mul_add(entry, h, point[row]);
                turned[row] = s.mul_add(entry, n, turned[row]);
            }
        }
        for row in 0..3 {
            odd[row] = s.mul_add(s.splat(matrix[4 * row + 3]), w, odd[row]);
        }
    }
    [[s.add(even[0], odd[0]), s.add(even[1], odd[1]), s.add(even[2], odd[2])], turned]
}
