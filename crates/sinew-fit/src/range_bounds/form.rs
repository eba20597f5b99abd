//! Affine arithmetic: numbers that remember how they depend on the hinges' angles (Comba and Stolfi, "Affine arithmetic and
//! its applications to computer graphics", 1993).
//!
//! Within a piece of the ranges a hinge is at `φ_k = m_k + h_k ε_k`, `|ε_k| ≤ 1`, and a number is
//!
//!   x = c + Σ_k s_k ε_k + r,   |r| ≤ rest.
//!
//! Sums are exact, products and functions up to second order in the pieces' sizes, so that what cancels in a regression
//! cancels here too, where intervals would add up. Rounding is left to the caller, who widens the result.

use glam::{DAffine3, DMat3, DQuat, DVec3};

use super::interval::Interval;
use crate::geometry::rotation::left_jacobian;
use crate::norm::ranges::Turn;

/// Unknowns that are remembered: hinges, and what the logarithms of joints with several leave over. Others count as
/// unknown within their range.
pub(super) const SYMBOLS: usize = 16;

/// A number as above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Form {
    pub centre: f64,
    /// `s_k`, an unknown each.
    pub slopes: [f64; SYMBOLS],
    pub rest: f64,
}

impl Form {
    pub(super) const ZERO: Self = Self::exact(0.0);

    pub(super) const fn exact(x: f64) -> Self {
        Self { centre: x, slopes: [0.0; SYMBOLS], rest: 0.0 }
    }

    pub(super) fn around(x: f64, half: f64) -> Self {
        Self { rest: half, ..Self::exact(x) }
    }

    pub(super) fn interval(range: Interval) -> Self {
        Self::around(range.middle(), (range.high - range.low) / 2.0)
    }

    /// The largest distance from the centre.
    pub(super) fn radius(&self) -> f64 {
        self.slopes.iter().map(|s| s.abs()).sum::<f64>() + self.rest
    }

    /// All values.
    pub(super) fn range(&self) -> Interval {
        Interval::around(self.centre, self.radius())
    }

    /// `factor x`.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { centre: factor * self.centre, slopes: self.slopes.map(|s| factor * s), rest: factor.abs() * self.rest }
    }

    /// Adds `factor x` in place.
    pub(super) fn add_scaled(&mut self, x: &Self, factor: f64) {
        self.centre += factor * x.centre;
        self.slopes.iter_mut().zip(&x.slopes).for_each(|(sum, s)| *sum += factor * s);
        self.rest += factor.abs() * x.rest;
    }

    /// Adds `x y` in place, each with its radius.
    fn add_product(&mut self, (x, x_radius): (&Self, f64), (y, y_radius): (&Self, f64)) {
        let (a, b) = (x.centre, y.centre);
        self.centre += a * b;
        let slopes = x.slopes.iter().zip(&y.slopes);
        self.slopes.iter_mut().zip(slopes).for_each(|(sum, (x, y))| *sum += a * y + b * x);
        self.rest += a.abs() * y.rest + b.abs() * x.rest + x_radius * y_radius;
    }

    /// `x²`: the square of the deviation is between nil and the radius squared.
    pub(super) fn square(self) -> Self {
        let half = self.radius().powi(2) / 2.0;
        let first = self.scaled(2.0 * self.centre);
        Self { centre: self.centre.powi(2) + half, rest: first.rest + half, ..first }
    }

    /// `1/x` for x known to lie in `low` to `high`, both positive: the straight line that is nearest to it there.
    pub(super) fn reciprocal(self, low: f64, high: f64) -> Self {
        // With the slope −1/(low·high) the difference is largest at both ends and least at √(low·high).
        let (most, least) = (1.0 / low + 1.0 / high, 2.0 / (low * high).sqrt());
        self.scaled(-1.0 / (low * high)) + Self::around((most + least) / 2.0, (most - least).max(0.0) / 2.0)
    }

    /// The number is known not to exceed `half` in size: its bare range where that says more.
    fn clip(&mut self, half: f64) {
        let radius = self.radius();
        if self.centre.abs() + radius > half {
            let clipped = Self::interval(Interval::around(self.centre, radius).clipped(half));
            if clipped.rest < 0.5 * radius {
                *self = clipped;
            }
        }
    }
}

impl std::ops::Add for Form {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            centre: self.centre + other.centre,
            slopes: std::array::from_fn(|k| self.slopes[k] + other.slopes[k]),
            rest: self.rest + other.rest,
        }
    }
}

impl std::ops::Sub for Form {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + other.scaled(-1.0)
    }
}

impl std::ops::Mul for Form {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let mut product = Self::ZERO;
        product.add_product((&self, self.radius()), (&other, other.radius()));
        product
    }
}

/// A 3×4 matrix of forms, row by row.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormAffine {
    pub rows: [[Form; 4]; 3],
}

impl FormAffine {
    pub(super) fn from(entry: impl Fn(usize, usize) -> Form) -> Self {
        Self { rows: std::array::from_fn(|i| std::array::from_fn(|s| entry(i, s))) }
    }

    pub(super) fn exact(t: DAffine3) -> Self {
        let columns = [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation];
        Self::from(|i, s| Form::exact(columns[s][i]))
    }

