//! Which reader a path belongs to.

use std::path::{Path, PathBuf};

use glam::DVec3;
use sinew_examples::ExamplesError;

use crate::{FileError, PointSource, Scene, StoredFrames};

/// Reads a scene of any format, chosen by the path's ending; a directory is a sequence of OBJ files.
pub fn read_scene(path: &Path) -> Result<Scene, FileError> {
    let mut scene = read_any(path)?;
    for mesh in &mut scene.meshes {
        let inner = std::mem::replace(&mut mesh.frames, Box::new(StoredFrames(Vec::new())));
        mesh.frames = Box::new(Finite { path: path.into(), inner });
    }
    Ok(scene)
}

/// Frames of a file, refused where a coordinate is no number: what is measured on such a frame would mislead.
struct Finite {
    path: PathBuf,
    inner: Box<dyn PointSource>,
}

impl PointSource for Finite {
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> Result<(), FileError> {
        self.inner.read(frame, points)?;
        let Some(v) = points.iter().position(|point| !point.is_finite()) else { return Ok(()) };
        let value = points[v].to_array().into_iter().find(|c| !c.is_finite()).unwrap_or(f64::NAN);
        let place = format!("frame {frame}, vertex {v}");
        Err(FileError::content(&self.path, ExamplesError::NotFinite { place, value }))
    }
}

fn read_any(path: &Path) -> Result<Scene, FileError> {
    if path.is_dir() {
        return crate::read_obj(path);
    }
    if std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0) {
        return Err(FileError::format(path, "the file is empty: its export failed or is not finished"));
    }
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "abc" => crate::read_alembic(path),
        "bvh" => crate::read_bvh(path),
        "fbx" => crate::read_fbx(path),
        "glb" | "gltf" => crate::read_gltf(path),
        "mdd" => crate::read_mdd(path),
        "npz" => crate::npz::read_npz(path),
        "obj" => crate::read_obj(path),
        "pc2" => crate::read_pc2(path),
        "usd" | "usda" | "usdc" | "usdz" => crate::read_usd(path),
        _ => {
            let what = "its ending is not one of abc, bvh, fbx, glb, gltf, mdd, npz, obj, pc2, usd, usda, usdc, usdz";
            Err(FileError::format(path, format!("{what} (or a directory of OBJ files)")))
        }
    }
}
