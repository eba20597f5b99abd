//! Palette normals of methods that do not blend matrices, sixteen vertices at a time: `n ∝ Σ_b T_b (w_b n̂)` without the
//! translations, the rest normal turned by the blended matrix.
//!
//! Only the direction counts, and 16 bits are enough for that: a register holds sixteen numbers instead of eight, and there
//! is half as much to read. The matrices are scaled by one number for the whole palette, the products w_b n̂ by one for
//! each vertex; neither changes the direction.
//!
//! A joint takes nine multiplications and nine additions for sixteen vertices, where positions take 24 multiply-adds; making
//! the sums unit and writing them costs as much as another two or three joints. Tried on Zen 3: both in one pass, hardly
//! faster; the blended matrix in 16 bits, and pairs of products (`madd`), slower.
//!
//! **How far off.** Two things are left out, both small beside what palette normals miss anyway, the bulging of the skin:
//!
//! - A vertex's lightest weights, up to [`LEFT_OUT`] of them all, go to its heaviest joint. If the joints are turned by
//!   at most θ from each other, that moves the sum by at most 2 sin(θ/2) · 0.01: 0.6° at 60°, 1.2° in any pose. Fitted
//!   models have many weights like that, each of which has a whole block visit its joint.
//! - Rounding, in units of a number's last digit, for k joints a vertex. A matrix's entries are off by ½, which moves a
//!   coordinate of the sum by up to ½√3 over all joints; the coordinates of w_b n̂ likewise, by up to ½ a joint; the
//!   products too, by up to 3/2 a joint. Together that is √3 (½√3 + 2k) for the vector, where a turned normal has length
//!   32,767/√3: less than 2e-4 (k + 1) radians.
//!
//! Where weights cancel each other, or some joints are scaled far more than others, the sum is shorter than that and the
//! angles are larger in proportion.

use std::ops::Range;

use glam::Vec4;

use super::blend::unit;
use super::blocks::{Blocks, Eight};
use super::lanes::{Kernel, Lanes, Sixteen};
use super::{Matrix, Put};

/// Registers of positions that a block's vertices would fill.
const R: usize = 2;

/// The share of a vertex's weights that may be left out.
const LEFT_OUT: f32 = 0.01;

/// Cycles a joint costs eight vertices (measured on Zen 3).
const JOINT: f32 = 4.0;

/// The largest whole number.
const MOST: f32 = i16::MAX as f32;

/// Rest normals and weights ready for the kernel.
#[derive(Debug, Clone)]
pub(crate) struct TurningSkin {
    /// Its joints are places in `sources`.
    blocks: Blocks<R>,
    /// The matrices of the palette that any block visits, ascending.
    sources: Vec<u32>,
    /// w n̂ / Σ|w|, x, y and z, for every joint of every block.
    normals: Vec<[Sixteen; 3]>,
}

/// A matrix of the palette, row by row: each entry a whole number, in both halves.
pub(crate) type Turn = [u32; 12];

impl TurningSkin {
    /// Prepares vertices with these rest normals, (V); `weights(v)` lists (joint, weight). A joint listed twice adds up.
    pub fn new<I: Iterator<Item = (usize, f32)>>(rest_normals: &[[f32; 3]], weights: impl Fn(usize) -> I) -> Self {
        let kept: Vec<Vec<(u32, f32)>> = (0..rest_normals.len()).map(|v| heavy(weights(v))).collect();
        let mut blocks = Blocks::new(kept.len(), JOINT, |v| kept[v].iter().map(|&(joint, _)| joint as usize));
        let mut normals = vec![[Sixteen::default(); 3]; blocks.joints.len()];
        for (eights, slots) in blocks.iter(0..blocks.len()) {
            let (joints, normals) = (&blocks.joints[slots.clone()], &mut normals[slots]);
            for (r, eight) in eights.iter().enumerate() {
                for (lane, &v) in eight.vertices.iter().enumerate() {
                    for &(joint, weight) in &kept[v as usize] {
                        let slot = joints.binary_search(&joint).expect("the block has its vertices' joints");
                        for (row, n) in normals[slot].iter_mut().zip(rest_normals[v as usize]) {
                            row.0[R * lane + r] = (weight * n).round() as i16;
                        }
                    }
                }
            }
        }
        let mut sources = blocks.joints.clone();
        sources.sort_unstable();
        sources.dedup();
        for joint in &mut blocks.joints {
            *joint = sources.binary_search(joint).expect("it was listed") as u32;
        }
        Self { blocks, sources, normals }
    }

