//! Reading `examples.npz`.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Bone, Examples, ExamplesParts, Mesh, MeshSequence, Polygons, Pose, Split};

use super::{Array, Values};
use crate::{FileError, Loaded};

/// No member may unpack to more than this many times its packed size plus a megabyte (deflate's own limit is 1,032):
/// a larger claim is a bomb, not an array.
const LARGEST_RATIO: u64 = 1040;

/// Reads examples, or a bare mesh sequence if the file has no bones.
pub fn read(path: &Path) -> Result<Loaded, FileError> {
    Fields { path, arrays: read_arrays(path)? }.load()
}

/// As [`read`], from bytes; `name` stands in errors.
pub fn read_bytes(name: &Path, bytes: &[u8]) -> Result<Loaded, FileError> {
    Fields { path: name, arrays: unpack(name, std::io::Cursor::new(bytes))? }.load()
}

/// All arrays of an `.npz` by name.
pub fn read_arrays(path: &Path) -> Result<BTreeMap<String, Array>, FileError> {
    let file = std::fs::File::open(path).map_err(|source| FileError::system(path, source))?;
    unpack(path, std::io::BufReader::new(file))
}

fn unpack(path: &Path, file: impl Read + Seek) -> Result<BTreeMap<String, Array>, FileError> {
    let mut archive =
        zip::ZipArchive::new(file).map_err(|error| FileError::format(path, format!("not an npz file ({error})")))?;
    let mut arrays = BTreeMap::new();
    for index in 0..archive.len() {
        let member = archive.by_index(index).map_err(|error| FileError::format(path, error.to_string()))?;
        let name = member.name().map_err(|error| FileError::format(path, error.to_string()))?.into_owned();
        let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else { continue };
        let wrong = |what: String| FileError::format(path, format!("array `{name}`: {what}"));
        let limit = member.compressed_size().saturating_mul(LARGEST_RATIO).saturating_add(1 << 20);
        let mut bytes = Vec::new();
        // Memory grows with what is really there, never with what the header claims.
        member.take(limit).read_to_end(&mut bytes).map_err(|error| wrong(format!("damaged ({error})")))?;
        arrays.insert(name.clone(), Array::from_npy(&bytes).map_err(wrong)?);
    }
    Ok(arrays)
}

/// The arrays of a file, asked for by key, type and shape.
struct Fields<'a> {
    path: &'a Path,
    arrays: BTreeMap<String, Array>,
}

