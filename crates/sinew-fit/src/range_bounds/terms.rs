//! What drives the changes of proxy bones over ranges of motion: kernels over examples ([`kernels`](super::kernels)), or
//! polynomials of joint rotations, whose terms are products of forms.

use std::cell::OnceCell;

use sinew_runtime::Polynomials;
use sinew_runtime::correction::Drivers;
use sinew_runtime::polynomials::FARTHEST;

use super::form::Form;
use super::interval::Interval;
use super::joints::Joints;
use super::kernels::{Kernel, Kernels};

/// What drives a correction over a piece of the ranges, made when asked for.
pub(super) enum Driven<'a> {
    Examples(Kernels<'a>),
    Polynomials(Terms<'a>),
}

impl<'a> Driven<'a> {
    pub(super) fn new(drivers: &'a Drivers, joints: &'a Joints<'a>) -> Self {
        match drivers {
            Drivers::Examples(space) => Self::Examples(Kernels::new(space, joints)),
            Drivers::Polynomials(polynomials) => Self::Polynomials(Terms::new(polynomials, joints)),
        }
    }

    /// What drives region `r`.
    pub(super) fn region(&self, r: usize) -> &Kernel {
        match self {
            Self::Examples(kernels) => kernels.region(r),
            Self::Polynomials(terms) => terms.region(r),
        }
    }
}

/// Polynomials over a piece of the ranges.
pub(super) struct Terms<'a> {
    polynomials: &'a Polynomials,
    joints: &'a Joints<'a>,
    /// (T).
    terms: Vec<OnceCell<Form>>,
    /// (R).
    regions: Vec<OnceCell<Kernel>>,
}

impl<'a> Terms<'a> {
    fn new(polynomials: &'a Polynomials, joints: &'a Joints<'a>) -> Self {
        let cells = |count: usize| (0..count).map(|_| OnceCell::new()).collect();
        let regions = polynomials.regions.iter().map(|_| OnceCell::new()).collect();
        Self { polynomials, joints, terms: cells(polynomials.term_count()), regions }
    }

    fn region(&self, r: usize) -> &Kernel {
        self.regions[r].get_or_init(|| {
            let values: Vec<Form> = self.polynomials.regions[r].iter().map(|&k| *self.term(usize::from(k))).collect();
            let size = |value: &Form| value.range().low.abs().max(value.range().high.abs());
            let most = values.iter().map(size).fold(0.0, f64::max);
            Kernel { fade: Interval::exact(1.0), values, most }
        })
    }

    fn term(&self, k: usize) -> &Form {
        self.terms[k].get_or_init(|| {
            let Some(&[earlier, c]) = k.checked_sub(1).map(|k| &self.polynomials.factors[k]) else {
                return Form::exact(1.0);
            };
            let coordinate = &self.polynomials.coordinates[usize::from(c)];
            let theta = self.joints.seen(usize::from(coordinate.joint)).theta;
            let mut x = Form::exact(coordinate.offset.into());
            (0..3).for_each(|i| x.add_scaled(&theta[i], coordinate.axis[i].into()));
            let (range, farthest) = (x.range(), f64::from(FARTHEST));
            if range.low < -farthest || range.high > farthest {
                let held = |x: f64| x.clamp(-farthest, farthest);
                x = Form::interval(Interval { low: held(range.low), high: held(range.high) });
            }
            // A square is not negative, which the product of two forms does not know.
            let earlier = usize::from(earlier);
            let squared = earlier.checked_sub(1).is_some_and(|k| self.polynomials.factors[k] == [0, c]);
            if squared { x.square() } else { *self.term(earlier) * x }
        })
    }
}
