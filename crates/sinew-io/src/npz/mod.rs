//! `examples.npz`: the interchange that any tool with numpy can write. A zip of `.npy` arrays by name.
//!
//! | key | type | shape |
//! |---|---|---|
//! | `rest_vertices` | f32 | (V, 3) |
//! | `faces` | u32 | (F, 3) |
//! | `vertices` | f32 | (N, V, 3) |
//! | `bone_parents`, `rest_bones`, `bones`, `bone_names` | i32, f32, f32, str | (J), (J, 4, 4), (N, J, 4, 4), (J); all or none but the names |
//! | `train`, `test` | int | frame indices, optional |
//! | `influences` | f32 | (V, J), optional |
//! | `pose_weights` | f32 | (N), optional |
//! | `polygon_counts`, `polygon_vertices` | u32 | optional |
//! | `uvs` | f32 | (F, 3, 2), optional |
//! | `fps` | f32 | (), optional |
//!
//! Matrices stand row by row as numpy prints them, translation in the last column.

mod array;
mod read;
mod scene;
mod write;

pub use array::{Array, Values};
pub use read::{read, read_arrays, read_bytes};
pub use scene::read_npz;
pub use write::{write, write_arrays, write_sequence};
