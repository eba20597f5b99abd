//! Writing GLB: a mesh with a skin, its joints' motion, and a model in the extension `SINEW_skin`; or a mesh whose
//! frames are morph targets.
//!
//! glTF holds texture coordinates a vertex, not a corner: vertices are split at seams, in the order of the mesh, and
//! the extension says which vertex of the model each one is.

use std::collections::BTreeMap;
use std::path::Path;

use glam::{DAffine3, DMat4, DQuat, DVec3};
use serde_json::{Value, json};

use super::builder::{Builder, Target};
use crate::FileError;

/// The extension's name; its specification is `docs/SINEW_skin.md`.
pub const EXTENSION: &str = "SINEW_skin";

/// A rest mesh to write.
#[derive(Debug, Clone)]
pub struct GlbMesh {
    /// Its name.
    pub name: String,
    /// Rest positions, (V).
    pub positions: Vec<DVec3>,
    /// Triangles, (F).
    pub triangles: Vec<[u32; 3]>,
    /// Texture coordinates per triangle corner, (F); V up.
    pub uvs: Option<Vec<[[f32; 2]; 3]>>,
    /// What the mesh's node says in its `extras`.
    pub extras: Option<Value>,
}

/// A joint: a node that skins use.
#[derive(Debug, Clone)]
pub struct GlbJoint {
    /// Its name.
    pub name: String,
    /// The parent's index among the joints.
    pub parent: Option<usize>,
    /// The transform to its parent without animation.
    pub local: GlbTransform,
    /// From the rest mesh to the joint; `None` if no weight refers to this joint.
    pub inverse_bind: Option<DAffine3>,
}

/// A transform as glTF holds it: no shear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GlbTransform {
    /// Metres.
    pub translation: DVec3,
    /// Of unit length.
    pub rotation: DQuat,
    /// May be negative.
    pub scale: DVec3,
}

impl GlbTransform {
    /// The nearest such transform; exact for an affine without shear.
    #[must_use]
    pub fn from_affine(transform: DAffine3) -> Self {
        let (scale, rotation, translation) = transform.to_scale_rotation_translation();
        Self { translation, rotation: rotation.normalize(), scale }
    }
}

/// Joints and weights.
#[derive(Debug, Clone)]
pub struct GlbSkin {
    /// The joints, in any order.
    pub joints: Vec<GlbJoint>,
    /// For each vertex (V) its (joint, weight) pairs, at most eight, sums of one.
    pub weights: Vec<Vec<(usize, f32)>>,
    /// The joints' motion.
    pub motion: Option<GlbMotion>,
}

/// The motion of all joints, keyed every frame.
#[derive(Debug, Clone)]
pub struct GlbMotion {
    /// Seconds, (N).
    pub times: Vec<f64>,
    /// Each frame's local transforms, (N)(joints).
    pub locals: Vec<Vec<GlbTransform>>,
}

/// A model to embed.
#[derive(Debug, Clone, Copy)]
pub struct GlbModel<'a> {
    /// The bytes of a `.sinew` file.
    pub bytes: &'a [u8],
    /// The method's name.
    pub method: &'a str,
    /// The version of the `.sinew` format.
    pub format_version: u32,
}

/// Writes a skinned mesh. The first bones of `skin.joints` that carry weight are the skin's joints, in their order.
pub fn write_glb_skin(
    path: &Path,
    mesh: &GlbMesh,
    skin: &GlbSkin,
    model: Option<GlbModel<'_>>,
) -> Result<(), FileError> {
    let mut builder = Builder::default();
    let split = Split::at_seams(mesh);
    let mut attributes = split.attributes(mesh, &mut builder);
    let skinned: Vec<usize> = (0..skin.joints.len()).filter(|&j| skin.joints[j].inverse_bind.is_some()).collect();
    let place: BTreeMap<usize, usize> = skinned.iter().enumerate().map(|(place, &joint)| (joint, place)).collect();
    add_weights(&mut builder, &mut attributes, &split, &skin.weights, &place);
    let mut nodes: Vec<Value> = skin.joints.iter().map(joint_node).collect();
    for (j, joint) in skin.joints.iter().enumerate() {
        if let Some(parent) = joint.parent {
            push_to(&mut nodes[parent], "children", json!(j));
        }
    }
    let matrices: Vec<f32> = skinned
        .iter()
        .filter_map(|&j| skin.joints[j].inverse_bind)
        .flat_map(|bind| DMat4::from(bind).to_cols_array().map(|c| c as f32))
        .collect();
    let inverse_bind = builder.floats(&matrices, "MAT4", 16, Target::Other, false);
    let mut scene: Vec<usize> = (0..skin.joints.len()).filter(|&j| skin.joints[j].parent.is_none()).collect();
    scene.push(nodes.len());
    let mut node = json!({"name": mesh.name, "mesh": 0, "skin": 0});
    if let Some(extras) = &mesh.extras {
        node["extras"] = extras.clone();
    }
    let mut document = json!({"scene": 0, "scenes": [{"nodes": scene}]});
    if let Some(model) = model {
        embed(&mut builder, &mut document, &mut node, &split, model);
    }
    nodes.push(node);
    document["nodes"] = json!(nodes);
    let indices = builder.indices(split.indices.as_flattened(), Target::Indices);
    document["meshes"] = json!([{"name": mesh.name, "primitives": [{"attributes": attributes, "indices": indices}]}]);
    document["skins"] = json!([{"name": "skeleton", "joints": skinned, "inverseBindMatrices": inverse_bind}]);
    if let Some(motion) = &skin.motion {
        document["animations"] = json!([animation(&mut builder, motion, skin.joints.len())]);
    }
    builder.write(path, document)
}

