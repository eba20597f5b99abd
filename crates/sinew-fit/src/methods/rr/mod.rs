//! Rotational regression enveloping (Wang, Pulli and Popović, "Real-time enveloping with rotational regression", 2007,
//! and Wang's thesis of the same title), reduced to proxy bones and refined end to end.
//!
//! A pose becomes vertices in three steps: predictors turn joint rotations into P key gradients d(q) ([`predictor`],
//! [`scale_shear`]); `t = c₁ d + c₂ q` turns them and the bones into the transforms of P proxy bones ([`reduce`]); the
//! palette of proxy bones and bones draws the vertices ([`weights`]). Which proxies there are is settled by clustering
//! ([`cluster`]), what the key gradients are by [`key_gradients`]; [`refine`] fits the predictors to the vertices they
//! end up drawing; [`prune`] leaves out what does not matter. Without refinement it is the thesis's form. [`full`] is the
//! model without reduction.

pub mod after_correction;
pub mod choose;
pub mod cluster;
pub mod describe;
pub mod full;
pub mod key_gradients;
pub mod mean_shift;
pub mod near_rigid;
pub mod poisson;
pub mod predictor;
pub mod prune;
pub mod reduce;
pub mod refine;
pub mod scale_shear;
mod stack;
#[cfg(test)]
mod tests;
pub mod thin;
pub mod weights;

use glam::{DAffine3, DMat3};

use crate::geometry::JointRotations;
use crate::geometry::gradient::RestTriangles;
use crate::methods::ssd::SparseWeights;
use crate::report::Iterations;
use crate::{FitError, FitReport, Progress, Training};
use choose::RidgeChoice;
use key_gradients::KeyGradients;
use near_rigid::{NearRigid, NearRigidParams};
use predictor::{Predictor, PredictorForm, PredictorParams};
use prune::MadeUpBy;
use reduce::Reduction;
use refine::{Quadratic, RefineParams};
use stack::Stack;
use weights::Palette;

/// Turns of weights and transforms after clustering; the error has settled by then.
const DRAWING_TURNS: usize = 4;

/// Rounds of refinement, each followed by new weights.
const REFINE_ROUNDS: usize = 2;

/// The numbers of proxy bones that are tried when none is asked for, or an error: each half as many again.
const LADDER: [usize; 7] = [16, 24, 36, 54, 80, 120, 180];

/// The number of proxy bones at which the error on left-out poses is measured before the number is chosen.
const TRIAL_SIZE: usize = 36;

/// Up to this many proxy bones the refinement's ridge is chosen anew once their number is; beyond, that of the trial size
/// serves, for choosing takes time with the square of their number.
const CHOSEN_ANEW: usize = 80;

/// More proxy bones no longer help when the error that even the best transforms would leave is this part of the squared
/// error on left-out poses: a fifth of it in rms, and less than half of what unseen poses between the examples show.
const WORTHWHILE: f64 = 0.04;

/// Vertices a proxy bone at least, when the number is chosen: predicting a proxy costs about as much as skinning this many
/// vertices, so that fewer would make prediction the larger part of a frame.
const VERTICES_PER_PROXY: usize = 30;

/// How groups of vertices are found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Clustering {
    /// Greedy joins from single vertices.
    #[default]
    Greedy,
    /// Greedy joins from mean-shift groups with this bandwidth, radians a pose.
    MeanShift(f64),
}

