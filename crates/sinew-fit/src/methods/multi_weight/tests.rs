//! A planted model is recovered; duplicates count once; the published form has no intercept.

use super::*;
use crate::Quiet;
use crate::methods::animation_space::tests::{farthest, planted};

fn params() -> MweParams {
    MweParams { scale_factor: Some(1e-16), variance_threshold: 1e-12, rest_pose: false, ..MweParams::default() }
}

#[test]
fn a_planted_model_is_recovered() {
    // Animation space is a case of multi-weights (Merry et al. 2006, §4.3).
    let (training, unseen) = planted();
    let fit = fit(&training, &params(), &Quiet).unwrap();
    let far = farthest(&unseen, |pose| fit.weights.pose(pose));
    // Directions below the variance threshold of 1e-12 are dropped: a millionth of the motion.
    assert!(far < 1e-5, "off by {far} of the diagonal");
}

#[test]
fn a_pose_given_twice_counts_once() {
    let (training, _) = planted();
    let few = training.subset(&[0, 5, 9, 14, 20, 26]);
    let twice = training.subset(&[0, 5, 9, 14, 20, 26, 26, 26]);
    let ridge = MweParams { scale_factor: Some(1e-1), ..params() };
    let (once, again) = (fit(&few, &ridge, &Quiet).unwrap(), fit(&twice, &ridge, &Quiet).unwrap());
    // The skins beneath differ, for they do count every pose; so compare what is drawn, to a percent of the wave.
    let pose = &training.transforms[3];
    let pairs = once.weights.pose(pose).into_iter().zip(again.weights.pose(pose));
    let far = pairs.map(|(a, b)| a.distance(b)).fold(0.0, f64::max) / training.diagonal;
    assert!(far < 2e-2, "off by {far} of the diagonal");
}

#[test]
fn a_constant_offset_needs_the_constant_column() {
    let (mut training, _) = planted();
    let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
    for e in 0..training.pose_count() {
        training.vertices[e] = (0..training.vertex_count())
            .map(|v| {
                let carried = |&(b, w): &(usize, f64)| w * training.carried(e, b, v);
                skin.vertices[v].iter().map(carried).sum::<glam::DVec3>() + glam::DVec3::new(0.0, 0.1, 0.0)
            })
            .collect();
    }
    let error = |constant: bool| {
        let strong = MweParams { constant, scale_factor: Some(1.0), ..params() };
        let fit = fit(&training, &strong, &Quiet).unwrap();
        farthest(&training, |pose| fit.weights.pose(pose))
    };
    // With the column nothing but the offset is left to learn, and it is not regularised.
    assert!(error(true) < 0.1 * error(false), "{} against {}", error(true), error(false));
}
