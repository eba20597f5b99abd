//! Files of other tools: each format a file, each checked before anything is allocated for it.

mod atomic;
mod error;
pub mod npz;

pub use atomic::write_atomically;
pub use error::FileError;

use sinew_examples::{Examples, MeshSequence};

/// What a file of examples holds.
#[derive(Debug, Clone)]
pub enum Loaded {
    /// Meshes and a skeleton.
    Examples(Box<Examples>),
    /// Meshes only.
    Sequence(Box<MeshSequence>),
}