    /// A turn; `symbol` is its hinge's place among those that are remembered.
    pub(super) fn turn(turn: &Turn, symbol: Option<usize>) -> Self {
        match *turn {
            Turn::Hinge { axis, from, to } => {
                // R(φ) = A + (I − A) cos φ + K sin φ; the three matrices from φ = 0, 90° and 180°.
                let at = |angle: f64| DMat3::from_axis_angle(axis, angle);
                let (zero, half) = (at(0.0), at(std::f64::consts::PI));
                let quarter = at(std::f64::consts::FRAC_PI_2);
                Self::from(|i, s| {
                    if s == 3 {
                        return Form::ZERO;
                    }
                    let a = (zero.col(s)[i] + half.col(s)[i]) / 2.0;
                    let b = (zero.col(s)[i] - half.col(s)[i]) / 2.0;
                    wave(a, b, quarter.col(s)[i] - a, from, to, symbol)
                })
            }
            Turn::Cone { most, .. } => {
                let change = 2.0 * (most / 2.0).sin();
                Self::from(|i, s| match (s, i == s) {
                    (3, _) => Form::ZERO,
                    (_, true) => Form::interval(Interval { low: most.cos(), high: 1.0 }),
                    (_, false) => Form::around(0.0, change.min(1.0)),
                })
            }
        }
    }

    /// `exp(ρ)` for all ρ that the three forms stand for.
    ///
    /// `exp(ρ₀ + δ) = (I + [J δ]×) exp(ρ₀) + r` with J the left Jacobian; r is at most `‖δ‖²/2`, for the second derivative
    /// of the exponential of a skew matrix is a mean of products of rotations and two δ. Nor does an entry change by more
    /// than `2 sin(‖δ‖/2)`.
    pub(super) fn exponential(rho: &[Form; 3]) -> Self {
        let middle = DVec3::from_array(rho.map(|x| x.centre));
        let reach = rho.iter().map(|x| x.radius().powi(2)).sum::<f64>().sqrt();
        let change = 2.0 * (reach.min(std::f64::consts::PI) / 2.0).sin();
        let turn = DMat3::from_quat(DQuat::from_scaled_axis(middle));
        let jacobian = left_jacobian(middle);
        let delta = rho.map(|x| Form { centre: 0.0, ..x });
        let mut spin = [Form::ZERO; 3];
        for (i, spin) in spin.iter_mut().enumerate() {
            (0..3).for_each(|k| spin.add_scaled(&delta[k], jacobian.col(k)[i]));
        }
        Self::from(|i, s| {
            if s == 3 {
                return Form::ZERO;
            }
            // Column s of [w]× R is w × R_s.
            let column = turn.col(s);
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            let mut first = spin[j].scaled(column[k]) - spin[k].scaled(column[j]);
            first.rest += reach * reach / 2.0;
            if first.radius() > change {
                first = Form::around(0.0, change);
            }
            first.centre = column[i];
            first.clip(1.0);
            first
        })
    }

    /// The inverse of an affine map whose linear part is a rotation: `[Rᵀ, −Rᵀ t]`.
    pub(super) fn inverse_rotation(&self) -> Self {
        let turned = |i: usize| (0..3).fold(Form::ZERO, |sum, k| sum - self.rows[k][i] * self.rows[k][3]);
        Self::from(|i, s| if s == 3 { turned(i) } else { self.rows[s][i] })
    }

    /// The linear part alone.
    pub(super) fn linear(&self) -> Self {
        Self::from(|i, s| if s == 3 { Form::ZERO } else { self.rows[i][s] })
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        self.times_within(other, f64::INFINITY, f64::INFINITY)
    }

    /// The product where this map's linear part is a rotation: no entry of a rotation is above one, and none turns a vector
    /// into a longer one. `other`'s linear part must be one as well.
    pub(super) fn rigid_times(&self, other: &Self) -> Self {
        self.times_within(other, 1.0, length([0, 1, 2].map(|k| &other.rows[k][3])))
    }

    /// The product, whose linear entries are known not to exceed `entry` and the turned translation `length`.
    fn times_within(&self, other: &Self, entry: f64, length: f64) -> Self {
        let radii = |m: &Self| m.rows.each_ref().map(|row| row.each_ref().map(Form::radius));
        let (own, others) = (radii(self), radii(other));
        let mut product = Self { rows: [[Form::ZERO; 4]; 3] };
        for (i, row) in product.rows.iter_mut().enumerate() {
            for (s, sum) in row.iter_mut().enumerate() {
                (0..3).for_each(|k| sum.add_product((&self.rows[i][k], own[i][k]), (&other.rows[k][s], others[k][s])));
                sum.clip(if s == 3 { length } else { entry });
            }
            row[3].add_scaled(&self.rows[i][3], 1.0);
        }
        product
    }

    /// The images of all points that `p` stands for, if the linear part is a rotation.
    pub(super) fn rigid_point(&self, p: [Form; 3]) -> [Form; 3] {
        let turned = self.turned(p);
        std::array::from_fn(|i| self.rows[i][3] + turned[i])
    }

