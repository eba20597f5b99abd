//! Convex weights: minimise `wᵀ G w` subject to `w ≥ 0`, `Σ w = 1`, optionally with few non-zero entries.
//!
//! `G` is the Gram matrix of the candidates' residuals, so this is the point of their convex hull nearest to the origin;
//! solved by Wolfe's active-set algorithm ("Finding the nearest point in a polytope", 1976). On a passive set P the
//! minimiser over the affine hull is `w_P = G_PP⁻¹ 1 / (1ᵀ G_PP⁻¹ 1)`; `w` is optimal when every candidate's gradient
//! `(G w)_j` is at least `wᵀ G w`. The sparse solution is found by backward elimination: take away the entry whose
//! loss costs least, solve again, until few enough are left.

/// A ridge on the diagonal, relative to its mean: candidates that move alike share the weight instead of failing.
const RIDGE: f64 = 1e-10;

/// Optimality: a gradient may fall short by this fraction of the diagonal's mean before its candidate enters.
const TOLERANCE: f64 = 1e-10;

/// Scratch memory, reused from problem to problem.
#[derive(Debug, Default)]
pub struct Workspace {
    factor: Vec<f64>,
    solution: Vec<f64>,
}

/// Weights over `n` candidates with Gram matrix `gram` (n, n), all of them allowed; zero entries are left out.
pub fn solve(gram: &[f64], n: usize, workspace: &mut Workspace) -> Vec<(usize, f64)> {
    let all: Vec<usize> = (0..n).collect();
    solve_among(gram, n, &all, workspace)
}

/// As [`solve`], with at most `most` entries, none below `smallest`; heaviest first.
pub fn solve_sparse(
    gram: &[f64],
    n: usize,
    most: usize,
    smallest: f64,
    workspace: &mut Workspace,
) -> Vec<(usize, f64)> {
    let all: Vec<usize> = (0..n).collect();
    solve_sparse_among(gram, n, &all, most, smallest, workspace)
}

/// As [`solve_sparse`], over the candidates `among` only.
pub fn solve_sparse_among(
    gram: &[f64],
    n: usize,
    among: &[usize],
    most: usize,
    smallest: f64,
    workspace: &mut Workspace,
) -> Vec<(usize, f64)> {
    let mut weights = solve_among(gram, n, among, workspace);
    while weights.len() > most {
        let kept: Vec<usize> = weights.iter().map(|&(i, _)| i).collect();
        let without = |skip: usize| kept.iter().copied().filter(|&i| i != kept[skip]).collect::<Vec<_>>();
        let candidates: Vec<_> = (0..kept.len()).map(|skip| solve_among(gram, n, &without(skip), workspace)).collect();
        let objectives: Vec<f64> = candidates.iter().map(|weights| objective(gram, n, weights)).collect();
        // The first of those that are equal but for rounding: symmetric data must not hang on the last bit.
        let scale = kept.iter().map(|&i| gram[i * n + i]).fold(0.0, f64::max);
        let least = objectives.iter().copied().fold(f64::INFINITY, f64::min) + TOLERANCE * scale;
        let best = objectives.iter().position(|&objective| objective <= least).unwrap_or(0);
        weights = candidates.into_iter().nth(best).expect("more than `most` entries, so at least one to skip");
    }
    while weights.len() > 1 && weights.iter().any(|&(_, w)| w < smallest) {
        let kept: Vec<usize> = weights.iter().filter(|&&(_, w)| w >= smallest).map(|&(i, _)| i).collect();
        weights = solve_among(gram, n, &kept, workspace);
    }
    weights.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    weights
}

/// `wᵀ G w`.
#[must_use]
pub fn objective(gram: &[f64], n: usize, weights: &[(usize, f64)]) -> f64 {
    weights.iter().map(|&(i, wi)| weights.iter().map(|&(j, wj)| wi * wj * gram[i * n + j]).sum::<f64>()).sum()
}

