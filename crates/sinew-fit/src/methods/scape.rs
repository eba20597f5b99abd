//! SCAPE's pose model (Anguelov, Srinivasan, Koller, Thrun, Rodgers and Davis, "SCAPE: shape completion and animation of
//! people", 2005, section 4), the nearest relative of rotational regression: the same Poisson equation over the triangles'
//! deformation gradients, but all nine entries of a gradient are predicted linearly.
//!
//!   D_k(q) = Q_part (I + A_k x),   x = [θ̃₁ θ̃₂ 1],
//!   minimise Σ_e a_e ‖A_k x^e − vec(Q_partᵀ D_k^e − I)‖² + λ s² ‖A_k‖²
//!
//! Q_part is the rotation of the bone that carries triangle k. SCAPE names the two joints next to the part and has dozens
//! of scans; here the pair among the part's joint, its parent's and its children's, and λ, are those that predict
//! left-out poses best (closed form, `r_e / (1 − h_ee)`), the constant free, s² the mean of the regressors' squares. The
//! hat matrix does not depend on the triangle, so that it is made once for a pair of joints. SCAPE's model of identity is
//! left out: sinew has one character.

use glam::{DMat3, DVec3};
use nalgebra::{SMatrix, SVector};
use rayon::prelude::*;
use sinew_runtime::deform::LinearGradients;

use super::rr::full::{self, Measured};
use super::rr::near_rigid::{self, NearRigidParams};
use super::rr::poisson::Poisson;
use super::ssd::SparseWeights;
use crate::geometry::JointRotations;
use crate::{FitError, FitReport, Progress, Training};

/// Columns of A: two joints' θ̃ and the constant.
pub const COLUMNS: usize = LinearGradients::COLUMNS;

/// The ridges λ tried, relative to the regressors' own squares: from hardly any to hardly a fit.
const RIDGES: [f64; 6] = [1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0];

/// The constant's share of the ridge: one pose alone determines nothing else.
const CONSTANT_RIDGE: f64 = 1e-6;

/// The least of `1 − h_ee`: with as many unknowns as poses a pose is fitted by itself alone and leaving it out says nothing.
const LEAST_FREEDOM: f64 = 1e-3;

/// A second pair of joints must be better by this fraction, so that ties go to the joints named first.
const LEAST_GAIN: f64 = 1e-3;

type Square = SMatrix<f64, COLUMNS, COLUMNS>;
type Column = SVector<f64, COLUMNS>;

/// How the model is fitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScapeParams {
    /// How the near-rigid vertices are chosen.
    pub near_rigid: NearRigidParams,
}

/// A linear predictor of a triangle's gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearPredictor {
    /// The bone that carries the triangle.
    pub part: usize,
    /// The joints it sees.
    pub joints: [usize; 2],
    /// A, (9, 7): entries of `Q_partᵀ D − I` column by column.
    pub entries: [[f64; COLUMNS]; 9],
}

/// The model in f64.
#[derive(Debug, Clone)]
pub struct ScapeFit {
    /// A predictor for every triangle, (F).
    pub predictors: Vec<LinearPredictor>,
    /// The factored Poisson equation.
    pub poisson: Poisson,
    /// Joint rotations of the training.
    pub joints: JointRotations,
}

/// Fits the model; `skin` are linear blend skinning's weights.
pub fn fit(
    training: &Training,
    skin: &SparseWeights,
    params: &ScapeParams,
    report: &mut FitReport,
    progress: &dyn Progress,
) -> Result<ScapeFit, FitError> {
    let faces = training.mesh.triangles();
    let Measured { triangles, joints, sequences } = Measured::new(training, progress);
    progress.stage("predictors", 0);
    let options: Vec<Vec<Regression>> = (0..training.bone_count()).map(|b| regressions(training, &joints, b)).collect();
    let predictors = (0..faces.len())
        .into_par_iter()
        .map(|k| {
            let part = carrier(training, skin, faces[k]);
            let turned = |e: usize| joints.bones[e][part].transpose() * sequences[e][k] - DMat3::IDENTITY;
            let outputs: Vec<[f64; 9]> = (0..sequences.len()).map(|e| turned(e).to_cols_array()).collect();
            predictor(part, &options[part], &outputs, &training.pose_weights)
        })
        .collect();
    progress.stage("Poisson equation", 0);
    let mut near_rigid = near_rigid::choose(training, skin, &params.near_rigid);
    let poisson = full::factor(training, &triangles, &mut near_rigid)?;
    report.found("triangles", faces.len());
    report.found("near-rigid vertices", format!("{} of {}", near_rigid.count(), training.vertex_count()));
    report.found("numbers in the factor", poisson.factor.values.len());
    Ok(ScapeFit { predictors, poisson, joints })
}

