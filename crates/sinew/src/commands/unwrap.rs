//! `sinew unwrap`: texture coordinates that fit the whole motion.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::ValueEnum;
use glam::{DAffine3, DVec3};
use sinew_examples::{Bone, Examples, FrameSelection, Skeleton};
use sinew_fit::methods::animation_space::Coordinates;
use sinew_fit::norm::ranges::RangesOfMotion;
use sinew_fit::norm::{MotionModel, MotionSamples, PoseNorm};
use sinew_fit::unwrap::{Unwrapped, stretch, unwrap};
use sinew_fit::{Method, Training};
use sinew_runtime::Model;

use crate::commands::export;
use crate::{Outcome, load, output, predict, progress, skinned};

/// Make texture coordinates whose distortion is least over a motion instead of in one pose.
///
/// EXAMPLES are fitted as animation space first; a MODEL must be linear blend or animation space. A skinned .glb is taken as
/// it is, its animation as its motion.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew unwrap arm.npz --statistics motion -o arm.glb
  sinew unwrap arm.sinew --motion arm.npz -o unwrapped.sinew --json map.json
  sinew unwrap character.glb --statistics skeleton -o unwrapped.glb
  sinew unwrap body.npz --assume hybrid --together l_clavicle,l_upperarm --together spine1,spine2 -o body.glb")]
pub struct Args {
    /// Examples, a .sinew model, or a skinned .glb.
    input: PathBuf,
    /// What to write: a .glb that engines load, a .sinew model, or an .obj with the rest mesh.
    #[arg(short, long)]
    output: PathBuf,
    /// What is known of the motion: the rest pose alone, the skeleton alone (every rotation as likely as any other), or
    /// how the joints move.
    #[arg(long, value_enum, default_value_t = Statistics::Motion)]
    statistics: Statistics,
    /// With --statistics motion: what is assumed of how joints move. The average takes the frames as they are; assuming that
    /// joints are independent also foresees poses that no frame shows.
    #[arg(long, value_enum, default_value_t = Assume::Average)]
    assume: Assume,
    /// With --assume hybrid: bones whose joints move together, as sampled; may be given several times.
    #[arg(long, value_name = "BONES")]
    together: Vec<String>,
    /// The frames from which joints' motion is taken.
    #[arg(long, default_value = "train", value_name = "FRAMES")]
    frames: FrameSelection,
    /// For a model: examples whose poses are its motion.
    #[arg(long, value_name = "EXAMPLES")]
    motion: Option<PathBuf>,
    /// Ranges of motion instead of frames: lines `BONE hinge X Y Z FROM TO` or `BONE cone X Y Z MOST`, in degrees.
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,
    /// Find new charts even if the mesh has texture coordinates.
    #[arg(long)]
    new_charts: bool,
    /// Also write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is known of the motion.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Statistics {
    Rest,
    Skeleton,
    Motion,
}

/// The statistical models of joints' motion.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Assume {
    /// Joints only turn, independently of one another.
    Rotations,
    /// Joints move independently of one another, in any way.
    IndependentJoints,
    /// Besides, each joint's rotation and translation are independent.
    IndependentComponents,
    /// Bones keep their lengths but may scale.
    FixedTranslations,
    /// Joints only turn; those named by --together move together.
    Hybrid,
    /// All joints move together, exactly as in the frames.
    Average,
}

/// Reads or fits a model, unwraps it, measures the stretch, writes it.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check(&args.output, &["glb", "sinew", "obj"])?;
    output::check_json(args.json.as_ref())?;
    let (mut model, motion) = read(&args)?;
    let skeleton = skeleton(&model)?;
    let norm = norm(&args, &skeleton, motion.as_ref())?;
    let coordinates = Coordinates::from_model(&model)
        .context("only linear blend and animation-space models can be unwrapped over their motion")?;
    if model.correction.is_some() {
        eprintln!("note: the charts follow the skin without its correction; their stretch is measured with it");
    }
    let rest: Vec<DVec3> = model.character.rest_positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect();
    let uvs = if args.new_charts { None } else { model.character.uvs.clone() };
    let start = Instant::now();
    let map = unwrap(&coordinates, &rest, &model.character.triangles, uvs.as_deref(), &norm)?;
    let seconds = start.elapsed().as_secs_f64();
    map.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let stretches = stretches(&model, motion.as_ref(), &rest, &map)?;
    let mean = stretches.iter().sum::<f64>() / stretches.len() as f64;
    let most = stretches.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    model.character.uvs = Some(map.uvs.clone());
    write(&args.output, &model)?;
    output::line(&format!(
        "{} charts, stretch {mean:.2} % on average and {most:.2} % at most over {} poses, {seconds:.2} s → {}",
        map.charts,
        stretches.len(),
        args.output.display()
    ))?;
    if let Some(path) = &args.json {
        output::json(
            path,
            &serde_json::json!({
                "statistics": format!("{:?}", args.statistics).to_lowercase(),
                "assume": args.assume.to_possible_value().map(|value| value.get_name().to_string()),
                "stretch_mean": mean,
                "stretch_max": most,
                "frames": stretches.len(),
                "charts": map.charts,
                "flipped": map.flipped,
                "notes": map.notes,
                "seconds": seconds,
            }),
        )?;
    }
    Ok(Outcome::Done)
}

fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("sinew"))
}

