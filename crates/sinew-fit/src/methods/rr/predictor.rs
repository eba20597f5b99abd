//! Rotational regression (Wang, thesis 2007, section 2.2): a triangle's, or proxy bone's, rotation from a joint's.
//!
//!   minimise Σ_e a_e ‖u W θ̃_b^e − ρ̃^e‖²,   ρ̃^e = log(Q_parent(b)ᵀ R^e),   u a number, W a rotation
//!
//! by turns: given W, `u = Σ ρ̃·Wθ̃ / Σ ‖θ̃‖²`; given u, W is the rotation nearest to `Σ ρ̃ θ̃ᵀ` (Procrustes), with a
//! little of the identity so that a joint with one axis leaves no freedom. Before each turn ρ̃ moves to the branch of the
//! logarithm nearest to the prediction. Every joint is tried and the best kept; then what is left of ρ̃ is fitted to a
//! second joint. The two act in one exponential, `exp(u₁W₁θ̃₁ + u₂W₂θ̃₂)`, which to first order is the product of the
//! two rotations, and half the cost.
//!
//! A predictor has columns for the second order of the joints' rotations as well ([`joint_features`]). They are zero in
//! the paper's solution; the refinement uses them, for muscles do not bulge in proportion to an angle.

use glam::{DMat3, DVec3};

use crate::Training;
use crate::cross_validation::together;
use crate::geometry::JointRotations;
use crate::geometry::gradient::{polar, procrustes};
use crate::geometry::rotation::{exp, log, rebranch};

use super::scale_shear;

/// Joints a predictor sees: the best, its second, and the best one's parent for the stretch.
pub const JOINTS: usize = 3;

/// What a predictor sees of a joint: three numbers of first order and six of second.
pub const FEATURES: usize = 9;

/// Columns of a predictor: the joints' features and the constant.
pub const COLUMNS: usize = FEATURES * JOINTS + 1;

/// The identity's share in the Procrustes problem, relative to what the data give: enough to decide, not to bend.
const TOWARD_IDENTITY: f64 = 1e-3;

/// Turns of u and W at most; exact data need one.
const TURNS: usize = 12;

/// A joint farther from the proxy's home bone must be better by this fraction a step of the skeleton.
const DISTANCE_PENALTY: f64 = 0.02;

/// A second joint must take away at least this fraction of the first one's error; before a refinement in poses that it was
/// fitted without: among many joints and few poses, chance alone finds one that fits the poses it has seen.
const SECOND_GAIN: f64 = 0.1;

/// How a predictor's rotation depends on the joints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PredictorForm {
    /// The paper's: a scale factor and a rotation a joint, `u W θ̃`.
    Offset,
    /// A general matrix over the joints, by ridge regression.
    Matrix,
    /// For each predictor the one that predicts left-out poses better.
    #[default]
    Auto,
}

/// How predictors are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PredictorParams {
    /// The form of the rotation.
    pub form: PredictorForm,
    /// Whether a refinement follows. A joint then brings [`FEATURES`] free columns instead of a scale and a rotation, and a
    /// second one must predict poses that it was fitted without.
    pub refined: bool,
}

/// `D(q) = Q_frame exp(M x) (I + sym(H x))`, `x = [φ(θ̃_{b₁}), φ(θ̃_{b₂}), φ(θ̃_{b₃}), 1]`, φ the [`joint_features`].
#[derive(Debug, Clone, PartialEq)]
pub struct Predictor {
    /// The bone whose rotation carries the predicted one: the parent of the first joint.
    pub frame: usize,
    /// The joints.
    pub joints: [usize; JOINTS],
    /// M.
    pub rotation: [[f64; COLUMNS]; 3],
    /// H: the entries xx, yy, zz, xy, xz, yz of S − I.
    pub stretch: [[f64; COLUMNS]; 6],
    /// The paper's u of the first joint, for reports.
    pub scale: f64,
}

