//! `shoulder`: the shoulder of Wang, Pulli and Popović, "Real-time enveloping with rotational regression", 2007, in
//! size: two joints, rotation about all axes, random test poses.

use glam::{DAffine3, DVec3};

use super::rig::{Rig, Turn, frame};
use super::scene::{Scene, split};
use super::sweep::{Muscle, Piece, Strand, StrandJoint};
use crate::Examples;
use crate::Rng;

/// How far the arm swings up or down, forwards or back, and twists, degrees either way.
const RANGE: [f64; 3] = [65.0, 50.0, 60.0];

/// The training poses as fractions of the range: rest, the ends of each axis, and corners.
const TRAIN: [[f64; 3]; 10] = [
    [0.0, 0.0, 0.0],
    [1.0, 0.0, 0.2],
    [-1.0, 0.0, -0.2],
    [0.0, 1.0, -0.4],
    [0.0, -1.0, 0.4],
    [0.2, 0.1, 1.0],
    [-0.2, -0.1, -1.0],
    [0.7, 0.7, 0.6],
    [-0.7, 0.7, -0.6],
    [0.6, -0.7, -0.7],
];

pub(super) fn shoulder(farther: f64) -> Examples {
    let scene = scene(farther);
    let mut rng = Rng::new(0x05E0_01DE);
    let random: Vec<[f64; 3]> = (0..100).map(|_| within_ball(&mut rng)).collect();
    let posed = |[up, forward, turned]: [f64; 3]| {
        scene.frame(&[(1, Turn::degrees(RANGE[0] * up, RANGE[1] * forward, RANGE[2] * turned))])
    };
    let frames: Vec<_> = TRAIN.into_iter().chain(random).map(posed).collect();
    scene.examples(&frames, split(frames.len(), |e| e < TRAIN.len()), 24.0)
}

/// A point of the unit ball, evenly, by rejection.
fn within_ball(rng: &mut Rng) -> [f64; 3] {
    loop {
        let point: [f64; 3] = std::array::from_fn(|_| rng.range(-1.0, 1.0));
        if point.iter().map(|x| x * x).sum::<f64>() <= 1.0 {
            return point;
        }
    }
}

/// How tense the deltoid is: it lifts the arm, and is slack when the arm hangs.
fn lifted(turn: Turn) -> f64 {
    0.5 + 0.5 * (turn.swing.x * 1.1).sin()
}

/// How tense the chest's muscle is: it draws the arm forwards.
fn drawn_forwards(turn: Turn) -> f64 {
    0.4 - 0.4 * (turn.swing.y * 1.2).sin()
}

fn scene(farther: f64) -> Scene {
    let mut rig = Rig::default();
    let chest = rig.add("clavicle", None, DAffine3::IDENTITY, Turn::default());
    let upper = rig.add_along("upper_arm", chest, 0.20, Turn::default());
    let joint = StrandJoint {
        at: 0.20,
        reach: 0.09,
        twist: (0.15, 0.42),
        point: 0.3,
        widen: 0.05,
        bone: upper,
        reversed: false,
    };
    let muscle = |along, around, height, drive| Muscle { along, around, height, slide: 0.01, drive: (upper, drive) };
    let piece = Piece {
        strand: Strand { segments: vec![(chest, 0.0), (upper, 0.20)], joints: vec![joint], mount: DAffine3::IDENTITY },
        profile: vec![
            (-0.16, 0.118, 0.084, 0.140),
            (-0.02, 0.110, 0.080, 0.130),
            (0.05, 0.098, 0.072, 0.112),
            (0.12, 0.082, 0.066, 0.084),
            (0.20, 0.066, 0.062, 0.064),
            (0.28, 0.054, 0.056, 0.053),
            (0.40, 0.047, 0.049, 0.047),
            (0.50, 0.042, 0.042, 0.042),
        ],
        caps: (0.05, 0.04),
        muscles: vec![
            muscle((0.235, 0.13), (0.0, 110.0), 0.017, lifted),
            muscle((0.15, 0.10), (-100.0, 70.0), 0.012, drawn_forwards),
        ],
        rings: 65,
        around: 40,
        squareness: 2.0,
    };
    // The arm points along +X, its top upwards.
    Scene { rig, pieces: vec![piece], root: frame(DVec3::new(0.0, 1.4, 0.0), DVec3::X, DVec3::Y), farther }
}
