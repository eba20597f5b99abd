//! What the papers claim, on built-in data, and what must hold whatever the data.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Bone, Examples, ExamplesParts, Mesh, Pose, datasets};
use sinew_linalg::{Mat, difference, largest};

use super::describe::rigid_error;
use super::full::FullParams;
use super::poisson::Poisson;
use super::refine::{Quadratic, RefineParams};
use super::*;
use crate::geometry::rotation::exp;
use crate::geometry::topology::Topology;
use crate::methods::ssd::{self, SsdParams};
use crate::{Method, Quiet, fit as fit_method, predict};

fn dataset(name: &str) -> Examples {
    datasets::by_name(name).expect("a built-in set").make()
}

fn training(examples: &Examples) -> Training {
    Training::new(examples, &examples.split().train).unwrap()
}

fn rr(proxies: usize) -> Method {
    Method::RotationalRegression(RrParams { proxy_bones: Some(proxies), ..RrParams::default() })
}

/// Enveloping error on the test frames, percent.
fn unseen_error(examples: &Examples, training: &Training, method: &Method) -> f64 {
    let model = fit_method(training, method, &Quiet).unwrap().model;
    let test = Training::new(examples, &examples.split().test).unwrap();
    let predicted = predict::training_poses(&model, &test);
    100.0 * (crate::cross_validation::squared_error(&test, &predicted) / rigid_error(&test)).sqrt()
}

#[test]
fn the_bar_is_learnt_from_three_poses_and_the_arm_better_than_by_linear_methods() {
    let bar = dataset("bar");
    let error = unseen_error(&bar, &training(&bar), &rr(20));
    // The aim for the 180° twist of the thesis's figure 6-4; animation space leaves about 20 %.
    assert!(error < 3.0, "bar: {error} %");
    let arm = dataset("arm");
    let learnt = training(&arm);
    let error = unseen_error(&arm, &learnt, &rr(30));
    for name in ["ssd", "as", "mwe"] {
        let other = unseen_error(&arm, &learnt, &Method::by_name(name).unwrap());
        assert!(error < other, "arm: {error} % against {other} % of {name}");
    }
}

#[test]
fn noise_of_a_five_hundredth_costs_a_few_points() {
    let arm = dataset("tube-bend");
    // Ten of the forty poses: as many as a scan session gives, and quick.
    let clean = training(&arm).subset(&(0..40).step_by(4).collect::<Vec<_>>());
    let mut noisy = clean.clone();
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1_u64 << 30) as f64 - 1.0
    };
    // A uniform number in ±1 has a variance of one third; three of them make 0.2 % of the diagonal rms.
    let size = 0.002 * clean.diagonal;
    for v in noisy.vertices.iter_mut().flatten() {
        *v += size * DVec3::new(random(), random(), random());
    }
    let (before, after) = (unseen_error(&arm, &clean, &rr(24)), unseen_error(&arm, &noisy, &rr(24)));
    assert!(after < before + 5.0, "{before} % without noise, {after} % with");
}

#[test]
fn the_poisson_equation_is_exact_on_true_gradients_in_any_vertex_order() {
    let arm = dataset("tube-twist-180");
    let training = training(&arm);
    let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
    let held = near_rigid::choose(&training, &skin, &NearRigidParams::default()).fixed;
    let turned: Vec<[u32; 3]> = training.mesh.triangles().iter().map(|t| [t[1], t[2], t[0]]).collect();
    for triangles in [training.mesh.triangles(), &turned] {
        let rest = RestTriangles::new(&training.rest, triangles);
        let poisson = Poisson::new(&training.rest, triangles, rest.topology(), &held).unwrap();
        let truth = &training.vertices[17];
        let mut positions: Vec<DVec3> =
            truth.iter().zip(&held).map(|(&v, &held)| if held { v } else { DVec3::ZERO }).collect();
        poisson.solve(&rest.gradients(truth), &mut positions);
        for (found, truth) in positions.iter().zip(truth) {
            // 1e-10 of metres: rounding through a back-substitution over a thousand vertices.
            assert!(found.distance(*truth) < 1e-10);
        }
    }
}

