//! Any bytes as a .mdd.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sinew_fuzz::scene("mdd", bytes));
