//! Geometry that the methods share: rotations and their logarithms, mesh topology, deformation gradients.

pub mod gradient;
pub mod joint_rotations;
pub mod rotation;
pub mod topology;

pub use joint_rotations::JointRotations;
