//! The table: methods by measures, best in bold.

use crate::compare::charts::{escape, series_colour, short};
use crate::compare::contest::{Contest, Finished, Outcome};

/// A column: its head, its unit, its value, and how it is written.
struct Column {
    head: &'static str,
    unit: &'static str,
    value: fn(&Finished) -> Option<f64>,
    digits: Option<usize>,
}

const COLUMNS: &[Column] = &[
    Column { head: "train EE", unit: "%", value: |f| Some(f.train.details.measures.ee_percent), digits: Some(1) },
    Column { head: "test EE", unit: "%", value: |f| Some(f.test.details.measures.ee_percent), digits: Some(1) },
    Column { head: "limit", unit: "best proxies, %", value: |f| f.limit_percent, digits: Some(1) },
    Column {
        head: "max",
        unit: "% of diagonal",
        value: |f| Some(f.test.details.measures.max_percent),
        digits: Some(2),
    },
    Column {
        head: "normals",
        unit: "degrees",
        value: |f| Some(f.test.details.measures.normal_mean_degrees),
        digits: Some(2),
    },
    Column { head: "STED", unit: "× 1000", value: |f| Some(1000.0 * f.test.details.sted), digits: Some(1) },
    Column { head: "volume", unit: "mean % off", value: |f| Some(f.test.details.volume_mean_percent), digits: Some(2) },
    Column { head: "bytes", unit: "a frame reads", value: |f| Some(f.model.cost().bytes as f64), digits: None },
    Column { head: "operations", unit: "a frame", value: |f| Some(f.model.cost().flops as f64), digits: None },
    Column { head: "µs", unit: "a frame", value: |f| Some(f.microseconds), digits: None },
    Column { head: "fit", unit: "seconds", value: |f| Some(f.fit_seconds), digits: Some(2) },
];

/// The section with the table.
pub fn section(contest: &Contest) -> String {
    let head: Vec<String> =
        COLUMNS.iter().map(|c| format!("<th>{}<br><small>{}</small></th>", c.head, c.unit)).collect();
    // Values that print alike are all best.
    let best: Vec<Option<String>> = COLUMNS
        .iter()
        .map(|c| {
            let least = contest.finished().filter_map(|(_, f)| (c.value)(f)).fold(f64::INFINITY, f64::min);
            least.is_finite().then(|| write(c, least))
        })
        .collect();
    let mut rows = Vec::new();
    for (index, (contender, outcome)) in contest.entries.iter().enumerate() {
        let name = format!(
            "<td><span class=\"chip\" style=\"background:{}\"></span><span class=\"title\">{}</span> <code>{}</code></td>",
            series_colour(index),
            escape(&contender.title),
            escape(&contender.name)
        );
        let cells = match outcome {
            Outcome::Failed(reason) => {
                format!("<td class=\"reason\" colspan=\"{}\">failed: {}</td>", COLUMNS.len(), escape(reason))
            }
            Outcome::Finished(finished) => COLUMNS
                .iter()
                .zip(&best)
                .map(|(column, best)| {
                    let text = (column.value)(finished).map_or("—".into(), |value| write(column, value));
                    if best.as_ref() == Some(&text) {
                        format!("<td><b>{text}</b></td>")
                    } else {
                        format!("<td>{text}</td>")
                    }
                })
                .collect(),
        };
        rows.push(format!("<tr>{name}{cells}</tr>"));
    }
    format!(
        "<h2>All methods</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>method</th>{}</tr></thead>\n<tbody>\n{}\n</tbody></table></div>\n\
         <p class=\"note\">EE is the error in percent of what the best rigid binding leaves; all but the first column are for unseen poses. Bold is best. \
         The limit is what a method's proxy bones would leave if each unseen pose's transforms were the best possible: where test EE is far above it \
         more poses help, where it is near more proxy bones do. {} \
         Microseconds are on one thread of the machine that made this page.</p>",
        head.concat(),
        rows.join("\n"),
        match contest.rules.jobs {
            1 => String::new(),
            jobs => format!("Up to {jobs} methods were fitted side by side; --jobs 1 gives the seconds of each alone."),
        }
    )
}

fn write(column: &Column, value: f64) -> String {
    match column.digits {
        Some(digits) => format!("{value:.digits$}"),
        None => short(value),
    }
}
