//! The contest as machines read it: `results.json` and `results.csv`. Keys are words with units, and stay.

use serde_json::{Value, json};

use super::contest::{Contender, Contest, Finished, Outcome};

/// The whole contest.
pub fn json(contest: &Contest) -> Value {
    let examples = &contest.examples;
    json!({
        "examples": contest.rules.source,
        "vertices": examples.mesh().vertex_count(),
        "bones": examples.skeleton().bone_count(),
        "train_frames": contest.rules.train,
        "test_frames": contest.test_frames,
        "leave_one_out": contest.rules.test.is_none(),
        "interrupted": contest.interrupted,
        "methods": contest.entries.iter().map(|(contender, outcome)| entry(contender, outcome)).collect::<Vec<_>>(),
    })
}

fn entry(contender: &Contender, outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Failed(reason) => json!({
            "method": contender.name,
            "title": contender.title,
            "status": "failed",
            "reason": reason,
        }),
        Outcome::Finished(finished) => {
            let cost = finished.model.cost();
            json!({
                "method": contender.name,
                "title": contender.title,
                "status": "ok",
                "train": finished.train.details,
                "test": finished.test.details,
                "limit_ee_percent": finished.limit_percent,
                "test_frame_rms_percent": finished.test.frame_rms_percent,
                "bytes": cost.bytes,
                "file_bytes": finished.file_bytes,
                "flops": cost.flops,
                "microseconds": finished.microseconds,
                "fit_seconds": finished.fit_seconds,
                "findings": finished.report.findings,
                "warnings": finished.report.warnings,
            })
        }
    }
}

/// A column of the CSV and of tables: its name, and its value for a finished contender.
type Column = (&'static str, fn(&Finished) -> Option<f64>);

const COLUMNS: &[Column] = &[
    ("train_ee_percent", |f| Some(f.train.details.measures.ee_percent)),
    ("test_ee_percent", |f| Some(f.test.details.measures.ee_percent)),
    ("limit_ee_percent", |f| f.limit_percent),
    ("test_spread_percent", |f| Some(f.test.details.spread_percent)),
    ("test_e_rms", |f| Some(f.test.details.measures.e_rms)),
    ("test_kg_percent", |f| Some(f.test.details.kg_percent)),
    ("test_max_percent", |f| Some(f.test.details.measures.max_percent)),
    ("test_p95_percent", |f| Some(f.test.details.measures.p95_percent)),
    ("test_surface_mean_percent", |f| Some(f.test.details.surface_mean_percent)),
    ("test_hausdorff_percent", |f| Some(f.test.details.hausdorff_percent)),
    ("test_normal_mean_degrees", |f| Some(f.test.details.measures.normal_mean_degrees)),
    ("test_volume_mean_percent", |f| Some(f.test.details.volume_mean_percent)),
    ("test_sted", |f| Some(f.test.details.sted)),
    ("bytes", |f| Some(f.model.cost().bytes as f64)),
    ("flops", |f| Some(f.model.cost().flops as f64)),
    ("microseconds", |f| Some(f.microseconds)),
    ("fit_seconds", |f| Some(f.fit_seconds)),
];

/// One line a method; failed ones and measures that a method has not have empty cells.
pub fn csv(contest: &Contest) -> String {
    let mut text = String::from("method,status");
    for (name, _) in COLUMNS {
        text.push(',');
        text.push_str(name);
    }
    text.push('\n');
    for (contender, outcome) in &contest.entries {
        text.push_str(&csv_cell(&contender.name));
        match outcome {
            Outcome::Finished(finished) => {
                text.push_str(",ok");
                for (_, value) in COLUMNS {
                    text.push(',');
                    text.push_str(&value(finished).map_or(String::new(), |value| value.to_string()));
                }
            }
            Outcome::Failed(_) => {
                text.push_str(",failed");
                text.push_str(&",".repeat(COLUMNS.len()));
            }
        }
        text.push('\n');
    }
    text
}

/// A cell, in quotes where it must be.
pub fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}
