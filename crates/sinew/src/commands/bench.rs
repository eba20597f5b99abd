//! `sinew bench`: what a model costs a frame, against linear blend skinning on the same mesh.

use std::path::PathBuf;

use sinew_bench::model::{Figures, Report, Target, bench};
use sinew_bench::peers::{PEERS, Peer};
use sinew_bench::timing::Effort;
use sinew_runtime::Model;

use crate::{Outcome, load, output};

/// Measure what a model costs a frame on one core: time, speed, bytes and operations, caches hot and cold, against
/// linear blend skinning on the same mesh, a plain loop, and what the machine allows.
#[derive(clap::Args)]
#[command(
    after_help = "Times are the best of many short bursts, contestants in turn; ratios are medians within a round.

Examples:
  sinew bench arm.sinew
  sinew bench arm.sinew --json arm-bench.json"
)]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// Rounds of measuring; more are steadier on a busy machine.
    #[arg(long, default_value_t = Effort::default().rounds, value_name = "N")]
    rounds: usize,
    /// Exit with status 1 if a stated aim is missed.
    #[arg(long)]
    strict: bool,
    /// Also write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check_json(args.json.as_ref())?;
    anyhow::ensure!(args.rounds > 0, "--rounds must be at least 1");
    let model = Model::read(&args.model).map_err(|error| load::named(&args.model, error))?;
    anyhow::ensure!(model.character.vertex_count() > 0, "{}: the model has no vertices", args.model.display());
    let report = bench(&model, Effort { rounds: args.rounds, ..Effort::default() });
    print(&report)?;
    if let Some(path) = &args.json {
        output::json(path, &serde_json::to_value(&report)?)?;
    }
    let missed = args.strict && report.targets.iter().any(|target| !target.met);
    Ok(if missed { Outcome::ThresholdMissed } else { Outcome::Done })
}

fn print(report: &Report) -> anyhow::Result<()> {
    let row = |name: &str, f: &Figures| {
        vec![
            name.into(),
            format!("{:.1}", f.microseconds),
            format!("{:.0}", f.vertices_per_second / 1e6),
            format!("{:.1}", f.p50_microseconds),
            format!("{:.1}", f.p99_microseconds),
            format!("{:.1}", f.cold_microseconds),
            format!("{:.3}", f.bytes as f64 / 1e6),
            format!("{:.3}", f.operations as f64 / 1e6),
        ]
    };
    let short = |name: &str, microseconds: f64| {
        let speed = format!("{:.0}", report.vertices as f64 / microseconds);
        let mut row = vec![name.into(), format!("{microseconds:.1}"), speed];
        row.resize(8, String::new());
        row
    };
    let name = if report.real_time { report.method.clone() } else { format!("{} (not real-time)", report.method) };
    let mut rows = vec![row(&name, &report.model), row("ssd on the same mesh", &report.ssd)];
    rows.extend(report.plain_microseconds.map(|time| short("plain loop", time)));
    rows.push(short("bound for ssd", report.bound.microseconds));
    let header = ["", "µs", "Mvertices/s", "p50 µs", "p99 µs", "cold µs", "MB", "Mflop"];
    output::table(&header, rows)?;
    let beyond = report.beyond_ratio.map_or("as within".into(), |ratio| format!("{ratio:.2} × a pose within them"));
    let facts = [
        ("vertices", report.vertices.to_string()),
        ("joints", report.joints.to_string()),
        ("influences a vertex", format!("{:.2}", report.influences)),
        ("pairs computed over influences", format!("{:.2}", report.pairs_over_influences)),
        ("time over ssd", format!("{:.2} (ratios of this run: to ± {:.3})", report.ratio_to_ssd, report.uncertainty)),
        ("with palette normals", format!("{:.2} × positions only", report.palette_normals_ratio)),
        ("with one-ring normals", format!("{:.2} × positions only", report.one_ring_normals_ratio)),
        ("of a crowd of 100", format!("{:.2} × one that stays in the cache", report.crowd_ratio_to_hot)),
        ("beyond the trained ranges", beyond),
        ("multiply-adds", format!("{:.1} G/s measured", report.bound.multiply_adds_per_second / 1e9)),
        ("bandwidth", format!("{:.1} GB/s measured", report.bound.bytes_per_second / 1e9)),
    ];
    output::table(&["", ""], facts.map(|(name, value)| vec![name.into(), value]).to_vec())?;
    let aim = |t: &Target| {
        let sign = if t.at_least { "≥" } else { "≤" };
        let word = if t.met { "met" } else { "missed" };
        vec![t.name.clone(), format!("{:.2}", t.value), format!("{sign} {}", t.limit), word.into()]
    };
    output::table(&["aim", "measured", "", ""], report.targets.iter().map(aim).collect())?;
    let peer = |p: &Peer| vec![p.name.into(), p.millions.to_string(), p.source.into()];
    output::table(
        &["others, 29,380 vertices, 4 influences, one core at 3.2 GHz", "Mvertices/s", ""],
        PEERS.iter().map(peer).collect(),
    )
}
