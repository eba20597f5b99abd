//! Every kernel against the plain loop that its method states, on random and on nasty data; and no allocation a frame.

mod corrections;
mod normals;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use glam::{Affine3A, Quat, Vec3, Vec3A};
use sinew_runtime::bounds::Bounds;
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion, VertexCorrection, VertexPart};
use sinew_runtime::deform::{
    AnimationSpace, BlockRows, DualQuaternion, FullGradients, GradientPredictors, LinearBlend, MultiWeight,
    PoissonFactor, RotationalRegression, TrianglePredictors,
};
use sinew_runtime::polynomials::Coordinate;
use sinew_runtime::{
    Bone, Character, Correction, Deformer, Evaluator, Instructions, JointRanges, KernelRegion, Metadata, Model,
    Options, Polynomials, PoseSpace, Skin,
};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Numbers in −1 … 1, the same on every machine (a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    fn below(&mut self, limit: usize) -> usize {
        ((self.next() * 0.5 + 0.5) * limit as f32) as usize % limit
    }
    fn point(&mut self) -> [f32; 3] {
        std::array::from_fn(|_| self.next())
    }
    fn motion(&mut self) -> Affine3A {
        let axis = Vec3::from_array(self.point()).try_normalize().unwrap_or(Vec3::X);
        let turn = Quat::from_axis_angle(axis, 3.0 * self.next());
        Affine3A::from_rotation_translation(turn, Vec3::from_array(self.point()))
    }
}

struct Size {
    vertices: usize,
    joints: usize,
    influences: usize,
}

fn character(numbers: &mut Numbers, size: &Size) -> Character {
    let Size { vertices, joints, influences: width } = *size;
    let bone = |b: usize, rest| Bone { name: format!("bone {b}"), parent: (b > 0).then_some(0), rest };
    let mut skin = Skin { width, joints: Vec::new(), weights: Vec::new() };
    for _ in 0..vertices {
        let mut weights: Vec<f32> = (0..width).map(|_| numbers.next().abs() + 0.01).collect();
        let sum: f32 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
        weights.sort_by(|a, b| b.total_cmp(a));
        skin.weights.extend(weights);
        skin.joints.extend((0..width).map(|_| numbers.below(joints) as u16));
    }
    let corner = |n: &mut Numbers| n.below(vertices) as u32;
    Character {
        rest_positions: (0..vertices).map(|_| numbers.point()).collect(),
        // Some of these are degenerate, some vertices stand in none.
        triangles: (0..vertices).map(|_| [corner(numbers), corner(numbers), corner(numbers)]).collect(),
        polygons: None,
        uvs: None,
        bones: (0..joints).map(|b| bone(b, numbers.motion())).collect(),
        skin,
        fps: None,
    }
}

/// Every method that has a kernel, with random content.
fn deformers(numbers: &mut Numbers, character: &Character) -> Vec<Deformer> {
    let mut points = AnimationSpace::from_linear_blend(character);
    for p in &mut points.coordinates {
        for k in 0..3 {
            p[k] += 0.1 * numbers.next();
        }
    }
    let mut entries = MultiWeight::from_animation_space(&points, character);
    entries.weights.as_flattened_mut().iter_mut().for_each(|w| *w += 0.1 * numbers.next());
    entries.constants.as_flattened_mut().iter_mut().for_each(|c| *c = numbers.next());
    let regression = rotational_regression(numbers, character, 5);
    let mut beyond = regression.clone();
    // Nearly every joint of nearly every pose is beyond these.
    beyond.ranges.low.fill([-0.1; 3]);
    beyond.ranges.high.fill([0.2; 3]);
    // Held as a whole and carried on.
    let mut carried = beyond.clone();
    let point = |(k, &w): (usize, &f32)| {
        let [x, y, z] = character.rest_positions[k / carried.skin.width].map(|x| x + 0.1 * numbers.next());
        [w * x, w * y, w * z, w]
    };
    carried.points = carried.skin.weights.iter().enumerate().map(point).collect();
    vec![
        Deformer::LinearBlend(LinearBlend),
        Deformer::DualQuaternion(DualQuaternion),
        Deformer::AnimationSpace(points),
        Deformer::MultiWeight(entries),
        Deformer::RotationalRegression(regression),
        Deformer::RotationalRegression(beyond),
        Deformer::RotationalRegression(carried),
    ]
}

