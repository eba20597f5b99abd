//! The alternation of weight and transform steps, and the adding of bones in between.

use super::problem::{Motion, Problem, Weights};
use super::seeds::Seeds;
use super::transforms::{Statistics, solve_affine, solve_rigid};
use super::weights::{self, Search};
use super::{BoneKind, DecomposeParams};
use crate::Progress;
use crate::report::Iterations;

/// Iterations a round; the first one of a round searches all bones for every vertex, the others only swap.
const ROUND: usize = 4;

/// Candidate bones; more hardly change the result (96 against 192 on the horse: below one percent).
const CANDIDATES: usize = 96;

/// A candidate's patch is one in so many vertices: large enough for a steady rotation, small enough to be one rigid piece.
const PATCH_SHARE: usize = 100;

/// Patches have at least this many vertices: with fewer the rotation follows noise.
const SMALLEST_PATCH: usize = 12;

/// A mesh drawn to this rms (of the diagonal) needs no further bone: f32 coordinates are hardly finer.
const EXACT: f64 = 1e-6;

/// Of the candidates in order of promise, how many are tried before giving up.
const TRIALS: usize = 3;

/// Whether all bones could be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grown {
    /// All of them.
    All,
    /// No more than these make a difference.
    Enough {
        /// Bones that did.
        bones: usize,
    },
}

/// Bones and weights on their way.
pub(super) struct Alternation<'a> {
    problem: &'a Problem,
    params: &'a DecomposeParams,
    /// The bones' motion.
    pub motion: Motion,
    /// The weights.
    pub weights: Weights,
    /// Each vertex's sum of squares after the last weight step, (V).
    errors: Vec<f64>,
    /// The sum of squares after the last step.
    error: f64,
    locked_bones: Vec<bool>,
    locked_vertices: Option<&'a [bool]>,
    /// The error as each bone was added.
    pub growth: Vec<f64>,
}

impl<'a> Alternation<'a> {
    /// Starts from a motion; without weights they are solved for.
    pub fn new(
        problem: &'a Problem,
        motion: Motion,
        given: Option<Weights>,
        locked_bones: Vec<bool>,
        locked_vertices: &'a [bool],
        params: &'a DecomposeParams,
    ) -> Self {
        let locked_vertices = (!locked_vertices.is_empty()).then_some(locked_vertices);
        let solved =
            weights::solve(problem, &motion, given.as_ref(), params.influences, Search::Whole, locked_vertices);
        let error = solved.total();
        let mut alternation = Self {
            problem,
            params,
            motion,
            weights: solved.weights,
            errors: solved.errors,
            error,
            locked_bones,
            locked_vertices,
            growth: Vec::new(),
        };
        if let Some(given) = given {
            // Bones that come with weights but without motion take it from the weights.
            alternation.weights = given;
            alternation.transform_step();
            alternation.weight_step(Search::Whole);
        }
        alternation
    }

    /// The number of bones, B.
    pub fn bone_count(&self) -> usize {
        self.motion.bone_count()
    }

    /// The error in the usual measure.
    pub fn e_rms(&self) -> f64 {
        self.problem.e_rms(self.error)
    }

    /// Adds bones up to `bones`.
    pub fn grow(&mut self, bones: usize, progress: &dyn Progress) -> Grown {
        if self.bone_count() >= bones || self.locked_vertices.is_some_and(|locked| locked.iter().all(|&l| l)) {
            return Grown::All;
        }
        let size = (self.problem.vertex_count() / PATCH_SHARE).max(SMALLEST_PATCH);
        let seeds = Seeds::new(self.problem, CANDIDATES.max(2 * bones), size);
        while self.bone_count() < bones {
            if self.is_exact() || !self.add_bone(&seeds) {
                return Grown::Enough { bones: self.bone_count() };
            }
            self.growth.push(self.e_rms());
            progress.step();
        }
        Grown::All
    }

    /// Whether the mesh is drawn as finely as f32 can say.
    fn is_exact(&self) -> bool {
        let numbers = self.problem.targets.nrows() * self.problem.vertex_count();
        let exact = EXACT.max(self.problem.resolution);
        self.error <= exact * exact * numbers as f64
    }

