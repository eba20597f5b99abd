//! glTF and GLB: skins with their joints' animation, and meshes with animated morph targets.
//!
//! glTF is in metres, Y up. Exporters split vertices where texture coordinates or normals break; those that share
//! position, weights and morph displacements are welded again, in the order of their first appearance, which is the
//! source's own order in files from Blender. A joint's rest is the inverse of its inverse bind matrix.

use std::collections::BTreeMap;
use std::path::Path;

use glam::{DAffine3, DMat4, DQuat, DVec3};
use gltf::animation::util::ReadOutputs;
use gltf::animation::{Interpolation, Property};
use gltf::mesh::Mode;
use sinew_examples::{Bone, Polygons, Pose};

use super::buffers::{Buffers, placed};
use super::morphs::{MorphFrames, Moved};
use super::track::Track;
use crate::clip::{StoredFrames, increasing};
use crate::guard::guarded;
use crate::{Clock, Convention, FileError, MeshClip, PointSource, Scene, SkeletonClip, Surface, VertexWeights};

/// Bytes of stack for the parsers; JSON of serde is nested 128 deep at most.
const STACK: usize = 16 << 20;

/// Reads a `.glb` or `.gltf`.
pub fn read_gltf(path: &Path) -> Result<Scene, FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::system(path, source))?;
    // The crate trusts much of what it reads; what it panics on is an error.
    let read = guarded(STACK, || read_bytes(path, &bytes)).map_err(|source| FileError::system(path, source))?;
    read.unwrap_or_else(|| Err(FileError::format(path, "an index in it is out of range, or an accessor does not fit")))
}

fn read_bytes(path: &Path, bytes: &[u8]) -> Result<Scene, FileError> {
    let gltf = gltf::Gltf::from_slice(bytes)
        .map_err(|error| FileError::format(path, format!("it is not a valid glTF: {}", placed(&error, bytes))))?;
    let buffers = Buffers::load(path, &gltf, bytes)?;
    File { path, document: &gltf.document, buffers: &buffers }.scene()
}

struct File<'a> {
    path: &'a Path,
    document: &'a gltf::Document,
    buffers: &'a Buffers,
}

/// The animation of one node.
#[derive(Default)]
struct Tracks {
    translation: Option<Track<DVec3>>,
    rotation: Option<Track<DQuat>>,
    scale: Option<Track<DVec3>>,
    /// Morph weights, flat: targets a key.
    weights: Option<Track<Vec<f64>>>,
}

impl<'a> File<'a> {
    fn wrong(&self, what: impl Into<String>) -> FileError {
        FileError::format(self.path, what)
    }

    /// Where an element of an accessor stands in the file.
    fn place(&self, accessor: Option<gltf::Accessor<'a>>, element: usize) -> String {
        accessor.map_or_else(|| "somewhere".into(), |accessor| self.buffers.place(&accessor, element))
    }

