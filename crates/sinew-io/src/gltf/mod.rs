//! glTF 2.0 and GLB, in and out.

mod read;

pub use read::read_gltf;
