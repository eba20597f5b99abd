//! The norm against Monte Carlo, against plain averages, and by its properties.

use glam::{DAffine3, DMat3, DQuat, DVec3, DVec4};
use sinew_examples::{Bone, Pose, Skeleton};
use sinew_linalg::{Mat, symmetric_eigen};

use super::ranges::RangesOfMotion;
use super::*;

struct Random(u64);

impl Random {
    /// Uniform in 0…1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Every rotation as likely as any other (Shoemake 1992).
    fn rotation(&mut self) -> DQuat {
        let (a, b, c) =
            (self.uniform(), std::f64::consts::TAU * self.uniform(), std::f64::consts::TAU * self.uniform());
        let (s, t) = ((1.0 - a).sqrt(), a.sqrt());
        DQuat::from_xyzw(s * b.sin(), s * b.cos(), t * c.sin(), t * c.cos())
    }
}

/// A root with two arms, one of them with a forearm; the whole stands somewhere in the world.
fn skeleton() -> Skeleton {
    let place = DAffine3::from_rotation_translation(DQuat::from_rotation_y(0.7), DVec3::new(3.0, -1.0, 2.0));
    let bone = |name: &str, parent: Option<usize>, at: DVec3| Bone {
        name: name.into(),
        parent,
        rest: place * DAffine3::from_rotation_translation(DQuat::from_rotation_x(at.x), at),
    };
    Skeleton::new(vec![
        bone("root", None, DVec3::ZERO),
        bone("left", Some(0), DVec3::new(1.0, 0.2, 0.0)),
        bone("right", Some(0), DVec3::new(-1.0, 0.1, 0.3)),
        bone("forearm", Some(1), DVec3::new(2.0, 0.0, 0.5)),
    ])
    .unwrap()
}

/// A pose by local rotations on top of the rest joints; the root also moves about the world.
fn pose(skeleton: &Skeleton, turns: &[DMat3], root: DAffine3) -> Pose {
    let rest = models::rest_locals(skeleton);
    let mut globals = vec![root * skeleton.rest_root_frame(); rest.len()];
    for b in 1..rest.len() {
        globals[b] = globals[skeleton.parent(b)] * rest[b] * DAffine3::from_mat3(turns[b]);
    }
    Pose { globals }
}

fn random_vector(random: &mut Random) -> SparseVector {
    let mut vector: SparseVector = (0..4)
        .map(|b| (b, DVec4::new(random.uniform(), random.uniform(), random.uniform(), random.uniform()) - 0.5))
        .collect();
    let sum: f64 = vector.iter().map(|(_, p)| p.w).sum();
    vector[0].1.w -= sum;
    vector
}

/// `‖G s‖²` in one pose.
fn length_squared(skeleton: &Skeleton, pose: &Pose, s: &SparseVector) -> f64 {
    let transforms = skeleton.root_relative(pose);
    s.iter()
        .map(|&(b, p)| transforms[b].matrix3 * p.truncate() + transforms[b].translation * p.w)
        .sum::<DVec3>()
        .length_squared()
}

/// Compares the norm under `model` with the mean over random poses.
fn check_against_sampling(model: &MotionModel, mut turns: impl FnMut(&mut Random) -> Vec<DMat3>) {
    let skeleton = skeleton();
    let norm = PoseNorm::new(&skeleton, model).unwrap();
    let mut random = Random(7);
    let vectors: Vec<SparseVector> = (0..4).map(|_| random_vector(&mut random)).collect();
    let mut sums = [0.0; 4];
    let count = 40_000;
    for _ in 0..count {
        let turns = turns(&mut random);
        let motion = DAffine3::from_rotation_translation(random.rotation(), DVec3::splat(random.uniform()));
        let pose = pose(&skeleton, &turns, motion);
        sums.iter_mut().zip(&vectors).for_each(|(sum, s)| *sum += length_squared(&skeleton, &pose, s) / count as f64);
    }
    for (sampled, s) in sums.iter().zip(&vectors) {
        let ours = norm.squared(s);
        // 40,000 samples of numbers that vary by about their own size: 3 standard errors are 1.5 %.
        assert!((ours - sampled).abs() < 0.02 * sampled, "{ours} against {sampled} by sampling");
    }
}

#[test]
fn uniform_rotations_agree_with_sampling() {
    let turns = |random: &mut Random| (0..4).map(|_| DMat3::from_quat(random.rotation())).collect();
    check_against_sampling(&MotionModel::UniformRotations, turns);
}

#[test]
fn ranges_of_motion_agree_with_sampling() {
    let text = "left hinge 0 0 1 -20 90 # elbow\nright cone 1 0 0 70\n\nforearm hinge 0 1 0 0 130\nforearm hinge 1 0 0 -40 40\n";
    let ranges = RangesOfMotion::parse(text, &skeleton()).unwrap();
    let model = ranges.model(&skeleton());
    let turns = |random: &mut Random| {
        let mut hinge = |axis: DVec3, from: f64, to: f64| {
            DMat3::from_axis_angle(axis, (from + (to - from) * random.uniform()).to_radians())
        };
        let left = hinge(DVec3::Z, -20.0, 90.0);
        let forearm = hinge(DVec3::Y, 0.0, 130.0) * hinge(DVec3::X, -40.0, 40.0);
        let about = DQuat::from_axis_angle(DVec3::X, std::f64::consts::TAU * random.uniform()) * DVec3::Y;
        let right = DMat3::from_axis_angle(about, 70.0_f64.to_radians() * random.uniform());
        vec![DMat3::IDENTITY, left, right, forearm]
    };
    check_against_sampling(&model, turns);
}

