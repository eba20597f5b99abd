//! Palette normals of methods that do not blend matrices, sixteen vertices at a time: `n ∝ Σ_b T_b (w_b n̂)` without the
//! translations, the rest normal turned by the blended matrix.
//!
//! Only the direction counts, and 16 bits are enough for that: a register holds sixteen numbers instead of eight, and there
//! is half as much to read. The matrices are scaled by one number for the whole palette, the products w_b n̂ by one for
//! each vertex; neither changes the direction. One instruction multiplies two numbers a lane by two others and adds the
//! products, in 32 bits, so that joints are visited in pairs. Which pairs there are is known beforehand, and every frame
//! puts the two matrices of each side by side: 277 pairs for the 155 joints of the synthetic creature.
//!
//! A pair takes 18 multiplications and 18 additions for sixteen vertices, 12 cycles, where positions take 48
//! multiply-adds, 24 cycles; making the sums unit and writing them takes another 20 (measured on Zen 4). Tried: products
//! of 16 bits, a joint at a time, as many cycles by themselves but more to decode, 3 % of the frame; positions and
//! normals in one pass, no faster, for all these multiplications want the same units. And on Zen 3: the coordinates of one
//! joint as pairs, and the blended matrix in 16 bits, slower.
//!
//! AVX-512's VNNI has the multiplications and the additions in one instruction (see `vnni`), 9 cycles a pair: 7 % less
//! of the frame for animation space. Tried beyond that, without gain: making the sums unit in its wide registers, a sum of
//! its own for each pair, blocks with as many pairs one after the other.
//!
//! **How far off.** Two things are left out, both small beside what palette normals miss anyway, the bulging of the skin:
//!
//! - A vertex's lightest weights, up to [`LEFT_OUT`] of them all, go to its heaviest joint. If the joints are turned by
//!   at most θ from each other, that moves the sum by at most 2 sin(θ/2) · 0.01: 0.6° at 60°, 1.2° in any pose. Fitted
//!   models have many weights like that, each of which has a whole block visit its joint.
//! - Rounding, in units of a number's last digit, for k joints a vertex. A matrix's nine entries are off by ½, which moves
//!   the sum by up to 3/2 over all joints; a vector w_b n̂ is off by ½√3, which a rotation only turns. The products and
//!   their sums are exact. A turned normal has length 32,767, so that is less than 5e-5 (k + 1) radians.
//!
//! Where weights cancel each other, or some joints are scaled far more than others, the sum is shorter than that and the
//! angles are larger in proportion.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use glam::Vec4;

use super::blend::unit;
use super::blocks::{Blocks, Eight};
use super::lanes::{Kernel, Lanes, Pairs};
use super::{Matrix, Put};

/// Registers of positions that a block's vertices would fill.
const R: usize = 2;

/// The share of a vertex's weights that may be left out.
const LEFT_OUT: f32 = 0.01;

/// Cycles a joint costs eight vertices (measured on Zen 3; with 3, Zen 4's, nothing changes).
const JOINT: f32 = 4.0;

/// The largest whole number.
const MOST: f32 = i16::MAX as f32;
/// What counts as the largest entry of a palette of zeros.
const LEAST: f32 = 1e-30;

/// Rest normals and weights ready for the kernel.
#[derive(Debug, Clone)]
pub(crate) struct TurningSkin {
    /// Its joints are places in `pairs`.
    blocks: Blocks<R>,
    /// The matrices of the palette that any block visits, ascending …
    joints: Vec<u32>,
    /// … and which two of them some block visits together.
    pairs: Vec<[u32; 2]>,
    /// w n̂ / Σ|w|, x, y and z, for every pair of every block.
    normals: Vec<[Pairs; 3]>,
}

/// Two matrices of the palette, row by row, their entries as whole numbers side by side.
pub(crate) type Turn = [u32; 12];

impl TurningSkin {
    /// Prepares vertices with these rest normals, (V); `weights(v)` lists (joint, weight). A joint listed twice adds up.
    pub fn new<I: Iterator<Item = (usize, f32)>>(rest_normals: &[[f32; 3]], weights: impl Fn(usize) -> I) -> Self {
        let kept: Vec<Vec<(u32, f32)>> = (0..rest_normals.len()).map(|v| heavy(weights(v))).collect();
        let gathered: Blocks<R> = Blocks::new(kept.len(), JOINT, |v| kept[v].iter().map(|&(joint, _)| joint as usize));
        let sets: Vec<&[u32]> = gathered.iter(0..gathered.len()).map(|(_, slots)| &gathered.joints[slots]).collect();
        let paired = paired(&sets);
        let mut pairs: Vec<[u32; 2]> = paired.iter().flatten().map(|visit| visit.pair).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let (mut blocks, mut normals) = (Blocks::empty(), Vec::new());
        for (&eights, visits) in gathered.eights.iter().zip(&paired) {
            let place_of = |visit: &Visit| pairs.binary_search(&visit.pair).expect("it was listed") as u32;
            blocks.push(eights, visits.iter().map(place_of));
            let first = normals.len();
            normals.resize(first + visits.len(), [Pairs::default(); 3]);
            for (lane, &v) in eights.iter().flat_map(|eight| &eight.vertices).enumerate() {
                for &(joint, weight) in &kept[v as usize] {
                    let (slot, half) = place(visits, joint);
                    for (column, n) in rest_normals[v as usize].iter().enumerate() {
                        normals[first + slot][column].0[lane][half] = (weight * n).round() as i16;
                    }
                }
            }
        }
        let mut joints = pairs.as_flattened().to_vec();
        joints.sort_unstable();
        joints.dedup();
        Self { blocks, joints, pairs, normals }
    }

