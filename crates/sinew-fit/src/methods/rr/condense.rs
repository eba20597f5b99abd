//! c₁ and c₂ with few blocks that draw the same proxy bones (ours).
//!
//! What [`prune`](super::prune) leaves is still more than a small mesh can afford, for every block that goes is replaced by one
//! fixed stand-in. Over many poses the sources, key gradients D_ℓ and bones T_b, say nearly the same again and again, and a few of
//! them with numbers of their own draw what took dozens. With X the columns of all sources side by side in all poses, B the
//! blocks of a proxy p and s_r the reach of its vertices,
//!
//!   minimise over U and B′: |U|,   Σ_r s_r² ‖X B_r − X_U B′_r‖² ≤ tolerance²   (mean over poses).
//!
//! U begins with p's home bone and grows by the source that lowers this most (matching pursuit by groups) among those that p has.
//! The poses are the training poses, blends of them and corners of the trained ranges ([`imagined`]):
//! nothing needs to be known of the mesh in them.

use glam::{DAffine3, DMat3};
use nalgebra::DMatrix;
use rayon::prelude::*;
use sinew_linalg::{Mat, transposed_product};

use super::RrFit;
use super::reduce::Reduction;
use super::weights::drawing_matrix;
use crate::Training;
use crate::drawing::imagined::{self, Blend};

/// Imagined poses of either kind.
const IMAGINED: usize = 300;

/// How much they count together beside the training poses, and how much corners do.
const IMAGINED_SHARE: f64 = 2.0;
const CORNER_SHARE: f64 = 0.5;

/// A ridge, as a part of a source's mean square: next to nothing, for sources that say the same and for the root's translation,
/// which is nil.
const RIDGE: f64 = 1e-9;

/// Fewer blocks that move no proxy's vertices by more than `tolerance` metres rms, and how many they are.
#[must_use]
pub fn condense(training: &Training, fit: &RrFit, tolerance: f64) -> (Reduction, usize) {
    let sources = Sources::new(training, fit);
    let drawing = drawing_matrix(training, &fit.palette, &fit.weights);
    let unknowns = 4 * fit.palette.proxies;
    let proxy = |p: usize| {
        let diagonal = |r: usize| drawing[(4 * p + r) * unknowns + 4 * p + r];
        let reach = |r: usize| if r == 3 { 1.0 } else { diagonal(r) / diagonal(3).max(f64::MIN_POSITIVE) };
        Row::new(&sources, fit, p, std::array::from_fn(reach)).pursued(tolerance * tolerance)
    };
    let rows: Vec<Vec<(usize, Block)>> = (0..fit.palette.proxies).into_par_iter().map(proxy).collect();
    let kept = rows.iter().map(Vec::len).sum();
    let mut reduction = Reduction {
        c1: Mat::zeros(fit.reduction.c1.nrows(), fit.reduction.c1.ncols()),
        c2: Mat::zeros(fit.reduction.c2.nrows(), fit.reduction.c2.ncols()),
    };
    for (p, blocks) in rows.iter().enumerate() {
        for (source, block) in blocks {
            let (matrix, first) = match source.checked_sub(sources.gradients) {
                None => (&mut reduction.c1, 3 * source),
                Some(bone) => (&mut reduction.c2, 4 * bone),
            };
            for (c, column) in block.iter().enumerate() {
                (0..4).for_each(|r| matrix[(4 * p + r, first + c)] = column[r]);
            }
        }
    }
    (reduction, kept)
}

/// A block column by column: what a column of the source gives to the proxy's three axes and its centre.
type Block = Vec<[f64; 4]>;

/// Key gradients and bones over many poses.
struct Sources {
    /// How many of them are gradients, P; bones follow.
    gradients: usize,
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
        Self { gradients: count, gram: transposed_product(columns.as_ref(), columns.as_ref()) }
    }

    /// Where the columns of a source stand.
    fn places(&self, source: usize) -> std::ops::Range<usize> {
        match source.checked_sub(self.gradients) {
            None => 3 * source..3 * source + 3,
            Some(bone) => 3 * self.gradients + 4 * bone..3 * self.gradients + 4 * bone + 4,
        }
    }
}

/// A proxy's equations over the sources that it has.
struct Row {
    /// The sources, its home bone first.
    sources: Vec<usize>,
    /// Where the columns of each stand in the matrices below.
    places: Vec<Vec<usize>>,
    /// `XᵀX` and `XᵀX B`.
    gram: DMatrix<f64>,
    right: DMatrix<f64>,
    /// `BᵀXᵀX B` of each of the proxy's columns, and s².
    squares: [f64; 4],
    reach: [f64; 4],
}

