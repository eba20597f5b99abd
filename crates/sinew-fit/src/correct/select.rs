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
    /// A ridge that is given instead of searched.
    pub ridge: Option<f64>,
    /// The kernel's weight of the product over joints; the mean over joints has the rest.
    pub product: f64,
}

/// A region's regression.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The kernel.
    pub kernel: Kernel,
    /// The ridge λ.
    pub lambda: f64,
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
    let ridges: &[f64] = search.ridge.as_ref().map_or(&RIDGES, std::slice::from_ref);
    let none = vec![None; search.candidates.len()];
    let mut best = ridges
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
                for &lambda in ridges.iter().filter(|&&l| step == 0 || (l / best.lambda).ln().abs() < 2.5) {
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
    finish(search, gram, &best)
}

fn better(a: Candidate, b: Candidate) -> Candidate {
    if b.score < a.score { b } else { a }
}

fn scored(search: &Search, gram: &[f64], widths: Vec<Option<f64>>, lambda: f64) -> Candidate {
    let matrix = kernel(search, &widths).matrix(search.table);
    let score = Ridge::new(&matrix, lambda, &search.table.weights).map_or(f64::INFINITY, |r| r.surprise(gram));
    Candidate { widths, lambda, score }
}

fn kernel(search: &Search, widths: &[Option<f64>]) -> Kernel {
    let pairs = search.candidates.iter().zip(widths);
    Kernel {
        joints: pairs.filter_map(|(&c, width)| width.map(|width| (c, width))).collect(),
        constant: 1.0,
        product: search.product,
        additive: 1.0 - search.product,
    }
}

fn finish(search: &Search, gram: &[f64], best: &Candidate) -> Chosen {
    let kernel = kernel(search, &best.widths);
    let matrix = kernel.matrix(search.table);
    let mut lambda = best.lambda;
    let ridge = loop {
        match Ridge::new(&matrix, lambda, &search.table.weights) {
            Some(ridge) => break ridge,
            // Duplicate poses under a tiny ridge; ten times more of it always ends above rounding.
            None => lambda *= 10.0,
        }
    };
    let errors = ridge.left_out(gram);
    let left_out = (0..search.table.training_poses()).map(|e| search.table.weights[e] * errors[e]).sum();
    Chosen { kernel, lambda, ridge, left_out }
}
