//! Poses that nobody modelled, drawn by the teacher: what a student learns from besides the examples.
//!
//! Each is a blend of two to four of the training poses and the rest pose: with θ̃ and the joints' shifts taken linearly,
//!
//!   `θ̃_b = Σ_k w_k θ̃_b^k`,   `Σ_k w_k = 1`,
//!
//! the weights spread a little past the poses themselves, for clips go there too. Joints are blended together, not each by
//! itself: what a teacher makes of combinations that no example comes near is chance, and a student should not learn it.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::Rng;
use sinew_runtime::Model;

use crate::geometry::JointRotations;
use crate::geometry::rotation::exp;
use crate::{Training, predict};

/// Vertices of all imagined poses together, about: what time and memory allow.
const VERTICES: usize = 1_000_000;

/// The fewest and the most imagined poses.
const FEWEST: usize = 60;
const MOST: usize = 300;

/// By how much a blend's weights are farther from their mean than weights that stay between the poses.
const FARTHER: f64 = 0.3;

/// How much all imagined poses together count beside the training poses.
const SHARE: f64 = 4.0;

/// A pose as its joints make it.
struct Local {
    /// θ̃_b, (J).
    logs: Vec<DVec3>,
    /// What is left of `T_parent⁻¹ T_b` without its rotation: stretch, and where the joint goes, (J).
    stretches: Vec<DMat3>,
    shifts: Vec<DVec3>,
}

/// The poses of `training` and, after them, imagined ones as `teacher` draws them.
#[must_use]
pub fn beside(training: &Training, joints: &JointRotations, teacher: &Model) -> Training {
    let count = (VERTICES / training.vertex_count().max(1)).clamp(FEWEST, MOST);
    let places = joint_places(training);
    let mut locals: Vec<Local> =
        (0..training.pose_count()).map(|e| local(training, joints, &places, &training.transforms[e], e)).collect();
    locals.push(Local {
        logs: vec![DVec3::ZERO; places.len()],
        stretches: vec![DMat3::IDENTITY; places.len()],
        shifts: vec![DVec3::ZERO; places.len()],
    });
    let mut rng = Rng::new(0x0015_7111);
    let transforms: Vec<Vec<DAffine3>> =
        (0..count).map(|k| composed(training, &places, &blend(&locals, 2 + k % 3, &mut rng))).collect();
    let mut both = training.clone();
    both.vertices.extend(predict::poses(teacher, training, transforms.iter().map(Vec::as_slice)));
    both.transforms.extend(transforms);
    let weight = SHARE * training.pose_weights.iter().sum::<f64>() / count as f64;
    both.pose_weights.extend(std::iter::repeat_n(weight, count));
    let first = training.sources.iter().max().map_or(0, |last| last + 1);
    both.sources.extend(first..first + count);
    both
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

/// A blend of `among` poses.
fn blend(locals: &[Local], among: usize, rng: &mut Rng) -> Local {
    // Uniform over the simplex: gaps between sorted uniform numbers.
    let mut cuts: Vec<f64> = (1..among).map(|_| rng.range(0.0, 1.0)).collect();
    cuts.sort_by(f64::total_cmp);
    let ends = cuts.iter().copied().chain([1.0]);
    let weights: Vec<f64> =
        ends.zip([0.0].into_iter().chain(cuts.iter().copied())).map(|(end, start)| end - start).collect();
    let mean = 1.0 / among as f64;
    let terms: Vec<(f64, &Local)> =
        weights.iter().map(|w| (w + FARTHER * (w - mean), &locals[rng.below(locals.len())])).collect();
    let bones = locals[0].logs.len();
    let sum = |part: &dyn Fn(&Local) -> DVec3| terms.iter().map(|(w, local)| *w * part(local)).sum::<DVec3>();
    Local {
        logs: (0..bones).map(|b| sum(&|local| local.logs[b])).collect(),
        shifts: (0..bones).map(|b| sum(&|local| local.shifts[b])).collect(),
        stretches: (0..bones)
            .map(|b| terms.iter().fold(DMat3::ZERO, |sum, (w, local)| sum + local.stretches[b] * *w))
            .collect(),
    }
}

/// The `T_b` of a pose, (J).
fn composed(training: &Training, places: &[DVec3], local: &Local) -> Vec<DAffine3> {
    let own = |b: usize| {
        let matrix3 = exp(local.logs[b]) * local.stretches[b];
        DAffine3 { matrix3, translation: places[b] + local.shifts[b] - matrix3 * places[b] }
    };
    let skeleton = &training.skeleton;
    let mut transforms = vec![None; places.len()];
    transforms[skeleton.root()] = Some(own(skeleton.root()));
    // Parents before their children, whatever their order.
    while let Some(b) = (0..places.len()).find(|&b| transforms[b].is_none() && transforms[skeleton.parent(b)].is_some())
    {
        transforms[b] = transforms[skeleton.parent(b)].map(|parent: DAffine3| parent * own(b));
    }
    transforms.into_iter().map(|t| t.unwrap_or(DAffine3::IDENTITY)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Quiet};
    use sinew_examples::datasets;

    #[test]
    fn a_pose_taken_apart_is_put_together_again() {
        let examples = (datasets::by_name("shoulder").unwrap().make)();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let joints = JointRotations::new(&training);
        let places = joint_places(&training);
        for (e, transforms) in training.transforms.iter().enumerate() {
            let again = composed(&training, &places, &local(&training, &joints, &places, transforms, e));
            for (a, b) in again.iter().zip(transforms) {
                // 1e-9: products down a chain of f64 rotations.
                assert!(a.abs_diff_eq(*b, 1e-9), "{e}: {a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn imagined_poses_stand_behind_the_training_poses_and_are_drawn_by_the_teacher() {
        let examples = (datasets::by_name("arm").unwrap().make)();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let teacher = crate::fit(&training, &Method::by_name("ssd").unwrap(), &Quiet).unwrap().model;
        let both = beside(&training, &JointRotations::new(&training), &teacher);
        let trained = training.pose_count();
        assert_eq!(both.vertices[..trained], training.vertices[..]);
        assert!(both.pose_count() >= trained + FEWEST);
        let drawn = predict::poses(&teacher, &training, both.transforms[trained..].iter().map(Vec::as_slice));
        assert_eq!(both.vertices[trained..], drawn[..]);
        let imagined: f64 = both.pose_weights[trained..].iter().sum();
        // 1e-9: a sum of up to three hundred weights.
        assert!((imagined - SHARE * trained as f64).abs() < 1e-9);
    }
}
