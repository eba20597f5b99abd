//! From a USD stage to clips.

use std::path::Path;

use glam::{DAffine3, DMat4, DQuat, DVec3};
use openusd::ar::DefaultResolver;
use openusd::sdf::Value;
use openusd::usd::{Prim, PrimPredicate, Stage, TimeCode};
use sinew_examples::{Bone, Polygons, Pose};

use super::checked::CheckedResolver;
use super::transform::{sample_times, to_stage};
use crate::clip::{StoredFrames, increasing};
use crate::guard::guarded;
use crate::space::Space;
use crate::{Clock, Convention, FileError, MeshClip, PointSource, Scene, SkeletonClip, Surface, VertexWeights};

/// What openusd answers when it cannot; its error type is private to it.
pub(super) struct Failure(String);

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(format!("{error:#}"))
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// Reads a USD file.
pub fn read_usd(path: &Path) -> std::result::Result<Scene, FileError> {
    // A missing file is the system's to name, before openusd words it.
    std::fs::metadata(path).map_err(|source| FileError::system(path, source))?;
    let wrong = |what: String| FileError::format(path, format!("it is not a readable USD: {what}"));
    let name = path.to_str().ok_or_else(|| wrong("its path is not UTF-8".into()))?;
    // openusd panics on wrong indices, and its text parser recurses; what would end the program `checked` refuses.
    let read = guarded(STACK, || read_stage(name)).map_err(|source| FileError::system(path, source))?;
    match read {
        Some(Ok(scene)) => Ok(scene),
        Some(Err(Failure(what))) => Err(wrong(format!("{what}{}", text_place(path)))),
        None => Err(wrong(format!("an index in it is out of range{}", text_place(path)))),
    }
}

/// Bytes of stack for the parser.
const STACK: usize = 256 << 20;

/// Where the text of a `.usda` breaks, for the end of an error; nothing if it is not text, or sound as text.
fn text_place(path: &Path) -> String {
    let Some(text) = std::fs::read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return String::new();
    };
    let find = || {
        super::checked::check(text.as_bytes()).ok()?;
        let mut parser = openusd::usda::parser::Parser::new(&text);
        parser.parse().err().and_then(|_| parser.last_error_highlight())
    };
    let place = if text.starts_with("#usda") { guarded(STACK, find).ok().flatten().flatten() } else { None };
    place.map_or_else(String::new, |place| format!(" (line {}, column {})", place.line, place.column))
}

struct Context {
    stage: Stage,
    space: Space,
    /// Time codes a second.
    rate: f64,
}

fn read_stage(path: &str) -> Result<Scene> {
    let stage = Stage::builder().resolver(CheckedResolver(DefaultResolver::new())).open(path)?;
    let mut scene = Scene::default();
    // A layer that does not open leaves its part out; a few are enough to know.
    let errors = stage.composition_errors();
    scene.remarks.extend(errors.iter().take(5).map(|error| format!("a part could not be read: {error}")));
    let unit =
        stage.stage_metadata("metersPerUnit")?.map_or(0.01, |value| numbers(&value).first().copied().unwrap_or(0.01));
    let z_up = matches!(stage.stage_metadata("upAxis")?, Some(Value::Token(axis)) if axis.as_str() == "Z");
    let axes = if z_up { Space::Z_UP } else { glam::DMat3::IDENTITY };
    let rate = stage.time_codes_per_second();
    if !(rate.is_finite() && rate > 0.0 && unit.is_finite() && unit > 0.0) {
        return Err(Failure(format!("{rate} time codes a second, {unit} metres a unit")));
    }
    if z_up {
        scene.remarks.push("Z up was turned to Y up".into());
    }
    if unit != 1.0 {
        scene.remarks.push(format!("units of {unit} m were converted to metres"));
    }
    let context = Context { space: Space { scale: unit, axes }, rate, stage };
    let mut paths = Vec::new();
    context.stage.traverse(PrimPredicate::DEFAULT, |path| paths.push(path.clone()))?;
    let mut skeletons = Vec::new();
    for path in &paths {
        let prim = context.stage.prim(path.clone());
        if prim.type_name()?.is_some_and(|name| name.as_str() == "Skeleton") {
            scene.skeletons.push(context.skeleton(&prim)?);
            skeletons.push(path.clone());
        }
    }
    for path in &paths {
        let prim = context.stage.prim(path.clone());
        if prim.type_name()?.is_some_and(|name| name.as_str() == "Mesh") {
            scene.meshes.extend(context.mesh(&prim, &skeletons)?);
        }
    }
    if scene.skeletons.is_empty() && scene.meshes.is_empty() {
        return Err(Failure("it has neither a skeleton nor a mesh".into()));
    }
    Ok(scene)
}

