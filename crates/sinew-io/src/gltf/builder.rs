//! The pieces of a GLB: one binary chunk, its views and accessors, and the JSON around them.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::{FileError, write_atomically};

/// Collects binary data and describes it.
#[derive(Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    views: Vec<Value>,
    accessors: Vec<Value>,
}

/// What a buffer view is bound to, where glTF wants that said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Vertices,
    Indices,
    Other,
}

impl Builder {
    /// Bytes as a buffer view of their own.
    pub(super) fn view(&mut self, bytes: &[u8], target: Target) -> usize {
        // Accessors must stand at multiples of their component's size: four serves all.
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let mut view = json!({"buffer": 0, "byteOffset": self.bytes.len(), "byteLength": bytes.len()});
        match target {
            Target::Vertices => view["target"] = json!(34962),
            Target::Indices => view["target"] = json!(34963),
            Target::Other => {}
        }
        self.bytes.extend_from_slice(bytes);
        self.views.push(view);
        self.views.len() - 1
    }

    /// Floats of `kind` (`SCALAR`, `VEC3` …), `width` an element; `bounded` writes their minimum and maximum.
    pub(super) fn floats(&mut self, values: &[f32], kind: &str, width: usize, target: Target, bounded: bool) -> usize {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = self.view(&bytes, target);
        let mut accessor =
            json!({"bufferView": view, "componentType": 5126, "count": values.len() / width, "type": kind});
        if bounded {
            let bound = |pick: fn(f32, f32) -> f32, start: f32| -> Vec<f32> {
                (0..width).map(|c| values.iter().skip(c).step_by(width).copied().fold(start, pick)).collect()
            };
            accessor["min"] = json!(bound(f32::min, f32::INFINITY));
            accessor["max"] = json!(bound(f32::max, f32::NEG_INFINITY));
        }
        self.push(accessor)
    }

    /// 32-bit indices.
    pub(super) fn indices(&mut self, values: &[u32], target: Target) -> usize {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = self.view(&bytes, target);
        self.push(json!({"bufferView": view, "componentType": 5125, "count": values.len(), "type": "SCALAR"}))
    }

    /// Four joints a vertex.
    pub(super) fn joints(&mut self, values: &[[u16; 4]]) -> usize {
        let bytes: Vec<u8> = values.as_flattened().iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = self.view(&bytes, Target::Vertices);
        self.push(json!({"bufferView": view, "componentType": 5123, "count": values.len(), "type": "VEC4"}))
    }

    fn push(&mut self, accessor: Value) -> usize {
        self.accessors.push(accessor);
        self.accessors.len() - 1
    }

    /// Adds what was collected to `document` and writes both as a GLB.
    pub(super) fn write(self, path: &Path, mut document: Value) -> Result<(), FileError> {
        document["asset"] = json!({"version": "2.0", "generator": concat!("sinew ", env!("CARGO_PKG_VERSION"))});
        document["buffers"] = json!([{"byteLength": self.bytes.len()}]);
        document["bufferViews"] = json!(self.views);
        document["accessors"] = json!(self.accessors);
        let mut text = serde_json::to_vec(&document).expect("a JSON value is JSON");
        text.resize(text.len().next_multiple_of(4), b' ');
        let mut bytes = self.bytes;
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let total = 12 + 8 + text.len() + 8 + bytes.len();
        let Ok(total) = u32::try_from(total) else {
            return Err(FileError::format(path, format!("a GLB holds at most 4 GiB, this would take {total} bytes")));
        };
        write_atomically(path, |out| {
            out.write_all(b"glTF")?;
            out.write_all(&2_u32.to_le_bytes())?;
            out.write_all(&total.to_le_bytes())?;
            for (kind, chunk) in [(b"JSON", &text), (b"BIN\0", &bytes)] {
                out.write_all(&(chunk.len() as u32).to_le_bytes())?;
                out.write_all(kind)?;
                out.write_all(chunk)?;
            }
            Ok(())
        })
    }
}
