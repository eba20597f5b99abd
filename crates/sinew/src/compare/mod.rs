//! Every method on the same examples: fit, measure, time, and tell. `sinew compare` and `sinew demo` are built on it.
//!
//! [`contest`] fits and measures several methods side by side and times them one by one;
//! [`results`] is what machines read; [`page`] is what people read; [`advice`] puts it into words.

pub mod advice;
pub mod charts;
pub mod contest;
pub mod evaluate;
pub mod hero;
pub mod operation_counts;
pub mod page;
pub mod pictures;
pub mod pose_words;
pub mod results;
pub mod study;
pub mod suggest;
pub mod sweep;

use std::path::Path;

use anyhow::Context;

/// Makes the folder of a report.
pub fn make_folder(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Writes `results.json`, `results.csv` and `index.html` into `folder`.
pub fn write_report(folder: &Path, contest: &contest::Contest, options: &page::PageOptions) -> anyhow::Result<()> {
    make_folder(folder)?;
    crate::output::json(&folder.join("results.json"), &results::json(contest))?;
    write(&folder.join("results.csv"), results::csv(contest).as_bytes())?;
    write(&folder.join("index.html"), page::html(contest, options).as_bytes())
}

/// Writes a file whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write;
    Ok(sinew_io::write_atomically(path, |file| file.write_all(bytes))?)
}
