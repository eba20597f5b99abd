//! Animation space (Merry, Marais and Gain, "Animation space: a truly linear framework for character animation",
//! 2006): `v = Σ_b T_b p_b`, the p_b four numbers a bone and vertex whose last components sum to one.
//!
//! The paper writes `v = Σ G_b p_b` with p_b in bone b's own frame. Here p_b is kept in rest world coordinates, so
//! that the palette `T_b = G_b Ĝ_b⁻¹` is the one of linear blend skinning; the two differ by the constant Ĝ_b. Linear
//! blend skinning is the case `p_b = w_b (v̂, 1)`. Since the last components sum to one, a rigid motion of the whole
//! character moves the result by exactly that motion, without any work in the root's frame.

use super::{Cost, Scratch};
use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};
use crate::{Character, ModelError, PosedSkeleton};
use glam::{Affine3A, Vec3A};

/// How far the homogeneous weights of a vertex may be from summing to one: f32 rounding over a dozen terms of order
/// ten, far below anything that would show.
const WEIGHT_TOLERANCE: f32 = 1e-3;

/// Animation-space coordinates: `width` (joint, p) pairs a vertex, unused ones with p = 0 at joint 0.
#[derive(Debug, Clone, PartialEq)]
pub struct AnimationSpace {
    /// Pairs a vertex, K.
    pub width: usize,
    /// Joint indices, (V, K).
    pub joints: Vec<u16>,
    /// Coordinates in rest world space, premultiplied by the weight, (V, K): (x, y, z, w).
    pub coordinates: Vec<[f32; 4]>,
}

impl AnimationSpace {
    pub(crate) const KIND: &'static str = "animation-space";

    /// The (joint, p) pairs of vertex `v` that count.
    pub fn vertex(&self, v: usize) -> impl Iterator<Item = (usize, [f32; 4])> + '_ {
        let range = v * self.width..(v + 1) * self.width;
        let pairs = self.joints[range.clone()].iter().zip(&self.coordinates[range]);
        pairs.map(|(&joint, &p)| (joint as usize, p)).filter(|&(_, p)| p != [0.0; 4])
    }

    /// The number of vertices, V.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.joints.len() / self.width.max(1)
    }

    /// Linear blend skinning as animation space: `p_b = w_b (v̂, 1)`.
    #[must_use]
    pub fn from_linear_blend(character: &Character) -> Self {
        let skin = &character.skin;
        let coordinates = skin.weights.iter().enumerate().map(|(k, &w)| {
            let [x, y, z] = character.rest_positions[k / skin.width];
            [w * x, w * y, w * z, w]
        });
        Self { width: skin.width, joints: skin.joints.clone(), coordinates: coordinates.collect() }
    }

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        let entries = character.vertex_count() * self.width;
        for (part, len) in [("joints", self.joints.len()), ("coordinates", self.coordinates.len())] {
            if self.width == 0 || len != entries {
                return Err(ModelError::Shape {
                    name: format!("animation_space.{part}"),
                    found: format!("{len} entries"),
                    expected: format!("{} × {}", character.vertex_count(), self.width),
                });
            }
        }
        let joints = self.joints.iter().map(|&j| j as usize);
        check_indices("animation_space.joints", joints, character.bones.len())?;
        check_finite("animation_space.coordinates", self.coordinates.as_flattened())?;
        self.coordinates.chunks_exact(self.width).enumerate().try_for_each(|(v, points)| check_weights(v, points))
    }

    pub(crate) fn cost(&self, _character: &Character) -> Cost {
        projection_cost(&self.coordinates, self.width)
    }

    pub(crate) fn scratch(&self, _character: &Character) -> Scratch {
        Scratch::default()
    }

    pub(crate) fn deform(
        &self,
        _character: &Character,
        posed: &PosedSkeleton,
        _scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        project(self, &posed.world, out);
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        let vertices = self.vertex_count();
        writer.u16("animation_space.joints", &[vertices, self.width], &self.joints);
        let shape = [vertices, self.width, 4];
        writer.f32("animation_space.coordinates", &shape, self.coordinates.as_flattened());
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        let width = reader.width("animation_space.joints");
        let coordinates = reader.f32("animation_space.coordinates", &[None, Some(width), Some(4)])?;
        Ok(Self {
            width,
            joints: reader.u16("animation_space.joints", &[None, Some(width)])?,
            coordinates: coordinates.as_chunks().0.to_vec(),
        })
    }
}

/// Refuses the points of vertex `v` if their weights do not sum to one.
pub(super) fn check_weights(v: usize, points: &[[f32; 4]]) -> Result<(), ModelError> {
    let sum: f32 = points.iter().map(|p| p[3]).sum();
    let size: f32 = points.iter().map(|p| p[3].abs()).sum();
    if (sum - 1.0).abs() > WEIGHT_TOLERANCE * size.max(1.0) {
        return Err(ModelError::Format(format!("the homogeneous weights of vertex {v} sum to {sum} instead of 1")));
    }
    Ok(())
}

/// A 3×4 matrix times a vector, 12 multiply-adds, for every pair; no rest position and no weight to blend by.
pub(super) fn projection_cost(points: &[[f32; 4]], width: usize) -> Cost {
    let pairs = points.iter().filter(|p| **p != [0.0; 4]).count() as u64;
    Cost { flops: 24 * pairs, bytes: (points.len() / width.max(1) * 18 * width) as u64 }
}

/// Animation projection: every vertex the sum of its bones' matrices times their coordinates.
fn project(skin: &AnimationSpace, palette: &[Affine3A], out: &mut [[f32; 3]]) {
    let rows = skin.joints.chunks_exact(skin.width).zip(skin.coordinates.chunks_exact(skin.width));
    for ((joints, coordinates), out) in rows.zip(out) {
        let mut sum = Vec3A::ZERO;
        for (&joint, &[x, y, z, w]) in joints.iter().zip(coordinates) {
            let bone = &palette[joint as usize];
            sum += bone.matrix3 * Vec3A::new(x, y, z) + bone.translation * w;
        }
        *out = sum.to_array();
    }
}
