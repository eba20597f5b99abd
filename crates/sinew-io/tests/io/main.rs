//! Tests of the readers, of packing and of the writers, in one program.

mod broken;
mod human;
mod odd;
mod schema;
mod support;
mod written;
