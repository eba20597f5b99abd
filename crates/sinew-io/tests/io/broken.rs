//! A good pair is broken in one way after the other; each is named, and mended where it can be.
//!
//! The pair is a bar of two bones that bends and twists: small, made here, and known to the last digit.

use glam::{DAffine3, DMat3, DQuat, DVec3};
use sinew_examples::{Bone, Polygons, Pose};
use sinew_io::{
    Clock, Convention, Finding, Loaded, MeshClip, PackError, PackOptions, Packed, Scene, ScenePair, SkeletonClip,
    StoredFrames, Surface, Trouble, pack_scenes,
};

const SIDES: usize = 8;
const RINGS: usize = 21;
const FRAMES: usize = 24;

/// Bone b of the bar at frame e: the first turns slowly about Y, the second bends about Z at half its length.
fn globals(e: usize) -> Vec<DAffine3> {
    let phase = e as f64 / 3.7;
    let root = DAffine3::from_rotation_translation(
        DQuat::from_rotation_y(0.4 * phase.sin()),
        DVec3::new(0.1 * phase, 0.0, 0.0),
    );
    let bend = DQuat::from_rotation_z(0.9 * (1.3 * phase).sin()) * DQuat::from_rotation_x(0.5 * (0.7 * phase).sin());
    vec![root, root * DAffine3::from_rotation_translation(bend, DVec3::Y)]
}

fn rest_globals() -> Vec<DAffine3> {
    globals(0)
}

/// Rings of a tapered tube from y = 0 to 2, with one odd side so that no mirror maps it to itself.
fn rest_points() -> Vec<DVec3> {
    let point = |k: usize| {
        let (ring, side) = (k / SIDES, k % SIDES);
        let (y, angle) = (2.0 * ring as f64 / (RINGS - 1) as f64, std::f64::consts::TAU * side as f64 / SIDES as f64);
        let radius = 0.2 - 0.05 * y + if side == 1 { 0.07 } else { 0.0 };
        DVec3::new(radius * angle.cos(), y, 0.6 * radius * angle.sin())
    };
    (0..SIDES * RINGS).map(point).collect()
}

fn surface() -> Surface {
    let mut vertices = Vec::new();
    for ring in 0..RINGS - 1 {
        for side in 0..SIDES {
            let (a, b) = (ring * SIDES + side, ring * SIDES + (side + 1) % SIDES);
            vertices.extend([a, a + SIDES, b + SIDES, b].map(|v| v as u32));
        }
    }
    Surface { polygons: Polygons { counts: vec![4; vertices.len() / 4], vertices }, uvs: None }
}

fn skinned(e: usize) -> Vec<DVec3> {
    let motion: Vec<DAffine3> = globals(e).iter().zip(rest_globals()).map(|(g, rest)| *g * rest.inverse()).collect();
    let blend = |p: &DVec3| {
        let w = ((p.y - 0.9) / 0.2).clamp(0.0, 1.0);
        motion[0].transform_point3(*p) * (1.0 - w) + motion[1].transform_point3(*p) * w
    };
    rest_points().iter().map(blend).collect()
}

fn times() -> Vec<f64> {
    (0..FRAMES).map(|e| (e + 1) as f64 / 24.0).collect()
}

/// The good pair, as two files: a rig with its skin, and a cache.
struct Good {
    skeleton: SkeletonClip,
    skin: MeshClip,
    cache: MeshClip,
    frames: Vec<Vec<DVec3>>,
}

fn good() -> Good {
    let bone = |(b, rest): (usize, DAffine3)| Bone { name: ["root", "tip"][b].into(), parent: b.checked_sub(1), rest };
    let skeleton = SkeletonClip {
        name: "rig".into(),
        bones: rest_globals().into_iter().enumerate().map(bone).collect(),
        times: times(),
        poses: (0..FRAMES).map(|e| Pose { globals: globals(e) }).collect(),
        clock: Clock::Scene,
        convention: Convention::Declared,
    };
    let clip = |name: &str, rest: Option<Vec<DVec3>>, times: Vec<f64>| MeshClip {
        name: name.into(),
        vertex_count: SIDES * RINGS,
        surface: Some(surface()),
        rest,
        skin: None,
        times,
        clock: Clock::Scene,
        convention: Convention::Declared,
        frames: Box::new(StoredFrames(Vec::new())),
    };
    let skin = clip("skin", Some(rest_points()), Vec::new());
    Good { skeleton, skin, cache: clip("cache", None, times()), frames: (0..FRAMES).map(skinned).collect() }
}

impl Good {
    fn pack(mut self, fix: bool) -> Result<Packed, PackError> {
        self.cache.frames = Box::new(StoredFrames(self.frames));
        let first = Scene { skeletons: vec![self.skeleton], meshes: vec![self.skin], remarks: Vec::new() };
        let second = Scene { meshes: vec![self.cache], ..Scene::default() };
        let pair = ScenePair { skeleton: first, mesh: Some(second), topology: None };
        pack_scenes(vec![pair], &PackOptions { fix, ..PackOptions::default() })
    }
}

