//! The command line as a whole: global flags and the list of commands.

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::{Outcome, commands};

/// Learns a real-time character skin from example poses.
///
/// Give sinew a few dozen (skeleton pose, deformed mesh) pairs; it fits a model that costs about as much per frame as
/// plain skinning and looks like the source.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = "Start with `sinew demo`.")]
pub struct Cli {
    /// Threads to use (default: all cores). The result is the same whatever the number.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
// Parsed once: its size on the stack does not matter.
#[allow(clippy::large_enum_variant)]
enum Command {
    Demo(commands::demo::Args),
    Data(commands::data::Args),
    Recover(commands::recover::Args),
    Decompose(commands::decompose::Args),
    Inspect(commands::inspect::Args),
    Pack(commands::pack::Args),
    Pose(commands::pose::Args),
    Export(commands::export::Args),
    Fit(commands::fit::Args),
    Measure(commands::measure::Args),
    Bench(commands::bench::Args),
    Render(commands::render::Args),
    Subdivide(commands::subdivide::Args),
    Unwrap(commands::unwrap::Args),
    Bounds(commands::bounds::Args),
    Compare(commands::compare::Args),
    Results(commands::results::Args),
    Study(commands::study::Args),
    Suggest(commands::suggest::Args),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<Outcome> {
        if let Some(threads) = self.threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
            pool.build_global().context("cannot start the threads")?;
        }
        match self.command {
            Command::Demo(args) => commands::demo::run(args),
            Command::Data(args) => commands::data::run(args),
            Command::Recover(args) => commands::recover::run(args),
            Command::Decompose(args) => commands::decompose::run(args),
            Command::Inspect(args) => commands::inspect::run(args),
            Command::Pack(args) => commands::pack::run(args),
            Command::Pose(args) => commands::pose::run(args),
            Command::Export(args) => commands::export::run(args),
            Command::Fit(args) => commands::fit::run(args),
            Command::Measure(args) => commands::measure::run(args),
            Command::Bench(args) => commands::bench::run(args),
            Command::Render(args) => commands::render::run(args),
            Command::Subdivide(args) => commands::subdivide::run(args),
            Command::Unwrap(args) => commands::unwrap::run(args),
            Command::Bounds(args) => commands::bounds::run(args),
            Command::Compare(args) => commands::compare::run(args),
            Command::Results(args) => commands::results::run(args),
            Command::Study(args) => commands::study::run(args),
            Command::Suggest(args) => commands::suggest::run(args),
        }
    }
}