/// Wolfe's algorithm over the candidates `among`.
fn solve_among(gram: &[f64], n: usize, among: &[usize], workspace: &mut Workspace) -> Vec<(usize, f64)> {
    let scale = among.iter().map(|&i| gram[i * n + i]).sum::<f64>() / among.len() as f64;
    let start =
        *among.iter().min_by(|&&a, &&b| gram[a * n + a].total_cmp(&gram[b * n + b])).expect("at least one candidate");
    let mut passive = vec![(start, 1.0)];
    if !(scale > 0.0) {
        return passive;
    }
    // Each candidate enters a few times at most in practice; the bound stops cycling on rounding.
    for _ in 0..3 * among.len() + 10 {
        let gradient = |i: usize| passive.iter().map(|&(j, w)| w * gram[i * n + j]).sum::<f64>();
        let level: f64 = passive.iter().map(|&(i, w)| w * gradient(i)).sum();
        let entering = among
            .iter()
            .copied()
            .filter(|&i| passive.iter().all(|&(j, _)| j != i))
            .map(|i| (i, gradient(i)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match entering {
            Some((i, g)) if g < level - TOLERANCE * scale => passive.push((i, 0.0)),
            _ => break,
        }
        if !shrink_to_hull(gram, n, scale, &mut passive, workspace) {
            break;
        }
    }
    passive
}

/// Moves the passive weights to their affine minimiser, dropping candidates that would turn negative on the way.
fn shrink_to_hull(
    gram: &[f64],
    n: usize,
    scale: f64,
    passive: &mut Vec<(usize, f64)>,
    workspace: &mut Workspace,
) -> bool {
    loop {
        if !affine_minimiser(gram, n, scale, passive, workspace) {
            passive.pop();
            return false;
        }
        let target = &workspace.solution;
        // The largest step towards the target that keeps every weight non-negative.
        let step = passive
            .iter()
            .zip(target)
            .filter(|&(_, &t)| t <= 0.0)
            .map(|(&(_, w), &t)| w / (w - t))
            .fold(1.0_f64, f64::min);
        for ((_, w), &t) in passive.iter_mut().zip(target) {
            *w += step * (t - *w);
        }
        if step >= 1.0 {
            return true;
        }
        let entered = passive.last().map(|&(i, _)| i);
        let smallest = passive.iter().map(|&(_, w)| w).fold(f64::INFINITY, f64::min);
        passive.retain(|&(_, w)| w > smallest.max(0.0) + 1e-14);
        if passive.is_empty() || passive.last().map(|&(i, _)| i) != entered && passive.len() == 1 {
            let total: f64 = passive.iter().map(|&(_, w)| w).sum();
            passive.iter_mut().for_each(|(_, w)| *w /= total);
            return !passive.is_empty();
        }
    }
}

/// `w_P = G_PP⁻¹ 1 / (1ᵀ G_PP⁻¹ 1)` into `workspace.solution`, by Cholesky; false if the matrix is not definite.
fn affine_minimiser(gram: &[f64], n: usize, scale: f64, passive: &[(usize, f64)], workspace: &mut Workspace) -> bool {
    let m = passive.len();
    let Workspace { factor, solution } = workspace;
    factor.clear();
    factor.resize(m * m, 0.0);
    for i in 0..m {
        for j in 0..=i {
            let mut sum = gram[passive[i].0 * n + passive[j].0];
            if i == j {
                sum += RIDGE * scale;
            }
            for k in 0..j {
                sum -= factor[i * m + k] * factor[j * m + k];
            }
            if i == j {
                if sum <= 0.0 {
                    return false;
                }
                factor[i * m + i] = sum.sqrt();
            } else {
                factor[i * m + j] = sum / factor[j * m + j];
            }
        }
    }
    solution.clear();
    solution.resize(m, 1.0);
    for i in 0..m {
        for k in 0..i {
            solution[i] -= factor[i * m + k] * solution[k];
        }
        solution[i] /= factor[i * m + i];
    }
    for i in (0..m).rev() {
        for k in i + 1..m {
            solution[i] -= factor[k * m + i] * solution[k];
        }
        solution[i] /= factor[i * m + i];
    }
    let total: f64 = solution.iter().sum();
    if !(total > 0.0) {
        return false;
    }
    solution.iter_mut().for_each(|w| *w /= total);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Gram matrix of residual vectors.
    fn gram(residuals: &[[f64; 3]]) -> Vec<f64> {
        let dot = |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        residuals.iter().flat_map(|a| residuals.iter().map(move |b| dot(a, b))).collect()
    }

    fn check(residuals: &[[f64; 3]], expected: &[f64]) {
        let weights = solve(&gram(residuals), residuals.len(), &mut Workspace::default());
        let mut dense = vec![0.0; residuals.len()];
        weights.iter().for_each(|&(i, w)| dense[i] = w);
        for (w, e) in dense.iter().zip(expected) {
            // 1e-6: the ridge of 1e-10 over gaps of order one, with room for its square root.
            assert!((w - e).abs() < 1e-6, "{dense:?} instead of {expected:?}");
        }
    }

    #[test]
    fn known_nearest_points() {
        check(&[[1.0, 0.0, 0.0]], &[1.0]);
        check(&[[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]], &[0.5, 0.5]);
        check(&[[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]], &[1.0, 0.0]);
        check(&[[-1.0, 0.0, 0.0], [3.0, 0.0, 0.0]], &[0.75, 0.25]);
        check(&[[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [5.0, 0.0, 0.0]], &[0.5, 0.5, 0.0]);
    }

    #[test]
    fn random_problems_satisfy_the_optimality_conditions() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1_u64 << 31) as f64 - 0.4
        };
        for n in 1..40 {
            let residuals: Vec<[f64; 3]> = (0..n).map(|_| [random(), random(), random() + 0.5]).collect();
            let gram = gram(&residuals);
            let weights = solve(&gram, n, &mut Workspace::default());
            let level = objective(&gram, n, &weights);
            assert!((weights.iter().map(|&(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-12);
            for i in 0..n {
                let gradient: f64 = weights.iter().map(|&(j, w)| w * gram[i * n + j]).sum();
                // The stopping rule's own tolerance, ten times over for the ridge.
                assert!(gradient > level - 1e-8, "{n}: candidate {i} should have entered");
            }
            let sparse = solve_sparse(&gram, n, 2, 1e-3, &mut Workspace::default());
            assert!(sparse.len() <= 2 && sparse.iter().all(|&(_, w)| w >= 1e-3));
            assert!(objective(&gram, n, &sparse) >= level - 1e-9);
        }
    }
}
