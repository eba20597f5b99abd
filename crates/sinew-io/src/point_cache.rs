//! What MDD and PC2 have in common: a header, then frames of a fixed size one after the other.

use std::io::Write;

use glam::DVec3;

use crate::bytes::FileBytes;
use crate::{Clock, Convention, FileError, MeshClip, PointSource, Scene};

/// Refuses a cache whose header claims more, or less, than the file holds.
pub(crate) fn check_cache(bytes: &FileBytes, start: u64, vertices: u32, samples: u32) -> Result<(), FileError> {
    if vertices == 0 || samples == 0 {
        return Err(bytes.corrupt(0, format!("the cache has {samples} frames of {vertices} points")));
    }
    // 12 · 2³² · 2³² does not fit in 64 bits.
    let needed = u128::from(start) + 12 * u128::from(vertices) * u128::from(samples);
    if needed != u128::from(bytes.len()) {
        let what = format!(
            "{samples} frames of {vertices} points need {needed} bytes, but the file has {}: it was cut short or is not a point cache",
            bytes.len()
        );
        return Err(bytes.corrupt(0, what));
    }
    Ok(())
}

/// Frames of a fixed size in a file, read when asked for.
pub(crate) struct FixedPoints {
    pub bytes: FileBytes,
    /// Where the first frame begins.
    pub start: u64,
    pub vertices: usize,
    pub big_endian: bool,
    pub buffer: Vec<u8>,
}

impl FixedPoints {
    /// A scene of this one mesh, named after the file.
    pub(crate) fn into_scene(self, times: Vec<f64>, clock: Clock) -> Scene {
        let name = self.bytes.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let clip = MeshClip {
            name,
            vertex_count: self.vertices,
            surface: None,
            rest: None,
            skin: None,
            times,
            clock,
            convention: Convention::Assumed,
            frames: Box::new(self),
        };
        Scene { meshes: vec![clip], ..Scene::default() }
    }
}

impl PointSource for FixedPoints {
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> Result<(), FileError> {
        let size = 12 * self.vertices as u64;
        self.bytes.read_into(self.start + size * frame as u64, size, &mut self.buffer)?;
        let little = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let big = |b: &[u8]| f64::from(f32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        points.clear();
        if self.big_endian {
            points.extend(self.buffer.chunks_exact(12).map(|b| DVec3::new(big(b), big(&b[4..]), big(&b[8..]))));
        } else {
            points
                .extend(self.buffer.chunks_exact(12).map(|b| DVec3::new(little(b), little(&b[4..]), little(&b[8..]))));
        }
        Ok(())
    }
}

/// Writes the frames one after the other.
pub(crate) fn write_points(
    out: &mut impl Write,
    frames: impl IntoIterator<Item: AsRef<[DVec3]>>,
    bytes: impl Fn(f32) -> [u8; 4],
) -> std::io::Result<()> {
    for frame in frames {
        for value in frame.as_ref().iter().flat_map(DVec3::to_array) {
            out.write_all(&bytes(value as f32))?;
        }
    }
    Ok(())
}