#[test]
fn joints_that_move_together_need_the_hybrid_model() {
    // Left arm and forearm bend by the same angle; the right arm is free.
    let skeleton = skeleton();
    let bend = |angle: f64| DMat3::from_rotation_z(angle);
    let rest = models::rest_locals(&skeleton);
    let angles: Vec<f64> = (0..20).map(|k| 0.1 * k as f64).collect();
    let samples = |b: usize, angle: f64| rest[b].matrix3 * bend(angle);
    let group =
        Group { bones: vec![1, 3], samples: angles.iter().map(|&a| vec![samples(1, a), samples(3, a)]).collect() };
    let mut linear = vec![DMat3::ZERO; 4];
    linear[0] = DMat3::IDENTITY;
    let translation = rest.iter().map(|r| r.translation).collect();
    let model = MotionModel::Hybrid { linear, translation, groups: vec![group] };
    let turns = |random: &mut Random| {
        let angle = angles[(random.uniform() * 20.0) as usize];
        vec![DMat3::IDENTITY, bend(angle), DMat3::from_quat(random.rotation()), bend(angle)]
    };
    check_against_sampling(&model, turns);
}

/// All combinations of two turns of every joint: joints are then exactly independent, so every general model must
/// agree with the plain average, and the plain average with itself from skinning transforms.
#[test]
fn every_model_agrees_with_the_plain_average_of_independent_joints() {
    let skeleton = skeleton();
    let turns = |b: usize, which: usize| {
        DMat3::from_rotation_z(0.3 * b as f64 + 0.9 * which as f64) * DMat3::from_rotation_x(0.5 * which as f64)
    };
    let poses: Vec<Pose> = (0..8)
        .map(|k| {
            let chosen: Vec<DMat3> =
                (0..4).map(|b| if b == 0 { DMat3::IDENTITY } else { turns(b, k >> (b - 1) & 1) }).collect();
            pose(&skeleton, &chosen, DAffine3::from_rotation_y(k as f64))
        })
        .collect();
    let samples = MotionSamples::new(&skeleton, &poses);
    let transforms: Vec<Vec<DAffine3>> = poses.iter().map(|pose| skeleton.root_relative(pose)).collect();
    let plain = PoseNorm::average(&transforms);
    let models = [
        MotionModel::Average(samples.clone()),
        samples.independent_joints(&skeleton),
        samples.independent_components(&skeleton),
        samples.fixed_translations(&skeleton),
        samples.rotations(&skeleton),
        samples.hybrid(&skeleton, &[vec![1, 3]]),
    ];
    let mut random = Random(3);
    for model in &models {
        let norm = PoseNorm::new(&skeleton, model).unwrap();
        for _ in 0..5 {
            let (s, t) = (random_vector(&mut random), random_vector(&mut random));
            let (ours, theirs) = (norm.inner(&s, &t), plain.inner(&s, &t));
            // Exact but for rounding of numbers near ten, a dozen products deep.
            assert!((ours - theirs).abs() < 1e-11, "{model:?}: {ours} against {theirs}");
        }
    }
}

#[test]
fn the_matrix_is_positive_semidefinite_and_a_joint_has_no_length_across_it() {
    let skeleton = skeleton();
    let norm = PoseNorm::new(&skeleton, &MotionModel::UniformRotations).unwrap();
    let flat = norm.matrix();
    let matrix = Mat::from_fn(16, 16, |r, c| flat[16 * r + c]);
    let values = symmetric_eigen(&matrix).unwrap().values;
    // Rounding of a matrix whose largest eigenvalue is about ten.
    assert!(values.iter().all(|&value| value > -1e-12), "{values:?}");
    // The joint between left arm and forearm is the same point in both frames: no pose tells the two apart.
    let rest = models::rest_globals(&skeleton);
    let joint = rest[3].translation.extend(1.0);
    assert!(norm.squared(&[(1, joint), (3, -joint)]) < 1e-12);
}

#[test]
fn bad_ranges_are_refused_with_their_line() {
    let skeleton = skeleton();
    for (text, word) in [
        ("left hinge 0 0 1 0 90\nelbow hinge 0 0 1 0 90", "line 2: there is no bone `elbow`"),
        ("left hinge 0 0 0 0 90", "no direction"),
        ("left hinge 0 0 1 90 0", "ends before"),
        ("left hinge 0 0 1 x 0", "not a number"),
        ("left cone 1 0 0 200", "180"),
        ("left", "a line is"),
    ] {
        let error = RangesOfMotion::parse(text, &skeleton).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn ranges_of_bones_whose_names_have_spaces() {
    let names = ["Bip001", "Bip001 L Hand", "hinge"];
    let bone = |(b, name): (usize, &&str)| Bone {
        name: (*name).into(),
        parent: b.checked_sub(1),
        rest: DAffine3::from_translation(DVec3::X * b as f64),
    };
    let skeleton = Skeleton::new(names.iter().enumerate().map(bone).collect()).unwrap();
    let ranges = RangesOfMotion::parse("Bip001 L Hand hinge 0 0 1 0 90\nhinge cone 1 0 0 20", &skeleton).unwrap();
    let turns: Vec<usize> = ranges.joints.iter().map(Vec::len).collect();
    assert_eq!(turns, [0, 1, 1]);
}