    /// Room for the matrices that it reads.
    pub fn room(&self) -> Vec<Turn> {
        vec![Turn::default(); self.sources.len()]
    }

    /// The palette in whole numbers, scaled such that no sum leaves 16 bits: with A the matrices and n̂ a unit vector no
    /// coordinate of Σ A w n̂ / Σ|w| is larger than the largest Frobenius norm of an A, and that is at most
    /// √(x² + y² + z²) if x, y and z are the lengths of the longest columns.
    #[inline(always)]
    fn set<L: Lanes>(&self, s: L, palette: &[Matrix], turns: &mut [Turn]) {
        let mut longest = Vec4::splat(f32::MIN_POSITIVE);
        for &source in &self.sources {
            let [a, b, c] = [0, 4, 8].map(|k| Vec4::from_slice(&palette[source as usize].0[k..k + 4]));
            longest = longest.max(a * a + b * b + c * c);
        }
        let scale = s.splat(MOST / longest.truncate().element_sum().sqrt());
        for (turn, &source) in turns.iter_mut().zip(&self.sources) {
            // Twelve entries as two eights that overlap.
            let entries = &palette[source as usize].0;
            for at in [0, 4] {
                let eight = s.load_array(entries[at..at + 8].try_into().expect("eight"));
                turn[at..at + 8].copy_from_slice(&s.twice(s.mul(eight, scale)));
            }
        }
    }

    /// `Σ T w n̂` of the block with these slots.
    #[inline(always)]
    fn sums<L: Lanes>(&self, s: L, turns: &[Turn], slots: Range<usize>) -> [L::W; 3] {
        let mut sums = [s.splat_sixteen(0); 3];
        for (&joint, n) in self.blocks.joints[slots.clone()].iter().zip(&self.normals[slots]) {
            let turn = &turns[joint as usize];
            for column in 0..3 {
                let n = s.load_sixteen(&n[column]);
                for row in 0..3 {
                    sums[row] = s.mul_add_sixteen(s.splat_sixteen(turn[4 * row + column]), n, sums[row]);
                }
            }
        }
        sums
    }
}

/// A vertex's weights without the lightest, ascending by joint and scaled such that their sizes sum to [`MOST`], less what
/// rounding may add to a coordinate: 3 for each joint and 3 besides.
fn heavy(weights: impl Iterator<Item = (usize, f32)>) -> Vec<(u32, f32)> {
    let mut all: Vec<(u32, f32)> = weights.map(|(joint, weight)| (joint as u32, weight)).collect();
    all.sort_by_key(|&(joint, _)| joint);
    all.dedup_by(|next, first| {
        let same = next.0 == first.0;
        first.1 += if same { next.1 } else { 0.0 };
        same
    });
    let size: f32 = all.iter().map(|(_, weight)| weight.abs()).sum();
    all.sort_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let mut left_out = 0.0;
    let light = all.iter().take_while(|(_, weight)| {
        left_out += weight.abs();
        left_out <= LEFT_OUT * size
    });
    let light = light.count();
    let moved: f32 = all.drain(..light).map(|(_, weight)| weight).sum();
    if let Some((_, heaviest)) = all.last_mut() {
        *heaviest += moved;
    }
    let size: f32 = all.iter().map(|(_, weight)| weight.abs()).sum();
    let most = (MOST - 3.0 * (all.len() + 1) as f32).max(0.0);
    all.iter_mut().for_each(|(_, weight)| *weight *= most / size);
    all.sort_by_key(|&(joint, _)| joint);
    all
}

