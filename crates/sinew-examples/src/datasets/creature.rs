//! `creature`: a walking biped with neck, tail, fingers, toes and quills, as large as the T-Rex of Wang, Pulli and
//! Popović, "Real-time enveloping with rotational regression", 2007: 29,380 vertices, 155 joints.

use glam::{DAffine3, DMat3, DVec3};
use std::f64::consts::TAU;

use super::rig::{Rig, Turn, frame};
use super::scene::{Frame, Scene, split};
use super::sweep::{Muscle, Piece, Profile, Strand, StrandJoint};
use crate::Examples;

const FRAMES: usize = 132;
const SPINE: usize = 8;
const NECK: usize = 9;
const TAIL: usize = 30;
const TONGUE: usize = 5;
const QUILLS: usize = 20;

/// The pelvis' height at rest, metres: the toes stand on the ground.
const HEIGHT: f64 = 1.19;

pub(super) fn creature(farther: f64) -> Examples {
    let (scene, parts) = build(farther);
    let frames: Vec<Frame> = (0..FRAMES).map(|e| walk(&scene, &parts, e as f64 / FRAMES as f64)).collect();
    // Every thirteenth frame trains, eleven in all: the gait's phases come by one after the other.
    scene.examples(&frames, split(FRAMES, |e| e % 13 == 0 && e < 143), 24.0)
}

/// The bones by their place in the body.
struct Parts {
    spine: Vec<usize>,
    neck: Vec<usize>,
    head: usize,
    tail: Vec<usize>,
    jaw: usize,
    tongue: Vec<usize>,
    legs: [Leg; 2],
    arms: [Arm; 2],
    quills: Vec<[usize; 2]>,
}

struct Leg {
    thigh: usize,
    shin: usize,
    foot: usize,
    toes: Vec<Vec<usize>>,
}

struct Arm {
    upper: usize,
    forearm: usize,
    hand: usize,
    fingers: Vec<Vec<usize>>,
}

/// The frame at `time` 0 to 1: three strides, while the head looks about, the jaw opens and the tail sways.
fn walk(scene: &Scene, parts: &Parts, time: f64) -> Frame {
    let stride = TAU * 3.0 * time;
    let look = TAU * time;
    let mut changes = Vec::new();
    let mut turn = |bone: usize, x: f64, z: f64, twist: f64| changes.push((bone, Turn::degrees(x, z, twist)));
    for (k, &bone) in parts.spine.iter().enumerate() {
        turn(bone, 0.8 * (2.0 * stride).sin(), 1.6 * (stride - 0.2 * k as f64).sin(), 1.2 * stride.sin());
    }
    for (k, &bone) in parts.neck.iter().enumerate() {
        let lift = 4.0 * (2.0 * look + 0.3 * k as f64).sin();
        turn(bone, lift, 5.0 * (look - 0.1 * k as f64).sin(), 3.0 * (3.0 * look).sin());
    }
    turn(parts.head, 10.0 * (2.0 * look).cos() - 10.0, 8.0 * (3.0 * look).sin(), 6.0 * look.sin());
    turn(parts.jaw, -18.0 * (1.0 - (5.0 * look).cos()), 0.0, 0.0);
    for (k, &bone) in parts.tongue.iter().enumerate() {
        turn(bone, 5.0 * (5.0 * look - 0.4 * k as f64).sin(), 5.0 * (7.0 * look).sin(), 0.0);
    }
    for (k, &bone) in parts.tail.iter().enumerate() {
        let (wave, along) = (stride - 0.22 * k as f64, k as f64 / TAIL as f64);
        turn(bone, 2.0 * (2.0 * look - 0.15 * k as f64).sin(), (1.5 + 4.5 * along) * wave.sin(), 1.5 * wave.cos());
    }
    for (side, leg) in parts.legs.iter().enumerate() {
        let phase = stride + TAU / 2.0 * side as f64;
        let lift = (0.5 - 0.5 * (phase + 0.9).cos()).powi(2);
        turn(leg.thigh, 24.0 * phase.sin() + 8.0 * lift, 2.0 * phase.cos(), 6.0 * phase.sin());
        turn(leg.shin, -34.0 * lift - 6.0 * phase.cos(), 0.0, 0.0);
        turn(leg.foot, 26.0 * lift - 10.0 * phase.sin(), 0.0, 8.0 * phase.cos());
        for (k, &bone) in leg.toes.iter().flatten().enumerate() {
            turn(bone, -16.0 * lift, 3.0 * (phase + k as f64).sin(), 0.0);
        }
    }
    for (side, arm) in parts.arms.iter().enumerate() {
        let (phase, sign) = (stride + TAU / 2.0 * (1 - side) as f64, 1.0 - 2.0 * side as f64);
        turn(arm.upper, 22.0 * phase.sin(), sign * 10.0 * (look + 1.0).sin(), 15.0 * look.cos());
        turn(arm.forearm, 25.0 + 25.0 * (phase + 0.7).sin(), 0.0, 35.0 * (2.0 * look).sin());
        turn(arm.hand, 15.0 * (phase - 0.5).sin(), 8.0 * (4.0 * look).sin(), 0.0);
        for (k, &bone) in arm.fingers.iter().flatten().enumerate() {
            turn(bone, 18.0 + 18.0 * (4.0 * look + 0.2 * k as f64).sin(), 0.0, 0.0);
        }
    }
    for (k, &[base, tip]) in parts.quills.iter().enumerate() {
        let wave = (2.0 * stride - 0.35 * k as f64).sin();
        turn(base, 6.0 * wave, 4.0 * (stride + k as f64).sin(), 0.0);
        turn(tip, 14.0 * wave, 8.0 * (stride + k as f64 - 0.5).sin(), 0.0);
    }
    let bob = DVec3::new(0.02 * stride.sin(), 0.025 * (2.0 * stride).cos() - 0.025, 4.2 * time);
    let mut posed = scene.frame(&changes);
    posed.root.translation += bob;
    posed.root.matrix3 = DMat3::from_rotation_y(0.05 * stride.sin()) * posed.root.matrix3;
    posed
}

