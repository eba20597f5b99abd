//! Why a fit was refused.

use sinew_examples::ExamplesError;
use sinew_runtime::ModelError;
use thiserror::Error;

/// Why a fit was refused.
#[derive(Debug, Error)]
pub enum FitError {
    /// The examples are unusable.
    #[error(transparent)]
    Examples(#[from] ExamplesError),
    /// The fit made a model that its own checks refuse.
    #[error("the fit gave an unusable model ({0}); please report it with the examples")]
    Model(#[from] ModelError),
    /// A parameter is out of its range.
    #[error("{name} is {value}; it must be {range}")]
    Parameter {
        /// The parameter, as the command line calls it.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it must be.
        range: &'static str,
    },
    /// The examples cannot give what the method needs.
    #[error("{0}")]
    Data(String),
}