/// How rotational regression is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct RrParams {
    /// The number of proxy bones, 1 to 10,000; `None` chooses it.
    pub proxy_bones: Option<usize>,
    /// Take as few proxy bones as bring the training error under this, rms as a fraction of the diagonal. `proxy_bones`
    /// goes first.
    pub error: Option<f64>,
    /// Palette entries a vertex at most, 1 to 16.
    pub influences: usize,
    /// How the near-rigid vertices are chosen.
    pub near_rigid: NearRigidParams,
    /// The form of the rotation predictors. With refinement `Auto` is the paper's form, for the refinement frees the
    /// matrix anyway and does better from there.
    pub predictor: PredictorForm,
    /// How groups of vertices are found.
    pub clustering: Clustering,
    /// What leaving out blocks of c₁ and c₂ may move a proxy's vertices by, rms over the training poses, as a part of the
    /// rms error before refinement; the refinement follows and makes up for most of it. More before a
    /// refinement where c₁ and c₂ would otherwise cost too much of a frame, see [`prune::affordable`]. 0 leaves out nothing.
    pub prune: f64,
    /// The end-to-end refinement; `None` leaves it out, as in the thesis.
    pub refine: Option<RefineParams>,
    /// Whether a correction follows: the refinement's ridge is then the one that is best with it.
    pub to_be_corrected: bool,
    /// The refinement's ridge and what left-out poses say of it, if that is known already. It belongs to a number of proxy
    /// bones, so it counts only together with `proxy_bones`.
    pub chosen: Option<RidgeChoice>,
}

impl Default for RrParams {
    fn default() -> Self {
        Self {
            proxy_bones: None,
            error: None,
            influences: 4,
            near_rigid: NearRigidParams::default(),
            predictor: PredictorForm::default(),
            clustering: Clustering::default(),
            prune: 0.05,
            refine: Some(RefineParams::default()),
            to_be_corrected: false,
            chosen: None,
        }
    }
}

/// A fitted model in f64.
#[derive(Debug, Clone)]
pub struct RrFit {
    /// The proxies' centres, home bones and candidates.
    pub palette: Palette,
    /// The predictors of the key gradients, (P).
    pub predictors: Vec<Predictor>,
    /// c₁ and c₂.
    pub reduction: Reduction,
    /// Weights over the palette.
    pub weights: SparseWeights,
    /// Joint rotations of the training.
    pub joints: JointRotations,
}

impl RrParams {
    fn predictor_params(&self) -> PredictorParams {
        let refined = self.refine.is_some();
        match self.predictor {
            PredictorForm::Auto if refined => PredictorParams { form: PredictorForm::Offset, refined },
            form => PredictorParams { form, refined },
        }
    }
}

impl RrFit {
    /// The proxies' transforms in training pose `e`, (P).
    #[must_use]
    pub fn transforms(&self, training: &Training, e: usize) -> Vec<DAffine3> {
        let d = refine::key_gradients(&self.joints, &self.predictors, e);
        self.reduction.transforms(&self.palette.centres, &d, &training.transforms[e])
    }

    /// The proxies' transforms in every training pose, (N)(P).
    #[must_use]
    pub fn all_transforms(&self, training: &Training) -> Vec<Vec<DAffine3>> {
        (0..training.pose_count()).map(|e| self.transforms(training, e)).collect()
    }

    /// The weighted squared error over the training poses.
    #[must_use]
    pub fn error(&self, training: &Training) -> f64 {
        weights::drawing_error(training, &self.weights, &self.all_transforms(training))
    }
}

/// Fits the reduced model; `skin` are linear blend skinning's weights.
pub fn fit(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    report: &mut FitReport,
    progress: &dyn Progress,
) -> Result<RrFit, FitError> {
    check(params)?;
    // The library would split products over threads; parallel over poses and vertices is enough, and in one order.
    progress.stage("clustering", 0);
    let prepared = prepare(training, skin, params);
    let (fit, choice) = match (params.proxy_bones, params.error) {
        (Some(proxies), _) => fit_size(training, skin, params, &prepared, proxies, params.chosen, report, progress),
        (None, Some(error)) => fit_to_error(training, skin, params, &prepared, error, report, progress),
        (None, None) => {
            progress.stage("number of proxy bones", 0);
            let (proxies, ridge) = choose_size(training, skin, params, &prepared);
            let ridge = ridge.filter(|_| proxies == TRIAL_SIZE || proxies > CHOSEN_ANEW);
            fit_size(training, skin, params, &prepared, proxies, ridge, report, progress)
        }
    };
    let held_out = choice.and_then(|choice| choice.squared_error);
    report.left_out_corrected = choice.and_then(|choice| choice.corrected);
    report.rival_ridges = choice.into_iter().flat_map(RidgeChoice::instead).collect();
    describe::describe(training, skin, &prepared, &fit, held_out, report);
    Ok(fit)
}

