//! A clip of one skeleton as poses of another with the same bones: by name, whatever the bones' axes, the units or the
//! up axis of the clip.
//!
//! A pose is carried over as its motion from the rest: `G_b = C T_b C⁻¹ Ĝ_b`, `T_b` of the clip, `Ĝ_b` the target's rest,
//! C the change of units and axes under which the clip's joints lie on the target's at rest.

use std::collections::BTreeMap;

use glam::{DAffine3, DVec3};
use sinew_examples::{Bone, Pose};

use crate::pack::all_spaces;
use crate::{SkeletonClip, Space};

/// A change of space is believed if it leaves at most this share of the joints' distance from each other.
const GOOD: f64 = 0.05;

/// A clip on another skeleton.
#[derive(Debug, Clone)]
pub struct Retargeted {
    /// Seconds, (N).
    pub times: Vec<f64>,
    /// Poses of the target, (N).
    pub poses: Vec<Pose>,
    /// Bones of the target that the clip does not have; they follow their parents.
    pub missing: Vec<String>,
    /// Bones of the clip that the target does not have; they are passed over.
    pub extra: Vec<String>,
    /// What the clip went through.
    pub space: Space,
    /// How far the joints at rest are from the target's, relative to the skeleton's size.
    pub rest_difference: f64,
}

/// Carries `clip` over to `bones`; an error says why it cannot be.
pub fn retarget(clip: &SkeletonClip, bones: &[Bone]) -> Result<Retargeted, String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places: Vec<Option<usize>> = Vec::with_capacity(bones.len());
    for bone in bones {
        let before = seen.entry(&bone.name).or_default();
        places.push(find(&clip.bones, &bone.name, *before));
        *before += 1;
    }
    let names = |list: &[Bone]| list.iter().take(5).map(|bone| bone.name.clone()).collect::<Vec<_>>().join(", ");
    if places.iter().all(Option::is_none) {
        let (wanted, found) = (names(bones), names(&clip.bones));
        return Err(format!("no bone of the clip has a name of the model's ({found} … against {wanted} …)"));
    }
    if clip.poses.is_empty() {
        return Err(format!("the skeleton `{}` has no animation", clip.name));
    }
    let missing = bones.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(bone, _)| bone.name.clone());
    let unknown = |place: &usize| !places.contains(&Some(*place));
    let extra = (0..clip.bones.len()).filter(unknown).map(|place| clip.bones[place].name.clone()).collect();
    let mut clip = clip.clone();
    clip.bring_rest_to_size();
    let joints: Vec<(DVec3, DVec3)> = bones
        .iter()
        .zip(&places)
        .filter_map(|(bone, place)| Some((clip.bones[(*place)?].rest.translation, bone.rest.translation)))
        .collect();
    let (space, rest_difference) = rest_space(&joints);
    let (mut moved, mut poses) = (clip.bones, clip.poses);
    space.skeleton(&mut moved, &mut poses);
    let order = parents_first(bones);
    let carry = |pose: &Pose| {
        let mut motions = vec![DAffine3::IDENTITY; bones.len()];
        for &b in &order {
            motions[b] = match (places[b], bones[b].parent) {
                (Some(place), _) => pose.globals[place] * moved[place].rest.inverse(),
                (None, Some(parent)) => motions[parent],
                (None, None) => DAffine3::IDENTITY,
            };
        }
        Pose { globals: motions.iter().zip(bones).map(|(&motion, bone)| motion * bone.rest).collect() }
    };
    Ok(Retargeted {
        times: clip.times,
        poses: poses.iter().map(carry).collect(),
        missing: missing.collect(),
        extra,
        space,
        rest_difference,
    })
}

/// The bone called `name`, of several the one that has `before` others of that name before it; if there is none, the one whose name differs only in letters that some formats cannot hold, as
/// `mixamorig:Hips` is `mixamorig_Hips` in USD.
fn find(bones: &[Bone], name: &str, before: usize) -> Option<usize> {
    let plain = |name: &str| name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>();
    let mut exact = (0..bones.len()).filter(|&b| bones[b].name == name);
    let first = exact.clone().next();
    exact.nth(before).or(first).or_else(|| {
        let wanted = plain(name);
        let mut alike = (0..bones.len()).filter(|&b| plain(&bones[b].name) == wanted);
        alike.next().filter(|_| alike.next().is_none())
    })
}

