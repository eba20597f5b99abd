//! Predictor reduction (Wang, thesis 2007, section 4.2): every triangle's gradient as a blend of key gradients.
//!
//!   minimise Σ_e a_e Σ_k ‖(Σ_i β_ki D_i^e − D_k^e) Ê_k‖²,   Ê_k = [ê₁ ê₂ ê₃ h n̂]
//!
//! over the key gradients D_p and the blend weights β, by turns, from the proxy bones' linear parts and the mean of the
//! vertices' weights. The bones' own gradients take part with theirs given. Free weights are under-determined: a triangle
//! uses only what draws its vertices, a ridge holds β to the mean weights, and Σ_i β_ki = 1 so that rigid motions stay
//! rigid.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use super::weights::Palette;
use crate::Training;
use crate::geometry::gradient::RestTriangles;
use crate::methods::ssd::SparseWeights;
use sinew_linalg::Cholesky;

/// The ridge toward the mean weights, relative to the mean of the Gram matrix's diagonal.
const RIDGE: f64 = 1e-3;

/// The ridge that holds key gradients which no triangle determines, relative to the diagonal's mean.
const KEY_RIDGE: f64 = 1e-6;

/// Turns; the thesis found three to suffice everywhere.
const TURNS: usize = 3;

/// Key gradients and the blends of them.
#[derive(Debug, Clone)]
pub struct KeyGradients {
    /// The key gradient of each proxy bone in every pose, (N)(P).
    pub gradients: Vec<Vec<DMat3>>,
    /// The blend of each triangle over palette entries (proxy bones, then bones), (F); sums to one.
    pub blends: Vec<Vec<(usize, f64)>>,
}

/// Finds key gradients for proxies with `transforms` (N)(P) that draw vertices with `weights`.
#[must_use]
pub fn find(
    training: &Training,
    triangles: &RestTriangles,
    sequences: &[Vec<DMat3>],
    palette: &Palette,
    weights: &SparseWeights,
    transforms: &[Vec<DAffine3>],
) -> KeyGradients {
    let faces = training.mesh.triangles();
    let metrics: Vec<DMat3> = faces.iter().map(|&t| edge_metric(&training.rest, t)).collect();
    let means: Vec<Vec<(usize, f64)>> = faces.iter().map(|&t| mean_weights(weights, t)).collect();
    let mut gradients: Vec<Vec<DMat3>> =
        transforms.iter().map(|pose| pose.iter().map(|t| t.matrix3).collect()).collect();
    let mut blends = means.clone();
    for _ in 0..TURNS {
        let blend = |k: usize| match triangles.is_degenerate(k) {
            true => means[k].clone(),
            false => solve_blend(training, palette, &gradients, sequences, metrics[k], &means[k], k),
        };
        blends = (0..faces.len()).into_par_iter().map(blend).collect();
        gradients = solve_gradients(training, palette, &blends, &metrics, sequences, &gradients);
    }
    KeyGradients { gradients, blends }
}

/// `Ê Êᵀ` over the three edges and the normal, at the height of the mean edge's half.
fn edge_metric(rest: &[DVec3], triangle: [u32; 3]) -> DMat3 {
    let [a, b, c] = triangle.map(|v| rest[v as usize]);
    let edges = [b - a, c - b, a - c];
    let height = edges.iter().map(|e| e.length()).sum::<f64>() / 6.0;
    let normal = (b - a).cross(c - a).normalize_or_zero() * height;
    edges.iter().chain([&normal]).fold(DMat3::ZERO, |sum, &e| sum + outer(e, e))
}

fn outer(a: DVec3, b: DVec3) -> DMat3 {
    DMat3::from_cols(a * b.x, a * b.y, a * b.z)
}

/// The mean of the three vertices' weights, by palette entry.
fn mean_weights(weights: &SparseWeights, triangle: [u32; 3]) -> Vec<(usize, f64)> {
    let mut all: Vec<(usize, f64)> =
        triangle.iter().flat_map(|&v| weights.vertices[v as usize].iter().map(|&(i, w)| (i, w / 3.0))).collect();
    all.sort_by_key(|&(i, _)| i);
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    all
}

/// The gradient of palette entry `i` in pose `e`.
fn gradient(training: &Training, palette: &Palette, keys: &[Vec<DMat3>], e: usize, i: usize) -> DMat3 {
    if i < palette.proxies { keys[e][i] } else { training.transforms[e][i - palette.proxies].matrix3 }
}

