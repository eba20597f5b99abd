//! A skeleton clip and a mesh clip become examples: frames are matched by time, what is wrong is found and mended.
//!
//! The stages, each a file: [`sources`] chooses what to use of the files, [`align`] finds units, axes and frame offset,
//! [`rest`] finds the rest mesh, its faces and the order of its vertices, and this file joins the clips.

mod align;
mod correspond;
mod finding;
mod offset;
mod rest;
mod sources;
mod strays;

use std::path::PathBuf;

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Bone, Examples, ExamplesError, ExamplesParts, FrameSelection, Mesh, MeshSequence, Pose, Split};
use thiserror::Error;

pub(crate) use align::all_spaces;
pub use finding::{Finding, Severity, Trouble};

use crate::{FileError, Loaded, Scene, Space, read_scene};
use align::{Alignment, Motion, Settled};
use correspond::{farthest, nearest_within, same_order};
use rest::Rest;
use sources::Sources;

/// What to use of the files and what to mend.
#[derive(Debug, Clone, Default)]
pub struct PackOptions {
    /// Mend every fault that can be mended.
    pub fix: bool,
    /// The mesh to use, where a file has several.
    pub mesh_name: Option<String>,
    /// The skeleton to use, where a file has several.
    pub skeleton_name: Option<String>,
    /// A file with the rest mesh and its faces, where the sources have none.
    pub topology: Option<PathBuf>,
    /// The frame, counted from 0 among the matched ones, whose mesh and pose are the rest.
    pub rest_frame: Option<usize>,
    /// What the mesh's coordinates are multiplied by; replaces what is found.
    pub mesh_scale: Option<f64>,
    /// Where the mesh's axes go; replaces what is found. See [`parse_axes`].
    pub mesh_axes: Option<DMat3>,
    /// Added to the mesh's coordinates, in metres, after scale and axes; replaces what is found.
    pub mesh_offset: Option<DVec3>,
    /// Frames added to the mesh's times; replaces what is found.
    pub offset: Option<i64>,
    /// Frames a second, for sequences that only number their frames; else the skeleton's.
    pub fps: Option<f64>,
    /// Leave out bones that only mark the end of a chain.
    pub drop_end_bones: bool,
    /// Turn the faces inside out.
    pub flip: bool,
    /// The frames to train on, counted from 0 among the matched ones of all clips; without it, those that do not test.
    pub train: Option<FrameSelection>,
    /// The frames to keep unseen; without it, those that do not train.
    pub test: Option<FrameSelection>,
}

/// A skeleton's file and its mesh's, read.
#[derive(Debug, Default)]
pub struct ScenePair {
    /// Holds the skeleton, perhaps its skin, perhaps the mesh too.
    pub skeleton: Scene,
    /// Holds the moving mesh; without it the first file does.
    pub mesh: Option<Scene>,
    /// Holds the rest mesh and faces; without it the first two do.
    pub topology: Option<Scene>,
}

/// Examples, and what was found on the way.
#[derive(Debug)]
pub struct Packed {
    /// The examples, or the bare meshes if there is no skeleton.
    pub loaded: Loaded,
    /// What was found, mended or merely told.
    pub findings: Vec<Finding>,
}

/// Why files do not become examples.
#[derive(Debug, Error)]
pub enum PackError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Faults were found and not mended.
    #[error("{}", .0.iter().filter(|f| f.is_open()).map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Faults(Vec<Finding>),
    /// The content is unusable.
    #[error(transparent)]
    Content(#[from] ExamplesError),
}

/// Reads and packs pairs of (skeleton, mesh) files; the same path twice is one file that holds both.
pub fn pack(pairs: &[(PathBuf, PathBuf)], options: &PackOptions) -> Result<Packed, PackError> {
    let mut scenes = Vec::new();
    for (skeleton, mesh) in pairs {
        scenes.push(ScenePair {
            skeleton: read_scene(skeleton)?,
            mesh: (skeleton != mesh).then(|| read_scene(mesh)).transpose()?,
            topology: options.topology.as_deref().map(read_scene).transpose()?,
        });
    }
    pack_scenes(scenes, options)
}

