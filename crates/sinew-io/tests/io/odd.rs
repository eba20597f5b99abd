//! Less common ways to write the same thing, on the seeds of the fuzz corpus: a bar of twelve vertices whose upper bone turns
//! by 0, 10, 30 and 60 degrees.

use std::path::{Path, PathBuf};

use glam::DVec3;
use sinew_io::{PackOptions, Trouble, pack, read_scene};

use crate::support::{examples, farthest, packed};

fn seed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
}

/// Frame `e` of a file's only mesh.
fn frame(path: &Path, e: usize) -> Vec<DVec3> {
    read_scene(path).unwrap_or_else(|error| panic!("{error}")).meshes[0].frame(e).unwrap()
}

/// The bar in frame `e`, by the point cache.
fn bar(e: usize) -> Vec<DVec3> {
    frame(&seed("pc2/bar.pc2"), e)
}

/// A file's moving mesh is the bar, to `tolerance`.
fn check_bar(name: &str, tolerance: f64) {
    let clip = &read_scene(&seed(name)).unwrap().meshes[0];
    assert_eq!((clip.frame_count(), clip.vertex_count), (4, 12), "{name}");
    for e in 0..4 {
        let off = farthest(&frame(&seed(name), e), &bar(e));
        assert!(off <= tolerance, "{name}, frame {e}: off by {off}");
    }
}

#[test]
fn alembic_of_other_floats_and_as_a_cage() {
    check_bar("alembic/double.abc", 0.0);
    check_bar("alembic/cage.abc", 0.0);
    // Half a unit in the last place of numbers up to 2, eleven bits each: 2^-11, times √3 for three of them.
    check_bar("alembic/half.abc", 9e-4);
    let surface = |name: &str| read_scene(&seed(name)).unwrap().meshes.remove(0).surface.unwrap();
    assert_eq!(surface("alembic/cage.abc"), surface("alembic/double.abc"));
    assert_eq!(surface("alembic/cage.abc").polygons, surface("usd/bar.usdc").polygons, "the winding is turned");
}

#[test]
fn alembic_under_a_moving_transform() {
    for (e, height) in [0.0, 0.5, 1.0, 1.5].into_iter().enumerate() {
        let lifted: Vec<DVec3> = bar(0).iter().map(|&p| p + DVec3::Y * height).collect();
        assert_eq!(frame(&seed("alembic/moved.abc"), e), lifted);
    }
}

#[test]
fn usd_as_text_binary_and_package() {
    for name in ["usd/bar.usda", "usd/bar.usdc", "usd/bar.usdz"] {
        // Text has nine digits, which is every f32.
        check_bar(name, 0.0);
        let skeleton = &read_scene(&seed(name)).unwrap().skeletons[0];
        let turned = skeleton.poses[3].globals[1].matrix3.y_axis;
        // 60 degrees, in a quaternion of f32.
        assert!((turned - DVec3::new(0.0, 0.5, 0.75_f64.sqrt())).length() < 1e-6, "{name}: {turned}");
    }
}

#[test]
fn gltf_with_its_buffer_beside_or_inside() {
    let binary = std::fs::read(seed("gltf/skin.glb")).unwrap();
    let size = |at: usize| u32::from_le_bytes(binary[at..at + 4].try_into().unwrap()) as usize;
    let text = String::from_utf8(binary[20..20 + size(12)].to_vec()).unwrap();
    let buffer = &binary[20 + size(12) + 8..];
    let directory = tempfile::tempdir().unwrap();
    let beside = directory.path().join("beside.gltf");
    std::fs::write(directory.path().join("the buffer.bin"), buffer).unwrap();
    let uri = "\"buffers\":[{\"uri\":\"the%20buffer.bin\",";
    assert!(text.contains("\"buffers\":[{"));
    std::fs::write(&beside, text.replace("\"buffers\":[{", uri)).unwrap();
    let poses = |path: &Path| read_scene(path).unwrap().skeletons.remove(0).poses;
    let expected = poses(&seed("gltf/skin.glb"));
    assert_eq!(poses(&beside), expected);
    assert_eq!(poses(&seed("gltf/inside.gltf")), expected);
    std::fs::remove_file(directory.path().join("the buffer.bin")).unwrap();
    let error = read_scene(&beside).unwrap_err().to_string();
    assert!(error.contains("beside.gltf") && error.contains("the%20buffer.bin"), "{error}");
}

