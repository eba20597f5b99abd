//! Animation-space coordinates in f64, as the fit makes them and the norm measures them.

use glam::{DAffine3, DVec3, DVec4};
use rayon::prelude::*;
use sinew_examples::rigid_part;
use sinew_runtime::{Deformer, Model, deform};

use crate::methods::ssd::SparseWeights;

/// Coordinates p of every vertex in the root's rest frame: `v = Σ_b T_b p_b`, T the skinning transforms in the root's
/// frame ([`Training::transforms`](crate::Training::transforms)).
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinates {
    /// The (bone, p) pairs of each vertex, (V), bones ascending.
    pub vertices: Vec<Vec<(usize, DVec4)>>,
}

impl Coordinates {
    /// Linear blend skinning as animation space: `p_b = w_b (v̂, 1)`.
    #[must_use]
    pub fn from_skin(skin: &SparseWeights, rest: &[DVec3]) -> Self {
        let vertex = |(pairs, rest): (&Vec<(usize, f64)>, &DVec3)| {
            let mut pairs: Vec<(usize, DVec4)> = pairs.iter().map(|&(b, w)| (b, w * rest.extend(1.0))).collect();
            pairs.sort_by_key(|&(b, _)| b);
            pairs
        };
        Self { vertices: skin.vertices.iter().zip(rest).map(vertex).collect() }
    }

    /// The coordinates of a linear blend or animation-space model; `None` for models of other kinds.
    #[must_use]
    pub fn from_model(model: &Model) -> Option<Self> {
        let skin = match &model.deformer {
            Deformer::AnimationSpace(skin) => skin.clone(),
            Deformer::LinearBlend(_) => deform::AnimationSpace::from_linear_blend(&model.character),
            _ => return None,
        };
        let rest = model.character.bones[model.character.root()].rest;
        let wide = |v: glam::Vec3A| glam::Vec3::from(v).as_dvec3();
        let root = DAffine3 {
            matrix3: glam::DMat3::from_cols(
                wide(rest.matrix3.x_axis),
                wide(rest.matrix3.y_axis),
                wide(rest.matrix3.z_axis),
            ),
            translation: wide(rest.translation),
        };
        let to_root = rigid_part(root).inverse();
        let vertex = |v: usize| {
            let pair = |(b, p): (usize, [f32; 4])| {
                let p = DVec4::from(p.map(f64::from));
                (b, (to_root.matrix3 * p.truncate() + to_root.translation * p.w).extend(p.w))
            };
            let mut pairs: Vec<(usize, DVec4)> = skin.vertex(v).map(pair).collect();
            pairs.sort_by_key(|&(b, _)| b);
            pairs
        };
        Some(Self { vertices: (0..skin.vertex_count()).map(vertex).collect() })
    }

    /// The vertices in a pose, (V); `transforms` (J) are root-relative.
    #[must_use]
    pub fn pose(&self, transforms: &[DAffine3]) -> Vec<DVec3> {
        let vertex = |pairs: &Vec<(usize, DVec4)>| {
            pairs.iter().map(|&(b, p)| transforms[b].matrix3 * p.truncate() + transforms[b].translation * p.w).sum()
        };
        self.vertices.par_iter().map(vertex).collect()
    }
}
