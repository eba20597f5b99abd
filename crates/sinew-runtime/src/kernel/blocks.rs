//! Vertices in blocks that share joints: eight a register, one or two registers a block.
//!
//! A joint's matrix serves all lanes of a block at once: it is loaded once, not for every vertex. A block visits the
//! union of its vertices' joints; a lane that does not use one has weight 0 there. Its cost is that union, and where
//! its vertices lie: eight in a row are written with three stores, two times four in a row with six, eight scattered ones
//! cost as much as several joints. So
//!
//! 1. the mesh's own order is cut into runs of eight, runs of four and single vertices, at the least cost of all ways to
//!    cut it;
//! 2. the runs of four and the single vertices are gathered into eights, those with the same set of joints first, the rest
//!    greedily: an eight takes the set that adds the fewest joints to it;
//! 3. eights are gathered into blocks in the same way; `points` then tells apart the joints that its two eights share.

use std::ops::Range;

use super::lanes::Row;
use crate::Skin;

/// Vertices a register holds.
pub const LANES: usize = 8;

/// What a register of eight vertices costs, in cycles (measured on Zen 3): for each joint, where 12 multiply-adds are all
/// that it takes …
pub(super) const JOINT: f32 = 6.0;
/// … and for writing eight vertices in a row …
const ROW: f32 = 4.0;
/// … twice four in a row …
const HALVES: f32 = 7.0;
/// … or eight that are scattered.
const SCATTERED: f32 = 20.0;

/// Vertices of half a register.
pub(crate) const HALF: usize = LANES / 2;

/// Among how many sets the gathering looks for company. More finds slightly smaller unions and costs construction time.
const LOOK_AHEAD: usize = 256;

/// The vertices of `skin` that are posed together, in registers of eight: for fits that make a register visit few joints.
#[must_use]
pub fn registers(skin: &Skin) -> Vec<Vec<usize>> {
    let blocks = Blocks::<1>::new(skin.vertex_count(), JOINT, |v| skin.vertex(v).map(|(joint, _)| joint));
    let register = |[eight]: &[Eight; 1]| {
        let mut vertices: Vec<usize> = eight.vertices.iter().map(|&v| v as usize).collect();
        vertices.dedup();
        vertices
    };
    blocks.eights.iter().map(register).collect()
}

/// About how many cycles posing the vertices of `skin` takes: what its registers visit and how they are written.
#[must_use]
pub fn skinning_cycles(skin: &Skin) -> f32 {
    let blocks = Blocks::<1>::new(skin.vertex_count(), JOINT, |v| skin.vertex(v).map(|(joint, _)| joint));
    let writing = |eight: &Eight| match eight.lie {
        Lie::Row => ROW,
        Lie::Halves => HALVES,
        Lie::Scattered => SCATTERED,
    };
    JOINT * blocks.joints.len() as f32 + blocks.eights.as_flattened().iter().map(writing).sum::<f32>()
}

/// How eight vertices are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// All in a row.
    Row,
    /// Twice four in a row.
    Halves,
    /// One by one.
    Scattered,
}

impl Writing {
    /// Cycles that eight vertices take for each joint that they visit.
    pub const VISIT: f32 = JOINT;

    /// About how many cycles it takes.
    #[must_use]
    pub fn cycles(self) -> f32 {
        match self {
            Self::Row => ROW,
            Self::Halves => HALVES,
            Self::Scattered => SCATTERED,
        }
    }
}

/// A set of joints, ascending.
type Set = Vec<u32>;

/// Eight vertices that share a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Eight {
    /// The vertex in each lane; the last may repeat to fill up.
    pub vertices: [u32; LANES],
    /// How they lie.
    pub lie: Lie,
}

/// How the vertices of an eight lie in the mesh's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// They follow each other.
    Row,
    /// The first four follow each other, and so do the others.
    Halves,
    /// Anywhere.
    Scattered,
}

impl Eight {
    fn new(vertices: [u32; LANES]) -> Self {
        let in_a_row = |vertices: &[u32]| vertices.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let halves = vertices.chunks_exact(HALF).all(in_a_row);
        let lie = match in_a_row(&vertices) {
            true => Lie::Row,
            false if halves => Lie::Halves,
            false => Lie::Scattered,
        };
        Self { vertices, lie }
    }

    /// Whether its vertices follow each other.
    #[inline(always)]
    pub fn in_a_row(&self) -> bool {
        self.lie == Lie::Row
    }
}

