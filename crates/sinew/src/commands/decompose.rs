//! `sinew decompose`: bones and weights that replay a mesh sequence.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use glam::DAffine3;
use sinew_examples::{Bone, Examples, ExamplesParts, FrameSelection, InfluenceMap, MeshSequence, Pose};
use sinew_fit::decompose::{self, BoneKind, DecomposeParams, Decomposition, Given};
use sinew_fit::methods::ssd::SparseWeights;
use sinew_fit::recover::{hierarchy, rig, starting_bones};
use sinew_io::Loaded;

use crate::progress::Bars;
use crate::{Outcome, cpu, load, output, parts_picture};

/// Find bones and weights that replay a mesh sequence (smooth skinning decomposition).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew decompose cloth.npz --bones 30 -o cloth.glb
  sinew decompose horse.npz --frames test --bones 20 -o gallop.npz --json gallop.json
  sinew decompose body.npz --keep-bones --bones 40 -o helpers.npz     the rig stays, helper bones are added
  sinew decompose body.npz --weights-only -o weights.npz")]
pub struct Args {
    /// The sequence, with or without a skeleton.
    meshes: PathBuf,
    /// Bones in all, kept ones included. Fewer come back if there is no motion for more.
    #[arg(long, value_name = "N")]
    bones: Option<usize>,
    /// Bones a vertex at most.
    #[arg(long, default_value_t = DecomposeParams::default().influences, value_name = "K")]
    influences: usize,
    /// Let bones shear and scale: lower error, but not for glTF.
    #[arg(long)]
    affine: bool,
    /// The frames to replay: train, test, all, 0,5,10, 0..40 or every:5.
    #[arg(long, default_value = "all", value_name = "FRAMES")]
    frames: FrameSelection,
    /// Keep the file's bones and their motion; bones beyond them are helpers.
    #[arg(long)]
    keep_bones: bool,
    /// Keep the file's weights (its `influences`) for every vertex that has any.
    #[arg(long)]
    keep_weights: bool,
    /// What to start from: bones added one by one where the error is largest, or the rigid parts of a recovery.
    #[arg(long, value_enum, default_value_t = Init::Growth)]
    init: Init,
    /// Only weights, for the file's bones as they move.
    #[arg(long, conflicts_with_all = ["bones", "keep_weights", "transforms_only", "affine"])]
    weights_only: bool,
    /// Only the bones' motion, for the file's weights (its `influences`).
    #[arg(long, conflicts_with_all = ["bones", "keep_bones"])]
    transforms_only: bool,
    /// A round of four iterations that lowers the error by less than this fraction is idle.
    #[arg(long, default_value_t = DecomposeParams::default().tolerance, value_name = "FRACTION")]
    tolerance: f64,
    /// Stop after this many idle rounds in a row.
    #[arg(long, default_value_t = DecomposeParams::default().patience, value_name = "ROUNDS")]
    patience: usize,
    /// Stop after this many iterations at the latest.
    #[arg(long, default_value_t = DecomposeParams::default().max_iterations, value_name = "N")]
    iterations: usize,
    /// What to write: examples with the bones, and the weights as influences.
    #[arg(short, long, value_name = "FILE.npz|FILE.glb")]
    output: PathBuf,
    /// Also draw the parts and the skeleton.
    #[arg(long, value_name = "FILE.png")]
    picture: Option<PathBuf>,
    /// Also write bones, E_RMS and processor seconds as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Where the bones come from.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Init {
    Growth,
    Recovery,
}

