//! Rigid parts: which vertices move together, and how.
//!
//! Anguelov et al., "Recovering articulated object models from 3D range data", 2004: expectation–maximisation with a
//! Markov field over the mesh that favours connected parts,
//!
//! ```text
//! min Σ_v Σ_e ‖T_{p(v)}^e v̂ − v^e‖² + λ · #(edges between parts) .
//! ```
//!
//! Where we differ: a vertex may only change to a part that a neighbour has, so parts grow and shrink at their borders and
//! stay connected; parts are then merged in the order in which that costs least (what Anguelov et al. leave to the
//! prior on the number of parts); and the transforms come from a part's *core*, the half of it that moves most rigidly.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::decompose::problem::{Motion, PRODUCTS, Problem, dot};
use crate::decompose::seeds::fit_patch;
use crate::decompose::transforms::procrustes;
use crate::geometry::topology::Topology;

/// Rounds of expectation and maximisation; borders settle in fewer.
const ROUNDS: usize = 12;

/// λ over the mean squared residual: one edge between parts weighs as much as this share of a typical vertex's error.
const BORDER: f64 = 0.5;

/// Vertices that a part needs to be one.
const SMALLEST_PART: usize = 6;

/// A part is split if that takes away at least this share of its error: noise keeps nearly all of it.
const SPLIT_GAIN: f64 = 0.1;

/// The share of a part that makes up its core.
const CORE_SHARE: f64 = 0.5;

/// A labelling of the vertices.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parts {
    /// Each vertex's part, (V).
    pub of: Vec<usize>,
    /// The number of parts, P.
    pub count: usize,
}

impl Parts {
    /// Parts from triangles' clusters: connected pieces of each; the small ones are left to their neighbours.
    pub fn from_faces(clusters: &[usize], triangles: &[[u32; 3]], topology: &Topology) -> Self {
        let mut piece = vec![usize::MAX; clusters.len()];
        let mut sizes: Vec<usize> = Vec::new();
        for start in 0..clusters.len() {
            if piece[start] != usize::MAX {
                continue;
            }
            let number = sizes.len();
            piece[start] = number;
            let mut stack = vec![start];
            let mut size = 0;
            while let Some(f) = stack.pop() {
                size += 1;
                for &g in topology.face_faces.row(f) {
                    if piece[g] == usize::MAX && clusters[g] == clusters[f] {
                        piece[g] = number;
                        stack.push(g);
                    }
                }
            }
            sizes.push(size);
        }
        // A vertex takes the largest piece around it; vertices of small pieces only are open.
        let smallest = (clusters.len() / 2000).max(2 * SMALLEST_PART);
        let mut of = vec![usize::MAX; topology.vertex_faces.len()];
        for (f, triangle) in triangles.iter().enumerate() {
            for &v in triangle {
                let (old, new) = (of[v as usize], piece[f]);
                if sizes[new] >= smallest && (old == usize::MAX || sizes[new] > sizes[old]) {
                    of[v as usize] = new;
                }
            }
        }
        let mut parts = Self { of, count: sizes.len() };
        parts.flood(topology);
        parts.renumber();
        parts
    }

    /// Gives open vertices the part of a neighbour, ring by ring; a piece of the mesh without any becomes a part.
    fn flood(&mut self, topology: &Topology) {
        let mut front: Vec<usize> = (0..self.of.len()).filter(|&v| self.of[v] != usize::MAX).collect();
        for start in 0..=self.of.len() {
            while !front.is_empty() {
                let mut next = Vec::new();
                for &v in &front {
                    for &u in topology.vertex_vertices.row(v) {
                        if self.of[u] == usize::MAX {
                            self.of[u] = self.of[v];
                            next.push(u);
                        }
                    }
                }
                front = next;
            }
            if start < self.of.len() && self.of[start] == usize::MAX {
                self.of[start] = self.count;
                self.count += 1;
                front.push(start);
            }
        }
    }

    /// Numbers the parts in use from 0, in the order of their first vertex.
    pub fn renumber(&mut self) {
        let mut number = vec![usize::MAX; self.count];
        let mut next = 0;
        for part in &mut self.of {
            if number[*part] == usize::MAX {
                number[*part] = next;
                next += 1;
            }
            *part = number[*part];
        }
        self.count = next;
    }

    /// Whether some part has lost all its vertices.
    fn has_empty(&self) -> bool {
        let mut used = vec![false; self.count];
        self.of.iter().for_each(|&part| used[part] = true);
        used.contains(&false)
    }

