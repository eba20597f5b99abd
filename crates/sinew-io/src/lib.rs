//! Files of other tools: each format a file, each checked before anything is allocated for it.
//!
//! A reader turns a file into a [`Scene`]: clips of skeletons and of meshes in one shape for all formats.

mod alembic;
mod atomic;
mod bvh;
mod bytes;
mod clip;
mod error;
mod fbx;
mod formats;
mod gltf;
mod guard;
mod mdd;
pub mod npz;
mod obj;
mod pack;
mod pc2;
mod point_cache;
mod retarget;
mod space;
mod usd;

pub use alembic::{read_alembic, write_alembic};
pub use atomic::write_atomically;
pub use bvh::read_bvh;
pub use clip::{Clock, Convention, MeshClip, PointSource, Scene, SkeletonClip, StoredFrames, Surface, VertexWeights};
pub use error::FileError;
pub use fbx::read_fbx;
pub use formats::read_scene;
pub use gltf::{
    EXTENSION, GlbJoint, GlbMesh, GlbModel, GlbMotion, GlbSkin, GlbTransform, read_gltf, write_glb_morphs,
    write_glb_skin,
};
pub use guard::READER_THREAD;
pub use mdd::{read_mdd, write_mdd};
pub use obj::{read_obj, write_obj};
pub use pack::{
    Finding, PackError, PackOptions, Packed, ScenePair, Severity, Trouble, diagnose, pack, pack_scenes, parse_axes,
    parse_offset,
};
pub use pc2::{read_pc2, write_pc2};
pub use retarget::{Retargeted, retarget};
pub use space::Space;
pub use usd::{read_usd, write_usda};

use sinew_examples::{Examples, MeshSequence};

/// What a file of examples holds.
#[derive(Debug, Clone)]
pub enum Loaded {
    /// Meshes and a skeleton.
    Examples(Box<Examples>),
    /// Meshes only.
    Sequence(Box<MeshSequence>),
}
