//! Pose-space deformation (Lewis, Cordner and Fong, "Pose space deformation: a unified approach to shape interpolation and
//! skeleton-driven deformation", 2000): linear blend skinning plus displacements that radial basis functions interpolate
//! over the poses, `v = Σ_b w_b T_b v̂ + Q_b Σ_e κ_e(q) c_e`.
//!
//! It is the correction layer ([`crate::correct`]) over plain skinning, made exact: where a training pose is met, its mesh
//! comes out. We differ from the paper in three places. Displacements stand in the rotated frame of the bone that carries
//! the vertex, because the blended matrix is singular where a joint twists by 180°. A region sees the joints that
//! predict it, not all of them. Joints, kernel widths and whether the rest mesh is an example are chosen by predicting each
//! pose from the others, not set by hand.

use super::ssd::SsdParams;
use crate::correct::{Closeness, CorrectionParams, Place};

/// How pose-space deformation is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct PsdParams {
    /// The skinning beneath.
    pub skin: SsdParams,
    /// The displacements over it.
    pub correction: CorrectionParams,
}

impl Default for PsdParams {
    fn default() -> Self {
        let correction = CorrectionParams { closeness: Closeness::Exact, ..CorrectionParams::new(Place::Vertices) };
        Self { skin: SsdParams::default(), correction }
    }
}
