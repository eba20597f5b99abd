//! Tests of the program and of what must hold across the crates.

mod accuracy;
mod architecture;
mod beyond;
mod compare;
mod corrections;
mod decompose_and_recover;
mod every_method;
mod files;
mod linear;
mod motion;
mod program;
mod regression;
mod rivals;
mod support;
