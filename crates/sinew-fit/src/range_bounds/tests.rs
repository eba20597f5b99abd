//! No pose within the ranges leaves its boxes, within the trained ranges and beyond them.

use glam::{Affine3A, Vec3};
use sinew_examples::{Examples, datasets};
use sinew_runtime::{Correction, Evaluator};

use super::*;
use crate::correct::distil::Distil;
use crate::correct::{CorrectionParams, Place};
use crate::methods::rr::RrParams;
use crate::norm::ranges::Turn;
use crate::{Method, Quiet, Training, fit, to_model};

fn dataset(name: &str) -> Examples {
    datasets::by_name(name).expect("a built-in set").make()
}

/// Rotational regression by `proxies` proxy bones, drawn by weights, corrected in `place`, fitted to every `step`th training pose.
fn regression(examples: &Examples, proxies: usize, place: Option<Place>, step: usize) -> Model {
    let drawn_by_weights = RrParams { points: false, proxy_bones: Some(proxies), ..RrParams::default() };
    fitted(examples, drawn_by_weights, place, step)
}

fn fitted(examples: &Examples, params: RrParams, place: Option<Place>, step: usize) -> Model {
    let training = Training::new(examples, &examples.split().train).unwrap();
    let some: Vec<usize> = (0..training.pose_count()).step_by(step).collect();
    let method = Method::RotationalRegression(params);
    let method = match place {
        Some(place) => Method::Corrected(Box::new(method), CorrectionParams::new(place)),
        None => method,
    };
    fit(&training.subset(&some), &method, &Quiet).unwrap().model
}

/// The same turns, lines of a ranges file without the name, at every joint but the root's.
fn everywhere(skeleton: &Skeleton, turns: &[&str]) -> RangesOfMotion {
    let moving = (0..skeleton.bone_count()).filter(|&b| b != skeleton.root());
    let lines = moving.flat_map(|b| turns.iter().map(move |turn| format!("{} {turn}\n", skeleton.bones()[b].name)));
    RangesOfMotion::parse(&lines.collect::<String>(), skeleton).unwrap()
}

/// What random poses within the ranges tell of the boxes.
struct Checked {
    /// The whole box's diagonal over that of what the poses reach.
    ratio: f32,
    /// How many of the poses are beyond the trained ranges.
    beyond: usize,
}

/// Poses that are drawn evenly from the ranges.
const RANDOM: usize = 200;
/// Poses at the ends of the ranges, where boxes are reached; they do not count as reached.
const CORNERS: usize = 60;

/// Panics if a vertex leaves its block's box.
fn check(what: &str, model: &Model, skeleton: &Skeleton, ranges: &RangesOfMotion, block_size: usize) -> Checked {
    let bounds = Bounds::new(model, block_size).unwrap();
    let boxes = over_ranges(model, &bounds, skeleton, ranges).unwrap();
    let mut state = 5_u64;
    // Knuth's linear congruential generator; its upper 53 bits.
    let mut unit = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    let (mut reached, mut beyond) = (Aabb::EMPTY, 0);
    for k in 0..RANDOM + CORNERS {
        let random = k < RANDOM;
        let mut place = || if random { unit() } else { unit().round() };
        let globals = ranges.pose(skeleton, &mut place);
        let pose: Vec<Affine3A> = globals.into_iter().map(to_model::transform).collect();
        evaluator.positions(&pose, &mut positions);
        beyond += usize::from(random && evaluator.outside_training().is_some());
        for (block, bound) in bounds.blocks.iter().zip(&boxes) {
            for p in block.vertices.iter().map(|&v| Vec3::from(positions[v as usize])) {
                assert!(bound.contains(p), "{what}: {p} left {bound:?} in pose {k}");
                reached = if random { reached.union(Aabb { low: p, high: p }) } else { reached };
            }
        }
    }
    let all = boxes.iter().fold(Aabb::EMPTY, |all, &bound| all.union(bound));
    let checked = Checked { ratio: all.diagonal() / reached.diagonal(), beyond };
    println!("{what}: {:.2} times what {RANDOM} poses reach, {beyond} of them beyond", checked.ratio);
    checked
}

/// No vertex leaves its box over ranges far wider than the trained ones, however wide the box.
fn check_held(what: &str, examples: &Examples, model: &Model, turns: &[&str]) -> Checked {
    let ranges = everywhere(examples.skeleton(), turns);
    let checked = check(what, model, examples.skeleton(), &ranges, 512);
    assert!(checked.beyond > RANDOM / 2, "{what}: only {} poses are beyond the trained ranges", checked.beyond);
    checked
}

/// The same, and the boxes are not much too wide.
fn check_beyond(what: &str, examples: &Examples, model: &Model, turns: &[&str]) {
    let checked = check_held(what, examples, model, turns);
    // Random poses do not reach the corners of several hinges; a box three times as long still culls.
    assert!(checked.ratio < 3.0, "{what}: {:.2} times what the poses reach", checked.ratio);
}

#[test]
fn no_pose_beyond_the_trained_ranges_leaves_the_bounds_of_a_regression() {
    let arm = dataset("arm");
    let turns = ["hinge 0 0 1 -20 100", "hinge 1 0 0 -40 40"];
    for (place, kind) in [
        (None, None),
        (Some(Place::Proxies), Some("proxies")),
        // Few poses: displacements of vertices lie over corrected proxies.
        (Some(Place::Vertices), Some("proxies and vertices")),
    ] {
        let model = regression(&arm, 6, place, 1);
        assert_eq!(model.correction.as_ref().map(Correction::kind), kind);
        check_beyond(&format!("arm, {kind:?}"), &arm, &model, &turns);
    }
}

