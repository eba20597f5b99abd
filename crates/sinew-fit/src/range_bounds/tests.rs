//! No pose within the ranges leaves its boxes, within the trained ranges and beyond them.

use glam::{Affine3A, Vec3};
use sinew_examples::{Examples, datasets};
use sinew_runtime::{Correction, Evaluator};

use super::*;
use crate::{Method, Quiet, Training, fit, to_model};

fn dataset(name: &str) -> Examples {
    (datasets::by_name(name).expect("a built-in set").make)()
}

/// `method` fitted to every `step`th training pose.
fn fitted(examples: &Examples, method: &str, step: usize) -> Model {
    let training = Training::new(examples, &examples.split().train).unwrap();
    let some: Vec<usize> = (0..training.pose_count()).step_by(step).collect();
    fit(&training.subset(&some), &Method::by_name(method).unwrap(), &Quiet).unwrap().model
}

/// The same turns, lines of a ranges file without the name, at every joint but the root's.
fn everywhere(skeleton: &Skeleton, turns: &[&str]) -> RangesOfMotion {
    let moving = (0..skeleton.bone_count()).filter(|&b| b != skeleton.root());
    let lines = moving.flat_map(|b| turns.iter().map(move |turn| format!("{} {turn}\n", skeleton.bones()[b].name)));
    RangesOfMotion::parse(&lines.collect::<String>(), skeleton).unwrap()
}

/// Two hundred random poses within the ranges.
struct Checked {
    /// The box's diagonal over that of what the poses reach.
    ratio: f32,
    /// How many poses are beyond the trained ranges.
    beyond: usize,
}

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
    for k in 0..200 {
        // Every fourth pose stands at the limits, where boxes are reached.
        let mut place = || if k % 4 == 0 { unit().round() } else { unit() };
        let globals = ranges.pose(skeleton, &mut place);
        let pose: Vec<Affine3A> = globals.into_iter().map(to_model::transform).collect();
        evaluator.positions(&pose, &mut positions);
        beyond += usize::from(evaluator.outside_training().is_some());
        for (block, bound) in bounds.blocks.iter().zip(&boxes) {
            for p in block.vertices.iter().map(|&v| Vec3::from(positions[v as usize])) {
                assert!(bound.contains(p), "{what}: {p} left {bound:?} in pose {k}");
                reached = reached.union(Aabb { low: p, high: p });
            }
        }
    }
    let all = boxes.iter().fold(Aabb::EMPTY, |all, &bound| all.union(bound));
    Checked { ratio: all.diagonal() / reached.diagonal(), beyond }
}

#[test]
fn no_pose_far_beyond_the_trained_ranges_leaves_their_bounds() {
    let arm = dataset("arm");
    let ranges = everywhere(arm.skeleton(), &["hinge 0 0 1 -20 100", "hinge 1 0 0 -40 40"]);
    for (what, method, step) in [("rr", "rr", 1), ("rr-cp", "rr-cp", 1), ("rr-cv", "rr-cv", 1), ("both", "rr-cv", 5)] {
        let model = fitted(&arm, method, step);
        println!("{what}: {:?}", model.correction.as_ref().map(Correction::kind));
        let start = std::time::Instant::now();
        let checked = check(what, &model, arm.skeleton(), &ranges, 256);
        println!("{what}: {:.2} times, {} of 200 poses beyond, {:.1?}", checked.ratio, checked.beyond, start.elapsed());
    }
}
