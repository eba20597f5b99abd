//! Tables and lines to stdout, JSON to files.

use std::io::Write;
use std::path::Path;

/// A line to stdout; a closed pipe is an error that `main` forgives.
pub fn line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// A table with aligned columns; the header is left out if it is all empty.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> anyhow::Result<()> {
    let mut lines = rows;
    if header.iter().any(|title| !title.is_empty()) {
        lines.insert(0, header.iter().map(ToString::to_string).collect());
    }
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| lines.iter().filter_map(|l| l.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for cells in &lines {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        line(padded.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Writes text through a temporary file.
pub fn text(path: &Path, text: &str) -> anyhow::Result<()> {
    sinew_io::write_atomically(path, |file| file.write_all(text.as_bytes()))?;
    Ok(())
}

/// Writes JSON, indented, through a temporary file.
pub fn json(path: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    sinew_io::write_atomically(path, |file| file.write_all(text.as_bytes()))?;
    Ok(())
}
