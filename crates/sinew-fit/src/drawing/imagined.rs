//! Poses that nobody modelled, drawn by the teacher: what a student learns from besides the examples.
//!
//! Each is a blend of two to four of the training poses and the rest pose: with θ̃ and the joints' shifts taken linearly,
//!
//!   `θ̃_b = Σ_k w_k θ̃_b^k`,   `Σ_k w_k = 1`.
//!
//! Either all joints of a pose are blended in the same way, or a joint is with its parent now and then and otherwise by
//! itself ([`Blend`]). The latter covers what a character can do where examples are few. On a body it asks a teacher for
//! combinations that no example comes near: what it makes of them may be more than a student can learn.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::Rng;
use sinew_runtime::Model;

use crate::geometry::JointRotations;
use crate::geometry::rotation::exp;
use crate::{Training, predict, to_model};

/// Vertices of all imagined poses together, about: what time and memory allow.
const VERTICES: usize = 1_500_000;

/// The fewest and the most imagined poses.
const FEWEST: usize = 60;
const MOST: usize = 1000;

/// How often a joint is blended as its parent is, where joints are blended one by one.
const FOLLOWS: f64 = 0.3;

/// How much all imagined poses together count beside the training poses.
const SHARE: f64 = 4.0;

/// How many times as far the joints are turned in corners, and how many corners there are at most.
const FARTHER: f64 = 2.0;
const MOST_CORNERS: usize = 60;

/// What is blended in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blend {
    /// Whole poses.
    Poses,
    /// Joints, some together with their parents.
    Joints,
}

/// A pose as its joints make it.
struct Local {
    /// θ̃_b, (J).
    logs: Vec<DVec3>,
    /// What is left of `T_parent⁻¹ T_b` without its rotation: stretch, and where the joint goes, (J).
    stretches: Vec<DMat3>,
    shifts: Vec<DVec3>,
}

/// The poses of `training` and, after them, imagined ones as `teachers` draw them in the mean.
#[must_use]
pub fn beside(training: &Training, joints: &JointRotations, teachers: &[Model], blend: Blend) -> Training {
    let count = (VERTICES / training.vertex_count().max(1)).clamp(FEWEST, MOST);
    let weight = SHARE * training.pose_weights.iter().sum::<f64>() / count as f64;
    drawn(training, training, poses(training, joints, count, blend), teachers, weight)
}

/// So many imagined poses, (count)(J).
#[must_use]
pub fn poses(training: &Training, joints: &JointRotations, count: usize, blend: Blend) -> Vec<Vec<DAffine3>> {
    let places = joint_places(training);
    let mut locals: Vec<Local> =
        (0..training.pose_count()).map(|e| local(training, joints, &places, &training.transforms[e], e)).collect();
    locals.push(Local {
        logs: vec![DVec3::ZERO; places.len()],
        stretches: vec![DMat3::IDENTITY; places.len()],
        shifts: vec![DVec3::ZERO; places.len()],
    });
    let order = parents_first(training);
    let mut rng = Rng::new(0x0015_7111);
    let mut imagine = |k: usize| {
        let shares = shares(training, &order, locals.len(), 2 + k % 3, blend, &mut rng);
        composed(training, &places, &order, &blended(&locals, &shares))
    };
    (0..count).map(&mut imagine).collect()
}

/// The poses that are `seen` and, after them, others as `teachers` draw them, each of which counts `weight`.
fn drawn(
    training: &Training,
    seen: &Training,
    transforms: Vec<Vec<DAffine3>>,
    teachers: &[Model],
    weight: f64,
) -> Training {
    let count = transforms.len();
    let mut all = seen.clone();
    all.vertices.extend(predict::mean_poses(teachers, training, &transforms));
    all.transforms.extend(transforms);
    all.pose_weights.extend(std::iter::repeat_n(weight, count));
    let first = seen.sources.iter().max().map_or(0, |last| last + 1);
    all.sources.extend(first..first + count);
    all
}

/// The poses that are `seen` and, after them, the training poses turned twice as far and held within the trained ranges, as
/// `teachers` draw them: corners of the ranges, where poses beyond them are held. All together they count `share` times what
/// is seen.
#[must_use]
pub fn with_corners(
    seen: &Training,
    training: &Training,
    joints: &JointRotations,
    teachers: &[Model],
    share: f64,
) -> Training {
    let corners = corners(training, joints);
    let weight = share * seen.pose_weights.iter().sum::<f64>() / corners.len() as f64;
    drawn(training, seen, corners, teachers, weight)
}

/// The training poses, or some of them, turned twice as far and held within the trained ranges.
#[must_use]
pub fn corners(training: &Training, joints: &JointRotations) -> Vec<Vec<DAffine3>> {
    let (places, order) = (joint_places(training), parents_first(training));
    let ranges = to_model::joint_ranges(joints);
    let count = training.pose_count().min(MOST_CORNERS);
    let corner = |k: usize| {
        let e = k * training.pose_count() / count;
        let mut local = local(training, joints, &places, &training.transforms[e], e);
        for (b, log) in local.logs.iter_mut().enumerate() {
            let farther = FARTHER * *log;
            *log = ranges.held(b, farther.as_vec3().into()).map_or(farther, |held| glam::Vec3::from(held).as_dvec3());
        }
        composed(training, &places, &order, &local)
    };
    (0..count).map(corner).collect()
}

/// Where the joints are at rest, in the root's frame, (J).
fn joint_places(training: &Training) -> Vec<DVec3> {
    let to_root = training.skeleton.rest_root_frame().inverse();
    training.skeleton.bones().iter().map(|bone| to_root.transform_point3(bone.rest.translation)).collect()
}

