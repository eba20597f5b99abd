//! `v = c + Σ_b T_b h_b`, sixteen vertices at a time, for every method whose weights can be folded into the vertex.
//!
//! - Linear blend skinning: `h_b = w_b (v̂, 1)`, four numbers a joint.
//! - Animation space (Merry, Marais and Gain, 2006): h_b is free, four numbers: `v_i = Σ_b Σ_j T_ij h_j`.
//! - Multi-weight enveloping (Wang and Phillips, 2002) gives every entry of the matrix a weight of its own; with the
//!   rest position multiplied in, `v_i = c_i + Σ_b Σ_j T_ij h_ij`, twelve numbers.
//!
//! A joint costs 12 multiply-adds a register and nothing follows. Blending the matrix first would read less (one weight
//! a joint) but costs 9 more at the end and keeps twelve sums in registers instead of three; it measured a third
//! slower even on meshes that do not fit the second-level cache.
//!
//! A block is two registers. A joint of both loads each entry of its matrix once for the two: 20 loads and 24 multiply-adds,
//! two of either a cycle, so that the multiply-adds are what takes time, 6 cycles a register. A joint of only one of them is
//! visited for that one: 16 loads, 8 cycles, where visiting it for both would be 12 and twice the numbers to read.

use std::ops::Range;

use super::blocks::{Blocks, Eight, JOINT, LANES};
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
    /// Its joints are those that both registers of a block have.
    pub blocks: Blocks<R>,
    /// h, N numbers for every joint of every block, in each register.
    coefficients: Vec<[[Row; R]; N]>,
    alone: Alone<N>,
    /// c, (B); empty if it is zero.
    constants: Vec<[[Row; 3]; R]>,
}

/// The joints that only one register of a block has.
#[derive(Debug, Clone)]
struct Alone<const N: usize> {
    /// Where those of each block's first and second register start and end, (B).
    spans: Vec<[u32; R + 1]>,
    joints: Vec<u32>,
    /// h, N numbers a joint.
    coefficients: Vec<[Row; N]>,
}

impl<const N: usize> PointSkin<N> {
    /// Prepares `count` vertices; `influences(v)` lists (joint, h). A joint listed twice adds up; one whose h is 0 is
    /// left out. `constants` is (V), or empty for zero.
    pub fn new<I: IntoIterator<Item = (usize, [f32; N])>>(
        count: usize,
        influences: impl Fn(usize) -> I,
        constants: &[[f32; 3]],
    ) -> Self {
        let listed = |v: usize| influences(v).into_iter().filter(|(_, h)| h.iter().any(|&c| c != 0.0));
        let joints_of = |v: usize| listed(v).map(|(joint, _)| joint).collect::<Vec<_>>();
        let unions: Blocks<R> = Blocks::new(count, joint_cost::<N>(), joints_of);
        let zero = constants.iter().all(|c| *c == [0.0; 3]);
        let constants = if zero { Vec::new() } else { unions.points(constants) };
        let mut coefficients = Vec::with_capacity(unions.joints.len());
        let mut alone = Alone { spans: Vec::with_capacity(unions.len()), joints: Vec::new(), coefficients: Vec::new() };
        let blocks = unions.filtered(|eights, union| {
            let [first, second] = eights.map(|eight| rows(union, &eight, listed));
            let [in_first, in_second] = [&first, &second].map(|rows| rows.iter().map(|row| *row != [Row::default(); N]));
            let who: Vec<[bool; R]> = in_first.zip(in_second).map(|(a, b)| [a, b]).collect();
            alone.push(union, [&first, &second], &who);
            let both: Vec<usize> = (0..union.len()).filter(|&k| who[k] == [true; R]).collect();
            coefficients.extend(both.iter().map(|&k| std::array::from_fn(|n| [first[k][n], second[k][n]])));
            both.iter().map(|&k| union[k]).collect()
        });
        Self { blocks, coefficients, alone, constants }
    }

    /// (vertex, joint) pairs that are computed, lanes that only fill up included.
    pub fn pairs(&self) -> usize {
        LANES * (R * self.coefficients.len() + self.alone.coefficients.len())
    }

    /// Some blocks: their eights, and what [`Self::sums`] takes.
    #[inline(always)]
    fn iter(&self, blocks: Range<usize>) -> impl Iterator<Item = (&[Eight; R], Range<usize>, &[u32; R + 1])> {
        let spans = &self.alone.spans[blocks.clone()];
        self.blocks.iter(blocks).zip(spans).map(|((eights, slots), span)| (eights, slots, span))
    }

