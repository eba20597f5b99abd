//! No vertex of a regression that draws from points leaves its block's box, within its trained ranges and beyond them.

use glam::{Affine3A, Quat, Vec3};
use sinew_runtime::bounds::Bounds;
use sinew_runtime::correction::{VertexCorrection, VertexPart};
use sinew_runtime::deform::{BlockRows, GradientPredictors, RotationalRegression};
use sinew_runtime::{
    Bone, Character, Correction, Deformer, Evaluator, Instructions, JointRanges, KernelRegion, Metadata, Model,
    Options, PoseSpace, Skin,
};

const BONES: usize = 5;
const PROXIES: usize = 4;
const VERTICES: usize = 300;
const WIDTH: usize = 3;

/// Radians that a joint may turn by about each axis before it is held.
const TRAINED: f32 = 0.3;

/// Numbers in −1 … 1, the same on every machine (a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    fn list<T>(&mut self, count: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..count).map(|_| one(self)).collect()
    }
    fn point(&mut self) -> Vec3 {
        Vec3::new(self.next(), self.next(), self.next())
    }
}

/// A chain of bones along x, each half a metre long, and vertices around it that follow neighbouring bones.
fn character(numbers: &mut Numbers) -> Character {
    let bone = |b: usize| Bone {
        name: format!("bone {b}"),
        parent: b.checked_sub(1),
        rest: Affine3A::from_translation(Vec3::new(0.5 * b as f32, 1.0, 0.2)),
    };
    let mut skin = Skin { width: 2, joints: Vec::new(), weights: Vec::new() };
    let mut rest_positions = Vec::new();
    for v in 0..VERTICES {
        let b = v * (BONES - 1) / VERTICES;
        let weight = 0.5 + 0.5 * numbers.next();
        skin.joints.extend([b as u16, b as u16 + 1]);
        skin.weights.extend([weight, 1.0 - weight]);
        rest_positions.push((Vec3::new(0.5 * b as f32 + 0.25, 1.0, 0.2) + 0.25 * numbers.point()).to_array());
    }
    Character {
        rest_positions,
        // Neighbours, also where bones change.
        triangles: (2..VERTICES as u32).map(|v| [v - 2, v - 1, v]).collect(),
        polygons: None,
        uvs: None,
        bones: (0..BONES).map(bone).collect(),
        skin,
        fps: None,
    }
}

/// Proxy bones near bones, and vertices drawn from random points whose weights sum to one, some of them negative.
fn regression(numbers: &mut Numbers, character: &Character) -> RotationalRegression {
    let bone = |p: usize| (p % BONES) as u16;
    let near = |n: &mut Numbers, r: usize, s: usize| if r == s { 1.0 } else { 0.1 * n.next() };
    let mut skin = Skin { width: WIDTH, joints: Vec::new(), weights: Vec::new() };
    let mut points = Vec::new();
    let origin = Vec3::from(character.bones[0].rest.translation);
    for (v, &rest) in character.rest_positions.iter().enumerate() {
        let first = v % (PROXIES + BONES);
        skin.joints.extend((0..WIDTH).map(|k| ((first + 2 * k) % (PROXIES + BONES)) as u16));
        skin.weights.extend([1.0 / WIDTH as f32; WIDTH]);
        let (a, b) = (0.6 * numbers.next(), 0.6 * numbers.next());
        for w in [a, b, 1.0 - a - b] {
            let point = w * (Vec3::from(rest) - origin) + 0.1 * numbers.point();
            points.push(point.extend(w).to_array());
        }
    }
    let starts: Vec<u32> = (0..=PROXIES as u32).collect();
    RotationalRegression {
        ranges: JointRanges {
            reference: vec![[0.0; 3]; BONES],
            low: vec![[-TRAINED; 3]; BONES],
            high: vec![[TRAINED; 3]; BONES],
        },
        predictors: GradientPredictors {
            width: 1,
            features: 3,
            frames: (0..PROXIES).map(bone).collect(),
            // Every joint but the root is looked at, and so held.
            joints: (1..=PROXIES).map(bone).collect(),
            rotation: numbers.list(PROXIES * 12, |n| 0.2 * n.next()),
            stretch: numbers.list(PROXIES * 24, |n| 0.2 * n.next()),
        },
        c1: BlockRows {
            starts: starts.clone(),
            columns: (0..PROXIES as u16).collect(),
            blocks: numbers.list(PROXIES, |n| std::array::from_fn(|_| std::array::from_fn(|_| 0.1 * n.next()))),
        },
        c2: BlockRows {
            starts,
            columns: (0..PROXIES).map(bone).collect(),
            blocks: numbers.list(PROXIES, |n| std::array::from_fn(|r| std::array::from_fn(|s| near(n, r, s)))),
        },
        skin,
        points,
    }
}

