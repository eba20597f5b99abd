//! `sinew compare`: every method on the same examples, one report.

use std::path::PathBuf;
use std::time::Duration;

use sinew_examples::{Examples, FrameSelection};

use crate::compare::advice::{self, Budget};
use crate::compare::contest::{self, Contest, Outcome, Rules};
use crate::compare::page::PageOptions;
use crate::compare::{make_folder, study, sweep, write_report};
use crate::{Outcome as Ended, interrupt, load, output, progress};

/// Fit every method to the same examples, measure them on unseen poses, and write a report that opens in a browser.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew compare arm.npz -o report/
  sinew compare rig.fbx+sim.abc -o report/
  sinew compare body.npz -o report/ --methods ssd,as,rr --leave-one-out
  sinew compare body.npz -o report/ --sweep --study
  sinew compare body.npz -o report/ --budget bytes=200k,microseconds=80,joints=64")]
pub struct Args {
    /// An examples.npz, or a skeleton's and a mesh's file joined by a plus: rig.fbx+sim.abc.
    examples: PathBuf,
    /// The folder for index.html, results.json and results.csv.
    #[arg(short, long, default_value = "report", value_name = "FOLDER")]
    output: PathBuf,
    /// Only these methods, by name [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    methods: Option<Vec<String>>,
    /// The frames to learn from: train, test, all, 0,5,10, 0..40 or every:5.
    #[arg(long, default_value = "train", value_name = "FRAMES")]
    train: FrameSelection,
    /// The frames to measure on.
    #[arg(long, default_value = "test", value_name = "FRAMES", conflicts_with = "leave_one_out")]
    frames: FrameSelection,
    /// Leave out each training pose in turn, and measure on those.
    #[arg(long)]
    leave_one_out: bool,
    /// Also show this frame, besides the worst and the median.
    #[arg(long, value_name = "FRAME")]
    show: Option<usize>,
    /// Say which method is best within limits, e.g. bytes=200k,microseconds=80,joints=64.
    #[arg(long, value_name = "LIMITS")]
    budget: Option<Budget>,
    /// Fit this many methods at the same time; 1 for fit times undisturbed by others [default: by cores and memory].
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    jobs: Option<usize>,
    /// Also sweep regularisation, the number of training poses and of proxy bones: many more fits.
    #[arg(long)]
    sweep: bool,
    /// Also write blind clips and a page on which viewers rate them (see `sinew study`).
    #[arg(long)]
    study: bool,
}

/// Compares, prints the table, and writes the report.
pub fn run(args: Args) -> anyhow::Result<Ended> {
    let mut contenders = contest::contenders(args.methods.as_deref())?;
    if args.budget.is_some() && args.methods.is_none() {
        contenders.extend(contest::variants());
    }
    let examples = load::examples(&args.examples)?;
    // Before minutes of fitting, not after.
    make_folder(&args.output)?;
    let source = args.examples.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let rules = rules(&examples, source, &args)?;
    let bars = progress::Bars::new();
    let contest = Contest::hold(examples, rules, contenders.clone(), interrupt::flag(), &bars);
    bars.finish();
    table(&contest)?;
    let mut options = PageOptions { chosen_frame: args.show, budget: args.budget, ..PageOptions::default() };
    if args.sweep && !contest.interrupted {
        // What is finished is kept if the sweep is interrupted, or long.
        write_report(&args.output, &contest, &options)?;
        let sweeps = sweep::sweeps(&contest, &contenders, interrupt::flag(), &bars);
        bars.finish();
        options.extra.push(sweeps.html);
        output::json(&args.output.join("sweep.json"), &sweeps.json)?;
    }
    write_report(&args.output, &contest, &options)?;
    if args.study {
        study::write_study(&args.output.join("study"), &contest)?;
        output::line(&format!("study: {}", args.output.join("study").join("index.html").display()))?;
    }
    for words in advice::words(&contest) {
        output::line(&words)?;
    }
    if let Some(budget) = &args.budget {
        output::line(&advice::under_budget(&contest, budget))?;
    }
    output::line(&format!("report: {}", args.output.join("index.html").display()))?;
    anyhow::ensure!(contest.interrupted || contest.finished().next().is_some(), "no method could be fitted");
    anyhow::ensure!(!contest.interrupted, "interrupted; the report holds what was finished");
    Ok(Ended::Done)
}

fn rules(examples: &Examples, source: String, args: &Args) -> anyhow::Result<Rules> {
    let train = args.train.resolve(examples.split(), examples.frame_count())?;
    let no_test = args.frames == FrameSelection::Test && examples.split().test.is_empty();
    if no_test && !args.leave_one_out {
        eprintln!("note: the examples name no test frames; each training pose is left out in turn instead");
    }
    let test = if args.leave_one_out || no_test {
        None
    } else {
        Some(args.frames.resolve(examples.split(), examples.frame_count())?)
    };
    let measured = test.as_ref().unwrap_or(&train);
    if let Some(show) = args.show.filter(|show| !measured.contains(show)) {
        anyhow::bail!("--show {show} is not one of the {} frames that are measured (see --frames)", measured.len());
    }
    let jobs = args.jobs.unwrap_or_else(|| contest::default_jobs(examples.mesh().vertex_count(), train.len()));
    Ok(Rules { source, train, test, timing: Duration::from_millis(150), jobs })
}

/// The table on stdout.
pub fn table(contest: &Contest) -> anyhow::Result<()> {
    let row = |(contender, outcome): &(contest::Contender, Outcome)| match outcome {
        Outcome::Failed(reason) => vec![contender.name.clone(), "failed".into(), reason.clone()],
        Outcome::Finished(f) => {
            let (test, cost) = (&f.test.details, f.model.cost());
            vec![
                contender.name.clone(),
                format!("{:.2}", f.train.details.measures.ee_percent),
                format!("{:.2}", test.measures.ee_percent),
                f.limit_percent.map_or("—".into(), |limit| format!("{limit:.2}")),
                format!("{:.2}", test.measures.max_percent),
                format!("{:.2}", test.measures.normal_mean_degrees),
                format!("{:.4}", test.sted),
                cost.bytes.to_string(),
                cost.flops.to_string(),
                format!("{:.1}", f.microseconds),
                format!("{:.2}", f.fit_seconds),
            ]
        }
    };
    let head =
        ["method", "train EE %", "test EE %", "limit %", "max %", "normals °", "STED", "bytes", "flops", "µs", "fit s"];
    output::table(&head, contest.entries.iter().map(row).collect())
}
