//! Any bytes as a .glb (those begin with `glTF`) or a .gltf.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sinew_fuzz::scene(if bytes.starts_with(b"glTF") { "glb" } else { "gltf" }, bytes);
});
