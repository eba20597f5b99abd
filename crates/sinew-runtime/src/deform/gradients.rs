//! Predictors of deformation gradients from joint rotations (Wang, Pulli and Popović, "Real-time enveloping with
//! rotational regression", 2007, section 4):
//!
//!   D(q) = Q_frame exp(ρ̃) S,   ρ̃ = M x,   S = I + sym(H x),   x = [φ(θ̃_{b₁}) … φ(θ̃_{b_W}) 1]
//!
//! φ gives the joint's rotation to first order (3 features) or to second (9), see [`features`](crate::joint_rotations::features).
//! The paper's `u W θ̃_b` is the M whose first three columns are uW and whose others are zero; the second joint takes part
//! in the same exponential, so that a predictor costs one rotation. S is symmetric: six rows suffice.

use glam::{Mat3A, Vec3A};

use super::Cost;
use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};
use crate::joint_rotations::{FEATURES, JointRotations, exp};
use crate::{Character, ModelError};

/// K predictors, each of a 3×3 gradient from W joints.
#[derive(Debug, Clone, PartialEq)]
pub struct GradientPredictors {
    /// Joints a predictor, W.
    pub width: usize,
    /// Features a joint, 3 or 9.
    pub features: usize,
    /// The bone whose rotation carries the predicted one, (K).
    pub frames: Vec<u16>,
    /// The joints whose θ̃ a predictor sees, (K, W); an unused one repeats the first with zero columns.
    pub joints: Vec<u16>,
    /// M, (K, 3, C), C = W · features + 1, row by row: the columns of each joint's features and one for the constant.
    pub rotation: Vec<f32>,
    /// H, (K, 6, C), row by row: the entries xx, yy, zz, xy, xz, yz of S − I.
    pub stretch: Vec<f32>,
}

impl GradientPredictors {
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

    /// The columns of M and H, C = W · features + 1.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.features * self.width + 1
    }

    /// Whether any coefficient of predictor `k` belongs to its joint number `w`.
    pub(crate) fn uses(&self, k: usize, w: usize) -> bool {
        let columns = self.columns();
        let own = w * self.features..(w + 1) * self.features;
        let any = |rows: &[f32]| rows.chunks_exact(columns).any(|row| row[own.clone()].iter().any(|&x| x != 0.0));
        any(&self.rotation[k * 3 * columns..(k + 1) * 3 * columns])
            || any(&self.stretch[k * 6 * columns..(k + 1) * 6 * columns])
    }

    /// The gradient of predictor `k` in the root's frame.
    #[must_use]
    pub fn gradient(&self, k: usize, joints: &JointRotations) -> Mat3A {
        let columns = self.columns();
        let rotation = &self.rotation[k * 3 * columns..(k + 1) * 3 * columns];
        let stretch = &self.stretch[k * 6 * columns..(k + 1) * 6 * columns];
        let last = columns - 1;
        let mut rho: [f32; 3] = std::array::from_fn(|row| rotation[row * columns + last]);
        let mut s: [f32; 6] = std::array::from_fn(|row| stretch[row * columns + last]);
        for (w, &b) in self.joints[k * self.width..(k + 1) * self.width].iter().enumerate() {
            let x = &joints.features[b as usize][..self.features];
            let start = |row: usize| row * columns + w * self.features;
            let dot = |row: &[f32]| row.iter().zip(x).map(|(a, b)| a * b).sum::<f32>();
            for (row, rho) in rho.iter_mut().enumerate() {
                *rho += dot(&rotation[start(row)..][..self.features]);
            }
            for (row, s) in s.iter_mut().enumerate() {
                *s += dot(&stretch[start(row)..][..self.features]);
            }
        }
        self.gradient_of(k, joints, rho, s)
    }

    /// `Q_frame exp(ρ̃) (I + sym s)`.
    fn gradient_of(&self, k: usize, joints: &JointRotations, rho: [f32; 3], s: [f32; 6]) -> Mat3A {
        let [xx, yy, zz, xy, xz, yz] = s;
        let stretch =
            Mat3A::from_cols(Vec3A::new(1.0 + xx, xy, xz), Vec3A::new(xy, 1.0 + yy, yz), Vec3A::new(xz, yz, 1.0 + zz));
        joints.bones[self.frames[k] as usize] * exp(Vec3A::from_array(rho)) * stretch
    }

    pub(crate) fn check(&self, name: &str, character: &Character) -> Result<(), ModelError> {
        let (count, columns, bones) = (self.len(), self.columns(), character.bones.len());
        if self.features != 3 && self.features != FEATURES {
            return Err(ModelError::Shape {
                name: format!("{name}.rotation"),
                found: format!("{} features a joint", self.features),
                expected: format!("3 or {FEATURES}"),
            });
        }
        for (part, found, expected) in [
            ("joints", self.joints.len(), count * self.width),
            ("rotation", self.rotation.len(), count * 3 * columns),
            ("stretch", self.stretch.len(), count * 6 * columns),
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
        check_finite(&format!("{name}.rotation"), &self.rotation)?;
        check_finite(&format!("{name}.stretch"), &self.stretch)
    }

    /// Per predictor: nine rows of C multiply-adds, an exponential (about 40) and two 3×3 products (90).
    pub(crate) fn cost(&self) -> Cost {
        let (count, columns) = (self.len() as u64, self.columns() as u64);
        Cost { flops: count * (18 * columns + 130), bytes: count * (36 * columns + 2 * (1 + self.width as u64)) }
    }

    pub(crate) fn write(&self, name: &str, writer: &mut TensorWriter) {
        let (count, columns) = (self.len(), self.columns());
        writer.u16(&format!("{name}.frames"), &[count], &self.frames);
        writer.u16(&format!("{name}.joints"), &[count, self.width], &self.joints);
        writer.f32(&format!("{name}.rotation"), &[count, 3, columns], &self.rotation);
        writer.f32(&format!("{name}.stretch"), &[count, 6, columns], &self.stretch);
    }

    pub(crate) fn read(name: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        let frames = reader.u16(&format!("{name}.frames"), &[None])?;
        let joints = reader.u16(&format!("{name}.joints"), &[Some(frames.len()), None])?;
        // Without predictors neither width nor features can be told, nor do they matter.
        let width = joints.len().checked_div(frames.len()).unwrap_or(1).max(1);
        let rotation = reader.f32(&format!("{name}.rotation"), &[Some(frames.len()), Some(3), None])?;
        let columns = rotation.len().checked_div(3 * frames.len()).unwrap_or(3 * width + 1);
        let stretch = reader.f32(&format!("{name}.stretch"), &[Some(frames.len()), Some(6), Some(columns)])?;
        Ok(Self { width, features: columns.saturating_sub(1) / width, frames, joints, rotation, stretch })
    }
}
