//! Every kernel against the plain loop that its method states, on random and on nasty data; and no allocation a frame.

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
    vec![
        Deformer::LinearBlend(LinearBlend),
        Deformer::DualQuaternion(DualQuaternion),
        Deformer::AnimationSpace(points),
        Deformer::MultiWeight(entries),
        Deformer::RotationalRegression(regression),
        Deformer::RotationalRegression(beyond),
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

/// A correction of four proxies over `poses` random example poses: regions with no joint, with some, with many proxies and
/// components, with a proxy in two of them; `peak` is the weight of the narrow kernel.
fn proxy_correction(numbers: &mut Numbers, joints: usize, poses: usize, peak: f32) -> Correction {
    let turns: Vec<[f32; 4]> =
        (0..joints * poses).map(|_| Quat::from_mat3a(&numbers.motion().matrix3).to_array()).collect();
    let entry = |c: usize, k: usize, e: usize| turns[c * poses + e][k];
    let order = |c: usize| (0..4).flat_map(move |k| (0..poses).map(move |e| (c, k, e)));
    let mut region = |seen: &[u16], proxies: &[u32], components: usize| {
        let pairs = seen.iter().map(|&joint| (joint, 2.0 + 1.5 * numbers.next())).collect();
        let (product, additive) = if seen.is_empty() { (0.0, 0.0) } else { (0.6, 0.4) };
        let kernel = KernelRegion { joints: pairs, constant: 1.0, product, additive, peak };
        let change = |numbers: &mut Numbers| std::array::from_fn(|_| 0.1 * numbers.next());
        let own = ProxyRegion {
            bone: seen.len() % joints,
            proxies: proxies.to_vec(),
            mixing: (0..components * poses).map(|_| numbers.next()).collect(),
            components: (0..components * proxies.len()).map(|_| change(numbers)).collect(),
        };
        (kernel, own)
    };
    let last = joints as u16 - 1;
    let regions = [
        region(&[], &[0], 1),
        region(&[0, last], &[1, 2, 3], 2),
        region(&[0], &[3], poses.min(9)),
        region(&[0], &[2], 0),
    ];
    Correction::Proxies(ProxyCorrection {
        proxy_count: 4,
        drivers: Drivers::Examples(PoseSpace {
            poses,
            joints: (0..joints as u16).collect(),
            rotations: (0..joints).flat_map(order).map(|(c, k, e)| entry(c, k, e)).collect(),
            // Near enough for some poses to fade a little and some to nothing.
            fade: vec![[0.5, 3.5]; joints],
            peak_rate: 4.0,
            regions: regions.iter().map(|(kernel, _)| kernel.clone()).collect(),
        }),
        regions: regions.into_iter().map(|(_, own)| own).collect(),
    })
}

#[test]
fn the_kernel_of_corrected_proxies_equals_its_twin() {
    let sizes = [(1, 1, 0.0), (3, 7, 0.0), (9, 8, 0.5), (17, 11, 0.0), (5, 40, 0.2)];
    // Within the trained ranges; a little beyond some of them; far beyond all.
    for ((joints, poses, peak), range) in sizes.into_iter().flat_map(|size| [3.0, 0.8, 0.05].map(|range| (size, range)))
    {
        let mut numbers = Numbers(joints as u64);
        let character = character(&mut numbers, &Size { vertices: 50, joints, influences: 4 });
        let mut regression = rotational_regression(&mut numbers, &character, 4);
        regression.ranges.low = vec![[-range; 3]; joints];
        regression.ranges.high = vec![[range; 3]; joints];
        let plain = Model::new(character, Deformer::RotationalRegression(regression), Metadata::default()).unwrap();
        let corrected = plain.clone().with_correction(proxy_correction(&mut numbers, joints, poses, peak)).unwrap();
        let mut moved = false;
        for _ in 0..8 {
            let pose = pose(&mut numbers, &corrected.character);
            let what = format!("{joints} joints, {poses} poses, ranges to {range}");
            let expected = positions(&corrected, Instructions::Plain, &pose);
            assert_close(&what, &positions(&corrected, Instructions::Portable, &pose), &expected);
            assert_close(&what, &positions(&corrected, Instructions::detect(), &pose), &expected);
            moved |= positions(&plain, Instructions::Plain, &pose) != expected;
        }
        assert!(moved, "the correction does nothing");
    }
}

/// Changes of seven proxies by polynomials of the rotations of `joints` joints: an odd number of proxies a region, a region that
/// sees the constant alone, one without components, and a proxy in none.
fn polynomial_changes(numbers: &mut Numbers, joints: usize) -> Correction {
    let coordinates: Vec<Coordinate> = (0..2 * joints)
        .map(|c| Coordinate {
            joint: (c % joints) as u16,
            axis: std::array::from_fn(|_| numbers.next()),
            offset: 0.3 * numbers.next(),
        })
        .collect();
    let factors: Vec<[u16; 2]> = (0..30).map(|k| [(k * 7 % (k + 1)) as u16, (k * 5 % (2 * joints)) as u16]).collect();
    let mut region = |proxies: &[u32], terms: &[u16], components: usize| {
        let own = ProxyRegion {
            bone: proxies.len() % joints,
            proxies: proxies.to_vec(),
            mixing: (0..components * terms.len()).map(|_| numbers.next()).collect(),
            components: (0..components * proxies.len())
                .map(|_| std::array::from_fn(|_| 0.1 * numbers.next()))
                .collect(),
        };
        (terms.to_vec(), own)
    };
    let regions = [
        region(&[0], &[0], 1),
        region(&[1, 2, 4], &[0, 3, 9, 30, 17, 2, 5, 8, 11], 4),
        region(&[5], &[1, 2, 3, 4, 5, 6, 7], 7),
        region(&[3], &[4], 0),
    ];
    Correction::Proxies(ProxyCorrection {
        proxy_count: 7,
        drivers: Drivers::Polynomials(Polynomials {
            coordinates,
            factors,
            regions: regions.iter().map(|(terms, _)| terms.clone()).collect(),
        }),
        regions: regions.into_iter().map(|(_, own)| own).collect(),
    })
}

#[test]
fn the_kernel_of_changes_by_polynomials_equals_its_twin() {
    // With predictors, c₁ and c₂ under the changes, and with proxies that only follow blends of bones.
    for (joints, follows) in [1, 3, 9, 17].into_iter().flat_map(|joints| [(joints, false), (joints, true)]) {
        let mut numbers = Numbers(joints as u64 + 40);
        let character = character(&mut numbers, &Size { vertices: 50, joints, influences: 4 });
        let mut regression = rotational_regression(&mut numbers, &character, 7);
        if follows {
            let blocks =
                |share: f32| std::array::from_fn(|r| std::array::from_fn(|c| if r == c { share } else { 0.0 }));
            let rows =
                |p: usize| if joints > 1 { vec![(p % joints, 0.75), ((p + 1) % joints, 0.25)] } else { vec![(0, 1.0)] };
            regression.c1 = BlockRows { starts: vec![0; 8], columns: Vec::new(), blocks: Vec::new() };
            regression.c2 = BlockRows { starts: vec![0], columns: Vec::new(), blocks: Vec::new() };
            for p in 0..7 {
                let mut row = rows(p);
                row.sort_by_key(|&(b, _)| b);
                regression.c2.columns.extend(row.iter().map(|&(b, _)| b as u16));
                regression.c2.blocks.extend(row.iter().map(|&(_, share)| blocks(share)));
                regression.c2.starts.push(regression.c2.columns.len() as u32);
            }
        }
        for range in [3.0, 0.3] {
            regression.ranges.low = vec![[-range; 3]; joints];
            regression.ranges.high = vec![[range; 3]; joints];
            let deformer = Deformer::RotationalRegression(regression.clone());
            let plain = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
            let changed = plain.clone().with_correction(polynomial_changes(&mut numbers, joints)).unwrap();
            assert!(Model::from_bytes(&changed.to_bytes()).unwrap() == changed, "a file changes the model");
            for _ in 0..6 {
                let pose = pose(&mut numbers, &changed.character);
                let what = format!("{joints} joints, ranges to {range}, {follows}");
                let expected = positions(&changed, Instructions::Plain, &pose);
                assert_close(&what, &positions(&changed, Instructions::Portable, &pose), &expected);
                assert_close(&what, &positions(&changed, Instructions::detect(), &pose), &expected);
                assert!(positions(&plain, Instructions::Plain, &pose) != expected, "{what}: the changes do nothing");
            }
        }
    }
}

#[test]
fn corrected_proxies_are_the_same_far_from_the_origin() {
    let mut numbers = Numbers(29);
    let character = character(&mut numbers, &Size { vertices: 50, joints: 9, influences: 4 });
    let regression = rotational_regression(&mut numbers, &character, 4);
    let near = Model::new(character, Deformer::RotationalRegression(regression), Metadata::default()).unwrap();
    let near = near.with_correction(proxy_correction(&mut numbers, 9, 8, 0.0)).unwrap();
    let away = Vec3::new(1024.0, -512.0, 256.0);
    let mut far = near.clone();
    far.character.rest_positions.iter_mut().for_each(|p| *p = (Vec3::from_array(*p) + away).to_array());
    far.character.bones.iter_mut().for_each(|bone| bone.rest.translation += Vec3A::from(away));
    let pose = pose(&mut numbers, &near.character);
    let moved: Vec<Affine3A> = pose.iter().map(|&bone| Affine3A::from_translation(away) * bone).collect();
    for instructions in [Instructions::Plain, Instructions::Portable, Instructions::detect()] {
        let there = positions(&far, instructions, &moved);
        for (v, (a, b)) in there.iter().zip(positions(&near, instructions, &pose)).enumerate() {
            let off = (Vec3::from_array(*a) - away).distance(Vec3::from_array(b));
            // Thirty roundings of numbers as large as the way, 6e-5 each. The square of the way would be lost to 0.06.
            assert!(off < 2e-3, "{instructions:?}, vertex {v}: {off}");
        }
        let palette = |model: &Model, pose: &[Affine3A]| -> Vec<Affine3A> {
            let mut evaluator = Evaluator::with(model, Options { instructions, ..Options::default() });
            evaluator.positions(pose, &mut vec![[0.0; 3]; 50]);
            evaluator.palette().collect()
        };
        for (a, b) in palette(&far, &moved).into_iter().zip(palette(&near, &pose)) {
            let back = Affine3A::from_translation(-away) * a * Affine3A::from_translation(away);
            assert!(back.abs_diff_eq(b, 2e-3), "{instructions:?}: {back:?} and {b:?}");
        }
    }
}

#[test]
fn proxies_and_vertices_corrected_at_once_add_up_and_come_back_from_a_file() {
    let (joints, poses) = (9, 8);
    let mut numbers = Numbers(5);
    let character = character(&mut numbers, &Size { vertices: 50, joints, influences: 4 });
    let regression = rotational_regression(&mut numbers, &character, 4);
    let plain = Model::new(character, Deformer::RotationalRegression(regression), Metadata::default()).unwrap();
    let Correction::Proxies(proxies) = proxy_correction(&mut numbers, joints, poses, 0.0) else { unreachable!() };
    let Drivers::Examples(space) = &proxies.drivers else { unreachable!() };
    let vertices = VertexCorrection {
        space: space.clone(),
        mixing: proxies.regions.iter().map(|_| (0..poses).map(|_| numbers.next()).collect()).collect(),
        parts: vec![VertexPart { region: 1, bone: 2, vertices: vec![3, 49], components: vec![[0.1, 0.2, -0.1]; 2] }],
    };
    let with = |correction| plain.clone().with_correction(correction).unwrap();
    let (a, b) = (with(Correction::Proxies(proxies.clone())), with(Correction::Vertices(vertices.clone())));
    let both = with(Correction::Both(proxies, vertices));
    assert!(Model::from_bytes(&both.to_bytes()).unwrap() == both, "a file changes the model");
    for _ in 0..8 {
        let pose = pose(&mut numbers, &both.character);
        let [plain, a, b] = [&plain, &a, &b].map(|model| positions(model, Instructions::Plain, &pose));
        let sum = |v: usize| std::array::from_fn(|k| a[v][k] + b[v][k] - plain[v][k]);
        let expected: Vec<[f32; 3]> = (0..50).map(sum).collect();
        for instructions in [Instructions::Plain, Instructions::Portable, Instructions::detect()] {
            assert_close("both", &positions(&both, instructions, &pose), &expected);
        }
        assert!(a != plain && b != plain, "a correction does nothing");
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
fn normals_are_of_length_one_or_nil_and_never_nan() {
    let mut numbers = Numbers(3);
    let mut character = character(&mut numbers, &Size { vertices: 50, joints: 4, influences: 3 });
    // A third of the mesh collapses to a point.
    character.rest_positions[..17].fill([0.25; 3]);
    let pose = pose(&mut numbers, &character);
    for deformer in deformers(&mut numbers, &character) {
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let options = Options { normals: true, ..Options::default() };
        let mut evaluator = Evaluator::with(&model, options);
        let [mut out, mut palette, mut ring] = [(); 3].map(|()| vec![[f32::NAN; 3]; 50]);
        evaluator.positions_and_palette_normals(&pose, &mut out, &mut palette);
        assert_close("positions beside normals", &out, &positions(&model, Instructions::Plain, &pose));
        evaluator.positions_and_normals(&pose, &mut out, &mut ring);
        // Palette normals are scaled by the processor's estimate of 1/√, which is off by up to 3.7e-4.
        for (normals, tolerance) in [(&palette, 4e-4), (&ring, 1e-5)] {
            for normal in normals {
                let length = Vec3::from_array(*normal).length();
                assert!(length == 0.0 || (length - 1.0).abs() < tolerance, "{normal:?}");
            }
        }
    }
}

/// A model and its weights, (joint, weight) pairs of every vertex.
type Weighted = (Model, Vec<Vec<(usize, f32)>>);

#[test]
fn palette_normals_are_the_rest_normals_turned_by_the_blended_matrix() {
    for vertices in [1, 7, 8, 9, 61] {
        let mut numbers = Numbers(vertices as u64);
        let character = character(&mut numbers, &Size { vertices, joints: 5, influences: 3 });
        let pose = pose(&mut numbers, &character);
        let rest: Vec<Affine3A> = character.bones.iter().map(|bone| bone.rest).collect();
        // Animation space has weights of its own, the last components: here some of the first joint's goes to the second.
        let mut points = AnimationSpace::from_linear_blend(&character);
        for row in points.coordinates.chunks_exact_mut(points.width) {
            let some = 0.3 * numbers.next();
            row[0][3] -= some;
            row[1][3] += some;
        }
        let skin: Vec<Vec<(usize, f32)>> = (0..vertices).map(|v| character.skin.vertex(v).collect()).collect();
        let own = (0..vertices).map(|v| points.vertex(v).map(|(joint, p)| (joint, p[3])).collect()).collect();
        let model = |deformer| Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let entries = MultiWeight::from_animation_space(&points, &character);
        // The others are turned by the skin's weights.
        for deformer in [
            Deformer::LinearBlend(LinearBlend),
            Deformer::DualQuaternion(DualQuaternion),
            Deformer::MultiWeight(entries),
        ] {
            check_palette_normals(&rest, &pose, &(model(deformer), Vec::clone(&skin)));
        }
        check_palette_normals(&rest, &pose, &(model(Deformer::AnimationSpace(points)), own));
    }
}

fn check_palette_normals(rest: &[Affine3A], pose: &[Affine3A], (model, weights): &Weighted) {
    let all = [
        Instructions::Plain,
        Instructions::Portable,
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2,
        Instructions::detect(),
    ];
    for instructions in all {
        let mut options = Options { normals: true, ..Options::default() };
        options.instructions = instructions;
        let mut evaluator = Evaluator::with(model, options);
        let [mut out, mut rest_normals, mut normals] = [(); 3].map(|()| vec![[f32::NAN; 3]; weights.len()]);
        // Of the character's rest mesh, which need not be the method's own in the rest pose.
        let skin = Model { deformer: Deformer::LinearBlend(LinearBlend), ..model.clone() };
        Evaluator::with(&skin, options).positions_and_normals(rest, &mut out, &mut rest_normals);
        evaluator.positions_and_palette_normals(pose, &mut out, &mut normals);
        for (v, weights) in weights.iter().enumerate() {
            let turned = |joint: usize| {
                let matrix = (pose[joint] * rest[joint].inverse()).matrix3;
                matrix * Vec3::from_array(rest_normals[v])
            };
            let expected = weights.iter().map(|&(joint, weight)| weight * turned(joint)).sum::<Vec3>();
            let found = Vec3::from_array(normals[v]);
            let off = match model.deformer {
                // What f32 adds grows where the blend nearly cancels.
                Deformer::LinearBlend(_) => 1e-5,
                // Numbers of 16 bits, and light weights moved to the heaviest joint.
                _ => rounding(weights) + moved(weights, turned),
            };
            // 3.7e-4 along the normal from the estimate of 1/√.
            let tolerance = 4e-4 + off / expected.length().max(1e-3);
            let what = format!("{}, vertex {v}", model.deformer.kind());
            assert!(found.distance(expected.normalize_or_zero()) < tolerance, "{what}: {found} and {expected}");
        }
    }
}

/// By how much 16 bits may move `Σ w T n̂` if the T are rotations: 5e-5 (k + 1) Σ|w|, as the kernel's file derives.
fn rounding(weights: &[(usize, f32)]) -> f32 {
    5e-5 * (weights.len() + 1) as f32 * weights.iter().map(|(_, weight)| weight.abs()).sum::<f32>()
}

/// By how much the lightest weights, a hundredth of them all, move `Σ w T n̂` if they go to the heaviest joint; `turned(b)` is
/// T_b n̂.
fn moved(weights: &[(usize, f32)], turned: impl Fn(usize) -> Vec3) -> f32 {
    let mut sorted: Vec<(usize, f32)> = Vec::new();
    for &(joint, weight) in weights {
        match sorted.iter_mut().find(|(other, _)| *other == joint) {
            Some((_, sum)) => *sum += weight,
            None => sorted.push((joint, weight)),
        }
    }
    sorted.sort_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let all: f32 = sorted.iter().map(|(_, weight)| weight.abs()).sum();
    let heaviest = turned(sorted.last().expect("a vertex has a joint").0);
    let mut light = 0.0;
    let lightest = sorted.iter().take_while(|(_, weight)| {
        light += weight.abs();
        light <= 0.01 * all
    });
    lightest.map(|&(joint, weight)| weight.abs() * turned(joint).distance(heaviest)).sum()
}

#[test]
fn weights_of_a_hundredth_turn_palette_normals_by_little() {
    let mut numbers = Numbers(23);
    let character = character(&mut numbers, &Size { vertices: 300, joints: 12, influences: 4 });
    let mut points = AnimationSpace::from_linear_blend(&character);
    for (joints, row) in points.joints.chunks_exact_mut(4).zip(points.coordinates.chunks_exact_mut(4)) {
        joints.copy_from_slice(&[0, 3, 6, 9].map(|first| first + numbers.below(3) as u16));
        let light = 0.005 * numbers.next().abs();
        for (p, weight) in row.iter_mut().zip([0.8, 0.2 - 2.0 * light, light, light]) {
            p[3] = weight;
        }
    }
    let weights: Vec<Vec<(usize, f32)>> =
        (0..300).map(|v| points.vertex(v).map(|(joint, p)| (joint, p[3])).collect()).collect();
    let model = Model::new(character, Deformer::AnimationSpace(points), Metadata::default()).unwrap();
    let rest: Vec<Affine3A> = model.character.bones.iter().map(|bone| bone.rest).collect();
    let options = Options { normals: true, ..Options::default() };
    let [mut out, mut rest_normals, mut normals] = [(); 3].map(|()| vec![[f32::NAN; 3]; 300]);
    let skin = Model { deformer: Deformer::LinearBlend(LinearBlend), ..model.clone() };
    Evaluator::with(&skin, options).positions_and_normals(&rest, &mut out, &mut rest_normals);
    let mut farthest = 0.0_f32;
    // Joints turned from each other by up to 60°, as in a bent limb: a hundredth of that is 0.6°, as documented.
    let turns: Vec<Quat> = (0..12)
        .map(|_| Quat::from_axis_angle(Vec3::from_array(numbers.point()).normalize(), 0.52 * numbers.next()))
        .collect();
    let pose: Vec<Affine3A> = turns.iter().zip(&rest).map(|(&turn, &rest)| Affine3A::from_quat(turn) * rest).collect();
    Evaluator::with(&model, options).positions_and_palette_normals(&pose, &mut out, &mut normals);
    for (v, weights) in weights.iter().enumerate() {
        let turned = |joint: usize| turns[joint] * Vec3::from_array(rest_normals[v]);
        let expected = weights.iter().map(|&(joint, weight)| weight * turned(joint)).sum::<Vec3>();
        if expected.length() == 0.0 {
            continue;
        }
        let angle = Vec3::from_array(normals[v]).angle_between(expected);
        let rounded = rounding(weights) / expected.length();
        // The blend of joints 60° apart is at least cos 30° = 0.87 long; what is promised is for one of length 1.
        assert!(angle < 0.0105 / 0.87 + rounded, "vertex {v}: {angle} rad");
        farthest = farthest.max(angle - rounded);
    }
    assert!(farthest > 0.0, "light weights were not left out");
}

#[test]
fn palette_normals_of_a_rigid_motion_are_the_turned_rest_normals() {
    let mut numbers = Numbers(5);
    let character = character(&mut numbers, &Size { vertices: 60, joints: 4, influences: 3 });
    let motion = numbers.motion();
    let pose: Vec<Affine3A> = character.bones.iter().map(|bone| motion * bone.rest).collect();
    let model = Model::new(character, Deformer::LinearBlend(LinearBlend), Metadata::default()).unwrap();
    let mut evaluator = Evaluator::with(&model, Options { normals: true, ..Options::default() });
    let [mut out, mut palette, mut ring] = [(); 3].map(|()| vec![[0.0; 3]; 60]);
    evaluator.positions_and_palette_normals(&pose, &mut out, &mut palette);
    evaluator.positions_and_normals(&pose, &mut out, &mut ring);
    for (v, (a, b)) in palette.iter().zip(&ring).enumerate() {
        let apart = Vec3::from_array(*a).distance(Vec3::from_array(*b));
        // Cross products of short random edges lose a few digits.
        assert!(apart < 1e-3, "vertex {v}: {a:?} and {b:?}");
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
