//! A joint's pose in the words of the person who will pose it: "right elbow (lowerarm_r) bent past 110° to 125° and
//! turned in by 40°".
//!
//! What is left and right, and so what is in and out, is known only from the bones' names (`_l`, `Left…`, `.R`). From
//! the named sides the body's own axes follow: left is from the right bones to the left ones, up is +Y, front is
//! left × up. Where the names say nothing of sides, a turn is told as clockwise or not, seen from the parent bone.

use glam::DVec3;
use sinew_examples::Skeleton;

/// Five degrees: less is not a bend, not a turn and not a new range.
const NOTICEABLE: f64 = 0.09;

/// A joint's rotation against rest: the bone's direction is bent, and the bone is turned about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BendAndTwist {
    /// Radians, 0 to π.
    pub bend: f64,
    /// The direction in which the bone's end goes as it bends, of length one, in the rest pose's world; zero if it
    /// does not bend.
    pub towards: DVec3,
    /// Radians about the bone's direction (away from its parent), −π to π.
    pub twist: f64,
}

/// A bone's side of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// What the words for each bone rest on.
pub struct Anatomy {
    /// (J)
    bones: Vec<BoneWords>,
    /// The body's left, horizontal, of length one; `None` if no names tell it.
    left: Option<DVec3>,
}

struct BoneWords {
    name: String,
    parent: String,
    side: Option<Side>,
    /// The joint at the bone's beginning, if the bone's name tells it.
    joint: Option<&'static str>,
    /// The bone's direction at rest is more upright than not: +1 up, −1 down, 0 neither.
    upright: f64,
}

impl Anatomy {
    /// `axes` are the bones' directions at rest, in the world, (J).
    pub fn new(skeleton: &Skeleton, axes: &[DVec3]) -> Self {
        let bones: Vec<BoneWords> = (0..skeleton.bone_count())
            .map(|b| {
                let name = skeleton.bones()[b].name.clone();
                let parts = parts(&name);
                BoneWords {
                    side: parts.iter().find_map(|part| side(part)),
                    joint: joint(&parts),
                    parent: skeleton.bones()[skeleton.parent(b)].name.clone(),
                    // 45°.
                    upright: if axes[b].y.abs() > 0.7 { axes[b].y.signum() } else { 0.0 },
                    name,
                }
            })
            .collect();
        let middle = |side: Side| {
            let of_side = bones.iter().zip(skeleton.bones()).filter(|(words, _)| words.side == Some(side));
            let places: Vec<DVec3> = of_side.map(|(_, bone)| bone.rest.translation).collect();
            (!places.is_empty()).then(|| places.iter().sum::<DVec3>() / places.len() as f64)
        };
        let across = middle(Side::Left).zip(middle(Side::Right)).map(|(left, right)| left - right);
        let left = across.and_then(|across| across.with_y(0.0).try_normalize());
        Self { bones, left }
    }

    /// Bone `b` in state `state`, next to the states that it is trained in. Angles count from the rest pose.
    pub fn tell(&self, b: usize, state: BendAndTwist, trained: &[BendAndTwist]) -> String {
        let subject = self.subject(b);
        match (self.bend(b, state, trained), self.turn(b, state, trained)) {
            (Some(bend), Some(turn)) => format!("{subject} {bend} and {turn}"),
            (Some(words), None) | (None, Some(words)) => format!("{subject} {words}"),
            (None, None) => format!("{subject} as at rest"),
        }
    }

    /// "right elbow (lowerarm_r)", or the bone's name alone.
    fn subject(&self, b: usize) -> String {
        let BoneWords { name, side, joint, .. } = &self.bones[b];
        match (side, joint) {
            (Some(Side::Left), Some(joint)) => format!("left {joint} ({name})"),
            (Some(Side::Right), Some(joint)) => format!("right {joint} ({name})"),
            (None, Some(joint)) => format!("{joint} ({name})"),
            (_, None) => name.clone(),
        }
    }

    /// "bent forward past 110° to 125°" beyond what was trained, "bent to 60°" within; `None` if it hardly is.
    fn bend(&self, b: usize, state: BendAndTwist, trained: &[BendAndTwist]) -> Option<String> {
        if state.bend < NOTICEABLE {
            return None;
        }
        let direction = if is_hinge(state, trained) { None } else { self.direction(b, state.towards) };
        let direction = direction.map_or(String::new(), |words| format!(" {words}"));
        // How far the training poses go in this direction.
        let covered = trained.iter().map(|other| other.bend * other.towards.dot(state.towards)).fold(0.0, f64::max);
        Some(format!("bent{direction} {}", reach("to", state.bend, covered)))
    }