/// Breaks a good pair: without `--fix` exactly `trouble` is named and nothing is packed; with it, the examples are the
/// good ones again.
fn check(trouble: Trouble, break_it: impl Fn(&mut Good)) {
    let findings = refuse(trouble, &break_it);
    let mend = &findings.iter().find(|finding| finding.is_open()).unwrap().mend;
    assert!(mend.contains("--fix") && mend.matches("--").count() > 1, "it names the flag and --fix: {mend}");
    let mut broken = good();
    break_it(&mut broken);
    let mended = broken.pack(true).unwrap_or_else(|error| panic!("{error}"));
    assert!(mended.findings.iter().any(|finding| finding.trouble == trouble && finding.mended));
    let (Loaded::Examples(mended), Loaded::Examples(whole)) = (mended.loaded, good().pack(false).unwrap().loaded)
    else {
        panic!("there is a skeleton")
    };
    for e in 0..whole.frame_count().min(mended.frame_count()) {
        let last = (whole.frame_count(), mended.frame_count());
        let (a, b) = (whole.vertices(last.0 - 1 - e), mended.vertices(last.1 - 1 - e));
        let off = a.iter().zip(b).map(|(a, b)| (*a - *b).length()).fold(0.0, f64::max);
        // Units that are not powers of two round.
        assert!(off < 1e-9, "{trouble:?} is not mended: frame {e} from the end is off by {off}");
    }
    assert_eq!(mended.mesh().triangles(), whole.mesh().triangles());
}

/// Breaks a good pair so that nothing can mend it: `trouble` is named with or without `--fix`.
fn refuse(trouble: Trouble, break_it: &impl Fn(&mut Good)) -> Vec<Finding> {
    let mut broken = good();
    break_it(&mut broken);
    match broken.pack(false) {
        Err(PackError::Faults(findings)) => {
            let open: Vec<&Finding> = findings.iter().filter(|finding| finding.is_open()).collect();
            assert!(open.iter().all(|finding| finding.trouble == trouble), "{open:?}");
            assert!(!open.is_empty());
            findings
        }
        other => panic!("{trouble:?} was not refused: {other:?}"),
    }
}

/// Breaks a good pair in a way that is told and needs no mending.
fn told(trouble: Trouble, break_it: impl Fn(&mut Good)) {
    let mut broken = good();
    break_it(&mut broken);
    let packed = broken.pack(false).unwrap_or_else(|error| panic!("{error}"));
    assert!(packed.findings.iter().any(|finding| finding.trouble == trouble), "{:?}", packed.findings);
}

fn each(good: &mut Good, change: impl Fn(DVec3) -> DVec3) {
    good.frames.iter_mut().flatten().for_each(|point| *point = change(*point));
}

#[test]
fn a_good_pair_has_no_faults() {
    assert_eq!(good().pack(false).unwrap().findings, Vec::new());
}

#[test]
fn units() {
    for factor in [100.0, 0.01, 1.0 / 0.0254, 1000.0] {
        check(Trouble::Units, |good| each(good, |p| p * factor));
    }
}

#[test]
fn axes_and_handedness() {
    check(Trouble::Axes, |good| each(good, |p| DVec3::new(p.x, -p.z, p.y)));
    check(Trouble::Axes, |good| {
        each(good, |p| DVec3::new(p.x, p.y, -p.z));
        good.cache.surface.as_mut().unwrap().flip();
    });
    let turn = DMat3::from_rotation_y(std::f64::consts::PI);
    check(Trouble::Axes, |good| each(good, |p| turn * p));
}

#[test]
fn frame_offset() {
    for shift in [1.0, -1.0, 7.0] {
        check(Trouble::FrameOffset, |good| good.cache.times.iter_mut().for_each(|time| *time += shift / 24.0));
    }
}

#[test]
fn a_clip_that_does_not_say_when_it_starts_is_aligned_without_a_fault() {
    told(Trouble::FrameOffset, |good| {
        good.cache.times.iter_mut().for_each(|time| *time -= 1.0 / 24.0);
        good.cache.clock = Clock::FromStart;
    });
}

#[test]
fn frames_without_a_counterpart() {
    told(Trouble::Unmatched, |good| {
        good.cache.times.truncate(20);
        good.frames.truncate(20);
    });
}

#[test]
fn vertex_order_and_seams() {
    // The rest mesh is listed backwards, and its first ring is there twice, as at a seam.
    told(Trouble::VertexOrder, |good| {
        let count = (SIDES * RINGS) as u32;
        let mut rest: Vec<DVec3> = rest_points().into_iter().rev().collect();
        rest.extend_from_slice(&rest_points()[..SIDES]);
        let surface = good.skin.surface.as_mut().unwrap();
        surface.polygons.vertices.iter_mut().for_each(|v| *v = count - 1 - *v);
        (good.skin.vertex_count, good.skin.rest) = (rest.len(), Some(rest));
    });
    // And there is no frame at rest to map by.
    refuse(Trouble::VertexOrder, &|good: &mut Good| {
        let surface = good.skin.surface.as_mut().unwrap();
        surface.polygons.vertices.iter_mut().for_each(|v| *v = (*v * 5) % (SIDES * RINGS) as u32);
        good.skin.rest = Some((0..SIDES * RINGS).map(|v| rest_points()[(v * 101) % (SIDES * RINGS)] * 0.93).collect());
    });
}

