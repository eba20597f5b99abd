//! The correction layer: regression over poses on what a fitted model leaves over.
//!
//! Wang, Pulli and Popović (2007) name it in their conclusion: a displacement model on top of rotational regression would
//! reproduce the training poses, "an important feature to animators". Lewis, Cordner and Fong, "Pose space deformation"
//! (2000), is the same layer over linear blend skinning. Ours sees a few joints a region, chosen with the kernel and the
//! ridge by predicting each pose from the others ([`select`]), and takes the rest mesh as one more example.

pub mod beyond;
pub mod components;
pub mod corrected;
pub mod distil;
pub mod farther;
pub mod foreseen;
pub mod kernel;
pub mod poses;
pub mod proxies;
pub mod redraw;
pub mod regions;
pub mod residual;
pub mod select;
pub mod vertices;

use glam::DVec3;
use sinew_runtime::{Correction, Deformer, Model};

use components::{Components, Kept};
use distil::Distil;
use poses::PoseTable;
use select::Chosen;

use crate::cross_validation::squared_error;
use crate::methods::rr::describe;
use crate::{FitError, FitReport, Fitted, Progress, Training, cross_validation, predict, to_model};

/// The rest mesh stays an example while the error of left-out poses grows by no more than this: it also keeps the rest
/// pose itself in place. If it spoils the other poses more, it was not made like them.
const REST_TOLERANCE: f64 = 1.02;

/// An exact correction says why a pose is not met if it is off by more than this, percent of the diagonal rms: a
/// fifth of a millimetre on a body.
const SHOWS: f64 = 0.01;

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
    /// Turns in which the drawing weights and the changes of proxy bones follow each other, see [`redraw`]; 0 leaves the
    /// weights as they are.
    pub turns: usize,
    /// Whether a smooth correction of proxy bones without a budget is distilled, see [`distil`].
    pub distil: Distil,
}

impl CorrectionParams {
    /// A smooth correction without a budget.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Self { place, closeness: Closeness::Smooth, bytes: None, turns: redraw::TURNS, distil: Distil::default() }
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
    let (model, proxies) = if params.place == Place::Proxies || proxies_first(training, &model, params) {
        progress.stage("correction of proxy bones", 0);
        let of_proxies = CorrectionParams { place: Place::Proxies, ..params.clone() };
        let (model, correction) = redraw::fit(training, model, &of_proxies, &mut report)?;
        (model, Some(correction))
    } else {
        (model, None)
    };
    let displacements = |under: &Model, report: &mut FitReport| {
        vertices::fit(training, under, &vertices::Params::from(params), progress, report)
    };
    let correction = match (params.place, proxies) {
        (Place::Proxies, Some(proxies)) => Correction::Proxies(proxies),
        (_, Some(proxies)) => {
            let under = model.clone().with_correction(Correction::Proxies(proxies.clone()))?;
            Correction::Both(proxies, displacements(&under, &mut report)?)
        }
        (_, None) => Correction::Vertices(displacements(&model, &mut report)?),
    };
    let cost = correction.cost();
    report
        .found("correction", format!("{}, {} operations a frame, {} bytes", correction.kind(), cost.flops, cost.bytes));
    if let (Some(most), 0) = (params.bytes, cost.bytes) {
        report.warnings.push(format!("{most} bytes do not pay for one component: nothing is corrected"));
    }
    let model = model.with_correction(correction)?;
    if params.closeness == Closeness::Exact {
        tell_left(training, &model, params, &mut report);
    }
    if let Some((left_out, rigid)) = report.left_out_corrected.zip(report.rigid) {
        report.found("error on left-out training poses, corrected", describe::percent(left_out, rigid));
    }
    tell_errors(training, &model, "corrected", &mut report);
    Ok(Fitted { model, report })
}

/// Whether a correction of vertices lies over one of proxy bones. A proxy's few numbers are foreseen from fewer poses than
/// the displacements of all its vertices; with many poses the displacements do as well alone, and a budget is theirs.
fn proxies_first(training: &Training, model: &Model, params: &CorrectionParams) -> bool {
    let few = cross_validation::together(&training.sources).len() <= cross_validation::LEAVE_ONE_OUT_LIMIT;
    few && params.bytes.is_none() && matches!(model.deformer, Deformer::RotationalRegression(_))
}

/// Reports how far an exact correction stays from the training poses, and why if it shows.
fn tell_left(training: &Training, model: &Model, params: &CorrectionParams, report: &mut FitReport) {
    let squared = |(predicted, truth): (&Vec<DVec3>, &Vec<DVec3>)| {
        predicted.iter().zip(truth).map(|(p, v)| p.distance_squared(*v)).sum::<f64>()
    };
    let predicted = predict::training_poses(model, training);
    let squares: Vec<f64> = predicted.iter().zip(&training.vertices).map(squared).collect();
    let percent = |sum: f64, poses: usize| {
        100.0 * (sum / (poses * training.vertex_count()).max(1) as f64).sqrt() / training.diagonal
    };
    let all = percent(squares.iter().sum(), squares.len());
    report.found("correction, left at the training poses", format!("{all:.5} % of the diagonal rms"));
    let worst = cross_validation::least(&squares.iter().map(|s| -s).collect::<Vec<_>>());
    let most = percent(squares[worst], 1);
    if most > SHOWS {
        let reason = match (params.place, params.bytes) {
            (_, Some(bytes)) => format!("{bytes} bytes do not hold more"),
            (Place::Proxies, None) => "the proxy bones cannot draw more; `--correct vertices` can".into(),
            (Place::Vertices, None) => "no joint tells it from a training pose with another mesh; leave one out".into(),
        };
        let pose = worst + 1;
        report.warnings.push(format!(
            "training pose {pose} of {} is not met exactly, {most:.3} % of the diagonal rms is left: {reason}",
            squares.len()
        ));
    }
}

/// Bytes of a correction with `counts` components a region (R): the pose space of the regions in use, their own bytes
/// (`parts` gives a region's regression and what it takes besides components), and `bytes` (R) a component.
fn total_bytes<Region>(
    table: &PoseTable,
    regions: &[Region],
    parts: impl Fn(&Region) -> (&Chosen, usize),
    bytes: &[usize],
    counts: &[usize],
) -> usize {
    let used: Vec<usize> = (0..regions.len()).filter(|&r| counts[r] > 0).collect();
    let kernels = used.iter().map(|&r| &parts(&regions[r]).0.kernel);
    let space = to_model::correction::pose_space(table, kernels).bytes() as usize;
    space + used.iter().map(|&r| parts(&regions[r]).1 + counts[r] * bytes[r]).sum::<usize>()
}

/// Reports the errors of the model, corrected or distilled, on the training poses and, from left-out ones, on unseen poses.
fn tell_errors(training: &Training, model: &Model, how: &str, report: &mut FitReport) {
    let Some((left_out, rigid)) = report.left_out_corrected.zip(report.rigid) else { return };
    let train = squared_error(training, &predict::training_poses(model, training));
    let expected = describe::expected_error(train, left_out);
    report.found(&format!("training error, {how}"), describe::percent(train, rigid));
    report.found(&format!("expected on unseen poses, {how}"), describe::percent(expected, rigid));
    report.expected = Some((expected / rigid).sqrt());
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