fn build(farther: f64) -> (Scene, Parts) {
    let mut body = Body::default();
    let pelvis = body.rig.add("pelvis", None, DAffine3::IDENTITY, Turn::default());
    let (spine, neck, head, tail) = body.trunk(pelvis);
    let (jaw, tongue) = body.mouth(head);
    let chest = spine[SPINE - 2];
    let legs = [("l", -1.0), ("r", 1.0)].map(|(name, side)| body.leg(pelvis, name, side));
    let arms = [("l", -1.0), ("r", 1.0)].map(|(name, side)| body.arm(chest, name, side));
    let quills = body.quills(&neck, &spine, &tail);
    // The trunk points along +Z, its back upwards.
    let root = frame(DVec3::Y * HEIGHT, DVec3::Z, DVec3::Y);
    let scene = Scene { rig: body.rig, pieces: body.pieces, root, farther };
    (scene, Parts { spine, neck, head, tail, jaw, tongue, legs, arms, quills })
}

/// The creature as it is put together. A bone's +Z is the back of the trunk and the front of a limb.
#[derive(Default)]
struct Body {
    rig: Rig,
    pieces: Vec<Piece>,
}

impl Body {
    /// Tail, pelvis, spine, neck and head: one strand from the tail's tip to the snout.
    fn trunk(&mut self, pelvis: usize) -> (Vec<usize>, Vec<usize>, usize, Vec<usize>) {
        let mut segments = vec![(pelvis, 0.0)];
        let mut joints = Vec::new();
        let (mut last, mut at) = (pelvis, 0.12);
        let (mut spine, mut neck, mut tail) = (Vec::new(), Vec::new(), Vec::new());
        let mut along = 0.12;
        for k in 0..SPINE + NECK + 1 {
            let (name, rest, length) = match k {
                _ if k < SPINE => (format!("spine_{}", k + 1), 1.0, 0.09),
                _ if k < SPINE + 5 => (format!("neck_{}", k + 1 - SPINE), 9.5, 0.075),
                _ if k < SPINE + NECK => (format!("neck_{}", k + 1 - SPINE), -7.5, 0.075),
                _ => ("head".into(), -26.0, 0.0),
            };
            let bone = self.rig.add_along(name, last, along, Turn::degrees(rest, 0.0, 0.0));
            let reach = if k == SPINE + NECK { 0.035 } else { 0.033 };
            joints.push(joint(bone, at, reach, 0.5));
            segments.push((bone, at));
            if k < SPINE {
                spine.push(bone)
            } else {
                neck.push(bone)
            }
            (last, along) = (bone, length);
            at += length;
        }
        let head = neck.pop().expect("the head was just added");
        (last, at, along) = (pelvis, -0.10, -0.10);
        for k in 0..TAIL {
            let length = 0.092 - 0.0014 * k as f64;
            // Against the strand's direction: swinging +Y down lifts the tail behind it.
            let rest = if k < 10 { 1.2 } else { -1.0 };
            let bone = self.rig.add_along(format!("tail_{}", k + 1), last, along, Turn::degrees(rest, 0.0, 0.0));
            joints.insert(0, StrandJoint { reversed: true, ..joint(bone, at, 0.3 * length + 0.008, 0.4) });
            segments.insert(0, (bone, at));
            tail.push(bone);
            (last, along) = (bone, -length);
            at -= length;
        }
        let strand = Strand { segments, joints, mount: DAffine3::IDENTITY };
        let snout = 0.12 + 0.09 * SPINE as f64 + 0.075 * NECK as f64;
        self.piece(strand, trunk_profile(at + 0.01, snout), (0.03, 0.08), 199, 64, Vec::new());
        for side in [-1.0, 1.0] {
            self.eye(head, side);
        }
        (spine, neck, head, tail)
    }

