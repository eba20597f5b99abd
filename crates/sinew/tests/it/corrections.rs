//! The correction layer: exact where it is asked to be, within its budget, without seams, gone out of range, in every output.

use glam::{Affine3A, DVec3};
use sinew_examples::datasets::DATASETS;
use sinew_examples::{Examples, ExamplesParts};
use sinew_fit::correct::{Closeness, CorrectionParams, Place};
use sinew_fit::methods::rr::RrParams;
use sinew_fit::{Fitted, Method, Quiet, Training, fit, predict};
use sinew_measure::best_rigid_error;
use sinew_runtime::{Correction, Model};

use super::rivals::{error, fitted};
use crate::support::{dataset, method, parts, pose, predicted};

fn corrected(name: &str, params: CorrectionParams) -> Method {
    Method::Corrected(Box::new(method(name)), params)
}

fn exact() -> CorrectionParams {
    CorrectionParams { closeness: Closeness::Exact, ..CorrectionParams::new(Place::Vertices) }
}

/// The enveloping error at the training poses, percent.
fn training_ee(training: &Training, model: &Model) -> f64 {
    let truth: Vec<&[DVec3]> = training.vertices.iter().map(Vec::as_slice).collect();
    let predicted = predict::training_poses(model, training);
    let pairs = predicted.iter().flatten().zip(truth.iter().copied().flatten());
    let squared: f64 = pairs.map(|(p, v)| p.distance_squared(*v)).sum();
    100.0 * (squared / best_rigid_error(&training.rest, &training.transforms, &truth)).sqrt()
}

#[test]
fn an_exact_correction_meets_the_training_poses_of_every_data_set() {
    for set in DATASETS {
        let examples = set.make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        // The creature has 29,380 vertices and 155 joints: linear blend skinning beneath keeps this test short.
        let beneath = if set.name == "creature" { "ssd" } else { "rr" };
        let model = fit(&training, &corrected(beneath, exact()), &Quiet).unwrap().model;
        let ee = training_ee(&training, &model);
        assert!(ee < 0.1, "{}: {ee} % is not \"exact\", which is below 0.1 %", set.name);
    }
}

fn altered(examples: &Examples, change: impl Fn(&mut ExamplesParts)) -> Examples {
    let mut parts = parts(examples);
    change(&mut parts);
    Examples::new(parts).unwrap()
}

#[test]
fn meshes_that_no_joint_tells_apart_are_averaged_and_the_error_left_is_told() {
    let bar = dataset("bar");
    let (quarter, half) = (bar.split().train[1], bar.split().train[2]);
    let alike = altered(&bar, |parts| parts.poses[half] = parts.poses[quarter].clone());
    let training = Training::new(&alike, &alike.split().train).unwrap();
    let Fitted { report, .. } = fit(&training, &corrected("ssd", exact()), &Quiet).unwrap();
    let warnings = report.warnings.join("; ");
    assert!(warnings.contains("repeat another one") && warnings.contains("is not met exactly"), "{warnings}");
    // Without the trick there is nothing to say.
    let training = Training::new(&bar, &bar.split().train).unwrap();
    let Fitted { report, .. } = fit(&training, &corrected("ssd", exact()), &Quiet).unwrap();
    assert!(!report.warnings.join("; ").contains("not met"), "{:?}", report.warnings);
}

#[test]
fn more_bytes_never_leave_more_error_and_the_budget_holds() {
    let shoulder = dataset("shoulder");
    let training = Training::new(&shoulder, &shoulder.split().train).unwrap();
    let rr = Method::RotationalRegression(RrParams { proxy_bones: Some(16), ..RrParams::default() });
    for (beneath, place) in [(method("ssd"), Place::Vertices), (rr, Place::Proxies)] {
        let name = beneath.name();
        let mut before = f64::INFINITY;
        for bytes in [10, 2_000, 8_000, 30_000, 120_000, 1_000_000] {
            let params = CorrectionParams { bytes: Some(bytes), place, ..exact() };
            let Fitted { model, report } =
                fit(&training, &Method::Corrected(Box::new(beneath.clone()), params), &Quiet).unwrap();
            let cost = model.correction.as_ref().unwrap().cost();
            assert!(cost.bytes <= bytes as u64, "{name}: {} bytes of {bytes}", cost.bytes);
            let told = report.findings.iter().find(|(what, _)| *what == "correction").map(|(_, words)| words.clone());
            let told = told.expect("the report has the correction's cost");
            let words = format!("{} operations a frame, {} bytes", cost.flops, cost.bytes);
            assert!(told.contains(&words), "{told}");
            assert_eq!(report.warnings.iter().any(|w| w.contains("nothing is corrected")), cost.bytes == 0);
            let now = training_ee(&training, &model);
            // A thousandth: components are stored in f32.
            assert!(now <= 1.001 * before + 1e-3, "{name}: {now} % with {bytes} bytes, {before} % with fewer");
            before = now;
        }
    }
}

