//! A learned skin on the GPU, through wgpu compute shaders: the passes of Wang, Pulli and Popović (2007) for every method
//! that has one.
//!
//! 0. `predict`: key gradients d(q) from joint rotations (rotational regression, if [`SkinOptions::predict`] asks for it;
//!    otherwise the processor does it, which takes microseconds);
//! 1. `proxies`: proxy bones from key gradients and bones, `t = c₁ d + c₂ q` (rotational regression only);
//! 2. `skin`: every vertex from the palette, into a buffer that later passes reuse;
//! 3. `carry`: vertices carried on from the nearest pose within the trained ranges (rotational regression that draws from
//!    points, in frames with a pose beyond them);
//! 4. `correction`: displacements interpolated over poses (models that have one);
//! 5. `normals`: from the posed triangles.
//!
//! A frame uploads d(q) and q, or q alone, a few hundred numbers an instance; many instances run in one dispatch. The shaders stand
//! alone ([`shaders`]); every pass needs three storage buffers, so that OpenGL ES 3.1 runs them too.
//!
//! ```no_run
//! use sinew_gpu::{Backend, Gpu, GpuSkin};
//! # let model = sinew_runtime::Model::read("character.sinew".as_ref())?;
//! let gpu = Gpu::new(Backend::Any)?;
//! let mut skin = GpuSkin::new(&gpu, &model, 1)?;
//! let pose: Vec<glam::Affine3A> = model.character.bones.iter().map(|bone| bone.rest).collect();
//! skin.pose(&gpu, &pose)?;
//! let positions = skin.read_positions(&gpu)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod device;
mod draw;
mod pass;
mod skin;
mod tables;

pub use device::{Backend, Gpu, GpuError};
pub use draw::{Camera, Picture, Renderer};
pub use skin::{GpuSkin, SkinOptions};

/// The WGSL sources, for engines that want only them; each says what its buffers hold.
pub mod shaders {
    /// Joint rotations to key gradients.
    pub const PREDICT: &str = include_str!("../shaders/predict.wgsl");
    /// Proxy bones and bones to a palette.
    pub const PROXIES: &str = include_str!("../shaders/proxies.wgsl");
    /// A palette to posed vertices.
    pub const SKIN: &str = include_str!("../shaders/skin.wgsl");
    /// Posed vertices carried on beyond the trained ranges.
    pub const CARRY: &str = include_str!("../shaders/carry.wgsl");
    /// Displacements added to posed vertices.
    pub const CORRECTION: &str = include_str!("../shaders/correction.wgsl");
    /// Posed vertices to normals.
    pub const NORMALS: &str = include_str!("../shaders/normals.wgsl");
    /// Posed vertices and normals to a shaded picture.
    pub const DRAW: &str = include_str!("../shaders/draw.wgsl");
}
