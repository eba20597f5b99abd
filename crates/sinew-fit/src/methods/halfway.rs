//! Half-way and scaling joints (Mohr and Gleicher, "Building efficient, accurate character skins from examples", 2003):
//! linear blend skinning over more joints than the skeleton has, so that a twist does not collapse and a muscle may swell.
//!
//!   minimise Σ_e a_e ‖Σ_i w_i T_i^e v̂ − v^e‖²,   w ≥ 0, Σ w = 1, at most K of them not zero,
//!
//! over bones and extra joints i. Every joint that moves gets one that turns half as far, if it turns far others half-way
//! between that one and the bones, and so on ([`MOST_APART`]), and swelling and shrinking copies of the two bones that meet there ([`ExtraJoint`]). The paper
//! adds them by hand and prunes joints by how much the fit needs them; here a vertex may use the extras of its own bones
//! only, backward elimination prunes to K, and cross-validation decides which kinds there are. Weights are fitted as in [`super::ssd`].

use glam::{DAffine3, DVec3};
use rayon::prelude::*;
use sinew_runtime::deform::ExtraJoint;
use sinew_runtime::{Character, PosedSkeleton};

use super::ssd::{SparseWeights, SsdParams};
use crate::geometry::JointRotations;
use crate::solve::simplex;
use crate::{FitError, FitReport, Progress, Training, cross_validation, predict, to_model};

/// Weights below this are dropped, as in linear blend skinning.
const SMALLEST_WEIGHT: f64 = 1e-3;

/// Gains of the scaled copies at 180°: twice as thick, and half. What lies between is a convex sum with the bone.
const GAINS: [f64; 2] = [1.0, -0.5];

/// Part-way joints are added until neighbours are no farther apart than this in any training pose, radians. In the middle
/// of turns δ apart a blend is thinner by `1 − cos(δ/2)`: by 29 % for half of a half turn, by 3 % for 30°.
const MOST_APART: f64 = 0.53;

/// Halvings at most: 180° in steps of 22.5°.
const MOST_HALVINGS: u32 = 3;

/// Words for the report, and which extra joints there are.
type Offer = (&'static str, fn(&ExtraJoint) -> bool);

/// What cross-validation chooses from.
const CHOICES: [Offer; 5] = [
    ("none", |_| false),
    ("half-way", is_half),
    ("half-way and scaling", |extra| is_half(extra) || is_scaled(extra)),
    ("part-way", |extra| !is_scaled(extra)),
    ("part-way and scaling", |_| true),
];

fn is_half(extra: &ExtraJoint) -> bool {
    matches!(extra, ExtraJoint::PartWay { part: 0.5, .. })
}

fn is_scaled(extra: &ExtraJoint) -> bool {
    matches!(extra, ExtraJoint::Scaled { .. })
}

/// How half-way joints are fitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HalfWayParams {
    /// The skinning that tells which bones carry a vertex, and how many joints a vertex may have, 1 to 16.
    pub skin: SsdParams,
}

/// Extra joints and weights over bones and extra joints.
#[derive(Debug, Clone)]
pub struct HalfWayFit {
    /// The extra joints, (E).
    pub extras: Vec<ExtraJoint>,
    /// Weights over bones 0..J and extra joints J..J + E.
    pub weights: SparseWeights,
}

/// Fits the extra joints; `skin` are plain skinning's weights and `character` is posed by them.
pub fn fit(
    training: &Training,
    skin: &SparseWeights,
    character: &Character,
    params: &HalfWayParams,
    progress: &dyn Progress,
    report: &mut FitReport,
) -> Result<HalfWayFit, FitError> {
    progress.stage("half-way joints", 0);
    let all = extra_joints(training);
    let choices: Vec<Vec<ExtraJoint>> =
        CHOICES.iter().map(|(_, offered)| all.iter().copied().filter(offered).collect()).collect();
    let choice = cross_validation::choose(training, choices.len(), |kept, held_out| {
        let error = |extras: &Vec<ExtraJoint>| {
            let weights = solve(kept, skin, &palettes(kept, character, extras), extras, params);
            let predicted = draw(held_out, &palettes(held_out, character, extras), &weights);
            cross_validation::squared_error(held_out, &predicted)
        };
        Ok(choices.iter().map(error).collect())
    })?;
    // One pose decides nothing; then the paper's two kinds may help and neither is ruled out.
    let best = if choice.squared_errors.is_empty() { 2 } else { choice.best };
    let extras = choices[best].clone();
    let words = CHOICES[best].0;
    report.found("extra joints", format!("{} ({words}, by cross-validation)", extras.len()));
    let weights = solve(training, skin, &palettes(training, character, &extras), &extras, params);
    Ok(HalfWayFit { extras, weights })
}

