//! Cross-validation over the training poses: how every method chooses what the examples alone cannot tell it.
//!
//! Up to [`LEAVE_ONE_OUT_LIMIT`] poses each pose is held out once (leave-one-out). More poses are cut, in their order, into
//! `2 · FOLDS` runs, and fold k holds out runs k and k + FOLDS. Runs, because the frames of a clip are like their
//! neighbours, and a pose whose neighbours are fitted tells nothing about unseen poses; two short runs rather than a long
//! one, because an exercise that moves one limb after the other must not lose a limb as a whole. Nothing is random: the
//! same examples give the same choice.

use glam::DVec3;
use rayon::prelude::*;

use crate::{FitError, Training};

/// Up to this many poses each is held out by itself: every pose counts when there are few.
pub const LEAVE_ONE_OUT_LIMIT: usize = 12;

/// The number of folds beyond that. Five fits see 80 % of the poses each, close to what the final fit sees.
pub const FOLDS: usize = 5;

/// A split of the training poses, as indices into them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// The poses to fit.
    pub fit: Vec<usize>,
    /// The poses to predict.
    pub held_out: Vec<usize>,
}

/// The folds over poses that come from the examples `sources` (N): poses of one example are held out together. None if
/// there are fewer than two examples, for then nothing can be held out.
#[must_use]
pub fn folds(sources: &[usize]) -> Vec<Fold> {
    let examples = together(sources);
    if examples.len() < 2 {
        return Vec::new();
    }
    let (count, run) = match examples.len() {
        few if few <= LEAVE_ONE_OUT_LIMIT => (few, 1),
        many => (FOLDS, many.div_ceil(2 * FOLDS)),
    };
    let poses = |chosen: &dyn Fn(usize) -> bool| {
        let mut poses: Vec<usize> =
            (0..examples.len()).filter(|&g| chosen(g)).flat_map(|g| examples[g].iter().copied()).collect();
        poses.sort_unstable();
        poses
    };
    let fold = |k: usize| Fold { fit: poses(&|g| g / run % count != k), held_out: poses(&|g| g / run % count == k) };
    (0..count).map(fold).collect()
}

/// The poses of each example, the examples in the order of their first poses.
#[must_use]
pub fn together(sources: &[usize]) -> Vec<Vec<usize>> {
    let mut examples: Vec<Vec<usize>> = Vec::new();
    let mut index = std::collections::BTreeMap::new();
    for (pose, source) in sources.iter().enumerate() {
        let example = *index.entry(source).or_insert(examples.len());
        if example == examples.len() {
            examples.push(Vec::new());
        }
        examples[example].push(pose);
    }
    examples
}

/// What cross-validation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The candidate with the least error; of equal ones the first.
    pub best: usize,
    /// Σ over the held-out poses of the weighted squared error, one a candidate; empty if there were no folds.
    pub squared_errors: Vec<f64>,
}

/// Chooses among `candidates` ≥ 1 candidates. `score(kept, held_out)` fits every candidate to `kept` and returns each
/// one's squared error on `held_out` ([`squared_error`]). List the safest candidate first: it is chosen when there
/// are too few poses to tell.
pub fn choose(
    training: &Training,
    candidates: usize,
    score: impl Fn(&Training, &Training) -> Result<Vec<f64>, FitError> + Sync,
) -> Result<Choice, FitError> {
    let folds = folds(&training.sources);
    if candidates < 2 || folds.is_empty() {
        return Ok(Choice { best: 0, squared_errors: Vec::new() });
    }
    let scores: Vec<Vec<f64>> = folds
        .par_iter()
        .map(|fold| score(&training.subset(&fold.fit), &training.subset(&fold.held_out)))
        .collect::<Result<_, _>>()?;
    let squared_errors: Vec<f64> = (0..candidates).map(|c| scores.iter().map(|fold| fold[c]).sum()).collect();
    Ok(Choice { best: least(&squared_errors), squared_errors })
}

/// `Σ_e a_e Σ_v ‖predicted_v^e − v^e‖²` over the poses of `held_out`; `predicted` is (N)(V).
#[must_use]
pub fn squared_error(held_out: &Training, predicted: &[Vec<DVec3>]) -> f64 {
    let pose = |e: usize| {
        let pairs = predicted[e].iter().zip(&held_out.vertices[e]);
        held_out.pose_weights[e] * pairs.map(|(a, b)| a.distance_squared(*b)).sum::<f64>()
    };
    (0..held_out.pose_count()).map(pose).sum()
}

/// The index of the least number; the first of equal ones, and NaN is never least.
#[must_use]
pub fn least(values: &[f64]) -> usize {
    let mut best = 0;
    for (index, &value) in values.iter().enumerate() {
        if value < values[best] || values[best].is_nan() {
            best = index;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pose_is_held_out_exactly_once() {
        for poses in 2..400 {
            let folds = folds(&(0..poses).collect::<Vec<_>>());
            assert_eq!(folds.len(), if poses <= LEAVE_ONE_OUT_LIMIT { poses } else { FOLDS });
            let mut seen = vec![0; poses];
            for fold in &folds {
                assert_eq!(fold.fit.len() + fold.held_out.len(), poses);
                assert!(!fold.fit.is_empty() && !fold.held_out.is_empty());
                assert!(fold.held_out.iter().all(|e| !fold.fit.contains(e)));
                fold.held_out.iter().for_each(|&e| seen[e] += 1);
            }
            assert!(seen.iter().all(|&count| count == 1));
        }
        assert!(folds(&[]).is_empty() && folds(&[0]).is_empty());
    }

    #[test]
    fn a_pose_and_its_image_are_held_out_together() {
        for poses in 2..60 {
            let sources: Vec<usize> = (0..poses).chain(0..poses).collect();
            for fold in folds(&sources) {
                let fitted: Vec<usize> = fold.fit.iter().map(|&e| sources[e]).collect();
                assert!(fold.held_out.iter().all(|&e| !fitted.contains(&sources[e])));
            }
            assert!(folds(&vec![7; poses]).is_empty(), "one example seen often is still one");
        }
    }

    #[test]
    fn the_first_of_equal_numbers_is_least_and_nan_never_is() {
        assert_eq!(least(&[2.0, 1.0, 1.0]), 1);
        assert_eq!(least(&[f64::NAN, 3.0, f64::NAN]), 1);
    }
}