impl Context {
    fn skeleton(&self, prim: &Prim) -> Result<SkeletonClip> {
        let joints = words(prim.attribute("joints").get::<Value>()?);
        let bind = matrices(prim.attribute("bindTransforms").get::<Value>()?);
        let rest_local = matrices(prim.attribute("restTransforms").get::<Value>()?);
        if joints.is_empty() || bind.len() != joints.len() {
            let what = format!("{} has {} joints and {} bind transforms", prim.path(), joints.len(), bind.len());
            return Err(Failure(what));
        }
        let parents: Vec<Option<usize>> = joints.iter().map(|joint| parent_of(joint, &joints)).collect();
        let name = |joint: &String| joint.rsplit('/').next().unwrap_or(joint).to_owned();
        let bone = |b: usize| Bone { name: name(&joints[b]), parent: parents[b], rest: bind[b] };
        let mut bones: Vec<Bone> = (0..joints.len()).map(bone).collect();
        let (times, mut poses) = match self.animation_of(prim)? {
            Some(animation) => self.motion(prim, &animation, &joints, &parents, &rest_local)?,
            None => (Vec::new(), Vec::new()),
        };
        self.space.skeleton(&mut bones, &mut poses);
        Ok(SkeletonClip {
            name: prim.path().name().unwrap_or_default().to_owned(),
            bones,
            times,
            poses,
            clock: Clock::Scene,
            convention: Convention::Declared,
        })
    }

    /// The animation bound to a skeleton: on it, or on what is above it.
    fn animation_of(&self, prim: &Prim) -> Result<Option<Prim>> {
        let mut path = Some(prim.path().clone());
        while let Some(current) = path.filter(|path| !path.is_abs_root()) {
            let targets = self.stage.prim(current.clone()).relationship("skel:animationSource").targets()?;
            if let Some(target) = targets.first() {
                return Ok(Some(self.stage.prim(target.clone())));
            }
            path = current.parent();
        }
        Ok(None)
    }

    fn motion(
        &self,
        skeleton: &Prim,
        animation: &Prim,
        joints: &[String],
        parents: &[Option<usize>],
        rest_local: &[DAffine3],
    ) -> Result<(Vec<f64>, Vec<Pose>)> {
        let animated = words(animation.attribute("joints").get::<Value>()?);
        let attributes = ["translations", "rotations", "scales"].map(|name| animation.attribute(name));
        let mut codes: Vec<f64> = sample_times(skeleton)?;
        for attribute in &attributes {
            codes.extend(attribute.time_sample_times()?);
        }
        codes.sort_by(f64::total_cmp);
        codes.dedup();
        let queries = attributes.each_ref().map(|attribute| attribute.query());
        let place_of = |joint: &String| animated.iter().position(|other| other == joint);
        let places: Vec<Option<usize>> = joints.iter().map(place_of).collect();
        let mut poses = Vec::new();
        for &code in &codes {
            let value = |k: usize| queries[k].get_at::<Value>(TimeCode::new(code));
            let (translations, rotations, scales) = (vectors(value(0)?), quaternions(value(1)?), vectors(value(2)?));
            let local = |b: usize| match places[b] {
                Some(place) => DAffine3::from_scale_rotation_translation(
                    scales.get(place).copied().unwrap_or(DVec3::ONE),
                    rotations.get(place).copied().unwrap_or(DQuat::IDENTITY),
                    translations.get(place).copied().unwrap_or(DVec3::ZERO),
                ),
                None => rest_local.get(b).copied().unwrap_or(DAffine3::IDENTITY),
            };
            let place = to_stage(skeleton, Some(code))?;
            let mut globals: Vec<DAffine3> = Vec::with_capacity(joints.len());
            for b in 0..joints.len() {
                // UsdSkel lists parents before children.
                let above = parents[b].and_then(|parent| globals.get(parent)).copied().unwrap_or(place);
                globals.push(above * local(b));
            }
            poses.push(Pose { globals });
        }
        Ok((codes.iter().map(|code| code / self.rate).collect(), poses))
    }

