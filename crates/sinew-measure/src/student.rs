//! Ratings: means with 95 % intervals, and Welch's t-test (Welch, "The generalization of Student's problem when several
//! different population variances are involved", 1947) between two methods, as the user study of Jacka, Reid, Merry and
//! Gain, "A comparison of linear skinning techniques for character animation", 2007, section 4.2, reports them.
//!
//!   t = (m₁ − m₂) / √(s₁²/n₁ + s₂²/n₂),   ν = (s₁²/n₁ + s₂²/n₂)² / ((s₁²/n₁)²/(n₁−1) + (s₂²/n₂)²/(n₂−1))
//!
//! p is two-sided, from Student's distribution: `I_{ν/(ν+t²)}(ν/2, 1/2)`, the regularised incomplete beta function.

use serde::Serialize;

/// A sample's mean and spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (with n − 1).
    pub deviation: f64,
    /// The 95 % interval of the mean.
    pub interval: [f64; 2],
}

/// The comparison of two means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TTest {
    /// The test statistic.
    pub t: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
    /// The probability of a difference at least as large by chance.
    pub p: f64,
}

impl Summary {
    /// The summary of `values`; `None` for fewer than two.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
        Some(Self::new(values.len(), mean, deviation))
    }

    /// The summary of a sample that is known by its count, mean and standard deviation.
    #[must_use]
    pub fn new(count: usize, mean: f64, deviation: f64) -> Self {
        let half = quantile(0.975, count.saturating_sub(1).max(1) as f64) * deviation / (count.max(1) as f64).sqrt();
        Self { count, mean, deviation, interval: [mean - half, mean + half] }
    }

    /// Welch's test against another sample.
    #[must_use]
    pub fn test(&self, other: &Self) -> TTest {
        let (a, b) = (self.deviation.powi(2) / self.count as f64, other.deviation.powi(2) / other.count as f64);
        if a + b == 0.0 {
            let differ = self.mean != other.mean;
            let freedom = (self.count + other.count).saturating_sub(2) as f64;
            return TTest { t: if differ { f64::INFINITY } else { 0.0 }, freedom, p: if differ { 0.0 } else { 1.0 } };
        }
        let t = (self.mean - other.mean) / (a + b).sqrt();
        let freedom = (a + b).powi(2) / (a * a / (self.count as f64 - 1.0) + b * b / (other.count as f64 - 1.0));
        TTest { t, freedom, p: two_sided(t, freedom) }
    }
}

/// The probability that |T| ≥ |t| for Student's distribution.
fn two_sided(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), 0.5 * freedom, 0.5)
}

/// The t below which T lies with probability `p` > 1/2, by bisection.
fn quantile(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e3);
    // 80 halvings of 1000 reach the last digit of an f64.
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if 1.0 - 0.5 * two_sided(middle, freedom) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// I_x(a, b) by Lentz's continued fraction (DLMF 8.17.22), on the side where it converges fast.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let tiny = 1e-300;
    let (mut c, mut d) = (1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for m in 1..300 {
        let m = f64::from(m);
        for step in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / (1.0 + step * d).abs().max(tiny).copysign(1.0 + step * d);
            c = 1.0 + step / c;
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * value
}

/// ln Γ(x) for x > 0 by Stirling's series after shifting x past 12, where the terms kept are exact to an f64.
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let (inverse, square) = (1.0 / x, 1.0 / (x * x));
    let series = inverse
        * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_distribution_at_known_places() {
        // With one degree of freedom it is Cauchy's: P(|T| ≥ 1) = 1/2. With two: P(|T| ≥ t) = 1 − t/√(2 + t²).
        // 1e-12: a dozen digits of the continued fraction and of ln Γ.
        assert!((two_sided(1.0, 1.0) - 0.5).abs() < 1e-12);
        assert!((two_sided(3.0, 2.0) - (1.0 - 3.0 / 11_f64.sqrt())).abs() < 1e-12);
        // The usual table: t(0.975, 10) = 2.228, t(0.975, 151) = 1.976.
        assert!((quantile(0.975, 10.0) - 2.228_138_85).abs() < 1e-7);
        assert!((quantile(0.975, 151.0) - 1.975_8).abs() < 1e-4);
    }

    #[test]
    // 6.28 is a published mean, not a circle.
    #[allow(clippy::approx_constant)]
    fn the_published_study_comes_out() {
        // 152 ratings each; means, deviations and intervals as published, to the digits given there (0.01).
        let ssd = Summary::new(152, 7.88, 2.09);
        let animation_space = Summary::new(152, 8.88, 1.31);
        let mwe = Summary::new(152, 6.28, 2.63);
        for (summary, published) in [(ssd, [7.54, 8.21]), (animation_space, [8.67, 9.09])] {
            for side in 0..2 {
                assert!((summary.interval[side] - published[side]).abs() < 0.0101, "{summary:?}");
            }
        }
        // Every pair differs significantly, as published.
        for (a, b) in [(ssd, animation_space), (ssd, mwe), (animation_space, mwe)] {
            assert!(a.test(&b).p < 0.05);
        }
    }

    #[test]
    fn welch_by_hand() {
        // {1,2,3} and {2,4,6}: means 2 and 4, variances 1 and 4; t = −2/√(5/3), ν = (5/3)² / (1/18 + 16/18).
        let (a, b) = (Summary::of(&[1.0, 2.0, 3.0]).unwrap(), Summary::of(&[2.0, 4.0, 6.0]).unwrap());
        let test = a.test(&b);
        // 1e-12: rounding.
        assert!((test.t + 2.0 / (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((test.freedom - (25.0 / 9.0) / (17.0 / 18.0)).abs() < 1e-12);
        assert_eq!(a.test(&a).p, 1.0);
        assert!(Summary::of(&[1.0]).is_none());
    }
}
