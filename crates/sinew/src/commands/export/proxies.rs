//! The proxy bones of rotational regression as ordinary joints with their motion baked.
//!
//! A proxy's transform is affine, `A = [M | t]`, and a glTF joint holds translation, rotation and scale. With the
//! singular value decomposition `M = U Σ Vᵀ`, two nested joints hold it: the outer (t + M c, U, Σ), the inner (0, Vᵀ, 1),
//! and the inverse bind matrix −c, c the middle of the proxy's vertices. Order and signs of Σ are a choice: the one
//! nearest to the frame before is taken, so that frames in between blend well.

use glam::{Affine3A, DAffine3, DMat3, DQuat, DVec3};
use nalgebra::Matrix3;
use sinew_io::{GlbJoint, GlbMotion, GlbSkin, GlbTransform, Retargeted};
use sinew_runtime::{Deformer, Evaluator, Model};

use super::all_weights;
use super::refit::{self, Target, Weights};
use crate::character;

/// Singular values nearer than this (relative) have no axes of their own: those of the frame before are kept. The error
/// of doing so is half of it, 5 µm at a metre.
const NO_AXES: f64 = 1e-5;

/// The palette as joints: two a proxy, or one if `rigid`. What is lost is told on stderr.
pub(super) fn skin(model: &Model, clip: &Retargeted, width: usize, rigid: bool) -> anyhow::Result<GlbSkin> {
    let Deformer::RotationalRegression(regression) = &model.deformer else {
        anyhow::bail!(
            "the model's method is `{}`, which has no proxy bones; fit with `sinew fit --method rr`",
            model.metadata.method
        )
    };
    let mut palettes: Vec<Vec<DAffine3>> = Vec::new();
    let keep = |evaluator: &Evaluator<'_>| palettes.push(evaluator.palette().map(wide).collect());
    let truth: Vec<Vec<DVec3>> = character::play(model, &clip.poses, keep).collect();
    let mesh = character::mesh(&model.character)?;
    let target = Target { mesh: &mesh, frames: &truth, transforms: &palettes, width };
    let weights = all_weights(&regression.skin);
    // Engines know no points: what comes near to them over the clip.
    let weights = match regression.points.is_empty() {
        true => refit::prune(&target, &weights)?,
        false => refit::solve_all(&target, &weights)?,
    };
    let name = |p: usize| match p.checked_sub(regression.proxy_count()) {
        None => format!("proxy_{p}"),
        Some(bone) => format!("{}_bone", model.character.bones[bone].name),
    };
    if rigid {
        let (transforms, weights, names) = rigid_joints(&target, &weights, name)?;
        let used = Used::new(&weights, mesh.vertices(), names.len());
        return Ok(nested(&used, &transforms, weights, clip, |p| names[p].clone(), true));
    }
    let (rms, most) = refit::distance(&target, &palettes, &weights);
    let exact = match (regression.points.is_empty(), &model.correction) {
        (true, _) => "",
        (false, None) => "; fitted with --points off it is drawn by weights, which joints play exactly",
        (false, Some(_)) => "; fitted with --distil off it is drawn by weights, which joints play exactly",
    };
    let (rms, most) = (1e3 * rms, 1e3 * most);
    eprintln!("note: the baked joints differ from the model by {rms:.3} mm rms, {most:.3} mm at most{exact}");
    let used = Used::new(&weights, mesh.vertices(), palettes.first().map_or(0, Vec::len));
    Ok(nested(&used, &palettes, weights, clip, name, false))
}

/// Transforms (N)(joints), weights and names of rigid joints.
type RigidJoints = (Vec<Vec<DAffine3>>, Weights, Vec<String>);

