//! What the training poses themselves decide, by predicting each pose from the others: the refinement's ridge, and the
//! number of proxy bones.
//!
//! The proxies, their weights, c₁ and c₂ are kept; the predictors are fitted and refined anew without the poses of a fold
//! and predict them. What is chosen here is regression from pose to proxies, and that is what this measures. Vertices are
//! linear in the key gradients, so that a fold costs nothing with the mesh.

use glam::DMat3;
use rayon::prelude::*;

use super::after_correction::Emulation;
use super::predictor::{self, Predictor, PredictorParams};
use super::refine::{self, Quadratic, RefineParams};
use crate::Training;
use crate::cross_validation::{folds, least};
use crate::geometry::JointRotations;

/// The ridges tried, the default first: it is taken when there are too few poses to tell.
const RIDGES: [f64; 3] = [10.0, 1.0, 100.0];

/// The ridges tried for a model that will be corrected: what a stronger one leaves over, the correction may predict.
const RIDGES_BEFORE_CORRECTION: [f64; 4] = [10.0, 1.0, 30.0, 100.0];

/// Steps of refinement in a fold: the order of the ridges shows long before convergence.
pub(super) const FOLD_STEPS: usize = 60;

/// The ridge that predicts left-out poses best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RidgeChoice {
    /// λ of the refinement.
    pub ridge: f64,
    /// The summed squared error of the left-out poses with it; `None` if there were too few poses to leave one out.
    pub squared_error: Option<f64>,
    /// The same after an emulated correction; `None` if none is to follow.
    pub corrected: Option<f64>,
    /// Ridges whose corrected model may do better than left-out poses say: the next best there after an emulated
    /// correction, and the best without one.
    pub rivals: [Option<Rival>; 2],
    /// Whether the drawing weights are to be fitted to predictions of left-out poses ([`super::stack`]).
    pub stacked: bool,
}

/// A ridge that was not chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rival {
    ridge: f64,
    squared_error: f64,
    corrected: f64,
}

impl RidgeChoice {
    /// The rivals, each as if it had been chosen.
    pub fn instead(self) -> impl Iterator<Item = Self> {
        let choice = move |rival: Rival| Self {
            ridge: rival.ridge,
            squared_error: Some(rival.squared_error),
            corrected: Some(rival.corrected),
            rivals: [None; 2],
            stacked: self.stacked,
        };
        self.rivals.into_iter().flatten().map(choice)
    }
}

/// Chooses the refinement's ridge; `keys` (N)(P) are the key gradients, `home_bones` (P) the proxies' home bones.
#[must_use]
pub fn refinement_ridge(
    training: &Training,
    joints: &JointRotations,
    keys: &[Vec<DMat3>],
    home_bones: &[usize],
    quadratic: &Quadratic,
    predictor: PredictorParams,
    params: &RefineParams,
    to_be_corrected: bool,
) -> RidgeChoice {
    let folds = folds(&training.sources);
    if folds.is_empty() || home_bones.is_empty() {
        let ridge = params.ridge.unwrap_or(RIDGES[0]);
        return RidgeChoice { ridge, squared_error: None, corrected: None, rivals: [None; 2], stacked: false };
    }
    let tried = if to_be_corrected { &RIDGES_BEFORE_CORRECTION[..] } else { &RIDGES[..] };
    let ridges: Vec<f64> = params.ridge.map_or(tried.to_vec(), |ridge| vec![ridge]);
    let emulation = to_be_corrected.then(|| Emulation::new(training, joints, quadratic, home_bones));
    let errors: Vec<Vec<(f64, f64)>> = folds
        .par_iter()
        .map(|fold| {
            let only = |poses: &[usize]| -> Vec<f64> {
                let weight = |e: usize| if poses.contains(&e) { training.pose_weights[e] } else { 0.0 };
                (0..training.pose_count()).map(weight).collect()
            };
            let (fitted, held_out) = (only(&fold.fit), only(&fold.held_out));
            let start = fit_predictors(training, joints, keys, home_bones, &fitted, predictor);
            let error = |&ridge: &f64| {
                let mut predictors = start.clone();
                let mut lbfgs = params.lbfgs.clone();
                lbfgs.iterations = lbfgs.iterations.min(FOLD_STEPS);
                let params = RefineParams { ridge: Some(ridge), lbfgs };
                refine::refine(joints, quadratic, &mut predictors, &fitted, &params);
                let mut gradients: Vec<Vec<DMat3>> =
                    (0..training.pose_count()).map(|e| refine::key_gradients(joints, &predictors, e)).collect();
                let plain = refine::error_of(quadratic, &gradients, &held_out);
                let Some(emulation) = &emulation else { return (plain, plain) };
                emulation.correct(&mut gradients, &fold.fit, &fold.held_out);
                (plain, refine::error_of(quadratic, &gradients, &held_out))
            };
            ridges.iter().map(error).collect()
        })
        .collect();
    let sum = |k: usize, part: fn(&(f64, f64)) -> f64| errors.iter().map(|fold| part(&fold[k])).sum::<f64>();
    let judged: Vec<f64> = (0..ridges.len()).map(|k| sum(k, |error| error.1)).collect();
    let best = least(&judged);
    // Only the ridges that a fit without a correction would try; NaN is never least.
    let tried_plain = |k: usize| params.ridge.is_some() || RIDGES.contains(&ridges[k]);
    let plain: Vec<f64> =
        (0..ridges.len()).map(|k| if tried_plain(k) { sum(k, |error| error.0) } else { f64::NAN }).collect();
    let next: Vec<f64> = (0..ridges.len()).map(|k| if k == best { f64::NAN } else { judged[k] }).collect();
    let (next, unaided) = (least(&next), least(&plain));
    let rival = |k: usize| Rival { ridge: ridges[k], squared_error: sum(k, |error| error.0), corrected: judged[k] };
    let worth_a_try = |k: usize| (to_be_corrected && k != best).then(|| rival(k));
    RidgeChoice {
        ridge: ridges[best],
        squared_error: Some(sum(best, |error| error.0)),
        corrected: to_be_corrected.then_some(judged[best]),
        rivals: [worth_a_try(next), worth_a_try(unaided).filter(|_| unaided != next)],
        stacked: false,
    }
}

/// A predictor for each key gradient sequence, over poses that count as `weights` say.
#[must_use]
pub fn fit_predictors(
    training: &Training,
    joints: &JointRotations,
    keys: &[Vec<DMat3>],
    home_bones: &[usize],
    weights: &[f64],
    predictor: PredictorParams,
) -> Vec<Predictor> {
    let fit = |p: usize| {
        let sequence: Vec<DMat3> = keys.iter().map(|pose| pose[p]).collect();
        predictor::fit(training, joints, &sequence, weights, home_bones[p], predictor)
    };
    (0..home_bones.len()).into_par_iter().map(fit).collect()
}
