//! `sinew recover`: a skeleton from a bare mesh sequence.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use glam::DAffine3;
use sinew_examples::Examples;
use sinew_fit::methods::ssd::SparseWeights;
use sinew_fit::recover::{GuideBone, RecoverParams, Recovered, RestChoice, recover, recover_guided};
use sinew_io::{GlbJoint, GlbMesh, GlbMotion, GlbSkin, GlbTransform, Loaded};

use crate::progress::Bars;
use crate::{Outcome, cpu, load, output, parts_picture};

/// Frames a second of an animation whose source does not say.
const DEFAULT_FPS: f64 = 24.0;

/// Find a skeleton in a bare mesh sequence: rigid parts, their motion, joints and a hierarchy.
///
/// Parts are found in the training frames; all frames get their bones.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew recover horse.npz -o examples.npz
  sinew recover horse.npz --bones 24 -o examples.npz --picture horse.png
  sinew recover horse.npz --guide bones.json -o examples.npz

A guide names the bones, their parents and core vertices:
  {\"bones\": [{\"name\": \"trunk\", \"parent\": null, \"core\": [12, 15, 19, 40]},
             {\"name\": \"neck\", \"parent\": \"trunk\", \"core\": [101, 102, 140]}]}")]
pub struct Args {
    /// The mesh sequence. A skeleton that is in it is not looked at.
    meshes: PathBuf,
    /// How many bones, or `auto`. Fewer come back if there is no motion for more.
    #[arg(long, default_value = "auto", value_name = "N|auto")]
    bones: Bones,
    /// The rest pose: the file's own rest mesh, a frame, or the training frame nearest to all others.
    #[arg(long, default_value = "given", value_name = "given|central|FRAME")]
    rest: Rest,
    /// Let bones change size, one factor a bone and frame.
    #[arg(long)]
    scale: bool,
    /// Take each bone's motion from its own rigid core alone, without fitting all bones of a frame at once.
    #[arg(long)]
    cores_only: bool,
    /// A JSON file of bones, parents and core vertices to find the motion and joints for.
    #[arg(long, value_name = "FILE.json", conflicts_with = "bones")]
    guide: Option<PathBuf>,
    /// What to write: the sequence with its skeleton.
    #[arg(short, long, value_name = "FILE.npz|FILE.glb")]
    output: PathBuf,
    /// Also draw the parts and the skeleton.
    #[arg(long, value_name = "FILE.png")]
    picture: Option<PathBuf>,
    /// Also write bones, joints, residuals, E_RMS and processor seconds as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// `--bones`.
#[derive(Debug, Clone, Copy)]
struct Bones(Option<usize>);

impl std::str::FromStr for Bones {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self(None)),
            _ => text.parse().map(|n| Self(Some(n))).map_err(|_| "give a number, or auto".into()),
        }
    }
}

/// `--rest`.
#[derive(Debug, Clone, Copy)]
struct Rest(RestChoice);

impl std::str::FromStr for Rest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "given" => Ok(Self(RestChoice::Given)),
            "central" => Ok(Self(RestChoice::Central)),
            _ => text
                .parse()
                .map(|e| Self(RestChoice::Frame(e)))
                .map_err(|_| "give given, central or a frame's number".into()),
        }
    }
}

/// Recovers and writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    check_output(&args.output)?;
    args.picture.as_deref().map_or(Ok(()), |path| output::check(path, &["png"]))?;
    output::check_json(args.json.as_ref())?;
    let loaded = load::any(&args.meshes)?;
    let sequence = match &loaded {
        Loaded::Examples(examples) => examples.sequence(),
        Loaded::Sequence(sequence) => &**sequence,
    };
    for notice in sequence.notices() {
        eprintln!("note: {}: {notice}", args.meshes.display());
    }
    let params =
        RecoverParams { bones: args.bones.0, rest: args.rest.0, scale: args.scale, all_at_once: !args.cores_only };
    let started = cpu::seconds();
    let bars = Bars::new();
    let result = match &args.guide {
        Some(path) => recover_guided(sequence, &read_guide(path)?, &params, &bars),
        None => recover(sequence, &params, &bars),
    };
    bars.finish();
    let recovered = result.with_context(|| args.meshes.display().to_string())?;
    let cpu_seconds = cpu::seconds() - started;
    for warning in &recovered.report.warnings {
        eprintln!("note: {warning}");
    }
    write(&args.output, &recovered.examples, &recovered.weights)?;
    if let Some(path) = &args.picture {
        parts_picture::write(path, &recovered.examples, &recovered.parts)?;
    }
    report(&args, &recovered, cpu_seconds)
}

/// Refuses an output that cannot be written before anything is computed.
pub fn check_output(path: &Path) -> anyhow::Result<()> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npz" | "glb") => output::check(path, &["npz", "glb"]),
        _ => bail!("{}: the output must end in .npz or .glb", path.display()),
    }
}

