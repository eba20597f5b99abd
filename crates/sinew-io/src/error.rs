//! What is wrong with a file. Every message names the file.

use std::path::{Path, PathBuf};

use sinew_examples::ExamplesError;
use thiserror::Error;

/// Why a file could not be read or written.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes are not what the format says.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what to do.
        what: String,
    },
    /// The content is read but unusable.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ExamplesError,
    },
}

impl FileError {
    /// The system's refusal for `path`.
    pub fn system(path: &Path, source: std::io::Error) -> Self {
        Self::System { path: path.into(), source }
    }

    /// A malformed `path`.
    pub fn format(path: &Path, what: impl Into<String>) -> Self {
        Self::Format { path: path.into(), what: what.into() }
    }

    /// Unusable content of `path`.
    pub fn content(path: &Path, source: ExamplesError) -> Self {
        Self::Content { path: path.into(), source }
    }
}
