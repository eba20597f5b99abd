//! Fewer influences, or rigid joints, with the weights solved anew.
//!
//! Leaving out the lightest influences and scaling the others up moves a vertex; solving the weights once more for what is
//! drawn over the frames, `min Σ_e |Σ_b w_b T_b,e p̂ − p_e|²` with `w ≥ 0`, `Σ w = 1` and at most K of them not zero, moves
//! it less. Rigid joints for affine ones are found in alternation with their weights (`sinew_fit::decompose`).

use glam::{DAffine3, DVec3};
use sinew_examples::{Mesh, MeshSequence};
use sinew_fit::Quiet;
use sinew_fit::decompose::{BoneKind, DecomposeParams, Given, decompose};
use sinew_fit::methods::ssd::SparseWeights;

/// Frames that weights are solved from at most, evenly spread: more of one clip say the same again.
const MOST_FRAMES: usize = 96;

/// Iterations of joints and weights together; the loss settles in a dozen.
const ITERATIONS: usize = 24;

/// (joint, weight) of each vertex, (V).
pub(super) type Weights = Vec<Vec<(usize, f32)>>;

/// What is to be drawn, and by which joints.
pub(super) struct Target<'a> {
    /// The rest mesh.
    pub mesh: &'a Mesh,
    /// What is drawn, (N)(V).
    pub frames: &'a [Vec<DVec3>],
    /// The joints' skinning transforms, (N)(joints).
    pub transforms: &'a [Vec<DAffine3>],
    /// Influences a vertex, K.
    pub width: usize,
}

/// Weights of at most K joints a vertex; only vertices that had more are solved anew.
pub(super) fn prune(target: &Target<'_>, weights: &Weights) -> anyhow::Result<Weights> {
    let locked: Vec<bool> = weights.iter().map(|pairs| pairs.len() <= target.width).collect();
    if locked.iter().all(|&locked| locked) || target.frames.is_empty() {
        return Ok(cut(weights, target.width));
    }
    let joints = target.transforms[0].len();
    let given = |chosen: &[usize]| Given {
        transforms: pick(target.transforms, chosen),
        locked_bones: vec![true; joints],
        weights: Some(sparse(weights)),
        locked_vertices: locked.clone(),
    };
    let found = run(target, &spread(target.frames.len()), given, BoneKind::Affine, joints, 4)?;
    Ok(narrow(&found.1))
}

/// Rigid joints and their weights in place of affine ones, from the rigid transforms nearest to each. Joints that end up
/// without a vertex are left out, so their number may fall.
pub(super) fn rigid(
    target: &Target<'_>,
    nearest: &[Vec<DAffine3>],
    weights: &Weights,
) -> anyhow::Result<(Vec<Vec<DAffine3>>, Weights)> {
    let joints = nearest.first().map_or(0, Vec::len);
    let given = |chosen: &[usize]| Given {
        transforms: pick(nearest, chosen),
        weights: Some(sparse(weights)),
        ..Given::default()
    };
    let chosen = spread(target.frames.len());
    let (transforms, solved) = run(target, &chosen, given, BoneKind::Rigid, joints, ITERATIONS)?;
    if chosen.len() == target.frames.len() {
        return Ok((transforms, narrow(&solved)));
    }
    // A long clip: with the weights known, the joints of the frames between.
    let all: Vec<usize> = (0..target.frames.len()).collect();
    let given = |_: &[usize]| Given {
        transforms: nearest_of(&transforms, &chosen, all.len()),
        weights: Some(solved.clone()),
        locked_vertices: vec![true; weights.len()],
        ..Given::default()
    };
    let (transforms, solved) = run(target, &all, given, BoneKind::Rigid, transforms[0].len(), ITERATIONS)?;
    Ok((transforms, narrow(&solved)))
}

/// The heaviest `width` weights of each vertex, summing to one.
pub(super) fn cut(weights: &Weights, width: usize) -> Weights {
    let of_vertex = |pairs: &Vec<(usize, f32)>| {
        let mut pairs = pairs.clone();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
        pairs.truncate(width);
        let sum: f32 = pairs.iter().map(|&(_, weight)| weight).sum();
        pairs.iter_mut().for_each(|(_, weight)| *weight /= sum);
        pairs
    };
    weights.iter().map(of_vertex).collect()
}

