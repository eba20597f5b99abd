//! One animated property of a glTF node: keys, and between them steps, straight lines (great arcs for rotations) or cubic
//! splines.

use glam::{DQuat, DVec3};

/// Keys and what is between them.
pub(super) struct Track<T> {
    /// Seconds, increasing.
    pub times: Vec<f64>,
    /// One a key.
    pub values: Vec<T>,
    /// Of a cubic spline: the slopes into and out of each key, a second.
    pub slopes: Option<Vec<[T; 2]>>,
    /// Whether a value holds until the next key.
    pub step: bool,
}

/// What can be interpolated between keys.
pub(super) trait Blend: Copy {
    fn mix(self, other: Self, t: f64) -> Self;
    /// The sum of four terms, made whole again where it must be (a rotation is a unit quaternion).
    fn sum(terms: [(f64, Self); 4]) -> Self;
}

impl Blend for DVec3 {
    fn mix(self, other: Self, t: f64) -> Self {
        self.lerp(other, t)
    }

    fn sum(terms: [(f64, Self); 4]) -> Self {
        terms.iter().map(|&(weight, value)| value * weight).sum()
    }
}

impl Blend for DQuat {
    fn mix(self, other: Self, t: f64) -> Self {
        self.slerp(other, t)
    }

    fn sum(terms: [(f64, Self); 4]) -> Self {
        let sum = terms.iter().fold(DQuat::from_xyzw(0.0, 0.0, 0.0, 0.0), |sum, &(weight, value)| sum + value * weight);
        if sum.length_squared() > 0.0 { sum.normalize() } else { DQuat::IDENTITY }
    }
}

impl<T: Blend> Track<T> {
    /// The value at `time`, in seconds; before the first key and after the last theirs.
    pub(super) fn at(&self, time: f64) -> T {
        let after = self.times.partition_point(|&t| t <= time);
        if after == 0 || after == self.times.len() || self.step {
            return self.values[after.saturating_sub(1)];
        }
        let before = after - 1;
        let length = self.times[after] - self.times[before];
        let t = (time - self.times[before]) / length;
        let Some(slopes) = &self.slopes else { return self.values[before].mix(self.values[after], t) };
        // Hermite's basis; slopes are a second, the basis runs from 0 to 1.
        let (t2, t3) = (t * t, t * t * t);
        T::sum([
            (2.0 * t3 - 3.0 * t2 + 1.0, self.values[before]),
            (length * (t3 - 2.0 * t2 + t), slopes[before][1]),
            (3.0 * t2 - 2.0 * t3, self.values[after]),
            (length * (t3 - t2), slopes[after][0]),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splines_pass_their_keys_with_their_slopes() {
        // x(s) = s³ over two seconds: slopes 0 and 12.
        let slope = |x: f64| [DVec3::X * x; 2];
        let track = Track {
            times: vec![1.0, 3.0],
            values: vec![DVec3::ZERO, DVec3::X * 8.0],
            slopes: Some(vec![slope(0.0), slope(12.0)]),
            step: false,
        };
        for s in [0.0, 0.5, 1.0, 1.7, 2.0_f64] {
            // Rounding of numbers up to 8.
            assert!((track.at(1.0 + s).x - s.powi(3)).abs() < 1e-14, "{s}");
        }
        assert_eq!((track.at(0.0).x, track.at(9.0).x), (0.0, 8.0), "held outside");
    }
}
