//! `sinew measure`: how far a model is from the truth.

use std::path::PathBuf;

use sinew_examples::FrameSelection;
use sinew_runtime::Model;

use crate::{Outcome, load, output, predict};

/// Measure a model against true meshes: enveloping error, E_RMS, KG, distances of vertices and of surfaces, normals, volume,
/// STED.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew measure arm.sinew arm.npz --frames test
  sinew measure arm.sinew arm.npz --frames all --json arm.json --at-most-ee 15")]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// Examples with the same mesh and skeleton: an examples.npz, or rig.fbx+sim.abc.
    examples: PathBuf,
    /// The frames to measure: train, test, all, 0,5,10, 0..40 or every:5.
    #[arg(long, default_value = "test", value_name = "FRAMES")]
    frames: FrameSelection,
    /// Exit with status 1 if the enveloping error is above this many percent.
    #[arg(long, value_name = "PERCENT")]
    at_most_ee: Option<f64>,
    /// Also write the measures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check_json(args.json.as_ref())?;
    let model = Model::read(&args.model).map_err(|error| load::named(&args.model, error))?;
    let examples = load::examples(&args.examples)?;
    let frames = args.frames.resolve(examples.split(), examples.frame_count())?;
    let details = predict::details(&model, &examples, &frames)?;
    let measures = &details.measures;
    let limit = predict::limit_percent(&model, &examples, &frames);
    let row = |name: &str, value: String, meaning: &str| vec![name.into(), value, meaning.into()];
    let of_diagonal = "of the rest diagonal";
    let mut rows = vec![
        row("method", model.metadata.method.clone(), ""),
        row("frames", format!("{} ({})", measures.frames, args.frames), ""),
        row("EE", format!("{:.3} %", measures.ee_percent), "of the best rigid binding's error"),
        row(
            "spread",
            format!("{:.3} %", details.spread_percent),
            "standard deviation over vertices, in the unit of EE",
        ),
        row(
            "E_RMS",
            format!("{:.3}", measures.e_rms),
            &format!("thousandths of {:.4} m, half the rest diagonal", measures.e_rms_normaliser),
        ),
        row("KG", format!("{:.4} %", details.kg_percent), "of the shape's extent"),
        row("rms", format!("{:.4} %", measures.rms_percent), of_diagonal),
        row("max", format!("{:.4} %", measures.max_percent), of_diagonal),
        row("p95", format!("{:.4} %", measures.p95_percent), of_diagonal),
        row(
            "surface",
            format!("{:.4} %", details.surface_mean_percent),
            &format!("{of_diagonal}; mean distance to the true surface, {} frames", details.surface_frames),
        ),
        row("Hausdorff", format!("{:.4} %", details.hausdorff_percent), of_diagonal),
        row("normals", format!("{:.3}°", measures.normal_mean_degrees), "mean deviation"),
        row("volume", format!("{:.4} %", details.volume_mean_percent), "mean change of the true volume"),
        row("worst volume", format!("{:+.4} %", details.volume_worst_percent), "the largest, with its sign"),
        row(
            "STED",
            format!("{:.5}", details.sted),
            &format!("uneven edges in space {:.5} and in time {:.5}", details.sted_spatial, details.sted_temporal),
        ),
    ];
    rows.extend(limit.map(|limit| {
        row("limit", format!("{limit:.3} %"), "EE if its proxy bones had the best possible transforms in each frame")
    }));
    output::table(&["measure", "value", ""], rows)?;
    if let Some(path) = &args.json {
        let mut json = serde_json::to_value(details)?;
        json["limit_ee_percent"] = limit.into();
        json["method"] = model.metadata.method.clone().into();
        output::json(path, &json)?;
    }
    // What is not a number is not within a limit either.
    let missed = args.at_most_ee.is_some_and(|limit| !(measures.ee_percent <= limit));
    Ok(if missed { Outcome::ThresholdMissed } else { Outcome::Done })
}
