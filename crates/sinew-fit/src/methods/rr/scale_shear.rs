//! Scale and shear (Wang, thesis 2007, section 2.3): the stretch S linear in the joints' rotations.
//!
//!   minimise Σ_e a_e ‖H x^e − vec(S^e − I)‖² + λ s² ‖H‖²,   x = [θ̃ … 1]
//!
//! S is symmetric, so H has six rows instead of nine. A few poses do not determine its columns: hence the ridge, the
//! constant free, s² the mean of the regressors' squares, and λ by the closed form of leave-one-out (`r_e / (1 − h_ee)`,
//! h the hat matrix) over a few values. One s² for all: a joint that hardly moves about an axis must not be given a large
//! coefficient for it, which another pose would pay for.

use glam::DMat3;
use nalgebra::{SMatrix, SVector};

use super::predictor::COLUMNS;

/// The ridges tried, relative to the regressors' own squares: from hardly any to hardly a fit.
const RIDGES: [f64; 5] = [1e-3, 1e-2, 0.1, 0.3, 1.0];

type Square = SMatrix<f64, COLUMNS, COLUMNS>;
type Column = SVector<f64, COLUMNS>;

/// H for stretches (N) over regressors (N).
#[must_use]
pub fn fit(regressors: &[[f64; COLUMNS]], stretches: &[DMat3], weights: &[f64]) -> [[f64; COLUMNS]; 6] {
    let outputs: Vec<[f64; 6]> = stretches.iter().map(|&s| entries(s - DMat3::IDENTITY)).collect();
    ridge_by_leave_one_out(regressors, &outputs, weights, true).1
}

/// The entries xx, yy, zz, xy, xz, yz of a symmetric matrix.
fn entries(s: DMat3) -> [f64; 6] {
    [s.x_axis.x, s.y_axis.y, s.z_axis.z, s.x_axis.y, s.x_axis.z, s.y_axis.z]
}

/// Ridge regression of K outputs a pose on the regressors, and its leave-one-out error; the constant column is free, or
/// left out.
#[must_use]
pub fn ridge_by_leave_one_out<const K: usize>(
    regressors: &[[f64; COLUMNS]],
    outputs: &[[f64; K]],
    weights: &[f64],
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
    let mut best = (f64::INFINITY, [[0.0; COLUMNS]; K]);
    for ridge in RIDGES {
        let candidate = solve(&x, outputs, weights, square, ridge);
        if candidate.0 < best.0 {
            best = candidate;
        }
    }
    best
}

/// The leave-one-out error and the solution for one ridge.
fn solve<const K: usize>(
    x: &[Column],
    outputs: &[[f64; K]],
    weights: &[f64],
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
    let mut error = 0.0;
    for ((x, y), &a) in x.iter().zip(outputs).zip(weights) {
        let leverage = a * x.dot(&factor.solve(x));
        // With as many unknowns as poses a pose is fitted by itself alone and leaving it out says nothing.
        let keep = (1.0 - leverage).max(1e-3);
        for (row, y) in solution.iter().zip(y) {
            let predicted: f64 = row.iter().zip(x.iter()).map(|(h, x)| h * x).sum();
            error += a * ((predicted - y) / keep).powi(2);
        }
    }
    (error, solution)
}
