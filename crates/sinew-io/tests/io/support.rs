//! Where test files are, and how results are compared.

use std::path::{Path, PathBuf};

use glam::{DAffine3, DVec3};
use sinew_examples::Examples;
use sinew_io::{Loaded, PackOptions, Packed, npz, pack};

/// A file of this crate's own test data.
pub fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/human").join(name)
}

/// A file of the shared development data (beside the project, or where `SINEW_SHARED` says), if it is there; else says
/// that it is not.
pub fn shared(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("SINEW_SHARED").map_or_else(beside, PathBuf::from).join("data").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {} is not there", path.display());
    None
}

/// The truth about the body in `human/`.
pub fn truth() -> Option<Examples> {
    match npz::read(&shared("human.npz")?) {
        Ok(Loaded::Examples(examples)) => Some(*examples),
        other => panic!("human.npz: {other:?}"),
    }
}

/// Packs one pair.
pub fn packed(skeleton: &Path, mesh: &Path, options: &PackOptions) -> Packed {
    pack(&[(skeleton.to_owned(), mesh.to_owned())], options).unwrap_or_else(|error| panic!("{error}"))
}

/// The examples in `packed`.
pub fn examples(packed: Packed) -> Examples {
    match packed.loaded {
        Loaded::Examples(examples) => *examples,
        Loaded::Sequence(_) => panic!("there is no skeleton"),
    }
}

/// The largest distance between two meshes' vertices of the same index.
pub fn farthest(a: &[DVec3], b: &[DVec3]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (*a - *b).length()).fold(0.0, f64::max)
}

/// The largest difference of any number of two transforms.
pub fn difference(a: DAffine3, b: DAffine3) -> f64 {
    a.to_cols_array().iter().zip(b.to_cols_array()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// `T_b = G_b Ĝ_b⁻¹` of the bone called `name` in frame `e`.
pub fn skinning(examples: &Examples, name: &str, e: usize) -> DAffine3 {
    let b = examples.skeleton().find(name).unwrap_or_else(|| panic!("there is no bone {name}"));
    examples.pose(e).globals[b] * examples.skeleton().bones()[b].rest.inverse()
}
