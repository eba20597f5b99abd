//! Over all poses: texture maps by the L2,2 norm, and bounds that no vertex leaves.

use std::sync::OnceLock;

use glam::{Affine3A, DAffine3, DQuat, DVec3, Vec3};
use proptest::prelude::*;
use sinew_examples::{Bone, Examples, Pose, Skeleton};
use sinew_fit::correct::distil::Distil;
use sinew_fit::correct::{CorrectionParams, Place};
use sinew_fit::methods::animation_space::Coordinates;
use sinew_fit::norm::ranges::RangesOfMotion;
use sinew_fit::norm::{MotionModel, MotionSamples, PoseNorm};
use sinew_fit::range_bounds::over_ranges;
use sinew_fit::unwrap::{Unwrapped, stretch, unwrap};
use sinew_fit::{Method, Quiet, Training, fit, to_model};
use sinew_runtime::bounds::{Aabb, Bounds};
use sinew_runtime::{Evaluator, Model};

use crate::support::{dataset, evaluate, fails, json, ok, sinew};

/// A method by its name, or `distilled`: rr-cp, distilled.
fn fitted(examples: &Examples, method: &str) -> Model {
    let training = Training::new(examples, &examples.split().train).unwrap();
    let method = match method {
        "distilled" => {
            let params = CorrectionParams { distil: Distil::On, ..CorrectionParams::new(Place::Proxies) };
            Method::Corrected(Box::new(Method::by_name("rr").unwrap()), params)
        }
        name => Method::by_name(name).unwrap(),
    };
    fit(&training, &method, &Quiet).unwrap().model
}

/// A sequence of numbers in 0…1 that is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Global transforms for rotations `turn(b)` of each joint on top of its rest joint.
fn pose(skeleton: &Skeleton, root: DAffine3, mut turn: impl FnMut(usize) -> DQuat) -> Vec<Affine3A> {
    let bones = skeleton.bones();
    let mut globals: Vec<DAffine3> = bones.iter().map(|bone| root * bone.rest).collect();
    for &b in skeleton.parents_first() {
        if let Some(parent) = bones[b].parent {
            let joint = bones[parent].rest.inverse() * bones[b].rest;
            globals[b] = globals[parent] * joint * DAffine3::from_quat(turn(b));
        }
    }
    globals.into_iter().map(to_model::transform).collect()
}

#[test]
fn no_vertex_leaves_its_bounds_in_any_pose() {
    let examples = dataset("arm");
    let mut random = Random(1);
    for method in ["ssd", "as", "rr", "rr-cp", "distilled", "rr-cv"] {
        let model = fitted(&examples, method);
        let bounds = Bounds::new(&model, 64).unwrap();
        let mut held: Vec<u32> = bounds.blocks.iter().flat_map(|block| block.vertices.iter().copied()).collect();
        held.sort_unstable();
        assert!(held.iter().copied().eq(0..model.character.vertex_count() as u32), "every vertex in one block");
        let mut evaluator = Evaluator::new(&model);
        let mut boxes = Vec::new();
        let (mut ratio, count) = (0.0, 30);
        for k in 0..count {
            // From the trained range to far beyond it, standing anywhere within ten metres.
            let reach = 0.2 + 0.1 * f64::from(k);
            let mut angle = || reach * (random.next() - 0.5);
            let mut turn = |_| DQuat::from_euler(glam::EulerRot::XYZ, angle(), angle(), angle());
            let root = DAffine3::from_rotation_translation(turn(0), DVec3::splat(f64::from(k) / 3.0));
            let pose = pose(examples.skeleton(), root, turn);
            let positions = evaluate(&model, &pose);
            evaluator.bounds(&bounds, &pose, &mut boxes);
            for (block, bound) in bounds.blocks.iter().zip(&boxes) {
                let (centre, radius) = bound.sphere();
                for &v in &block.vertices {
                    let p = positions[v as usize];
                    assert!(bound.contains(p), "{method}: vertex {v} at {p} left {bound:?}");
                    assert!(p.distance(centre) <= radius * 1.000_01, "{method}: vertex {v} left its sphere");
                }
            }
            let all = boxes.iter().fold(Aabb::EMPTY, |all, &bound| all.union(bound));
            ratio += f64::from(all.diagonal() / Aabb::around(positions).diagonal()) / f64::from(count);
        }
        // Bounds that are twice too large would cull little; ours are within a few percent on a whole character.
        assert!(ratio < 1.3, "{method}: {ratio:.2} times the exact box");
    }
}

