//! Numbers known to lie between bounds. Sums and products hold every sum and product of what their parts
//! hold; rounding is left to the caller, who widens the result.

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

    /// What both hold; they stand for the same number, so that they meet but for rounding.
    pub(super) fn meet(self, other: Self) -> Self {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        Self { low: low.min(high), high: high.max(low) }
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

/// The range of `Σ_k w_k x_k` for x_k within `ranges` and weights w_k within `shares` that sum to one.
///
/// `Σ_k w_k x_k = μ + Σ_k w_k (x_k − μ)` for any μ. The one that bounds an end best is an end of one of the ranges.
pub(super) fn blended(shares: &[Interval], ranges: &[Interval]) -> Interval {
    let upper = |end: &dyn Fn(&Interval) -> f64| {
        let at = |mu: f64| {
            let parts = shares.iter().zip(ranges).map(|(share, range)| (share, end(range) - mu));
            mu + parts.map(|(share, apart)| (share.low * apart).max(share.high * apart)).sum::<f64>()
        };
        ranges.iter().map(|range| at(end(range))).fold(f64::INFINITY, f64::min)
    };
    // A negative weight takes the other end.
    let negative: f64 = shares.iter().zip(ranges).map(|(share, x)| (-share.low).max(0.0) * (x.high - x.low)).sum();
    Interval { low: -upper(&|range| -range.low) - negative, high: upper(&|range| range.high) + negative }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blend_reaches_its_ends_and_never_leaves_them() {
        let interval = |low: f64, high: f64| Interval { low, high };
        let ranges = [interval(-1.0, 2.0), interval(0.0, 5.0), interval(-4.0, 1.0)];
        for (shares, expected) in [
            // All of one; anything; a little of each; next to one mixture alone.
            ([interval(1.0, 1.0), interval(0.0, 0.0), interval(0.0, 0.0)], interval(-1.0, 2.0)),
            ([interval(0.0, 1.0); 3], interval(-4.0, 5.0)),
            ([interval(0.5, 1.0), interval(0.0, 0.2), interval(0.0, 0.5)], interval(-2.5, 2.6)),
            ([interval(0.5, 0.5), interval(0.25, 0.25), interval(0.25, 0.25)], interval(-1.5, 2.5)),
        ] {
            let found = blended(&shares, &ranges);
            // 1e-12: a few roundings.
            assert!((found.low - expected.low).abs() < 1e-12, "{found:?} instead of {expected:?}");
            assert!((found.high - expected.high).abs() < 1e-12, "{found:?} instead of {expected:?}");
        }
        // 1.5 times the first less half of the second.
        let found = blended(&[interval(1.5, 1.5), interval(-0.5, -0.5)], &ranges[..2]);
        assert!(found.low <= -1.5 - 2.5 && found.high >= 3.0, "{found:?}");
    }
}