    /// Adds the most promising candidate and alternates; false (and nothing changed) if none of the best few pays.
    fn add_bone(&mut self, seeds: &Seeds) -> bool {
        let promises = seeds.promises(self.problem, &self.motion, &self.weights);
        let mut order: Vec<usize> = (0..promises.len()).filter(|&c| promises[c] > 0.0).collect();
        order.sort_by(|&a, &b| promises[b].total_cmp(&promises[a]).then(a.cmp(&b)));
        for &candidate in order.iter().take(TRIALS) {
            let before = (self.motion.clone(), self.weights.clone(), self.errors.clone(), self.error);
            self.motion = self.motion.with(&seeds.motion, candidate);
            self.locked_bones.push(false);
            self.weight_step(Search::Whole);
            self.transform_step();
            self.weight_step(Search::Near);
            let pays = self.pays(&before.2);
            self.transform_step();
            if pays {
                return true;
            }
            (self.motion, self.weights, self.errors, self.error) = before;
            self.locked_bones.pop();
        }
        false
    }

    /// Whether the newest bone does more than follow noise. Each vertex has 3N equations; one more free weight takes away
    /// a 3N-th of pure noise, and choosing among bones about as much again. The vertices that use the bone must gain
    /// more than twice that.
    fn pays(&self, before: &[f64]) -> bool {
        let newest = (self.bone_count() - 1) as u32;
        let uses = |v: &usize| self.weights.of(*v).iter().any(|&(b, _)| b == newest);
        let (mut old, mut new) = (0.0, 0.0);
        for v in (0..before.len()).filter(uses) {
            old += before[v];
            new += self.errors[v];
        }
        old - new > old * (4.0 / (3 * self.problem.frame_count()) as f64).min(0.5)
    }

    /// Alternates until the error no longer falls.
    pub fn refine(&mut self, progress: &dyn Progress) -> Iterations {
        let mut residuals = Vec::new();
        let mut idle = 0;
        let mut last = f64::INFINITY;
        let stopped = loop {
            if residuals.len() >= self.params.max_iterations {
                break "the largest number of iterations";
            }
            let search = if residuals.len() % ROUND == 0 { Search::Whole } else { Search::Near };
            self.transform_step();
            self.weight_step(search);
            progress.step();
            residuals.push(self.e_rms());
            if self.is_exact() {
                break "the mesh is drawn exactly";
            }
            if residuals.len() % ROUND == 0 {
                let fell = self.e_rms() < last * (1.0 - self.params.tolerance);
                idle = if fell { 0 } else { idle + 1 };
                last = self.e_rms();
                if idle >= self.params.patience {
                    break "the error no longer falls";
                }
            }
        };
        Iterations { name: "bones and weights".into(), residuals, stopped }
    }

    /// Takes away bones that no vertex uses, and says so.
    pub fn drop_idle_bones(&mut self) -> Option<String> {
        let mut used = self.locked_bones.clone();
        for &(b, w) in &self.weights.entries {
            used[b as usize] |= w > 0.0;
        }
        let gone: Vec<usize> = (0..used.len()).filter(|&b| !used[b]).collect();
        if gone.is_empty() {
            return None;
        }
        let mut place = vec![0_u32; used.len()];
        let mut next = 0;
        for b in 0..used.len() {
            place[b] = next;
            next += u32::from(used[b]);
        }
        self.motion = self.motion.without(&gone);
        self.weights
            .entries
            .iter_mut()
            .filter(|entry| entry.1 > 0.0)
            .for_each(|entry| entry.0 = place[entry.0 as usize]);
        self.locked_bones = (0..used.len()).filter(|&b| used[b]).map(|b| self.locked_bones[b]).collect();
        Some(format!("{} bones were left without a vertex and taken away", gone.len()))
    }

    fn weight_step(&mut self, search: Search) {
        let most = self.params.influences;
        let solved =
            weights::solve(self.problem, &self.motion, Some(&self.weights), most, search, self.locked_vertices);
        self.error = solved.total();
        (self.weights, self.errors) = (solved.weights, solved.errors);
    }

    fn transform_step(&mut self) {
        let statistics = Statistics::gather(self.problem, &self.weights, self.bone_count());
        match self.params.kind {
            BoneKind::Affine => solve_affine(&statistics, &mut self.motion, &self.locked_bones),
            // One sweep brings a new bone near, one step of all together does the rest; more is no faster.
            BoneKind::Rigid => solve_rigid(&statistics, &mut self.motion, &self.locked_bones, 1, 1),
        }
        self.error = statistics.error(&self.motion);
    }
}
