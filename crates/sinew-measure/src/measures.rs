//! The usual measures of one prediction, in one struct that tables and JSON share.

use glam::{DAffine3, DVec3};
use serde::Serialize;
use sinew_examples::Mesh;

use crate::{EnvelopingError, PositionErrors, best_rigid_error, e_rms, mean_normal_deviation_degrees};

/// How far a prediction is from the truth. Percentages are of the rest bounding box's diagonal, but for EE.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measures {
    /// Number of frames measured.
    pub frames: usize,
    /// Enveloping error, percent of the best rigid binding's error.
    pub ee_percent: f64,
    /// Kavan's E_RMS, thousandths of [`Measures::e_rms_normaliser`].
    pub e_rms: f64,
    /// The normaliser of E_RMS: half the rest bounding box's diagonal, metres.
    pub e_rms_normaliser: f64,
    /// Root mean square distance, percent of the diagonal.
    pub rms_percent: f64,
    /// Largest distance.
    pub max_percent: f64,
    /// The distance that 95 % of all vertices in all frames do not exceed.
    pub p95_percent: f64,
    /// Mean angle between vertex normals.
    pub normal_mean_degrees: f64,
}

/// Measures `predicted` (N)(V) against `truth` (N)(V); `transforms` (N)(J) are the bones' skinning transforms, rest to
/// posed, in the same space as the meshes.
#[must_use]
pub fn measure(mesh: &Mesh, transforms: &[Vec<DAffine3>], truth: &[&[DVec3]], predicted: &[Vec<DVec3>]) -> Measures {
    measure_over(mesh, best_rigid_error(mesh.vertices(), transforms, truth), truth, predicted)
}

/// The same where the best rigid binding's squared error ([`best_rigid_error`]) is known, as when several methods are
/// measured on the same frames.
#[must_use]
pub fn measure_over(mesh: &Mesh, rigid_squared_error: f64, truth: &[&[DVec3]], predicted: &[Vec<DVec3>]) -> Measures {
    let errors = PositionErrors::new(truth, predicted);
    let diagonal = mesh.diagonal();
    let percent = 100.0 / diagonal;
    let squared_error = errors.squared_sum();
    Measures {
        frames: truth.len(),
        ee_percent: EnvelopingError { squared_error, rigid_squared_error }.percent(),
        e_rms: e_rms(squared_error, truth.len(), mesh.vertex_count(), diagonal),
        e_rms_normaliser: 0.5 * diagonal,
        rms_percent: percent * errors.rms(),
        max_percent: percent * errors.max(),
        p95_percent: percent * errors.quantile(0.95),
        normal_mean_degrees: mean_normal_deviation_degrees(truth, predicted, mesh.triangles()),
    }
}
