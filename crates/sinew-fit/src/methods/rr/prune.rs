//! Leaving out the blocks of c₁ and c₂ that do not matter (ours): most are near zero, for a proxy bone is held by what is
//! near it.
//!
//! A block (p, ℓ) of c₁ is left out by letting proxy p's own gradient stand in for gradient ℓ, a block (p, b) of c₂ by
//! letting p's home bone stand in for bone b: rigid motions stay rigid. Over the training poses that moves proxy p's
//! vertices by
//!
//!   x_pℓ² = mean_e Σ_r s_pr² ‖ Σ_c B_rc (D_ℓ^e − D_p^e)_c ‖²
//!
//! s_pr being the reach of p's vertices from its centre. In each row the blocks with the smallest x go one after the
//! other, while what all of them together move stays under the tolerance.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;
use sinew_linalg::Mat;

use super::RrFit;
use super::reduce::Reduction;
use super::weights::{Palette, drawing_matrix};
use crate::Training;
use crate::methods::ssd::SparseWeights;

/// What was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneReport {
    /// Blocks that stay, of c₁ and c₂ together.
    pub kept: usize,
    /// Blocks that there were.
    pub total: usize,
}

/// How much of plain skinning's multiply-adds those of c₁ and c₂ may be: rotational regression is to cost at most 1.15
/// times plain skinning. Half as much where a correction follows and costs something too.
const AFFORDABLE: f64 = 0.15;
/// What the tolerance is multiplied by, one after the other, while they cost more. Four times as much leaves out a third to
/// a half of the blocks; past sixteen times the error begins to grow, unless a correction follows.
const MORE: [f64; 3] = [4.0, 16.0, 64.0];
/// Blocks that are always affordable: they take a third of a microsecond.
const CHEAP: f64 = 400.0;

/// What makes up for blocks that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeUpBy {
    /// Nothing: the thesis's form.
    Nothing,
    /// The end-to-end refinement.
    Refinement,
    /// The refinement, and a correction after it.
    Correction,
}

/// The least tolerance, `tolerance` or a multiple of it as far as that is made up for, whose c₁ and c₂ are affordable (or
/// the last), and what [`prune`] leaves with it. `gradients` (N)(P).
pub fn affordable(
    training: &Training,
    fit: &RrFit,
    gradients: &[Vec<DMat3>],
    tolerance: f64,
    by: MadeUpBy,
) -> (f64, PruneReport) {
    let RrFit { palette, weights, reduction, .. } = fit;
    let tried = |tolerance: f64| {
        let mut reduction = reduction.clone();
        (tolerance, prune(training, palette, weights, gradients, &mut reduction, tolerance))
    };
    let (share, more): (f64, &[f64]) = match by {
        MadeUpBy::Nothing => (AFFORDABLE, &[]),
        MadeUpBy::Refinement => (AFFORDABLE, &MORE[..2]),
        MadeUpBy::Correction => (AFFORDABLE / 2.0, &MORE),
    };
    // Twelve multiply-adds an influence; some 42 a block of 4×3 or 4×4.
    let influences: usize = weights.vertices.iter().map(Vec::len).sum();
    let budget = (share * (12 * influences) as f64 / 42.0).max(CHEAP);
    let mut least = tried(tolerance);
    for more in more {
        if least.1.kept as f64 > budget {
            least = tried(more * tolerance);
        }
    }
    least
}

/// Whether a correction should make up for so many more blocks: if a third of them go at least. They hold the proxies
/// together beyond the trained ranges, where the correction no longer follows the pose.
#[must_use]
pub fn worthwhile(before: PruneReport, after: PruneReport) -> bool {
    3 * after.kept <= 2 * before.kept
}

