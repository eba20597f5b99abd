//! The logarithm of a joint with one or several turns, as forms.

use glam::{DMat3, DQuat};

use super::form::Form;
use crate::geometry::rotation::left_jacobian;
use crate::norm::ranges::Turn;

/// The product of the turns at their middles, and by how much all of them may turn away from it together.
pub(super) fn middle_of(turns: &[Turn]) -> (DMat3, f64) {
    let step = |(product, half): (DMat3, f64), turn: &Turn| match *turn {
        Turn::Hinge { axis, from, to } => {
            (product * DMat3::from_axis_angle(axis, (from + to) / 2.0), half + (to - from) / 2.0)
        }
        Turn::Cone { most, .. } => (product, half + most),
    };
    turns.iter().fold((DMat3::IDENTITY, 0.0), step)
}

/// The logarithm of the product of `turns` in the bone's own frame; `None` if it may come too near to half a turn.
///
/// From the middles, `dθ = J⁻¹(θ) Σ_k a_k h_k dε_k`, a_k the axis carried along by the turns after it and J the right Jacobian:
/// θ is `θ₀ + J⁻¹(θ₀) Σ_k a_k h_k ε_k`, but for how J⁻¹ and a_k change on the way: a_k by no more than the other turns' angles
/// together, J⁻¹ by no more than its Lipschitz constant times the way of θ, and both by half of that in the mean.
pub(super) fn logarithm(turns: &[Turn], symbols: &[Option<usize>]) -> Option<[Form; 3]> {
    let (middle, half) = middle_of(turns);
    let centre = DQuat::from_mat3(&middle).to_scaled_axis();
    let centre = if centre.length() > std::f64::consts::PI {
        centre * (1.0 - std::f64::consts::TAU / centre.length())
    } else {
        centre
    };
    let largest = centre.length() + half;
    if largest >= 0.95 * std::f64::consts::PI {
        return None;
    }
    // ‖J⁻¹‖ is (t/2)/sin(t/2) for a turn by t, which is never above the sum of the angles.
    let stretch = |t: f64| if t > 1e-6 { (t / 2.0) / (t / 2.0).sin() } else { 1.0 };
    let norm = stretch(largest);
    let reach = half * norm;
    let inverse = left_jacobian(-centre).inverse();
    // J⁻¹ = I ± ½[θ]× + (g/t²)[θ]ײ with g = 1 − (t/2) cot(t/2), which changes by g' along θ and by 2g/t across.
    let g = |t: f64| if t > 1e-3 { 1.0 - t / 2.0 / (t / 2.0).tan() } else { t * t / 12.0 };
    let slope = |t: f64| if t > 1e-3 { t / 4.0 / (t / 2.0).sin().powi(2) - 0.5 / (t / 2.0).tan() } else { t / 6.0 };
    let lipschitz = 0.5 + slope(largest) + if largest > 1e-3 { 2.0 * g(largest) / largest } else { largest / 6.0 };
    let mut theta = centre.to_array().map(Form::exact);
    let mut after = DMat3::IDENTITY;
    let single = turns.len() == 1;
    for (turn, symbol) in turns.iter().zip(symbols).rev() {
        match (*turn, symbol) {
            (Turn::Hinge { axis, from, to }, Some(k)) => {
                let h = (to - from) / 2.0;
                let first = inverse * (after.transpose() * axis) * h;
                // One hinge alone goes along its axis, which J⁻¹ and the turns leave as it is.
                let bend = if single { 0.0 } else { 0.5 * h * (norm * (half - h) + lipschitz * reach) };
                for i in 0..3 {
                    theta[i].slopes[*k] += first[i];
                    theta[i].rest += bend;
                }
                after = DMat3::from_axis_angle(axis, (from + to) / 2.0) * after;
            }
            (Turn::Hinge { axis, from, to }, None) => {
                (0..3).for_each(|i| theta[i].rest += norm * (to - from) / 2.0);
                after = DMat3::from_axis_angle(axis, (from + to) / 2.0) * after;
            }
            (Turn::Cone { most, .. }, _) => (0..3).for_each(|i| theta[i].rest += norm * most),
        }
    }
    let bounded = |i: usize| if theta[i].radius() <= reach { theta[i] } else { Form::around(centre[i], reach) };
    Some(std::array::from_fn(bounded))
}
