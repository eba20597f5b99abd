//! Boxes that hold over whole ranges of motion, by interval arithmetic down the skeleton.
//!
//! Every entry of a joint's rotation is `a + b cos φ + c sin φ` for a hinge, whose range over the limits is exact; a cone
//! turns by at most an angle θ, so that no entry moves by more than `2 sin(θ/2)`. Products of intervals bound the
//! bones' matrices, and with them the blocks of [`Bounds`]. The result is conservative: it may be wide, since intervals
//! forget that the entries of a rotation belong together, but no pose within the ranges leaves it. Boxes are in the
//! root's rest frame; a character that moves carries them along.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::Skeleton;
use sinew_runtime::Deformer;
use sinew_runtime::Model;
use sinew_runtime::bounds::{Aabb, Bounds, Term};

use crate::FitError;
use crate::norm::ranges::{RangesOfMotion, Turn};

/// How much a box is widened, relative to its size, for rounding to f32.
const SLACK: f64 = 1e-5;

/// A box for every block of `bounds`, in the root's rest frame. Linear blend and animation-space models only: a proxy
/// bone's motion is no product of joints.
pub fn over_ranges(
    model: &Model,
    bounds: &Bounds,
    skeleton: &Skeleton,
    ranges: &RangesOfMotion,
) -> Result<Vec<Aabb>, FitError> {
    if !matches!(model.deformer, Deformer::LinearBlend(_) | Deformer::AnimationSpace(_)) {
        return Err(FitError::Data(format!(
            "bounds over ranges of motion are known for linear blend and animation-space models, not for `{}`",
            model.deformer.kind()
        )));
    }
    let bones = skinning_intervals(skeleton, ranges);
    let block = |block: &sinew_runtime::bounds::Block| {
        let pivot = block.pivot.as_dvec3();
        let images: Vec<[Interval; 3]> = block.terms.iter().map(|term| bones[term.joint].point(pivot)).collect();
        let mut sides = blend(&block.terms, &images);
        for term in &block.terms {
            let turned = bones[term.joint].vector(term.centre.as_dvec3(), term.half.as_dvec3());
            (0..3).for_each(|i| sides[i] = sides[i] + turned[i]);
        }
        let widen = |i: usize| SLACK * (sides[i].low.abs() + sides[i].high.abs());
        Aabb {
            low: DVec3::from_array([0, 1, 2].map(|i| sides[i].low - widen(i))).as_vec3(),
            high: DVec3::from_array([0, 1, 2].map(|i| sides[i].high + widen(i))).as_vec3(),
        }
    };
    Ok(bounds.blocks.iter().map(block).collect())
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

/// `T_b` from rest world space to the root's rest frame, root fixed there, (J).
fn skinning_intervals(skeleton: &Skeleton, ranges: &RangesOfMotion) -> Vec<IntervalAffine> {
    let to_root = skeleton.rest_root_frame().inverse();
    let rest: Vec<DAffine3> = skeleton.bones().iter().map(|bone| to_root * bone.rest).collect();
    let mut globals: Vec<IntervalAffine> = rest.iter().map(|&g| IntervalAffine::exact(g)).collect();
    for &b in skeleton.parents_first() {
        let Some(parent) = skeleton.bones()[b].parent else { continue };
        let joint = IntervalAffine::exact(rest[parent].inverse() * rest[b]);
        let turned = ranges.joints[b].iter().fold(joint, |joint, turn| joint.times(&IntervalAffine::turn(turn)));
        globals[b] = globals[parent].times(&turned);
    }
    let inverse = |bone: &sinew_examples::Bone| IntervalAffine::exact(bone.rest.inverse());
    globals.iter().zip(skeleton.bones()).map(|(global, bone)| global.times(&inverse(bone))).collect()
}

/// All numbers from `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    fn exact(x: f64) -> Self {
        Self { low: x, high: x }
    }

    fn around(x: f64, half: f64) -> Self {
        Self { low: x - half, high: x + half }
    }

    fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The range of `a + b cos φ + c sin φ` for φ from `from` to `to`.
    fn wave(a: f64, b: f64, c: f64, from: f64, to: f64) -> Self {
        let at = |angle: f64| Self::exact(a + b * angle.cos() + c * angle.sin());
        let mut range = at(from).hull(at(to));
        // The extremes lie at atan2(c, b) and half a turn on.
        let extreme = c.atan2(b);
        let first = ((from - extreme) / std::f64::consts::PI).ceil();
        for k in 0..3 {
            let angle = extreme + (first + f64::from(k)) * std::f64::consts::PI;
            if angle <= to {
                range = range.hull(at(angle));
            }
        }
        range
    }
}

