//! What predictors see over ranges of motion that go beyond the trained ones: joints held within these, and, unless the whole
//! pose is held (`bones`), gradients carried on by the skeleton, as the run time does it (`sinew-runtime/src/beyond.rs`):
//!
//!   `Q_h⁻¹ D_k = Σ_b ω_kb (Q_h⁻¹ Q_b) (Q′_bᵀ Q′_f) exp(ρ̃′) S′`.
//!
//! Between bones that no held joint lies between, `Q′_bᵀ Q′_f` is what it is without, and the first two factors are `Q_h⁻¹ Q_f`.

use glam::{DVec3, Vec3A};
use sinew_examples::Skeleton;
use sinew_runtime::{JointRanges, RANGE_ROUNDING};

use super::form::{Form, FormAffine};
use super::joints::Joints;

/// θ̃′ of joint `b` if its θ̃ is `log`; nothing if that does not leave the trained range.
///
/// Holding grows with θ̃ and nowhere faster. Of such a function on an interval of length w whose mean slope is s, the chord
/// is off by `s (1 − s) w` at most: as far as if it went up at once and then stayed. It bends one way past the upper end of
/// the range and the other way past the lower: a piece that leaves the range at one end only has its chord on one side.
pub(super) fn held(ranges: &JointRanges, b: usize, log: [Form; 3]) -> Option<[Form; 3]> {
    let log = log.map(|x| (x, x.range()));
    let ends = [log.map(|x| x.1.low), log.map(|x| x.1.high)].map(|end| DVec3::from_array(end).as_vec3().into());
    let held: [Option<Vec3A>; 2] = ends.map(|end: Vec3A| ranges.held(b, end));
    if held.iter().all(Option::is_none) {
        return None;
    }
    Some(std::array::from_fn(|i| {
        let (form, range) = log[i];
        let low = held[0].map_or(range.low, |end| f64::from(end[i]));
        let high = held[1].map_or(range.high, |end| f64::from(end[i]));
        let width = (range.high - range.low).max(f64::MIN_POSITIVE);
        let slope = ((high - low) / width).clamp(0.0, 1.0);
        let off = slope * (1.0 - slope) * width;
        let (under, over) = (range.low < f64::from(ranges.low[b][i]), range.high > f64::from(ranges.high[b][i]));
        let (below, above) = (if under { off } else { 0.0 }, if over { off } else { 0.0 });
        let mut chord = form.scaled(slope);
        chord.centre += low - slope * range.low + (above - below) / 2.0;
        // Up to the rounding a joint may be held or not.
        chord.rest += (above + below) / 2.0 + f64::from(RANGE_ROUNDING);
        chord
    }))
}

/// The joints between bones `b` and `f`: from `b` up to where their ancestors meet, and down from there to `f`.
pub(super) fn between(skeleton: &Skeleton, b: usize, f: usize) -> (Vec<usize>, Vec<usize>) {
    let chain = |b: usize| -> Vec<usize> { std::iter::successors(Some(b), |&b| skeleton.bones()[b].parent).collect() };
    let (mut up, mut down) = (chain(b), chain(f));
    while up.last().is_some() && up.last() == down.last() {
        up.pop();
        down.pop();
    }
    down.reverse();
    (up, down)
}

/// `Q′_bᵀ Q′_f` over the joints [`between`] them.
pub(super) fn turn(up: &[usize], down: &[usize], joints: &Joints) -> FormAffine {
    let back = up.iter().map(|&b| joints.seen(b).theta.map(|x| x.scaled(-1.0)));
    let steps = back.chain(down.iter().map(|&b| joints.seen(b).theta)).map(|theta| FormAffine::exponential(&theta));
    steps.fold(FormAffine::exact(glam::DAffine3::IDENTITY), |all, step| all.rigid_times(&step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_never_leaves_its_forms() {
        let ranges =
            JointRanges { reference: vec![[0.0; 3]], low: vec![[-0.5, 0.2, -0.1]], high: vec![[1.0, 0.2, 2.0]] };
        // Within, past one end, past both, next to the end, and wholly beyond.
        for (low, high) in [(-0.4, 0.9), (0.5, 1.4), (-1.5, 0.0), (-1.0, 3.0), (0.9995, 1.002), (2.1, 2.8)] {
            let mut log = [Form::exact((low + high) / 2.0); 3];
            for (i, x) in log.iter_mut().enumerate() {
                // Half of it is remembered, half is left over.
                x.slopes[i] = (high - low) / 4.0;
                x.rest = (high - low) / 4.0;
            }
            let forms = held(&ranges, 0, log);
            for (x, r) in (0..=20).flat_map(|x| (0..=20).map(move |r| (x, r))) {
                let (x, r) = (f64::from(x) / 10.0 - 1.0, f64::from(r) / 10.0 - 1.0);
                let at = DVec3::from_array(log.map(|f| f.centre + (f.radius() - f.rest) * x + f.rest * r));
                let seen = ranges.held(0, at.as_vec3().into()).map_or(at, |held| held.as_dvec3());
                let Some(forms) = forms else {
                    // 1e-6: f32.
                    assert!(seen.distance(at) < 1e-6, "{low} to {high}: {seen} is held from {at}");
                    continue;
                };
                for (i, form) in forms.iter().enumerate() {
                    let apart = seen[i] - form.centre - form.slopes[i] * x;
                    assert!(apart.abs() <= form.rest + 1e-6, "{low} to {high}: {seen} outside {form:?} at {x} {r}");
                }
            }
        }
    }
}
