//! The transform step: the best bone motion for given weights.
//!
//! With `X_v = w_v ⊗ x̂_v ∈ R^{4B}` the error is a quadratic in the bones' motion M whose coefficients are sums over the
//! vertices, gathered once:
//!
//! ```text
//! E = tr(M S Mᵀ) − 2 tr(M Rᵀ) + Σ_v ‖y_v‖²,   S = Σ_v X_v X_vᵀ  (4B, 4B),   R = Σ_v y_v X_vᵀ  (3N, 4B).
//! ```
//!
//! Everything after that is independent of the number of vertices. Affine bones solve `M S = R` exactly. Rigid bones are
//! improved one at a time by Procrustes (Le and Deng, "Smooth skinning decomposition with rigid bones", 2012, eq. 8 ff.)
//! and then all together by Gauss–Newton steps, frame by frame: one at a time converges slowly, because neighbouring bones
//! share their vertices.

use crate::solve::rotation::best_rotation;
use glam::{DAffine3, DMat3, DQuat, DVec3};
use rayon::prelude::*;
use sinew_linalg::{Cholesky, Mat};

use super::problem::{CHUNK, Motion, PRODUCTS, Problem, Weights};

/// A bone whose weights' squares sum to less than this many vertices is not moved: nothing determines it.
const SMALLEST_BONE: f64 = 1e-6;

/// Proximal ridge of the affine solve, relative to a bone's own diagonal: what the vertices do not determine stays.
const AFFINE_RIDGE: f64 = 1e-9;

/// Levenberg damping of the Gauss–Newton steps, relative to the diagonal.
const DAMPING: f64 = 1e-9;

/// The sums over vertices.
#[derive(Debug, Clone)]
pub(crate) struct Statistics {
    bones: usize,
    /// `S_bc` in the order of [`PRODUCTS`], (B, B); symmetric in b and c.
    pairs: Vec<[f64; 10]>,
    /// For each bone the bones that share a vertex with it, itself left out; (B).
    neighbours: Vec<Vec<usize>>,
    /// `R`, (3N, 4B).
    targets: Mat<f64>,
    /// `Σ_v ‖y_v‖²`.
    energy: f64,
}

impl Statistics {
    /// Gathers the sums. Chunks of vertices are summed in their own order whatever the number of threads.
    pub fn gather(problem: &Problem, weights: &Weights, bones: usize) -> Self {
        // Few large chunks: each carries a copy of R.
        let chunk = CHUNK.max(problem.vertex_count().div_ceil(8));
        let starts: Vec<usize> = (0..problem.vertex_count()).step_by(chunk).collect();
        let rows = problem.targets.nrows();
        let parts: Vec<(Vec<[f64; 10]>, Mat<f64>)> = starts
            .par_iter()
            .map(|&start| {
                let mut pairs = vec![[0.0; 10]; bones * bones];
                let mut targets = Mat::zeros(rows, 4 * bones);
                for v in start..(start + chunk).min(problem.vertex_count()) {
                    add_vertex(problem, weights.of(v), v, bones, &mut pairs, &mut targets);
                }
                (pairs, targets)
            })
            .collect();
        let mut pairs = vec![[0.0; 10]; bones * bones];
        let mut targets = Mat::zeros(rows, 4 * bones);
        for (part_pairs, part_targets) in &parts {
            for (sum, part) in pairs.iter_mut().zip(part_pairs) {
                for k in 0..10 {
                    sum[k] += part[k];
                }
            }
            targets += part_targets;
        }
        for b in 0..bones {
            for c in 0..b {
                pairs[c * bones + b] = pairs[b * bones + c];
            }
        }
        let shares = |b: usize, c: usize| b != c && pairs[b * bones + c][9] > 0.0;
        let neighbours = (0..bones).map(|b| (0..bones).filter(|&c| shares(b, c)).collect()).collect();
        Self { bones, pairs, neighbours, targets, energy: problem.energy.iter().sum() }
    }

    fn pair(&self, b: usize, c: usize) -> &[f64; 10] {
        &self.pairs[b * self.bones + c]
    }

    /// `Σ_v w_vb²`: how much of the mesh bone `b` carries.
    pub fn mass(&self, b: usize) -> f64 {
        self.pair(b, b)[9]
    }

