//! Boxes that hold over whole ranges of motion, by interval arithmetic down the skeleton.
//!
//! Every entry of a joint's rotation is `a + b cos φ + c sin φ` for a hinge, whose range over the limits is exact; a cone
//! turns by at most an angle θ, so that no entry moves by more than `2 sin(θ/2)`. Products of intervals bound the
//! bones' matrices, and with them the blocks of [`Bounds`]. The result is conservative: it may be wide, since intervals
//! forget that the entries of a rotation belong together, but no pose within the ranges leaves it. Boxes are in the
//! root's rest frame; a character that moves carries them along.
//!
//! The skeleton, proxy bones and corrections are in `blocks`, the arithmetic in `interval`.

mod blocks;
mod interval;

use glam::{DMat3, DVec3};
use sinew_examples::Skeleton;
use sinew_runtime::bounds::{Aabb, Bounds, Term};
use sinew_runtime::{Deformer, Model};

use crate::FitError;
use crate::norm::ranges::RangesOfMotion;
use interval::Interval;

/// How much a box is widened, relative to its size: for rounding to f32, and for rest rotations that are so to 1e-4 only.
const SLACK: f64 = 3e-4;

/// A box for every block of `bounds`, in the root's rest frame. No vertex leaves its block's box in any pose within
/// `ranges`. Linear blend, animation-space and rotational-regression models, with or without a correction; proxy bones are
/// sums of many intervals, so that their boxes are many times wider than what is reached. Boxes over poses are tight.
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
    if let Some(bone) = skeleton.bones().iter().find(|bone| !is_rotation(bone.rest.matrix3)) {
        return Err(FitError::Data(format!(
            "bone `{}` is scaled at rest; ranges of motion turn bones that are not: bake the scale into the mesh",
            bone.name
        )));
    }
    Ok(blocks::over_ranges(model, bounds, skeleton, ranges))
}

fn is_rotation(m: DMat3) -> bool {
    // Bones come from f32 files.
    let apart = m.transpose() * m - DMat3::IDENTITY;
    apart.x_axis.abs().max(apart.y_axis.abs()).max(apart.z_axis.abs()).max_element() < 1e-4
}

/// The box with `sides`, a little wider for rounding.
fn widened(sides: [Interval; 3]) -> Aabb {
    let widen = |i: usize| SLACK * (sides[i].low.abs() + sides[i].high.abs());
    Aabb {
        low: DVec3::from_array([0, 1, 2].map(|i| sides[i].low - widen(i))).as_vec3(),
        high: DVec3::from_array([0, 1, 2].map(|i| sides[i].high + widen(i))).as_vec3(),
    }
}

/// `Σ_j w_j T_j o`: within the hull of the images if no weight is negative, by intervals otherwise.
fn blend(terms: &[Term], images: &[[Interval; 3]]) -> [Interval; 3] {
    let convex = terms.iter().all(|term| term.weight - term.half_weight >= -1e-6);
    std::array::from_fn(|i| {
        if convex {
            return images.iter().fold(images[0][i], |hull, image| hull.hull(image[i]));
        }
        // Σ w = 1: the first joint's image, and the others relative to it.
        let others = terms.iter().zip(images).skip(1);
        others.fold(images[0][i], |sum, (term, image)| {
            let weight = Interval::around(term.weight.into(), term.half_weight.into());
            sum + weight * (image[i] - images[0][i])
        })
    })
}
