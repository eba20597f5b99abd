//! The page's sections below the table, each a function.

use super::PageOptions;
use super::base64;
use crate::compare::advice::{self, error};
use crate::compare::charts::{self, Axis, Bar, Series, escape, series_colour, short};
use crate::compare::contest::{Contest, Finished, Outcome};
use crate::compare::evaluate::HISTOGRAM_STEP_PERCENT;
use crate::compare::pictures;
use crate::compare::suggest::{self, suggest};

/// The finished methods with their place in the table: (place, name, result).
fn finished(contest: &Contest) -> Vec<(usize, &str, &Finished)> {
    let mut all = Vec::new();
    for (index, (contender, outcome)) in contest.entries.iter().enumerate() {
        if let Outcome::Finished(finished) = outcome {
            all.push((index, contender.name.as_str(), &**finished));
        }
    }
    all
}

fn legend(contest: &Contest) -> String {
    let chip = |(index, name, _): &(usize, &str, &Finished)| {
        format!(
            "<span><span class=\"chip\" style=\"background:{}\"></span>{}</span>",
            series_colour(*index),
            escape(name)
        )
    };
    format!("<div class=\"legend\">{}</div>", finished(contest).iter().map(chip).collect::<String>())
}

/// Error against time and against bytes, with the frontier.
pub fn costs(contest: &Contest) -> String {
    let chart = |title: &str, label: &str, cost: fn(&Finished) -> f64| {
        let all = finished(contest);
        let x = Axis::over(label, true, all.iter().map(|(_, _, f)| cost(f)));
        // Methods that differ by more than a factor of eight are told apart on a logarithmic scale only.
        let (least, most) =
            all.iter().map(|a| error(a.2)).fold((f64::INFINITY, 0.0_f64), |(l, m), e| (l.min(e), m.max(e)));
        let y = Axis::over("test EE, %", least > 0.0 && most > 8.0 * least, all.iter().map(|(_, _, f)| error(f)));
        let series: Vec<Series> = all
            .iter()
            .map(|&(index, name, f)| Series {
                name,
                colour: series_colour(index),
                points: vec![(cost(f), error(f))],
                strong: false,
            })
            .collect();
        let frontier: Vec<(f64, f64)> =
            advice::frontier(contest, cost).iter().map(|(_, f)| (cost(f), error(f))).collect();
        format!(
            "<figure class=\"chart\">{}<figcaption>{title}</figcaption></figure>",
            charts::scatter(title, &x, &y, &series, &frontier)
        )
    };
    format!(
        "<h2>Error against cost</h2>\n<div class=\"charts\">{}{}</div>\n<p class=\"note\">Lower left is better. Nothing lies below the dashed line: its methods are those worth choosing.</p>",
        chart("Error against time", "microseconds a frame", |f| f.microseconds),
        chart("Error against memory", "bytes a frame reads", |f| f.model.cost().bytes as f64)
    )
}

/// Error over the frames, and error bars by method.
pub fn errors(contest: &Contest) -> String {
    let all = finished(contest);
    let frames = &contest.test_frames;
    let best = all.iter().map(|(_, _, f)| error(f)).fold(f64::INFINITY, f64::min);
    let series: Vec<Series> = all
        .iter()
        .map(|&(index, name, f)| Series {
            name,
            colour: series_colour(index),
            points: frames.iter().zip(&f.test.frame_rms_percent).map(|(&e, &rms)| (e as f64, rms)).collect(),
            strong: name == "ssd" || error(f) == best,
        })
        .collect();
    let (first, last) = (frames.iter().min().copied().unwrap_or(0), frames.iter().max().copied().unwrap_or(1));
    let x = Axis { label: "frame", log: false, range: (first as f64, (last as f64).max(first as f64 + 1.0)) };
    let y = Axis::over("rms error, % of diagonal", false, series.iter().flat_map(|s| s.points.iter().map(|p| p.1)));
    let bars: Vec<Bar> = all
        .iter()
        .map(|&(index, name, f)| Bar {
            name,
            colour: series_colour(index),
            train: f.train.details.measures.ee_percent,
            test: error(f),
            spread: f.test.details.spread_percent,
        })
        .collect();
    format!(
        "<h2>Where the error is</h2>\n{}<div class=\"charts\"><figure class=\"chart\">{}<figcaption>Error over the measured frames; linear blend skinning and the best method are drawn thicker.</figcaption></figure>\
         <figure class=\"chart\">{}<figcaption>Error on unseen poses (bar), its standard deviation over the vertices (whisker), and on training poses (dotted mark). 100 % is the best rigid binding.</figcaption></figure></div>",
        legend(contest),
        charts::lines("Error over frames", &x, &y, &series),
        charts::bars("Error by method", "EE, %", &bars)
    )
}

