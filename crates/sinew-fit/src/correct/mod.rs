//! The correction layer: regression over poses on what a fitted model leaves over.
//!
//! Wang, Pulli and Popović (2007) name it in their conclusion: a displacement model on top of rotational regression would
//! reproduce the training poses, "an important feature to animators". Lewis, Cordner and Fong, "Pose space deformation"
//! (2000), is the same layer over linear blend skinning. Ours sees a few joints a region, chosen with the kernel and the
//! ridge by predicting each pose from the others ([`select`]), and takes the rest mesh as one more example.

pub mod components;
pub mod kernel;
pub mod poses;
pub mod proxies;
pub mod regions;
pub mod residual;
pub mod select;
pub mod vertices;

use sinew_runtime::Correction;

use components::{Components, Kept};
use poses::PoseTable;
use select::Chosen;

use crate::{FitError, FitReport, Fitted, Progress, Training};

/// The rest mesh stays an example while the error of left-out poses grows by no more than this: it also keeps the rest
/// pose itself in place. If it spoils the other poses more, it was not made like them.
const REST_TOLERANCE: f64 = 1.02;

/// What is corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The proxy bones' transforms; for rotational regression.
    Proxies,
    /// Displacements of vertices; for any method.
    Vertices,
}

/// How closely a correction follows the example poses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Closeness {
    /// With the ridge that predicts unseen poses best.
    #[default]
    Smooth,
    /// The training poses come out exactly.
    Exact,
}

/// How a correction is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrectionParams {
    /// What is corrected.
    pub place: Place,
    /// How closely.
    pub closeness: Closeness,
    /// Bytes at most, if there is a budget.
    pub bytes: Option<usize>,
}

impl CorrectionParams {
    /// A smooth correction without a budget.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Self { place, closeness: Closeness::Smooth, bytes: None }
    }
}

/// Corrects a fitted model on the poses it was fitted to.
pub fn correct(
    training: &Training,
    fitted: Fitted,
    params: &CorrectionParams,
    progress: &dyn Progress,
) -> Result<Fitted, FitError> {
    let Fitted { model, mut report } = fitted;
    let correction = match params.place {
        Place::Proxies => Correction::Proxies(proxies::fit(training, &model, params, progress, &mut report)?),
        Place::Vertices => Correction::Vertices(vertices::fit(
            training,
            &model,
            &vertices::Params::from(params),
            progress,
            &mut report,
        )?),
    };
    let cost = correction.cost();
    report
        .found("correction", format!("{}, {} operations a frame, {} bytes", correction.kind(), cost.flops, cost.bytes));
    Ok(Fitted { model: model.with_correction(correction)?, report })
}

/// Reports what the regressions see and how well they predict.
fn tell<'a>(
    training: &Training,
    table: &PoseTable,
    regions: impl Iterator<Item = &'a Chosen> + Clone,
    report: &mut FitReport,
) {
    let count = regions.clone().count();
    let joints: usize = regions.clone().map(|chosen| chosen.kernel.joints.len()).sum();
    let mean = joints as f64 / count.max(1) as f64;
    let left_out: f64 = regions.map(|chosen| chosen.left_out).sum();
    let samples = training.vertex_count() * table.training_poses();
    let rms = 100.0 * (left_out / samples.max(1) as f64).sqrt() / training.diagonal;
    let rest = if table.with_rest { "with the rest pose" } else { "without the rest pose" };
    report.found("correction regions", format!("{count}, {mean:.1} joints each, {rest}"));
    report.found("correction, each pose left out", format!("{rms:.4} % of the diagonal rms"));
    let alike = table.alike();
    if alike > 0 {
        report.warnings.push(format!("{alike} training poses repeat another one; the correction takes their average"));
    }
}

/// Reports what compression leaves out.
fn tell_components(all: &[Components], kept: &Kept, report: &mut FitReport) {
    let count: usize = all.iter().map(|c| c.energies.len()).sum();
    let total: f64 = all.iter().flat_map(|c| &c.energies).sum();
    let lost = if total > 0.0 { 100.0 * (kept.left / total).sqrt() } else { 0.0 };
    let kept: usize = kept.counts.iter().sum();
    report.found("correction components", format!("{kept} of {count}, {lost:.2} % of the residual (rms) left out"));
}
