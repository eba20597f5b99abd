//! Scale and shear (Wang, thesis 2007, section 2.3): the stretch S linear in the joints' rotations.
//!
//!   minimise Σ_e a_e ‖H x^e − vec(S^e − I)‖² + λ s² ‖H‖²,   x = [θ̃ … 1]
//!
//! S is symmetric, so H has six rows instead of nine. A few poses do not determine its columns: hence the ridge, the
//! constant free, s² the mean of the regressors' squares, and λ by the closed form of leave-one-out (`r_e / (1 − h_ee)`,
//! h the hat matrix) over a few values. One s² for all: a joint that hardly moves about an axis must not be given a large
//! coefficient for it, which another pose would pay for.

use glam::DMat3;
use nalgebra::{DMatrix, DVector, SMatrix, SVector, SymmetricEigen};

use super::predictor::COLUMNS;
use crate::cross_validation::together;

/// The ridges tried, relative to the regressors' own squares: from hardly any to hardly a fit.
const RIDGES: [f64; 5] = [1e-3, 1e-2, 0.1, 0.3, 1.0];

type Square = SMatrix<f64, COLUMNS, COLUMNS>;
type Column = SVector<f64, COLUMNS>;

/// H for stretches (N) over regressors (N) of poses that come from the examples `sources`, (N).
#[must_use]
pub fn fit(
    regressors: &[[f64; COLUMNS]],
    stretches: &[DMat3],
    weights: &[f64],
    sources: &[usize],
) -> [[f64; COLUMNS]; 6] {
    let outputs: Vec<[f64; 6]> = stretches.iter().map(|&s| entries(s - DMat3::IDENTITY)).collect();
    ridge_by_leave_one_out(regressors, &outputs, weights, sources, true).1
}

/// The entries xx, yy, zz, xy, xz, yz of a symmetric matrix.
fn entries(s: DMat3) -> [f64; 6] {
    [s.x_axis.x, s.y_axis.y, s.z_axis.z, s.x_axis.y, s.x_axis.z, s.y_axis.z]
}

/// Ridge regression of K outputs a pose on the regressors, and its leave-one-out error, poses of one source left out
/// together; the constant column is free, or left out.
#[must_use]
pub fn ridge_by_leave_one_out<const K: usize>(
    regressors: &[[f64; COLUMNS]],
    outputs: &[[f64; K]],
    weights: &[f64],
    sources: &[usize],
    constant: bool,
) -> (f64, [[f64; COLUMNS]; K]) {
    let x: Vec<Column> = regressors
        .iter()
        .map(|row| {
            let mut x = Column::from_column_slice(row);
            if !constant {
                x[COLUMNS - 1] = 0.0;
            }
            x
        })
        .collect();
    let mut square = Square::zeros();
    for (x, &a) in x.iter().zip(weights) {
        square += x * x.transpose() * a;
    }
    let groups = together(sources);
    let mut best = (f64::INFINITY, [[0.0; COLUMNS]; K]);
    for ridge in RIDGES {
        let candidate = solve(&x, outputs, weights, &groups, square, ridge);
        if candidate.0 < best.0 {
            best = candidate;
        }
    }
    best
}

/// The leave-one-out error and the solution for one ridge.
///
/// Without the poses g of a group their residuals are `(I − H_gg)⁻¹ r_g`, `H_gg = √a X_g (XᵀAX + λ)⁻¹ X_gᵀ √a`.
fn solve<const K: usize>(
    x: &[Column],
    outputs: &[[f64; K]],
    weights: &[f64],
    groups: &[Vec<usize>],
    mut square: Square,
    ridge: f64,
) -> (f64, [[f64; COLUMNS]; K]) {
    let last = COLUMNS - 1;
    let mean = (square.trace() - square[(last, last)]) / last as f64;
    for k in 0..COLUMNS {
        // The constant keeps a trace of the ridge, for one pose alone determines nothing else.
        let share = if k == last { 1e-6 * square[(last, last)] } else { ridge * mean };
        square[(k, k)] += share + f64::MIN_POSITIVE;
    }
    let Some(factor) = square.cholesky() else { return (f64::INFINITY, [[0.0; COLUMNS]; K]) };
    let mut solution = [[0.0; COLUMNS]; K];
    for (k, row) in solution.iter_mut().enumerate() {
        let mut right = Column::zeros();
        for ((x, y), &a) in x.iter().zip(outputs).zip(weights) {
            right += x * (a * y[k]);
        }
        row.copy_from_slice(factor.solve(&right).as_slice());
    }
    let residual = |e: usize, k: usize| -> f64 {
        weights[e].sqrt() * (solution[k].iter().zip(x[e].iter()).map(|(h, x)| h * x).sum::<f64>() - outputs[e][k])
    };
    let mut error = 0.0;
    for group in groups {
        let solved: Vec<Column> = group.iter().map(|&e| factor.solve(&x[e])).collect();
        let entry = |i: usize, j: usize| (weights[group[i]] * weights[group[j]]).sqrt() * x[group[i]].dot(&solved[j]);
        let own = SymmetricEigen::new(DMatrix::from_fn(group.len(), group.len(), entry));
        for k in 0..K {
            let left = own.eigenvectors.tr_mul(&DVector::from_fn(group.len(), |i, _| residual(group[i], k)));
            // With as many unknowns as poses a pose is fitted by itself alone and leaving it out says nothing.
            let pairs = left.iter().zip(own.eigenvalues.iter());
            error += pairs.map(|(r, h)| (r / (1.0 - h).max(1e-3)).powi(2)).sum::<f64>();
        }
    }
    (error, solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pose_is_left_out_with_its_image() {
        // Outputs that nothing predicts, each pose given twice: its twin foretells a pose, but not when both are left out.
        let pose = |e: usize| {
            let mut x = [0.0; COLUMNS];
            (0..3).for_each(|k| x[k] = ((e * 7 + k * 5) as f64).sin());
            x[COLUMNS - 1] = 1.0;
            (x, [((e * 13) as f64).cos()])
        };
        let (x, y): (Vec<_>, Vec<_>) = (0..16).map(|e| pose(e / 2)).unzip();
        let weights = [1.0; 16];
        let error = |sources: &[usize]| {
            let groups = together(sources);
            let columns: Vec<Column> = x.iter().map(|x| Column::from_column_slice(x)).collect();
            let square = columns.iter().fold(Square::zeros(), |sum, x| sum + x * x.transpose());
            solve(&columns, &y, &weights, &groups, square, 1e-3).0
        };
        let (alone, together) =
            (error(&(0..16).collect::<Vec<_>>()), error(&(0..16).map(|e| e / 2).collect::<Vec<_>>()));
        // With both gone a residual r becomes r/(1 − 2h) instead of r/(1 − h), and h is a quarter in the mean: four unknowns
        // of sixteen poses.
        assert!(together > 1.5 * alone, "{together} left out together, {alone} one by one");
    }
}
