//! From an Alembic archive to mesh clips.

use std::path::Path;

use glam::{DAffine3, DMat4, DVec3, DVec4};
use sinew_examples::Polygons;

use super::archive::{Archive, Kind, Object, Pod, Property, metadata_value};
use super::ogawa::Extent;
use crate::bytes::FileBytes;
use crate::clip::increasing;
use crate::{Clock, Convention, FileError, MeshClip, PointSource, Scene, Surface};

/// A header may claim billions of samples that repeat a stored one; more than this many are not believed.
const MOST_REPEATS: usize = 65_536;

/// Reads the polygon meshes (and subdivision cages) of an Alembic file; frames are read when asked for.
pub fn read_alembic(path: &Path) -> Result<Scene, FileError> {
    let mut archive = Archive::open(FileBytes::open(path)?)?;
    let objects = archive.objects()?;
    let mut scene = Scene::default();
    for index in 0..objects.len() {
        let object = &objects[index].0;
        match metadata_value(&object.metadata, "schema").unwrap_or_default() {
            "AbcGeom_PolyMesh_v1" | "AbcGeom_SubD_v1" => {
                let transforms = transforms_above(&mut archive, &objects, index)?;
                let (mesh, changing) = read_mesh(&mut archive, object, &transforms)?;
                if changing {
                    scene.remarks.push(format!(
                        "`{}` is triangulated anew in every frame; the first frame's faces are taken for all",
                        mesh.name
                    ));
                }
                scene.meshes.push(mesh);
            }
            "AbcGeom_Xform_v3" | "AbcGeom_FaceSet_v1" | "" => {}
            other => scene.remarks.push(format!("`{}` is a {other}, which is passed over", object.name)),
        }
    }
    if scene.meshes.is_empty() {
        return Err(archive.ogawa.bytes.corrupt(0, "the archive has no polygon mesh"));
    }
    Ok(scene)
}

/// One transform object: its matrices at its sample times.
struct Transform {
    times: Vec<f64>,
    /// (number of times), or one that always holds.
    matrices: Vec<DAffine3>,
    inherits: bool,
}

impl Transform {
    /// The matrix at `time`: of the last sample not after it. Samples are never far from a mesh's own.
    fn at(&self, time: f64) -> DAffine3 {
        // A thousandth of a second: far below a frame, far above rounding of times.
        let after = self.times.iter().position(|&t| t > time + 1e-3).unwrap_or(self.times.len());
        self.matrices[after.saturating_sub(1).min(self.matrices.len() - 1)]
    }
}

/// The transforms above an object, the outermost first; those above one that does not inherit are left out.
fn transforms_above(
    archive: &mut Archive,
    objects: &[(Object, Option<usize>)],
    index: usize,
) -> Result<Vec<Transform>, FileError> {
    let mut transforms = Vec::new();
    let mut above = objects[index].1;
    while let Some(index) = above {
        let (object, parent) = &objects[index];
        above = *parent;
        if metadata_value(&object.metadata, "schema") != Some("AbcGeom_Xform_v3") {
            continue;
        }
        if let Some(transform) = read_transform(archive, object)? {
            let inherits = transform.inherits;
            transforms.push(transform);
            if !inherits {
                break;
            }
        }
    }
    transforms.reverse();
    Ok(transforms)
}

