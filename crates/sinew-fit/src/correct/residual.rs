//! What a fitted model leaves over at the example poses, in the frames of the bones that carry the skin.

use glam::{DMat3, DVec3};
use sinew_examples::nearest_rotation;
use sinew_runtime::{Model, Skin};

use crate::{Training, predict};

/// Weights that differ by less are equal: they are fitted to examples that carry rounding.
const WEIGHT_TIE: f32 = 1e-3;

/// The residual of a model, by vertex.
#[derive(Debug, Clone)]
pub struct Residual {
    /// The bone that carries each vertex: the one with the largest plain skinning weight, (V).
    pub bones: Vec<usize>,
    /// `Q_bᵀ (v − predicted)` for every training pose and then the rest pose, (N + 1)(V); Q_b the rotation of the
    /// vertex's bone in the root's frame.
    pub displacements: Vec<Vec<DVec3>>,
    /// `Q_bᵀ` for every training pose and then the rest pose, (N + 1)(J).
    turns: Vec<Vec<DMat3>>,
}

impl Residual {
    /// What `model` leaves over on `training`.
    #[must_use]
    pub fn new(training: &Training, model: &Model) -> Self {
        let bones: Vec<usize> = (0..training.vertex_count()).map(|v| carrier(&model.character.skin, v)).collect();
        let mut displacements = Vec::with_capacity(training.pose_count() + 1);
        let mut all_turns = Vec::with_capacity(training.pose_count() + 1);
        for (e, predicted) in predict::training_poses(model, training).iter().enumerate() {
            let turns: Vec<DMat3> =
                training.transforms[e].iter().map(|t| nearest_rotation(t.matrix3).transpose()).collect();
            let vertex = |v: usize| turns[bones[v]] * (training.vertices[e][v] - predicted[v]);
            displacements.push((0..training.vertex_count()).map(vertex).collect());
            all_turns.push(turns);
        }
        all_turns.push(vec![DMat3::IDENTITY; training.bone_count()]);
        let predicted = predict::rest_pose(model, training);
        displacements.push(training.rest.iter().zip(&predicted).map(|(&v, &p)| v - p).collect());
        Self { bones, displacements, turns: all_turns }
    }

    /// The targets of what region `bone` has of `vertices`, each with its share, over the first `poses` poses, in the
    /// frame of `bone`, (N, 3n) row by row.
    #[must_use]
    pub fn shared_targets(&self, bone: usize, vertices: &[(u32, f64)], poses: usize) -> Vec<f64> {
        let row = |e: usize| {
            let own = self.turns[e][bone];
            vertices.iter().flat_map(move |&(v, share)| {
                let v = v as usize;
                let carrier = self.bones[v];
                let d = self.displacements[e][v];
                let d = if carrier == bone { d } else { own * (self.turns[e][carrier].transpose() * d) };
                (share * d).to_array()
            })
        };
        (0..poses).flat_map(row).collect()
    }
}

/// The bone with the largest weight; of equal ones the first, so that a tie does not hang on the last bit.
pub(crate) fn carrier(skin: &Skin, v: usize) -> usize {
    let largest = skin.vertex(v).map(|(_, weight)| weight).fold(0.0, f32::max);
    let close = skin.vertex(v).filter(|&(_, weight)| weight >= largest - WEIGHT_TIE).map(|(bone, _)| bone);
    close.min().unwrap_or(0)
}

/// `G = Y Yᵀ`, (N, N), for targets Y (N, D).
#[must_use]
pub fn gram(targets: &[f64], poses: usize) -> Vec<f64> {
    let width = targets.len() / poses.max(1);
    let row = |e: usize| &targets[e * width..(e + 1) * width];
    let mut gram = vec![0.0; poses * poses];
    for i in 0..poses {
        for j in 0..=i {
            let dot: f64 = row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
            gram[i * poses + j] = dot;
            gram[j * poses + i] = dot;
        }
    }
    gram
}

/// The matrix product of `left` (…, inner) and `right` (inner, …), row by row.
#[must_use]
pub fn product(left: &[f64], right: &[f64], inner: usize) -> Vec<f64> {
    let width = right.len() / inner.max(1);
    let mut out = Vec::with_capacity(left.len() / inner.max(1) * width);
    for row in left.chunks_exact(inner.max(1)) {
        let mut sums = vec![0.0; width];
        for (&l, values) in row.iter().zip(right.chunks_exact(width.max(1))) {
            sums.iter_mut().zip(values).for_each(|(sum, r)| *sum += l * r);
        }
        out.append(&mut sums);
    }
    out
}