/// Which vertices stand together, and which joints each block visits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocks<const R: usize> {
    /// The vertices of each register, (B); the last block repeats its last eight to fill up.
    pub eights: Vec<[Eight; R]>,
    /// Where each block's joints start in `joints`, (B + 1).
    pub starts: Vec<u32>,
    /// The joints of block b, ascending: `joints[starts[b]..starts[b + 1]]`.
    pub joints: Vec<u32>,
}

impl<const R: usize> Blocks<R> {
    /// Packs vertices 0 … `count` − 1; a joint costs a register `joint_cost` cycles, and `joints(v)` lists the joints of
    /// vertex v in any order.
    pub fn new<J: IntoIterator<Item = usize>>(count: usize, joint_cost: f32, joints: impl Fn(usize) -> J) -> Self {
        let sets: Vec<Set> = (0..count).map(|v| set_of(joints(v).into_iter().map(|j| j as u32))).collect();
        let Runs { mut eights, fours, singles } = runs(&sets, joint_cost);
        let halves = |(set, fours): (Set, Vec<[u32; HALF]>)| {
            let [a, b] = filled::<_, 2>(&fours);
            (set, std::array::from_fn(|lane| if lane < HALF { a[lane] } else { b[lane - HALF] }))
        };
        eights.extend(gathered(fours, 2).into_iter().map(halves));
        eights.extend(gathered(singles, LANES).into_iter().map(|(set, vertices)| (set, filled(&vertices))));
        let mut blocks = gathered(eights, R);
        // In the order of the output, which is then written front to back.
        blocks.sort_by_key(|(_, eights)| eights[0][0]);
        let mut all = Self::empty();
        for (joints, eights) in blocks {
            all.push(filled::<_, R>(&eights).map(Eight::new), joints);
        }
        all
    }

    /// The number of blocks, B.
    pub fn len(&self) -> usize {
        self.eights.len()
    }

    /// The vertices of each block of a range, and where its joints stand.
    #[inline(always)]
    pub fn iter(&self, blocks: Range<usize>) -> impl Iterator<Item = (&[Eight; R], Range<usize>)> {
        let starts = &self.starts[blocks.start..];
        let slots = starts.iter().zip(&starts[1..]).map(|(&start, &end)| start as usize..end as usize);
        self.eights[blocks].iter().zip(slots)
    }

    /// For every joint of every block a row of lanes a register: `value(v, joint)` for the vertex in each lane.
    pub fn rows(&self, mut value: impl FnMut(usize, usize) -> f32) -> Vec<[Row; R]> {
        let mut rows = Vec::with_capacity(self.joints.len());
        for (eights, slots) in self.iter(0..self.len()) {
            for &joint in &self.joints[slots] {
                rows.push(eights.map(|eight| Row(eight.vertices.map(|v| value(v as usize, joint as usize)))));
            }
        }
        rows
    }

    /// For every block and register the three coordinates of its vertices, lane by lane.
    pub fn points(&self, points: &[[f32; 3]]) -> Vec<[[Row; 3]; R]> {
        let register = |eight: Eight| std::array::from_fn(|k| Row(eight.vertices.map(|v| points[v as usize][k])));
        self.eights.iter().map(|block| block.map(register)).collect()
    }

    /// No blocks yet.
    pub fn empty() -> Self {
        Self { eights: Vec::new(), starts: vec![0], joints: Vec::new() }
    }

    /// Adds a block that visits `joints`, ascending.
    pub fn push(&mut self, eights: [Eight; R], joints: impl IntoIterator<Item = u32>) {
        self.eights.push(eights);
        self.joints.extend(joints);
        self.starts.push(u32::try_from(self.joints.len()).expect("fewer than 2³² joint uses"));
    }
}

impl Blocks<1> {
    /// Puts the blocks whose vertices follow each other first; returns how many they are.
    pub fn rows_first(&mut self) -> usize {
        let mut sorted = Self::empty();
        for in_a_row in [true, false] {
            for (&[eight], slots) in self.iter(0..self.len()).filter(|([eight], _)| eight.in_a_row() == in_a_row) {
                sorted.push([eight], self.joints[slots].iter().copied());
            }
        }
        *self = sorted;
        self.eights.partition_point(|[eight]| eight.in_a_row())
    }
}

/// The mesh's order cut into pieces, each with its set of joints.
struct Runs {
    eights: Vec<(Set, [u32; LANES])>,
    fours: Vec<(Set, [u32; HALF])>,
    singles: Vec<(Set, u32)>,
}

