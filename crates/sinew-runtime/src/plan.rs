//! A model made ready for the kernels, once: how its last stage runs, and its data in blocks of eight vertices.
//!
//! Every method ends in one of a few kinds of skinning. What comes before it (regression, reconstruction) fills a
//! palette of matrices, a few hundred numbers; the skinning touches every vertex and is what a frame costs.

use std::ops::Range;

use glam::{Affine3A, Vec3, Vec3A};

use crate::kernel::blocks::{Eight, LANES};
use crate::kernel::carry::{CarriedOn, CarrySkin, Excess};
use crate::kernel::dual::{self, Dual, DualSkin};
use crate::kernel::lanes::Instructions;
use crate::kernel::points::{self, PointSkin};
use crate::kernel::{Matrix, Put};
use crate::posed::{centred_rest, rigid_part};
use crate::{Deformer, Model, Skin};

/// The last stage of a model, ready to run.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// Weights folded into points: `Σ T h`.
    Points(PointSkin<4>),
    /// A weight for every entry of a matrix.
    Entries(PointSkin<12>),
    /// Blend dual quaternions.
    Dual(DualSkin),
    /// No kernel: the deformer's own plain evaluation.
    Direct,
}

/// What a plan reads, besides its own data, for one pose.
pub(crate) struct Palette<'a> {
    /// Rest to posed, in the world; of animation space bone to posed; of rotational regression from rest points from the root's rest place; for
    /// [`Plan::Entries`] in the root's frame.
    pub matrices: &'a [Matrix],
    /// Rest to posed in the root's frame.
    pub duals: &'a [Dual],
    /// From the root's frame to the world.
    pub frame: Matrix,
}

impl Plan {
    /// Prepares `model`.
    pub fn new(model: &Model) -> Self {
        let character = &model.character;
        match &model.deformer {
            Deformer::LinearBlend(_) => Self::Points(linear_blend(&character.skin, &character.rest_positions)),
            Deformer::HalfWay(d) => Self::Points(linear_blend(&d.skin, &character.rest_positions)),
            Deformer::RotationalRegression(d) => {
                let rest = centred_rest(character);
                Self::Points(PointSkin::new(rest.len(), |v| d.vertex(v, rest[v]), &[]))
            }
            Deformer::AnimationSpace(d) => {
                let to_bone: Vec<Affine3A> = character.bones.iter().map(|bone| bone.rest.inverse()).collect();
                let own = |(joint, p): (usize, [f32; 4])| (joint, in_frame(&to_bone[joint], p));
                Self::Points(PointSkin::new(d.vertex_count(), |v| d.vertex(v).map(own), &[]))
            }
            Deformer::MultiWeight(d) => Self::Entries(PointSkin::new(d.vertex_count(), |v| d.vertex(v), &d.constants)),
            Deformer::DualQuaternion(_) => {
                let to_frame = rigid_part(character.bones[character.root()].rest).inverse();
                let inside = |p: &[f32; 3]| to_frame.transform_point3(Vec3::from_array(*p)).to_array();
                let rest: Vec<[f32; 3]> = character.rest_positions.iter().map(inside).collect();
                Self::Dual(DualSkin::new(&character.skin, &rest))
            }
            Deformer::FullGradients(_) => Self::Direct,
        }
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        match self {
            Self::Points(skin) => skin.blocks.len(),
            Self::Entries(skin) => skin.blocks.len(),
            Self::Dual(skin) => skin.blocks.len(),
            Self::Direct => 0,
        }
    }

    /// The vertices of each register, in the order in which [`Self::run`] puts them.
    pub fn eights(&self) -> &[Eight] {
        match self {
            Self::Points(skin) => skin.blocks.eights.as_flattened(),
            Self::Entries(skin) => skin.blocks.eights.as_flattened(),
            Self::Dual(skin) => skin.blocks.eights.as_flattened(),
            Self::Direct => &[],
        }
    }

    /// (vertex, joint) pairs computed a frame, lanes that only fill up a block included.
    pub fn pairs(&self) -> usize {
        match self {
            Self::Points(skin) => skin.pairs(),
            Self::Entries(skin) => skin.pairs(),
            Self::Dual(skin) => LANES * skin.blocks.joints.len(),
            Self::Direct => 0,
        }
    }

    /// Poses the given blocks, and carries their vertices on if `carry` has the weights and the transforms for it.
    pub fn run_carried(
        &self,
        instructions: Instructions,
        palette: &Palette,
        carry: Option<(&CarrySkin, Excess)>,
        blocks: Range<usize>,
        put: impl Put,
    ) {
        let Some((skin, excess)) = carry else { return self.run(instructions, palette, blocks, put) };
        let next = blocks.start * self.eights().len() / self.blocks().max(1);
        self.run(instructions, palette, blocks, CarriedOn { skin, excess, next, put });
    }

    /// Poses the given blocks.
    pub fn run(&self, instructions: Instructions, palette: &Palette, blocks: Range<usize>, put: impl Put) {
        let (matrices, frame) = (palette.matrices, palette.frame);
        match self {
            Self::Points(skin) => instructions.run(points::Points { skin, palette: matrices, blocks, put }),
            Self::Entries(skin) => instructions.run(points::Entries { skin, palette: matrices, frame, blocks, put }),
            Self::Dual(skin) => {
                instructions.run(dual::Positions { skin, palette: palette.duals, frame, blocks, put });
            }
            Self::Direct => {}
        }
    }
}

/// A premultiplied point in another frame.
fn in_frame(to_frame: &Affine3A, [x, y, z, w]: [f32; 4]) -> [f32; 4] {
    let point = to_frame.matrix3 * Vec3A::new(x, y, z) + to_frame.translation * w;
    [point.x, point.y, point.z, w]
}

/// Linear blend skinning as points: `h_b = w_b (v̂, 1)`.
fn linear_blend(skin: &Skin, rest: &[[f32; 3]]) -> PointSkin<4> {
    let influences = |v: usize| {
        let [x, y, z] = rest[v];
        skin.vertex(v).map(move |(joint, w)| (joint, [w * x, w * y, w * z, w]))
    };
    PointSkin::new(rest.len(), influences, &[])
}