/// What [`pack`] would find in a pair of scenes, without making examples.
pub fn diagnose(pair: ScenePair, options: &PackOptions) -> Result<Vec<Finding>, FileError> {
    match pack_scenes(vec![pair], options) {
        Ok(packed) => Ok(packed.findings),
        Err(PackError::Faults(findings)) => Ok(findings),
        Err(PackError::File(error)) => Err(error),
        Err(PackError::Content(error)) => {
            Ok(vec![Finding::fault(Trouble::Remark, error.to_string(), "mend it in the source", false)])
        }
    }
}

/// Packs scenes that are read already.
pub fn pack_scenes(pairs: Vec<ScenePair>, options: &PackOptions) -> Result<Packed, PackError> {
    let mut findings = Vec::new();
    let mut joined: Option<Clip> = None;
    for pair in pairs {
        let clip = match Sources::choose(pair, options, &mut findings)? {
            Some(sources) => make_clip(sources, options, &mut findings)?,
            None => None,
        };
        match (&mut joined, clip) {
            (_, None) => return Err(PackError::Faults(findings)),
            (None, clip) => joined = clip,
            (Some(first), Some(next)) => append(first, next, &mut findings),
        }
    }
    if findings.iter().any(Finding::is_open) {
        return Err(PackError::Faults(findings));
    }
    let clip = joined.ok_or(ExamplesError::NoFrames)?;
    Ok(Packed { loaded: build(clip, options)?, findings })
}

/// Matched frames of one pair.
struct Clip {
    bones: Vec<Bone>,
    poses: Vec<Pose>,
    frames: Vec<Vec<DVec3>>,
    rest: Rest,
    fps: Option<f64>,
}

/// Aligns, matches and reads one pair; `None` if a fault makes that impossible.
fn make_clip(
    mut sources: Sources,
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) -> Result<Option<Clip>, PackError> {
    let rate = |times: &[f64]| align::typical_step(times).map(|step| 1.0 / step);
    let fps = options.fps.or_else(|| sources.skeleton.as_ref().and_then(|skeleton| rate(&skeleton.times)));
    sources.count_in_seconds(fps.unwrap_or(24.0));
    let fps = fps.or_else(|| rate(&sources.mesh.times));
    sources.bring_rest_to_size(findings);
    let Some(mut skeleton) = sources.skeleton.take() else { return bare_clip(sources, fps, options, findings) };
    let probe = sources.probe()?;
    if probe.is_still() {
        let what = format!("all {} frames of the mesh `{}` are the same", sources.mesh.times.len(), sources.mesh.name);
        findings.push(Finding::fault(Trouble::Static, what, sources::HOW_TO_BAKE, false));
        return Ok(None);
    }
    let motion = Motion::new(&skeleton.times, &skeleton.poses);
    let Some(alignment) = choose_alignment(&sources, &skeleton, &probe, &motion, options, findings) else {
        return Ok(None);
    };
    let delta = alignment.shift as f64 * motion.step();
    let pairs: Vec<(usize, usize)> = (0..sources.mesh.times.len())
        .filter_map(|frame| Some((frame, motion.frame_at(sources.mesh.times[frame] + delta)?)))
        .collect();
    note_unmatched(&sources, &skeleton.times, &pairs, findings);
    skeleton.poses = pairs.iter().map(|&(_, s)| skeleton.poses[s].clone()).collect();
    let (mesh_space, mesh_offset) = sources.change_space(&mut skeleton, &alignment, options);
    let (mut bones, mut poses) = (skeleton.bones, skeleton.poses);
    let mut frames = Vec::with_capacity(pairs.len());
    for &(frame, _) in &pairs {
        let mut points = sources.mesh.frame(frame)?;
        if mesh_space != Space::IDENTITY || mesh_offset != DVec3::ZERO {
            points.iter_mut().for_each(|point| *point = mesh_space.point(*point) + mesh_offset);
        }
        frames.push(points);
    }
    drop_end_bones(&mut bones, &mut poses, &sources, options, findings);
    note_same_names(&bones, findings);
    strays::leave_out(&pairs, &mut poses, &mut frames, options, findings);
    let Some(rest) = rest::find(sources, &mut bones, &poses, &frames, options, findings) else { return Ok(None) };
    Ok(Some(Clip { bones, poses, frames, rest, fps }))
}

