//! Linear blend skinning (SSD): `v = Σ_b w_b T_b v̂`. The weights are the character's own.

use super::{Cost, Scratch};
use crate::file::{TensorReader, TensorWriter};
use crate::{Character, ModelError, PosedSkeleton, Skin};
use glam::{Affine3A, Vec3A};

/// Linear blend skinning with the character's weights.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearBlend;

impl LinearBlend {
    pub(crate) const KIND: &'static str = "linear-blend";

    pub(crate) fn check(&self, _character: &Character) -> Result<(), ModelError> {
        Ok(())
    }

    pub(crate) fn cost(&self, character: &Character) -> Cost {
        skinning_cost(&character.skin)
    }

    pub(crate) fn scratch(&self, _character: &Character) -> Scratch {
        Scratch::default()
    }

    pub(crate) fn deform(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        _scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        skin_positions(&character.skin, &posed.world, &character.rest_positions, out);
    }

    pub(crate) fn write(&self, _writer: &mut TensorWriter) {}

    pub(crate) fn read(_reader: &TensorReader) -> Result<Self, ModelError> {
        Ok(Self)
    }
}

/// Palette skinning: every vertex by the weighted sum of its matrices.
pub(crate) fn skin_positions(skin: &Skin, palette: &[Affine3A], rest: &[[f32; 3]], out: &mut [[f32; 3]]) {
    for (v, (rest, out)) in rest.iter().zip(out).enumerate() {
        let rest = Vec3A::from_array(*rest);
        let mut sum = Vec3A::ZERO;
        for (joint, weight) in skin.vertex(v) {
            sum += weight * palette[joint].transform_point3a(rest);
        }
        *out = sum.to_array();
    }
}

/// Per influence: blending a 3×4 matrix, 24 operations; then 18 for the product with the vertex.
pub(crate) fn skinning_cost(skin: &Skin) -> Cost {
    let vertices = skin.vertex_count() as u64;
    let influences = skin.weights.iter().filter(|&&w| w != 0.0).count() as u64;
    Cost { flops: 24 * influences + 18 * vertices, bytes: vertices * (12 + 6 * skin.width as u64) }
}