#[test]
fn vertices_without_residual_are_not_stored() {
    let tube = dataset("tube-bend");
    let (model, plain) = (fitted(&tube, &corrected("ssd", exact())), fitted(&tube, &method("ssd")));
    let Some(Correction::Vertices(correction)) = &model.correction else { panic!("vertices are corrected") };
    let mut stored = vec![false; tube.mesh().vertex_count()];
    correction.parts.iter().flat_map(|part| &part.vertices).for_each(|&v| stored[v as usize] = true);
    let count = stored.iter().filter(|&&s| s).count();
    // The ends of the tube follow one bone.
    assert!(count > 0 && count < stored.len() * 9 / 10, "{count} of {}", stored.len());
    for &e in &tube.split().train {
        for (v, p) in predicted(&plain, &pose(&tube, e)).iter().enumerate().filter(|&(v, _)| !stored[v]) {
            // Twice the threshold of what f32 resolves: the fit sees the root's frame, this the world.
            assert!(p.distance(tube.vertices(e)[v]) < 2e-6 * tube.mesh().diagonal(), "frame {e}, vertex {v}");
        }
    }
}

/// Root mean square over the edges in `seam` or out of it of the difference of the two ends' errors, test frames.
fn edge_errors(model: &Model, examples: &Examples, edges: &[(usize, usize, bool)]) -> [f64; 2] {
    let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
    for &e in &examples.split().test {
        let predicted = predicted(model, &pose(examples, e));
        let off: Vec<DVec3> = predicted.iter().zip(examples.vertices(e)).map(|(p, v)| *p - *v).collect();
        for &(a, b, seam) in edges {
            sums[usize::from(seam)] += off[a].distance_squared(off[b]);
            counts[usize::from(seam)] += 1.0;
        }
    }
    [0, 1].map(|k| f64::sqrt(sums[k] / counts[k]))
}

#[test]
fn no_seam_shows_between_regions() {
    for (name, beneath) in [("arm", "rr"), ("shoulder", "rr"), ("shoulder", "ssd"), ("arm", "ssd")] {
        let examples = dataset(name);
        let plain = fitted(&examples, &method(beneath));
        let model = fitted(&examples, &corrected(beneath, CorrectionParams::new(Place::Vertices)));
        // Regions meet where the bone with the largest weight changes.
        let skin = &model.character.skin;
        let heaviest = |v: usize| skin.vertex(v).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(b, _)| b);
        let carrier: Vec<_> = (0..examples.mesh().vertex_count()).map(heaviest).collect();
        let corners = |t: &[u32; 3]| [(t[0], t[1]), (t[1], t[2]), (t[2], t[0])];
        let edge = |(a, b): (u32, u32)| (a as usize, b as usize, carrier[a as usize] != carrier[b as usize]);
        let edges: Vec<_> = examples.mesh().triangles().iter().flat_map(corners).map(edge).collect();
        let (before, after) = (edge_errors(&plain, &examples, &edges), edge_errors(&model, &examples, &edges));
        // Edges across a seam are better than they were without a correction, as those inside are.
        assert!(after[1] < before[1], "{name} {beneath}: {before:?} {after:?}");
    }
}

#[test]
fn out_of_range_a_correction_fades_to_nothing_without_a_jump() {
    // Trained to 90°; taken on to 180°.
    let tube = dataset("tube-bend");
    let plain = fitted(&tube, &method("ssd"));
    let last = *tube.split().train.last().unwrap();
    let rest: Vec<Affine3A> =
        tube.skeleton().bones().iter().map(|bone| sinew_fit::to_model::transform(bone.rest)).collect();
    let bent = pose(&tube, last);
    let local = |pose: &[Affine3A]| pose[0].inverse() * pose[1];
    let turn = glam::Quat::from_mat3a(&(local(&rest).inverse() * local(&bent)).matrix3).to_scaled_axis();
    let at = |times: f32| {
        let turned = local(&rest) * Affine3A::from_quat(glam::Quat::from_scaled_axis(turn * times));
        vec![bent[0], bent[0] * turned]
    };
    for params in [CorrectionParams::new(Place::Vertices), exact()] {
        let model = fitted(&tube, &corrected("ssd", params));
        let corrections: Vec<Vec<DVec3>> = (0..=300)
            .map(|step| {
                let pose = at(step as f32 / 100.0);
                predicted(&model, &pose).iter().zip(predicted(&plain, &pose)).map(|(a, b)| *a - b).collect()
            })
            .collect();
        let largest = |all: &[DVec3]| all.iter().map(|d| d.length()).fold(0.0, f64::max);
        let trained = largest(&corrections[100]);
        assert!(trained > 0.01 * tube.mesh().diagonal(), "there is something to fade: {trained}");
        // At twice the range and the angles beyond that are no nearer to the examples, rounding is left.
        for (step, correction) in corrections.iter().enumerate().take(260).skip(200) {
            let left = largest(correction);
            assert!(left < 1e-5 * tube.mesh().diagonal(), "{left} m at {step} % of the range");
        }
        for step in 101..=200 {
            let jump = corrections[step].iter().zip(&corrections[step - 1]).map(|(a, b)| a.distance(*b));
            let jump = jump.fold(0.0, f64::max);
            // A smooth step over half of the range has a slope of 3; four times that over a hundredth is no jump.
            assert!(jump < 0.12 * trained, "{jump} m of {trained} m between {} and {step} %", step - 1);
        }
    }
}

#[test]
fn a_correction_of_proxy_bones_predicts_unseen_poses_better() {
    let shoulder = dataset("shoulder");
    let test = &shoulder.split().test;
    let [plain, proxies] = ["rr", "rr-cp"].map(|m| error(&fitted(&shoulder, &method(m)), &shoulder, test));
    assert!(proxies < plain, "rr {plain}, corrected {proxies}");
}