/// The `.xform` of an object; `None` if it has no operations (the identity).
fn read_transform(archive: &mut Archive, object: &Object) -> Result<Option<Transform>, FileError> {
    let properties = archive.properties(object)?;
    let Some(xform) = properties.iter().find(|p| p.name == ".xform" && p.kind == Kind::Compound) else {
        return Ok(None);
    };
    let members = archive.members(xform)?;
    let find = |name: &str| members.iter().find(|p| p.name == name && p.samples > 0).cloned();
    let inherits = match find(".inherits") {
        Some(property) => archive.sample(&property, 0)?.0.first().is_none_or(|&byte| byte != 0),
        None => true,
    };
    let (Some(operations), Some(values)) = (find(".ops"), find(".vals")) else {
        let identity = Transform { times: vec![0.0], matrices: vec![DAffine3::IDENTITY], inherits };
        return Ok((!inherits).then_some(identity));
    };
    let (operations, _) = archive.sample(&operations, 0)?;
    let stored = archive.stored(&values)?;
    let samples = if values.is_constant() { 1 } else { values.samples.min(stored.len() + MOST_REPEATS) };
    let mut transform = Transform { times: Vec::new(), matrices: Vec::new(), inherits };
    for sample in 0..samples {
        let Extent { offset, size } = stored[values.stored_index(sample).min(stored.len() - 1)];
        let bytes = archive.ogawa.bytes.read(offset, size)?;
        let numbers: Vec<f64> =
            bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect();
        let matrix = compose(&operations, &numbers)
            .ok_or_else(|| archive.ogawa.bytes.corrupt(offset, format!("the transform of `{}`", object.name)))?;
        transform.times.push(archive.time(&values, sample)?);
        transform.matrices.push(matrix);
    }
    Ok(Some(transform))
}

/// The product of the operations, the first outermost; `None` if the values do not fit them.
fn compose(operations: &[u8], values: &[f64]) -> Option<DAffine3> {
    let mut rest = values;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    let mut product = DAffine3::IDENTITY;
    for operation in operations {
        let factor = match operation >> 4 {
            0 => DAffine3::from_scale(DVec3::from_slice(take(3)?)),
            1 => DAffine3::from_translation(DVec3::from_slice(take(3)?)),
            2 => {
                let v = take(4)?;
                let axis = DVec3::from_slice(&v[..3]).try_normalize()?;
                DAffine3::from_axis_angle(axis, v[3].to_radians())
            }
            3 => from_rows(take(16)?),
            4 => DAffine3::from_rotation_x(take(1)?[0].to_radians()),
            5 => DAffine3::from_rotation_y(take(1)?[0].to_radians()),
            6 => DAffine3::from_rotation_z(take(1)?[0].to_radians()),
            _ => return None,
        };
        product *= factor;
    }
    product.is_finite().then_some(product)
}

/// A matrix that stands in the file row by row for row vectors, which is column by column for column vectors.
fn from_rows(v: &[f64]) -> DAffine3 {
    let column = |k: usize| DVec4::from_slice(&v[4 * k..4 * k + 4]);
    DAffine3::from_mat4(DMat4::from_cols(column(0), column(1), column(2), column(3)))
}

/// The mesh, and whether its faces (not its points) change over time, as a triangulating exporter lets them.
fn read_mesh(archive: &mut Archive, object: &Object, transforms: &[Transform]) -> Result<(MeshClip, bool), FileError> {
    let properties = archive.properties(object)?;
    let missing = |archive: &Archive, what: &str| {
        archive.ogawa.bytes.corrupt(0, format!("the mesh `{}` has no {what}", object.name))
    };
    let Some(geometry) = properties.iter().find(|p| p.name == ".geom" && p.kind == Kind::Compound) else {
        return Err(missing(archive, "geometry"));
    };
    let members = archive.members(geometry)?;
    let find = |name: &str| members.iter().find(|p| p.name == name && p.samples > 0).cloned();
    let Some(positions) = find("P").filter(|p| p.extent == 3 && matches!(p.pod, Pod::F16 | Pod::F32 | Pod::F64)) else {
        return Err(missing(archive, "points"));
    };
    let stored = archive.stored(&positions)?;
    let element = 3 * positions.pod.size();
    let vertex_count = (stored[0].size / element) as usize;
    if let Some(odd) = stored.iter().position(|extent| extent.size != stored[0].size) {
        let what = format!(
            "`{}` changes its number of points ({} to {} in stored sample {odd}): one mesh must keep its points",
            object.name,
            vertex_count,
            stored[odd].size / element
        );
        return Err(archive.ogawa.bytes.corrupt(stored[odd].offset, what));
    }
    let surface = match (find(".faceCounts"), find(".faceIndices")) {
        (Some(counts), Some(indices)) => {
            // A parameter with indices is a compound, which has no samples of its own.
            let uv = members.iter().find(|p| p.name == "uv").cloned();
            Some(read_surface(archive, &object.name, &counts, &indices, uv, vertex_count)?)
        }
        _ => None,
    };
    let times = mesh_times(archive, &positions, stored.len(), transforms)?;
    if !increasing(&times) {
        return Err(archive.ogawa.bytes.corrupt(0, format!("the times of `{}` do not increase", object.name)));
    }
    let frames = AlembicPoints {
        bytes: FileBytes::open(archive.ogawa.bytes.path())?,
        pod: positions.pod,
        extents: times.iter().map(|&time| sample_at(archive, &positions, &stored, time)).collect::<Result<_, _>>()?,
        transforms: times.iter().map(|&time| place_at(transforms, time)).collect(),
        buffer: Vec::new(),
    };
    let changing = find(".faceIndices").is_some_and(|indices| !indices.is_constant());
    let clip = MeshClip {
        name: object.name.clone(),
        vertex_count,
        surface,
        rest: None,
        skin: None,
        times,
        clock: Clock::Scene,
        convention: Convention::Declared,
        frames: Box::new(frames),
    };
    Ok((clip, changing))
}

