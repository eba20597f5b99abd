//! A model's data as the shaders read it: words, f32 as their bits.

use glam::{Affine3A, Mat3A, Vec3A};
use sinew_runtime::correction::VertexCorrection;
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Character, Deformer, Model, Skin};

use crate::GpuError;

/// The table of pass `skin`, and which entry point reads it.
pub(crate) struct SkinTable {
    pub entry: &'static str,
    pub words: Vec<u32>,
    /// Influences a vertex, K.
    pub width: usize,
}

/// What pass `skin` reads of `model`.
pub(crate) fn skin(model: &Model) -> Result<SkinTable, GpuError> {
    let character = &model.character;
    let table = match &model.deformer {
        Deformer::LinearBlend(_) => linear_blend(&character.skin, character),
        Deformer::HalfWay(d) => linear_blend(&d.skin, character),
        Deformer::RotationalRegression(d) => {
            let width = d.skin.width;
            let mut words = Vec::new();
            for pairs in d.world_points(character) {
                let filled = || pairs.iter().copied().chain(std::iter::repeat((0, [0.0; 4]))).take(width);
                words.extend(filled().map(|(entry, _)| entry as u32));
                words.extend(filled().flat_map(|(_, h)| h).map(f32::to_bits));
            }
            SkinTable { entry: "points", words, width }
        }
        Deformer::AnimationSpace(d) => {
            let mut words = Vec::new();
            for (joints, points) in d.joints.chunks_exact(d.width).zip(d.coordinates.chunks_exact(d.width)) {
                words.extend(joints.iter().map(|&joint| u32::from(joint)));
                words.extend(points.as_flattened().iter().map(|x| x.to_bits()));
            }
            SkinTable { entry: "points", words, width: d.width }
        }
        Deformer::MultiWeight(d) => {
            let mut words = Vec::new();
            let rows = d.joints.chunks_exact(d.width).zip(d.weights.chunks_exact(d.width)).zip(&d.constants);
            for ((joints, weights), constant) in rows {
                words.extend(joints.iter().map(|&joint| u32::from(joint)));
                words.extend(weights.as_flattened().iter().chain(constant).map(|x| x.to_bits()));
            }
            SkinTable { entry: "entries", words, width: d.width }
        }
        Deformer::DualQuaternion(_) => dual(&character.skin, character),
        // They solve an equation over the mesh.
        Deformer::FullGradients(_) => return Err(GpuError::Unsupported(model.deformer.kind().into())),
    };
    Ok(table)
}

/// Weights folded into points: w (v̂, 1).
fn linear_blend(skin: &Skin, character: &Character) -> SkinTable {
    let mut words = Vec::new();
    let rows = skin.joints.chunks_exact(skin.width).zip(skin.weights.chunks_exact(skin.width));
    for ((joints, weights), [x, y, z]) in rows.zip(&character.rest_positions) {
        words.extend(joints.iter().map(|&joint| u32::from(joint)));
        words.extend(weights.iter().flat_map(|w| [w * x, w * y, w * z, *w]).map(f32::to_bits));
    }
    SkinTable { entry: "points", words, width: skin.width }
}

/// Weights and the rest point in the root's rest frame.
fn dual(skin: &Skin, character: &Character) -> SkinTable {
    let to_root = sinew_runtime::PosedSkeleton::new(character).rest_frame.inverse();
    let mut words = Vec::new();
    let rows = skin.joints.chunks_exact(skin.width).zip(skin.weights.chunks_exact(skin.width));
    for ((joints, weights), rest) in rows.zip(&character.rest_positions) {
        let rest = to_root.transform_point3a(Vec3A::from_array(*rest)).to_array();
        words.extend(joints.iter().map(|&joint| u32::from(joint)));
        words.extend(weights.iter().chain(&rest).map(|x| x.to_bits()));
    }
    SkinTable { entry: "dual", words, width: skin.width }
}

/// What pass `carry` reads: joints and weights of `skin`, vertex by vertex.
pub(crate) fn carry(skin: &Skin) -> Vec<u32> {
    let rows = skin.joints.chunks_exact(skin.width).zip(skin.weights.chunks_exact(skin.width));
    let words = |(joints, weights): (&[u16], &[f32])| {
        let joints = joints.iter().map(|&joint| u32::from(joint));
        joints.chain(weights.iter().map(|w| w.to_bits())).collect::<Vec<u32>>()
    };
    rows.flat_map(words).collect()
}