/// Cuts the order 0 … V − 1 into runs of eight, runs of four and single vertices, by dynamic programming from the end: the
/// least cost of vertices v … is that of a piece at v and the least cost of those after it. A four or a single vertex counts
/// as a half or an eighth of a register whose others share its joints.
fn runs(sets: &[Set], joint_cost: f32) -> Runs {
    let union = |v: usize, count: usize| set_of(sets[v..v + count].iter().flatten().copied());
    let mut joints = Vec::new();
    let mut cost = |v: usize, (count, writing): (usize, f32)| {
        joints.clear();
        sets[v..v + count].iter().for_each(|set| joints.extend_from_slice(set));
        joints.sort_unstable();
        joints.dedup();
        (joint_cost * joints.len() as f32 + writing) * count as f32 / LANES as f32
    };
    let mut least = vec![0.0_f32; sets.len() + 1];
    let mut pieces = vec![1; sets.len()];
    for v in (0..sets.len()).rev() {
        least[v] = f32::INFINITY;
        for piece in [(LANES, ROW), (HALF, HALVES), (1, SCATTERED)] {
            let after = v + piece.0;
            if after > sets.len() {
                continue;
            }
            let all = cost(v, piece) + least[after];
            if all < least[v] {
                (least[v], pieces[v]) = (all, piece.0);
            }
        }
    }
    let mut found = Runs { eights: Vec::new(), fours: Vec::new(), singles: Vec::new() };
    let mut v = 0;
    while v < sets.len() {
        let set = union(v, pieces[v]);
        match pieces[v] {
            LANES => found.eights.push((set, std::array::from_fn(|lane| (v + lane) as u32))),
            HALF => found.fours.push((set, std::array::from_fn(|lane| (v + lane) as u32))),
            _ => found.singles.push((set, v as u32)),
        }
        v += pieces[v];
    }
    found
}

/// Items gathered by `width`, those with equal sets first; each gathering with the union of its sets. Only the last one
/// may be smaller.
pub(super) fn gathered<T: Copy + Ord>(mut items: Vec<(Set, T)>, width: usize) -> Vec<(Set, Vec<T>)> {
    // In lexicographic order, so that sets that share joints stand near each other.
    items.sort_unstable();
    let mut full = Vec::new();
    let mut rest: Vec<(Set, Vec<T>)> = Vec::new();
    for group in items.chunk_by(|a, b| a.0 == b.0) {
        for chunk in group.chunks(width) {
            let gathering = (chunk[0].0.clone(), chunk.iter().map(|item| item.1).collect());
            if chunk.len() == width { full.push(gathering) } else { rest.push(gathering) }
        }
    }
    full.extend(packed(rest, width));
    full
}

/// Packs gatherings too small, those with the most joints first, for they find company least easily: each takes, among those
/// that it shares a joint with, the one that adds the fewest joints, until it is full.
fn packed<T: Copy + Ord>(mut groups: Vec<(Set, Vec<T>)>, width: usize) -> Vec<(Set, Vec<T>)> {
    groups.sort_by_key(|(set, _)| std::cmp::Reverse(set.len()));
    let joints = groups.iter().flat_map(|(set, _)| set).max().map_or(0, |&most| most as usize + 1);
    // The groups that have each joint.
    let mut owners: Vec<Vec<usize>> = vec![Vec::new(); joints];
    for (g, (set, _)) in groups.iter().enumerate() {
        set.iter().for_each(|&joint| owners[joint as usize].push(g));
    }
    let mut full = Vec::new();
    let mut first = 0;
    while first < groups.len() {
        if groups[first].1.is_empty() {
            first += 1;
            continue;
        }
        let (mut union, mut items) = (Set::new(), Vec::with_capacity(width));
        let mut next = Some(first);
        while let Some(g) = next {
            let (set, group) = &mut groups[g];
            items.extend(group.drain(..group.len().min(width - items.len())));
            union = set_of(union.iter().chain(set.iter()).copied());
            next = if items.len() < width { best_company(&groups, first, &mut owners, &union) } else { None };
        }
        items.sort_unstable();
        full.push((union, items));
    }
    full
}

/// The group that adds the fewest joints to `union`; of equals the one that shares the most, of these the first. If none
/// shares a joint, the first that is left, from `first` on.
fn best_company<T>(groups: &[(Set, Vec<T>)], first: usize, owners: &mut [Vec<usize>], union: &[u32]) -> Option<usize> {
    let mut best: Option<(usize, usize, usize)> = None;
    for &joint in union {
        let list = &mut owners[joint as usize];
        let mut at = 0;
        while at < list.len().min(LOOK_AHEAD.div_ceil(union.len())) {
            let g = list[at];
            let (set, items) = &groups[g];
            if items.is_empty() {
                list.swap_remove(at);
                continue;
            }
            at += 1;
            let added = set.iter().filter(|joint| union.binary_search(joint).is_err()).count();
            // What is not added is shared.
            let rank = (added, usize::MAX - (set.len() - added), g);
            best = Some(best.map_or(rank, |best| best.min(rank)));
        }
    }
    let left = || (first..groups.len()).find(|&g| !groups[g].1.is_empty());
    best.map(|(_, _, g)| g).or_else(left)
}

