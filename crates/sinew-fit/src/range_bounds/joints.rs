//! What predictors and corrections see of the joints over a piece of the ranges: θ̃, held within the trained ranges.

use std::cell::OnceCell;

use glam::{DAffine3, DMat3, DVec3};

use super::blocks::Setting;
use super::form::{Form, FormAffine};
use super::held;
use super::logarithm::{logarithm, middle_of};
use super::needs::Needs;
use crate::norm::ranges::RangesOfMotion;

/// The joints over a piece of the ranges, made when asked for.
pub(super) struct Joints<'a> {
    setting: &'a Setting<'a>,
    needs: &'a Needs,
    ranges: &'a RangesOfMotion,
    /// (J).
    seen: Vec<OnceCell<Seen>>,
}

/// A joint as predictors see it.
pub(super) struct Seen {
    /// θ̃′, in the root's rest frame.
    pub theta: [Form; 3],
    /// Whether it may be held: if not, θ̃′ = θ̃.
    pub held: bool,
}

/// A joint's rotation as corrections see it.
pub(super) struct Rotation {
    /// `exp(θ̃′)`, in the root's rest frame.
    pub form: FormAffine,
    /// A rotation, and by how much all of them may turn away from it, radians.
    pub middle: DMat3,
    pub half: f64,
}

impl<'a> Joints<'a> {
    pub(super) fn new(setting: &'a Setting<'a>, needs: &'a Needs, ranges: &'a RangesOfMotion) -> Self {
        let seen = (0..setting.rest.len()).map(|_| OnceCell::new()).collect();
        Self { setting, needs, ranges, seen }
    }

    /// Joint `b` as predictors see it.
    pub(super) fn seen(&self, b: usize) -> &Seen {
        self.seen[b].get_or_init(|| {
            let theta = self.logarithm(b);
            match self.setting.trained.as_ref().and_then(|trained| held::held(trained, b, theta)) {
                Some(theta) => Seen { theta, held: true },
                None => Seen { theta, held: false },
            }
        })
    }

    /// The rotation of joint `b` as corrections see it.
    pub(super) fn rotation(&self, b: usize) -> Rotation {
        // Methods without trained ranges hold nothing.
        if self.setting.trained.is_some() && self.seen(b).held {
            let theta = self.seen(b).theta;
            // Two rotations are no farther apart than their logarithms.
            let half = theta.iter().map(|x| x.radius().powi(2)).sum::<f64>().sqrt();
            let middle = crate::geometry::rotation::exp(DVec3::from_array(theta.map(|x| x.centre)));
            return Rotation { form: FormAffine::exponential(&theta), middle, half };
        }
        let rest = self.setting.rest[b].matrix3;
        let (middle, half) = middle_of(&self.ranges.joints[b]);
        let exact = |m: DMat3| FormAffine::exact(DAffine3::from_mat3(m));
        let turns = self.ranges.joints[b].iter().enumerate();
        let turned =
            turns.fold(exact(rest), |all, (k, turn)| all.rigid_times(&FormAffine::turn(turn, self.needs.symbol(b, k))));
        Rotation { form: turned.rigid_times(&exact(rest.transpose())), middle: rest * middle * rest.transpose(), half }
    }

    /// Whether one of the joints between bones `b` and `f` may be held.
    pub(super) fn hold_between(&self, b: usize, f: usize) -> bool {
        let (up, down) = held::between(self.setting.skeleton, b, f);
        up.iter().chain(&down).any(|&b| self.seen(b).held)
    }

    /// The turn of joint `b` as its bone takes it, in the bone's own rest frame: from the ranges, or held.
    pub(super) fn turn(&self, b: usize, held: bool) -> FormAffine {
        if held {
            let rest = self.setting.rest[b].matrix3;
            let theta = self.seen(b).theta;
            return FormAffine::exponential(&std::array::from_fn(|i| {
                let mut sum = Form::ZERO;
                (0..3).for_each(|k| sum.add_scaled(&theta[k], rest.col(i)[k]));
                sum
            }));
        }
        let turns = self.ranges.joints[b].iter().enumerate();
        turns.fold(FormAffine::exact(DAffine3::IDENTITY), |all, (k, turn)| {
            all.rigid_times(&FormAffine::turn(turn, self.needs.symbol(b, k)))
        })
    }

    /// θ̃ of joint `b`: the turn's logarithm, turned from the bone's rest frame into the root's.
    fn logarithm(&self, b: usize) -> [Form; 3] {
        let (turns, rest) = (&self.ranges.joints[b], self.setting.rest[b].matrix3);
        let reference =
            self.setting.trained.as_ref().map_or(DVec3::ZERO, |t| DVec3::from_array(t.reference[b].map(f64::from)));
        let symbols: Vec<Option<usize>> = (0..turns.len()).map(|k| self.needs.symbol(b, k)).collect();
        // The logarithm is the plain one if that is within half a turn of the branch's reference. In any case it is within
        // half a turn of it along its axis.
        let plain = |log: &[Form; 3]| {
            let centre = DVec3::from_array(log.map(|x| x.centre));
            let reach = DVec3::from_array(log.map(|x| x.radius())).length();
            (rest * centre).distance(reference) + reach < std::f64::consts::PI - 1e-3
        };
        let Some(mut log) = logarithm(turns, &symbols).filter(plain) else {
            return [Form::around(0.0, reference.length() + std::f64::consts::PI); 3];
        };
        if let Some(&(_, first)) = self.needs.left_over.iter().find(|entry| entry.0 == b) {
            for (k, x) in log.iter_mut().enumerate() {
                x.slopes[first + k] = std::mem::take(&mut x.rest);
            }
        }
        std::array::from_fn(|i| {
            let mut sum = Form::ZERO;
            (0..3).for_each(|k| sum.add_scaled(&log[k], rest.col(k)[i]));
            sum
        })
    }
}
