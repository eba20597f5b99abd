//! From frames of points to an Alembic archive: one polygon mesh under one transform.

use std::fs::File;
use std::io::{BufWriter, Result, Seek, SeekFrom, Write};
use std::path::Path;

use glam::DVec3;

use super::archive::ACYCLIC;
use crate::{FileError, Surface, write_atomically};

/// The bit that tells data from groups.
const DATA: u64 = 1 << 63;

/// The version of the library whose layout this follows, as the format counts: 1.8.3.
const LIBRARY: u32 = 10_803;

/// Writes a mesh with a sample of its points for each of `times` (seconds). Frames are written as they come.
pub fn write_alembic(
    path: &Path,
    name: &str,
    surface: &Surface,
    times: &[f64],
    frames: impl IntoIterator<Item: AsRef<[DVec3]>>,
) -> std::result::Result<(), FileError> {
    // Alembic's faces are clockwise.
    let mut clockwise = surface.clone();
    clockwise.flip();
    write_atomically(path, |out| {
        let mut writer = Writer { out, position: 0 };
        writer.raw(b"Ogawa\xff\0\x01")?;
        writer.raw(&0_u64.to_le_bytes())?;
        let root = writer.archive(name, &clockwise, times, frames)?;
        writer.out.seek(SeekFrom::Start(8))?;
        writer.out.write_all(&root.to_le_bytes())
    })
}

/// Writes data and groups one after the other; what refers comes after what is referred to.
struct Writer<'a> {
    out: &'a mut BufWriter<File>,
    position: u64,
}

/// The kinds of properties, as the header counts them.
const COMPOUND: u32 = 0;
const SCALAR: u32 = 1;
const ARRAY: u32 = 2;

/// Types of numbers, as the header counts them.
const I32: u32 = 6;
const F32: u32 = 10;
const F64: u32 = 11;

impl Writer<'_> {
    fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.position += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn data(&mut self, bytes: &[u8]) -> Result<u64> {
        let position = self.position;
        self.raw(&(bytes.len() as u64).to_le_bytes())?;
        self.raw(bytes)?;
        Ok(position | DATA)
    }

    fn group(&mut self, children: &[u64]) -> Result<u64> {
        let position = self.position;
        self.raw(&(children.len() as u64).to_le_bytes())?;
        for child in children {
            self.raw(&child.to_le_bytes())?;
        }
        Ok(position)
    }

    /// A sample's values behind their key.
    fn sample(&mut self, values: &[u8]) -> Result<u64> {
        let mut bytes = key(values).to_le_bytes().to_vec();
        bytes.extend_from_slice(values);
        self.data(&bytes)
    }

    fn archive(
        &mut self,
        name: &str,
        surface: &Surface,
        times: &[f64],
        frames: impl IntoIterator<Item: AsRef<[DVec3]>>,
    ) -> Result<u64> {
        let version = self.data(&0_u32.to_le_bytes())?;
        let library = self.data(&LIBRARY.to_le_bytes())?;
        let mesh_properties = self.mesh(surface, frames)?;
        let hashes = self.data(&[0; 32])?;
        let mesh = self.group(&[mesh_properties, hashes])?;
        let transform_properties = self.transform()?;
        let headers = self.data(&object_header(&format!("{name}Shape"), MESH_OBJECT))?;
        let transform = self.group(&[transform_properties, mesh, headers])?;
        let headers = self.data(&object_header(name, TRANSFORM_OBJECT))?;
        let top = self.group(&[0, transform, headers])?;
        let metadata = self.data(b"_ai_Application=sinew;_ai_AlembicVersion=Alembic 1.8.3")?;
        let samplings = self.data(&samplings(times))?;
        let indexed = self.data(&[])?;
        self.group(&[version, library, top, metadata, samplings, indexed])
    }

    /// The identity: an `.xform` without operations.
    fn transform(&mut self) -> Result<u64> {
        let empty = self.data(&[])?;
        let xform = self.group(&[empty])?;
        let mut headers = Vec::new();
        header(&mut headers, ".xform", COMPOUND, 0, 0, 0, false, "schema=AbcGeom_Xform_v3");
        let headers = self.data(&headers)?;
        self.group(&[xform, headers])
    }

    fn mesh(&mut self, surface: &Surface, frames: impl IntoIterator<Item: AsRef<[DVec3]>>) -> Result<u64> {
        let mut headers = Vec::new();
        let mut properties = Vec::new();
        let (mut bounds, mut points) = (Vec::new(), Vec::new());
        for frame in frames {
            let frame = frame.as_ref();
            bounds.push(self.sample(&bounds_of(frame))?);
            let values = frame.iter().flat_map(DVec3::to_array);
            let bytes: Vec<u8> = values.flat_map(|c| (c as f32).to_le_bytes()).collect();
            points.extend([self.sample(&bytes)?, DATA]);
        }
        let count = bounds.len();
        properties.push(self.group(&bounds)?);
        header(&mut headers, ".selfBnds", SCALAR, F64, 6, count, true, "interpretation=box");
        properties.push(self.group(&points)?);
        header(&mut headers, "P", ARRAY, F32, 3, count, true, "geoScope=vtx;interpretation=point");
        let integers = |list: &[u32]| list.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        for (name, list) in [(".faceIndices", &surface.polygons.vertices), (".faceCounts", &surface.polygons.counts)] {
            let sample = self.sample(&integers(list))?;
            properties.push(self.group(&[sample, DATA])?);
            header(&mut headers, name, ARRAY, I32, 1, 1, false, "");
        }
        if let Some(uvs) = &surface.uvs {
            let bytes: Vec<u8> = uvs.as_flattened().iter().flat_map(|c| c.to_le_bytes()).collect();
            let sample = self.sample(&bytes)?;
            properties.push(self.group(&[sample, DATA])?);
            header(&mut headers, "uv", ARRAY, F32, 2, 1, false, UV);
        }
        properties.push(self.data(&headers)?);
        let geometry = self.group(&properties)?;
        let mut headers = Vec::new();
        header(&mut headers, ".geom", COMPOUND, 0, 0, 0, false, GEOMETRY);
        let headers = self.data(&headers)?;
        self.group(&[geometry, headers])
    }
}

