//! Files of other tools through the program: packed, exported, posed, and read back.

use std::path::Path;

use sinew_io::{Loaded, read_scene};

use crate::support::{self, fails, sinew};

/// Runs and expects success; gives stderr.
fn ok(folder: &Path, words: &str) -> String {
    let run = sinew(folder, words);
    assert!(run.status.success(), "sinew {words}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stderr).into_owned()
}

/// A plain GLB, drawn by its own weights and joints, shows the linear blend model; the model inside is the model.
#[test]
fn an_exported_glb_shows_the_model() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data tube-bend -o tube.npz");
    ok(folder.path(), "fit tube.npz --method ssd -o tube.sinew");
    ok(folder.path(), "export tube.sinew --animation tube.npz -o tube.glb");
    ok(folder.path(), "pose tube.sinew tube.npz -o posed.npz");
    let Loaded::Examples(posed) = sinew_io::npz::read(&folder.path().join("posed.npz")).unwrap() else {
        panic!("there is a skeleton")
    };
    let scene = read_scene(&folder.path().join("tube.glb")).unwrap();
    let (skeleton, mesh) = (&scene.skeletons[0], &scene.meshes[0]);
    let (_, weights) = mesh.skin.as_ref().unwrap();
    let rest = mesh.rest.as_ref().unwrap();
    assert_eq!(skeleton.poses.len(), posed.frame_count());
    for (e, pose) in skeleton.poses.iter().enumerate() {
        for (v, pairs) in weights.iter().enumerate() {
            let blend = |&(b, weight): &(usize, f32)| {
                (pose.globals[b] * skeleton.bones[b].rest.inverse()).transform_point3(rest[v]) * f64::from(weight)
            };
            let off = (pairs.iter().map(blend).sum::<glam::DVec3>() - posed.vertices(e)[v]).length();
            // The requirement for exports.
            assert!(off < 1e-4, "frame {e}, vertex {v} is off by {off} m");
        }
    }
    let bytes = std::fs::read(folder.path().join("tube.glb")).unwrap();
    let model = std::fs::read(folder.path().join("tube.sinew")).unwrap();
    assert!(bytes.windows(model.len()).any(|window| window == model), "the model is in the file as it is");
    assert!(bytes.windows(10).any(|window| window == b"SINEW_skin"));
}

/// Engines know no points: the baked joints of a model that draws from them have weights that come near over the clip.
#[test]
fn exports_come_near_to_what_is_drawn_from_points() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data arm -o arm.npz");
    ok(folder.path(), "fit arm.npz --method rr -o arm.sinew");
    let model = sinew_runtime::Model::from_bytes(&std::fs::read(folder.path().join("arm.sinew")).unwrap()).unwrap();
    assert!(matches!(&model.deformer, sinew_runtime::Deformer::RotationalRegression(rr) if !rr.points.is_empty()));
    let export = sinew(folder.path(), "export arm.sinew --proxy-bones --animation arm.npz -o arm.glb");
    let note = String::from_utf8(export.stderr).unwrap();
    let words: Vec<&str> = note.split(' ').collect();
    let rms = words.windows(3).find(|words| words[1] == "mm" && words[2].starts_with("rms")).expect(&note)[0];
    // 0.2: twice what is left over; the weights beside the points alone were more than half a millimetre off.
    assert!(rms.parse::<f64>().unwrap() < 0.2, "{note}");
}

