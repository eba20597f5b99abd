//! What a fit says of itself.

use sinew_runtime::Model;

use crate::methods::rr::choose::RidgeChoice;

/// A model and the report of its fit.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// How the fit went.
    pub report: FitReport,
}

/// How a fit went: what it chose, how the residual fell, what to beware of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FitReport {
    /// What the fit chose or found, as (name, words) in order: "influences", "proxy bones", "lambda".
    pub findings: Vec<(String, String)>,
    /// The enveloping error (a fraction, not percent) to expect on unseen poses, if the fit left poses out to tell.
    pub expected: Option<f64>,
    /// What the enveloping error is counted in: the squared error of the best rigid binding over the training poses, if the fit
    /// measured it and it is not zero.
    pub rigid: Option<f64>,
    /// The summed squared error of left-out training poses after an emulated correction, if one was foreseen.
    pub left_out_corrected: Option<f64>,
    /// How rotational regression's refinement was settled, if there was one.
    pub ridge: Option<RidgeChoice>,
    /// Iterative stages: (name, residual after each iteration, why it stopped).
    pub iterations: Vec<Iterations>,
    /// Numbers for every vertex or triangle, as (name, values): for pictures and for `--json`.
    pub fields: Vec<(String, Vec<f64>)>,
    /// What the user should know: joints that were not exercised, poses alike, limits that were hit.
    pub warnings: Vec<String>,
}

/// The course of an iterative stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Iterations {
    /// The stage's name.
    pub name: String,
    /// The residual after each iteration.
    pub residuals: Vec<f64>,
    /// Why it stopped.
    pub stopped: &'static str,
}

impl FitReport {
    /// Adds a finding.
    pub fn found(&mut self, name: &str, words: impl std::fmt::Display) {
        self.findings.push((name.into(), words.to_string()));
    }
}
