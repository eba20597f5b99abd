//! The small sums of rotational regression: predictors' rows and the blocks of c₁ and c₂, eight lanes at a time.
//!
//! Both are sums of (coefficients × one number) or (coefficient × column); the coefficients are laid out once so that a
//! lane meets the number it belongs to: a predictor's nine rows stand side by side, and a block's entry (r, c) is
//! repeated over the lanes of column r of the proxy's transform.

use super::lanes::{Kernel, Lanes, Row};
use crate::deform::{BlockRows, GradientPredictors, RotationalRegression};

/// Two registers: sixteen lanes.
type Pair = [Row; 2];

/// A regression's coefficients laid out for the kernels.
#[derive(Debug, Clone)]
pub(crate) struct Regression {
    /// Rows of M and H side by side (three and six, then nothing), (K, C).
    predictors: Vec<Pair>,
    c1: Vec<[Pair; 3]>,
    c2: Vec<[Pair; 4]>,
}

impl Regression {
    pub fn new(d: &RotationalRegression) -> Self {
        Self { predictors: side_by_side(&d.predictors), c1: spread(&d.c1), c2: spread(&d.c2) }
    }
}

fn side_by_side(predictors: &GradientPredictors) -> Vec<Pair> {
    let columns = predictors.columns();
    let entry = |k: usize, row: usize, c: usize| match row {
        0..3 => predictors.rotation[(k * 3 + row) * columns + c],
        3..9 => predictors.stretch[(k * 6 + row - 3) * columns + c],
        _ => 0.0,
    };
    let pair = |k: usize, c: usize| [0, 8].map(|first| Row(std::array::from_fn(|lane| entry(k, first + lane, c))));
    (0..predictors.len()).flat_map(|k| (0..columns).map(move |c| (k, c))).map(|(k, c)| pair(k, c)).collect()
}

/// Column r of a transform takes lanes 4 r … 4 r + 3 of the two registers.
fn spread<const C: usize>(rows: &BlockRows<C>) -> Vec<[Pair; C]> {
    let pair =
        |block: &[[f32; C]; 4], c: usize| [0, 2].map(|r| Row(std::array::from_fn(|lane| block[r + lane / 4][c])));
    rows.blocks.iter().map(|block| std::array::from_fn(|c| pair(block, c))).collect()
}

/// `[M; H] x` of every predictor: ρ̃ in lanes 0 … 2, S − I in 3 … 8.
pub(crate) struct Predict<'a> {
    pub regression: &'a Regression,
    pub predictors: &'a GradientPredictors,
    /// What predictors see of each joint, (J).
    pub features: &'a [[f32; crate::joint_rotations::FEATURES]],
    /// (K).
    pub sums: &'a mut [Pair],
}

impl Kernel for Predict<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, s: L) {
        let Self { regression, predictors, features, sums } = self;
        let (columns, width, used) = (predictors.columns(), predictors.width, predictors.features);
        for (k, out) in sums.iter_mut().enumerate() {
            let rows = &regression.predictors[k * columns..(k + 1) * columns];
            let last = &rows[columns - 1];
            let mut sum = [s.load(&last[0]), s.load(&last[1])];
            for (w, &joint) in predictors.joints[k * width..(k + 1) * width].iter().enumerate() {
                let x = &features[joint as usize][..used];
                for (row, &x) in rows[w * used..(w + 1) * used].iter().zip(x) {
                    let x = s.splat(x);
                    sum[0] = s.mul_add(s.load(&row[0]), x, sum[0]);
                    sum[1] = s.mul_add(s.load(&row[1]), x, sum[1]);
                }
            }
            *out = [Row(s.array(sum[0])), Row(s.array(sum[1]))];
        }
    }
}

/// `t = c₁ d + c₂ q`, the columns of every proxy bone's transform in the root's frame.
pub(crate) struct Proxies<'a> {
    pub regression: &'a Regression,
    pub model: &'a RotationalRegression,
    /// Columns of the key gradients, each twice in its row, (P, 3).
    pub gradients: &'a [Row],
    /// Columns of the bones' transforms, each twice in its row, (J, 4).
    pub bones: &'a [Row],
    /// (P): columns 0, 1 and 2, 3.
    pub transforms: &'a mut [Pair],
}

impl Kernel for Proxies<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, s: L) {
        let Self { regression, model, gradients, bones, transforms } = self;
        for (p, out) in transforms.iter_mut().enumerate() {
            // A sum of its own for each column c: a single chain would wait for itself.
            let mut sums = [[s.splat(0.0); 2]; 4];
            let range = model.c1.starts[p] as usize..model.c1.starts[p + 1] as usize;
            for (&k, block) in model.c1.columns[range.clone()].iter().zip(&regression.c1[range]) {
                let columns = &gradients[3 * k as usize..3 * k as usize + 3];
                for c in 0..3 {
                    let column = s.load(&columns[c]);
                    sums[c][0] = s.mul_add(s.load(&block[c][0]), column, sums[c][0]);
                    sums[c][1] = s.mul_add(s.load(&block[c][1]), column, sums[c][1]);
                }
            }
            let range = model.c2.starts[p] as usize..model.c2.starts[p + 1] as usize;
            for (&b, block) in model.c2.columns[range.clone()].iter().zip(&regression.c2[range]) {
                let columns = &bones[4 * b as usize..4 * b as usize + 4];
                for c in 0..4 {
                    let column = s.load(&columns[c]);
                    sums[c][0] = s.mul_add(s.load(&block[c][0]), column, sums[c][0]);
                    sums[c][1] = s.mul_add(s.load(&block[c][1]), column, sums[c][1]);
                }
            }
            for half in 0..2 {
                let total = s.add(s.add(sums[0][half], sums[1][half]), s.add(sums[2][half], sums[3][half]));
                out[half] = Row(s.array(total));
            }
        }
    }
}