/// The thesis's figure 3-1: without the near-rigid vertices errors add up along the limb.
#[test]
fn without_near_rigid_vertices_the_limb_drifts() {
    let arm = dataset("arm");
    let training = training(&arm);
    let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
    let fit = full::fit(&training, &skin, &FullParams::default(), &mut FitReport::default(), &Quiet).unwrap();
    let rest = RestTriangles::new(&training.rest, training.mesh.triangles());
    let test = Training::new(&arm, &arm.split().test).unwrap();
    let e = test.pose_count() / 2;
    let (bones, logs) = fit.joints.of_pose(&training.skeleton, &test.transforms[e]);
    let gradients: Vec<DMat3> = fit.predictors.iter().map(|p| p.gradient(&bones, &logs)).collect();
    let truth = &test.vertices[e];
    let error = |held: &[bool]| {
        let poisson = Poisson::new(&training.rest, training.mesh.triangles(), rest.topology(), held).unwrap();
        let mut positions: Vec<DVec3> =
            (0..truth.len()).map(|v| skin.vertices[v].iter().map(|&(b, w)| w * test.carried(e, b, v)).sum()).collect();
        poisson.solve(&gradients, &mut positions);
        positions.iter().zip(truth).map(|(p, t)| p.distance_squared(*t)).sum::<f64>().sqrt()
    };
    // One vertex must be held for the equation to have a solution: the one farthest from the hand.
    let first =
        (0..truth.len()).fold(0, |a, v| if training.rest[v].length() < training.rest[a].length() { v } else { a });
    let single: Vec<bool> = (0..truth.len()).map(|v| v == first).collect();
    let (drifting, anchored) = (error(&single), error(&fit.near_rigid.fixed));
    // Half as much again: the paper shows the forearm clearly off; how far depends on the limb's length.
    assert!(drifting > 1.5 * anchored, "{drifting} m without, {anchored} m with near-rigid vertices");
}

fn course<'a>(training: &'a Training, skin: &'a SparseWeights, params: &'a RrParams) -> Course<'a> {
    Course { training, skin, params, prepared: prepare(training, skin, params), rigid: 0.0, progress: &Quiet }
}

/// The appendix's A, B₁ and B₂ in full, 12P × 12P and so on, against c₁ ⊗ I₃ and c₂ ⊗ I₃.
#[test]
fn the_factored_matrices_are_the_thesis_matrices() {
    let bar = dataset("bar");
    let training = training(&bar);
    let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
    let params = RrParams { proxy_bones: Some(4), refine: None, ..RrParams::default() };
    let course = course(&training, &skin, &params);
    let (fit, keys) = course.thesis(course.draw(4, 1));
    let near_rigid = &course.prepared.near_rigid;
    let thesis = reduce::thesis_matrices(&training, &fit.palette, &fit.weights, &keys.blends, &skin, near_rigid);
    let kronecker = |c: &Mat<f64>| {
        Mat::from_fn(3 * c.nrows(), 3 * c.ncols(), |i, j| if i % 3 == j % 3 { c[(i / 3, j / 3)] } else { 0.0 })
    };
    for (factored, full) in [(&fit.reduction.c1, &thesis.0), (&fit.reduction.c2, &thesis.1)] {
        let difference = largest(&difference(&kronecker(factored), full));
        // 1e-8: entries of order one through a system whose condition is at most 1e6.
        assert!(difference < 1e-8, "they differ by {difference}");
    }
}

