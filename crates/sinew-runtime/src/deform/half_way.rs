//! Linear blend skinning over more joints than the skeleton has (Mohr and Gleicher, "Building efficient, accurate character
//! skins from examples", 2003): joints that turn half-way, and copies of bones that swell or shrink as a joint bends.
//!
//! A part-way joint at bone b (rest origin o_b, both in the root's frame) has the rotation `Q_p exp(t θ̃_b)`, t a half or,
//! half-way once more, a quarter or three quarters; θ̃_b is on the branch nearest to a reference, so that a twist past 180°
//! does not turn back. It carries o_b where bone b carries it. A scaled copy of a bone multiplies distances from an axis through o with
//! direction a by `1 + gain (1 − cos δ)/2`, δ the angle of the joint.

use glam::{Affine3A, Mat3A, Quat, Vec3A};

use super::linear_blend::{skin_positions, skinning_cost};
use super::{Cost, Scratch};
use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};
use crate::joint_rotations::{exp, log_near};
use crate::posed::nearest_rotation;
use crate::{Character, ModelError, PosedSkeleton, Skin};

/// Linear blend skinning over bones and extra joints.
#[derive(Debug, Clone, PartialEq)]
pub struct HalfWay {
    /// The extra joints, (E).
    pub extras: Vec<ExtraJoint>,
    /// Weights over bones 0..J and extra joints J..J + E.
    pub skin: Skin,
}

/// A joint that follows the skeleton by a rule. Points and directions are in the root's rest frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExtraJoint {
    /// Turns a part of the way that the joint of `bone` does.
    PartWay {
        /// The bone.
        bone: u16,
        /// The joint's rest position o.
        origin: [f32; 3],
        /// The joint's rotation is taken on the branch of the logarithm nearest to this one, radians.
        reference: [f32; 3],
        /// The part t; a half turns half-way.
        part: f32,
    },
    /// Moves with `carrier` and scales across an axis as the joint of `bone` bends.
    Scaled {
        /// The bone whose joint bends.
        bone: u16,
        /// The bone that is copied.
        carrier: u16,
        /// A point of the axis.
        origin: [f32; 3],
        /// The axis' direction, of length one.
        axis: [f32; 3],
        /// How much distances from the axis grow at 180°: 1 doubles them.
        gain: f32,
    },
}

impl ExtraJoint {
    /// The transform in the root's frame, rest to posed.
    #[must_use]
    pub fn transform(&self, character: &Character, posed: &PosedSkeleton) -> Affine3A {
        let rotation = |b: usize| nearest_rotation(posed.relative[b].matrix3);
        let joint = |b: usize| match character.bones[b].parent {
            Some(parent) => (rotation(parent), rotation(parent).transpose() * rotation(b)),
            None => (rotation(b), Mat3A::IDENTITY),
        };
        match *self {
            Self::PartWay { bone, origin, reference, part } => {
                let (parent, turn) = joint(bone as usize);
                let theta = log_near(turn, Vec3A::from_array(reference));
                let matrix3 = parent * exp(theta * part);
                let origin = Vec3A::from_array(origin);
                let at = posed.relative[bone as usize].transform_point3a(origin);
                Affine3A { matrix3, translation: at - matrix3 * origin }
            }
            Self::Scaled { bone, carrier, origin, axis, gain } => {
                let (_, turn) = joint(bone as usize);
                // (1 − cos δ)/2 = sin²(δ/2).
                let grown = gain * Quat::from_mat3a(&turn).xyz().length_squared();
                let (a, origin) = (Vec3A::from_array(axis), Vec3A::from_array(origin));
                let across = Mat3A::IDENTITY - Mat3A::from_cols(a * a.x, a * a.y, a * a.z);
                let scale = Mat3A::IDENTITY + across * grown;
                posed.relative[carrier as usize] * Affine3A { matrix3: scale, translation: origin - scale * origin }
            }
        }
    }

    fn bones(&self) -> [usize; 2] {
        match *self {
            Self::PartWay { bone, .. } => [bone as usize; 2],
            Self::Scaled { bone, carrier, .. } => [bone as usize, carrier as usize],
        }
    }

