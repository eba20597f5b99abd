//! Tests of the program and of what must hold across the crates.

mod architecture;
mod compare;
mod every_method;
mod files;
mod linear;
mod motion;
mod program;
