//! End-to-end refinement (ours): the predictors again, now for the error of the vertices they end up drawing.
//!
//!   minimise over z = (M_p, H_p):  Σ_e a_e Σ_v ‖ y_v(z, q^e) − y_v^e ‖²  +  λ E₀/(N P) ‖z − z₀‖²
//!
//! z₀ is the paper's solution and E₀ its error. Vertices are linear in the key gradients d: with Z = Φ c₁ the first sum
//! is `tr(dᵀ K d) − 2 tr(dᵀ g^e) + const`, `K = Zᵀ Z` (3P × 3P), so that a step costs nothing with the mesh. The ridge has
//! the size of a prior: a residual of variance E₀ spread over N poses of P proxies against changes of M and H of order one.
//! Minimised by L-BFGS with exact gradients.

use glam::{DMat3, DVec3};
use sinew_linalg::{Cholesky, Mat, MatRef, difference, product, transposed_product};

use super::predictor::{COLUMNS, Predictor};
use super::reduce::{Reduction, stack_bones, stack_gradients};
use super::weights::{Palette, drawing_matrix, drawing_right_side};
use crate::Training;
use crate::geometry::JointRotations;
use crate::geometry::rotation::{exp, left_jacobian};
use crate::methods::ssd::SparseWeights;
use crate::solve::lbfgs::{self, LbfgsParams, LbfgsReport};

/// Numbers of a predictor that are refined: 3 rows of M and 6 of H.
const PARAMETERS: usize = 9 * COLUMNS;

/// How far and how hard to refine.
#[derive(Debug, Clone, PartialEq)]
pub struct RefineParams {
    /// λ, dimensionless, 1 to 100 being the useful range; `None` chooses it by leaving poses out.
    pub ridge: Option<f64>,
    /// When L-BFGS stops.
    pub lbfgs: LbfgsParams,
}

impl Default for RefineParams {
    fn default() -> Self {
        Self { ridge: None, lbfgs: LbfgsParams { iterations: 200, tolerance: 1e-3 } }
    }
}

/// The vertex error as a quadratic in the key gradients.
#[derive(Debug, Clone)]
pub struct Quadratic {
    /// `K = (Φc₁)ᵀ Φc₁`, (3P, 3P).
    k: Mat<f64>,
    /// `g^e = (Φc₁)ᵀ (y − Ψq − Φc₂q)`, the poses side by side, (3P, 3N).
    g: Mat<f64>,
    /// `‖y − Ψq − Φc₂q‖²`, (N).
    constants: Vec<f64>,
}

impl Quadratic {
    /// The error of vertices drawn with `weights` by the proxies of `reduction`.
    #[must_use]
    pub fn new(training: &Training, palette: &Palette, weights: &SparseWeights, reduction: &Reduction) -> Self {
        let unknowns = 4 * palette.proxies;
        let drawing = drawing_matrix(training, palette, weights);
        let drawing = MatRef::from_row_major_slice(&drawing, unknowns, unknowns).to_owned();
        let drawn_c1 = product(drawing.as_ref(), reduction.c1.as_ref());
        let mut g = Mat::zeros(3 * palette.proxies, 3 * training.pose_count());
        let mut constants = Vec::with_capacity(training.pose_count());
        for e in 0..training.pose_count() {
            let (right, square) = drawing_right_side(training, palette, weights, e);
            let right = Mat::from_fn(unknowns, 3, |i, k| right[i][k]);
            let base = product(reduction.c2.as_ref(), stack_bones(&training.transforms[e]).as_ref());
            let linear = difference(
                &transposed_product(reduction.c1.as_ref(), right.as_ref()),
                &transposed_product(drawn_c1.as_ref(), base.as_ref()),
            );
            g.as_mut().get_mut(.., 3 * e..3 * e + 3).copy_from(&linear);
            let drawn_base = product(drawing.as_ref(), base.as_ref());
            let mut constant = square;
            for k in 0..3 {
                for i in 0..unknowns {
                    constant += base[(i, k)] * (drawn_base[(i, k)] - 2.0 * right[(i, k)]);
                }
            }
            constants.push(constant);
        }
        Self { k: transposed_product(reduction.c1.as_ref(), drawn_c1.as_ref()), g, constants }
    }

