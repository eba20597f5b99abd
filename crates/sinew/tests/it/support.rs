//! What the tests share: the program as a user runs it, the data sets, and models fitted and posed in a line.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use glam::{Affine3A, DVec3, Vec3};
use sinew_examples::{Examples, ExamplesParts, datasets};
use sinew_fit::{Fitted, Method, Quiet, Training, fit};
use sinew_runtime::{Evaluator, Model};

/// Runs the program in `folder`; `words` are separated by spaces.
pub fn sinew(folder: &Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinew")).current_dir(folder).args(words.split(' ')).output().unwrap()
}

/// Runs and expects success; gives stdout.
pub fn ok(folder: &Path, words: &str) -> String {
    let output = sinew(folder, words);
    assert!(output.status.success(), "sinew {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs and expects exit code 2; gives stderr.
pub fn fails(folder: &Path, words: &str) -> String {
    let output = sinew(folder, words);
    assert_eq!(output.status.code(), Some(2), "sinew {words} should have failed");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!error.contains("panicked"), "{error}");
    error
}

/// What the program wrote into `folder` as JSON.
pub fn json(folder: &Path, file: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap()
}

/// A built-in data set.
pub fn dataset(name: &str) -> Examples {
    datasets::by_name(name).expect("a built-in data set").make()
}

/// The path of a data set that is not part of the project, where it is there.
pub fn shared_path(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(file);
    if !path.exists() {
        eprintln!("SKIPPED: {file} is not there");
        return None;
    }
    Some(path)
}

/// A data set that is not part of the project, where it is there.
pub fn shared(file: &str) -> Option<Examples> {
    let path = shared_path(file)?;
    let Ok(sinew_io::Loaded::Examples(examples)) = sinew_io::npz::read(&path) else { panic!("{file} holds examples") };
    Some(*examples)
}

/// The parts of `examples`, to change some and put together again.
pub fn parts(examples: &Examples) -> ExamplesParts {
    ExamplesParts {
        mesh: examples.mesh().clone(),
        bones: examples.skeleton().bones().to_vec(),
        poses: (0..examples.frame_count()).map(|e| examples.pose(e).clone()).collect(),
        frames: (0..examples.frame_count()).map(|e| examples.vertices(e).to_vec()).collect(),
        split: Some(examples.split().clone()),
        influences: None,
        pose_weights: None,
        fps: examples.fps(),
    }
}

/// A method with its defaults.
pub fn method(name: &str) -> Method {
    Method::by_name(name).unwrap()
}

/// `method` on the training frames.
pub fn fitted(examples: &Examples, method: &Method) -> Fitted {
    fit(&Training::new(examples, &examples.split().train).unwrap(), method, &Quiet).unwrap()
}

/// A frame's pose as the run time takes it, (J).
pub fn pose(examples: &Examples, e: usize) -> Vec<Affine3A> {
    examples.pose(e).globals.iter().map(|&g| sinew_fit::to_model::transform(g)).collect()
}

/// The model's vertices in a pose, (V).
pub fn evaluate(model: &Model, pose: &[Affine3A]) -> Vec<Vec3> {
    let mut out = vec![[0.0; 3]; model.character.vertex_count()];
    Evaluator::new(model).positions(pose, &mut out);
    out.into_iter().map(Vec3::from).collect()
}

/// The model's vertices in a pose, to compare with examples, (V).
pub fn predicted(model: &Model, pose: &[Affine3A]) -> Vec<DVec3> {
    evaluate(model, pose).into_iter().map(Vec3::as_dvec3).collect()
}
