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

/// The last row of a bone's matrix may differ from (0, 0, 0, 1) by this much: a product of a long chain of f32 matrices
/// differs by far less, a translation that was put there by more.
const LAST_ROW_TOLERANCE: f64 = 1e-4;

/// The arrays of the schema; whatever else a file has is not looked at.
const KEYS: [&str; 15] = [
    "rest_vertices",
    "faces",
    "vertices",
    "bone_parents",
    "rest_bones",
    "bones",
    "bone_names",
    "train",
    "test",
    "influences",
    "pose_weights",
    "polygon_counts",
    "polygon_vertices",
    "uvs",
    "fps",
];

/// Reads examples, or a bare mesh sequence if the file has no bones.
pub fn read(path: &Path) -> Result<Loaded, FileError> {
    let file = std::fs::File::open(path).map_err(|source| FileError::system(path, source))?;
    Fields::unpacked(path, std::io::BufReader::new(file))?.load()
}

/// As [`read`], from bytes; `name` stands in errors.
pub fn read_bytes(name: &Path, bytes: &[u8]) -> Result<Loaded, FileError> {
    Fields::unpacked(name, std::io::Cursor::new(bytes))?.load()
}

/// All arrays of an `.npz` by name.
pub fn read_arrays(path: &Path) -> Result<BTreeMap<String, Array>, FileError> {
    let file = std::fs::File::open(path).map_err(|source| FileError::system(path, source))?;
    unpack(path, std::io::BufReader::new(file), |_| true)
}

/// The arrays that are `wanted`, by name; of the others nothing but the name is looked at.
fn unpack(
    path: &Path,
    file: impl Read + Seek,
    mut wanted: impl FnMut(&str) -> bool,
) -> Result<BTreeMap<String, Array>, FileError> {
    let mut archive =
        zip::ZipArchive::new(file).map_err(|error| FileError::format(path, format!("not an npz file ({error})")))?;
    let mut arrays = BTreeMap::new();
    for index in 0..archive.len() {
        let member = archive.by_index(index).map_err(|error| FileError::format(path, error.to_string()))?;
        let name = member.name().map_err(|error| FileError::format(path, error.to_string()))?.into_owned();
        let Some(name) = name.strip_suffix(".npy").filter(|name| wanted(name)).map(str::to_owned) else { continue };
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
    /// Names of arrays that are not of the schema.
    others: Vec<String>,
}

impl<'a> Fields<'a> {
    fn unpacked(path: &'a Path, file: impl Read + Seek) -> Result<Self, FileError> {
        let mut others = Vec::new();
        let arrays = unpack(path, file, |name| {
            let known = KEYS.contains(&name);
            others.extend((!known).then(|| name.to_owned()));
            known
        })?;
        Ok(Self { path, arrays, others })
    }

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
        let rest = self.transforms("rest_bones", &[Some(count), Some(4), Some(4)])?;
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
        let flat = self.transforms("bones", &[Some(frames), Some(bones), Some(4), Some(4)])?;
        if bones == 0 {
            return Ok(vec![Pose { globals: Vec::new() }; frames]);
        }
        Ok(flat.chunks_exact(bones).map(|pose| Pose { globals: pose.to_vec() }).collect())
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
            if let Values::Bool(mask) = self.shaped(key, &[None])? {
                return self.masked(key, mask, frames).map(Some);
            }
            self.ints(key, &[None])?.into_iter().map(index).collect::<Result<_, _>>().map(Some)
        };
        let test = list("test")?.unwrap_or_default();
        // A file that names only its test frames trains on the others.
        let train = list("train")?.unwrap_or_else(|| (0..frames).filter(|frame| !test.contains(frame)).collect());
        Ok(Some(Split { train, test }))
    }

    /// The frames that a mask (N) marks.
    fn masked(&self, key: &str, mask: &[bool], frames: usize) -> Result<Vec<usize>, FileError> {
        if mask.len() != frames {
            let what = format!("is a mask of {} entries for {frames} frames; give one a frame, or indices", mask.len());
            return Err(self.wrong(key, what));
        }
        Ok((0..frames).filter(|&frame| mask[frame]).collect())
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
        self.arrays.get(key).ok_or_else(|| {
            let others = match self.others.is_empty() {
                true => String::new(),
                false => format!("; is it one of {}? then give it that name", self.others.join(", ")),
            };
            FileError::format(self.path, format!("there is no array `{key}`{others}"))
        })
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
            Values::Bool(values) => Ok(values.iter().map(|&v| f64::from(u8::from(v))).collect()),
            Values::Text(_) => Err(self.wrong(key, "holds words, it must hold numbers".into())),
        }
    }

    /// 4×4 matrices row by row, as transforms.
    fn transforms(&self, key: &str, shape: &[Option<usize>]) -> Result<Vec<DAffine3>, FileError> {
        let flat = self.floats(key, shape)?;
        let odd = |m: &&[f64]| {
            m[12..].iter().zip([0.0, 0.0, 0.0, 1.0]).any(|(value, wanted)| (value - wanted).abs() > LAST_ROW_TOLERANCE)
        };
        if let Some(matrix) = flat.chunks_exact(16).find(odd) {
            let what = format!(
                "has a matrix whose last row is {:?} instead of [0, 0, 0, 1]; translations belong in the last column \
                 (numpy.swapaxes(a, -1, -2) turns matrices over)",
                &matrix[12..]
            );
            return Err(self.wrong(key, what));
        }
        Ok(to_transforms(&flat))
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