fn check(params: &RrParams) -> Result<(), FitError> {
    let refuse = |name, value: String, range| Err(FitError::Parameter { name, value, range });
    if let Some(proxies) = params.proxy_bones.filter(|proxies| !(1..=10_000).contains(proxies)) {
        return refuse("proxy-bones", proxies.to_string(), "1 to 10,000");
    }
    if let Some(error) = params.error.filter(|error| !(*error > 0.0 && error.is_finite())) {
        return refuse("error", error.to_string(), "above 0 %");
    }
    if !(1..=16).contains(&params.influences) {
        return refuse("influences", params.influences.to_string(), "1 to 16");
    }
    match params.clustering {
        Clustering::MeanShift(bandwidth) if !(bandwidth > 0.0 && bandwidth.is_finite()) => {
            refuse("bandwidth", bandwidth.to_string(), "above 0 radians")
        }
        _ => Ok(()),
    }
}

/// What does not depend on the number of proxies.
pub(crate) struct Prepared {
    triangles: RestTriangles,
    joints: JointRotations,
    near_rigid: NearRigid,
    normals: cluster::Normals,
    joins: cluster::Joins,
    sequences: Vec<Vec<DMat3>>,
}

fn prepare(training: &Training, skin: &SparseWeights, params: &RrParams) -> Prepared {
    let triangles = RestTriangles::new(&training.rest, training.mesh.triangles());
    let topology = triangles.topology();
    let normals = cluster::Normals::new(training, topology);
    let sequences = triangles.sequences(&training.vertices);
    let given = match params.clustering {
        Clustering::Greedy => None,
        Clustering::MeanShift(bandwidth) => Some(mean_shift::groups(topology, &sequences, bandwidth)),
    };
    Prepared {
        joints: JointRotations::new(training),
        near_rigid: near_rigid::choose(training, skin, &params.near_rigid),
        joins: cluster::join_greedily(training, topology, skin, &normals, given.as_deref()),
        sequences,
        normals,
        triangles,
    }
}

/// The proxies of one size, with the weights and transforms that draw the training meshes best.
struct Drawing {
    palette: Palette,
    weights: SparseWeights,
    transforms: Vec<Vec<DAffine3>>,
}

fn draw(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    prepared: &Prepared,
    proxies: usize,
    turns: usize,
) -> Drawing {
    let partition = prepared.joins.partition(proxies);
    let palette = Palette::new(training, prepared.triangles.topology(), skin, &partition);
    let mut transforms = weights::first_transforms(training, &palette, &partition, &prepared.normals);
    let mut drawing = weights::solve_weights(training, &palette.candidates, &transforms, params.influences);
    for _ in 0..turns {
        transforms = weights::solve_transforms(training, &palette, &drawing, &prepared.normals, &transforms);
        drawing = weights::solve_weights(training, &palette.candidates, &transforms, params.influences);
    }
    Drawing { palette, weights: drawing, transforms }
}

/// The thesis's model of one size, and what its refinement needs.
fn unrefined(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    prepared: &Prepared,
    drawing: Drawing,
) -> (RrFit, KeyGradients) {
    let Prepared { triangles, joints, near_rigid, sequences, .. } = prepared;
    let Drawing { palette, weights, transforms } = drawing;
    let keys = key_gradients::find(training, triangles, sequences, &palette, &weights, &transforms);
    let homes = &palette.home_bones;
    let predictors = choose::fit_predictors(
        training,
        joints,
        &keys.gradients,
        homes,
        &training.pose_weights,
        params.predictor_params(),
    );
    let reduction = reduce::reduce(training, &palette, &weights, &keys.blends, skin, near_rigid);
    (RrFit { palette, predictors, reduction, weights, joints: joints.clone() }, keys)
}

