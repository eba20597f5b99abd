//! What a correction would leave of the error on left-out poses: the refinement's ridge is chosen for the model that is
//! used, not for the part of it that comes first.
//!
//! A strong ridge leaves over much that kernels over poses predict well, a weak one little that they predict badly. Here the
//! correction is emulated on the key gradients d, where a fold costs nothing with the mesh: at the poses of the fit the
//! change δ that would draw the rest of the vertices,
//!
//!   `(K + μ diag K) δ = g − K d`,
//!
//! in the frame of the proxy's home bone, is regressed over poses as the correction does it ([`crate::correct::select`]),
//! with few kernels to choose from, and added to d at the poses left out.

use glam::DMat3;
use sinew_linalg::Cholesky;

use super::refine::Quadratic;
use crate::Training;
use crate::correct::kernel::{Kernel, Ridge};
use crate::correct::poses::PoseTable;
use crate::correct::regions;
use crate::geometry::JointRotations;

/// μ: directions of d that hardly show on the vertices are not learned.
const SPREAD: f64 = 1e-2;

/// Widths tried, radians.
const WIDTHS: [f64; 3] = [0.5, 1.0, 2.0];

/// Ridges tried, relative to a kernel of height one.
const RIDGES: [f64; 5] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Joints a kernel sees at most: the bone's own, its children's, its parent's.
const JOINTS: usize = 4;

/// What does not depend on the fold.
pub struct Emulation<'a> {
    joints: &'a JointRotations,
    quadratic: &'a Quadratic,
    system: Cholesky,
    table: PoseTable,
    /// The proxies of each home bone, with the kernels to choose from as matrices (N, N).
    regions: Vec<Region>,
}

struct Region {
    bone: usize,
    proxies: Vec<usize>,
    kernels: Vec<Vec<f64>>,
}

impl<'a> Emulation<'a> {
    /// The poses and regions of a fit whose proxies have these home bones, (P).
    #[must_use]
    pub fn new(
        training: &Training,
        joints: &'a JointRotations,
        quadratic: &'a Quadratic,
        home_bones: &[usize],
    ) -> Self {
        let table = PoseTable::new(training, false);
        let region = |(bone, proxies): (usize, Vec<u32>)| {
            let mut seen = regions::candidates(&training.skeleton, &table, bone);
            seen.truncate(JOINTS);
            let kernel = |&width: &f64| Kernel {
                joints: seen.iter().map(|&c| (c, width)).collect(),
                constant: 1.0,
                product: 0.5,
                additive: 0.5,
                peak: 0.0,
            };
            let kernels = WIDTHS.iter().map(|width| kernel(width).matrix(&table)).collect();
            Region { bone, proxies: proxies.into_iter().map(|p| p as usize).collect(), kernels }
        };
        let regions = regions::by_bone(home_bones, training.bone_count()).into_iter().map(region).collect();
        Self { joints, quadratic, system: quadratic.held_system(SPREAD), table, regions }
    }

    /// Corrects the key gradients (N)(P) of the poses `held_out` from what is left over at the poses `fit`.
    pub fn correct(&self, gradients: &mut [Vec<DMat3>], fit: &[usize], held_out: &[usize]) {
        let left: Vec<Vec<DMat3>> = fit.iter().map(|&e| self.quadratic.left(&self.system, e, &gradients[e])).collect();
        for region in &self.regions {
            let turned = |i: usize, p: usize| self.joints.bones[fit[i]][region.bone].transpose() * left[i][p];
            let targets: Vec<Vec<DMat3>> =
                (0..fit.len()).map(|i| region.proxies.iter().map(|&p| turned(i, p)).collect()).collect();
            let Some((kernel, ridge)) = self.choose(region, &targets, fit) else { continue };
            for &h in held_out {
                let near: Vec<f64> = fit.iter().map(|&e| kernel[h * self.table.poses + e]).collect();
                let weights: Vec<f64> = ridge.inverse.chunks_exact(fit.len()).map(|row| dot(row, &near)).collect();
                let turn = self.joints.bones[h][region.bone];
                for (k, &p) in region.proxies.iter().enumerate() {
                    let change: DMat3 =
                        weights.iter().zip(&targets).fold(DMat3::ZERO, |sum, (&w, row)| sum + row[k] * w);
                    gradients[h][p] += turn * change;
                }
            }
        }
    }

    /// The kernel and ridge under which the targets are least surprising.
    fn choose<'r>(&self, region: &'r Region, targets: &[Vec<DMat3>], fit: &[usize]) -> Option<(&'r Vec<f64>, Ridge)> {
        let masses: Vec<f64> = region.proxies.iter().map(|&p| self.quadratic.mass(p)).collect();
        let n = fit.len();
        let product = |i: usize, j: usize| -> f64 {
            let pairs = targets[i].iter().zip(&targets[j]).zip(&masses);
            pairs.map(|((a, b), mass)| mass * dot(&a.to_cols_array(), &b.to_cols_array())).sum()
        };
        let gram: Vec<f64> = (0..n * n).map(|k| product(k / n, k % n)).collect();
        let weights: Vec<f64> = fit.iter().map(|&e| self.table.weights[e]).collect();
        let sources: Vec<usize> = fit.iter().map(|&e| self.table.sources[e]).collect();
        let mut best: Option<(f64, &'r Vec<f64>, Ridge)> = None;
        for kernel in &region.kernels {
            let seen: Vec<f64> = (0..n * n).map(|k| kernel[fit[k / n] * self.table.poses + fit[k % n]]).collect();
            for ridge in RIDGES.iter().filter_map(|&lambda| Ridge::new(&seen, lambda, &weights)) {
                let score = ridge.surprise(&gram, &sources);
                if best.as_ref().is_none_or(|(least, ..)| score < *least) {
                    best = Some((score, kernel, ridge));
                }
            }
        }
        best.map(|(_, kernel, ridge)| (kernel, ridge))
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
