//! `bar`, `tube-bend`, `tube-twist`, `tube-twist-180`: two bones in one line, one motion each.
//!
//! The bar is the twisting bar of Wang, Pulli and Popović, "Real-time enveloping with rotational regression", 2007, in
//! size; the tubes are the bending and twisting tubes of Merry, Marais and Gain, "Animation space", 2006, in motion.

use glam::{DAffine3, DVec3};

use super::rig::{Rig, Turn, frame};
use super::scene::{Scene, split};
use super::sweep::{Piece, Strand, StrandJoint};
use crate::Examples;

/// 19 rings of 4 corners and a vertex in the middle of each end: 78.
pub(super) fn bar(farther: f64) -> Examples {
    let mut scene = two_bones(2.4, 0.12, (0.25, 2.15), farther);
    let piece = &mut scene.pieces[0];
    (piece.rings, piece.around) = (19, 4);
    piece.caps = (0.0, 0.0);
    motion(&scene, 53, |turn| Turn::degrees(0.0, 0.0, 180.0 * turn), |e| e % 26 == 0)
}

pub(super) fn tube_bend(farther: f64) -> Examples {
    let scene = two_bones(1.2, 0.1, (0.3, 0.9), farther);
    motion(&scene, 79, |turn| Turn::degrees(0.0, -90.0 * turn, 0.0), |e| e % 2 == 0)
}

pub(super) fn tube_twist(farther: f64) -> Examples {
    let scene = two_bones(1.2, 0.1, (0.15, 1.05), farther);
    motion(&scene, 79, |turn| Turn::degrees(0.0, 0.0, 90.0 * turn), |e| e % 2 == 0)
}

pub(super) fn tube_twist_180(farther: f64) -> Examples {
    let scene = two_bones(1.2, 0.1, (0.15, 1.05), farther);
    motion(&scene, 79, |turn| Turn::degrees(0.0, 0.0, 180.0 * turn), |e| e % 2 == 0)
}

/// `frames` frames in which the second bone goes through `turn` from 0 to 1.
fn motion(scene: &Scene, frames: usize, turn: impl Fn(f64) -> Turn, train: impl Fn(usize) -> bool) -> Examples {
    let turned = |e: usize| scene.frame(&[(1, turn(e as f64 / (frames - 1) as f64))]);
    scene.examples(&(0..frames).map(turned).collect::<Vec<_>>(), split(frames, train), 24.0)
}

/// A tube of `length` standing on the ground, jointed half-way.
fn two_bones(length: f64, radius: f64, twist: (f64, f64), farther: f64) -> Scene {
    let mut rig = Rig::default();
    let lower = rig.add("lower", None, DAffine3::IDENTITY, Turn::default());
    let upper = rig.add_along("upper", lower, length / 2.0, Turn::default());
    let joint = StrandJoint {
        at: length / 2.0,
        reach: length / 4.0,
        twist,
        point: 0.0,
        widen: 0.0,
        bone: upper,
        reversed: false,
    };
    let strand =
        Strand { segments: vec![(lower, 0.0), (upper, length / 2.0)], joints: vec![joint], mount: DAffine3::IDENTITY };
    let piece = Piece {
        strand,
        profile: vec![(0.0, radius, radius, radius), (length, radius, radius, radius)],
        caps: (radius * 0.6, radius * 0.6),
        muscles: Vec::new(),
        rings: 60,
        around: 24,
        squareness: 2.0,
    };
    Scene { rig, pieces: vec![piece], root: frame(DVec3::ZERO, DVec3::Y, DVec3::Z), farther }
}
