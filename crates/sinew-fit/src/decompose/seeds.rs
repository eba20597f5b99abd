//! Where new bones come from.
//!
//! Patches of vertices that stay together are spread over the mesh; the rigid motion of each is a candidate. What a
//! candidate promises is the error that would go if every vertex could move some way from where it is drawn now towards
//! where the candidate would carry it, `max_{0≤s≤1} ‖r‖² − ‖r − s d‖²` with `r = y − p`, `d = M x̂ − p`: a lower bound of
//! what one weight step gains.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;
use sinew_linalg::{Mat, transposed_product};

use super::problem::{Motion, Problem, Weights, dot};
use crate::solve::rotation::best_rigid;

/// Vertices whose promise is computed: every so-many-th, so that about this many are looked at.
const SAMPLES: usize = 2048;

/// Candidate bones.
#[derive(Debug, Clone)]
pub(crate) struct Seeds {
    /// The candidates' motion.
    pub motion: Motion,
    /// The vertices whose promise is computed.
    sample: Vec<usize>,
    /// `y` of the sample, (3N, n).
    targets: Mat<f64>,
    /// `‖M x̂‖²` for each candidate and sample, (C, n).
    reach: Mat<f64>,
    /// `(M x̂)·y` for each candidate and sample, (C, n).
    towards: Mat<f64>,
}

impl Seeds {
    /// `count` patches, each of `size` vertices.
    pub fn new(problem: &Problem, count: usize, size: usize) -> Self {
        let motion = patch_motion(problem, count, size);
        let stride = problem.vertex_count().div_ceil(SAMPLES).max(1);
        let sample: Vec<usize> = (0..problem.vertex_count()).step_by(stride).collect();
        let targets = Mat::from_fn(problem.targets.nrows(), sample.len(), |i, s| problem.targets[(i, sample[s])]);
        let mut seeds = Self { motion, sample, targets, reach: Mat::zeros(0, 0), towards: Mat::zeros(0, 0) };
        let candidates = seeds.motion.bone_count();
        let gram: Vec<[[f64; 4]; 4]> = (0..candidates)
            .map(|c| {
                let column = |k: usize| seeds.motion.matrix.col_as_slice(4 * c + k);
                std::array::from_fn(|i| std::array::from_fn(|j| dot(column(i), column(j))))
            })
            .collect();
        seeds.reach = Mat::from_fn(candidates, seeds.sample.len(), |c, s| {
            let x = problem.rest[seeds.sample[s]];
            (0..4).map(|i| (0..4).map(|j| x[i] * x[j] * gram[c][i][j]).sum::<f64>()).sum()
        });
        seeds.towards = seeds.carried_dot(problem, &seeds.targets);
        seeds
    }

    /// `(M_c x̂_s)·z_s`, (C, n), for the columns of `z` (3N, n).
    fn carried_dot(&self, problem: &Problem, z: &Mat<f64>) -> Mat<f64> {
        let linear = transposed_product(self.motion.matrix.as_ref(), z.as_ref());
        Mat::from_fn(self.motion.bone_count(), z.ncols(), |c, s| {
            dot(&linear.col_as_slice(s)[4 * c..4 * c + 4], &problem.rest[self.sample[s]])
        })
    }

    /// What each candidate promises against the present bones and weights, (C).
    pub fn promises(&self, problem: &Problem, motion: &Motion, weights: &Weights) -> Vec<f64> {
        let mut drawn = Mat::<f64>::zeros(problem.targets.nrows(), self.sample.len());
        for (s, &v) in self.sample.iter().enumerate() {
            draw(problem, motion, weights, v, drawn.col_as_slice_mut(s));
        }
        let along = self.carried_dot(problem, &drawn);
        let candidates = self.motion.bone_count();
        let mut promises = vec![0.0; candidates];
        for s in 0..self.sample.len() {
            let (p, y) = (drawn.col_as_slice(s), self.targets.col_as_slice(s));
            let (pp, py) = (dot(p, p), dot(p, y));
            for c in 0..candidates {
                let (a, b) = (along[(c, s)], self.towards[(c, s)]);
                // r·d and d·d with r = y − p, d = Mx̂ − p.
                let rd = b - a - py + pp;
                let dd = self.reach[(c, s)] - 2.0 * a + pp;
                if rd > 0.0 && dd > 0.0 {
                    promises[c] += if rd < dd { rd * rd / dd } else { 2.0 * rd - dd };
                }
            }
        }
        promises
    }
}