    /// "forward and down": the one or two of the body's axes that a direction follows most.
    fn direction(&self, b: usize, towards: DVec3) -> Option<String> {
        let left = self.left?;
        let sideways = towards.dot(left);
        let across = match (self.bones[b].side, sideways > 0.0) {
            (Some(Side::Left), true) | (Some(Side::Right), false) => "out",
            (Some(_), _) => "in",
            (None, true) => "left",
            (None, false) => "right",
        };
        let front = towards.dot(left.cross(DVec3::Y));
        let mut axes = [
            (sideways.abs(), across),
            (front.abs(), if front > 0.0 { "forward" } else { "back" }),
            (towards.y.abs(), if towards.y > 0.0 { "up" } else { "down" }),
        ];
        axes.sort_by(|a, b| b.0.total_cmp(&a.0));
        // Nearer to between the two than to the first alone.
        let between = axes[1].0 > axes[0].0 * 22.5_f64.to_radians().tan();
        Some(if between { format!("{} and {}", axes[0].1, axes[1].1) } else { axes[0].1.into() })
    }

    /// "turned in by 40°"; `None` if it hardly is.
    fn turn(&self, b: usize, state: BendAndTwist, trained: &[BendAndTwist]) -> Option<String> {
        if state.twist.abs() < NOTICEABLE {
            return None;
        }
        let way = state.twist.signum();
        let covered = trained.iter().map(|other| other.twist * way).fold(0.0, f64::max);
        let reach = reach("by", state.twist.abs(), covered);
        let BoneWords { parent, side, upright, .. } = &self.bones[b];
        // A limb that hangs turns its front to the middle: with the right hand's rule about its direction on the left of
        // the body, against it on the right. Raising the limb changes nothing in that.
        Some(match (side, self.left.is_some() && *upright != 0.0) {
            (Some(side), _) if (*side == Side::Left) == (way > 0.0) => format!("turned in {reach}"),
            (Some(_), _) => format!("turned out {reach}"),
            // What is upright in the middle turns as the body does: about +Y is to its left.
            (None, true) if way * upright > 0.0 => format!("turned left {reach}"),
            (None, true) => format!("turned right {reach}"),
            (None, false) if way > 0.0 => format!("turned clockwise {reach}, seen from {parent}"),
            (None, false) => format!("turned anticlockwise {reach}, seen from {parent}"),
        })
    }
}

/// "past 110° to 125°" beyond what is covered; within, `to` (or "by") "60°".
fn reach(to: &str, angle: f64, covered: f64) -> String {
    let degrees = angle.to_degrees();
    if angle < covered + NOTICEABLE {
        format!("{to} {degrees:.0}°")
    } else if covered < NOTICEABLE {
        format!("{to} {degrees:.0}° (no training pose does)")
    } else {
        format!("past {:.0}° to {degrees:.0}°", covered.to_degrees())
    }
}

/// Whether a joint bends to one side only, as an elbow does: then there is no need to say which.
fn is_hinge(state: BendAndTwist, trained: &[BendAndTwist]) -> bool {
    let mut bent = trained.iter().filter(|other| other.bend > NOTICEABLE).peekable();
    // Within 45°.
    bent.peek().is_some() && bent.all(|other| other.towards.dot(state.towards) > 0.7)
}