/// A mesh without a skeleton: every frame as it is.
fn bare_clip(
    mut sources: Sources,
    fps: Option<f64>,
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) -> Result<Option<Clip>, PackError> {
    let space = sources::forced_space(options);
    let mut frames = Vec::with_capacity(sources.mesh.times.len());
    for frame in 0..sources.mesh.times.len() {
        let mut points = sources.mesh.frame(frame)?;
        points.iter_mut().for_each(|point| *point = space.point(*point));
        frames.push(points);
    }
    let rest = rest::find_bare(sources, &frames, options, findings);
    Ok(rest.map(|rest| Clip { bones: Vec::new(), poses: Vec::new(), frames, rest, fps }))
}

/// The alignment to use: the given one, or the one found if that is clearly better; `None` if the mesh does not follow.
fn choose_alignment(
    sources: &Sources,
    skeleton: &crate::SkeletonClip,
    probe: &align::Probe,
    motion: &Motion<'_>,
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) -> Option<Alignment> {
    let forced = options.mesh_scale.is_some() || options.mesh_axes.is_some();
    if let Some(offset) = options.mesh_offset {
        return given_offset(sources, skeleton, probe, motion, offset, options, findings);
    }
    let settled = Settled { space: forced.then(|| sources::forced_space(options)), shift: options.offset };
    let (mut given, best) = align::search(probe, motion, settled);
    if sources.free_time(skeleton) && settled.shift.is_none() {
        // No time is given: the best one for the given space is as good as given.
        let still = Settled { space: Some(given.space), shift: None };
        given = align::search(probe, motion, still).1.unwrap_or(given);
    }
    let Some(best) = best else {
        let what = format!(
            "no frame of the mesh ({}) meets a frame of the skeleton ({})",
            span(&sources.mesh.times),
            span(&skeleton.times)
        );
        let mend = "give the frame offset with --offset, or export both over the same frames";
        findings.push(Finding::fault(Trouble::FrameOffset, what, mend, false));
        return None;
    };
    let mut chosen = if align::clearly_better(&given, &best) { best } else { given };
    if chosen.misfit > align::GOOD {
        let shifts = align::candidate_shifts(probe, motion, settled.shift).first;
        let beside = offset::search(probe, motion, &[given.space, best.space], &shifts);
        chosen = beside.filter(|beside| align::clearly_better(&chosen, beside)).unwrap_or(chosen);
    }
    let chosen = follows(chosen, sources, skeleton, findings)?;
    report_alignment(&chosen, &given, sources.free_time(skeleton), sources.free_space(skeleton), options, findings);
    Some(chosen)
}

/// The alignment with a shift that the user gave: only the time is still searched for.
fn given_offset(
    sources: &Sources,
    skeleton: &crate::SkeletonClip,
    probe: &align::Probe,
    motion: &Motion<'_>,
    offset: DVec3,
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) -> Option<Alignment> {
    let space = sources::forced_space(options);
    let settled = Settled { space: Some(Space::IDENTITY), shift: options.offset };
    let (given, best) = align::search(&probe.placed(&space, offset), motion, settled);
    let free = sources.free_time(skeleton);
    let chosen = best.filter(|best| free || align::clearly_better(&given, best)).unwrap_or(given);
    let back = |alignment: Alignment| Alignment { space, offset, ..alignment };
    let chosen = follows(back(chosen), sources, skeleton, findings)?;
    report_alignment(&chosen, &back(given), free, true, options, findings);
    Some(chosen)
}

