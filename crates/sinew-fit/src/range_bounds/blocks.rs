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
//! A model with points holds whole poses within the trained ranges and carries the vertices on from them by plain skinning,
//! `v = Σ_b w_b T_b (T′_b⁻¹ v′)` (`sinew-runtime/src/carry.rs`). Where a piece holds a joint the block is taken relative to each
//! bone b that carries it, in the held pose, and put into the root's frame by `T_b`; the w_b are known to lie within
//! [`Block::shares`]. Bones with no held joint between them carry the block alike.
//!
//! The ranges are cut into `pieces` and the box is that around the pieces' boxes: what the forms leave over shrinks with the
//! square of the pieces.

use glam::{DAffine3, DMat3};
use rayon::prelude::*;
use sinew_examples::Skeleton;
use sinew_runtime::bounds::{Aabb, Block, Bounds};
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Deformer, JointRanges, Model};

use super::bones::Bones;
use super::form::{Form, FormAffine};
use super::interval::{Interval, blended};
use super::joints::Joints;
use super::kernels::{Displaced, Kernels};
use super::needs::Needs;
use super::pieces::Sides;
use super::points::Drawn;
use super::proxies::{Change, Proxies};
use super::terms::Driven;
use super::{Widening, blend, pieces, points};
use crate::norm::ranges::RangesOfMotion;

/// A box for every block, in the root's rest frame.
pub(super) fn over_ranges(model: &Model, bounds: &Bounds, skeleton: &Skeleton, ranges: &RangesOfMotion) -> Vec<Aabb> {
    let setting = Setting::new(model, skeleton);
    let widening = Widening::new(model, skeleton);
    let with_points = regression(model).filter(|rr| !rr.points.is_empty());
    let points = with_points.map(|rr| (rr, points::points(rr.world_points(&model.character), setting.to_root)));
    let block = |block: &Block| {
        let displaced = Displaced::of(model, block);
        let needs = setting.needs(block, &displaced, ranges);
        let points = points.as_ref().map(|(rr, points)| Drawn::parts(&setting, rr, points, block));
        let block = Vertices { block, displaced, points };
        let halvings = if block.points.is_some() { pieces::HALVINGS_OF_POINTS } else { pieces::HALVINGS };
        let sides = pieces::hull(ranges, &needs.symbols, halvings, |piece| setting.block(&block, &needs, piece));
        widening.widened(sides)
    };
    bounds.blocks.par_iter().map(block).collect()
}

/// A block and how it is drawn.
struct Vertices<'a> {
    block: &'a Block,
    /// By a correction of vertices.
    displaced: Vec<Displaced>,
    /// From points, if the model has some: parts of the block.
    points: Option<Vec<Drawn>>,
}

