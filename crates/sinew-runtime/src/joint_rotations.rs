//! The joints' rotations of a pose, `θ̃_b = log(Q_parent(b)ᵀ Q_b)`: what learned deformers regress on.
//!
//! The f32 twin of the fit's type of the same name. Q_b is the rotation of `T_b` in the root's frame; the root is its
//! own parent, so its θ̃ is nil. The logarithm is taken on the branch nearest to a stored reference a joint.

use core::f32::consts::TAU;

use glam::{Mat3A, Quat, Vec3, Vec3A};

use crate::character::check_finite;
use crate::file::{TensorReader, TensorWriter};
use crate::{Character, ModelError, PosedSkeleton};

/// Numbers that predictors see of a joint: three of first order in its rotation, six of second.
pub const FEATURES: usize = 9;

/// What the fit knows of the joints: the branch references and the ranges it was trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct JointRanges {
    /// The log that each joint's rotations are taken nearest to, (J).
    pub reference: Vec<[f32; 3]>,
    /// The smallest trained value of each component of `θ̃_b`, radians, (J).
    pub low: Vec<[f32; 3]>,
    /// The largest trained value of each component of `θ̃_b`, radians, (J).
    pub high: Vec<[f32; 3]>,
}

impl JointRanges {
    pub(crate) fn check(&self, name: &str, bones: usize) -> Result<(), ModelError> {
        for (part, values) in [("reference", &self.reference), ("low", &self.low), ("high", &self.high)] {
            if values.len() != bones {
                return Err(ModelError::Shape {
                    name: format!("{name}.{part}"),
                    found: format!("{} joints", values.len()),
                    expected: format!("{bones} joints"),
                });
            }
            check_finite(&format!("{name}.{part}"), values.as_flattened())?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, name: &str, writer: &mut TensorWriter) {
        for (part, values) in [("reference", &self.reference), ("low", &self.low), ("high", &self.high)] {
            writer.f32(&format!("{name}.{part}"), &[values.len(), 3], values.as_flattened());
        }
    }

    pub(crate) fn read(name: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        let part = |part: &str| -> Result<Vec<[f32; 3]>, ModelError> {
            Ok(crate::file::to_triples(&reader.f32(&format!("{name}.{part}"), &[None, Some(3)])?))
        };
        Ok(Self { reference: part("reference")?, low: part("low")?, high: part("high")? })
    }
}

/// Joint rotations of one pose; reused from frame to frame, without allocating.
#[derive(Debug, Clone, Default)]
pub struct JointRotations {
    /// The parent of each bone, the root its own, (J).
    parents: Vec<usize>,
    /// `Q_b` in the root's frame, (J).
    pub bones: Vec<Mat3A>,
    /// `θ̃_b`, radians, (J).
    pub logs: Vec<Vec3A>,
    /// What predictors see of each joint, (J): see [`features`].
    pub features: Vec<[f32; FEATURES]>,
}

impl JointRotations {
    /// Room for the poses of `character`.
    #[must_use]
    pub fn new(character: &Character) -> Self {
        let bones = character.bones.len();
        Self {
            parents: character.bones.iter().enumerate().map(|(b, bone)| bone.parent.unwrap_or(b)).collect(),
            bones: vec![Mat3A::IDENTITY; bones],
            logs: vec![Vec3A::ZERO; bones],
            features: vec![[0.0; FEATURES]; bones],
        }
    }

    /// Takes a pose; `reference` holds the branch reference of each joint, (J).
    pub fn set(&mut self, posed: &PosedSkeleton, reference: &[[f32; 3]]) {
        self.set_rotations(posed);
        for b in 0..self.bones.len() {
            self.set_log(b, reference);
        }
    }

    fn set_rotations(&mut self, posed: &PosedSkeleton) {
        for (b, rotation) in self.bones.iter_mut().enumerate() {
            *rotation = posed.seen_rotation(b);
        }
    }

    fn set_log(&mut self, b: usize, reference: &[[f32; 3]]) {
        self.logs[b] = self.log(b, reference);
        self.features[b] = features(self.logs[b]);
    }

