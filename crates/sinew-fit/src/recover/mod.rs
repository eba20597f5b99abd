//! A skeleton from a bare mesh sequence.
//!
//! The pipeline of Jacka, Reid, Merry and Gain, "A comparison of linear skinning techniques for character animation", 2007,
//! §3.1: triangles' rotation sequences, mean shift ([`mean_shift`]); rigid parts and their motion, with connectivity
//! ([`parts`]); then a tree with joints ([`tree`]). The guided variant is that of Merry, Marais and Gain, "Animation space",
//! 2006, §6.4: the user names the bones, their parents and core vertices, and only motion and joints are found.
//!
//! Where we differ: the mean shift starts finer than wanted and parts are merged in the order of least cost, which gives
//! both an automatic and an asked-for number of bones; frames that were not used to find the parts get their bones from the
//! parts' cores and then from all vertices and all bones at once, the training frames in the same way, so that both are alike.

mod guided;
mod mean_shift;
mod parts;
mod prune;
mod tree;

#[cfg(test)]
mod tests;

pub use guided::{GuideBone, recover_guided};
pub use tree::{Joint, Tree, hierarchy, joint_position, rig};

use std::borrow::Cow;

use glam::{DAffine3, DVec3};
use rayon::prelude::*;
use sinew_examples::{Examples, ExamplesError, ExamplesParts, MeshSequence};

use crate::decompose::problem::{Motion, Problem};
use crate::decompose::transforms::{Statistics, solve_rigid};
use crate::decompose::{from_rows, weights};
use crate::geometry::gradient::RestTriangles;
use crate::geometry::topology::Topology;
use crate::methods::ssd::SparseWeights;
use crate::{FitError, Progress};
use mean_shift::RotationSequences;
use parts::{Parts, Residuals, Until};
use prune::Prune;

/// Frames whose rotations are clustered at most, evenly spaced: parts show in these, and time stays bounded.
const CLUSTERED_FRAMES: usize = 32;

/// Frames in which parts are merged, pruned and split at most, evenly spaced; their motion then comes from all.
const PARTED_FRAMES: usize = 64;

/// The mean shift's radii that are tried, as shares of the rotations' spread, until there are parts enough to merge: first
/// [`FINER`] ever finer ones, then coarser ones.
const RADII: [f64; 6] = [0.12, 0.06, 0.03, 0.24, 0.5, 1.0];
const FINER: usize = 3;

/// Parts before merging, for each bone that is wanted.
const PARTS_PER_BONE: usize = 4;

/// Bones that `auto` starts from before merging.
const AUTO_START: usize = 40;

/// Parts after merging, for each bone that is wanted; pruning takes the rest away.
const KEPT_PER_BONE: usize = 2;

/// With `auto`, parts are merged while that costs less than this share of the motion that one rigid piece leaves.
const MERGE_SHARE: f64 = 2e-6;

/// A mesh that moves rigidly to this rms (of the diagonal) is one piece: f32 coordinates are hardly finer.
const RIGID: f64 = 1e-6;

/// Which shape is the rest pose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RestChoice {
    /// The sequence's own rest mesh.
    #[default]
    Given,
    /// This frame.
    Frame(usize),
    /// The training frame nearest to all others (rms distance after rigid alignment).
    Central,
}

/// How a skeleton is recovered.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoverParams {
    /// Bones, 1 to 1024; `None` finds the number.
    pub bones: Option<usize>,
    /// The rest pose.
    pub rest: RestChoice,
    /// Bones may change size: one factor a bone and frame.
    pub scale: bool,
    /// After the cores, fit all bones of a frame at once with skinning weights (Merry, Marais and Gain 2006, §7.1).
    pub all_at_once: bool,
}

impl Default for RecoverParams {
    fn default() -> Self {
        Self { bones: None, rest: RestChoice::Given, scale: false, all_at_once: true }
    }
}