    /// The vertices of each part, (P).
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.count];
        self.of.iter().enumerate().for_each(|(v, &part)| members[part].push(v));
        members
    }
}

/// Moves the borders until they settle; returns the parts' motion.
pub(super) fn settle_borders(problem: &Problem, topology: &Topology, parts: &mut Parts) -> Motion {
    parts.renumber();
    let mut cores = parts.members();
    let mut motion = motion_of(problem, &cores);
    for _ in 0..ROUNDS {
        let residuals = Residuals::new(problem, &motion);
        let own: f64 = parts
            .of
            .par_iter()
            .enumerate()
            .map(|(v, &part)| residuals.of(problem, v, part))
            .collect::<Vec<_>>()
            .iter()
            .sum();
        let lambda = BORDER * own / parts.of.len() as f64;
        let changed = move_borders(problem, topology, &residuals, lambda, parts);
        if parts.has_empty() {
            parts.renumber();
            motion = motion_of(problem, &parts.members());
        }
        cores = find_cores(problem, &motion, parts);
        motion = motion_of(problem, &cores);
        if changed * 1000 < parts.of.len() {
            break;
        }
    }
    motion
}

/// One sweep over the vertices in order; how many changed.
fn move_borders(
    problem: &Problem,
    topology: &Topology,
    residuals: &Residuals,
    lambda: f64,
    parts: &mut Parts,
) -> usize {
    let mut changed = 0;
    let mut candidates: Vec<usize> = Vec::new();
    for v in 0..parts.of.len() {
        let around = topology.vertex_vertices.row(v);
        candidates.clear();
        candidates.push(parts.of[v]);
        for &u in around {
            if !candidates.contains(&parts.of[u]) {
                candidates.push(parts.of[u]);
            }
        }
        if candidates.len() == 1 {
            continue;
        }
        let cost = |part: usize| {
            let border = around.iter().filter(|&&u| parts.of[u] != part).count();
            residuals.of(problem, v, part) + lambda * border as f64
        };
        let best = candidates.iter().map(|&part| (part, cost(part))).min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((part, _)) = best.filter(|&(part, _)| part != parts.of[v]) {
            parts.of[v] = part;
            changed += 1;
        }
    }
    changed
}

/// The core of each part, (P): the vertices with the smallest residual under the part's present motion.
pub(super) fn find_cores(problem: &Problem, motion: &Motion, parts: &Parts) -> Vec<Vec<usize>> {
    let residuals = Residuals::new(problem, motion);
    let core = |(part, mut members): (usize, Vec<usize>)| {
        let keep = ((members.len() as f64 * CORE_SHARE).ceil() as usize).max(SMALLEST_PART.min(members.len()));
        let mut ranked: Vec<(f64, usize)> = members.iter().map(|&v| (residuals.of(problem, v, part), v)).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        members = ranked[..keep].iter().map(|&(_, v)| v).collect();
        members.sort_unstable();
        members
    };
    parts.members().into_par_iter().enumerate().map(core).collect()
}

/// The rigid motion of each set of vertices.
pub(super) fn motion_of(problem: &Problem, sets: &[Vec<usize>]) -> Motion {
    let fitted: Vec<Vec<DAffine3>> = sets.par_iter().map(|set| fit_patch(problem, set)).collect();
    let mut motion = Motion::identity(problem.frame_count(), sets.len());
    for (part, frames) in fitted.iter().enumerate() {
        frames.iter().enumerate().for_each(|(e, &t)| motion.set(part, e, t));
    }
    motion
}

/// `‖M_p x̂ − y‖²` for any vertex and part: `x̂ᵀ(MᵀM)x̂ − 2 x̂ᵀMᵀy + yᵀy`.
pub(super) struct Residuals<'a> {
    motion: &'a Motion,
    grams: Vec<[f64; 10]>,
}

impl<'a> Residuals<'a> {
    /// Prepares the parts.
    pub fn new(problem: &Problem, motion: &'a Motion) -> Self {
        debug_assert_eq!(problem.frame_count(), motion.frame_count());
        let gram = |p: usize| {
            PRODUCTS.map(|(i, j)| {
                let column = |k: usize| motion.matrix.col_as_slice(4 * p + k);
                dot(column(i), column(j)) * if i == j { 1.0 } else { 2.0 }
            })
        };
        Self { motion, grams: (0..motion.bone_count()).map(gram).collect() }
    }