/// Decomposes and writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    super::recover::check_output(&args.output)?;
    args.picture.as_deref().map_or(Ok(()), |path| output::check(path, &["png"]))?;
    output::check_json(args.json.as_ref())?;
    let glb = args.output.extension().is_some_and(|extension| extension == "glb");
    if glb && (args.affine || args.influences > 8) {
        bail!(
            "a .glb holds no shear and at most 8 influences; write an .npz, or leave out --affine and lower --influences"
        );
    }
    let loaded = load::any(&args.meshes)?;
    let (sequence, examples) = match &loaded {
        Loaded::Examples(examples) => (examples.sequence(), Some(&**examples)),
        Loaded::Sequence(sequence) => (&**sequence, None),
    };
    let frames = args.frames.resolve(sequence.split(), sequence.frame_count())?;
    let mut given = given(&args, examples, &frames)?;
    let known = given.transforms.first().map_or(0, Vec::len);
    let weighted =
        given.weights.iter().flat_map(|weights| weights.vertices.iter().flatten()).map(|&(b, _)| b + 1).max();
    let fixed = args.weights_only || args.transforms_only;
    let default_bones =
        if fixed { known.max(weighted.unwrap_or(1)) } else { DecomposeParams::default().bones.max(known) };
    let params = DecomposeParams {
        bones: args.bones.unwrap_or(default_bones),
        influences: args.influences,
        kind: if args.affine { BoneKind::Affine } else { BoneKind::Rigid },
        tolerance: args.tolerance,
        patience: args.patience,
        max_iterations: args.iterations,
    };
    let started = cpu::seconds();
    let bars = Bars::new();
    let known_bones = !given.transforms.is_empty();
    if args.init == Init::Recovery {
        if known_bones || given.weights.is_some() {
            bail!("--init recovery finds bones anew; leave it out where bones or weights are kept");
        }
        given.transforms = starting_bones(sequence, &frames, params.bones, &bars)?;
    }
    let result = decompose::decompose(sequence, &frames, &given, &params, &bars);
    bars.finish();
    let decomposition = result.with_context(|| args.meshes.display().to_string())?;
    let cpu_seconds = cpu::seconds() - started;
    for warning in &decomposition.report.warnings {
        eprintln!("note: {warning}");
    }
    let kept = if known_bones { examples } else { None };
    let rigged = rigged(sequence, &frames, &decomposition, kept)?;
    super::recover::write(&args.output, &rigged, &decomposition.weights)?;
    if let Some(path) = &args.picture {
        parts_picture::write(path, &rigged, &owners(&decomposition))?;
    }
    report(&args, &decomposition, frames.len(), cpu_seconds)
}

/// What of the file must stay.
fn given(args: &Args, examples: Option<&Examples>, frames: &[usize]) -> anyhow::Result<Given> {
    let mut given = Given::default();
    if args.keep_bones || args.weights_only {
        let Some(examples) = examples else {
            bail!("{}: there are no bones to keep in it", args.meshes.display());
        };
        let skeleton = examples.skeleton();
        let skinning = |&e: &usize| {
            let bones = skeleton.bones().iter().zip(&examples.pose(e).globals);
            bones.map(|(bone, &global)| global * bone.rest.inverse()).collect()
        };
        given.transforms = frames.iter().map(skinning).collect();
        given.locked_bones = vec![true; skeleton.bone_count()];
    }
    if args.keep_weights || args.transforms_only {
        let Some(map) = examples.and_then(Examples::influences) else {
            bail!("{}: there are no weights (`influences`) to keep in it", args.meshes.display());
        };
        let vertices = examples.map_or(0, |examples| examples.mesh().vertex_count());
        let (weights, locked) = from_map(map, vertices);
        given.weights = Some(weights);
        given.locked_vertices = locked;
    }
    Ok(given)
}

