//! What construction refuses, and what it accepts with a notice.

use glam::{DAffine3, DMat3, DQuat, DVec3};
use sinew_examples::{Bone, Examples, ExamplesError, ExamplesParts, Mesh, Notice, Polygons, Pose, Skeleton, Split};

/// A tetrahedron with one bone and two frames.
fn parts() -> ExamplesParts {
    let vertices = vec![DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::Z];
    let triangles = vec![[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]];
    let bone = |name: &str, parent| Bone { name: name.into(), parent, rest: DAffine3::IDENTITY };
    let pose = Pose { globals: vec![DAffine3::IDENTITY; 2] };
    ExamplesParts {
        mesh: Mesh::new(vertices.clone(), triangles, None, None).unwrap(),
        bones: vec![bone("hip", None), bone("knee", Some(0))],
        poses: vec![pose.clone(), pose],
        frames: vec![vertices.clone(), vertices],
        split: None,
        influences: None,
        pose_weights: None,
        fps: Some(24.0),
    }
}

/// Breaks the parts and checks that the error says what is wrong.
fn refused(break_it: impl FnOnce(&mut ExamplesParts), message: &str) {
    let mut parts = parts();
    break_it(&mut parts);
    let error = Examples::new(parts).unwrap_err().to_string();
    assert!(error.contains(message), "`{error}` does not say `{message}`");
}

#[test]
fn sound_examples_are_accepted_without_a_notice() {
    let examples = Examples::new(parts()).unwrap();
    assert_eq!(examples.notices(), []);
    assert_eq!(examples.split(), &Split { train: vec![0, 1], test: vec![] });
}

#[test]
fn what_cannot_be_used_is_refused_with_frame_and_number() {
    refused(|p| p.frames[1].truncate(3), "frame 1 has 3 vertices, the rest mesh 4");
    refused(|p| p.frames[1][2].y = f64::NAN, "frame 1, vertex 2 is not a finite number");
    refused(|p| p.frames[0][3].z = f64::INFINITY, "frame 0, vertex 3");
    refused(|p| p.frames[0][3].z = 1e30, "too large");
    refused(|p| p.frames.clear(), "no example frames");
    refused(|p| p.bones[0].parent = Some(1), "is its own ancestor");
    refused(|p| p.bones[1].parent = Some(7), "has parent 7, but there are 2 bones");
    refused(|p| p.bones[1].rest.matrix3 = DMat3::ZERO, "rest pose: the transform of bone 1 (knee) is singular");
    refused(|p| p.poses[1].globals[0].matrix3 = DMat3::ZERO, "frame 1: the transform of bone 0 (hip) is singular");
    refused(|p| p.poses[1].globals[1].translation.x = f64::NAN, "frame 1, transform of bone 1 (knee)");
    refused(|p| p.poses[0].globals.truncate(1), "frame 0 has 1 bone transforms, the skeleton 2");
    refused(|p| p.poses.truncate(1), "has 1 entries where 2 are needed");
    refused(|p| p.bones.clear(), "no bones");
    refused(|p| p.split = Some(Split { train: vec![0], test: vec![2] }), "test names frame 2, but there are 2 frames");
    refused(|p| p.influences = Some(vec![0.5; 7]), "influences has 7 entries where 8 are needed");
    refused(|p| p.influences = Some(vec![-1.0; 8]), "the influence of bone 0 on vertex 0 is -1");
    refused(|p| p.pose_weights = Some(vec![1.0, f64::NAN]), "the weight of frame 1");
    refused(|p| p.pose_weights = Some(vec![1.0]), "pose_weights has 1 entries where 2");
    refused(|p| p.fps = Some(0.0), "fps");
}

