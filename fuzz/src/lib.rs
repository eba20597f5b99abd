//! What the targets have in common.

/// Any bytes as a file with this ending: an error or a scene whose frames can be read, never a panic, a hang or a huge
/// allocation.
pub fn scene(ending: &str, bytes: &[u8]) {
    // libFuzzer ends at any panic, also at one of another's parser that the reader turns into an error.
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let ends = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some(sinew_io::READER_THREAD) {
                ends(info);
            }
        }));
    });
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("fuzz").with_extension(ending);
    std::fs::write(&path, bytes).expect("a temporary file");
    if let Ok(mut scene) = sinew_io::read_scene(&path) {
        for mesh in &mut scene.meshes {
            for frame in 0..mesh.frame_count().min(4) {
                let _ = mesh.frame(frame);
            }
        }
    }
}
