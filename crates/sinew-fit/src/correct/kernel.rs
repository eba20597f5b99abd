//! Kernel regression over poses: the matrix of a region's kernel, and how well it predicts poses that it has not seen.
//!
//! With the kernel matrix K (N, N), a ridge `Λ = λ diag(1/a_e)` (a_e how much a pose counts) and the targets Y (N, D),
//! the prediction is `κ(q)ᵀ A Y`, `A = (K + Λ)⁻¹`. The targets enter everything below through their Gram matrix
//! `G = Y Yᵀ` (N, N) alone, so that a kernel is judged in O(N³) however many outputs it has:
//!
//! - leaving the poses g of one example out (a pose, or a pose and its mirror image) and predicting them gives the errors
//!   `A_gg⁻¹ [A Y]_g` (closed form), with the Gram matrix `A_gg⁻¹ [A G A]_gg A_gg⁻¹`;
//! - the same prediction has the variance `A_gg⁻¹` up to the outputs' scale; with that scale profiled out, the log
//!   probability of all examples, each predicted from the others, is per output and up to constants
//!   `−½ (N ln Σ_g tr(A_gg⁻¹ [A G A]_gg) − Σ_g ln det A_gg)` (Rasmussen and Williams, "Gaussian processes for machine
//!   learning", 2006, §5.4.2). It weighs a pose's error by how far the pose is from the others: a stray pose that nothing
//!   could predict does not decide the width.

use nalgebra::DMatrix;

use super::poses::PoseTable;
use crate::cross_validation::together;

/// The kernel of a region: `constant + product · Π_j f_j + additive · mean_j f_j + peak · ν`,
/// `f_j = 1/(1 + d_j²/(2 s_j²))`, `ν` the narrow one of [`PoseTable::peaks`].
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// (index into [`PoseTable::joints`], width s in radians).
    pub joints: Vec<(usize, f64)>,
    /// The constant term.
    pub constant: f64,
    /// The weight of the product.
    pub product: f64,
    /// The weight of the mean.
    pub additive: f64,
    /// The weight of ν; nil for a regression with a ridge.
    pub peak: f64,
}

impl Kernel {
    /// K, (N, N) over the poses of `table`.
    #[must_use]
    pub fn matrix(&self, table: &PoseTable) -> Vec<f64> {
        let size = table.poses * table.poses;
        let (mut product, mut sum) = (vec![1.0; size], vec![0.0; size]);
        for &(c, width) in &self.joints {
            let rate = 0.5 / (width * width);
            for ((product, sum), d) in product.iter_mut().zip(&mut sum).zip(&table.distances[c]) {
                let factor = 1.0 / (1.0 + rate * d);
                *product *= factor;
                *sum += factor;
            }
        }
        // Without joints there is nothing to tell poses apart by: the constant alone.
        let (weight, share) = match self.joints.len() {
            0 => (0.0, 0.0),
            count => (self.product, self.additive / count as f64),
        };
        let mut kernel: Vec<f64> =
            product.iter().zip(&sum).map(|(product, sum)| self.constant + weight * product + share * sum).collect();
        if self.peak > 0.0 {
            kernel.iter_mut().zip(table.peaks()).for_each(|(kernel, peak)| *kernel += self.peak * peak);
        }
        kernel
    }
}

/// A kernel matrix with its ridge, inverted.
#[derive(Debug, Clone)]
pub struct Ridge {
    n: usize,
    /// `A = (K + Λ)⁻¹`, (N, N).
    pub inverse: Vec<f64>,
}

impl Ridge {
    /// Inverts `K + λ diag(1/a_e)`; none if it is not positive definite to rounding.
    #[must_use]
    pub fn new(kernel: &[f64], lambda: f64, weights: &[f64]) -> Option<Self> {
        let n = weights.len();
        let mut matrix = kernel.to_vec();
        for e in 0..n {
            matrix[e * n + e] += lambda / weights[e];
        }
        Some(Self { n, inverse: invert(matrix, n)? })
    }

    /// The squared error of each pose when its example is left out, (N); `sources` (N) says which poses are of the same
    /// example.
    #[must_use]
    pub fn left_out(&self, gram: &[f64], sources: &[usize]) -> Vec<f64> {
        let mut errors = vec![0.0; self.n];
        for poses in together(sources) {
            let (precision, pulled) = self.of_example(gram, &poses);
            let errors_gram = precision.try_inverse().map(|inverse| &inverse * pulled * &inverse);
            for (k, &e) in poses.iter().enumerate() {
                errors[e] = errors_gram.as_ref().map_or(f64::INFINITY, |gram| gram[(k, k)]);
            }
        }
        errors
    }

    /// `N ln Σ_g tr(A_gg⁻¹ [A G A]_gg) − Σ_g ln det A_gg`: twice the negative log probability an output; less is better.
    #[must_use]
    pub fn surprise(&self, gram: &[f64], sources: &[usize]) -> f64 {
        let (mut scale, mut spread) = (0.0, 0.0);
        for poses in together(sources) {
            let (precision, pulled) = self.of_example(gram, &poses);
            let Some(factor) = precision.cholesky() else { return f64::INFINITY };
            scale += factor.solve(&pulled).trace();
            spread += factor.ln_determinant();
        }
        self.n as f64 * f64::max(scale, f64::MIN_POSITIVE).ln() - spread
    }

