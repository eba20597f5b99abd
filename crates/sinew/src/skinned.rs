//! A plain skinned file (glTF, FBX, USD) as a linear blend model: its own weights, nothing fitted.

use std::path::Path;

use anyhow::Context;
use sinew_examples::Bone;
use sinew_io::{MeshClip, SkeletonClip};
use sinew_runtime::deform::LinearBlend;
use sinew_runtime::{Character, Deformer, Metadata, Model, Polygons, Skin};

/// Whether `path` is a file of which [`model`] can be made.
pub fn is_skinned(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    ["glb", "gltf"].contains(&ending.as_str())
}

/// The first skinned mesh of `path` with its skeleton.
pub fn model(path: &Path) -> anyhow::Result<Model> {
    let mut scene = sinew_io::read_scene(path)?;
    let place = scene.meshes.iter().position(|mesh| mesh.skin.is_some());
    let place = place.with_context(|| format!("{}: no mesh in it has a skin", path.display()))?;
    let mesh = &mut scene.meshes[place];
    let (index, _) = mesh.skin.as_ref().context("the mesh has a skin")?;
    let skeleton = scene.skeletons.get(*index).with_context(|| format!("{}: its skin has no bones", path.display()))?;
    let character = character(mesh, skeleton).with_context(|| path.display().to_string())?;
    let metadata = Metadata { method: "ssd".into(), source: path.display().to_string(), ..Metadata::default() };
    Ok(Model::new(character, Deformer::LinearBlend(LinearBlend), metadata)?)
}

fn character(mesh: &mut MeshClip, skeleton: &SkeletonClip) -> anyhow::Result<Character> {
    let rest = match mesh.rest.clone() {
        Some(rest) => rest,
        None => mesh.frame(0)?,
    };
    let surface = mesh.surface.as_ref().context("its mesh has no faces")?;
    let (_, weights) = mesh.skin.as_ref().context("its mesh has no skin")?;
    let bone = |bone: &Bone| sinew_runtime::Bone {
        name: bone.name.clone(),
        parent: bone.parent,
        rest: sinew_fit::to_model::transform(bone.rest),
    };
    Ok(Character {
        rest_positions: rest.iter().map(|&p| sinew_fit::to_model::position(p)).collect(),
        triangles: surface.polygons.fan(),
        polygons: (!surface.is_triangulated())
            .then(|| Polygons { counts: surface.polygons.counts.clone(), vertices: surface.polygons.vertices.clone() }),
        uvs: surface.triangle_uvs(),
        bones: skeleton.bones.iter().map(bone).collect(),
        skin: skin(weights)?,
        fps: None,
    })
}

/// Weights in the run time's shape, heaviest first, summing to one.
fn skin(weights: &[Vec<(usize, f32)>]) -> anyhow::Result<Skin> {
    let width = weights.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let mut skin = Skin { width, joints: Vec::new(), weights: Vec::new() };
    for (v, pairs) in weights.iter().enumerate() {
        let sum: f32 = pairs.iter().map(|pair| pair.1).sum();
        anyhow::ensure!(sum > 0.0 && sum.is_finite(), "vertex {v} follows no bone; bind it to one");
        let mut pairs = pairs.clone();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for (joint, weight) in pairs.into_iter().chain(std::iter::repeat((0, 0.0))).take(width) {
            skin.joints.push(u16::try_from(joint).context("a model has at most 65,536 joints")?);
            skin.weights.push(weight / sum);
        }
    }
    Ok(skin)
}