    /// The sum over the frames for vertex `v` and part `p`.
    pub fn of(&self, problem: &Problem, v: usize, p: usize) -> f64 {
        let y = problem.targets.col_as_slice(v);
        let linear: f64 = (0..4).map(|k| problem.rest[v][k] * dot(self.motion.matrix.col_as_slice(4 * p + k), y)).sum();
        let quadratic = dot(&self.grams[p], problem.products.col_as_slice(v));
        (quadratic - 2.0 * linear + problem.energy[v]).max(0.0)
    }
}

/// What a set of vertices needs to be fitted rigidly: sets are joined by adding their sums.
#[derive(Debug, Clone)]
struct Sums {
    /// `Σ x̂x̂ᵀ` in the order of [`PRODUCTS`].
    products: [f64; 10],
    /// `Σ y x̂ᵀ`, (4)(3N).
    targets: [Vec<f64>; 4],
    energy: f64,
}

impl Sums {
    fn new(problem: &Problem, members: &[usize]) -> Self {
        let zero = || vec![0.0; problem.targets.nrows()];
        let mut sums = Self { products: [0.0; 10], targets: [zero(), zero(), zero(), zero()], energy: 0.0 };
        for &v in members {
            (0..10).for_each(|k| sums.products[k] += problem.products[(k, v)]);
            for k in 0..4 {
                let x = problem.rest[v][k];
                sums.targets[k].iter_mut().zip(problem.targets.col_as_slice(v)).for_each(|(t, y)| *t += x * y);
            }
            sums.energy += problem.energy[v];
        }
        sums
    }

    fn joined(&self, other: &Self) -> Self {
        let mut sums = self.clone();
        (0..10).for_each(|k| sums.products[k] += other.products[k]);
        for k in 0..4 {
            sums.targets[k].iter_mut().zip(&other.targets[k]).for_each(|(a, b)| *a += b);
        }
        sums.energy += other.energy;
        sums
    }

    /// What the best rigid motion leaves.
    fn error(&self) -> f64 {
        let frames = self.targets[0].len() / 3;
        let mut error = self.energy;
        for e in 0..frames {
            let q = [0, 1, 2, 3].map(|k| DVec3::from_slice(&self.targets[k][3 * e..3 * e + 3]));
            let hint = DAffine3 { matrix3: DMat3::IDENTITY, translation: DVec3::ZERO };
            let t = procrustes(&self.products, &q, hint);
            // tr(T S Tᵀ) − 2 tr(T Qᵀ).
            let columns = [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation];
            for (k, &(i, j)) in PRODUCTS.iter().enumerate() {
                error += self.products[k] * columns[i].dot(columns[j]) * if i == j { 1.0 } else { 2.0 };
            }
            (0..4).for_each(|k| error -= 2.0 * columns[k].dot(q[k]));
        }
        error.max(0.0)
    }
}

/// When merging stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    /// At this many parts.
    Count(usize),
    /// When the cheapest merge costs more than this share of what one rigid piece leaves.
    Share(f64),
}