fn rotational_regression(numbers: &mut Numbers, character: &Character, proxies: usize) -> RotationalRegression {
    let bones = character.bones.len();
    let starts: Vec<u32> = (0..=proxies as u32).map(|p| 2 * p).collect();
    let mut columns = |limit: usize| -> Vec<u16> { (0..2 * proxies).map(|_| numbers.below(limit) as u16).collect() };
    let (c1_columns, c2_columns) = (columns(proxies), columns(bones));
    let mut skin = character.skin.clone();
    skin.joints.iter_mut().for_each(|joint| *joint = numbers.below((proxies + bones).min(65_536)) as u16);
    let mut values = |count: usize| -> Vec<f32> { (0..count).map(|_| 0.3 * numbers.next()).collect() };
    RotationalRegression {
        ranges: JointRanges {
            reference: vec![[0.0; 3]; bones],
            low: vec![[-3.0; 3]; bones],
            high: vec![[3.0; 3]; bones],
        },
        predictors: GradientPredictors {
            width: 1,
            features: 3,
            frames: c2_columns[..proxies].to_vec(),
            joints: c2_columns[proxies..].to_vec(),
            rotation: values(proxies * 12),
            stretch: values(proxies * 24),
        },
        c1: BlockRows {
            starts: starts.clone(),
            columns: c1_columns,
            blocks: values(2 * proxies * 12).as_chunks::<3>().0.as_chunks::<4>().0.to_vec(),
        },
        c2: BlockRows {
            starts,
            columns: c2_columns,
            blocks: values(2 * proxies * 16).as_chunks::<4>().0.as_chunks::<4>().0.to_vec(),
        },
        skin,
        points: Vec::new(),
    }
}

fn pose(numbers: &mut Numbers, character: &Character) -> Vec<Affine3A> {
    character.bones.iter().map(|bone| numbers.motion() * bone.rest).collect()
}

fn positions(model: &Model, instructions: Instructions, pose: &[Affine3A]) -> Vec<[f32; 3]> {
    let mut evaluator = Evaluator::with(model, Options { instructions, ..Options::default() });
    let mut out = vec![[f32::NAN; 3]; model.character.vertex_count()];
    evaluator.positions(pose, &mut out);
    out
}

/// Sums of up to 8 × 12 products of numbers up to ten, each rounded once; dual quaternions divide by a length as small
/// as 0.1.
const TOLERANCE: f32 = 2e-4;

fn assert_close(what: &str, a: &[[f32; 3]], b: &[[f32; 3]]) {
    for (v, (a, b)) in a.iter().zip(b).enumerate() {
        for k in 0..3 {
            assert!((a[k] - b[k]).abs() <= TOLERANCE * b[k].abs().max(1.0), "{what}, vertex {v}: {a:?} and {b:?}");
        }
    }
}

fn check(size: &Size) {
    let mut numbers = Numbers(size.vertices as u64 * 1_000 + size.influences as u64);
    let character = character(&mut numbers, size);
    let pose = pose(&mut numbers, &character);
    for deformer in deformers(&mut numbers, &character) {
        let what = format!(
            "{}, {} vertices, {} joints, {} influences",
            deformer.kind(),
            size.vertices,
            size.joints,
            size.influences
        );
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let plain = positions(&model, Instructions::Plain, &pose);
        assert!(plain.as_flattened().iter().all(|x| x.is_finite()), "{what}");
        assert_close(&what, &positions(&model, Instructions::Portable, &pose), &plain);
        assert_close(&what, &positions(&model, Instructions::detect(), &pose), &plain);
    }
}

#[test]
fn kernels_equal_their_twins_at_every_tail() {
    for vertices in [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 257] {
        check(&Size { vertices, joints: 5, influences: 4 });
    }
}

#[test]
fn kernels_equal_their_twins_for_any_number_of_influences_and_joints() {
    for (joints, influences) in [(1, 1), (1, 4), (2, 1), (40, 8), (3, 8), (300, 2)] {
        check(&Size { vertices: 100, joints, influences });
    }
}

