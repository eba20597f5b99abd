//! Large matrices, dense and sparse, through faer.
//!
//! faer is generic, so every crate that calls it compiles its kernels again, which takes minutes. Here they are compiled
//! once, for f64 and one thread (a sum has one order whatever the machine). Other crates name matrices by [`Mat`] and
//! compute with the functions below, never with faer's operators.

pub mod dense;
pub mod sparse;

pub use dense::{Cholesky, SymmetricEigen, difference, largest, product, symmetric_eigen, transposed_product};
pub use faer::{Mat, MatRef};
pub use sparse::{SparseCholesky, Triplet};
