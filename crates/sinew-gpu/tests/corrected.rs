//! Rotational regression on the GPU in all its forms equals the CPU: gradients predicted on either side, with a
//! correction of its proxy bones, of its vertices, or none; drawn by weights or from points, within the trained ranges and
//! beyond them.

mod support;

use glam::{Affine3A, Quat, Vec3};
use sinew_bench::synthetic::{self, Size};
use sinew_gpu::{Backend, GpuSkin, SkinOptions};
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion, VertexCorrection, VertexPart};
use sinew_runtime::deform::{ExtraJoint, HalfWay, RotationalRegression};
use sinew_runtime::{Character, Correction, Deformer, Evaluator, JointRanges, Metadata, Model, Options};
use support::{gpu, pose_space};

const BONES: usize = 14;
const PROXIES: usize = 9;
const INSTANCES: usize = 3;

/// Numbers between −1 and 1 that repeat late.
fn number(k: usize) -> f32 {
    (k as f32 * 0.618 + 0.2).sin()
}

/// Predictors that turn and stretch by a few tenths, every one differently; references on several branches.
fn regression(character: &Character) -> RotationalRegression {
    let mut d = synthetic::rotational_regression(character, PROXIES);
    d.predictors.rotation.iter_mut().enumerate().for_each(|(k, x)| *x = 0.3 * number(k));
    d.predictors.stretch.iter_mut().enumerate().for_each(|(k, x)| *x = 0.1 * number(7 * k + 1));
    d.ranges.reference.iter_mut().enumerate().for_each(|(b, r)| *r = [number(b), 0.0, 5.0 * number(b + 3)]);
    d
}

/// The same joint range about every axis of every joint, in radians.
fn ranges(half: f32) -> JointRanges {
    JointRanges { reference: vec![[0.0; 3]; BONES], low: vec![[-half; 3]; BONES], high: vec![[half; 3]; BONES] }
}

/// Every vertex drawn from points of its own, by weights of either sign; ranges of a few degrees.
fn from_points(character: &Character) -> RotationalRegression {
    let mut d = regression(character);
    d.ranges = ranges(0.1);
    let (width, origin) = (d.skin.width, Vec3::from(character.bones[character.root()].rest.translation));
    for (v, rest) in character.rest_positions.iter().enumerate() {
        let raw: Vec<f32> = (v * width..(v + 1) * width).map(|k| 0.5 * number(3 * k)).collect();
        let mean = raw.iter().sum::<f32>() / width as f32;
        for (k, raw) in raw.iter().enumerate() {
            let weight = raw - mean + 1.0 / width as f32;
            let aside = Vec3::from_array([0, 1, 2].map(|axis| 0.05 * number(v + 5 * k + 7 * axis)));
            d.points.push((weight * (Vec3::from_array(*rest) - origin) + aside).extend(weight).to_array());
        }
    }
    d
}

/// Two regions of proxies, one proxy in both.
fn of_proxies() -> Correction {
    let region = |bone: usize, proxies: Vec<u32>| {
        let components = (0..2 * proxies.len()).map(|k| std::array::from_fn(|e| 0.05 * number(12 * k + e))).collect();
        ProxyRegion { bone, proxies, mixing: vec![1.0, -0.5, 0.25, 0.75], components }
    };
    Correction::Proxies(ProxyCorrection {
        proxy_count: PROXIES,
        drivers: Drivers::Examples(pose_space()),
        regions: vec![region(3, vec![0, 4]), region(7, vec![4, 8, 5])],
    })
}

fn of_vertices() -> Correction {
    let part = |region: usize, bone: usize, vertices: Vec<u32>| {
        let components = (0..2 * vertices.len()).map(|k| [0.01 * k as f32, 0.02, -0.01]).collect();
        VertexPart { region, bone, vertices, components }
    };
    Correction::Vertices(VertexCorrection {
        space: pose_space(),
        mixing: vec![vec![1.0, -0.5, 0.25, 0.75], vec![0.5, 0.5, -1.0, 2.0]],
        parts: vec![part(0, 3, vec![0, 5, 17]), part(1, 7, vec![5, 499])],
    })
}

fn of_both() -> Correction {
    let (Correction::Proxies(proxies), Correction::Vertices(vertices)) = (of_proxies(), of_vertices()) else {
        unreachable!("each makes its own kind")
    };
    Correction::Both(proxies, vertices)
}