    fn eye(&mut self, head: usize, side: f64) {
        let mount = frame(DVec3::new(side * 0.098, 0.13, 0.045), DVec3::new(side, 0.25, 0.35), DVec3::Z);
        let strand = Strand { segments: vec![(head, 0.0)], joints: Vec::new(), mount };
        let r = 0.026;
        self.piece(strand, vec![(-r, r, r, r), (r, r, r, r)], (r, r), 7, 11, Vec::new());
    }

    /// The lower jaw, hinged under the head, and the tongue on it.
    fn mouth(&mut self, head: usize) -> (usize, Vec<usize>) {
        let hinge = DAffine3::from_translation(DVec3::new(0.0, 0.06, -0.105));
        let jaw = self.rig.add("jaw", Some(head), hinge, Turn::degrees(-7.0, 0.0, 0.0));
        let profile = vec![
            (-0.06, 0.060, 0.020, 0.030),
            (0.04, 0.074, 0.022, 0.038),
            (0.18, 0.060, 0.018, 0.032),
            (0.30, 0.046, 0.014, 0.026),
            (0.375, 0.038, 0.012, 0.022),
        ];
        let strand = Strand { segments: vec![(jaw, 0.0)], joints: Vec::new(), mount: DAffine3::IDENTITY };
        self.piece(strand, profile, (0.04, 0.035), 30, 32, Vec::new());
        let root = DAffine3::from_translation(DVec3::new(0.0, 0.08, 0.026));
        let tongue =
            self.chain("tongue", jaw, root, TONGUE, 0.042, |k| Turn::degrees(if k == 0 { 2.0 } else { 0.5 }, 0.0, 0.0));
        let profile = vec![(-0.03, 0.026, 0.007, 0.007), (0.08, 0.030, 0.008, 0.008), (0.20, 0.016, 0.005, 0.005)];
        self.limb(&tongue, 0.042, 0.5, profile, (0.02, 0.02), 24, 16);
        (jaw, tongue)
    }