/// Merges touching parts, the cheapest pair first; a part too small to be one goes at any cost. If a count is asked for and
/// nothing that touches is left, pieces that lie apart are merged too.
pub(super) fn merge(problem: &Problem, topology: &Topology, parts: &mut Parts, until: Until) {
    let members = parts.members();
    let all: Vec<usize> = (0..problem.vertex_count()).collect();
    let limit = match until {
        Until::Count(_) => f64::INFINITY,
        Until::Share(share) => share * Sums::new(problem, &all).error(),
    };
    let fewest = if let Until::Count(count) = until { count } else { 1 };
    let mut sums: Vec<Option<Sums>> = members.par_iter().map(|members| Some(Sums::new(problem, members))).collect();
    let mut errors: Vec<f64> = sums.par_iter().map(|sums| sums.as_ref().map_or(0.0, Sums::error)).collect();
    let mut sizes: Vec<usize> = members.iter().map(Vec::len).collect();
    let mut touching: Vec<(usize, usize)> = Vec::new();
    for v in 0..parts.of.len() {
        for &u in topology.vertex_vertices.row(v) {
            let (a, b) = (parts.of[u], parts.of[v]);
            if a < b {
                touching.push((a, b));
            }
        }
    }
    touching.sort_unstable();
    touching.dedup();
    let cost = |sums: &[Option<Sums>], errors: &[f64], (a, b): (usize, usize)| match (&sums[a], &sums[b]) {
        (Some(one), Some(other)) => one.joined(other).error() - errors[a] - errors[b],
        _ => f64::INFINITY,
    };
    let mut costs: Vec<f64> = touching.par_iter().map(|&pair| cost(&sums, &errors, pair)).collect();
    let mut into: Vec<usize> = (0..parts.count).collect();
    let mut left = parts.count;
    while left > fewest {
        let urgent = |(a, b): (usize, usize)| sizes[a].min(sizes[b]) < SMALLEST_PART;
        let pick = (0..touching.len())
            .min_by(|&i, &j| urgent(touching[j]).cmp(&urgent(touching[i])).then(costs[i].total_cmp(&costs[j])));
        if pick.is_none() && matches!(until, Until::Count(_)) {
            let there: Vec<usize> = (0..sums.len()).filter(|&p| sums[p].is_some()).collect();
            touching =
                there.iter().flat_map(|&a| there.iter().filter(move |&&b| a < b).map(move |&b| (a, b))).collect();
            costs = touching.par_iter().map(|&pair| cost(&sums, &errors, pair)).collect();
            continue;
        }
        let Some(pick) = pick.filter(|&i| costs[i] <= limit || urgent(touching[i])) else { break };
        let (a, b) = touching[pick];
        let (Some(one), Some(other)) = (sums[a].take(), sums[b].take()) else { break };
        let joined = one.joined(&other);
        errors[a] = joined.error();
        sums[a] = Some(joined);
        sizes[a] += sizes[b];
        into[b] = a;
        left -= 1;
        // The pairs of b are now pairs of a.
        let old = std::mem::take(&mut touching);
        let mut kept: Vec<((usize, usize), f64)> = Vec::with_capacity(old.len());
        for (&(p, q), &c) in old.iter().zip(&costs) {
            let (p2, q2) = (if p == b { a } else { p }, if q == b { a } else { q });
            if p2 != q2 {
                let touched = p2 == a || q2 == a;
                kept.push(((p2.min(q2), p2.max(q2)), if touched { f64::NAN } else { c }));
            }
        }
        kept.sort_by_key(|entry| entry.0);
        kept.dedup_by_key(|entry| entry.0);
        touching = kept.iter().map(|entry| entry.0).collect();
        costs = kept.par_iter().map(|&(pair, c)| if c.is_nan() { cost(&sums, &errors, pair) } else { c }).collect();
    }
    let root = |mut p: usize| {
        while into[p] != p {
            p = into[p];
        }
        p
    };
    parts.of.iter_mut().for_each(|part| *part = root(*part));
    parts.renumber();
}

/// Splits the part with the largest error in two, again and again, until there are `count`; fewer if no split lowers a
/// part's error by [`SPLIT_GAIN`].
pub(super) fn split_to(problem: &Problem, topology: &Topology, parts: &mut Parts, count: usize) {
    // Parts that no split helps, by their first vertex and size.
    let mut whole: Vec<(usize, usize)> = Vec::new();
    while parts.count < count {
        let members = parts.members();
        let errors: Vec<f64> = members.par_iter().map(|members| Sums::new(problem, members).error()).collect();
        let name = |p: usize| (members[p][0], members[p].len());
        let may = |&p: &usize| members[p].len() >= 4 * SMALLEST_PART && !whole.contains(&name(p));
        let Some(worst) = (0..parts.count).filter(may).max_by(|&a, &b| errors[a].total_cmp(&errors[b])) else { return };
        let exact = problem.resolution.powi(2) * (3 * problem.frame_count() * members[worst].len()) as f64;
        let halves = halves(problem, &members[worst]);
        let after: f64 = halves.iter().map(|half| Sums::new(problem, half).error()).sum();
        if errors[worst] <= exact || after > (1.0 - SPLIT_GAIN) * errors[worst] {
            whole.push(name(worst));
            continue;
        }
        let before = parts.count;
        halves[1].iter().for_each(|&v| parts.of[v] = before);
        parts.count += 1;
        settle_borders(problem, topology, parts);
        if parts.count <= before {
            return;
        }
    }
}

/// The vertices on either side of the middle of the longest of three directions, whichever leaves least error.
fn halves(problem: &Problem, members: &[usize]) -> [Vec<usize>; 2] {
    let cut = |axis: usize| {
        let mut order = members.to_vec();
        order.sort_by(|&a, &b| problem.rest[a][axis].total_cmp(&problem.rest[b][axis]).then(a.cmp(&b)));
        let mut second = order.split_off(order.len() / 2);
        order.sort_unstable();
        second.sort_unstable();
        let error = Sums::new(problem, &order).error() + Sums::new(problem, &second).error();
        (error, [order, second])
    };
    let cuts: Vec<(f64, [Vec<usize>; 2])> = (0..3).into_par_iter().map(cut).collect();
    let best = cuts.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(|| [members.to_vec(), Vec::new()], |cut| cut.1)
}
