//! Multi-weight enveloping (Wang and Phillips, "Multi-weight enveloping: least-squares approximation techniques for
//! skin animation", 2002): every entry of every bone's matrix has a weight of its own,
//!
//!   v_i = c_i + Σ_b Σ_s u_b[i,s] T_b[i,s],   i = x, y, z,  s = x, y, z, translation.
//!
//! The u are the paper's weights times the rest position (Merry et al. 2006, eq. 10: nothing is lost, and a rest
//! position need not be read). `c` is the constant column that the published form lacks; there it is zero. The
//! components i are the root bone's own axes, since along world axes the result would change as the character turns.

use super::{AnimationSpace, Cost, Scratch};
use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter, to_rows};
use crate::posed::rigid_part;
use crate::{Character, ModelError, PosedSkeleton};
use glam::{Affine3A, Vec3, Vec4};

/// Twelve weights a bone: `width` (joint, u) pairs a vertex, unused ones with u = 0 at joint 0.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiWeight {
    /// Pairs a vertex, K.
    pub width: usize,
    /// Joint indices, (V, K).
    pub joints: Vec<u16>,
    /// Weights of a 3×4 matrix row by row, premultiplied by the rest position, (V, K, 12).
    pub weights: Vec<[f32; 12]>,
    /// The constant part in the root's frame, (V).
    pub constants: Vec<[f32; 3]>,
}

impl MultiWeight {
    pub(crate) const KIND: &'static str = "multi-weight";

    /// The (joint, u) pairs of vertex `v` that count.
    pub fn vertex(&self, v: usize) -> impl Iterator<Item = (usize, [f32; 12])> + '_ {
        let range = v * self.width..(v + 1) * self.width;
        let pairs = self.joints[range.clone()].iter().zip(&self.weights[range]);
        pairs.map(|(&joint, &u)| (joint as usize, u)).filter(|&(_, u)| u != [0.0; 12])
    }

    /// The number of vertices, V.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.constants.len()
    }

    /// Animation space as multi-weight enveloping (Merry et al. 2006, §4.3): every row of `u_b` is p_b in the root's
    /// rest frame.
    #[must_use]
    pub fn from_animation_space(skin: &AnimationSpace, character: &Character) -> Self {
        let to_root = rigid_part(character.bones[character.root()].rest).inverse();
        let weights = skin.coordinates.iter().map(|&[x, y, z, w]| {
            let point = Vec3::from(to_root.matrix3 * glam::Vec3A::new(x, y, z) + to_root.translation * w);
            let row = [point.x, point.y, point.z, w];
            std::array::from_fn(|k| row[k % 4])
        });
        Self {
            width: skin.width,
            joints: skin.joints.clone(),
            weights: weights.collect(),
            constants: vec![[0.0; 3]; character.vertex_count()],
        }
    }

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        let vertices = character.vertex_count();
        let sizes = [
            ("joints", self.joints.len(), vertices * self.width),
            ("weights", self.weights.len(), vertices * self.width),
            ("constants", self.constants.len(), vertices),
        ];
        for (part, len, expected) in sizes {
            if self.width == 0 || len != expected {
                return Err(ModelError::Shape {
                    name: format!("multi_weight.{part}"),
                    found: format!("{len} entries"),
                    expected: format!("{expected}"),
                });
            }
        }
        let joints = self.joints.iter().map(|&j| j as usize);
        check_indices("multi_weight.joints", joints, character.bones.len())?;
        check_finite("multi_weight.weights", self.weights.as_flattened())?;
        check_finite("multi_weight.constants", self.constants.as_flattened())
    }

    pub(crate) fn cost(&self, character: &Character) -> Cost {
        // Twelve multiply-adds a pair; the root's frame, 9 multiply-adds, a vertex.
        let vertices = character.vertex_count() as u64;
        let pairs = self.weights.iter().filter(|u| **u != [0.0; 12]).count() as u64;
        Cost { flops: 24 * pairs + 18 * vertices, bytes: vertices * (12 + 50 * self.width as u64) }
    }

    pub(crate) fn scratch(&self, character: &Character) -> Scratch {
        Scratch { rows: vec![[Vec4::ZERO; 3]; character.bones.len()], ..Scratch::default() }
    }

    pub(crate) fn deform(
        &self,
        _character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        for (rows, &transform) in scratch.rows.iter_mut().zip(&posed.relative) {
            let flat = to_rows(transform);
            *rows = std::array::from_fn(|i| Vec4::from_slice(&flat[4 * i..4 * i + 4]));
        }
        envelop(self, &scratch.rows, posed.frame, out);
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        let vertices = self.vertex_count();
        writer.u16("multi_weight.joints", &[vertices, self.width], &self.joints);
        writer.f32("multi_weight.weights", &[vertices, self.width, 12], self.weights.as_flattened());
        writer.f32("multi_weight.constants", &[vertices, 3], self.constants.as_flattened());
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        let width = reader.width("multi_weight.joints");
        let weights = reader.f32("multi_weight.weights", &[None, Some(width), Some(12)])?;
        Ok(Self {
            width,
            joints: reader.u16("multi_weight.joints", &[None, Some(width)])?,
            weights: weights.as_chunks().0.to_vec(),
            constants: reader.f32("multi_weight.constants", &[None, Some(3)])?.as_chunks().0.to_vec(),
        })
    }
}

/// `rows` are the bones' matrices in the root's frame, row by row, (J); `frame` takes the root's frame to the world.
fn envelop(skin: &MultiWeight, rows: &[[Vec4; 3]], frame: Affine3A, out: &mut [[f32; 3]]) {
    let pairs = skin.joints.chunks_exact(skin.width).zip(skin.weights.chunks_exact(skin.width));
    for (((joints, weights), constant), out) in pairs.zip(&skin.constants).zip(out) {
        let mut sums = [Vec4::ZERO; 3];
        for (&joint, u) in joints.iter().zip(weights) {
            let matrix = &rows[joint as usize];
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum += matrix[i] * Vec4::from_slice(&u[4 * i..4 * i + 4]);
            }
        }
        let local = Vec3::from_array(*constant) + Vec3::from_array(sums.map(Vec4::element_sum));
        *out = frame.transform_point3(local).to_array();
    }
}
