//! Boxes that hold over whole ranges of motion, by affine arithmetic down the skeleton.
//!
//! Every entry of a joint's rotation is `a + b cos φ + c sin φ` for a hinge; a cone turns by at most an angle θ, so that no
//! entry moves by more than `2 sin(θ/2)`. Products of such numbers, which remember how they depend on each hinge, bound the
//! bones' matrices, and with them the blocks of [`Bounds`]. The result is conservative: no pose within the ranges leaves
//! it. Boxes are in the root's rest frame; a character that moves carries them along.
//!
//! The skeleton, proxy bones and corrections are in `blocks`, the arithmetic in `form` and `interval`.

mod blocks;
mod form;
mod held;
mod interval;

use glam::{DMat3, DVec3};
use sinew_examples::Skeleton;
use sinew_runtime::bounds::{Aabb, Bounds, Term};
use sinew_runtime::{Deformer, Model};

use crate::FitError;
use crate::norm::ranges::RangesOfMotion;
use form::Form;
use interval::Interval;

/// How much a box is widened, relative to its size: for rounding to f32, and for rest rotations that are so to 1e-4 only.
const SLACK: f64 = 3e-4;

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
    if let Some(bone) = skeleton.bones().iter().find(|bone| !is_scaled_rotation(bone.rest.matrix3)) {
        return Err(FitError::Data(format!(
            "bone `{}` is mirrored or scaled differently along its axes at rest, so that a turn would shear it: bake the \
             scale into the mesh",
            bone.name
        )));
    }
    Ok(blocks::over_ranges(model, bounds, skeleton, ranges))
}

/// Whether `m` is a rotation times a positive number.
fn is_scaled_rotation(m: DMat3) -> bool {
    let square = m.transpose() * m;
    let size = (square.x_axis.x + square.y_axis.y + square.z_axis.z) / 3.0;
    let apart = square - DMat3::IDENTITY * size;
    // Bones come from f32 files.
    let most = apart.x_axis.abs().max(apart.y_axis.abs()).max(apart.z_axis.abs()).max_element();
    m.determinant() > 0.0 && most < 1e-4 * size
}

/// The box with `sides`, a little wider for rounding.
fn widened(sides: [Interval; 3]) -> Aabb {
    let widen = |i: usize| SLACK * (sides[i].low.abs() + sides[i].high.abs());
    Aabb {
        low: DVec3::from_array([0, 1, 2].map(|i| sides[i].low - widen(i))).as_vec3(),
        high: DVec3::from_array([0, 1, 2].map(|i| sides[i].high + widen(i))).as_vec3(),
    }
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
