//! What sinew writes, sinew reads back.

use std::path::PathBuf;

use glam::DVec3;
use sinew_examples::Polygons;
use sinew_io::{
    GlbMesh, Surface, read_scene, write_alembic, write_glb_morphs, write_mdd, write_obj, write_pc2, write_usda,
};
use tempfile::TempDir;

/// A file in a directory that goes away with it.
pub struct Written {
    pub path: PathBuf,
    pub _directory: TempDir,
}

/// A few bent rings of quads, with texture coordinates that break at a seam.
pub fn surface() -> Surface {
    let (mut vertices, mut uvs) = (Vec::new(), Vec::new());
    for ring in 0..5_u32 {
        for side in 0..6_u32 {
            let next = (side + 1) % 6;
            vertices.extend([ring * 6 + side, ring * 6 + 6 + side, ring * 6 + 6 + next, ring * 6 + next]);
            let (u, v) = (side as f32 / 6.0, ring as f32 / 5.0);
            uvs.extend([[u, v], [u, v + 0.2], [u + 1.0 / 6.0, v + 0.2], [u + 1.0 / 6.0, v]]);
        }
    }
    Surface { polygons: Polygons { counts: vec![4; vertices.len() / 4], vertices }, uvs: Some(uvs) }
}

/// Positions in frame e, exact in f32.
pub fn points(e: usize) -> Vec<DVec3> {
    let point = |v: usize| {
        let (angle, y) = ((v % 6) as f64, (v / 6) as f64 / 4.0);
        let exact = DVec3::new(angle.cos() + 0.1 * e as f64 * y, y, angle.sin() - 0.05 * e as f64 * y * y);
        exact.as_vec3().as_dvec3()
    };
    (0..36).map(point).collect()
}

const FRAMES: usize = 5;

fn times() -> Vec<f64> {
    (0..FRAMES).map(|e| (e + 1) as f64 / 24.0).collect()
}

/// Writes the bar in the format of `ending`.
pub fn bar(ending: &str) -> Written {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("bar.{ending}"));
    let frames: Vec<Vec<DVec3>> = (0..FRAMES).map(points).collect();
    let surface = surface();
    match ending {
        "abc" => write_alembic(&path, "bar", &surface, &times(), &frames),
        "usda" => write_usda(&path, "bar", &surface, &times(), 24.0, &frames),
        "mdd" => write_mdd(&path, &times(), frames[0].len(), &frames),
        "pc2" => write_pc2(&path, 1.0, frames[0].len(), frames.iter()),
        "obj" => write_obj(&path, "bar", &surface, &frames[0]),
        "glb" => {
            let mesh = GlbMesh {
                name: "bar".into(),
                positions: points(0),
                triangles: surface.polygons.fan(),
                uvs: surface.triangle_uvs(),
                extras: None,
            };
            write_glb_morphs(&path, &mesh, &times(), &frames)
        }
        other => panic!("{other}"),
    }
    .unwrap();
    Written { path, _directory: directory }
}

/// Reads it back: the same frames at the same times, to `tolerance`.
fn check(ending: &str, tolerance: f64) {
    let written = bar(ending);
    let mut scene = read_scene(&written.path).unwrap_or_else(|error| panic!("{error}"));
    let clip = &mut scene.meshes[0];
    assert_eq!(clip.frame_count(), FRAMES);
    for e in 0..FRAMES {
        let off = crate::support::farthest(&clip.frame(e).unwrap(), &points(e));
        assert!(off <= tolerance, "{ending}, frame {e}: off by {off}");
        let time = if ending == "pc2" { clip.times[e] / 24.0 } else { clip.times[e] };
        // glTF and MDD hold times in f32.
        assert!((time - times()[e]).abs() < 1e-6, "{ending}, frame {e} is at {time}");
    }
    if let Some(found) = &clip.surface {
        let fan = |surface: &Surface| surface.polygons.fan();
        match ending {
            "glb" => assert_eq!(fan(found), fan(&surface())),
            _ => assert_eq!(found, &surface(), "polygons and texture coordinates come back"),
        }
    }
}

#[test]
fn alembic_comes_back() {
    check("abc", 0.0);
}

#[test]
fn usda_comes_back() {
    check("usda", 0.0);
}

#[test]
fn point_caches_come_back() {
    check("mdd", 0.0);
    check("pc2", 0.0);
}

#[test]
fn morph_targets_come_back() {
    // Displacements are f32: a rounding of numbers near one.
    check("glb", 1e-7);
}

#[test]
fn unevenly_spaced_times_survive_alembic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("uneven.abc");
    let times = [0.1, 0.2, 0.5];
    let frames: Vec<Vec<DVec3>> = (0..3).map(points).collect();
    write_alembic(&path, "bar", &surface(), &times, &frames).unwrap();
    assert_eq!(read_scene(&path).unwrap().meshes[0].times, times);
}

/// Frames are read one by one from the file: a large cache takes about as long as its bytes.
#[test]
fn alembic_is_read_at_the_speed_of_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.abc");
    let count = 55_000;
    let frame: Vec<DVec3> = (0..count).map(|v| DVec3::new(f64::from(v), 1.0, 2.0)).collect();
    let polygons = Polygons { counts: vec![3; 1], vertices: vec![0, 1, 2] };
    let frames = vec![frame; 20];
    let times: Vec<f64> = (0..20).map(|e| f64::from(e) / 24.0).collect();
    write_alembic(&path, "large", &Surface { polygons, uvs: None }, &times, &frames).unwrap();
    drop(frames);
    let best = |mut run: Box<dyn FnMut()>| {
        let time = |run: &mut Box<dyn FnMut()>| {
            let start = std::time::Instant::now();
            run();
            start.elapsed().as_secs_f64()
        };
        (0..5).map(|_| time(&mut run)).fold(f64::INFINITY, f64::min)
    };
    let file = path.clone();
    let bytes = best(Box::new(move || drop(std::fs::read(&file).unwrap())));
    let scene = best(Box::new(move || {
        let mut scene = read_scene(&path).unwrap();
        let mut points = Vec::new();
        for frame in 0..20 {
            scene.meshes[0].frames.read(frame, &mut points).unwrap();
            assert_eq!(points.len(), count as usize);
        }
    }));
    eprintln!("20 frames of {count} vertices: {:.2} ms, their bytes {:.2} ms", scene * 1e3, bytes * 1e3);
    // Conversion to f64 writes twice what it reads; the rest is room for a busy machine.
    assert!(scene < 6.0 * bytes + 0.05, "{scene} s against {bytes} s");
}
