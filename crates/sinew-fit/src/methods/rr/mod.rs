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
pub mod condense;
pub mod describe;
pub mod full;
pub mod key_gradients;
pub mod mean_shift;
pub mod near_rigid;
pub mod poisson;
pub mod prediction;
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
use crate::{FitError, FitReport, Progress, Training, drawing, to_model};
use choose::RidgeChoice;
use key_gradients::KeyGradients;
use near_rigid::{NearRigid, NearRigidParams};
use predictor::{Predictor, PredictorForm, PredictorParams};
use prune::{MadeUpBy, PruneReport};
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

/// Proxy bones at most.
pub const MOST_PROXIES: usize = 10_000;

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
    /// Whether the refined model is brought to fewer blocks ([`condense`]) and its vertices are drawn from points
    /// ([`drawing`]), if that holds: two thirds of the time a frame on small meshes and as near to unseen poses,
    /// but poses beyond the trained ranges take longer. Not where a correction follows: distillation does it.
    pub points: bool,
    /// Whether a correction follows: the refinement's ridge is then the one that is best with it.
    pub to_be_corrected: bool,
    /// The refinement's ridge, if a fit with another number of proxy bones has settled it for `proxy_bones`.
    pub ridge: Option<RidgeChoice>,
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
            points: true,
            to_be_corrected: false,
            ridge: None,
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
    /// Whether the model is condensed and drawn from points.
    pub(crate) fn condenses(&self) -> bool {
        self.points && self.refine.is_some() && !self.to_be_corrected
    }

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

/// Fits the reduced model; `skin` are linear blend skinning's weights. If a correction is to follow, its rivals stand behind
/// it: the same with other ridges of the refinement, with which the corrected model may do better.
pub fn fit(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    progress: &dyn Progress,
) -> Result<Vec<(RrFit, FitReport)>, FitError> {
    check(params)?;
    progress.stage("clustering", 0);
    let (prepared, rigid) = (prepare(training, skin, params), describe::rigid_error(training));
    let course = Course { training, skin, params, prepared, rigid, progress };
    let Chosen { unrefined, ridge, fit, mut report } = match (params.proxy_bones, params.error) {
        (Some(proxies), _) => course.of_size(proxies, params.ridge),
        (None, Some(error)) => course.to_error(error),
        (None, None) => {
            progress.stage("number of proxy bones", 0);
            let (proxies, ridge) = course.choose_size();
            course.of_size(proxies, ridge.filter(|_| proxies == TRIAL_SIZE || proxies > CHOSEN_ANEW))
        }
    };
    course.describe(&fit, ridge, &mut report);
    let rivals = ridge.into_iter().flat_map(RidgeChoice::instead).map(|rival| {
        let mut report = FitReport::default();
        let fit = course.refined(&unrefined, Some(rival), &mut report);
        course.describe(&fit, Some(rival), &mut report);
        (fit, report)
    });
    let rivals: Vec<_> = rivals.collect();
    Ok([(fit, report)].into_iter().chain(rivals).collect())
}