fn set_of(joints: impl Iterator<Item = u32>) -> Set {
    let mut set: Set = joints.collect();
    set.sort_unstable();
    set.dedup();
    set
}

/// The items, the last one repeated to fill up.
fn filled<T: Copy, const N: usize>(items: &[T]) -> [T; N] {
    std::array::from_fn(|k| items[k.min(items.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const R: usize>(sets: &[&[usize]]) -> Blocks<R> {
        let blocks = Blocks::new(sets.len(), JOINT, |v| sets[v].to_vec());
        let mut seen = vec![0; sets.len()];
        for (vertices, slots) in blocks.iter(0..blocks.len()) {
            let (joints, vertices) = (&blocks.joints[slots], vertices.map(|eight| eight.vertices));
            let vertices = vertices.as_flattened();
            assert!(joints.is_sorted_by(|a, b| a < b));
            for (lane, &v) in vertices.iter().enumerate() {
                // What fills up repeats a lane before it.
                let repeated = vertices[..lane].contains(&v);
                seen[v as usize] += usize::from(!repeated);
                assert!(sets[v as usize].iter().all(|&j| joints.contains(&(j as u32))));
            }
        }
        assert!(seen.iter().all(|&times| times == 1), "every vertex once: {seen:?}");
        blocks
    }

    #[test]
    fn every_vertex_stands_in_one_block_that_has_its_joints() {
        check::<1>(&[]);
        check::<2>(&[&[3]]);
        check::<1>(&[&[]]);
        let mixed: Vec<Vec<usize>> = (0..101).map(|v| (0..v % 9).map(|k| (v * 7 + k * 3) % 13).collect()).collect();
        let mixed: Vec<&[usize]> = mixed.iter().map(Vec::as_slice).collect();
        check::<1>(&mixed);
        check::<2>(&mixed);
    }

    #[test]
    fn scattered_vertices_with_equal_joints_come_together() {
        let [even, odd]: [&[usize]; 2] = [&[0, 1, 2, 3, 4], &[5, 6, 7, 8]];
        let sets: Vec<&[usize]> = (0..32).map(|v| if v % 2 == 0 { even } else { odd }).collect();
        assert_eq!(check::<1>(&sets).joints.len(), 2 * 5 + 2 * 4);
        assert_eq!(check::<2>(&sets).joints.len(), 5 + 4);
    }

    #[test]
    fn eight_in_a_row_stay_together_if_that_costs_few_joints() {
        let sets: [&[usize]; 8] = [&[0, 1], &[0], &[1], &[0, 2], &[2], &[0], &[0], &[0]];
        let blocks = check::<1>(&sets);
        assert_eq!((blocks.eights[0][0].vertices, blocks.joints), ([0, 1, 2, 3, 4, 5, 6, 7], vec![0, 1, 2]));
    }

    #[test]
    fn rows_come_first_each_with_its_joints() {
        // Two limbs vertex by vertex, then two eights in order.
        let limbs: [&[usize]; 2] = [&[0, 1, 2, 3, 4], &[5, 6, 7, 8, 9]];
        let sets: Vec<&[usize]> = (0..32).map(|v| if v < 16 { limbs[v % 2] } else { &[10] }).collect();
        let mut blocks = check::<1>(&sets);
        assert_eq!(blocks.rows_first(), 2);
        assert_eq!(blocks.eights.iter().map(|[eight]| eight.vertices[0]).collect::<Vec<_>>(), [16, 24, 0, 1]);
        assert_eq!((blocks.starts, &blocks.joints[..7]), (vec![0, 1, 2, 7, 12], &[10, 10, 0, 1, 2, 3, 4][..]));
    }

    #[test]
    fn leftovers_join_the_set_that_contains_them() {
        // Two limbs vertex by vertex; each set of joints occurs four times, too few for an eight of its own.
        let [whole_a, part_a]: [&[usize]; 2] = [&[0, 1, 2, 3, 4], &[1, 2, 3, 4]];
        let [whole_b, part_b]: [&[usize]; 2] = [&[5, 6, 7, 8, 9], &[6, 7, 8, 9]];
        let sets: Vec<&[usize]> = (0..16).map(|v| [whole_a, whole_b, part_a, part_b][v % 4]).collect();
        assert_eq!(check::<1>(&sets).joints, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