    /// bone, carrier, kind; then origin, axis or reference, gain or part. Kind 0, which is no longer written, is half-way
    /// on the shorter way.
    fn numbers(&self) -> ([u32; 3], [f32; 7]) {
        match *self {
            Self::PartWay { bone, origin: [x, y, z], reference: [a, b, c], part } => {
                ([bone.into(), bone.into(), 2], [x, y, z, a, b, c, part])
            }
            Self::Scaled { bone, carrier, origin: [x, y, z], axis: [a, b, c], gain } => {
                ([bone.into(), carrier.into(), 1], [x, y, z, a, b, c, gain])
            }
        }
    }
}

impl HalfWay {
    pub(crate) const KIND: &'static str = "half-way";

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        let bones = character.bones.len();
        for extra in &self.extras {
            check_indices("extras.bones", extra.bones(), bones)?;
            check_finite("extras.shapes", &extra.numbers().1)?;
        }
        self.skin.check("extras_skin", character.vertex_count(), bones + self.extras.len())
    }

    pub(crate) fn cost(&self, _character: &Character) -> Cost {
        let skinning = skinning_cost(&self.skin);
        // Two polar decompositions, a quaternion and two products, about 400 operations an extra joint.
        let extras = self.extras.len() as u64;
        Cost { flops: skinning.flops + 400 * extras, bytes: skinning.bytes + 40 * extras }
    }

    pub(crate) fn scratch(&self, character: &Character) -> Scratch {
        Scratch { palette: vec![Affine3A::IDENTITY; character.bones.len() + self.extras.len()], ..Scratch::default() }
    }

    pub(crate) fn deform(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        self.pose_palette(character, posed, scratch);
        skin_positions(&self.skin, &scratch.palette, &character.rest_positions, out);
    }

    /// Fills `scratch.palette` (J + E) with transforms from the rest mesh to the posed one, both in the world.
    pub(crate) fn pose_palette(&self, character: &Character, posed: &PosedSkeleton, scratch: &mut Scratch) {
        let (bones, extras) = scratch.palette.split_at_mut(posed.world.len());
        bones.copy_from_slice(&posed.world);
        let from_world = posed.rest_frame.inverse();
        for (transform, extra) in extras.iter_mut().zip(&self.extras) {
            *transform = posed.frame * extra.transform(character, posed) * from_world;
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        let numbers: Vec<_> = self.extras.iter().map(ExtraJoint::numbers).collect();
        let bones: Vec<u32> = numbers.iter().flat_map(|n| n.0).collect();
        let shapes: Vec<f32> = numbers.iter().flat_map(|n| n.1).collect();
        writer.u32("extras.bones", &[numbers.len(), 3], &bones);
        writer.f32("extras.shapes", &[numbers.len(), 7], &shapes);
        writer.skin("extras_skin", &self.skin);
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        let bones = reader.u32("extras.bones", &[None, Some(3)])?;
        let shapes = reader.f32("extras.shapes", &[Some(bones.len() / 3), Some(7)])?;
        let bone = |b: u32| {
            u16::try_from(b).map_err(|_| ModelError::Format(format!("an extra joint names bone {b}, beyond 65,535")))
        };
        let mut extras = Vec::with_capacity(bones.len() / 3);
        for (b, s) in bones.chunks_exact(3).zip(shapes.chunks_exact(7)) {
            let (origin, reference) = ([s[0], s[1], s[2]], [s[3], s[4], s[5]]);
            extras.push(match b[2] {
                0 => ExtraJoint::PartWay { bone: bone(b[0])?, origin, reference: [0.0; 3], part: 0.5 },
                2 => ExtraJoint::PartWay { bone: bone(b[0])?, origin, reference, part: s[6] },
                1 => {
                    let (axis, gain) = (reference, s[6]);
                    ExtraJoint::Scaled { bone: bone(b[0])?, carrier: bone(b[1])?, origin, axis, gain }
                }
                kind => return Err(ModelError::Format(format!("its extra joints have the unknown kind {kind}"))),
            });
        }
        Ok(Self { extras, skin: reader.skin("extras_skin")? })
    }
}