fn check(params: &RrParams) -> Result<(), FitError> {
    let refuse = |name, value: String, range| Err(FitError::Parameter { name, value, range });
    if let Some(proxies) = params.proxy_bones.filter(|proxies| !(1..=MOST_PROXIES).contains(proxies)) {
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

/// The thesis's model of one size, and what its refinement needs.
struct Unrefined {
    fit: RrFit,
    keys: KeyGradients,
    /// What leaving out blocks of c₁ and c₂ may move before the ridge is chosen, metres, and once it is.
    tolerances: [f64; 2],
    /// What is left out then.
    blocks: PruneReport,
}

/// A fit, and what it was refined from.
struct Chosen {
    unrefined: Unrefined,
    ridge: Option<RidgeChoice>,
    fit: RrFit,
    report: FitReport,
}

/// What all sizes and ridges have in common.
struct Course<'a> {
    training: &'a Training,
    skin: &'a SparseWeights,
    params: &'a RrParams,
    prepared: Prepared,
    /// The best rigid binding's squared error.
    rigid: f64,
    progress: &'a dyn Progress,
}

impl Course<'_> {
    fn draw(&self, proxies: usize, turns: usize) -> Drawing {
        let Self { training, skin, params, prepared, .. } = self;
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

    /// The thesis's model.
    fn thesis(&self, drawing: Drawing) -> (RrFit, KeyGradients) {
        let Self { training, params, prepared: Prepared { triangles, joints, sequences, .. }, .. } = self;
        let Drawing { palette, weights, transforms } = drawing;
        let keys = key_gradients::find(training, triangles, sequences, &palette, &weights, &transforms);
        let predictors = choose::fit_predictors(
            training,
            joints,
            &keys.gradients,
            &palette.home_bones,
            &training.pose_weights,
            params.predictor_params(),
        );
        let reduction = self.reduced(&palette, &weights, &keys);
        (RrFit { palette, predictors, reduction, weights, joints: joints.clone() }, keys)
    }

    fn reduced(&self, palette: &Palette, weights: &SparseWeights, keys: &KeyGradients) -> Reduction {
        reduce::reduce(self.training, palette, weights, &keys.blends, self.skin, &self.prepared.near_rigid)
    }

    fn unrefined(&self, proxies: usize) -> Unrefined {
        let Self { training, params, progress, .. } = self;
        progress.stage("proxy bones", 0);
        let drawing = self.draw(proxies, DRAWING_TURNS);
        progress.stage("predictors", 0);
        let (fit, keys) = self.thesis(drawing);
        let count = (training.pose_count() * training.vertex_count()) as f64;
        let moved = params.prune * (fit.error(training) / count).sqrt();
        let affordable = |by: MadeUpBy| prune::affordable(training, &fit, &keys.gradients, moved, by);
        let refined = params.refine.is_some();
        let (first, blocks) = affordable(if refined { MadeUpBy::Refinement } else { MadeUpBy::Nothing });
        let more = (refined && params.to_be_corrected).then(|| affordable(MadeUpBy::Correction));
        let (last, blocks) = more.filter(|more| prune::worthwhile(blocks, more.1)).unwrap_or((first, blocks));
        Unrefined { fit, keys, tolerances: [first, last], blocks }
    }

    /// Fits `proxies` proxy bones, with the refinement's ridge if that is chosen already.
    fn of_size(&self, proxies: usize, ridge: Option<RidgeChoice>) -> Chosen {
        let unrefined = self.unrefined(proxies);
        let refinement = self.params.refine.as_ref().filter(|_| unrefined.fit.palette.proxies > 0);
        let ridge = refinement.map(|refinement| {
            ridge.unwrap_or_else(|| {
                let mut fit = unrefined.fit.clone();
                self.prune(&mut fit, &unrefined.keys, unrefined.tolerances[0]);
                self.choose_ridge(&fit, &unrefined.keys, refinement)
            })
        });
        let mut report = FitReport::default();
        let fit = self.refined(&unrefined, ridge, &mut report);
        Chosen { unrefined, ridge, fit, report }
    }

    fn prune(&self, fit: &mut RrFit, keys: &KeyGradients, tolerance: f64) {
        let RrFit { palette, weights, reduction, .. } = fit;
        prune::prune(self.training, palette, weights, &keys.gradients, reduction, tolerance);
    }

    /// The model refined with a ridge, if there is one. Those blocks go too that a correction makes up for; the left-out poses
    /// that chose the ridge would miss them.
    fn refined(&self, unrefined: &Unrefined, ridge: Option<RidgeChoice>, report: &mut FitReport) -> RrFit {
        let Self { training, params, prepared, progress, .. } = self;
        let Unrefined { fit, keys, tolerances: [_, tolerance], blocks } = unrefined;
        let mut fit = fit.clone();
        self.prune(&mut fit, keys, *tolerance);
        let mut kept = blocks.kept;
        if let (Some(refinement), Some(ridge)) = (&params.refine, ridge) {
            let refinement = RefineParams { ridge: Some(ridge.ridge), ..refinement.clone() };
            report.found("refinement's ridge", ridge.ridge);
            report.ridge = Some(RidgeChoice { rivals: [None; 2], ..ridge });
            if ridge.stacked {
                report.found("weights fitted to", "predictions of left-out poses");
            }
            progress.stage("refinement", REFINE_ROUNDS);
            for round in 0..REFINE_ROUNDS {
                if round > 0 {
                    fit.reduction = self.reduced(&fit.palette, &fit.weights, keys);
                    self.prune(&mut fit, keys, *tolerance);
                }
                let quadratic = Quadratic::new(training, &fit.palette, &fit.weights, &fit.reduction);
                let weights = &training.pose_weights;
                let course = refine::refine(&prepared.joints, &quadratic, &mut fit.predictors, weights, &refinement);
                let name = format!("refinement, round {}", round + 1);
                report.iterations.push(Iterations { name, residuals: course.objectives, stopped: course.stopped });
                if round + 1 == REFINE_ROUNDS && params.condenses() {
                    let count = (training.pose_count() * training.vertex_count()) as f64;
                    let shown = thin::shown(fit.error(training), ridge.squared_error);
                    let cycles = drawing::left_for_prediction(training, &to_model::skin(self.skin));
                    let condensed = condense::condense(training, &fit, (shown / count).sqrt(), cycles);
                    (fit.reduction, kept) = (condensed.reduction, condensed.kept);
                }
                let every: Vec<usize> = (0..training.pose_count()).collect();
                let left_out =
                    ridge.stacked.then(|| self.stack(&fit, keys, &quadratic, &refinement).left_out(&every)).flatten();
                let transforms = left_out.unwrap_or_else(|| fit.all_transforms(training));
                fit.weights = weights::solve_weights(training, &fit.palette.candidates, &transforms, params.influences);
                if round + 1 == REFINE_ROUNDS {
                    let shown = thin::shown(fit.error(training), ridge.squared_error);
                    let drawn = fit.weights;
                    // What is drawn anew afterwards is to choose from more.
                    fit.weights = if params.to_be_corrected || params.condenses() {
                        thin::hardly(training, &transforms, drawn, params.influences, shown)
                    } else {
                        thin::toward_skinning(training, &transforms, drawn, params.influences, shown, self.skin, kept)
                    };
                }
                progress.step();
            }
        }
        report.found("blocks of c₁ and c₂", format!("{kept} of {}", blocks.total));
        fit
    }

    fn stack<'a>(
        &'a self,
        fit: &'a RrFit,
        keys: &'a KeyGradients,
        quadratic: &'a Quadratic,
        refinement: &RefineParams,
    ) -> Stack<'a> {
        let (training, prepared, predictor) = (self.training, &self.prepared, self.params.predictor_params());
        Stack { training, prepared, fit, keys, quadratic, predictor, refinement: refinement.clone() }
    }

    fn choose_ridge(&self, fit: &RrFit, keys: &KeyGradients, refinement: &RefineParams) -> RidgeChoice {
        let quadratic = Quadratic::new(self.training, &fit.palette, &fit.weights, &fit.reduction);
        let choice = choose::refinement_ridge(
            self.training,
            &self.prepared.joints,
            &keys.gradients,
            &fit.palette.home_bones,
            &quadratic,
            self.params.predictor_params(),
            refinement,
            self.params.to_be_corrected,
        );
        let refinement = RefineParams { ridge: Some(choice.ridge), ..refinement.clone() };
        RidgeChoice { stacked: self.stack(fit, keys, &quadratic, &refinement).helps(), ..choice }
    }

    /// The number of proxy bones beyond which more no longer help, and the refinement's ridge.
    fn choose_size(&self) -> (usize, Option<RidgeChoice>) {
        let training = self.training;
        let (fit, keys) = self.thesis(self.draw(TRIAL_SIZE, 1));
        let unseen = self.params.refine.as_ref().map(|refinement| self.choose_ridge(&fit, &keys, refinement));
        let left_out = unseen.and_then(|choice| choice.corrected.or(choice.squared_error));
        let left = left_out.unwrap_or_else(|| fit.error(training));
        let enough = |&&proxies: &&usize| {
            let drawing = self.draw(proxies, 1);
            weights::drawing_error(training, &drawing.weights, &drawing.transforms) <= WORTHWHILE * left
        };
        let affordable = training.vertex_count() / VERTICES_PER_PROXY;
        let mut sizes = LADDER.iter().filter(|&&proxies| proxies == LADDER[0] || proxies <= affordable);
        let proxies = sizes.clone().find(enough).or(sizes.next_back()).copied().unwrap_or(TRIAL_SIZE);
        (proxies, unseen)
    }

    /// As few proxy bones of the ladder as bring the training error under `error`, a fraction of the diagonal.
    fn to_error(&self, error: f64) -> Chosen {
        let training = self.training;
        let count = (training.pose_count() * training.vertex_count()) as f64;
        let rms = |fit: &RrFit| (fit.error(training) / count).sqrt() / training.diagonal;
        let mut ridge = None;
        for (step, &proxies) in LADDER.iter().enumerate() {
            let mut chosen = self.of_size(proxies, ridge);
            let found = rms(&chosen.fit);
            if found > error && step + 1 == LADDER.len() {
                let (found, asked) = (100.0 * found, 100.0 * error);
                chosen.report.warnings.push(format!(
                    "{proxies} proxy bones leave {found:.3} % of the diagonal, not the {asked:.3} % asked for; more \
                     poses or a correction would help, more proxy bones hardly"
                ));
            }
            if found <= error || step + 1 == LADDER.len() {
                return chosen;
            }
            // The ridge hardly depends on the size: once is enough.
            ridge = chosen.ridge;
        }
        unreachable!("the ladder has a last step")
    }

    fn describe(&self, fit: &RrFit, ridge: Option<RidgeChoice>, report: &mut FitReport) {
        report.left_out_corrected = ridge.and_then(|choice| choice.corrected);
        let held_out = ridge.and_then(|choice| choice.squared_error);
        describe::describe(self.training, self.skin, &self.prepared, fit, self.rigid, held_out, report);
    }
}