    /// Room for the matrices that it reads.
    pub fn room(&self) -> Vec<Turn> {
        vec![Turn::default(); self.pairs.len()]
    }

    /// The palette in whole numbers, its largest entry as large as they get. No sum leaves 32 bits: a row of a matrix is
    /// at most √3 · 32,767 long and all w n̂ together 32,767, so that a coordinate is at most 0.87 · 2³¹, and what rounding
    /// adds, 3/2 · 32,767 a joint, is far less than what is left.
    #[inline(always)]
    fn set<L: Lanes>(&self, s: L, palette: &[Matrix], turns: &mut [Turn]) {
        let mut largest = [Vec4::splat(LEAST); 3];
        for &joint in &self.joints {
            let matrix = &palette[joint as usize].0;
            for row in 0..3 {
                largest[row] = largest[row].max(Vec4::from_slice(&matrix[4 * row..4 * row + 4]).abs());
            }
        }
        let largest = largest[0].max(largest[1]).max(largest[2]).truncate().max_element();
        let scale = s.splat(MOST / largest);
        for (turn, pair) in turns.iter_mut().zip(&self.pairs) {
            // Twelve entries as two eights that overlap.
            for at in [0, 4] {
                let [a, b] = [&palette[pair[0] as usize].0, &palette[pair[1] as usize].0];
                let a = s.load_array(a[at..at + 8].try_into().expect("eight"));
                let b = s.load_array(b[at..at + 8].try_into().expect("eight"));
                turn[at..at + 8].copy_from_slice(&s.pairs(s.mul(a, scale), s.mul(b, scale)));
            }
        }
    }
}

/// `Σ T w n̂` of a block's pairs.
#[inline(always)]
fn sums<L: Lanes>(s: L, turns: &[Turn], pairs: &[u32], normals: &[[Pairs; 3]]) -> [L::Wholes; 3] {
    // The first apart: nothing need be zero before it, and nothing added to.
    let (Some((&pair, pairs)), Some((n, normals))) = (pairs.split_first(), normals.split_first()) else {
        return [s.mul_pairs(s.splat_pair(0), s.splat_pair(0)); 3];
    };
    let (turn, n0) = (&turns[pair as usize], s.load_pairs(&n[0]));
    let mut sums = [s.mul_pairs(s.splat_pair(turn[0]), n0); 3];
    for row in 1..3 {
        sums[row] = s.mul_pairs(s.splat_pair(turn[4 * row]), n0);
    }
    add(s, turn, n, 1..3, &mut sums);
    for (&pair, n) in pairs.iter().zip(normals) {
        add(s, &turns[pair as usize], n, 0..3, &mut sums);
    }
    sums
}

/// `T w n̂` of two joints, the terms of some columns, added to `sums`.
#[inline(always)]
fn add<L: Lanes>(s: L, turn: &Turn, n: &[Pairs; 3], columns: Range<usize>, sums: &mut [L::Wholes; 3]) {
    for column in columns {
        let n = s.load_pairs(&n[column]);
        for row in 0..3 {
            sums[row] = s.mul_add_pairs(s.splat_pair(turn[4 * row + column]), n, sums[row]);
        }
    }
}

/// A pair of joints as a block visits it.
struct Visit {
    pair: [u32; 2],
    /// Which of the two the block has; of a joint without company the other is another block's.
    has: [bool; 2],
}

/// The joints of every block, (B), two by two: pairs that many blocks have first, for every frame makes each pair once.
fn paired(sets: &[&[u32]]) -> Vec<Vec<Visit>> {
    let of = |set: &[u32]| -> Vec<[u32; 2]> {
        set.iter().enumerate().flat_map(|(k, &a)| set[k + 1..].iter().map(move |&b| [a, b])).collect()
    };
    let mut blocks_with: BTreeMap<[u32; 2], usize> = BTreeMap::new();
    for set in sets {
        of(set).into_iter().for_each(|pair| *blocks_with.entry(pair).or_default() += 1);
    }
    let mut all = Vec::with_capacity(sets.len());
    // A pair with each joint.
    let mut company: BTreeMap<u32, [u32; 2]> = BTreeMap::new();
    for set in sets {
        let mut candidates = of(set);
        candidates.sort_by_key(|pair| (Reverse(blocks_with[pair]), *pair));
        let mut left = set.to_vec();
        let mut visits = Vec::new();
        for pair in candidates {
            if pair.iter().all(|joint| left.contains(joint)) {
                left.retain(|joint| !pair.contains(joint));
                for joint in pair {
                    company.entry(joint).or_insert(pair);
                }
                visits.push(Visit { pair, has: [true; 2] });
            }
        }
        all.push((visits, left));
    }
    let whole = |(mut visits, left): (Vec<Visit>, Vec<u32>)| {
        for joint in left {
            let pair = company.get(&joint).copied().unwrap_or([joint; 2]);
            visits.push(Visit { pair, has: [pair[0] == joint, pair[0] != joint] });
        }
        visits
    };
    all.into_iter().map(whole).collect()
}

