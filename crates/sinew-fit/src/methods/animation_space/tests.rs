//! A planted model is recovered; the prior holds where the examples say nothing; parameters are checked.

use glam::DVec4;
use sinew_examples::datasets;

use super::*;
use crate::Quiet;

/// Training and unseen poses of the shoulder, their meshes drawn by coordinates of our own: the skin and a wave on top.
pub(crate) fn planted() -> (Training, Training) {
    let examples = datasets::by_name("shoulder").unwrap().make();
    let frames = &examples.split().test;
    let mut training = Training::new(&examples, &frames[..40]).unwrap();
    let mut unseen = Training::new(&examples, &frames[40..60]).unwrap();
    let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
    let bones = training.bone_count();
    let vertex = |v: usize| {
        let wave = |k: usize| 0.05 * (0.7 * v as f64 + 1.3 * k as f64).sin();
        let pair = |b: usize| {
            let weight = skin.vertices[v].iter().find(|pair| pair.0 == b).map_or(0.0, |pair| pair.1);
            let moved = DVec4::new(wave(4 * b), wave(4 * b + 1), wave(4 * b + 2), if b == 0 { wave(3) } else { 0.0 });
            let balance = if b == bones - 1 { wave(3) } else { 0.0 };
            (b, training.rest[v].extend(1.0) * weight + moved - DVec4::W * balance)
        };
        (0..bones).map(pair).collect()
    };
    let coordinates = Coordinates { vertices: (0..training.vertex_count()).map(vertex).collect() };
    for data in [&mut training, &mut unseen] {
        data.vertices = data.transforms.iter().map(|pose| coordinates.pose(pose)).collect();
    }
    (training, unseen)
}

/// The largest distance over all poses, a fraction of the diagonal.
pub(crate) fn farthest(unseen: &Training, pose: impl Fn(&[glam::DAffine3]) -> Vec<glam::DVec3>) -> f64 {
    let frame = |e: usize| {
        let pairs = pose(&unseen.transforms[e]).into_iter().zip(&unseen.vertices[e]);
        pairs.map(|(a, b)| a.distance(*b)).fold(0.0, f64::max)
    };
    (0..unseen.pose_count()).map(frame).fold(0.0, f64::max) / unseen.diagonal
}

fn params(lambda: f64, delta: f64) -> AsParams {
    AsParams { lambda: Some(lambda), delta: Some(delta), rest_pose: false, ..AsParams::default() }
}

#[test]
fn a_planted_model_is_recovered() {
    let (training, unseen) = planted();
    let fit = fit(&training, &params(1e-10, 0.0), &Quiet).unwrap();
    let far = farthest(&unseen, |pose| fit.coordinates.pose(pose));
    // λ = 1e-10 bends the weakest directions that forty poses determine by about as much as f32 examples are rounded.
    assert!(far < 1e-6, "off by {far} of the diagonal");
    for pairs in &fit.coordinates.vertices {
        let sum: f64 = pairs.iter().map(|(_, p)| p.w).sum();
        // The substitution is exact but for rounding.
        assert!((sum - 1.0).abs() < 1e-12);
    }
}

#[test]
fn without_information_the_prior_stands() {
    let (training, _) = planted();
    let fit = fit(&training, &params(1e12, 0.0), &Quiet).unwrap();
    let plain = Coordinates::from_skin(&fit.skin, &training.rest);
    let pose = &training.transforms[7];
    let pairs = fit.coordinates.pose(pose).into_iter().zip(plain.pose(pose));
    // 1e12 against sums of squares of order a hundred.
    assert!(pairs.map(|(a, b)| a.distance(b)).fold(0.0, f64::max) < 1e-9);
}

#[test]
fn the_edge_term_couples_neighbours_and_converges() {
    let (training, _) = planted();
    let fit = fit(&training, &params(1e-6, 1e-2), &Quiet).unwrap();
    assert_eq!(fit.iterations.stopped, "converged");
    assert!(fit.iterations.residuals.len() > 1, "coupled vertices need more than one step");
}

#[test]
fn bad_parameters_are_refused_by_name() {
    let (training, _) = planted();
    for (wrong, name) in [(params(-1.0, 0.0), "lambda"), (params(0.0, f64::NAN), "delta")] {
        assert!(fit(&training, &wrong, &Quiet).unwrap_err().to_string().contains(name));
    }
}
