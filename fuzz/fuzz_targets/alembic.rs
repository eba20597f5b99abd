//! Any bytes as a .abc.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sinew_fuzz::scene("abc", bytes));