/// Refuses an alignment under which the mesh does not follow the skeleton.
fn follows(
    alignment: Alignment,
    sources: &Sources,
    skeleton: &crate::SkeletonClip,
    findings: &mut Vec<Finding>,
) -> Option<Alignment> {
    if alignment.misfit <= align::UNRELATED {
        return Some(alignment);
    }
    let what = format!(
        "the mesh `{}` does not follow the skeleton `{}`: {:.0} % of its motion is left unexplained by any bone, in any units, axes or frame offset tried",
        sources.mesh.name,
        skeleton.name,
        100.0 * alignment.misfit.min(1.0)
    );
    let (meshes, poses) = (sources.mesh.times.len(), skeleton.times.len());
    let rates = match meshes.abs_diff(poses) > meshes.max(poses) / 4 {
        true => format!(" at the same frame rate ({meshes} frames of the mesh, {poses} of the skeleton)"),
        false => String::new(),
    };
    let mend = format!("check that both come from the same scene and the same take{rates}");
    findings.push(Finding::fault(Trouble::Unrelated, what, mend, false));
    None
}

/// Says what the chosen alignment changes: a fault where the files claim otherwise, a note where they say nothing.
fn report_alignment(
    chosen: &Alignment,
    given: &Alignment,
    free_time: bool,
    free_space: bool,
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) {
    // Where the files leave it open and it was found at once, there is no gain to tell of.
    let gain = match given.misfit - chosen.misfit > 1e-3 {
        true => format!(" (unexplained motion falls from {} to {})", percent(given.misfit), percent(chosen.misfit)),
        false => String::new(),
    };
    let mut push = |trouble, free: bool, what: String, flag: String| {
        findings.push(match free {
            true => Finding::note(trouble, format!("{what}{gain}")),
            false => Finding::fault(trouble, format!("{what}{gain}"), format!("use {flag}, or --fix"), options.fix),
        });
    };
    let Space { scale, axes } = chosen.space;
    if scale != given.space.scale {
        let what = format!("the mesh is in other units than the skeleton: a factor of {scale:.4} lays it on");
        push(Trouble::Units, free_space, what, format!("--mesh-scale {scale}"));
    }
    if axes != given.space.axes {
        let mirrored = if axes.determinant() < 0.0 { " and is mirrored" } else { "" };
        let what = format!("the mesh has other axes than the skeleton{mirrored}: {} lays it on", format_axes(axes));
        push(Trouble::Axes, free_space, what, format!("--mesh-axes={}", format_axes(axes)));
    }
    if chosen.offset != given.offset {
        let [x, y, z] = chosen.offset.to_array().map(|c| (c * 1e4).round() / 1e4);
        let what = format!("the mesh stands beside the skeleton: moving it by ({x}, {y}, {z}) m lays it on");
        push(Trouble::Offset, false, what, format!("--mesh-offset={x},{y},{z}"));
    }
    if chosen.shift != options.offset.unwrap_or(0) {
        let frames = chosen.shift;
        let (count, way) = (frames.unsigned_abs(), if frames < 0 { "after" } else { "before" });
        let s = if count == 1 { "" } else { "s" };
        let what = format!("the mesh's motion comes {count} frame{s} {way} the skeleton's");
        push(Trouble::FrameOffset, free_time, what, format!("--offset={frames}"));
    }
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { "all".into() }
}

fn span(times: &[f64]) -> String {
    match (times.first(), times.last()) {
        (Some(first), Some(last)) => format!("{} frames from {first:.3} to {last:.3} s", times.len()),
        _ => "no frames".into(),
    }
}

fn note_unmatched(sources: &Sources, skeleton: &[f64], pairs: &[(usize, usize)], findings: &mut Vec<Finding>) {
    let (meshes, poses) = (sources.mesh.times.len(), skeleton.len());
    if pairs.len() < meshes || pairs.len() < poses {
        let what = format!(
            "{} frames match; {} of the mesh and {} of the skeleton have no counterpart",
            pairs.len(),
            meshes - pairs.len(),
            poses - pairs.len()
        );
        findings.push(Finding::note(Trouble::Unmatched, what));
    }
}

/// Clips are matched by bone name, so that two bones of one name are one too many.
fn note_same_names(bones: &[Bone], findings: &mut Vec<Finding>) {
    let mut names: Vec<&str> = bones.iter().map(|bone| bone.name.as_str()).collect();
    names.sort_unstable();
    for same in names.chunk_by(|a, b| a == b).filter(|same| same.len() > 1) {
        let what = format!(
            "{} bones are called `{}`: another clip, matched by name, finds only one of them; give each its own name",
            same.len(),
            same[0]
        );
        findings.push(Finding::note(Trouble::Remark, what));
    }
}

