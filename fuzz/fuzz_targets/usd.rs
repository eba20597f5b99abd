//! Any bytes as a .usdc, a .usdz or a .usda, whichever they begin like.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let ending = match bytes {
        [b'P', b'X', b'R', ..] => "usdc",
        [b'P', b'K', ..] => "usdz",
        _ => "usda",
    };
    sinew_fuzz::scene(ending, bytes);
});
