//! `.sinew`: a safetensors file. Named tensors; string metadata with the format version, the method, the source,
//! the figures, and a checksum over everything, so that a flipped bit anywhere is noticed.

mod tensors;

pub(crate) use tensors::{TensorReader, TensorWriter};

use std::collections::BTreeMap;
use std::path::Path;

use glam::Affine3A;

use crate::character::{Bone, Character, Polygons};
use crate::{Correction, Deformer, Metadata, Model, ModelError};

/// The version this program writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

impl Model {
    /// Reads a model from a file.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let bytes =
            std::fs::read(path).map_err(|source| ModelError::File { path: path.display().to_string(), source })?;
        Self::from_bytes(&bytes)
    }

    /// Writes the model to a file, through a temporary one, so that what was there is not lost half-way.
    pub fn write(&self, path: &Path) -> Result<(), ModelError> {
        let wrap = |source| ModelError::File { path: path.display().to_string(), source };
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = std::fs::write(&temporary, self.to_bytes()).and_then(|()| std::fs::rename(&temporary, path));
        written.map_err(|source| {
            // The rename failed or the disk is full: the half-written file is of no use to anyone.
            let _ = std::fs::remove_file(&temporary);
            wrap(source)
        })
    }

    /// Reads a model from bytes; every size and index is checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let reader = TensorReader::new(bytes)?;
        let version: u32 = reader
            .word("format_version")?
            .parse()
            .map_err(|_| ModelError::Format("its format version is not a number".into()))?;
        if version > FORMAT_VERSION || version == 0 {
            return Err(ModelError::Version { found: version, supported: FORMAT_VERSION });
        }
        reader.check_checksum()?;
        Self::from_tensors(&reader)
    }

    /// [`Self::from_bytes`] whatever the checksum says: for tests and fuzzing of the checks behind it.
    #[doc(hidden)]
    pub fn from_bytes_without_checksum(bytes: &[u8]) -> Result<Self, ModelError> {
        Self::from_tensors(&TensorReader::new(bytes)?)
    }

    fn from_tensors(reader: &TensorReader<'_>) -> Result<Self, ModelError> {
        let character = read_character(reader)?;
        character.check()?;
        let deformer = Deformer::read(reader.word("deformer")?, reader)?;
        let model = Self::new(character, deformer, read_metadata(reader)?)?;
        match reader.word("correction") {
            Ok(kind) => model.with_correction(Correction::read(kind, reader)?),
            Err(_) => Ok(model),
        }
    }

    /// The file's bytes; the same model always gives the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = TensorWriter::default();
        writer.word("format_version", &FORMAT_VERSION.to_string());
        writer.word("deformer", self.deformer.kind());
        write_metadata(&mut writer, &self.metadata);
        write_character(&mut writer, &self.character);
        self.deformer.write(&mut writer);
        if let Some(correction) = &self.correction {
            writer.word("correction", correction.kind());
            correction.write(&mut writer);
        }
        writer.finish()
    }
}

fn write_metadata(writer: &mut TensorWriter, metadata: &Metadata) {
    writer.word("method", &metadata.method);
    writer.word("source", &metadata.source);
    // JSON has no word for what is not finite.
    let figures: BTreeMap<_, _> = metadata.figures.iter().filter(|(_, figure)| figure.is_finite()).collect();
    writer.word("figures", &serde_json::to_string(&figures).expect("numbers by name are JSON"));
    writer.word("notes", &serde_json::to_string(&metadata.notes).expect("words by name are JSON"));
}

fn read_metadata(reader: &TensorReader) -> Result<Metadata, ModelError> {
    let wrong = |what: &str| ModelError::Format(format!("its `{what}` are not valid JSON"));
    Ok(Metadata {
        method: reader.word("method")?.into(),
        source: reader.word("source")?.into(),
        figures: serde_json::from_str(reader.word("figures")?).map_err(|_| wrong("figures"))?,
        notes: serde_json::from_str(reader.word("notes")?).map_err(|_| wrong("notes"))?,
    })
}

