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

/// The weights over one given skin, so that only the regression differs.
fn over_skin(training: &Training, skin: &SparseWeights, params: &MweParams) -> MultiWeights {
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let sets = InfluenceSets::new(training, skin, &topology, &params.influences);
    envelope::solve(training, skin, &sets, params, &[0.1]).remove(0)
}

#[test]
fn a_pose_given_twice_counts_once() {
    let (training, unseen) = planted();
    let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
    let once = over_skin(&training.subset(&[0, 5, 9, 14, 20, 26]), &skin, &params());
    let again = over_skin(&training.subset(&[0, 5, 9, 14, 20, 26, 26, 26]), &skin, &params());
    let counted = MweParams { duplicate_distance: 0.0, ..params() };
    let heavier = over_skin(&training.subset(&[0, 5, 9, 14, 20, 26, 25, 27]), &skin, &counted);
    let apart = |a: &MultiWeights, b: &MultiWeights| {
        let pairs = a.pose(&unseen.transforms[3]).into_iter().zip(b.pose(&unseen.transforms[3]));
        pairs.map(|(a, b)| a.distance(b)).fold(0.0, f64::max) / training.diagonal
    };
    // Thirds that sum to one, through an eigendecomposition.
    assert!(apart(&once, &again) < 1e-9, "off by {} of the diagonal", apart(&once, &again));
    assert!(apart(&once, &heavier) > 1e-6, "two other poses must change something");
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
        let weights = over_skin(&training, &skin, &MweParams { constant, ..params() });
        farthest(&training, |pose| weights.pose(pose))
    };
    // With the column nothing is left but rounding; without it the ridge shrinks what the varying columns would need.
    assert!(error(true) < 1e-9, "{}", error(true));
    assert!(error(false) > 1e-6, "{}", error(false));
}
