//! Which poses to add next: those that the training poses are furthest from, and those that were predicted worst when
//! they were left out.
//!
//! A joint's state is its rotation against rest in its own frame, split into a bend (of the bone's direction) and a
//! twist about it, which is also how `pose_words` tells it. Two poses are as far apart as their most different joint. Candidates are the frames that did not
//! train (only their skeleton is looked at, never their mesh) and, for every joint, corners of its own range: bent to
//! an end while twisted to an end. A candidate's score is its distance to the nearest training pose, times one plus
//! that pose's leave-one-out error over the mean: far from everything, near what is hard.

use glam::{DMat3, DQuat, DVec3};
use sinew_examples::{Examples, Pose, nearest_rotation};

use super::pose_words::{Anatomy, BendAndTwist};

/// A pose worth adding.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Suggestion {
    /// What to pose, in words.
    pub words: String,
    /// The frame of the examples that shows it, if one does.
    pub frame: Option<usize>,
    /// Degrees from the nearest training pose, in the joint that differs most.
    pub degrees_away: f64,
    /// The nearest training frame.
    pub nearest: usize,
    /// That frame's leave-one-out error, percent of the diagonal.
    pub nearest_left_out_percent: f64,
    score: f64,
}

/// What is said when there is nothing to suggest.
pub const COVERED: &str = "The training poses cover every joint's range to within five degrees.";

impl Suggestion {
    /// The pose, where it is seen, and how far it is from the training poses.
    pub fn sentence(&self) -> String {
        let shown = self.frame.map_or(String::new(), |frame| format!(" (as in frame {frame})"));
        let Self { words, degrees_away, nearest, .. } = self;
        format!("{words}{shown}: {degrees_away:.0}° from the nearest training pose, frame {nearest}")
    }
}

/// A joint's rotation against rest, in the bone's rest frame.
#[derive(Debug, Clone, Copy)]
struct JointState {
    rotation: DQuat,
    told: BendAndTwist,
}

/// A bone at rest.
struct RestBone {
    /// Its own direction in its rest frame: towards its first child, or on from its parent.
    axis: DVec3,
    /// Its rest frame in the world.
    rotation: DMat3,
}

/// The best `count` suggestions. `left_out` are the training frames' leave-one-out errors, percent, in order.
pub fn suggest(examples: &Examples, train: &[usize], left_out: &[f64], count: usize) -> Vec<Suggestion> {
    let bones = rest_bones(examples);
    let in_world: Vec<DVec3> = bones.iter().map(|bone| bone.rotation * bone.axis).collect();
    let anatomy = Anatomy::new(examples.skeleton(), &in_world);
    let states = |pose: &Pose| states(examples, pose, &bones);
    let trained: Vec<Vec<JointState>> = train.iter().map(|&e| states(examples.pose(e))).collect();
    let mean = left_out.iter().sum::<f64>() / left_out.len().max(1) as f64;
    let judge = |state: &[JointState], frame: Option<usize>, words: String| -> Option<Suggestion> {
        let (nearest, away) =
            trained.iter().map(|other| apart(state, other)).enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let error = left_out.get(nearest).copied().unwrap_or(mean);
        let hard = if mean > 0.0 { error / mean } else { 1.0 };
        Some(Suggestion {
            words,
            frame,
            degrees_away: away.to_degrees(),
            nearest: train[nearest],
            nearest_left_out_percent: error,
            score: away * (1.0 + hard),
        })
    };
    let mut candidates = Vec::new();
    for e in (0..examples.frame_count()).filter(|e| !train.contains(e)) {
        let state = states(examples.pose(e));
        let words = describe(&anatomy, &state, &trained);
        candidates.extend(judge(&state, Some(e), words));
    }
    for b in 0..examples.skeleton().bone_count() {
        for state in corners(b, &trained, &bones[b]) {
            let words = anatomy.tell(b, state[b].told, &told(b, &trained));
            candidates.extend(judge(&state, None, words));
        }
    }
    spread_out(candidates, examples, &states, count)
}

/// The best first, leaving out those that say the same or show a pose close to one already chosen.
fn spread_out(
    mut candidates: Vec<Suggestion>,
    examples: &Examples,
    states: &dyn Fn(&Pose) -> Vec<JointState>,
    count: usize,
) -> Vec<Suggestion> {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut chosen: Vec<Suggestion> = Vec::new();
    for candidate in candidates {
        let repeats = chosen.iter().any(|other| match (candidate.frame, other.frame) {
            (Some(a), Some(b)) => {
                // Within half of its distance to the training poses the other suggestion serves as well.
                let between = apart(&states(examples.pose(a)), &states(examples.pose(b)));
                between.to_degrees() < 0.5 * candidate.degrees_away
            }
            _ => candidate.words == other.words,
        });
        // Below five degrees the skin hardly differs.
        if !repeats && candidate.degrees_away > 5.0 {
            chosen.push(candidate);
        }
        if chosen.len() == count {
            break;
        }
    }
    chosen
}

fn rest_bones(examples: &Examples) -> Vec<RestBone> {
    let skeleton = examples.skeleton();
    let origin = |b: usize| skeleton.bones()[b].rest.translation;
    let bone = |b: usize| {
        let towards = match skeleton.children(b).next() {
            Some(child) => origin(child) - origin(b),
            None => origin(b) - origin(skeleton.parent(b)),
        };
        let rotation = nearest_rotation(skeleton.bones()[b].rest.matrix3);
        RestBone { axis: (rotation.transpose() * towards).try_normalize().unwrap_or(DVec3::Y), rotation }
    };
    (0..skeleton.bone_count()).map(bone).collect()
}

