//! What the fit tells: how good, where error remains, which joints drive what.

use glam::DAffine3;

use super::weights::{solve_transforms, vertex_errors};
use super::{Prepared, RrFit};
use crate::methods::ssd::SparseWeights;
use crate::{FitReport, Training};

/// Bones named in the report for what remains of the error.
const WORST_BONES: usize = 5;

/// The yardstick of the enveloping error over the training poses: `Σ_v min_b Σ_e a_e ‖T_b^e v̂ − y_v^e‖²`.
#[must_use]
pub fn rigid_error(training: &Training) -> f64 {
    use rayon::prelude::*;
    let of_bone = |v: usize, b: usize| -> f64 {
        let squared = |e: usize| training.carried(e, b, v).distance_squared(training.vertices[e][v]);
        (0..training.pose_count()).map(|e| training.pose_weights[e] * squared(e)).sum()
    };
    let best = |v: usize| (0..training.bone_count()).map(|b| of_bone(v, b)).fold(f64::INFINITY, f64::min);
    let errors: Vec<f64> = (0..training.vertex_count()).into_par_iter().map(best).collect();
    errors.iter().sum()
}

/// A squared error as enveloping error, in words.
#[must_use]
pub fn percent(squared: f64, rigid: f64) -> String {
    format!("{:.2} % EE", 100.0 * (squared / rigid).sqrt())
}

/// Adds what is known of `fit` to the report; `rigid` is [`rigid_error`].
pub(super) fn describe(
    training: &Training,
    skin: &SparseWeights,
    prepared: &Prepared,
    fit: &RrFit,
    rigid: f64,
    held_out: Option<f64>,
    report: &mut FitReport,
) {
    report.rigid = Some(rigid).filter(|rigid| *rigid > 0.0);
    let enveloping = |squared: f64| report.rigid.map_or("0.00 % EE".into(), |rigid| percent(squared, rigid));
    let transforms: Vec<Vec<DAffine3>> = (0..training.pose_count()).map(|e| fit.transforms(training, e)).collect();
    let errors = vertex_errors(training, &fit.weights, &transforms);
    let limit = solve_transforms(training, &fit.palette, &fit.weights, &prepared.normals, &transforms);
    let train = errors.iter().sum();
    let expected = held_out.map(|squared| expected_error(train, squared));
    let told = [
        ("training error", Some(train)),
        ("limit (best possible transforms)", Some(vertex_errors(training, &fit.weights, &limit).iter().sum())),
        ("error on left-out training poses", held_out),
        ("expected on unseen poses", expected),
    ]
    .map(|(name, squared)| (name, squared.map(enveloping)));
    report.found("proxy bones", fit.palette.proxies);
    for (name, words) in told {
        words.into_iter().for_each(|words| report.found(name, words));
    }
    report.expected = expected.zip(report.rigid).map(|(expected, rigid)| (expected / rigid).sqrt());
    report.found("near-rigid vertices", format!("{} of {}", prepared.near_rigid.count(), training.vertex_count()));
    report.found("error remains at", remaining(training, skin, &errors));
    report.found("driven by", drivers(training, fit));
    report.found("scale factor u", scales(fit));
    report.fields.push(("scale factor u of each triangle".into(), triangle_scales(training, fit)));
}

/// The squared error to expect on unseen poses: the geometric mean of that on the poses of the fit and that on left-out ones.
/// Examples are chosen far apart, and an unseen pose lies between them: it is not met as they are, and not as far from
/// all of them as a left-out one is from the others. (Efron's 0.632 for the left-out part, "Estimating the error rate of
/// a prediction rule", 1983, is for examples drawn as the unseen poses are.) A fit that meets its examples exactly tells
/// nothing by that: they count as met to a tenth of the left-out error at best.
#[must_use]
pub fn expected_error(train: f64, left_out: f64) -> f64 {
    (train.max(0.01 * left_out) * left_out).sqrt()
}

/// The bones whose vertices carry most of the error, with their share.
fn remaining(training: &Training, skin: &SparseWeights, errors: &[f64]) -> String {
    let mut of_bone = vec![(0.0, 0); training.bone_count()];
    of_bone.iter_mut().enumerate().for_each(|(b, entry)| entry.1 = b);
    errors.iter().enumerate().for_each(|(v, error)| of_bone[skin.dominant(v)].0 += error);
    let total: f64 = errors.iter().sum();
    if !(total > 0.0) {
        return "nowhere".into();
    }
    of_bone.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let share =
        |&(error, b): &(f64, usize)| format!("{} {:.0} %", training.skeleton.bones()[b].name, 100.0 * error / total);
    of_bone
        .iter()
        .take(WORST_BONES)
        .filter(|(error, _)| *error > 0.01 * total)
        .map(share)
        .collect::<Vec<_>>()
        .join(", ")
}

/// How many proxy bones each joint drives.
fn drivers(training: &Training, fit: &RrFit) -> String {
    let mut counts = vec![0; training.bone_count()];
    fit.predictors.iter().for_each(|p| counts[p.joints[0]] += 1);
    let mut driven: Vec<usize> = (0..counts.len()).filter(|&b| counts[b] > 0).collect();
    driven.sort_by_key(|&b| (std::cmp::Reverse(counts[b]), b));
    let words = |&b: &usize| format!("{} ({})", training.skeleton.bones()[b].name, counts[b]);
    driven.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// The spread of u over the proxy bones.
fn scales(fit: &RrFit) -> String {
    let mut scales: Vec<f64> = fit.predictors.iter().map(|p| p.scale).collect();
    scales.sort_by(f64::total_cmp);
    match (scales.first(), scales.get(scales.len() / 2), scales.last()) {
        (Some(least), Some(middle), Some(most)) => format!("{least:.2} to {most:.2}, median {middle:.2}"),
        _ => "none".into(),
    }
}

/// u of each triangle, (F): the mean over what draws its vertices, a bone counting as 1.
fn triangle_scales(training: &Training, fit: &RrFit) -> Vec<f64> {
    let scale = |&(i, w): &(usize, f64)| w * if i < fit.palette.proxies { fit.predictors[i].scale } else { 1.0 };
    let vertex = |&v: &u32| fit.weights.vertices[v as usize].iter().map(scale).sum::<f64>() / 3.0;
    training.mesh.triangles().iter().map(|triangle| triangle.iter().map(vertex).sum()).collect()
}
