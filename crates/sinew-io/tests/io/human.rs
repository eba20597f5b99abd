//! Every way an artist may hand over the same body gives the same examples.

use std::path::Path;

use sinew_examples::Examples;
use sinew_io::PackOptions;

use crate::support::{difference, examples, farthest, own, packed, shared, skinning, truth};

/// What may differ.
struct Tolerance {
    /// Metres, between vertices.
    vertices: f64,
    /// Between the numbers of `T_b`.
    bones: f64,
}

/// Files hold f32 (rounding of 2 m: 1.2e-7) or six decimals; 1e-5 m is the requirement. Bones go through products of
/// up to eight f32 rotations: 1e-4 is the requirement.
const EXACT: Tolerance = Tolerance { vertices: 1e-5, bones: 1e-4 };

/// Checks that frame k of `found` is frame `frames[k]` of the truth.
fn check_same(truth: &Examples, found: &Examples, frames: &[usize], tolerance: &Tolerance) {
    assert_eq!(found.frame_count(), frames.len());
    assert!(farthest(found.mesh().vertices(), truth.mesh().vertices()) < tolerance.vertices, "rest");
    for (k, &e) in frames.iter().enumerate() {
        let off = farthest(found.vertices(k), truth.vertices(e));
        assert!(off < tolerance.vertices, "frame {e}: vertices are off by {off} m");
        for bone in truth.skeleton().bones() {
            let off = difference(skinning(found, &bone.name, k), skinning(truth, &bone.name, e));
            assert!(off < tolerance.bones, "frame {e}: {} is off by {off}", bone.name);
        }
    }
}

fn check_pair(skeleton: &Path, mesh: &Path, options: &PackOptions) {
    let Some(truth) = truth() else { return };
    let found = examples(packed(skeleton, mesh, options));
    check_same(&truth, &found, &(0..101).collect::<Vec<_>>(), &EXACT);
    assert!((found.fps().unwrap() - 24.0).abs() < 1e-3);
}

#[test]
fn glb_skeleton_and_alembic() {
    let Some(mesh) = shared("human/char_baked.abc") else { return };
    check_pair(&own("char.glb"), &mesh, &PackOptions::default());
    let found = examples(packed(&own("char.glb"), &mesh, &PackOptions::default()));
    let mesh = found.mesh();
    assert_eq!(mesh.polygons().unwrap().counts.len(), 4321, "the Alembic has the polygons");
    assert!(mesh.uvs().is_some());
}

#[test]
fn fbx_skeleton_and_alembic() {
    let Some(mesh) = shared("human/char_baked.abc") else { return };
    check_pair(&own("skeleton.fbx"), &mesh, &PackOptions::default());
}

#[test]
fn usd_alone() {
    let Some(file) = shared("human/char_skel_and_points.usdc") else { return };
    check_pair(&file, &file, &PackOptions::default());
}

#[test]
fn glb_skeleton_and_morph_targets() {
    let Some(mesh) = shared("human/char_morphs.glb") else { return };
    check_pair(&own("char.glb"), &mesh, &PackOptions::default());
}

#[test]
fn triangulated_alembic_takes_the_polygons_of_the_skin() {
    let (Some(mesh), Some(truth)) = (shared("human/char_train_triangulated.abc"), truth()) else { return };
    let found = examples(packed(&own("char_skinned.fbx"), &mesh, &PackOptions::default()));
    assert_eq!(found.mesh().polygons().unwrap().counts.len(), 4321);
    assert!(farthest(found.vertices(3), truth.vertices(3)) < EXACT.vertices);
}

/// Blender's FBX exporter leaves out keys that change by less than a thousandth of their own value: 0.1° of an angle of
/// 100°. The rest is linear between the kept keys, by the file's own word, and ufbx evaluates it so. Compared with
/// `skeleton.fbx`, which has every key of the same clip, the linear curves are off by 0.091° in the left clavicle at frame 92,
/// where no key was kept; down the arm that is 0.95 mm at the hand. Blender's own importer puts the same hand 0.952 mm off in the same frame.
/// The worst joint of a frame, averaged over the frames, is off by 0.144 mm: that mean is held to the requirement of 2e-4 m,
const REDUCED_MEAN: f64 = 2e-4;
/// and the worst joint of all frames to what the file itself has lost.
const REDUCED_WORST: f64 = 9.6e-4;

