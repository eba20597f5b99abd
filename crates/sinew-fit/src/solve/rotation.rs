//! The rotation that turns one set of vectors into another.

use glam::{DMat3, DVec3};
use nalgebra::Matrix3;

/// The rotation that maximises `tr(Rᵀ K)` (Kabsch, "A solution for the best rotation to relate two sets of vectors", 1976):
/// `R = U diag(1, 1, det UVᵀ) Vᵀ` for `K = U Σ Vᵀ`. Unlike the polar factor it is a rotation for flat and mirrored K too.
#[must_use]
pub fn best_rotation(k: DMat3) -> DMat3 {
    let svd = Matrix3::from_column_slice(&k.to_cols_array()).svd(true, true);
    let (Some(u), Some(v_t)) = (svd.u, svd.v_t) else { return DMat3::IDENTITY };
    let columns = |m: &Matrix3<f64>| DMat3::from_cols_slice(m.as_slice());
    let (mut u, v_t) = (columns(&u), columns(&v_t));
    if u.determinant() * v_t.determinant() < 0.0 {
        // nalgebra sorts the singular values in falling order, so the last one is the least loss.
        u.z_axis = -u.z_axis;
    }
    let rotation = u * v_t;
    if rotation.is_finite() { rotation } else { DMat3::IDENTITY }
}

/// The rigid motion that minimises `Σ_k a_k ‖R p_k + t − q_k‖²`; what the points leave open is taken from `hint`.
#[must_use]
pub fn best_rigid(pairs: impl Iterator<Item = (DVec3, DVec3, f64)> + Clone, hint: DMat3) -> (DMat3, DVec3) {
    let mut total = 0.0;
    let (mut from, mut to) = (DVec3::ZERO, DVec3::ZERO);
    for (p, q, a) in pairs.clone() {
        total += a;
        from += p * a;
        to += q * a;
    }
    if !(total > 0.0) {
        return (hint, DVec3::ZERO);
    }
    (from, to) = (from / total, to / total);
    let mut k = DMat3::ZERO;
    let mut spread = 0.0;
    for (p, q, a) in pairs {
        let (p, q) = ((p - from) * a, q - to);
        k += DMat3::from_cols(q * p.x, q * p.y, q * p.z);
        spread += p.length_squared() / a.max(f64::MIN_POSITIVE);
    }
    // A whiff of the hint: 1e-9 of the points' spread turns a well determined rotation by less than f32 can show.
    let rotation = best_rotation(k + hint * (1e-9 * spread + f64::MIN_POSITIVE));
    (rotation, to - rotation * from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::DQuat;

    fn turn() -> DMat3 {
        DMat3::from_quat(DQuat::from_axis_angle(DVec3::new(0.3, -1.0, 0.5).normalize(), 2.8))
    }

    #[test]
    fn flat_points_give_their_rotation() {
        let points = [DVec3::X, DVec3::Y, -DVec3::X, DVec3::new(0.5, -0.3, 0.0)];
        let shift = DVec3::new(3.0, 2.0, 1.0);
        let (rotation, translation) = best_rigid(points.iter().map(|&p| (p, turn() * p + shift, 1.0)), DMat3::IDENTITY);
        // 1e-7: the hint's share of 1e-9 over a smallest singular value that is zero for flat points, squared away.
        assert!((rotation - turn()).abs_diff_eq(DMat3::ZERO, 1e-7));
        assert!((translation - shift).length() < 1e-7);
    }

    #[test]
    fn points_on_a_line_take_the_rest_from_the_hint() {
        let points = [DVec3::ZERO, DVec3::X, DVec3::X * 2.0];
        let hint = DMat3::from_quat(DQuat::from_rotation_x(1.0));
        let (rotation, _) = best_rigid(points.iter().map(|&p| (p, p, 1.0)), hint);
        // 1e-6: the same share of the hint, against a singular value that only the hint fills.
        assert!((rotation - hint).abs_diff_eq(DMat3::ZERO, 1e-6));
    }
}