/// How a recovery went.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoverReport {
    /// E_RMS of linear blend skinning with four influences on these bones, all frames.
    pub e_rms: f64,
    /// Each bone's rms distance of its part's vertices from rigid motion in the training frames, in the mesh's units, (B).
    pub bone_residuals: Vec<f64>,
    /// The tree with its joints.
    pub tree: Tree,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// A skeleton, its poses and what was found on the way.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The sequence with the skeleton.
    pub examples: Examples,
    /// Each vertex's bone, (V).
    pub parts: Vec<usize>,
    /// Skinning weights over bone, parent and children, from the training frames.
    pub weights: SparseWeights,
    /// How it went.
    pub report: RecoverReport,
}

/// Recovers a skeleton from the training frames and fits it to all frames.
pub fn recover(
    sequence: &MeshSequence,
    params: &RecoverParams,
    progress: &dyn Progress,
) -> Result<Recovered, FitError> {
    if let Some(bones) = params.bones.filter(|bones| !(1..=1024).contains(bones)) {
        return Err(FitError::Parameter { name: "bones", value: bones.to_string(), range: "1 to 1024, or auto" });
    }
    let sequence = with_rest(sequence, params.rest)?;
    let problem = problem_of(&sequence, &sequence.split().train);
    let topology = Topology::new(problem.vertex_count(), sequence.mesh().triangles());
    progress.stage("finding rigid parts", 0);
    let train = &sequence.split().train;
    let stride = train.len().div_ceil(PARTED_FRAMES).max(1);
    let few: Vec<usize> = train.iter().copied().step_by(stride).collect();
    let sampled = (stride > 1).then(|| problem_of(&sequence, &few));
    let parts = find_parts(&sequence, sampled.as_ref().unwrap_or(&problem), &topology, params.bones);
    drop(sampled);
    let motion = parts::motion_of(&problem, &parts.members());
    let cores = parts::find_cores(&problem, &motion, &parts);
    let mut warnings = Vec::new();
    if let Some(asked) = params.bones.filter(|&asked| asked > parts.count) {
        warnings.push(format!(
            "{asked} bones were asked for and {} came back: no further part of the mesh moves by itself",
            parts.count
        ));
    }
    finish(&sequence, &problem, parts.of, &cores, None, params, warnings, progress)
}

/// Bones to start a decomposition of `frames` from: the skinning transforms of a recovery from these frames alone, (N)(B).
pub fn starting_bones(
    sequence: &MeshSequence,
    frames: &[usize],
    bones: usize,
    progress: &dyn Progress,
) -> Result<Vec<Vec<DAffine3>>, FitError> {
    let chosen = frames.iter().map(|&e| sequence.frames()[e].clone()).collect();
    let chosen = MeshSequence::new(sequence.mesh().clone(), chosen, None, sequence.fps())?;
    let params = RecoverParams { bones: Some(bones), ..RecoverParams::default() };
    let examples = recover(&chosen, &params, progress)?.examples;
    let rest: Vec<DAffine3> = examples.skeleton().bones().iter().map(|bone| bone.rest.inverse()).collect();
    let skinning =
        |e: usize| examples.pose(e).globals.iter().zip(&rest).map(|(&global, &rest)| global * rest).collect();
    Ok((0..frames.len()).map(skinning).collect())
}

