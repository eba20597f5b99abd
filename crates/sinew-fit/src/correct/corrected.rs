//! A rotational regression with corrected proxy bones, while its drawing weights are being fitted.

use glam::DAffine3;
use sinew_runtime::correction::ProxyCorrection;
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Correction, Deformer, Model};

use crate::cross_validation::squared_error;
use crate::drawing::points::Drawn;
use crate::methods::ssd::SparseWeights;
use crate::{FitError, Training, predict, to_model};

/// A regression, and beside it the changes of its proxy bones.
#[derive(Debug, Clone)]
pub struct Corrected {
    /// The regression without them.
    pub model: Model,
    /// The changes.
    pub correction: ProxyCorrection,
}

impl Corrected {
    /// The regression.
    pub fn deformer(&self) -> &RotationalRegression {
        match &self.model.deformer {
            Deformer::RotationalRegression(deformer) => deformer,
            _ => unreachable!("only rotational regression has proxy bones to correct"),
        }
    }

    /// The drawing weights.
    pub fn weights(&self) -> SparseWeights {
        SparseWeights::of(&self.deformer().skin)
    }

    /// The terms or example poses of all regions of the changes together.
    pub fn term_count(&self) -> usize {
        (0..self.correction.regions.len()).map(|r| self.correction.drivers.inputs(r)).sum()
    }

    /// Entries a vertex at most.
    pub fn width(&self) -> usize {
        self.deformer().skin.width
    }

    /// The regression drawn by `weights`, without changes.
    pub fn drawn_by(&self, weights: &SparseWeights) -> Model {
        let deformer = RotationalRegression { skin: to_model::skin(weights), ..self.deformer().clone() };
        Model { deformer: Deformer::RotationalRegression(deformer), ..self.model.clone() }
    }

    /// The regression with vertices drawn from points, without changes; `weights` are for what needs weights.
    pub fn drawn_from(&self, training: &Training, drawn: &[Drawn], weights: &SparseWeights) -> Model {
        let (skin, points) = to_model::drawn_points(training, drawn, weights);
        let deformer = RotationalRegression { skin, points, ..self.deformer().clone() };
        Model { deformer: Deformer::RotationalRegression(deformer), ..self.model.clone() }
    }

    /// The changed proxies' transforms in some poses, (N)(P).
    pub fn transforms(&self, poses: &Training) -> Result<Vec<Vec<DAffine3>>, FitError> {
        Ok(predict::proxy_transforms(&self.whole()?, poses, self.deformer().proxy_count()))
    }

    /// The regression with its changes.
    pub fn whole(&self) -> Result<Model, FitError> {
        Ok(self.model.clone().with_correction(Correction::Proxies(self.correction.clone()))?)
    }

    /// The squared error in some poses.
    pub fn error(&self, poses: &Training) -> Result<f64, FitError> {
        Ok(squared_error(poses, &predict::training_poses(&self.whole()?, poses)))
    }
}
