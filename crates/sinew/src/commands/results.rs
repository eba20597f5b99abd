//! `sinew results`: every figure of `docs/RESULTS.md`, made by one command, and the check that it still holds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use sinew_examples::datasets::DATASETS;
use sinew_examples::{Examples, MeshSequence, Split};
use sinew_fit::recover::{RecoverParams, recover};

use crate::compare::contest::{self, Contest, Outcome, Rules};
use crate::compare::{hero, operation_counts, write};
use crate::{Outcome as Ended, interrupt, load, output, progress};

/// Regenerate docs/RESULTS.md and the README's picture, or check that the figures still hold.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew results
  sinew results --check --only bar,tube-twist,arm
  sinew results --shared ../shared/data")]
pub struct Args {
    /// The page to write or to check.
    #[arg(short, long, default_value = "docs/RESULTS.md", value_name = "FILE")]
    output: PathBuf,
    /// A folder with further examples (muscle_arm.npz, human.npz, horse.npz); sections of absent ones stay as they are.
    #[arg(long, default_value = "../shared/data", value_name = "FOLDER")]
    shared: PathBuf,
    /// Only these sections; the others stay as they are.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Option<Vec<String>>,
    /// Do not write: exit with 1 if a figure differs from the page.
    #[arg(long)]
    check: bool,
    /// The picture of the README, from `arm`.
    #[arg(long, default_value = "docs/images/hero.png", value_name = "FILE")]
    picture: PathBuf,
    /// The page whose summary table is written anew, if it is there.
    #[arg(long, default_value = "README.md", value_name = "FILE")]
    readme: PathBuf,
}

/// Two figures agree if they differ by less than this fraction or [`ABSOLUTE`]: mathematical functions differ in the
/// last digit between machines, and iterations stop a step apart.
const RELATIVE: f64 = 0.01;

/// In the unit of the figure; tables print two digits.
const ABSOLUTE: f64 = 0.021;

/// Makes or checks the page.
pub fn run(args: Args) -> anyhow::Result<Ended> {
    let before = std::fs::read_to_string(&args.output).unwrap_or_default();
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| only.iter().any(|n| n == name));
    let mut page = Page::new(&before);
    for info in DATASETS.iter().filter(|info| wanted(info.name)) {
        let contest = hold(info.make(), info.name)?;
        page.set(info.name, &format!("### {}: {}\n\n{}", info.name, info.summary, table(&contest)));
        if info.name == "arm" && !args.check {
            let png = hero::png(&contest).context("the picture needs ssd and another method")?;
            if let Some(folder) = args.picture.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            }
            write(&args.picture, &png)?;
        }
    }
    for (name, words) in SHARED {
        let path = args.shared.join(format!("{name}.npz"));
        if wanted(name) && path.exists() {
            let contest = hold(load::examples(&path)?, name)?;
            page.set(name, &format!("### {name}: {words}\n\n{}", table(&contest)));
        }
    }
    let horse = args.shared.join("horse.npz");
    if wanted("horse") && horse.exists() {
        page.set("horse", &horse_section(&horse)?);
    }
    if wanted("operations") {
        page.set("operations", &operations());
    }
    let after = page.text();
    if args.check {
        return compare(&before, &after, &args.output);
    }
    write(&args.output, after.as_bytes())?;
    output::line(&format!("{} written", args.output.display()))?;
    if let Ok(readme) = std::fs::read_to_string(&args.readme)
        && let Some(renewed) = with_summary(&readme, &page)
    {
        write(&args.readme, renewed.as_bytes())?;
        output::line(&format!("{} has a new summary", args.readme.display()))?;
    }
    Ok(Ended::Done)
}

/// The methods that the summary shows; those that a section lacks stay empty.
const SUMMARISED: [&str; 8] = ["ssd", "dqs", "as", "mwe", "psd", "rr", "rr-cp", "rr-cv"];