impl Row {
    fn new(all: &Sources, fit: &RrFit, p: usize, reach: [f64; 4]) -> Self {
        let Reduction { c1, c2 } = &fit.reduction;
        let number = |source: usize, c: usize, r: usize| match source.checked_sub(all.gradients) {
            None => c1[(4 * p + r, 3 * source + c)],
            Some(bone) => c2[(4 * p + r, 4 * bone + c)],
        };
        let home = all.gradients + fit.palette.home_bones[p];
        let width = |source: usize| all.places(source).len();
        let has =
            |&source: &usize| source != home && (0..width(source)).any(|c| (0..4).any(|r| number(source, c, r) != 0.0));
        let others = (0..all.gradients + c2.ncols() / 4).filter(has);
        let sources: Vec<usize> = [home].into_iter().chain(others).collect();
        let (mut places, mut columns) = (Vec::new(), Vec::new());
        for &source in &sources {
            places.push((columns.len()..columns.len() + width(source)).collect());
            columns.extend(all.places(source).enumerate().map(|(c, at)| (at, source, c)));
        }
        let n = columns.len();
        let gram = DMatrix::from_fn(n, n, |i, j| all.gram[(columns[i].0, columns[j].0)]);
        let blocks = DMatrix::from_fn(n, 4, |i, r| number(columns[i].1, columns[i].2, r));
        let right = &gram * &blocks;
        let squares = std::array::from_fn(|r| blocks.column(r).dot(&right.column(r)));
        Self { sources, places, gram, right, squares, reach }
    }

    /// Blocks over as few sources as leave no more than `least`, square metres.
    fn pursued(&self, least: f64) -> Vec<(usize, Block)> {
        let mut taken = vec![0];
        let mut solved = self.solved(&taken);
        while solved.0 > least && taken.len() < self.sources.len() {
            let others = (0..self.sources.len()).filter(|k| !taken.contains(k));
            let with = |k: usize| (k, self.solved(&[&taken[..], &[k]].concat()));
            let better = |a: (usize, Solved), b: (usize, Solved)| if b.1.0 < a.1.0 { b } else { a };
            let Some((next, best)) = others.map(with).reduce(better) else { break };
            taken.push(next);
            solved = best;
        }
        let mut rows = solved.1.row_iter().map(|row| std::array::from_fn(|r| row[r]));
        taken.iter().map(|&k| (self.sources[k], rows.by_ref().take(self.places[k].len()).collect())).collect()
    }

    /// What is left over with some of the sources, and their blocks.
    fn solved(&self, taken: &[usize]) -> Solved {
        let places: Vec<usize> = taken.iter().flat_map(|&k| self.places[k].iter().copied()).collect();
        let mut gram = self.gram.select_rows(&places).select_columns(&places);
        let mean = gram.trace() / places.len() as f64;
        (0..places.len()).for_each(|k| gram[(k, k)] += RIDGE * mean);
        let right = self.right.select_rows(&places);
        let Some(factor) = gram.cholesky() else { return (f64::INFINITY, DMatrix::zeros(places.len(), 4)) };
        let blocks = factor.solve(&right);
        let left = |r: usize| self.reach[r] * (self.squares[r] - blocks.column(r).dot(&right.column(r)));
        ((0..4).map(left).sum::<f64>().max(0.0), blocks)
    }
}

/// See [`Row::solved`].
type Solved = (f64, DMatrix<f64>);

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
        let tolerance = 2e-4 * training.diagonal;
        let (condensed, kept) = condense(&training, &fit, tolerance);
        assert_eq!(kept, blocks(&condensed));
        // Half of them or so.
        assert!(3 * kept < 2 * blocks(&fit.reduction), "{kept} of {}", blocks(&fit.reduction));
        fit.reduction = condensed;
        for (before, after) in before.iter().zip(fit.all_transforms(&training)) {
            for ((before, after), &centre) in before.iter().zip(after).zip(&fit.palette.centres) {
                let moved = before.transform_point3(centre).distance(after.transform_point3(centre));
                // The tolerance is a mean over some hundred poses; single ones may be some times as far off.
                assert!(moved < 5.0 * tolerance, "{moved} of {tolerance}");
            }
        }
    }

    #[test]
    fn without_a_tolerance_every_proxy_moves_as_before() {
        let (training, mut fit) = fitted();
        let before = fit.all_transforms(&training);
        (fit.reduction, _) = condense(&training, &fit, 0.0);
        for (before, after) in before.iter().flatten().zip(fit.all_transforms(&training).iter().flatten()) {
            // 1e-5 of a metre: the ridge of 1e-9 moves what sources that say nearly the same share.
            assert!(before.abs_diff_eq(*after, 1e-5), "{before:?} and {after:?}");
        }
    }
}