/// The bone with the largest weight over a triangle's corners.
fn carrier(training: &Training, skin: &SparseWeights, face: [u32; 3]) -> usize {
    let mut carried = vec![0.0; training.bone_count()];
    face.iter().flat_map(|&v| &skin.vertices[v as usize]).for_each(|&(b, w)| carried[b] -= w);
    crate::cross_validation::least(&carried)
}

/// The regression on one pair of joints with one ridge.
struct Regression {
    joints: [usize; 2],
    /// x^e, (N).
    regressors: Vec<Column>,
    /// Columns `(Σ_e a_e x xᵀ + λ s² I)⁻¹ a_e x^e`, (N): what an output at pose e adds to a row of A.
    solver: Vec<Column>,
    /// `1 − h_ee`, (N).
    freedoms: Vec<f64>,
}

/// Every regression that triangles of bone `b` may choose from: pairs of its joint, its parent's and its children's.
fn regressions(training: &Training, joints: &JointRotations, b: usize) -> Vec<Regression> {
    let skeleton = &training.skeleton;
    let near = [b, skeleton.parent(b)].into_iter().chain(skeleton.children(b));
    let mut moving: Vec<usize> = Vec::new();
    for joint in near.filter(|&joint| joint != skeleton.root()) {
        if !moving.contains(&joint) {
            moving.push(joint);
        }
    }
    let alone = moving.first().copied().unwrap_or(b);
    let mut pairs = vec![[alone; 2]];
    for (i, &first) in moving.iter().enumerate() {
        pairs.extend((i > 0).then_some([first; 2]));
        pairs.extend(moving[i + 1..].iter().map(|&second| [first, second]));
    }
    let weights = &training.pose_weights;
    pairs.iter().flat_map(|&pair| RIDGES.map(|ridge| Regression::new(joints, pair, ridge, weights))).collect()
}

impl Regression {
    fn new(joints: &JointRotations, pair: [usize; 2], ridge: f64, weights: &[f64]) -> Self {
        let regressor = |logs: &Vec<DVec3>| {
            // A joint by itself leaves the second one's columns empty.
            let second = if pair[0] == pair[1] { DVec3::ZERO } else { logs[pair[1]] };
            let first = logs[pair[0]];
            Column::from([first.x, first.y, first.z, second.x, second.y, second.z, 1.0])
        };
        let regressors: Vec<Column> = joints.logs.iter().map(regressor).collect();
        let mut square = Square::zeros();
        for (x, &a) in regressors.iter().zip(weights) {
            square += x * x.transpose() * a;
        }
        let last = COLUMNS - 1;
        let constant = square[(last, last)];
        let mean = (square.trace() - constant) / last as f64;
        for k in 0..last {
            // Joints that never move have no squares of their own; their columns come out as nil.
            square[(k, k)] += (ridge * mean).max(1e-9 * constant);
        }
        square[(last, last)] += CONSTANT_RIDGE * constant;
        let inverse = square.try_inverse().expect("a positive diagonal was added to a sum of squares");
        let solver: Vec<Column> = regressors.iter().zip(weights).map(|(x, &a)| inverse * x * a).collect();
        let freedoms = regressors.iter().zip(&solver).map(|(x, s)| (1.0 - x.dot(s)).max(LEAST_FREEDOM)).collect();
        Self { joints: pair, regressors, solver, freedoms }
    }

    /// A for nine outputs a pose, and the squared error of left-out poses.
    fn solve(&self, outputs: &[[f64; 9]], weights: &[f64]) -> (f64, [Column; 9]) {
        let mut rows = [Column::zeros(); 9];
        for (output, solver) in outputs.iter().zip(&self.solver) {
            rows.iter_mut().zip(output).for_each(|(row, &y)| *row += solver * y);
        }
        let pose = |e: usize| {
            let residual = |(row, y): (&Column, &f64)| (row.dot(&self.regressors[e]) - y).powi(2);
            weights[e] * rows.iter().zip(&outputs[e]).map(residual).sum::<f64>() / self.freedoms[e].powi(2)
        };
        ((0..outputs.len()).map(pose).sum(), rows)
    }
}

/// The best of `options` for a triangle's `outputs` (N).
fn predictor(part: usize, options: &[Regression], outputs: &[[f64; 9]], weights: &[f64]) -> LinearPredictor {
    let mut best: Option<(f64, [usize; 2], [Column; 9])> = None;
    for option in options {
        let (error, rows) = option.solve(outputs, weights);
        if best.as_ref().is_none_or(|(least, ..)| error < *least * (1.0 - LEAST_GAIN)) {
            best = Some((error, option.joints, rows));
        }
    }
    let (_, joints, rows) = best.expect("every bone has a regression");
    LinearPredictor { part, joints, entries: rows.map(|row| row.into()) }
}