    /// Hip, thigh, shin and foot in one strand; three toes in front and one behind.
    fn leg(&mut self, pelvis: usize, name: &str, side: f64) -> Leg {
        let mount = frame(DVec3::new(side * 0.10, 0.0, -0.03), DVec3::new(side * 0.16, 0.0, -1.0), DVec3::Y);
        let hip = self.rig.add(format!("hip_{name}"), Some(pelvis), mount, Turn::default());
        let thigh = self.rig.add_along(format!("thigh_{name}"), hip, 0.06, Turn::degrees(32.0, 0.0, 0.0));
        let shin = self.rig.add_along(format!("shin_{name}"), thigh, 0.46, Turn::degrees(-66.0, 0.0, 0.0));
        let foot = self.rig.add_along(format!("foot_{name}"), shin, 0.48, Turn::degrees(58.0, 0.0, 0.0));
        let joints = vec![
            StrandJoint { twist: (0.0, 0.30), ..joint(thigh, 0.06, 0.11, 0.3) },
            StrandJoint { point: 0.7, ..joint(shin, 0.52, 0.085, 0.3) },
            StrandJoint { point: 0.6, twist: (0.95, 1.15), ..joint(foot, 1.00, 0.055, 0.3) },
        ];
        let strand = Strand {
            segments: vec![(hip, 0.0), (thigh, 0.06), (shin, 0.52), (foot, 1.00)],
            joints,
            mount: DAffine3::IDENTITY,
        };
        let calf = Muscle {
            along: (0.66, 0.15),
            around: (180.0, 80.0),
            height: 0.022,
            slide: -0.02,
            drive: (foot, stretched),
        };
        let thigh_muscle =
            Muscle { along: (0.30, 0.20), around: (0.0, 95.0), height: 0.030, slide: 0.02, drive: (shin, stretched) };
        self.piece(strand, leg_profile(), (0.08, 0.04), 70, 40, vec![calf, thigh_muscle]);
        let toes = [("toe_inner", -28.0, 3), ("toe_middle", 0.0, 3), ("toe_outer", 28.0, 3), ("toe_back", 180.0, 2)];
        let toes = toes.map(|(toe, spread, count)| {
            let outward: f64 = side * f64::to_radians(spread);
            // The foot leans 24° forwards of the vertical; toes lie flat.
            let down = DVec3::new(0.0, (24.0_f64).to_radians().cos(), -(24.0_f64).to_radians().sin());
            let forward = DVec3::new(0.0, (24.0_f64).to_radians().sin(), (24.0_f64).to_radians().cos());
            let direction = forward * outward.cos() + DVec3::X * outward.sin() + down * 0.10;
            let start = DVec3::Y * 0.29 + direction * 0.015 + down * 0.008;
            let mount = frame(start, direction, -down);
            let length = if count == 3 { 0.085 } else { 0.055 };
            let bones = self.chain(&format!("{toe}_{name}"), foot, mount, count, length, |k| {
                Turn::degrees(if k == 0 { 4.0 } else { -5.0 }, 0.0, 0.0)
            });
            let end = length * count as f64;
            let r = if count == 3 { 0.034 } else { 0.024 };
            let profile = vec![
                (-0.02, 0.9 * r, 0.9 * r, 0.8 * r),
                (0.3 * end, r, r, 0.9 * r),
                (0.75 * end, 0.8 * r, 0.8 * r, 0.7 * r),
                (end, 0.35 * r, 0.35 * r, 0.3 * r),
            ];
            self.limb(&bones, length, 0.5, profile, (0.02, 0.015), if count == 3 { 22 } else { 16 }, 16);
            bones
        });
        Leg { thigh, shin, foot, toes: toes.into() }
    }

