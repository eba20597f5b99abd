//! One command a file: its flags with their help, and a `run` that resolves them and calls the libraries.

pub mod bench;
pub mod bounds;
pub mod compare;
pub mod data;
pub mod decompose;
pub mod demo;
pub mod export;
pub mod fit;
pub mod inspect;
pub mod measure;
pub mod pack;
pub mod pose;
pub mod recover;
pub mod render;
pub mod results;
pub mod study;
pub mod subdivide;
pub mod suggest;
pub mod unwrap;
