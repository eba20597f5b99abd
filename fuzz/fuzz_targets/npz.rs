//! Any bytes as an examples.npz: an error or examples, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = sinew_io::npz::read_bytes("fuzz.npz".as_ref(), bytes);
    // The arrays inside are packed, so flips rarely reach them; they get a path of their own.
    let _ = sinew_io::npz::Array::from_npy(bytes);
});
