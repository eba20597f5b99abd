//! `sinew export`: a model as a GLB that engines load.

mod proxies;

use std::path::{Path, PathBuf};

use anyhow::Context;
use glam::DAffine3;
use sinew_examples::{Pose, rigid_part};
use sinew_io::{GlbJoint, GlbModel, GlbMotion, GlbSkin, GlbTransform, Retargeted};
use sinew_runtime::{FORMAT_VERSION, Model, Skin};

use crate::commands::bounds;
use crate::{Outcome, animation, character, load, output};

/// Write a model as a GLB that engines load.
///
/// Plain: mesh, skeleton and linear blend weights that every engine plays, and the model itself in the glTF extension
/// SINEW_skin for engines with a sinew runtime. With --proxy-bones the motion of the model's proxy bones over a clip is
/// baked as ordinary joints, so that the full quality plays in unmodified engines.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew export arm.sinew -o arm.glb
  sinew export arm.sinew --animation walk.fbx --influences 8 -o arm.glb
  sinew export arm.sinew --proxy-bones --animation walk.fbx -o arm_walk.glb")]
pub struct Args {
    /// A model made by `sinew fit`.
    model: PathBuf,
    /// Where to write the GLB.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A clip to write with it: examples, .glb .gltf .fbx .usd* .bvh; bones are matched by name.
    #[arg(long, value_name = "FILE")]
    animation: Option<PathBuf>,
    /// Influences a vertex: 4 for every engine, 8 where the engine reads a second set.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=8))]
    influences: u8,
    /// Leave the model itself out: plain skinning only.
    #[arg(long)]
    no_model: bool,
    /// Bake the proxy bones' motion over the clip as joints.
    #[arg(long, requires = "animation")]
    proxy_bones: bool,
    /// With --proxy-bones: refit rigid proxies, for engines whose joints cannot scale; says what that loses.
    #[arg(long, requires = "proxy_bones")]
    rigid: bool,
}

/// Exports.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let model = Model::read(&args.model).map_err(|error| load::named(&args.model, error))?;
    let clip = args.animation.as_deref().map(|path| animation::load(path, &model)).transpose()?;
    let mut mesh = character::glb_mesh(&model.character, &character::name_of(&args.output));
    mesh.extras = bounds::extras(&model, clip.as_ref().map_or(&[], |clip| &clip.poses));
    let width = args.influences.into();
    let skin = match (&clip, args.proxy_bones) {
        (Some(clip), true) => proxies::skin(&model, clip, width, args.rigid)?,
        _ => plain_skin(&model, clip.as_ref(), width),
    };
    // The file as it is, so that its checksum and whatever a newer program put there stay.
    let bytes = std::fs::read(&args.model).with_context(|| args.model.display().to_string())?;
    let embedded = GlbModel { bytes: &bytes, method: &model.metadata.method, format_version: FORMAT_VERSION };
    // Baked joints are not the model's bones: the model cannot be run on them.
    let embedded = (!args.proxy_bones && !args.no_model).then_some(embedded);
    sinew_io::write_glb_skin(&args.output, &mesh, &skin, embedded)?;
    let (joints, frames) = (skin.joints.len(), skin.motion.as_ref().map_or(0, |motion| motion.times.len()));
    output::line(&format!("{}: {joints} joints, {frames} frames", args.output.display()))?;
    Ok(Outcome::Done)
}

/// Writes `model` with plain weights, four a vertex, and itself in the extension, without a clip.
pub fn write_plain(path: &Path, model: &Model) -> anyhow::Result<()> {
    let mut mesh = character::glb_mesh(&model.character, &character::name_of(path));
    mesh.extras = bounds::extras(model, &[]);
    let bytes = model.to_bytes();
    let embedded = GlbModel { bytes: &bytes, method: &model.metadata.method, format_version: FORMAT_VERSION };
    Ok(sinew_io::write_glb_skin(path, &mesh, &plain_skin(model, None, 4), Some(embedded))?)
}

/// The skeleton's own joints, without the scale of their rest, and the fall-back weights.
fn plain_skin(model: &Model, clip: Option<&Retargeted>, width: usize) -> GlbSkin {
    let bones = animation::bones(model);
    // glTF needs no order of nodes, but parents first lets one pass place them all.
    let frames: Vec<DAffine3> = bones.iter().map(|bone| rigid_part(bone.rest)).collect();
    let local = |globals: &[DAffine3], b: usize| {
        let above = bones[b].parent.map_or(DAffine3::IDENTITY, |parent| globals[parent]);
        GlbTransform::from_affine(above.inverse() * globals[b])
    };
    let joint = |b: usize| GlbJoint {
        name: bones[b].name.clone(),
        parent: bones[b].parent,
        local: local(&frames, b),
        inverse_bind: Some(frames[b].inverse()),
    };
    let posed = |pose: &Pose| {
        let globals: Vec<DAffine3> =
            (0..bones.len()).map(|b| pose.globals[b] * bones[b].rest.inverse() * frames[b]).collect();
        (0..bones.len()).map(|b| local(&globals, b)).collect()
    };
    let motion =
        |clip: &Retargeted| GlbMotion { times: clip.times.clone(), locals: clip.poses.iter().map(posed).collect() };
    GlbSkin {
        joints: (0..bones.len()).map(joint).collect(),
        weights: pruned(&model.character.skin, width),
        motion: clip.map(motion),
    }
}

/// At most `width` weights a vertex, the heaviest, summing to one.
fn pruned(skin: &Skin, width: usize) -> Vec<Vec<(usize, f32)>> {
    let of_vertex = |v: usize| {
        let mut pairs: Vec<(usize, f32)> = skin.vertex(v).filter(|&(_, weight)| weight > 0.0).collect();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
        pairs.truncate(width);
        let sum: f32 = pairs.iter().map(|&(_, weight)| weight).sum();
        pairs.iter_mut().for_each(|(_, weight)| *weight /= sum);
        pairs
    };
    (0..skin.vertex_count()).map(of_vertex).collect()
}