    /// `K + μ diag K`, factored, (3P, 3P).
    #[must_use]
    pub fn held_system(&self, spread: f64) -> Cholesky {
        let size = self.k.nrows();
        // Directions without any weight: a floor far below the others keeps the matrix definite.
        let floor = 1e-9 * (0..size).map(|i| self.k[(i, i)]).fold(f64::MIN_POSITIVE, f64::max);
        let entry = |i: usize, j: usize| self.k[(i, j)] + if i == j { spread * self.k[(i, i)] + floor } else { 0.0 };
        Cholesky::new((0..size * size).map(|k| entry(k / size, k % size)).collect(), size)
    }

    /// The change of the key gradients `d` (P) of pose `e` that draws the rest of its vertices, by a factor of
    /// [`held_system`](Self::held_system), (P).
    #[must_use]
    pub fn left(&self, system: &Cholesky, e: usize, d: &[DMat3]) -> Vec<DMat3> {
        let drawn = product(self.k.as_ref(), stack_gradients(d).as_ref());
        let row = |i: usize| DVec3::from_array(std::array::from_fn(|k| self.g[(i, 3 * e + k)] - drawn[(i, k)]));
        let right: Vec<DVec3> = (0..self.k.nrows()).map(row).collect();
        system.solve3(&right).as_chunks::<3>().0.iter().map(|&[x, y, z]| DMat3::from_cols(x, y, z)).collect()
    }

    /// What proxy `p`'s key gradient weighs on the vertices.
    #[must_use]
    pub fn mass(&self, p: usize) -> f64 {
        (3 * p..3 * p + 3).map(|i| self.k[(i, i)]).sum()
    }

    /// The weighted error for key gradients of all poses, (3P, 3N), and half its derivative by them.
    fn error(&self, d: &Mat<f64>, weights: &[f64]) -> (f64, Mat<f64>) {
        let mut derivative = product(self.k.as_ref(), d.as_ref());
        let mut error = 0.0;
        for (e, (&a, constant)) in weights.iter().zip(&self.constants).enumerate() {
            let mut sum = *constant;
            for column in 3 * e..3 * e + 3 {
                for row in 0..d.nrows() {
                    let (kd, g) = (derivative[(row, column)], self.g[(row, column)]);
                    sum += d[(row, column)] * (kd - 2.0 * g);
                    derivative[(row, column)] = a * (kd - g);
                }
            }
            error += a * sum;
        }
        (error, derivative)
    }
}

/// Refines `predictors` in place, over poses that count as `weights` say, (N).
pub fn refine(
    joints: &JointRotations,
    quadratic: &Quadratic,
    predictors: &mut [Predictor],
    weights: &[f64],
    params: &RefineParams,
) -> LbfgsReport {
    let regressors: Vec<Vec<[f64; COLUMNS]>> =
        predictors.iter().map(|p| joints.logs.iter().map(|logs| p.regressors(logs)).collect()).collect();
    let start: Vec<f64> = predictors.iter().flat_map(pack).collect();
    let first = predict(joints, predictors, &regressors);
    let (error, _) = quadratic.error(&first, weights);
    // An exact fit has nothing to refine; the floor keeps its rounding from being divided by itself.
    let unit = error.max(1e-14 * quadratic.constants.iter().sum::<f64>()).max(f64::MIN_POSITIVE);
    let poses = weights.iter().filter(|&&a| a > 0.0).count();
    let ridge = params.ridge.unwrap_or(10.0) / (poses * predictors.len()).max(1) as f64;
    let mut current = predictors.to_vec();
    let mut z = start.clone();
    let report = lbfgs::minimise(&mut z, &params.lbfgs, |z, gradient| {
        current.iter_mut().zip(z.as_chunks::<PARAMETERS>().0).for_each(|(p, z)| unpack(p, z));
        let d = predict(joints, &current, &regressors);
        let (error, derivative) = quadratic.error(&d, weights);
        for (p, gradient) in gradient.as_chunks_mut::<PARAMETERS>().0.iter_mut().enumerate() {
            *gradient = [0.0; PARAMETERS];
            for (e, x) in regressors[p].iter().enumerate() {
                let by_d = block(&derivative, p, e) * (2.0 / unit);
                accumulate(&current[p], joints.bones[e][current[p].frame], x, by_d, gradient);
            }
        }
        let mut held = 0.0;
        for ((g, z), start) in gradient.iter_mut().zip(z).zip(&start) {
            held += ridge * (z - start).powi(2);
            *g += 2.0 * ridge * (z - start);
        }
        error / unit + held
    });
    predictors.iter_mut().zip(z.as_chunks::<PARAMETERS>().0).for_each(|(p, z)| unpack(p, z));
    report
}