/// The mesh as joints and weights draw it, (V).
pub(super) fn blend(rest: &[DVec3], transforms: &[DAffine3], weights: &Weights) -> Vec<DVec3> {
    let place = |(v, pairs): (usize, &Vec<(usize, f32)>)| {
        pairs.iter().map(|&(b, weight)| transforms[b].transform_point3(rest[v]) * f64::from(weight)).sum()
    };
    weights.iter().enumerate().map(place).collect()
}

/// How far weights and transforms are from the frames: root mean square and largest distance.
pub(super) fn distance(target: &Target<'_>, transforms: &[Vec<DAffine3>], weights: &Weights) -> (f64, f64) {
    let (mut sum, mut count, mut most) = (0.0, 0.0_f64, 0.0_f64);
    for (frame, transforms) in target.frames.iter().zip(transforms) {
        let drawn = blend(target.mesh.vertices(), transforms, weights);
        for (point, drawn) in frame.iter().zip(drawn) {
            let off = (drawn - *point).length_squared();
            (sum, count, most) = (sum + off, count + 1.0, most.max(off));
        }
    }
    ((sum / count.max(1.0)).sqrt(), most.sqrt())
}

fn run(
    target: &Target<'_>,
    chosen: &[usize],
    given: impl Fn(&[usize]) -> Given,
    kind: BoneKind,
    joints: usize,
    iterations: usize,
) -> anyhow::Result<(Vec<Vec<DAffine3>>, SparseWeights)> {
    let frames = chosen.iter().map(|&e| target.frames[e].clone()).collect();
    let sequence = MeshSequence::new(target.mesh.clone(), frames, None, None)?;
    let params = DecomposeParams {
        bones: joints,
        influences: target.width,
        kind,
        max_iterations: iterations,
        ..DecomposeParams::default()
    };
    let all: Vec<usize> = (0..chosen.len()).collect();
    let found = decompose(&sequence, &all, &given(chosen), &params, &Quiet)?;
    Ok((found.transforms, found.weights))
}

/// At most [`MOST_FRAMES`] of `count` frames, evenly spread.
fn spread(count: usize) -> Vec<usize> {
    match count <= MOST_FRAMES {
        true => (0..count).collect(),
        false => (0..MOST_FRAMES).map(|k| k * (count - 1) / (MOST_FRAMES - 1)).collect(),
    }
}

fn pick(frames: &[Vec<DAffine3>], chosen: &[usize]) -> Vec<Vec<DAffine3>> {
    chosen.iter().map(|&e| frames[e].clone()).collect()
}

/// For each of `count` frames the transforms of the nearest chosen one, to start from.
fn nearest_of(transforms: &[Vec<DAffine3>], chosen: &[usize], count: usize) -> Vec<Vec<DAffine3>> {
    let nearest = |e: usize| (0..chosen.len()).min_by_key(|&k| chosen[k].abs_diff(e)).unwrap_or(0);
    (0..count).map(|e| transforms[nearest(e)].clone()).collect()
}

fn sparse(weights: &Weights) -> SparseWeights {
    let wide = |pairs: &Vec<(usize, f32)>| pairs.iter().map(|&(b, weight)| (b, f64::from(weight))).collect();
    SparseWeights { vertices: weights.iter().map(wide).collect() }
}

fn narrow(weights: &SparseWeights) -> Weights {
    let of_vertex = |pairs: &Vec<(usize, f64)>| {
        let pairs: Vec<(usize, f32)> =
            pairs.iter().filter(|pair| pair.1 > 0.0).map(|&(b, weight)| (b, weight as f32)).collect();
        let sum: f32 = pairs.iter().map(|&(_, weight)| weight).sum();
        pairs.into_iter().map(|(b, weight)| (b, weight / sum)).collect()
    };
    weights.vertices.iter().map(of_vertex).collect()
}