/// The product of the transforms above a mesh at `time`, the outermost first.
fn place_at(transforms: &[Transform], time: f64) -> DAffine3 {
    transforms.iter().fold(DAffine3::IDENTITY, |product, transform| product * transform.at(time))
}

/// The sample times of whatever moves: the points, or a transform above them.
fn mesh_times(
    archive: &Archive,
    positions: &Property,
    stored: usize,
    transforms: &[Transform],
) -> Result<Vec<f64>, FileError> {
    let moving = transforms.iter().map(|t| &t.times).max_by_key(|times| times.len());
    let samples = if positions.is_constant() { 1 } else { positions.samples.min(stored + MOST_REPEATS) };
    match moving {
        Some(times) if times.len() > samples => Ok(times.clone()),
        _ => (0..samples).map(|sample| archive.time(positions, sample)).collect(),
    }
}

/// Where the points at `time` lie.
fn sample_at(archive: &Archive, positions: &Property, stored: &[Extent], time: f64) -> Result<Extent, FileError> {
    let count = if positions.is_constant() { 1 } else { positions.samples };
    // Samples are in order of time: the last that is not after `time`, to a thousandth of a second.
    let (mut low, mut high) = (0, count);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if archive.time(positions, middle)? > time + 1e-3 { high = middle } else { low = middle }
    }
    Ok(stored[positions.stored_index(low).min(stored.len() - 1)])
}

fn read_surface(
    archive: &mut Archive,
    name: &str,
    counts: &Property,
    indices: &Property,
    uv: Option<Property>,
    vertices: usize,
) -> Result<Surface, FileError> {
    let (counts, offset) = integers(archive, counts)?;
    let (indices, _) = integers(archive, indices)?;
    let mut surface = Surface { polygons: Polygons { counts, vertices: indices }, uvs: None };
    surface.check(vertices).map_err(|what| archive.ogawa.bytes.corrupt(offset, format!("`{name}`: {what}")))?;
    if let Some(uv) = uv {
        surface.uvs = read_uvs(archive, &uv, &surface.polygons, vertices)?;
    }
    surface.flip();
    Ok(surface)
}

