//! Vertex normals and how far predicted ones deviate.

use glam::DVec3;
use rayon::prelude::*;

/// Area-weighted vertex normals, (V); zero where no triangle has area.
#[must_use]
pub fn vertex_normals(positions: &[DVec3], triangles: &[[u32; 3]]) -> Vec<DVec3> {
    let mut normals = vec![DVec3::ZERO; positions.len()];
    for triangle in triangles {
        let [a, b, c] = triangle.map(|v| positions[v as usize]);
        let area = (b - a).cross(c - a);
        for &v in triangle {
            normals[v as usize] += area;
        }
    }
    normals.into_iter().map(DVec3::normalize_or_zero).collect()
}

/// The mean angle between predicted and true vertex normals, over frames and vertices that have both.
#[must_use]
pub fn mean_normal_deviation_degrees(truth: &[&[DVec3]], predicted: &[Vec<DVec3>], triangles: &[[u32; 3]]) -> f64 {
    let frame = |(truth, predicted): (&&[DVec3], &Vec<DVec3>)| {
        let (truth, predicted) = (vertex_normals(truth, triangles), vertex_normals(predicted, triangles));
        let pairs = truth.iter().zip(&predicted).filter(|&(t, p)| *t != DVec3::ZERO && *p != DVec3::ZERO);
        pairs.fold((0.0, 0), |(sum, count), (t, p)| (sum + t.angle_between(*p), count + 1))
    };
    let frames: Vec<(f64, usize)> = truth.par_iter().zip(predicted).map(frame).collect();
    let (sum, count) = frames.into_iter().fold((0.0, 0), |(sum, count), (s, c)| (sum + s, count + c));
    (sum / f64::from(count.max(1) as u32)).to_degrees()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triangle_turned_by_thirty_degrees_deviates_by_thirty() {
        let rest = [DVec3::ZERO, DVec3::X, DVec3::Y];
        let turn = glam::DQuat::from_rotation_x(30_f64.to_radians());
        let turned: Vec<DVec3> = rest.iter().map(|&p| turn * p).collect();
        let degrees = mean_normal_deviation_degrees(&[&rest], &[turned], &[[0, 1, 2]]);
        // 1e-9: rounding of an arc cosine near 30°.
        assert!((degrees - 30.0).abs() < 1e-9);
    }
}
