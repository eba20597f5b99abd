//! The one place where a path becomes examples, whatever the format.

use std::path::Path;

use sinew_examples::Examples;
use sinew_io::Loaded;

/// Whatever `path` holds.
pub fn any(path: &Path) -> anyhow::Result<Loaded> {
    Ok(sinew_io::npz::read(path)?)
}

/// Examples with a skeleton; a bare mesh sequence is refused with the way out. What is odd is told on stderr.
pub fn examples(path: &Path) -> anyhow::Result<Examples> {
    match any(path)? {
        Loaded::Examples(examples) => {
            for notice in examples.notices() {
                eprintln!("note: {}: {notice}", path.display());
            }
            Ok(*examples)
        }
        Loaded::Sequence(_) => anyhow::bail!(
            "{}: there is no skeleton in it; recover one with `sinew recover {} -o examples.npz`",
            path.display(),
            path.display()
        ),
    }
}

/// An error that does not name its file, with the file.
pub fn named(path: &Path, error: sinew_runtime::ModelError) -> anyhow::Error {
    match error {
        sinew_runtime::ModelError::File { .. } => error.into(),
        other => anyhow::Error::from(other).context(path.display().to_string()),
    }
}