    fn slice(&self) -> impl Clone + Fn(gltf::Buffer<'a>) -> Option<&'a [u8]> {
        let buffers = self.buffers;
        move |buffer| buffers.get(buffer.index())
    }

    fn scene(&self) -> Result<Scene, FileError> {
        let parents = self.parents()?;
        let mut scene = Scene::default();
        let tracks = self.tracks(&mut scene)?;
        for skin in self.document.skins() {
            scene.skeletons.push(self.skin(&skin, &parents, &tracks)?);
        }
        if scene.skeletons.is_empty() {
            scene.skeletons.extend(self.animated_nodes(&parents, &tracks)?);
        }
        for node in self.document.nodes() {
            if let Some(mesh) = node.mesh() {
                let clip = self.mesh(&node, &mesh, &parents, &tracks, &mut scene)?;
                scene.meshes.extend(clip);
            }
        }
        if scene.skeletons.is_empty() && scene.meshes.is_empty() {
            return Err(self.wrong("it has neither a skin nor a mesh"));
        }
        Ok(scene)
    }

    /// The parent of each node; a loop is an error.
    fn parents(&self) -> Result<Vec<Option<usize>>, FileError> {
        let count = self.document.nodes().len();
        let mut parents = vec![None; count];
        for node in self.document.nodes() {
            for child in node.children() {
                parents[child.index()] = Some(node.index());
            }
        }
        for start in 0..count {
            let (mut node, mut steps) = (parents[start], 0);
            while let Some(above) = node {
                steps += 1;
                if steps > count {
                    return Err(self.wrong(format!("node {start} is its own ancestor")));
                }
                node = parents[above];
            }
        }
        Ok(parents)
    }

    /// The animations that play together: the longest, and those that move nothing that another of them moves, such as a
    /// mesh's morph targets beside its skeleton's bones. The rest are clips of their own.
    fn animations(&self, scene: &mut Scene) -> Vec<gltf::Animation<'a>> {
        let end = |animation: &gltf::Animation<'a>| {
            let ends = animation.channels().filter_map(|channel| channel.reader(self.slice()).read_inputs()?.last());
            ends.fold(0.0, f32::max)
        };
        let mut animations: Vec<_> = self.document.animations().map(|animation| (end(&animation), animation)).collect();
        animations.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut moved: Vec<usize> = Vec::new();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (_, animation) in animations {
            let nodes: Vec<usize> = animation.channels().map(|channel| channel.target().node().index()).collect();
            let name = animation.name().map_or_else(|| animation.index().to_string(), str::to_owned);
            if nodes.iter().any(|node| moved.contains(node)) {
                left.push(name);
                continue;
            }
            moved.extend(nodes);
            taken.push((name, animation));
        }
        if let (Some((first, _)), false) = (taken.first(), left.is_empty()) {
            scene.remarks.push(format!(
                "of {} animations `{first}` is taken, the longest; {} move the same and are left out: export one a file",
                left.len() + taken.len(),
                left.join(", ")
            ));
        }
        taken.into_iter().map(|(_, animation)| animation).collect()
    }

    /// The tracks of every animated node.
    fn tracks(&self, scene: &mut Scene) -> Result<BTreeMap<usize, Tracks>, FileError> {
        let mut tracks: BTreeMap<usize, Tracks> = BTreeMap::new();
        let animations = self.animations(scene);
        for channel in animations.iter().flat_map(|animation| animation.channels().collect::<Vec<_>>()) {
            let reader = channel.reader(self.slice());
            let (Some(times), Some(outputs)) = (reader.read_inputs(), reader.read_outputs()) else { continue };
            let times: Vec<f64> = times.map(f64::from).collect();
            if times.is_empty() || !increasing(&times) {
                let place = self.place(Some(channel.sampler().input()), 0);
                return Err(self.wrong(format!("{place}: the times of an animation do not increase")));
            }
            let interpolation = channel.sampler().interpolation();
            let node = channel.target().node();
            let entry = tracks.entry(node.index()).or_default();
            let vectors = |values: Vec<[f32; 3]>| values.into_iter().map(|v| glam::Vec3::from(v).as_dvec3()).collect();
            match (channel.target().property(), outputs) {
                (Property::Translation, ReadOutputs::Translations(values)) => {
                    entry.translation = Some(self.track(times, vectors(values.collect()), interpolation)?);
                }
                (Property::Scale, ReadOutputs::Scales(values)) => {
                    entry.scale = Some(self.track(times, vectors(values.collect()), interpolation)?);
                }
                (Property::Rotation, ReadOutputs::Rotations(values)) => {
                    let values = values.into_f32().map(|q| glam::Quat::from_array(q).as_dquat()).collect();
                    entry.rotation = Some(self.track(times, values, interpolation)?);
                }
                (Property::MorphTargetWeights, ReadOutputs::MorphTargetWeights(values)) => {
                    let targets = node.mesh().map_or(0, |mesh| {
                        mesh.primitives().next().map_or(0, |primitive| primitive.morph_targets().count())
                    });
                    let flat: Vec<f64> = values.into_f32().map(f64::from).collect();
                    let values = flat.chunks_exact(targets.max(1)).map(<[f64]>::to_vec).collect();
                    entry.weights = Some(self.track(times, values, interpolation)?);
                }
                _ => {}
            }
        }
        Ok(tracks)
    }

    /// Pairs times and values; a cubic spline has three a key (slope in, value, slope out).
    fn track<T: Clone>(&self, times: Vec<f64>, values: Vec<T>, how: Interpolation) -> Result<Track<T>, FileError> {
        let (values, slopes) = match how {
            Interpolation::CubicSpline => {
                let slopes = values.chunks_exact(3).map(|key| [key[0].clone(), key[2].clone()]).collect();
                (values.chunks_exact(3).map(|key| key[1].clone()).collect(), Some(slopes))
            }
            _ => (values, None),
        };
        if values.len() != times.len() {
            return Err(self.wrong(format!("an animation has {} times and {} values", times.len(), values.len())));
        }
        Ok(Track { times, values, slopes, step: how == Interpolation::Step })
    }

    /// A node's global transform, at `time` or without animation.
    fn global(
        &self,
        node: usize,
        parents: &[Option<usize>],
        tracks: &BTreeMap<usize, Tracks>,
        time: Option<f64>,
    ) -> DAffine3 {
        let mut product = DAffine3::IDENTITY;
        let mut next = Some(node);
        while let Some(node) = next {
            product = self.local(node, tracks.get(&node), time) * product;
            next = parents[node];
        }
        product
    }

    fn local(&self, node: usize, tracks: Option<&Tracks>, time: Option<f64>) -> DAffine3 {
        let transform = self.document.nodes().nth(node).expect("the index is of a node").transform();
        let (Some(tracks), Some(time)) = (tracks, time) else {
            return DAffine3::from_mat4(glam::Mat4::from_cols_array_2d(&transform.matrix()).as_dmat4());
        };
        let (t, r, s) = transform.decomposed();
        let vector = |v: [f32; 3]| glam::Vec3::from(v).as_dvec3();
        let t = tracks.translation.as_ref().map_or(vector(t), |track| track.at(time));
        let s = tracks.scale.as_ref().map_or(vector(s), |track| track.at(time));
        let r = tracks.rotation.as_ref().map_or(glam::Quat::from_array(r).as_dquat(), |track| track.at(time));
        DAffine3::from_scale_rotation_translation(s, r.normalize(), t)
    }

    fn skin(
        &self,
        skin: &gltf::Skin<'a>,
        parents: &[Option<usize>],
        tracks: &BTreeMap<usize, Tracks>,
    ) -> Result<SkeletonClip, FileError> {
        let joints: Vec<usize> = skin.joints().map(|joint| joint.index()).collect();
        if let Some(k) = (1..joints.len()).find(|&k| joints[..k].contains(&joints[k])) {
            let first = joints.iter().position(|joint| *joint == joints[k]).unwrap_or(0);
            return Err(self.wrong(format!(
                "a skin lists node {} as its joints {first} and {k}, but a joint is one bone only; export it again",
                joints[k]
            )));
        }
        let rest: Vec<DAffine3> = self.inverse_bind(skin)?.iter().map(|m| DAffine3::from_mat4(m.inverse())).collect();
        let name = skin.name().unwrap_or("skin").to_owned();
        Ok(self.skeleton(name, &joints, &rest, parents, tracks))
    }

    /// The inverse bind matrices of a skin, (joints).
    fn inverse_bind(&self, skin: &gltf::Skin<'a>) -> Result<Vec<DMat4>, FileError> {
        let joints = skin.joints().count();
        let inverse_bind: Vec<DMat4> = match skin.reader(self.slice()).read_inverse_bind_matrices() {
            Some(matrices) => matrices.map(|m| glam::Mat4::from_cols_array_2d(&m).as_dmat4()).collect(),
            None => vec![DMat4::IDENTITY; joints],
        };
        if inverse_bind.len() < joints {
            return Err(self.wrong("a skin has fewer inverse bind matrices than joints"));
        }
        Ok(inverse_bind)
    }

    /// A file of animation only: the animated nodes are the bones.
    fn animated_nodes(
        &self,
        parents: &[Option<usize>],
        tracks: &BTreeMap<usize, Tracks>,
    ) -> Result<Option<SkeletonClip>, FileError> {
        let moved =
            |tracks: &Tracks| tracks.translation.is_some() || tracks.rotation.is_some() || tracks.scale.is_some();
        let joints: Vec<usize> = tracks.iter().filter(|(_, tracks)| moved(tracks)).map(|(&node, _)| node).collect();
        if joints.is_empty() {
            return Ok(None);
        }
        let rest: Vec<DAffine3> = joints.iter().map(|&node| self.global(node, parents, tracks, None)).collect();
        Ok(Some(self.skeleton("nodes".into(), &joints, &rest, parents, tracks)))
    }

    fn skeleton(
        &self,
        name: String,
        joints: &[usize],
        rest: &[DAffine3],
        parents: &[Option<usize>],
        tracks: &BTreeMap<usize, Tracks>,
    ) -> SkeletonClip {
        let bone = |(&joint, &rest): (&usize, &DAffine3)| {
            let mut above = parents[joint];
            while above.is_some_and(|node| !joints.contains(&node)) {
                above = above.and_then(|node| parents[node]);
            }
            let parent = above.and_then(|node| joints.iter().position(|&joint| joint == node));
            let node = self.document.nodes().nth(joint).expect("the index is of a node");
            Bone { name: node.name().map_or_else(|| format!("node_{joint}"), str::to_owned), parent, rest }
        };
        let bones = joints.iter().zip(rest).map(bone).collect();
        let times = key_times(joints, parents, tracks);
        let pose = |&time: &f64| Pose {
            globals: joints.iter().map(|&joint| self.global(joint, parents, tracks, Some(time))).collect(),
        };
        let poses = times.iter().map(pose).collect();
        SkeletonClip { name, bones, times, poses, clock: Clock::Scene, convention: Convention::Declared }
    }

    fn mesh(
        &self,
        node: &gltf::Node<'a>,
        mesh: &gltf::Mesh<'a>,
        parents: &[Option<usize>],
        tracks: &BTreeMap<usize, Tracks>,
        scene: &mut Scene,
    ) -> Result<Option<MeshClip>, FileError> {
        let track = tracks.get(&node.index()).and_then(|tracks| tracks.weights.as_ref());
        let name = node.name().or(mesh.name()).unwrap_or("mesh").to_owned();
        let skin = node.skin();
        // A mesh without a skin has no use for joints, so any will do.
        let joints = skin.as_ref().map_or(usize::MAX, |skin| skin.joints().count());
        let mut raw = RawMesh::default();
        for primitive in mesh.primitives().filter(|primitive| has_triangles(primitive.mode())) {
            self.primitive(&primitive, joints, &mut raw)?;
        }
        if raw.indices.is_empty() {
            scene.remarks.push(format!("`{name}` has no triangles and is left out"));
            return Ok(None);
        }
        let welded = raw.weld();
        if welded.len() < raw.positions.len() {
            let (split, joined) = (raw.positions.len(), welded.len());
            scene.remarks.push(format!(
                "`{name}`: {split} vertices were welded to {joined}, as before the exporter split them at seams"
            ));
        }
        let surface = raw.surface(&welded);
        surface.check(welded.len()).map_err(|what| self.wrong(format!("`{name}`: {what}")))?;
        let pick = |list: &[DVec3]| -> Vec<DVec3> { welded.first.iter().map(|&v| list[v]).collect() };
        let base = pick(&raw.positions);
        let targets: Vec<Vec<DVec3>> = raw.targets.iter().map(|target| pick(target)).collect();
        let times = track.filter(|_| !targets.is_empty()).map(|track| track.times.clone()).unwrap_or_default();
        // A skinned mesh stands where its joints put it, whatever its node's own transform.
        let place = match skin {
            Some(_) => DAffine3::IDENTITY,
            None => self.global(node.index(), parents, tracks, None),
        };
        let rest = base.iter().map(|&p| place.transform_point3(p)).collect();
        let weights =
            raw.weights.as_ref().map(|w| welded.first.iter().map(|&v| w[v].clone()).collect::<VertexWeights>());
        let frames: Box<dyn PointSource> = match track.filter(|_| !times.is_empty()) {
            Some(track) => {
                let moved = match (skin.as_ref(), &weights) {
                    (Some(skin), Some(weights)) => {
                        let transforms = self.skinning(skin, parents, tracks, &times)?;
                        scene.remarks.push(format!("`{name}`: its morph targets are moved by its skin, as engines do"));
                        Moved::BySkin(weights.clone(), transforms)
                    }
                    _ => Moved::ByNode(place),
                };
                Box::new(MorphFrames { base, targets, weights: track.values.clone(), moved })
            }
            None => Box::new(StoredFrames(Vec::new())),
        };
        Ok(Some(MeshClip {
            name,
            vertex_count: welded.len(),
            surface: Some(surface),
            rest: Some(rest),
            skin: skin.map(|skin| skin.index()).zip(weights),
            times,
            clock: Clock::Scene,
            convention: Convention::Declared,
            frames,
        }))
    }

    /// A skin's transforms from its bind pose at each of `times`, (N)(joints).
    fn skinning(
        &self,
        skin: &gltf::Skin<'a>,
        parents: &[Option<usize>],
        tracks: &BTreeMap<usize, Tracks>,
        times: &[f64],
    ) -> Result<Vec<Vec<DAffine3>>, FileError> {
        let joints: Vec<(usize, DMat4)> =
            skin.joints().map(|joint| joint.index()).zip(self.inverse_bind(skin)?).collect();
        let pose = |&time: &f64| {
            let transform = |&(joint, bind): &(usize, DMat4)| {
                self.global(joint, parents, tracks, Some(time)) * DAffine3::from_mat4(bind)
            };
            joints.iter().map(transform).collect()
        };
        Ok(times.iter().map(pose).collect())
    }

    /// Adds a primitive's vertices and triangles to `raw`; its skin has `bones` joints.
    fn primitive(&self, primitive: &gltf::Primitive<'a>, bones: usize, raw: &mut RawMesh) -> Result<(), FileError> {
        let reader = primitive.reader(self.slice());
        let Some(positions) = reader.read_positions() else { return Ok(()) };
        let start = raw.positions.len();
        raw.positions.extend(positions.map(|p| glam::Vec3::from(p).as_dvec3()));
        let count = raw.positions.len() - start;
        let mut corners: Vec<u32> = Vec::new();
        match reader.read_indices() {
            Some(indices) => {
                for (corner, index) in indices.into_u32().enumerate() {
                    if index as usize >= count {
                        let place = self.place(primitive.indices(), corner);
                        return Err(self.wrong(format!("{place}: a triangle names vertex {index} of {count}")));
                    }
                    corners.push(start as u32 + index);
                }
            }
            None => corners.extend(start as u32..(start + count) as u32),
        }
        raw.indices.extend(triangles(primitive.mode(), &corners).as_flattened());
        if let Some(uvs) = reader.read_tex_coords(0) {
            raw.uvs.resize(start, [0.0; 2]);
            // glTF counts V from the top.
            raw.uvs.extend(uvs.into_f32().map(|[u, v]| [u, 1.0 - v]));
        }
        for (target, (displacements, ..)) in reader.read_morph_targets().enumerate() {
            if raw.targets.len() <= target {
                raw.targets.push(Vec::new());
            }
            raw.targets[target].resize(start, DVec3::ZERO);
            raw.targets[target].extend(displacements.into_iter().flatten().map(|p| glam::Vec3::from(p).as_dvec3()));
        }
        for target in &mut raw.targets {
            target.resize(start + count, DVec3::ZERO);
        }
        let weights = raw.weights.get_or_insert_default();
        weights.resize(start + count, Vec::new());
        for set in 0.. {
            let (Some(joints), Some(values)) = (reader.read_joints(set), reader.read_weights(set)) else { break };
            for (v, (joints, values)) in joints.into_u16().zip(values.into_f32()).take(count).enumerate() {
                let pairs = joints.into_iter().zip(values).filter(|&(_, weight)| weight > 0.0);
                if let Some((joint, _)) = pairs.clone().find(|&(joint, _)| joint as usize >= bones) {
                    let place = self.place(primitive.get(&gltf::Semantic::Joints(set)), v);
                    return Err(self.wrong(format!("{place}: a vertex names joint {joint} of {bones}")));
                }
                weights[start + v].extend(pairs.map(|(joint, weight)| (joint as usize, weight)));
            }
        }
        Ok(())
    }
}