#[test]
fn kernels_reach_the_last_of_65536_joints() {
    let size = Size { vertices: 20, joints: 65_536, influences: 2 };
    let mut numbers = Numbers(7);
    let mut character = character(&mut numbers, &size);
    character.skin.joints[0] = 65_535;
    let pose = pose(&mut numbers, &character);
    let model = Model::new(character, Deformer::LinearBlend(LinearBlend), Metadata::default()).unwrap();
    let plain = positions(&model, Instructions::Plain, &pose);
    assert_close("65,536 joints", &positions(&model, Instructions::detect(), &pose), &plain);
}

#[test]
fn joints_listed_twice_and_weights_of_zero_count_as_in_the_twin() {
    let mut numbers = Numbers(11);
    let mut character = character(&mut numbers, &Size { vertices: 40, joints: 6, influences: 4 });
    for v in 0..40 {
        let row = 4 * v..4 * v + 4;
        character.skin.joints[row.clone()].copy_from_slice(&[2, 2, (v % 6) as u16, 0]);
        let weights = if v % 3 == 0 { [0.0; 4] } else { [0.5, 0.25, 0.25, 0.0] };
        character.skin.weights[row].copy_from_slice(&weights);
    }
    let pose = pose(&mut numbers, &character);
    for deformer in [Deformer::LinearBlend(LinearBlend), Deformer::DualQuaternion(DualQuaternion)] {
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let plain = positions(&model, Instructions::Plain, &pose);
        assert_close(model.deformer.kind(), &positions(&model, Instructions::detect(), &pose), &plain);
    }
}

#[test]
fn bones_that_scale_mirror_or_vanish_do_as_in_the_twin_and_stay_finite() {
    let mut numbers = Numbers(21);
    let character = character(&mut numbers, &Size { vertices: 60, joints: 12, influences: 3 });
    let bends =
        [Vec3::splat(2.0), Vec3::new(1.0, 0.4, 1.7), Vec3::new(-1.0, 1.0, 1.0), Vec3::new(1.0, 0.0, 1.0), Vec3::ZERO];
    for bend in bends {
        let mut pose = pose(&mut numbers, &character);
        for bone in pose.iter_mut().skip(3).step_by(2) {
            *bone *= Affine3A::from_scale(bend);
        }
        for deformer in deformers(&mut numbers, &character) {
            let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
            let fast = positions(&model, Instructions::detect(), &pose);
            let what = format!("{}, bones scaled by {bend}", model.deformer.kind());
            assert!(fast.as_flattened().iter().all(|x| x.is_finite()), "{what}");
            assert_close(&what, &fast, &positions(&model, Instructions::Plain, &pose));
            let mut evaluator = Evaluator::with(&model, Options { normals: true, ..Options::default() });
            let [mut out, mut normals] = [(); 2].map(|()| vec![[f32::NAN; 3]; 60]);
            evaluator.positions_and_palette_normals(&pose, &mut out, &mut normals);
            assert!(normals.as_flattened().iter().all(|x| x.abs() < 1.0 + 4e-4), "{what}: {normals:?}");
        }
    }
}

#[test]
fn a_crowd_is_its_characters_one_by_one() {
    let mut numbers = Numbers(9);
    let character = character(&mut numbers, &Size { vertices: 70, joints: 9, influences: 4 });
    let poses: Vec<Affine3A> = (0..5).flat_map(|_| pose(&mut numbers, &character)).collect();
    for deformer in deformers(&mut numbers, &character) {
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let mut all = vec![[0.0; 3]; 5 * 70];
        Evaluator::new(&model).crowd(&poses, &mut all);
        for (pose, crowd) in poses.chunks(9).zip(all.chunks(70)) {
            assert_eq!(crowd, positions(&model, Instructions::detect(), pose), "{}", model.deformer.kind());
        }
    }
}

