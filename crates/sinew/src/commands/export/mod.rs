//! `sinew export`: a model as a GLB that engines load.

mod proxies;
mod refit;

use std::path::{Path, PathBuf};

use anyhow::Context;
use glam::{DAffine3, DQuat, DVec3};
use sinew_examples::{Bone, Pose, rigid_part};
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
    output::check(&args.output, &["glb"])?;
    let model = Model::read(&args.model).map_err(|error| load::named(&args.model, error))?;
    let clip = args.animation.as_deref().map(|path| animation::load(path, &model)).transpose()?;
    let mut mesh = character::glb_mesh(&model.character, &character::name_of(&args.output));
    mesh.extras = bounds::extras(&model, clip.as_ref().map_or(&[], |clip| &clip.poses));
    let width = args.influences.into();
    let skin = match (&clip, args.proxy_bones) {
        (Some(clip), true) => proxies::skin(&model, clip, width, args.rigid)?,
        _ => plain_skin(&model, clip.as_ref(), width)?,
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
    Ok(sinew_io::write_glb_skin(path, &mesh, &plain_skin(model, None, 4)?, Some(embedded))?)
}

/// The skeleton's own joints, without the scale of their rest, and the fall-back weights.
fn plain_skin(model: &Model, clip: Option<&Retargeted>, width: usize) -> anyhow::Result<GlbSkin> {
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
    Ok(GlbSkin {
        joints: (0..bones.len()).map(joint).collect(),
        weights: plain_weights(model, &bones, clip, width)?,
        motion: clip.map(motion),
    })
}

/// The fall-back weights, at most `width` a vertex. Where there are more they are solved anew, so that the skin moves
/// as it did with all of them in the clip and in poses that turn every joint.
fn plain_weights(
    model: &Model,
    bones: &[Bone],
    clip: Option<&Retargeted>,
    width: usize,
) -> anyhow::Result<refit::Weights> {
    let weights = all_weights(&model.character.skin);
    if weights.iter().all(|pairs| pairs.len() <= width) {
        return Ok(weights);
    }
    let mut poses = exercise(bones);
    poses.extend(clip.into_iter().flat_map(|clip| clip.poses.iter().cloned()));
    let carried = |pose: &Pose| (0..bones.len()).map(|b| pose.globals[b] * bones[b].rest.inverse()).collect();
    let transforms: Vec<Vec<DAffine3>> = poses.iter().map(carried).collect();
    let mesh = character::mesh(&model.character)?;
    let frames: Vec<Vec<DVec3>> = transforms.iter().map(|t| refit::blend(mesh.vertices(), t, &weights)).collect();
    let target = refit::Target { mesh: &mesh, frames: &frames, transforms: &transforms, width };
    let solved = refit::prune(&target, &weights)?;
    let (cut, solved_off) = (
        refit::distance(&target, &transforms, &refit::cut(&weights, width)),
        refit::distance(&target, &transforms, &solved),
    );
    eprintln!(
        "note: {width} influences a vertex differ from all of them by {:.3} mm rms ({:.3} mm had they not been solved anew)",
        1000.0 * solved_off.0,
        1000.0 * cut.0
    );
    Ok(solved)
}

/// Poses in which every joint is turned, by up to 40°, the same on every machine.
fn exercise(bones: &[Bone]) -> Vec<Pose> {
    const POSES: usize = 24;
    let mut state = 7_u64;
    // A linear congruential generator, −1 to 1.
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0
    };
    let mut order: Vec<usize> = (0..bones.len()).collect();
    let depth = |mut b: usize| {
        let mut depth = 0;
        while let Some(parent) = bones[b].parent {
            (b, depth) = (parent, depth + 1);
        }
        depth
    };
    order.sort_by_key(|&b| depth(b));
    let mut pose = || {
        let mut globals = vec![DAffine3::IDENTITY; bones.len()];
        for &b in &order {
            let turn = DVec3::new(number(), number(), number()) * 40_f64.to_radians();
            let above = bones[b].parent.map_or(DAffine3::IDENTITY, |p| globals[p] * bones[p].rest.inverse());
            globals[b] = above * bones[b].rest * DAffine3::from_quat(DQuat::from_scaled_axis(turn));
        }
        Pose { globals }
    };
    (0..POSES).map(|_| pose()).collect()
}

/// Every weight of a skin.
fn all_weights(skin: &Skin) -> refit::Weights {
    (0..skin.vertex_count()).map(|v| skin.vertex(v).filter(|&(_, weight)| weight > 0.0).collect()).collect()
}