    /// Clavicle, upper arm, forearm and hand in one strand; three fingers and a thumb.
    fn arm(&mut self, chest: usize, name: &str, side: f64) -> Arm {
        let mount = frame(DVec3::new(side * 0.09, 0.06, -0.10), DVec3::new(side * 0.55, 0.15, -1.0), DVec3::Y);
        let clavicle = self.rig.add(format!("clavicle_{name}"), Some(chest), mount, Turn::default());
        let upper = self.rig.add_along(format!("upper_arm_{name}"), clavicle, 0.05, Turn::degrees(-20.0, 0.0, 0.0));
        let forearm = self.rig.add_along(format!("forearm_{name}"), upper, 0.22, Turn::degrees(50.0, 0.0, 0.0));
        let hand = self.rig.add_along(format!("hand_{name}"), forearm, 0.19, Turn::degrees(-8.0, 0.0, 0.0));
        let joints = vec![
            StrandJoint { twist: (0.02, 0.20), ..joint(upper, 0.05, 0.045, 0.3) },
            StrandJoint { point: 0.7, twist: (0.25, 0.44), ..joint(forearm, 0.27, 0.045, 0.3) },
            joint(hand, 0.46, 0.016, 0.3),
        ];
        let strand = Strand {
            segments: vec![(clavicle, 0.0), (upper, 0.05), (forearm, 0.27), (hand, 0.46)],
            joints,
            mount: DAffine3::IDENTITY,
        };
        let profile = vec![
            (-0.05, 0.055, 0.055, 0.060),
            (0.08, 0.050, 0.052, 0.052),
            (0.18, 0.040, 0.042, 0.042),
            (0.27, 0.034, 0.032, 0.036),
            (0.33, 0.035, 0.033, 0.032),
            (0.44, 0.023, 0.019, 0.019),
            (0.49, 0.034, 0.020, 0.018),
            (0.53, 0.030, 0.016, 0.015),
        ];
        let biceps =
            Muscle { along: (0.17, 0.09), around: (0.0, 85.0), height: 0.014, slide: -0.01, drive: (forearm, bent) };
        self.piece(strand, profile, (0.04, 0.02), 50, 28, vec![biceps]);
        let fingers = [
            ("index", -0.021, -10.0, 3),
            ("middle", 0.0, 0.0, 3),
            ("ring", 0.021, 10.0, 3),
            ("thumb", -0.030, -55.0, 2),
        ];
        let fingers = fingers.map(|(finger, across, spread, count)| {
            let angle = side * f64::to_radians(spread);
            let along = if count == 3 { 0.058 } else { 0.022 };
            let start = DVec3::new(side * across, along, 0.0);
            let mount = frame(start, DVec3::new(angle.sin(), angle.cos(), 0.05), DVec3::Z);
            let length = if count == 3 { 0.034 } else { 0.030 };
            let bones =
                self.chain(&format!("{finger}_{name}"), hand, mount, count, length, |_| Turn::degrees(8.0, 0.0, 0.0));
            let end = length * count as f64;
            let profile =
                vec![(-0.012, 0.0095, 0.0095, 0.0095), (0.5 * end, 0.0088, 0.0088, 0.0088), (end, 0.003, 0.003, 0.003)];
            self.limb(&bones, length, 0.4, profile, (0.008, 0.006), if count == 3 { 18 } else { 14 }, 12);
            bones
        });
        Arm { upper, forearm, hand, fingers: fingers.into() }
    }

    /// Quills along the back, from the neck to the tail, two joints each.
    fn quills(&mut self, neck: &[usize], spine: &[usize], tail: &[usize]) -> Vec<[usize; 2]> {
        let back: Vec<usize> =
            neck.iter().rev().chain(spine.iter().rev()).chain(tail.iter().take(3)).copied().collect();
        // How high the back is over the axis where a quill stands, from the neck to the tail.
        let trunk = trunk_profile(-2.3, 0.12 + 0.09 * SPINE as f64 + 0.075 * NECK as f64);
        let mut quills = Vec::new();
        for (k, &bone) in back.iter().enumerate().take(QUILLS) {
            let place = match k {
                _ if k < NECK => 0.12 + 0.09 * SPINE as f64 + 0.075 * (NECK - 1 - k) as f64 + 0.037,
                _ if k < NECK + SPINE => 0.12 + 0.09 * (SPINE + NECK - 1 - k) as f64 + 0.045,
                _ => -0.10 - 0.09 * (k - NECK - SPINE) as f64 - 0.045,
            };
            let height = super::sweep::radius_at(&trunk, place);
            let tail_side = k >= NECK + SPINE;
            let origin = DVec3::new(0.0, if tail_side { -0.045 } else { 0.04 }, height - 0.02);
            let mount = frame(origin, DVec3::new(0.0, -0.55, 1.0), DVec3::Y);
            let size = 0.035 + 0.05 * (std::f64::consts::PI * (k as f64 + 0.5) / QUILLS as f64).sin();
            let bones =
                self.chain(&format!("quill_{}", k + 1), bone, mount, 2, size, |_| Turn::degrees(-6.0, 0.0, 0.0));
            let r = 0.10 + 0.10 * size;
            let profile = vec![
                (-0.03, 0.10 * r, 0.16 * r, 0.16 * r),
                (0.6 * size, 0.08 * r, 0.13 * r, 0.13 * r),
                (2.0 * size, 0.012 * r, 0.02 * r, 0.02 * r),
            ];
            self.limb(&bones, size, 0.4, profile, (0.01, 0.006), 12, 10);
            quills.push([bones[0], bones[1]]);
        }
        quills
    }

