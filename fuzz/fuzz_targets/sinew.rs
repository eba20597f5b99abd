//! Any bytes as a .sinew model: an error, or a model that evaluates its rest pose, never a panic.
#![no_main]

use sinew_runtime::{Evaluator, Model};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Model::from_bytes(bytes);
    // The checksum stops nearly every mutation; what is behind it must stand by itself.
    if let Ok(model) = Model::from_bytes_without_checksum(bytes) {
        let pose: Vec<_> = model.character.bones.iter().map(|bone| bone.rest).collect();
        let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
        Evaluator::new(&model).positions(&pose, &mut positions);
    }
});