const MESH_OBJECT: &str =
    "schema=AbcGeom_PolyMesh_v1;schemaBaseType=AbcGeom_GeomBase_v1;schemaObjTitle=AbcGeom_PolyMesh_v1:.geom";
const TRANSFORM_OBJECT: &str = "schema=AbcGeom_Xform_v3;schemaObjTitle=AbcGeom_Xform_v3:.xform";
const GEOMETRY: &str = "schema=AbcGeom_PolyMesh_v1;schemaBaseType=AbcGeom_GeomBase_v1";
const UV: &str = "arrayExtent=1;geoScope=fvr;interpretation=vector;isGeomParam=true;podExtent=2;podName=float32_t";

/// The headers of an object's only child, and 32 bytes for hashes that readers do not look at.
fn object_header(name: &str, metadata: &str) -> Vec<u8> {
    let mut bytes = (name.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0xff);
    bytes.extend((metadata.len() as u32).to_le_bytes());
    bytes.extend_from_slice(metadata.as_bytes());
    bytes.extend([0; 32]);
    bytes
}

/// A property header, its numbers all 32 bits wide. `timed` properties use the frames' time sampling.
fn header(
    out: &mut Vec<u8>,
    name: &str,
    kind: u32,
    pod: u32,
    extent: u32,
    samples: usize,
    timed: bool,
    metadata: &str,
) {
    const WIDE: u32 = 2 << 2;
    const METADATA_FOLLOWS: u32 = 0xff << 20;
    const TIME_SAMPLING: u32 = 0x100;
    const SAME_SIZE: u32 = 0x400;
    const CONSTANT: u32 = 0x800;
    let mut flags = kind | WIDE | METADATA_FOLLOWS;
    if kind != COMPOUND {
        flags |= (pod << 4) | (extent << 12) | SAME_SIZE;
        flags |= if samples == 1 { CONSTANT } else { 0 } | if timed { TIME_SAMPLING } else { 0 };
    }
    out.extend(flags.to_le_bytes());
    if kind != COMPOUND {
        out.extend((samples as u32).to_le_bytes());
        if timed {
            out.extend(1_u32.to_le_bytes());
        }
    }
    for text in [name, metadata] {
        out.extend((text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Time sampling 0, which every archive has, and 1, the frames': uniform if they are.
fn samplings(times: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |most: usize, cycle: f64, times: &[f64]| {
        bytes.extend((most as u32).to_le_bytes());
        bytes.extend(cycle.to_le_bytes());
        bytes.extend((times.len() as u32).to_le_bytes());
        times.iter().for_each(|time| bytes.extend(time.to_le_bytes()));
    };
    add(1, 1.0, &[0.0]);
    let step = if times.len() > 1 { (times[times.len() - 1] - times[0]) / (times.len() - 1) as f64 } else { 1.0 };
    // A microsecond: far below a frame.
    let uniform = times.iter().enumerate().all(|(k, time)| (times[0] + k as f64 * step - time).abs() < 1e-6);
    if uniform {
        add(times.len(), step, &times[..1])
    } else {
        add(times.len(), ACYCLIC, times)
    }
    bytes
}

fn bounds_of(points: &[DVec3]) -> Vec<u8> {
    let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
    let (low, high) = points.iter().fold(start, |(low, high), &p| (low.min(p), high.max(p)));
    low.to_array().into_iter().chain(high.to_array()).flat_map(f64::to_le_bytes).collect()
}

/// A key that tells samples apart, since readers may cache by it: FNV-1a of 128 bits.
fn key(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    bytes
        .iter()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