/// Truth and every method at some frames.
pub fn pictures(contest: &Contest, options: &PageOptions) -> String {
    let all = finished(contest);
    if all.is_empty() {
        return String::new();
    }
    let frames = pictures::frames_to_show(contest, options.chosen_frame);
    let shown = pictures::shown_frames(contest, &frames, &options.picture);
    let end = 100.0 * pictures::scale_end(contest) / contest.examples.mesh().diagonal();
    let mut html = format!("<h2>Side by side</h2>\n{}", scale_key(end));
    for shown in &shown {
        let frame = contest.test_frames[shown.index];
        let figure = |name: &str, png: &[u8], words: String| {
            format!(
                "<figure>{}<figcaption><b>{}</b>{words}</figcaption></figure>",
                image(png, name, options),
                escape(name)
            )
        };
        let mut figures = vec![figure("truth", &shown.truth, String::new())];
        for ((_, name, f), png) in all.iter().zip(&shown.methods) {
            let words = format!(", rms {:.2} %", f.test.frame_rms_percent[shown.index]);
            figures.push(figure(name, png, words));
        }
        html.push_str(&format!(
            "<h3>Frame {frame}: {}</h3>\n<div class=\"pictures\">{}</div>\n",
            match shown.why {
                "worst" => "the worst, over all methods",
                "median" => "the median",
                _ => "as asked",
            },
            figures.concat()
        ));
    }
    html
}

fn image(png: &[u8], words: &str, options: &PageOptions) -> String {
    format!(
        "<img width=\"{}\" height=\"{}\" alt=\"{}\" src=\"data:image/png;base64,{}\">",
        options.picture.width,
        options.picture.height,
        escape(words),
        base64::encode(png)
    )
}

/// The shared colour scale, as a strip of the page's own.
fn scale_key(end_percent: f64) -> String {
    let stops: Vec<String> = (0..=12)
        .map(|k| {
            let [r, g, b] = sinew_draw::error_colour(f64::from(k) / 12.0).map(|c| (255.0 * c).round() as u8);
            format!("rgb({r},{g},{b})")
        })
        .collect();
    format!(
        "<div class=\"key\" style=\"background:linear-gradient(to right,{})\"></div>\
         <div class=\"key-words\"><span>on the truth</span><span>off by {} % of the diagonal or more</span></div>",
        stops.join(","),
        short(end_percent)
    )
}

/// How errors are distributed, each method over linear blend skinning.
pub fn histograms(contest: &Contest) -> String {
    let all = finished(contest);
    let ssd = all.iter().find(|(_, name, _)| *name == "ssd").map(|(_, _, f)| f.test.histogram.as_slice());
    // One end for all, so that the pictures can be compared.
    let used = |f: &Finished| f.test.histogram.iter().rposition(|&n| n > 0).map_or(1, |k| k + 1);
    let end = all.iter().map(|(_, _, f)| used(f)).fold(4, usize::max);
    let figure = |&(index, name, f): &(usize, &str, &Finished)| {
        let over = ssd.filter(|_| name != "ssd").map(|counts| &counts[..end]);
        let svg = charts::histogram(
            name,
            &f.test.histogram[..end],
            over,
            HISTOGRAM_STEP_PERCENT,
            series_colour(index),
            "% of diagonal",
        );
        format!("<figure class=\"chart\">{svg}</figure>")
    };
    format!(
        "<h2>How the errors are distributed</h2>\n<div class=\"small\">{}</div>\n<p class=\"note\">Number of vertices by distance from the truth, all frames, on a logarithmic scale; the line is linear blend skinning.</p>",
        all.iter().map(figure).collect::<String>()
    )
}