#[test]
fn the_refinement_s_gradient_is_the_derivative() {
    let arm = dataset("arm");
    let training = training(&arm);
    let skin = ssd::fit(&training, &SsdParams::default(), &Quiet).unwrap();
    let params = RrParams { proxy_bones: Some(6), refine: None, ..RrParams::default() };
    let course = course(&training, &skin, &params);
    let (fit, _) = course.thesis(course.draw(6, 1));
    let quadratic = Quadratic::new(&training, &fit.palette, &fit.weights, &fit.reduction);
    // The quadratic is the vertex error itself.
    let gradients: Vec<Vec<DMat3>> =
        (0..training.pose_count()).map(|e| refine::key_gradients(&fit.joints, &fit.predictors, e)).collect();
    let by_quadratic = refine::error_of(&quadratic, &gradients, &training.pose_weights);
    let by_vertices = fit.error(&training);
    assert!((by_quadratic / by_vertices - 1.0).abs() < 1e-6, "{by_quadratic} against {by_vertices}");
    // And L-BFGS, which needs the exact gradient, lowers it.
    let mut refined = fit.clone();
    let params = RefineParams { ridge: Some(1.0), ..RefineParams::default() };
    refine::refine(&fit.joints, &quadratic, &mut refined.predictors, &training.pose_weights, &params);
    assert!(refined.error(&training) < 0.25 * by_vertices);
}

#[test]
fn a_planted_scale_and_offset_are_found() {
    let shoulder = dataset("shoulder");
    let training = training(&shoulder);
    let joints = JointRotations::new(&training);
    let joint = (0..training.bone_count()).find(|&b| b != training.skeleton.root()).unwrap();
    let parent = training.skeleton.parent(joint);
    let planted = exp(DVec3::new(0.3, -0.8, 0.5)) * 0.6;
    let sequence: Vec<DMat3> =
        (0..training.pose_count()).map(|e| joints.bones[e][parent] * exp(planted * joints.logs[e][joint])).collect();
    let params = PredictorParams { form: PredictorForm::Offset, refined: false };
    let found = predictor::fit(&training, &joints, &sequence, &training.pose_weights, joint, params);
    assert_eq!(found.joints[0], joint);
    assert!((found.scale - 0.6).abs() < 1e-3);
    for e in 0..training.pose_count() {
        let difference = found.gradient(&joints.bones[e], &joints.logs[e]) - sequence[e];
        // 1e-3: the share of the identity in the Procrustes problem.
        assert!(difference.to_cols_array().iter().all(|d| d.abs() < 2e-3));
    }
}

/// Two boxes' worth of triangles, one apart from the other, over `bones` bones in a row; bone k turns by `angles[e]`.
fn pieces(bones: usize, angles: &[f64]) -> Examples {
    let corner = |x: f64, k: usize| DVec3::new(x, 0.1 * (k % 2) as f64, 0.1 * (k / 2) as f64);
    let mut vertices: Vec<DVec3> = (0..5).flat_map(|x| (0..4).map(move |k| corner(0.25 * f64::from(x), k))).collect();
    // A piece of its own, and a vertex that no triangle names.
    vertices.extend([DVec3::new(0.5, 0.5, 0.0), DVec3::new(0.6, 0.5, 0.0), DVec3::new(0.5, 0.6, 0.1), DVec3::ONE]);
    let mut triangles: Vec<[u32; 3]> = Vec::new();
    for x in 0..4_u32 {
        for (a, b) in [(0, 1), (1, 3), (3, 2), (2, 0)] {
            let (p, q) = (4 * x, 4 * x + 4);
            triangles.extend([[p + a, p + b, q + b], [p + a, q + b, q + a]]);
        }
    }
    // Also a triangle twice, and one without area.
    triangles.extend([[20, 21, 22], [0, 1, 5], [0, 0, 1]]);
    let rest = |b: usize| DAffine3::from_translation(DVec3::X * 0.5 * b as f64);
    let skeleton: Vec<Bone> =
        (0..bones).map(|b| Bone { name: format!("bone {b}"), parent: b.checked_sub(1), rest: rest(b) }).collect();
    let pose = |&angle: &f64| {
        let mut globals = vec![rest(0)];
        for b in 1..bones {
            let local = rest(b - 1).inverse() * rest(b) * DAffine3::from_axis_angle(DVec3::Z, angle);
            globals.push(globals[b - 1] * local);
        }
        Pose { globals }
    };
    let poses: Vec<Pose> = angles.iter().map(pose).collect();
    let frame = |pose: &Pose| {
        let carried = |&v: &DVec3| {
            let b = if v.x > 0.5 { bones - 1 } else { 0 };
            (pose.globals[b] * rest(b).inverse()).transform_point3(v)
        };
        vertices.iter().map(carried).collect()
    };
    let frames = poses.iter().map(frame).collect();
    let mesh = Mesh::new(vertices.clone(), triangles, None, None).unwrap();
    Examples::new(ExamplesParts {
        mesh,
        bones: skeleton,
        poses,
        frames,
        split: None,
        influences: None,
        pose_weights: None,
        fps: None,
    })
    .unwrap()
}