fn models() -> Vec<(&'static str, Model)> {
    let character = synthetic::character(Size { vertices: 500, bones: BONES, influences: 2.5 });
    let model = |deformer| Model::new(character.clone(), deformer, Metadata::default()).unwrap();
    let plain = || model(Deformer::RotationalRegression(regression(&character)));
    let extra = ExtraJoint::PartWay { bone: 3, origin: [0.1, 0.2, 0.0], reference: [0.0; 3], part: 0.5 };
    let half_way = HalfWay { extras: vec![extra], skin: character.skin.clone() };
    let mut narrow = regression(&character);
    // The poses go well beyond: see the run time's own tests for what that means.
    narrow.ranges.low.fill([-0.05; 3]);
    narrow.ranges.high.fill([0.05; 3]);
    let beyond = || model(Deformer::RotationalRegression(narrow.clone()));
    vec![
        ("no correction", plain()),
        ("beyond the trained ranges", beyond()),
        ("beyond the trained ranges, proxies corrected", beyond().with_correction(of_proxies()).unwrap()),
        ("beyond the trained ranges, vertices corrected", beyond().with_correction(of_vertices()).unwrap()),
        ("proxies corrected", plain().with_correction(of_proxies()).unwrap()),
        ("vertices corrected", plain().with_correction(of_vertices()).unwrap()),
        ("both corrected", plain().with_correction(of_both()).unwrap()),
        ("half-way joints", model(Deformer::HalfWay(half_way))),
    ]
}

fn check(backend: Backend) {
    let Some(gpu) = gpu(backend) else { return };
    for (what, model) in models() {
        let pose = |k: usize| {
            let motion =
                Affine3A::from_rotation_translation(Quat::from_rotation_y(k as f32), Vec3::new(k as f32, 0.5, -1.0));
            synthetic::pose(&model.character, k as f32).into_iter().map(move |bone| motion * bone)
        };
        let poses: Vec<Affine3A> = (0..INSTANCES).flat_map(pose).collect();
        let mut expected = vec![[0.0; 3]; INSTANCES * 500];
        Evaluator::new(&model).crowd(&poses, &mut expected);
        for predict in [false, true] {
            let mut skin = GpuSkin::with(&gpu, &model, SkinOptions { instances: INSTANCES, predict }).unwrap();
            skin.pose(&gpu, &poses).unwrap();
            // Positions of a few metres after a hundred roundings of f32; a driver's sine and arc tangent are good to some
            // 1e-5 (WGSL promises 2⁻¹¹ of absolute error for sine, 4096 ulp for atan2).
            let tolerance = if predict { 5e-4 } else { 3e-5 };
            let what = format!("{what}, predicted on the GPU: {predict}");
            close(&what, &skin.read_positions(&gpu).unwrap(), &expected, tolerance);
        }
    }
}

/// Models that draw from points: every kind of correction and none.
fn models_from_points() -> Vec<(&'static str, Model)> {
    let character = synthetic::character(Size { vertices: 500, bones: BONES, influences: 2.5 });
    let deformer = Deformer::RotationalRegression(from_points(&character));
    let plain = || Model::new(character.clone(), deformer.clone(), Metadata::default()).unwrap();
    vec![
        ("points", plain()),
        ("points, proxies corrected", plain().with_correction(of_proxies()).unwrap()),
        ("points, vertices corrected", plain().with_correction(of_vertices()).unwrap()),
        ("points, both corrected", plain().with_correction(of_both()).unwrap()),
    ]
}

/// A pose of a model from points, somewhere in the world, within its ranges or up to half a radian beyond them about each axis.
fn ranged_pose(character: &Character, k: usize, beyond: bool) -> Vec<Affine3A> {
    let turn = Quat::from_rotation_y(k as f32);
    let motion = Affine3A::from_rotation_translation(turn, Vec3::new(0.3 * k as f32, 0.5, -1.0));
    let pose = synthetic::pose_within(character, &ranges(if beyond { 0.6 } else { 0.1 }), k as f32);
    pose.into_iter().map(|bone| motion * bone).collect()
}