#[test]
fn no_pose_within_the_ranges_leaves_their_bounds() {
    let examples = dataset("arm");
    let skeleton = examples.skeleton();
    let names: Vec<&str> = skeleton.bones().iter().map(|bone| bone.name.as_str()).collect();
    let moving: Vec<usize> = (0..names.len()).filter(|&b| b != skeleton.root()).collect();
    let text: String = moving
        .iter()
        .map(|&b| format!("{} hinge 0 0 1 -20 100\n{} hinge 1 0 0 -40 40\n", names[b], names[b]))
        .collect();
    let ranges = RangesOfMotion::parse(&text, skeleton).unwrap();
    let to_root = to_model::transform(skeleton.rest_root_frame().inverse());
    let mut random = Random(5);
    for method in ["ssd", "as", "rr", "rr-cp", "distilled", "rr-cv"] {
        let model = fitted(&examples, method);
        let bounds = Bounds::new(&model, 256).unwrap();
        let boxes = over_ranges(&model, &bounds, skeleton, &ranges).unwrap();
        let mut reached = Aabb::EMPTY;
        for _ in 0..200 {
            let turn = |_| {
                let (z, x) =
                    ((-20.0 + 120.0 * random.next()).to_radians(), (-40.0 + 80.0 * random.next()).to_radians());
                DQuat::from_rotation_z(z) * DQuat::from_rotation_x(x)
            };
            let positions = evaluate(&model, &pose(skeleton, DAffine3::IDENTITY, turn));
            for (block, bound) in bounds.blocks.iter().zip(&boxes) {
                for &v in &block.vertices {
                    let p = to_root.transform_point3(positions[v as usize]);
                    assert!(bound.contains(p), "{method}: vertex {v} at {p} left {bound:?}");
                    reached = reached.union(Aabb { low: p, high: p });
                }
            }
        }
        let all = boxes.iter().fold(Aabb::EMPTY, |all, &bound| all.union(bound));
        let ratio = all.diagonal() / reached.diagonal();
        println!("{method}: {ratio:.2} times what 200 poses reach");
        // Two hundred poses do not reach the corners of four hinges; a box a few times as long still culls.
        let most = match method {
            "ssd" | "as" => 2.0,
            _ => 3.0,
        };
        assert!(ratio < most, "{method}: {ratio:.2}");
    }
}

