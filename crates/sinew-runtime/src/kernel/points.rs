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
//! two of either a cycle, so that the multiply-adds are what takes time, 6 cycles a register. A joint of only one of them
//! could be visited for both, with zeros, 12 cycles, or for that one, 16 loads, 8 cycles and half the numbers to read. The
//! latter needs a loop of its own, so blocks are of two kinds, even and ragged, each with code of its own: on a mesh
//! whose blocks are even the mere question whether this one is ragged measured 3 %.

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

/// How many joints of single registers make a block ragged: each saves 4 cycles, the loops cost some ten.
const RAGGED: usize = 3;

/// Points in blocks: N numbers (4 or 12) a vertex and joint.
#[derive(Debug, Clone)]
pub(crate) struct PointSkin<const N: usize> {
    /// Even blocks first; the joints of a ragged one are those that both its registers have.
    pub blocks: Blocks<R>,
    /// h, N numbers for every joint of every block, in each register.
    coefficients: Vec<[[Row; R]; N]>,
    /// How many blocks are even, E.
    even: usize,
    alone: Alone<N>,
    /// c, (B); empty if it is zero.
    constants: Vec<[[Row; 3]; R]>,
}

/// The joints that only one register of a ragged block has.
#[derive(Debug, Clone, Default)]
struct Alone<const N: usize> {
    /// Where those of the first register start, those of the second, and where these end, (B − E).
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
        let gathered: Blocks<R> = Blocks::new(count, joint_cost::<N>(), joints_of);
        let visits =
            |(eights, slots): (&[Eight; R], Range<usize>)| Visits::new(*eights, &gathered.joints[slots], listed);
        let mut all: Vec<Visits<N>> = gathered.iter(0..gathered.len()).map(visits).collect();
        all.sort_by_key(Visits::ragged);
        let mut skin = Self {
            blocks: Blocks::empty(),
            coefficients: Vec::new(),
            even: all.iter().filter(|visits| !visits.ragged()).count(),
            alone: Alone::default(),
            constants: Vec::new(),
        };
        all.into_iter().for_each(|visits| skin.push(visits));
        if constants.iter().any(|c| *c != [0.0; 3]) {
            skin.constants = skin.blocks.points(constants);
        }
        skin
    }

    fn push(&mut self, visits: Visits<N>) {
        if visits.ragged() {
            self.alone.push(&visits);
        }
        let both = visits.joints.iter().filter(|visit| !visits.ragged() || visit.who() == [true; R]);
        self.blocks.push(visits.eights, both.clone().map(|visit| visit.joint));
        self.coefficients.extend(both.map(|Visit { rows: [a, b], .. }| std::array::from_fn(|n| [a[n], b[n]])));
    }

    /// (vertex, joint) pairs that are computed, lanes that only fill up included.
    pub fn pairs(&self) -> usize {
        LANES * (R * self.coefficients.len() + self.alone.coefficients.len())
    }

    /// Some even blocks: their eights, and where their joints stand.
    #[inline(always)]
    fn even(&self, blocks: Range<usize>) -> impl Iterator<Item = (&[Eight; R], Range<usize>)> {
        self.blocks.iter(blocks.start.min(self.even)..blocks.end.min(self.even))
    }

    /// Some ragged blocks: their eights, where their joints stand, and where those stand that a register has alone.
    #[inline(always)]
    fn ragged(&self, blocks: Range<usize>) -> impl Iterator<Item = (&[Eight; R], Range<usize>, &[u32; R + 1])> {
        let [start, end] = [blocks.start, blocks.end].map(|b| b.max(self.even));
        let spans = &self.alone.spans[start - self.even..end - self.even];
        self.blocks.iter(start..end).zip(spans).map(|((eights, slots), span)| (eights, slots, span))
    }

    /// `Σ_b T_b h_b` over the joints in `slots` added to `sums`.
    #[inline(always)]
    fn add<L: Lanes>(&self, s: L, palette: &[Matrix], slots: Range<usize>, sums: [[L::V; 3]; R]) -> [[L::V; 3]; R] {
        // Even and odd columns in sums of their own: with six chains instead of twelve, additions wait for each other.
        let mut sums = [sums, [[s.splat(0.0); 3]; R]];
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

/// A block and the joints that it visits.
struct Visits<const N: usize> {
    eights: [Eight; R],
    joints: Vec<Visit<N>>,
}

/// A joint, and the numbers of the vertices in the lanes of each register.
struct Visit<const N: usize> {
    joint: u32,
    rows: [[Row; N]; R],
}

impl<const N: usize> Visits<N> {
    fn new<I: IntoIterator<Item = (usize, [f32; N])>>(
        eights: [Eight; R],
        joints: &[u32],
        influences: impl Fn(usize) -> I,
    ) -> Self {
        let visit = |&joint: &u32| Visit { joint, rows: [[Row::default(); N]; R] };
        let mut visits = Self { eights, joints: joints.iter().map(visit).collect() };
        for (lane, &v) in eights.iter().flat_map(|eight| &eight.vertices).enumerate() {
            for (joint, h) in influences(v as usize) {
                let at = joints.binary_search(&(joint as u32)).expect("the block has its vertices' joints");
                for n in 0..N {
                    visits.joints[at].rows[lane / LANES][n].0[lane % LANES] += h[n];
                }
            }
        }
        visits
    }

    fn ragged(&self) -> bool {
        self.joints.iter().filter(|visit| visit.who() != [true; R]).count() >= RAGGED
    }
}

impl<const N: usize> Visit<N> {
    /// Which registers have the joint.
    fn who(&self) -> [bool; R] {
        self.rows.each_ref().map(|rows| *rows != [Row::default(); N])
    }
}

impl<const N: usize> Alone<N> {
    fn push(&mut self, visits: &Visits<N>) {
        let at = |all: usize| u32::try_from(all).expect("fewer than 2³² joint uses");
        let mut span = [at(self.joints.len()); R + 1];
        for r in 0..R {
            for visit in visits.joints.iter().filter(|visit| visit.who()[r] && !visit.who()[1 - r]) {
                self.joints.push(visit.joint);
                self.coefficients.push(visit.rows[r]);
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
        let Self { skin, palette, .. } = self;
        for (eights, slots) in skin.even(self.blocks.clone()) {
            let [a, b] = skin.add(s, palette, slots, [[s.splat(0.0); 3]; R]);
            self.put.put(s, &eights[0], a);
            self.put.put(s, &eights[1], b);
        }
        for (eights, slots, span) in skin.ragged(self.blocks.clone()) {
            let [a, b] = skin.add(s, palette, slots, skin.alone.sums(s, palette, span));
            self.put.put(s, &eights[0], a);
            self.put.put(s, &eights[1], b);
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
        let Self { skin, palette, .. } = self;
        let first_ragged = self.blocks.start.max(skin.even);
        for (b, (eights, slots)) in (self.blocks.start..).zip(skin.even(self.blocks.clone())) {
            let sums = skin.add(s, palette, slots, self.constants(s, b));
            self.put_framed(s, eights, sums);
        }
        for (b, (eights, slots, span)) in (first_ragged..).zip(skin.ragged(self.blocks.clone())) {
            let [c, own] = [self.constants(s, b), skin.alone.sums(s, palette, span)];
            let sums = skin.add(s, palette, slots, [added(s, c[0], own[0]), added(s, c[1], own[1])]);
            self.put_framed(s, eights, sums);
        }
    }
}

impl<P: Put> Entries<'_, P> {
    /// c of a block.
    #[inline(always)]
    fn constants<L: Lanes>(&self, s: L, block: usize) -> [[L::V; 3]; R] {
        let rows = |c: &[Row; 3]| [s.load(&c[0]), s.load(&c[1]), s.load(&c[2])];
        self.skin.constants.get(block).map_or([[s.splat(0.0); 3]; R], |[a, b]| [rows(a), rows(b)])
    }

    #[inline(always)]
    fn put_framed<L: Lanes>(&mut self, s: L, eights: &[Eight; R], [a, b]: [[L::V; 3]; R]) {
        self.put.put(s, &eights[0], framed(s, &self.frame, a));
        self.put.put(s, &eights[1], framed(s, &self.frame, b));
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

#[cfg(test)]
mod tests {
    use super::super::Scatter;
    use super::super::lanes::Instructions;
    use super::*;

    /// Eights of vertices, each eight with a set of joints; numbers that differ for every vertex and joint.
    fn skin(sets: &[&[usize]]) -> PointSkin<4> {
        PointSkin::new(LANES * sets.len(), |v| influences(sets, v).collect::<Vec<_>>(), &[])
    }

    fn influences<'a>(sets: &'a [&[usize]], v: usize) -> impl Iterator<Item = (usize, [f32; 4])> + 'a {
        let number = move |joint: usize, n: usize| ((v * 31 + joint * 7 + n) % 17) as f32 - 8.5;
        sets[v / LANES].iter().map(move |&joint| (joint, std::array::from_fn(|n| number(joint, n))))
    }

    #[test]
    fn a_block_is_ragged_if_its_registers_share_too_little() {
        let alike = skin(&[&[0, 1, 2], &[0, 1, 3]]);
        assert_eq!((alike.even, alike.pairs()), (1, 2 * LANES * 4));
        // Joint 0 for both, then three and two joints for one register each.
        let unlike = skin(&[&[0, 1, 2, 3], &[0, 4, 5]]);
        assert_eq!((unlike.even, unlike.pairs()), (0, LANES * (2 + 3 + 2)));
        // What fills up an odd number of eights is the last eight again.
        assert_eq!(skin(&[&[0, 1, 2, 3]]).pairs(), 2 * LANES * 4);
    }

    #[test]
    fn blocks_of_both_kinds_are_posed_in_any_parts() {
        let sets: [&[usize]; 7] = [&[0, 1, 2, 3], &[6, 7], &[0, 4, 5], &[6, 7], &[8], &[9, 10, 11], &[8, 9, 12]];
        let skin = skin(&sets);
        assert!((1..skin.blocks.len()).contains(&skin.even), "{} of {} blocks are even", skin.even, skin.blocks.len());
        let palette: Vec<Matrix> =
            (0..13).map(|j| Matrix(std::array::from_fn(|k| ((j * 5 + k * 3) % 11) as f32))).collect();
        // Whole numbers and halves: every sum is exact, in whichever order.
        let plain: Vec<[f32; 3]> = (0..LANES * sets.len())
            .map(|v| {
                let term = |row: usize, joint: usize, h: [f32; 4]| -> f32 {
                    (0..4).map(|column| palette[joint].0[4 * row + column] * h[column]).sum()
                };
                std::array::from_fn(|row| influences(&sets, v).map(|(joint, h)| term(row, joint, h)).sum())
            })
            .collect();
        for instructions in [Instructions::Portable, Instructions::detect()] {
            for cut in 0..=skin.blocks.len() {
                let mut posed = vec![[f32::NAN; 3]; plain.len()];
                for blocks in [0..cut, cut..skin.blocks.len()] {
                    instructions.run(Points { skin: &skin, palette: &palette, blocks, put: Scatter(&mut posed) });
                }
                assert_eq!(posed, plain, "cut at block {cut}");
            }
        }
    }
}