    /// The linear part, a rotation, times all vectors that `p` stands for.
    pub(super) fn turned(&self, p: [Form; 3]) -> [Form; 3] {
        let (length, radii) = (length(p.each_ref()), p.each_ref().map(Form::radius));
        std::array::from_fn(|i| {
            let mut sum = Form::ZERO;
            (0..3).for_each(|k| sum.add_product((&self.rows[i][k], self.rows[i][k].radius()), (&p[k], radii[k])));
            sum.clip(length);
            sum
        })
    }

    pub(super) fn point(&self, p: DVec3) -> [Form; 3] {
        let turned = self.vector(p.to_array().map(Form::exact));
        std::array::from_fn(|i| turned[i] + self.rows[i][3])
    }

    /// The linear part times all vectors that `p` stands for.
    pub(super) fn vector(&self, p: [Form; 3]) -> [Form; 3] {
        let entry = |i: usize, s: usize| self.rows[i][s] * p[s];
        std::array::from_fn(|i| entry(i, 0) + entry(i, 1) + entry(i, 2))
    }
}

/// No vector that `p` stands for is longer.
fn length(p: [&Form; 3]) -> f64 {
    p.iter().map(|x| x.range().most().powi(2)).sum::<f64>().sqrt()
}

/// `a + b cos φ + c sin φ` for φ from `from` to `to`.
///
/// With `φ = m + hε`: `cos hε` is between `cos h` and one, and `sin hε` within δ of `ε sin h`.
fn wave(a: f64, b: f64, c: f64, from: f64, to: f64, symbol: Option<usize>) -> Form {
    let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
    let exact = Form::interval(Interval::wave(a, b, c, from, to));
    let Some(k) = symbol.filter(|_| half > 0.0 && half <= std::f64::consts::FRAC_PI_2) else { return exact };
    let (sine, cosine) = middle.sin_cos();
    let (even, odd) = (b * cosine + c * sine, c * cosine - b * sine);
    let slope = half.sin();
    // sin hε − ε sin h is largest where h cos hε = sin h.
    let at = (slope / half).acos();
    let bend = at.sin() - at / half * slope;
    let flat = (1.0 - half.cos()) / 2.0;
    let mut form = Form::around(a + even * (1.0 - flat), even.abs() * flat + odd.abs() * bend);
    form.slopes[k] = odd * slope;
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_never_leaves_its_forms() {
        let turns = [
            Turn::Hinge { axis: DVec3::new(1.0, 2.0, -1.0).normalize(), from: -0.4, to: 2.4 },
            Turn::Hinge { axis: DVec3::Y, from: 1.0, to: 8.0 },
            Turn::Cone { axis: DVec3::X, most: 1.2 },
            Turn::Cone { axis: DVec3::Z, most: 3.0 },
        ];
        for turn in &turns {
            let forms = FormAffine::turn(turn, Some(3));
            let samples = turn.samples();
            for (n, sample) in samples.iter().enumerate() {
                // The samples of a hinge stand at the middles of equal steps.
                let epsilon = 2.0 * (n as f64 + 0.5) / samples.len() as f64 - 1.0;
                for i in 0..3 {
                    for s in 0..3 {
                        let (form, x) = (forms.rows[i][s], sample.col(s)[i]);
                        let apart = x - form.centre - form.slopes[3] * epsilon;
                        // The last bits of sines.
                        assert!(apart.abs() <= form.rest + 1e-12, "{turn:?}: {x} outside {form:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_and_exponentials_never_leave_their_forms() {
        let form = |centre: f64, slopes: [f64; 2], rest: f64| {
            let mut form = Form::around(centre, rest);
            form.slopes[..2].copy_from_slice(&slopes);
            form
        };
        let rho = [form(0.4, [0.3, -0.1], 0.02), form(-1.0, [0.0, 0.25], 0.0), form(0.2, [-0.2, 0.2], 0.05)];
        let (turn, product, square) = (FormAffine::exponential(&rho), rho[0] * rho[1], rho[2].square());
        let positive = rho[0] + Form::exact(1.0);
        let reciprocal = positive.reciprocal(positive.range().low, positive.range().high);
        let ends = [-1.0, -0.3, 0.5, 1.0];
        for (x, y, r) in ends.iter().flat_map(|&x| ends.iter().flat_map(move |&y| ends.map(|r| (x, y, r)))) {
            let value = rho.map(|f| f.centre + f.slopes[0] * x + f.slopes[1] * y + f.rest * r);
            let inside = |form: &Form, value: f64| {
                let apart = value - form.centre - form.slopes[0] * x - form.slopes[1] * y;
                assert!(apart.abs() <= form.rest + 1e-12, "{value} outside {form:?} at {x} {y} {r}");
            };
            inside(&product, value[0] * value[1]);
            inside(&square, value[2] * value[2]);
            inside(&reciprocal, 1.0 / (1.0 + value[0]));
            let exact = DMat3::from_quat(DQuat::from_scaled_axis(DVec3::from_array(value)));
            (0..9).for_each(|k| inside(&turn.rows[k / 3][k % 3], exact.col(k % 3)[k / 3]));
        }
    }
}