/// Weights from an influence map; a vertex without any is free and starts with the first bone.
fn from_map(map: &InfluenceMap, vertices: usize) -> (SparseWeights, Vec<bool>) {
    let row = |v: usize| {
        let used = map.vertex(v).iter().enumerate().filter(|&(_, &w)| w > 0.0);
        used.map(|(b, &w)| (b, f64::from(w))).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<(usize, f64)>> = (0..vertices).map(row).collect();
    let locked = rows.iter().map(|row| !row.is_empty()).collect();
    let filled = rows.into_iter().map(|row| if row.is_empty() { vec![(0, 1.0)] } else { row }).collect();
    (SparseWeights { vertices: filled }, locked)
}

/// The replayed frames with the bones found: the kept skeleton with helpers, or a tree over the parts.
fn rigged(
    sequence: &MeshSequence,
    frames: &[usize],
    decomposition: &Decomposition,
    kept: Option<&Examples>,
) -> anyhow::Result<Examples> {
    let owner = owners(decomposition);
    let (bones, poses) = match kept {
        Some(examples) => with_helpers(examples, decomposition),
        None => {
            let tree = hierarchy(sequence.mesh(), &owner, &decomposition.transforms);
            rig(sequence.mesh(), &owner, &decomposition.transforms, &tree)
        }
    };
    let count = bones.len();
    let mut influences = vec![0.0; owner.len() * count];
    for (v, row) in decomposition.weights.vertices.iter().enumerate() {
        row.iter().for_each(|&(b, w)| influences[v * count + b] = w as f32);
    }
    Ok(Examples::new(ExamplesParts {
        mesh: sequence.mesh().clone(),
        bones,
        poses,
        frames: frames.iter().map(|&e| sequence.frames()[e].clone()).collect(),
        split: None,
        influences: Some(influences),
        pose_weights: None,
        fps: sequence.fps(),
    })?)
}

/// Each vertex's heaviest bone.
fn owners(decomposition: &Decomposition) -> Vec<usize> {
    (0..decomposition.weights.vertices.len()).map(|v| decomposition.weights.dominant(v)).collect()
}

/// The kept bones as they were; each helper hangs on the kept bone whose vertices it shares most.
fn with_helpers(examples: &Examples, decomposition: &Decomposition) -> (Vec<Bone>, Vec<Pose>) {
    let skeleton = examples.skeleton();
    let known = skeleton.bone_count();
    let mut bones = skeleton.bones().to_vec();
    let mut shared = vec![vec![0.0; known]; decomposition.bone_count()];
    let mut centres = vec![(glam::DVec3::ZERO, 0.0); decomposition.bone_count()];
    for (v, row) in decomposition.weights.vertices.iter().enumerate() {
        for &(b, w) in row {
            centres[b].0 += examples.mesh().vertices()[v] * w;
            centres[b].1 += w;
            row.iter().filter(|&&(c, _)| c < known).for_each(|&(c, u)| shared[b][c] += w * u);
        }
    }
    for b in known..decomposition.bone_count() {
        let parent = (0..known).max_by(|&c, &d| shared[b][c].total_cmp(&shared[b][d]).then(d.cmp(&c))).unwrap_or(0);
        // A helper sits among its vertices; nothing is known of a joint.
        let place = centres[b].0 / centres[b].1.max(f64::MIN_POSITIVE);
        let name = format!("helper_{:02}", b - known + 1);
        bones.push(Bone { name, parent: Some(parent), rest: DAffine3::from_translation(place) });
    }
    let pose =
        |frame: &Vec<DAffine3>| Pose { globals: frame.iter().zip(&bones).map(|(&t, bone)| t * bone.rest).collect() };
    let poses = decomposition.transforms.iter().map(pose).collect();
    (bones, poses)
}

fn report(args: &Args, decomposition: &Decomposition, frames: usize, cpu_seconds: f64) -> anyhow::Result<Outcome> {
    let refinement = decomposition.report.iterations.last();
    let kind = if args.affine { "affine" } else { "rigid" };
    output::line(&format!(
        "{} {kind} bones, {} vertices, {frames} frames: E_RMS {:.4} in {cpu_seconds:.2} processor seconds → {}",
        decomposition.bone_count(),
        decomposition.weights.vertices.len(),
        decomposition.report.e_rms,
        args.output.display()
    ))?;
    if let Some(refinement) = refinement {
        output::line(&format!("{} iterations, stopped: {}", refinement.residuals.len(), refinement.stopped))?;
    }
    if let Some(path) = &args.json {
        json(path, args, decomposition, frames, cpu_seconds)?;
    }
    Ok(Outcome::Done)
}

fn json(path: &Path, args: &Args, result: &Decomposition, frames: usize, cpu_seconds: f64) -> anyhow::Result<()> {
    let value = serde_json::json!({
        "bones": result.bone_count(),
        "e_rms": result.report.e_rms,
        "cpu_seconds": cpu_seconds,
        "kind": if args.affine { "affine" } else { "rigid" },
        "influences": args.influences,
        "frames": frames,
        "vertices": result.weights.vertices.len(),
        "iterations": result.report.iterations.last().map_or(0, |last| last.residuals.len()),
        "stopped": result.report.iterations.last().map_or("", |last| last.stopped),
        "warnings": result.report.warnings,
    });
    output::json(path, &value)
}