fn write_character(writer: &mut TensorWriter, character: &Character) {
    writer.f32("rest_positions", &[character.vertex_count(), 3], character.rest_positions.as_flattened());
    writer.u32("triangles", &[character.triangles.len(), 3], character.triangles.as_flattened());
    if let Some(polygons) = &character.polygons {
        writer.u32("polygon_counts", &[polygons.counts.len()], &polygons.counts);
        writer.u32("polygon_vertices", &[polygons.vertices.len()], &polygons.vertices);
    }
    if let Some(uvs) = &character.uvs {
        writer.f32("uvs", &[uvs.len(), 3, 2], uvs.as_flattened().as_flattened());
    }
    let names: Vec<&str> = character.bones.iter().map(|bone| bone.name.as_str()).collect();
    writer.word("bone_names", &serde_json::to_string(&names).expect("a list of words is JSON"));
    let parents: Vec<i32> = character.bones.iter().map(|bone| bone.parent.map_or(-1, |parent| parent as i32)).collect();
    writer.i32("bone_parents", &[parents.len()], &parents);
    let rest: Vec<f32> = character.bones.iter().flat_map(|bone| to_rows(bone.rest)).collect();
    writer.f32("rest_bones", &[character.bones.len(), 3, 4], &rest);
    writer.skin("skin", &character.skin);
    if let Some(fps) = character.fps {
        writer.f32("fps", &[1], &[fps]);
    }
}

fn read_character(reader: &TensorReader) -> Result<Character, ModelError> {
    let rest_positions = reader.f32("rest_positions", &[None, Some(3)])?;
    let triangles = reader.u32("triangles", &[None, Some(3)])?;
    let polygons = match reader.has("polygon_counts") {
        true => Some(Polygons {
            counts: reader.u32("polygon_counts", &[None])?,
            vertices: reader.u32("polygon_vertices", &[None])?,
        }),
        false => None,
    };
    let uvs = match reader.has("uvs") {
        true => Some(reader.f32("uvs", &[None, Some(3), Some(2)])?.chunks_exact(6).map(to_corners).collect()),
        false => None,
    };
    let names: Vec<String> = serde_json::from_str(reader.word("bone_names")?)
        .map_err(|_| ModelError::Format("its bone names are not a JSON list".into()))?;
    let parents = reader.i32("bone_parents", &[Some(names.len())])?;
    let rest = reader.f32("rest_bones", &[Some(names.len()), Some(3), Some(4)])?;
    let bones = names
        .into_iter()
        .zip(parents)
        .zip(rest.chunks_exact(12))
        .map(|((name, parent), rest)| Bone { name, parent: usize::try_from(parent).ok(), rest: from_rows(rest) })
        .collect();
    Ok(Character {
        rest_positions: to_triples(&rest_positions),
        triangles: to_triples(&triangles),
        polygons,
        uvs,
        bones,
        skin: reader.skin("skin")?,
        fps: if reader.has("fps") { reader.f32("fps", &[Some(1)])?.first().copied() } else { None },
    })
}

/// A 3×4 matrix row by row.
pub(crate) fn to_rows(transform: Affine3A) -> [f32; 12] {
    let [x, y, z, t] = [
        transform.matrix3.x_axis.to_array(),
        transform.matrix3.y_axis.to_array(),
        transform.matrix3.z_axis.to_array(),
        transform.translation.to_array(),
    ];
    std::array::from_fn(|k| [x, y, z, t][k % 4][k / 4])
}

/// The transform of a 3×4 matrix given row by row; `rows` has 12 entries.
pub(crate) fn from_rows(rows: &[f32]) -> Affine3A {
    let columns: [f32; 12] = std::array::from_fn(|k| rows[(k % 3) * 4 + k / 3]);
    Affine3A::from_cols_array(&columns)
}

pub(crate) fn to_triples<T: Copy>(flat: &[T]) -> Vec<[T; 3]> {
    flat.chunks_exact(3).map(|c| [c[0], c[1], c[2]]).collect()
}

fn to_corners(c: &[f32]) -> [[f32; 2]; 3] {
    [[c[0], c[1]], [c[2], c[3]], [c[4], c[5]]]
}