/// Bones, proxy bones and scale factors in false colour.
pub fn false_colours(contest: &Contest, options: &PageOptions) -> String {
    let pictures = pictures::false_colours(contest, &options.picture);
    if pictures.is_empty() {
        return String::new();
    }
    let figure = |picture: &pictures::FalseColour| {
        format!(
            "<figure>{}<figcaption>{}</figcaption></figure>",
            image(&picture.png, &picture.title, options),
            escape(&picture.title)
        )
    };
    format!(
        "<h2>What moves what</h2>\n<div class=\"pictures\">{}</div>",
        pictures.iter().map(figure).collect::<String>()
    )
}

/// Which poses to add to the training poses. Which of those are hard is known from leaving them out, or else from the
/// error of linear blend skinning on them, which is too stiff to follow each.
pub fn next_poses(contest: &Contest) -> String {
    let all = finished(contest);
    let Some((_, _, judge)) = all.iter().find(|(_, name, _)| *name == "ssd").or(all.first()) else {
        return String::new();
    };
    let hard = if contest.rules.test.is_none() { &judge.test } else { &judge.train };
    let found = suggest(&contest.examples, &contest.rules.train, &hard.frame_rms_percent, 5);
    let items: String = found.iter().map(|pose| format!("<li>{}</li>", escape(&pose.sentence()))).collect();
    let list = if found.is_empty() { format!("<p>{}</p>", suggest::COVERED) } else { format!("<ol>{items}</ol>") };
    format!(
        "<h2>Poses to add next</h2>\n{list}\n<p class=\"note\">Far from every training pose, and near those that are hard; \
         angles count from the rest pose. <code>sinew suggest</code> leaves each training pose out to know which are hard.</p>"
    )
}

/// What the measures mean, and every figure of them.
pub fn glossary(contest: &Contest) -> String {
    let terms = [
        (
            "EE",
            "Enveloping error (Wang, Pulli and Popović 2007): root of the summed squared distances over those of the best single bone for each vertex on the same frames.",
        ),
        (
            "E_RMS",
            "1000 × root mean square coordinate error over half the rest bounding box's diagonal (Kavan, Sloan and O'Sullivan 2010).",
        ),
        (
            "KG",
            "Root of the summed squared distances over the shape's extent about each frame's mean vertex (Karni and Gotsman 2004).",
        ),
        (
            "surface, Hausdorff",
            "Mean distance of the predicted vertices from the true surface, and the largest distance either way.",
        ),
        (
            "STED",
            "How unevenly edges change length among neighbours, and steps among neighbours in time (Váša and Skala 2011): what viewers notice.",
        ),
        ("spread", "Standard deviation of the vertices' errors, in percent of the best rigid binding's error."),
        ("volume", "Mean absolute difference from the true volume, percent."),
    ];
    let list: String = terms.iter().map(|(term, words)| format!("<dt>{term}</dt><dd>{words}</dd>")).collect();
    let head = "<th>method</th><th>E_RMS</th><th>KG %</th><th>p95 %</th><th>surface %</th><th>Hausdorff %</th><th>spread %</th><th>worst volume %</th><th>STED space × 1000</th><th>STED time × 1000</th>";
    let row = |(_, name, f): &(usize, &str, &Finished)| {
        let d = &f.test.details;
        let cells = [
            d.measures.e_rms,
            d.kg_percent,
            d.measures.p95_percent,
            d.surface_mean_percent,
            d.hausdorff_percent,
            d.spread_percent,
            d.volume_worst_percent,
            1e3 * d.sted_spatial,
            1e3 * d.sted_temporal,
        ];
        let cells: String = cells.iter().map(|v| format!("<td>{v:.3}</td>")).collect();
        format!("<tr><td>{}</td>{cells}</tr>", escape(name))
    };
    let rows: String = finished(contest).iter().map(row).collect();
    let normaliser = contest.examples.mesh().diagonal() / 2.0;
    format!(
        "<h2>More measures</h2>\n<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n\
         <details><summary>What the measures mean</summary><dl>{list}</dl></details>\n\
         <p class=\"note\">On unseen poses; lengths in percent of the rest bounding box's diagonal; E_RMS in thousandths of {normaliser:.4} m. \
         The same figures and more are in <code>results.json</code> and <code>results.csv</code> beside this page.</p>"
    )
}
