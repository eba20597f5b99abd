//! The methods at run time, each a file: its data, its checks, its tensors, its evaluation.
//!
//! To add a method: a file here with a struct that has `check`, `write`, `read`, `deform` and `cost`, and a line in
//! each `match` below.

mod animation_space;
mod block_rows;
mod dual_quaternion;
mod full_gradients;
mod gradients;
mod half_way;
mod linear_blend;
mod linear_gradients;
mod multi_weight;
mod rotational_regression;

pub use animation_space::AnimationSpace;
pub use block_rows::BlockRows;
pub use dual_quaternion::DualQuaternion;
pub(crate) use dual_quaternion::to_dual;
pub use full_gradients::{FullGradients, PoissonFactor, TrianglePredictors};
pub use gradients::GradientPredictors;
pub use half_way::{ExtraJoint, HalfWay};
pub use linear_blend::LinearBlend;
pub use linear_gradients::LinearGradients;
pub use multi_weight::MultiWeight;
pub use rotational_regression::RotationalRegression;

use crate::file::{TensorReader, TensorWriter};
use crate::{Character, JointRanges, JointRotations, ModelError, PosedSkeleton, Skin};

/// How a pose becomes vertices.
#[derive(Debug, Clone, PartialEq)]
// A model has one deformer: its size on the stack does not matter, and a box would be in every user's way.
#[allow(clippy::large_enum_variant)]
pub enum Deformer {
    /// `v = Σ w_b T_b v̂` with the character's own weights (SSD); rigid binding is the case of one weight.
    LinearBlend(LinearBlend),
    /// Dual quaternions with the character's own weights.
    DualQuaternion(DualQuaternion),
    /// `v = Σ T_b p_b`.
    AnimationSpace(AnimationSpace),
    /// A weight for every entry of every bone's matrix.
    MultiWeight(MultiWeight),
    /// Linear blend skinning over bones and joints that turn half-way or scale.
    HalfWay(HalfWay),
    /// Rotational regression, reduced to proxy bones.
    RotationalRegression(RotationalRegression),
    /// A gradient for every triangle and a Poisson equation over the mesh.
    FullGradients(FullGradients),
}

/// Memory that a deformer reuses from frame to frame.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// Dual quaternions, a bone each.
    pub(crate) dual: Vec<crate::kernel::dual::Dual>,
    /// Matrices row by row, in the root's frame, a bone.
    pub(crate) rows: Vec<[glam::Vec4; 3]>,
    /// The pose's joint rotations.
    pub(crate) joints: JointRotations,
    /// Key gradients, (P).
    pub(crate) gradients: Vec<glam::Mat3A>,
    /// Memory of rotational regression's kernel.
    pub(crate) regression: crate::kernel::regress::Room,
    /// Proxy bones' and bones' transforms in the world, (P + J).
    pub(crate) palette: Vec<glam::Affine3A>,
    /// What a correction adds to the proxy bones' transforms in the root's frame, (P); empty without one.
    pub(crate) proxy_deltas: Vec<glam::Affine3A>,
    /// What turns the key gradients on beyond the trained ranges, in the root's frame, (P); empty within them.
    pub(crate) carries: Vec<glam::Mat3A>,
    /// What the full model needs.
    pub(crate) full: full_gradients::FullScratch,
}

/// What a frame costs, by counting (an addition, a multiplication and a comparison count one each; a fused
/// multiply-add two).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Floating-point operations a frame.
    pub flops: u64,
    /// Bytes of model data that a frame reads.
    pub bytes: u64,
}