/// Writes a mesh whose frames are morph targets, each fully on at its own time.
pub fn write_glb_morphs(
    path: &Path,
    mesh: &GlbMesh,
    times: &[f64],
    frames: impl IntoIterator<Item: AsRef<[DVec3]>>,
) -> Result<(), FileError> {
    let mut builder = Builder::default();
    let split = Split::at_seams(mesh);
    let attributes = split.attributes(mesh, &mut builder);
    let mut targets = Vec::new();
    for frame in frames {
        let moved =
            split.source.iter().flat_map(|&v| (frame.as_ref()[v as usize] - mesh.positions[v as usize]).to_array());
        let moved: Vec<f32> = moved.map(|c| c as f32).collect();
        targets.push(json!({"POSITION": builder.floats(&moved, "VEC3", 3, Target::Vertices, true)}));
    }
    let count = targets.len();
    let indices = builder.indices(split.indices.as_flattened(), Target::Indices);
    let names: Vec<String> = (0..count).map(|frame| format!("frame_{frame}")).collect();
    let seconds: Vec<f32> = times.iter().map(|&time| time as f32).collect();
    let input = builder.floats(&seconds, "SCALAR", 1, Target::Other, true);
    let on: Vec<f32> = (0..count * count).map(|k| if k / count == k % count { 1.0 } else { 0.0 }).collect();
    let output = builder.floats(&on, "SCALAR", 1, Target::Other, false);
    let document = json!({
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"name": mesh.name, "mesh": 0}],
        "meshes": [{
            "name": mesh.name,
            "primitives": [{"attributes": attributes, "indices": indices, "targets": targets}],
            "weights": vec![0.0; count],
            "extras": {"targetNames": names},
        }],
        "animations": [{
            "name": "clip",
            "samplers": [{"input": input, "output": output, "interpolation": "LINEAR"}],
            "channels": [{"sampler": 0, "target": {"node": 0, "path": "weights"}}],
        }],
    });
    builder.write(path, document)
}

/// A mesh with one texture coordinate a vertex.
struct Split {
    /// The mesh's vertex of each split one.
    source: Vec<u32>,
    uvs: Option<Vec<[f32; 2]>>,
    indices: Vec<[u32; 3]>,
}

impl Split {
    fn at_seams(mesh: &GlbMesh) -> Self {
        let vertices = mesh.positions.len() as u32;
        let Some(uvs) = &mesh.uvs else {
            return Self { source: (0..vertices).collect(), uvs: None, indices: mesh.triangles.clone() };
        };
        // Ordered by vertex, then by coordinate: a vertex without a seam keeps its place among the others.
        let mut corners: BTreeMap<(u32, [u32; 2]), u32> = BTreeMap::new();
        let key = |v: u32, uv: [f32; 2]| (v, uv.map(|c| (c + 0.0).to_bits()));
        for (triangle, uv) in mesh.triangles.iter().zip(uvs) {
            for k in 0..3 {
                corners.insert(key(triangle[k], uv[k]), 0);
            }
        }
        let used: std::collections::BTreeSet<u32> = corners.keys().map(|&(v, _)| v).collect();
        for v in (0..vertices).filter(|v| !used.contains(v)) {
            corners.insert(key(v, [0.0, 0.0]), 0);
        }
        for (place, number) in corners.values_mut().enumerate() {
            *number = place as u32;
        }
        let corner = |v: u32, uv: [f32; 2]| corners[&key(v, uv)];
        let triangle = |(t, uv): (&[u32; 3], &[[f32; 2]; 3])| std::array::from_fn(|k| corner(t[k], uv[k]));
        Self {
            source: corners.keys().map(|&(v, _)| v).collect(),
            // glTF counts V from the top.
            uvs: Some(
                corners.keys().map(|(_, bits)| [f32::from_bits(bits[0]), 1.0 - f32::from_bits(bits[1])]).collect(),
            ),
            indices: mesh.triangles.iter().zip(uvs).map(triangle).collect(),
        }
    }