/// `readme` with the text between its summary's markers replaced: test EE by data set and method.
fn with_summary(readme: &str, page: &Page) -> Option<String> {
    const MARKERS: [&str; 2] = ["<!-- results:summary -->\n", "<!-- /results:summary -->"];
    let (head, rest) = readme.split_once(MARKERS[0])?;
    let (_, tail) = rest.split_once(MARKERS[1])?;
    let mut table = format!("| data | {} |\n|---|{}\n", SUMMARISED.join(" | "), "---|".repeat(SUMMARISED.len()));
    for (name, content) in page.sections.iter().filter(|(name, _)| name != "horse" && name != "operations") {
        // The third cell of a method's row is its error on the test frames.
        let error = |method: &str| {
            let row = content.lines().find(|line| line.starts_with(&format!("| {method} |")));
            row.and_then(|row| row.split('|').nth(3)).map_or(String::new(), |cell| cell.trim().to_string())
        };
        if !content.is_empty() {
            table.push_str(&format!("| {name} | {} |\n", SUMMARISED.map(error).join(" | ")));
        }
    }
    Some(format!("{head}{}{table}{}{tail}", MARKERS[0], MARKERS[1]))
}

/// Data sets that are not built in.
const SHARED: [(&str, &str); 2] = [
    ("muscle_arm", "an arm with four active muscles by finite elements; 10 training poses, 60 test"),
    ("human", "a body with dual-quaternion armature, correctives and smoothing; 40 training poses, 60 test"),
];

const INTRODUCTION: &str = "# Results

Made by `sinew results`; `sinew results --check` fails when a figure no longer holds. Errors are on poses that were not
seen in fitting, unless a column says train. EE is the enveloping error in percent of the best rigid binding's; max and
surface are percent of the rest bounding box's diagonal; STED is times 1000. The limit is the error that would be left
if the proxy bones had the best possible transforms in every test frame, with the weights as fitted. Times depend on the machine and are not
here: `sinew compare` and `sinew bench` measure them on yours.
";

/// The page as sections between markers, so that one can be replaced and the rest stay.
struct Page {
    sections: Vec<(String, String)>,
}

impl Page {
    /// The sections of an existing page, in the order of this program.
    fn new(text: &str) -> Self {
        let names =
            DATASETS.iter().map(|info| info.name).chain(SHARED.iter().map(|s| s.0)).chain(["horse", "operations"]);
        let old = |name: &str| {
            let (_, rest) = text.split_once(&format!("<!-- {name} -->\n"))?;
            Some(rest.split_once(&format!("<!-- end {name} -->"))?.0.to_string())
        };
        Self { sections: names.map(|name| (name.to_string(), old(name).unwrap_or_default())).collect() }
    }

    fn set(&mut self, name: &str, content: &str) {
        if let Some(section) = self.sections.iter_mut().find(|section| section.0 == name) {
            section.1 = content.to_string();
        }
    }

    fn text(&self) -> String {
        let mut text = String::from(INTRODUCTION);
        for (name, content) in &self.sections {
            match name.as_str() {
                "bar" => text.push_str("\n## Built-in data\n\n"),
                "muscle_arm" => text.push_str("\n## Other data\n\n"),
                _ => text.push('\n'),
            }
            text.push_str(&format!("<!-- {name} -->\n{content}<!-- end {name} -->\n"));
        }
        text
    }
}

fn hold(examples: Examples, name: &str) -> anyhow::Result<Contest> {
    let test = examples.split().test.clone();
    hold_on(examples, name, test)
}

fn hold_on(examples: Examples, name: &str, test: Vec<usize>) -> anyhow::Result<Contest> {
    eprintln!("{name} …");
    let jobs = contest::default_jobs(examples.mesh().vertex_count(), examples.split().train.len());
    let rules = Rules {
        source: name.into(),
        train: examples.split().train.clone(),
        test: Some(test),
        timing: Duration::ZERO,
        jobs,
    };
    let bars = progress::Bars::new();
    let contest = Contest::hold(examples, rules, contest::contenders(None)?, interrupt::flag(), &bars);
    bars.finish();
    anyhow::ensure!(!contest.interrupted, "interrupted; nothing was written");
    Ok(contest)
}