/// `⟨A, B⟩ = tr(A metric Bᵀ)`.
fn inner(a: DMat3, metric: DMat3, b: DMat3) -> f64 {
    let am = a * metric;
    am.x_axis.dot(b.x_axis) + am.y_axis.dot(b.y_axis) + am.z_axis.dot(b.z_axis)
}

/// `β = mean + δ` with `Σ δ = 0`, δ minimising `δᵀ(G + ridge)δ − 2 bᵀδ`.
fn solve_blend(
    training: &Training,
    palette: &Palette,
    keys: &[Vec<DMat3>],
    sequences: &[Vec<DMat3>],
    metric: DMat3,
    mean: &[(usize, f64)],
    k: usize,
) -> Vec<(usize, f64)> {
    let n = mean.len();
    if n < 2 {
        return mean.to_vec();
    }
    let (mut gram, mut right) = (vec![0.0; n * n], vec![DVec3::ZERO; n]);
    for e in 0..training.pose_count() {
        let a = training.pose_weights[e];
        let entries: Vec<DMat3> = mean.iter().map(|&(i, _)| gradient(training, palette, keys, e, i)).collect();
        let blended = entries.iter().zip(mean).fold(DMat3::ZERO, |sum, (&d, &(_, w))| sum + d * w);
        let left = sequences[e][k] - blended;
        for i in 0..n {
            right[i].x += a * inner(entries[i], metric, left);
            for j in 0..n {
                gram[i * n + j] += a * inner(entries[i], metric, entries[j]);
            }
        }
    }
    let scale = (0..n).map(|i| gram[i * n + i]).sum::<f64>() / n as f64;
    (0..n).for_each(|i| gram[i * n + i] += RIDGE * scale);
    right.iter_mut().for_each(|r| r.y = 1.0);
    let solution = Cholesky::new(gram, n).solve3(&right);
    let (along, ones) = solution.iter().fold((0.0, 0.0), |(a, o), s| (a + s.x, o + s.y));
    let level = if ones > 0.0 { along / ones } else { 0.0 };
    mean.iter().zip(&solution).map(|(&(i, w), s)| (i, w + s.x - level * s.y)).collect()
}

/// The key gradients given the blends, all at once, pose by pose.
fn solve_gradients(
    training: &Training,
    palette: &Palette,
    blends: &[Vec<(usize, f64)>],
    metrics: &[DMat3],
    sequences: &[Vec<DMat3>],
    previous: &[Vec<DMat3>],
) -> Vec<Vec<DMat3>> {
    let unknowns = 3 * palette.proxies;
    let proxies = |k: usize| blends[k].iter().copied().filter(|&(i, _)| i < palette.proxies);
    let mut matrix = vec![0.0; unknowns * unknowns];
    for (k, metric) in metrics.iter().enumerate() {
        let rows = metric.to_cols_array_2d();
        for (p, wp) in proxies(k) {
            for (q, wq) in proxies(k) {
                for r in 0..3 {
                    for c in 0..3 {
                        matrix[(3 * p + r) * unknowns + 3 * q + c] += wp * wq * rows[r][c];
                    }
                }
            }
        }
    }
    let mean = (0..unknowns).map(|i| matrix[i * unknowns + i]).sum::<f64>() / unknowns.max(1) as f64;
    let ridge = KEY_RIDGE * mean.max(f64::MIN_POSITIVE);
    (0..unknowns).for_each(|i| matrix[i * unknowns + i] += ridge);
    let factor = Cholesky::new(matrix, unknowns);
    let pose = |e: usize| {
        let mut right = vec![DVec3::ZERO; unknowns];
        for (k, &metric) in metrics.iter().enumerate() {
            let bones = blends[k].iter().filter(|&&(i, _)| i >= palette.proxies);
            let given = bones.fold(DMat3::ZERO, |sum, &(i, w)| sum + gradient(training, palette, previous, e, i) * w);
            let target = (sequences[e][k] - given) * metric;
            for (p, w) in proxies(k) {
                right[3 * p] += w * target.x_axis;
                right[3 * p + 1] += w * target.y_axis;
                right[3 * p + 2] += w * target.z_axis;
            }
        }
        for (p, d) in previous[e].iter().enumerate() {
            right[3 * p] += ridge * d.x_axis;
            right[3 * p + 1] += ridge * d.y_axis;
            right[3 * p + 2] += ridge * d.z_axis;
        }
        let solution = factor.solve3(&right);
        solution.chunks_exact(3).map(|c| DMat3::from_cols(c[0], c[1], c[2])).collect()
    };
    (0..training.pose_count()).into_par_iter().map(pose).collect()
}
