//! Distance to the true *surface*, as Metro measures it (Cignoni, Rocchini and Scopigno, "Metro: measuring error on
//! simplified surfaces", 1998; used by Jacka, Reid, Merry and Gain, "A comparison of linear skinning techniques for
//! character animation", 2007):
//!
//!   geometric deviation  d_v = min_{x ∈ S} ‖ŷ_v − x‖, mean over the predicted vertices
//!   Hausdorff distance   H = max( max_v d(ŷ_v, S), max_v d(y_v, Ŝ) )
//!
//! with S the true and Ŝ the predicted surface. Sliding within the surface counts nothing. Both are taken at the
//! vertices, not at points sampled in between: the two meshes share their triangles.

use glam::DVec3;
use parry3d::math::Vector;
use parry3d::query::PointQuery;
use parry3d::shape::TriMesh;
use rayon::prelude::*;

/// Distances between predicted and true surfaces, metres.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SurfaceDistance {
    /// Mean distance of the predicted vertices from the true surface, over all frames.
    pub mean: f64,
    /// The largest distance in either direction, over all frames.
    pub hausdorff: f64,
}

/// Compares the surfaces of `predicted` (N)(V) and `truth` (N)(V), frame by frame.
#[must_use]
pub fn surface_distance(truth: &[&[DVec3]], predicted: &[Vec<DVec3>], triangles: &[[u32; 3]]) -> SurfaceDistance {
    let frame = |(truth, predicted): (&&[DVec3], &Vec<DVec3>)| {
        let there = distances(predicted, truth, triangles);
        let back = distances(truth, predicted, triangles);
        let largest = there.iter().chain(&back).copied().fold(0.0, f64::max);
        (there.iter().sum::<f64>() / there.len().max(1) as f64, largest)
    };
    let frames: Vec<(f64, f64)> = truth.par_iter().zip(predicted).map(frame).collect();
    SurfaceDistance {
        mean: frames.iter().map(|frame| frame.0).sum::<f64>() / frames.len().max(1) as f64,
        hausdorff: frames.iter().map(|frame| frame.1).fold(0.0, f64::max),
    }
}

/// The distance of each point from the surface, (points). The search is in f32, about the surface's middle, so that a
/// character far from the origin loses nothing.
#[must_use]
pub fn distances(points: &[DVec3], surface: &[DVec3], triangles: &[[u32; 3]]) -> Vec<f64> {
    let middle = surface.iter().sum::<DVec3>() / surface.len().max(1) as f64;
    let local = |p: DVec3| {
        let p = (p - middle).as_vec3();
        Vector::new(p.x, p.y, p.z)
    };
    let Ok(mesh) = TriMesh::new(surface.iter().map(|&p| local(p)).collect(), triangles.to_vec()) else {
        return vec![0.0; points.len()];
    };
    points.iter().map(|&p| f64::from(mesh.distance_to_local_point(local(p), false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two triangles that make the unit square in the plane z = 0.
    const SQUARE: [[u32; 3]; 2] = [[0, 1, 2], [0, 2, 3]];

    fn square() -> Vec<DVec3> {
        [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)].map(|(x, y)| DVec3::new(x, y, 0.0)).to_vec()
    }

    #[test]
    fn by_hand() {
        // Lifted by 0.5 at one corner: that vertex is 0.5 from the true surface, the others are on it.
        let truth = square();
        let mut lifted = square();
        lifted[1].z = 0.5;
        let found = surface_distance(&[&truth], &[lifted], &SQUARE);
        // 1e-6: parry computes in f32.
        assert!((found.mean - 0.125).abs() < 1e-6, "{found:?}");
        assert!((found.hausdorff - 0.5).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn sliding_within_the_surface_counts_nothing_for_the_deviation() {
        let truth = square();
        let inside: Vec<DVec3> = truth.iter().map(|&p| p * 0.8 + DVec3::new(0.1, 0.1, 0.0)).collect();
        let found = surface_distance(&[&truth], &[inside], &SQUARE);
        // 1e-6: f32 again. The corners of the truth are 0.1 √2 from the smaller square.
        assert!(found.mean < 1e-6, "{found:?}");
        assert!((found.hausdorff - 0.02_f64.sqrt()).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn far_from_the_origin_nothing_is_lost() {
        let far = DVec3::new(1e4, -2e4, 5e3);
        let truth: Vec<DVec3> = square().iter().map(|&p| p + far).collect();
        let mut moved = truth.clone();
        moved[0].z += 1e-3;
        let found = surface_distance(&[&truth], &[moved], &SQUARE);
        // 1e-6 of a unit square.
        assert!((found.mean - 0.25e-3).abs() < 1e-6, "{found:?}");
    }
}
