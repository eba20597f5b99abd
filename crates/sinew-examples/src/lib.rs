//! The nouns of sinew: [`Mesh`], [`Skeleton`], [`Pose`], [`MeshSequence`] and [`Examples`].
//!
//! Everything here is checked once, when it is made; the rest of the project trusts it. What is wrong
//! beyond repair is an [`ExamplesError`] that names the frame and the number; what is merely odd is
//! accepted and kept as a [`Notice`].
//!
//! Conventions (all crates): column vectors, right-handed, +Y up, metres. A bone's skinning transform is
//! `T_b = G_b · Ĝ_b⁻¹`, posed global times inverse rest global. Index letters: `v` vertex, `f` face,
//! `b` bone, `p` proxy bone, `e` example.

pub mod datasets;
mod error;
mod examples;
mod frames;
mod mesh;
mod notice;
mod rng;
mod sequence;
mod skeleton;
mod transform;

pub use error::ExamplesError;
pub use examples::{Examples, ExamplesParts, InfluenceMap};
pub use frames::{FrameSelection, Split};
pub use mesh::{Mesh, Polygons};
pub use notice::Notice;
pub use rng::Rng;
pub use sequence::MeshSequence;
pub use skeleton::{Bone, Pose, Skeleton};
pub use transform::{nearest_rotation, rigid_part};