/// Writes examples by the file's ending; a GLB is skinned by `weights` and plays the frames.
pub fn write(path: &Path, examples: &Examples, weights: &SparseWeights) -> anyhow::Result<()> {
    if path.extension().is_none_or(|extension| extension != "glb") {
        sinew_io::npz::write(path, examples)?;
        return Ok(());
    }
    let (mesh, bones) = (examples.mesh(), examples.skeleton().bones());
    let local = |globals: &[DAffine3], b: usize| {
        let above = bones[b].parent.map_or(DAffine3::IDENTITY, |parent| globals[parent].inverse());
        GlbTransform::from_affine(above * globals[b])
    };
    let rest: Vec<DAffine3> = bones.iter().map(|bone| bone.rest).collect();
    let joint = |b: usize| GlbJoint {
        name: bones[b].name.clone(),
        parent: bones[b].parent,
        local: local(&rest, b),
        inverse_bind: Some(bones[b].rest.inverse()),
    };
    let locals = |e: usize| (0..bones.len()).map(|b| local(&examples.pose(e).globals, b)).collect();
    let fps = examples.fps().unwrap_or(DEFAULT_FPS);
    let times = (0..examples.frame_count()).map(|e| e as f64 / fps).collect();
    let row = |row: &Vec<(usize, f64)>| row.iter().map(|&(b, w)| (b, w as f32)).collect();
    let skin = GlbSkin {
        joints: (0..bones.len()).map(joint).collect(),
        weights: weights.vertices.iter().map(row).collect(),
        motion: Some(GlbMotion { times, locals: (0..examples.frame_count()).map(locals).collect() }),
    };
    let mesh = GlbMesh {
        name: "mesh".into(),
        positions: mesh.vertices().to_vec(),
        triangles: mesh.triangles().to_vec(),
        uvs: mesh.uvs().map(<[_]>::to_vec),
        extras: None,
    };
    sinew_io::write_glb_skin(path, &mesh, &skin, None)?;
    Ok(())
}

#[derive(serde::Deserialize)]
struct Guide {
    bones: Vec<GuideEntry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct GuideEntry {
    name: String,
    parent: Option<String>,
    core: Vec<usize>,
}

fn read_guide(path: &Path) -> anyhow::Result<Vec<GuideBone>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let guide: Guide = serde_json::from_str(&text).with_context(|| format!("{} is not a guide", path.display()))?;
    let bone = |entry: &GuideEntry| {
        let parent = match &entry.parent {
            None => None,
            Some(name) => Some(guide.bones.iter().position(|other| other.name == *name).with_context(|| {
                format!("{}: bone {} has parent {name}, which is not in the guide", path.display(), entry.name)
            })?),
        };
        Ok(GuideBone { name: entry.name.clone(), parent, core: entry.core.clone() })
    };
    guide.bones.iter().map(bone).collect()
}

fn report(args: &Args, recovered: &Recovered, cpu_seconds: f64) -> anyhow::Result<Outcome> {
    let (examples, tree) = (&recovered.examples, &recovered.report.tree);
    let (skeleton, diagonal) = (examples.skeleton(), examples.mesh().diagonal());
    let bones = skeleton.bones();
    let row = |&b: &usize| {
        let joint = tree.joints.iter().find(|joint| joint.child == b);
        vec![
            bones[b].name.clone(),
            bones[b].parent.map_or(String::new(), |parent| bones[parent].name.clone()),
            recovered.parts.iter().filter(|&&part| part == b).count().to_string(),
            format!("{:.3} %", 100.0 * recovered.report.bone_residuals[b] / diagonal),
            joint.map_or(String::new(), |joint| format!("{:.3} %", 100.0 * joint.disagreement / diagonal)),
        ]
    };
    output::table(
        &["bone", "parent", "vertices", "rms from rigid", "joint gap"],
        skeleton.parents_first().iter().map(row).collect(),
    )?;
    output::line(&format!(
        "{} bones: E_RMS {:.4} of linear blend skinning over all {} frames, {cpu_seconds:.2} processor seconds → {}",
        bones.len(),
        recovered.report.e_rms,
        examples.frame_count(),
        args.output.display()
    ))?;
    if let Some(path) = &args.json {
        let joint = |joint: &sinew_fit::recover::Joint| {
            serde_json::json!({
                "bone": bones[joint.child].name,
                "parent": bones[joint.parent].name,
                "position": joint.position.to_array(),
                "gap_percent": 100.0 * joint.disagreement / diagonal,
            })
        };
        let residual = |rms: &f64| 100.0 * rms / diagonal;
        let value = serde_json::json!({
            "bones": bones.len(),
            "e_rms": recovered.report.e_rms,
            "cpu_seconds": cpu_seconds,
            "root": bones[tree.root].name,
            "names": bones.iter().map(|bone| bone.name.clone()).collect::<Vec<_>>(),
            "residual_percent": recovered.report.bone_residuals.iter().map(residual).collect::<Vec<_>>(),
            "joints": tree.joints.iter().map(joint).collect::<Vec<_>>(),
            "warnings": recovered.report.warnings,
        });
        output::json(path, &value)?;
    }
    Ok(Outcome::Done)
}
