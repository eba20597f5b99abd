//! Any bytes as a .pc2.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sinew_fuzz::scene("pc2", bytes));
