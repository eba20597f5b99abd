//! What is in the files of other tools, and whether a mesh follows a skeleton.

use std::path::{Path, PathBuf};

use sinew_io::{Finding, MeshClip, PackOptions, Scene, ScenePair, SkeletonClip, read_scene};

use super::Findings;
use crate::load;

/// What one file holds.
pub(super) fn inspect(path: &Path) -> anyhow::Result<Findings> {
    let scene = read_scene(path)?;
    let mut rows = vec![("kind".into(), kind(&scene).into())];
    rows.extend(
        scene.skeletons.iter().map(|skeleton| (format!("skeleton `{}`", skeleton.name), of_skeleton(skeleton))),
    );
    rows.extend(scene.meshes.iter().map(|mesh| (format!("mesh `{}`", mesh.name), of_mesh(mesh))));
    let mut notices = scene.remarks.clone();
    let still = |mesh: &MeshClip| mesh.times.len() < 2;
    if scene.skeletons.is_empty() && scene.meshes.iter().all(still) {
        notices.push("nothing moves in it".into());
    }
    if is_gltf(path) && plays_by_skin(&scene) {
        notices.push(
            "its mesh moves by its skin alone: any engine plays it, but there is nothing to learn from it beyond its weights"
                .into(),
        );
    }
    Ok(Findings { rows, notices })
}

fn is_gltf(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("glb") || ending.eq_ignore_ascii_case("gltf"))
}

/// Whether a skeleton moves, and meshes only with it.
fn plays_by_skin(scene: &Scene) -> bool {
    let moving = scene.skeletons.iter().any(|skeleton| skeleton.times.len() > 1);
    let carried = |mesh: &MeshClip| mesh.skin.is_some() && mesh.times.len() < 2;
    moving && !scene.meshes.is_empty() && scene.meshes.iter().all(carried)
}

fn kind(scene: &Scene) -> &'static str {
    match (scene.skeletons.is_empty(), scene.meshes.is_empty()) {
        (false, false) => "skeleton and mesh",
        (false, true) => "skeleton",
        (true, false) => "mesh",
        (true, true) => "nothing",
    }
}

fn of_skeleton(skeleton: &SkeletonClip) -> String {
    format!("{} bones, {}", skeleton.bones.len(), frames(&skeleton.times))
}

fn of_mesh(mesh: &MeshClip) -> String {
    let faces = match &mesh.surface {
        Some(surface) if surface.is_triangulated() => format!("{} triangles", surface.polygons.counts.len()),
        Some(surface) => format!("{} polygons", surface.polygons.counts.len()),
        None => "no faces".into(),
    };
    let uvs =
        if mesh.surface.as_ref().is_some_and(|surface| surface.uvs.is_some()) { ", texture coordinates" } else { "" };
    let skin = if mesh.skin.is_some() { ", skinned" } else { "" };
    format!("{} vertices, {faces}{uvs}{skin}, {}", mesh.vertex_count, frames(&mesh.times))
}

fn frames(times: &[f64]) -> String {
    match times {
        [] | [_] => "still".into(),
        [first, .., last] => format!("{} frames from {first:.3} to {last:.3}", times.len()),
    }
}

/// Which of the files go together: the first with a skeleton, with each that has a moving mesh.
pub(super) fn pairs(files: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let scenes: Vec<(&PathBuf, Scene)> = files
        .iter()
        .filter_map(|path| Some((path, read_scene(path).ok()?)))
        // Examples are complete; a bare sequence may belong to another file's skeleton.
        .filter(|(path, scene)| !load::is_npz(path) || scene.skeletons.is_empty())
        .collect();
    let Some((skeleton, of_skeleton)) = scenes.iter().find(|(_, scene)| !scene.skeletons.is_empty()) else {
        return Vec::new();
    };
    let mut meshes: Vec<&PathBuf> = scenes
        .iter()
        .filter(|(_, scene)| scene.meshes.iter().any(|mesh| mesh.times.len() > 1))
        .map(|(path, _)| *path)
        .collect();
    // A skinned mesh that never moves is worth a word when nothing else does. In a glTF file of its own that is what an
    // exported character looks like; in other formats a live rig is often written so by mistake.
    let alone = scenes.len() == 1 && is_gltf(skeleton) && plays_by_skin(of_skeleton);
    if meshes.is_empty() && !of_skeleton.meshes.is_empty() && !alone {
        meshes.push(skeleton);
    }
    meshes.into_iter().map(|mesh| ((*skeleton).clone(), mesh.clone())).collect()
}

/// What `pack` would find.
pub(super) fn diagnose(skeleton: &Path, mesh: &Path) -> anyhow::Result<Vec<Finding>> {
    let pair = ScenePair {
        skeleton: read_scene(skeleton)?,
        mesh: (skeleton != mesh).then(|| read_scene(mesh)).transpose()?,
        topology: None,
    };
    Ok(sinew_io::diagnose(pair, &PackOptions::default())?)
}

/// A finding for machines.
pub(super) fn to_json(finding: &Finding) -> serde_json::Value {
    serde_json::json!({
        "trouble": format!("{:?}", finding.trouble).to_lowercase(),
        "fault": finding.is_open(),
        "what": finding.what,
        "mend": finding.mend,
    })
}
