//! Any bytes as a .obj.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sinew_fuzz::scene("obj", bytes));
