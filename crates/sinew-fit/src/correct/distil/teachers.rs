//! Who teaches: two corrected regressions, and what is learned is the mean of what they draw (ours; the idea is that of Breiman's
//! "Bagging predictors", 1996).
//!
//! How a regression groups vertices and triangles decides what it makes of unseen poses more than the examples can tell: a few
//! proxy bones more or fewer move its error there by a tenth, this way or that. What two such regressions err by differs, and half of that
//! cancels in their mean. At run time nothing of it shows: the student draws the mean and costs what it costs.

use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Correction, Model};

use crate::correct::{CorrectionParams, Place, correct, vertices};
use crate::method::regressions;
use crate::methods::rr::choose::RidgeChoice;
use crate::methods::rr::{MOST_PROXIES, RrParams};
use crate::{FitError, FitReport, Quiet, Training};

/// How many times as many proxy bones the second teacher has: enough for other groups, and it is fitted in about the time of the
/// first. A third teacher gained a hundredth at most.
const MORE_PROXIES: f64 = 1.25;

/// `corrected`, whose regression is `deformer`, and a second regression beside it, fitted like it with `params` and the ridge that
/// was settled for it.
pub fn teachers(
    training: &Training,
    corrected: &Model,
    deformer: &RotationalRegression,
    params: &RrParams,
    ridge: Option<RidgeChoice>,
) -> Result<Vec<Model>, FitError> {
    let proxies = ((MORE_PROXIES * deformer.proxy_count() as f64).round() as usize).min(MOST_PROXIES);
    let params = RrParams { proxy_bones: Some(proxies), error: None, to_be_corrected: true, ridge, ..params.clone() };
    let other = regressions(training, &params, &Quiet)?.swap_remove(0);
    let other = correct(training, other, &CorrectionParams::new(Place::Proxies), &Quiet)?.model;
    [corrected, &other].map(|model| displaced(training, model)).into_iter().collect()
}

/// `corrected` with the displacements of what it leaves over at the vertices: a teacher may cost what it likes.
fn displaced(training: &Training, corrected: &Model) -> Result<Model, FitError> {
    let Some(Correction::Proxies(proxies)) = &corrected.correction else { return Ok(corrected.clone()) };
    let params = vertices::Params::from(&CorrectionParams::new(Place::Vertices));
    let displacements = vertices::fit(training, corrected, &params, &Quiet, &mut FitReport::default())?;
    Ok(corrected.clone().with_correction(Correction::Both(proxies.clone(), displacements))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict;
    use sinew_examples::datasets;
    use sinew_runtime::Deformer;

    #[test]
    fn the_second_teacher_has_other_groups_and_both_displace_vertices() {
        let examples = datasets::by_name("arm").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let params = RrParams { proxy_bones: Some(8), to_be_corrected: true, ..RrParams::default() };
        let first = regressions(&training, &params, &Quiet).unwrap().swap_remove(0);
        let ridge = first.report.ridge;
        assert!(ridge.is_some(), "a refined regression says how it was settled");
        let corrected = correct(&training, first, &CorrectionParams::new(Place::Proxies), &Quiet).unwrap().model;
        let Deformer::RotationalRegression(deformer) = &corrected.deformer else { panic!("it is one") };
        let both = teachers(&training, &corrected, deformer, &params, ridge).unwrap();
        let proxies = |model: &Model| match &model.deformer {
            Deformer::RotationalRegression(deformer) => deformer.proxy_count(),
            other => panic!("not {}", other.kind()),
        };
        assert_eq!(both.iter().map(proxies).collect::<Vec<_>>(), [8, 10]);
        assert!(both.iter().all(|model| model.vertex_correction().is_some()));
        // What is learned is the mean of what they draw.
        let poses = &training.transforms[..2];
        let [one, other] = [0, 1].map(|k| predict::poses(&both[k], &training, poses.iter().map(Vec::as_slice)));
        let mean = predict::mean_poses(&both, &training, poses);
        for (mean, (a, b)) in mean.iter().flatten().zip(one.iter().flatten().zip(other.iter().flatten())) {
            // 1e-12: the same sum in f64.
            assert!(mean.abs_diff_eq((*a + *b) / 2.0, 1e-12), "{mean}");
        }
    }
}
