//! How unevenly the error lies over the mesh: the error bars of Wang, Pulli and Popović, "Real-time enveloping with
//! rotational regression", 2007, figure 11.
//!
//!   e_v = √( Σ_e ‖y_v^e − ŷ_v^e‖² / N )        spread = √( Σ_v (e_v − ē)² / V )
//!
//! both over √(rigid / (N V)), the best rigid binding's root mean square error, so that 100 % means the same as for
//! the enveloping error. Two methods with equal error and different spread look different: an error that all vertices
//! share is a slow shift, one that a few vertices carry is a dent.

use glam::DVec3;

/// Each vertex's root mean square error over the frames, metres, (V).
#[must_use]
pub fn vertex_rms(truth: &[&[DVec3]], predicted: &[Vec<DVec3>]) -> Vec<f64> {
    let vertices = truth.first().map_or(0, |frame| frame.len());
    let mut squares = vec![0.0; vertices];
    for (truth, predicted) in truth.iter().zip(predicted) {
        for (sum, (t, p)) in squares.iter_mut().zip(truth.iter().zip(predicted)) {
            *sum += t.distance_squared(*p);
        }
    }
    squares.into_iter().map(|sum| (sum / truth.len().max(1) as f64).sqrt()).collect()
}

/// The spread of `vertex_rms` (V) in percent of the best rigid binding's root mean square error;
/// `rigid_squared_error` is its sum over `frames` frames.
#[must_use]
pub fn spread_percent(vertex_rms: &[f64], rigid_squared_error: f64, frames: usize) -> f64 {
    let count = vertex_rms.len().max(1) as f64;
    let mean = vertex_rms.iter().sum::<f64>() / count;
    let variance = vertex_rms.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / count;
    if variance == 0.0 {
        0.0
    } else {
        100.0 * (variance / (rigid_squared_error / (frames.max(1) as f64 * count))).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Errors 3 and 4 on one vertex (rms √12.5), none on the other: mean √12.5 / 2, deviation √12.5 / 2.
        let truth = [DVec3::ZERO, DVec3::ONE];
        let predicted = vec![vec![DVec3::X * 3.0, DVec3::ONE], vec![DVec3::Y * 4.0, DVec3::ONE]];
        let errors = vertex_rms(&[&truth, &truth], &predicted);
        assert_eq!(errors, [12.5_f64.sqrt(), 0.0]);
        // A rigid error of 50 over two frames and two vertices is an rms of √12.5; so the spread is a half.
        // 1e-12: rounding, in percent.
        assert!((spread_percent(&errors, 50.0, 2) - 50.0).abs() < 1e-12);
        assert_eq!(spread_percent(&[0.3, 0.3], 50.0, 2), 0.0);
    }
}
