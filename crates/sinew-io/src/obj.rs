//! Wavefront OBJ: one mesh a file, a directory of them a sequence in the order of the numbers in their names
//! (`1.obj, 2.obj, 10.obj`).
//!
//! Parsed here because vertex order is everything: `tobj` numbers vertices by their first use in a face and drops the
//! unused ones. Lines that are neither `v`, `vt` nor `f` are passed over. Units are not said: by custom metres, Y up.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use glam::DVec3;
use sinew_examples::Polygons;

use crate::clip::StoredFrames;
use crate::{Clock, Convention, FileError, MeshClip, PointSource, Scene, Surface, write_atomically};

/// Reads one OBJ file, or a directory of them as one sequence for each name without its number.
pub fn read_obj(path: &Path) -> Result<Scene, FileError> {
    if !path.is_dir() {
        let object = parse(path)?;
        let mut clip = clip_of(stem(path), object.points.len(), object.surface(path)?);
        clip.rest = Some(object.points.clone());
        clip.frames = Box::new(StoredFrames(vec![object.points]));
        return Ok(Scene { meshes: vec![clip], ..Scene::default() });
    }
    let mut scene = Scene::default();
    for (name, files) in sequences(path)? {
        let first = parse(&files[0].1)?;
        let mut clip = clip_of(name, first.points.len(), first.surface(&files[0].1)?);
        clip.times = files.iter().map(|&(number, _)| number as f64).collect();
        let corners = clip.surface.as_ref().map_or(0, |surface| surface.polygons.vertices.len());
        let paths = files.into_iter().map(|(_, path)| path).collect();
        clip.frames = Box::new(ObjFrames { paths, vertices: clip.vertex_count, corners });
        scene.meshes.push(clip);
    }
    if scene.meshes.is_empty() {
        return Err(FileError::format(path, "the directory has no .obj files"));
    }
    Ok(scene)
}

/// Writes one mesh; texture coordinates are one a polygon corner.
pub fn write_obj(path: &Path, name: &str, surface: &Surface, points: &[DVec3]) -> Result<(), FileError> {
    write_atomically(path, |out| {
        writeln!(out, "o {name}")?;
        for p in points {
            writeln!(out, "v {:.7} {:.7} {:.7}", p.x, p.y, p.z)?;
        }
        for [u, v] in surface.uvs.iter().flatten() {
            writeln!(out, "vt {u} {v}")?;
        }
        let mut corner = 0;
        for polygon in surface.polygons.iter() {
            write!(out, "f")?;
            for v in polygon {
                corner += 1;
                match surface.uvs {
                    Some(_) => write!(out, " {}/{corner}", v + 1)?,
                    None => write!(out, " {}", v + 1)?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    })
}

fn clip_of(name: String, vertex_count: usize, surface: Option<Surface>) -> MeshClip {
    MeshClip {
        name,
        vertex_count,
        surface,
        rest: None,
        skin: None,
        times: vec![0.0],
        clock: Clock::FrameNumbers,
        convention: Convention::Declared,
        frames: Box::new(StoredFrames(Vec::new())),
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The OBJ files of a directory by their name without the last number, each in the order of that number.
fn sequences(directory: &Path) -> Result<BTreeMap<String, Vec<(u64, PathBuf)>>, FileError> {
    let wrap = |source| FileError::system(directory, source);
    let mut sequences: BTreeMap<String, Vec<(u64, PathBuf)>> = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(wrap)? {
        let path = entry.map_err(wrap)?.path();
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("obj")) {
            let (name, number) = split_number(&stem(&path));
            sequences.entry(name).or_default().push((number, path));
        }
    }
    for (name, files) in &mut sequences {
        files.sort();
        if let Some(pair) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let what = format!("two files of `{name}` have the number {}: {}", pair[0].0, pair[1].1.display());
            return Err(FileError::format(&pair[0].1, what));
        }
    }
    Ok(sequences)
}

/// `char_0012` is (`char`, 12); without a number at the end, 0.
fn split_number(stem: &str) -> (String, u64) {
    let head = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = stem[head.len()..].parse().unwrap_or(0);
    (head.trim_end_matches(['_', '.', '-']).to_owned(), number)
}

/// Frames that are one OBJ file each, parsed when asked for.
struct ObjFrames {
    paths: Vec<PathBuf>,
    vertices: usize,
    corners: usize,
}

impl PointSource for ObjFrames {
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> Result<(), FileError> {
        let path = &self.paths[frame];
        let object = parse(path)?;
        let (found, expected) = (object.points.len(), self.vertices);
        if found != expected || object.polygons.vertices.len() != self.corners {
            let what = format!(
                "it has {found} vertices and {} polygon corners, {} has {expected} and {}; every frame must be the same mesh in another shape",
                object.polygons.vertices.len(),
                self.paths[0].display(),
                self.corners
            );
            return Err(FileError::format(path, what));
        }
        *points = object.points;
        Ok(())
    }
}

/// What an OBJ file holds.
struct Object {
    points: Vec<DVec3>,
    coordinates: Vec<[f32; 2]>,
    polygons: Polygons,
    /// One a polygon corner; empty if any corner has none.
    coordinate_of_corner: Vec<u32>,
}

impl Object {
    fn surface(&self, path: &Path) -> Result<Option<Surface>, FileError> {
        if self.polygons.counts.is_empty() {
            return Ok(None);
        }
        let whole = self.coordinate_of_corner.len() == self.polygons.vertices.len();
        let uvs = whole.then(|| {
            let of = |&index: &u32| self.coordinates.get(index as usize).copied();
            self.coordinate_of_corner.iter().map(of).collect::<Option<Vec<_>>>()
        });
        let surface = Surface { polygons: self.polygons.clone(), uvs: uvs.flatten() };
        surface.check(self.points.len()).map_err(|what| FileError::format(path, what))?;
        Ok(Some(surface))
    }
}

fn parse(path: &Path) -> Result<Object, FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::system(path, source))?;
    let polygons = Polygons { counts: Vec::new(), vertices: Vec::new() };
    let mut object = Object { points: Vec::new(), coordinates: Vec::new(), polygons, coordinate_of_corner: Vec::new() };
    // A line of numbers that ends in a backslash goes on in the next.
    let mut begun = String::new();
    for (line, text) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let text = String::from_utf8_lossy(text);
        let numbers = !begun.is_empty() || text.starts_with(['v', 'f']);
        if let Some(part) = text.trim_end().strip_suffix('\\').filter(|_| numbers) {
            begun.push_str(part);
            begun.push(' ');
            continue;
        }
        let whole = if begun.is_empty() { text } else { (std::mem::take(&mut begun) + &text).into() };
        parse_line(&whole, &mut object)
            .map_err(|what| FileError::format(path, format!("line {}: {what}", line + 1)))?;
    }
    if object.points.is_empty() {
        return Err(FileError::format(path, "it has no vertices (lines that begin with `v`)"));
    }
    Ok(object)
}