/// Where the guided and the automatic way meet: motion from the cores, tree, weights, all frames.
#[allow(clippy::too_many_arguments)]
fn finish(
    sequence: &MeshSequence,
    problem: &Problem,
    owner: Vec<usize>,
    cores: &[Vec<usize>],
    guide: Option<&[GuideBone]>,
    params: &RecoverParams,
    warnings: Vec<String>,
    progress: &dyn Progress,
) -> Result<Recovered, FitError> {
    let motion = parts::motion_of(problem, cores);
    let transforms = problem.to_transforms(&motion);
    let tree = match guide {
        Some(guide) => guided::tree(sequence.mesh(), &owner, &transforms, guide)?,
        None => hierarchy(sequence.mesh(), &owner, &transforms),
    };
    progress.stage("fitting all frames", 0);
    let solved = weights::solve_allowed(problem, &motion, 4, &near_bones(&tree, cores.len()), &owner);
    let everything: Vec<usize> = (0..sequence.frame_count()).collect();
    let rebuilt;
    let all = if sequence.split().train == everything {
        problem
    } else {
        rebuilt = problem_of(sequence, &everything);
        &rebuilt
    };
    let mut all_motion = parts::motion_of(all, cores);
    let statistics = Statistics::gather(all, &solved.weights, cores.len());
    if params.all_at_once {
        solve_rigid(&statistics, &mut all_motion, &vec![false; cores.len()], 1, 4);
    }
    if params.scale {
        add_scale(all, cores, &mut all_motion);
    }
    let residuals = Residuals::new(problem, &motion);
    let mut squares = vec![(0.0, 0_usize); cores.len()];
    for (v, &b) in owner.iter().enumerate() {
        squares[b].0 += residuals.of(problem, v, b);
        squares[b].1 += 1;
    }
    let rms = |&(sum, count): &(f64, usize)| (sum / (count * problem.frame_count()).max(1) as f64).sqrt();
    let bone_residuals = squares.iter().map(|entry| rms(entry) * sequence.mesh().diagonal()).collect();
    let e_rms = all.e_rms(statistics.error(&all_motion));
    let (mut bones, poses) = rig(sequence.mesh(), &owner, &all.to_transforms(&all_motion), &tree);
    if let Some(guide) = guide {
        bones.iter_mut().zip(guide).for_each(|(bone, guide)| bone.name.clone_from(&guide.name));
    }
    let examples = Examples::new(ExamplesParts {
        mesh: sequence.mesh().clone(),
        bones,
        poses,
        frames: sequence.frames().to_vec(),
        split: Some(sequence.split().clone()),
        influences: None,
        pose_weights: None,
        fps: sequence.fps(),
    })?;
    let weights = from_rows(&solved.weights, problem.vertex_count());
    let report = RecoverReport { e_rms, bone_residuals, tree, warnings };
    Ok(Recovered { examples, parts: owner, weights, report })
}

fn problem_of(sequence: &MeshSequence, frames: &[usize]) -> Problem {
    let chosen: Vec<&[DVec3]> = frames.iter().map(|&e| &sequence.frames()[e][..]).collect();
    Problem::new(sequence.mesh(), &chosen)
}

/// The sequence over the chosen rest mesh.
fn with_rest(sequence: &MeshSequence, rest: RestChoice) -> Result<Cow<'_, MeshSequence>, FitError> {
    let frame = match rest {
        RestChoice::Given => return Ok(Cow::Borrowed(sequence)),
        RestChoice::Frame(frame) if frame >= sequence.frame_count() => {
            let frames = sequence.frame_count();
            return Err(ExamplesError::FrameIndex { what: "the rest frame".into(), frame: frame as i64, frames }.into());
        }
        RestChoice::Frame(frame) => frame,
        RestChoice::Central => central_frame(sequence),
    };
    let mesh = sequence.mesh().with_vertices(sequence.frames()[frame].clone())?;
    let frames = sequence.frames().to_vec();
    Ok(Cow::Owned(MeshSequence::new(mesh, frames, Some(sequence.split().clone()), sequence.fps())?))
}

/// The training frame with the least sum of distances to the others, on a sample of the vertices.
fn central_frame(sequence: &MeshSequence) -> usize {
    let train = &sequence.split().train;
    let stride = sequence.mesh().vertex_count().div_ceil(500).max(1);
    let sample = |e: usize| sequence.frames()[e].iter().copied().step_by(stride).collect::<Vec<DVec3>>();
    let shapes: Vec<Vec<DVec3>> = train.iter().map(|&e| sample(e)).collect();
    let far = |a: usize| {
        let gap = |b: usize| {
            let pairs = shapes[a].iter().zip(&shapes[b]).map(|(&p, &q)| (p, q, 1.0));
            let (rotation, shift) = crate::solve::rotation::best_rigid(pairs.clone(), glam::DMat3::IDENTITY);
            pairs.map(|(p, q, _)| (rotation * p + shift).distance_squared(q)).sum::<f64>()
        };
        (0..shapes.len()).map(gap).sum::<f64>()
    };
    let distances: Vec<f64> = (0..shapes.len()).into_par_iter().map(far).collect();
    let best = (0..shapes.len()).min_by(|&a, &b| distances[a].total_cmp(&distances[b])).unwrap_or(0);
    train.get(best).copied().unwrap_or(0)
}