/// Rigid joints in place of the affine entries in use: first the nearest to each, then refitted together with the weights.
fn rigid_joints(target: &Target<'_>, weights: &Weights, name: impl Fn(usize) -> String) -> anyhow::Result<RigidJoints> {
    let rest = target.mesh.vertices();
    let used = Used::new(weights, rest, target.transforms.first().map_or(0, Vec::len));
    let compact = |palette: &Vec<DAffine3>| {
        let rigid = used.rigid(palette, rest);
        used.entries.iter().map(|&p| rigid[p]).collect()
    };
    let nearest: Vec<Vec<DAffine3>> = target.transforms.iter().map(compact).collect();
    let mut place = vec![0; used.centres.len()];
    used.entries.iter().enumerate().for_each(|(k, &p)| place[p] = k);
    let renumber = |pairs: &Vec<(usize, f32)>| pairs.iter().map(|&(p, weight)| (place[p], weight)).collect();
    let weights: Weights = weights.iter().map(renumber).collect();
    eprintln!("refitting {} rigid joints and their weights over {} frames …", used.entries.len(), target.frames.len());
    let before = refit::distance(target, &nearest, &weights);
    let (transforms, solved) = refit::rigid(target, &nearest, &weights)?;
    let after = refit::distance(target, &transforms, &solved);
    eprintln!(
        "note: rigid proxies differ from the model by {:.3} mm rms, {:.3} mm at most (before joints and weights were refitted: {:.3} and {:.3})",
        1e3 * after.0,
        1e3 * after.1,
        1e3 * before.0,
        1e3 * before.1
    );
    let joints = transforms.first().map_or(0, Vec::len);
    // Joints that were left without a vertex are gone, and the others' numbers with them.
    let name_of = |k: usize| if joints == used.entries.len() { name(used.entries[k]) } else { format!("proxy_{k}") };
    Ok((transforms, solved, (0..joints).map(name_of).collect()))
}

/// Which entries of the palette move vertices, and where.
struct Used {
    /// Palette entries with weight.
    entries: Vec<usize>,
    /// The weighted middle of each one's vertices, (palette).
    centres: Vec<DVec3>,
    /// Each one's (vertex, weight), (palette).
    vertices: Vec<Vec<(usize, f64)>>,
}

impl Used {
    fn new(weights: &Weights, rest: &[DVec3], palette: usize) -> Self {
        let mut vertices: Vec<Vec<(usize, f64)>> = vec![Vec::new(); palette];
        for (v, pairs) in weights.iter().enumerate() {
            for &(p, weight) in pairs {
                vertices[p].push((v, f64::from(weight)));
            }
        }
        let centre = |list: &Vec<(usize, f64)>| {
            let sum: f64 = list.iter().map(|&(_, weight)| weight).sum();
            list.iter().map(|&(v, weight)| rest[v] * weight).sum::<DVec3>() / sum.max(f64::MIN_POSITIVE)
        };
        let entries = (0..palette).filter(|&p| !vertices[p].is_empty()).collect();
        Self { entries, centres: vertices.iter().map(centre).collect(), vertices }
    }

    /// The rigid transforms nearest to `palette` over each entry's vertices (weighted Procrustes).
    fn rigid(&self, palette: &[DAffine3], rest: &[DVec3]) -> Vec<DAffine3> {
        let mut rigid = palette.to_vec();
        for &p in &self.entries {
            let centre = self.centres[p];
            let moved = palette[p].transform_point3(centre);
            let mut covariance = DMat3::ZERO;
            for &(v, weight) in &self.vertices[p] {
                let (from, to) = (rest[v] - centre, palette[p].transform_vector3(rest[v] - centre));
                covariance += DMat3::from_cols(to * from.x, to * from.y, to * from.z) * weight;
            }
            // A flat or thin patch leaves axes open; a little of the transform itself settles them.
            let size = covariance.to_cols_array().iter().map(|c| c.abs()).fold(0.0, f64::max);
            covariance += palette[p].matrix3 * (1e-6 * size + f64::MIN_POSITIVE);
            let rotation = sinew_examples::nearest_rotation(covariance);
            rigid[p] = DAffine3 { matrix3: rotation, translation: moved - rotation * centre };
        }
        rigid
    }
}