/// Finds, and on request leaves out, leaves that exporters add to mark where the last bone of a chain ends.
fn drop_end_bones(
    bones: &mut Vec<Bone>,
    poses: &mut [Pose],
    sources: &Sources,
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) {
    let is_end = |b: usize| {
        let name = bones[b].name.to_ascii_lowercase();
        let named = ["_end", "_nub", ".end", "nub", "_tip_end"].iter().any(|ending| name.ends_with(ending));
        let leaf = bones.iter().all(|other| other.parent != Some(b));
        named && leaf && bones[b].parent.is_some() && !sources.weighted.contains(&bones[b].name)
    };
    let ends: Vec<usize> = (0..bones.len()).filter(|&b| is_end(b)).collect();
    if ends.is_empty() {
        return;
    }
    let names: Vec<&str> = ends.iter().map(|&b| bones[b].name.as_str()).collect();
    let what = format!("{} bones only mark the end of a chain ({})", ends.len(), names.join(", "));
    let drop = options.fix || options.drop_end_bones;
    let mut finding = Finding::note(Trouble::EndBones, what);
    finding.mend =
        if drop { "they are left out".into() } else { "leave them out with --drop-end-bones, or --fix".into() };
    findings.push(finding);
    if drop {
        let kept: Vec<usize> = (0..bones.len()).filter(|b| !ends.contains(b)).collect();
        let place = |old: usize| kept.iter().position(|&b| b == old);
        *bones = kept.iter().map(|&b| Bone { parent: bones[b].parent.and_then(place), ..bones[b].clone() }).collect();
        for pose in poses {
            pose.globals = kept.iter().map(|&b| pose.globals[b]).collect();
        }
    }
}

/// Adds the frames of a further pair to the first: bones by name, vertices by index or rest position.
fn append(first: &mut Clip, next: Clip, findings: &mut Vec<Finding>) {
    let mut missing = Vec::new();
    let mut places = Vec::new();
    for bone in &first.bones {
        match next.bones.iter().position(|other| other.name == bone.name) {
            Some(place) => places.push(place),
            None => missing.push(bone.name.clone()),
        }
    }
    if !missing.is_empty() {
        let what = format!("a further skeleton lacks the bones {}", missing.join(", "));
        findings.push(Finding::fault(Trouble::Unrelated, what, "clips that go together need the same skeleton", false));
        return;
    }
    let order: Option<Vec<usize>> = match same_order(&first.rest.surface, &first.rest.vertices, &next.rest.vertices) {
        true => Some((0..first.rest.vertices.len()).collect()),
        false => nearest_within(&first.rest.vertices, &next.rest.vertices, rest::SAME_PLACE * first.rest.diagonal()),
    };
    let Some(order) = order else {
        let what = format!(
            "a further mesh has {} vertices in another order or shape than the first's {}",
            next.rest.vertices.len(),
            first.rest.vertices.len()
        );
        findings.push(Finding::fault(Trouble::VertexOrder, what, "clips that go together need the same mesh", false));
        return;
    };
    if farthest(&first.rest.vertices, &next.rest.vertices) > rest::SAME_PLACE * first.rest.diagonal() {
        findings.push(Finding::note(Trouble::VertexOrder, "a further mesh was mapped to the first by rest position"));
    }
    let as_it_is = order.iter().enumerate().all(|(v, &other)| v == other);
    // Frame by frame, so that no clip is held twice.
    let reorder = |frame: Vec<DVec3>| if as_it_is { frame } else { order.iter().map(|&v| frame[v]).collect() };
    first.frames.extend(next.frames.into_iter().map(reorder));
    // The formats disagree on bone axes: a pose is carried over as the motion from its own rest.
    let carry = |pose: &Pose| -> Pose {
        let motion = |(bone, &place): (&Bone, &usize)| -> DAffine3 {
            pose.globals[place] * next.bones[place].rest.inverse() * bone.rest
        };
        Pose { globals: first.bones.iter().zip(&places).map(motion).collect() }
    };
    first.poses.extend(next.poses.iter().map(carry).collect::<Vec<_>>());
}