/// Fits `proxies` proxy bones; also returns the choice of the refinement's ridge, which is `ridge` if that was made
/// already.
fn fit_size(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    prepared: &Prepared,
    proxies: usize,
    ridge: Option<RidgeChoice>,
    report: &mut FitReport,
    progress: &dyn Progress,
) -> (RrFit, Option<RidgeChoice>) {
    progress.stage("proxy bones", 0);
    let drawing = draw(training, skin, params, prepared, proxies, DRAWING_TURNS);
    progress.stage("predictors", 0);
    let (mut fit, keys) = unrefined(training, skin, params, prepared, drawing);
    let moved = params.prune * (fit.error(training) / (training.pose_count() * training.vertex_count()) as f64).sqrt();
    let affordable = |by: MadeUpBy| prune::affordable(training, &fit, &keys.gradients, moved, by);
    let by = if params.refine.is_some() { MadeUpBy::Refinement } else { MadeUpBy::Nothing };
    let (first, mut blocks) = affordable(by);
    let mut last = first;
    if params.to_be_corrected && params.refine.is_some() {
        let more = affordable(MadeUpBy::Correction);
        if prune::worthwhile(blocks, more.1) {
            (last, blocks) = more;
        }
    }
    let pruned = |fit: &mut RrFit, tolerance: f64| {
        let RrFit { palette, weights, reduction, .. } = fit;
        prune::prune(training, palette, weights, &keys.gradients, reduction, tolerance)
    };
    let whole = fit.reduction.clone();
    pruned(&mut fit, first);
    let mut choice = None;
    if let Some(refinement) = params.refine.as_ref().filter(|_| fit.palette.proxies > 0) {
        let made = ridge.unwrap_or_else(|| choose_ridge(training, params, prepared, &fit, &keys, refinement));
        choice = Some(made);
        // Now those blocks go too that a correction makes up for; the ridge's left-out poses would miss them.
        fit.reduction = whole;
        pruned(&mut fit, last);
        let refinement = RefineParams { ridge: Some(made.ridge), ..refinement.clone() };
        report.found("refinement's ridge", made.ridge);
        if made.stacked {
            report.found("weights fitted to", "predictions of left-out poses");
        }
        progress.stage("refinement", REFINE_ROUNDS);
        for round in 0..REFINE_ROUNDS {
            if round > 0 {
                let near_rigid = &prepared.near_rigid;
                fit.reduction = reduce::reduce(training, &fit.palette, &fit.weights, &keys.blends, skin, near_rigid);
                pruned(&mut fit, last);
            }
            let quadratic = Quadratic::new(training, &fit.palette, &fit.weights, &fit.reduction);
            let weights = &training.pose_weights;
            let course = refine::refine(&prepared.joints, &quadratic, &mut fit.predictors, weights, &refinement);
            let name = format!("refinement, round {}", round + 1);
            report.iterations.push(Iterations { name, residuals: course.objectives, stopped: course.stopped });
            let stack = Stack {
                training,
                prepared,
                fit: &fit,
                keys: &keys,
                quadratic: &quadratic,
                predictor: params.predictor_params(),
                refinement: refinement.clone(),
            };
            let every: Vec<usize> = (0..training.pose_count()).collect();
            let left_out = made.stacked.then(|| stack.left_out(&every)).flatten();
            let transforms = left_out.unwrap_or_else(|| fit.all_transforms(training));
            fit.weights = weights::solve_weights(training, &fit.palette.candidates, &transforms, params.influences);
            if round + 1 == REFINE_ROUNDS {
                let limits = thin::Limits::unseen(fit.error(training), made.squared_error);
                fit.weights = thin::thin(training, &transforms, fit.weights, params.influences, limits);
            }
            progress.step();
        }
    }
    report.found("blocks of c₁ and c₂", format!("{} of {}", blocks.kept, blocks.total));
    (fit, choice)
}