    /// `E` for a motion.
    pub fn error(&self, motion: &Motion) -> f64 {
        (0..motion.frame_count()).map(|e| self.frame_error(&frame(motion, e), e)).sum::<f64>() + self.energy
    }

    /// The part of `E` that depends on frame `e`'s transforms: `tr(T S Tᵀ) − 2 tr(T R_eᵀ)`.
    fn frame_error(&self, transforms: &[DAffine3], e: usize) -> f64 {
        let mut sum = 0.0;
        for b in 0..self.bones {
            let carried = self.carried(transforms, b);
            let target = self.target(b, e);
            for k in 0..4 {
                sum += column(&transforms[b], k).dot(carried[k] - 2.0 * target[k]);
            }
        }
        sum
    }

    /// `Σ_c T_c S_cb`, four columns.
    fn carried(&self, transforms: &[DAffine3], b: usize) -> [DVec3; 4] {
        let mut sum = times(&transforms[b], self.pair(b, b));
        for &c in &self.neighbours[b] {
            let part = times(&transforms[c], self.pair(c, b));
            for k in 0..4 {
                sum[k] += part[k];
            }
        }
        sum
    }

    /// The four columns of `R_b` in frame `e`.
    fn target(&self, b: usize, e: usize) -> [DVec3; 4] {
        std::array::from_fn(|k| {
            let c = &self.targets.col_as_slice(4 * b + k)[3 * e..3 * e + 3];
            DVec3::new(c[0], c[1], c[2])
        })
    }
}

fn add_vertex(
    problem: &Problem,
    entries: &[(u32, f64)],
    v: usize,
    bones: usize,
    pairs: &mut [[f64; 10]],
    targets: &mut Mat<f64>,
) {
    let (x, y, products) = (&problem.rest[v], problem.targets.col_as_slice(v), problem.products.col_as_slice(v));
    for &(b, wb) in entries {
        for &(c, wc) in entries.iter().filter(|&&(c, _)| c <= b) {
            let (w, sum) = (wb * wc, &mut pairs[b as usize * bones + c as usize]);
            for k in 0..10 {
                sum[k] += w * products[k];
            }
        }
        for k in 0..4 {
            let w = wb * x[k];
            for (sum, y) in targets.col_as_slice_mut(4 * b as usize + k).iter_mut().zip(y) {
                *sum += w * y;
            }
        }
    }
}

/// Affine bones: the exact minimiser `M S = R`, with `locked` bones kept.
pub(crate) fn solve_affine(statistics: &Statistics, motion: &mut Motion, locked: &[bool]) {
    let free: Vec<usize> =
        (0..statistics.bones).filter(|&b| !locked[b] && statistics.mass(b) > SMALLEST_BONE).collect();
    let n = 4 * free.len();
    if n == 0 {
        return;
    }
    let mut s = Mat::<f64>::zeros(n, n);
    let mut rhs = Mat::<f64>::zeros(n, motion.matrix.nrows());
    for (p, &b) in free.iter().enumerate() {
        for (q, &c) in free.iter().enumerate() {
            let pair = statistics.pair(b, c);
            for (k, &(i, j)) in PRODUCTS.iter().enumerate() {
                s[(4 * p + i, 4 * q + j)] = pair[k];
                s[(4 * p + j, 4 * q + i)] = pair[k];
            }
        }
        let ridge = AFFINE_RIDGE * statistics.mass(b);
        for k in 0..4 {
            s[(4 * p + k, 4 * p + k)] += ridge;
        }
        for e in 0..motion.frame_count() {
            let now = motion.get(b, e);
            let mut target = statistics.target(b, e);
            for &c in statistics.neighbours[b].iter().filter(|c| !free.contains(c)) {
                let part = times(&motion.get(c, e), statistics.pair(c, b));
                (0..4).for_each(|k| target[k] -= part[k]);
            }
            for k in 0..4 {
                let value = target[k] + ridge * column(&now, k);
                (0..3).for_each(|row| rhs[(4 * p + k, 3 * e + row)] = value[row]);
            }
        }
    }
    let Some(factor) = Cholesky::strict(&s) else { return };
    let solution = factor.solve(rhs);
    for (p, &b) in free.iter().enumerate() {
        for k in 0..4 {
            let target = motion.matrix.col_as_slice_mut(4 * b + k);
            (0..target.len()).for_each(|row| target[row] = solution[(4 * p + k, row)]);
        }
    }
}

