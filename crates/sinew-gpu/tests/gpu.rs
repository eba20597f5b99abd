//! The GPU equals the CPU, for every method that has passes, on every interface that is there.

mod support;

use glam::{Affine3A, Quat, Vec3};
use sinew_bench::synthetic::{self, Size};
use sinew_gpu::{Backend, Camera, GpuError, GpuSkin, Renderer};
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion, VertexCorrection, VertexPart};
use sinew_runtime::deform::{AnimationSpace, DualQuaternion, LinearBlend, MultiWeight};
use sinew_runtime::{Character, Correction, Deformer, Evaluator, Metadata, Model, Options};
use support::{gpu, pose_space};

fn models() -> Vec<Model> {
    let character = synthetic::character(Size { vertices: 500, bones: 14, influences: 2.5 });
    let points = AnimationSpace::from_linear_blend(&character);
    let mut entries = MultiWeight::from_animation_space(&points, &character);
    for (k, constant) in entries.constants.as_flattened_mut().iter_mut().enumerate() {
        *constant = 0.01 * (k % 7) as f32;
    }
    let regression = synthetic::rotational_regression(&character, 6);
    let deformers = [
        Deformer::LinearBlend(LinearBlend),
        Deformer::DualQuaternion(DualQuaternion),
        Deformer::AnimationSpace(points),
        Deformer::MultiWeight(entries),
        Deformer::RotationalRegression(regression),
    ];
    let model = |deformer| Model::new(character.clone(), deformer, Metadata::default()).unwrap();
    let mut models: Vec<Model> = deformers.into_iter().map(model).collect();
    let corrected = model(Deformer::LinearBlend(LinearBlend)).with_correction(correction(&character)).unwrap();
    models.push(corrected);
    let regression = || Deformer::RotationalRegression(synthetic::rotational_regression(&character, 6));
    for correction in [correction(&character), proxy_correction()] {
        models.push(model(regression()).with_correction(correction).unwrap());
    }
    models
}

/// Two regions over six proxies, one proxy in both.
fn proxy_correction() -> Correction {
    let region = |bone: usize, proxies: Vec<u32>| {
        let entries = |k: usize| std::array::from_fn(|i| 0.002 * ((k * 12 + i) % 11) as f32 - 0.01);
        let components = (0..2 * proxies.len()).map(entries).collect();
        ProxyRegion { bone, proxies, mixing: vec![1.0, -0.5, 0.25, 0.75], components }
    };
    Correction::Proxies(ProxyCorrection {
        proxy_count: 6,
        drivers: Drivers::Examples(pose_space()),
        regions: vec![region(3, vec![0, 2, 5]), region(7, vec![2, 4])],
    })
}

/// Two regions, three parts, one vertex in two of them.
fn correction(character: &Character) -> Correction {
    let part = |region: usize, bone: usize, vertices: Vec<u32>| {
        let components = (0..2 * vertices.len()).map(|k| [0.01 * k as f32, 0.02, -0.01]).collect();
        VertexPart { region, bone, vertices, components }
    };
    assert!(character.bones.len() > 9);
    Correction::Vertices(VertexCorrection {
        space: pose_space(),
        mixing: vec![vec![1.0, -0.5, 0.25, 0.75], vec![0.5, 0.5, -1.0, 2.0]],
        parts: vec![part(0, 3, vec![0, 5, 17]), part(1, 7, vec![5, 499]), part(1, 9, vec![100, 101, 102, 103])],
    })
}

fn poses(model: &Model, instances: usize) -> Vec<Affine3A> {
    (0..instances)
        .flat_map(|k| {
            let motion = Affine3A::from_rotation_translation(Quat::from_rotation_y(k as f32), Vec3::X * k as f32);
            let pose = synthetic::pose(&model.character, k as f32);
            pose.into_iter().map(move |bone| motion * bone)
        })
        .collect()
}

fn check(backend: Backend, instances: usize) {
    let Some(gpu) = gpu(backend) else { return };
    for model in models() {
        let what = format!("{} on {}", model.deformer.kind(), gpu.name());
        let poses = poses(&model, instances);
        let mut skin = GpuSkin::new(&gpu, &model, instances).unwrap();
        skin.pose(&gpu, &poses).unwrap();
        let (positions, normals) = (skin.read_positions(&gpu).unwrap(), skin.read_normals(&gpu).unwrap());
        let mut evaluator = Evaluator::with(&model, Options { normals: true, ..Options::default() });
        let (bones, vertices) = (model.character.bones.len(), model.character.vertex_count());
        let [mut expected, mut expected_normals] = [(); 2].map(|()| vec![[0.0; 3]; vertices]);
        for (i, pose) in poses.chunks_exact(bones).enumerate() {
            evaluator.positions_and_normals(pose, &mut expected, &mut expected_normals);
            let range = i * vertices..(i + 1) * vertices;
            // Positions up to ten metres, sums of a dozen products of f32.
            close(&what, &positions[range.clone()], &expected, 2e-5);
            // Normals are differences of positions a centimetre apart.
            close(&what, &normals[range], &expected_normals, 5e-3);
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
fn vulkan_equals_the_cpu() {
    check(Backend::Vulkan, 1);
}

#[test]
fn many_instances_run_in_one_dispatch() {
    check(Backend::Vulkan, 5);
}

#[test]
fn the_gl_fallback_equals_the_cpu() {
    check(Backend::Gl, 2);
}

#[test]
fn too_much_for_the_device_is_an_error_that_says_so() {
    let Some(gpu) = gpu(Backend::Any) else { return };
    let model = &models()[0];
    let error = GpuSkin::new(&gpu, model, 1 << 30).err().expect("a billion instances do not fit");
    assert!(matches!(error, GpuError::Limit { .. }), "{error}");
    let mut skin = GpuSkin::new(&gpu, model, 2).unwrap();
    let error = skin.pose(&gpu, &poses(model, 1)).unwrap_err();
    assert!(error.to_string().contains("2 instances of 14 bones need 28"), "{error}");
}

#[test]
fn a_picture_shows_the_mesh_before_the_background() {
    let Some(gpu) = gpu(Backend::Any) else { return };
    let model = &models()[0];
    let mut skin = GpuSkin::new(&gpu, model, 1).unwrap();
    skin.pose(&gpu, &poses(model, 1)).unwrap();
    let camera = Camera::around(skin.read_positions(&gpu).unwrap());
    let renderer = Renderer::new(&gpu, 500, &model.character.triangles, [100, 80]).unwrap();
    let picture = renderer.draw(&gpu, &skin, &camera, &[[0.9, 0.1, 0.1]; 500]).unwrap();
    assert_eq!(picture.pixels.len(), 100 * 80 * 4);
    let red = picture.pixels.chunks_exact(4).filter(|p| p[0] > p[1] + 30).count();
    let white = picture.pixels.chunks_exact(4).filter(|p| p[..3] == [255; 3]).count();
    // The mesh is thin limbs: it covers some of the picture and leaves most of it.
    assert!(red > 100 && white > 1_000, "{red} red, {white} white");
}
