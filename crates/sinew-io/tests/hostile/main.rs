//! Corrupt files are errors that name the file: never a panic, a hang or a huge allocation. Thousands of damages of each
//! seed of the fuzz corpus, deterministic, in every test run; `SINEW_FUZZ=100` for a hundred times as many.

mod damage;
mod errors;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sinew_io::{FileError, Scene, npz, read_scene};

use damage::Damages;

/// The system's allocator, which remembers the largest request.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's own promise.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller's own promise.
        unsafe { System.realloc(memory, layout, size) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

/// No single allocation for a file below half a megabyte may be larger: packed tables may unfold a thousandfold, and the
/// seeds have a few kilobytes.
const LARGEST_ALLOCATION: usize = 64 << 20;

/// Nor may reading it take longer, even on a busy machine; it takes a millisecond.
const LONGEST: Duration = Duration::from_secs(10);

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

/// One damaged file: a scene or an error that names the file, soon and without much memory.
fn attempt(path: &Path, bytes: &[u8], how: &str, read: impl Fn(&Path) -> Result<(), FileError>) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    std::fs::write(path, bytes).unwrap();
    if let Some(copy) = std::env::var_os("SINEW_FUZZ_KEEP") {
        // What ends the program is still there afterwards.
        std::fs::write(Path::new(&copy).join(name), bytes).unwrap();
    }
    // One at a time, so that the largest allocation is this file's.
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    LARGEST.store(0, Ordering::Relaxed);
    let start = Instant::now();
    let result = read(path);
    let (time, largest) = (start.elapsed(), LARGEST.load(Ordering::Relaxed));
    drop(alone);
    assert!(time < LONGEST, "{name}, {how}: took {time:?}");
    assert!(largest < LARGEST_ALLOCATION, "{name}, {how}: {largest} bytes at once");
    if let Err(error) = &result {
        assert!(error.to_string().contains(name), "{name}, {how}: `{error}` does not name the file");
    }
    result.is_ok()
}

/// Damages a file `count` times.
fn check(source: &Path, count: usize, read: impl Fn(&Path) -> Result<(), FileError>) {
    quieten_readers();
    let bytes = std::fs::read(source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(source.file_name().unwrap());
    assert!(attempt(&path, &bytes, "as it is", &read), "{}: the seed itself is refused", source.display());
    assert!(!attempt(&path, &[], "empty", &read), "{}: an empty file is accepted", source.display());
    let factor: usize = std::env::var("SINEW_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for (damaged, how) in Damages::new(&bytes).take(count * factor) {
        attempt(&path, &damaged, &how, &read);
    }
}

/// Readers are threads whose panics are errors; they need not be shown a thousand times.
fn quieten_readers() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some(sinew_io::READER_THREAD) {
                shown(info);
            }
        }));
    });
}

/// A seed of the fuzz corpus.
fn seed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
}

/// Damages every seed of a target.
fn check_target(target: &str, count: usize) {
    let mut seeds: Vec<PathBuf> = std::fs::read_dir(seed(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty());
    for seed in seeds {
        check(&seed, count, |path| read_all(path).map(drop));
    }
}

/// A file of a real exporter.
fn check_real(name: &str, count: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/human").join(name);
    check(&path, count, |path| read_all(path).map(drop));
}

#[test]
fn alembic() {
    check_target("alembic", 2000);
}

#[test]
fn bvh() {
    check_target("bvh", 2000);
    check_real("skeleton.bvh", 30);
}

#[test]
fn fbx() {
    check_target("fbx", 1000);
    check_real("skeleton.fbx", 16);
}

#[test]
fn gltf() {
    check_target("gltf", 800);
    check_real("char.glb", 40);
}

#[test]
fn mdd() {
    check_target("mdd", 2000);
}

#[test]
fn obj() {
    check_target("obj", 2000);
}

#[test]
fn pc2() {
    check_target("pc2", 2000);
}

#[test]
fn usd() {
    check_target("usd", 700);
    check_real("char_live.usdc", 50);
}

#[test]
fn npz() {
    check(&seed("npz/bar.npz"), 2000, |path| npz::read(path).map(drop));
    check(&seed("npz/array.npy"), 2000, |path| {
        let bytes = std::fs::read(path).unwrap();
        npz::Array::from_npy(&bytes).map(drop).map_err(|what| FileError::format(path, what.to_string()))
    });
}