    /// A chain of `count` bones of one length, the first mounted on `parent`.
    fn chain(
        &mut self,
        name: &str,
        parent: usize,
        mount: DAffine3,
        count: usize,
        length: f64,
        rest: impl Fn(usize) -> Turn,
    ) -> Vec<usize> {
        let mut bones = vec![self.rig.add(format!("{name}_1"), Some(parent), mount, rest(0))];
        for k in 1..count {
            let bone = self.rig.add_along(format!("{name}_{}", k + 1), bones[k - 1], length, rest(k));
            bones.push(bone);
        }
        bones
    }

    /// A skin over a chain of bones of one length.
    fn limb(
        &mut self,
        bones: &[usize],
        length: f64,
        reach: f64,
        profile: Profile,
        caps: (f64, f64),
        rings: usize,
        around: usize,
    ) {
        let at = |k: usize| length * k as f64;
        let strand = Strand {
            segments: bones.iter().enumerate().map(|(k, &bone)| (bone, at(k))).collect(),
            joints: (1..bones.len())
                .map(|k| StrandJoint { point: 0.5, ..joint(bones[k], at(k), reach * length, 0.3) })
                .collect(),
            mount: DAffine3::IDENTITY,
        };
        self.piece(strand, profile, caps, rings, around, Vec::new());
    }

    fn piece(
        &mut self,
        strand: Strand,
        profile: Profile,
        caps: (f64, f64),
        rings: usize,
        around: usize,
        muscles: Vec<Muscle>,
    ) {
        self.pieces.push(Piece { strand, profile, caps, muscles, rings, around, squareness: 2.0 });
    }
}

/// A plain joint whose twist is spread a little further than its bend.
fn joint(bone: usize, at: f64, reach: f64, widen: f64) -> StrandJoint {
    StrandJoint { at, reach, twist: (at - reach, at + reach), point: 0.0, widen: 0.2 * widen, bone, reversed: false }
}

fn bent(turn: Turn) -> f64 {
    (turn.swing_angle() / 2.0).sin().powi(2)
}

/// Tense when the joint is straightened.
fn stretched(turn: Turn) -> f64 {
    (turn.swing_angle() / 2.0).cos().powi(2)
}

/// From the tail's tip at `tip` to the snout that begins at `head`; the front (+Z) is the back of the creature.
fn trunk_profile(tip: f64, head: f64) -> Profile {
    vec![
        (tip, 0.010, 0.010, 0.010),
        (0.75 * tip, 0.030, 0.034, 0.036),
        (0.45 * tip, 0.075, 0.085, 0.090),
        (0.20 * tip, 0.135, 0.150, 0.160),
        (-0.08, 0.195, 0.200, 0.215),
        (0.12, 0.205, 0.195, 0.235),
        (0.40, 0.195, 0.180, 0.260),
        (0.66, 0.175, 0.165, 0.240),
        (0.84, 0.130, 0.130, 0.180),
        (1.05, 0.092, 0.098, 0.115),
        (1.35, 0.078, 0.084, 0.092),
        (head, 0.098, 0.100, 0.080),
        (head + 0.08, 0.120, 0.104, 0.072),
        (head + 0.17, 0.108, 0.092, 0.056),
        (head + 0.30, 0.074, 0.062, 0.044),
        (head + 0.42, 0.060, 0.052, 0.040),
        (head + 0.50, 0.050, 0.044, 0.034),
    ]
}

fn leg_profile() -> Profile {
    vec![
        (-0.08, 0.110, 0.130, 0.130),
        (0.10, 0.115, 0.150, 0.140),
        (0.28, 0.095, 0.120, 0.115),
        (0.44, 0.070, 0.080, 0.078),
        (0.52, 0.062, 0.066, 0.064),
        (0.62, 0.060, 0.056, 0.072),
        (0.78, 0.044, 0.042, 0.046),
        (0.94, 0.034, 0.034, 0.036),
        (1.00, 0.035, 0.034, 0.038),
        (1.12, 0.036, 0.032, 0.032),
        (1.26, 0.044, 0.034, 0.034),
        (1.33, 0.040, 0.032, 0.032),
    ]
}
