//! What corrections add over ranges of motion: `Q_b φ Σ_e κ_e D_e` over the example poses e, φ the fade outside them.
//!
//! The displacements D_e of a fitted correction are large and cancel, so the kernels must not be bounded one by one. A joint's
//! squared distance to an example is linear in the joint's rotation R,
//!
//!   d_e² = 4 sin²(angle/2) = 3 − tr(R_eᵀ R),
//!
//! and a kernel is made of `1/(1 + rate d²)`, which is nearly straight over a small piece of the ranges: as forms, the kernels
//! remember how they depend on the hinges, and their weighted sum cancels up to second order. The fade is common to all.

use std::cell::OnceCell;

use glam::{DMat3, DQuat, DVec3};
use sinew_runtime::bounds::Block;
use sinew_runtime::correction::VertexPart;
use sinew_runtime::pose_space::fade;
use sinew_runtime::{Model, PoseSpace};

use super::bones::Bones;
use super::form::Form;
use super::interval::Interval;
use super::joints::Joints;

/// How far a distance or an angle may be off: quaternions are rounded to f32.
const ROUNDING: f64 = 1e-5;

/// What rounding to f32 leaves of a sum, relative to the sizes that are summed.
const SUM_ROUNDING: f64 = 1e-6;

/// A pose space's kernels over a piece of the ranges, made when asked for.
pub(super) struct Kernels<'a> {
    space: &'a PoseSpace,
    joints: &'a Joints<'a>,
    /// Squared distances of the joints to their examples, (C)(N).
    distances: Vec<OnceCell<Vec<Distance>>>,
    /// (R).
    regions: Vec<OnceCell<Kernel>>,
}

/// A region's kernel.
pub(super) struct Kernel {
    /// The factor of all values, between nil and one.
    pub(super) fade: Interval,
    /// The values without it, (N).
    pub(super) values: Vec<Form>,
    /// A size that no value exceeds.
    pub(super) most: f64,
}

impl Kernel {
    /// `φ Σ_e κ_e d_e`, d (N).
    pub(super) fn sum(&self, d: impl Iterator<Item = f64>) -> Form {
        let (mut sum, mut size) = (Form::ZERO, 0.0);
        for (value, d) in self.values.iter().zip(d) {
            sum.add_scaled(value, d);
            size += d.abs();
        }
        sum.rest += SUM_ROUNDING * self.most * size;
        if self.fade.low >= 1.0 { sum } else { Form::interval(self.fade) * sum }
    }
}

impl<'a> Kernels<'a> {
    pub(super) fn new(space: &'a PoseSpace, joints: &'a Joints<'a>) -> Self {
        let distances = space.joints.iter().map(|_| OnceCell::new()).collect();
        Self { space, joints, distances, regions: space.regions.iter().map(|_| OnceCell::new()).collect() }
    }

    /// The kernel of region `r`.
    pub(super) fn region(&self, r: usize) -> &Kernel {
        self.regions[r].get_or_init(|| self.kernel(r))
    }

    fn kernel(&self, r: usize) -> Kernel {
        let region = &self.space.regions[r];
        let fade = region.joints.iter().fold(Interval::exact(1.0), |all, &(c, _)| {
            let nearest = self
                .distances(c as usize)
                .iter()
                .map(|distance| distance.range)
                .reduce(|a, b| Interval { low: a.low.min(b.low), high: a.high.min(b.high) });
            let nearest = nearest.unwrap_or(Interval::exact(0.0));
            // The run time's own: its f32 are finer than the rounding that is in the distances already.
            let faded = |squared: f64| f64::from(fade(squared as f32, self.space.fade[c as usize]));
            all * Interval { low: faded(nearest.high), high: faded(nearest.low) }
        });
        let share = 1.0 / region.joints.len().max(1) as f64;
        let value = |e: usize| {
            let (mut product, mut mean) = (Form::exact(1.0), Form::ZERO);
            for &(c, rate) in &region.joints {
                let factor = self.distances(c as usize)[e].falling(rate.into());
                product = product * factor;
                mean = mean + factor.scaled(share);
            }
            let mut value = Form::exact(region.constant.into())
                + product.scaled(region.product.into())
                + mean.scaled(region.additive.into());
            if region.peak != 0.0 {
                let total = (0..self.distances.len()).map(|c| self.distances(c)[e]).reduce(Distance::add);
                let peak = total.map_or(Form::exact(1.0), |total| total.falling(self.space.peak_rate.into()));
                value = value + peak.square().scaled(region.peak.into());
            }
            value
        };
        let terms = [region.constant, region.product, region.additive, region.peak];
        Kernel {
            fade,
            values: (0..self.space.poses).map(value).collect(),
            most: terms.iter().map(|term| f64::from(term.abs())).sum(),
        }
    }

