//! Changes of units and axes, in one place.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Bone, Pose};

/// A change of space: `x ↦ scale · axes · x`, `axes` orthogonal (a mirror has determinant −1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Space {
    /// Metres a unit.
    pub scale: f64,
    /// Where the file's axes go.
    pub axes: DMat3,
}

impl Space {
    /// No change.
    pub const IDENTITY: Self = Self { scale: 1.0, axes: DMat3::IDENTITY };

    /// From Z up to Y up, right-handed: (x, y, z) ↦ (x, z, −y).
    pub const Z_UP: DMat3 = DMat3::from_cols(DVec3::X, DVec3::NEG_Z, DVec3::Y);

    /// The way back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { scale: 1.0 / self.scale, axes: self.axes.transpose() }
    }

    /// A point in the new space.
    #[must_use]
    pub fn point(&self, p: DVec3) -> DVec3 {
        self.axes * p * self.scale
    }

    /// A bone's global transform in the new space, without scaling the bone itself: `C G C_s⁻¹`, C the change and C_s
    /// its scale. Then `G Ĝ⁻¹` becomes `C (G Ĝ⁻¹) C⁻¹`, which is what points need. A mirror also mirrors the bone's own
    /// axes, so that rotations stay rotations.
    #[must_use]
    pub fn transform(&self, g: DAffine3) -> DAffine3 {
        let inner = if self.axes.determinant() < 0.0 {
            DMat3::from_diagonal(DVec3::new(-1.0, 1.0, 1.0))
        } else {
            DMat3::IDENTITY
        };
        DAffine3 { matrix3: self.axes * g.matrix3 * inner, translation: self.point(g.translation) }
    }

    /// Bones and poses in the new space.
    pub fn skeleton(&self, bones: &mut [Bone], poses: &mut [Pose]) {
        if *self == Self::IDENTITY {
            return;
        }
        for bone in bones {
            bone.rest = self.transform(bone.rest);
        }
        for global in poses.iter_mut().flat_map(|pose| &mut pose.globals) {
            *global = self.transform(*global);
        }
    }
}
