//! Small solvers that the methods share.

pub mod simplex;
