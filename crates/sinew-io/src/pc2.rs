//! PC2 (`.pc2`), the point cache of 3ds Max and Blender: little-endian, positions only, no faces.
//!
//! `"POINTCACHE2\0" version:i32 vertices:i32 start:f32 rate:f32 samples:i32`, then `f32 × 3 × vertices × samples`.
//! Times are numbers of frames: `start + rate · sample`. Units and axes are those of the program that wrote it.

use std::io::Write;
use std::path::Path;

use glam::DVec3;

use crate::bytes::{Cursor, FileBytes};
use crate::point_cache::{FixedPoints, check_cache, write_points};
use crate::{Clock, FileError, Scene, write_atomically};

const MAGIC: &[u8; 12] = b"POINTCACHE2\0";
const HEADER: u64 = 32;

/// Reads a PC2 point cache; frames are read when asked for.
pub fn read_pc2(path: &Path) -> Result<Scene, FileError> {
    let mut bytes = FileBytes::open(path)?;
    let head = bytes.read(0, bytes.len().min(HEADER))?;
    if !head.starts_with(MAGIC) {
        return Err(bytes.corrupt(0, "a PC2 file begins with `POINTCACHE2`; this does not"));
    }
    let mut cursor = Cursor::new(&head[12..], 12, path);
    let _version = cursor.u32()?;
    let (vertices, start, rate, samples) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let (start, rate) = (f64::from(f32::from_bits(start)), f64::from(f32::from_bits(rate)));
    check_cache(&bytes, HEADER, vertices, samples)?;
    if !(start.is_finite() && rate.is_finite() && rate > 0.0) {
        return Err(bytes.corrupt(20, format!("the first frame is {start} and the step {rate}")));
    }
    let times = (0..samples).map(|sample| start + rate * f64::from(sample)).collect();
    let points = FixedPoints { bytes, start: HEADER, vertices: vertices as usize, big_endian: false, buffer: vec![] };
    Ok(points.into_scene(times, Clock::FrameNumbers))
}

/// Writes a PC2 point cache of `vertices` points, whose first frame is `start`. Frames are written as they come.
pub fn write_pc2(
    path: &Path,
    start: f32,
    vertices: usize,
    frames: impl ExactSizeIterator<Item: AsRef<[DVec3]>>,
) -> Result<(), FileError> {
    write_atomically(path, |out| {
        out.write_all(MAGIC)?;
        out.write_all(&1_i32.to_le_bytes())?;
        out.write_all(&(vertices as i32).to_le_bytes())?;
        out.write_all(&start.to_le_bytes())?;
        out.write_all(&1_f32.to_le_bytes())?;
        out.write_all(&(frames.len() as i32).to_le_bytes())?;
        write_points(out, frames, f32::to_le_bytes)
    })
}
