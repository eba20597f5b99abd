//! An `examples.npz` as one of several files: a mesh sequence for another file's skeleton, or the other way round.

use std::path::Path;

use sinew_examples::{Mesh, MeshSequence, Polygons};

use crate::{Clock, Convention, FileError, Loaded, MeshClip, Scene, SkeletonClip, StoredFrames, Surface};

/// Reads examples or a bare mesh sequence as a scene. Its split, influences and pose weights stay behind: they belong to
/// its own frames and bones.
pub fn read_npz(path: &Path) -> Result<Scene, FileError> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(match super::read(path)? {
        Loaded::Sequence(sequence) => Scene { meshes: vec![mesh_clip(name, &sequence)], ..Scene::default() },
        Loaded::Examples(examples) => {
            let (times, clock) = times(examples.sequence());
            let skeleton = SkeletonClip {
                name: name.clone(),
                bones: examples.skeleton().bones().to_vec(),
                times,
                poses: (0..examples.frame_count()).map(|e| examples.pose(e).clone()).collect(),
                clock,
                convention: Convention::Declared,
            };
            let meshes = vec![mesh_clip(name, examples.sequence())];
            Scene { skeletons: vec![skeleton], meshes, ..Scene::default() }
        }
    })
}

fn mesh_clip(name: String, sequence: &MeshSequence) -> MeshClip {
    let mesh = sequence.mesh();
    let (times, clock) = times(sequence);
    MeshClip {
        name,
        vertex_count: mesh.vertex_count(),
        surface: Some(surface(mesh)),
        rest: Some(mesh.vertices().to_vec()),
        skin: None,
        times,
        clock,
        convention: Convention::Declared,
        frames: Box::new(StoredFrames(sequence.frames().to_vec())),
    }
}

/// The frames' times: seconds from the first, or numbers where the file does not say how fast they follow.
fn times(sequence: &MeshSequence) -> (Vec<f64>, Clock) {
    let numbers = (0..sequence.frame_count()).map(|e| e as f64);
    match sequence.fps() {
        Some(fps) => (numbers.map(|number| number / fps).collect(), Clock::FromStart),
        None => (numbers.collect(), Clock::FrameNumbers),
    }
}

/// The mesh's own polygons; its triangles if it has none, or texture coordinates on triangles that are not their fans.
fn surface(mesh: &Mesh) -> Surface {
    let triangles =
        || Polygons { counts: vec![3; mesh.triangles().len()], vertices: mesh.triangles().as_flattened().to_vec() };
    let Some(uvs) = mesh.uvs() else {
        return Surface { polygons: mesh.polygons().cloned().unwrap_or_else(triangles), uvs: None };
    };
    match mesh.polygons().filter(|polygons| polygons.fan() == mesh.triangles()) {
        Some(polygons) => Surface { polygons: polygons.clone(), uvs: Some(polygon_uvs(polygons, uvs)) },
        None => Surface { polygons: triangles(), uvs: Some(uvs.as_flattened().to_vec()) },
    }
}

/// Texture coordinates a polygon corner from those of the polygons' fans, (F, 3, 2).
fn polygon_uvs(polygons: &Polygons, uvs: &[[[f32; 2]; 3]]) -> Vec<[f32; 2]> {
    let mut corners = Vec::with_capacity(polygons.vertices.len());
    let mut rest = uvs;
    for &count in &polygons.counts {
        let (fan, others) = rest.split_at(count as usize - 2);
        corners.extend_from_slice(&fan[0][..2]);
        corners.extend(fan.iter().map(|triangle| triangle[2]));
        rest = others;
    }
    corners
}
