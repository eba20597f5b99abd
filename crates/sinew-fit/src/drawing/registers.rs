//! Which vertices share a register: eight in a row where they can be drawn together, others with those that move as they do.

use glam::DVec3;
use sinew_runtime::{REGISTER, Writing};

use super::points::{Drawing, Pursued, worthwhile};
use crate::Training;

/// Entries that a vertex is drawn by when it is tried alone.
const ALONE: usize = 3;

/// Cycles of an entry that a register visits: [`Writing::VISIT`] if the register beside it in the kernel visits it too, a third
/// more if not, and registers that lie in a row seldom agree (measured).
pub const VISIT: f32 = 1.25 * Writing::VISIT;

/// The cycles that so many vertices take whatever plain skinning takes, for `entries` a register on average. Where that visits few bones, or on a mesh of a few
/// hundred vertices, predicting the palette alone takes longer than what plain skinning leaves for drawing.
#[must_use]
pub fn least_cycles(vertices: usize, entries: f32) -> f32 {
    vertices.div_ceil(REGISTER) as f32 * (Writing::Row.cycles() + entries * VISIT)
}

/// How many entries can be visited in so many cycles.
#[must_use]
pub fn visits(cycles: f32) -> usize {
    (cycles / VISIT).max(0.0) as usize
}

/// Vertices that are posed together.
pub struct Registers {
    /// Eight vertices each, but for the last.
    pub vertices: Vec<Vec<usize>>,
    /// What writing them all costs, cycles.
    pub writing: f32,
}

impl Registers {
    /// The registers of a mesh that `drawing` draws within `cycles`.
    ///
    /// Eights in the mesh's order are written at once. Where one leaves more error than its vertices one by one, by more than the
    /// cycles that scattered vertices take would gain elsewhere, it is taken apart.
    ///
    /// A cycle must gain `least` at least, square metres.
    #[must_use]
    pub fn new(drawing: &Drawing, cycles: f32, least: f64) -> Self {
        let all: Vec<usize> = (0..drawing.poses.vertex_count()).collect();
        let rows: Vec<Vec<usize>> = all.chunks(REGISTER).map(<[usize]>::to_vec).collect();
        let pursued = drawing.pursue(&rows);
        let writing = Writing::Row.cycles() * rows.len() as f32;
        let (counts, gain) = worthwhile(&pursued, visits(cycles - writing));
        // What a cycle gains elsewhere.
        let worth = (gain / f64::from(VISIT)).max(least);
        let errors: Vec<f64> =
            pursued.iter().zip(&counts).map(|(p, &k)| p.left.get(k - 1).copied().unwrap_or(0.0)).collect();
        let dear = worth * f64::from(Writing::Scattered.cycles() - Writing::Row.cycles());
        // No row gains more by being taken apart than the error that it leaves.
        let (doubtful, mut kept): (Vec<_>, Vec<_>) = rows.into_iter().zip(errors).partition(|(_, error)| *error > dear);
        let alone: Vec<Vec<usize>> = doubtful.iter().flat_map(|(row, _)| row).map(|&v| vec![v]).collect();
        let single = Drawing { width: ALONE, ..*drawing }.pursue(&alone);
        let error_alone = |p: &Pursued| p.left.last().copied().unwrap_or(0.0);
        let mut singles = single.iter().map(error_alone);
        let mut apart = Vec::new();
        for (row, error) in doubtful {
            let of_singles: f64 = singles.by_ref().take(row.len()).sum();
            if error - of_singles > dear { apart.extend(row) } else { kept.push((row, error)) }
        }
        let mut kept: Vec<Vec<usize>> = kept.into_iter().map(|(row, _)| row).collect();
        let scattered = apart.len().div_ceil(REGISTER);
        let writing = Writing::Row.cycles() * kept.len() as f32 + Writing::Scattered.cycles() * scattered as f32;
        halved(drawing.poses, apart, &mut kept);
        Self { vertices: kept, writing }
    }
}

/// Halves `vertices` across the longest side that they have in any pose until no part has more than a register holds.
fn halved(poses: &Training, mut vertices: Vec<usize>, parts: &mut Vec<Vec<usize>>) {
    if vertices.len() <= REGISTER {
        if !vertices.is_empty() {
            vertices.sort_unstable();
            parts.push(vertices);
        }
        return;
    }
    let places = || std::iter::once(&poses.rest).chain(&poses.vertices[..poses.vertices.len().min(12)]);
    let mut longest = (0.0, &poses.rest, 0);
    for place in places() {
        let low = vertices.iter().map(|&v| place[v]).fold(DVec3::INFINITY, DVec3::min);
        let high = vertices.iter().map(|&v| place[v]).fold(DVec3::NEG_INFINITY, DVec3::max);
        for axis in 0..3 {
            let side = high[axis] - low[axis];
            if side > longest.0 * (1.0 + 1e-9) {
                longest = (side, place, axis);
            }
        }
    }
    let (_, place, axis) = longest;
    vertices.sort_by(|&a, &b| place[a][axis].total_cmp(&place[b][axis]).then(a.cmp(&b)));
    let half = (vertices.len() / 2).next_multiple_of(REGISTER).min(vertices.len() - 1);
    let second = vertices.split_off(half);
    halved(poses, vertices, parts);
    halved(poses, second, parts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_examples::datasets;

    #[test]
    fn every_vertex_stands_in_one_register_that_holds_it() {
        let examples = datasets::by_name("bar").unwrap().make();
        let poses = Training::new(&examples, &examples.split().train).unwrap();
        let count = poses.vertex_count();
        let candidates = vec![vec![0, 1]; count];
        let carriers: Vec<usize> = (0..count).map(|v| v % 2).collect();
        let proxies = vec![Vec::new(); poses.pose_count()];
        let drawing =
            Drawing { poses: &poses, proxies: &proxies, candidates: &candidates, carriers: &carriers, width: 2 };
        // Whatever there is to spend, and whether apart is dear (nothing gains enough) or free.
        for (cycles, least) in [(0.0, 0.0), (least_cycles(count, 2.0), 0.0), (1e6, 0.0), (1e6, f64::INFINITY)] {
            let Registers { vertices, writing } = Registers::new(&drawing, cycles, least);
            let mut all = vertices.concat();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
            assert!(vertices.iter().all(|register| (1..=REGISTER).contains(&register.len())));
            assert!(writing >= Writing::Row.cycles() * (count / REGISTER) as f32);
            if least == f64::INFINITY {
                assert!(vertices.iter().all(|register| register.windows(2).all(|pair| pair[1] == pair[0] + 1)));
            }
        }
    }

    #[test]
    fn the_least_cycles_pay_for_two_entries_a_register() {
        let count = 10 * REGISTER;
        assert_eq!(visits(least_cycles(count, 2.0) - 10.0 * Writing::Row.cycles()), 20);
    }
}
