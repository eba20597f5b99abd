//! `sinew data`: a built-in data set as a file.

use std::path::PathBuf;

use sinew_examples::datasets::{self, DATASETS};

use crate::{Outcome, output};

/// Write a built-in data set as an examples.npz, or list them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew data --list
  sinew data arm -o arm.npz")]
pub struct Args {
    /// Which data set; `--list` says what each is.
    #[arg(value_parser = names(), required_unless_present = "list")]
    name: Option<String>,
    /// The file to write [default: NAME.npz].
    #[arg(short, long, value_name = "FILE.npz")]
    output: Option<PathBuf>,
    /// List the data sets.
    #[arg(long, conflicts_with_all = ["name", "output"])]
    list: bool,
}

/// Writes, or lists.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let Some(info) = args.name.as_deref().and_then(datasets::by_name) else {
        let row = |info: &datasets::DatasetInfo| vec![info.name.to_string(), info.summary.to_string()];
        output::table(&["name", "what"], DATASETS.iter().map(row).collect())?;
        return Ok(Outcome::Done);
    };
    let path = args.output.unwrap_or_else(|| format!("{}.npz", info.name).into());
    output::check(&path, &["npz"])?;
    let examples = info.make();
    sinew_io::npz::write(&path, &examples)?;
    output::line(&format!(
        "{}: {} vertices, {} bones, {} training and {} test poses → {}",
        info.name,
        examples.mesh().vertex_count(),
        examples.skeleton().bone_count(),
        examples.split().train.len(),
        examples.split().test.len(),
        path.display()
    ))?;
    Ok(Outcome::Done)
}

fn names() -> clap::builder::PossibleValuesParser {
    let value = |info: &datasets::DatasetInfo| clap::builder::PossibleValue::new(info.name).help(info.summary);
    DATASETS.iter().map(value).collect::<Vec<_>>().into()
}