/// A scale of the rest bones, the same along all axes, is no part of any skinning transform: the norm and the bounds are
/// those of the skeleton without it.
#[test]
fn scaled_rest_bones_change_neither_norm_nor_bounds() {
    let plain = dataset("bar");
    // Skeletons in other units than their mesh look like that, all of them or a branch.
    let scale = |b: usize| DAffine3::from_scale(DVec3::splat(if b == 0 { 100.0 } else { 50.0 }));
    let bones = plain.skeleton().bones().iter().enumerate();
    let bones = bones.map(|(b, bone)| Bone { rest: bone.rest * scale(b), ..bone.clone() }).collect();
    let scaled = Skeleton::new(bones).unwrap();
    let name = &plain.skeleton().bones()[1].name;
    let text = format!("{name} hinge 0 0 1 -20 100\n{name} hinge 1 0 0 -40 40\n");
    let mut random = Random(3);
    let units: Vec<[f64; 4]> = (0..50).map(|_| [0; 4].map(|_| random.next())).collect();
    let poses = |skeleton: &Skeleton| -> Vec<Pose> {
        let ranges = RangesOfMotion::parse(&text, skeleton).unwrap();
        let pose = |units: &[f64; 4]| {
            let mut units = units.iter();
            Pose { globals: ranges.pose(skeleton, || *units.next().unwrap()) }
        };
        units.iter().map(pose).collect()
    };
    for method in ["ssd", "as"] {
        let model = fitted(&plain, method);
        let mut model_scaled = model.clone();
        for (bone, scaled) in model_scaled.character.bones.iter_mut().zip(scaled.bones()) {
            bone.rest = to_model::transform(scaled.rest);
        }
        let bounded = |model: &Model, skeleton: &Skeleton| {
            let bounds = Bounds::new(model, 16).unwrap();
            let ranges = RangesOfMotion::parse(&text, skeleton).unwrap();
            let boxes = over_ranges(model, &bounds, skeleton, &ranges).unwrap();
            (bounds, boxes)
        };
        let (_, expected) = bounded(&model, plain.skeleton());
        let (bounds, boxes) = bounded(&model_scaled, &scaled);
        for (found, expected) in boxes.iter().zip(&expected) {
            // Metres; the rest bones are f32.
            let apart = (found.low - expected.low).abs().max((found.high - expected.high).abs()).max_element();
            assert!(apart < 1e-4, "{method}: {found:?}, without the scale {expected:?}");
        }
        for pose in poses(&scaled) {
            let pose: Vec<Affine3A> = pose.globals.into_iter().map(to_model::transform).collect();
            let positions = evaluate(&model_scaled, &pose);
            let mut posed = Vec::new();
            Evaluator::new(&model_scaled).bounds(&bounds, &pose, &mut posed);
            for ((block, over), at) in bounds.blocks.iter().zip(&boxes).zip(&posed) {
                for p in block.vertices.iter().map(|&v| positions[v as usize]) {
                    assert!(over.contains(p) && at.contains(p), "{method}: {p} left {over:?} or {at:?}");
                }
            }
        }
        if let Some(coordinates) = Coordinates::from_model(&model) {
            check_norms(&coordinates, (&scaled, &poses(&scaled)), (plain.skeleton(), &poses(plain.skeleton())));
        }
    }
}

/// Distances are the same under both skeletons, whatever is assumed of the motion.
fn check_norms(coordinates: &Coordinates, scaled: (&Skeleton, &[Pose]), plain: (&Skeleton, &[Pose])) {
    let assumptions: [fn(&MotionSamples, &Skeleton) -> MotionModel; 6] = [
        |samples, _| MotionModel::Average(samples.clone()),
        |_, _| MotionModel::UniformRotations,
        MotionSamples::independent_joints,
        MotionSamples::independent_components,
        MotionSamples::fixed_translations,
        MotionSamples::rotations,
    ];
    for (k, assumed) in assumptions.into_iter().enumerate() {
        let norm = |(skeleton, poses): (&Skeleton, &[Pose])| {
            PoseNorm::new(skeleton, &assumed(&MotionSamples::new(skeleton, poses), skeleton)).unwrap()
        };
        let (norm, expected) = (norm(scaled), norm(plain));
        for (u, v) in [(0, 40), (10, 77), (33, 34)] {
            let (found, expected) = (norm.distance(coordinates, u, v), expected.distance(coordinates, u, v));
            // Metres; rounding in f64, magnified by the square of a scale of 100.
            assert!((found - expected).abs() < 1e-9, "assumption {k}: {found}, without the scale {expected}");
        }
    }
}

/// The bar fitted by every method that has bounds, with and without corrections.
fn bounded() -> &'static [(Model, Bounds)] {
    static MODELS: OnceLock<Vec<(Model, Bounds)>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let examples = dataset("bar");
        let model = |method: &str| {
            let model = fitted(&examples, method);
            let bounds = Bounds::new(&model, 16).unwrap();
            (model, bounds)
        };
        ["ssd", "as", "psd", "eigenskin", "rr", "rr-cp", "rr-cv"].map(model).into_iter().collect()
    })
}

