//! To which predictions the drawing weights are fitted (after Wolpert, "Stacked generalization", 1992).
//!
//! The weights α combine proxies and bones. Fitted to what the predictors give at their own training poses they trust a
//! proxy as far as it repeats what it has seen; fitted to predictions of each pose from the others,
//!
//!   minimise over α:  Σ_e a_e ‖ Σ_p α_vp T_p^{(−e)} v̂ + Σ_b α_vb T_b^e v̂ − y_v^e ‖²,
//!
//! T^{(−e)} from predictors that have not seen pose e, as far as it foresees, and rest on bones where it does not. The
//! latter is better when poses to come lie far from the examples, the former when these are among them, or so few that
//! none can be spared. The training poses decide: halves of them predict the other halves, with weights of either kind.
//! A half is far from what it predicts, which leaving out one pose is not. With many poses both are the same.

use glam::{DAffine3, DMat3};
use rayon::prelude::*;

use super::choose::{FOLD_STEPS, fit_predictors};
use super::key_gradients::KeyGradients;
use super::predictor::{Predictor, PredictorParams};
use super::refine::{self, Quadratic, RefineParams};
use super::weights::{drawn_by, solve_vertex};
use super::{Prepared, RrFit};
use crate::Training;
use crate::cross_validation::{Fold, LEAVE_ONE_OUT_LIMIT, folds, together};
use crate::solve::simplex;

/// Fewer poses than this have halves of two, which cannot leave one out and still tell how a joint turns.
const FEWEST: usize = 7;

/// Vertices whose errors are compared: as many as tell two kinds of weights apart, whatever the size of the mesh.
const SAMPLE: usize = 3000;

/// What a fold needs to predict poses.
pub(super) struct Stack<'a> {
    pub training: &'a Training,
    pub prepared: &'a Prepared,
    pub fit: &'a RrFit,
    pub keys: &'a KeyGradients,
    pub quadratic: &'a Quadratic,
    pub predictor: PredictorParams,
    pub refinement: RefineParams,
}

impl Stack<'_> {
    /// The proxies' transforms in each of `poses`, (poses)(P), predicted from the others of them; `None` if there are too
    /// few.
    pub(super) fn left_out(&self, poses: &[usize]) -> Option<Vec<Vec<DAffine3>>> {
        let folds = folds(&poses.iter().map(|&e| self.training.sources[e]).collect::<Vec<_>>());
        let one = |fold: &Fold| -> Vec<(usize, Vec<DAffine3>)> {
            let seen: Vec<usize> = fold.fit.iter().map(|&k| poses[k]).collect();
            let predictors = self.predictors(&seen);
            fold.held_out.iter().map(|&k| (k, self.transforms(&predictors, poses[k]))).collect()
        };
        let parts: Vec<_> = folds.par_iter().map(one).collect();
        let mut all = vec![Vec::new(); poses.len()];
        parts.into_iter().flatten().for_each(|(k, transforms)| all[k] = transforms);
        (!folds.is_empty()).then_some(all)
    }

    /// Whether weights fitted to left-out predictions draw the other half of the poses better.
    pub(super) fn helps(&self) -> bool {
        let examples = together(&self.training.sources);
        if !(FEWEST..=LEAVE_ONE_OUT_LIMIT).contains(&examples.len()) {
            return false;
        }
        let errors: Vec<[f64; 2]> = halves(&examples).par_iter().map(|half| self.errors(half)).collect();
        let sum = |kind: usize| errors.iter().map(|pair| pair[kind]).sum::<f64>();
        sum(1) < sum(0)
    }

    /// The squared error on a half's held-out poses with weights fitted to the predictors' own poses, and to left-out ones.
    fn errors(&self, half: &Fold) -> [f64; 2] {
        let predictors = self.predictors(&half.fit);
        let predict = |poses: &[usize]| poses.iter().map(|&e| self.transforms(&predictors, e)).collect::<Vec<_>>();
        let (seen, unseen) = (self.training.subset(&half.fit), self.training.subset(&half.held_out));
        let target = predict(&half.held_out);
        let own = predict(&half.fit);
        let left_out = self.left_out(&half.fit).unwrap_or_else(|| own.clone());
        let step = self.training.vertex_count().div_ceil(SAMPLE);
        let vertices: Vec<usize> = (0..self.training.vertex_count()).step_by(step).collect();
        let influences = self.fit.weights.vertices.iter().map(Vec::len).max().unwrap_or(1);
        let error = |transforms: &Vec<Vec<DAffine3>>| {
            let of_vertex = |workspace: &mut simplex::Workspace, &v: &usize| {
                let weights =
                    solve_vertex(&seen, &self.fit.palette.candidates[v], transforms, influences, v, workspace);
                let squared =
                    |e: usize| drawn_by(&unseen, &weights, &target, e, v).distance_squared(unseen.vertices[e][v]);
                (0..unseen.pose_count()).map(|e| unseen.pose_weights[e] * squared(e)).sum::<f64>()
            };
            let errors: Vec<f64> = vertices.par_iter().map_init(simplex::Workspace::default, of_vertex).collect();
            errors.iter().sum()
        };
        [error(&own), error(&left_out)]
    }

    /// Predictors that have seen `poses` alone.
    fn predictors(&self, poses: &[usize]) -> Vec<Predictor> {
        let weight = |e: usize| if poses.contains(&e) { self.training.pose_weights[e] } else { 0.0 };
        let weights: Vec<f64> = (0..self.training.pose_count()).map(weight).collect();
        let (joints, homes) = (&self.prepared.joints, &self.fit.palette.home_bones);
        let mut predictors =
            fit_predictors(self.training, joints, &self.keys.gradients, homes, &weights, self.predictor);
        let mut refinement = self.refinement.clone();
        refinement.lbfgs.iterations = refinement.lbfgs.iterations.min(FOLD_STEPS);
        refine::refine(joints, self.quadratic, &mut predictors, &weights, &refinement);
        predictors
    }

    fn transforms(&self, predictors: &[Predictor], e: usize) -> Vec<DAffine3> {
        let d: Vec<DMat3> = refine::key_gradients(&self.prepared.joints, predictors, e);
        self.fit.reduction.transforms(&self.fit.palette.centres, &d, &self.training.transforms[e])
    }
}

/// Halves of the examples, each with its poses, both ways: every other one, alternating quarters, the first and the second
/// half.
fn halves(examples: &[Vec<usize>]) -> Vec<Fold> {
    let count = examples.len();
    let runs = [1, count.div_ceil(4), count.div_ceil(2)];
    let poses = |chosen: &dyn Fn(usize) -> bool| {
        (0..count).filter(|&k| chosen(k)).flat_map(|k| examples[k].iter().copied()).collect::<Vec<_>>()
    };
    let fold = |run: usize, side: usize| Fold {
        fit: poses(&|k| k / run % 2 != side),
        held_out: poses(&|k| k / run % 2 == side),
    };
    runs.iter().flat_map(|&run| [fold(run, 0), fold(run, 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pose_is_predicted_in_each_way_of_halving() {
        for poses in FEWEST..=LEAVE_ONE_OUT_LIMIT {
            let halves = halves(&(0..poses).map(|e| vec![e]).collect::<Vec<_>>());
            for pair in halves.chunks_exact(2) {
                let mut all: Vec<usize> = pair.iter().flat_map(|half| half.held_out.clone()).collect();
                all.sort_unstable();
                assert_eq!(all, (0..poses).collect::<Vec<_>>());
                assert!(pair.iter().all(|half| half.fit.len() > 2), "{poses}: {pair:?}");
            }
        }
    }
}
