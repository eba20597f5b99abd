//! Model + pose → vertices, again and again, without allocating.

use glam::Affine3A;

use crate::correction::CorrectionScratch;
use crate::deform::Scratch;
use crate::{Correction, Model, PosedSkeleton};

/// Poses a model. Owns its scratch memory, borrows the model; one per thread.
pub struct Evaluator<'model> {
    model: &'model Model,
    posed: PosedSkeleton,
    scratch: Scratch,
    correction_scratch: CorrectionScratch,
}

impl<'model> Evaluator<'model> {
    /// Prepares scratch memory for `model`.
    #[must_use]
    pub fn new(model: &'model Model) -> Self {
        Self {
            model,
            posed: PosedSkeleton::new(&model.character),
            scratch: model.deformer.scratch(&model.character),
            correction_scratch: model.correction.as_ref().map(Correction::scratch).unwrap_or_default(),
        }
    }

    /// Vertex positions for a pose: global bone transforms in the order of the model's bones. Panics if `pose` does not
    /// have the model's number of bones or `positions` its number of vertices.
    pub fn positions(&mut self, pose: &[Affine3A], positions: &mut [[f32; 3]]) {
        assert_eq!(positions.len(), self.model.character.vertex_count(), "one position a vertex");
        self.posed.set(pose);
        self.model.deformer.deform(&self.model.character, &self.posed, &mut self.scratch, positions);
        if let Some(correction) = &self.model.correction {
            let scratch = &mut self.correction_scratch;
            correction.add_to_positions(&self.model.character, &self.posed, scratch, positions);
        }
    }

    /// How far the last pose lies outside the joint ranges that the model was trained on: the joint farthest out, and
    /// by how many radians. Nothing if it lies within, or if the model's method does not know its ranges.
    #[must_use]
    pub fn outside_training(&self) -> Option<(usize, f32)> {
        self.scratch.joints.outside(self.model.deformer.ranges()?)
    }

    /// The palette of the last pose, if the method draws vertices by proxy bones: transforms from the rest mesh to the
    /// posed one, both in the world, of the proxy bones (P) and then of the skeleton's bones (J).
    #[must_use]
    pub fn palette(&self) -> Option<&[Affine3A]> {
        (!self.scratch.palette.is_empty()).then_some(&self.scratch.palette[..])
    }
}
