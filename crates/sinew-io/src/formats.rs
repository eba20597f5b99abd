//! Which reader a path belongs to.

use std::path::Path;

use crate::{FileError, Scene};

/// Reads a scene of any foreign format, chosen by the path's ending; a directory is a sequence of OBJ files.
pub fn read_scene(path: &Path) -> Result<Scene, FileError> {
    if path.is_dir() {
        return crate::read_obj(path);
    }
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "abc" => crate::read_alembic(path),
        "bvh" => crate::read_bvh(path),
        "fbx" => crate::read_fbx(path),
        "glb" | "gltf" => crate::read_gltf(path),
        "mdd" => crate::read_mdd(path),
        "obj" => crate::read_obj(path),
        "pc2" => crate::read_pc2(path),
        "usd" | "usda" | "usdc" | "usdz" => crate::read_usd(path),
        _ => {
            let what = "its ending is not one of abc, bvh, fbx, glb, gltf, mdd, npz, obj, pc2, usd, usda, usdc, usdz";
            Err(FileError::format(path, format!("{what} (or a directory of OBJ files)")))
        }
    }
}