/// Joints and motion of the entries in use.
fn nested(
    used: &Used,
    palettes: &[Vec<DAffine3>],
    weights: Weights,
    clip: &Retargeted,
    name: impl Fn(usize) -> String,
    rigid: bool,
) -> GlbSkin {
    let still = GlbTransform { translation: DVec3::ZERO, rotation: DQuat::IDENTITY, scale: DVec3::ONE };
    let root = GlbJoint { name: "proxies".into(), parent: None, local: still, inverse_bind: None };
    let (mut joints, mut locals) = (vec![root], vec![vec![still]; palettes.len()]);
    let mut joint_of = vec![0; used.centres.len()];
    for &p in &used.entries {
        let centre = used.centres[p];
        let bind = Some(DAffine3::from_translation(-centre));
        let place = GlbTransform { translation: centre, ..still };
        let outer_bind = if rigid { bind } else { None };
        joints.push(GlbJoint { name: name(p), parent: Some(0), local: place, inverse_bind: outer_bind });
        if !rigid {
            let (outer, name) = (joints.len() - 1, format!("{}_turn", name(p)));
            joints.push(GlbJoint { name, parent: Some(outer), local: still, inverse_bind: bind });
        }
        joint_of[p] = joints.len() - 1;
        let mut before = DMat3::IDENTITY;
        for (palette, frame) in palettes.iter().zip(&mut locals) {
            let translation = palette[p].transform_point3(centre);
            if rigid {
                let rotation = DQuat::from_mat3(&palette[p].matrix3).normalize();
                frame.push(GlbTransform { translation, rotation, scale: DVec3::ONE });
                continue;
            }
            let (u, scale, v) = decompose(palette[p].matrix3, before);
            before = v;
            let turn = |m: DMat3| DQuat::from_mat3(&m).normalize();
            frame.push(GlbTransform { translation, rotation: turn(u), scale });
            frame.push(GlbTransform { rotation: turn(v.transpose()), ..still });
        }
    }
    let renumber = |pairs: Vec<(usize, f32)>| pairs.into_iter().map(|(p, weight)| (joint_of[p], weight)).collect();
    GlbSkin {
        joints,
        weights: weights.into_iter().map(renumber).collect(),
        motion: Some(GlbMotion { times: clip.times.clone(), locals }),
    }
}

/// `m = U diag(σ) Vᵀ`, U and V rotations, V the one nearest to `before` of all choices of order and signs; a mirrored
/// `m` has one negative σ.
fn decompose(m: DMat3, before: DMat3) -> (DMat3, DVec3, DMat3) {
    let svd = Matrix3::from_column_slice(&m.to_cols_array()).svd(true, true);
    let (Some(u), Some(v)) = (svd.u, svd.v_t.map(|v_t| v_t.transpose())) else {
        return (m, DVec3::ONE, DMat3::IDENTITY);
    };
    let columns = |a: &Matrix3<f64>| DMat3::from_cols_slice(a.as_slice());
    let (mut u, mut v) = (columns(&u), columns(&v));
    let mut sigma = DVec3::new(svd.singular_values[0], svd.singular_values[1], svd.singular_values[2]);
    if v.determinant() < 0.0 {
        (u, v) = (u * -1.0, v * -1.0);
    }
    if u.determinant() < 0.0 {
        u.z_axis = -u.z_axis;
        sigma.z = -sigma.z;
    }
    // The signed permutations of the columns that are rotations: 24.
    let order = nearest_order(v, before);
    (u, v) = (u * order, v * order);
    sigma = (order.transpose() * DMat3::from_diagonal(sigma) * order).to_cols_array_2d().into_iter().enumerate().fold(
        DVec3::ZERO,
        |mut diagonal, (k, column)| {
            diagonal[k] = column[k];
            diagonal
        },
    );
    for (i, j) in [(0, 1), (0, 2), (1, 2)] {
        if (sigma[i] - sigma[j]).abs() < NO_AXES * sigma.abs().max_element() {
            let turn = plane_turn(v, before, i, j);
            (u, v) = (u * turn, v * turn);
        }
    }
    (u, sigma, v)
}