fn local(training: &Training, joints: &JointRotations, places: &[DVec3], transforms: &[DAffine3], e: usize) -> Local {
    let root = training.skeleton.root();
    let relative = |b: usize| {
        if b == root { transforms[b] } else { transforms[training.skeleton.parent(b)].inverse() * transforms[b] }
    };
    let part = |b: usize| {
        let x = relative(b);
        (exp(joints.logs[e][b]).transpose() * x.matrix3, x.transform_point3(places[b]) - places[b])
    };
    let (stretches, shifts) = (0..places.len()).map(part).unzip();
    Local { logs: joints.logs[e].clone(), stretches, shifts }
}

/// How much a joint has of which poses.
type Shares = Vec<(f64, usize)>;

/// Shares of `among` of `poses` poses, uniform over the simplex: gaps between sorted uniform numbers.
fn some_shares(poses: usize, among: usize, rng: &mut Rng) -> Shares {
    let mut cuts: Vec<f64> = (1..among).map(|_| rng.range(0.0, 1.0)).collect();
    cuts.sort_by(f64::total_cmp);
    let starts: Vec<f64> = [0.0].into_iter().chain(cuts.iter().copied()).collect();
    let ends = cuts.into_iter().chain([1.0]);
    ends.zip(starts).map(|(end, start)| (end - start, rng.below(poses))).collect()
}

/// Those of every joint, (J).
fn shares(
    training: &Training,
    order: &[usize],
    poses: usize,
    among: usize,
    blend: Blend,
    rng: &mut Rng,
) -> Vec<Shares> {
    let mut all = vec![Shares::new(); order.len()];
    for &b in order {
        let follows = b != training.skeleton.root() && (blend == Blend::Poses || rng.range(0.0, 1.0) < FOLLOWS);
        all[b] = if follows { all[training.skeleton.parent(b)].clone() } else { some_shares(poses, among, rng) };
    }
    all
}

/// The pose in which every joint has its shares of `locals`.
fn blended(locals: &[Local], shares: &[Shares]) -> Local {
    let sum =
        |b: usize, part: &dyn Fn(&Local) -> DVec3| shares[b].iter().map(|&(w, e)| w * part(&locals[e])).sum::<DVec3>();
    let stretch = |b: usize| shares[b].iter().fold(DMat3::ZERO, |sum, &(w, e)| sum + locals[e].stretches[b] * w);
    Local {
        logs: (0..shares.len()).map(|b| sum(b, &|local| local.logs[b])).collect(),
        shifts: (0..shares.len()).map(|b| sum(b, &|local| local.shifts[b])).collect(),
        stretches: (0..shares.len()).map(stretch).collect(),
    }
}

/// The bones, parents before their children, (J).
fn parents_first(training: &Training) -> Vec<usize> {
    let skeleton = &training.skeleton;
    let mut order = vec![skeleton.root()];
    let mut next = 0;
    while let Some(&parent) = order.get(next) {
        let child = |&b: &usize| b != skeleton.root() && skeleton.parent(b) == parent;
        order.extend((0..training.bone_count()).filter(child));
        next += 1;
    }
    order
}

/// The `T_b` of a pose, (J).
fn composed(training: &Training, places: &[DVec3], order: &[usize], local: &Local) -> Vec<DAffine3> {
    let own = |b: usize| {
        let matrix3 = exp(local.logs[b]) * local.stretches[b];
        DAffine3 { matrix3, translation: places[b] + local.shifts[b] - matrix3 * places[b] }
    };
    let mut transforms = vec![DAffine3::IDENTITY; places.len()];
    for &b in order {
        let root = b == training.skeleton.root();
        transforms[b] = if root { own(b) } else { transforms[training.skeleton.parent(b)] * own(b) };
    }
    transforms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Quiet};
    use sinew_examples::datasets;

    #[test]
    fn a_pose_taken_apart_is_put_together_again() {
        let examples = datasets::by_name("shoulder").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let joints = JointRotations::new(&training);
        let places = joint_places(&training);
        for (e, transforms) in training.transforms.iter().enumerate() {
            let again = composed(
                &training,
                &places,
                &parents_first(&training),
                &local(&training, &joints, &places, transforms, e),
            );
            for (a, b) in again.iter().zip(transforms) {
                // 1e-9: products down a chain of f64 rotations.
                assert!(a.abs_diff_eq(*b, 1e-9), "{e}: {a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn imagined_poses_stand_behind_the_training_poses_and_are_drawn_by_the_teacher() {
        let examples = datasets::by_name("arm").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let teacher = [crate::fit(&training, &Method::by_name("ssd").unwrap(), &Quiet).unwrap().model];
        let joints = JointRotations::new(&training);
        let [both, others] = [Blend::Joints, Blend::Poses].map(|blend| beside(&training, &joints, &teacher, blend));
        assert!(both.transforms.last() != others.transforms.last());
        let trained = training.pose_count();
        assert_eq!(both.vertices[..trained], training.vertices[..]);
        assert!(both.pose_count() >= trained + FEWEST);
        let drawn = predict::poses(&teacher[0], &training, both.transforms[trained..].iter().map(Vec::as_slice));
        assert_eq!(both.vertices[trained..], drawn[..]);
        let imagined: f64 = both.pose_weights[trained..].iter().sum();
        // 1e-9: a sum of up to three hundred weights.
        assert!((imagined - SHARE * trained as f64).abs() < 1e-9);
    }
}