#[test]
fn fbx_skin_with_reduced_keys_and_point_caches() {
    let Some(truth) = truth() else { return };
    for cache in ["human/char_baked.pc2", "human/char_baked.mdd"] {
        let Some(mesh) = shared(cache) else { return };
        let options = PackOptions { drop_end_bones: true, ..PackOptions::default() };
        let found = examples(packed(&own("char_skinned.fbx"), &mesh, &options));
        assert_eq!((found.frame_count(), found.skeleton().bone_count()), (101, 23));
        let (mut sum, mut worst) = (0.0, 0.0_f64);
        for e in 0..101 {
            let off = farthest(found.vertices(e), truth.vertices(e));
            assert!(off < EXACT.vertices, "{cache}, frame {e}: vertices are off by {off} m");
            let off = truth.skeleton().bones().iter().map(|bone| joint_distance(&found, &truth, &bone.name, e));
            let off = off.fold(0.0, f64::max);
            sum += off;
            worst = worst.max(off);
        }
        assert!(sum / 101.0 < REDUCED_MEAN, "{cache}: the worst joint is off by {} m on average", sum / 101.0);
        assert!(worst < REDUCED_WORST, "{cache}: a joint is off by {worst} m");
    }
}

/// How far `T_b` of two examples put a bone's head apart in frame `e`, in metres.
fn joint_distance(found: &Examples, truth: &Examples, name: &str, e: usize) -> f64 {
    let head = truth.skeleton().bones()[truth.skeleton().find(name).unwrap()].rest.translation;
    let placed = |examples: &Examples| skinning(examples, name, e).transform_point3(head);
    (placed(found) - placed(truth)).length()
}

/// Frames whose keys were all kept agree with the complete file to the rounding of angles: what is lost, reduction lost.
#[test]
fn reduced_keys_lose_nothing_where_they_were_kept() {
    let reduced = sinew_io::read_scene(&own("char_skinned.fbx")).unwrap().skeletons.remove(0);
    let complete = sinew_io::read_scene(&own("skeleton.fbx")).unwrap().skeletons.remove(0);
    let mut exact = 0;
    for (a, b) in reduced.poses.iter().zip(&complete.poses) {
        let off = complete.bones.iter().enumerate().map(|(k, bone)| {
            let same = reduced.bones.iter().position(|other| other.name == bone.name).unwrap();
            (a.globals[same].translation - b.globals[k].translation).length()
        });
        // 1e-5 m: the rounding of f32 degrees over a chain of eight joints.
        exact += usize::from(off.fold(0.0, f64::max) < 1e-5);
    }
    assert!(exact >= 34, "only {exact} of {} frames are exact", reduced.poses.len());
}

#[test]
fn bvh_and_obj_frames() {
    let Some(truth) = truth() else { return };
    let found = examples(packed(&own("skeleton.bvh"), &own("obj"), &PackOptions::default()));
    // Files are numbered from 1, frames from 0.
    check_same(&truth, &found, &[0, 1, 9], &EXACT);
    assert!(found.mesh().uvs().is_some() && found.mesh().polygons().is_some());
}

#[test]
fn several_clips_in_one_go() {
    let (Some(mesh), Some(truth)) = (shared("human/char_baked.abc"), truth()) else { return };
    let pairs = [(own("char.glb"), mesh), (own("skeleton.bvh"), own("obj"))];
    let packed = sinew_io::pack(&pairs, &PackOptions::default()).unwrap();
    let frames: Vec<usize> = (0..101).chain([0, 1, 9]).collect();
    check_same(&truth, &examples(packed), &frames, &EXACT);
}
