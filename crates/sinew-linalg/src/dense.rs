//! Dense products, symmetric positive definite systems and eigenvectors.

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{Llt, Solve};
use faer::{Accum, Mat, MatRef, Par, Side};
use glam::DVec3;

/// `A B`, (m, k) by (k, n).
#[must_use]
pub fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut result = Mat::zeros(a.nrows(), b.ncols());
    matmul(result.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    result
}

/// `Aᵀ B`, (k, m) by (k, n).
#[must_use]
pub fn transposed_product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    product(a.transpose(), b)
}

/// `A − B`.
#[must_use]
pub fn difference(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    a - b
}

/// The largest entry by size.
#[must_use]
pub fn largest(a: &Mat<f64>) -> f64 {
    a.norm_max()
}

/// A symmetric matrix's eigenvalues, ascending, and its eigenvectors.
#[derive(Debug, Clone)]
pub struct SymmetricEigen {
    /// Ascending, (n).
    pub values: Vec<f64>,
    /// A column an eigenvector, (n, n).
    pub vectors: Mat<f64>,
}

/// The eigenvectors of a symmetric matrix, of which the lower half is read; `None` if it holds what is not a number.
#[must_use]
pub fn symmetric_eigen(matrix: &Mat<f64>) -> Option<SymmetricEigen> {
    let eigen = matrix.self_adjoint_eigen(Side::Lower).ok()?;
    let values = eigen.S().column_vector();
    Some(SymmetricEigen { values: (0..matrix.nrows()).map(|k| values[k]).collect(), vectors: eigen.U().to_owned() })
}

/// A Cholesky factor of a symmetric positive definite matrix.
#[derive(Debug, Clone)]
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

    /// Factors `matrix` as it stands, or says that it is not positive definite.
    #[must_use]
    pub fn strict(matrix: &Mat<f64>) -> Option<Self> {
        Some(Self { size: matrix.nrows(), factor: Some(matrix.llt(Side::Lower).ok()?) })
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