proptest! {
    // Each case is seven models; the poses are random in every joint, so that two hundred cover them well.
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_vertex_stays_in_its_bound_whatever_the_pose(
        angles in proptest::collection::vec(-3.0..3.0_f64, 12),
        place in proptest::array::uniform3(-50.0..50.0_f64),
    ) {
        let turn = |k: usize| {
            DQuat::from_euler(glam::EulerRot::XYZ, angles[3 * k % 12], angles[(3 * k + 1) % 12], angles[(3 * k + 2) % 12])
        };
        let examples = dataset("bar");
        let root = DAffine3::from_rotation_translation(turn(0), DVec3::from_array(place));
        let pose = pose(examples.skeleton(), root, |b| turn(b + 1));
        let mut boxes = Vec::new();
        for (model, bounds) in bounded() {
            let positions = evaluate(model, &pose);
            Evaluator::new(model).bounds(bounds, &pose, &mut boxes);
            for (block, bound) in bounds.blocks.iter().zip(&boxes) {
                let (centre, radius) = bound.sphere();
                for &v in &block.vertices {
                    let p = positions[v as usize];
                    prop_assert!(bound.contains(p), "{}: vertex {v} at {p} left {bound:?}", model.metadata.method);
                    prop_assert!(p.distance(centre) <= radius * 1.000_01, "vertex {v} left its sphere");
                }
            }
        }
    }
}

#[test]
fn methods_without_bounds_say_so() {
    let examples = dataset("bar");
    let error = Bounds::new(&fitted(&examples, "dqs"), 64).unwrap_err().to_string();
    assert!(error.contains("dual-quaternion"), "{error}");
}

/// Merry et al. 2006, table II: statistics of the motion give the least stretch, on the frames they
/// were taken from and on frames they have not seen.
#[test]
fn maps_that_know_the_motion_stretch_least() {
    for name in ["tube-bend", "tube-twist", "arm", "shoulder"] {
        let examples = dataset(name);
        let model = fitted(&examples, "as");
        let coordinates = Coordinates::from_model(&model).unwrap();
        let skeleton = examples.skeleton();
        let samples = MotionSamples::new(skeleton, examples.split().train.iter().map(|&e| examples.pose(e)));
        let norms = [
            PoseNorm::average(&[vec![DAffine3::IDENTITY; skeleton.bone_count()]]),
            PoseNorm::new(skeleton, &MotionModel::UniformRotations).unwrap(),
            PoseNorm::new(skeleton, &MotionModel::Average(samples)).unwrap(),
        ];
        let triangles = &model.character.triangles;
        let map = |norm: &PoseNorm| -> Unwrapped {
            unwrap(&coordinates, examples.mesh().vertices(), triangles, model.character.uvs.as_deref(), norm).unwrap()
        };
        let frame = |e: usize| -> Vec<DVec3> {
            let pose: Vec<Affine3A> = examples.pose(e).globals.iter().map(|&g| to_model::transform(g)).collect();
            evaluate(&model, &pose).into_iter().map(Vec3::as_dvec3).collect()
        };
        let maps = norms.each_ref().map(map);
        for (which, frames) in [("unseen", &examples.split().test), ("seen", &examples.split().train)] {
            let posed: Vec<Vec<DVec3>> = frames.iter().map(|&e| frame(e)).collect();
            let of =
                |map: &Unwrapped| posed.iter().map(|frame| stretch::percent(frame, triangles, &map.uvs)).sum::<f64>();
            let [rest, skeleton_only, motion] = maps.each_ref().map(|map| of(map) / frames.len() as f64);
            let found =
                format!("{name}, {which}: rest {rest:.3} %, skeleton {skeleton_only:.3} %, motion {motion:.3} %");
            println!("{found}");
            assert!(motion < rest && motion < skeleton_only, "{found}");
        }
        if name == "arm" {
            // Its joints move together; to assume otherwise of their samples gives no norm, which is said.
            let assumed = MotionSamples::new(skeleton, examples.split().train.iter().map(|&e| examples.pose(e)));
            let norm = PoseNorm::new(skeleton, &assumed.independent_joints(skeleton)).unwrap();
            let notes = map(&norm).notes;
            assert!(notes.iter().any(|note| note.contains("move together")), "{notes:?}");
        }
    }
}

