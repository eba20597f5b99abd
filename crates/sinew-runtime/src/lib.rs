//! A learned skin at run time: [`Model`] is plain data, [`Evaluator`] poses it.
//!
//! ```no_run
//! use sinew_runtime::{Evaluator, Model};
//! let model = Model::read("character.sinew".as_ref())?;
//! let mut evaluator = Evaluator::new(&model);
//! let pose: Vec<sinew_runtime::glam::Affine3A> = model.character.bones.iter().map(|bone| bone.rest).collect();
//! let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
//! evaluator.positions(&pose, &mut positions);
//! # Ok::<(), sinew_runtime::ModelError>(())
//! ```
//!
//! A model knows nothing of how it was fitted, nor of other tools' files. Poses are global bone transforms, in the
//! order of [`Character::bones`]; the evaluator works in the root bone's own frame, so that a rigid motion of the
//! whole character moves the result by exactly that motion.

#![deny(unsafe_code)]

mod beyond;
pub mod bounds;
mod carry;
mod character;
pub mod correction;
pub mod deform;
mod error;
mod evaluator;
mod file;
mod inputs;
pub mod joint_rotations;
mod kernel;
mod model;
mod plan;
pub mod polynomials;
pub mod pose_space;
mod posed;
#[cfg(feature = "rayon")]
mod threads;

pub use beyond::ROUNDING as RANGE_ROUNDING;
pub use carry::smooth_skin;
pub use character::{Bone, Character, Polygons, Skin};
pub use correction::Correction;
pub use deform::Deformer;
pub use error::ModelError;
pub use evaluator::{Evaluator, Options};
pub use file::FORMAT_VERSION;
/// Whose transforms poses are made of, in the version that fits.
pub use glam;
pub use inputs::Inputs;
pub use joint_rotations::{JointRanges, JointRotations};
pub use kernel::blocks::{LANES as REGISTER, Writing, registers, skinning_cycles};
pub use kernel::lanes::Instructions;
pub use model::{Metadata, Model};
pub use polynomials::Polynomials;
pub use pose_space::{KernelRegion, PoseSpace};
pub use posed::PosedSkeleton;
