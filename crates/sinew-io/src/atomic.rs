//! Writing so that nothing that was there is lost.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::FileError;

/// Writes `path` through a temporary file in the same directory and a rename: either the whole new file is there, or
/// the old one still is.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::fs::File>) -> std::io::Result<()>,
) -> Result<(), FileError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let run = || {
        let temporary = tempfile::Builder::new().prefix(".sinew-").tempfile_in(directory)?;
        let mut writer = BufWriter::new(temporary.reopen()?);
        write(&mut writer)?;
        writer.flush()?;
        make_readable(temporary.path())?;
        temporary.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    run().map_err(|source| FileError::system(path, source))
}

/// Temporary files are private to their owner; a result is as readable as any file its user makes.
#[cfg(unix)]
fn make_readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn make_readable(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
