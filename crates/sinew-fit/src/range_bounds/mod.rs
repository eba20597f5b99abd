//! Boxes that hold over whole ranges of motion, by affine arithmetic down the skeleton.
//!
//! Every entry of a joint's rotation is `a + b cos φ + c sin φ` for a hinge; a cone turns by at most an angle θ, so that no
//! entry moves by more than `2 sin(θ/2)`. Products of such numbers, which remember how they depend on each hinge, bound the
//! bones' matrices, and with them the blocks of [`Bounds`]. The result is conservative: no pose within the ranges leaves
//! it. Boxes are in the root's rest frame; a character that moves carries them along.
//!
//! A block's box is put together in `blocks`, of what it `needs`, over `pieces` of the ranges: `bones` of the skeleton, `joints` as
//! predictors see them (`logarithm`, `held`), `proxies`, `points` that vertices are drawn from, corrections (`kernels`,
//! `terms`); the arithmetic is in `form` and `interval`.

mod blocks;
mod bones;
mod form;
mod held;
mod interval;
mod joints;
mod kernels;
mod logarithm;
mod needs;
mod pieces;
mod points;
mod proxies;
mod terms;
#[cfg(test)]
mod tests;

use glam::{DMat3, DVec3, Vec3};
use sinew_examples::{Bone, Skeleton};
use sinew_runtime::bounds::{Aabb, Bounds, Term};
use sinew_runtime::{Deformer, Model};

use crate::FitError;
use crate::norm::ranges::RangesOfMotion;
use form::Form;
use interval::Interval;

/// A box for every block of `bounds`, in the root's rest frame. No vertex leaves its block's box in any pose within
/// `ranges`. Linear blend, animation-space and rotational-regression models, with or without a correction.
pub fn over_ranges(
    model: &Model,
    bounds: &Bounds,
    skeleton: &Skeleton,
    ranges: &RangesOfMotion,
) -> Result<Vec<Aabb>, FitError> {
    match &model.deformer {
        Deformer::LinearBlend(_) | Deformer::AnimationSpace(_) | Deformer::RotationalRegression(_) => {}
        other => {
            return Err(FitError::Data(format!(
                "bounds over ranges of motion are known for linear blend, animation-space and rotational-regression \
                 models, not for `{}`",
                other.kind()
            )));
        }
    }
    // Bones come from f32 files.
    let turned = |bone: &Bone| off_rotation(bone.rest.matrix3).is_some_and(|off| off < 1e-4);
    if let Some(bone) = skeleton.bones().iter().find(|bone| !turned(bone)) {
        return Err(FitError::Data(format!(
            "bone `{}` is mirrored or scaled differently along its axes at rest, so that a turn would shear it: bake the \
             scale into the mesh",
            bone.name
        )));
    }
    Ok(blocks::over_ranges(model, bounds, skeleton, ranges))
}

/// How far `m` is from a rotation times a positive number, in parts of that; nothing if it mirrors.
fn off_rotation(m: DMat3) -> Option<f64> {
    let square = m.transpose() * m;
    let size = (square.x_axis.x + square.y_axis.y + square.z_axis.z) / 3.0;
    let apart = square - DMat3::IDENTITY * size;
    let most = apart.x_axis.abs().max(apart.y_axis.abs()).max(apart.z_axis.abs()).max_element();
    (m.determinant() > 0.0).then_some(most / size)
}

/// How much boxes are widened: for the rounding of the run time, and for rest rotations that are not quite so.
struct Widening {
    /// In parts of the sizes that are summed.
    slack: f64,
    /// How far the character, or what its vertices are drawn from, reaches from its root at rest: coordinates next to nil are
    /// sums of that size.
    reach: f64,
}

impl Widening {
    /// Some hundred roundings in f32.
    const ROUNDING: f64 = 1e-5;

    fn new(model: &Model, skeleton: &Skeleton) -> Self {
        let to_root = skeleton.rest_root_frame().inverse();
        let bones = skeleton.bones().iter().map(|bone| bone.rest.translation);
        let vertices = model.character.rest_positions.iter().map(|&p| Vec3::from(p).as_dvec3());
        let reach = bones.chain(vertices).map(|p| to_root.transform_point3(p).length()).fold(0.0, f64::max);
        let reach = reach.max(points_reach(model, reach));
        // Every joint on the way adds what it is off.
        let bones = skeleton.bones();
        let chain = |b: usize| std::iter::successors(Some(b), |&b| bones[b].parent);
        let off = |b: usize| chain(b).filter_map(|b| off_rotation(bones[b].rest.matrix3)).sum();
        let off = (0..bones.len()).map(off).fold(0.0, f64::max);
        Self { slack: Self::ROUNDING + off, reach }
    }

    fn widened(&self, sides: [Interval; 3]) -> Aabb {
        let farthest = sides.iter().map(|side| side.most()).fold(self.reach, f64::max);
        let widen = DVec3::splat(self.slack * farthest);
        Aabb {
            low: (DVec3::from_array(sides.map(|side| side.low)) - widen).as_vec3(),
            high: (DVec3::from_array(sides.map(|side| side.high)) + widen).as_vec3(),
        }
    }
}

/// The sizes that are summed for a vertex that is drawn from points, of a character that reaches `reach`; nil without points.
fn points_reach(model: &Model, reach: f64) -> f64 {
    let Deformer::RotationalRegression(rr) = &model.deformer else { return 0.0 };
    let size = |&[x, y, z, w]: &[f32; 4]| f64::from(Vec3::new(x, y, z).length()) + f64::from(w.abs()) * reach;
    let vertices = rr.points.chunks_exact(rr.skin.width);
    vertices.map(|points| points.iter().map(size).sum()).fold(0.0, f64::max)
}

/// `Σ_j w_j T_j o`: the first joint's image and the others relative to it; or, if that says more and no weight is negative, the
/// hull of the images.
fn blend(terms: &[Term], images: &[[Form; 3]]) -> [Form; 3] {
    let convex = terms.iter().all(|term| term.weight - term.half_weight >= -1e-6);
    std::array::from_fn(|i| {
        let others = terms.iter().zip(images).skip(1);
        let sum = others.fold(images[0][i], |sum, (term, image)| {
            sum + Form::around(term.weight.into(), term.half_weight.into()) * (image[i] - images[0][i])
        });
        let hull = images.iter().map(|image| image[i].range()).reduce(Interval::hull);
        match hull.map(Form::interval).filter(|hull| convex && hull.radius() < sum.radius()) {
            Some(hull) => hull,
            None => sum,
        }
    })
}
