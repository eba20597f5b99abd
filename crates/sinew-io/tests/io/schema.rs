//! The extension that `write_glb_skin` writes keeps to the schema in `docs/`.

use std::path::Path;

use glam::{DAffine3, DQuat, DVec3};
use serde_json::{Value, json};
use sinew_io::{EXTENSION, GlbJoint, GlbMesh, GlbModel, GlbSkin, GlbTransform, write_glb_skin};

use crate::written::{points, surface};

/// What of `value` breaks `schema`: the keywords that the schema in `docs/` uses, and an error for any other.
fn faults(schema: &Value, value: &Value, place: &str, list: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().unwrap() {
        let kept = match keyword.as_str() {
            "title" | "description" => true,
            "type" => match wanted.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "integer" => value.is_u64() || value.is_i64(),
                other => panic!("the type {other}"),
            },
            "minimum" => value.as_i64() >= wanted.as_i64(),
            "minItems" => value.as_array().is_some_and(|items| items.len() as u64 >= wanted.as_u64().unwrap()),
            "required" => wanted.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                value.as_object().is_some_and(|object| object.keys().all(|key| known.contains_key(key)))
            }
            "properties" => {
                for (key, inner) in wanted.as_object().unwrap() {
                    if let Some(found) = value.get(key) {
                        faults(inner, found, &format!("{place}.{key}"), list);
                    }
                }
                true
            }
            "items" => {
                for (k, item) in value.as_array().into_iter().flatten().enumerate() {
                    faults(wanted, item, &format!("{place}[{k}]"), list);
                }
                true
            }
            other => panic!("the keyword {other} is not known here"),
        };
        if !kept {
            list.push(format!("{place}: {keyword} {wanted} is not kept by {value}"));
        }
    }
}

fn check(kind: &str, value: &Value) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SINEW_skin.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut list = Vec::new();
    faults(&schema["$defs"][kind], value, kind, &mut list);
    list
}

/// The JSON of a GLB with a model in it.
fn exported() -> Value {
    let surface = surface();
    let mesh = GlbMesh {
        name: "bar".into(),
        positions: points(0),
        triangles: surface.polygons.fan(),
        uvs: surface.triangle_uvs(),
        extras: None,
    };
    let still = GlbTransform { translation: DVec3::ZERO, rotation: DQuat::IDENTITY, scale: DVec3::ONE };
    let joint = GlbJoint { name: "root".into(), parent: None, local: still, inverse_bind: Some(DAffine3::IDENTITY) };
    let skin = GlbSkin { joints: vec![joint], weights: vec![vec![(0, 1.0)]; mesh.positions.len()], motion: None };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bar.glb");
    let model = GlbModel { bytes: b"a model", method: "rr", format_version: 1 };
    write_glb_skin(&path, &mesh, &skin, Some(model)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[20..20 + length]).unwrap()
}

#[test]
fn the_exported_extension_keeps_the_schema() {
    let document = exported();
    assert_eq!(check("document", &document["extensions"][EXTENSION]), Vec::<String>::new());
    let nodes = document["nodes"].as_array().unwrap();
    let extended: Vec<&Value> = nodes.iter().filter_map(|node| node.get("extensions")?.get(EXTENSION)).collect();
    assert_eq!(extended.len(), 1);
    assert_eq!(check("node", extended[0]), Vec::<String>::new());
    // The indices name something.
    let view = document["extensions"][EXTENSION]["models"][0]["bufferView"].as_u64().unwrap() as usize;
    assert_eq!(document["bufferViews"][view]["byteLength"], 7);
    assert!(document["accessors"].get(extended[0]["vertices"].as_u64().unwrap() as usize).is_some());
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    for wrong in [
        json!({}),
        json!({"models": []}),
        json!({"models": [{"bufferView": -1, "formatVersion": 1}]}),
        json!({"models": [{"bufferView": 0}]}),
        json!({"models": [{"bufferView": 0, "formatVersion": 1, "colour": "red"}]}),
    ] {
        assert!(!check("document", &wrong).is_empty(), "{wrong}");
    }
    assert!(!check("node", &json!({"model": 0})).is_empty());
}
