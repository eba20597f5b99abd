//! Vertices drawn from points over proxy bones, eight in a row by the same few entries of the palette (ours).
//!
//! A weight an entry holds a vertex between the proxies that draw it, and a register of eight vertices visits all entries that any
//! of them has. With a point an entry ([`points`]) two or three do what took four or more, the same ones for all eight
//! ([`registers`]), so that a small mesh is drawn in about the time of plain skinning. Four numbers an entry want more poses than
//! there are examples: the model itself draws some hundred between them ([`imagined`]). What sticks out beyond the trained ranges
//! is drawn anew ([`corners`]).
//!
//! [`from_points`] does it to a fitted rotational regression; distillation
//! ([`distil`](crate::correct::distil)) does it in turns with what its proxies follow.

pub mod corners;
pub mod imagined;
pub mod points;
pub mod registers;

use std::slice;

use glam::DAffine3;
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Deformer, Model, Skin};

use crate::correct::farther::{self, Allowed, Spikes};
use crate::correct::redraw;
use crate::correct::residual::carrier;
use crate::cross_validation::squared_error;
use crate::geometry::JointRotations;
use crate::geometry::topology::Topology;
use crate::methods::rr::prediction::Prediction;
use crate::methods::rr::weights;
use crate::methods::ssd::SparseWeights;
use crate::{FitReport, Training, predict, to_model};
use imagined::Blend;
use points::{Drawing, Drawn};
use registers::Registers;

/// Entries of a register at most, as many as engines give a vertex.
pub const WIDTH: usize = 4;

/// Entries that a register visits at least, on average: where plain skinning visits one or two, predicting the palette alone
/// takes most of the time that it takes. The next is tried if fewer do not draw the training poses as weights do.
const LEAST: [f32; 4] = [1.5, 2.0, 2.7, 3.5];

/// The cycles that a model may take, of those of plain skinning: half as many again on a small mesh, where predicting the palette
/// weighs, hardly more on a large one. This many vertices are small.
const SMALL: f32 = 10_000.0;
fn allowed(vertices: usize) -> f32 {
    1.05 + 0.45 * (SMALL / vertices.max(1) as f32).min(1.0)
}

/// The cycles that predicting proxy bones and drawing `training`'s mesh may take beside plain skinning with `skin`; what the bones
/// take comes on top of either.
fn afforded(training: &Training, skin: &Skin) -> f32 {
    let bones = BONE * training.bone_count() as f32;
    allowed(training.vertex_count()) * (sinew_runtime::skinning_cycles(skin) + bones) - bones
}

/// What is left of these for predicting proxy bones if vertices are drawn from as few points as will do.
pub fn left_for_prediction(training: &Training, skin: &Skin) -> f32 {
    afforded(training, skin) - registers::least_cycles(training.vertex_count(), LEAST[0])
}

/// About how many cycles a bone takes: its matrix in the palette.
pub(crate) const BONE: f32 = 15.0;

/// How much the corners of the trained ranges count beside all other poses.
const CORNERS: f64 = 0.05;

/// Imagined poses that the weights beside the points see beside the training poses.
const DRAWN: usize = 40;

/// By how much the squared error of the training poses may grow, of what is expected on unseen poses with weights: a fourteenth more
/// error hardly shows beside a third less time.
const MAY_GROW: f64 = 0.15;

/// How many times as large it may become at most, however much is expected: where examples are few, that says little.
const AT_MOST: f64 = 1.5;

/// How far vertices may stick out at twice the trained ranges beyond what plain skinning and the examples do, in the neighbours'
/// distance: a fiftieth of it does not show.
const STICKS_OUT: f64 = 0.02;

/// How many times as long as plain skinning a frame may take: where predicting proxy bones alone takes longer, as on a mesh of some
/// hundred vertices, drawing them faster helps little.
const SLOW: f32 = 2.0;

/// `model`, a rotational regression, with its vertices drawn from points; why not, if that takes no less time, is farther from the
/// training poses or does not hold beyond the trained ranges.
pub fn from_points(training: &Training, model: &Model, report: &mut FitReport) -> Result<Model, &'static str> {
    let Deformer::RotationalRegression(deformer) = &model.deformer else { return Err("it is no regression") };
    if deformer.proxy_count() == 0 {
        return Err("it has no proxy bones");
    }
    let plain = sinew_runtime::skinning_cycles(&model.character.skin) + BONE * training.bone_count() as f32;
    if Prediction::of(deformer).cycles() > SLOW * plain {
        return Err("predicting its proxy bones takes longer than drawing it");
    }
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let error = |model: &Model| squared_error(training, &predict::training_poses(model, training));
    let spikes = Spikes::new(training, &topology);
    let allowed = Allowed::new(training, &spikes, model);
    let before = error(model);
    // What is expected on unseen poses says more than what is left on a few that were seen.
    let expected = report.expected.zip(report.rigid).map_or(0.0, |(expected, rigid)| expected * expected * rigid);
    let most = (before + MAY_GROW * before.max(expected)).min(AT_MOST * before);
    let mut refused = "it would take no less time";
    let redrawing = Redrawing::new(training, model, deformer, &topology);
    for least in LEAST {
        let (drawn, cycles) = redrawing.drawn(least, &spikes, allowed);
        if cycles >= sinew_runtime::skinning_cycles(&deformer.skin) {
            break;
        }
        if error(&drawn) > most {
            refused = "it would be farther from the training poses";
            continue;
        }
        if spikes.farthest(&farther::drawn_farther(training, &drawn)) <= allowed.examples + STICKS_OUT {
            let skin = sinew_runtime::skinning_cycles(&deformer.skin);
            report.found("vertices drawn from points", format!("yes, in {:.2} of the time of weights", cycles / skin));
            return Ok(drawn);
        }
        refused = "vertices would stick out beyond the trained ranges";
    }
    Err(refused)
}

