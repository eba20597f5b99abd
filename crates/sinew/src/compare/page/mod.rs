//! The report: one HTML page that opens from disk, with everything in it. Sections in the order a reader needs them.

mod base64;
mod sections;
mod table;

use sinew_draw::Picture;

use super::advice::{self, Budget};
use super::charts::escape;
use super::contest::Contest;

/// What goes into the page.
pub struct PageOptions {
    /// The size of a picture, pixels.
    pub picture: Picture,
    /// A frame the user wants to see besides the worst and the median.
    pub chosen_frame: Option<usize>,
    /// A budget to advise under.
    pub budget: Option<Budget>,
    /// Further sections, as HTML: sweeps.
    pub extra: Vec<String>,
}

impl Default for PageOptions {
    fn default() -> Self {
        let picture = Picture { width: 360, height: 270, samples: 2, ..Picture::default() };
        Self { picture, chosen_frame: None, budget: None, extra: Vec::new() }
    }
}

/// The page.
pub fn html(contest: &Contest, options: &PageOptions) -> String {
    let title = format!("{}: methods compared", contest.rules.source);
    let mut body = vec![
        header(contest, &title),
        advice_box(contest, options),
        table::section(contest),
        sections::costs(contest),
        sections::errors(contest),
        sections::pictures(contest, options),
        sections::histograms(contest),
        sections::false_colours(contest, options),
        sections::next_poses(contest),
    ];
    body.extend(options.extra.iter().cloned());
    body.push(sections::glossary(contest));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}\n</body>\n</html>\n",
        escape(&title),
        include_str!("style.css"),
        body.join("\n")
    )
}

fn header(contest: &Contest, title: &str) -> String {
    let examples = &contest.examples;
    let unseen = if contest.rules.test.is_some() {
        format!("measured on {} others", contest.test_frames.len())
    } else {
        "each left out in turn to measure".into()
    };
    let cut = if contest.interrupted { " This run was interrupted: what was finished is shown." } else { "" };
    format!(
        "<h1>{}</h1>\n<p class=\"facts\">{} vertices, {} triangles, {} bones; fitted to {} poses, {unseen}.{cut}</p>",
        escape(title),
        thousands(examples.mesh().vertex_count()),
        thousands(examples.mesh().triangles().len()),
        examples.skeleton().bone_count(),
        contest.rules.train.len(),
    )
}

fn advice_box(contest: &Contest, options: &PageOptions) -> String {
    let mut words = advice::words(contest);
    words.extend(options.budget.as_ref().map(|budget| advice::under_budget(contest, budget)));
    let paragraphs: Vec<String> = words.iter().map(|text| format!("<p>{}</p>", with_code(text))).collect();
    format!("<div class=\"advice\">\n{}\n</div>", paragraphs.join("\n"))
}

/// Text with its `commands` as such.
fn with_code(text: &str) -> String {
    let mark = |(k, part): (usize, &str)| match k % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    text.split('`').enumerate().map(mark).collect()
}

/// 29380 as 29,380.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (k, digit) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_are_marked() {
        assert_eq!(super::with_code("a < b; `sinew fit` does"), "a &lt; b; <code>sinew fit</code> does");
    }

    #[test]
    fn thousands_have_commas() {
        assert_eq!(super::thousands(29_380), "29,380");
        assert_eq!(super::thousands(999), "999");
        assert_eq!(super::thousands(1_000_000), "1,000,000");
    }
}
