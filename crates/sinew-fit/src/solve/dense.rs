//! Dense symmetric positive definite systems, through faer.

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, MatRef, Side};
use glam::DVec3;

/// A Cholesky factor of a symmetric positive definite matrix.
pub struct Cholesky {
    factor: Option<Llt<f64>>,
    size: usize,
}

impl Cholesky {
    /// Factors `matrix` (n, n), row by row. If rounding made it indefinite the diagonal is raised until it is not: callers
    /// put a ridge there anyway.
    #[must_use]
    pub fn new(matrix: Vec<f64>, n: usize) -> Self {
        assert_eq!(matrix.len(), n * n, "a square matrix");
        if n == 0 {
            return Self { factor: None, size: 0 };
        }
        let mut matrix = MatRef::from_row_major_slice(&matrix, n, n).to_owned();
        let mean = (0..n).map(|i| matrix[(i, i)].abs()).sum::<f64>() / n as f64;
        let mut raise = 1e-14 * mean.max(f64::MIN_POSITIVE);
        loop {
            if let Ok(factor) = matrix.llt(Side::Lower) {
                return Self { factor: Some(factor), size: n };
            }
            if !(raise < 1e3 * mean.max(f64::MIN_POSITIVE)) {
                // Not a number somewhere: the identity at least spreads nothing further.
                let factor = Mat::<f64>::identity(n, n).llt(Side::Lower).expect("the identity is definite");
                return Self { factor: Some(factor), size: n };
            }
            (0..n).for_each(|i| matrix[(i, i)] += raise);
            raise *= 10.0;
        }
    }

    /// Solves for a right side of points, (n).
    #[must_use]
    pub fn solve3(&self, right: &[DVec3]) -> Vec<DVec3> {
        let solution = self.solve(Mat::from_fn(self.size, 3, |i, k| right[i][k]));
        (0..self.size).map(|i| DVec3::new(solution[(i, 0)], solution[(i, 1)], solution[(i, 2)])).collect()
    }

    /// Solves for a right side of any width, (n, m).
    #[must_use]
    pub fn solve(&self, right: Mat<f64>) -> Mat<f64> {
        match &self.factor {
            Some(factor) => factor.solve(right),
            None => right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_a_small_system() {
        let factor = Cholesky::new(vec![4.0, 1.0, 1.0, 3.0], 2);
        let x = factor.solve3(&[DVec3::new(1.0, 5.0, 0.0), DVec3::new(2.0, 4.0, 0.0)]);
        // 1e-15: exact but for the last bit.
        assert!((x[0] - DVec3::new(1.0 / 11.0, 1.0, 0.0)).length() < 1e-15);
        assert!((x[1] - DVec3::new(7.0 / 11.0, 1.0, 0.0)).length() < 1e-15);
    }

    #[test]
    fn a_singular_matrix_is_raised_instead_of_failing() {
        let x = Cholesky::new(vec![1.0, 1.0, 1.0, 1.0], 2).solve3(&[DVec3::ONE, DVec3::ONE]);
        assert!(x.iter().all(|x| x.is_finite()));
    }
}
