//! One method a file. Each turns a [`Training`](crate::Training) into the data of a deformer.

pub mod ssd;
