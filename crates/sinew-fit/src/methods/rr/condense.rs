//! c₁ and c₂ with few blocks over few key gradients that draw the same proxy bones (ours).
//!
//! What [`prune`](super::prune) leaves is still more than a small mesh can afford, for every block that goes is replaced by one
//! fixed stand-in. Over many poses the sources, key gradients D_ℓ and bones T_b, say nearly the same again and again, and a few of
//! them with numbers of their own draw what took dozens. The run time draws four proxies together from the same sources
//! (see [`Prediction`]), and a key gradient that none of them is drawn from need not be predicted. With X the
//! columns of all sources side by side in all poses, B the blocks of the proxies p of such a group g and s_pr the reach of p's
//! vertices from its centre,
//!
//!   minimise over U_g and B′: Σ_g Σ_{i∈U_g} price(i),   Σ_{p∈g} Σ_r s_pr² ‖X B_pr − X_U B′_pr‖² ≤ |g| tolerance²   (mean over poses),
//!
//! the price of a key gradient being higher for the first group that takes it. U_g begins with its proxies' home bones and
//! grows by the source that lowers the left side most for its price (matching pursuit by groups) among those that its proxies have;
//! those that are no longer needed go again.
//! The poses are the training poses, blends of them and corners of the trained ranges ([`imagined`]):
//! nothing needs to be known of the mesh in them.

use glam::{DAffine3, DMat3};
use nalgebra::DMatrix;
use rayon::prelude::*;
use sinew_linalg::{Mat, transposed_product};

use super::RrFit;
use super::prediction::{BONE_BLOCK, GRADIENT, GRADIENT_BLOCK, Prediction, grouped};
use super::reduce::Reduction;
use super::weights::drawing_matrix;
use crate::Training;
use crate::drawing::imagined::{self, Blend};

/// What fewer blocks may move a proxy's vertices by, as parts of the rms error that shows ([`shown`](super::thin::shown)), until what
/// is left is affordable: what draws the vertices is fitted afterwards and makes up for it.
const TOLERANCES: [f64; 4] = [0.1, 0.2, 0.3, 0.5];

/// Rounds over all groups: from the second on each knows what the others take.
const ROUNDS: usize = 3;

/// Imagined poses of either kind.
const IMAGINED: usize = 300;

/// How much they count together beside the training poses, and how much corners do.
const IMAGINED_SHARE: f64 = 2.0;
const CORNER_SHARE: f64 = 0.5;

/// A ridge, as a part of a source's mean square: for sources that say nearly the same, which would otherwise have large numbers of
/// either sign that cancel in the poses that are seen and nowhere else, and for the root's translation, which is nil. A tenth of it
/// makes bounds over ranges of motion twice as wide, ten times as much draws vertices farther from their poses.
const RIDGE: f64 = 1e-7;

/// Fewer blocks.
#[derive(Debug, Clone)]
pub struct Condensed {
    /// c₁ and c₂.
    pub reduction: Reduction,
    /// How many blocks they have.
    pub kept: usize,
}

/// Blocks that take no more than `cycles` a frame and move the proxies' vertices as little as [`TOLERANCES`] allow, of `shown`
/// metres rms; the fewest that these allow if that is more.
#[must_use]
pub fn condense(training: &Training, fit: &RrFit, shown: f64, cycles: f32) -> Condensed {
    let all = Condensing::new(training, fit);
    let mut tried = TOLERANCES.iter().map(|tolerance| all.taken(tolerance * shown));
    let affordable = |taken: &Taken| all.prediction(taken).cycles() <= cycles;
    let mut last = tried.next().expect("there are tolerances");
    while !affordable(&last) {
        match tried.next() {
            Some(next) => last = next,
            None => break,
        }
    }
    all.condensed(&last)
}

/// The sources that each group is drawn from, its proxies' home bones first.
type Taken = Vec<Vec<usize>>;

/// What does not depend on the tolerance.
struct Condensing<'a> {
    fit: &'a RrFit,
    sources: Sources,
    groups: Vec<Group>,
}

impl<'a> Condensing<'a> {
    fn new(training: &Training, fit: &'a RrFit) -> Self {
        let sources = Sources::new(training, fit);
        let drawing = drawing_matrix(training, &fit.palette, &fit.weights);
        let unknowns = 4 * fit.palette.proxies;
        let reach = |p: usize| -> [f64; 4] {
            let diagonal = |r: usize| drawing[(4 * p + r) * unknowns + 4 * p + r];
            std::array::from_fn(|r| match r {
                3 => 1.0,
                _ => (diagonal(r) / diagonal(3).max(f64::MIN_POSITIVE)).sqrt(),
            })
        };
        let group = |proxies: &[usize]| Group::new(&sources, fit, proxies, reach);
        let had: Vec<Vec<usize>> = (0..fit.palette.proxies).map(|p| group(&[p]).sources).collect();
        let groups = grouped(&had).par_iter().map(|proxies| group(proxies)).collect();
        Self { fit, sources, groups }
    }

