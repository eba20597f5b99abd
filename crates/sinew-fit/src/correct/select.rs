//! Which joints drive a region, at which width, with which ridge: chosen by predicting each pose from the others.
//!
//! Greedy over the candidates: from the constant alone, the one change (a joint added, dropped or given another width, with
//! the ridge free to follow) that makes the poses least surprising ([`Ridge::surprise`]), until nothing helps. A joint that
//! earns nothing is not in the region's kernel, so a pose that moves it does not disturb the region.

use super::kernel::{Kernel, Ridge};
use super::poses::PoseTable;

/// Widths tried, radians: from finer than poses usually stand apart to nearly linear over any joint's range.
const WIDTHS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// Ridges tried, relative to a kernel of height one: from interpolation in all but name to little more than the mean.
const RIDGES: [f64; 6] = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// The ridge left under an exact regression, as a fraction of the one that ν replaces: what it leaves of the residual is
/// below what f32 resolves, and duplicate poses still have an inverse.
const EXACT_RIDGE: f64 = 1e-6;

/// The least weight of ν in an exact regression: less would need coefficients larger than f32 can add up.
const LEAST_PEAK: f64 = 1e-3;

/// A change must lower the surprise by this much an added joint (twice a log probability an output): below it, it is
/// noise that two equally good joints differ by.
const LEAST_GAIN: f64 = 1e-3;

/// What is searched.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    /// The poses.
    pub table: &'a PoseTable,
    /// Joints that may drive the region, as indices into the table's joints.
    pub candidates: &'a [usize],
    /// Whether the training poses must come out exactly. The search is the same; then the narrow kernel ν takes the
    /// place of the ridge, so that the prediction changes next to the examples only.
    pub exact: bool,
    /// The kernel's weight of the product over joints; the mean over joints has the rest.
    pub product: f64,
}

/// What is chosen of a regression.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// (index into [`PoseTable::joints`], width s in radians).
    pub joints: Vec<(usize, f64)>,
    /// The ridge λ of a smooth regression.
    pub lambda: f64,
}

/// A region's regression.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// What was chosen.
    pub regression: Regression,
    /// The kernel.
    pub kernel: Kernel,
    /// The inverted matrix.
    pub ridge: Ridge,
    /// Σ over the training poses of the weighted squared error when the pose is left out.
    pub left_out: f64,
}

struct Candidate {
    widths: Vec<Option<f64>>,
    lambda: f64,
    score: f64,
}

/// The best kernel for targets with the Gram matrix `gram` (N, N).
#[must_use]
pub fn choose(search: &Search, gram: &[f64]) -> Chosen {
    let none = vec![None; search.candidates.len()];
    let mut best = RIDGES
        .iter()
        .map(|&lambda| scored(search, gram, none.clone(), lambda))
        .reduce(better)
        .expect("at least one ridge is tried");
    // Each step lowers the score; this many changes settle every joint twice over.
    for step in 0..3 * search.candidates.len() {
        let mut next: Option<Candidate> = None;
        for c in 0..search.candidates.len() {
            for width in std::iter::once(None).chain(WIDTHS.map(Some)) {
                if width == best.widths[c] {
                    continue;
                }
                let mut widths = best.widths.clone();
                widths[c] = width;
                for &lambda in RIDGES.iter().filter(|&&l| step == 0 || (l / best.lambda).ln().abs() < 2.5) {
                    let candidate = scored(search, gram, widths.clone(), lambda);
                    next = Some(match next {
                        Some(next) => better(next, candidate),
                        None => candidate,
                    });
                }
            }
        }
        match next {
            Some(next) if next.score < best.score - LEAST_GAIN => best = next,
            _ => break,
        }
    }
    take(search, gram, Regression { joints: joints(search, &best.widths), lambda: best.lambda })
}

fn better(a: Candidate, b: Candidate) -> Candidate {
    // The first of equal ones, so that the choice does not hang on the last bit.
    if b.score < a.score - 1e-6 { b } else { a }
}

fn scored(search: &Search, gram: &[f64], widths: Vec<Option<f64>>, lambda: f64) -> Candidate {
    let matrix = kernel(search, joints(search, &widths)).matrix(search.table);
    let score = Ridge::new(&matrix, lambda, &search.table.weights)
        .map_or(f64::INFINITY, |r| r.surprise(gram, &search.table.sources));
    Candidate { widths, lambda, score }
}

fn joints(search: &Search, widths: &[Option<f64>]) -> Vec<(usize, f64)> {
    search.candidates.iter().zip(widths).filter_map(|(&c, width)| width.map(|width| (c, width))).collect()
}

fn kernel(search: &Search, joints: Vec<(usize, f64)>) -> Kernel {
    Kernel { joints, constant: 1.0, product: search.product, additive: 1.0 - search.product, peak: 0.0 }
}

/// The regression of targets with the Gram matrix `gram` (N, N) by what was chosen already.
#[must_use]
pub fn take(search: &Search, gram: &[f64], regression: Regression) -> Chosen {
    let mut kernel = kernel(search, regression.joints.clone());
    let mut lambda = regression.lambda;
    let judged = Ridge::new(&kernel.matrix(search.table), lambda, &search.table.weights);
    let left_out = judged.as_ref().map_or(f64::INFINITY, |ridge| {
        let errors = ridge.left_out(gram, &search.table.sources);
        (0..search.table.training_poses()).map(|e| search.table.weights[e] * errors[e]).sum()
    });
    if search.exact {
        kernel.peak = lambda.max(LEAST_PEAK);
        lambda *= EXACT_RIDGE;
    }
    let matrix = kernel.matrix(search.table);
    let ridge = loop {
        match Ridge::new(&matrix, lambda, &search.table.weights) {
            Some(ridge) => break ridge,
            // Duplicate poses under a tiny ridge; ten times more of it always ends above rounding.
            None => lambda *= 10.0,
        }
    };
    Chosen { regression, kernel, ridge, left_out }
}
