//! The model under a correction, fitted for the sum of both.
//!
//! How far rotational regression should follow the examples depends on whether a correction follows: what a strong ridge of
//! the refinement leaves over, kernels over poses may predict better than the refinement would. The ridge is therefore
//! the one that predicts left-out poses best after an emulated correction
//! ([`after_correction`](crate::methods::rr::after_correction)). With few poses, leaving one out is a harder task than
//! the one at hand and speaks for strong ridges. So one other than the refinement's own choice is taken only if the
//! corrected model also comes near to the training poses: then the correction makes up for what the ridge gave up.

use super::{CorrectionParams, Place, correct};
use crate::cross_validation::squared_error;
use crate::methods::rr::RrParams;
use crate::{FitError, Fitted, Method, Progress, Quiet, Training, predict};

/// The corrected model comes near to the training poses if it leaves no more than this times the rms error of the other:
/// a smoother model may miss them by a little more, but not by another order.
const NEAR: f64 = 1.3;

/// Fits `method` as the base of a correction.
pub fn fit(training: &Training, method: &Method, progress: &dyn Progress) -> Result<Fitted, FitError> {
    let Method::RotationalRegression(params) = method else { return crate::fit(training, method, progress) };
    let foreseeing = RrParams { to_be_corrected: true, ..params.clone() };
    let fitted = crate::fit(training, &Method::RotationalRegression(foreseeing.clone()), progress)?;
    let Some(ridge) = fitted.report.uncorrected_ridge else { return Ok(fitted) };
    let refine =
        params.refine.clone().map(|refine| crate::methods::rr::refine::RefineParams { ridge: Some(ridge), ..refine });
    let own = crate::fit(training, &Method::RotationalRegression(RrParams { refine, ..foreseeing }), progress)?;
    let (far, near) = (corrected_error(training, &fitted)?, corrected_error(training, &own)?);
    Ok(if far <= NEAR * NEAR * near { fitted } else { own })
}

/// The squared error on the training poses once the proxies are corrected.
fn corrected_error(training: &Training, fitted: &Fitted) -> Result<f64, FitError> {
    let corrected = correct(training, fitted.clone(), &CorrectionParams::new(Place::Proxies), &Quiet)?;
    Ok(squared_error(training, &predict::training_poses(&corrected.model, training)))
}
