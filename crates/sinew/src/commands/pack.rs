//! `sinew pack`: files of other tools become `examples.npz`.

use std::path::PathBuf;

use anyhow::Context;
use glam::{DMat3, DVec3};
use sinew_examples::FrameSelection;
use sinew_io::{Loaded, PackError, PackOptions, npz};

use crate::{Outcome, output};

/// Turn skeletons and mesh sequences of other tools into examples.
///
/// Frames are matched by time. What is wrong between the files (units, axes, frame offset, vertex order, winding, rest
/// pose) is found from the geometry and named together with the flag that mends it; --fix mends all of it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew pack --skeleton rig.fbx --mesh sim.abc -o examples.npz
  sinew pack --skeleton walk.bvh --mesh walk/ --skeleton run.bvh --mesh run/ -o examples.npz
  sinew pack --skeleton shot.usdc -o examples.npz              one file with both
  sinew pack --skeleton rig.glb --mesh sim.pc2 --topology body.obj -o examples.npz
  sinew pack --skeleton rig.fbx --mesh sim.abc --test every:5 -o examples.npz     four fifths train")]
pub struct Args {
    /// A skeleton with animation: .glb .gltf .fbx .usd .usda .usdc .usdz .bvh; may repeat, one for each --mesh.
    #[arg(long, required = true, value_name = "FILE")]
    skeleton: Vec<PathBuf>,
    /// A moving mesh: .abc .usd* .glb (morph targets) .mdd .pc2 .npz or a directory of .obj; without it the skeleton's file.
    #[arg(long, value_name = "FILE")]
    mesh: Vec<PathBuf>,
    /// Where to write the examples.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Mend whatever can be mended.
    #[arg(long)]
    fix: bool,
    /// A file with the rest mesh and its faces, for point caches without.
    #[arg(long, value_name = "FILE", help_heading = "What to use")]
    topology: Option<PathBuf>,
    /// The frame (from 0, among the matched) whose mesh and pose are the rest.
    #[arg(long, value_name = "N", help_heading = "What to use")]
    rest_frame: Option<usize>,
    /// The mesh to use, where several move.
    #[arg(long, value_name = "NAME", help_heading = "What to use")]
    mesh_name: Option<String>,
    /// The skeleton to use, where there are several.
    #[arg(long, value_name = "NAME", help_heading = "What to use")]
    skeleton_name: Option<String>,
    /// The frames to train on: 0..40, 0,5,10 or every:2, from 0 among the matched (default: those that do not test).
    #[arg(long, value_name = "FRAMES", help_heading = "What to use")]
    train: Option<FrameSelection>,
    /// The frames to keep unseen, for `sinew measure --frames test` (default: those that do not train).
    #[arg(long, value_name = "FRAMES", help_heading = "What to use")]
    test: Option<FrameSelection>,
    /// Frames a second, for sequences that only number their frames (default: the skeleton's).
    #[arg(long, value_name = "FPS", help_heading = "What to use")]
    fps: Option<f64>,
    /// Multiply the mesh's coordinates by this.
    #[arg(long, value_name = "FACTOR", help_heading = "What to mend")]
    mesh_scale: Option<f64>,
    /// Turn the mesh's axes: `x,z,-y` makes Z up into Y up.
    #[arg(long, value_name = "AXES", value_parser = sinew_io::parse_axes, allow_hyphen_values = true, help_heading = "What to mend")]
    mesh_axes: Option<DMat3>,
    /// Add this to the mesh's coordinates, in metres, after scale and axes: `0,1.5,-2`.
    #[arg(long, value_name = "X,Y,Z", value_parser = sinew_io::parse_offset, allow_hyphen_values = true, help_heading = "What to mend")]
    mesh_offset: Option<DVec3>,
    /// Add this many frames to the mesh's times.
    #[arg(long, value_name = "FRAMES", allow_hyphen_values = true, help_heading = "What to mend")]
    offset: Option<i64>,
    /// Leave out bones that only mark the end of a chain.
    #[arg(long, help_heading = "What to mend")]
    drop_end_bones: bool,
    /// Turn the faces inside out.
    #[arg(long, help_heading = "What to mend")]
    flip: bool,
}

/// Packs and writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check(&args.output, &["npz"])?;
    let pairs = pairs(&args)?;
    anyhow::ensure!(args.fps.is_none_or(|fps| fps.is_finite() && fps > 0.0), "--fps must be a positive number");
    anyhow::ensure!(
        args.mesh_scale.is_none_or(|scale| scale.is_finite() && scale > 0.0),
        "--mesh-scale must be a positive number"
    );
    let options = PackOptions {
        fix: args.fix,
        mesh_name: args.mesh_name,
        skeleton_name: args.skeleton_name,
        topology: args.topology,
        rest_frame: args.rest_frame,
        mesh_scale: args.mesh_scale,
        mesh_axes: args.mesh_axes,
        mesh_offset: args.mesh_offset,
        offset: args.offset,
        fps: args.fps,
        drop_end_bones: args.drop_end_bones,
        flip: args.flip,
        train: args.train,
        test: args.test,
    };
    let packed = match sinew_io::pack(&pairs, &options) {
        Err(PackError::Faults(findings)) => {
            findings.iter().filter(|finding| !finding.is_open()).for_each(|finding| eprintln!("note: {finding}"));
            return Err(PackError::Faults(findings)).context("nothing was written");
        }
        other => other?,
    };
    packed.findings.iter().for_each(|finding| eprintln!("note: {finding}"));
    let sequence = match &packed.loaded {
        Loaded::Examples(examples) => {
            npz::write(&args.output, examples)?;
            examples.sequence()
        }
        Loaded::Sequence(sequence) => {
            npz::write_sequence(&args.output, sequence)?;
            sequence
        }
    };
    let (frames, vertices) = (sequence.frame_count(), sequence.mesh().vertex_count());
    let split = match sequence.split() {
        split if split.test.is_empty() => String::new(),
        split => format!(", {} train and {} test", split.train.len(), split.test.len()),
    };
    output::line(&format!("{}: {frames} frames of {vertices} vertices{split}", args.output.display()))?;
    let next = match &packed.loaded {
        Loaded::Examples(_) => format!("sinew fit {} --method rr --correct -o model.sinew", args.output.display()),
        Loaded::Sequence(_) => format!("there is no skeleton; sinew recover {} -o rigged.npz", args.output.display()),
    };
    eprintln!("next: {next}");
    Ok(Outcome::Done)
}

fn pairs(args: &Args) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    if args.mesh.is_empty() {
        return Ok(args.skeleton.iter().map(|path| (path.clone(), path.clone())).collect());
    }
    let (skeletons, meshes) = (args.skeleton.len(), args.mesh.len());
    anyhow::ensure!(
        skeletons == meshes,
        "there are {skeletons} --skeleton and {meshes} --mesh; give one of each a clip"
    );
    Ok(args.skeleton.iter().cloned().zip(args.mesh.iter().cloned()).collect())
}
