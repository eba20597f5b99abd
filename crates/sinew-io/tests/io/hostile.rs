//! Corrupt files are errors that name the file: cut short, with flipped bits, with absurd sizes. Deterministic, and
//! small enough to run every time; the same corpus serves longer fuzzing.

use std::path::{Path, PathBuf};

use sinew_io::{FileError, Scene, read_scene};

use crate::support::own;
use crate::written::{Written, bar};

/// A pseudo-random sequence (splitmix64), the same on every machine.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Reads the file and every frame of it.
fn read_all(path: &Path) -> Result<Scene, FileError> {
    let mut scene = read_scene(path)?;
    for mesh in &mut scene.meshes {
        for frame in 0..mesh.frame_count().min(16) {
            mesh.frame(frame)?;
        }
    }
    Ok(scene)
}

/// Damages `bytes` in many ways; every result is a scene or an error that names the file, never a panic.
fn check(name: &str, bytes: &[u8], cuts: usize, flips: usize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    let mut sequence = Sequence(7);
    let attempt = |damaged: &[u8], must_fail: bool, how: &str| {
        std::fs::write(&path, damaged).unwrap();
        if let Some(copy) = std::env::var_os("SINEW_FUZZ_KEEP") {
            // What ends the program is still there afterwards.
            std::fs::write(Path::new(&copy).join(name), damaged).unwrap();
        }
        match read_all(&path) {
            Ok(_) => assert!(!must_fail, "{name}, {how}: was accepted"),
            Err(error) => assert!(error.to_string().contains(name), "{name}, {how}: `{error}` does not name the file"),
        }
    };
    // For a longer run: SINEW_FUZZ=100 multiplies the attempts.
    let factor: usize = std::env::var("SINEW_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (cuts, flips) = (cuts * factor, flips * factor);
    attempt(bytes, false, "as it is");
    attempt(&[], true, "empty");
    for k in 0..cuts {
        let length = if k < 24 { k } else { sequence.below(bytes.len()) };
        attempt(&bytes[..length.min(bytes.len())], false, &format!("cut to {length} bytes"));
    }
    for k in 0..flips {
        let mut damaged = bytes.to_vec();
        for _ in 0..=(k % 3) {
            // Headers and tables are where sizes stand: half of the flips go to the first and last kilobyte.
            let place = match k % 4 {
                0 => sequence.below(bytes.len().min(1024)),
                1 => bytes.len() - 1 - sequence.below(bytes.len().min(1024)),
                _ => sequence.below(bytes.len()),
            };
            damaged[place] ^= 1 << sequence.below(8);
        }
        attempt(&damaged, false, &format!("flip {k}"));
    }
    for k in 0..flips / 2 {
        // An absurd size or offset, of four or eight bytes.
        let mut damaged = bytes.to_vec();
        let place = sequence.below(bytes.len());
        let width = if k % 2 == 0 { 4 } else { 8 };
        for byte in damaged.iter_mut().skip(place).take(width) {
            *byte = if k % 3 == 0 { 0x7f } else { 0xff };
        }
        attempt(&damaged, false, &format!("absurd size {k}"));
    }
}

fn check_written(ending: &str) {
    let Written { path, _directory } = bar(ending);
    check(&format!("bar.{ending}"), &std::fs::read(path).unwrap(), 60, 200);
}

fn check_own(name: &str, cuts: usize, flips: usize) {
    let path: PathBuf = own(name);
    check(Path::new(name).file_name().unwrap().to_str().unwrap(), &std::fs::read(path).unwrap(), cuts, flips);
}

#[test]
fn alembic() {
    check_written("abc");
}

#[test]
fn mdd() {
    check_written("mdd");
}

#[test]
fn pc2() {
    check_written("pc2");
}

#[test]
fn usda() {
    check_written("usda");
}

#[test]
fn gltf_morphs() {
    check_written("glb");
}

#[test]
fn obj() {
    check_written("obj");
}

#[test]
fn gltf_skin() {
    check_own("char.glb", 30, 60);
}

#[test]
fn fbx() {
    check_own("skeleton.fbx", 20, 24);
}

#[test]
fn usdc() {
    check_own("char_live.usdc", 30, 60);
}

#[test]
fn bvh() {
    check_own("skeleton.bvh", 30, 40);
}

#[test]
fn errors_name_the_offset() {
    let Written { path, _directory } = bar("abc");
    let bytes = std::fs::read(&path).unwrap();
    let mut damaged = bytes.clone();
    // The root group's position, beyond the file.
    damaged[8..16].copy_from_slice(&(bytes.len() as u64 + 5).to_le_bytes());
    std::fs::write(&path, &damaged).unwrap();
    let error = read_scene(&path).unwrap_err().to_string();
    assert!(error.contains("bar.abc") && error.contains(&format!("at byte {}", bytes.len() + 5)), "{error}");
}
