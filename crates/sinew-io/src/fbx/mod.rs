//! FBX through ufbx: skeletons with animation, and skinned meshes in their rest shape.
//!
//! ufbx resolves pre- and post-rotations, inherit modes, geometric transforms, units and axes: everything arrives in
//! metres, Y up. A bone's rest is the skin's bind matrix where a skin names it, else the file's bind pose, else its
//! transform without animation. Animation is sampled at the file's frame rate, since keys may be reduced.

mod locate;

use std::collections::BTreeMap;
use std::path::Path;

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Bone, Polygons, Pose};
use ufbx::{AllocatorOpts, EvaluateOpts, IndexErrorHandling, LoadOpts, SpaceConversion};

use crate::clip::StoredFrames;
use crate::guard::guarded;
use crate::{Clock, Convention, FileError, MeshClip, Scene, SkeletonClip, Surface, VertexWeights};

/// More frames than this (over an hour at 24 a second) are not a clip but a broken time range.
const MOST_FRAMES: f64 = 1e5;

/// Bytes that a file may become in memory: a floor, and so many times its own. Packed arrays of real files unfold tenfold.
const MEMORY: (usize, usize) = (48 << 20, 200);

/// Bytes of stack: ufbx itself needs little.
const STACK: usize = 8 << 20;

/// Reads an FBX file.
pub fn read_fbx(path: &Path) -> Result<Scene, FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::system(path, source))?;
    let read = guarded(STACK, || read_bytes(path, &bytes)).map_err(|source| FileError::system(path, source))?;
    read.unwrap_or_else(|| Err(FileError::format(path, "an index in it is out of range")))
}

fn read_bytes(path: &Path, bytes: &[u8]) -> Result<Scene, FileError> {
    let memory = || AllocatorOpts {
        memory_limit: MEMORY.0.saturating_add(bytes.len().saturating_mul(MEMORY.1)),
        ..AllocatorOpts::default()
    };
    let options = LoadOpts {
        target_axes: ufbx::CoordinateAxes::right_handed_y_up(),
        target_unit_meters: 1.0,
        space_conversion: SpaceConversion::ModifyGeometry,
        ignore_embedded: true,
        // An index out of range is told, not mended in silence.
        index_error_handling: IndexErrorHandling::NoIndex,
        temp_allocator: memory(),
        result_allocator: memory(),
        ..LoadOpts::default()
    };
    let scene = ufbx::load_memory(bytes, options).map_err(|error| {
        // What loads without its geometry has its fault there.
        let bare = || LoadOpts {
            ignore_geometry: true,
            temp_allocator: memory(),
            result_allocator: memory(),
            ..LoadOpts::default()
        };
        let place = match locate::first_fault(bytes) {
            Some(place) => place,
            None if ufbx::load_memory(bytes, bare()).is_ok() => locate::polygons(bytes),
            None => "its records are whole, so a number in them is wrong".into(),
        };
        let (what, detail) = (error.description.trim(), error.info().trim());
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        FileError::format(path, format!("it is not a readable FBX: {what}{detail} ({place})"))
    })?;
    let mut result = Scene::default();
    let unit = scene.settings.original_unit_meters;
    if (unit - 1.0).abs() > 1e-9 {
        result.remarks.push(format!("units of {unit} m were converted to metres"));
    }
    let bones = bone_nodes(&scene);
    if !bones.is_empty() {
        result.skeletons.push(read_skeleton(path, &scene, &bones)?);
    }
    for node in &scene.nodes {
        if let Some(mesh) = node.mesh.as_ref().filter(|mesh| mesh.num_vertices > 0) {
            let name = &node.element.name;
            let mesh = read_mesh(node, mesh, &bones);
            result.meshes.push(mesh.map_err(|what| FileError::format(path, format!("`{name}`: {what}")))?);
        }
    }
    if result.skeletons.is_empty() && result.meshes.is_empty() {
        return Err(FileError::format(path, "it has neither bones nor meshes"));
    }
    Ok(result)
}