    fn mesh(&self, prim: &Prim, skeletons: &[openusd::sdf::Path]) -> Result<Option<MeshClip>> {
        let name = prim.path().parent().and_then(|parent| parent.name().map(str::to_owned)).unwrap_or_default();
        let own = prim.path().name().unwrap_or_default().to_owned();
        let points = prim.attribute("points");
        let mut samples: Vec<(f64, Vec<[f32; 3]>)> = Vec::new();
        for (code, value) in points.time_samples()?.unwrap_or_default() {
            if let Value::Vec3fVec(points) = value {
                samples.push((code, points.into_iter().map(|p| [p.x, p.y, p.z]).collect()));
            }
        }
        let default = match points.get::<Value>()? {
            Some(value) => vectors(Some(value)),
            None => Vec::new(),
        };
        let vertex_count = if default.is_empty() { samples.first().map_or(0, |s| s.1.len()) } else { default.len() };
        if vertex_count == 0 {
            return Ok(None);
        }
        if let Some((code, odd)) = samples.iter().find(|(_, points)| points.len() != vertex_count) {
            let what = format!(
                "{own} has {vertex_count} points, {} at time code {code}: one mesh must keep its points",
                odd.len()
            );
            return Err(Failure(what));
        }
        let surface = self.surface(prim, vertex_count)?;
        let skin = self.weights(prim, vertex_count, skeletons)?;
        // A still mesh under a moving transform has frames too.
        let mut codes: Vec<f64> = samples.iter().map(|&(code, _)| code).collect();
        let moving = sample_times(prim)?;
        if skin.is_none() && codes.is_empty() && moving.len() > 1 {
            codes = moving;
        }
        if !increasing(&codes) {
            return Err(Failure(format!("the time samples of {own} do not increase")));
        }
        let places = codes.iter().map(|&code| to_stage(prim, Some(code))).collect::<Result<Vec<_>>>()?;
        let rest = match (&skin, default.is_empty()) {
            (_, true) => None,
            (Some(_), _) => {
                let bind = matrices(prim.attribute("primvars:skel:geomBindTransform").get::<Value>()?);
                let bind = bind.first().copied().unwrap_or(DAffine3::IDENTITY);
                Some(default.iter().map(|&p| self.space.point(bind.transform_point3(p))).collect())
            }
            (None, _) if codes.is_empty() => {
                let place = to_stage(prim, None)?;
                Some(default.iter().map(|&p| self.space.point(place.transform_point3(p))).collect())
            }
            _ => None,
        };
        let frames: Box<dyn PointSource> = if codes.is_empty() {
            Box::new(StoredFrames(Vec::new()))
        } else {
            let samples: Vec<Vec<[f32; 3]>> = samples.into_iter().map(|(_, points)| points).collect();
            Box::new(UsdFrames { samples, default, places, space: self.space })
        };
        Ok(Some(MeshClip {
            name: if name.is_empty() { own } else { name },
            vertex_count,
            surface,
            rest,
            skin,
            times: codes.iter().map(|code| code / self.rate).collect(),
            clock: Clock::Scene,
            convention: Convention::Declared,
            frames,
        }))
    }