/// The model, and the examples that show its motion if there are any.
fn read(args: &Args) -> anyhow::Result<(Model, Option<Examples>)> {
    if is_model(&args.input) {
        let model = Model::read(&args.input).map_err(|error| load::named(&args.input, error))?;
        return Ok((model, args.motion.as_deref().map(load::examples).transpose()?));
    }
    if skinned::is_skinned(&args.input) {
        let model = skinned::model(&args.input)?;
        // Without an animation of its own there is none to measure on.
        let motion = match &args.motion {
            Some(path) => Some(load::examples(path)?),
            None => load::examples(&args.input).ok().filter(|own| predict::check_same_character(&model, own).is_ok()),
        };
        return Ok((model, motion));
    }
    anyhow::ensure!(args.motion.is_none(), "--motion is for a model; examples bring their own");
    let examples = load::examples(&args.input)?;
    let training = Training::new(&examples, &examples.split().train)?;
    let bars = progress::Bars::new();
    let method = Method::by_name("as").context("animation space is a method")?;
    let fitted = sinew_fit::fit(&training, &method, &bars).with_context(|| args.input.display().to_string())?;
    bars.finish();
    Ok((fitted.model, Some(examples)))
}

/// The model's skeleton in f64.
pub fn skeleton(model: &Model) -> anyhow::Result<Skeleton> {
    let rest = |bone: &sinew_runtime::Bone| DAffine3::from_cols_array(&bone.rest.to_cols_array().map(f64::from));
    let bones = model.character.bones.iter();
    let bones = bones.map(|bone| Bone { name: bone.name.clone(), parent: bone.parent, rest: rest(bone) }).collect();
    Ok(Skeleton::new(bones)?)
}

fn norm(args: &Args, skeleton: &Skeleton, motion: Option<&Examples>) -> anyhow::Result<PoseNorm> {
    let model = match (args.statistics, &args.ranges) {
        (Statistics::Rest, _) => {
            return Ok(PoseNorm::average(&[vec![DAffine3::IDENTITY; skeleton.bone_count()]]));
        }
        (Statistics::Skeleton, _) => MotionModel::UniformRotations,
        (Statistics::Motion, Some(path)) => ranges(path, skeleton)?.model(skeleton),
        (Statistics::Motion, None) => {
            let examples = motion.context("to know a model's motion give --motion EXAMPLES or --ranges FILE")?;
            let frames = args.frames.resolve(examples.split(), examples.frame_count())?;
            let samples = MotionSamples::new(skeleton, frames.iter().map(|&e| examples.pose(e)));
            assumed(args, samples, skeleton)?
        }
    };
    Ok(PoseNorm::new(skeleton, &model)?)
}

/// The model of motion that `--assume` names, with its priors from `samples`.
fn assumed(args: &Args, samples: MotionSamples, skeleton: &Skeleton) -> anyhow::Result<MotionModel> {
    let grouped = !args.together.is_empty();
    anyhow::ensure!(!grouped || args.assume == Assume::Hybrid, "--together is for --assume hybrid");
    Ok(match args.assume {
        Assume::Rotations => samples.rotations(skeleton),
        Assume::IndependentJoints => samples.independent_joints(skeleton),
        Assume::IndependentComponents => samples.independent_components(skeleton),
        Assume::FixedTranslations => samples.fixed_translations(skeleton),
        Assume::Average => MotionModel::Average(samples),
        Assume::Hybrid => {
            anyhow::ensure!(grouped, "--assume hybrid needs --together BONE,BONE: which joints move together");
            let bone = |name: &str| skeleton.find(name).with_context(|| format!("there is no bone `{name}`"));
            let group = |names: &String| names.split(',').map(|name| bone(name.trim())).collect::<anyhow::Result<_>>();
            let groups: Vec<Vec<usize>> = args.together.iter().map(group).collect::<anyhow::Result<_>>()?;
            samples.hybrid(skeleton, &groups)
        }
    })
}

/// Ranges of motion from a file.
pub fn ranges(path: &Path, skeleton: &Skeleton) -> anyhow::Result<RangesOfMotion> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    RangesOfMotion::parse(&text, skeleton).with_context(|| path.display().to_string())
}

/// The stretch in each of the test frames (all frames if none are named; the rest pose if there is no motion).
fn stretches(model: &Model, motion: Option<&Examples>, rest: &[DVec3], map: &Unwrapped) -> anyhow::Result<Vec<f64>> {
    let of = |positions: &[DVec3]| stretch::percent(positions, &model.character.triangles, &map.uvs);
    let Some(examples) = motion else { return Ok(vec![of(rest)]) };
    let test = &examples.split().test;
    let frames = if test.is_empty() { (0..examples.frame_count()).collect() } else { test.clone() };
    Ok(predict::predict(model, examples, &frames)?.iter().map(|positions| of(positions)).collect())
}

fn write(path: &Path, model: &Model) -> anyhow::Result<()> {
    let has = |wanted: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted));
    if is_model(path) {
        return Ok(model.write(path)?);
    }
    if has("glb") {
        return export::write_plain(path, model);
    }
    anyhow::ensure!(has("obj"), "{}: write a .glb, a .sinew or an .obj file", path.display());
    let mut text = String::new();
    for [x, y, z] in &model.character.rest_positions {
        text += &format!("v {x} {y} {z}\n");
    }
    for [u, v] in model.character.uvs.iter().flatten().flatten() {
        text += &format!("vt {u} {v}\n");
    }
    for (f, triangle) in model.character.triangles.iter().enumerate() {
        let corner = |k: usize| format!("{}/{}", triangle[k] + 1, 3 * f + k + 1);
        text += &format!("f {} {} {}\n", corner(0), corner(1), corner(2));
    }
    output::text(path, &text)
}