/// What stays the same however many entries are visited.
struct Redrawing<'a> {
    training: &'a Training,
    model: &'a Model,
    deformer: &'a RotationalRegression,
    /// Training poses, imagined ones and, last, corners of the ranges as the model draws them, and its proxies in them, (N)(P).
    seen: Training,
    corners: usize,
    proxies: Vec<Vec<DAffine3>>,
    /// See [`Drawing`].
    candidates: Vec<Vec<usize>>,
    carriers: Vec<usize>,
}

impl<'a> Redrawing<'a> {
    fn new(training: &'a Training, model: &'a Model, deformer: &'a RotationalRegression, topology: &Topology) -> Self {
        let joints = JointRotations::new(training);
        let within = imagined::beside(training, &joints, slice::from_ref(model), Blend::Joints);
        let seen = imagined::with_corners(&within, training, &joints, slice::from_ref(model), CORNERS);
        let skin = &model.character.skin;
        Self {
            proxies: predict::proxy_transforms(model, &seen, deformer.proxy_count()),
            candidates: redraw::candidates(&SparseWeights::of(&deformer.skin), topology),
            carriers: (0..skin.vertex_count()).map(|v| carrier(skin, v)).collect(),
            corners: seen.pose_count() - within.pose_count(),
            training,
            model,
            deformer,
            seen,
        }
    }

    /// The model drawn from points over `least` entries a register or more, and about how many cycles drawing takes. `allowance`
    /// is how far vertices may stick out at twice the trained ranges.
    fn drawn(&self, least: f32, spikes: &Spikes, allowance: Allowed) -> (Model, f32) {
        let Self { training, model, deformer, seen, corners, proxies, candidates, carriers } = self;
        let drawing = Drawing { poses: seen, proxies, candidates, carriers, width: WIDTH };
        let vertices = training.vertex_count();
        let affordable = afforded(training, &model.character.skin) - Prediction::of(deformer).cycles();
        let cycles = affordable.max(registers::least_cycles(vertices, least));
        let registers = Registers::new(&drawing, cycles, 0.0);
        let mut drawn = drawing.draw(&registers, registers::visits(cycles - registers.writing));
        let some = some_of(training, seen);
        let model = |drawn: &[Drawn]| {
            let weights = beside(training, drawn, &some, &proxies[..some.pose_count()]);
            let (skin, points) = to_model::drawn_points(training, drawn, &weights);
            let deformer = RotationalRegression { skin, points, ..(*deformer).clone() };
            Model { deformer: Deformer::RotationalRegression(deformer), ..(*model).clone() }
        };
        let sticking_out = |drawn: &[Drawn]| spikes.most(&farther::drawn_farther(training, &model(drawn)));
        corners::hold(&drawing, *corners, spikes, allowance, &mut drawn, sticking_out);
        let visited: usize = drawn.iter().map(|register| register.entries.len()).sum();
        (model(&drawn), registers.writing + registers::VISIT * visited as f32)
    }
}

/// The training poses and some of those that are `seen` beside them: enough for the weights beside the points.
#[must_use]
pub fn some_of(training: &Training, seen: &Training) -> Training {
    seen.subset(&(0..seen.pose_count().min(training.pose_count() + DRAWN)).collect::<Vec<_>>())
}

/// Weights over the entries that draw each vertex, for what needs weights: fitted to `poses`, in which the proxies are at `proxies`
/// (N)(P).
#[must_use]
pub fn beside(training: &Training, drawn: &[Drawn], poses: &Training, proxies: &[Vec<DAffine3>]) -> SparseWeights {
    let mut sets = vec![Vec::new(); training.vertex_count()];
    for register in drawn {
        register.vertices.iter().for_each(|(v, _)| sets[*v].clone_from(&register.entries));
    }
    weights::solve_weights(poses, &sets, proxies, WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::rr::RrParams;
    use crate::{Method, Quiet};
    use sinew_examples::datasets;

    fn fitted(name: &str) -> (Training, Model) {
        let examples = datasets::by_name(name).unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let params = RrParams { points: true, ..RrParams::default() };
        let model = crate::fit(&training, &Method::RotationalRegression(params), &Quiet).unwrap().model;
        (training, model)
    }

    #[test]
    fn a_regression_is_drawn_from_points_whose_weights_sum_to_one() {
        let (_, model) = fitted("arm");
        let Deformer::RotationalRegression(deformer) = &model.deformer else { panic!("it is one") };
        assert_eq!(deformer.points.len(), deformer.skin.joints.len());
        for points in deformer.points.chunks(deformer.skin.width) {
            // 1e-4: four f32 numbers of up to some tens.
            assert!((points.iter().map(|h| h[3]).sum::<f32>() - 1.0).abs() < 1e-4, "{points:?}");
        }
    }

    #[test]
    fn what_is_drawn_from_points_already_is_not_drawn_farther_from_its_poses() {
        let (training, model) = fitted("shoulder");
        let mut report = FitReport::default();
        let error = |model: &Model| squared_error(&training, &predict::training_poses(model, &training));
        match from_points(&training, &model, &mut report) {
            Ok(again) => assert!(error(&again) <= 1.1 * error(&model)),
            Err(reason) => assert!(report.findings.is_empty(), "{reason}, and found {:?}", report.findings),
        }
    }
}
