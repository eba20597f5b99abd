//! The dependencies between the crates are those that ARCHITECTURE.md allows, and no others.

use std::collections::BTreeSet;
use std::path::Path;

/// The crates of the project that each crate may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("sinew-examples", &[]),
    ("sinew-runtime", &[]),
    ("sinew-draw", &[]),
    ("sinew-linalg", &[]),
    ("sinew-bench", &["sinew-runtime"]),
    ("sinew-measure", &["sinew-examples"]),
    ("sinew-fit", &["sinew-examples", "sinew-linalg", "sinew-runtime"]),
    ("sinew-io", &["sinew-examples", "sinew-runtime"]),
    ("sinew-gpu", &["sinew-runtime"]),
    (
        "sinew",
        &[
            "sinew-bench",
            "sinew-draw",
            "sinew-examples",
            "sinew-fit",
            "sinew-gpu",
            "sinew-io",
            "sinew-measure",
            "sinew-runtime",
        ],
    ),
];

/// The project's crates among the `[dependencies]` of a manifest (not those for tests and benches).
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let after = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = after.split("\n[").next().unwrap_or_default();
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_string();
    section.lines().map(name).filter(|name| name == "sinew" || name.starts_with("sinew-")).collect()
}

#[test]
fn no_crate_knows_more_than_it_may() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let allowed = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("say in ALLOWED what the new crate {name} may know"));
        for dependency in dependencies(&manifest) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not know {dependency}");
        }
        found.insert(name);
    }
    assert_eq!(found.len(), ALLOWED.len(), "a crate in ALLOWED is gone");
}

#[test]
fn the_reader_of_manifests_sees_what_is_there() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nglam = \"1\"\nsinew-fit.workspace = true\n\n[dev-dependencies]\nsinew-io.workspace = true\n";
    assert_eq!(dependencies(manifest), BTreeSet::from(["sinew-fit".to_string()]));
}
