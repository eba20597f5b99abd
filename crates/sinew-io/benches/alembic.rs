//! Reading 100 frames of 55,000 vertices from Alembic, against reading the file's bytes: `cargo bench -p sinew-io`.

use std::io::Read;
use std::time::Instant;

use glam::DVec3;
use sinew_examples::Polygons;
use sinew_io::{Surface, read_scene, write_alembic};

const FRAMES: usize = 100;
const VERTICES: u32 = 55_000;

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("large.abc");
    let frame: Vec<DVec3> = (0..VERTICES).map(|v| DVec3::new(f64::from(v), 1.0, 2.0)).collect();
    let polygons = Polygons { counts: vec![3; 1], vertices: vec![0, 1, 2] };
    let times: Vec<f64> = (0..FRAMES).map(|e| e as f64 / 24.0).collect();
    let surface = Surface { polygons, uvs: None };
    write_alembic(&path, "large", &surface, &times, vec![frame; FRAMES]).expect("the file is written");
    // The best of five: the file is in the system's cache then, for both.
    let best = |run: &dyn Fn() -> f64| {
        let time = || {
            let start = Instant::now();
            let kept = run();
            (start.elapsed().as_secs_f64(), kept)
        };
        (0..5).map(|_| time().0).fold(f64::INFINITY, f64::min)
    };
    // Every number is looked at in both; the bytes come piece by piece too, into the same memory.
    let bytes = best(&|| {
        let mut file = std::fs::File::open(&path).expect("the file is opened");
        let (mut piece, mut sum) = (vec![0; 12 * VERTICES as usize], 0.0);
        while file.read_exact(&mut piece).is_ok() {
            sum += piece.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).sum::<f64>();
        }
        sum
    });
    let scene = best(&|| {
        let mut scene = read_scene(&path).expect("the file is read");
        let (mut points, mut sum) = (Vec::new(), DVec3::ZERO);
        for frame in 0..FRAMES {
            scene.meshes[0].frames.read(frame, &mut points).expect("the frame is read");
            sum += points.iter().copied().sum::<DVec3>();
        }
        sum.x
    });
    let megabytes = std::fs::metadata(&path).map_or(0.0, |data| data.len() as f64 / 1e6);
    println!("{FRAMES} frames of {VERTICES} vertices, {megabytes:.0} MB");
    println!("bytes {:.1} ms, Alembic {:.1} ms, ratio {:.2}", 1e3 * bytes, 1e3 * scene, scene / bytes);
}
