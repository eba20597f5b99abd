//! Examples → model. One method a file in [`methods`]; solvers and geometry beneath them.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sinew_examples::datasets;
//! use sinew_fit::{Method, Quiet, Training, fit};
//! let examples = datasets::by_name("arm").unwrap().make();
//! let training = Training::new(&examples, &examples.split().train)?;
//! let fitted = fit(&training, &Method::by_name("ssd").unwrap(), &Quiet)?;
//! fitted.model.write("character.sinew".as_ref())?;
//! # Ok(()) }
//! ```
//!
//! Fitting is in f64 and in the root bone's own frame ([`Training`]); the model is f32, and [`to_model`] is the one
//! place where the one becomes the other. The same input gives the same bytes with one thread or many: work is
//! parallel over independent items and every sum has a fixed order.

pub mod correct;
pub mod cross_validation;
pub mod decompose;
pub mod drawing;
mod error;
pub mod exercised;
pub mod geometry;
pub mod limit;
mod method;
pub mod methods;
pub mod mirror;
pub mod norm;
pub mod predict;
mod progress;
pub mod range_bounds;
pub mod recover;
mod report;
pub mod sample;
mod size;
pub mod solve;
pub mod subdivide;
pub mod to_model;
mod training;
pub mod unwrap;

pub use error::FitError;
pub use method::{METHODS, Method, MethodInfo, fit};
pub use progress::{Progress, Quiet};
pub use report::{FitReport, Fitted};
pub use training::Training;