#[test]
fn triangulated_against_polygons() {
    told(Trouble::Triangulated, |good| {
        let surface = good.skin.surface.as_mut().unwrap();
        let vertices: Vec<u32> = surface.polygons.fan().into_flattened();
        surface.polygons = Polygons { counts: vec![3; vertices.len() / 3], vertices };
    });
}

#[test]
fn winding() {
    check(Trouble::Winding, |good| {
        good.cache.surface.as_mut().unwrap().flip();
        good.skin.surface.as_mut().unwrap().flip();
    });
}

#[test]
fn static_caches() {
    let findings =
        refuse(Trouble::Static, &|good: &mut Good| good.frames.iter_mut().for_each(|frame| *frame = rest_points()));
    assert!(findings.iter().any(|finding| finding.mend.contains("re-export")));
    refuse(Trouble::Static, &|good: &mut Good| good.cache.times.truncate(0));
}

#[test]
fn end_bones() {
    let add = |good: &mut Good| {
        let end = DAffine3::from_translation(DVec3::Y);
        let rest = good.skeleton.bones[1].rest * end;
        good.skeleton.bones.push(Bone { name: "tip_end".into(), parent: Some(1), rest });
        good.skeleton.poses.iter_mut().for_each(|pose| pose.globals.push(pose.globals[1] * end));
    };
    told(Trouble::EndBones, add);
    let mut broken = good();
    add(&mut broken);
    let Loaded::Examples(mended) = broken.pack(true).unwrap().loaded else { panic!("there is a skeleton") };
    assert_eq!(mended.skeleton().bone_count(), 2);
}

#[test]
fn wrong_rest_pose() {
    // The rig's rest is another pose than the skin's.
    check(Trouble::RestPose, |good| {
        for (bone, global) in good.skeleton.bones.iter_mut().zip(globals(5)) {
            bone.rest = global;
        }
    });
}

#[test]
fn a_mesh_of_another_take() {
    // The frames in a scrambled order: no offset explains them.
    refuse(Trouble::Unrelated, &|good: &mut Good| {
        good.frames = (0..FRAMES).map(|e| skinned((e * 7 + 3) % FRAMES)).collect();
    });
}

#[test]
fn a_frame_gone_astray() {
    let astray = |good: &mut Good| good.frames[9].iter_mut().for_each(|p| *p += DVec3::new(0.0, 7.0, 0.0));
    let findings = refuse(Trouble::Unmatched, &astray);
    assert!(findings.iter().any(|finding| finding.to_string().contains("frames, 9 the first")), "{findings:?}");
    let mut broken = good();
    astray(&mut broken);
    let Loaded::Examples(examples) = broken.pack(true).unwrap().loaded else { panic!("it has a skeleton") };
    assert_eq!(examples.frame_count(), FRAMES - 1);
}

#[test]
fn another_frame_rate_is_asked_about() {
    let doubled = |good: &mut Good| {
        good.frames = good.frames.iter().rev().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
        good.cache.times = (0..2 * FRAMES).map(|e| (e + 1) as f64 / 24.0).collect();
    };
    let findings = refuse(Trouble::Unrelated, &doubled);
    assert!(findings.iter().any(|finding| finding.to_string().contains("frame rate (48 frames")), "{findings:?}");
}

#[test]
fn two_bones_of_one_name_are_told() {
    told(Trouble::Remark, |good| good.skeleton.bones[1].name = "root".into());
}

#[test]
fn numbers_that_are_none_are_refused_with_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sim.pc2");
    let mut bytes = b"POINTCACHE2\0".to_vec();
    bytes.extend([1_i32, 2].map(i32::to_le_bytes).as_flattened());
    bytes.extend([0.0_f32, 1.0].map(f32::to_le_bytes).as_flattened());
    bytes.extend(2_i32.to_le_bytes());
    // Two frames of two points; the second's last coordinate is broken.
    let points = [0.0_f32, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, f32::NAN];
    bytes.extend(points.map(f32::to_le_bytes).as_flattened());
    std::fs::write(&path, bytes).unwrap();
    let mut mesh = sinew_io::read_scene(&path).unwrap().meshes.remove(0);
    assert!(mesh.frame(0).is_ok());
    let error = mesh.frame(1).unwrap_err().to_string();
    assert!(error.contains("sim.pc2: frame 1, vertex 1"), "{error}");
}

#[test]
fn the_live_rig_is_named() {
    let file = crate::support::own("char_live.usdc");
    match sinew_io::pack(&[(file.clone(), file)], &PackOptions::default()) {
        Err(PackError::Faults(findings)) => {
            let fault = findings.iter().find(|finding| finding.is_open()).unwrap();
            assert_eq!(fault.trouble, Trouble::Static);
            assert!(fault.to_string().contains("no time samples") && fault.mend.contains("re-export"), "{fault}");
        }
        other => panic!("{other:?}"),
    }
}
