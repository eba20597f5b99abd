//! Which poses to add next: those that the training poses are furthest from, and those that were predicted worst when
//! they were left out.
//!
//! A joint's state is its rotation against rest in its own frame, split into a bend (of the bone's direction) and a
//! twist about it. Two poses are as far apart as their most different joint. Candidates are the frames that did not
//! train (only their skeleton is looked at, never their mesh) and, for every joint, corners of its own range: bent to
//! an end while twisted to an end. A candidate's score is its distance to the nearest training pose, times one plus
//! that pose's leave-one-out error over the mean: far from everything, near what is hard.

use glam::{DMat3, DQuat, DVec3};
use sinew_examples::{Examples, Pose, nearest_rotation};

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

/// A joint's rotation against rest, in the bone's rest frame.
#[derive(Debug, Clone, Copy)]
struct JointState {
    rotation: DQuat,
    bend: f64,
    twist: f64,
}

/// The best `count` suggestions. `left_out` are the training frames' leave-one-out errors, percent, in order.
pub fn suggest(examples: &Examples, train: &[usize], left_out: &[f64], count: usize) -> Vec<Suggestion> {
    let axes = bone_axes(examples);
    let states = |pose: &Pose| states(examples, pose, &axes);
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
        let words = describe(examples, &state, &trained);
        candidates.extend(judge(&state, Some(e), words));
    }
    for b in 0..examples.skeleton().bone_count() {
        for (state, words) in corners(examples, b, &trained, &axes) {
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

/// Each bone's own direction in its rest frame: towards its first child, or on from its parent.
fn bone_axes(examples: &Examples) -> Vec<DVec3> {
    let skeleton = examples.skeleton();
    let origin = |b: usize| skeleton.bones()[b].rest.translation;
    let axis = |b: usize| {
        let towards = match skeleton.children(b).next() {
            Some(child) => origin(child) - origin(b),
            None => origin(b) - origin(skeleton.parent(b)),
        };
        let local = nearest_rotation(skeleton.bones()[b].rest.matrix3).transpose() * towards;
        local.try_normalize().unwrap_or(DVec3::Y)
    };
    (0..skeleton.bone_count()).map(axis).collect()
}

/// Every joint's state in a pose, (J).
fn states(examples: &Examples, pose: &Pose, axes: &[DVec3]) -> Vec<JointState> {
    let skeleton = examples.skeleton();
    let rotation = |m: DMat3| nearest_rotation(m);
    let state = |b: usize| {
        let parent = skeleton.parent(b);
        let local = |child: DMat3, parent: DMat3| rotation(parent).transpose() * rotation(child);
        if b == skeleton.root() {
            return JointState { rotation: DQuat::IDENTITY, bend: 0.0, twist: 0.0 };
        }
        let rest = local(skeleton.bones()[b].rest.matrix3, skeleton.bones()[parent].rest.matrix3);
        let posed = local(pose.globals[b].matrix3, pose.globals[parent].matrix3);
        split(DQuat::from_mat3(&(rest.transpose() * posed)), axes[b])
    };
    (0..skeleton.bone_count()).map(state).collect()
}

/// A rotation's bend of `axis` and its twist about it.
fn split(rotation: DQuat, axis: DVec3) -> JointState {
    let q = if rotation.w < 0.0 { -rotation } else { rotation };
    let along = DVec3::new(q.x, q.y, q.z).dot(axis);
    JointState { rotation: q, bend: axis.angle_between(q * axis), twist: 2.0 * along.atan2(q.w) }
}

/// The angle between two poses in the joint where it is largest.
fn apart(a: &[JointState], b: &[JointState]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.rotation.angle_between(b.rotation)).fold(0.0, f64::max)
}

/// A pose in words: the joints that are furthest from what was trained, at most three.
fn describe(examples: &Examples, state: &[JointState], trained: &[Vec<JointState>]) -> String {
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
        .map(|&(b, _)| words(&examples.skeleton().bones()[b].name, state[b], b, trained))
        .collect();
    named.join(", ")
}

/// "forearm past 95° (to 112°) with a turn of +40° about its length".
fn words(name: &str, state: JointState, b: usize, trained: &[Vec<JointState>]) -> String {
    let most = trained.iter().map(|pose| pose[b].bend).fold(0.0, f64::max);
    let (bent, turned) = (state.bend > 0.09, state.twist.abs() > 0.09);
    let bend = bend_words(state.bend, most);
    let turn = turn_words(state.twist);
    match (bent, turned) {
        (true, true) => format!("{name} {bend} with {turn}"),
        (true, false) => format!("{name} {bend}"),
        (false, true) => format!("{name} straight with {turn}"),
        (false, false) => format!("{name} straight"),
    }
}

/// "past 95° (to 112°)" beyond what was trained, "bent to 60°" within.
fn bend_words(bend: f64, most: f64) -> String {
    let degrees = bend.to_degrees();
    // Five degrees: less is not a new range.
    if bend > most + 0.09 && most > 0.09 {
        return format!("past {:.0}° (to {degrees:.0}°)", most.to_degrees());
    }
    if bend > most + 0.09 {
        format!("bent, to {degrees:.0}°; it never is yet")
    } else {
        format!("bent to {degrees:.0}°")
    }
}

/// "a turn of +40° about its length".
fn turn_words(twist: f64) -> String {
    format!("a turn of {:+.0}° about its length", twist.to_degrees())
}

/// The corners of joint `b`'s trained range: its largest bend with its twist at either end, in the pose that bends it
/// most.
fn corners(
    examples: &Examples,
    b: usize,
    trained: &[Vec<JointState>],
    axes: &[DVec3],
) -> Vec<(Vec<JointState>, String)> {
    let Some(most) = trained.iter().max_by(|x, y| x[b].bend.total_cmp(&y[b].bend)) else { return Vec::new() };
    let low = trained.iter().map(|pose| pose[b].twist).fold(f64::INFINITY, f64::min);
    let high = trained.iter().map(|pose| pose[b].twist).fold(f64::NEG_INFINITY, f64::max);
    // A joint that hardly bends or hardly twists has no corners.
    if most[b].bend < 0.35 || high - low < 0.35 {
        return Vec::new();
    }
    let name = &examples.skeleton().bones()[b].name;
    let corner = |twist: f64| {
        let mut state = most.clone();
        let rotation = most[b].rotation * DQuat::from_axis_angle(axes[b], twist - most[b].twist);
        state[b] = split(rotation, axes[b]);
        (state, format!("{name} bent to {:.0}° with {}", most[b].bend.to_degrees(), turn_words(twist)))
    };
    vec![corner(low), corner(high)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_examples::datasets;

    #[test]
    fn bend_and_twist_come_apart() {
        let axis = DVec3::Y;
        let rotation = DQuat::from_rotation_x(1.1) * DQuat::from_rotation_y(-0.4);
        let state = split(rotation, axis);
        // 1e-12: rounding of angles near one.
        assert!((state.bend - 1.1).abs() < 1e-12, "{state:?}");
        assert!((state.twist + 0.4).abs() < 1e-12, "{state:?}");
    }

    #[test]
    fn a_pose_is_told_by_bend_and_turn() {
        let state = |bend: f64, twist: f64| JointState {
            rotation: DQuat::IDENTITY,
            bend: bend.to_radians(),
            twist: twist.to_radians(),
        };
        let trained = [vec![state(110.0, 0.0)]];
        let check = |bend, twist, expected| assert_eq!(words("elbow", state(bend, twist), 0, &trained), expected);
        check(125.0, -40.0, "elbow past 110° (to 125°) with a turn of -40° about its length");
        check(80.0, 0.0, "elbow bent to 80°");
        check(0.0, 30.0, "elbow straight with a turn of +30° about its length");
        assert_eq!(words("knee", state(30.0, 0.0), 0, &[vec![state(0.0, 0.0)]]), "knee bent, to 30°; it never is yet");
    }

    #[test]
    fn the_gap_in_the_training_poses_is_found() {
        let arm = (datasets::by_name("arm").unwrap().make)();
        // Only the straight end of the motion trains: what is missing is the far end.
        let found = suggest(&arm, &[0, 5, 10], &[1.0, 1.0, 1.0], 3);
        assert!(!found.is_empty());
        assert_eq!(found[0].frame, Some(43), "{found:?}");
        assert!(found[0].words.contains("forearm") && found[0].words.contains("past"), "{}", found[0].words);
    }

    #[test]
    fn a_motion_that_is_covered_needs_nothing() {
        let bar = (datasets::by_name("bar").unwrap().make)();
        let all: Vec<usize> = (0..bar.frame_count()).collect();
        assert!(suggest(&bar, &all, &vec![1.0; all.len()], 5).is_empty());
    }
}
