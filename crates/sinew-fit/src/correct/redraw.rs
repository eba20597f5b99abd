//! The drawing weights of corrected proxy bones, fitted last.
//!
//! The model's weights α were fitted to proxies as rotational regression predicts them. Corrected proxies move otherwise,
//! and draw better with weights of their own; with these, another change of the proxies draws best. So both are fitted
//! in turns, each to what the other leaves:
//!
//!   the changes Δ(q) given α ([`proxies`]),
//!   minimise over α: Σ_e a_e Σ_v ‖y_v^e − Σ_p α_vp (T_p + Δ_p)^e v̂ − Σ_b α_vb T_b^e v̂‖².
//!
//! A vertex may be drawn by what draws it or a vertex within two edges of it, and by no more entries than before: the run
//! time's cost stays.

use sinew_runtime::correction::ProxyCorrection;
use sinew_runtime::{Correction, Deformer, Model, Skin};

use super::CorrectionParams;
use super::proxies::{self, ProxyFit, Regressions};
use crate::cross_validation::squared_error;
use crate::geometry::topology::Topology;
use crate::methods::rr::weights;
use crate::{FitError, FitReport, Training, predict, to_model};

/// Turns of weights and changes: the error falls quickly in the first ones, and little after these.
pub const TURNS: usize = 6;

/// New weights are refused if the squared error on poses left out of the regression grows by more than this. A little of
/// growth is none: it counts the changes of all proxies of a vertex, which show less the more they share it.
const FORESEEABLE: f64 = 1.5;

/// A model, its correction, and the words for the report.
struct Turn {
    model: Model,
    fit: ProxyFit,
    notes: FitReport,
}

/// Corrects the proxies of `model` and gives it the weights that go with the correction, if they bring it nearer to the
/// training poses and remain foreseeable.
pub fn fit(
    training: &Training,
    model: Model,
    params: &CorrectionParams,
    report: &mut FitReport,
) -> Result<(Model, ProxyCorrection), FitError> {
    let first = corrected(training, model, params, None)?;
    let mut last: Option<Turn> = None;
    for _ in 0..params.turns {
        last = Some(redrawn(training, last.as_ref().unwrap_or(&first), params, &first)?);
    }
    let better = last.filter(|last| last.fit.left_out <= FORESEEABLE * first.fit.left_out);
    let error = training_error(training, &first)?;
    let better = match better {
        Some(last) if training_error(training, &last)? < error => Some(last),
        _ => None,
    };
    report.found("weights fitted to corrected proxies", if better.is_some() { "yes" } else { "no: it gains nothing" });
    let Turn { model, fit, notes } = better.unwrap_or(first);
    report.findings.extend(notes.findings);
    report.warnings.extend(notes.warnings);
    Ok((model, fit.correction))
}

fn corrected(
    training: &Training,
    model: Model,
    params: &CorrectionParams,
    given: Option<&Regressions>,
) -> Result<Turn, FitError> {
    let mut notes = FitReport::default();
    let fit = proxies::fit(training, &model, params, given, &mut notes)?;
    Ok(Turn { model, fit, notes })
}

/// The weights that draw the training meshes best by the corrected proxies of `turn`, and the correction that goes with
/// them, by the regressions of the `first`.
fn redrawn(training: &Training, turn: &Turn, params: &CorrectionParams, first: &Turn) -> Result<Turn, FitError> {
    let mut model = turn.model.clone();
    if let Deformer::RotationalRegression(deformer) = &mut model.deformer {
        let transforms = predict::proxy_transforms(&turn.whole()?, training, deformer.proxy_count());
        let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
        let candidates = candidates(&deformer.skin, &topology);
        let weights = weights::solve_weights(training, &candidates, &transforms, deformer.skin.width);
        deformer.skin = to_model::skin(&weights);
    }
    corrected(training, model, params, Some(&first.fit.regressions))
}

impl Turn {
    /// The model with its correction.
    fn whole(&self) -> Result<Model, FitError> {
        Ok(self.model.clone().with_correction(Correction::Proxies(self.fit.correction.clone()))?)
    }
}

fn training_error(training: &Training, turn: &Turn) -> Result<f64, FitError> {
    Ok(squared_error(training, &predict::training_poses(&turn.whole()?, training)))
}

/// The palette entries that draw each vertex or one within two edges of it, ascending, (V).
fn candidates(skin: &Skin, topology: &Topology) -> Vec<Vec<usize>> {
    let mut entries: Vec<Vec<usize>> =
        (0..skin.vertex_count()).map(|v| skin.vertex(v).map(|(entry, _)| entry).collect()).collect();
    for _ in 0..2 {
        entries = (0..entries.len())
            .map(|v| {
                let around = topology.vertex_vertices.row(v).iter().flat_map(|&w| &entries[w]);
                let mut all: Vec<usize> = entries[v].iter().chain(around).copied().collect();
                all.sort_unstable();
                all.dedup();
                all
            })
            .collect();
    }
    entries
}
