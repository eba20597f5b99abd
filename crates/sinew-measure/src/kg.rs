//! KG error (Karni and Gotsman, "Compression of soft-body animation sequences", 2004), in percent:
//!
//!   KG = 100 · ‖A − Ã‖_F / ‖A − E(A)‖_F
//!
//! with A the true and Ã the predicted coordinates, and E(A) each frame's mean vertex in place of all its vertices. It
//! says how much of the shape is lost; unlike the enveloping error it knows nothing of bones, and large characters
//! make it small.

use glam::DVec3;

/// KG of `predicted` (N)(V) against `truth` (N)(V).
#[must_use]
pub fn kg_percent(truth: &[&[DVec3]], predicted: &[Vec<DVec3>]) -> f64 {
    let (mut error, mut shape) = (0.0, 0.0);
    for (truth, predicted) in truth.iter().zip(predicted) {
        let mean = truth.iter().sum::<DVec3>() / truth.len().max(1) as f64;
        error += truth.iter().zip(predicted).map(|(t, p)| t.distance_squared(*p)).sum::<f64>();
        shape += truth.iter().map(|t| t.distance_squared(mean)).sum::<f64>();
    }
    if error == 0.0 { 0.0 } else { 100.0 * (error / shape).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Two vertices two apart: each is one from the mean, so ‖A − E(A)‖² = 2. One vertex is off by √2 / 2.
        let truth = [DVec3::ZERO, DVec3::X * 2.0];
        let predicted = vec![vec![DVec3::new(0.5, 0.5, 0.0), DVec3::X * 2.0]];
        assert_eq!(kg_percent(&[&truth], &predicted), 50.0);
        assert_eq!(kg_percent(&[&truth], &[truth.to_vec()]), 0.0);
    }
}
