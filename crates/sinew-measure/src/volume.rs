//! Volume, and how much of it a prediction loses or gains.
//!
//!   vol(S) = 1/6 Σ_f (a − m) · ((b − m) × (c − m))
//!
//! by the divergence theorem, over triangles (a, b, c) and any point m; we take the mean vertex, so that distance from
//! the origin costs no digits. The collapsing elbow and the candy wrapper of linear blend skinning are losses of
//! volume.

use glam::DVec3;
use rayon::prelude::*;

/// Volume errors relative to the true volume, percent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct VolumeChange {
    /// Mean of |predicted − true| / |true| over the frames.
    pub mean_percent: f64,
    /// The frame that is furthest off, with its sign: negative is a loss.
    pub worst_percent: f64,
}

/// The signed volume within `positions`, positive if triangles face outwards. Holes are closed towards the mean vertex.
#[must_use]
pub fn volume(positions: &[DVec3], triangles: &[[u32; 3]]) -> f64 {
    let middle = positions.iter().sum::<DVec3>() / positions.len().max(1) as f64;
    let tetrahedron = |triangle: &[u32; 3]| {
        let [a, b, c] = triangle.map(|v| positions[v as usize] - middle);
        a.dot(b.cross(c)) / 6.0
    };
    triangles.iter().map(tetrahedron).sum()
}

/// Compares the volumes of `predicted` (N)(V) and `truth` (N)(V). Frames without a true volume are left out.
#[must_use]
pub fn volume_change(truth: &[&[DVec3]], predicted: &[Vec<DVec3>], triangles: &[[u32; 3]]) -> VolumeChange {
    let change = |(truth, predicted): (&&[DVec3], &Vec<DVec3>)| {
        let true_volume = volume(truth, triangles);
        100.0 * (volume(predicted, triangles) - true_volume) / true_volume.abs()
    };
    let changes: Vec<f64> = truth.par_iter().zip(predicted).map(change).filter(|change| change.is_finite()).collect();
    let worst = |worst: f64, &change: &f64| if change.abs() > worst.abs() { change } else { worst };
    VolumeChange {
        mean_percent: changes.iter().map(|change| change.abs()).sum::<f64>() / changes.len().max(1) as f64,
        worst_percent: changes.iter().fold(0.0, worst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The corner tetrahedron of the unit cube, facing outwards: a sixth.
    const FACES: [[u32; 3]; 4] = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]];

    fn corner() -> Vec<DVec3> {
        vec![DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::Z]
    }

    #[test]
    fn by_hand() {
        // 1e-15: rounding of numbers near one.
        assert!((volume(&corner(), &FACES) - 1.0 / 6.0).abs() < 1e-15);
        let half: Vec<DVec3> = corner().iter().map(|&p| DVec3::new(p.x, p.y, 0.5 * p.z)).collect();
        let twice: Vec<DVec3> = corner().iter().map(|&p| DVec3::new(p.x, p.y, 1.1 * p.z)).collect();
        let truth = corner();
        let change = volume_change(&[&truth, &truth], &[half, twice], &FACES);
        // 1e-12: rounding, in percent.
        assert!((change.mean_percent - 30.0).abs() < 1e-12, "{change:?}");
        assert!((change.worst_percent + 50.0).abs() < 1e-12, "{change:?}");
    }
}
