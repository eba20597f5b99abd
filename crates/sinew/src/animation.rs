//! A clip of any source on a model's skeleton.

use std::path::Path;

use glam::DAffine3;
use sinew_examples::Bone;
use sinew_io::{Clock, Convention, Loaded, Retargeted, SkeletonClip, Space};
use sinew_runtime::Model;

use crate::load;

/// The clip at `path` (examples, or any file with a skeleton's animation) as poses of the model, with a word on stderr
/// about what did not match.
pub fn load(path: &Path, model: &Model) -> anyhow::Result<Retargeted> {
    let clip = if load::is_npz(path) { from_examples(path)? } else { from_scene(path)? };
    let clip =
        sinew_io::retarget(&clip, &bones(model)).map_err(|what| anyhow::anyhow!("{}: {what}", path.display()))?;
    report(path, &clip);
    Ok(clip)
}

/// Frames a second of a clip: by its times.
pub fn fps(times: &[f64]) -> f64 {
    match times {
        [first, .., last] if last > first => (times.len() - 1) as f64 / (last - first),
        _ => 24.0,
    }
}

/// The model's bones as the nouns of examples.
pub fn bones(model: &Model) -> Vec<Bone> {
    let bone = |bone: &sinew_runtime::Bone| Bone {
        name: bone.name.clone(),
        parent: bone.parent,
        rest: DAffine3::from_cols_array(&bone.rest.to_cols_array().map(f64::from)),
    };
    model.character.bones.iter().map(bone).collect()
}

fn from_examples(path: &Path) -> anyhow::Result<SkeletonClip> {
    let Loaded::Examples(examples) = load::any(path)? else {
        anyhow::bail!("{}: there is no skeleton in it", path.display())
    };
    let fps = examples.fps().unwrap_or(24.0);
    Ok(SkeletonClip {
        name: path.display().to_string(),
        bones: examples.skeleton().bones().to_vec(),
        times: (0..examples.frame_count()).map(|e| e as f64 / fps).collect(),
        poses: (0..examples.frame_count()).map(|e| examples.pose(e).clone()).collect(),
        clock: Clock::FromStart,
        convention: Convention::Declared,
    })
}

fn from_scene(path: &Path) -> anyhow::Result<SkeletonClip> {
    let scene = sinew_io::read_scene(path)?;
    let moving = scene.skeletons.into_iter().max_by_key(|skeleton| (skeleton.poses.len().min(2), skeleton.bones.len()));
    moving.ok_or_else(|| anyhow::anyhow!("{}: there is no skeleton in it", path.display()))
}

fn report(path: &Path, clip: &Retargeted) {
    let path = path.display();
    if !clip.missing.is_empty() {
        let (count, list) = (clip.missing.len(), clip.missing.join(", "));
        eprintln!("note: {path}: {count} bones of the model are not in the clip and follow their parents: {list}");
    }
    if !clip.extra.is_empty() {
        let (count, list) = (clip.extra.len(), clip.extra.join(", "));
        eprintln!("note: {path}: {count} bones of the clip are not in the model: {list}");
    }
    if clip.space != Space::IDENTITY {
        eprintln!("note: {path}: its units or axes were changed to the model's (a factor of {})", clip.space.scale);
    }
    // A tenth of the skeleton's size: another character, not another export.
    if clip.rest_difference > 0.1 {
        let percent = 100.0 * clip.rest_difference;
        eprintln!("note: {path}: its rest pose differs from the model's by {percent:.0} % of the skeleton's size");
    }
}
