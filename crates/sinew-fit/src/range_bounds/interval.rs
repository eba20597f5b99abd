//! Numbers and matrices known to lie between bounds. Sums and products hold every sum and product of what their parts
//! hold; rounding is left to the caller, who widens the result.

use glam::{DAffine3, DMat3, DVec3};

use crate::norm::ranges::Turn;

/// All numbers from `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub(super) fn exact(x: f64) -> Self {
        Self { low: x, high: x }
    }

    pub(super) fn around(x: f64, half: f64) -> Self {
        Self { low: x - half, high: x + half }
    }

    pub(super) fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// `x²`.
    pub(super) fn square(self) -> Self {
        let (a, b) = (self.low * self.low, self.high * self.high);
        Self { low: if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { a.min(b) }, high: a.max(b) }
    }

    /// `factor x`.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self::exact(factor) * self
    }

    /// What of it lies within `half` of nil; what it stands for must.
    pub(super) fn clipped(self, half: f64) -> Self {
        Self { low: self.low.clamp(-half, half), high: self.high.clamp(-half, half) }
    }

    /// The largest size.
    pub(super) fn most(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The middle.
    pub(super) fn middle(self) -> f64 {
        (self.low + self.high) / 2.0
    }

    /// The range of `a + b cos φ + c sin φ` for φ from `from` to `to`.
    pub(super) fn wave(a: f64, b: f64, c: f64, from: f64, to: f64) -> Self {
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
pub(super) struct IntervalAffine {
    pub rows: [[Interval; 4]; 3],
}

impl IntervalAffine {
    pub(super) fn from(entry: impl Fn(usize, usize) -> Interval) -> Self {
        Self { rows: std::array::from_fn(|i| std::array::from_fn(|s| entry(i, s))) }
    }

    pub(super) fn exact(t: DAffine3) -> Self {
        let columns = [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation];
        Self::from(|i, s| Interval::exact(columns[s][i]))
    }

    pub(super) fn turn(turn: &Turn) -> Self {
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

    /// The inverse of an affine map whose linear part is a rotation: `[Rᵀ, −Rᵀ t]`.
    pub(super) fn inverse_rotation(&self) -> Self {
        let turned = |i: usize| (0..3).fold(Interval::exact(0.0), |sum, k| sum - self.rows[k][i] * self.rows[k][3]);
        Self::from(|i, s| if s == 3 { turned(i) } else { self.rows[s][i] })
    }

    /// The linear part alone.
    pub(super) fn linear(&self) -> Self {
        Self::from(|i, s| if s == 3 { Interval::exact(0.0) } else { self.rows[i][s] })
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        Self::from(|i, s| {
            let start = if s == 3 { self.rows[i][3] } else { Interval::exact(0.0) };
            (0..3).fold(start, |sum, k| sum + self.rows[i][k] * other.rows[k][s])
        })
    }

    /// The product where this map's linear part is a rotation: no entry of a rotation is above one, and none turns a vector
    /// into a longer one. `other`'s linear part must be one as well.
    pub(super) fn rigid_times(&self, other: &Self) -> Self {
        let product = self.times(other);
        let shift = self.turned([0, 1, 2].map(|k| other.rows[k][3]));
        Self::from(|i, s| if s == 3 { self.rows[i][3] + shift[i] } else { product.rows[i][s].clipped(1.0) })
    }

    /// The images of all points within a box, if the linear part is a rotation.
    pub(super) fn rigid_point(&self, p: [Interval; 3]) -> [Interval; 3] {
        let turned = self.turned(p);
        std::array::from_fn(|i| self.rows[i][3] + turned[i])
    }

    /// The linear part, a rotation, times all vectors within a box.
    pub(super) fn turned(&self, p: [Interval; 3]) -> [Interval; 3] {
        let length = p.iter().map(|x| x.most().powi(2)).sum::<f64>().sqrt();
        std::array::from_fn(|i| {
            (0..3).fold(Interval::exact(0.0), |sum, k| sum + self.rows[i][k] * p[k]).clipped(length)
        })
    }

    pub(super) fn point(&self, p: DVec3) -> [Interval; 3] {
        let turned = self.vector(p, DVec3::ZERO);
        std::array::from_fn(|i| turned[i] + self.rows[i][3])
    }

    /// The linear part times all vectors within `half` of `centre`.
    pub(super) fn vector(&self, centre: DVec3, half: DVec3) -> [Interval; 3] {
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