/// A distilled regression draws vertices from points: beyond its ranges the whole pose is held, and the vertices carried on.
#[test]
fn no_pose_leaves_the_bounds_of_a_distilled_regression() {
    let arm = dataset("arm");
    let training = Training::new(&arm, &arm.split().train).unwrap();
    let method = Method::RotationalRegression(RrParams { proxy_bones: Some(6), ..RrParams::default() });
    let params = CorrectionParams { distil: Distil::On, ..CorrectionParams::new(Place::Proxies) };
    let model = fit(&training, &Method::Corrected(Box::new(method), params), &Quiet).unwrap().model;
    assert!(matches!(&model.deformer, Deformer::RotationalRegression(rr) if !rr.points.is_empty()));
    check_beyond("arm, distilled", &arm, &model, &["hinge 0 0 1 -20 100", "hinge 1 0 0 -40 40"]);
    check_beyond("arm, distilled, one hinge", &arm, &model, &["hinge 0 0 1 -100 170"]);
    check_within("arm, distilled", &arm, &model);
}

/// So does a regression that is not corrected, unless it is drawn by weights.
#[test]
fn no_pose_leaves_the_bounds_of_a_regression_drawn_from_points() {
    let arm = dataset("arm");
    let model = fitted(&arm, RrParams { proxy_bones: Some(6), ..RrParams::default() }, None, 1);
    assert!(matches!(&model.deformer, Deformer::RotationalRegression(rr) if !rr.points.is_empty()));
    check_beyond("arm, from points", &arm, &model, &["hinge 0 0 1 -20 100", "hinge 1 0 0 -40 40"]);
    check_within("arm, from points", &arm, &model);
}

/// The same with kernels and displacements of vertices, whatever the points. No fit gives such points, so that nothing is asked of the
/// boxes' width.
#[test]
fn no_pose_leaves_the_bounds_of_a_regression_with_points() {
    let arm = dataset("arm");
    for place in [None, Some(Place::Proxies), Some(Place::Vertices)] {
        let mut model = regression(&arm, 6, place, 1);
        give_points(&mut model);
        check_held(&format!("arm, {place:?}, points"), &arm, &model, &["hinge 0 0 1 -20 100", "hinge 1 0 0 -40 40"]);
        check_within(&format!("arm, {place:?}, points"), &arm, &model);
    }
}

/// Draws the vertices from points that part a little from themselves, by weights of which some are negative.
fn give_points(model: &mut Model) {
    let origin = Vec3::from(model.character.bones[model.character.root()].rest.translation);
    let Deformer::RotationalRegression(rr) = &mut model.deformer else { panic!("a regression") };
    let width = rr.skin.width;
    for (v, &rest) in model.character.rest_positions.iter().enumerate() {
        let weights = &rr.skin.weights[v * width..(v + 1) * width];
        let drawn = weights.iter().filter(|&&w| w != 0.0).count();
        // From the last entry to the first, so that their sum stays one.
        let moved = |k: usize| match k {
            0 if drawn > 1 => 0.1,
            _ if drawn > 1 && k == drawn - 1 => -0.1,
            _ => 0.0,
        };
        for (k, &weight) in weights.iter().enumerate() {
            let w = weight + moved(k);
            let apart = if weight == 0.0 { Vec3::ZERO } else { 0.01 * Vec3::new((v % 3) as f32 - 1.0, k as f32, 0.5) };
            rr.points.push((w * (Vec3::from(rest) - origin) + apart).extend(w).to_array());
        }
    }
}

/// Bounds of a regression over a part of the trained ranges: nothing is held.
fn check_within(what: &str, examples: &Examples, model: &Model) {
    let skeleton = examples.skeleton();
    let to_root = skeleton.rest_root_frame().inverse().matrix3;
    // Both joints of the arm were trained about the root's x axis.
    let turn = |bone: &Bone| {
        let rest = sinew_examples::nearest_rotation(to_root * bone.rest.matrix3);
        Turn::Hinge { axis: rest.transpose() * DVec3::X, from: 0.05, to: 0.4 }
    };
    let joints = skeleton.bones().iter().map(|bone| bone.parent.map(|_| turn(bone)).into_iter().collect()).collect();
    let ranges = RangesOfMotion { joints };
    let checked = check(&format!("{what}, within"), model, examples.skeleton(), &ranges, 512);
    assert_eq!(checked.beyond, 0, "{what}");
}

#[test]
fn no_pose_beyond_the_trained_ranges_leaves_the_bounds_of_displaced_vertices() {
    let tube = dataset("tube-bend");
    let model = regression(&tube, 6, Some(Place::Vertices), 2);
    assert_eq!(model.correction.as_ref().map(Correction::kind), Some("vertices"));
    check_beyond("tube-bend, vertices", &tube, &model, &["hinge 0 0 1 -60 120", "hinge 1 0 0 -40 40"]);
}

/// A joint that may turn past half a turn has no logarithm near a plane, and corrections fade there.
#[test]
fn no_pose_next_to_half_a_turn_leaves_its_bounds() {
    let tube = dataset("tube-twist-180");
    let model = regression(&tube, 4, Some(Place::Proxies), 4);
    for turn in ["hinge 1 0 0 -240 240", "hinge 0 1 0 100 260", "cone 0 0 1 170"] {
        let ranges = everywhere(tube.skeleton(), &[turn]);
        check(turn, &model, tube.skeleton(), &ranges, 512);
    }
}

/// Coordinates next to nil are sums of the character's size, and rounded like it.
#[test]
fn rounding_leaves_no_bound() {
    let arm = dataset("arm");
    let training = Training::new(&arm, &arm.split().train).unwrap();
    let model = fit(&training, &Method::by_name("ssd").unwrap(), &Quiet).unwrap().model;
    check("arm, one vertex a block", &model, arm.skeleton(), &everywhere(arm.skeleton(), &[]), 1);
}
