//! One method a file. Each turns a [`Training`](crate::Training) into the data of a deformer.

pub mod animation_space;
pub mod eigenskin;
pub mod halfway;
pub mod influence_sets;
pub mod multi_weight;
pub mod psd;
pub mod rr;
pub mod scape;
pub mod ssd;