fn has_triangles(mode: Mode) -> bool {
    matches!(mode, Mode::Triangles | Mode::TriangleStrip | Mode::TriangleFan)
}

/// The triangles of a primitive's corners; a strip's turn the other way every other time, so that all face one side.
fn triangles(mode: Mode, corners: &[u32]) -> Vec<[u32; 3]> {
    let last = corners.len().saturating_sub(2);
    match mode {
        Mode::Triangles => corners.as_chunks().0.to_vec(),
        Mode::TriangleStrip => {
            (0..last).map(|k| [corners[k], corners[k + 1 + k % 2], corners[k + 2 - k % 2]]).collect()
        }
        Mode::TriangleFan => (0..last).map(|k| [corners[k + 1], corners[k + 2], corners[0]]).collect(),
        Mode::Points | Mode::Lines | Mode::LineLoop | Mode::LineStrip => Vec::new(),
    }
}

/// Every time at which a joint or something above it has a key.
fn key_times(joints: &[usize], parents: &[Option<usize>], tracks: &BTreeMap<usize, Tracks>) -> Vec<f64> {
    let mut times = Vec::new();
    let mut seen = vec![false; parents.len()];
    for &joint in joints {
        let mut next = Some(joint);
        while let Some(node) = next.filter(|&node| !seen[node]) {
            seen[node] = true;
            if let Some(tracks) = tracks.get(&node) {
                times.extend(tracks.translation.iter().flat_map(|track| &track.times));
                times.extend(tracks.rotation.iter().flat_map(|track| &track.times));
                times.extend(tracks.scale.iter().flat_map(|track| &track.times));
            }
            next = parents[node];
        }
    }
    times.sort_by(f64::total_cmp);
    // Times are stored in f32: keys nearer than this are the same frame.
    times.dedup_by(|b, a| *b - *a < 1e-5);
    times
}

