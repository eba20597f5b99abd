//! Linear blend skinning, also skeletal subspace deformation (SSD): `v = Σ_b w_b T_b v̂`.
//!
//! For each vertex, over the training poses e with weights a_e:
//!
//!   minimise Σ_e a_e ‖Σ_b w_b T_b^e v̂ − v^e‖²  with w ≥ 0, Σ w = 1, at most K of them not zero.
//!
//! Since the weights sum to one this is `wᵀ G w` with `G_bc = Σ_e a_e (T_b^e v̂ − v^e)·(T_c^e v̂ − v^e)`, the Gram matrix
//! of the single bones' residuals. It is solved over all plausible bones, then bones are taken away one by one, each
//! time the one whose loss costs least, and the rest is solved again (James and Twigg, "Skinning mesh animations", 2005,
//! pick the bones beforehand; picking beforehand costs a sixth to a quarter more error).

use rayon::prelude::*;

use crate::solve::simplex;
use crate::{FitError, Progress, Training};

/// A vertex whose best bone leaves less than this fraction of the diagonal (rms) is rigid: f32 examples are no finer.
const RIGID_TOLERANCE: f64 = 1e-6;

/// Weights below this are dropped: at 0.1 % they move a vertex less than a thousandth of what its bones differ by.
const SMALLEST_WEIGHT: f64 = 1e-3;

/// How linear blend skinning is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct SsdParams {
    /// Bones a vertex at most, 1 to 16. Engines play 4 (three.js, Bevy) or 8 (Babylon, Godot).
    pub influences: usize,
}

impl Default for SsdParams {
    fn default() -> Self {
        Self { influences: 4 }
    }
}

/// Sparse convex weights, (V): (joint, weight), heaviest first, each vertex's sum is one.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseWeights {
    /// The pairs of each vertex.
    pub vertices: Vec<Vec<(usize, f64)>>,
}

impl SparseWeights {
    /// The weights of a skin.
    #[must_use]
    pub fn of(skin: &sinew_runtime::Skin) -> Self {
        let pairs = |v: usize| skin.vertex(v).map(|(entry, weight)| (entry, f64::from(weight))).collect();
        Self { vertices: (0..skin.vertex_count()).map(pairs).collect() }
    }

    /// The mean number of joints a vertex.
    #[must_use]
    pub fn mean_count(&self) -> f64 {
        self.vertices.iter().map(Vec::len).sum::<usize>() as f64 / self.vertices.len().max(1) as f64
    }

    /// The joint that moves vertex `v` most.
    #[must_use]
    pub fn dominant(&self, v: usize) -> usize {
        self.vertices[v][0].0
    }
}

/// Fits weights for every vertex.
pub fn fit(training: &Training, params: &SsdParams, progress: &dyn Progress) -> Result<SparseWeights, FitError> {
    if !(1..=16).contains(&params.influences) {
        let value = params.influences.to_string();
        return Err(FitError::Parameter { name: "influences", value, range: "1 to 16" });
    }
    progress.stage("skinning weights", 0);
    let vertices = (0..training.vertex_count())
        .into_par_iter()
        .map_init(simplex::Workspace::default, |workspace, v| fit_vertex(training, params, v, workspace))
        .collect();
    Ok(SparseWeights { vertices })
}

fn fit_vertex(
    training: &Training,
    params: &SsdParams,
    v: usize,
    workspace: &mut simplex::Workspace,
) -> Vec<(usize, f64)> {
    let tolerance = (RIGID_TOLERANCE * training.diagonal).powi(2) * training.pose_count() as f64;
    let error = |b: usize| single_bone_error(training, b, v).max(tolerance);
    let errors: Vec<f64> = (0..training.bone_count()).map(error).collect();
    let mut bones = plausible_bones(training, v, &errors, tolerance);
    let best = bones[0];
    if params.influences == 1 || bones.len() == 1 || errors[best] <= tolerance {
        return vec![(best, 1.0)];
    }
    // In the bones' own order, so that ties do not depend on the errors' last bits.
    bones.sort_unstable();
    let gram = residual_gram(training, v, &bones);
    let weights = simplex::solve_sparse(&gram, bones.len(), params.influences, SMALLEST_WEIGHT, workspace);
    weights.into_iter().map(|(index, weight)| (bones[index], weight)).collect()
}

/// `Σ_e a_e ‖T_b^e v̂ − v^e‖²`.
fn single_bone_error(training: &Training, b: usize, v: usize) -> f64 {
    let residual = |e: usize| (training.carried(e, b, v) - training.vertices[e][v]).length_squared();
    (0..training.pose_count()).map(|e| training.pose_weights[e] * residual(e)).sum()
}

/// The bones that may move vertex `v`, best first: the painted ones if there is a map; otherwise the best by
/// themselves, and no more than half the number of equations (3N), so that few poses do not make far bones fit by chance.
fn plausible_bones(training: &Training, v: usize, errors: &[f64], tolerance: f64) -> Vec<usize> {
    let painted = |b: &usize| training.influences.as_ref().is_none_or(|map| map.vertex(v)[*b] > 0.0);
    let mut bones: Vec<usize> = (0..errors.len()).filter(painted).collect();
    if bones.is_empty() {
        bones = (0..errors.len()).collect();
    }
    // Compared in f32, so that bones that are equally good, as on a plane of symmetry, come in their own order and not in
    // that of their errors' last bits, which differ with where the character stands. Errors under the tolerance are equal.
    let error = |b: usize| errors[b].max(tolerance) as f32;
    bones.sort_by(|&a, &b| error(a).total_cmp(&error(b)).then(a.cmp(&b)));
    bones.truncate((3 * training.pose_count() / 2).max(8));
    bones
}

/// `G_bc = Σ_e a_e r_b^e · r_c^e`, (n, n), with `r_b^e = T_b^e v̂ − v^e`.
fn residual_gram(training: &Training, v: usize, bones: &[usize]) -> Vec<f64> {
    let n = bones.len();
    let mut gram = vec![0.0; n * n];
    let mut residuals = vec![glam::DVec3::ZERO; n];
    for e in 0..training.pose_count() {
        for (residual, &b) in residuals.iter_mut().zip(bones) {
            *residual = training.carried(e, b, v) - training.vertices[e][v];
        }
        for i in 0..n {
            let weighted = residuals[i] * training.pose_weights[e];
            for j in 0..=i {
                gram[i * n + j] += weighted.dot(residuals[j]);
            }
        }
    }
    for i in 0..n {
        for j in 0..i {
            gram[j * n + i] = gram[i * n + j];
        }
    }
    gram
}
