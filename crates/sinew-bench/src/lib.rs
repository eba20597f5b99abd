//! Measures what a skin costs a frame: fair times ([`timing`]), what the machine can do ([`probes`]), the loop that
//! everyone writes first ([`plain`]), characters of any size ([`synthetic`]).

pub mod plain;
pub mod probes;
pub mod synthetic;
pub mod timing;
