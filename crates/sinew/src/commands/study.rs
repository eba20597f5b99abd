//! `sinew study`: ratings of a user study, evaluated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sinew_measure::Summary;

use crate::{Outcome, output};

/// Evaluate the ratings of a user study: means, 95 % intervals and pairwise t-tests.
///
/// `sinew compare EXAMPLES -o report/ --study` writes the clips and the page on which viewers rate them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew study report/study/ratings.csv
  sinew study anna.csv ben.csv --key report/study/key.json --json study.json")]
pub struct Args {
    /// Ratings: lines of rater,clip,rating under a header.
    #[arg(required = true)]
    ratings: Vec<PathBuf>,
    /// Which clip is which method [default: key.json beside the first ratings].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Also write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Reads, evaluates, prints.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check_json(args.json.as_ref())?;
    for path in &args.ratings {
        anyhow::ensure!(path.is_file(), "{}: there is no such file of ratings", path.display());
    }
    let key_path = args.key.clone().unwrap_or_else(|| args.ratings[0].with_file_name("key.json"));
    let key = read_key(&key_path)?;
    let mut ratings: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for path in &args.ratings {
        read_ratings(path, &key, &key_path, &mut ratings)?;
    }
    let mut methods: Vec<(String, Summary)> = Vec::new();
    for (method, values) in &ratings {
        match Summary::of(values) {
            Some(summary) => methods.push((method.clone(), summary)),
            None => eprintln!("note: {method} has one rating only and is left out"),
        }
    }
    methods.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean).then(a.0.cmp(&b.0)));
    anyhow::ensure!(!methods.is_empty(), "no method has two ratings or more");
    let rows = methods.iter().map(|(method, s)| {
        vec![
            method.clone(),
            s.count.to_string(),
            format!("{:.2}", s.mean),
            format!("[{:.2}; {:.2}]", s.interval[0], s.interval[1]),
            format!("{:.2}", s.deviation),
        ]
    });
    output::table(&["method", "ratings", "mean", "95 % interval", "deviation"], rows.collect())?;
    let mut tests = Vec::new();
    let mut json_tests = Vec::new();
    for (k, (a, first)) in methods.iter().enumerate() {
        for (b, second) in &methods[k + 1..] {
            let test = first.test(second);
            let verdict = if test.p < 0.05 { "differ" } else { "may be the same" };
            tests.push(vec![
                format!("{a} and {b}"),
                format!("{:.2}", test.t),
                format!("{:.1}", test.freedom),
                format!("{:.2e}", test.p),
                verdict.into(),
            ]);
            json_tests.push(serde_json::json!({"methods": [a, b], "test": test}));
        }
    }
    if !tests.is_empty() {
        output::line("")?;
        output::table(&["t-test", "t", "freedom", "p", ""], tests)?;
    }
    if let Some(path) = &args.json {
        let methods: BTreeMap<&String, &Summary> = methods.iter().map(|(name, summary)| (name, summary)).collect();
        output::json(path, &serde_json::json!({"methods": methods, "tests": json_tests}))?;
    }
    Ok(Outcome::Done)
}

fn read_key(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("{}: cannot read the key that `sinew compare --study` wrote; name it with --key", path.display())
    })?;
    serde_json::from_str(&text).with_context(|| format!("{}: it is not an object of clip to method", path.display()))
}

fn read_ratings(
    path: &Path,
    key: &BTreeMap<String, String>,
    key_path: &Path,
    ratings: &mut BTreeMap<String, Vec<f64>>,
) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}: cannot read it", path.display()))?;
    for (k, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("{} line {}", path.display(), k + 1);
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        anyhow::ensure!(cells.len() == 3, "{}: `{line}` is not rater,clip,rating", place());
        let method = key
            .get(cells[1])
            .with_context(|| format!("{}: there is no clip `{}` in {}", place(), cells[1], key_path.display()))?;
        let rating = cells[2].parse::<f64>().ok().filter(|r| (0.0..=10.0).contains(r));
        let rating = rating.with_context(|| format!("{}: `{}` is not a rating from 0 to 10", place(), cells[2]))?;
        ratings.entry(method.clone()).or_default().push(rating);
    }
    Ok(())
}