    /// The squared distances of joint `c` of the space to its examples, (N).
    ///
    /// A joint within an angle of its middle is from an example at most that much nearer or farther than its middle: their
    /// range, where that is narrower than the form's.
    fn distances(&self, c: usize) -> &[Distance] {
        self.distances[c].get_or_init(|| {
            let (n, rotations) = (self.space.poses, &self.space.rotations);
            let rotation = self.joints.rotation(usize::from(self.space.joints[c]));
            let middle = DQuat::from_mat3(&rotation.middle);
            let distance = |e: usize| {
                let example = DQuat::from_array(std::array::from_fn(|k| rotations[c * 4 * n + k * n + e].into()));
                let matrix = DMat3::from_quat(example.normalize());
                let mut form = Form::around(3.0, ROUNDING);
                (0..9).for_each(|k| form.add_scaled(&rotation.form.rows[k / 3][k % 3], -matrix.col(k % 3)[k / 3]));
                let angle = 2.0 * middle.dot(example).abs().min(1.0).acos();
                let squared = |angle: f64| 4.0 * (angle.clamp(0.0, std::f64::consts::PI) / 2.0).sin().powi(2);
                let near = squared(angle - rotation.half - ROUNDING);
                let far = squared(angle + rotation.half + ROUNDING);
                Distance { form, range: form.range().meet(Interval { low: near, high: far }) }
            };
            (0..n).map(distance).collect()
        })
    }
}

/// A squared distance: a form, and its range, which may be narrower than the form's.
#[derive(Clone, Copy)]
struct Distance {
    form: Form,
    range: Interval,
}

impl Distance {
    fn add(self, other: Self) -> Self {
        Self { form: self.form + other.form, range: self.range + other.range }
    }

    /// `1 / (1 + rate d²)`.
    fn falling(self, rate: f64) -> Form {
        // A rate that is not positive: anything from nil to one.
        if !(rate > 0.0) {
            return if rate == 0.0 { Form::exact(1.0) } else { Form::around(0.5, 0.5) };
        }
        let (low, high) = (1.0 + rate * self.range.low.max(0.0), 1.0 + rate * self.range.high.max(0.0));
        let straight = (Form::exact(1.0) + self.form.scaled(rate)).reciprocal(low, high);
        let bare = Form::interval(Interval { low: 1.0 / high, high: 1.0 / low });
        if bare.radius() < 0.5 * straight.radius() { bare } else { straight }
    }
}

/// What a part of a correction of vertices holds for a block.
pub(super) struct Displaced {
    /// The region whose kernel counts.
    pub region: usize,
    /// The bone in whose rotated frame it stands.
    pub bone: usize,
    /// D_e of each of the block's vertices that it moves, (vertices)(N).
    displacements: Vec<Vec<DVec3>>,
    /// Whether it leaves a vertex of the block where it is.
    leaves_some: bool,
}

impl Displaced {
    /// The parts of the model's correction that move `block`.
    pub(super) fn of(model: &Model, block: &Block) -> Vec<Self> {
        let Some(correction) = model.vertex_correction() else { return Vec::new() };
        let n = correction.space.poses;
        let of = |part: &VertexPart| {
            let sorted = part.vertices.is_sorted();
            let find = |v: &u32| match sorted {
                true => part.vertices.binary_search(v).ok(),
                false => part.vertices.iter().position(|w| w == v),
            };
            let own: Vec<usize> = block.vertices.iter().filter_map(find).collect();
            let rows = || {
                part.components.chunks_exact(part.vertices.len()).zip(correction.mixing[part.region].chunks_exact(n))
            };
            let displacement = |v: usize, e: usize| {
                rows().map(|(row, mixing)| f64::from(mixing[e]) * DVec3::from_array(row[v].map(f64::from))).sum()
            };
            Self {
                region: part.region,
                bone: part.bone,
                displacements: own.iter().map(|&v| (0..n).map(|e| displacement(v, e)).collect()).collect(),
                leaves_some: own.len() < block.vertices.len(),
            }
        };
        correction.parts.iter().map(of).filter(|displaced| !displaced.displacements.is_empty()).collect()
    }

    /// What region `region` displaces every vertex of a block by in the frame of `bone`: `displacements`, (vertices)(N).
    pub(super) fn new(region: usize, bone: usize, displacements: Vec<Vec<DVec3>>) -> Self {
        Self { region, bone, displacements, leaves_some: false }
    }

    /// What it adds to the block, relative to its home bone; `kernel` is its region's.
    pub(super) fn over(&self, kernel: &Kernel, bones: &Bones) -> [Form; 3] {
        let vertex =
            |d: &Vec<DVec3>| -> [Interval; 3] { std::array::from_fn(|i| kernel.sum(d.iter().map(|d| d[i])).range()) };
        let still = self.leaves_some.then_some([Interval::exact(0.0); 3]);
        let hull = self.displacements.iter().map(vertex).chain(still);
        let hull = hull.reduce(|a, b| std::array::from_fn(|i| a[i].hull(b[i])));
        hull.map_or([Form::ZERO; 3], |hull| bones.relative[self.bone].turned(hull.map(Form::interval)))
    }
}