impl std::ops::Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }
}

impl std::ops::Sub for Interval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }
}

impl std::ops::Mul for Interval {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let products = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        let fold = |pick: fn(f64, f64) -> f64| products[1..].iter().copied().fold(products[0], pick);
        Self { low: fold(f64::min), high: fold(f64::max) }
    }
}

/// A 3×4 matrix of intervals, row by row.
#[derive(Debug, Clone, Copy)]
struct IntervalAffine {
    rows: [[Interval; 4]; 3],
}

impl IntervalAffine {
    fn from(entry: impl Fn(usize, usize) -> Interval) -> Self {
        Self { rows: std::array::from_fn(|i| std::array::from_fn(|s| entry(i, s))) }
    }

    fn exact(t: DAffine3) -> Self {
        let columns = [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation];
        Self::from(|i, s| Interval::exact(columns[s][i]))
    }

    fn turn(turn: &Turn) -> Self {
        match *turn {
            Turn::Hinge { axis, from, to } => {
                // R(φ) = A + (I − A) cos φ + K sin φ; the three matrices from φ = 0, 90° and 180°.
                let at = |angle: f64| DMat3::from_axis_angle(axis, angle);
                let (zero, half) = (at(0.0), at(std::f64::consts::PI));
                let quarter = at(std::f64::consts::FRAC_PI_2);
                Self::from(|i, s| {
                    if s == 3 {
                        return Interval::exact(0.0);
                    }
                    let a = (zero.col(s)[i] + half.col(s)[i]) / 2.0;
                    let b = (zero.col(s)[i] - half.col(s)[i]) / 2.0;
                    Interval::wave(a, b, quarter.col(s)[i] - a, from, to)
                })
            }
            Turn::Cone { most, .. } => {
                let change = 2.0 * (most / 2.0).sin();
                Self::from(|i, s| match (s, i == s) {
                    (3, _) => Interval::exact(0.0),
                    (_, true) => Interval { low: (1.0 - change).max(most.cos()).max(-1.0), high: 1.0 },
                    (_, false) => Interval { low: -change.min(1.0), high: change.min(1.0) },
                })
            }
        }
    }

    fn times(&self, other: &Self) -> Self {
        Self::from(|i, s| {
            let start = if s == 3 { self.rows[i][3] } else { Interval::exact(0.0) };
            (0..3).fold(start, |sum, k| sum + self.rows[i][k] * other.rows[k][s])
        })
    }

    fn point(&self, p: DVec3) -> [Interval; 3] {
        let turned = self.vector(p, DVec3::ZERO);
        std::array::from_fn(|i| turned[i] + self.rows[i][3])
    }

    /// The linear part times all vectors within `half` of `centre`.
    fn vector(&self, centre: DVec3, half: DVec3) -> [Interval; 3] {
        let entry = |i: usize, s: usize| self.rows[i][s] * Interval::around(centre[s], half[s]);
        std::array::from_fn(|i| entry(i, 0) + entry(i, 1) + entry(i, 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_never_leaves_its_intervals() {
        let turns = [
            Turn::Hinge { axis: DVec3::new(1.0, 2.0, -1.0).normalize(), from: -0.4, to: 2.9 },
            Turn::Hinge { axis: DVec3::Y, from: 1.0, to: 8.0 },
            Turn::Cone { axis: DVec3::X, most: 1.2 },
            Turn::Cone { axis: DVec3::Z, most: 3.0 },
        ];
        for turn in &turns {
            let interval = IntervalAffine::turn(turn);
            for sample in turn.samples() {
                for i in 0..3 {
                    for s in 0..3 {
                        let (range, x) = (interval.rows[i][s], sample.col(s)[i]);
                        // The last bits of sines.
                        assert!(x >= range.low - 1e-12 && x <= range.high + 1e-12, "{turn:?}: {x} outside {range:?}");
                    }
                }
            }
        }
    }
}