#[test]
fn meshes_that_cannot_be_used_are_refused() {
    let points = vec![DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::Z];
    let mesh = |points: &[DVec3], triangles: &[[u32; 3]]| Mesh::new(points.to_vec(), triangles.to_vec(), None, None);
    assert_eq!(mesh(&points, &[]), Err(ExamplesError::EmptyMesh { vertices: 4, faces: 0 }));
    assert_eq!(
        mesh(&points, &[[0, 1, 2], [1, 2, 4]]),
        Err(ExamplesError::FaceIndex { face: 1, vertex: 4, vertices: 4 })
    );
    assert!(matches!(mesh(&[DVec3::X; 4], &[[0, 1, 2]]), Err(ExamplesError::PointMesh { .. })));
    let polygons = |counts: &[u32], vertices: &[u32]| {
        let polygons = Polygons { counts: counts.to_vec(), vertices: vertices.to_vec() };
        Mesh::new(points.clone(), vec![[0, 1, 2], [0, 2, 3]], Some(polygons), None)
    };
    assert!(polygons(&[4], &[0, 1, 2, 3]).is_ok());
    assert!(matches!(polygons(&[2, 2], &[0, 1, 2, 3]), Err(ExamplesError::PolygonCorners { polygon: 0, corners: 2 })));
    assert!(matches!(polygons(&[4], &[0, 1, 2]), Err(ExamplesError::Length { .. })));
    assert!(matches!(polygons(&[3], &[0, 1, 2]), Err(ExamplesError::Length { .. })));
    assert!(matches!(polygons(&[4], &[0, 1, 2, 9]), Err(ExamplesError::FaceIndex { vertex: 9, .. })));
    let uvs = Mesh::new(points.clone(), vec![[0, 1, 2]], None, Some(vec![[[f32::NAN; 2]; 3]]));
    assert!(matches!(uvs, Err(ExamplesError::NotFinite { .. })));
}

#[test]
fn what_is_odd_is_accepted_and_told() {
    let points = vec![DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::Z, DVec3::ONE, 2.0 * DVec3::ONE, DVec3::NEG_ONE];
    let triangles = vec![[0, 1, 2], [2, 1, 0], [1, 1, 3], [3, 4, 5]];
    let mesh = Mesh::new(points, triangles, None, None).unwrap();
    let notices = mesh.notices();
    assert!(notices.contains(&Notice::DegenerateTriangles { count: 1, first: 2 }), "{notices:?}");
    assert!(notices.contains(&Notice::DuplicateTriangles { count: 1, first: 1 }), "{notices:?}");
    assert!(notices.contains(&Notice::UnreferencedVertices { count: 1, first: 6 }), "{notices:?}");
    assert!(notices.iter().any(|n| matches!(n, Notice::OpenBoundary { .. })), "{notices:?}");
    let apart = Mesh::new(
        vec![DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::Z, DVec3::ONE, DVec3::NEG_ONE],
        vec![[0, 1, 2], [3, 4, 5]],
        None,
        None,
    );
    assert!(apart.unwrap().notices().contains(&Notice::Components { count: 2 }));
}

#[test]
fn several_roots_are_joined_under_one_that_moves_with_the_first() {
    let mut parts = parts();
    parts.bones[1].parent = None;
    let moved = DAffine3::from_rotation_translation(DQuat::from_rotation_y(1.0), DVec3::X);
    parts.poses[1].globals[0] = moved;
    parts.influences = Some(vec![0.5; 8]);
    let examples = Examples::new(parts).unwrap();
    assert_eq!(examples.skeleton().bone_count(), 3);
    assert_eq!(examples.skeleton().root(), 2);
    assert_eq!(examples.pose(1).globals[2], moved);
    assert_eq!(examples.influences().unwrap().vertex(3), [0.5, 0.5, 0.0]);
    assert!(examples.notices().iter().any(|n| n.to_string().contains("2 roots (hip, knee) were joined")));
}

#[test]
fn mirrored_and_scaled_bones_and_overlapping_splits_are_told() {
    let mut parts = parts();
    parts.bones[1].rest.matrix3 = DMat3::from_diagonal(DVec3::new(-1.0, 1.0, 1.0));
    parts.poses[1].globals[0].matrix3 *= 1.5;
    parts.split = Some(Split { train: vec![0, 1], test: vec![1] });
    let examples = Examples::new(parts).unwrap();
    let notices = examples.notices();
    assert!(notices.contains(&Notice::MirroredBones { bones: vec!["knee".into()] }), "{notices:?}");
    assert!(notices.iter().any(|n| matches!(n, Notice::ScaledBones { frame: 1, .. })), "{notices:?}");
    assert!(notices.contains(&Notice::SplitOverlaps { count: 1, first: 1 }), "{notices:?}");
}

#[test]
fn bones_may_come_in_any_order() {
    let bone = |name: &str, parent| Bone { name: name.into(), parent, rest: DAffine3::IDENTITY };
    let skeleton = Skeleton::new(vec![bone("toe", Some(2)), bone("hip", None), bone("foot", Some(1))]).unwrap();
    assert_eq!(skeleton.parents_first(), [1, 2, 0]);
    assert_eq!(skeleton.parent(1), 1);
    assert_eq!(skeleton.children(1).collect::<Vec<_>>(), [2]);
}