/// The plainest change of space that lays the clip's joints (first) on the target's (second), and what it leaves.
fn rest_space(joints: &[(DVec3, DVec3)]) -> (Space, f64) {
    let centre = joints.iter().map(|&(_, target)| target).sum::<DVec3>() / joints.len() as f64;
    let size = joints.iter().map(|&(_, target)| (target - centre).length_squared()).sum::<f64>();
    if size == 0.0 {
        return (Space::IDENTITY, 0.0);
    }
    let left = |space: &Space| {
        let sum: f64 = joints.iter().map(|&(own, target)| (space.point(own) - target).length_squared()).sum();
        (sum / size).sqrt()
    };
    let given = left(&Space::IDENTITY);
    if given < GOOD {
        return (Space::IDENTITY, given);
    }
    let best = all_spaces().into_iter().map(|space| (space, left(&space))).min_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|&(_, left)| left < GOOD).unwrap_or((Space::IDENTITY, given))
}

fn parents_first(bones: &[Bone]) -> Vec<usize> {
    let depth = |b: usize| {
        let (mut depth, mut above) = (0, bones[b].parent);
        while let Some(parent) = above.filter(|_| depth <= bones.len()) {
            depth += 1;
            above = bones[parent].parent;
        }
        depth
    };
    let mut order: Vec<usize> = (0..bones.len()).collect();
    order.sort_by_key(|&b| depth(b));
    order
}

#[cfg(test)]
mod tests {
    use glam::DQuat;

    use super::*;
    use crate::{Clock, Convention};

    #[test]
    fn names_that_a_format_could_not_hold_are_found() {
        let bones = ["a:b", "a_b", "left foot.001", "x.y", "x-y"].map(|name| Bone {
            name: name.into(),
            parent: None,
            rest: DAffine3::IDENTITY,
        });
        assert_eq!(find(&bones, "a_b", 0), Some(1));
        assert_eq!(find(&bones, "left_foot_001", 0), Some(2));
        assert_eq!(find(&bones, "x_y", 0), None, "two would do");
    }

    #[test]
    fn bones_of_one_name_are_matched_in_their_order() {
        let bones = ["x", "y", "x"].map(|name| Bone { name: name.into(), parent: None, rest: DAffine3::IDENTITY });
        assert_eq!([0, 1, 2].map(|before| find(&bones, "x", before)), [Some(0), Some(2), Some(0)]);
    }

    #[test]
    fn a_bind_pose_in_centimetres_under_a_node_that_scales() {
        let bone = |name: &str, parent: Option<usize>, height: f64| Bone {
            name: name.into(),
            parent,
            rest: DAffine3::from_translation(DVec3::Y * height),
        };
        let bones = [bone("hip", None, 0.0), bone("knee", Some(0), 1.0), bone("toe", Some(1), 1.5)];
        let bend = DAffine3::from_rotation_translation(DQuat::from_rotation_x(0.5), DVec3::Y);
        let posed = vec![DAffine3::IDENTITY, bend, bend * DAffine3::from_translation(DVec3::Y * 0.5)];
        let to_metres = DAffine3::from_scale(DVec3::splat(0.01));
        let in_centimetres = |t: DAffine3| DAffine3 { matrix3: t.matrix3, translation: t.translation * 100.0 };
        let clip = SkeletonClip {
            name: "Armature".into(),
            bones: bones.iter().map(|b| Bone { rest: in_centimetres(b.rest), ..b.clone() }).collect(),
            times: vec![0.0],
            poses: vec![Pose { globals: posed.iter().map(|&t| to_metres * in_centimetres(t)).collect() }],
            clock: Clock::Scene,
            convention: Convention::Declared,
        };
        let carried = retarget(&clip, &bones).unwrap();
        for (found, expected) in carried.poses[0].globals.iter().zip(&posed) {
            // Rounding of f64 through a factor of 100 and back.
            assert!(found.abs_diff_eq(*expected, 1e-12), "{found} is not {expected}");
        }
    }
}
