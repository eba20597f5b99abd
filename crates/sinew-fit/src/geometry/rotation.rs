//! Rotations as vectors: `log` gives axis times angle (radians), `exp` goes back.
//!
//! The logarithm has many values, `ρ + 2πk ρ/‖ρ‖`; near an angle of π two of them are equally short and the principal
//! one jumps. So whoever compares rotations names a reference and takes the value nearest to it ([`log_near`]).

use std::f64::consts::TAU;

use glam::{DMat3, DQuat, DVec3};

/// Below this angle (radians) a rotation has no axis worth the name: series replace quotients.
const SMALL_ANGLE: f64 = 1e-8;

/// The rotation by `‖rho‖` radians about `rho`.
#[must_use]
pub fn exp(rho: DVec3) -> DMat3 {
    DMat3::from_quat(DQuat::from_scaled_axis(rho))
}

/// The principal logarithm, of length at most π.
#[must_use]
pub fn log(rotation: DMat3) -> DVec3 {
    let q = DQuat::from_mat3(&rotation);
    let (v, w) = if q.w < 0.0 { (-q.xyz(), -q.w) } else { (q.xyz(), q.w) };
    let sine = v.length();
    // ‖v‖ = sin(θ/2); atan2 keeps its precision at both ends, where acos and asin lose half the digits.
    if sine < SMALL_ANGLE { v * 2.0 } else { v * (2.0 * sine.atan2(w) / sine) }
}

/// The logarithm nearest to `reference`.
#[must_use]
pub fn log_near(rotation: DMat3, reference: DVec3) -> DVec3 {
    rebranch(log(rotation), reference)
}

/// Among the logarithms of the same rotation, `ρ + 2πk ρ/‖ρ‖`, the one nearest to `reference`.
#[must_use]
pub fn rebranch(rho: DVec3, reference: DVec3) -> DVec3 {
    let angle = rho.length();
    // The identity turns about any axis; the nearest whole turn lies along the reference.
    let axis = if angle < SMALL_ANGLE { reference.normalize_or_zero() } else { rho / angle };
    let turns = ((reference.dot(axis) - rho.dot(axis)) / TAU).round();
    rho + axis * (TAU * turns)
}

/// `[v]×`, the matrix of the cross product with `v`.
#[must_use]
pub fn cross_matrix(v: DVec3) -> DMat3 {
    DMat3::from_cols(DVec3::new(0.0, v.z, -v.y), DVec3::new(-v.z, 0.0, v.x), DVec3::new(v.y, -v.x, 0.0))
}

/// The left Jacobian of `exp`: `exp(ρ + δ) = exp(J δ) exp(ρ)` to first order in δ,
/// `J = I + (1 − cos θ)/θ² [ρ]× + (θ − sin θ)/θ³ [ρ]×²`.
#[must_use]
pub fn left_jacobian(rho: DVec3) -> DMat3 {
    let angle_squared = rho.length_squared();
    let angle = angle_squared.sqrt();
    // Below 1e-4 the quotients lose digits faster than the series does.
    let (a, b) = if angle < 1e-4 {
        (0.5 - angle_squared / 24.0, 1.0 / 6.0 - angle_squared / 120.0)
    } else {
        ((1.0 - angle.cos()) / angle_squared, (angle - angle.sin()) / (angle_squared * angle))
    };
    let cross = cross_matrix(rho);
    DMat3::IDENTITY + cross * a + cross * cross * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    const AXES: [DVec3; 4] =
        [DVec3::X, DVec3::Y, DVec3::new(0.36, -0.48, 0.8), DVec3::new(-1.0 / 3.0, 2.0 / 3.0, -2.0 / 3.0)];

    #[test]
    fn the_logarithm_undoes_the_exponential_up_to_pi() {
        for axis in AXES {
            for angle in [0.0, 1e-12, 1e-8, 1e-3, 1.0, 3.0, PI - 1e-6, PI - 1e-9] {
                // 4e-9 beside π: a matrix entry's rounding of 1e-16 moves the quaternion's small w by its root.
                let tolerance = if angle > 3.1 { 4e-9 } else { 1e-14 };
                let back = log(exp(axis * angle));
                assert!((back - axis * angle).length() < tolerance, "{axis} by {angle} came back as {back}");
            }
        }
    }

    #[test]
    fn the_nearest_branch_follows_a_turn_past_pi() {
        for axis in AXES {
            let mut previous = DVec3::ZERO;
            for step in 0..100 {
                let rho = axis * (0.1 * f64::from(step));
                previous = log_near(exp(rho), previous);
                assert!((previous - rho).length() < 1e-7, "step {step}: {previous} instead of {rho}");
            }
        }
    }

    #[test]
    fn whole_turns_lie_along_the_reference() {
        let reference = DVec3::new(0.0, 6.0, 0.5);
        assert!((log_near(DMat3::IDENTITY, reference).length() - TAU).abs() < 1e-12);
        assert_eq!(log_near(DMat3::IDENTITY, DVec3::ZERO), DVec3::ZERO);
    }

    #[test]
    fn the_jacobian_is_the_derivative() {
        for rho in [DVec3::ZERO, DVec3::new(1e-6, 0.0, 2e-6), DVec3::new(0.3, -1.2, 0.5), DVec3::new(2.0, 2.0, -1.5)] {
            for k in 0..3 {
                let mut delta = DVec3::ZERO;
                delta[k] = 1e-6;
                let change = log(exp(rho + delta) * exp(rho).transpose());
                // 1e-11: the second order of a step of 1e-6.
                assert!((change - left_jacobian(rho) * delta).length() < 1e-11);
            }
        }
    }
}
