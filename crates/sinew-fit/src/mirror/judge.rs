//! Whether a character that looks symmetric also moves so.
//!
//! A body may be its own mirror image at rest and still bend its left knee otherwise than its right one (a sculpted
//! shape on one side is enough), or turn a joint by half a turn, where both directions are the same rotation. Its images
//! then contradict the poses. Left-out poses alone do not tell: without its neighbours, a pose may be nearest to some image,
//! and a contradicting image is still better than none. What tells is that the model no longer meets the poses it was
//! fitted to. Both count in the error to expect on unseen poses ([`expected_error`]), and the model with less of it is
//! taken. A pose and its image are left out together.

use crate::cross_validation::{folds, squared_error};
use crate::methods::rr::describe::expected_error;
use crate::{FitError, Fitted, Method, Progress, Quiet, Training, fit, predict};

/// Folds to judge a method by that does not say itself what to expect.
const JUDGING_FOLDS: usize = 2;

/// The images are taken if they leave no more than this part of the error to expect: the estimate itself is no better.
const WORTHWHILE: f64 = 0.9;

/// Fits `method` to the poses and to `both`, the poses with their images after them; returns the better fit and says in
/// words which it is.
pub fn fit_better(
    training: &Training,
    both: &Training,
    method: &Method,
    progress: &dyn Progress,
) -> Result<(Fitted, String), FitError> {
    let (without, with) = (fit(training, method, progress)?, fit(both, method, progress)?);
    let judged = match (without.report.expected, with.report.expected) {
        (Some(plain), Some(mirrored)) => Some((plain, mirrored)),
        _ => expect(training, both, method, &without, &with)?,
    };
    Ok(match judged {
        None => (without, "not used, too few poses to tell".into()),
        Some((plain, mirrored)) if mirrored <= WORTHWHILE * plain => {
            let less = 100.0 * (1.0 - mirrored / plain);
            (with, format!("every pose twice; {less:.0} % less error is expected"))
        }
        Some((plain, mirrored)) => {
            let change = 100.0 * (mirrored / plain - 1.0);
            (without, format!("not used: they change the error to expect by {change:+.0} %, and a tenth less is asked"))
        }
    })
}

/// The rms error to expect of either fit, from the poses it was fitted to and from left-out ones; none if there are too
/// few to leave any out.
fn expect(
    training: &Training,
    both: &Training,
    method: &Method,
    without: &Fitted,
    with: &Fitted,
) -> Result<Option<(f64, f64)>, FitError> {
    let folds = folds(&training.sources);
    if folds.len() < JUDGING_FOLDS {
        return Ok(None);
    }
    let error =
        |fitted: &Fitted, judged: &Training| squared_error(judged, &predict::training_poses(&fitted.model, judged));
    let mut left_out = [0.0; 2];
    let mut poses = 0;
    for fold in folds.iter().step_by(folds.len().div_ceil(JUDGING_FOLDS)) {
        let held_out = training.subset(&fold.held_out);
        poses += held_out.pose_count();
        // The images stand after the poses, in the same order.
        let images = fold.fit.iter().map(|e| e + training.pose_count());
        let kept: Vec<usize> = fold.fit.iter().copied().chain(images).collect();
        left_out[0] += error(&fit(&training.subset(&fold.fit), method, &Quiet)?, &held_out);
        left_out[1] += error(&fit(&both.subset(&kept), method, &Quiet)?, &held_out);
    }
    let per_pose = |fitted: &Fitted, left_out: f64| {
        expected_error(error(fitted, training) / training.pose_count() as f64, left_out / poses as f64).sqrt()
    };
    Ok(Some((per_pose(without, left_out[0]), per_pose(with, left_out[1]))))
}