fn choose_ridge(
    training: &Training,
    params: &RrParams,
    prepared: &Prepared,
    fit: &RrFit,
    keys: &KeyGradients,
    refinement: &RefineParams,
) -> RidgeChoice {
    let quadratic = Quadratic::new(training, &fit.palette, &fit.weights, &fit.reduction);
    let homes = &fit.palette.home_bones;
    let (joints, predictor) = (&prepared.joints, params.predictor_params());
    let corrected = params.to_be_corrected;
    let gradients = &keys.gradients;
    let choice =
        choose::refinement_ridge(training, joints, gradients, homes, &quadratic, predictor, refinement, corrected);
    let refinement = RefineParams { ridge: Some(choice.ridge), ..refinement.clone() };
    let stacked = Stack { training, prepared, fit, keys, quadratic: &quadratic, predictor, refinement }.helps();
    RidgeChoice { stacked, ..choice }
}

/// The number of proxy bones beyond which more no longer help, and the refinement's ridge.
fn choose_size(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    prepared: &Prepared,
) -> (usize, Option<RidgeChoice>) {
    let trial = draw(training, skin, params, prepared, TRIAL_SIZE, 1);
    let (fit, keys) = unrefined(training, skin, params, prepared, trial);
    let ridge = |refinement| choose_ridge(training, params, prepared, &fit, &keys, refinement);
    let unseen = params.refine.as_ref().map(ridge);
    let left_out = unseen.and_then(|choice| choice.corrected.or(choice.squared_error));
    let left = left_out.unwrap_or_else(|| fit.error(training));
    let enough = |&&proxies: &&usize| {
        let drawing = draw(training, skin, params, prepared, proxies, 1);
        weights::drawing_error(training, &drawing.weights, &drawing.transforms) <= WORTHWHILE * left
    };
    let affordable = training.vertex_count() / VERTICES_PER_PROXY;
    let mut sizes = LADDER.iter().filter(|&&proxies| proxies == LADDER[0] || proxies <= affordable);
    let proxies = sizes.clone().find(enough).or(sizes.next_back()).copied().unwrap_or(TRIAL_SIZE);
    (proxies, unseen)
}

/// As few proxy bones of the ladder as bring the training error under `error`, a fraction of the diagonal.
fn fit_to_error(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    prepared: &Prepared,
    error: f64,
    report: &mut FitReport,
    progress: &dyn Progress,
) -> (RrFit, Option<RidgeChoice>) {
    let count = (training.pose_count() * training.vertex_count()) as f64;
    let rms = |fit: &RrFit| (fit.error(training) / count).sqrt() / training.diagonal;
    let mut ridge = None;
    for (step, &proxies) in LADDER.iter().enumerate() {
        let mut notes = FitReport::default();
        let (fit, choice) = fit_size(training, skin, params, prepared, proxies, ridge, &mut notes, progress);
        let reached = rms(&fit) <= error;
        if reached || step + 1 == LADDER.len() {
            if !reached {
                let (found, asked) = (100.0 * rms(&fit), 100.0 * error);
                report.warnings.push(format!(
                    "{proxies} proxy bones leave {found:.3} % of the diagonal, not the {asked:.3} % asked for; more \
                     poses or a correction would help, more proxy bones hardly"
                ));
            }
            report.findings.extend(notes.findings);
            report.iterations.extend(notes.iterations);
            return (fit, choice);
        }
        // The ridge hardly depends on the size: once is enough.
        ridge = choice;
    }
    unreachable!("the ladder has a last step")
}