/// The signed permutation of columns, a rotation, that brings `v` nearest to `before`.
fn nearest_order(v: DMat3, before: DMat3) -> DMat3 {
    let overlap = v.transpose() * before;
    let axes = [DVec3::X, DVec3::Y, DVec3::Z];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let candidates = orders.into_iter().flat_map(|order| {
        (0..8).map(move |signs: usize| {
            let column = |k: usize| if signs >> k & 1 == 1 { -axes[order[k]] } else { axes[order[k]] };
            DMat3::from_cols(column(0), column(1), column(2))
        })
    });
    let trace = |order: &DMat3| {
        let product = order.transpose() * overlap;
        product.x_axis.x + product.y_axis.y + product.z_axis.z
    };
    let rotations = candidates.filter(|order| order.determinant() > 0.0);
    rotations.max_by(|a, b| trace(a).total_cmp(&trace(b))).unwrap_or(DMat3::IDENTITY)
}

/// The turn in the plane of columns i and j that brings `v` nearest to `before`.
fn plane_turn(v: DMat3, before: DMat3, i: usize, j: usize) -> DMat3 {
    let (sine, cosine) = (
        v.col(j).dot(before.col(i)) - v.col(i).dot(before.col(j)),
        v.col(i).dot(before.col(i)) + v.col(j).dot(before.col(j)),
    );
    let angle = sine.atan2(cosine);
    let mut turn = DMat3::IDENTITY;
    turn.col_mut(i)[i] = angle.cos();
    turn.col_mut(j)[j] = angle.cos();
    turn.col_mut(i)[j] = angle.sin();
    turn.col_mut(j)[i] = -angle.sin();
    turn
}

fn wide(transform: Affine3A) -> DAffine3 {
    DAffine3::from_cols_array(&transform.to_cols_array().map(f64::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rebuilt((u, sigma, v): (DMat3, DVec3, DMat3)) -> DMat3 {
        u * DMat3::from_diagonal(sigma) * v.transpose()
    }

    #[test]
    fn an_affine_transform_is_two_joints() {
        let m = DMat3::from_cols_array(&[1.2, 0.3, -0.1, 0.2, 0.8, 0.4, 0.1, -0.3, 0.9]);
        for m in [m, m * DMat3::from_diagonal(DVec3::new(1.0, 1.0, -1.0)), DMat3::from_rotation_x(2.0)] {
            let parts = decompose(m, DMat3::from_rotation_y(0.3));
            // Rounding of a few products of numbers near one, and NO_AXES for the rotation.
            assert!((rebuilt(parts) - m).abs_diff_eq(DMat3::ZERO, 1e-10), "{parts:?}");
            assert!(parts.0.determinant() > 0.99 && parts.2.determinant() > 0.99, "both are rotations");
        }
    }

    #[test]
    fn order_and_signs_are_continuous() {
        // A stretch that turns, its two largest axes swapping rank half-way.
        let mut before = DMat3::IDENTITY;
        for k in 0..200 {
            let t = f64::from(k) / 100.0;
            let axes = DMat3::from_rotation_z(0.7 * t) * DMat3::from_rotation_x(0.4 * t);
            let m = axes * DMat3::from_diagonal(DVec3::new(1.3 - 0.2 * t, 1.0 + 0.2 * t, 0.8)) * axes.transpose();
            let (_, _, v) = decompose(m, before);
            let turned = (v - before).to_cols_array().iter().map(|c| c.abs()).fold(0.0, f64::max);
            // The axes turn by 0.011 a step at most, the first step apart.
            assert!(k == 0 || turned < 0.02, "step {k} turns the axes by {turned}");
            before = v;
        }
    }

    #[test]
    fn a_rotation_keeps_the_axes_of_the_frame_before() {
        let before = DMat3::from_rotation_y(0.3) * DMat3::from_rotation_x(1.0);
        let (_, sigma, v) = decompose(DMat3::from_rotation_z(0.5), before);
        assert!((v - before).abs_diff_eq(DMat3::ZERO, 1e-9), "{v}");
        assert!((sigma - DVec3::ONE).abs().max_element() < 1e-9);
    }
}