/// Displacements of all vertices in one bone's frame, which follow one joint.
fn displacements(numbers: &mut Numbers) -> Correction {
    let quaternions = [Quat::IDENTITY, Quat::from_rotation_z(0.2)].map(|q| q.to_array());
    Correction::Vertices(VertexCorrection {
        space: PoseSpace {
            poses: 2,
            joints: vec![2],
            rotations: (0..4).flat_map(|k| quaternions.map(|q| q[k])).collect(),
            fade: vec![[0.5, 3.5]],
            peak_rate: 4.0,
            regions: vec![KernelRegion {
                joints: vec![(0, 2.0)],
                constant: 1.0,
                product: 0.6,
                additive: 0.4,
                peak: 0.0,
            }],
        },
        mixing: vec![vec![0.7, -0.4]],
        parts: vec![VertexPart {
            bone: 2,
            region: 0,
            vertices: (0..VERTICES as u32).collect(),
            components: numbers.list(VERTICES, |n| (0.1 * n.point()).to_array()),
        }],
    })
}

/// Every joint turned by up to `angle` about each axis, the root anywhere within `far` metres.
fn pose(numbers: &mut Numbers, character: &Character, angle: f32, far: f32) -> Vec<Affine3A> {
    let turn = |n: &mut Numbers, angle: f32| Quat::from_scaled_axis(angle * n.point());
    let root = Affine3A::from_rotation_translation(turn(numbers, 2.0), far * numbers.point());
    let mut globals = vec![root];
    for _ in 1..character.bones.len() {
        let local = Affine3A::from_rotation_translation(turn(numbers, angle), 0.5 * Vec3::X);
        globals.push(globals[globals.len() - 1] * local);
    }
    globals
}

#[test]
fn no_vertex_drawn_from_points_leaves_its_bounds() {
    let mut numbers = Numbers(11);
    let character = character(&mut numbers);
    let deformer = Deformer::RotationalRegression(regression(&mut numbers, &character));
    let plain = Model::new(character, deformer, Metadata::default()).unwrap();
    let displaced = plain.clone().with_correction(displacements(&mut numbers)).unwrap();
    for (model, block_size) in [(&plain, 32), (&plain, 1), (&displaced, 32)] {
        let bounds = Bounds::new(model, block_size).unwrap();
        for instructions in [Instructions::Plain, Instructions::detect()] {
            let mut evaluator = Evaluator::with(model, Options { instructions, ..Options::default() });
            let mut positions = vec![[0.0; 3]; VERTICES];
            let mut boxes = Vec::new();
            // Within the ranges, a little beyond them, far beyond; near the world's origin and far from it.
            for (angle, far) in [(0.9 * TRAINED, 1.0), (1.5 * TRAINED, 1.0), (1.5, 1.0), (1.5, 300.0)] {
                let mut beyond = 0;
                for _ in 0..40 {
                    let pose = pose(&mut numbers, &model.character, angle, far);
                    evaluator.positions(&pose, &mut positions);
                    beyond += usize::from(evaluator.outside_training().is_some());
                    evaluator.bounds(&bounds, &pose, &mut boxes);
                    for (block, bound) in bounds.blocks.iter().zip(&boxes) {
                        for &v in &block.vertices {
                            let p = Vec3::from(positions[v as usize]);
                            assert!(bound.contains(p), "{angle} radians, {far} metres: {v} at {p} left {bound:?}");
                        }
                    }
                }
                assert_eq!(beyond > 20, angle > TRAINED, "{angle} radians: {beyond} poses are beyond the ranges");
            }
        }
    }
}

/// A vertex alone in its block has its weights exactly, and so its box is next to nothing even far beyond the ranges.
#[test]
fn bounds_of_one_vertex_are_a_point() {
    let mut numbers = Numbers(3);
    let character = character(&mut numbers);
    let deformer = Deformer::RotationalRegression(regression(&mut numbers, &character));
    let model = Model::new(character, deformer, Metadata::default()).unwrap();
    let bounds = Bounds::new(&model, 1).unwrap();
    let mut boxes = Vec::new();
    let pose = pose(&mut numbers, &model.character, 1.5, 1.0);
    Evaluator::new(&model).bounds(&bounds, &pose, &mut boxes);
    for bound in &boxes {
        // Some dozen metres are summed, each to 4e-6.
        assert!(bound.diagonal() < 1e-3, "{bound:?}");
    }
}
