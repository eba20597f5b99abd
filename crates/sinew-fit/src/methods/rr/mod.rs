//! Rotational regression enveloping (Wang, Pulli and Popović, "Real-time enveloping with rotational regression", 2007,
//! and Wang's thesis of the same title), reduced to proxy bones and refined end to end.
//!
//! A pose becomes vertices in three steps: predictors turn joint rotations into P key gradients d(q) ([`predictor`],
//! [`scale_shear`]); `t = c₁ d + c₂ q` turns them and the bones into the transforms of P proxy bones ([`reduce`]); the
//! palette of proxy bones and bones draws the vertices ([`weights`]). Which proxies there are is settled by clustering
//! ([`cluster`]), what the key gradients are by [`key_gradients`]; [`refine`] fits the predictors to the vertices they
//! end up drawing. `--no-refine` leaves that out and is the thesis's form.

pub mod cluster;
pub mod key_gradients;
pub mod near_rigid;
pub mod predictor;
pub mod reduce;
pub mod refine;
pub mod scale_shear;
pub mod weights;

use glam::DAffine3;
use rayon::prelude::*;

use crate::geometry::JointRotations;
use crate::geometry::gradient::RestTriangles;
use crate::methods::ssd::SparseWeights;
use crate::report::Iterations;
use crate::{FitError, FitReport, Progress, Training};
use near_rigid::{NearRigid, NearRigidParams};
use predictor::Predictor;
use reduce::Reduction;
use refine::{Quadratic, RefineParams};
use weights::Palette;

/// Turns of weights and transforms after clustering; the error has settled by then.
const DRAWING_TURNS: usize = 4;

/// Rounds of refinement, each followed by new weights.
const REFINE_ROUNDS: usize = 2;

/// How rotational regression is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct RrParams {
    /// The number of proxy bones, 1 to 10,000; `None` chooses it.
    pub proxy_bones: Option<usize>,
    /// Palette entries a vertex at most, 1 to 16.
    pub influences: usize,
    /// How the near-rigid vertices are chosen.
    pub near_rigid: NearRigidParams,
    /// The end-to-end refinement; `None` leaves it out, as in the thesis.
    pub refine: Option<RefineParams>,
}

impl Default for RrParams {
    fn default() -> Self {
        Self {
            proxy_bones: None,
            influences: 4,
            near_rigid: NearRigidParams::default(),
            refine: Some(RefineParams::default()),
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

impl RrFit {
    /// The proxies' transforms in training pose `e`, (P).
    #[must_use]
    pub fn transforms(&self, training: &Training, e: usize) -> Vec<DAffine3> {
        let d = refine::key_gradients(&self.joints, &self.predictors, e);
        self.reduction.transforms(&self.palette.centres, &d, &training.transforms[e])
    }
}

/// What does not depend on the number of proxies.
struct Prepared {
    triangles: RestTriangles,
    joints: JointRotations,
    near_rigid: NearRigid,
    normals: cluster::Normals,
    joins: cluster::Joins,
    sequences: Vec<Vec<glam::DMat3>>,
}

/// Fits the reduced model; `skin` are linear blend skinning's weights.
pub fn fit(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    report: &mut FitReport,
    progress: &dyn Progress,
) -> Result<RrFit, FitError> {
    progress.stage("clustering", 0);
    let prepared = prepare(training, skin, params);
    let proxies = params.proxy_bones.unwrap_or(40);
    fit_size(training, skin, params, &prepared, proxies, report, progress)
}

fn prepare(training: &Training, skin: &SparseWeights, params: &RrParams) -> Prepared {
    let triangles = RestTriangles::new(&training.rest, training.mesh.triangles());
    let normals = cluster::Normals::new(training, triangles.topology());
    Prepared {
        joints: JointRotations::new(training),
        near_rigid: near_rigid::choose(training, skin, &params.near_rigid),
        joins: cluster::join_greedily(training, triangles.topology(), skin, &normals),
        sequences: triangles.sequences(&training.vertices),
        normals,
        triangles,
    }
}

fn fit_size(
    training: &Training,
    skin: &SparseWeights,
    params: &RrParams,
    prepared: &Prepared,
    proxies: usize,
    report: &mut FitReport,
    progress: &dyn Progress,
) -> Result<RrFit, FitError> {
    let Prepared { triangles, joints, near_rigid, normals, joins, sequences } = prepared;
    progress.stage("proxy bones", 0);
    let partition = joins.partition(proxies);
    let palette = Palette::new(training, triangles.topology(), skin, &partition);
    let mut transforms = weights::first_transforms(training, &palette, &partition, normals);
    let mut drawing = weights::solve_weights(training, &palette, &transforms, params.influences);
    for _ in 0..DRAWING_TURNS {
        transforms = weights::solve_transforms(training, &palette, &drawing, normals, &transforms);
        drawing = weights::solve_weights(training, &palette, &transforms, params.influences);
    }
    report.found("proxy bones", palette.proxies);
    report.found("drawing error", percent_rms(training, weights::drawing_error(training, &drawing, &transforms)));
    progress.stage("predictors", 0);
    let keys = key_gradients::find(training, triangles, sequences, &palette, &drawing, &transforms);
    let predictors: Vec<Predictor> = (0..palette.proxies)
        .into_par_iter()
        .map(|p| {
            let sequence: Vec<glam::DMat3> = keys.gradients.iter().map(|pose| pose[p]).collect();
            predictor::fit(training, joints, &sequence, palette.home_bones[p])
        })
        .collect();
    let reduction = reduce::reduce(training, &palette, &drawing, &keys.blends, skin, near_rigid);
    let mut fit = RrFit { palette, predictors, reduction, weights: drawing, joints: joints.clone() };
    let error = |fit: &RrFit| {
        let transforms: Vec<_> = (0..training.pose_count()).map(|e| fit.transforms(training, e)).collect();
        (weights::drawing_error(training, &fit.weights, &transforms), transforms)
    };
    report.found("error before refinement", percent_rms(training, error(&fit).0));
    if let Some(refinement) = &params.refine {
        progress.stage("refinement", REFINE_ROUNDS);
        for round in 0..REFINE_ROUNDS {
            let quadratic = Quadratic::new(training, &fit.palette, &fit.weights, &fit.reduction);
            let course = refine::refine(training, joints, &quadratic, &mut fit.predictors, refinement);
            report.iterations.push(Iterations {
                name: format!("refinement {}", round + 1),
                residuals: course.objectives,
                stopped: course.stopped,
            });
            report.found("error after refinement", percent_rms(training, error(&fit).0));
            let (_, transforms) = error(&fit);
            fit.weights = weights::solve_weights(training, &fit.palette, &transforms, params.influences);
            report.found("error after new weights", percent_rms(training, error(&fit).0));
            if round + 1 < REFINE_ROUNDS {
                fit.reduction = reduce::reduce(training, &fit.palette, &fit.weights, &keys.blends, skin, near_rigid);
            }
            progress.step();
        }
    }
    Ok(fit)
}

/// A sum of squares over poses and vertices as an rms in percent of the diagonal.
fn percent_rms(training: &Training, squared: f64) -> String {
    let count = (training.pose_count() * training.vertex_count()) as f64;
    format!("{:.4} %", 100.0 * (squared / count).sqrt() / training.diagonal)
}