/// The extra joints of every joint that moves.
fn extra_joints(training: &Training) -> Vec<ExtraJoint> {
    let idle = crate::exercised::unexercised(training);
    let rotations = JointRotations::new(training);
    let skeleton = &training.skeleton;
    let to_root = skeleton.rest_root_frame().inverse();
    let origin = |b: usize| to_root.transform_point3(skeleton.bones()[b].rest.translation);
    let mut extras = Vec::new();
    for b in (0..training.bone_count()).filter(|b| *b != skeleton.root() && !idle.contains(b)) {
        let bone = b as u16;
        let (origin_b, reference) = (to_model::position(origin(b)), to_model::position(rotations.reference[b]));
        let part_way = |part: f32| ExtraJoint::PartWay { bone, origin: origin_b, reference, part };
        extras.extend(parts(&rotations, b).into_iter().map(part_way));
        let parent = skeleton.parent(b);
        let ends: Vec<DVec3> = skeleton.children(b).map(origin).collect();
        let upper = origin(b) - origin(parent);
        // A bone without children runs on as its parent does.
        let lower = if ends.is_empty() { upper } else { ends.iter().sum::<DVec3>() / ends.len() as f64 - origin(b) };
        for (carrier, direction) in [(parent, upper), (b, lower)] {
            let Some(axis) = direction.try_normalize() else { continue };
            extras.extend(GAINS.map(|gain| ExtraJoint::Scaled {
                bone,
                carrier: carrier as u16,
                origin: to_model::position(origin(b)),
                axis: to_model::position(axis),
                gain: gain as f32,
            }));
        }
    }
    extras
}

/// The parts of joint `b`'s turn that get a joint: the half, then quarters, then eighths, as far as they are needed.
fn parts(rotations: &JointRotations, b: usize) -> Vec<f32> {
    let most = rotations.logs.iter().map(|pose| pose[b].length()).fold(0.0, f64::max);
    let needed = |&halvings: &u32| halvings == 1 || most / f64::from(1 << (halvings - 1)) > MOST_APART;
    let level = |halvings: u32| (1..1 << halvings).step_by(2).map(move |k| k as f32 / (1 << halvings) as f32);
    (1..=MOST_HALVINGS).filter(needed).flat_map(level).collect()
}

/// Transforms of bones and extra joints in the root's frame, (N)(J + E), by the run time's own rule.
fn palettes(training: &Training, character: &Character, extras: &[ExtraJoint]) -> Vec<Vec<DAffine3>> {
    let mut posed = PosedSkeleton::new(character);
    let pose = |transforms: &Vec<DAffine3>| {
        posed.set(&predict::globals(training, transforms));
        let extra = |extra: &ExtraJoint| to_model::widened(extra.transform(character, &posed));
        transforms.iter().copied().chain(extras.iter().map(extra)).collect()
    };
    training.transforms.iter().map(pose).collect()
}

fn solve(
    training: &Training,
    skin: &SparseWeights,
    palettes: &[Vec<DAffine3>],
    extras: &[ExtraJoint],
    params: &HalfWayParams,
) -> SparseWeights {
    let vertex = |workspace: &mut simplex::Workspace, v: usize| {
        let candidates = candidates(training, skin, extras, v);
        let n = candidates.len();
        let mut gram = vec![0.0; n * n];
        for (e, palette) in palettes.iter().enumerate() {
            let residual = |&i: &usize| palette[i].transform_point3(training.rest[v]) - training.vertices[e][v];
            let residuals: Vec<DVec3> = candidates.iter().map(residual).collect();
            for i in 0..n {
                for j in 0..n {
                    gram[i * n + j] += training.pose_weights[e] * residuals[i].dot(residuals[j]);
                }
            }
        }
        let weights = simplex::solve_sparse(&gram, n, params.skin.influences, SMALLEST_WEIGHT, workspace);
        weights.into_iter().map(|(index, weight)| (candidates[index], weight)).collect()
    };
    let vertices = (0..training.vertex_count()).into_par_iter().map_init(simplex::Workspace::default, vertex).collect();
    SparseWeights { vertices }
}

/// The palette entries that may carry vertex `v`: its bones in plain skinning, and the extra joints where these bones
/// meet others.
fn candidates(training: &Training, skin: &SparseWeights, extras: &[ExtraJoint], v: usize) -> Vec<usize> {
    let mut bones: Vec<usize> = skin.vertices[v].iter().map(|&(b, _)| b).collect();
    bones.sort_unstable();
    let meets = |extra: &ExtraJoint| match *extra {
        ExtraJoint::PartWay { bone, .. } => {
            bones.contains(&(bone as usize)) || bones.contains(&training.skeleton.parent(bone as usize))
        }
        ExtraJoint::Scaled { carrier, .. } => bones.contains(&(carrier as usize)),
    };
    let extra = (0..extras.len()).filter(|&i| meets(&extras[i])).map(|i| training.bone_count() + i);
    bones.iter().copied().chain(extra).collect()
}

fn draw(training: &Training, palettes: &[Vec<DAffine3>], weights: &SparseWeights) -> Vec<Vec<DVec3>> {
    let vertex = |palette: &Vec<DAffine3>, v: usize| {
        weights.vertices[v].iter().map(|&(i, w)| w * palette[i].transform_point3(training.rest[v])).sum()
    };
    palettes.iter().map(|palette| (0..training.vertex_count()).map(|v| vertex(palette, v)).collect()).collect()
}