fn parse_line(text: &str, object: &mut Object) -> Result<(), String> {
    let mut words = text.split_ascii_whitespace();
    let number = |word: Option<&str>| -> Result<f64, String> {
        let word = word.ok_or("a number is missing")?;
        word.parse().map_err(|_| format!("`{word}` is not a number"))
    };
    match words.next() {
        Some("v") => {
            let point = DVec3::new(number(words.next())?, number(words.next())?, number(words.next())?);
            object.points.push(point);
        }
        Some("vt") => {
            let u = number(words.next())? as f32;
            let v = words.next().map_or(Ok(0.0), |word| number(Some(word)))? as f32;
            object.coordinates.push([u, v]);
        }
        Some("f") => {
            let mut count = 0;
            for corner in words {
                let mut parts = corner.split('/');
                object.polygons.vertices.push(index(parts.next(), object.points.len())?);
                if let Some(coordinate) = parts.next().filter(|part| !part.is_empty()) {
                    object.coordinate_of_corner.push(index(Some(coordinate), object.coordinates.len())?);
                }
                count += 1;
            }
            if count < 3 {
                return Err(format!("a face with {count} corners"));
            }
            object.polygons.counts.push(count);
        }
        _ => {}
    }
    Ok(())
}

/// A 1-based index, or a negative one that counts back from the last of `count`.
fn index(word: Option<&str>, count: usize) -> Result<u32, String> {
    let word = word.unwrap_or_default();
    let value: i64 = word.parse().map_err(|_| format!("`{word}` is not an index"))?;
    let index = if value < 0 { count as i64 + value } else { value - 1 };
    u32::try_from(index).map_err(|_| format!("the index {value} names nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_split_from_names() {
        assert_eq!(split_number("char0010"), ("char".into(), 10));
        assert_eq!(split_number("arm_2"), ("arm".into(), 2));
        assert_eq!(split_number("10"), (String::new(), 10));
        assert_eq!(split_number("body"), ("body".into(), 0));
    }

    #[test]
    fn lines_go_on_after_a_backslash_but_not_comments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.obj");
        std::fs::write(&path, "# from C:\\\nv 0 0 \\\r\n 1\nv 1 0 0\nv 0 1 0\nf 1 2 \\\n3\n").unwrap();
        let object = parse(&path).unwrap();
        assert_eq!(object.points, [DVec3::Z, DVec3::X, DVec3::Y]);
        assert_eq!(object.polygons, Polygons { counts: vec![3], vertices: vec![0, 1, 2] });
    }

    #[test]
    fn negative_indices_count_back() {
        assert_eq!(index(Some("-1"), 4), Ok(3));
        assert_eq!(index(Some("1"), 4), Ok(0));
        assert!(index(Some("0"), 4).is_err() && index(Some("-5"), 4).is_err());
    }
}
