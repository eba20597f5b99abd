//! Principal components of a region's targets, and how many of them a budget pays for.
//!
//! With `Y Yᵀ = U diag(σ²) Uᵀ`, component k is `B_k = u_kᵀ Y` and its weight at a pose `κᵀ A u_k`; all of them together are
//! the regression itself, `κᵀ A Y`. Leaving component k out costs σ_k² at the example poses, summed over poses and outputs.

use nalgebra::{DMatrix, SymmetricEigen};

/// The components of one region, largest first.
#[derive(Debug, Clone)]
pub struct Components {
    /// σ_k², (K).
    pub energies: Vec<f64>,
    /// u_k, (K)(N).
    pub directions: Vec<Vec<f64>>,
}

impl Components {
    /// The components of targets with the Gram matrix `gram` (N, N); those of nil energy are left out.
    #[must_use]
    pub fn new(gram: &[f64], poses: usize) -> Self {
        let eigen = SymmetricEigen::new(DMatrix::from_row_slice(poses, poses, gram));
        let mut order: Vec<usize> = (0..poses).collect();
        order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]).then(a.cmp(&b)));
        // 1e-13 of the largest: what rounding makes of an eigenvalue that is nil.
        let largest = order.first().map_or(0.0, |&k| eigen.eigenvalues[k]);
        order.retain(|&k| eigen.eigenvalues[k] > 1e-13 * largest && eigen.eigenvalues[k] > 0.0);
        Self {
            energies: order.iter().map(|&k| eigen.eigenvalues[k]).collect(),
            directions: order.iter().map(|&k| eigen.eigenvectors.column(k).iter().copied().collect()).collect(),
        }
    }

    /// `B_k = u_kᵀ Y`, (D), for targets Y (N, D).
    #[must_use]
    pub fn component(&self, k: usize, targets: &[f64]) -> Vec<f64> {
        let poses = self.directions[k].len();
        let width = targets.len() / poses.max(1);
        let mut component = vec![0.0; width];
        for (u, row) in self.directions[k].iter().zip(targets.chunks_exact(width.max(1))) {
            component.iter_mut().zip(row).for_each(|(c, y)| *c += u * y);
        }
        component
    }

    /// Row k of the mixing matrix, `A u_k`, (N); A (N, N).
    #[must_use]
    pub fn mixing(&self, k: usize, inverse: &[f64]) -> Vec<f64> {
        let u = &self.directions[k];
        inverse.chunks_exact(u.len().max(1)).map(|row| row.iter().zip(u).map(|(a, u)| a * u).sum()).collect()
    }
}

/// What limits the number of components.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Bytes at most.
    pub bytes: Option<usize>,
    /// The squared error that leaving components out may cost, summed over poses and outputs.
    pub energy: f64,
}

/// What was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Components of each region, (R).
    pub counts: Vec<usize>,
    /// The energy that was left out.
    pub left: f64,
}

/// Spends the budget: components of all regions in the order of energy a byte, as many from the first on as fit, so that
/// more bytes never leave more energy out. `bytes[r]` is what one component of region r costs, `total(counts)` what
/// a correction with so many components of each region takes in all.
#[must_use]
pub fn spend(regions: &[Components], bytes: &[usize], budget: Budget, total: impl Fn(&[usize]) -> usize) -> Kept {
    let mut order: Vec<(usize, usize)> =
        regions.iter().enumerate().flat_map(|(r, c)| (0..c.energies.len()).map(move |k| (r, k))).collect();
    let value = |&(r, k): &(usize, usize)| regions[r].energies[k] / bytes[r].max(1) as f64;
    order.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.cmp(b)));
    // A region's components come largest first, so the first of the order are the first of every region.
    let counts = |first: usize| {
        let mut counts = vec![0; regions.len()];
        order[..first].iter().for_each(|&(r, _)| counts[r] += 1);
        counts
    };
    let left = |first: usize| order[first..].iter().map(|&(r, k)| regions[r].energies[k]).sum::<f64>();
    let enough = partition(order.len(), |first| left(first) > budget.energy);
    let kept = match budget.bytes {
        Some(most) => partition(enough, |first| total(&counts(first + 1)) <= most),
        None => enough,
    };
    Kept { counts: counts(kept), left: left(kept) }
}

/// How many of 0..n, from the first on, `holds` is true of; it must not be true again after it was false.
fn partition(n: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