#[test]
fn unwrap_takes_examples_models_and_plain_skinned_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| ok(folder.path(), words);
    run("data tube-bend -o tube.npz");
    run("fit tube.npz --method ssd -o tube.sinew");
    run("export tube.sinew -o tube.glb --animation tube.npz");
    let stretch = |input: &str| {
        run(&format!("unwrap {input} -o map.glb --json map.json"));
        let map = json(folder.path(), "map.json");
        assert!(map["stretch_max"].as_f64().unwrap() >= map["stretch_mean"].as_f64().unwrap());
        assert!(map["seconds"].as_f64().is_some() && map["flipped"] == 0, "{map}");
        map["stretch_mean"].as_f64().unwrap()
    };
    let from_examples = stretch("tube.npz --statistics motion");
    assert!(from_examples < stretch("tube.npz --statistics rest"));
    let from_model = stretch("tube.sinew --motion tube.npz");
    let from_glb = stretch("tube.glb --motion tube.npz");
    // The GLB holds the same weights; glTF's positions and weights are f32 as the model's are.
    assert!((from_model - from_glb).abs() < 0.01 * from_model, "{from_model} and {from_glb} %");
    // Every statistical model of motion; on one joint they differ little.
    for assume in ["independent-joints", "independent-components", "fixed-translations", "average"] {
        let assumed = stretch(&format!("tube.npz --assume {assume}"));
        assert!((assumed - from_examples).abs() < 0.5, "{assume}: {assumed} and {from_examples} %");
    }
    let names: Vec<String> = dataset("tube-bend").skeleton().bones().iter().map(|bone| bone.name.clone()).collect();
    let hybrid = stretch(&format!("tube.npz --assume hybrid --together {}", names[1]));
    assert!((hybrid - from_examples).abs() < 0.5, "{hybrid} and {from_examples} %");
    assert!(fails(folder.path(), "unwrap tube.npz -o map.glb --assume hybrid").contains("--together"));
    assert!(fails(folder.path(), "unwrap tube.sinew -o map.glb").contains("--motion"));
    run("fit tube.npz --method eigenskin -o corrected.sinew");
    for (model, noted) in [("corrected", true), ("tube", false)] {
        let output = sinew(folder.path(), &format!("unwrap {model}.sinew --motion tube.npz -o map.glb"));
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("without its correction"), noted, "{model}");
    }
}

#[test]
fn bounds_are_told_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| ok(folder.path(), words);
    run("data bar -o bar.npz");
    let bones = dataset("bar").skeleton().bone_count();
    let name = dataset("bar").skeleton().bones()[bones - 1].name.clone();
    std::fs::write(folder.path().join("ranges.txt"), format!("{name} hinge 1 0 0 -30 60\n")).unwrap();
    for method in ["ssd", "as", "rr", "rr-cp", "rr-cv"] {
        run(&format!("fit bar.npz --method {method} -o bar.sinew"));
        let words = run("bounds bar.sinew --poses bar.npz --frames all --ranges ranges.txt --json bounds.json");
        assert!(words.contains("blocks over") && words.contains("over the ranges of motion"), "{words}");
        let bounds = json(folder.path(), "bounds.json");
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        // A bound below the exact box would not hold.
        assert!(number(&bounds["tightness"]["character_ratio"]) >= 1.0, "{method}: {}", bounds["tightness"]);
        assert!(bounds["blocks"].as_array().is_some_and(|blocks| !blocks.is_empty()));
        assert!(number(&bounds["character_over_ranges"]["radius"]) > 0.0);
        assert!(words.contains("random poses within the ranges"), "{words}");
        let ranged = &bounds["tightness_over_ranges"];
        // No bound is below what poses reach.
        assert!(number(&ranged["character_ratio"]) >= 1.0, "{method}: {ranged}");
        assert!(number(&ranged["block_ratio"]) >= 1.0, "{method}: {ranged}");
        run("export bar.sinew -o bar.glb");
        let glb = std::fs::read(folder.path().join("bar.glb")).unwrap();
        assert!(String::from_utf8_lossy(&glb).contains("\"bounds\""), "{method}: no bounds in the GLB's extras");
    }
    let words = run("bounds bar.glb --poses bar.npz --frames all");
    assert!(words.contains("times the exact box"), "{words}");
    run("fit bar.npz --method dqs -o bar.sinew");
    assert!(fails(folder.path(), "bounds bar.sinew").contains("dual-quaternion"));
}