impl Fields<'_> {
    fn load(&self) -> Result<Loaded, FileError> {
        let content = |error| FileError::content(self.path, error);
        let mesh = self.mesh()?;
        let frames = self.frames(mesh.vertex_count())?;
        let split = self.split(frames.len())?;
        let fps = self.numbers("fps")?.and_then(|values| values.first().copied());
        let keys = ["bone_parents", "rest_bones", "bones"];
        if keys.iter().all(|key| !self.arrays.contains_key(*key)) {
            let sequence = MeshSequence::new(mesh, frames, split, fps).map_err(content)?;
            return Ok(Loaded::Sequence(Box::new(sequence)));
        }
        let bones = self.bones()?;
        let poses = self.poses(frames.len(), bones.len())?;
        let influences = self.influences(mesh.vertex_count(), bones.len())?;
        let pose_weights = self.numbers("pose_weights")?;
        let parts = ExamplesParts { mesh, bones, poses, frames, split, influences, pose_weights, fps };
        Examples::new(parts).map(|examples| Loaded::Examples(Box::new(examples))).map_err(content)
    }

    fn mesh(&self) -> Result<Mesh, FileError> {
        let rest = to_points(&self.floats("rest_vertices", &[None, Some(3)])?);
        let triangles: Vec<[u32; 3]> =
            self.indices("faces", &[None, Some(3)])?.chunks_exact(3).map(|c| [c[0], c[1], c[2]]).collect();
        let polygons = match self.arrays.contains_key("polygon_counts") {
            true => Some(Polygons {
                counts: self.indices("polygon_counts", &[None])?,
                vertices: self.indices("polygon_vertices", &[None])?,
            }),
            false => None,
        };
        let uvs = match self.arrays.contains_key("uvs") {
            true => {
                let flat = self.floats("uvs", &[None, Some(3), Some(2)])?;
                let corner = |c: &[f64], k: usize| [c[2 * k] as f32, c[2 * k + 1] as f32];
                Some(flat.chunks_exact(6).map(|c| [corner(c, 0), corner(c, 1), corner(c, 2)]).collect())
            }
            false => None,
        };
        Mesh::new(rest, triangles, polygons, uvs).map_err(|error| FileError::content(self.path, error))
    }

    fn frames(&self, vertices: usize) -> Result<Vec<Vec<DVec3>>, FileError> {
        let array = self.array("vertices")?;
        if let [_, found, 3] = array.shape[..]
            && found != vertices
        {
            let error = sinew_examples::ExamplesError::VertexCount { frame: 0, found, expected: vertices };
            return Err(FileError::content(self.path, error));
        }
        let flat = self.floats("vertices", &[None, Some(vertices), Some(3)])?;
        Ok(flat.chunks_exact(3 * vertices).map(to_points).collect())
    }

    fn bones(&self) -> Result<Vec<Bone>, FileError> {
        let parents = self.ints("bone_parents", &[None])?;
        let count = parents.len();
        let rest = to_transforms(&self.floats("rest_bones", &[Some(count), Some(4), Some(4)])?);
        let names = match self.arrays.get("bone_names").map(|array| &array.values) {
            None => (0..count).map(|b| format!("bone_{b}")).collect(),
            Some(Values::Text(names)) if names.len() == count => names.clone(),
            Some(Values::Text(names)) => {
                return Err(self.wrong("bone_names", format!("has {} names for {count} bones", names.len())));
            }
            Some(_) => return Err(self.wrong("bone_names", "is not an array of strings".into())),
        };
        let bone = |((name, rest), parent): ((String, DAffine3), i64)| {
            // A negative parent is a root; one that fits no machine word is out of range for certain.
            let parent = (parent >= 0).then(|| usize::try_from(parent).unwrap_or(usize::MAX));
            Bone { name, parent, rest }
        };
        Ok(names.into_iter().zip(rest).zip(parents).map(bone).collect())
    }

    fn poses(&self, frames: usize, bones: usize) -> Result<Vec<Pose>, FileError> {
        let flat = self.floats("bones", &[Some(frames), Some(bones), Some(4), Some(4)])?;
        if bones == 0 {
            return Ok(vec![Pose { globals: Vec::new() }; frames]);
        }
        Ok(flat.chunks_exact(16 * bones).map(|pose| Pose { globals: to_transforms(pose) }).collect())
    }

    fn split(&self, frames: usize) -> Result<Option<Split>, FileError> {
        if !self.arrays.contains_key("train") && !self.arrays.contains_key("test") {
            return Ok(None);
        }
        let list = |key: &str| -> Result<Option<Vec<usize>>, FileError> {
            if !self.arrays.contains_key(key) {
                return Ok(None);
            }
            let index = |frame: i64| {
                usize::try_from(frame).ok().filter(|&frame| frame < frames).ok_or_else(|| {
                    let what = key.to_string();
                    FileError::content(self.path, sinew_examples::ExamplesError::FrameIndex { what, frame, frames })
                })
            };
            self.ints(key, &[None])?.into_iter().map(index).collect::<Result<_, _>>().map(Some)
        };
        let test = list("test")?.unwrap_or_default();
        // A file that names only its test frames trains on the others.
        let train = list("train")?.unwrap_or_else(|| (0..frames).filter(|frame| !test.contains(frame)).collect());
        Ok(Some(Split { train, test }))
    }

    fn influences(&self, vertices: usize, bones: usize) -> Result<Option<Vec<f32>>, FileError> {
        if !self.arrays.contains_key("influences") {
            return Ok(None);
        }
        let values = self.floats("influences", &[Some(vertices), Some(bones)])?;
        Ok(Some(values.into_iter().map(|v| v as f32).collect()))
    }

    fn wrong(&self, key: &str, what: String) -> FileError {
        FileError::format(self.path, format!("`{key}` {what}"))
    }

    fn array(&self, key: &str) -> Result<&Array, FileError> {
        self.arrays.get(key).ok_or_else(|| FileError::format(self.path, format!("there is no array `{key}`")))
    }

    /// The array `key` if its shape matches; `None` stands for any length.
    fn shaped(&self, key: &str, shape: &[Option<usize>]) -> Result<&Values, FileError> {
        let array = self.array(key)?;
        let fits = array.shape.len() == shape.len()
            && array.shape.iter().zip(shape).all(|(&found, &wanted)| wanted.is_none_or(|wanted| wanted == found));
        if fits {
            return Ok(&array.values);
        }
        let wanted: Vec<String> = shape.iter().map(|n| n.map_or("any".into(), |n| n.to_string())).collect();
        Err(self.wrong(key, format!("has shape {:?}, it must be [{}]", array.shape, wanted.join(", "))))
    }

    fn floats(&self, key: &str, shape: &[Option<usize>]) -> Result<Vec<f64>, FileError> {
        match self.shaped(key, shape)? {
            Values::F32(values) => Ok(values.iter().map(|&v| f64::from(v)).collect()),
            Values::F64(values) => Ok(values.clone()),
            Values::Int(values) => Ok(values.iter().map(|&v| v as f64).collect()),
            Values::Text(_) => Err(self.wrong(key, "holds words, it must hold numbers".into())),
        }
    }

    fn ints(&self, key: &str, shape: &[Option<usize>]) -> Result<Vec<i64>, FileError> {
        match self.shaped(key, shape)? {
            Values::Int(values) => Ok(values.clone()),
            // numpy makes an empty list an array of floats.
            Values::F64(values) if values.is_empty() => Ok(Vec::new()),
            _ => Err(self.wrong(key, "must hold whole numbers".into())),
        }
    }

    fn indices(&self, key: &str, shape: &[Option<usize>]) -> Result<Vec<u32>, FileError> {
        let index = |v: i64| u32::try_from(v).map_err(|_| self.wrong(key, format!("holds {v}, which is no index")));
        self.ints(key, shape)?.into_iter().map(index).collect()
    }

    /// All numbers of an optional array of any shape.
    fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, FileError> {
        let Some(array) = self.arrays.get(key) else { return Ok(None) };
        let shape: Vec<Option<usize>> = array.shape.iter().map(|&n| Some(n)).collect();
        self.floats(key, &shape).map(Some)
    }
}

fn to_points(flat: &[f64]) -> Vec<DVec3> {
    flat.chunks_exact(3).map(DVec3::from_slice).collect()
}

/// 4×4 matrices row by row.
fn to_transforms(flat: &[f64]) -> Vec<DAffine3> {
    let transform = |m: &[f64]| {
        let column = |c: usize| DVec3::new(m[c], m[4 + c], m[8 + c]);
        DAffine3 { matrix3: DMat3::from_cols(column(0), column(1), column(2)), translation: column(3) }
    };
    flat.chunks_exact(16).map(transform).collect()
}