    fn surface(&self, prim: &Prim, vertices: usize) -> Result<Option<Surface>> {
        let counts = integers(prim.attribute("faceVertexCounts").get::<Value>()?);
        let indices = integers(prim.attribute("faceVertexIndices").get::<Value>()?);
        if counts.is_empty() {
            return Ok(None);
        }
        let mut surface = Surface { polygons: Polygons { counts, vertices: indices }, uvs: None };
        surface.check(vertices).map_err(|what| Failure(format!("{}: {what}", prim.path())))?;
        surface.uvs = self.uvs(prim, &surface.polygons, vertices)?;
        let left = matches!(prim.attribute("orientation").get::<Value>()?, Some(Value::Token(o)) if o.as_str() == "leftHanded");
        if left {
            surface.flip();
        }
        Ok(Some(surface))
    }

    /// The first texture-coordinate primvar, spread to polygon corners by its interpolation.
    fn uvs(&self, prim: &Prim, polygons: &Polygons, vertices: usize) -> Result<Option<Vec<[f32; 2]>>> {
        for name in prim.property_names()? {
            let name = name.as_str();
            if !name.starts_with("primvars:") || name.ends_with(":indices") || name.contains("skel:") {
                continue;
            }
            let attribute = prim.attribute(name);
            let Some(Value::Vec2fVec(values)) = attribute.get::<Value>()? else { continue };
            let values: Vec<[f32; 2]> = values.iter().map(|v| [v.x, v.y]).collect();
            let indices = integers(prim.attribute(format!("{name}:indices")).get::<Value>()?);
            let elements: Option<Vec<[f32; 2]>> = match indices.is_empty() {
                true => Some(values),
                false => indices.iter().map(|&i| values.get(i as usize).copied()).collect(),
            };
            let Some(elements) = elements else {
                return Err(Failure(format!("{}.{name} has an index out of range", prim.path())));
            };
            if elements.len() == polygons.vertices.len() {
                return Ok(Some(elements));
            }
            if elements.len() == vertices {
                return Ok(Some(polygons.vertices.iter().map(|&v| elements[v as usize]).collect()));
            }
        }
        Ok(None)
    }

    fn weights(
        &self,
        prim: &Prim,
        vertices: usize,
        skeletons: &[openusd::sdf::Path],
    ) -> Result<Option<(usize, VertexWeights)>> {
        let joints = integers(prim.attribute("primvars:skel:jointIndices").get::<Value>()?);
        let weights = match prim.attribute("primvars:skel:jointWeights").get::<Value>()? {
            Some(Value::FloatVec(weights)) => weights,
            _ => return Ok(None),
        };
        let mut path = Some(prim.path().clone());
        let mut skeleton = None;
        while let Some(current) = path.filter(|path| !path.is_abs_root()) {
            let targets = self.stage.prim(current.clone()).relationship("skel:skeleton").targets()?;
            if let Some(target) = targets.first() {
                skeleton = skeletons.iter().position(|path| path == target);
                break;
            }
            path = current.parent();
        }
        let width = weights.len() / vertices;
        if width == 0 || joints.len() != weights.len() || weights.len() != width * vertices {
            return Ok(None);
        }
        let row = |v: usize| {
            let range = v * width..(v + 1) * width;
            let pairs = joints[range.clone()].iter().zip(&weights[range]);
            pairs.filter(|(_, weight)| **weight > 0.0).map(|(&joint, &weight)| (joint as usize, weight)).collect()
        };
        Ok(Some((skeleton.unwrap_or(0), (0..vertices).map(row).collect())))
    }
}