/// Turns the rest normals.
pub(crate) struct Normals<'a, N> {
    pub skin: &'a TurningSkin,
    pub palette: &'a [Matrix],
    /// Room for the palette in whole numbers, see [`TurningSkin::room`].
    pub turns: &'a mut [Turn],
    pub put: N,
}

impl<N: Put> Kernel for Normals<'_, N> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, s: L) {
        let skin = self.skin;
        skin.set(s, self.palette, self.turns);
        // A block's normals are made unit after the next block's sums, as in `blend`.
        let mut last: Option<(&[Eight; R], [L::W; 3])> = None;
        for (eights, slots) in skin.blocks.iter(0..skin.blocks.len()) {
            let sums = skin.sums(s, self.turns, slots);
            if let Some((eights, sums)) = last {
                put(s, &mut self.put, eights, sums);
            }
            last = Some((eights, sums));
        }
        if let Some((eights, sums)) = last {
            put(s, &mut self.put, eights, sums);
        }
    }
}

#[inline(always)]
fn put<L: Lanes>(s: L, to: &mut impl Put, eights: &[Eight; R], [x, y, z]: [L::W; 3]) {
    let ([x0, x1], [y0, y1], [z0, z1]) = (s.widen(x), s.widen(y), s.widen(z));
    to.put(s, &eights[0], unit(s, [x0, y0, z0]));
    to.put(s, &eights[1], unit(s, [x1, y1, z1]));
}

#[cfg(test)]
mod tests {
    use super::super::Scatter;
    use super::super::lanes::Instructions;
    use super::*;

    #[test]
    fn light_weights_go_to_the_heaviest_joint() {
        let kept = |weights: &[(usize, f32)]| heavy(weights.iter().copied());
        // Seven tenths of a hundredth in all; joint 4, listed twice, is heavy enough to stay.
        let light = kept(&[(9, 0.003), (2, 0.9), (4, 0.05), (7, -0.004), (4, 0.051)]);
        assert_eq!(light.iter().map(|&(joint, _)| joint).collect::<Vec<_>>(), [2, 4]);
        // What is left sums to one again: 0.899 and 0.101.
        let share = light[1].1 / (light[0].1 + light[1].1);
        assert!((share - 0.101).abs() < 1e-6, "{share}");
        assert_eq!(kept(&[(0, 0.011), (1, 0.989)]).len(), 2);
        assert_eq!(kept(&[(3, 1.0)]).len(), 1);
        assert_eq!(kept(&[(3, 0.0)]), []);
    }

    #[test]
    fn no_sum_leaves_sixteen_bits() {
        // As long a sum as there can be: every matrix as far as its norm allows along x, the normal along its rows, and
        // enough joints for roundings to add up.
        let row = [3.0, 3.0, 3.0, 1e9];
        for rows in [[row, [0.0; 4], [0.0; 4]], [row.map(|x| -x), [0.0; 4], [0.0; 4]]] {
            let matrix = Matrix(rows.as_flattened().try_into().expect("twelve entries"));
            for joints in [1, 2, 50, 61] {
                let rest = [[3.0_f32.sqrt().recip(); 3]; 3];
                let skin = TurningSkin::new(&rest, |_| (0..joints).map(|joint| (joint, 1.0 / joints as f32)));
                for instructions in [Instructions::Portable, Instructions::detect()] {
                    let mut normals = [[f32::NAN; 3]; 3];
                    let (palette, mut turns) = (vec![matrix; joints], skin.room());
                    let put = Scatter(&mut normals);
                    instructions.run(Normals { skin: &skin, palette: &palette, turns: &mut turns, put });
                    for [x, y, z] in normals {
                        // A sum that left them would point the other way.
                        assert!(
                            (x - rows[0][0].signum()).abs() < 4e-4 && y == 0.0 && z == 0.0,
                            "{joints}: {x} {y} {z}"
                        );
                    }
                }
            }
        }
    }
}