#[test]
fn poor_input_gives_numbers_not_nan() {
    let past_a_half_turn = [0.0, 1.2, 2.4, 3.6];
    let cases: [(&str, usize, &[f64]); 5] = [
        ("one pose", 2, &[0.5]),
        ("two poses alike", 2, &[0.5, 0.5]),
        ("one bone", 1, &[0.0, 0.0, 0.0]),
        ("past a half turn", 2, &past_a_half_turn),
        ("three bones", 3, &[0.0, 0.4, 0.8, 1.2]),
    ];
    for (name, bones, angles) in cases {
        let examples = pieces(bones, angles);
        let training = Training::new(&examples, &(0..angles.len()).collect::<Vec<_>>()).unwrap();
        let mut methods = vec![rr(4), rr(500), Method::FullRotationalRegression(FullParams::default())];
        let mean_shift = RrParams { clustering: Clustering::MeanShift(0.2), ..RrParams::default() };
        let to_error = RrParams { error: Some(0.005), ..RrParams::default() };
        if name == "one pose" || name == "three bones" {
            let others = [RrParams::default(), mean_shift, to_error];
            methods.extend(others.map(Method::RotationalRegression));
        }
        for method in methods {
            let model = fit_method(&training, &method, &Quiet).unwrap_or_else(|error| panic!("{name}: {error}")).model;
            let predicted = predict::training_poses(&model, &training);
            let error = crate::cross_validation::squared_error(&training, &predicted);
            // Every vertex follows one bone here, so every method can be near exact: a centimetre of a metre's bar.
            assert!(
                error.is_finite() && error < 1e-4 * 24.0 * angles.len() as f64,
                "{name}, {}: {error}",
                method.name()
            );
        }
    }
}

#[test]
fn the_evaluator_says_how_far_outside_a_pose_lies() {
    let examples = pieces(2, &[0.0, 0.5, 1.0]);
    let training = Training::new(&examples, &[0, 1, 2]).unwrap();
    let model = fit_method(&training, &rr(4), &Quiet).unwrap().model;
    let mut evaluator = sinew_runtime::Evaluator::new(&model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    for (angle, outside) in [(0.7, None), (1.4, Some(0.4)), (-0.3, Some(0.3))] {
        let pose = [
            glam::Affine3A::IDENTITY,
            glam::Affine3A::from_translation(glam::Vec3::X * 0.5) * glam::Affine3A::from_rotation_z(angle),
        ];
        evaluator.positions(&pose, &mut positions);
        match (evaluator.outside_training(), outside) {
            (None, None) => {}
            // 1e-3: f32 through a matrix and back.
            (Some((1, by)), Some(expected)) if (by - expected).abs() < 1e-3 => {}
            (found, _) => panic!("at {angle}: {found:?} instead of {outside:?}"),
        }
    }
}

#[test]
fn adjacency_of_the_pieces_is_as_drawn() {
    // The set that the tests above lean on has what they name: two pieces and a vertex alone.
    let examples = pieces(2, &[0.0]);
    let topology = Topology::new(examples.mesh().vertex_count(), examples.mesh().triangles());
    assert!(topology.vertex_vertices.row(23).is_empty());
    assert_eq!(topology.vertex_vertices.row(20), [21, 22]);
}