#[test]
fn what_is_outside_the_trained_ranges_is_of_the_last_pose_whoever_asked_for_it() {
    let mut numbers = Numbers(11);
    let character = character(&mut numbers, &Size { vertices: 70, joints: 9, influences: 4 });
    let mut proxies = rotational_regression(&mut numbers, &character, 5);
    proxies.ranges.low.fill([-0.1; 3]);
    proxies.ranges.high.fill([0.2; 3]);
    let triangles = rotational_regression(&mut numbers, &character, character.triangles.len()).predictors;
    let factor = PoissonFactor { vertices: vec![], starts: vec![0], rows: vec![], values: vec![], diagonal: vec![] };
    let predictors = TrianglePredictors::Rotational(triangles);
    let full = FullGradients { ranges: proxies.ranges.clone(), predictors, factor };
    let rest: Vec<Affine3A> = character.bones.iter().map(|bone| bone.rest).collect();
    let far = pose(&mut numbers, &character);
    let both = [rest.as_slice(), &far].concat();
    for deformer in [Deformer::RotationalRegression(proxies), Deformer::FullGradients(full)] {
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let options = Options {
            #[cfg(feature = "rayon")]
            threads: true,
            ..Options::default()
        };
        let mut evaluator = Evaluator::with(&model, options);
        let (mut one, mut two) = (vec![[0.0; 3]; 70], vec![[0.0; 3]; 140]);
        evaluator.positions(&far, &mut one);
        let (outside, palette) = (evaluator.outside_training(), evaluator.palette().collect::<Vec<_>>());
        assert!(outside.is_some());
        let mut after = |what: &str, palette_too: bool, act: &mut dyn FnMut(&mut Evaluator)| {
            evaluator.positions(&rest, &mut one);
            assert_eq!(evaluator.outside_training(), None);
            act(&mut evaluator);
            let (joint, by) = evaluator.outside_training().expect(what);
            // 1e-4: the rotation comes from matrices of another order of products.
            assert!(outside.is_some_and(|(j, b)| j == joint && (b - by).abs() < 1e-4), "{what}: {joint}, {by}");
            let close = palette.iter().zip(evaluator.palette()).all(|(a, b)| a.abs_diff_eq(b, TOLERANCE));
            assert!(close || !palette_too, "{what}: the palette is another pose's");
        };
        after("crowd", true, &mut |evaluator| evaluator.crowd(&both, &mut two));
        after("inputs", false, &mut |evaluator| _ = evaluator.inputs(&far));
        if let Ok(bounds) = Bounds::new(&model, 16) {
            after("bounds", true, &mut |evaluator| evaluator.bounds(&bounds, &far, &mut Vec::new()));
        }
    }
}

#[test]
fn a_frame_does_not_allocate() {
    let mut numbers = Numbers(13);
    let character = character(&mut numbers, &Size { vertices: 200, joints: 9, influences: 4 });
    let poses: Vec<Affine3A> = (0..2).flat_map(|_| pose(&mut numbers, &character)).collect();
    for deformer in deformers(&mut numbers, &character) {
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let mut evaluator = Evaluator::with(&model, Options { normals: true, ..Options::default() });
        let (mut out, mut normals, mut all) = (vec![[0.0; 3]; 200], vec![[0.0; 3]; 200], vec![[0.0; 3]; 400]);
        let before = ALLOCATIONS.with(Cell::get);
        evaluator.positions(&poses[..9], &mut out);
        evaluator.positions_and_palette_normals(&poses[..9], &mut out, &mut normals);
        evaluator.positions_and_normals(&poses[..9], &mut out, &mut normals);
        evaluator.crowd(&poses, &mut all);
        assert_eq!(ALLOCATIONS.with(Cell::get), before, "{}", model.deformer.kind());
    }
}

#[cfg(feature = "rayon")]
#[test]
fn threads_give_the_same_bits() {
    let mut numbers = Numbers(17);
    let character = character(&mut numbers, &Size { vertices: 20_000, joints: 30, influences: 4 });
    let pose = pose(&mut numbers, &character);
    for deformer in deformers(&mut numbers, &character) {
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let mut evaluator = Evaluator::with(&model, Options { threads: true, ..Options::default() });
        let mut out = vec![[0.0; 3]; 20_000];
        evaluator.positions(&pose, &mut out);
        assert_eq!(out, positions(&model, Instructions::detect(), &pose), "{}", model.deformer.kind());
    }
}
