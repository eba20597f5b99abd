//! Predictors of deformation gradients, all nine entries linear in two joints' rotations (Anguelov, Srinivasan, Koller,
//! Thrun, Rodgers and Davis, "SCAPE: shape completion and animation of people", 2005, section 4):
//!
//!   D(q) = Q_part (I + A x),   x = [θ̃_{b₁} θ̃_{b₂} 1]
//!
//! Q_part is the rotation of the bone that carries the triangle.

use glam::{Mat3A, Vec3A};

use super::Cost;
use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};
use crate::joint_rotations::JointRotations;
use crate::{Character, ModelError};

/// K predictors, each of a 3×3 gradient from two joints.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearGradients {
    /// The bone that carries the triangle, (K).
    pub frames: Vec<u16>,
    /// The joints whose θ̃ a predictor sees, (K, 2); an unused one repeats the first with zero columns.
    pub joints: Vec<u16>,
    /// A, (K, 9, 7) row by row: the rows are the entries of `Q_partᵀ D − I` column by column, the columns two joints' θ̃
    /// and the constant.
    pub entries: Vec<f32>,
}

impl LinearGradients {
    /// Joints that a predictor sees.
    pub const JOINTS: usize = 2;

    /// Columns of A.
    pub const COLUMNS: usize = 3 * Self::JOINTS + 1;

    /// The number of predictors, K.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The gradient of predictor `k` in the root's frame.
    #[must_use]
    pub fn gradient(&self, k: usize, joints: &JointRotations) -> Mat3A {
        let mut x = [1.0; Self::COLUMNS];
        for (x, &b) in x.as_chunks_mut::<3>().0.iter_mut().zip(&self.joints[k * Self::JOINTS..]) {
            x.copy_from_slice(&joints.features[b as usize][..3]);
        }
        let size = 9 * Self::COLUMNS;
        let rows = self.entries[k * size..(k + 1) * size].chunks_exact(Self::COLUMNS);
        let mut d = Mat3A::IDENTITY.to_cols_array();
        for (entry, row) in d.iter_mut().zip(rows) {
            *entry += row.iter().zip(&x).map(|(a, x)| a * x).sum::<f32>();
        }
        let [a, b, c] = [0, 3, 6].map(|at| Vec3A::from_slice(&d[at..]));
        joints.bones[self.frames[k] as usize] * Mat3A::from_cols(a, b, c)
    }

    pub(crate) fn check(&self, name: &str, character: &Character) -> Result<(), ModelError> {
        let (count, bones) = (self.len(), character.bones.len());
        for (part, found, expected) in [
            ("joints", self.joints.len(), count * Self::JOINTS),
            ("entries", self.entries.len(), count * 9 * Self::COLUMNS),
        ] {
            if found != expected {
                return Err(ModelError::Shape {
                    name: format!("{name}.{part}"),
                    found: format!("{found} entries"),
                    expected: format!("{expected} entries"),
                });
            }
        }
        check_indices(&format!("{name}.frames"), self.frames.iter().map(|&b| b as usize), bones)?;
        check_indices(&format!("{name}.joints"), self.joints.iter().map(|&b| b as usize), bones)?;
        check_finite(&format!("{name}.entries"), &self.entries)
    }

    /// Per predictor: nine rows of seven multiply-adds and a 3×3 product (45).
    pub(crate) fn cost(&self) -> Cost {
        let (count, columns) = (self.len() as u64, Self::COLUMNS as u64);
        Cost { flops: count * (18 * columns + 45), bytes: count * (36 * columns + 2 * (1 + Self::JOINTS as u64)) }
    }

    pub(crate) fn write(&self, name: &str, writer: &mut TensorWriter) {
        let count = self.len();
        writer.u16(&format!("{name}.frames"), &[count], &self.frames);
        writer.u16(&format!("{name}.joints"), &[count, Self::JOINTS], &self.joints);
        writer.f32(&format!("{name}.entries"), &[count, 9, Self::COLUMNS], &self.entries);
    }

    pub(crate) fn read(name: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        let frames = reader.u16(&format!("{name}.frames"), &[None])?;
        let count = Some(frames.len());
        Ok(Self {
            joints: reader.u16(&format!("{name}.joints"), &[count, Some(Self::JOINTS)])?,
            entries: reader.f32(&format!("{name}.entries"), &[count, Some(9), Some(Self::COLUMNS)])?,
            frames,
        })
    }
}
