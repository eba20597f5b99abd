//! Tables and lines to stdout, JSON to files.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::ensure;

/// A line to stdout. The reader of a pipe may stop early (`sinew measure … --json m.json | head -3`): that is not an error,
/// and whatever goes to files is still to be written.
pub fn line(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
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

/// Endings of files that sinew reads or writes.
const ENDINGS: &[&str] = &[
    "abc", "bvh", "fbx", "gif", "glb", "gltf", "json", "mdd", "mp4", "npz", "obj", "pc2", "png", "sinew", "usd",
    "usda", "usdc", "usdz", "webp",
];

/// Refuses a file that could not be written, before the work whose result it is: its folder must be there, it must not be
/// a folder itself, and its ending must not promise another format than one of `formats`. Other endings are the user's.
pub fn check(path: &Path, formats: &[&str]) -> anyhow::Result<()> {
    let name = path.display();
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let known = |endings: &[&str]| endings.contains(&ending.as_str());
    ensure!(known(formats) || !known(ENDINGS), "{name}: what is written there is a .{} file", formats.join(" or ."));
    ensure!(!path.is_dir(), "{name} is a folder; name a file");
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        ensure!(folder.is_dir(), "{name}: there is no folder {}; make it first", folder.display());
    }
    Ok(())
}

/// [`check`] for a JSON file, if one is asked for.
pub fn check_json(path: Option<&PathBuf>) -> anyhow::Result<()> {
    path.map_or(Ok(()), |path| check(path, &["json"]))
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
