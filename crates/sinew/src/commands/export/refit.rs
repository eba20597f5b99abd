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
    solve(target, weights, locked)
}

/// Weights of at most K joints a vertex, all of them solved anew, from some that are not what the frames were drawn by.
pub(super) fn solve_all(target: &Target<'_>, weights: &Weights) -> anyhow::Result<Weights> {
    if target.frames.is_empty() {
        return Ok(cut(weights, target.width));
    }
    solve(target, weights, vec![false; weights.len()])
}

fn solve(target: &Target<'_>, weights: &Weights, locked: Vec<bool>) -> anyhow::Result<Weights> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use glam::{DMat3, DQuat};

    /// A strip of twenty quads along x, three joints along it, and six frames in which they turn, stretched by `stretch`.
    fn strip(stretch: f64) -> (Mesh, Vec<Vec<DAffine3>>, Weights) {
        let vertices: Vec<DVec3> =
            (0..42).map(|v| DVec3::new(f64::from(v / 2) * 0.1, f64::from(v % 2) * 0.3, 0.0)).collect();
        let triangles =
            (0..20).flat_map(|q| [[2 * q, 2 * q + 2, 2 * q + 1], [2 * q + 1, 2 * q + 2, 2 * q + 3]]).collect();
        let pose = |e: usize, joint: usize| {
            let (place, angle) = (DVec3::X * joint as f64, 0.15 * e as f64 * (joint as f64 - 0.5));
            let turn = DMat3::from_quat(DQuat::from_rotation_z(angle) * DQuat::from_rotation_x(0.5 * angle));
            let matrix3 = turn * DMat3::from_diagonal(DVec3::new(1.0 + stretch * e as f64, 1.0, 1.0));
            DAffine3 { matrix3, translation: place - matrix3 * place + DVec3::Z * 0.05 * e as f64 }
        };
        let transforms = (0..6).map(|e| (0..3).map(|joint| pose(e, joint)).collect()).collect();
        let weight = |v: &DVec3| {
            let raw: Vec<f64> = (0..3).map(|joint| (-2.0 * (v.x - joint as f64).powi(2)).exp()).collect();
            let sum: f64 = raw.iter().sum();
            raw.iter().enumerate().map(|(joint, w)| (joint, (w / sum) as f32)).collect()
        };
        let weights = vertices.iter().map(weight).collect();
        (Mesh::new(vertices, triangles, None, None).unwrap(), transforms, weights)
    }

    fn drawn(mesh: &Mesh, transforms: &[Vec<DAffine3>], weights: &Weights) -> Vec<Vec<DVec3>> {
        transforms.iter().map(|transforms| blend(mesh.vertices(), transforms, weights)).collect()
    }

    #[test]
    fn solved_weights_lose_less_than_cut_ones() {
        let (mesh, transforms, weights) = strip(0.0);
        let frames = drawn(&mesh, &transforms, &weights);
        for width in [1, 2] {
            let target = Target { mesh: &mesh, frames: &frames, transforms: &transforms, width };
            let solved = prune(&target, &weights).unwrap();
            for pairs in &solved {
                assert!(pairs.len() <= width && (pairs.iter().map(|&(_, w)| w).sum::<f32>() - 1.0).abs() < 1e-6);
            }
            let (cut, solved) =
                (distance(&target, &transforms, &cut(&weights, width)).0, distance(&target, &transforms, &solved).0);
            // With one influence there is only the choice of it; with two the weights have room.
            assert!(solved <= cut * if width == 1 { 1.0 + 1e-9 } else { 0.9 }, "{width}: {solved} against {cut}");
        }
        let target = Target { mesh: &mesh, frames: &frames, transforms: &transforms, width: 4 };
        assert_eq!(prune(&target, &weights).unwrap(), cut(&weights, 4), "nothing to leave out, nothing solved");
    }

    #[test]
    fn weights_that_drew_something_else_are_solved_anew() {
        let (mesh, transforms, weights) = strip(0.02);
        let frames = drawn(&mesh, &transforms, &weights);
        let target = Target { mesh: &mesh, frames: &frames, transforms: &transforms, width: 3 };
        let other: Weights = (0..weights.len()).map(|v| vec![(v / 20, 0.6), ((v / 20 + 1) % 3, 0.4)]).collect();
        let solved = solve_all(&target, &other).unwrap();
        let [before, after] = [&other, &solved].map(|weights| distance(&target, &transforms, weights).0);
        // A hundredth: three joints that turn draw what they drew, but for weights too small to be kept.
        assert!(after < 0.01 * before, "{after} against {before}");
    }

    #[test]
    fn rigid_joints_and_weights_are_refitted_together() {
        let (mesh, transforms, weights) = strip(0.05);
        let frames = drawn(&mesh, &transforms, &weights);
        let target = Target { mesh: &mesh, frames: &frames, transforms: &transforms, width: 4 };
        let rigid_part = |t: &DAffine3| sinew_examples::rigid_part(*t);
        let nearest: Vec<Vec<DAffine3>> =
            transforms.iter().map(|frame| frame.iter().map(rigid_part).collect()).collect();
        let (found, solved) = rigid(&target, &nearest, &weights).unwrap();
        for transform in found.iter().flatten() {
            let off = transform.matrix3 * transform.matrix3.transpose() - DMat3::IDENTITY;
            assert!(off.abs_diff_eq(DMat3::ZERO, 1e-9), "not rigid: {transform:?}");
        }
        let (before, after) = (distance(&target, &nearest, &weights).0, distance(&target, &found, &solved).0);
        // Less than half: the rigid parts alone leave the stretch, which weights can take up.
        assert!(after < 0.5 * before, "{after} against {before}");
    }
}
