//! Distances between predicted and true vertices.

use glam::DVec3;

/// The distances of a prediction from the truth, over frames (N) and vertices (V).
#[derive(Debug, Clone, PartialEq)]
pub struct PositionErrors {
    /// Distances, frame by frame, (N·V).
    pub distances: Vec<f64>,
}

impl PositionErrors {
    /// `‖y_v^e − ŷ_v^e‖` for every frame and vertex.
    #[must_use]
    pub fn new(truth: &[&[DVec3]], predicted: &[Vec<DVec3>]) -> Self {
        let frames = truth.iter().zip(predicted);
        let distances = frames.flat_map(|(t, p)| t.iter().zip(p).map(|(t, p)| t.distance(*p))).collect();
        Self { distances }
    }

    /// Sum of squares.
    #[must_use]
    pub fn squared_sum(&self) -> f64 {
        self.distances.iter().map(|d| d * d).sum()
    }

    /// Root mean square.
    #[must_use]
    pub fn rms(&self) -> f64 {
        (self.squared_sum() / self.distances.len().max(1) as f64).sqrt()
    }

    /// The largest distance.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.distances.iter().copied().fold(0.0, f64::max)
    }

    /// The distance that a fraction `q` (0 to 1) of all distances does not exceed (nearest rank).
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.distances.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (q * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }
}

/// E_RMS (Kavan, Sloan and O'Sullivan, "Fast and efficient skinning of animated meshes", 2010):
///
///   E_RMS = 1000 · ‖A − Ã‖_F / √(3NV) / r
///
/// with A, Ã the true and predicted coordinates and the normaliser r half the rest bounding box's diagonal.
#[must_use]
pub fn e_rms(squared_sum: f64, frames: usize, vertices: usize, diagonal: f64) -> f64 {
    1000.0 * (squared_sum / (3 * frames * vertices).max(1) as f64).sqrt() / (0.5 * diagonal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let truth = [DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::Z];
        let predicted = vec![vec![DVec3::ZERO, DVec3::X * 4.0, DVec3::Y, DVec3::Z + DVec3::new(0.0, 4.0, 0.0)]];
        let errors = PositionErrors::new(&[&truth], &predicted);
        assert_eq!(errors.distances, [0.0, 3.0, 0.0, 4.0]);
        assert_eq!(errors.rms(), 2.5);
        assert_eq!(errors.max(), 4.0);
        assert_eq!(errors.quantile(0.75), 3.0);
        assert_eq!(errors.quantile(0.5), 0.0);
        // √(25 / 12) over r = 5 (diagonal 10), times 1000.
        assert!((e_rms(25.0, 1, 4, 10.0) - 1000.0 * (25.0_f64 / 12.0).sqrt() / 5.0).abs() < 1e-9);
    }
}
