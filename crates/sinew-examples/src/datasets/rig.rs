//! A skeleton described joint by joint, and its pose from joint angles.
//!
//! A bone lies along its own +Y. Its joint turns it by a swing (a rotation about an axis across the bone) and a twist
//! (about the bone itself), kept apart so that a twist of 180° still knows which way round it went.

use glam::{DAffine3, DMat3, DQuat, DVec2, DVec3};

/// How a joint turns, radians.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Turn {
    /// The swing's rotation vector; its components along the bone's X and Z. A positive X tips +Y towards +Z.
    pub swing: DVec2,
    /// The twist about +Y, after which the swing is applied.
    pub twist: f64,
}

impl Turn {
    pub(super) fn degrees(swing_x: f64, swing_z: f64, twist: f64) -> Self {
        Self { swing: DVec2::new(swing_x.to_radians(), swing_z.to_radians()), twist: twist.to_radians() }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { swing: self.swing + other.swing, twist: self.twist + other.twist }
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { swing: self.swing * factor, twist: self.twist * factor }
    }

    pub(super) fn swing_angle(self) -> f64 {
        self.swing.length()
    }

    /// The swing's axis in the bone's frame; any across axis if there is no swing.
    pub(super) fn axis(self) -> DVec3 {
        self.swing.try_normalize().map_or(DVec3::X, |axis| DVec3::new(axis.x, 0.0, axis.y))
    }

    pub(super) fn rotation(self) -> DQuat {
        DQuat::from_axis_angle(self.axis(), self.swing_angle()) * DQuat::from_rotation_y(self.twist)
    }

    /// The turn that undoes this one: `(S T)⁻¹ = T⁻¹ S⁻¹`, a swing about the untwisted axis, then the twist back.
    pub(super) fn inverse(self) -> Self {
        let axis = DQuat::from_rotation_y(-self.twist) * DVec3::new(-self.swing.x, 0.0, -self.swing.y);
        Self { swing: DVec2::new(axis.x, axis.z), twist: -self.twist }
    }
}

/// A bone of a rig.
#[derive(Debug, Clone)]
pub(super) struct RigBone {
    pub name: String,
    pub parent: Option<usize>,
    /// Where the bone starts and lies in its parent's frame while its joint does not turn.
    pub offset: DAffine3,
    /// The joint's turn in the rest pose.
    pub rest: Turn,
}

/// Bones, parents before children.
#[derive(Debug, Clone, Default)]
pub(super) struct Rig {
    pub bones: Vec<RigBone>,
}

impl Rig {
    /// Adds a bone and gives its index.
    pub(super) fn add(
        &mut self,
        name: impl Into<String>,
        parent: Option<usize>,
        offset: DAffine3,
        rest: Turn,
    ) -> usize {
        self.bones.push(RigBone { name: name.into(), parent, offset, rest });
        self.bones.len() - 1
    }

    /// Adds a bone that continues its parent's line, `along` metres from the parent's start.
    pub(super) fn add_along(&mut self, name: impl Into<String>, parent: usize, along: f64, rest: Turn) -> usize {
        self.add(name, Some(parent), DAffine3::from_translation(DVec3::Y * along), rest)
    }

    pub(super) fn rest(&self) -> Vec<Turn> {
        self.bones.iter().map(|bone| bone.rest).collect()
    }

    /// The rest turns with `changes` added.
    pub(super) fn rest_plus(&self, changes: &[(usize, Turn)]) -> Vec<Turn> {
        let mut turns = self.rest();
        for &(bone, turn) in changes {
            turns[bone] = turns[bone].plus(turn);
        }
        turns
    }

    /// Global transforms of the bones, (J).
    pub(super) fn globals(&self, turns: &[Turn], root: DAffine3) -> Vec<DAffine3> {
        let mut globals: Vec<DAffine3> = Vec::with_capacity(self.bones.len());
        for (bone, turn) in self.bones.iter().zip(turns) {
            let parent = bone.parent.map_or(root, |parent| globals[parent]);
            globals.push(parent * bone.offset * DAffine3::from_quat(turn.rotation()));
        }
        globals
    }
}

/// The frame at `origin` whose Y points along `y` and whose Z is as near to `z` as can be.
pub(super) fn frame(origin: DVec3, y: DVec3, z: DVec3) -> DAffine3 {
    let y = y.normalize();
    let x = y.cross(z).normalize();
    DAffine3 { matrix3: DMat3::from_cols(x, y, x.cross(y)), translation: origin }
}
