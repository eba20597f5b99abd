//! Error metrics over two mesh sequences, each a file with its formula and reference.
//!
//! Everything here compares predicted vertices with true ones, frame by frame; nothing knows how they were made.

mod details;
mod enveloping_error;
mod kg;
mod measures;
mod normals;
mod position_error;
mod spread;
mod sted;
mod stray;
mod student;
mod surface;
mod volume;

pub use details::{Details, SURFACE_FRAMES, details};
pub use enveloping_error::{EnvelopingError, best_rigid_error};
pub use kg::kg_percent;
pub use measures::{Measures, measure, measure_over};
pub use normals::{mean_normal_deviation_degrees, vertex_normals};
pub use position_error::{PositionErrors, e_rms};
pub use spread::{spread_percent, vertex_rms};
pub use sted::{Sted, sted};
pub use stray::{farthest, spikes, strays};
pub use student::{Summary, TTest};
pub use surface::{SurfaceDistance, distances, surface_distance};
pub use volume::{VolumeChange, volume, volume_change};
