//! Drawing weights found anew where vertices stick out beyond the trained ranges (ours).
//!
//! Weights are fitted to the training poses, and at twice the range ([`farther`]) a few vertices may stick out
//! of the mesh farther than linear blend skinning or the examples themselves ever do. These are solved again with the farther
//! poses in which they do it beside the training poses, ever heavier, a vertex lying among its neighbours there:
//!
//!   minimise over α_v: Σ_e a_e ‖y_v^e − Σ_i α_vi T_i^e v̂‖² + share · Σ_f ‖y′_v^f − Σ_i α_vi T_i^f v̂‖².
//!
//! y less a displacement of the vertex, if these are corrected. All other vertices stay as they are. Vertices drawn from points
//! have [`corners`](crate::drawing::corners) instead.

use glam::DVec3;
use rayon::prelude::*;
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Correction, Deformer, Model};

use super::farther::{self, Allowed, Farther, Spikes};
use super::redraw;
use crate::cross_validation::squared_error;
use crate::geometry::topology::Topology;
use crate::methods::rr::weights;
use crate::methods::ssd::SparseWeights;
use crate::solve::simplex;
use crate::{FitReport, Training, predict, to_model};

/// How much the farther poses count beside the training poses, and how much of how far a vertex lay out of its neighbours' middle is
/// left to it, one after the other until nothing sticks out.
const TURNS: [(f64, f64); 8] =
    [(0.1, 1.0), (1.0, 1.0), (10.0, 0.8), (30.0, 0.6), (100.0, 0.5), (300.0, 0.3), (1e3, 0.2), (1e4, 0.0)];

/// Vertices solved anew in a turn at most, one of so many: where more stick out it is the shape that does, bent or twisted farther
/// than in any example.
const ONE_OF: usize = 50;

/// Vertices may stick out so many times as far as all but one of [`ONE_OF`] do: as the shape does, and some do more than others.
const AS_THE_SHAPE: f64 = 1.25;

/// Vertices that stick out nearly as far as is allowed go with those that exceed it: they would be next.
const NEARLY: f64 = 0.95;

/// Training poses that are looked at, spread over all of them: more hardly say more, and would all be in memory turned farther.
const POSES: usize = 100;

/// What the squared error of the training poses may become, of what it is and of the best rigid binding's: a hundredth more error,
/// or a five hundredth of what binding leaves, does not show.
const MAY_GROW: [f64; 2] = [1.02, 4e-6];

/// `model` with the weights of those vertices found anew that stick out at twice the trained ranges; the model itself if it has no
/// proxy bones or draws from points, or if that cannot be had without harm to the training poses.
#[must_use]
pub fn hold(training: &Training, model: Model, report: &mut FitReport) -> Model {
    let Deformer::RotationalRegression(deformer) = &model.deformer else { return model };
    if deformer.proxy_count() == 0 || !deformer.points.is_empty() {
        return model;
    }
    let rigid =
        report.rigid.unwrap_or_default() * POSES.min(training.pose_count()) as f64 / training.pose_count() as f64;
    let training = &training.subset(&farther::spread(training.pose_count(), POSES));
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let spikes = Spikes::new(training, &topology);
    let error = |model: &Model| squared_error(training, &predict::training_poses(model, training));
    let most = MAY_GROW[0] * error(&model) + MAY_GROW[1] * rigid;
    let candidates = redraw::candidates(&SparseWeights::of(&deformer.skin), &topology);
    let mut posed = farther::drawn_farther(training, &model);
    let shape = shape(spikes.most(&posed));
    let allowed = Allowed::new(training, &spikes, &model).examples.max(AS_THE_SHAPE * shape);
    let first = spikes.farthest(&posed);
    let (mut drawn, mut best, mut least) = (model.clone(), model, first);
    for (share, left) in TURNS {
        if least <= allowed {
            break;
        }
        let places = farthest(&spikes.most(&posed), NEARLY * allowed, training.vertex_count() / ONE_OF);
        let mut farther = Farther::new(training, &spikes.worst(&posed), &drawn.character.skin, &topology, share);
        let seen = farther.drawn_by(&drawn, &topology, left);
        drawn = solved(drawn, seen, &places, &candidates);
        if error(&drawn) > most {
            break;
        }
        posed = farther::drawn_farther(training, &drawn);
        let now = spikes.farthest(&posed);
        if now < least {
            (best, least) = (drawn.clone(), now);
        }
    }
    if least < first {
        report
            .found("sticking out at twice the ranges", format!("{first:.2} → {least:.2} of the neighbours' distance"));
    }
    best
}

/// How far all but one of [`ONE_OF`] vertices stick out at most.
fn shape(mut out: Vec<f64>) -> f64 {
    out.sort_by(f64::total_cmp);
    out.get((out.len() - out.len() / ONE_OF).saturating_sub(1)).copied().unwrap_or_default()
}