impl Deformer {
    /// The kind's name in files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LinearBlend(_) => LinearBlend::KIND,
            Self::DualQuaternion(_) => DualQuaternion::KIND,
            Self::AnimationSpace(_) => AnimationSpace::KIND,
            Self::MultiWeight(_) => MultiWeight::KIND,
            Self::HalfWay(_) => HalfWay::KIND,
            Self::RotationalRegression(_) => RotationalRegression::KIND,
            Self::FullGradients(d) => d.kind(),
        }
    }

    /// Whether a frame costs about what skinning costs. A method that solves an equation over the whole mesh for every
    /// pose does not: it is there to compare with, and to bake.
    #[must_use]
    pub fn real_time(&self) -> bool {
        !matches!(self, Self::FullGradients(_))
    }

    /// Refuses sizes and indices that do not fit the character.
    pub fn check(&self, character: &Character) -> Result<(), ModelError> {
        match self {
            Self::LinearBlend(d) => d.check(character),
            Self::DualQuaternion(d) => d.check(character),
            Self::AnimationSpace(d) => d.check(character),
            Self::MultiWeight(d) => d.check(character),
            Self::HalfWay(d) => d.check(character),
            Self::RotationalRegression(d) => d.check(character),
            Self::FullGradients(d) => d.check(character),
        }
    }

    /// The joint ranges that the method was trained on, if it keeps them.
    #[must_use]
    pub fn ranges(&self) -> Option<&JointRanges> {
        match self {
            Self::RotationalRegression(d) => Some(&d.ranges),
            Self::FullGradients(d) => Some(&d.ranges),
            _ => None,
        }
    }

    /// What a frame costs.
    #[must_use]
    pub fn cost(&self, character: &Character) -> Cost {
        match self {
            Self::LinearBlend(d) => d.cost(character),
            Self::DualQuaternion(d) => d.cost(character),
            Self::AnimationSpace(d) => d.cost(character),
            Self::MultiWeight(d) => d.cost(character),
            Self::HalfWay(d) => d.cost(character),
            Self::RotationalRegression(d) => d.cost(character),
            Self::FullGradients(d) => d.cost(character),
        }
    }

    /// The weights by which vertices are drawn from a palette of matrices, if that is how the method ends.
    pub(crate) fn palette_skin<'a>(&'a self, character: &'a Character) -> Option<&'a Skin> {
        match self {
            Self::LinearBlend(_) => Some(&character.skin),
            Self::HalfWay(d) => Some(&d.skin),
            Self::RotationalRegression(d) => Some(&d.skin),
            _ => None,
        }
    }

    pub(crate) fn scratch(&self, character: &Character) -> Scratch {
        match self {
            Self::LinearBlend(d) => d.scratch(character),
            Self::DualQuaternion(d) => d.scratch(character),
            Self::AnimationSpace(d) => d.scratch(character),
            Self::MultiWeight(d) => d.scratch(character),
            Self::HalfWay(d) => d.scratch(character),
            Self::RotationalRegression(d) => d.scratch(character),
            Self::FullGradients(d) => d.scratch(character),
        }
    }

    pub(crate) fn deform(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        match self {
            Self::LinearBlend(d) => d.deform(character, posed, scratch, out),
            Self::DualQuaternion(d) => d.deform(character, posed, scratch, out),
            Self::AnimationSpace(d) => d.deform(character, posed, scratch, out),
            Self::MultiWeight(d) => d.deform(character, posed, scratch, out),
            Self::HalfWay(d) => d.deform(character, posed, scratch, out),
            Self::RotationalRegression(d) => d.deform(character, posed, scratch, out),
            Self::FullGradients(d) => d.deform(character, posed, scratch, out),
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        match self {
            Self::LinearBlend(d) => d.write(writer),
            Self::DualQuaternion(d) => d.write(writer),
            Self::AnimationSpace(d) => d.write(writer),
            Self::MultiWeight(d) => d.write(writer),
            Self::HalfWay(d) => d.write(writer),
            Self::RotationalRegression(d) => d.write(writer),
            Self::FullGradients(d) => d.write(writer),
        }
    }

    pub(crate) fn read(kind: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        match kind {
            LinearBlend::KIND => LinearBlend::read(reader).map(Self::LinearBlend),
            DualQuaternion::KIND => DualQuaternion::read(reader).map(Self::DualQuaternion),
            AnimationSpace::KIND => AnimationSpace::read(reader).map(Self::AnimationSpace),
            MultiWeight::KIND => MultiWeight::read(reader).map(Self::MultiWeight),
            HalfWay::KIND => HalfWay::read(reader).map(Self::HalfWay),
            RotationalRegression::KIND => RotationalRegression::read(reader).map(Self::RotationalRegression),
            FullGradients::ROTATIONAL | FullGradients::LINEAR => {
                FullGradients::read(kind, reader).map(Self::FullGradients)
            }
            other => Err(ModelError::Format(format!("it uses the method `{other}`, which this program does not know"))),
        }
    }
}
