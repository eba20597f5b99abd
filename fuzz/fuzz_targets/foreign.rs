//! Any bytes as a file of another tool: an error or a scene whose frames can be read, never a panic. The first byte
//! chooses the format, so that one corpus serves all readers; `fuzz/README.md` says how to make it.
#![no_main]

const ENDINGS: [&str; 8] = ["abc", "bvh", "fbx", "glb", "mdd", "obj", "pc2", "usda"];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let ending = ENDINGS[first as usize % ENDINGS.len()];
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("fuzz").with_extension(ending);
    std::fs::write(&path, rest).expect("a temporary file");
    if let Ok(mut scene) = sinew_io::read_scene(&path) {
        for mesh in &mut scene.meshes {
            for frame in 0..mesh.frame_count().min(4) {
                let _ = mesh.frame(frame);
            }
        }
    }
});