/// The nodes that are bones, or that a skin uses as such: scene index → bone index.
fn bone_nodes(scene: &ufbx::Scene) -> BTreeMap<u32, usize> {
    let used: Vec<u32> = scene
        .skin_clusters
        .iter()
        .filter_map(|cluster| cluster.bone_node.as_ref())
        .map(|node| node.element.typed_id)
        .collect();
    let is_bone = |node: &ufbx::Node| node.bone.is_some() || used.contains(&node.element.typed_id);
    let nodes = scene.nodes.iter().filter(|node| is_bone(node)).map(|node| node.element.typed_id);
    nodes.enumerate().map(|(bone, node)| (node, bone)).collect()
}

fn read_skeleton(path: &Path, scene: &ufbx::Scene, bones: &BTreeMap<u32, usize>) -> Result<SkeletonClip, FileError> {
    let mut list: Vec<Bone> = bones.keys().map(|&node| read_bone(scene, node, bones)).collect();
    let stack =
        scene.anim_stacks.iter().max_by(|a, b| (a.time_end - a.time_begin).total_cmp(&(b.time_end - b.time_begin)));
    let (mut times, mut poses) = (Vec::new(), Vec::new());
    if let Some(stack) = stack {
        let rate = scene.settings.frames_per_second;
        let length = (stack.time_end - stack.time_begin) * rate;
        if !(0.0..MOST_FRAMES).contains(&length) || rate <= 0.0 {
            let what =
                format!("the animation goes from {} to {} s at {rate} a second", stack.time_begin, stack.time_end);
            return Err(FileError::format(path, what));
        }
        for frame in 0..=(length + 1e-3).floor() as usize {
            let time = stack.time_begin + frame as f64 / rate;
            times.push(time);
            poses.push(evaluate(path, scene, &stack.anim, time, bones)?);
        }
    }
    let name = scene.nodes[*bones.keys().next().expect("there are bones") as usize].element.name.to_string();
    unscale(&mut list, &mut poses);
    // Some exporters shift every clip to zero: only a start elsewhere is a statement about the scene's time line.
    let clock = if times.first().is_some_and(|&first| first == 0.0) { Clock::FromStart } else { Clock::Scene };
    Ok(SkeletonClip { name, bones: list, times, poses, clock, convention: Convention::Declared })
}

/// Takes the rest's own scale out of each bone (exporters put the change of units there): `G_b Ĝ_b⁻¹` stays.
fn unscale(bones: &mut [Bone], poses: &mut [Pose]) {
    for (b, bone) in bones.iter_mut().enumerate() {
        let m = bone.rest.matrix3;
        let lengths = DVec3::new(m.x_axis.length(), m.y_axis.length(), m.z_axis.length());
        if lengths.min_element() > 0.0 && (lengths - DVec3::ONE).abs().max_element() > 1e-3 {
            let scale = DAffine3::from_scale(lengths.recip());
            bone.rest *= scale;
            poses.iter_mut().for_each(|pose| pose.globals[b] *= scale);
        }
    }
}

fn evaluate(
    path: &Path,
    scene: &ufbx::Scene,
    animation: &ufbx::Anim,
    time: f64,
    bones: &BTreeMap<u32, usize>,
) -> Result<Pose, FileError> {
    let posed = ufbx::evaluate_scene(scene, animation, time, EvaluateOpts::default())
        .map_err(|error| FileError::format(path, format!("at {time} s: {}", error.description)))?;
    Ok(Pose { globals: bones.keys().map(|&node| affine(&posed.nodes[node as usize].node_to_world)).collect() })
}