/// Leaves blocks out of `reduction`, moving no proxy's vertices by more than `tolerance` metres rms. `gradients` (N)(P).
pub fn prune(
    training: &Training,
    palette: &Palette,
    weights: &SparseWeights,
    gradients: &[Vec<DMat3>],
    reduction: &mut Reduction,
    tolerance: f64,
) -> PruneReport {
    let unknowns = 4 * palette.proxies;
    let drawing = drawing_matrix(training, palette, weights);
    let reach = |p: usize| -> [f64; 4] {
        let diagonal = |r: usize| drawing[(4 * p + r) * unknowns + 4 * p + r];
        std::array::from_fn(|r| if r == 3 { 1.0 } else { (diagonal(r) / diagonal(3).max(f64::MIN_POSITIVE)).sqrt() })
    };
    let key = |e: usize, p: usize| -> [DVec3; 3] { columns3(gradients[e][p]) };
    let bone = |e: usize, b: usize| -> [DVec3; 4] { columns4(training.transforms[e][b]) };
    let poses = training.pose_count();
    let first = standing_in(&reduction.c1, palette.proxies, poses, &|p| p, &key, &reach, tolerance);
    let second =
        standing_in(&reduction.c2, palette.proxies, poses, &|p| palette.home_bones[p], &bone, &reach, tolerance);
    let dropped = apply::<3>(&mut reduction.c1, &first, &|p| p)
        + apply::<4>(&mut reduction.c2, &second, &|p| palette.home_bones[p]);
    let total = palette.proxies * (palette.proxies + training.bone_count());
    PruneReport { kept: total - dropped, total }
}

fn columns3(m: DMat3) -> [DVec3; 3] {
    [m.x_axis, m.y_axis, m.z_axis]
}

fn columns4(t: DAffine3) -> [DVec3; 4] {
    [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation]
}

/// The block columns to leave out of each block row, (P).
fn standing_in<const C: usize>(
    matrix: &Mat<f64>,
    proxies: usize,
    poses: usize,
    stand_in: &(dyn Fn(usize) -> usize + Sync),
    source: &(dyn Fn(usize, usize) -> [DVec3; C] + Sync),
    reach: &(dyn Fn(usize) -> [f64; 4] + Sync),
    tolerance: f64,
) -> Vec<Vec<usize>> {
    let row = |p: usize| {
        let (own, reach) = (stand_in(p), reach(p));
        // What leaving a block out moves, (N, 4).
        let moves = |column: usize| -> Vec<DVec3> {
            let mut moves = Vec::with_capacity(4 * poses);
            for e in 0..poses {
                let (there, here) = (source(e, column), source(e, own));
                for r in 0..4 {
                    let sum: DVec3 = (0..C).map(|c| matrix[(4 * p + r, C * column + c)] * (there[c] - here[c])).sum();
                    moves.push(reach[r] * sum);
                }
            }
            moves
        };
        let rms = |moves: &[DVec3]| (moves.iter().map(|m| m.length_squared()).sum::<f64>() / poses as f64).sqrt();
        let mut others: Vec<(f64, usize, Vec<DVec3>)> = (0..matrix.ncols() / C)
            .filter(|&column| column != own)
            .map(|column| (column, moves(column)))
            .map(|(column, moves)| (rms(&moves), column, moves))
            .collect();
        // In steps: equal blocks of a symmetric mesh must not hang on the last bit.
        let step = (1e-6 * tolerance).max(f64::MIN_POSITIVE);
        others.sort_by_key(|&(moved, column, _)| ((moved / step) as u64, column));
        let mut total = vec![DVec3::ZERO; 4 * poses];
        let affordable = others.iter().take_while(|(_, _, moves)| {
            total.iter_mut().zip(moves).for_each(|(total, moved)| *total += *moved);
            rms(&total) <= tolerance
        });
        affordable.map(|&(_, column, _)| column).collect()
    };
    (0..proxies).into_par_iter().map(row).collect()
}

/// Adds each dropped block to its stand-in's and clears it; returns how many were dropped.
fn apply<const C: usize>(matrix: &mut Mat<f64>, dropped: &[Vec<usize>], stand_in: &dyn Fn(usize) -> usize) -> usize {
    for (p, columns) in dropped.iter().enumerate() {
        let own = stand_in(p);
        for &column in columns {
            for r in 0..4 {
                for c in 0..C {
                    let value = std::mem::take(&mut matrix[(4 * p + r, C * column + c)]);
                    matrix[(4 * p + r, C * own + c)] += value;
                }
            }
        }
    }
    dropped.iter().map(Vec::len).sum()
}
