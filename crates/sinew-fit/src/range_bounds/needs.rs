//! What of the model, the skeleton and the ranges a block depends on.

use sinew_runtime::bounds::Block;

use super::blocks::{Setting, regression};
use super::form::SYMBOLS;
use super::kernels::Displaced;
use super::proxies::Change;
use crate::norm::ranges::{RangesOfMotion, Turn};

/// What a block needs of the model.
pub(super) struct Needs {
    /// The bone everything is taken relative to, unless a piece holds the pose.
    pub(super) home: usize,
    /// Whether a bone's transform is needed at all, (J).
    pub(super) used: Vec<bool>,
    /// The hinges that are remembered in forms, the most important first: (joint, place among its turns).
    pub(super) symbols: Vec<(usize, usize)>,
    /// The first of the three unknowns that stand for what the logarithm of a joint with several turns leaves over: (joint,
    /// unknown). The same in every predictor, it cancels where they cancel.
    pub(super) left_over: Vec<(usize, usize)>,
}

impl Needs {
    pub(super) fn symbol(&self, joint: usize, place: usize) -> Option<usize> {
        self.symbols.iter().position(|&hinge| hinge == (joint, place))
    }
}

impl Setting<'_> {
    /// What `block` needs, `displaced` by a correction of vertices.
    pub(super) fn needs(&self, block: &Block, displaced: &[Displaced], ranges: &RangesOfMotion) -> Needs {
        let of = |joint: usize| match (regression(self.model), joint.checked_sub(self.proxies)) {
            (Some(rr), None) => usize::from(rr.predictors.frames[joint]),
            (_, bone) => bone.unwrap_or(joint),
        };
        let home = of(block.terms[0].joint);
        let mut counts = vec![0.0; self.rest.len()];
        // The joints above carry the whole block, the nearest with most effect on its shape.
        let (mut b, mut weight) = (home, 1e-3);
        counts[b] += weight;
        while let Some(p) = self.skeleton.bones()[b].parent {
            (b, weight) = (p, weight / 2.0);
            counts[b] += weight;
        }
        for term in &block.terms {
            let weight = f64::from(term.weight.abs() + term.half_weight);
            match regression(self.model).filter(|_| term.joint < self.proxies) {
                Some(rr) => {
                    let (width, predictors) = (rr.predictors.width, &rr.predictors);
                    let joints = &predictors.joints[term.joint * width..(term.joint + 1) * width];
                    joints.iter().for_each(|&b| counts[usize::from(b)] += weight / width as f64);
                }
                None => counts[of(term.joint)] += weight,
            }
        }
        // Beyond the trained ranges these carry the block on.
        block.shares.iter().for_each(|share| counts[share.bone] += 1e-3 * f64::from(share.most.abs()));
        // Corrections are small against what they correct.
        self.watched(block, displaced).into_iter().for_each(|b| counts[b] += 1e-4);
        let used = self.used(block, displaced, home);
        // Joints that only carry other bones come last.
        (0..counts.len()).filter(|&b| used[b]).for_each(|b| counts[b] += f64::MIN_POSITIVE);
        let mut drivers: Vec<usize> = (0..counts.len()).filter(|&b| counts[b] > 0.0).collect();
        drivers.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]).then(a.cmp(&b)));
        let mut symbols = hinges(ranges, &drivers);
        symbols.truncate(SYMBOLS - 2 * 3);
        let several = drivers.iter().filter(|&&b| ranges.joints[b].len() > 1);
        let left_over = several.copied().zip((symbols.len()..SYMBOLS - 2).step_by(3)).collect();
        Needs { home, used, symbols, left_over }
    }

    /// The bones whose transforms a block depends on, and those above them, (J).
    fn used(&self, block: &Block, displaced: &[Displaced], home: usize) -> Vec<bool> {
        let mut bones = vec![home];
        for term in &block.terms {
            match regression(self.model).filter(|_| term.joint < self.proxies) {
                Some(rr) => {
                    bones.extend(rr.c2.row(term.joint).map(|(b, _)| b));
                    for (k, _) in rr.c1.row(term.joint) {
                        bones.push(usize::from(rr.predictors.frames[k]));
                        bones.extend(self.carriers[k].iter().map(|&(b, _)| b));
                        let width = rr.predictors.width;
                        bones.extend(rr.predictors.joints[k * width..(k + 1) * width].iter().map(|&b| usize::from(b)));
                    }
                }
                None => bones.push(term.joint - self.proxies),
            }
        }
        bones.extend(self.changes(block).map(|change| change.bone));
        bones.extend(block.shares.iter().map(|share| share.bone));
        bones.extend(displaced.iter().map(|displaced| displaced.bone));
        let mut used = vec![false; self.rest.len()];
        for mut b in bones {
            while !std::mem::replace(&mut used[b], true) {
                b = self.skeleton.bones()[b].parent.unwrap_or(b);
            }
        }
        used
    }

    /// The joints that the block's corrections look at, once for every region.
    fn watched(&self, block: &Block, displaced: &[Displaced]) -> Vec<usize> {
        let mut all = Vec::new();
        if let Some(correction) = self.model.proxy_correction() {
            all.extend(self.changes(block).flat_map(|change| correction.drivers.region_joints(change.region)));
        }
        if let Some(correction) = self.model.vertex_correction() {
            all.extend(displaced.iter().flat_map(|displaced| correction.space.region_joints(displaced.region)));
        }
        all.into_iter().map(usize::from).collect()
    }

    /// What a correction changes of the proxy bones that draw `block`.
    fn changes(&self, block: &Block) -> impl Iterator<Item = &Change> {
        block.terms.iter().filter_map(|term| self.changes.get(term.joint)).flatten()
    }
}

/// The hinges of `joints` that turn, in their order: (joint, place among its turns).
fn hinges(ranges: &RangesOfMotion, joints: &[usize]) -> Vec<(usize, usize)> {
    let turns = joints.iter().flat_map(|&b| ranges.joints[b].iter().enumerate().map(move |(k, turn)| (b, k, turn)));
    let hinge = |(b, k, turn): (usize, usize, &Turn)| match *turn {
        Turn::Hinge { from, to, .. } if to > from => Some((b, k)),
        _ => None,
    };
    turns.filter_map(hinge).collect()
}
