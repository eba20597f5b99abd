//! The table: methods by measures, best in bold.

use crate::compare::charts::{escape, series_colour, short};
use crate::compare::contest::{Contest, Finished, Outcome};

/// A column: its head, its unit, its value, and how it is written.
struct Column {
    head: &'static str,
    unit: &'static str,
    value: fn(&Finished) -> f64,
    digits: Option<usize>,
}

const COLUMNS: &[Column] = &[
    Column { head: "train EE", unit: "%", value: |f| f.train.details.measures.ee_percent, digits: Some(1) },
    Column { head: "test EE", unit: "%", value: |f| f.test.details.measures.ee_percent, digits: Some(1) },
    Column { head: "max", unit: "% of diagonal", value: |f| f.test.details.measures.max_percent, digits: Some(2) },
    Column {
        head: "normals",
        unit: "degrees",
        value: |f| f.test.details.measures.normal_mean_degrees,
        digits: Some(2),
    },
    Column { head: "STED", unit: "× 1000", value: |f| 1000.0 * f.test.details.sted, digits: Some(1) },
    Column { head: "volume", unit: "mean % off", value: |f| f.test.details.volume_mean_percent, digits: Some(2) },
    Column { head: "bytes", unit: "a frame reads", value: |f| f.model.cost().bytes as f64, digits: None },
    Column { head: "operations", unit: "a frame", value: |f| f.model.cost().flops as f64, digits: None },
    Column { head: "µs", unit: "a frame", value: |f| f.microseconds, digits: None },
    Column { head: "fit", unit: "seconds", value: |f| f.fit_seconds, digits: Some(2) },
];

/// The section with the table.
pub fn section(contest: &Contest) -> String {
    let head: Vec<String> =
        COLUMNS.iter().map(|c| format!("<th>{}<br><small>{}</small></th>", c.head, c.unit)).collect();
    // Values that print alike are all best.
    let best: Vec<Option<String>> = COLUMNS
        .iter()
        .map(|c| {
            let least = contest.finished().map(|(_, f)| (c.value)(f)).fold(f64::INFINITY, f64::min);
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
                    let text = write(column, (column.value)(finished));
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
         Microseconds are on one thread of the machine that made this page.</p>",
        head.concat(),
        rows.join("\n")
    )
}

fn write(column: &Column, value: f64) -> String {
    match column.digits {
        Some(digits) => format!("{value:.digits$}"),
        None => short(value),
    }
}
