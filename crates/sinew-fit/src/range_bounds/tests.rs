//! No pose within the ranges leaves its boxes, within the trained ranges and beyond them.

use glam::{Affine3A, Vec3};
use sinew_examples::{Examples, datasets};
use sinew_runtime::{Correction, Evaluator};

use super::*;
use crate::correct::{CorrectionParams, Place};
use crate::methods::rr::RrParams;
use crate::{Method, Quiet, Training, fit, to_model};

fn dataset(name: &str) -> Examples {
    (datasets::by_name(name).expect("a built-in set").make)()
}

/// Rotational regression by `proxies` proxy bones, corrected in `place`, fitted to every `step`th training pose.
fn regression(examples: &Examples, proxies: usize, place: Option<Place>, step: usize) -> Model {
    let training = Training::new(examples, &examples.split().train).unwrap();
    let some: Vec<usize> = (0..training.pose_count()).step_by(step).collect();
    let method = Method::RotationalRegression(RrParams { proxy_bones: Some(proxies), ..RrParams::default() });
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

/// Bounds of a regression over ranges far wider than the trained ones.
fn check_beyond(what: &str, examples: &Examples, model: &Model, turns: &[&str]) {
    let ranges = everywhere(examples.skeleton(), turns);
    let checked = check(what, model, examples.skeleton(), &ranges, 512);
    assert!(checked.beyond > RANDOM / 2, "{what}: only {} poses are beyond the trained ranges", checked.beyond);
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