/// The skinned bar as a `.gltf` whose document `change` has changed, in a folder of its own.
fn changed_skin(change: impl FnOnce(&mut serde_json::Value)) -> (tempfile::TempDir, PathBuf) {
    let binary = std::fs::read(seed("gltf/skin.glb")).unwrap();
    let size = |at: usize| u32::from_le_bytes(binary[at..at + 4].try_into().unwrap()) as usize;
    let mut document: serde_json::Value = serde_json::from_slice(&binary[20..20 + size(12)]).unwrap();
    document["buffers"][0]["uri"] = "bar.bin".into();
    change(&mut document);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bar.gltf");
    std::fs::write(directory.path().join("bar.bin"), &binary[20 + size(12) + 8..]).unwrap();
    std::fs::write(&path, document.to_string()).unwrap();
    (directory, path)
}

/// Gives the bar a morph target that moves its vertices by up to 0.3 (accessor 7, which has twelve triples too), with the
/// times of its animation, up to an eighth (accessor 5), as weights.
fn morphing(document: &mut serde_json::Value) {
    document["meshes"][0]["primitives"][0]["targets"] = serde_json::json!([{"POSITION": 7}]);
    let swell = serde_json::json!({
        "name": "swell",
        "samplers": [{"input": 5, "output": 5}],
        "channels": [{"sampler": 0, "target": {"node": 0, "path": "weights"}}],
    });
    document["animations"].as_array_mut().unwrap().push(swell);
}

#[test]
fn gltf_morph_targets_are_moved_by_the_skin() {
    let (_directory, path) = changed_skin(morphing);
    let mut scene = read_scene(&path).unwrap();
    let (skeleton, mesh) = (&scene.skeletons[0], &mut scene.meshes[0]);
    assert_eq!(mesh.times, skeleton.times);
    let (_, weights) = mesh.skin.clone().unwrap();
    let rest = mesh.rest.clone().unwrap();
    for (e, pose) in skeleton.poses.iter().enumerate() {
        // Keys of a cubic spline: slope in, value, slope out; only values are not nil, a tenth a key.
        let lift = |v: usize| if v % 3 == 1 { f64::from(0.1_f32 * (v / 3) as f32) } else { 0.0 };
        let weight = mesh.times[e];
        let swollen = |v: usize| rest[v] + DVec3::Y * weight * lift(v);
        let moved =
            |v: usize, b: usize| (pose.globals[b] * skeleton.bones[b].rest.inverse()).transform_point3(swollen(v));
        let expected = |v: usize| weights[v].iter().map(|&(b, w)| f64::from(w) * moved(v, b)).sum::<DVec3>();
        let expected: Vec<DVec3> = (0..rest.len()).map(expected).collect();
        // A tenth times the key in f32 may round otherwise than the file's own numbers, times a weight of an eighth.
        assert!(farthest(&mesh.frame(e).unwrap(), &expected) < 1e-8, "frame {e}");
    }
}

#[test]
fn gltf_animations_of_the_same_bones_are_clips_of_their_own() {
    let plain = read_scene(&seed("gltf/skin.glb")).unwrap();
    let (_directory, path) = changed_skin(|document| {
        document["animations"][0]["name"] = "walk".into();
        let run = serde_json::json!({
            "name": "run",
            "samplers": [{"input": 5, "output": 6}],
            "channels": [{"sampler": 0, "target": {"node": 1, "path": "rotation"}}],
        });
        document["animations"].as_array_mut().unwrap().push(run);
        morphing(document);
    });
    let scene = read_scene(&path).unwrap();
    assert_eq!(scene.skeletons[0].poses, plain.skeletons[0].poses, "two clips were mixed");
    assert_eq!(scene.meshes[0].times.len(), 4, "the mesh's own animation plays along");
    let told = scene.remarks.join("\n");
    assert!(told.contains("of 3 animations `walk` is taken, the longest; run move the same"), "{told}");
}