/// A mesh as the file has it, split at seams.
#[derive(Default)]
struct RawMesh {
    positions: Vec<DVec3>,
    indices: Vec<u32>,
    uvs: Vec<[f32; 2]>,
    targets: Vec<Vec<DVec3>>,
    weights: Option<VertexWeights>,
}

/// Which vertices are one: for each joined vertex its first part, and for each part the joined vertex.
struct Welded {
    first: Vec<usize>,
    joined: Vec<u32>,
}

impl Welded {
    fn len(&self) -> usize {
        self.first.len()
    }
}

impl RawMesh {
    /// Joins vertices that agree in position, weights and every morph displacement.
    fn weld(&self) -> Welded {
        let bits = |p: DVec3| p.to_array().map(|c| (c + 0.0).to_bits());
        let same = |a: usize, b: usize| {
            self.weights.as_ref().is_none_or(|w| w[a] == w[b]) && self.targets.iter().all(|t| t[a] == t[b])
        };
        let mut at: BTreeMap<[u64; 3], Vec<u32>> = BTreeMap::new();
        let mut welded = Welded { first: Vec::new(), joined: Vec::with_capacity(self.positions.len()) };
        for v in 0..self.positions.len() {
            let here = at.entry(bits(self.positions[v])).or_default();
            let found = here.iter().copied().find(|&joined| same(welded.first[joined as usize], v));
            let joined = found.unwrap_or_else(|| {
                welded.first.push(v);
                here.push(welded.first.len() as u32 - 1);
                welded.first.len() as u32 - 1
            });
            welded.joined.push(joined);
        }
        welded
    }

    fn surface(&self, welded: &Welded) -> Surface {
        let vertices: Vec<u32> = self.indices.iter().map(|&v| welded.joined[v as usize]).collect();
        let counts = vec![3; vertices.len() / 3];
        let whole = self.uvs.len() == self.positions.len();
        let uvs = whole.then(|| self.indices.iter().map(|&v| self.uvs[v as usize]).collect());
        Surface { polygons: Polygons { counts, vertices }, uvs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_and_fans_face_one_side() {
        assert_eq!(triangles(Mode::Triangles, &[0, 1, 2, 3]), [[0, 1, 2]]);
        assert_eq!(triangles(Mode::TriangleStrip, &[0, 1, 2, 3]), [[0, 1, 2], [1, 3, 2]]);
        assert_eq!(triangles(Mode::TriangleFan, &[0, 1, 2, 3]), [[1, 2, 0], [2, 3, 0]]);
        assert_eq!(triangles(Mode::TriangleStrip, &[0]), [[0; 3]; 0]);
    }
}