    /// What each group takes where nothing moves by more than `tolerance` metres rms.
    fn taken(&self, tolerance: f64) -> Taken {
        let mut taken: Taken = vec![Vec::new(); self.groups.len()];
        for _ in 0..ROUNDS {
            for (g, group) in self.groups.iter().enumerate() {
                let others = taken.iter().enumerate().filter(|&(other, _)| other != g);
                let mut predicted = vec![false; self.sources.gradients];
                let sources = others.flat_map(|(_, sources)| sources).filter(|&&source| source < predicted.len());
                sources.copied().collect::<Vec<_>>().into_iter().for_each(|source| predicted[source] = true);
                let price = |source: usize| match predicted.get(source) {
                    Some(true) => GRADIENT_BLOCK,
                    Some(false) => GRADIENT_BLOCK + GRADIENT,
                    None => BONE_BLOCK,
                };
                taken[g] = group.pursued(tolerance, price);
            }
        }
        taken
    }

    fn prediction(&self, taken: &Taken) -> Prediction {
        Prediction::of_groups(taken.iter().map(Vec::as_slice), self.sources.gradients)
    }

    fn condensed(&self, taken: &Taken) -> Condensed {
        let Reduction { c1, c2 } = &self.fit.reduction;
        let empty = |like: &Mat<f64>| Mat::zeros(like.nrows(), like.ncols());
        let mut reduction = Reduction { c1: empty(c1), c2: empty(c2) };
        for (group, taken) in self.groups.iter().zip(taken) {
            group.write(taken, self.sources.gradients, &mut reduction);
        }
        let kept = self.groups.iter().zip(taken).map(|(group, taken)| group.proxies.len() * taken.len()).sum();
        Condensed { reduction, kept }
    }
}

/// Key gradients and bones over many poses.
struct Sources {
    /// How many of them are gradients, P; bones follow.
    gradients: usize,
    /// How many there are, P + J.
    count: usize,
    /// `XᵀX`, the mean over poses, (3P + 4J)².
    gram: Mat<f64>,
}

impl Sources {
    fn new(training: &Training, fit: &RrFit) -> Self {
        let rest = vec![DAffine3::IDENTITY; training.bone_count()];
        let trained = training.transforms.iter().zip(training.pose_weights.iter().copied());
        let mut poses: Vec<(Vec<DAffine3>, f64)> = trained.map(|(pose, weight)| (pose.clone(), weight)).collect();
        poses.push((rest, 1.0));
        let counted: f64 = poses.iter().map(|(_, weight)| weight).sum();
        let mut beside = |more: Vec<Vec<DAffine3>>, share: f64| {
            let weight = share * counted / more.len().max(1) as f64;
            poses.extend(more.into_iter().map(|pose| (pose, weight)));
        };
        for blend in [Blend::Joints, Blend::Poses] {
            beside(imagined::poses(training, &fit.joints, IMAGINED, blend), IMAGINED_SHARE / 2.0);
        }
        beside(imagined::corners(training, &fit.joints), CORNER_SHARE);
        let total: f64 = poses.iter().map(|(_, weight)| weight).sum();
        let of_pose = |(pose, weight): &(Vec<DAffine3>, f64)| {
            let (bones, logs) = fit.joints.of_pose(&training.skeleton, pose);
            let gradients: Vec<DMat3> = fit.predictors.iter().map(|p| p.gradient(&bones, &logs)).collect();
            (gradients, (weight / total).sqrt())
        };
        let gradients: Vec<(Vec<DMat3>, f64)> = poses.par_iter().map(of_pose).collect();
        let count = fit.palette.proxies;
        let columns = Mat::from_fn(3 * poses.len(), 3 * count + 4 * training.bone_count(), |row, column| {
            let (e, k) = (row / 3, row % 3);
            let (gradients, root) = &gradients[e];
            root * match column.checked_sub(3 * count) {
                None => gradients[column / 3].col(column % 3)[k],
                Some(column) if column % 4 == 3 => poses[e].0[column / 4].translation[k],
                Some(column) => poses[e].0[column / 4].matrix3.col(column % 4)[k],
            }
        });
        Self {
            gradients: count,
            count: count + training.bone_count(),
            gram: transposed_product(columns.as_ref(), columns.as_ref()),
        }
    }

    /// Where the columns of a source stand.
    fn places(&self, source: usize) -> std::ops::Range<usize> {
        match source.checked_sub(self.gradients) {
            None => 3 * source..3 * source + 3,
            Some(bone) => 3 * self.gradients + 4 * bone..3 * self.gradients + 4 * bone + 4,
        }
    }
}