/// The baked proxy bones, drawn as any engine does, and `pose` both show the corrected model, not the model beneath.
#[test]
fn exports_hold_the_correction_of_the_proxy_bones() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data shoulder -o shoulder.npz");
    ok(folder.path(), "fit shoulder.npz --method rr --proxy-bones 16 -o plain.sinew");
    ok(folder.path(), "fit shoulder.npz --method rr --proxy-bones 16 --correct proxies -o corrected.sinew");
    let posed = |name: &str| {
        ok(folder.path(), &format!("pose {name}.sinew shoulder.npz -o {name}.npz"));
        match sinew_io::npz::read(&folder.path().join(format!("{name}.npz"))).unwrap() {
            Loaded::Examples(posed) => posed,
            _ => panic!("there is a skeleton"),
        }
    };
    let (plain, corrected) = (posed("plain"), posed("corrected"));
    ok(folder.path(), "export corrected.sinew --proxy-bones --animation shoulder.npz -o baked.glb");
    let scene = read_scene(&folder.path().join("baked.glb")).unwrap();
    let (skeleton, mesh) = (&scene.skeletons[0], &scene.meshes[0]);
    let (_, weights) = mesh.skin.as_ref().unwrap();
    let rest = mesh.rest.as_ref().unwrap();
    let (mut baked_off, mut moved): (f64, f64) = (0.0, 0.0);
    for (e, pose) in skeleton.poses.iter().enumerate() {
        for (v, pairs) in weights.iter().enumerate() {
            let blend = |&(b, weight): &(usize, f32)| {
                (pose.globals[b] * skeleton.bones[b].rest.inverse()).transform_point3(rest[v]) * f64::from(weight)
            };
            let baked = pairs.iter().map(blend).sum::<glam::DVec3>();
            baked_off = baked_off.max(baked.distance(corrected.vertices(e)[v]));
            moved = moved.max(plain.vertices(e)[v].distance(corrected.vertices(e)[v]));
        }
    }
    // The requirement for exports; five times of it tells the correction from the model beneath.
    assert!(baked_off < 1e-4, "off by {baked_off} m");
    assert!(moved > 5e-4, "the correction moves vertices by {moved} m at most");
}

/// What `pose` writes for other tools is what it writes as examples.
#[test]
fn every_format_of_pose_holds_the_same_points() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "data tube-bend -o tube.npz");
    ok(folder.path(), "fit tube.npz --method ssd -o tube.sinew");
    ok(folder.path(), "pose tube.sinew tube.npz -o posed.npz");
    let Loaded::Examples(posed) = sinew_io::npz::read(&folder.path().join("posed.npz")).unwrap() else {
        panic!("there is a skeleton")
    };
    for output in ["a.abc", "a.usda", "a.pc2", "a.mdd", "a.glb", "frames"] {
        ok(folder.path(), &format!("pose tube.sinew tube.npz -o {output}"));
        let mut scene = read_scene(&folder.path().join(output)).unwrap();
        let clip = &mut scene.meshes[0];
        assert_eq!((clip.frame_count(), clip.vertex_count), (posed.frame_count(), posed.mesh().vertex_count()));
        for e in [0, posed.frame_count() - 1] {
            let frame = clip.frame(e).unwrap();
            let off = frame.iter().zip(posed.vertices(e)).map(|(a, b)| (*a - *b).length()).fold(0.0, f64::max);
            // f32, or seven decimals in OBJ.
            assert!(off < 1e-6, "{output}, frame {e} is off by {off} m");
        }
    }
}

#[test]
fn a_pair_of_files_is_examples() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sinew-io/tests/data/human");
    let (bvh, obj) = (data.join("skeleton.bvh"), data.join("obj"));
    let told = ok(folder.path(), &format!("pack --skeleton {} --mesh {} -o a.npz", bvh.display(), obj.display()));
    assert!(told.contains("other axes") && told.contains("3 frames match"), "{told}");
    ok(folder.path(), &format!("fit {}+{} --method rigid -o a.sinew", bvh.display(), obj.display()));
    let both = support::ok(folder.path(), &format!("inspect {}+{}", bvh.display(), obj.display()));
    assert!(both.contains("obj on ") && both.contains("skeleton.bvh"), "{both}");
    let half = fails(folder.path(), &format!("fit {} -o a.sinew", obj.display()));
    assert!(half.contains("rig.fbx+"), "{half}");
}
