//! Which terms earn their place: orthogonal matching pursuit (Pati, Rezaiifar and Krishnaprasad, "Orthogonal matching
//! pursuit: recursive function approximation with applications to wavelet decomposition", 1993) for many targets at once.
//!
//! With the values F (N, M) of the candidates, made orthogonal to what was chosen, and the residual R (N, D), the next term is the
//! one that lowers `‖R‖²` most, by `‖F_iᵀ R‖² / ‖F_i‖²`. Only the products C = FᵀR and the lengths are kept up to date:
//! with q the chosen column, of length one, `C ← C − (Fᵀq)(qᵀR)`.

use nalgebra::DMatrix;

/// A column of which less than this is left (squared, of its length) says nothing that was not said.
const LEFT: f64 = 1e-6;

/// A chosen term.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Its column.
    pub term: usize,
    /// By how much it lowers the squared residual.
    pub gain: f64,
}

/// Up to `most` columns of `f` (N, M) for the targets `r` (N, D), column 0 first.
#[must_use]
pub fn pursue(mut f: DMatrix<f64>, r: &DMatrix<f64>, most: usize) -> Vec<Step> {
    let mut products = f.tr_mul(r);
    let lengths: Vec<f64> = f.column_iter().map(|c| c.norm_squared()).collect();
    let mut left = lengths.clone();
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < most.min(lengths.len()) {
        let gain = |i: usize| match left[i] > LEFT * lengths[i] {
            true => products.row(i).norm_squared() / left[i],
            false => 0.0,
        };
        let best = match steps.is_empty() {
            true => 0,
            // The first of equal ones.
            false => (1..lengths.len()).fold(0, |best, i| if gain(i) > gain(best) * (1.0 + 1e-9) { i } else { best }),
        };
        let gained = gain(best);
        if !(gained > 0.0) {
            break;
        }
        let q = f.column(best) / f.column(best).norm();
        let along = f.tr_mul(&q);
        let target = products.row(best) / left[best].sqrt();
        products -= &along * &target;
        f -= &q * along.transpose();
        for (i, left) in left.iter_mut().enumerate() {
            *left = f.column(i).norm_squared();
        }
        left[best] = 0.0;
        steps.push(Step { term: best, gain: gained });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_terms_are_found_and_nothing_else() {
        let mut rng = sinew_examples::Rng::new(3);
        let f = DMatrix::from_fn(60, 20, |_, c| if c == 0 { 1.0 } else { rng.range(-1.0, 1.0) });
        let r = DMatrix::from_fn(60, 3, |e, d| 2.0 * f[(e, 7)] - (d as f64) * f[(e, 13)] + 0.5);
        let steps = pursue(f, &r, 10);
        let mut found: Vec<usize> = steps[..3].iter().map(|s| s.term).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 7, 13], "{steps:?}");
        let total: f64 = r.norm_squared();
        // Three columns explain all but rounding.
        assert!(steps[..3].iter().map(|s| s.gain).sum::<f64>() > total * (1.0 - 1e-12));
        assert!(steps[3..].iter().all(|s| s.gain < 1e-20 * total), "{steps:?}");
    }
}
