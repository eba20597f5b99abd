//! A small software renderer for pictures in reports: no GPU, the same bytes everywhere.
//!
//! ```
//! use glam::DVec3;
//! use sinew_draw::{Camera, Picture, Surface, render};
//! let positions = [DVec3::ZERO, DVec3::X, DVec3::Y];
//! let surface = Surface { positions: &positions, triangles: &[[0, 1, 2]], colours: None };
//! let camera = Camera::around(&[&positions], 30.0, 15.0, 4.0 / 3.0);
//! let image = render(&surface, &camera, &Picture { width: 80, height: 60, ..Picture::default() });
//! let png = image.png();
//! # assert!(png.starts_with(b"\x89PNG"));
//! ```
//!
//! It draws what it is given and knows nothing of skins or errors. One call runs on one thread; callers draw several
//! pictures at once.

mod camera;
mod colour;
mod image;
mod legend;
mod raster;
mod text;

pub use camera::Camera;
pub use colour::{error_colour, group_colour};
pub use image::Image;
pub use legend::legend;
pub use raster::{Picture, Surface, render};
pub use text::{TEXT_DEPTH, TEXT_HEIGHT, draw_text, text_width};