/// Which of a block's visits has `joint`, and where in the pair.
fn place(visits: &[Visit], joint: u32) -> (usize, usize) {
    let half = |visit: &Visit| (0..2).find(|&half| visit.has[half] && visit.pair[half] == joint);
    let found = visits.iter().enumerate().find_map(|(slot, visit)| Some((slot, half(visit)?)));
    found.expect("the block has its vertices' joints")
}

/// A vertex's weights without the lightest, ascending by joint and scaled such that their sizes sum to [`MOST`].
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
    all.iter_mut().for_each(|(_, weight)| *weight *= MOST / size);
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
        let mut last: Option<(&[Eight; R], [L::Wholes; 3])> = None;
        let (mut pairs, mut normals) = (&*skin.blocks.joints, &*skin.normals);
        for (eights, slots) in skin.blocks.iter(0..skin.blocks.len()) {
            let (here, there) = (pairs.split_at(slots.len()), normals.split_at(slots.len()));
            (pairs, normals) = (here.1, there.1);
            let sums = sums(s, self.turns, here.0, there.0);
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
fn put<L: Lanes>(s: L, to: &mut impl Put, eights: &[Eight; R], [x, y, z]: [L::Wholes; 3]) {
    let ([x0, x1], [y0, y1], [z0, z1]) = (s.floats(x), s.floats(y), s.floats(z));
    to.put(s, &eights[0], unit(s, [x0, y0, z0]));
    to.put(s, &eights[1], unit(s, [x1, y1, z1]));
}

#[cfg(test)]
mod tests {
    use super::super::Scatter;
    use super::super::lanes::Instructions;
    use super::*;

    /// All that the kernel is compiled for, as far as the processor has it.
    fn instructions() -> Vec<Instructions> {
        vec![
            Instructions::Portable,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2,
            Instructions::detect(),
        ]
    }

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
    fn a_block_visits_each_of_its_joints_once_in_pairs_that_others_have_too() {
        let sets: [&[u32]; 6] = [&[1, 2, 3, 4], &[2, 3, 5, 6], &[2, 3], &[3, 7, 8], &[9], &[]];
        let visits = paired(&sets);
        for (set, visits) in sets.iter().zip(&visits) {
            let had = |visit: &Visit| (0..2).filter(|&half| visit.has[half]).map(|half| visit.pair[half]).collect();
            let mut joints: Vec<u32> = visits.iter().flat_map(|visit: &Visit| -> Vec<u32> { had(visit) }).collect();
            joints.sort_unstable();
            assert_eq!(joints, *set);
            assert_eq!(visits.len(), set.len().div_ceil(2));
        }
        let pairs = |b: usize| visits[b].iter().map(|visit| visit.pair).collect::<Vec<_>>();
        assert_eq!([pairs(0), pairs(1), pairs(2)], [vec![[2, 3], [1, 4]], vec![[2, 3], [5, 6]], vec![[2, 3]]]);
        // 3 goes with 7, as [3, 8] and [7, 8] are no more frequent; what is left of a set borrows a pair.
        assert_eq!((pairs(3), pairs(4)), (vec![[3, 7], [8, 8]], vec![[9, 9]]));
    }

    #[test]
    fn no_sum_leaves_thirty_two_bits() {
        // As long a sum as there can be: every matrix as far as its norm allows along x, the normal along its rows, and
        // enough joints for roundings to add up.
        let row = [3.0, 3.0, 3.0, 1e9];
        for rows in [[row, [0.0; 4], [0.0; 4]], [row.map(|x| -x), [0.0; 4], [0.0; 4]]] {
            let matrix = Matrix(rows.as_flattened().try_into().expect("twelve entries"));
            for joints in [1, 2, 50, 61] {
                let rest = [[3.0_f32.sqrt().recip(); 3]; 3];
                let skin = TurningSkin::new(&rest, |_| (0..joints).map(|joint| (joint, 1.0 / joints as f32)));
                for instructions in instructions() {
                    let mut normals = [[f32::NAN; 3]; 3];
                    let (palette, mut turns) = (vec![matrix; joints], skin.room());
                    let put = Scatter(&mut normals);
                    instructions.run_pairs(Normals { skin: &skin, palette: &palette, turns: &mut turns, put });
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
