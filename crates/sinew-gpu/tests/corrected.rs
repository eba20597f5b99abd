//! Rotational regression on the GPU in all its forms equals the CPU: gradients predicted on either side, with a
//! correction of its proxy bones, of its vertices, or none.

mod support;

use glam::{Affine3A, Quat, Vec3};
use sinew_bench::synthetic::{self, Size};
use sinew_gpu::{Backend, GpuSkin, SkinOptions};
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion, VertexCorrection, VertexPart};
use sinew_runtime::deform::{ExtraJoint, HalfWay, RotationalRegression};
use sinew_runtime::{Correction, Deformer, Evaluator, Metadata, Model};
use support::{gpu, pose_space};

const BONES: usize = 14;
const PROXIES: usize = 9;
const INSTANCES: usize = 3;

/// Numbers between −1 and 1 that repeat late.
fn number(k: usize) -> f32 {
    (k as f32 * 0.618 + 0.2).sin()
}

/// Predictors that turn and stretch by a few tenths, every one differently; references on several branches.
fn regression(character: &sinew_runtime::Character) -> RotationalRegression {
    let mut d = synthetic::rotational_regression(character, PROXIES);
    d.predictors.rotation.iter_mut().enumerate().for_each(|(k, x)| *x = 0.3 * number(k));
    d.predictors.stretch.iter_mut().enumerate().for_each(|(k, x)| *x = 0.1 * number(7 * k + 1));
    d.ranges.reference.iter_mut().enumerate().for_each(|(b, r)| *r = [number(b), 0.0, 5.0 * number(b + 3)]);
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
            for (v, (a, b)) in skin.read_positions(&gpu).unwrap().iter().zip(&expected).enumerate() {
                let apart = Vec3::from_array(*a).distance(Vec3::from_array(*b));
                // Positions of a few metres after a hundred roundings of f32; a driver's sine and arc tangent are good
                // to some 1e-5 (WGSL promises 2⁻¹¹ of absolute error for sine, 4096 ulp for atan2).
                let tolerance = if predict { 5e-4 } else { 3e-5 };
                assert!(apart <= tolerance, "{what}, predicted on the GPU: {predict}, vertex {v}: {a:?} and {b:?}");
            }
        }
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
