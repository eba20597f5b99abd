//! Bounds of blocks of vertices over ranges of motion.
//!
//! Everything is taken relative to the block's home bone h, `T_h⁻¹ T`, so that only the joints between h and another bone
//! widen it, and put into the root's frame at the end by `T_h`. Bones turn and shift but keep their size, so that products of
//! their matrices never grow beyond rotations, however long the chain (`bones`).
//!
//! - θ̃ of a joint with one hinge lies on a line, of several near the plane that touches it at their middles (`joints`);
//! - a proxy's gradient is a product of rotations that are linear to first order in θ̃ (`proxies`);
//! - a correction is a sum over the example poses (`kernels`).
//!
//! The ranges are cut into `pieces` and the box is that around the pieces' boxes: what the forms leave over shrinks with the
//! square of the pieces.

use glam::{DAffine3, DMat3};
use rayon::prelude::*;
use sinew_examples::Skeleton;
use sinew_runtime::bounds::{Aabb, Block, Bounds};
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Deformer, JointRanges, Model};

use super::form::{Form, FormAffine};
use super::joints::Joints;
use super::kernels::{Displaced, Kernels};
use super::needs::Needs;
use super::proxies::{Change, Proxies};
use super::{Widening, blend, pieces};
use crate::norm::ranges::RangesOfMotion;

/// A box for every block, in the root's rest frame.
pub(super) fn over_ranges(model: &Model, bounds: &Bounds, skeleton: &Skeleton, ranges: &RangesOfMotion) -> Vec<Aabb> {
    let setting = Setting::new(model, skeleton);
    let widening = Widening::new(model, skeleton);
    let block = |block: &Block| {
        let displaced = Displaced::of(model, block);
        let needs = setting.needs(block, &displaced, ranges);
        let sides = pieces::hull(ranges, &needs.symbols, |piece| setting.block(block, &displaced, &needs, piece));
        widening.widened(sides)
    };
    bounds.blocks.par_iter().map(block).collect()
}

/// What is the same for all blocks.
pub(super) struct Setting<'a> {
    pub(super) model: &'a Model,
    pub(super) skeleton: &'a Skeleton,
    /// Proxy bones first in the palette, P.
    pub(super) proxies: usize,
    /// Rest transforms in the root's rest frame, (J).
    pub(super) rest: Vec<DAffine3>,
    to_root: DAffine3,
    /// The bones that carry each key gradient on beyond the trained ranges, (P).
    pub(super) carriers: Vec<Vec<(usize, f32)>>,
    /// The trained ranges that the pose is held within; nothing for methods that hold none.
    pub(super) trained: Option<JointRanges>,
    /// What a correction changes of each proxy bone, (P).
    pub(super) changes: Vec<Vec<Change>>,
}

impl<'a> Setting<'a> {
    fn new(model: &'a Model, skeleton: &'a Skeleton) -> Self {
        let to_root = skeleton.rest_root_frame().inverse();
        // A scale that is the same in all directions commutes with turns: no skinning transform depends on it.
        let unscaled = |rest: DAffine3| DAffine3 { matrix3: sinew_examples::nearest_rotation(rest.matrix3), ..rest };
        let rest = skeleton.bones().iter().map(|bone| unscaled(to_root * bone.rest)).collect();
        let rr = regression(model);
        let proxies = rr.map_or(0, RotationalRegression::proxy_count);
        Self {
            model,
            skeleton,
            proxies,
            rest,
            to_root,
            carriers: rr.map_or_else(Vec::new, |rr| rr.carriers(&model.character)),
            trained: rr.map(|rr| model.held_ranges(rr)),
            changes: (0..proxies).map(|p| Change::of(model, p)).collect(),
        }
    }

    /// The block's box in the root's rest frame over `ranges`.
    fn block(&self, block: &Block, displaced: &[Displaced], needs: &Needs, ranges: &RangesOfMotion) -> [Form; 3] {
        let (bones, joints) = (self.bones_from(needs, ranges), Joints::new(self, needs, ranges));
        let pivot = self.to_root.transform_point3(block.pivot.as_dvec3());
        let turn = self.to_root.matrix3;
        let (transforms, images): (Vec<FormAffine>, Vec<[Form; 3]>) = match regression(self.model) {
            Some(rr) => {
                let proxies = Proxies::new(rr, self, &bones, &joints);
                block.terms.iter().map(|term| (proxies.palette(term.joint), proxies.image(term.joint, pivot))).unzip()
            }
            None => {
                let of = |joint: usize| (bones.relative[joint], bones.relative[joint].point(pivot));
                block.terms.iter().map(|term| of(term.joint)).unzip()
            }
        };
        let mut sides = blend(&block.terms, &images);
        let absolute = DMat3::from_cols(turn.x_axis.abs(), turn.y_axis.abs(), turn.z_axis.abs());
        for (term, transform) in block.terms.iter().zip(&transforms) {
            let (centre, half) = (turn * term.centre.as_dvec3(), absolute * term.half.as_dvec3());
            let turned = transform.vector(centre, half);
            (0..3).for_each(|i| sides[i] = sides[i] + turned[i]);
        }
        if let Some(correction) = self.model.vertex_correction() {
            let kernels = Kernels::new(&correction.space, &joints);
            for displaced in displaced {
                let moved = displaced.over(&kernels, &bones);
                (0..3).for_each(|i| sides[i] = sides[i] + moved[i]);
            }
        }
        bones.home.rigid_point(sides)
    }
}

pub(super) fn regression(model: &Model) -> Option<&RotationalRegression> {
    match &model.deformer {
        Deformer::RotationalRegression(rr) => Some(rr),
        _ => None,
    }
}