/// Every joint's state in a pose, (J).
fn states(examples: &Examples, pose: &Pose, bones: &[RestBone]) -> Vec<JointState> {
    let skeleton = examples.skeleton();
    let state = |b: usize| {
        let parent = skeleton.parent(b);
        if b == skeleton.root() {
            return split(DQuat::IDENTITY, &bones[b]);
        }
        let rest = bones[parent].rotation.transpose() * bones[b].rotation;
        let posed = [parent, b].map(|b| nearest_rotation(pose.globals[b].matrix3));
        split(DQuat::from_mat3(&(rest.transpose() * posed[0].transpose() * posed[1])), &bones[b])
    };
    (0..skeleton.bone_count()).map(state).collect()
}

/// A rotation's bend of the bone's direction and its twist about it.
fn split(rotation: DQuat, bone: &RestBone) -> JointState {
    let q = if rotation.w < 0.0 { -rotation } else { rotation };
    let along = DVec3::new(q.x, q.y, q.z).dot(bone.axis);
    let bent = q * bone.axis;
    let towards = bone.rotation * (bent - bent.dot(bone.axis) * bone.axis).normalize_or_zero();
    let told = BendAndTwist { bend: bone.axis.angle_between(bent), towards, twist: 2.0 * along.atan2(q.w) };
    JointState { rotation: q, told }
}

/// The angle between two poses in the joint where it is largest.
fn apart(a: &[JointState], b: &[JointState]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.rotation.angle_between(b.rotation)).fold(0.0, f64::max)
}

/// A pose in words: the joints that are furthest from what was trained, at most three.
fn describe(anatomy: &Anatomy, state: &[JointState], trained: &[Vec<JointState>]) -> String {
    let gap = |b: usize| {
        let to = |other: &Vec<JointState>| state[b].rotation.angle_between(other[b].rotation);
        trained.iter().map(to).fold(f64::INFINITY, f64::min)
    };
    let mut joints: Vec<(usize, f64)> = (0..state.len()).map(|b| (b, gap(b))).collect();
    joints.sort_by(|a, b| b.1.total_cmp(&a.1));
    let furthest = joints.first().map_or(0.0, |j| j.1);
    let named: Vec<String> = joints
        .iter()
        .take(3)
        .filter(|j| j.1 > 0.5 * furthest)
        .map(|&(b, _)| anatomy.tell(b, state[b].told, &told(b, trained)))
        .collect();
    named.join("; ")
}

/// Joint `b` in every training pose.
fn told(b: usize, trained: &[Vec<JointState>]) -> Vec<BendAndTwist> {
    trained.iter().map(|pose| pose[b].told).collect()
}

/// The corners of joint `b`'s trained range: its largest bend with its twist at either end, in the pose that bends it
/// most.
fn corners(b: usize, trained: &[Vec<JointState>], bone: &RestBone) -> Vec<Vec<JointState>> {
    let by_bend = |x: &&Vec<JointState>, y: &&Vec<JointState>| x[b].told.bend.total_cmp(&y[b].told.bend);
    let Some(most) = trained.iter().max_by(by_bend) else { return Vec::new() };
    let twists = || trained.iter().map(|pose| pose[b].told.twist);
    let (low, high) = (twists().fold(f64::INFINITY, f64::min), twists().fold(f64::NEG_INFINITY, f64::max));
    // A joint that hardly bends or hardly twists has no corners.
    if most[b].told.bend < 0.35 || high - low < 0.35 {
        return Vec::new();
    }
    let corner = |twist: f64| {
        let mut state = most.clone();
        let rotation = most[b].rotation * DQuat::from_axis_angle(bone.axis, twist - most[b].told.twist);
        state[b] = split(rotation, bone);
        state
    };
    vec![corner(low), corner(high)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_examples::datasets;

    #[test]
    fn bend_and_twist_come_apart() {
        let bone = RestBone { axis: DVec3::Y, rotation: DMat3::IDENTITY };
        let told = split(DQuat::from_rotation_x(1.1) * DQuat::from_rotation_y(-0.4), &bone).told;
        // 1e-12: rounding of angles near one.
        assert!((told.bend - 1.1).abs() < 1e-12, "{told:?}");
        assert!((told.twist + 0.4).abs() < 1e-12, "{told:?}");
        assert!(told.towards.distance(DVec3::Z) < 1e-12, "{told:?}");
    }

    #[test]
    fn the_gap_in_the_training_poses_is_found() {
        let arm = datasets::by_name("arm").unwrap().make();
        // Only the straight end of the motion trains: what is missing is the far end.
        let found = suggest(&arm, &[0, 5, 10], &[1.0, 1.0, 1.0], 3);
        assert!(!found.is_empty());
        assert_eq!(found[0].frame, Some(43), "{found:?}");
        assert!(found[0].words.starts_with("elbow (forearm) bent past"), "{}", found[0].words);
    }

    #[test]
    fn a_motion_that_is_covered_needs_nothing() {
        let bar = datasets::by_name("bar").unwrap().make();
        let all: Vec<usize> = (0..bar.frame_count()).collect();
        assert!(suggest(&bar, &all, &vec![1.0; all.len()], 5).is_empty());
    }
}