/// The horse in the set-ups of two papers. Its skeleton is recovered from the training frames; every frame's bones come
/// from the rigid cores, so that they are the same for every method and owe nothing to any.
fn horse_section(path: &Path) -> anyhow::Result<String> {
    let loaded = load::any(path)?;
    let sequence = match &loaded {
        sinew_io::Loaded::Sequence(sequence) => &**sequence,
        sinew_io::Loaded::Examples(examples) => examples.sequence(),
    };
    let split = sequence.split().clone();
    let gallop = split.test.clone();
    let keys: Vec<usize> = (0..10).map(|k| gallop[k * (gallop.len() - 1) / 9]).collect();
    let mut text = String::new();
    for (title, train, published) in [
        (
            "ten evenly spaced gallop frames train, the gallop is measured (Jacka, Reid, Merry and Gain 2007)",
            keys,
            true,
        ),
        ("ten poses train, the gallop is measured (Merry, Marais and Gain 2006)", split.train, false),
    ] {
        let split = Split { train, test: gallop.clone() };
        let frames = sequence.frames().to_vec();
        let sequence = MeshSequence::new(sequence.mesh().clone(), frames, Some(split), sequence.fps())?;
        let params = RecoverParams { all_at_once: false, ..RecoverParams::default() };
        let recovered = recover(&sequence, &params, &sinew_fit::Quiet)?;
        let bones = recovered.examples.skeleton().bone_count();
        let contest = hold_on(recovered.examples, "horse", gallop.clone())?;
        text.push_str(&format!("### horse, {bones} bones recovered: {title}\n\n{}\n", table(&contest)));
        if published {
            text.push_str(&beside_published(&contest));
        }
    }
    text.push_str(
        "Bones of unseen frames come from the rigid cores of the recovered parts, the same for every method.\n",
    );
    Ok(text)
}

/// Jacka, Reid, Merry and Gain, "A comparison of linear skinning techniques for character animation", 2007, table 1, the
/// horse: (our name, mean geometric error, mean normal error in degrees).
const PUBLISHED_HORSE: [(&str, f64, f64); 3] = [("as", 0.00073, 2.41), ("ssd", 0.00117, 2.43), ("mwe", 0.00143, 4.29)];

