//! Texture stretch (Sander, Snyder, Gortler and Hoppe, "Texture mapping progressive meshes", 2001), their L2 metric.
//!
//! A triangle's map from the texture to the surface has the derivatives S_s, S_t; `L2(T)² = (S_s·S_s + S_t·S_t)/2`, and
//!
//!   L2(M) = √( Σ_T L2(T)² area_T / Σ_T area_T ) · √( texture area / surface area ).
//!
//! One for an isometry up to scale. What is reported is how many more samples are needed: `L2(M) − 1`, in percent.

use glam::{DVec2, DVec3};

/// The stretch of a posed surface in percent above an isometry; infinite if a triangle with area has none in the texture.
#[must_use]
pub fn percent(positions: &[DVec3], triangles: &[[u32; 3]], uvs: &[[[f32; 2]; 3]]) -> f64 {
    let (mut weighted, mut surface, mut texture) = (0.0, 0.0, 0.0);
    for (triangle, corners) in triangles.iter().zip(uvs) {
        let [a, b, c] = triangle.map(|v| positions[v as usize]);
        let area = (b - a).cross(c - a).length() / 2.0;
        let [p, q, r] = corners.map(|uv| DVec2::new(uv[0].into(), uv[1].into()));
        let flat = (q - p).perp_dot(r - p) / 2.0;
        surface += area;
        texture += flat.abs();
        if area == 0.0 {
            continue;
        }
        if flat == 0.0 {
            return f64::INFINITY;
        }
        let along_s = (a * (q.y - r.y) + b * (r.y - p.y) + c * (p.y - q.y)) / (2.0 * flat);
        let along_t = (a * (r.x - q.x) + b * (p.x - r.x) + c * (q.x - p.x)) / (2.0 * flat);
        weighted += area * (along_s.length_squared() + along_t.length_squared()) / 2.0;
    }
    if surface == 0.0 {
        return 0.0;
    }
    100.0 * ((weighted / surface).sqrt() * (texture / surface).sqrt() - 1.0)
}