/// Where vertex `v` is drawn: `Σ_b w_vb M_b x̂_v`.
pub(crate) fn draw(problem: &Problem, motion: &Motion, weights: &Weights, v: usize, out: &mut [f64]) {
    out.fill(0.0);
    for &(b, w) in weights.of(v) {
        for k in 0..4 {
            let factor = w * problem.rest[v][k];
            for (o, m) in out.iter_mut().zip(motion.matrix.col_as_slice(4 * b as usize + k)) {
                *o += factor * m;
            }
        }
    }
}

/// The rigid motions of `count` patches: centres by farthest-point sampling over trajectories, each patch the `size`
/// vertices whose trajectories are nearest. Trajectories keep apart what touches at rest but moves differently, and need
/// no edges, so a mesh in many pieces is no special case.
fn patch_motion(problem: &Problem, count: usize, size: usize) -> Motion {
    let vertices = problem.vertex_count();
    let count = count.min(vertices);
    let mut nearest = vec![f64::INFINITY; vertices];
    let mut patches: Vec<Vec<usize>> = Vec::new();
    let mut centre = (0..vertices).max_by(|&a, &b| problem.energy[a].total_cmp(&problem.energy[b])).unwrap_or(0);
    let weight = problem.frame_count() as f64;
    for _ in 0..count {
        let distance: Vec<f64> = (0..vertices)
            .into_par_iter()
            .with_min_len(256)
            .map(|v| {
                let cross = dot(problem.targets.col_as_slice(v), problem.targets.col_as_slice(centre));
                let rest: f64 = (0..3).map(|k| (problem.rest[v][k] - problem.rest[centre][k]).powi(2)).sum();
                (problem.energy[v] + problem.energy[centre] - 2.0 * cross).max(0.0) + weight * rest
            })
            .collect();
        let mut order: Vec<usize> = (0..vertices).collect();
        let size = size.clamp(1, vertices);
        order.select_nth_unstable_by(size - 1, |&a, &b| distance[a].total_cmp(&distance[b]).then(a.cmp(&b)));
        order.truncate(size);
        order.sort_unstable();
        patches.push(order);
        nearest.iter_mut().zip(&distance).for_each(|(n, &d)| *n = n.min(d));
        centre = (0..vertices).max_by(|&a, &b| nearest[a].total_cmp(&nearest[b])).unwrap_or(0);
    }
    let mut motion = Motion::identity(problem.frame_count(), patches.len());
    let fitted: Vec<Vec<DAffine3>> = patches.par_iter().map(|patch| fit_patch(problem, patch)).collect();
    for (c, frames) in fitted.iter().enumerate() {
        frames.iter().enumerate().for_each(|(e, &t)| motion.set(c, e, t));
    }
    motion
}

/// The rigid motion of a set of vertices in every frame, (N).
pub(crate) fn fit_patch(problem: &Problem, patch: &[usize]) -> Vec<DAffine3> {
    let point = |v: usize| DVec3::new(problem.rest[v][0], problem.rest[v][1], problem.rest[v][2]);
    let mut hint = DMat3::IDENTITY;
    (0..problem.frame_count())
        .map(|e| {
            let target = |v: usize| DVec3::from_slice(&problem.targets.col_as_slice(v)[3 * e..3 * e + 3]);
            let (rotation, translation) = best_rigid(patch.iter().map(|&v| (point(v), target(v), 1.0)), hint);
            hint = rotation;
            DAffine3 { matrix3: rotation, translation }
        })
        .collect()
}
