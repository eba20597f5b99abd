//! `v = c + Σ_b T_b h_b`, sixteen vertices at a time, for every method whose weights can be folded into the vertex.
//!
//! - Linear blend skinning: `h_b = w_b (v̂, 1)`, four numbers a joint.
//! - Animation space (Merry, Marais and Gain, 2006): h_b is free, four numbers: `v_i = Σ_b Σ_j T_ij h_j`.
//! - Multi-weight enveloping (Wang and Phillips, 2002) gives every entry of the matrix a weight of its own; with the
//!   rest position multiplied in, `v_i = c_i + Σ_b Σ_j T_ij h_ij`, twelve numbers.
//!
//! A joint costs 12 multiply-adds a register and nothing follows. Blending the matrix first would read less (one weight
//! a joint) but costs 9 more at the end and keeps twelve sums in registers instead of three; it measured a third
//! slower even on meshes that do not fit the second-level cache. Two registers share each entry of a matrix, so that
//! loading it is not what limits.

use std::ops::Range;

use super::blocks::{Blocks, JOINT, LANES};
use super::lanes::{Kernel, Lanes, Row};
use super::{Matrix, Put};

/// Registers a block.
const R: usize = 2;

/// Cycles a joint costs a register: its multiply-adds, or reading N × 8 numbers from the third-level cache, some 20 bytes a
/// cycle (measured on Zen 3), whichever is longer.
const fn joint_cost<const N: usize>() -> f32 {
    JOINT.max(N as f32 * 32.0 / 20.0)
}

/// Points in blocks: N numbers (4 or 12) a vertex and joint.
#[derive(Debug, Clone)]
pub(crate) struct PointSkin<const N: usize> {
    pub blocks: Blocks<R>,
    /// h, N numbers for every joint of every block, in each register.
    coefficients: Vec<[[Row; R]; N]>,
    /// c, (B); empty if it is zero.
    constants: Vec<[[Row; 3]; R]>,
}

impl<const N: usize> PointSkin<N> {
    /// Prepares `count` vertices; `influences(v)` lists (joint, h). A joint listed twice adds up; one whose h is 0 is
    /// left out. `constants` is (V), or empty for zero.
    pub fn new<I: IntoIterator<Item = (usize, [f32; N])>>(
        count: usize,
        influences: impl Fn(usize) -> I,
        constants: &[[f32; 3]],
    ) -> Self {
        let counts = |&(_, h): &(usize, [f32; N])| h.iter().any(|&c| c != 0.0);
        let blocks: Blocks<R> = Blocks::new(count, joint_cost::<N>(), |v| {
            influences(v).into_iter().filter(counts).map(|(joint, _)| joint).collect::<Vec<_>>()
        });
        let mut coefficients = vec![[[Row::default(); R]; N]; blocks.joints.len()];
        for (eights, slots) in blocks.iter(0..blocks.len()) {
            let joints = &blocks.joints[slots.clone()];
            for (lane, &v) in eights.iter().flat_map(|eight| &eight.vertices).enumerate() {
                for (joint, h) in influences(v as usize).into_iter().filter(counts) {
                    let at = joints.binary_search(&(joint as u32)).expect("the block has its vertices' joints");
                    for n in 0..N {
                        coefficients[slots.start + at][n][lane / LANES].0[lane % LANES] += h[n];
                    }
                }
            }
        }
        let zero = constants.iter().all(|c| *c == [0.0; 3]);
        let constants = if zero { Vec::new() } else { blocks.points(constants) };
        Self { coefficients, constants, blocks }
    }
}

/// Poses blocks whose weights are points, N = 4, with a palette in the world.
pub(crate) struct Points<'a, P> {
    pub skin: &'a PointSkin<4>,
    pub palette: &'a [Matrix],
    pub blocks: Range<usize>,
    pub put: P,
}

