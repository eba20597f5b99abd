//! Sparse symmetric positive definite systems.

use faer::linalg::solvers::Solve;
use faer::sparse::SparseColMat;
use faer::sparse::linalg::solvers::Llt;
use faer::{Mat, Side};

/// An entry of a sparse matrix: row, column, value. Entries in the same place add up.
pub type Triplet = faer::sparse::Triplet<usize, usize, f64>;

/// A Cholesky factor of a sparse symmetric positive definite matrix.
#[derive(Debug, Clone)]
pub struct SparseCholesky(Llt<usize, f64>);

impl SparseCholesky {
    /// Factors the (n, n) matrix whose lower half `entries` give; `None` if it is not positive definite.
    #[must_use]
    pub fn new(n: usize, entries: &[Triplet]) -> Option<Self> {
        let matrix = SparseColMat::try_new_from_triplets(n, n, entries).ok()?;
        matrix.sp_cholesky(Side::Lower).ok().map(Self)
    }

    /// Solves for a right side of any width, (n, m).
    #[must_use]
    pub fn solve(&self, right: &Mat<f64>) -> Mat<f64> {
        self.0.solve(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_a_chain_and_refuses_a_floating_one() {
        let chain = [(0, 0, 2.0), (1, 0, -1.0), (1, 1, 1.0)].map(|(i, j, x)| Triplet::new(i, j, x));
        let solution = SparseCholesky::new(2, &chain).unwrap().solve(&Mat::from_fn(2, 1, |i, _| i as f64));
        // 1e-15: whole numbers, exact but for the last bit.
        assert!((solution[(0, 0)] - 1.0).abs() < 1e-15 && (solution[(1, 0)] - 2.0).abs() < 1e-15);
        let floating = [(0, 0, 1.0), (1, 0, -2.0), (1, 1, 1.0)].map(|(i, j, x)| Triplet::new(i, j, x));
        assert!(SparseCholesky::new(2, &floating).is_none());
    }
}