/// Rigid bones: `sweeps` of Procrustes, then `steps` of Gauss–Newton; every frame by itself.
pub(crate) fn solve_rigid(statistics: &Statistics, motion: &mut Motion, locked: &[bool], sweeps: usize, steps: usize) {
    let free: Vec<usize> =
        (0..statistics.bones).filter(|&b| !locked[b] && statistics.mass(b) > SMALLEST_BONE).collect();
    let solved: Vec<Vec<DAffine3>> = (0..motion.frame_count())
        .into_par_iter()
        .map(|e| {
            let mut transforms = frame(motion, e);
            for _ in 0..sweeps {
                sweep(statistics, &mut transforms, &free, e);
            }
            for _ in 0..steps {
                if !gauss_newton(statistics, &mut transforms, &free, e) {
                    break;
                }
            }
            transforms
        })
        .collect();
    for (e, transforms) in solved.iter().enumerate() {
        for &b in &free {
            motion.set(b, e, transforms[b]);
        }
    }
}

/// One bone after the other: with the others fixed, `min tr(T S_bb Tᵀ) − 2 tr(T Qᵀ)`, `Q = R_b − Σ_{c≠b} T_c S_cb`.
fn sweep(statistics: &Statistics, transforms: &mut [DAffine3], free: &[usize], e: usize) {
    for &b in free {
        let carried = statistics.carried(transforms, b);
        let own = times(&transforms[b], statistics.pair(b, b));
        let target = statistics.target(b, e);
        let q: [DVec3; 4] = std::array::from_fn(|k| target[k] - carried[k] + own[k]);
        transforms[b] = procrustes(statistics.pair(b, b), &q, transforms[b]);
    }
}

/// The rigid transform that minimises `tr(T S Tᵀ) − 2 tr(T Qᵀ)`, S in the order of [`PRODUCTS`].
pub(crate) fn procrustes(s: &[f64; 10], q: &[DVec3; 4], now: DAffine3) -> DAffine3 {
    let mass = s[9];
    let centre = DVec3::new(s[3], s[6], s[8]) / mass;
    // Vertices on a line or in a point leave the rotation open there; a whiff of the present one decides.
    let spread = (s[0] + s[4] + s[7] - mass * centre.length_squared()).max(0.0);
    let keep = 1e-9 * spread + f64::MIN_POSITIVE;
    let k = DMat3::from_cols(q[0] - q[3] * centre.x, q[1] - q[3] * centre.y, q[2] - q[3] * centre.z);
    let rotation = best_rotation(k + now.matrix3 * keep);
    DAffine3 { matrix3: rotation, translation: q[3] / mass - rotation * centre }
}

/// One damped Gauss–Newton step for all free bones of frame `e`; false (and nothing changed) if it does not descend.
///
/// Bone b turns about its own weighted centre: `δ(T_b x) = ω × (R_b (x − c_b)) + τ`.
fn gauss_newton(statistics: &Statistics, transforms: &mut [DAffine3], free: &[usize], e: usize) -> bool {
    let n = free.len();
    let place: Vec<Option<usize>> = {
        let mut place = vec![None; statistics.bones];
        free.iter().enumerate().for_each(|(p, &b)| place[b] = Some(p));
        place
    };
    let centres: Vec<DVec3> = (0..statistics.bones)
        .map(|b| {
            let s = statistics.pair(b, b);
            DVec3::new(s[3], s[6], s[8]) / s[9].max(f64::MIN_POSITIVE)
        })
        .collect();
    let mut hessian = Mat::<f64>::zeros(6 * n, 6 * n);
    let mut gradient = Mat::<f64>::zeros(6 * n, 1);
    for (p, &b) in free.iter().enumerate() {
        let turn = transforms[b].matrix3;
        let carried = statistics.carried(transforms, b);
        let target = statistics.target(b, e);
        // −∂E/2: the residual's moments about the bone's centre.
        let residual: [DVec3; 4] = std::array::from_fn(|k| target[k] - carried[k]);
        let mut torque = DVec3::ZERO;
        for k in 0..3 {
            torque += turn.col(k).cross(residual[k] - residual[3] * centres[b][k]);
        }
        for k in 0..3 {
            gradient[(6 * p + k, 0)] = torque[k];
            gradient[(6 * p + 3 + k, 0)] = residual[3][k];
        }
        for c in std::iter::once(b).chain(statistics.neighbours[b].iter().copied()) {
            let Some(q) = place[c].filter(|&q| q <= p) else { continue };
            add_block(
                &mut hessian,
                (p, q),
                statistics.pair(b, c),
                (turn, centres[b]),
                (transforms[c].matrix3, centres[c]),
            );
        }
    }
    for i in 0..6 * n {
        hessian[(i, i)] *= 1.0 + DAMPING;
        hessian[(i, i)] += 1e-12;
    }
    let Some(factor) = Cholesky::strict(&hessian) else { return false };
    let step = factor.solve(gradient);
    let before = statistics.frame_error(transforms, e);
    let original = transforms.to_vec();
    for scale in [1.0, 0.25] {
        for (p, &b) in free.iter().enumerate() {
            let part = |o: usize| DVec3::new(step[(6 * p + o, 0)], step[(6 * p + o + 1, 0)], step[(6 * p + o + 2, 0)]);
            let omega = (part(0) * scale).clamp_length_max(1.0);
            let turned = DMat3::from_quat(DQuat::from_scaled_axis(omega)) * original[b].matrix3;
            let anchor = original[b].transform_point3(centres[b]) + part(3) * scale;
            transforms[b] = DAffine3 { matrix3: turned, translation: anchor - turned * centres[b] };
        }
        if statistics.frame_error(transforms, e) < before {
            return true;
        }
    }
    transforms.copy_from_slice(&original);
    false
}

