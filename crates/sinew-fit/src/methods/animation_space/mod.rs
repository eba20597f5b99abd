//! Animation space (Merry, Marais and Gain, "Animation space: a truly linear framework for character animation",
//! 2006): `v = Σ_b G_b p_b`, fitted to all vertices at once (eq. 17 and 18):
//!
//!   minimise Σ_v Σ_e a_e ‖Σ_b G_b^e p_vb − y_v^e‖² + λ Σ_v ‖p_v − p̄_v‖² + δ Σ_(u,v) 1/ℓ_uv ‖(p_u − p̄_u) − (p_v − p̄_v)‖²
//!   with Σ_b w_vb = 1 for every vertex, w the fourth component of p.
//!
//! Where we differ from the paper:
//! - p̄ is the linear blend skinning solution (the paper's own wish for future work), so that what the examples do not
//!   determine stays plain skinning; `p̄ = 0`, the published form, is an option. The edge term then smooths the
//!   correction only and does not shrink convex regions.
//! - λ and δ are chosen together by cross-validation unless they are given.
//! - The rest mesh in the rest pose counts as one more example.
//! - Influence sets are found automatically unless they are painted.
//! - Solved by conjugate gradients on the normal equations with one exactly inverted block a vertex (`system`),
//!   in memory O(V·n + unknowns), instead of LSQR.

mod coordinates;
mod selection;
mod system;

pub use coordinates::Coordinates;
pub use selection::Chosen;

use super::influence_sets::{InfluenceParams, InfluenceSets};
use super::ssd::{self, SparseWeights, SsdParams};
use crate::geometry::topology::Topology;
use crate::report::Iterations;
use crate::{FitError, FitReport, Progress, Training};
use system::System;

/// What under-determined coordinates fall back on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prior {
    /// The linear blend skinning solution.
    Skinning,
    /// Zero, as published.
    Zero,
}

/// How animation space is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct AsParams {
    /// The skin to start from, and to fall back on.
    pub skin: SsdParams,
    /// Which bones may move which vertex.
    pub influences: InfluenceParams,
    /// What under-determined coordinates fall back on.
    pub prior: Prior,
    /// λ of eq. 17, in a unit box, ≥ 0; `None` to choose it by cross-validation.
    pub lambda: Option<f64>,
    /// δ of eq. 18, in a unit box, ≥ 0; `None` to choose it by cross-validation. The paper used 0.005 and 0.02.
    pub delta: Option<f64>,
    /// Whether the rest mesh in the rest pose is one more example.
    pub rest_pose: bool,
}

impl Default for AsParams {
    fn default() -> Self {
        Self {
            skin: SsdParams::default(),
            influences: InfluenceParams::default(),
            prior: Prior::Skinning,
            lambda: None,
            delta: None,
            rest_pose: true,
        }
    }
}

/// What a fit gives: coordinates, the skin they started from, and how it went.
#[derive(Debug, Clone)]
pub struct AsFit {
    /// The coordinates p in the root's rest frame.
    pub coordinates: Coordinates,
    /// The linear blend skin beneath.
    pub skin: SparseWeights,
    /// λ and δ, and what cross-validation saw.
    pub chosen: Chosen,
    /// The mean number of bones a vertex might use.
    pub set_size: f64,
    /// The vertices with more unknowns than equations, which the prior decides in part.
    pub underdetermined: usize,
    /// The solver's course.
    pub iterations: Iterations,
}

/// Fits animation-space coordinates for every vertex.
pub fn fit(training: &Training, params: &AsParams, progress: &dyn Progress) -> Result<AsFit, FitError> {
    check(params)?;
    let chosen = selection::choose(training, params, progress)?;
    let skin = ssd::fit(training, &params.skin, progress)?;
    progress.stage("animation space", 0);
    let examples = with_rest_pose(training, params);
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let sets = InfluenceSets::new(training, &skin, &topology, &params.influences);
    let system = System::new(&examples, &skin, &sets, &topology, params.prior);
    let mut unknowns = system.start();
    let iterations = system.solve(chosen.lambda, chosen.delta, system::FINAL_TOLERANCE, &mut unknowns);
    let equations = 3 * examples.pose_count();
    Ok(AsFit {
        coordinates: system.coordinates(&unknowns),
        set_size: sets.mean_count(),
        underdetermined: sets.bones.iter().filter(|bones| 4 * bones.len() - 1 > equations).count(),
        skin,
        chosen,
        iterations,
    })
}

/// Says in `report` what the fit chose and what to beware of.
pub fn describe(fit: &AsFit, report: &mut FitReport) {
    report.found("lambda", format!("{:e}", fit.chosen.lambda));
    report.found("delta", format!("{:e}", fit.chosen.delta));
    report.found("bones a vertex may use (mean)", format!("{:.2}", fit.set_size));
    report.iterations.push(fit.iterations.clone());
    if fit.underdetermined > 0 {
        let of = fit.coordinates.vertices.len();
        report.warnings.push(format!(
            "{} of {of} vertices have more unknowns than the poses give equations; what is open stays as plain skinning",
            fit.underdetermined
        ));
    }
}

fn check(params: &AsParams) -> Result<(), FitError> {
    for (name, value) in [("lambda", params.lambda), ("delta", params.delta)] {
        if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= 0.0)) {
            return Err(FitError::Parameter { name, value: value.to_string(), range: "a number, zero or more" });
        }
    }
    if params.influences.most == Some(0) {
        return Err(FitError::Parameter { name: "influences", value: "0".into(), range: "1 or more" });
    }
    Ok(())
}

/// The training poses and the rest pose, if it is wanted. It weighs as much as the mean pose.
fn with_rest_pose(training: &Training, params: &AsParams) -> Training {
    let mut examples = training.clone();
    if params.rest_pose {
        examples.transforms.push(vec![glam::DAffine3::IDENTITY; training.bone_count()]);
        examples.vertices.push(training.rest.clone());
        examples.pose_weights.push(1.0);
        examples.sources.push(training.sources.iter().max().map_or(0, |last| last + 1));
    }
    examples
}

#[cfg(test)]
pub(crate) mod tests;
