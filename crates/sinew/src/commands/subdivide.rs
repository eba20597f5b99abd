//! `sinew subdivide`: a finer model of the same surface.

use std::path::PathBuf;

use sinew_runtime::Model;

use crate::{Outcome, load, output};

/// Subdivide a model by Loop's rule: the finer model is exactly the subdivided posed mesh, in every pose.
///
/// Works on animation-space models, and on linear blend models by turning them into animation space first, with their
/// corrections (psd, eigenskin).
#[derive(clap::Args)]
#[command(after_help = "Example:
  sinew fit arm.npz --method as -o arm.sinew && sinew subdivide arm.sinew -o fine.sinew --levels 2")]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// The model to write.
    #[arg(short, long, value_name = "MODEL.sinew")]
    output: PathBuf,
    /// How often; each level has four times the triangles.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    levels: u8,
}

/// Reads, subdivides, writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check(&args.output, &["sinew"])?;
    let model = Model::read(&args.model).map_err(|error| load::named(&args.model, error))?;
    let mut fine = sinew_fit::subdivide::subdivide(&model, args.levels.into())?;
    // The figures were measured on the coarse mesh and say nothing of this one.
    fine.metadata.figures.clear();
    fine.metadata.notes.insert("subdivision levels".into(), args.levels.to_string());
    fine.write(&args.output)?;
    output::line(&format!(
        "{} vertices, {} triangles → {} vertices, {} triangles: {}",
        model.character.vertex_count(),
        model.character.triangles.len(),
        fine.character.vertex_count(),
        fine.character.triangles.len(),
        args.output.display()
    ))?;
    Ok(Outcome::Done)
}
