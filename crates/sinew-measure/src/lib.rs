//! Error metrics over two mesh sequences, each a file with its formula and reference.
//!
//! Everything here compares predicted vertices with true ones, frame by frame; nothing knows how they were made.

mod enveloping_error;
mod measures;
mod normals;
mod position_error;

pub use enveloping_error::{EnvelopingError, best_rigid_error};
pub use measures::{Measures, measure};
pub use normals::{mean_normal_deviation_degrees, vertex_normals};
pub use position_error::{PositionErrors, e_rms};
