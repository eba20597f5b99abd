//! `sinew fit`: examples → model.

mod correction_args;
mod linear_args;
mod method_args;
mod pose_weights;
mod rr_args;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use sinew_examples::FrameSelection;
use sinew_fit::mirror::{self, MirrorChoice};
use sinew_fit::{Fitted, Training};

pub use method_args::{MethodArgs, method_names};

use crate::{Outcome, load, output, predict, progress};

/// Learn a skin from examples and write it as a .sinew model.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew fit examples.npz --method rr --correct -o character.sinew
  sinew fit rig.fbx+sim.abc --method rr -o character.sinew
  sinew fit body.npz --method ssd --influences 8 --train every:2 -o body.sinew")]
pub struct Args {
    /// An examples.npz, or a skeleton's and a mesh's file joined by a plus: rig.fbx+sim.abc.
    examples: PathBuf,
    /// The model to write.
    #[arg(short, long, value_name = "MODEL.sinew")]
    output: PathBuf,
    /// The frames to learn from: train, test, all, 0,5,10, 0..40 or every:5.
    #[arg(long, default_value = "train", value_name = "FRAMES")]
    train: FrameSelection,
    /// How much each pose counts: `1,2,0.5` or a file of numbers, one a frame or one a training frame; 0 leaves it out.
    #[arg(long, value_name = "LIST|FILE")]
    pose_weights: Option<String>,
    /// Learn from the poses' mirror images too: `auto` if the character is symmetric and less error is to be expected on unseen
    /// poses, `on` or an error, `off`.
    #[arg(long, value_enum, default_value = "off")]
    mirror: Mirror,
    #[command(flatten)]
    method: MethodArgs,
    /// Also write the report of the fit as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Whether to learn from mirror images.
#[derive(clap::ValueEnum, Clone, Copy)]
enum Mirror {
    /// If they help.
    Auto,
    /// Yes.
    On,
    /// No.
    Off,
}

/// Fits and writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check(&args.output, &["sinew"])?;
    output::check_json(args.json.as_ref())?;
    let method = args.method.method()?;
    let mut examples = load::examples(&args.examples)?;
    let frames = args.train.resolve(examples.split(), examples.frame_count())?;
    if let Some(text) = &args.pose_weights {
        examples = pose_weights::apply(examples, &frames, text)?;
    }
    let training = Training::new(&examples, &frames)?;
    let start = Instant::now();
    let bars = progress::Bars::new();
    let mirror = match args.mirror {
        Mirror::Auto => MirrorChoice::Auto,
        Mirror::On => MirrorChoice::On,
        Mirror::Off => MirrorChoice::Off,
    };
    let (Fitted { mut model, mut report }, mirrored) = mirror::fit(&training, mirror, &method, &bars)
        .with_context(|| format!("{}: the fit of `{}` failed", args.examples.display(), method.name()))?;
    bars.finish();
    if mirror != MirrorChoice::Off {
        report.found("mirror images", mirrored);
    }
    let seconds = start.elapsed().as_secs_f64();
    let measures = predict::measure(&model, &examples, &frames)?;
    model.metadata.source = args.examples.file_name().unwrap_or_default().to_string_lossy().into_owned();
    model.metadata.figures.extend([
        ("train.frames".into(), frames.len() as f64),
        ("train.ee_percent".into(), measures.ee_percent),
        ("train.e_rms".into(), measures.e_rms),
        ("train.max_percent".into(), measures.max_percent),
    ]);
    model.write(&args.output)?;
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    let findings = report.findings.iter().map(|(name, words)| vec![name.clone(), words.clone()]).collect();
    output::table(&["", ""], findings)?;
    output::line(&format!(
        "{}: {} on {} poses in {seconds:.1} s, training error {:.2} % EE → {}",
        args.examples.display(),
        method.name(),
        frames.len(),
        measures.ee_percent,
        args.output.display()
    ))?;
    if let Some(path) = &args.json {
        let iterations: Vec<_> = report
            .iterations
            .iter()
            .map(|i| serde_json::json!({"stage": i.name, "residuals": i.residuals, "stopped": i.stopped}))
            .collect();
        output::json(
            path,
            &serde_json::json!({
                "method": method.name(),
                "train": measures,
                "findings": report.findings.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                "iterations": iterations,
                "fields": report.fields.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                "warnings": report.warnings,
                "fit_seconds": seconds,
            }),
        )?;
    }
    Ok(Outcome::Done)
}