/// What pass `proxies` reads: parameters and blocks. `gradients` is where d stands in the pose.
pub(crate) fn proxies(
    d: &RotationalRegression,
    character: &Character,
    deltas: bool,
    gradients: u32,
) -> (Vec<u32>, Vec<u32>) {
    let mut blocks: Vec<u32> = Vec::new();
    let mut at = Vec::new();
    let mut part = |words: Vec<u32>| {
        at.push(blocks.len() as u32);
        blocks.extend(words);
    };
    part(d.c1.starts.clone());
    part(d.c2.starts.clone());
    part(d.c1.columns.iter().map(|&c| u32::from(c)).collect());
    part(d.c2.columns.iter().map(|&c| u32::from(c)).collect());
    part(d.c1.blocks.as_flattened().as_flattened().iter().map(|x| x.to_bits()).collect());
    part(d.c2.blocks.as_flattened().as_flattened().iter().map(|x| x.to_bits()).collect());
    let inverse_rest = sinew_runtime::PosedSkeleton::new(character).rest_frame.inverse();
    let mut params = vec![d.proxy_count() as u32, character.bones.len() as u32];
    params.extend(at);
    params.extend([u32::from(deltas), gradients, 0, 0]);
    params.extend(rows(inverse_rest).as_flattened().iter().map(|x| x.to_bits()));
    (params, blocks)
}

/// What pass `predict` reads: parameters and tables. The pose has `pose_size` vectors an instance, then `gradients`.
pub(crate) fn predict(
    d: &RotationalRegression,
    character: &Character,
    pose_size: u32,
    gradients: u32,
) -> (Vec<u32>, Vec<u32>) {
    let predictors = &d.predictors;
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let wide = |values: &[u16]| values.iter().map(|&x| u32::from(x)).collect::<Vec<u32>>();
    let parent = |(b, bone): (usize, &sinew_runtime::Bone)| bone.parent.unwrap_or(b) as u32;
    let mut tables: Vec<u32> = character.bones.iter().enumerate().map(parent).collect();
    let (bones, count) = (character.bones.len() as u32, predictors.len() as u32);
    let mut params = vec![bones, count, predictors.width as u32, predictors.features as u32, pose_size, gradients];
    for part in [
        bits(d.ranges.reference.as_flattened()),
        wide(&predictors.frames),
        wide(&predictors.joints),
        bits(&predictors.rotation),
        bits(&predictors.stretch),
    ] {
        params.push(tables.len() as u32);
        tables.extend(part);
    }
    params.push(0);
    (params, tables)
}

/// What pass `normals` reads: starts, then the other two corners of every triangle at a vertex.
pub(crate) fn ring(vertices: usize, triangles: &[[u32; 3]]) -> Vec<u32> {
    let mut corners: Vec<Vec<[u32; 2]>> = vec![Vec::new(); vertices];
    for &[a, b, c] in triangles {
        corners[a as usize].push([b, c]);
        corners[b as usize].push([c, a]);
        corners[c as usize].push([a, b]);
    }
    let mut words = vec![0];
    for ring in &corners {
        words.push(words[words.len() - 1] + ring.len() as u32);
    }
    words.extend(corners.iter().flatten().flatten());
    words
}

/// What pass `correction` reads: its table, and where the parts begin in it.
pub(crate) fn correction(c: &VertexCorrection, vertices: usize) -> (Vec<u32>, u32) {
    let mut places: Vec<Vec<[u32; 2]>> = vec![Vec::new(); vertices];
    for (p, part) in c.parts.iter().enumerate() {
        for (place, &v) in part.vertices.iter().enumerate() {
            places[v as usize].push([p as u32, place as u32]);
        }
    }
    let mut words = vec![0];
    for place in &places {
        words.push(words[words.len() - 1] + place.len() as u32);
    }
    words.extend(places.iter().flatten().flatten());
    let parts = words.len() as u32;
    let components = |region: usize| c.mixing[region].len().checked_div(c.space.poses).unwrap_or(0);
    let first_weight = |region: usize| (0..region).map(components).sum::<usize>() as u32;
    let mut at = parts + 5 * c.parts.len() as u32;
    for part in &c.parts {
        let (first, count) = (first_weight(part.region), components(part.region) as u32);
        words.extend([part.bone as u32, first, count, part.vertices.len() as u32, at]);
        at += 3 * part.components.len() as u32;
    }
    let displacements = c.parts.iter().flat_map(|part| part.components.as_flattened());
    words.extend(displacements.map(|x| x.to_bits()));
    (words, parts)
}

/// The rows of an affine transform.
pub(crate) fn rows(t: Affine3A) -> [[f32; 4]; 3] {
    let m = t.matrix3.transpose();
    let row = |axis: Vec3A, shift: f32| [axis.x, axis.y, axis.z, shift];
    [row(m.x_axis, t.translation.x), row(m.y_axis, t.translation.y), row(m.z_axis, t.translation.z)]
}

/// The columns of a matrix, padded.
pub(crate) fn columns(m: &Mat3A) -> [[f32; 4]; 3] {
    [m.x_axis, m.y_axis, m.z_axis].map(|c| [c.x, c.y, c.z, 0.0])
}
