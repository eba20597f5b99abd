//! An error says where: the byte of a binary file, the line of a text.

use std::path::PathBuf;

use sinew_io::read_scene;
use tempfile::TempDir;

use crate::seed;

/// The seed with `change` made to its bytes, in a directory that goes away with it.
fn broken(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> (TempDir, PathBuf) {
    let mut bytes = std::fs::read(seed(name)).unwrap();
    change(&mut bytes);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(PathBuf::from(name).file_name().unwrap());
    std::fs::write(&path, bytes).unwrap();
    (directory, path)
}

/// Checks that the error of the changed seed has its name and all of `words`.
fn check(name: &str, words: &[&str], change: impl FnOnce(&mut Vec<u8>)) {
    let (_directory, path) = broken(name, change);
    let error = read_scene(&path).unwrap_err().to_string();
    let file = path.file_name().unwrap().to_str().unwrap();
    for word in [&[file], words].concat() {
        assert!(error.contains(word), "`{error}` does not say `{word}`");
    }
}

/// Replaces the first `from` by `to`.
fn replace(bytes: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(std::mem::take(bytes)).unwrap();
    assert!(text.contains(from), "{text}");
    *bytes = text.replacen(from, to, 1).into_bytes();
}

#[test]
fn alembic_names_the_byte() {
    let length = std::fs::read(seed("alembic/bar.abc")).unwrap().len() as u64;
    // The root group's position, beyond the file.
    check("alembic/bar.abc", &[&format!("at byte {}", length + 5)], |bytes| {
        bytes[8..16].copy_from_slice(&(length + 5).to_le_bytes());
    });
}

#[test]
fn point_caches_name_the_byte() {
    check("mdd/bar.mdd", &["at byte 0", "cut short"], |bytes| bytes.truncate(599));
    check("pc2/bar.pc2", &["at byte 20"], |bytes| bytes[24..28].fill(0xff));
}

#[test]
fn usd_names_the_byte_or_the_line() {
    // The table of contents' place, in the header.
    check("usd/bar.usdc", &["at byte "], |bytes| bytes[16..24].fill(0x7f));
    check("usd/bar.usda", &["line "], |bytes| replace(bytes, "upAxis = \"Y\"", "upAxis = = \"Y\""));
}

#[test]
fn fbx_names_the_byte_or_the_line() {
    check("fbx/bar.fbx", &["byte "], |bytes| bytes.truncate(2000));
    // A vertex that is not there: the last of a polygon, which FBX writes as minus one minus the vertex, and one before it.
    for list in [",7,11,8,-50", ",7,11,80,-5"] {
        check("fbx/text.fbx", &["line 35", "not there"], |bytes| replace(bytes, ",7,11,8,-5", list));
    }
    check("fbx/text.fbx", &["line "], |bytes| replace(bytes, "KeyTime: *4 {", "KeyTime: *4 {{{"));
}

#[test]
fn gltf_names_the_byte_or_the_line() {
    check("gltf/skin.glb", &["at byte "], |bytes| bytes.truncate(1500));
    check("gltf/skin.glb", &["at byte ", "accessor 0"], |bytes| {
        let at = bytes.windows(9).position(|window| window == b"\"count\":1").unwrap();
        bytes[at + 8] = b'9';
    });
    // The binary chunk of the seed begins at byte 1620; 144 bytes on are 48 indices of four bytes, 336 on the joints.
    check("gltf/skin.glb", &["at byte 1952 (accessor 1, element 47)", "names vertex 32639 of 12"], |bytes| {
        bytes[1952..1954].fill(0x7f);
    });
    check("gltf/skin.glb", &["at byte 1960 (accessor 2, element 1)", "names joint 9 of 2"], |bytes| bytes[1960] = 9);
    check("gltf/inside.gltf", &["line 1"], |bytes| replace(bytes, "\"nodes\": [", "\"nodes\": [,"));
}

#[test]
fn text_names_the_line() {
    check("obj/bar.obj", &["line 2:", "`x`"], |bytes| replace(bytes, "v -0.250000", "v x"));
    check("bvh/bar.bvh", &["(line 4)", "`a`"], |bytes| replace(bytes, "OFFSET 0 0 0", "OFFSET a 0 0"));
}
