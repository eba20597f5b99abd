//! Colours that mean something: an ordered scale for errors, and telling groups apart.

/// The error scale: lightness falls evenly from a pale grey to near black, through yellow, orange, red and violet, so
/// that it reads the same in greyscale and to colour-blind eyes. sRGB, 0 to 1, at equal steps.
const ERROR_STOPS: [[f64; 3]; 7] = [
    [0.901, 0.911, 0.921],
    [0.907, 0.787, 0.509],
    [0.896, 0.594, 0.283],
    [0.826, 0.363, 0.263],
    [0.645, 0.182, 0.354],
    [0.391, 0.082, 0.382],
    [0.140, 0.043, 0.258],
];

/// The colour of an error, `level` 0 (none) to 1 (the scale's end or beyond); sRGB, 0 to 1.
#[must_use]
pub fn error_colour(level: f64) -> [f64; 3] {
    let last = ERROR_STOPS.len() - 1;
    let place = if level.is_finite() { level.clamp(0.0, 1.0) } else { 1.0 } * last as f64;
    let k = (place as usize).min(last - 1);
    let t = place - k as f64;
    std::array::from_fn(|c| ERROR_STOPS[k][c] * (1.0 - t) + ERROR_STOPS[k + 1][c] * t)
}

/// A colour for group `k`: hues by the golden angle, three lightnesses in turn, so that neighbours in number differ.
#[must_use]
pub fn group_colour(k: usize) -> [f64; 3] {
    let hue = (k as f64 * 137.507_764).rem_euclid(360.0);
    let (lightness, saturation) = [(0.62, 0.55), (0.45, 0.60), (0.76, 0.50)][k % 3];
    let chroma = (1.0 - f64::abs(2.0 * lightness - 1.0)) * saturation;
    let channel = |shift: f64| {
        let h = ((hue / 60.0 + shift).rem_euclid(6.0) - 3.0).abs() - 1.0;
        lightness - chroma / 2.0 + chroma * h.clamp(0.0, 1.0)
    };
    [channel(0.0), channel(4.0), channel(2.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CIE lightness of an sRGB colour, 0 to 100.
    fn lightness(colour: [f64; 3]) -> f64 {
        let linear = colour.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
        let y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
        if y > 0.008_856 { 116.0 * y.cbrt() - 16.0 } else { 903.3 * y }
    }

    #[test]
    fn the_error_scale_darkens_evenly() {
        let levels: Vec<f64> = (0..=60).map(|k| lightness(error_colour(f64::from(k) / 60.0))).collect();
        let fall = (levels[0] - levels[60]) / 60.0;
        for pair in levels.windows(2) {
            // No step less than a third or more than twice the even one: ordered, and no false edges.
            assert!((pair[0] - pair[1]) / fall > 0.33 && (pair[0] - pair[1]) / fall < 2.0, "{levels:?}");
        }
    }

    #[test]
    fn what_is_off_the_scale_is_the_darkest() {
        assert_eq!(error_colour(7.0), error_colour(1.0));
        assert_eq!(error_colour(f64::NAN), error_colour(1.0));
    }

    #[test]
    fn the_first_groups_differ() {
        for a in 0..12 {
            for b in 0..a {
                let (x, y) = (group_colour(a), group_colour(b));
                let apart: f64 = (0..3).map(|c| (x[c] - y[c]).powi(2)).sum();
                assert!(apart.sqrt() > 0.08, "{a} {x:?} and {b} {y:?}");
            }
        }
    }
}
