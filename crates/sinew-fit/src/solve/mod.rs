//! Small solvers that the methods share.

pub mod dense;
pub mod lbfgs;
pub mod simplex;
pub mod few;
pub mod rotation;