/// Frames of one skin, some of whose instances are beyond the ranges in some frames: what one frame leaves on the GPU must
/// not show in the next.
fn check_from_points(backend: Backend) {
    let Some(gpu) = gpu(backend) else { return };
    let frames = [[false, false, false], [true, false, true], [false, true, false], [false, false, false], [true; 3]];
    for (what, model) in models_from_points() {
        let mut evaluator = Evaluator::with(&model, Options { normals: true, ..Options::default() });
        for predict in [false, true] {
            let mut skin = GpuSkin::with(&gpu, &model, SkinOptions { instances: INSTANCES, predict }).unwrap();
            for (f, frame) in frames.iter().enumerate() {
                let pose = |(i, &beyond): (usize, &bool)| ranged_pose(&model.character, INSTANCES * f + i, beyond);
                let poses: Vec<Vec<Affine3A>> = frame.iter().enumerate().map(pose).collect();
                skin.pose(&gpu, &poses.concat()).unwrap();
                let (positions, normals) = (skin.read_positions(&gpu).unwrap(), skin.read_normals(&gpu).unwrap());
                let [mut expected, mut expected_normals] = [(); 2].map(|()| vec![[0.0; 3]; 500]);
                for (i, pose) in poses.iter().enumerate() {
                    let what = format!("{what}, predicted on the GPU: {predict}, frame {f}, instance {i}");
                    evaluator.positions_and_normals(pose, &mut expected, &mut expected_normals);
                    assert_eq!(evaluator.outside_training().is_some(), frame[i], "{what}");
                    // As in `check`; the normals of triangles a centimetre wide are a hundred times farther off.
                    let tolerance = if predict { 5e-4 } else { 3e-5 };
                    let range = 500 * i..500 * (i + 1);
                    close(&what, &positions[range.clone()], &expected, tolerance);
                    close(&what, &normals[range], &expected_normals, 100.0 * tolerance);
                }
            }
        }
    }
}

fn close(what: &str, a: &[[f32; 3]], b: &[[f32; 3]], tolerance: f32) {
    assert_eq!(a.len(), b.len());
    for (v, (a, b)) in a.iter().zip(b).enumerate() {
        let apart = Vec3::from_array(*a).distance(Vec3::from_array(*b));
        assert!(apart <= tolerance, "{what}, vertex {v}: {a:?} and {b:?}");
    }
}

#[test]
fn every_form_on_vulkan_equals_the_cpu() {
    check(Backend::Vulkan);
}

#[test]
fn every_form_on_gl_equals_the_cpu() {
    check(Backend::Gl);
}

#[test]
fn points_on_vulkan_equal_the_cpu_within_the_ranges_and_beyond() {
    check_from_points(Backend::Vulkan);
}

#[test]
fn points_on_gl_equal_the_cpu_within_the_ranges_and_beyond() {
    check_from_points(Backend::Gl);
}

#[test]
fn a_pose_that_is_held_says_what_carries_it_on() {
    let (_, model) = &models_from_points()[0];
    let character = &model.character;
    let mut evaluator = Evaluator::new(model);
    for k in 0..6 {
        let beyond = k % 2 == 1;
        let pose = ranged_pose(character, k, beyond);
        let mut positions = vec![[0.0; 3]; 500];
        evaluator.positions(&pose, &mut positions);
        let outside = evaluator.outside_training();
        let inputs = evaluator.inputs(&pose);
        assert_eq!(inputs.excess.len(), if beyond { BONES } else { 0 }, "pose {k}");
        for (b, (excess, world)) in inputs.excess.iter().zip(inputs.world).enumerate() {
            // Carried on, the held bones are where they were asked to be; metres after a dozen roundings of f32.
            let asked = pose[b] * character.bones[b].rest.inverse();
            assert!((*excess * *world).abs_diff_eq(asked, 1e-5), "pose {k}, bone {b}");
        }
        // What the evaluator says of the pose does not depend on which way it was given.
        assert_eq!(evaluator.outside_training().map(|(b, _)| b), outside.map(|(b, _)| b), "pose {k}");
        let [after, before] = [evaluator.outside_training(), outside].map(|o| o.map_or(0.0, |(_, radians)| radians));
        assert!((after - before).abs() < 1e-5 && (before > 0.1) == beyond, "pose {k}: {after} and {before} radians");
    }
}

#[test]
fn a_correction_does_move_something() {
    // Otherwise the comparison above would show nothing.
    let models = models();
    let positions = |model: &Model| {
        let mut out = vec![[0.0; 3]; 500];
        Evaluator::new(model).positions(&synthetic::pose(&model.character, 1.0), &mut out);
        out
    };
    let plain = positions(&models[0].1);
    for (what, model) in &models[1..4] {
        assert!(positions(model) != plain, "{what}");
    }
    assert!(positions(&models[3].1) != positions(&models[1].1), "both are more than the proxies' one");
}
