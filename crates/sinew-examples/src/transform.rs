//! The rigid part of an affine transform.

use glam::{DAffine3, DMat3};

/// The rotation nearest to `m` in the Frobenius norm (its polar factor), by Higham's scaled Newton
/// iteration; for a mirrored `m` the rotation nearest to `−m`, so that `nearest_rotation(R m) = R
/// nearest_rotation(m)` for every rotation `R`. A singular `m` gives the identity.
#[must_use]
pub fn nearest_rotation(m: DMat3) -> DMat3 {
    let scale = m.x_axis.length().max(m.y_axis.length()).max(m.z_axis.length());
    if scale == 0.0 || !scale.is_finite() || (m.determinant() / scale.powi(3)).abs() < 1e-12 {
        return DMat3::IDENTITY;
    }
    let mut q = m * (1.0 / scale);
    // Quadratic convergence after the first few steps: 40 is far beyond what the determinant bound allows to need.
    for _ in 0..40 {
        let inverse_transpose = q.inverse().transpose();
        let norm =
            |a: DMat3| (a.x_axis.length_squared() + a.y_axis.length_squared() + a.z_axis.length_squared()).sqrt();
        let gamma = (norm(inverse_transpose) / norm(q)).sqrt();
        let next = (q * gamma + inverse_transpose * (1.0 / gamma)) * 0.5;
        let change = norm(next - q);
        q = next;
        if change < 1e-15 {
            break;
        }
    }
    if q.determinant() < 0.0 { q * -1.0 } else { q }
}

/// The rotation and translation of `transform`, without its scale and shear.
#[must_use]
pub fn rigid_part(transform: DAffine3) -> DAffine3 {
    DAffine3 { matrix3: nearest_rotation(transform.matrix3), translation: transform.translation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::{DQuat, DVec3};

    #[test]
    fn a_rotation_times_a_stretch_gives_the_rotation_back() {
        let rotation = DMat3::from_quat(DQuat::from_axis_angle(DVec3::new(1.0, 2.0, -0.5).normalize(), 2.9));
        let stretch = DMat3::from_cols_array(&[2.0, 0.3, 0.1, 0.3, 0.5, -0.2, 0.1, -0.2, 1.4]);
        // 1e-13: a handful of roundings of numbers near one.
        assert!((nearest_rotation(rotation * stretch) - rotation).abs_diff_eq(DMat3::ZERO, 1e-13));
        let mirrored = rotation * DMat3::from_diagonal(DVec3::new(-1.0, -1.0, -1.0)) * stretch;
        assert!((nearest_rotation(mirrored) - rotation).abs_diff_eq(DMat3::ZERO, 1e-13));
    }

    #[test]
    fn a_singular_matrix_gives_the_identity() {
        assert_eq!(nearest_rotation(DMat3::ZERO), DMat3::IDENTITY);
        assert_eq!(nearest_rotation(DMat3::from_diagonal(DVec3::new(1.0, 1.0, 0.0))), DMat3::IDENTITY);
    }
}
