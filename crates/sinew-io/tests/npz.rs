//! `examples.npz`: what is written comes back; damaged and hostile files are errors.

use std::path::PathBuf;

use glam::{DAffine3, DQuat, DVec3};
use sinew_examples::{Bone, Examples, ExamplesParts, Mesh, Polygons, Pose, Split};
use sinew_io::{Loaded, PackOptions, npz, pack};

fn examples() -> Examples {
    let rest: Vec<DVec3> = vec![DVec3::ZERO, DVec3::X, DVec3::new(1.0, 1.0, 0.0), DVec3::Y];
    let polygons = Polygons { counts: vec![4], vertices: vec![0, 1, 2, 3] };
    let uvs = vec![[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]];
    let mesh = Mesh::new(rest.clone(), polygons.fan(), Some(polygons), Some(uvs)).unwrap();
    let bend = DAffine3::from_rotation_translation(DQuat::from_rotation_z(0.5), DVec3::new(0.25, 0.5, -2.0));
    // The file holds f32; so do the examples that are compared.
    let bend = DAffine3::from_cols_array(&bend.to_cols_array().map(|c| f64::from(c as f32)));
    Examples::new(ExamplesParts {
        mesh,
        bones: vec![
            Bone { name: "Hüfte".into(), parent: None, rest: DAffine3::IDENTITY },
            Bone { name: "knee".into(), parent: Some(0), rest: DAffine3::from_translation(DVec3::X) },
        ],
        poses: vec![Pose { globals: vec![DAffine3::IDENTITY, bend] }, Pose { globals: vec![bend, bend] }],
        frames: vec![rest.clone(), rest],
        split: Some(Split { train: vec![0], test: vec![1] }),
        influences: Some(vec![1.0, 0.0, 0.5, 0.5, 0.25, 0.75, 0.0, 1.0]),
        pose_weights: Some(vec![1.0, 2.0]),
        fps: Some(30.0),
    })
    .unwrap()
}

fn written() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("examples.npz");
    npz::write(&path, &examples()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (directory, path, bytes)
}