#[test]
fn gltf_with_two_skinned_meshes_keeps_each_ones_rest() {
    let (_directory, path) = changed_skin(|document| {
        morphing(document);
        let mut hat = document["meshes"][0].clone();
        hat["primitives"][0]["attributes"]["POSITION"] = 7.into();
        hat["primitives"][0].as_object_mut().unwrap().remove("targets");
        document["meshes"].as_array_mut().unwrap().push(hat);
        let node = serde_json::json!({"name": "hat", "mesh": 1, "skin": 0});
        document["nodes"].as_array_mut().unwrap().push(node);
        // Lines are not a mesh to learn from.
        let mut lines = document["meshes"][0].clone();
        lines["primitives"][0]["mode"] = 1.into();
        document["meshes"].as_array_mut().unwrap().push(lines);
        document["nodes"].as_array_mut().unwrap().push(serde_json::json!({"name": "whiskers", "mesh": 2}));
    });
    let scene = read_scene(&path).unwrap();
    assert_eq!(scene.meshes.len(), 2);
    assert!(scene.remarks.iter().any(|remark| remark.contains("`whiskers` has no triangles")), "{:?}", scene.remarks);
    let rest = scene.meshes[0].rest.clone().unwrap();
    assert_eq!(examples(packed(&path, &path, &PackOptions::default())).mesh().vertices(), rest);
}

#[test]
fn a_bind_pose_in_centimetres_under_a_node_that_scales() {
    let plain = changed_skin(morphing);
    let scaled = changed_skin(|document| {
        morphing(document);
        let node = serde_json::json!({"name": "Armature", "scale": [0.01, 0.01, 0.01], "children": [1]});
        document["nodes"].as_array_mut().unwrap().push(node);
    });
    let expected = examples(packed(&plain.1, &plain.1, &PackOptions::default()));
    let packed = packed(&scaled.1, &scaled.1, &PackOptions::default());
    assert!(packed.findings.iter().any(|finding| finding.to_string().contains("scaled by 0.0100")));
    let found = examples(packed);
    // The scale is 0.01 in f32.
    let small = |points: &[DVec3]| points.iter().map(|&p| p * 0.01).collect::<Vec<_>>();
    assert!(farthest(found.mesh().vertices(), &small(expected.mesh().vertices())) < 1e-8);
    assert!(farthest(found.vertices(3), &small(expected.vertices(3))) < 1e-8);
    let moved = found.pose(0).globals[1] * found.skeleton().bones()[1].rest.inverse();
    assert!((moved.matrix3.determinant() - 1.0).abs() < 1e-6, "the pose is no larger than the rest");
}

#[test]
fn gltf_cubic_splines() {
    // The lower bone rises by 0.1 a frame with level tangents, so that it eases; the keys are at the frames.
    let skeleton = read_scene(&seed("gltf/skin.glb")).unwrap().skeletons.remove(0);
    for (e, pose) in skeleton.poses.iter().enumerate() {
        // 0.1 in f32.
        assert!((pose.globals[0].translation.y - 0.1 * e as f64).abs() < 1e-6);
    }
}

#[test]
fn a_point_cache_with_a_topology() {
    let (bvh, cache) = (seed("bvh/bar.bvh"), seed("mdd/bar.mdd"));
    let error = pack(&[(bvh.clone(), cache.clone())], &PackOptions::default()).unwrap_err().to_string();
    assert!(error.contains("--topology"), "{error}");
    let options = PackOptions { topology: Some(seed("obj/bar.obj")), ..PackOptions::default() };
    let found = examples(packed(&bvh, &cache, &options));
    assert_eq!((found.frame_count(), found.mesh().polygons().unwrap().counts.len()), (4, 8));
    assert!(found.mesh().uvs().is_some());
}

