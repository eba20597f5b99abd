//! Any bytes as a .bvh.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sinew_fuzz::scene("bvh", bytes));