#[test]
fn what_is_written_comes_back_and_twice_the_same_bytes() {
    let (_directory, path, bytes) = written();
    let Loaded::Examples(back) = npz::read(&path).unwrap() else { panic!("the skeleton was lost") };
    assert_eq!(*back, examples());
    npz::write(&path, &back).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_file_without_bones_is_a_mesh_sequence() {
    let (_directory, path, _) = written();
    npz::write_sequence(&path, examples().sequence()).unwrap();
    let Loaded::Sequence(back) = npz::read(&path).unwrap() else { panic!("a skeleton out of nothing") };
    assert_eq!(*back, *examples().sequence());
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let (directory, path, bytes) = written();
    let failed = sinew_io::write_atomically(&path, |_| Err(std::io::Error::other("the disk is full")));
    assert!(failed.unwrap_err().to_string().contains("the disk is full"));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn truncated_files_are_errors() {
    let (_directory, path, bytes) = written();
    for length in (0..bytes.len()).step_by(23) {
        let error = npz::read_bytes(&path, &bytes[..length]).unwrap_err().to_string();
        assert!(error.contains("examples.npz"), "{error}");
    }
}

#[test]
fn flipped_bits_never_panic() {
    let (_directory, path, bytes) = written();
    for position in (0..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1 << (position % 8);
        // A time stamp may flip unnoticed; what matters is that nothing panics or hangs.
        let _ = npz::read_bytes(&path, &damaged);
    }
}

#[test]
fn a_header_that_claims_terabytes_is_refused_at_once() {
    for shape in ["(1000000000000, 3)", "(18446744073709551615, 3)", "(4611686018427387904, 4, 3)"] {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        assert!(npz::Array::from_npy(&bytes).is_err(), "{shape}");
    }
    // Zero-width strings take no bytes, however many there are.
    let header = "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }\n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    assert!(npz::Array::from_npy(&bytes).is_err());
}

#[test]
fn wrong_arrays_are_named() {
    let (_directory, path, _) = written();
    let mut arrays = npz::read_arrays(&path).unwrap();
    let mut check = |key: &str, array: Option<npz::Array>, message: &str| {
        let old = arrays.remove(key).unwrap();
        arrays.extend(array.map(|array| (key.to_string(), array)));
        npz::write_arrays(&path, &arrays).unwrap();
        let error = npz::read(&path).unwrap_err().to_string();
        assert!(error.contains(message), "`{error}` does not say `{message}`");
        arrays.insert(key.into(), old);
    };
    check("rest_vertices", None, "there is no array `rest_vertices`");
    check("faces", Some(npz::Array::f32(&[2, 3], vec![0.5; 6])), "`faces` must hold whole numbers");
    check("faces", Some(npz::Array::int(&[2, 3], vec![0, 1, 2, 0, 2, -1])), "`faces` holds -1");
    check("vertices", Some(npz::Array::f32(&[2, 3, 3], vec![0.0; 18])), "has 3 vertices, the rest mesh 4");
    check("bones", Some(npz::Array::f32(&[1, 2, 4, 4], vec![0.0; 32])), "`bones` has shape [1, 2, 4, 4]");
    check("bone_names", Some(npz::Array::int(&[2], vec![0, 1])), "`bone_names` is not an array of strings");
    check("train", Some(npz::Array::int(&[1], vec![-1])), "train names frame -1");
    check("test", Some(npz::Array::int(&[1], vec![2])), "test names frame 2");
    check("fps", Some(npz::Array::f32(&[], vec![0.0])), "fps is 0; it must be a positive number");
    let mask = npz::Array { shape: vec![3], values: npz::Values::Bool(vec![true; 3]) };
    check("train", Some(mask), "`train` is a mask of 3 entries for 2 frames");
    // Translations in the last row: what a tool with row vectors writes.
    let rows: Vec<f32> =
        (0..32).map(|k| [1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0., 2., 0., 0., 1.][k % 16]).collect();
    check("rest_bones", Some(npz::Array::f32(&[2, 4, 4], rows)), "whose last row is [2.0, 0.0, 0.0, 1.0]");
}

#[test]
fn a_mask_names_frames_and_bytes_name_bones() {
    let (_directory, path, _) = written();
    let mut arrays = npz::read_arrays(&path).unwrap();
    let mask = |values: Vec<bool>| npz::Array { shape: vec![2], values: npz::Values::Bool(values) };
    arrays.insert("train".into(), mask(vec![false, true]));
    arrays.insert("test".into(), mask(vec![true, false]));
    npz::write_arrays(&path, &arrays).unwrap();
    let Loaded::Examples(back) = npz::read(&path).unwrap() else { panic!("the skeleton was lost") };
    assert_eq!(*back.split(), Split { train: vec![1], test: vec![0] });

    let names = b"\x93NUMPY\x01\x00\x3f\x00{'descr': '|S4', 'fortran_order': False, 'shape': (2,), }     \nhip\0knee";
    let names = npz::Array::from_npy(names).unwrap();
    assert_eq!(names.values, npz::Values::Text(vec!["hip".into(), "knee".into()]));
}

#[test]
fn arrays_that_are_not_of_the_schema_are_left_alone_and_named_where_one_is_missing() {
    let (_directory, path, _) = written();
    let mut archive =
        zip::ZipWriter::new_append(std::fs::File::options().read(true).write(true).open(&path).unwrap()).unwrap();
    archive.start_file("notes.npy", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut archive, b"not even an array").unwrap();
    archive.finish().unwrap();
    assert!(npz::read(&path).is_ok());

    let points = npz::Array::f32(&[1, 3], vec![0.0; 3]);
    npz::write_arrays(&path, &[("points".to_string(), points)].into()).unwrap();
    let error = npz::read(&path).unwrap_err().to_string();
    assert!(error.contains("there is no array `rest_vertices`; is it one of points?"), "{error}");
}

#[test]
fn a_sequence_in_one_file_and_its_skeleton_in_another_are_packed() {
    let (_directory, path, _) = written();
    let bare = path.with_file_name("bare.npz");
    npz::write_sequence(&bare, examples().sequence()).unwrap();
    // Frames that stay at rest are refused; these move with the bones.
    let mut arrays = npz::read_arrays(&bare).unwrap();
    let moved = examples().pose(1).globals[0];
    let mut frames: Vec<DVec3> = examples().mesh().vertices().to_vec();
    frames.extend(examples().mesh().vertices().iter().map(|&v| moved.transform_point3(v)));
    let flat = frames.iter().flat_map(|v| v.to_array()).map(|c| c as f32).collect();
    arrays.insert("vertices".into(), npz::Array::f32(&[2, 4, 3], flat));
    npz::write_arrays(&bare, &arrays).unwrap();
    let packed = pack(&[(path, bare.clone())], &PackOptions::default()).unwrap();
    let Loaded::Examples(packed) = packed.loaded else { panic!("the skeleton was lost") };
    let Loaded::Sequence(sequence) = npz::read(&bare).unwrap() else { panic!("a skeleton out of nothing") };
    assert_eq!(packed.mesh(), sequence.mesh(), "polygons and texture coordinates stay");
    assert_eq!(packed.sequence().frames(), sequence.frames());
    assert_eq!(packed.skeleton(), examples().skeleton());
    assert_eq!(packed.pose(1), examples().pose(1));
}