    fn attributes(&self, mesh: &GlbMesh, builder: &mut Builder) -> Value {
        let flat = |list: &[DVec3]| -> Vec<f32> {
            self.source.iter().flat_map(|&v| list[v as usize].to_array().map(|c| c as f32)).collect()
        };
        let mut attributes = json!({
            "POSITION": builder.floats(&flat(&mesh.positions), "VEC3", 3, Target::Vertices, true),
            "NORMAL": builder.floats(&flat(&normals(mesh)), "VEC3", 3, Target::Vertices, false),
        });
        if let Some(uvs) = &self.uvs {
            let flat = uvs.as_flattened();
            attributes["TEXCOORD_0"] = json!(builder.floats(flat, "VEC2", 2, Target::Vertices, false));
        }
        attributes
    }
}

/// Unit vertex normals, weighted by area; up where a vertex has none.
fn normals(mesh: &GlbMesh) -> Vec<DVec3> {
    let mut normals = vec![DVec3::ZERO; mesh.positions.len()];
    for t in &mesh.triangles {
        let [a, b, c] = t.map(|v| mesh.positions[v as usize]);
        t.iter().for_each(|&v| normals[v as usize] += (b - a).cross(c - a));
    }
    normals.into_iter().map(|normal| normal.try_normalize().unwrap_or(DVec3::Y)).collect()
}

/// One or two sets of four joints and weights; unused places have weight and joint 0.
fn add_weights(
    builder: &mut Builder,
    attributes: &mut Value,
    split: &Split,
    weights: &[Vec<(usize, f32)>],
    place: &BTreeMap<usize, usize>,
) {
    let width = weights.iter().map(Vec::len).max().unwrap_or(0);
    for set in 0..width.div_ceil(4).clamp(1, 2) {
        let mut joints = vec![[0_u16; 4]; split.source.len()];
        let mut values = vec![[0.0_f32; 4]; split.source.len()];
        for (k, &v) in split.source.iter().enumerate() {
            for (slot, &(joint, weight)) in weights[v as usize].iter().skip(4 * set).take(4).enumerate() {
                joints[k][slot] = place[&joint] as u16;
                values[k][slot] = weight;
            }
        }
        attributes[format!("JOINTS_{set}")] = json!(builder.joints(&joints));
        let values = builder.floats(values.as_flattened(), "VEC4", 4, Target::Vertices, false);
        attributes[format!("WEIGHTS_{set}")] = json!(values);
    }
}

fn joint_node(joint: &GlbJoint) -> Value {
    let GlbTransform { translation, rotation, scale } = joint.local;
    json!({
        "name": joint.name,
        "translation": translation.to_array(),
        "rotation": rotation.to_array(),
        "scale": scale.to_array(),
    })
}

fn push_to(node: &mut Value, key: &str, value: Value) {
    match node[key].as_array_mut() {
        Some(list) => list.push(value),
        None => node[key] = json!([value]),
    }
}

/// Three channels a joint, with quaternions of continuous sign; a channel that never changes from 1 (a scale) is left
/// out.
fn animation(builder: &mut Builder, motion: &GlbMotion, joints: usize) -> Value {
    let seconds: Vec<f32> = motion.times.iter().map(|&time| time as f32).collect();
    let input = builder.floats(&seconds, "SCALAR", 1, Target::Other, true);
    let (mut samplers, mut channels) = (Vec::new(), Vec::new());
    let mut add = |builder: &mut Builder, joint: usize, path: &str, values: &[f32], width: usize| {
        let output = builder.floats(values, if width == 4 { "VEC4" } else { "VEC3" }, width, Target::Other, false);
        channels.push(json!({"sampler": samplers.len(), "target": {"node": joint, "path": path}}));
        samplers.push(json!({"input": input, "output": output, "interpolation": "LINEAR"}));
    };
    for joint in 0..joints {
        let of = |pick: fn(&GlbTransform) -> DVec3| -> Vec<f32> {
            motion.locals.iter().flat_map(|frame| pick(&frame[joint]).to_array().map(|c| c as f32)).collect()
        };
        add(builder, joint, "translation", &of(|transform| transform.translation), 3);
        let mut last = DQuat::IDENTITY;
        let mut rotations = Vec::new();
        for frame in &motion.locals {
            let rotation = frame[joint].rotation;
            last = if rotation.dot(last) < 0.0 { -rotation } else { rotation };
            rotations.extend(last.to_array().map(|c| c as f32));
        }
        add(builder, joint, "rotation", &rotations, 4);
        let scales = of(|transform| transform.scale);
        if scales.iter().any(|scale| (scale - 1.0).abs() > 1e-6) {
            add(builder, joint, "scale", &scales, 3);
        }
    }
    json!({"name": "clip", "samplers": samplers, "channels": channels})
}

/// Puts the model into the file and names it on the document and on the mesh's node.
fn embed(builder: &mut Builder, document: &mut Value, node: &mut Value, split: &Split, model: GlbModel<'_>) {
    let view = builder.view(model.bytes, Target::Other);
    let vertices = builder.indices(&split.source, Target::Other);
    document["extensionsUsed"] = json!([EXTENSION]);
    document["extensions"] = json!({EXTENSION: {"models": [
        {"bufferView": view, "method": model.method, "formatVersion": model.format_version}
    ]}});
    node["extensions"] = json!({EXTENSION: {"model": 0, "vertices": vertices}});
}
