//! Which joints the training poses exercise: what a fit cannot have learnt, the user is told by name.
//!
//! Joint b is measured by its transform relative to its parent, `M_b^e = (T_parent^e)⁻¹ T_b^e`, which is the identity in
//! the rest pose. It is exercised if `M_b` differs between two of the training poses and the rest pose by more than
//! [`SMALLEST_ANGLE`] or moves its own rest origin by more than [`SMALLEST_SHIFT`] of the diagonal.

use glam::DAffine3;

use crate::Training;

/// Radians. Below one degree skin moves less than exporters' key reduction does.
pub const SMALLEST_ANGLE: f64 = 0.0175;

/// A fraction of the rest diagonal: a thousandth is at the limit of what shows.
pub const SMALLEST_SHIFT: f64 = 1e-3;

/// The bones, in order, whose joint never moves in the training poses. The root has no joint and is never listed.
#[must_use]
pub fn unexercised(training: &Training) -> Vec<usize> {
    let root = training.skeleton.root();
    (0..training.bone_count()).filter(|&b| b != root && !moves(training, b)).collect()
}

/// Whether all training poses are the same pose of the skeleton (one pose always is).
#[must_use]
pub fn poses_alike(training: &Training) -> bool {
    let first = &training.transforms[0];
    let root = training.skeleton.root();
    training.transforms.iter().all(|pose| {
        (0..training.bone_count())
            .all(|b| b == root || !differ(training, b, joint(training, first, b), joint(training, pose, b)))
    })
}

/// What the user should know about the poses, in words; empty if there is nothing to say.
#[must_use]
pub fn warnings(training: &Training) -> Vec<String> {
    let mut warnings = Vec::new();
    let poses = training.pose_count();
    if poses == 1 {
        warnings
            .push("there is one training pose: the skin will follow it and cannot know other poses; add more".into());
    } else if poses_alike(training) {
        warnings.push(format!(
            "all {poses} training poses are alike: the skin cannot know other poses; add different ones"
        ));
    }
    let idle = unexercised(training);
    if !idle.is_empty() {
        let names: Vec<&str> = idle.iter().map(|&b| training.skeleton.bones()[b].name.as_str()).collect();
        warnings.push(format!(
            "{} of {} joints never move in the training poses and were not exercised: {}",
            idle.len(),
            training.bone_count().saturating_sub(1),
            names.join(", ")
        ));
    }
    warnings
}

/// `(T_parent)⁻¹ T_b`.
fn joint(training: &Training, transforms: &[DAffine3], b: usize) -> DAffine3 {
    let parent = transforms[training.skeleton.parent(b)];
    // A limb scaled to nothing has no inverse; its children are then judged by their own transform.
    if parent.matrix3.determinant().abs() < 1e-12 { transforms[b] } else { parent.inverse() * transforms[b] }
}

fn moves(training: &Training, b: usize) -> bool {
    training.transforms.iter().any(|pose| differ(training, b, DAffine3::IDENTITY, joint(training, pose, b)))
        // A joint may stand elsewhere than at rest and still never move.
        && !training.transforms.iter().all(|pose| {
            let first = joint(training, &training.transforms[0], b);
            training.pose_count() > 1 && !differ(training, b, first, joint(training, pose, b))
        })
}

fn differ(training: &Training, b: usize, one: DAffine3, other: DAffine3) -> bool {
    let to_root = training.skeleton.rest_root_frame().inverse();
    let origin = to_root.transform_point3(training.skeleton.bones()[b].rest.translation);
    let shift = one.transform_point3(origin).distance(other.transform_point3(origin));
    let turned = one.matrix3 - other.matrix3;
    let norm = [turned.x_axis, turned.y_axis, turned.z_axis].iter().map(|c| c.length_squared()).sum::<f64>().sqrt();
    // A rotation by a small angle α changes the matrix by √2 α in the Frobenius norm.
    norm > std::f64::consts::SQRT_2 * SMALLEST_ANGLE || shift > SMALLEST_SHIFT * training.diagonal
}
