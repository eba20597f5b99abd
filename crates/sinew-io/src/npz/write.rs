//! Writing `examples.npz`; the same examples always give the same bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use glam::{DAffine3, DVec3};
use sinew_examples::{Examples, Mesh, MeshSequence, Split};
use zip::write::SimpleFileOptions;

use super::{Array, Values};
use crate::{FileError, write_atomically};

/// Writes examples.
pub fn write(path: &Path, examples: &Examples) -> Result<(), FileError> {
    let mut arrays = sequence_arrays(examples.sequence());
    let bones = examples.skeleton().bones();
    let (j, n) = (bones.len(), examples.frame_count());
    let parents = bones.iter().map(|bone| bone.parent.map_or(-1, |parent| parent as i64)).collect();
    arrays.insert("bone_parents".into(), Array::int(&[j], parents));
    let names = bones.iter().map(|bone| bone.name.clone()).collect();
    arrays.insert("bone_names".into(), Array { shape: vec![j], values: Values::Text(names) });
    let rest = bones.iter().flat_map(|bone| rows(bone.rest)).collect();
    arrays.insert("rest_bones".into(), Array::f32(&[j, 4, 4], rest));
    let posed = (0..n).flat_map(|e| examples.pose(e).globals.iter().flat_map(|&g| rows(g))).collect();
    arrays.insert("bones".into(), Array::f32(&[n, j, 4, 4], posed));
    if let Some(map) = examples.influences() {
        arrays.insert("influences".into(), Array::f32(&[examples.mesh().vertex_count(), j], map.values().to_vec()));
    }
    if let Some(weights) = examples.pose_weights() {
        arrays.insert("pose_weights".into(), Array::f32(&[n], weights.iter().map(|&w| w as f32).collect()));
    }
    write_arrays(path, &arrays)
}

/// Writes a bare mesh sequence.
pub fn write_sequence(path: &Path, sequence: &MeshSequence) -> Result<(), FileError> {
    write_arrays(path, &sequence_arrays(sequence))
}

/// Writes arrays by name, packed, without time stamps.
pub fn write_arrays(path: &Path, arrays: &BTreeMap<String, Array>) -> Result<(), FileError> {
    write_atomically(path, |file| {
        let mut archive = zip::ZipWriter::new(file);
        for (name, array) in arrays {
            let options = SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Deflated)
                .compression_level(Some(4))
                .last_modified_time(zip::DateTime::default())
                .large_file(true);
            archive.start_file(format!("{name}.npy"), options).map_err(std::io::Error::other)?;
            archive.write_all(&array.to_npy())?;
        }
        archive.finish().map_err(std::io::Error::other)?;
        Ok(())
    })
}

fn sequence_arrays(sequence: &MeshSequence) -> BTreeMap<String, Array> {
    let mut arrays = mesh_arrays(sequence.mesh());
    let (n, v) = (sequence.frame_count(), sequence.mesh().vertex_count());
    let flat = sequence.frames().iter().flat_map(|frame| flatten(frame)).collect();
    arrays.insert("vertices".into(), Array::f32(&[n, v, 3], flat));
    let list = |frames: &[usize]| Array::int(&[frames.len()], frames.iter().map(|&e| e as i64).collect());
    let Split { train, test } = sequence.split();
    arrays.insert("train".into(), list(train));
    arrays.insert("test".into(), list(test));
    if let Some(fps) = sequence.fps() {
        arrays.insert("fps".into(), Array::f32(&[], vec![fps as f32]));
    }
    arrays
}

fn mesh_arrays(mesh: &Mesh) -> BTreeMap<String, Array> {
    let whole = |values: &[u32]| values.iter().map(|&v| i64::from(v)).collect::<Vec<_>>();
    let mut arrays = BTreeMap::new();
    arrays.insert("rest_vertices".into(), Array::f32(&[mesh.vertex_count(), 3], flatten(mesh.vertices())));
    let faces = whole(mesh.triangles().as_flattened());
    arrays.insert("faces".into(), Array::int(&[mesh.triangles().len(), 3], faces));
    if let Some(polygons) = mesh.polygons() {
        arrays.insert("polygon_counts".into(), Array::int(&[polygons.counts.len()], whole(&polygons.counts)));
        arrays.insert("polygon_vertices".into(), Array::int(&[polygons.vertices.len()], whole(&polygons.vertices)));
    }
    if let Some(uvs) = mesh.uvs() {
        arrays.insert("uvs".into(), Array::f32(&[uvs.len(), 3, 2], uvs.as_flattened().as_flattened().to_vec()));
    }
    arrays
}

fn flatten(points: &[DVec3]) -> Vec<f32> {
    points.iter().flat_map(|p| p.as_vec3().to_array()).collect()
}

/// A 4×4 matrix row by row.
fn rows(transform: DAffine3) -> [f32; 16] {
    let columns = [transform.matrix3.x_axis, transform.matrix3.y_axis, transform.matrix3.z_axis, transform.translation];
    std::array::from_fn(|k| match k / 4 {
        3 => f32::from(u8::from(k == 15)),
        row => columns[k % 4][row] as f32,
    })
}
