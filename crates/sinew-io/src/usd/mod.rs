//! USD (`.usda`, `.usdc`, `.usdz`) through openusd: UsdSkel skeletons with animation, meshes with time-sampled points.
//!
//! The stage's `upAxis` and `metersPerUnit` are applied, so that everything is in metres, Y up.

mod checked;
mod packing;
mod read;
mod sizes;
mod transform;
mod write;

pub use read::read_usd;
pub use write::write_usda;