    /// `Σ_b T_b h_b` of the block whose joints stand in `slots` and whose registers' own joints stand in `span`.
    #[inline(always)]
    fn sums<L: Lanes>(&self, s: L, palette: &[Matrix], slots: Range<usize>, span: &[u32; R + 1]) -> [[L::V; 3]; R] {
        // Even and odd columns in sums of their own: with six chains instead of twelve, additions wait for each other.
        let mut sums = [[[s.splat(0.0); 3]; R]; 2];
        if span[0] != span[R] {
            sums[0] = self.alone.sums(s, palette, span);
        }
        for (&joint, h) in self.blocks.joints[slots.clone()].iter().zip(&self.coefficients[slots]) {
            let m = &palette[joint as usize].0;
            for column in 0..4 {
                let sums = &mut sums[column % 2];
                for row in 0..3 {
                    let (entry, at) = (s.splat(m[4 * row + column]), place::<N>(row, column));
                    let [h0, h1] = [s.load(&h[at][0]), s.load(&h[at][1])];
                    sums[0][row] = s.mul_add(entry, h0, sums[0][row]);
                    sums[1][row] = s.mul_add(entry, h1, sums[1][row]);
                }
            }
        }
        let [even, odd] = sums;
        [added(s, even[0], odd[0]), added(s, even[1], odd[1])]
    }
}

impl<const N: usize> Alone<N> {
    /// Adds a block that visits the joints `union`, given the rows of each register for each of them and which have any.
    fn push(&mut self, union: &[u32], rows: [&[[Row; N]]; R], who: &[[bool; R]]) {
        let at = |all: usize| u32::try_from(all).expect("fewer than 2³² joint uses");
        let mut span = [at(self.joints.len()); R + 1];
        for r in 0..R {
            for k in (0..union.len()).filter(|&k| who[k][r] && !who[k][1 - r]) {
                self.joints.push(union[k]);
                self.coefficients.push(rows[r][k]);
            }
            span[r + 1] = at(self.joints.len());
        }
        self.spans.push(span);
    }

    /// `Σ T h` over the joints that each register of a block has alone.
    #[inline(always)]
    fn sums<L: Lanes>(&self, s: L, palette: &[Matrix], span: &[u32; R + 1]) -> [[L::V; 3]; R] {
        let [first, second, end] = span.map(|at| at as usize);
        [self.sum(s, palette, first..second), self.sum(s, palette, second..end)]
    }

    #[inline(always)]
    fn sum<L: Lanes>(&self, s: L, palette: &[Matrix], slots: Range<usize>) -> [L::V; 3] {
        let mut sums = [[s.splat(0.0); 3]; 2];
        for (&joint, h) in self.joints[slots.clone()].iter().zip(&self.coefficients[slots]) {
            let m = &palette[joint as usize].0;
            for column in 0..4 {
                let sums = &mut sums[column % 2];
                for row in 0..3 {
                    let entry = s.splat(m[4 * row + column]);
                    sums[row] = s.mul_add(entry, s.load(&h[place::<N>(row, column)]), sums[row]);
                }
            }
        }
        added(s, sums[0], sums[1])
    }
}

/// For every joint of `union` the numbers of the vertices in an eight's lanes.
fn rows<const N: usize, I: IntoIterator<Item = (usize, [f32; N])>>(
    union: &[u32],
    eight: &Eight,
    influences: impl Fn(usize) -> I,
) -> Vec<[Row; N]> {
    let mut rows = vec![[Row::default(); N]; union.len()];
    for (lane, &v) in eight.vertices.iter().enumerate() {
        for (joint, h) in influences(v as usize) {
            let at = union.binary_search(&(joint as u32)).expect("the block has its vertices' joints");
            for n in 0..N {
                rows[at][n].0[lane] += h[n];
            }
        }
    }
    rows
}

/// Which of N numbers a matrix's entry is multiplied by: four are one a column, twelve one an entry.
#[inline(always)]
const fn place<const N: usize>(row: usize, column: usize) -> usize {
    if N == 4 { column } else { 4 * row + column }
}

#[inline(always)]
fn added<L: Lanes>(s: L, a: [L::V; 3], b: [L::V; 3]) -> [L::V; 3] {
    [s.add(a[0], b[0]), s.add(a[1], b[1]), s.add(a[2], b[2])]
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
        for (eights, slots, span) in self.skin.iter(self.blocks) {
            let sums = self.skin.sums(s, self.palette, slots, span);
            self.put.put(s, &eights[0], sums[0]);
            self.put.put(s, &eights[1], sums[1]);
        }
    }
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
        for (b, (eights, slots, span)) in self.blocks.clone().zip(self.skin.iter(self.blocks)) {
            let mut sums = self.skin.sums(s, self.palette, slots, span);
            if let Some(constants) = self.skin.constants.get(b) {
                for (sum, constant) in sums.iter_mut().zip(constants) {
                    *sum = added(s, *sum, [s.load(&constant[0]), s.load(&constant[1]), s.load(&constant[2])]);
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