impl Predictor {
    /// The regressors `x` of a pose's joint logs, (J).
    #[must_use]
    pub fn regressors(&self, logs: &[DVec3]) -> [f64; COLUMNS] {
        regressors(&self.joints, logs)
    }

    /// `D(q)` for a pose's rotations `Q_b` (J) and joint logs (J).
    #[must_use]
    pub fn gradient(&self, bones: &[DMat3], logs: &[DVec3]) -> DMat3 {
        let x = self.regressors(logs);
        bones[self.frame] * exp(self.log_rotation(&x)) * self.stretch(&x)
    }

    /// `M x`.
    #[must_use]
    pub fn log_rotation(&self, x: &[f64; COLUMNS]) -> DVec3 {
        DVec3::from_array(self.rotation.each_ref().map(|row| dot(row, x)))
    }

    /// `I + sym(H x)`.
    #[must_use]
    pub fn stretch(&self, x: &[f64; COLUMNS]) -> DMat3 {
        symmetric(self.stretch.each_ref().map(|row| dot(row, x))) + DMat3::IDENTITY
    }
}

fn dot(a: &[f64; COLUMNS], b: &[f64; COLUMNS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The symmetric matrix of its entries xx, yy, zz, xy, xz, yz.
#[must_use]
pub fn symmetric([xx, yy, zz, xy, xz, yz]: [f64; 6]) -> DMat3 {
    DMat3::from_cols(DVec3::new(xx, xy, xz), DVec3::new(xy, yy, yz), DVec3::new(xz, yz, zz))
}

/// The regressors `x` of a pose's joint logs, (J).
#[must_use]
pub fn regressors(joints: &[usize; JOINTS], logs: &[DVec3]) -> [f64; COLUMNS] {
    let mut x = [1.0; COLUMNS];
    for (features, &b) in x.as_chunks_mut::<FEATURES>().0.iter_mut().zip(joints) {
        *features = joint_features(logs[b]);
    }
    x
}

/// `φ(θ) = [θ, (1 − cos ‖θ‖)/‖θ‖² (θx², θy², θz², θxθy, θxθz, θyθz)]`: the rotation to first and second order. The factor
/// is one half for small angles and keeps the second order bounded, so that poses beyond the examples do not run away.
#[must_use]
pub fn joint_features(theta: DVec3) -> [f64; FEATURES] {
    let square = theta.length_squared();
    // Below 1e-4 radians the quotient loses more digits than the series' next term is worth.
    let factor = if square < 1e-8 { 0.5 } else { (1.0 - square.sqrt().cos()) / square };
    let DVec3 { x, y, z } = theta;
    let second = [x * x, y * y, z * z, x * y, x * z, y * z].map(|product| factor * product);
    std::array::from_fn(|k| if k < 3 { theta[k] } else { second[k - 3] })
}

/// The regressors with the second order left out, as the paper has them.
fn first_order(mut x: [f64; COLUMNS]) -> [f64; COLUMNS] {
    for features in x.as_chunks_mut::<FEATURES>().0 {
        features[3..].fill(0.0);
    }
    x
}

/// Fits a predictor to a sequence of gradients, (N), that count as `weights` say, (N). `home` is the bone that the
/// sequence is nearest to.
#[must_use]
pub fn fit(
    training: &Training,
    joints: &JointRotations,
    gradients: &[DMat3],
    weights: &[f64],
    home: usize,
    params: PredictorParams,
) -> Predictor {
    let form = params.form;
    let (rotations, stretches): (Vec<DMat3>, Vec<DMat3>) = gradients.iter().map(|&d| polar(d)).unzip();
    let first = best_joint(training, joints, &rotations, weights, home);
    let second = second_joint(training, joints, weights, &first, params.refined);
    let parent = training.skeleton.parent(first.joint);
    let chosen = distinct_joints(training, [first.joint, second.as_ref().map_or(parent, |s| s.joint), parent]);
    let regressors: Vec<[f64; COLUMNS]> =
        joints.logs.iter().map(|logs| first_order(regressors(&chosen, logs))).collect();
    let mut rotation = [[0.0; COLUMNS]; 3];
    put(&mut rotation, 0, first.offset * first.scale);
    if let Some(second) = &second {
        put(&mut rotation, 1, second.offset * second.scale);
    }
    if form != PredictorForm::Offset {
        let sources = &training.sources;
        let (error, matrix) = fit_matrix(joints, &first, &regressors, weights, sources);
        if form == PredictorForm::Matrix || error < left_out_error(joints, &first, second.as_ref(), weights, sources) {
            rotation = matrix;
        }
    }
    Predictor {
        frame: parent,
        joints: chosen,
        rotation,
        stretch: scale_shear::fit(&regressors, &stretches, weights, &training.sources),
        scale: first.scale,
    }
}

/// ρ̃ on the branch that the first joint's fit ended on, (N).
fn log_rotations(joints: &JointRotations, first: &JointFit) -> Vec<DVec3> {
    let m = first.offset * first.scale;
    first.left.iter().zip(&joints.logs).map(|(&left, logs)| left + m * logs[first.joint]).collect()
}

/// A general matrix by ridge regression, and its leave-one-out error.
fn fit_matrix(
    joints: &JointRotations,
    first: &JointFit,
    regressors: &[[f64; COLUMNS]],
    weights: &[f64],
    sources: &[usize],
) -> (f64, [[f64; COLUMNS]; 3]) {
    let outputs: Vec<[f64; 3]> = log_rotations(joints, first).iter().map(DVec3::to_array).collect();
    scale_shear::ridge_by_leave_one_out(regressors, &outputs, weights, sources, false)
}

/// The leave-one-out error of `u₁W₁θ̃₁ + u₂W₂θ̃₂`, the joints kept, u and W fitted anew without each pose and those of the
/// same source.
fn left_out_error(
    joints: &JointRotations,
    first: &JointFit,
    second: Option<&JointFit>,
    weights: &[f64],
    sources: &[usize],
) -> f64 {
    let rho = log_rotations(joints, first);
    let theta = |b: usize| -> Vec<DVec3> { joints.logs.iter().map(|logs| logs[b]).collect() };
    let first_theta = theta(first.joint);
    let second_theta = second.map(|second| theta(second.joint));
    let mut error = 0.0;
    for group in together(sources) {
        let mut kept = weights.to_vec();
        group.iter().for_each(|&e| kept[e] = 0.0);
        let one = fit_from(first.joint, &first_theta, &rho, &kept, None);
        let two = second_theta.as_ref().map(|theta| (theta, fit_from(0, theta, &one.left, &kept, None)));
        for e in group {
            let mut left = rho[e] - one.offset * one.scale * first_theta[e];
            if let Some((theta, two)) = &two {
                left -= two.offset * two.scale * theta[e];
            }
            error += weights[e] * left.length_squared();
        }
    }
    error
}

/// Puts a 3×3 matrix into the columns of joint `k`.
fn put(rotation: &mut [[f64; COLUMNS]; 3], k: usize, m: DMat3) {
    for (row, entries) in rotation.iter_mut().enumerate() {
        entries[FEATURES * k..FEATURES * k + 3].copy_from_slice(&m.row(row).to_array());
    }
}

/// The joints without repeats: a repeat gives way to a child or sibling of the first, which may matter too.
fn distinct_joints(training: &Training, wanted: [usize; JOINTS]) -> [usize; JOINTS] {
    let skeleton = &training.skeleton;
    let first = wanted[0];
    let spare = skeleton.children(first).chain(skeleton.children(skeleton.parent(first)));
    let mut chosen: Vec<usize> = Vec::with_capacity(JOINTS);
    for b in wanted.into_iter().chain(spare) {
        if !chosen.contains(&b) && b != skeleton.root() && chosen.len() < JOINTS {
            chosen.push(b);
        }
    }
    std::array::from_fn(|k| chosen.get(k).copied().unwrap_or(first))
}

/// A joint's fit: `ρ̃ ≈ u W θ̃`.
#[derive(Debug, Clone)]
struct JointFit {
    joint: usize,
    scale: f64,
    offset: DMat3,
    error: f64,
    /// `ρ̃ − u W θ̃` on the fit's branch, (N).
    left: Vec<DVec3>,
}

/// Tries every joint.
fn best_joint(
    training: &Training,
    joints: &JointRotations,
    rotations: &[DMat3],
    weights: &[f64],
    home: usize,
) -> JointFit {
    let skeleton = &training.skeleton;
    let steps = steps_from(training, home);
    let try_joint = |b: usize| {
        let parent = skeleton.parent(b);
        let rho: Vec<DVec3> =
            rotations.iter().zip(&joints.bones).map(|(&r, q)| log(q[parent].transpose() * r)).collect();
        let theta: Vec<DVec3> = joints.logs.iter().map(|logs| logs[b]).collect();
        fit_offset(b, &theta, &rho, weights, true)
    };
    // A floor under the error, so that among perfect joints the nearest wins: (0.01°)² a pose.
    let floor = 3e-8 * rotations.len() as f64;
    let price = |fit: &JointFit| (fit.error + floor) * (1.0 + DISTANCE_PENALTY * steps[fit.joint] as f64);
    let candidates = (0..training.bone_count()).filter(|&b| b != skeleton.root()).map(try_joint);
    candidates.min_by(|a, b| price(a).total_cmp(&price(b))).unwrap_or_else(|| try_joint(skeleton.root()))
}

/// Fits what the first joint leaves to the other joint that predicts it best; nothing if none takes enough away.
fn second_joint(
    training: &Training,
    joints: &JointRotations,
    weights: &[f64],
    first: &JointFit,
    refined: bool,
) -> Option<JointFit> {
    // Two joints of four unknowns each: fewer than three poses cannot tell them apart.
    if training.pose_count() < 3 {
        return None;
    }
    let steps = steps_from(training, first.joint);
    let try_joint = |b: usize| {
        let theta: Vec<DVec3> = joints.logs.iter().map(|logs| logs[b]).collect();
        fit_offset(b, &theta, &first.left, weights, false)
    };
    let price = |b: usize| {
        let theta: Vec<DVec3> = joints.logs.iter().map(|logs| logs[b]).collect();
        let unseen =
            || left_out(training, &theta, &first.left, weights).iter().map(|(a, left)| a * left.length_squared()).sum();
        let error: f64 = if refined { unseen() } else { try_joint(b).error };
        error * (1.0 + DISTANCE_PENALTY * steps[b] as f64)
    };
    (0..training.bone_count())
        .filter(|&b| b != training.skeleton.root() && b != first.joint)
        .map(|b| (price(b), b))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(price, _)| *price < (1.0 - SECOND_GAIN) * first.error)
        .map(|(_, b)| try_joint(b))
}

/// What `u W θ̃` leaves of ρ̃ in each pose that counts when it is fitted without the pose's example: (weight, error).
fn left_out(training: &Training, theta: &[DVec3], rho: &[DVec3], weights: &[f64]) -> Vec<(f64, DVec3)> {
    let mut errors = Vec::with_capacity(rho.len());
    for poses in together(&training.sources) {
        let mut kept = weights.to_vec();
        poses.iter().for_each(|&e| kept[e] = 0.0);
        if kept == weights {
            continue;
        }
        let fit = fit_from(0, theta, rho, &kept, None);
        let left = |&e: &usize| (weights[e], rho[e] - fit.offset * fit.scale * theta[e]);
        errors.extend(poses.iter().filter(|&&e| weights[e] > 0.0).map(left));
    }
    errors
}

/// Fits u and W by turns, from the paper's start and, with branches to choose, from "turns as the joint does".
fn fit_offset(joint: usize, theta: &[DVec3], rho: &[DVec3], weights: &[f64], branches: bool) -> JointFit {
    let from_start = fit_from(joint, theta, rho, weights, None);
    let wraps = branches && rho.iter().chain(theta).any(|r| r.length() > 2.0);
    if !wraps {
        return from_start;
    }
    [1.0, 0.5]
        .into_iter()
        .map(|u| fit_from(joint, theta, rho, weights, Some(u)))
        .fold(from_start, |best, next| if next.error < best.error - 1e-12 { next } else { best })
}

/// Fits by turns. With a `start`, ρ̃ begins on the branch nearest to `start · θ̃`.
fn fit_from(joint: usize, theta: &[DVec3], rho: &[DVec3], weights: &[f64], start: Option<f64>) -> JointFit {
    let mut rho = rho.to_vec();
    if let Some(u) = start {
        rho.iter_mut().zip(theta).for_each(|(r, &t)| *r = rebranch(*r, u * t));
    }
    let square: f64 = theta.iter().zip(weights).map(|(t, a)| a * t.length_squared()).sum();
    let still = |rho: Vec<DVec3>| JointFit {
        joint,
        scale: 0.0,
        offset: DMat3::IDENTITY,
        error: rho.iter().zip(weights).map(|(r, a)| a * r.length_squared()).sum(),
        left: rho,
    };
    // A joint that does not move, by a hundredth of a degree, predicts nothing.
    if square < 3e-8 * theta.len() as f64 {
        return still(rho);
    }
    // The paper's start: u from the angles alone.
    let lengths = |(r, (t, a)): (&DVec3, (&DVec3, &f64))| a * r.length() * t.length();
    let mut scale = rho.iter().zip(theta.iter().zip(weights)).map(lengths).sum::<f64>() / square;
    let mut offset = DMat3::IDENTITY;
    let mut error = f64::INFINITY;
    for _ in 0..TURNS {
        offset = best_offset(theta, &rho, weights, scale);
        let along = |(r, (&t, a)): (&DVec3, (&DVec3, &f64))| a * r.dot(offset * t);
        scale = rho.iter().zip(theta.iter().zip(weights)).map(along).sum::<f64>() / square;
        let m = offset * scale;
        rho.iter_mut().zip(theta).for_each(|(r, &t)| *r = rebranch(*r, m * t));
        let now: f64 =
            rho.iter().zip(theta.iter().zip(weights)).map(|(r, (&t, a))| a * (*r - m * t).length_squared()).sum();
        let converged = now > error * (1.0 - 1e-9);
        error = now;
        if converged {
            break;
        }
    }
    let m = offset * scale;
    JointFit { joint, scale, offset, error, left: rho.iter().zip(theta).map(|(&r, &t)| r - m * t).collect() }
}

/// The rotation W nearest to `sign(u) Σ a ρ̃ θ̃ᵀ`.
fn best_offset(theta: &[DVec3], rho: &[DVec3], weights: &[f64], scale: f64) -> DMat3 {
    let mut correlation = DMat3::ZERO;
    for (&r, (&t, &a)) in rho.iter().zip(theta.iter().zip(weights)) {
        correlation += DMat3::from_cols(r * t.x, r * t.y, r * t.z) * (a * scale.signum());
    }
    let size = correlation.to_cols_array().iter().map(|c| c * c).sum::<f64>().sqrt();
    procrustes(correlation + DMat3::IDENTITY * (TOWARD_IDENTITY * size))
}

/// Steps along the skeleton from bone `home` to each bone, (J).
fn steps_from(training: &Training, home: usize) -> Vec<usize> {
    let skeleton = &training.skeleton;
    let ancestors = |mut b: usize| {
        let mut line = vec![b];
        while b != skeleton.root() {
            b = skeleton.parent(b);
            line.push(b);
        }
        line
    };
    let of_home = ancestors(home);
    (0..training.bone_count())
        .map(|b| {
            let line = ancestors(b);
            let meeting = line.iter().position(|a| of_home.contains(a)).unwrap_or(line.len());
            meeting + of_home.iter().position(|&a| line.get(meeting) == Some(&a)).unwrap_or(of_home.len())
        })
        .collect()
}
