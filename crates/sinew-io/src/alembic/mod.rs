//! Alembic (`.abc`): polygon meshes with time samples, in and out, without the SDK.
//!
//! Alembic does not say units or axes: by custom they are metres, Y up. Faces are
//! clockwise in the file and counter-clockwise here.

mod archive;
mod ogawa;
mod read;
mod write;

pub use read::read_alembic;
pub use write::write_alembic;
