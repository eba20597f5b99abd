//! MDD (`.mdd`), the point cache of LightWave, read and written by most tools: big-endian, positions only, no faces.
//!
//! `frames:i32 vertices:i32`, the times in seconds `f32 × frames`, then `f32 × 3 × vertices × frames`. Writers count
//! the times from the first frame. Units and axes are those of the program that wrote it.

use std::io::Write;
use std::path::Path;

use glam::DVec3;

use crate::bytes::FileBytes;
use crate::clip::increasing;
use crate::point_cache::{FixedPoints, check_cache, write_points};
use crate::{Clock, FileError, Scene, write_atomically};

/// Reads an MDD point cache; frames are read when asked for.
pub fn read_mdd(path: &Path) -> Result<Scene, FileError> {
    let mut bytes = FileBytes::open(path)?;
    let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    let head = bytes.read(0, 8)?;
    let (samples, vertices) = (word(&head), word(&head[4..]));
    let start = 8 + 4 * u64::from(samples);
    check_cache(&bytes, start, vertices, samples)?;
    let times = bytes.read(8, 4 * u64::from(samples))?;
    let times: Vec<f64> = times.chunks_exact(4).map(|b| f64::from(f32::from_bits(word(b)))).collect();
    if !increasing(&times) {
        return Err(bytes.corrupt(8, "the times of the frames do not increase"));
    }
    let points = FixedPoints { bytes, start, vertices: vertices as usize, big_endian: true, buffer: vec![] };
    Ok(points.into_scene(times, Clock::FromStart))
}

/// Writes an MDD point cache of `vertices` points, a frame for each of `times` (seconds). Frames are written as they come.
pub fn write_mdd(
    path: &Path,
    times: &[f64],
    vertices: usize,
    frames: impl IntoIterator<Item: AsRef<[DVec3]>>,
) -> Result<(), FileError> {
    write_atomically(path, |out| {
        out.write_all(&(times.len() as i32).to_be_bytes())?;
        out.write_all(&(vertices as i32).to_be_bytes())?;
        for &time in times {
            out.write_all(&(time as f32).to_be_bytes())?;
        }
        write_points(out, frames, f32::to_be_bytes)
    })
}