#[test]
fn a_frame_as_the_rest() {
    let file = seed("usd/bar.usdc");
    let options = PackOptions { rest_frame: Some(2), ..PackOptions::default() };
    let found = examples(packed(&file, &file, &options));
    assert_eq!(found.mesh().vertices(), bar(2));
    let rest: Vec<_> = found.skeleton().bones().iter().map(|bone| bone.rest).collect();
    assert_eq!(rest, found.pose(2).globals);
    let none = PackOptions { rest_frame: Some(9), ..PackOptions::default() };
    let error = pack(&[(file.clone(), file)], &none).unwrap_err().to_string();
    assert!(error.contains("no frame 9") && error.contains("--rest-frame"), "{error}");
}

#[test]
fn frames_to_train_and_to_test() {
    let file = seed("usd/bar.usdc");
    let split = |train: Option<&str>, test: Option<&str>| {
        let parse = |text: &str| text.parse().unwrap();
        let options = PackOptions { train: train.map(parse), test: test.map(parse), ..PackOptions::default() };
        let found = examples(packed(&file, &file, &options));
        (found.split().train.clone(), found.split().test.clone())
    };
    assert_eq!(split(None, None), (vec![0, 1, 2, 3], vec![]));
    assert_eq!(split(None, Some("every:2")), (vec![1, 3], vec![0, 2]));
    assert_eq!(split(Some("0..3"), None), (vec![0, 1, 2], vec![3]));
    assert_eq!(split(Some("0,1"), Some("3")), (vec![0, 1], vec![3]));
    let none = PackOptions { test: Some("2..9".parse().unwrap()), ..PackOptions::default() };
    let error = pack(&[(file.clone(), file)], &none).unwrap_err().to_string();
    assert!(error.contains("frame 8"), "{error}");
}

/// A mesh that stands beside its skeleton, as when one of them was moved in the scene before its export.
#[test]
fn a_mesh_beside_its_skeleton_is_found_and_moved() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("beside.pc2");
    // The bar turns about x only: along x nothing could be known.
    let offset = DVec3::new(0.0, 3.0, -1.5);
    let frames: Vec<Vec<DVec3>> = (0..4).map(|e| bar(e).iter().map(|&p| p + offset).collect()).collect();
    sinew_io::write_pc2(&path, 1.0, frames[0].len(), frames.iter()).unwrap();
    let moved = directory.path().join("rest.obj");
    let text = std::fs::read_to_string(seed("obj/bar.obj")).unwrap();
    std::fs::write(&moved, text).unwrap();
    let options = PackOptions { topology: Some(moved), ..PackOptions::default() };
    let bvh = seed("bvh/bar.bvh");
    let error = pack(&[(bvh.clone(), path.clone())], &options).unwrap_err().to_string();
    assert!(error.contains("stands beside") && error.contains("--mesh-offset="), "{error}");
    let fixed = pack(&[(bvh, path)], &PackOptions { fix: true, ..options }).unwrap();
    assert!(fixed.findings.iter().any(|finding| finding.trouble == Trouble::Offset && finding.mended));
    let found = examples(fixed);
    for e in 0..4 {
        // The offset is found to a millimetre or so of a bar of two metres.
        assert!(farthest(found.vertices(e), &bar(e)) < 2e-3, "frame {e}");
    }
}

#[test]
fn an_empty_file_is_told_as_such() {
    let directory = tempfile::tempdir().unwrap();
    for ending in ["abc", "bvh", "fbx", "glb", "mdd", "obj", "pc2", "usda", "usdc"] {
        let path = directory.path().join(format!("empty.{ending}"));
        std::fs::write(&path, b"").unwrap();
        let error = read_scene(&path).unwrap_err().to_string();
        assert!(error.contains("the file is empty"), "{error}");
    }
}
