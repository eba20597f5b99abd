//! `c₁ d + c₂ q`: proxy bones as sums of blocks times sources, four proxies at a time.
//!
//! Proxies that stand near each other draw from nearly the same sources. Four of them share what is read of a source:
//! each entry of its matrix is loaded once and multiplies the four numbers of a block's column in all four proxies, two
//! proxies a register. A source that only some of the four draw from has blocks of zeros for the others.
//!
//! The multiply-adds are what it takes, a quarter of them with those zeros: blocks packed to 16 bits are no faster, and
//! exchanging proxies between groups (see `exchanged`) comes close to the fewest zeros. Tried and slower: two sources in a
//! step, one a register, where each has zeros for the other's; that saves about an eighth of the multiply-adds and takes longer.
//!
//! Blocks are stored as columns: with B_c column c of a block and s_c column c of the source's 3×4 matrix, coordinate i
//! of a proxy's columns is `Σ_c B_c s_c[i]`, a row of its matrix.

use std::ops::Range;

use glam::{Affine3A, DMat4, DVec4};

use super::Matrix;
use super::blocks::gathered;
use super::lanes::{Lanes, Row};
use crate::deform::RotationalRegression;

/// Proxies drawn together.
const TOGETHER: usize = 4;
/// Registers that hold a number of each of their columns.
const R: usize = 2;

/// c₁ and c₂ laid out for drawing.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    groups: Vec<Group>,
    /// Which gradient each block of c₁ multiplies, and the blocks, group by group.
    gradients: Shared<3>,
    /// Which bone each block of c₂ multiplies, and the blocks, group by group.
    bones: Shared<4>,
}

/// Up to four proxies.
#[derive(Debug, Clone)]
struct Group {
    proxies: Vec<u32>,
    /// Where its blocks end in the lists.
    gradients: usize,
    bones: usize,
}

/// A source's place and the columns of a block.
type Block<const C: usize> = (u32, [[f32; 4]; C]);

/// Places of sources, and C columns for each: a number of each of a proxy's four columns, for four proxies.
#[derive(Debug, Clone, Default)]
struct Shared<const C: usize> {
    sources: Vec<u32>,
    blocks: Vec<[[Row; R]; C]>,
}

/// Rows x, y and z of four proxies' matrices, over even and over odd columns of the sources.
type Sums<L> = [[[<L as Lanes>::V; R]; 3]; 2];

impl Drawing {
    /// Lays c₁ and c₂ of `d` out for sources in the world; `rest` is the root's rest frame F̂, which goes into the blocks.
    /// `gradient` and `bone` give the sources' places.
    pub fn new(
        d: &RotationalRegression,
        rest: DMat4,
        gradient: impl Fn(u16) -> u32,
        bone: impl Fn(u16) -> u32,
    ) -> Self {
        let after = rest.inverse();
        let from_gradients = |p: u32| {
            let blocks = d.c1.row(p as usize);
            blocks.map(|(k, block)| (gradient(k as u16), folded(block, after, DMat4::IDENTITY))).collect()
        };
        let from_bones = |p: u32| {
            let blocks = d.c2.row(p as usize);
            blocks.map(|(b, block)| (bone(b as u16), folded(block, after, rest))).collect()
        };
        let sources = |p: u32| {
            let gradients = d.c1.row(p as usize).map(|(k, _)| gradient(k as u16));
            ascending(gradients.chain(d.c2.row(p as usize).map(|(b, _)| bone(b as u16))))
        };
        let proxies = (0..d.proxy_count() as u32).map(|p| (sources(p), p)).collect();
        let mut all = Self { groups: Vec::new(), gradients: Shared::default(), bones: Shared::default() };
        let first_bone = d.c1.columns.iter().map(|&k| gradient(k) + 1).max().unwrap_or(0);
        for proxies in exchanged(gathered(proxies, TOGETHER), sources, first_bone) {
            all.gradients.add(&proxies.iter().map(|&p| from_gradients(p)).collect::<Vec<_>>());
            all.bones.add(&proxies.iter().map(|&p| from_bones(p)).collect::<Vec<_>>());
            let (gradients, bones) = (all.gradients.sources.len(), all.bones.sources.len());
            all.groups.push(Group { proxies, gradients, bones });
        }
        all
    }

    /// Draws every proxy's world transform from the sources; `frame` is the root's frame F.
    #[inline(always)]
    pub fn draw<L: Lanes>(&self, s: L, frame: Affine3A, sources: &[Matrix], proxies: &mut [Matrix]) {
        let origin = frame.translation;
        let (mut gradients, mut bones) = (0, 0);
        for group in &self.groups {
            let at = |c: f32| s.load(&Row([0.0, 0.0, 0.0, c, 0.0, 0.0, 0.0, c]));
            let (x, y, z) = (at(origin.x), at(origin.y), at(origin.z));
            let zero = [s.splat(0.0); R];
            // Even and odd columns of the sources in sums of their own: a single chain would wait for itself.
            let sums = [[[x; R], [y; R], [z; R]], [zero; 3]];
            let sums = self.gradients.accumulated(s, gradients..group.gradients, sources, sums);
            let [even, odd] = self.bones.accumulated(s, bones..group.bones, sources, sums);
            (gradients, bones) = (group.gradients, group.bones);
            // Loops and not `map`, whose closure would be compiled without the lanes' instructions.
            let mut rows = [[[0.0; 8]; R]; 3];
            for row in 0..3 {
                for r in 0..R {
                    rows[row][r] = s.array(s.add(even[row][r], odd[row][r]));
                }
            }
            for (lane, &p) in group.proxies.iter().enumerate() {
                let out = &mut proxies[p as usize].0;
                for row in 0..3 {
                    out[4 * row..][..4].copy_from_slice(&rows[row].as_flattened()[4 * lane..][..4]);
                }
            }
        }
    }
}

