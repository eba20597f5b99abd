//! The drawing weights of corrected proxy bones, fitted last.
//!
//! The model's weights α were fitted to proxies as rotational regression predicts them. Corrected proxies move otherwise,
//! and draw better with weights of their own; with these, another change of the proxies draws best. So both are fitted
//! in turns, each to what the other leaves:
//!
//!   the changes Δ(q) given α ([`proxies`]),
//!   minimise over α: Σ_e a_e Σ_v ‖y_v^e − Σ_p α_vp (T_p + Δ_p)^e v̂ − Σ_b α_vb T_b^e v̂‖²,
//!
//! e over the training poses and, with little weight, over some that go farther ([`Farther`]).
//!
//! A vertex may be drawn by what draws it or a vertex within two edges of it. At last the weights are thinned ([`thin`])
//! until drawing and correction together cost what drawing cost before, or until it begins to show.

use sinew_runtime::correction::ProxyCorrection;
use sinew_runtime::{Correction, Model};

use super::CorrectionParams;
use super::corrected::Corrected;
use super::farther::{self, Farther};
use super::proxies::{self, ProxyFit, Regressions};
use crate::geometry::topology::Topology;
use crate::methods::rr::{thin, weights};
use crate::methods::ssd::SparseWeights;
use crate::{FitError, FitReport, Training};

/// Turns of weights and changes: the error falls quickly in the first ones, and little after these.
pub const TURNS: usize = 5;

/// New weights are refused if the squared error on poses left out of the regression grows by more than this. A little of
/// growth is none: it counts the changes of all proxies of a vertex, which show less the more they share it.
const FORESEEABLE: f64 = 1.5;

/// What thinning may lose of the squared error that is there ([`thin::shown`]): one and a half percent of the error.
const SHOWS_LITTLE: f64 = 0.03;

/// How much longer an operation of the correction takes than one of drawing: short loops over scattered data (measured).
const COSTLIER: usize = 3;

/// How much all farther poses together count beside the training poses. What they ask for is vague, and binds where the training
/// poses leave a choice: ten times as much costs accuracy, a third of it lets vertices stick out.
const FARTHER: f64 = 0.01;

/// A model with its correction, how that was regressed, and the words for the report.
struct Turn {
    corrected: Corrected,
    regressions: Regressions,
    /// See [`ProxyFit::left_out`].
    left_out: f64,
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
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let taken = farther::spread(training.pose_count(), farther::MOST);
    let mut farther = Farther::new(training, &taken, &first.corrected.model.character.skin, &topology, FARTHER);
    let mut last: Option<Turn> = None;
    for _ in 0..params.turns {
        let from = last.as_ref().unwrap_or(&first);
        let drawn = &from.corrected;
        let candidates = candidates(&drawn.weights(), &topology);
        let seen = farther.drawn_by(&drawn.whole()?, &topology, 1.0);
        let weights = weights::solve_weights(seen, &candidates, &drawn.transforms(seen)?, drawn.width());
        last = Some(corrected(training, drawn.drawn_by(&weights), params, Some(&first.regressions))?);
    }
    let better = last.filter(|last| last.left_out <= FORESEEABLE * first.left_out);
    let error = first.corrected.error(training)?;
    let better = match better {
        Some(last) if last.corrected.error(training)? < error => Some(last),
        _ => None,
    };
    report.found("weights fitted to corrected proxies", if better.is_some() { "yes" } else { "no: it gains nothing" });
    let best = better.as_ref().unwrap_or(&first);
    let seen = farther.drawn_by(&best.corrected.whole()?, &topology, 1.0);
    let thinned = thinned(training, seen, best, params, &first, report.left_out_corrected)?;
    let entries = thinned.corrected.deformer().skin.mean_count();
    report.found("palette entries a vertex, corrected (mean)", format!("{entries:.2}"));
    let Turn { corrected: Corrected { model, correction }, notes, .. } = thinned;
    report.findings.extend(notes.findings);
    report.warnings.extend(notes.warnings);
    Ok((model, correction))
}

fn corrected(
    training: &Training,
    model: Model,
    params: &CorrectionParams,
    given: Option<&Regressions>,
) -> Result<Turn, FitError> {
    let mut notes = FitReport::default();
    let ProxyFit { correction, regressions, left_out } = proxies::fit(training, &model, params, given, &mut notes)?;
    Ok(Turn { corrected: Corrected { model, correction }, regressions, left_out, notes })
}

/// `turn` with so few weights that it costs no more than the `first` without its correction, if that can be had. Weights are
/// fitted to the poses that are `seen`.
fn thinned(
    training: &Training,
    seen: &Training,
    turn: &Turn,
    params: &CorrectionParams,
    first: &Turn,
    left_out: Option<f64>,
) -> Result<Turn, FitError> {
    let drawn = &turn.corrected;
    let loss = SHOWS_LITTLE * thin::shown(drawn.error(training)?, left_out);
    let correction = Correction::Proxies(drawn.correction.clone()).cost().flops as usize;
    let visits = thin::visits(&first.corrected.weights()).saturating_sub((COSTLIER * correction / 2) / thin::VISIT);
    let limits = thin::Limits { loss, visits };
    let weights = thin::thin(seen, &drawn.transforms(seen)?, drawn.weights(), drawn.width(), limits);
    corrected(training, drawn.drawn_by(&weights), params, Some(&first.regressions))
}

/// The palette entries that draw each vertex or one within two edges of it, ascending, (V).
pub(crate) fn candidates(skin: &SparseWeights, topology: &Topology) -> Vec<Vec<usize>> {
    let mut entries: Vec<Vec<usize>> =
        skin.vertices.iter().map(|pairs| pairs.iter().map(|&(entry, _)| entry).collect()).collect();
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