impl<P: Put> Kernel for Points<'_, P> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, s: L) {
        for (eights, slots) in self.skin.blocks.iter(self.blocks) {
            let joints = &self.skin.blocks.joints[slots.clone()];
            // Even and odd columns in sums of their own: with six chains instead of twelve, additions wait for each other.
            let mut sums = [[[s.splat(0.0); 3]; R]; 2];
            for (&joint, h) in joints.iter().zip(&self.skin.coefficients[slots]) {
                let m = &self.palette[joint as usize].0;
                for column in 0..4 {
                    let [h0, h1] = [s.load(&h[column][0]), s.load(&h[column][1])];
                    let sums = &mut sums[column % 2];
                    for row in 0..3 {
                        let entry = s.splat(m[4 * row + column]);
                        sums[0][row] = s.mul_add(entry, h0, sums[0][row]);
                        sums[1][row] = s.mul_add(entry, h1, sums[1][row]);
                    }
                }
            }
            let sums = added(s, sums);
            self.put.put(s, &eights[0], sums[0]);
            self.put.put(s, &eights[1], sums[1]);
        }
    }
}

/// The sums over even and odd columns, added.
#[inline(always)]
fn added<L: Lanes>(s: L, [even, odd]: [[[L::V; 3]; R]; 2]) -> [[L::V; 3]; R] {
    std::array::from_fn(|r| std::array::from_fn(|row| s.add(even[r][row], odd[r][row])))
}

/// Poses blocks with a weight for every entry, N = 12, with a palette in the root's frame.
pub(crate) struct Entries<'a, P> {
    pub skin: &'a PointSkin<12>,
    pub palette: &'a [Matrix],
    /// From the root's frame to the world, applied last.
    pub frame: Matrix,
    pub blocks: Range<usize>,
    pub put: P,
}

impl<P: Put> Kernel for Entries<'_, P> {
    #[inline(always)]
    fn run<L: Lanes>(mut self, s: L) {
        let blocks = self.blocks.clone().zip(self.skin.blocks.iter(self.blocks));
        for (b, (eights, slots)) in blocks {
            let joints = &self.skin.blocks.joints[slots.clone()];
            // Even and odd columns apart, as for points.
            let mut sums = [[[s.splat(0.0); 3]; R]; 2];
            for (&joint, h) in joints.iter().zip(&self.skin.coefficients[slots]) {
                let m = &self.palette[joint as usize].0;
                for column in 0..4 {
                    let sums = &mut sums[column % 2];
                    for row in 0..3 {
                        let at = 4 * row + column;
                        let entry = s.splat(m[at]);
                        sums[0][row] = s.mul_add(entry, s.load(&h[at][0]), sums[0][row]);
                        sums[1][row] = s.mul_add(entry, s.load(&h[at][1]), sums[1][row]);
                    }
                }
            }
            let mut sums = added(s, sums);
            if let Some(constant) = self.skin.constants.get(b) {
                for row in 0..3 {
                    sums[0][row] = s.add(sums[0][row], s.load(&constant[0][row]));
                    sums[1][row] = s.add(sums[1][row], s.load(&constant[1][row]));
                }
            }
            self.put.put(s, &eights[0], framed(s, &self.frame, sums[0]));
            self.put.put(s, &eights[1], framed(s, &self.frame, sums[1]));
        }
    }
}

/// The same matrix for all lanes.
#[inline(always)]
pub(super) fn framed<L: Lanes>(s: L, frame: &Matrix, [x, y, z]: [L::V; 3]) -> [L::V; 3] {
    let f = &frame.0;
    let mut out = [x; 3];
    for row in 0..3 {
        out[row] = s.mul_add(s.splat(f[4 * row + 2]), z, s.splat(f[4 * row + 3]));
        out[row] = s.mul_add(s.splat(f[4 * row + 1]), y, out[row]);
        out[row] = s.mul_add(s.splat(f[4 * row]), x, out[row]);
    }
    out
}
