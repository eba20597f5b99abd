//! Parts that are no bones: skin between two bones moves by a mixture of both, and looks like a part of its own.
//!
//! What a part is worth is the error that linear blend skinning makes without it:
//! `worth_b = Σ_v E_v(bones near v, without b) − E_v(bones near v)`, E_v the least error of at most four convex weights. Its
//! merit is the worth a vertex over the mean squared distance of its core from rigid motion: skin between bones bends as
//! much as it is worth, a bone does not. Parts of least merit go, a few at a time and never two neighbours at once; the
//! others take their vertices.

use rayon::prelude::*;

use super::parts::{Parts, Residuals, find_cores, settle_borders};
use crate::decompose::problem::{CHUNK, Motion, Problem};
use crate::decompose::weights::GramMaker;
use crate::geometry::topology::{Adjacency, Topology};
use crate::solve::few::FewSolver;

/// A bone's merit is at least this. Between elbow and forearm of the muscle arm skin reaches 14, the least bone of the built-in
/// creature 70.
const BONE_MERIT: f64 = 30.0;

/// Cores are not more rigid than this rms (of the diagonal), so that f32's rounding decides nothing.
const EXACT: f64 = 1e-6;

/// Of the parts that are left, one in so many may go at once.
const AT_ONCE: usize = 8;

/// Bones a vertex.
const INFLUENCES: usize = 4;

/// When pruning stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Prune {
    /// At this many parts.
    ToCount(usize),
    /// When every part's merit is above [`BONE_MERIT`].
    ToBones,
}

/// Takes the parts of least merit away. Returns the parts' motion.
pub(super) fn prune(problem: &Problem, topology: &Topology, parts: &mut Parts, until: Prune) -> Motion {
    let (fewest, limit) = match until {
        Prune::ToCount(count) => (count, f64::INFINITY),
        Prune::ToBones => (1, BONE_MERIT),
    };
    loop {
        let motion = settle_borders(problem, topology, parts);
        if parts.count <= fewest {
            return motion;
        }
        let touching = touching_parts(topology, parts);
        let merits = merits(problem, &motion, parts, &touching);
        let poor = |&b: &usize| merits[b] <= limit && !touching.row(b).is_empty();
        let mut order: Vec<usize> = (0..parts.count).filter(poor).collect();
        order.sort_by(|&a, &b| merits[a].total_cmp(&merits[b]).then(a.cmp(&b)));
        let most = (parts.count / AT_ONCE).clamp(1, parts.count - fewest);
        let mut gone: Vec<usize> = Vec::new();
        for b in order {
            if gone.len() < most && !touching.row(b).iter().any(|c| gone.contains(c)) {
                gone.push(b);
            }
        }
        if gone.is_empty() {
            return motion;
        }
        hand_over(problem, &motion, parts, &touching, &gone);
    }
}

/// Each part's worth over its core's distance from rigid motion, (P).
fn merits(problem: &Problem, motion: &Motion, parts: &Parts, touching: &Adjacency) -> Vec<f64> {
    let residuals = Residuals::new(problem, motion);
    let cores = find_cores(problem, motion, parts);
    let exact = problem.resolution.max(EXACT).powi(2) * problem.targets.nrows() as f64;
    let stiffness = |(b, core): (usize, &Vec<usize>)| {
        core.iter().map(|&v| residuals.of(problem, v, b) + exact).sum::<f64>() / core.len().max(1) as f64
    };
    let members = parts.members();
    let bend: Vec<f64> = cores.iter().enumerate().map(stiffness).collect();
    let worths = worths(problem, motion, parts, touching);
    (0..parts.count).map(|b| worths[b] / (members[b].len() as f64 * bend[b])).collect()
}

/// The parts that share an edge of the mesh with each part.
pub(super) fn touching_parts(topology: &Topology, parts: &Parts) -> Adjacency {
    let mut pairs = Vec::new();
    for v in 0..parts.of.len() {
        for &u in topology.vertex_vertices.row(v) {
            if parts.of[u] != parts.of[v] {
                pairs.push((parts.of[v], parts.of[u]));
            }
        }
    }
    Adjacency::from_pairs(parts.count, &mut pairs)
}

/// What each part is worth, (P).
fn worths(problem: &Problem, motion: &Motion, parts: &Parts, touching: &Adjacency) -> Vec<f64> {
    let grams = GramMaker::new(motion);
    let starts: Vec<usize> = (0..problem.vertex_count()).step_by(CHUNK).collect();
    let near: Vec<Vec<usize>> =
        (0..parts.count).map(|b| touching.row(b).iter().copied().chain([b]).collect()).collect();
    let one_chunk = |(solver, memory): &mut (FewSolver, Vec<f64>), &start: &usize| {
        let mut worths = vec![0.0; parts.count];
        for v in start..(start + CHUNK).min(problem.vertex_count()) {
            let near = &near[parts.of[v]];
            if near.len() == 1 {
                continue;
            }
            solver.forget();
            let best = solver.solve(grams.near(problem, v, near, memory), INFLUENCES, &[], true);
            let used: Vec<usize> = solver.entries().map(|(k, _)| near[k]).collect();
            for b in used {
                let without: Vec<usize> = near.iter().copied().filter(|&c| c != b).collect();
                solver.forget();
                let error = solver.solve(grams.near(problem, v, &without, memory), INFLUENCES, &[], true);
                worths[b] += error - best;
            }
        }
        worths
    };
    let chunks: Vec<Vec<f64>> = starts.par_iter().map_init(Default::default, one_chunk).collect();
    let mut worths = vec![0.0; parts.count];
    for chunk in &chunks {
        worths.iter_mut().zip(chunk).for_each(|(sum, part)| *sum += part);
    }
    worths
}

/// Gives the vertices of the parts in `gone` to the neighbouring part that carries them best.
fn hand_over(problem: &Problem, motion: &Motion, parts: &mut Parts, touching: &Adjacency, gone: &[usize]) {
    let residuals = Residuals::new(problem, motion);
    for v in 0..parts.of.len() {
        if gone.contains(&parts.of[v]) {
            let cost = |part: usize| residuals.of(problem, v, part);
            let heirs = touching.row(parts.of[v]).iter().copied();
            let heir = heirs.min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
            parts.of[v] = heir.unwrap_or(parts.of[v]);
        }
    }
    parts.renumber();
}
