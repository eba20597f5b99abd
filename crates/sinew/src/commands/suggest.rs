//! `sinew suggest`: which poses to add next.

use std::path::PathBuf;

use sinew_examples::FrameSelection;
use sinew_fit::Method;

use super::fit::method_names;
use crate::compare::contest::leave_one_out;
use crate::compare::suggest::{COVERED, suggest};
use crate::{Outcome, load, output};

/// Say which poses would help most if they were added to the training poses next.
///
/// Angles count from the rest pose. In and out are towards the body's middle and away from it, where the bones' names
/// tell left from right; else a turn is told as seen along the bone from its parent.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew suggest arm.npz
  sinew suggest body.npz --method as --count 8 --json suggest.json")]
pub struct Args {
    /// An examples.npz, or a skeleton's and a mesh's file joined by a plus: rig.fbx+sim.abc. Frames that do not train are
    /// candidates; only their skeleton is looked at.
    examples: PathBuf,
    /// The training poses: train, test, all, 0,5,10, 0..40 or every:5.
    #[arg(long, default_value = "train", value_name = "FRAMES")]
    train: FrameSelection,
    /// The method that tells which poses are hard: each is left out in turn.
    #[arg(long, default_value = "ssd", value_parser = method_names(), value_name = "METHOD")]
    method: String,
    /// How many suggestions.
    #[arg(long, default_value_t = 5, value_name = "N")]
    count: usize,
    /// Also write them as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Leaves out, ranks, tells.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check_json(args.json.as_ref())?;
    let method =
        Method::by_name(&args.method).ok_or_else(|| anyhow::anyhow!("there is no method `{}`", args.method))?;
    anyhow::ensure!(args.count > 0, "--count must be at least 1");
    let examples = load::examples(&args.examples)?;
    let train = args.train.resolve(examples.split(), examples.frame_count())?;
    let left_out = left_out_errors(&examples, &method, &train)?;
    let mut order: Vec<usize> = (0..train.len()).collect();
    order.sort_by(|&a, &b| left_out[b].total_cmp(&left_out[a]).then(a.cmp(&b)));
    output::line("Training poses that are hardest to predict from the others:")?;
    let rows = order
        .iter()
        .take(args.count)
        .map(|&k| vec![format!("  frame {}", train[k]), format!("{:.3} % of diagonal", left_out[k])]);
    output::table(&["", ""], rows.collect())?;
    let suggestions = suggest(&examples, &train, &left_out, args.count);
    if suggestions.is_empty() {
        output::line(COVERED)?;
    } else {
        output::line("Poses that would help most, best first:")?;
        for (k, suggestion) in suggestions.iter().enumerate() {
            output::line(&format!("  {}. {}", k + 1, suggestion.sentence()))?;
        }
    }
    if let Some(path) = &args.json {
        let frames: Vec<_> = train
            .iter()
            .zip(&left_out)
            .map(|(frame, percent)| serde_json::json!({"frame": frame, "left_out_percent": percent}))
            .collect();
        output::json(
            path,
            &serde_json::json!({"method": args.method, "training": frames, "suggestions": suggestions}),
        )?;
    }
    Ok(Outcome::Done)
}

/// Each training pose's root mean square error when it is left out, percent of the diagonal; one pose has none.
fn left_out_errors(examples: &sinew_examples::Examples, method: &Method, train: &[usize]) -> anyhow::Result<Vec<f64>> {
    if train.len() < 2 {
        return Ok(vec![0.0; train.len()]);
    }
    let predicted = leave_one_out(examples, method, train)?;
    let rms = |(&e, predicted): (&usize, &Vec<glam::DVec3>)| {
        let pairs = examples.vertices(e).iter().zip(predicted);
        let sum: f64 = pairs.map(|(t, p)| t.distance_squared(*p)).sum();
        100.0 * (sum / predicted.len().max(1) as f64).sqrt() / examples.mesh().diagonal()
    };
    Ok(train.iter().zip(&predicted).map(rms).collect())
}