/// Time-sampled points, as the file has them, converted when asked for.
struct UsdFrames {
    /// (N)(V), or nothing for a still mesh.
    samples: Vec<Vec<[f32; 3]>>,
    default: Vec<DVec3>,
    /// (N)
    places: Vec<DAffine3>,
    space: Space,
}

impl PointSource for UsdFrames {
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> std::result::Result<(), FileError> {
        let place = |p: DVec3| self.space.point(self.places[frame].transform_point3(p));
        points.clear();
        match self.samples.get(frame) {
            Some(sample) => points.extend(sample.iter().map(|&p| place(glam::Vec3::from(p).as_dvec3()))),
            None => points.extend(self.default.iter().map(|&p| place(p))),
        }
        Ok(())
    }
}

fn parent_of(joint: &str, joints: &[String]) -> Option<usize> {
    let mut path = joint;
    while let Some((above, _)) = path.rsplit_once('/') {
        if let Some(parent) = joints.iter().position(|other| other == above) {
            return Some(parent);
        }
        path = above;
    }
    None
}

/// USD's matrices are row by row for row vectors: column by column for column vectors.
pub(super) fn affine(m: &[f64; 16]) -> DAffine3 {
    DAffine3::from_mat4(DMat4::from_cols_array(m))
}

/// The numbers of a scalar or vector value.
pub(super) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Float(x) => vec![f64::from(*x)],
        Value::Double(x) => vec![*x],
        Value::Int(x) => vec![f64::from(*x)],
        Value::Vec3f(v) => vec![v.x.into(), v.y.into(), v.z.into()],
        Value::Vec3d(v) => vec![v.x, v.y, v.z],
        Value::Vec3h(v) => vec![v.x.into(), v.y.into(), v.z.into()],
        _ => Vec::new(),
    }
}

fn words(value: Option<Value>) -> Vec<String> {
    match value {
        Some(Value::TokenVec(words)) => words.iter().map(|word| word.as_str().to_owned()).collect(),
        _ => Vec::new(),
    }
}

fn matrices(value: Option<Value>) -> Vec<DAffine3> {
    match value {
        Some(Value::Matrix4dVec(list)) => list.iter().map(|m| affine(&m.0)).collect(),
        Some(Value::Matrix4d(m)) => vec![affine(&m.0)],
        _ => Vec::new(),
    }
}

fn vectors(value: Option<Value>) -> Vec<DVec3> {
    match value {
        Some(Value::Vec3fVec(list)) => list.iter().map(|v| DVec3::new(v.x.into(), v.y.into(), v.z.into())).collect(),
        Some(Value::Vec3dVec(list)) => list.iter().map(|v| DVec3::new(v.x, v.y, v.z)).collect(),
        Some(Value::Vec3hVec(list)) => list.iter().map(|v| DVec3::new(v.x.into(), v.y.into(), v.z.into())).collect(),
        _ => Vec::new(),
    }
}

fn quaternions(value: Option<Value>) -> Vec<DQuat> {
    let unit = |x: f64, y: f64, z: f64, w: f64| {
        let q = DQuat::from_xyzw(x, y, z, w);
        if q.length_squared() > 0.0 { q.normalize() } else { DQuat::IDENTITY }
    };
    match value {
        Some(Value::QuatfVec(list)) => {
            list.iter().map(|q| unit(q.x.into(), q.y.into(), q.z.into(), q.w.into())).collect()
        }
        Some(Value::QuathVec(list)) => {
            list.iter().map(|q| unit(q.x.into(), q.y.into(), q.z.into(), q.w.into())).collect()
        }
        Some(Value::QuatdVec(list)) => list.iter().map(|q| unit(q.x, q.y, q.z, q.w)).collect(),
        _ => Vec::new(),
    }
}

/// Integers as indices; negative ones become huge and fail the index check.
fn integers(value: Option<Value>) -> Vec<u32> {
    match value {
        Some(Value::IntVec(list)) => list.iter().map(|&i| i as u32).collect(),
        _ => Vec::new(),
    }
}
