//! Small solvers that the methods share.

pub mod few;
pub mod lbfgs;
pub mod rotation;
pub mod simplex;
pub mod sparse_cholesky;
