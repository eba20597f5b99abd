//! `sinew demo`: the whole thing on built-in data.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use sinew_examples::datasets;

use super::compare::table;
use crate::compare::advice;
use crate::compare::contest::{self, Contest, Rules};
use crate::compare::page::PageOptions;
use crate::compare::write_report;
use crate::{Outcome, interrupt, output, progress};

/// Fit every method to a built-in arm, compare them, and write a report and the best model.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew demo
  sinew demo --out /path/to/folder --data shoulder")]
pub struct Args {
    /// The folder for the report, the examples and the model.
    #[arg(long, default_value = "sinew-demo", value_name = "FOLDER")]
    out: PathBuf,
    /// The built-in data set; `sinew data --list` says what there is.
    #[arg(long, default_value = "arm", value_name = "NAME")]
    data: String,
}

/// Makes, fits, measures, writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let info = datasets::by_name(&args.data)
        .with_context(|| format!("there is no data set `{}`; see `sinew data --list`", args.data))?;
    let examples = info.make();
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make the folder {}", args.out.display()))?;
    let data = args.out.join(format!("{}.npz", info.name));
    sinew_io::npz::write(&data, &examples)?;
    let rules = Rules {
        source: info.name.into(),
        train: examples.split().train.clone(),
        test: Some(examples.split().test.clone()),
        timing: Duration::from_millis(60),
        jobs: contest::default_jobs(examples.mesh().vertex_count(), examples.split().train.len()),
    };
    let bars = progress::Bars::new();
    let contest = Contest::hold(examples, rules, contest::contenders(None)?, interrupt::flag(), &bars);
    bars.finish();
    table(&contest)?;
    write_report(&args.out, &contest, &PageOptions::default())?;
    let best = contest.finished().min_by(|a, b| advice::error(a.1).total_cmp(&advice::error(b.1)));
    let model = args.out.join(format!("{}.sinew", info.name));
    if let Some((_, finished)) = best {
        finished.model.write(&model)?;
    }
    for words in advice::words(&contest) {
        output::line(&words)?;
    }
    output::line(&format!("examples: {}", data.display()))?;
    output::line(&format!("the best model: {}", model.display()))?;
    output::line(&format!("report: {}", args.out.join("index.html").display()))?;
    anyhow::ensure!(!contest.interrupted, "interrupted; the report holds what was finished");
    Ok(Outcome::Done)
}
