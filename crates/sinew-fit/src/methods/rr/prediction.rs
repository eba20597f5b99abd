//! About how long a frame spends on predicting proxy bones (ours): what a fit reckons with to stay within the time of plain skinning.
//!
//! The run time predicts key gradients eight at a time, those only that some proxy is drawn from, and draws four proxies together:
//! each source that any of them has is read once and multiplied for all four. Cycles were read off a Zen 5; other processors
//! differ, and so do the cycles of plain skinning beside which they count.

use sinew_runtime::deform::RotationalRegression;

/// Proxies that the run time draws together.
pub const TOGETHER: usize = 4;

/// Cycles of the joints' rotations and whatever else comes before and between.
const BEGUN: f32 = 400.0;

/// Cycles of a key gradient.
pub const GRADIENT: f32 = 38.0;

/// Cycles of four proxies: begun and written …
const GROUP: f32 = 30.0;

/// … of a key gradient that they are drawn from …
pub const GRADIENT_BLOCK: f32 = 11.0;

/// … and of a bone.
pub const BONE_BLOCK: f32 = 14.0;

/// What a frame predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// Key gradients that any proxy is drawn from.
    pub gradients: usize,
    /// Groups of proxies that are drawn together.
    pub groups: usize,
    /// Key gradients that each group is drawn from, of all groups together.
    pub gradient_blocks: usize,
    /// Bones likewise.
    pub bone_blocks: usize,
}

impl Prediction {
    /// What the run time does for a model.
    #[must_use]
    pub fn of(deformer: &RotationalRegression) -> Self {
        let gradients = deformer.predictors.len();
        let sources = |p: usize| {
            let keys = deformer.c1.row(p).map(|(k, _)| k);
            keys.chain(deformer.c2.row(p).map(|(b, _)| gradients + b)).collect()
        };
        let sets: Vec<Vec<usize>> = (0..deformer.proxy_count()).map(sources).collect();
        let union = |group: &Vec<usize>| {
            let mut union: Vec<usize> = group.iter().flat_map(|&p| sets[p].iter().copied()).collect();
            union.sort_unstable();
            union.dedup();
            union
        };
        let unions: Vec<Vec<usize>> = grouped(&sets).iter().map(union).collect();
        Self::of_groups(unions.iter().map(Vec::as_slice), gradients)
    }

    /// Of groups drawn from these sources each; the first `gradients` of all sources are key gradients.
    pub fn of_groups<'a>(sources: impl Iterator<Item = &'a [usize]> + Clone, gradients: usize) -> Self {
        let mut predicted: Vec<usize> =
            sources.clone().flatten().copied().filter(|&source| source < gradients).collect();
        let gradient_blocks = predicted.len();
        predicted.sort_unstable();
        predicted.dedup();
        let all: usize = sources.clone().map(<[usize]>::len).sum();
        Self {
            gradients: predicted.len(),
            groups: sources.count(),
            gradient_blocks,
            bone_blocks: all - gradient_blocks,
        }
    }

    /// About how many cycles that takes.
    #[must_use]
    pub fn cycles(&self) -> f32 {
        let Self { gradients, groups, gradient_blocks, bone_blocks } = *self;
        BEGUN
            + GRADIENT * gradients as f32
            + GROUP * groups as f32
            + GRADIENT_BLOCK * gradient_blocks as f32
            + BONE_BLOCK * bone_blocks as f32
    }
}

/// Proxies by four, those with the same sources together; `sets` are the sources of each, ascending or not.
#[must_use]
pub fn grouped(sets: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = (0..sets.len()).collect();
    // Those with the most sources first: they find company least easily.
    left.sort_by_key(|&p| (std::cmp::Reverse(sets[p].len()), p));
    let mut groups = Vec::new();
    while !left.is_empty() {
        let mut group = vec![left.remove(0)];
        let mut union = sets[group[0]].clone();
        while group.len() < TOGETHER && !left.is_empty() {
            // The fewest sources that are new, and of equals the most that are not.
            let rank = |&k: &usize| {
                let own = &sets[left[k]];
                let shared = own.iter().filter(|source| union.contains(source)).count();
                (own.len() - shared, std::cmp::Reverse(shared), k)
            };
            let Some(best) = (0..left.len()).min_by_key(rank) else { break };
            let p = left.remove(best);
            union.extend(sets[p].iter().copied());
            union.sort_unstable();
            union.dedup();
            group.push(p);
        }
        group.sort_unstable();
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_with_the_same_sources_come_together() {
        let sets: Vec<Vec<usize>> = (0..10).map(|p| if p % 2 == 0 { vec![0, 1, 2] } else { vec![5, 6] }).collect();
        let groups = grouped(&sets);
        assert_eq!(groups[..2], [vec![0, 2, 4, 6], vec![1, 3, 5, 8]]);
        let mut all = groups.concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert!(grouped(&[]).is_empty());
    }

    #[test]
    fn what_several_groups_are_drawn_from_is_predicted_once() {
        // Three gradients, 0 to 2, and bones behind them.
        let groups: [&[usize]; 3] = [&[0, 3], &[0, 2, 3, 4], &[4]];
        let found = Prediction::of_groups(groups.into_iter(), 3);
        assert_eq!(found, Prediction { gradients: 2, groups: 3, gradient_blocks: 3, bone_blocks: 4 });
        let less = Prediction::of_groups(groups[1..].iter().copied(), 3);
        assert!(less.cycles() < found.cycles());
    }
}
