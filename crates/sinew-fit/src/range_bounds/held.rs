//! What predictors see over ranges of motion that go beyond the trained ones: joints held within these, and gradients
//! carried on by the skeleton, as the run time does it (`sinew-runtime/src/beyond.rs`):
//!
//!   `Q_h⁻¹ D_k = Σ_b ω_kb (Q_h⁻¹ Q_b) (Q′_bᵀ Q′_f) exp(ρ̃′) S′`.
//!
//! Between bones that no held joint lies between, `Q′_bᵀ Q′_f` is what it is without, and the first two factors are `Q_h⁻¹ Q_f`.

use glam::{DVec3, Vec3A};
use sinew_examples::Skeleton;
use sinew_runtime::{JointRanges, RANGE_ROUNDING};

use super::form::{Form, FormAffine};
use super::interval::Interval;

/// All values of θ̃′ of joint `b` if θ̃ takes those in `log`; nothing if it does not leave the trained range.
pub(super) fn held(ranges: &JointRanges, b: usize, log: [Interval; 3]) -> Option<[Interval; 3]> {
    let ends = [log.map(|x| x.low), log.map(|x| x.high)].map(|end| DVec3::from_array(end).as_vec3().into());
    let ends: [Option<Vec3A>; 2] = ends.map(|end: Vec3A| ranges.held(b, end));
    if ends.iter().all(Option::is_none) {
        return None;
    }
    // Up to the rounding a joint may be held or not.
    let end = |end: Option<Vec3A>, i: usize| end.map(|end| f64::from(end[i]));
    let slack = f64::from(RANGE_ROUNDING);
    Some(std::array::from_fn(|i| Interval {
        low: end(ends[0], i).unwrap_or(log[i].low) - slack,
        high: end(ends[1], i).unwrap_or(log[i].high) + slack,
    }))
}

/// The joints between bones `b` and `f`: from `b` up to where their ancestors meet, and down from there to `f`.
pub(super) fn between(skeleton: &Skeleton, b: usize, f: usize) -> (Vec<usize>, Vec<usize>) {
    let chain = |b: usize| -> Vec<usize> { std::iter::successors(Some(b), |&b| skeleton.bones()[b].parent).collect() };
    let (mut up, mut down) = (chain(b), chain(f));
    while up.last().is_some() && up.last() == down.last() {
        (up.pop(), down.pop());
    }
    down.reverse();
    (up, down)
}

/// `Q′_bᵀ Q′_f` over the joints [`between`] them; `seen` gives θ̃′ of each.
pub(super) fn turn(up: &[usize], down: &[usize], seen: impl Fn(usize) -> [Form; 3]) -> FormAffine {
    let back = up.iter().map(|&b| seen(b).map(|x| x.scaled(-1.0)));
    let steps = back.chain(down.iter().map(|&b| seen(b))).map(|log| FormAffine::exponential(&log));
    steps.fold(FormAffine::exact(glam::DAffine3::IDENTITY), |all, step| all.times(&step))
}