/// The equations of some proxies over the sources that any of them has.
struct Group {
    /// The proxies.
    proxies: Vec<usize>,
    /// The sources, home bones first, and how many of these there are.
    sources: Vec<usize>,
    homes: usize,
    /// Where the columns of each stand in the matrices below.
    places: Vec<Vec<usize>>,
    /// `XᵀX`, and `XᵀX B S` for the four columns of each proxy's B.
    gram: DMatrix<f64>,
    right: DMatrix<f64>,
    /// s of each of these columns, and `Σ s² BᵀXᵀX B`.
    reach: Vec<f64>,
    square: f64,
}

impl Group {
    fn new(all: &Sources, fit: &RrFit, proxies: &[usize], reach: impl Fn(usize) -> [f64; 4]) -> Self {
        let Reduction { c1, c2 } = &fit.reduction;
        let number = |p: usize, source: usize, c: usize, r: usize| match source.checked_sub(all.gradients) {
            None => c1[(4 * p + r, 3 * source + c)],
            Some(bone) => c2[(4 * p + r, 4 * bone + c)],
        };
        let mut sources: Vec<usize> = proxies.iter().map(|&p| all.gradients + fit.palette.home_bones[p]).collect();
        sources.sort_unstable();
        sources.dedup();
        let homes = sources.len();
        let drawn_from = |p: usize, source: usize| {
            (0..all.places(source).len()).any(|c| (0..4).any(|r| number(p, source, c, r) != 0.0))
        };
        let has = |&source: &usize| !sources.contains(&source) && proxies.iter().any(|&p| drawn_from(p, source));
        let others: Vec<usize> = (0..all.count).filter(has).collect();
        sources.extend(others);
        let (mut places, mut columns) = (Vec::new(), Vec::new());
        for &source in &sources {
            places.push((columns.len()..columns.len() + all.places(source).len()).collect());
            columns.extend(all.places(source).enumerate().map(|(c, at)| (at, source, c)));
        }
        let n = columns.len();
        let gram = DMatrix::from_fn(n, n, |i, j| all.gram[(columns[i].0, columns[j].0)]);
        let reach: Vec<f64> = proxies.iter().flat_map(|&p| reach(p)).collect();
        let blocks = DMatrix::from_fn(n, reach.len(), |i, k| {
            reach[k] * number(proxies[k / 4], columns[i].1, columns[i].2, k % 4)
        });
        let right = &gram * &blocks;
        let square = blocks.dot(&right);
        Self { proxies: proxies.to_vec(), sources, homes, places, gram, right, reach, square }
    }

    /// Sources that leave no more than `tolerance`, metres rms a proxy, for little: a source costs its `price`.
    fn pursued(&self, tolerance: f64, price: impl Fn(usize) -> f32 + Sync) -> Vec<usize> {
        let least = self.proxies.len() as f64 * tolerance * tolerance;
        let price = |k: usize| f64::from(price(self.sources[k]));
        let mut taken: Vec<usize> = (0..self.homes).collect();
        let mut left = self.left(&taken);
        while left > least && taken.len() < self.sources.len() {
            let others: Vec<usize> = (0..self.sources.len()).filter(|k| !taken.contains(k)).collect();
            let with = |&k: &usize| {
                // What lies under the tolerance gains nothing.
                let now = self.left(&[&taken[..], &[k]].concat()).max(least);
                ((left - now) / price(k), k, now)
            };
            let gains: Vec<(f64, usize, f64)> = others.par_iter().map(with).collect();
            let better = |a: (f64, usize, f64), b: (f64, usize, f64)| if b.0 > a.0 { b } else { a };
            let Some((_, next, now)) = gains.into_iter().reduce(better) else { break };
            taken.push(next);
            left = now;
        }
        // What came first may no longer be needed: the dearest goes first.
        loop {
            let without = |k: usize| taken.iter().copied().filter(|&other| other != k).collect::<Vec<_>>();
            let idle = taken[self.homes..].iter().copied().filter(|&k| self.left(&without(k)) <= least);
            let Some(dearest) = idle.max_by(|&a, &b| price(a).total_cmp(&price(b))) else { break };
            taken.retain(|&k| k != dearest);
        }
        taken.into_iter().map(|k| self.sources[k]).collect()
    }

    /// What is left over with some of the sources.
    fn left(&self, taken: &[usize]) -> f64 {
        let squares = |(blocks, right): (DMatrix<f64>, DMatrix<f64>)| (self.square - blocks.dot(&right)).max(0.0);
        self.solved(taken).map_or(f64::INFINITY, squares)
    }