/// Adds `Σ_v w_b w_c J_bᵀ J_c` for bones at (rotation, centre), `J = [−[R(x − c)]×, I]`, to block (p, q) of the lower half.
fn add_block(
    hessian: &mut Mat<f64>,
    (p, q): (usize, usize),
    s: &[f64; 10],
    (turn_b, centre_b): (DMat3, DVec3),
    (turn_c, centre_c): (DMat3, DVec3),
) {
    let mass = s[9];
    let first = DVec3::new(s[3], s[6], s[8]);
    let second = DMat3::from_cols_array(&[s[0], s[1], s[2], s[1], s[4], s[5], s[2], s[5], s[7]]);
    // Σ w w (x − c_b)(x − c_c)ᵀ.
    let moment = second - outer(first, centre_c) - outer(centre_b, first) + outer(centre_b, centre_c) * mass;
    let a = turn_b * moment * turn_c.transpose();
    let trace = a.x_axis.x + a.y_axis.y + a.z_axis.z;
    let lever_b = turn_b * (first - centre_b * mass);
    let lever_c = turn_c * (first - centre_c * mass);
    for i in 0..3 {
        for j in 0..3 {
            let identity = if i == j { 1.0 } else { 0.0 };
            // (ω_b × u)·(ω_c × v) = ω_bᵀ ((u·v) I − v uᵀ) ω_c.
            hessian[(6 * p + i, 6 * q + j)] += trace * identity - a.col(i)[j];
            hessian[(6 * p + 3 + i, 6 * q + 3 + j)] += mass * identity;
        }
        let axis = DVec3::AXES[i];
        // (ω_b × u)·τ_c = ω_b·(u × τ_c).
        let turn_shift = axis.cross(lever_b);
        let shift_turn = axis.cross(lever_c);
        for j in 0..3 {
            hessian[(6 * p + i, 6 * q + 3 + j)] += turn_shift[j];
            hessian[(6 * p + 3 + j, 6 * q + i)] += shift_turn[j];
        }
    }
}

/// The columns of `a bᵀ`.
fn outer(a: DVec3, b: DVec3) -> DMat3 {
    DMat3::from_cols(a * b.x, a * b.y, a * b.z)
}

fn frame(motion: &Motion, e: usize) -> Vec<DAffine3> {
    (0..motion.bone_count()).map(|b| motion.get(b, e)).collect()
}

fn column(t: &DAffine3, k: usize) -> DVec3 {
    if k < 3 { t.matrix3.col(k) } else { t.translation }
}

/// `T S`, four columns.
fn times(t: &DAffine3, s: &[f64; 10]) -> [DVec3; 4] {
    let (x, y, z, w) = (t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation);
    [
        x * s[0] + y * s[1] + z * s[2] + w * s[3],
        x * s[1] + y * s[4] + z * s[5] + w * s[6],
        x * s[2] + y * s[5] + z * s[7] + w * s[8],
        x * s[3] + y * s[6] + z * s[8] + w * s[9],
    ]
}
