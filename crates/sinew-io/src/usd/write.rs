//! From frames of points to a `.usda`: one mesh with time-sampled points, metres, Y up.

use std::io::Write;
use std::path::Path;

use glam::DVec3;

use crate::{FileError, Surface, write_atomically};

/// Writes a mesh with a sample of its points for each of `times` (seconds); a time code is a frame. Frames are written as
/// they come.
pub fn write_usda(
    path: &Path,
    name: &str,
    surface: &Surface,
    times: &[f64],
    fps: f64,
    frames: impl IntoIterator<Item: AsRef<[DVec3]>>,
) -> Result<(), FileError> {
    let name = identifier(name);
    write_atomically(path, |out| {
        let code = |time: f64| (time * fps * 1e6).round() / 1e6;
        let (start, end) = (times.first().map_or(0.0, |&t| code(t)), times.last().map_or(0.0, |&t| code(t)));
        writeln!(out, "#usda 1.0\n(\n    defaultPrim = \"{name}\"\n    endTimeCode = {end}\n    metersPerUnit = 1")?;
        writeln!(out, "    startTimeCode = {start}\n    timeCodesPerSecond = {fps}\n    upAxis = \"Y\"\n)\n")?;
        writeln!(out, "def Xform \"{name}\"\n{{\n    def Mesh \"{name}_mesh\"\n    {{")?;
        writeln!(out, "        uniform token subdivisionScheme = \"none\"")?;
        let list = |values: &[u32]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        writeln!(out, "        int[] faceVertexCounts = [{}]", list(&surface.polygons.counts))?;
        writeln!(out, "        int[] faceVertexIndices = [{}]", list(&surface.polygons.vertices))?;
        writeln!(out, "        point3f[] points.timeSamples = {{")?;
        for (&time, frame) in times.iter().zip(frames) {
            write!(out, "            {}: [", code(time))?;
            for (v, p) in frame.as_ref().iter().enumerate() {
                // Nine digits give every f32 back.
                let comma = if v == 0 { "" } else { ", " };
                write!(out, "{comma}({}, {}, {})", p.x as f32, p.y as f32, p.z as f32)?;
            }
            writeln!(out, "],")?;
        }
        writeln!(out, "        }}")?;
        if let Some(uvs) = &surface.uvs {
            let pairs: Vec<String> = uvs.iter().map(|[u, v]| format!("({u}, {v})")).collect();
            writeln!(out, "        texCoord2f[] primvars:st = [{}] (", pairs.join(", "))?;
            writeln!(out, "            interpolation = \"faceVarying\"\n        )")?;
        }
        writeln!(out, "    }}\n}}")
    })
}

/// A name that USD accepts for a prim.
fn identifier(name: &str) -> String {
    let mut word: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        word.insert(0, '_');
    }
    word
}