    /// The blocks of some of the sources, times the reach, and the right side of their equations.
    fn solved(&self, taken: &[usize]) -> Option<(DMatrix<f64>, DMatrix<f64>)> {
        let places: Vec<usize> = taken.iter().flat_map(|&k| self.places[k].iter().copied()).collect();
        let mut gram = self.gram.select_rows(&places).select_columns(&places);
        let mean = gram.trace() / places.len() as f64;
        (0..places.len()).for_each(|k| gram[(k, k)] += RIDGE * mean);
        let right = self.right.select_rows(&places);
        let blocks = gram.cholesky()?.solve(&right);
        Some((blocks, right))
    }

    /// The blocks of the sources `taken`, the first of which are `gradients`, into `reduction`.
    fn write(&self, taken: &[usize], gradients: usize, reduction: &mut Reduction) {
        let place =
            |source: &usize| self.sources.iter().position(|other| other == source).expect("it is one of its own");
        let Some((blocks, _)) = self.solved(&taken.iter().map(place).collect::<Vec<_>>()) else { return };
        let mut rows = blocks.row_iter();
        for source in taken {
            let (matrix, first, width) = match source.checked_sub(gradients) {
                None => (&mut reduction.c1, 3 * source, 3),
                Some(bone) => (&mut reduction.c2, 4 * bone, 4),
            };
            for (c, row) in rows.by_ref().take(width).enumerate() {
                for (k, reach) in self.reach.iter().enumerate() {
                    matrix[(4 * self.proxies[k / 4] + k % 4, first + c)] = row[k] / reach.max(f64::MIN_POSITIVE);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::rr::{self, RrParams};
    use crate::methods::ssd::{self, SsdParams};
    use crate::{Quiet, Training};
    use sinew_examples::datasets;

    /// A fit whose c₁ and c₂ were not condensed yet.
    fn fitted() -> (Training, RrFit) {
        let examples = datasets::by_name("arm").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
        let params = RrParams { proxy_bones: Some(12), to_be_corrected: true, ..RrParams::default() };
        let (fit, _) = rr::fit(&training, &skin, &params, &Quiet).unwrap().swap_remove(0);
        (training, fit)
    }

    fn blocks(reduction: &Reduction) -> usize {
        let count = |matrix: &Mat<f64>, width: usize| {
            let nonzero =
                |p: usize, k: usize| (0..4).any(|r| (0..width).any(|c| matrix[(4 * p + r, width * k + c)] != 0.0));
            let pairs = (0..matrix.nrows() / 4).flat_map(|p| (0..matrix.ncols() / width).map(move |k| (p, k)));
            pairs.filter(|&(p, k)| nonzero(p, k)).count()
        };
        count(&reduction.c1, 3) + count(&reduction.c2, 4)
    }

    #[test]
    fn fewer_blocks_move_proxies_by_no_more_than_the_tolerance() {
        let (training, mut fit) = fitted();
        let before = fit.all_transforms(&training);
        let shown = 2e-3 * training.diagonal;
        let tolerance = TOLERANCES[0] * shown;
        let Condensed { reduction: condensed, kept } = condense(&training, &fit, shown, f32::INFINITY);
        assert_eq!(kept, blocks(&condensed));
        // Half of them or so.
        assert!(3 * kept < 2 * blocks(&fit.reduction), "{kept} of {}", blocks(&fit.reduction));
        fit.reduction = condensed;
        for (before, after) in before.iter().zip(fit.all_transforms(&training)) {
            for ((before, after), &centre) in before.iter().zip(after).zip(&fit.palette.centres) {
                let moved = before.transform_point3(centre).distance(after.transform_point3(centre));
                // The tolerance is a mean over four proxies in some hundred poses; single ones may be some times as far off.
                assert!(moved < 10.0 * tolerance, "{moved} of {tolerance}");
            }
        }
    }

    #[test]
    fn without_a_tolerance_every_proxy_moves_as_before() {
        let (training, mut fit) = fitted();
        let before = fit.all_transforms(&training);
        fit.reduction = condense(&training, &fit, 0.0, f32::INFINITY).reduction;
        for (before, after) in before.iter().flatten().zip(fit.all_transforms(&training).iter().flatten()) {
            // 1e-3: the ridge of 1e-7 moves what sources share that say nearly the same, a vertex a tenth of a metre from its proxy
            // by a tenth of a millimetre.
            assert!(before.abs_diff_eq(*after, 1e-3), "{before:?} and {after:?}");
        }
    }
    #[test]
    fn what_is_too_dear_goes_as_far_as_the_tolerances_allow() {
        let (training, fit) = fitted();
        let shown = 2e-3 * training.diagonal;
        let kept = |cycles: f32| condense(&training, &fit, shown, cycles).kept;
        let (all, few, fewest) = (kept(f32::INFINITY), kept(1000.0), kept(0.0));
        assert!(fewest < all && (fewest..=all).contains(&few), "{fewest}, {few}, {all}");
    }
}
