//! `arm`: the muscle arm of Wang, Pulli and Popović, "Real-time enveloping with rotational regression", 2007, in size:
//! three joints, an elbow that bends and twists at once, four poses to learn from.

use glam::{DAffine3, DVec3};

use super::rig::{Rig, Turn, frame};
use super::scene::{Scene, split};
use super::sweep::{Muscle, Piece, Strand, StrandJoint};
use crate::Examples;

const FRAMES: usize = 44;

pub(super) fn arm(farther: f64) -> Examples {
    let scene = scene(farther);
    // 44 frames; the four that train are the first, two between and the last.
    let keys = [0, 14, 29, 43];
    let frames: Vec<_> = (0..FRAMES).map(|e| scene.frame(&motion(e as f64 / (FRAMES - 1) as f64))).collect();
    scene.examples(&frames, split(FRAMES, |e| keys.contains(&e)), 24.0)
}

/// The arm at `time` 0 to 1: the elbow bends to 130° while the forearm turns out and then in, and the hand follows.
fn motion(time: f64) -> [(usize, Turn); 2] {
    let flexion = 130.0 * time;
    let turning = -25.0 * (std::f64::consts::PI * time).sin() + 85.0 * time * time;
    [(1, Turn::degrees(flexion, 0.0, turning)), (2, Turn::degrees(25.0 * time, 0.0, 0.0))]
}

/// How tense a bent elbow makes the muscles that bend it: none when straight, full at 130°.
fn flexed(turn: Turn) -> f64 {
    let half = (turn.swing_angle() / 2.0).sin();
    let full = (130.0_f64.to_radians() / 2.0).sin();
    (half / full).powi(2)
}

fn scene(farther: f64) -> Scene {
    let mut rig = Rig::default();
    let upper = rig.add("upper_arm", None, DAffine3::IDENTITY, Turn::default());
    let forearm = rig.add_along("forearm", upper, 0.30, Turn::default());
    let hand = rig.add_along("hand", forearm, 0.26, Turn::default());
    let elbow = StrandJoint {
        at: 0.30,
        reach: 0.065,
        twist: (0.25, 0.53),
        point: 0.75,
        widen: 0.12,
        bone: forearm,
        reversed: false,
    };
    let wrist = StrandJoint {
        at: 0.56,
        reach: 0.025,
        twist: (0.535, 0.58),
        point: 0.2,
        widen: 0.0,
        bone: hand,
        reversed: false,
    };
    let strand = Strand {
        segments: vec![(upper, 0.0), (forearm, 0.30), (hand, 0.56)],
        joints: vec![elbow, wrist],
        mount: DAffine3::IDENTITY,
    };
    let muscle = |along, around, height, slide| Muscle { along, around, height, slide, drive: (forearm, flexed) };
    let piece = Piece {
        strand,
        profile: profile(),
        caps: (0.055, 0.04),
        muscles: vec![
            // Biceps: front of the upper arm, pulled towards the shoulder.
            muscle((0.17, 0.13), (0.0, 85.0), 0.022, -0.02),
            // Triceps: back of the upper arm, in two heads.
            muscle((0.13, 0.11), (150.0, 55.0), 0.010, 0.0),
            muscle((0.15, 0.11), (215.0, 55.0), 0.008, 0.0),
            // Brachioradialis and flexors: the forearm's belly, near the elbow.
            muscle((0.385, 0.085), (40.0, 75.0), 0.008, -0.01),
        ],
        rings: 109,
        around: 48,
        squareness: 2.0,
    };
    // The arm points along +X, the biceps upwards.
    Scene { rig, pieces: vec![piece], root: frame(DVec3::new(0.0, 1.4, 0.0), DVec3::X, DVec3::Y), farther }
}

/// (along, sides, front, back): shoulder, upper arm, elbow, forearm, wrist, a hand closed to a mitten.
fn profile() -> Vec<(f64, f64, f64, f64)> {
    vec![
        (-0.055, 0.050, 0.054, 0.050),
        (0.02, 0.052, 0.056, 0.053),
        (0.12, 0.047, 0.050, 0.049),
        (0.20, 0.043, 0.046, 0.044),
        (0.28, 0.041, 0.038, 0.040),
        (0.31, 0.043, 0.038, 0.040),
        (0.36, 0.045, 0.040, 0.038),
        (0.43, 0.038, 0.035, 0.033),
        (0.52, 0.029, 0.023, 0.022),
        (0.56, 0.030, 0.021, 0.021),
        (0.61, 0.041, 0.022, 0.020),
        (0.66, 0.043, 0.021, 0.018),
        (0.71, 0.040, 0.019, 0.016),
        (0.75, 0.033, 0.016, 0.014),
    ]
}
