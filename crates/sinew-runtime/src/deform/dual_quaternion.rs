//! Dual quaternion skinning (Kavan, Collins, Žára and O'Sullivan, "Skinning with dual quaternions", 2007) with the
//! character's weights. Bones' scale is dropped: a dual quaternion holds a rigid motion only.

use super::{Cost, Scratch};
use crate::file::{TensorReader, TensorWriter};
use crate::kernel::dual::Dual;
use crate::kernel::lanes::Row;
use crate::posed::rigid_part;
use crate::{Character, ModelError, PosedSkeleton};
use glam::{Affine3A, Quat, Vec3, Vec4};

/// Dual quaternion skinning with the character's weights.
#[derive(Debug, Clone, PartialEq)]
pub struct DualQuaternion;

impl DualQuaternion {
    pub(crate) const KIND: &'static str = "dual-quaternion";

    pub(crate) fn check(&self, _character: &Character) -> Result<(), ModelError> {
        Ok(())
    }

    pub(crate) fn cost(&self, character: &Character) -> Cost {
        let vertices = character.vertex_count() as u64;
        let influences = character.skin.weights.iter().filter(|&&w| w != 0.0).count() as u64;
        // Per influence: a sign test (7) and eight multiply-adds; per vertex: normalising (24) and the product (54).
        let bytes = vertices * (12 + 6 * character.skin.width as u64);
        Cost { flops: 23 * influences + 78 * vertices, bytes }
    }

    pub(crate) fn scratch(&self, character: &Character) -> Scratch {
        Scratch { dual: vec![Dual::default(); character.bones.len()], ..Scratch::default() }
    }

    pub(crate) fn deform(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        self.palette(posed, scratch);
        let inverse_rest_frame = posed.rest_frame.inverse();
        for (v, (rest, out)) in character.rest_positions.iter().zip(out).enumerate() {
            let rest = inverse_rest_frame.transform_point3(Vec3::from_array(*rest));
            let blended = blend(&scratch.dual, character.skin.vertex(v));
            *out = posed.frame.transform_point3(transform_point(blended, rest)).to_array();
        }
    }

    /// The bones' dual quaternions: in the root's frame, where translations are small; the signs of antipodal sums
    /// then do not depend on where the character stands.
    pub(crate) fn palette(&self, posed: &PosedSkeleton, scratch: &mut Scratch) {
        for (dual, &transform) in scratch.dual.iter_mut().zip(&posed.relative) {
            *dual = to_dual(rigid_part(transform));
        }
    }

    pub(crate) fn write(&self, _writer: &mut TensorWriter) {}

    pub(crate) fn read(_reader: &TensorReader) -> Result<Self, ModelError> {
        Ok(Self)
    }
}

/// (real, dual) with dual = ½ t real.
pub(crate) fn to_dual(rigid: Affine3A) -> Dual {
    let real = Quat::from_mat3a(&rigid.matrix3);
    let t = Quat::from_vec4(Vec3::from(rigid.translation).extend(0.0));
    Row(bytemuck::cast([real.to_array(), ((t * real) * 0.5).to_array()]))
}

/// The weighted sum, each term on the side of the first (heaviest) one.
fn blend(dual: &[Dual], influences: impl Iterator<Item = (usize, f32)>) -> [Vec4; 2] {
    let mut pivot: Option<Vec4> = None;
    let mut sum = [Vec4::ZERO; 2];
    for (joint, weight) in influences {
        let [real, dual]: [Vec4; 2] = bytemuck::cast::<[f32; 8], [[f32; 4]; 2]>(dual[joint].0).map(Vec4::from_array);
        let pivot = *pivot.get_or_insert(real);
        let weight = if pivot.dot(real) < 0.0 { -weight } else { weight };
        sum[0] += weight * real;
        sum[1] += weight * dual;
    }
    sum
}

fn transform_point([real, dual]: [Vec4; 2], point: Vec3) -> Vec3 {
    let length = real.length();
    // Only opposite rotations of equal weight cancel; then no rotation is better than another.
    if length < 1e-12 {
        return point;
    }
    let real = Quat::from_vec4(real / length);
    let dual = Quat::from_vec4(dual / length);
    let translation = (dual * real.conjugate()).xyz() * 2.0;
    real * point + translation
}