    fn log(&self, b: usize, reference: &[[f32; 3]]) -> Vec3A {
        self.log_of(b, reference, |b| self.bones[b])
    }

    fn log_of(&self, b: usize, reference: &[[f32; 3]], rotation: impl Fn(usize) -> Mat3A) -> Vec3A {
        let relative = rotation(self.parents[b]).transpose() * rotation(b);
        log_near(relative, Vec3A::from_array(reference[b]))
    }

    /// The parent of bone `b`; the root is its own.
    #[must_use]
    pub fn parent(&self, b: usize) -> usize {
        self.parents[b]
    }

    /// How far outside the trained ranges the pose lies: the joint that is farthest out, and by how many radians; nothing
    /// if every joint is within its range. `rotation` gives each bone's in the root's frame.
    pub(crate) fn outside(&self, ranges: &JointRanges, rotation: impl Fn(usize) -> Mat3A) -> Option<(usize, f32)> {
        let excess = |b: usize| {
            let (low, high) = (Vec3A::from_array(ranges.low[b]), Vec3A::from_array(ranges.high[b]));
            let log = self.log_of(b, &ranges.reference, &rotation);
            ((low - log).max(log - high)).max(Vec3A::ZERO).length()
        };
        // Rounding of a trained pose is not outside.
        (0..self.logs.len()).map(|b| (b, excess(b))).filter(|&(_, by)| by > 1e-3).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// The logarithm of `rotation` (axis times angle) nearest to `reference`.
#[must_use]
pub fn log_near(rotation: Mat3A, reference: Vec3A) -> Vec3A {
    let q = Quat::from_mat3a(&rotation);
    let (v, w) = if q.w < 0.0 { (-q.xyz(), -q.w) } else { (q.xyz(), q.w) };
    let v = Vec3A::from(v);
    let sine = v.length();
    // Below 1e-6 the axis is rounding; whole turns then lie along the reference.
    let (rho, axis) = if sine < 1e-6 {
        (v * 2.0, reference.normalize_or_zero())
    } else {
        (v * (2.0 * sine.atan2(w) / sine), v / sine)
    };
    let turns = (((reference - rho).dot(axis)) / TAU).round();
    rho + axis * (TAU * turns)
}

/// `φ(θ) = [θ, (1 − cos ‖θ‖)/‖θ‖² (θx², θy², θz², θxθy, θxθz, θyθz)]`: the rotation to first and second order, the second
/// bounded.
#[must_use]
pub fn features(theta: Vec3A) -> [f32; FEATURES] {
    let square = theta.length_squared();
    // Below 0.03 radians the series' next term, θ²/24, is less than the quotient's rounding.
    let factor = if square < 1e-3 { 0.5 - square / 24.0 } else { (1.0 - square.sqrt().cos()) / square };
    let [x, y, z] = theta.to_array();
    let f = |product: f32| factor * product;
    [x, y, z, f(x * x), f(y * y), f(z * z), f(x * y), f(x * z), f(y * z)]
}

/// The rotation by `‖rho‖` radians about `rho`.
#[must_use]
pub fn exp(rho: Vec3A) -> Mat3A {
    Mat3A::from_quat(Quat::from_scaled_axis(Vec3::from(rho)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_follows_the_reference() {
        let axis = Vec3A::new(0.36, -0.48, 0.8);
        for step in 0..70_u8 {
            let rho = axis * (0.1 * f32::from(step));
            let found = log_near(exp(rho), rho * 0.9);
            // 1e-3: beside π the logarithm keeps half of f32's digits.
            assert!((found - rho).length() < 1e-3, "{found} instead of {rho}");
        }
    }

    #[test]
    fn the_logarithm_undoes_the_exponential() {
        for rho in [Vec3A::ZERO, Vec3A::new(1e-7, 0.0, 0.0), Vec3A::new(0.3, -1.0, 0.2), Vec3A::new(2.0, 2.0, 0.5)] {
            assert!((log_near(exp(rho), Vec3A::ZERO) - rho).length() < 2e-6);
        }
    }
}