impl<const C: usize> Shared<C> {
    /// Adds the blocks of up to four proxies: for each its (source, block) pairs, a block's column being four numbers. A
    /// source listed twice adds up.
    fn add(&mut self, proxies: &[Vec<Block<C>>]) {
        let first = self.sources.len();
        self.sources.extend(ascending(proxies.iter().flatten().map(|&(source, _)| source)));
        self.blocks.resize(self.sources.len(), [[Row::default(); R]; C]);
        for (lane, blocks) in proxies.iter().enumerate() {
            for (source, block) in blocks {
                let at = self.sources[first..].binary_search(source).expect("it was listed");
                for (columns, column) in self.blocks[first + at].iter_mut().zip(block) {
                    let place = &mut columns[lane / 2].0[lane % 2 * 4..][..4];
                    place.iter_mut().zip(column).for_each(|(sum, value)| *sum += value);
                }
            }
        }
    }

    /// The sums with the blocks of a range times their sources added.
    #[inline(always)]
    fn accumulated<L: Lanes>(&self, s: L, range: Range<usize>, sources: &[Matrix], mut sums: Sums<L>) -> Sums<L> {
        for (&source, block) in self.sources[range.clone()].iter().zip(&self.blocks[range]) {
            let m = &sources[source as usize].0;
            for c in 0..C {
                let [b0, b1] = [s.load(&block[c][0]), s.load(&block[c][1])];
                for row in 0..3 {
                    let entry = s.splat(m[4 * row + c]);
                    let [s0, s1] = sums[c % 2][row];
                    sums[c % 2][row] = [s.mul_add(entry, b0, s0), s.mul_add(entry, b1, s1)];
                }
            }
        }
        sums
    }
}

/// The block B column by column as `after ᵀ B before ᵀ`: with `after` applied to the rest mesh first and the source's
/// columns taken from before `before`.
fn folded<const C: usize>(block: &[[f32; C]; 4], after: DMat4, before: DMat4) -> [[f32; 4]; C] {
    let entry = |r: usize, c: usize| block[r].get(c).map_or(0.0, |&x| f64::from(x));
    // Column r of the transform is Σ_c B_rc s_c.
    let b = DMat4::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|r| entry(r, c))));
    let folded = after.transpose() * b * before.transpose();
    std::array::from_fn(|c| DVec4::to_array(&folded.col(c)).map(|x| x as f32))
}

/// Groups past which exchanging is not worth the time that a character takes to load: it grows with their square.
const MOST_GROUPS: usize = 100;

/// The groups' proxies, any two of different groups exchanged while that leaves the groups fewer sources to draw from, three
/// columns each before `first_bone` and four from there on.
fn exchanged(groups: Vec<(Vec<u32>, Vec<u32>)>, sources: impl Fn(u32) -> Vec<u32>, first_bone: u32) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = groups.into_iter().map(|(_, proxies)| proxies).collect();
    let all = |p: usize| sources(p as u32).into_iter();
    let proxies = groups.iter().map(Vec::len).sum();
    // Sets of gradients and of bones, a bit each.
    let gradients = (0..proxies).map(|p| bits(all(p).filter(|&source| source < first_bone))).collect::<Vec<_>>();
    let bones = (0..proxies).map(|p| bits(all(p).filter_map(|source| source.checked_sub(first_bone))));
    let bones = bones.collect::<Vec<_>>();
    let cost = |group: &[u32]| 3 * union_len(group, &gradients) + 4 * union_len(group, &bones);
    let mut costs: Vec<u32> = groups.iter().map(|group| cost(group)).collect();
    let mut better = groups.len() <= MOST_GROUPS;
    while std::mem::take(&mut better) {
        for (g, h) in (0..groups.len()).flat_map(|h| (0..h).map(move |g| (g, h))) {
            for k in 0..groups[g].len() * groups[h].len() {
                let (i, j) = (k % groups[g].len(), k / groups[g].len());
                let (one, other) = (groups[g][i], groups[h][j]);
                (groups[g][i], groups[h][j]) = (other, one);
                let now = [cost(&groups[g]), cost(&groups[h])];
                if now[0] + now[1] < costs[g] + costs[h] {
                    [costs[g], costs[h]] = now;
                    better = true;
                } else {
                    (groups[g][i], groups[h][j]) = (one, other);
                }
            }
        }
    }
    groups
}

/// A set of numbers, a bit each.
fn bits(numbers: impl Iterator<Item = u32>) -> Vec<u64> {
    let mut words = Vec::new();
    for number in numbers {
        let word = number as usize / 64;
        words.resize(words.len().max(word + 1), 0);
        words[word] |= 1 << (number % 64);
    }
    words
}

/// How many numbers are in any of the sets of a group.
fn union_len(group: &[u32], sets: &[Vec<u64>]) -> u32 {
    let words = group.iter().map(|&p| sets[p as usize].len()).max().unwrap_or(0);
    let word = |w: usize| group.iter().fold(0, |all, &p| all | sets[p as usize].get(w).copied().unwrap_or(0));
    (0..words).map(|w| word(w).count_ones()).sum()
}

fn ascending(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}