/// The vertices that stick out farther than is `allowed`, the farthest `most` of them.
fn farthest(out: &[f64], allowed: f64, most: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..out.len()).filter(|&v| out[v] > allowed).collect();
    places.sort_by(|&a, &b| out[b].total_cmp(&out[a]));
    places.truncate(most.max(1));
    places
}

/// `model` with the weights of the vertices `places` fitted to the poses that are `seen`.
fn solved(model: Model, seen: &Training, places: &[usize], candidates: &[Vec<usize>]) -> Model {
    let undisplaced = less_displacements(&model, seen);
    let seen = undisplaced.as_ref().unwrap_or(seen);
    let Deformer::RotationalRegression(deformer) = &model.deformer else { return model };
    let transforms = predict::proxy_transforms(&model, seen, deformer.proxy_count());
    let solve = |workspace: &mut simplex::Workspace, &v: &usize| {
        weights::solve_vertex(seen, &candidates[v], &transforms, deformer.skin.width, v, workspace)
    };
    let solved: Vec<_> = places.par_iter().map_init(simplex::Workspace::default, solve).collect();
    let mut weights = SparseWeights::of(&deformer.skin);
    places.iter().zip(solved).for_each(|(&v, solved)| weights.vertices[v] = solved);
    let deformer = RotationalRegression { skin: to_model::skin(&weights), ..deformer.clone() };
    Model { deformer: Deformer::RotationalRegression(deformer), ..model }
}

/// `seen` with every vertex where it was to be before its correction displaces it; none if vertices are not corrected.
fn less_displacements(model: &Model, seen: &Training) -> Option<Training> {
    model.vertex_correction()?;
    let correction = model.proxy_correction().cloned().map(Correction::Proxies);
    let without = Model { correction, ..model.clone() };
    let [displaced, drawn] = [model, &without].map(|model| predict::training_poses(model, seen));
    let mut seen = seen.clone();
    for ((vertices, displaced), drawn) in seen.vertices.iter_mut().zip(&displaced).zip(&drawn) {
        let moved = |v: usize| -> DVec3 { displaced[v] - drawn[v] };
        vertices.iter_mut().enumerate().for_each(|(v, vertex)| *vertex -= moved(v));
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::rr::RrParams;
    use crate::{Method, Quiet};
    use sinew_examples::datasets;

    /// Training poses, and a regression as it is before its vertices are held.
    fn fitted(name: &str) -> (Training, Model, FitReport) {
        let examples = datasets::by_name(name).unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let Method::RotationalRegression(params) = Method::by_name("rr").unwrap() else { panic!("it is one") };
        let params = RrParams { points: false, ..params };
        let fitted = crate::method::regressions(&training, &params, &Quiet).unwrap().swap_remove(0);
        (training, fitted.model, fitted.report)
    }

    #[test]
    fn vertices_that_stick_out_come_back_and_the_training_poses_stay_as_near() {
        let (training, model, mut report) = fitted("shoulder");
        let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
        let spikes = Spikes::new(&training, &topology);
        let allowed = Allowed::new(&training, &spikes, &model).examples;
        let out = |model: &Model| spikes.farthest(&farther::drawn_farther(&training, model));
        let error = |model: &Model| squared_error(&training, &predict::training_poses(model, &training));
        let held = hold(&training, model.clone(), &mut report);
        // A fifth farther than allowed before; afterwards the little that is left would not be told from it.
        assert!(out(&model) > 1.2 * allowed, "{} of {allowed}: nothing is tested", out(&model));
        assert!(out(&held) < 1.05 * allowed, "{} → {} of {allowed}", out(&model), out(&held));
        assert!(error(&held) <= 1.03 * error(&model));
        let skins = [&model, &held].map(|model| {
            let Deformer::RotationalRegression(deformer) = &model.deformer else { panic!("it is one") };
            SparseWeights::of(&deformer.skin)
        });
        let anew = skins[0].vertices.iter().zip(&skins[1].vertices).filter(|(before, after)| before != after).count();
        assert!((1..training.vertex_count() / 10).contains(&anew), "{anew} vertices are drawn anew");
    }

    #[test]
    fn what_does_not_stick_out_stays_as_it_is() {
        let (training, model, mut report) = fitted("arm");
        assert_eq!(hold(&training, model.clone(), &mut report), model);
    }

    #[test]
    fn the_shape_is_what_nearly_all_vertices_do() {
        let out: Vec<f64> = (0..100).map(|v| if v % 50 == 7 { 9.0 } else { f64::from(v) / 100.0 }).collect();
        assert_eq!(shape(out.clone()), 0.99);
        assert_eq!(farthest(&out, 0.985, 3), [7, 57, 99]);
        assert_eq!(shape(Vec::new()), 0.0);
    }
}
