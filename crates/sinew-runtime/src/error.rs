//! What is wrong with a model or its file.

use thiserror::Error;

/// Why a model was refused.
#[derive(Debug, Error)]
pub enum ModelError {
    /// The file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The bytes are not a sinew model.
    #[error("not a sinew model: {0}")]
    Format(String),
    /// The file's version is newer than this program.
    #[error("the model has format version {found}, this program reads up to {supported}; use a newer sinew")]
    Version {
        /// The file's version.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// The checksum does not match: the file was damaged.
    #[error("the model is damaged: its checksum is {found}, its content gives {computed}; copy or fit it again")]
    Checksum {
        /// The checksum in the file.
        found: String,
        /// The checksum of the content.
        computed: String,
    },
    /// There are no bounds for models of this kind.
    #[error("bounds are known for linear blend, animation-space and rotational-regression models, not for `{kind}`")]
    NoBounds {
        /// The deformer's kind.
        kind: &'static str,
    },
    /// A tensor is missing.
    #[error("the model has no tensor `{0}`")]
    Missing(String),
    /// A tensor has the wrong type or shape.
    #[error("tensor `{name}` is {found}, it must be {expected}")]
    Shape {
        /// The tensor.
        name: String,
        /// What it is.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// An index points outside its array.
    #[error("`{name}` entry {entry} is {index}; it must be below {limit}")]
    Index {
        /// The tensor.
        name: String,
        /// Where in it.
        entry: usize,
        /// The index found.
        index: i64,
        /// What it must stay below.
        limit: usize,
    },
    /// A number is NaN or infinite.
    #[error("`{name}` entry {entry} is {value}, not a finite number")]
    NotFinite {
        /// The tensor.
        name: String,
        /// Where in it.
        entry: usize,
        /// The offending value.
        value: f32,
    },
    /// A number is smaller than what is computed from it allows.
    #[error("`{name}` entry {entry} is {value}; it must be at least {least}")]
    TooSmall {
        /// The tensor.
        name: String,
        /// Where in it.
        entry: usize,
        /// The offending value.
        value: f64,
        /// The smallest that is allowed.
        least: f64,
    },
}
