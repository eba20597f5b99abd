//! The joints' rotations over the training poses: `θ̃_b = log(Q_parent(b)ᵀ Q_b)`, Q_b the rotation of `T_b`.
//!
//! This is what every method that regresses on the pose sees. The root is its own parent, so its θ̃ is nil. Q is relative
//! to the rest pose, so θ̃ is nil in the rest pose. The branch of the logarithm is the one nearest to the joint's
//! reference, the middle of its range over the training poses and the rest pose; the run time stores that reference and does the same.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Skeleton, nearest_rotation};

use super::rotation::{log, rebranch};
use crate::Training;

/// Joint rotations of every training pose, and the reference that picks their branch.
#[derive(Debug, Clone, PartialEq)]
pub struct JointRotations {
    /// `Q_b`, the rotation of `T_b` in the root's frame, (N)(J).
    pub bones: Vec<Vec<DMat3>>,
    /// `θ̃_b`, (N)(J), radians.
    pub logs: Vec<Vec<DVec3>>,
    /// The middle of the range of `θ̃_b` over the training poses and the rest pose, (J): logs are taken on the branch
    /// nearest to it.
    pub reference: Vec<DVec3>,
}

impl JointRotations {
    /// The joint rotations of the training poses.
    #[must_use]
    pub fn new(training: &Training) -> Self {
        let bones: Vec<Vec<DMat3>> = training.transforms.iter().map(|pose| rotations(pose)).collect();
        let skeleton = &training.skeleton;
        let principal: Vec<Vec<DVec3>> = bones.iter().map(|pose| relative_logs(skeleton, pose)).collect();
        let reference: Vec<DVec3> = (0..training.bone_count())
            .map(|b| branch_reference(&principal.iter().map(|pose| pose[b]).collect::<Vec<_>>()))
            .collect();
        let near = |pose: &Vec<DVec3>| pose.iter().zip(&reference).map(|(&log, &near)| rebranch(log, near)).collect();
        Self { logs: principal.iter().map(near).collect(), bones, reference }
    }

    /// The rotations `Q_b` and logs `θ̃_b` of another pose, given by its `T_b` in the root's frame, (J).
    #[must_use]
    pub fn of_pose(&self, skeleton: &Skeleton, transforms: &[DAffine3]) -> (Vec<DMat3>, Vec<DVec3>) {
        let bones = rotations(transforms);
        let mut logs = relative_logs(skeleton, &bones);
        for (log, &near) in logs.iter_mut().zip(&self.reference) {
            *log = rebranch(*log, near);
        }
        (bones, logs)
    }

    /// Whether joint `b` turns by more than `radians` in some training pose.
    #[must_use]
    pub fn moves(&self, b: usize, radians: f64) -> bool {
        self.logs.iter().any(|pose| pose[b].length() > radians)
    }

    /// The smallest and largest value of each component of `θ̃_b` over the training poses and the rest pose.
    #[must_use]
    pub fn range(&self, b: usize) -> (DVec3, DVec3) {
        let start = (DVec3::ZERO, DVec3::ZERO);
        self.logs.iter().fold(start, |(low, high), pose| (low.min(pose[b]), high.max(pose[b])))
    }
}

fn rotations(transforms: &[DAffine3]) -> Vec<DMat3> {
    transforms.iter().map(|t| nearest_rotation(t.matrix3)).collect()
}

fn relative_logs(skeleton: &Skeleton, bones: &[DMat3]) -> Vec<DVec3> {
    (0..bones.len()).map(|b| log(bones[skeleton.parent(b)].transpose() * bones[b])).collect()
}

/// The middle of the joint's range, from which every training log is the nearest of its branches.
///
/// Principal logs will not do: for a twist of 0°, 90° and 200° the last comes out as −160°. So the logs are unwrapped as
/// a tree: from the rest pose outward, the pose nearest to one already placed is placed next, on that one's branch
/// (Prim's algorithm over the angles between poses).
fn branch_reference(principal: &[DVec3]) -> DVec3 {
    let mut placed = principal.to_vec();
    // Under 2 radians the other branch is more than 4 away, farther than any two of them are from each other.
    if principal.iter().any(|log| log.length() > 2.0) {
        let mut nearest = vec![DVec3::ZERO; placed.len()];
        let mut gaps: Vec<f64> = principal.iter().map(|log| log.length()).collect();
        for _ in 0..placed.len() {
            let next = (0..gaps.len()).fold(0, |best, e| if gaps[e] < gaps[best] { e } else { best });
            placed[next] = rebranch(principal[next], nearest[next]);
            gaps[next] = f64::INFINITY;
            for e in 0..gaps.len() {
                let gap = (rebranch(principal[e], placed[next]) - placed[next]).length();
                if gaps[e].is_finite() && gap < gaps[e] {
                    (gaps[e], nearest[e]) = (gap, placed[next]);
                }
            }
        }
    }
    let start = (DVec3::ZERO, DVec3::ZERO);
    let (low, high) = placed.iter().fold(start, |(low, high), &log| (low.min(log), high.max(log)));
    (low + high) * 0.5
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::rotation::exp;
    use std::f64::consts::PI;

    fn reference(angles: &[f64]) -> (DVec3, Vec<f64>) {
        let logs: Vec<DVec3> = angles.iter().map(|&angle| log(exp(DVec3::Z * angle))).collect();
        let reference = branch_reference(&logs);
        (reference, logs.iter().map(|&log| rebranch(log, reference).z).collect())
    }

    #[test]
    fn a_half_turn_stays_on_the_branch_of_the_quarter_turn() {
        for half in [PI - 1e-3, PI, PI + 1e-3, 1.2 * PI] {
            for sign in [1.0, -1.0] {
                let angles = [0.0, sign * PI / 2.0, sign * half];
                let (_, found) = reference(&angles);
                for (found, angle) in found.iter().zip(angles) {
                    // 1e-6: the logarithm beside π keeps half of its digits.
                    assert!((found - angle).abs() < 1e-6, "{found} instead of {angle}");
                }
            }
        }
    }

    #[test]
    fn small_rotations_keep_their_principal_logs() {
        let (_, found) = reference(&[0.1, -0.4, 1.0, 0.0]);
        for (found, angle) in found.iter().zip([0.1, -0.4, 1.0, 0.0]) {
            assert!((found - angle).abs() < 1e-12);
        }
    }
}