/// The words a bone's name is made of, in small letters: at signs, spaces, digits and capitals.
fn parts(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut parts = vec![String::new()];
    for (k, &letter) in letters.iter().enumerate() {
        let before = k.checked_sub(1).map(|k| letters[k]);
        let begins = letter.is_uppercase()
            && (before.is_some_and(char::is_lowercase)
                || (before.is_some_and(char::is_uppercase) && letters.get(k + 1).is_some_and(|c| c.is_lowercase())));
        if !letter.is_alphabetic() || begins {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| letter.is_alphabetic()) {
            part.extend(letter.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn side(part: &str) -> Option<Side> {
    match part {
        "l" | "left" => Some(Side::Left),
        "r" | "right" => Some(Side::Right),
        _ => None,
    }
}

/// The joint at the beginning of a bone of this name.
fn joint(parts: &[String]) -> Option<&'static str> {
    const JOINTS: [(&str, &[&str]); 6] = [
        ("elbow", &["forearm", "lowerarm", "elbow"]),
        ("shoulder", &["upperarm"]),
        ("wrist", &["hand", "wrist"]),
        ("knee", &["shin", "calf", "lowerleg", "knee"]),
        ("hip", &["thigh", "upperleg", "upleg"]),
        ("ankle", &["foot", "ankle"]),
    ];
    let name: String = parts.iter().filter(|part| side(part).is_none()).map(String::as_str).collect();
    let found = JOINTS.iter().find(|(_, bones)| bones.iter().any(|bone| name.ends_with(bone)));
    found.map(|&(joint, _)| joint)
}

#[cfg(test)]
mod tests {
    use glam::DAffine3;
    use sinew_examples::Bone;

    use super::*;

    /// A body that faces +X: its left is −Z. Arms hang.
    fn body() -> Anatomy {
        let bone = |name: &str, parent: Option<usize>, place: [f64; 3]| Bone {
            name: name.into(),
            parent,
            rest: DAffine3::from_translation(place.into()),
        };
        let skeleton = Skeleton::new(vec![
            bone("hips", None, [0.0, 1.0, 0.0]),
            bone("neck", Some(0), [0.0, 1.5, 0.0]),
            bone("LeftForeArm", Some(0), [0.0, 1.2, -0.3]),
            bone("upperarm_r", Some(0), [0.0, 1.5, 0.3]),
            bone("jaw", Some(1), [0.1, 1.6, 0.0]),
        ]);
        Anatomy::new(&skeleton.unwrap(), &[DVec3::Y, DVec3::Y, DVec3::NEG_Y, DVec3::NEG_Y, DVec3::X])
    }

    fn state(bend: f64, towards: DVec3, twist: f64) -> BendAndTwist {
        BendAndTwist { bend: bend.to_radians(), towards, twist: twist.to_radians() }
    }

    #[test]
    fn a_hinge_is_told_without_a_direction() {
        let trained = [state(0.0, DVec3::ZERO, 0.0), state(110.0, DVec3::X, 0.0)];
        let check =
            |bend, twist, expected| assert_eq!(body().tell(2, state(bend, DVec3::X, twist), &trained), expected);
        check(
            125.0,
            40.0,
            "left elbow (LeftForeArm) bent past 110° to 125° and turned in by 40° (no training pose does)",
        );
        check(80.0, 0.0, "left elbow (LeftForeArm) bent to 80°");
        check(0.0, -30.0, "left elbow (LeftForeArm) turned out by 30° (no training pose does)");
    }

    #[test]
    fn a_ball_is_told_by_the_bodys_own_directions() {
        let trained = [state(40.0, DVec3::X, 10.0), state(40.0, DVec3::Z, -45.0)];
        let check = |b, towards: DVec3, twist, expected: &str| {
            assert_eq!(body().tell(b, state(60.0, towards.normalize(), twist), &trained), expected);
        };
        check(
            3,
            DVec3::X,
            30.0,
            "right shoulder (upperarm_r) bent forward past 40° to 60° and turned out past 10° to 30°",
        );
        check(3, DVec3::Z, -40.0, "right shoulder (upperarm_r) bent out past 40° to 60° and turned in by 40°");
        check(3, DVec3::NEG_X, 0.0, "right shoulder (upperarm_r) bent back to 60° (no training pose does)");
        check(1, DVec3::Z, 30.0, "neck bent right past 40° to 60° and turned left past 10° to 30°");
        check(
            4,
            DVec3::new(0.0, -1.0, 0.6),
            8.0,
            "jaw bent down and right past 21° to 60° and turned clockwise by 8°, seen from neck",
        );
    }

    #[test]
    fn names_come_apart() {
        let check = |name: &str, expected: &[&str]| assert_eq!(parts(name), expected, "{name}");
        check("upper_arm.L", &["upper", "arm", "l"]);
        check("mixamorig:LeftForeArm", &["mixamorig", "left", "fore", "arm"]);
        check("Bip01 R Thigh", &["bip", "r", "thigh"]);
        check("LArm", &["l", "arm"]);
        check("", &[]);
        assert_eq!(joint(&parts("mixamorig:LeftForeArm")), Some("elbow"));
        assert_eq!(joint(&parts("Bip01 R Thigh")), Some("hip"));
        assert_eq!(joint(&parts("tail_3")), None);
    }
}