/// Mean shift, finer and finer until there is enough to merge; then merging.
fn find_parts(sequence: &MeshSequence, problem: &Problem, topology: &Topology, bones: Option<usize>) -> Parts {
    let one = Parts { of: vec![0; problem.vertex_count()], count: 1 };
    let motion = parts::motion_of(problem, &one.members());
    let residuals = Residuals::new(problem, &motion);
    let rigid_error: f64 = (0..problem.vertex_count()).map(|v| residuals.of(problem, v, 0)).sum();
    let numbers = (problem.vertex_count() * 3 * problem.frame_count()) as f64;
    let exact = RIGID.max(problem.resolution);
    if bones == Some(1) || rigid_error <= exact * exact * numbers {
        return one;
    }
    let train = &sequence.split().train;
    let stride = train.len().div_ceil(CLUSTERED_FRAMES).max(1);
    let poses: Vec<Vec<DVec3>> = train.iter().step_by(stride).map(|&e| sequence.frames()[e].clone()).collect();
    let rest = RestTriangles::new(sequence.mesh().vertices(), sequence.mesh().triangles());
    let sequences = RotationSequences::new(&rest.sequences(&poses));
    let wanted = PARTS_PER_BONE * bones.unwrap_or(AUTO_START);
    let fewest = bones.unwrap_or(2).max(2);
    let mut parts = one;
    for (k, share) in RADII.into_iter().enumerate() {
        // Noise scatters small triangles' rotations; where finer radii fall apart, coarser ones may still hold together.
        if parts.count >= wanted || (k >= FINER && parts.count >= fewest) {
            break;
        }
        let clusters = mean_shift::cluster(&sequences, share * sequences.spread());
        let found = Parts::from_faces(&clusters, sequence.mesh().triangles(), topology);
        if found.count > parts.count {
            parts = found;
        }
    }
    parts::settle_borders(problem, topology, &mut parts);
    let few = bones.map_or(Until::Share(MERGE_SHARE), |bones| Until::Count(KEPT_PER_BONE * bones));
    parts::merge(problem, topology, &mut parts, few);
    prune::prune(problem, topology, &mut parts, bones.map_or(Prune::ToBones, Prune::ToCount));
    if let Some(bones) = bones {
        // Pieces that do not touch outlive pruning; parts that move as one are fewer than asked for.
        parts::merge(problem, topology, &mut parts, Until::Count(bones));
        parts::split_to(problem, topology, &mut parts, bones);
    }
    parts
}

/// Which bones may move a vertex of each bone's part, (B)(B): itself, its parent and its children.
fn near_bones(tree: &Tree, bones: usize) -> Vec<Vec<bool>> {
    let mut near = vec![vec![false; bones]; bones];
    (0..bones).for_each(|b| near[b][b] = true);
    for joint in &tree.joints {
        near[joint.parent][joint.child] = true;
        near[joint.child][joint.parent] = true;
    }
    near
}

/// Gives every bone the factor that fits its core best with the rotation kept: `s = Σ (R p)·q / Σ ‖p‖²`, about the core's middle.
fn add_scale(problem: &Problem, cores: &[Vec<usize>], motion: &mut Motion) {
    for (b, core) in cores.iter().enumerate() {
        let rest = |v: usize| DVec3::new(problem.rest[v][0], problem.rest[v][1], problem.rest[v][2]);
        let from = core.iter().map(|&v| rest(v)).sum::<DVec3>() / core.len().max(1) as f64;
        let spread: f64 = core.iter().map(|&v| (rest(v) - from).length_squared()).sum();
        if !(spread > 0.0) {
            continue;
        }
        for e in 0..problem.frame_count() {
            let posed = |v: usize| DVec3::from_slice(&problem.targets.col_as_slice(v)[3 * e..3 * e + 3]);
            let to = core.iter().map(|&v| posed(v)).sum::<DVec3>() / core.len() as f64;
            let turn = motion.get(b, e).matrix3;
            let along: f64 = core.iter().map(|&v| (turn * (rest(v) - from)).dot(posed(v) - to)).sum();
            // A core that collapses or turns inside out has no size to speak of.
            let factor = (along / spread).clamp(0.05, 20.0);
            let matrix3 = turn * factor;
            motion.set(b, e, DAffine3 { matrix3, translation: to - matrix3 * from });
        }
    }
}
