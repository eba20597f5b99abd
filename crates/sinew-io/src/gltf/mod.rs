//! glTF 2.0 and GLB, in and out.

mod buffers;
mod builder;
mod morphs;
mod read;
mod track;
mod write;

pub use read::read_gltf;
pub use write::{
    EXTENSION, GlbJoint, GlbMesh, GlbModel, GlbMotion, GlbSkin, GlbTransform, write_glb_morphs, write_glb_skin,
};
