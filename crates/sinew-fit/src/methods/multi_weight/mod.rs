//! Multi-weight enveloping (Wang and Phillips, "Multi-weight enveloping: least-squares approximation techniques for skin
//! animation", 2002): a weight for every entry of every bone's matrix, `v_i = c_i + Σ_b Σ_s u_b[i,s] T_b[i,s]`.
//!
//! For every vertex and component i by itself, over the poses e with weights a_e:
//!
//!   minimise Σ_e a_e (A^e w − (y^e − base^e)_i)² + Σ_h λ_h (Eᵀ w)_h²,   λ_h = s_f / variance_h   (eq. 9)
//!
//! A^e holds the entries of row i of the bones in the vertex's influence set, E the principal components of A whose
//! variance is above a threshold (§4.3), and `base` is what linear blend skinning (or the best single bone) says (§4.5).
//! Painted influences scale A's columns, pose weights its rows (§4.2); near-duplicate poses count as one (§4).
//!
//! Where we differ from the paper:
//! - A constant column, appended after the principal components and exempt from eq. 9. Covariances are centred, and eq. 9
//!   forbids columns that do not vary, so without it a vertex has no intercept. `constant: false` is the published form.
//! - The matrices are root-relative, so that the result moves with the character, and translations are taken at the bones'
//!   own origins in units of the rest box, so that one s_f fits all columns.
//! - s_f is chosen by cross-validation unless it is given.
//! - Vertices with the same influence set share their principal components, in which eq. 8 is solved in closed form (`envelope`).

mod envelope;
mod selection;
mod weights;

pub use selection::Chosen;
pub use weights::MultiWeights;

use super::influence_sets::{InfluenceParams, InfluenceSets};
use super::ssd::{self, SparseWeights, SsdParams};
use crate::geometry::topology::Topology;
use crate::{FitError, FitReport, Progress, Training};

/// What the weights are a correction to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underlying {
    /// The best single bone of each vertex.
    Rigid,
    /// Linear blend skinning.
    Skinning,
}

/// How multi-weight enveloping is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct MweParams {
    /// The skin to correct, and to fall back on.
    pub skin: SsdParams,
    /// Which bones may move which vertex.
    pub influences: InfluenceParams,
    /// What the weights are a correction to.
    pub underlying: Underlying,
    /// Whether there is a constant column; the published form has none.
    pub constant: bool,
    /// s_f of eq. 9, above 0; `None` to choose it by cross-validation.
    pub scale_factor: Option<f64>,
    /// Principal components whose variance is below this fraction of the largest are dropped, 0 to 1.
    pub variance_threshold: f64,
    /// Singular values of eq. 8 below this fraction of the largest are dropped, 0 to 1 (in principal components its matrix is
    /// diagonal but for the means' part, and the diagonal is what is looked at).
    pub singular_threshold: f64,
    /// Poses whose matrix entries differ by less than this (root mean square; a radian or a rest box is about one) count as
    /// one pose.
    pub duplicate_distance: f64,
    /// Whether the rest mesh in the rest pose is one more example.
    pub rest_pose: bool,
}

impl Default for MweParams {
    fn default() -> Self {
        Self {
            skin: SsdParams::default(),
            influences: InfluenceParams::default(),
            underlying: Underlying::Skinning,
            constant: true,
            scale_factor: None,
            variance_threshold: 1e-5,
            singular_threshold: 1e-10,
            duplicate_distance: 1e-3,
            rest_pose: true,
        }
    }
}

/// What a fit gives: weights, the skin beneath them, and how it went.
#[derive(Debug, Clone)]
pub struct MweFit {
    /// The weights, in the root's frame.
    pub weights: MultiWeights,
    /// The linear blend skin beneath.
    pub skin: SparseWeights,
    /// s_f, and what cross-validation saw.
    pub chosen: Chosen,
    /// The mean number of bones a vertex.
    pub set_size: f64,
    /// The vertices with more unknowns than equations, which the ridge decides in part.
    pub underdetermined: usize,
}

/// Fits multi-weights for every vertex.
pub fn fit(training: &Training, params: &MweParams, progress: &dyn Progress) -> Result<MweFit, FitError> {
    check(params)?;
    let chosen = selection::choose(training, params, progress)?;
    let skin = ssd::fit(training, &underlying_skin(params), progress)?;
    progress.stage("multi-weight enveloping", 0);
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let sets = InfluenceSets::new(training, &skin, &topology, &params.influences);
    let weights = envelope::solve(training, &skin, &sets, params, &[chosen.scale_factor]).remove(0);
    let equations = training.pose_count() + usize::from(params.rest_pose);
    let unknowns = |bones: &Vec<usize>| 4 * bones.len() + usize::from(params.constant);
    Ok(MweFit {
        weights,
        set_size: sets.mean_count(),
        underdetermined: sets.bones.iter().filter(|bones| unknowns(bones) > equations).count(),
        skin,
        chosen,
    })
}

/// Says in `report` what the fit chose and what to beware of.
pub fn describe(fit: &MweFit, report: &mut FitReport) {
    report.found("s_f", format!("{:e}", fit.chosen.scale_factor));
    report.found("bones a vertex may use (mean)", format!("{:.2}", fit.set_size));
    if fit.underdetermined > 0 {
        let of = fit.weights.vertices.len();
        report.warnings.push(format!(
            "{} of {of} vertices have more unknowns than there are poses; what is open stays as the skin beneath",
            fit.underdetermined
        ));
    }
}

fn underlying_skin(params: &MweParams) -> SsdParams {
    match params.underlying {
        Underlying::Rigid => SsdParams { influences: 1 },
        Underlying::Skinning => params.skin.clone(),
    }
}

fn check(params: &MweParams) -> Result<(), FitError> {
    let wrong = |name, value: f64, range| Err(FitError::Parameter { name, value: value.to_string(), range });
    if let Some(value) = params.scale_factor.filter(|value| !(value.is_finite() && *value > 0.0)) {
        return wrong("sf", value, "a number above zero");
    }
    for (name, value) in
        [("variance threshold", params.variance_threshold), ("singular threshold", params.singular_threshold)]
    {
        if !(0.0..1.0).contains(&value) {
            return wrong(name, value, "at least 0 and below 1");
        }
    }
    if !(params.duplicate_distance >= 0.0 && params.duplicate_distance.is_finite()) {
        return wrong("duplicate distance", params.duplicate_distance, "a number, zero or more");
    }
    if params.influences.most == Some(0) {
        return wrong("influences", 0.0, "1 or more");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