/// The frames that train and test, as the options say; what one leaves out is the other.
fn choose_split(frames: usize, options: &PackOptions) -> Result<Option<Split>, ExamplesError> {
    let all = Split::all(frames);
    let resolve = |selection: &FrameSelection| selection.resolve(&all, frames);
    let others = |list: &[usize]| (0..frames).filter(|frame| !list.contains(frame)).collect::<Vec<_>>();
    Ok(match (&options.train, &options.test) {
        (None, None) => None,
        (Some(train), None) => {
            let train = resolve(train)?;
            Some(Split { test: others(&train), train })
        }
        (None, Some(test)) => {
            let test = resolve(test)?;
            Some(Split { train: others(&test), test })
        }
        (Some(train), Some(test)) => Some(Split { train: resolve(train)?, test: resolve(test)? }),
    })
}

fn build(clip: Clip, options: &PackOptions) -> Result<Loaded, ExamplesError> {
    let split = choose_split(clip.frames.len(), options)?;
    let Rest { vertices, surface } = clip.rest;
    let triangles = surface.polygons.fan();
    let uvs = surface.triangle_uvs();
    let polygons = (!surface.is_triangulated()).then_some(surface.polygons);
    let mesh = Mesh::new(vertices, triangles, polygons, uvs)?;
    if clip.bones.is_empty() {
        return Ok(Loaded::Sequence(Box::new(MeshSequence::new(mesh, clip.frames, split, clip.fps)?)));
    }
    let parts = ExamplesParts {
        mesh,
        bones: clip.bones,
        poses: clip.poses,
        frames: clip.frames,
        split,
        influences: None,
        pose_weights: None,
        fps: clip.fps,
    };
    Ok(Loaded::Examples(Box::new(Examples::new(parts)?)))
}

/// Axes as a user writes them: `x,z,-y` means that the new x is the old x, the new y the old z, the new z the old −y.
pub fn parse_axes(text: &str) -> Result<DMat3, String> {
    let mut rows = Vec::new();
    for word in text.split(',') {
        let (sign, name) = match word.trim().strip_prefix('-') {
            Some(name) => (-1.0, name),
            None => (1.0, word.trim()),
        };
        rows.push(match name {
            "x" | "X" => DVec3::X * sign,
            "y" | "Y" => DVec3::Y * sign,
            "z" | "Z" => DVec3::Z * sign,
            _ => return Err(format!("`{word}` is not an axis; write three of x, y, z, each with or without -")),
        });
    }
    let [x, y, z] = rows[..] else { return Err(format!("`{text}` does not name three axes; write e.g. x,z,-y")) };
    let axes = DMat3::from_cols(x, y, z).transpose();
    if axes.determinant() == 0.0 { Err(format!("`{text}` names an axis twice")) } else { Ok(axes) }
}

/// Three numbers with commas between, as `0,1.5,-2`.
pub fn parse_offset(text: &str) -> Result<DVec3, String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
    match numbers.as_deref() {
        Ok(&[x, y, z]) if DVec3::new(x, y, z).is_finite() => Ok(DVec3::new(x, y, z)),
        _ => Err(format!("`{text}` is not three numbers with commas between, as 0,1.5,-2")),
    }
}

/// The inverse of [`parse_axes`].
fn format_axes(axes: DMat3) -> String {
    let row = |k: usize| {
        let row = axes.row(k).to_array();
        let place = (0..3).find(|&c| row[c] != 0.0).unwrap_or(0);
        format!("{}{}", if row[place] < 0.0 { "-" } else { "" }, ["x", "y", "z"][place])
    };
    format!("{},{},{}", row(0), row(1), row(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_read_as_they_are_written() {
        assert_eq!(parse_axes("x,z,-y").unwrap(), Space::Z_UP);
        for axes in align::axis_changes() {
            assert_eq!(parse_axes(&format_axes(axes)).unwrap(), axes);
        }
        assert!(parse_axes("x,x,y").is_err() && parse_axes("x,y").is_err() && parse_axes("a,b,c").is_err());
    }
}
