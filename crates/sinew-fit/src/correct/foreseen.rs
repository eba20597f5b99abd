//! The model under a correction, fitted for the sum of both.
//!
//! How far rotational regression should follow the examples depends on whether a correction follows: what a strong ridge of
//! the refinement leaves over, kernels over poses may predict better than the refinement would. The ridge is therefore
//! the one that predicts left-out poses best after an emulated correction
//! ([`after_correction`](crate::methods::rr::after_correction)). With few poses, leaving one out is a harder task than
//! the one at hand and speaks for strong ridges, and now and then the kernels of one ridge's residual do not fit where
//! those of the next do. So its rivals are fitted and corrected too: one of them is taken if the error to expect, which
//! counts that of the training poses as well, is clearly less.

use sinew_runtime::Model;

use super::beyond;
use super::distil::{self, Distil, Gained};
use super::{Closeness, CorrectionParams, Place, correct};
use crate::cross_validation::squared_error;
use crate::method::regressions;
use crate::methods::rr::RrParams;
use crate::{FitError, Fitted, Method, Progress, Quiet, Training, predict};

/// A rival's squared error is clearly less at this times the other's: estimates that are nearer to each other differ by
/// chance.
const CLEARLY_LESS: f64 = 0.9;

/// Fits `method` as the base of a correction, and corrects it.
pub fn fit(
    training: &Training,
    method: &Method,
    params: &CorrectionParams,
    progress: &dyn Progress,
) -> Result<Fitted, FitError> {
    let Base { fitted: base, corrected } = base(training, method, progress)?;
    let near = |model: &Model| squared_error(training, &predict::training_poses(model, training));
    let before = near(&base.model);
    let mut fitted = match corrected {
        Some(corrected) if CorrectionParams { distil: judging().distil, ..params.clone() } == judging() => corrected,
        _ => correct(training, base, params, progress)?,
    };
    // Exact corrections and those with a budget of bytes stay as they were asked for.
    let free = params.place == Place::Proxies && params.closeness == Closeness::Smooth && params.bytes.is_none();
    if let (true, Method::RotationalRegression(rr)) = (free && params.distil != Distil::Off, method) {
        progress.stage("distillation", 0);
        let gained = Gained { before, after: near(&fitted.model) };
        let Fitted { model, report } = &mut fitted;
        if let Some(distilled) = distil::distil(training, model, rr, gained, params.distil, report)? {
            *model = distilled;
        }
    }
    if params.closeness == Closeness::Smooth {
        fitted.model = beyond::hold(training, fitted.model, &mut fitted.report);
    }
    Ok(fitted)
}

/// The base of a correction.
pub struct Base {
    /// The model.
    pub fitted: Fitted,
    /// The model with its proxies corrected, if it had rivals to be judged against.
    corrected: Option<Fitted>,
}

/// Fits `method` as the base of a correction.
pub fn base(training: &Training, method: &Method, progress: &dyn Progress) -> Result<Base, FitError> {
    let Method::RotationalRegression(rr) = method else {
        return Ok(Base { fitted: crate::fit(training, method, progress)?, corrected: None });
    };
    let foreseeing = RrParams { to_be_corrected: true, ..rr.clone() };
    let mut fits = regressions(training, &foreseeing, progress)?.into_iter();
    let fitted = fits.next().expect("the chosen ridge stands first");
    if fits.len() == 0 {
        return Ok(Base { fitted, corrected: None });
    }
    let first = Candidate::new(training, fitted)?;
    let mut best: Option<Candidate> = None;
    for rival in fits {
        let rival = Candidate::new(training, rival)?;
        if best.as_ref().is_none_or(|best| rival.expected < best.expected) {
            best = Some(rival);
        }
    }
    let best = best.filter(|best| best.expected < CLEARLY_LESS * first.expected).unwrap_or(first);
    Ok(Base { fitted: best.fitted, corrected: Some(best.corrected) })
}

/// The correction that models are judged with.
fn judging() -> CorrectionParams {
    CorrectionParams::new(Place::Proxies)
}

/// A model, and what it becomes with its proxies corrected.
struct Candidate {
    fitted: Fitted,
    corrected: Fitted,
    /// The squared error to expect on unseen poses, up to a factor: the geometric mean of those of training poses and
    /// of left-out ones. What users are told has a floor under the former, which would hide differences.
    expected: f64,
}

impl Candidate {
    fn new(training: &Training, fitted: Fitted) -> Result<Self, FitError> {
        let corrected = correct(training, fitted.clone(), &judging(), &Quiet)?;
        let near = squared_error(training, &predict::training_poses(&corrected.model, training));
        let expected = fitted.report.left_out_corrected.map_or(near, |left_out| (near * left_out).sqrt());
        Ok(Self { fitted, corrected, expected })
    }
}