/// A geometry parameter of two numbers, spread to polygon corners by its scope; `None` if it is something else.
fn read_uvs(
    archive: &mut Archive,
    property: &Property,
    polygons: &Polygons,
    vertices: usize,
) -> Result<Option<Vec<[f32; 2]>>, FileError> {
    let (values, indices) = match property.kind {
        Kind::Array => (property.clone(), None),
        Kind::Compound => {
            let members = archive.members(property)?;
            let Some(values) = members.iter().find(|p| p.name == ".vals") else { return Ok(None) };
            (values.clone(), members.iter().find(|p| p.name == ".indices").cloned())
        }
        Kind::Scalar => return Ok(None),
    };
    if values.pod != Pod::F32 || values.extent != 2 || values.samples == 0 {
        return Ok(None);
    }
    let (bytes, offset) = archive.sample(&values, 0)?;
    let number = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes"));
    let listed: Vec<[f32; 2]> = bytes.chunks_exact(8).map(|b| [number(&b[..4]), number(&b[4..])]).collect();
    let elements = match indices {
        Some(indices) if indices.samples > 0 => {
            let (indices, _) = integers(archive, &indices)?;
            let wrong = || archive.ogawa.bytes.corrupt(offset, "an index of texture coordinates is out of range");
            let picked: Option<Vec<_>> = indices.iter().map(|&i| listed.get(i as usize).copied()).collect();
            picked.ok_or_else(wrong)?
        }
        _ => listed,
    };
    // The scope says whether there is one a corner or one a vertex; old writers leave it out, then the count decides.
    let scope = values.meta("geoScope").or_else(|| property.meta("geoScope")).unwrap_or_default().to_owned();
    let corners = polygons.vertices.len();
    let per_vertex = matches!(scope.as_str(), "vtx" | "var") || (scope.is_empty() && elements.len() != corners);
    if per_vertex && elements.len() == vertices {
        return Ok(Some(polygons.vertices.iter().map(|&v| elements[v as usize]).collect()));
    }
    Ok((elements.len() == corners).then_some(elements))
}

/// The first sample of a property of 32-bit integers; negative ones become huge and fail the index check.
fn integers(archive: &mut Archive, property: &Property) -> Result<(Vec<u32>, u64), FileError> {
    let (bytes, offset) = archive.sample(property, 0)?;
    if !matches!(property.pod, Pod::I32 | Pod::U32) {
        return Err(archive.ogawa.bytes.corrupt(offset, format!("`{}` is not made of integers", property.name)));
    }
    Ok((bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes"))).collect(), offset))
}

/// Points of one mesh, read from the file when asked for.
struct AlembicPoints {
    bytes: FileBytes,
    pod: Pod,
    /// Where each frame's points lie, (N).
    extents: Vec<Extent>,
    /// What places each frame in the world, (N).
    transforms: Vec<DAffine3>,
    buffer: Vec<u8>,
}

impl PointSource for AlembicPoints {
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> Result<(), FileError> {
        let extent = self.extents[frame];
        self.bytes.read_into(extent.offset, extent.size, &mut self.buffer)?;
        let transform = self.transforms[frame];
        let identity = transform == DAffine3::IDENTITY;
        let place = |p: DVec3| if identity { p } else { transform.transform_point3(p) };
        points.clear();
        match self.pod {
            Pod::F32 => {
                let number = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                let point = |b: &[u8]| place(DVec3::new(number(b), number(&b[4..]), number(&b[8..])));
                points.extend(self.buffer.chunks_exact(12).map(point));
            }
            Pod::F64 => {
                let number = |b: &[u8]| f64::from_le_bytes(b[..8].try_into().expect("eight bytes"));
                let point = |b: &[u8]| place(DVec3::new(number(b), number(&b[8..]), number(&b[16..])));
                points.extend(self.buffer.chunks_exact(24).map(point));
            }
            _ => {
                let number = |b: &[u8]| half(u16::from_le_bytes([b[0], b[1]]));
                let point = |b: &[u8]| place(DVec3::new(number(b), number(&b[2..]), number(&b[4..])));
                points.extend(self.buffer.chunks_exact(6).map(point));
            }
        }
        Ok(())
    }
}

/// The value of an IEEE half-precision number.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from((bits >> 10) & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2.0_f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_numbers() {
        assert_eq!(
            [half(0x3c00), half(0xc000), half(0x0001), half(0x3555)],
            [1.0, -2.0, 2.0_f64.powi(-24), 0.333_251_953_125]
        );
    }

    #[test]
    fn the_first_operation_is_outermost() {
        // Translate by x, then (inside) scale by two: the point (1, 0, 0) goes to 2, then to 12.
        let matrix = compose(&[1 << 4, 0], &[10.0, 0.0, 0.0, 2.0, 2.0, 2.0]).unwrap();
        assert_eq!(matrix.transform_point3(DVec3::X), DVec3::new(12.0, 0.0, 0.0));
        assert!(compose(&[1 << 4, 0], &[10.0, 0.0, 0.0]).is_none());
    }
}