fn read_bone(scene: &ufbx::Scene, node: u32, bones: &BTreeMap<u32, usize>) -> Bone {
    let node = &scene.nodes[node as usize];
    let cluster = scene
        .skin_clusters
        .iter()
        .find(|cluster| cluster.bone_node.as_ref().is_some_and(|bone| bone.element.typed_id == node.element.typed_id));
    let bind_pose = node.bind_pose.as_ref().and_then(|pose| {
        let same = |bone: &&ufbx::BonePose| bone.bone_node.element.typed_id == node.element.typed_id;
        pose.bone_poses.iter().find(same).map(|bone| affine(&bone.bone_to_world))
    });
    let rest = match cluster {
        Some(cluster) => affine(&cluster.bind_to_world),
        None => bind_pose.unwrap_or_else(|| affine(&node.node_to_world)),
    };
    let mut parent = node.parent.as_ref();
    while let Some(above) = parent {
        if bones.contains_key(&above.element.typed_id) {
            break;
        }
        parent = above.parent.as_ref();
    }
    let parent = parent.map(|above| bones[&above.element.typed_id]);
    Bone { name: node.element.name.to_string(), parent, rest }
}

/// A mesh in its rest shape, or what is wrong with its polygons.
fn read_mesh(node: &ufbx::Node, mesh: &ufbx::Mesh, bones: &BTreeMap<u32, usize>) -> Result<MeshClip, String> {
    let place = affine(&node.geometry_to_world);
    let rest: Vec<DVec3> = mesh.vertices.iter().map(|&p| place.transform_point3(vector(p))).collect();
    let (mut counts, mut vertices, mut uvs) = (Vec::new(), Vec::new(), Vec::new());
    for face in mesh.faces.iter().filter(|face| face.num_indices >= 3) {
        counts.push(face.num_indices);
        for corner in face.index_begin..face.index_begin + face.num_indices {
            vertices.push(mesh.vertex_indices[corner as usize]);
            if mesh.vertex_uv.exists {
                // A texture coordinate that is not there harms no skin.
                let index = mesh.vertex_uv.indices.get(corner as usize);
                let uv = index.and_then(|&index| mesh.vertex_uv.values.get(index as usize));
                uvs.push(uv.map_or([0.0; 2], |uv| [uv.x as f32, uv.y as f32]));
            }
        }
    }
    let uvs = mesh.vertex_uv.exists.then_some(uvs);
    let surface = Surface { polygons: Polygons { counts, vertices }, uvs };
    surface.check(rest.len())?;
    let skin = mesh.skin_deformers.iter().next().map(|skin| (0, weights(skin, bones)));
    Ok(MeshClip {
        name: node.element.name.to_string(),
        vertex_count: rest.len(),
        surface: (!surface.polygons.counts.is_empty()).then_some(surface),
        rest: Some(rest),
        skin,
        times: Vec::new(),
        clock: Clock::Scene,
        convention: Convention::Declared,
        frames: Box::new(StoredFrames(Vec::new())),
    })
}

fn weights(skin: &ufbx::SkinDeformer, bones: &BTreeMap<u32, usize>) -> VertexWeights {
    let bone_of = |cluster: u32| {
        let node = skin.clusters.get(cluster as usize)?.bone_node.as_ref()?;
        bones.get(&node.element.typed_id).copied()
    };
    let of_vertex = |vertex: &ufbx::SkinVertex| {
        let range = vertex.weight_begin..vertex.weight_begin + vertex.num_weights;
        let pairs = range.filter_map(|index| skin.weights.get(index as usize));
        pairs.filter_map(|pair| Some((bone_of(pair.cluster_index)?, pair.weight as f32))).collect()
    };
    skin.vertices.iter().map(of_vertex).collect()
}

fn vector(v: ufbx::Vec3) -> DVec3 {
    DVec3::new(v.x, v.y, v.z)
}

fn affine(m: &ufbx::Matrix) -> DAffine3 {
    DAffine3 {
        matrix3: DMat3::from_cols_array(&[m.m00, m.m10, m.m20, m.m01, m.m11, m.m21, m.m02, m.m12, m.m22]),
        translation: DVec3::new(m.m03, m.m13, m.m23),
    }
}
