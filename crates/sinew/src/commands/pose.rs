//! `sinew pose`: a new animation through a model.

use std::path::{Path, PathBuf};

use anyhow::Context;
use glam::DVec3;
use sinew_examples::{Examples, ExamplesParts, Mesh, Polygons};
use sinew_io::{Retargeted, npz};
use sinew_runtime::Model;

use crate::{Outcome, animation, character, load, output};

/// Play a new animation through a model and write the moving mesh.
///
/// The animation's bones are matched to the model's by name; what does not match is listed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew pose arm.sinew walk.fbx -o walk.abc
  sinew pose arm.sinew walk.bvh -o walk.glb          the frames as morph targets
  sinew pose arm.sinew examples.npz -o frames/       one OBJ a frame")]
pub struct Args {
    /// A model made by `sinew fit`.
    model: PathBuf,
    /// A skeleton's animation: examples, .glb .gltf .fbx .usd* .bvh.
    animation: PathBuf,
    /// Where to write: .glb .abc .usda .npz .pc2 .mdd, or a directory for OBJ files.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Poses and writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let format = Format::of(&args.output)?;
    if !matches!(format, Format::Obj) {
        output::check(&args.output, &["glb", "abc", "usda", "npz", "pc2", "mdd"])?;
    }
    let model = Model::read(&args.model).map_err(|error| load::named(&args.model, error))?;
    let clip = animation::load(&args.animation, &model)?;
    let mut worst: Option<(usize, f32)> = None;
    let frames = character::play(&model, &clip.poses, |evaluator| {
        let outside = evaluator.outside_training();
        worst = if outside.map(|(_, by)| by) > worst.map(|(_, by)| by) { outside } else { worst };
    });
    write(format, &args.output, &model, &clip, frames)?;
    if let Some((joint, by)) = worst {
        let (name, degrees) = (&model.character.bones[joint].name, by.to_degrees());
        eprintln!("note: `{name}` turns {degrees:.0}° beyond what the model was trained on");
    }
    let (count, vertices) = (clip.poses.len(), model.character.vertex_count());
    output::line(&format!("{}: {count} frames of {vertices} vertices", args.output.display()))?;
    Ok(Outcome::Done)
}

#[derive(Clone, Copy)]
enum Format {
    Glb,
    Alembic,
    Usd,
    Npz,
    Pc2,
    Mdd,
    Obj,
}

impl Format {
    fn of(path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() || path.to_string_lossy().ends_with(std::path::is_separator) {
            return Ok(Self::Obj);
        }
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        Ok(match ending.as_str() {
            "glb" => Self::Glb,
            "abc" => Self::Alembic,
            "usda" => Self::Usd,
            "npz" => Self::Npz,
            "pc2" => Self::Pc2,
            "mdd" => Self::Mdd,
            "" => Self::Obj,
            other => anyhow::bail!("cannot write .{other}; use .glb .abc .usda .npz .pc2 .mdd, or a directory for OBJ"),
        })
    }
}

/// Writes the frames as they are computed; only a GLB and an NPZ, whose formats want them at once, hold them all.
fn write(
    format: Format,
    path: &Path,
    model: &Model,
    clip: &Retargeted,
    frames: impl ExactSizeIterator<Item = Vec<DVec3>>,
) -> anyhow::Result<()> {
    let vertices = model.character.vertex_count();
    let name = character::name_of(path);
    let surface = character::surface(&model.character);
    let fps = animation::fps(&clip.times);
    match format {
        Format::Glb => {
            let mesh = character::glb_mesh(&model.character, &name);
            sinew_io::write_glb_morphs(path, &mesh, &clip.times, frames)?;
        }
        Format::Alembic => sinew_io::write_alembic(path, &name, &surface, &clip.times, frames)?,
        Format::Usd => sinew_io::write_usda(path, &name, &surface, &clip.times, fps, frames)?,
        Format::Pc2 => sinew_io::write_pc2(path, (clip.times[0] * fps).round() as f32, vertices, frames)?,
        Format::Mdd => sinew_io::write_mdd(path, &clip.times, vertices, frames)?,
        Format::Obj => {
            std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
            for (frame, points) in frames.enumerate() {
                sinew_io::write_obj(&path.join(format!("{name}_{:04}.obj", frame + 1)), &name, &surface, &points)?;
            }
        }
        Format::Npz => npz::write(path, &examples(model, clip, frames.collect(), fps)?)?,
    }
    Ok(())
}

fn examples(model: &Model, clip: &Retargeted, frames: Vec<Vec<DVec3>>, fps: f64) -> anyhow::Result<Examples> {
    let of_model = &model.character;
    let polygons = of_model.polygons.as_ref();
    let polygons = polygons.map(|p| Polygons { counts: p.counts.clone(), vertices: p.vertices.clone() });
    let rest = of_model.rest_positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect();
    Ok(Examples::new(ExamplesParts {
        mesh: Mesh::new(rest, of_model.triangles.clone(), polygons, of_model.uvs.clone())?,
        bones: animation::bones(model),
        poses: clip.poses.clone(),
        frames,
        split: None,
        influences: None,
        pose_weights: None,
        fps: Some(fps),
    })?)
}