/// The paper's table beside ours. Its geometric errors have no stated unit, so both are also given over animation space's.
fn beside_published(contest: &Contest) -> String {
    let ours = |name: &str| {
        let (_, finished) = contest.finished().find(|(contender, _)| contender.name == name)?;
        Some((finished.test.details.surface_mean_percent, finished.test.details.measures.normal_mean_degrees))
    };
    let mut text = String::from(
        "Table 1 of that paper beside ours. The paper's geometric error has no stated unit; ours is the surface column. What\n\
         compares are the errors over those of animation space, and the normals.\n\n\
         | method | geometric, paper | over as | surface %, ours | over as | normals °, paper | normals °, ours |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let (first, ours_first) = (PUBLISHED_HORSE[0].1, ours(PUBLISHED_HORSE[0].0).map_or(f64::NAN, |o| o.0));
    for (name, geometric, normals) in PUBLISHED_HORSE {
        let (surface, our_normals) = ours(name).unwrap_or((f64::NAN, f64::NAN));
        text.push_str(&format!(
            "| {name} | {geometric:.5} | {:.2} | {surface:.3} | {:.2} | {normals:.2} | {our_normals:.2} |\n",
            geometric / first,
            surface / ours_first
        ));
    }
    text.push('\n');
    text
}

fn table(contest: &Contest) -> String {
    let mut text = String::from(
        "| method | train EE | test EE | limit | E_RMS | max | surface | normals ° | STED | kB a frame | Mflop a frame |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let best = contest.finished().map(|(_, f)| f.test.details.measures.ee_percent).fold(f64::INFINITY, f64::min);
    for (contender, outcome) in &contest.entries {
        match outcome {
            Outcome::Failed(reason) => {
                text.push_str(&format!("| {} | failed: {reason} | | | | | | | | | |\n", contender.name));
            }
            Outcome::Finished(finished) => {
                let (d, cost) = (&finished.test.details, finished.model.cost());
                let ee = format!("{:.2}", d.measures.ee_percent);
                let limit = finished.limit_percent.map_or(String::new(), |limit| format!("{limit:.2}"));
                let ee = if d.measures.ee_percent == best { format!("**{ee}**") } else { ee };
                text.push_str(&format!(
                    "| {} | {:.2} | {ee} | {limit} | {:.2} | {:.2} | {:.3} | {:.2} | {:.2} | {:.1} | {:.2} |\n",
                    contender.name,
                    finished.train.details.measures.ee_percent,
                    d.measures.e_rms,
                    d.measures.max_percent,
                    d.surface_mean_percent,
                    d.measures.normal_mean_degrees,
                    1000.0 * d.sted,
                    cost.bytes as f64 / 1000.0,
                    cost.flops as f64 / 1e6,
                ));
            }
        }
    }
    text
}

fn operations() -> String {
    format!(
        "## Operations a frame\n\n\
         The characters of Wang's thesis (\"Real-time enveloping with rotational regression\", 2007, table 6.1). An addition, a\n\
         multiplication and a comparison count one each; positions only, four influences a vertex. SSD is 114 V; rotational\n\
         regression (RR) adds 72 P² + 96 P J + 256 P: its matrices factored by x, y and z, every block of them present, and\n\
         predictors that see two joints to first order. The thesis\n\
         counts about twice as much a vertex and its matrices unfactored.\n\n{}",
        operation_counts::markdown()
    )
}

/// Compares the pages word by word, figures with a tolerance; names the first lines that differ.
fn compare(before: &str, after: &str, path: &Path) -> anyhow::Result<Ended> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut differing = Vec::new();
    for k in 0..old.len().max(new.len()) {
        let (a, b) = (old.get(k).copied().unwrap_or(""), new.get(k).copied().unwrap_or(""));
        if !same_line(a, b) {
            differing.push(format!("line {}:\n  page {a}\n  now  {b}", k + 1));
        }
    }
    if differing.is_empty() {
        output::line(&format!("{}: every figure holds", path.display()))?;
        return Ok(Ended::Done);
    }
    eprintln!("{}: {} lines no longer hold; run `sinew results`", path.display(), differing.len());
    for line in differing.iter().take(10) {
        eprintln!("{line}");
    }
    Ok(Ended::ThresholdMissed)
}

fn same_line(a: &str, b: &str) -> bool {
    let words = |line: &str| line.split_whitespace().map(|w| w.trim_matches('*').to_string()).collect::<Vec<_>>();
    let (a, b) = (words(a), words(b));
    let same = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => (x - y).abs() <= ABSOLUTE + RELATIVE * x.abs().max(y.abs()),
        _ => a == b,
    };
    a.len() == b.len() && a.iter().zip(&b).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_tolerance_and_words_have_none() {
        assert!(same_line("| ssd | 80.10 | **3.45** |", "| ssd | 80.31 | 3.46 |"));
        assert!(!same_line("| ssd | 80.10 |", "| ssd | 82.10 |"));
        assert!(!same_line("| ssd | 80.10 |", "| dqs | 80.10 |"));
        assert!(!same_line("| ssd | 80.10 |", "| ssd | 80.10 | 1 |"));
    }

    #[test]
    fn sections_that_are_not_made_again_stay() {
        let mut page = Page::new("");
        page.set("bar", "old bar\n");
        page.set("human", "old human\n");
        let mut again = Page::new(&page.text());
        again.set("bar", "new bar\n");
        assert!(again.text().contains("<!-- bar -->\nnew bar\n<!-- end bar -->"));
        assert!(again.text().contains("<!-- human -->\nold human\n<!-- end human -->"));
    }
}
