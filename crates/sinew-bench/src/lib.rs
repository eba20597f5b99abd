//! Measures what a skin costs a frame: a model against plain skinning ([`model`]), fair times ([`timing`]), what the
//! machine can do ([`probes`]), what others reach ([`peers`]), the loop that everyone writes first ([`plain`]), characters of any size
//! ([`synthetic`]).

pub mod model;
pub mod peers;
pub mod plain;
pub mod probes;
pub mod synthetic;
pub mod timing;