/// What is the same for all blocks.
pub(super) struct Setting<'a> {
    pub(super) model: &'a Model,
    pub(super) skeleton: &'a Skeleton,
    /// Proxy bones first in the palette, P.
    pub(super) proxies: usize,
    /// Rest transforms in the root's rest frame, (J).
    pub(super) rest: Vec<DAffine3>,
    pub(super) to_root: DAffine3,
    pub(super) root: usize,
    /// Whether beyond the trained ranges the pose is held and vertices are carried on from it, rather than gradients.
    pub(super) holds_bones: bool,
    /// The bones that carry each key gradient on beyond the trained ranges, (P); none if the pose is held.
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
        let holds_bones = rr.is_some_and(|rr| !rr.points.is_empty());
        let carriers = |rr: &RotationalRegression| match holds_bones {
            true => vec![Vec::new(); proxies],
            false => rr.carriers(&model.character),
        };
        Self {
            model,
            skeleton,
            proxies,
            rest,
            to_root,
            root: skeleton.root(),
            holds_bones,
            carriers: rr.map_or_else(Vec::new, carriers),
            trained: rr.map(|rr| model.held_ranges(rr)),
            changes: (0..proxies).map(|p| Change::of(model, p)).collect(),
        }
    }

    /// The block's box in the root's rest frame over `ranges`.
    fn block(&self, vertices: &Vertices, needs: &Needs, ranges: &RangesOfMotion) -> Sides {
        let joints = Joints::new(self, needs, ranges);
        let driven = self.model.proxy_correction().map(|correction| Driven::new(&correction.drivers, &joints));
        let drawn = |bones: &Bones| self.drawn(vertices, bones, &joints, driven.as_ref());
        let held = self.holds_bones && (0..needs.used.len()).any(|b| needs.used[b] && joints.seen(b).held);
        let bones = self.bones_from(needs.home, needs, &joints);
        let moved = self.displacement(&vertices.displaced, &bones, &joints);
        let placed = |bones: &Bones, moved: [Form; 3]| {
            let part =
                |sides: [Form; 3]| Sides::from(bones.home.rigid_point(std::array::from_fn(|i| sides[i] + moved[i])));
            drawn(bones).into_iter().map(part).reduce(Sides::hull).expect("a block has vertices")
        };
        if !held {
            return placed(&bones, moved.unwrap_or([Form::ZERO; 3]));
        }
        let carriers = carriers(vertices.block, needs.home, &joints);
        let carried =
            |&(b, _): &(usize, Interval)| -> Sides { placed(&self.bones_from(b, needs, &joints), [Form::ZERO; 3]) };
        let parts: Vec<Sides> = carriers.iter().map(carried).collect();
        let shares: Vec<Interval> = carriers.iter().map(|carrier| carrier.1).collect();
        // Displacements of vertices stand in the held pose's frames, and nothing carries them on.
        let moved = moved.map_or([Interval::exact(0.0); 3], |moved| bones.seen_home.turned(moved).map(|x| x.range()));
        let range = |i: usize| blended(&shares, &parts.iter().map(|part| part.range[i]).collect::<Vec<_>>()) + moved[i];
        let slope = |i: usize, k: usize| parts.iter().map(|part| part.slopes[i][k]).fold(0.0, f64::max);
        Sides {
            range: std::array::from_fn(range),
            slopes: std::array::from_fn(|i| std::array::from_fn(|k| slope(i, k))),
        }
    }

    /// The parts of the block as the palette draws them, relative to the home bone of `bones`.
    fn drawn(&self, vertices: &Vertices, bones: &Bones, joints: &Joints, driven: Option<&Driven>) -> Vec<[Form; 3]> {
        let proxies = regression(self.model).map(|rr| Proxies::new(rr, self, bones, joints, driven));
        if let (Some(points), Some(proxies)) = (&vertices.points, &proxies) {
            return points.iter().map(|part| part.over(bones, proxies)).collect();
        }
        let block = vertices.block;
        let pivot = self.to_root.transform_point3(block.pivot.as_dvec3());
        let turn = self.to_root.matrix3;
        let (transforms, images): (Vec<FormAffine>, Vec<[Form; 3]>) = match proxies {
            Some(proxies) => {
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
            let turned = transform.vector(std::array::from_fn(|i| Form::around(centre[i], half[i])));
            (0..3).for_each(|i| sides[i] = sides[i] + turned[i]);
        }
        vec![sides]
    }

    /// What a correction of vertices adds, relative to the home bone of `bones`.
    fn displacement(&self, displaced: &[Displaced], bones: &Bones, joints: &Joints) -> Option<[Form; 3]> {
        let kernels = Kernels::new(&self.model.vertex_correction()?.space, joints);
        let parts = displaced.iter().map(|displaced| displaced.over(kernels.region(displaced.region), bones));
        parts.reduce(|sum, part| std::array::from_fn(|i| sum[i] + part[i]))
    }
}

/// Bones that carry `block` on differently, and how much of it: each stands for those that no held joint parts from it.
fn carriers(block: &Block, home: usize, joints: &Joints) -> Vec<(usize, Interval)> {
    // The home bone first: the block is tightest relative to it.
    let mut carriers = vec![(home, Interval::exact(0.0))];
    for share in &block.shares {
        let own = Interval { low: share.least.into(), high: share.most.into() };
        match carriers.iter_mut().find(|carrier| !joints.hold_between(carrier.0, share.bone)) {
            Some(carrier) => carrier.1 = carrier.1 + own,
            None => carriers.push((share.bone, own)),
        }
    }
    carriers.retain(|carrier| carrier.1 != Interval::exact(0.0));
    carriers
}

pub(super) fn regression(model: &Model) -> Option<&RotationalRegression> {
    match &model.deformer {
        Deformer::RotationalRegression(rr) => Some(rr),
        _ => None,
    }
}