    /// `A_gg` and `[A G A]_gg` for the poses g of one example.
    fn of_example(&self, gram: &[f64], poses: &[usize]) -> (DMatrix<f64>, DMatrix<f64>) {
        let (n, a) = (self.n, &self.inverse);
        let row = |e: usize| &a[e * n..(e + 1) * n];
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let pulled: Vec<Vec<f64>> =
            poses.iter().map(|&i| (0..n).map(|j| dot(&gram[j * n..(j + 1) * n], row(i))).collect()).collect();
        let size = poses.len();
        (
            DMatrix::from_fn(size, size, |i, j| row(poses[i])[poses[j]]),
            DMatrix::from_fn(size, size, |i, j| dot(&pulled[i], row(poses[j]))),
        )
    }
}

/// The inverse of a symmetric positive definite matrix (n, n), by Cholesky.
fn invert(mut l: Vec<f64>, n: usize) -> Option<Vec<f64>> {
    for j in 0..n {
        for i in j..n {
            let (upper, lower) = l.split_at(i * n);
            let row_i = &lower[..j];
            let row_j = if i == j { row_i } else { &upper[j * n..j * n + j] };
            let sum = lower[j] - row_i.iter().zip(row_j).map(|(a, b)| a * b).sum::<f64>();
            if i == j {
                if !(sum > 1e-14) {
                    return None;
                }
                l[i * n + j] = sum.sqrt();
            } else {
                l[i * n + j] = sum / l[j * n + j];
            }
        }
    }
    // L⁻¹, row by row; stored transposed so that the products below run along rows.
    let mut columns = vec![0.0; n * n];
    for j in 0..n {
        let column = &mut columns[j * n..(j + 1) * n];
        column[j] = 1.0 / l[j * n + j];
        for i in j + 1..n {
            let sum: f64 = l[i * n + j..i * n + i].iter().zip(&column[j..i]).map(|(a, b)| a * b).sum();
            column[i] = -sum / l[i * n + i];
        }
    }
    // A = L⁻ᵀ L⁻¹: A_ij = Σ_k≥max(i,j) L⁻¹_ki L⁻¹_kj.
    let mut inverse = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let dot = columns[i * n + i..(i + 1) * n].iter().zip(&columns[j * n + i..(j + 1) * n]);
            let sum: f64 = dot.map(|(a, b)| a * b).sum();
            inverse[i * n + j] = sum;
            inverse[j * n + i] = sum;
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_matrix(n: usize) -> Vec<f64> {
        let at = |i: usize| (i * i) as f64 * 0.37 % 3.0;
        (0..n * n).map(|k| 1.0 / (1.0 + (at(k / n) - at(k % n)).powi(2))).collect()
    }

    #[test]
    fn the_inverse_is_one() {
        let n = 9;
        let matrix = kernel_matrix(n);
        let ridge = Ridge::new(&matrix, 1e-2, &vec![1.0; n]).unwrap();
        for i in 0..n {
            for j in 0..n {
                let product: f64 = (0..n)
                    .map(|k| (matrix[i * n + k] + if i == k { 1e-2 } else { 0.0 }) * ridge.inverse[k * n + j])
                    .sum();
                // 1e-10: rounding times the condition number, below 1e4 with this ridge.
                assert!((product - f64::from(u8::from(i == j))).abs() < 1e-10);
            }
        }
    }

    #[test]
    fn the_closed_form_leaves_an_example_out() {
        let n = 7;
        let (matrix, y): (_, Vec<f64>) = (kernel_matrix(n), (0..n).map(|i| (i as f64 * 1.7).sin()).collect());
        let weights: Vec<f64> = (0..n).map(|i| 0.5 + i as f64 * 0.2).collect();
        let gram: Vec<f64> = (0..n * n).map(|k| y[k / n] * y[k % n]).collect();
        // Every pose by itself, and poses 1 and 5 of one example.
        for sources in [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 1, 6]] {
            let closed = Ridge::new(&matrix, 0.05, &weights).unwrap().left_out(&gram, &sources);
            for i in 0..n {
                let kept: Vec<usize> = (0..n).filter(|&e| sources[e] != sources[i]).collect();
                let m = kept.len();
                let small: Vec<f64> = (0..m * m).map(|k| matrix[kept[k / m] * n + kept[k % m]]).collect();
                let small_weights: Vec<f64> = kept.iter().map(|&e| weights[e]).collect();
                let inverse = Ridge::new(&small, 0.05, &small_weights).unwrap().inverse;
                let predicted: f64 = (0..m)
                    .map(|a| matrix[i * n + kept[a]] * (0..m).map(|b| inverse[a * m + b] * y[kept[b]]).sum::<f64>())
                    .sum();
                // 1e-10: two ways to the same number, each rounding at 1e-16 times condition numbers below 1e3.
                assert!((closed[i] - (predicted - y[i]).powi(2)).abs() < 1e-10);
            }
        }
    }
}