/// The key gradients of all poses, (3P, 3N).
fn predict(joints: &JointRotations, predictors: &[Predictor], regressors: &[Vec<[f64; COLUMNS]>]) -> Mat<f64> {
    let mut d = Mat::zeros(3 * predictors.len(), 3 * joints.logs.len());
    for (p, predictor) in predictors.iter().enumerate() {
        for (e, x) in regressors[p].iter().enumerate() {
            let m = joints.bones[e][predictor.frame] * exp(predictor.log_rotation(x)) * predictor.stretch(x);
            for column in 0..3 {
                for k in 0..3 {
                    d[(3 * p + column, 3 * e + k)] = m.col(column)[k];
                }
            }
        }
    }
    d
}

/// The derivative by the gradient of proxy `p` in pose `e`, as a matrix of the same layout as the gradient.
fn block(derivative: &Mat<f64>, p: usize, e: usize) -> DMat3 {
    let column = |c: usize| DVec3::from_array(std::array::from_fn(|k| derivative[(3 * p + c, 3 * e + k)]));
    DMat3::from_cols(column(0), column(1), column(2))
}

/// Adds the derivative by M and H of a predictor, given the one by its gradient D = Q R S.
fn accumulate(predictor: &Predictor, frame: DMat3, x: &[f64; COLUMNS], by_d: DMat3, gradient: &mut [f64; PARAMETERS]) {
    let rho = predictor.log_rotation(x);
    let rotation = exp(rho);
    let stretch = predictor.stretch(x);
    // dE = ⟨Qᵀ G Sᵀ, dR⟩ + ⟨(Q R)ᵀ G, dS⟩, and dR = [J dρ]× R.
    let by_rotation = frame.transpose() * by_d * stretch;
    let spin = by_rotation * rotation.transpose();
    let axial = DVec3::new(spin.y_axis.z - spin.z_axis.y, spin.z_axis.x - spin.x_axis.z, spin.x_axis.y - spin.y_axis.x);
    let by_rho = left_jacobian(rho).transpose() * axial;
    let s = (frame * rotation).transpose() * by_d;
    let by_entries =
        [s.x_axis.x, s.y_axis.y, s.z_axis.z, s.x_axis.y + s.y_axis.x, s.x_axis.z + s.z_axis.x, s.y_axis.z + s.z_axis.y];
    let rows = by_rho.to_array().into_iter().chain(by_entries);
    for (row, value) in gradient.chunks_exact_mut(COLUMNS).zip(rows) {
        row.iter_mut().zip(x).for_each(|(g, x)| *g += value * x);
    }
}

fn pack(predictor: &Predictor) -> Vec<f64> {
    predictor.rotation.iter().chain(&predictor.stretch).flatten().copied().collect()
}

fn unpack(predictor: &mut Predictor, z: &[f64; PARAMETERS]) {
    let rows = predictor.rotation.iter_mut().chain(&mut predictor.stretch);
    rows.zip(z.as_chunks::<COLUMNS>().0).for_each(|(row, z)| *row = *z);
}

/// The key gradients that predictors give in pose `e` of the training, (P).
#[must_use]
pub fn key_gradients(joints: &JointRotations, predictors: &[Predictor], e: usize) -> Vec<DMat3> {
    predictors.iter().map(|p| p.gradient(&joints.bones[e], &joints.logs[e])).collect()
}

/// The vertex error for given key gradients (N)(P), poses counting as `weights` say, (N).
#[must_use]
pub fn error_of(quadratic: &Quadratic, gradients: &[Vec<DMat3>], weights: &[f64]) -> f64 {
    let mut d = Mat::zeros(quadratic.k.nrows(), 3 * gradients.len());
    for (e, gradients) in gradients.iter().enumerate() {
        d.as_mut().get_mut(.., 3 * e..3 * e + 3).copy_from(&stack_gradients(gradients));
    }
    quadratic.error(&d, weights).0
}
