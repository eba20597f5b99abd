//! The near-rigid vertices F (Wang, thesis 2007, section 3.2): those that linear blend skinning draws well. The Poisson
//! equation holds them fast, for without them low-frequency errors add up and limbs drift from their bones.
//!
//! A threshold alone leaves limbs unanchored where nothing is near-rigid. So F is the vertices under the threshold, and
//! the best tenth of each bone's vertices, and the best vertex of each connected piece.

use rayon::prelude::*;

use crate::Training;
use crate::methods::ssd::SparseWeights;

/// How F is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct NearRigidParams {
    /// The rms error of linear blend skinning under which a vertex is near-rigid, a fraction of the diagonal; 0.001 to
    /// 0.003 did equally well.
    pub threshold: f64,
    /// The fraction of each bone's vertices that is near-rigid in any case.
    pub coverage: f64,
}

impl Default for NearRigidParams {
    fn default() -> Self {
        Self { threshold: 0.002, coverage: 0.1 }
    }
}

/// The near-rigid vertices.
#[derive(Debug, Clone, PartialEq)]
pub struct NearRigid {
    /// Whether each vertex is near-rigid, (V).
    pub fixed: Vec<bool>,
    /// The rms error of linear blend skinning at each vertex, metres, (V).
    pub residuals: Vec<f64>,
}

impl NearRigid {
    /// The number of near-rigid vertices.
    #[must_use]
    pub fn count(&self) -> usize {
        self.fixed.iter().filter(|&&fixed| fixed).count()
    }
}

/// Chooses F for linear blend skinning with the weights `skin`.
#[must_use]
pub fn choose(training: &Training, skin: &SparseWeights, params: &NearRigidParams) -> NearRigid {
    let residuals: Vec<f64> =
        (0..training.vertex_count()).into_par_iter().map(|v| skinning_residual(training, skin, v)).collect();
    let mut fixed: Vec<bool> = residuals.iter().map(|&r| r < params.threshold * training.diagonal).collect();
    let components = training.mesh.components();
    let mut of_bone = vec![Vec::new(); training.bone_count()];
    let mut of_component = vec![Vec::new(); components.iter().max().map_or(0, |most| most + 1)];
    for v in 0..training.vertex_count() {
        of_bone[skin.dominant(v)].push(v);
        of_component[components[v]].push(v);
    }
    let best = |vertices: &mut Vec<usize>, count: usize| {
        // In steps of a ten-millionth of the diagonal: equal residuals of symmetric vertices must not hang on the last bit.
        let step = |v: usize| (residuals[v] / (1e-7 * training.diagonal)) as u64;
        vertices.sort_by_key(|&v| (step(v), v));
        vertices.truncate(count);
    };
    for vertices in &mut of_bone {
        let count = (params.coverage * vertices.len() as f64).ceil() as usize;
        best(vertices, count);
    }
    of_component.iter_mut().for_each(|vertices| best(vertices, 1));
    of_bone.iter().chain(&of_component).flatten().for_each(|&v| fixed[v] = true);
    NearRigid { fixed, residuals }
}

/// `√(Σ_e a_e ‖Σ_b w_b T_b^e v̂ − y_v^e‖² / N)`.
fn skinning_residual(training: &Training, skin: &SparseWeights, v: usize) -> f64 {
    let squared = |e: usize| {
        let skinned: glam::DVec3 = skin.vertices[v].iter().map(|&(b, w)| w * training.carried(e, b, v)).sum();
        training.pose_weights[e] * skinned.distance_squared(training.vertices[e][v])
    };
    ((0..training.pose_count()).map(squared).sum::<f64>() / training.pose_count() as f64).sqrt()
}
