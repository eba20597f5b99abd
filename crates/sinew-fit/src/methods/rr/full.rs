//! Rotational regression without reduction (Wang, thesis 2007, chapters 2 and 3): a predictor for every triangle, and the
//! Poisson equation of the whole mesh with the near-rigid vertices held to linear blend skinning. Slow at run time, and
//! the yardstick that the reduced model is measured against.

use glam::DMat3;
use rayon::prelude::*;

use super::near_rigid::{self, NearRigid, NearRigidParams};
use super::poisson::Poisson;
use super::predictor::{self, Predictor, PredictorForm, PredictorParams};
use crate::geometry::JointRotations;
use crate::geometry::gradient::RestTriangles;
use crate::methods::ssd::SparseWeights;
use crate::{FitError, FitReport, Progress, Training};

/// How the full model is fitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FullParams {
    /// How the near-rigid vertices are chosen.
    pub near_rigid: NearRigidParams,
    /// The form of the rotation predictors.
    pub predictor: PredictorForm,
}

/// The full model in f64.
#[derive(Debug, Clone)]
pub struct FullFit {
    /// A predictor for every triangle, (F).
    pub predictors: Vec<Predictor>,
    /// The factored Poisson equation.
    pub poisson: Poisson,
    /// The vertices held to linear blend skinning.
    pub near_rigid: NearRigid,
    /// Joint rotations of the training.
    pub joints: JointRotations,
}

/// Fits the full model; `skin` are linear blend skinning's weights.
pub fn fit(
    training: &Training,
    skin: &SparseWeights,
    params: &FullParams,
    report: &mut FitReport,
    progress: &dyn Progress,
) -> Result<FullFit, FitError> {
    let faces = training.mesh.triangles();
    let Measured { triangles, joints, sequences } = Measured::new(training, progress);
    progress.stage("predictors", 0);
    let predictor = PredictorParams { form: params.predictor, refined: false };
    let predictors: Vec<Predictor> = (0..faces.len())
        .into_par_iter()
        .map(|k| {
            let sequence: Vec<DMat3> = sequences.iter().map(|pose| pose[k]).collect();
            let home = skin.dominant(faces[k][0] as usize);
            predictor::fit(training, &joints, &sequence, &training.pose_weights, home, predictor)
        })
        .collect();
    progress.stage("Poisson equation", 0);
    let mut near_rigid = near_rigid::choose(training, skin, &params.near_rigid);
    let poisson = factor(training, &triangles, &mut near_rigid)?;
    report.found("triangles", faces.len());
    report.found("near-rigid vertices", format!("{} of {}", near_rigid.count(), training.vertex_count()));
    report.found("numbers in the factor", poisson.factor.values.len());
    Ok(FullFit { predictors, poisson, near_rigid, joints })
}

/// What a model with a predictor for every triangle learns from.
pub(crate) struct Measured {
    /// The rest mesh.
    pub triangles: RestTriangles,
    /// Joint rotations of the training.
    pub joints: JointRotations,
    /// Gradients of every triangle in every pose, (N)(F).
    pub sequences: Vec<Vec<DMat3>>,
}

impl Measured {
    pub(crate) fn new(training: &Training, progress: &dyn Progress) -> Self {
        progress.stage("gradients", 0);
        let triangles = RestTriangles::new(&training.rest, training.mesh.triangles());
        let sequences = triangles.sequences(&training.vertices);
        Self { triangles, joints: JointRotations::new(training), sequences }
    }
}

/// Factors the equation; vertices that no triangle with two corners determines are held as well.
pub(crate) fn factor(
    training: &Training,
    triangles: &RestTriangles,
    near_rigid: &mut NearRigid,
) -> Result<Poisson, FitError> {
    for v in 0..training.vertex_count() {
        if triangles.topology().vertex_vertices.row(v).is_empty() {
            near_rigid.fixed[v] = true;
        }
    }
    Poisson::new(&training.rest, training.mesh.triangles(), triangles.topology(), &near_rigid.fixed).map_err(|error| {
        FitError::Data(format!("vertex {} hangs on no near-rigid vertex; raise the near-rigid coverage", error.unknown))
    })
}
