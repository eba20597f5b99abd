//! Which skeleton, which mesh and which rest mesh of the given files are meant.

use std::collections::BTreeSet;

use glam::{DMat3, DVec3};

use super::align::{self, Alignment, Probe};
use super::{Finding, PackOptions, ScenePair, Trouble};
use crate::{Clock, Convention, FileError, MeshClip, Scene, SkeletonClip, Space, Surface};

/// What to tell an artist whose mesh does not move.
pub(super) const HOW_TO_BAKE: &str = "re-export with the deformation baked into the points: as Alembic (.abc) with the frame range set, \
     or from Blender as USD after the armature was baked to a mesh cache, since its USD exporter writes a live rig as a still mesh";

/// Where a rest mesh came from, and so which space it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    SkeletonFile,
    MeshFile,
    Topology,
}

/// A rest mesh that a file holds apart from the frames.
pub(super) struct Reference {
    pub rest: Vec<DVec3>,
    pub surface: Option<Surface>,
    pub origin: Origin,
    /// Whether it is of the skeleton's file, and so in the space of the bones' rest.
    pub bound: bool,
}

/// What is used of a pair of files.
pub(super) struct Sources {
    pub skeleton: Option<SkeletonClip>,
    pub mesh: MeshClip,
    pub reference: Option<Reference>,
    /// Names of the bones that carry weight in a skin.
    pub weighted: BTreeSet<String>,
}

impl Sources {
    /// Chooses; `None` if a fault was found that leaves nothing to use.
    pub(super) fn choose(
        pair: ScenePair,
        options: &PackOptions,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<Self>, FileError> {
        let ScenePair { skeleton: mut first, mesh: mut second, topology } = pair;
        for scene in [Some(&first), second.as_ref(), topology.as_ref()].into_iter().flatten() {
            findings.extend(scene.remarks.iter().map(|remark| Finding::note(Trouble::Remark, remark)));
        }
        let weighted = weighted_bones(&first);
        let skeleton = choose_skeleton(&mut first, options, findings);
        let has_skeletons = skeleton.is_some() || findings.iter().any(Finding::is_open);
        let mesh_scene = second.as_mut().unwrap_or(&mut first);
        let Some(mesh) = choose_mesh(mesh_scene, options, findings) else { return Ok(None) };
        if has_skeletons && skeleton.is_none() {
            return Ok(None);
        }
        let same_file = second.is_none();
        let mut candidates = Vec::new();
        if let Some(topology) = topology {
            candidates.extend(references(topology, Origin::Topology, false)?);
        }
        // A mesh that its own skin moves tells its rest itself.
        let own = || {
            Some(Reference {
                rest: mesh.rest.clone()?,
                surface: mesh.surface.clone(),
                origin: Origin::MeshFile,
                bound: same_file,
            })
        };
        if candidates.is_empty() && mesh.skin.is_some() {
            candidates.extend(own());
        }
        if candidates.is_empty() {
            let origin = if same_file { Origin::MeshFile } else { Origin::SkeletonFile };
            candidates.extend(references(first, origin, true)?);
            if let Some(second) = second {
                candidates.extend(references(second, Origin::MeshFile, false)?);
            }
        }
        // The one with the nearest number of vertices is the same mesh most likely; seams only ever add vertices.
        candidates.sort_by_key(|reference| reference.rest.len().abs_diff(mesh.vertex_count));
        let mut reference = candidates.into_iter().next();
        if reference.is_none() {
            // Morph targets come with a base mesh of their own.
            reference = own();
        }
        Ok(Some(Self { skeleton, mesh, reference, weighted }))
    }

    /// [`SkeletonClip::bring_rest_to_size`], with the rest mesh that belongs to it.
    pub(super) fn bring_rest_to_size(&mut self, findings: &mut Vec<Finding>) {
        let Some(size) = self.skeleton.as_mut().and_then(SkeletonClip::bring_rest_to_size) else { return };
        if let Some(reference) = self.reference.as_mut().filter(|reference| reference.bound) {
            reference.rest.iter_mut().for_each(|point| *point *= size);
        }
        let what = format!("the bind pose was scaled by {size:.4}, as its skeleton is in every frame");
        findings.push(Finding::note(Trouble::Remark, what));
    }

    /// Numbers of frames become seconds.
    pub(super) fn count_in_seconds(&mut self, fps: f64) {
        if self.mesh.clock == Clock::FrameNumbers {
            self.mesh.times.iter_mut().for_each(|time| *time /= fps);
        }
    }

    /// Whether the files leave open how their times lie to each other.
    pub(super) fn free_time(&self, skeleton: &SkeletonClip) -> bool {
        self.mesh.clock != Clock::Scene || skeleton.clock != Clock::Scene
    }

    /// Whether the files leave open their units and axes.
    pub(super) fn free_space(&self, skeleton: &SkeletonClip) -> bool {
        self.mesh.convention == Convention::Assumed || skeleton.convention == Convention::Assumed
    }

    /// Brings skeleton, mesh and rest mesh into one space: what is declared stays, what was assumed is changed.
    /// Returns what the mesh's frames must go through, and what is added to them then.
    pub(super) fn change_space(
        &mut self,
        skeleton: &mut SkeletonClip,
        alignment: &Alignment,
        options: &PackOptions,
    ) -> (Space, DVec3) {
        let space = &alignment.space;
        let forced = options.mesh_scale.is_some() || options.mesh_axes.is_some();
        let on_skeleton = skeleton.convention == Convention::Assumed && !forced;
        let (on_skeleton, on_mesh) = match on_skeleton {
            true => (space.inverse(), Space::IDENTITY),
            false => (Space::IDENTITY, *space),
        };
        // The shift is the skeleton's; where that goes back into the mesh's space, the shift does too.
        let offset = on_skeleton.point(alignment.offset);
        on_skeleton.skeleton(&mut skeleton.bones, &mut skeleton.poses);
        if let Some(reference) = &mut self.reference {
            let change = match reference.origin {
                Origin::SkeletonFile => on_skeleton,
                Origin::MeshFile => on_mesh,
                Origin::Topology => Space::IDENTITY,
            };
            let shift = if reference.origin == Origin::MeshFile { offset } else { DVec3::ZERO };
            reference.rest.iter_mut().for_each(|point| *point = change.point(*point) + shift);
            if change.axes.determinant() < 0.0 {
                reference.surface.iter_mut().for_each(Surface::flip);
            }
        }
        if on_mesh.axes.determinant() < 0.0 {
            self.mesh.surface.iter_mut().for_each(Surface::flip);
        }
        (on_mesh, offset)
    }

    /// A few vertices in a few frames: evenly spread frames, vertices among the half that moves more.
    pub(super) fn probe(&mut self) -> Result<Probe, FileError> {
        let count = self.mesh.times.len();
        let frames: Vec<usize> = match count <= align::FRAMES {
            true => (0..count).collect(),
            false => (0..align::FRAMES).map(|k| k * (count - 1) / (align::FRAMES - 1)).collect(),
        };
        let stride = (self.mesh.vertex_count / (4 * align::VERTICES)).max(1);
        let mut points: Vec<Vec<DVec3>> = Vec::new();
        for &frame in &frames {
            points.push(self.mesh.frame(frame)?.into_iter().step_by(stride).collect());
        }
        let moved = |v: usize| {
            let first = points[0][v];
            points.iter().map(|frame| (frame[v] - first).length_squared()).sum::<f64>()
        };
        let mut order: Vec<usize> = (0..points.first().map_or(0, Vec::len)).collect();
        order.sort_by(|&a, &b| moved(b).total_cmp(&moved(a)));
        order.truncate(order.len().div_ceil(2));
        order.sort_unstable();
        let step = order.len().div_ceil(align::VERTICES).max(1);
        let chosen: Vec<usize> = order.into_iter().step_by(step).collect();
        Ok(Probe {
            times: frames.iter().map(|&frame| self.mesh.times[frame]).collect(),
            points: points.iter().map(|frame| chosen.iter().map(|&v| frame[v]).collect()).collect(),
        })
    }
}

impl Probe {
    /// Whether nothing moves: by less than rounding in f32.
    pub(super) fn is_still(&self) -> bool {
        let size = self.points.iter().flatten().fold(0.0_f64, |size, p| size.max(p.abs().max_element()));
        let first = &self.points[0];
        self.points
            .iter()
            .all(|frame| frame.iter().zip(first).all(|(a, b)| (*a - *b).abs().max_element() <= 1e-6 * size))
    }
}

fn weighted_bones(scene: &Scene) -> BTreeSet<String> {
    let skins = scene.meshes.iter().filter_map(|mesh| mesh.skin.as_ref());
    let pairs = skins.flat_map(|(skeleton, weights)| weights.iter().flatten().map(move |pair| (*skeleton, pair)));
    pairs
        .filter(|(_, (_, weight))| *weight > 0.0)
        .filter_map(|(skeleton, &(bone, _))| Some(scene.skeletons.get(skeleton)?.bones.get(bone)?.name.clone()))
        .collect()
}

fn choose_skeleton(scene: &mut Scene, options: &PackOptions, findings: &mut Vec<Finding>) -> Option<SkeletonClip> {
    let mut skeletons = std::mem::take(&mut scene.skeletons);
    if let Some(name) = &options.skeleton_name {
        let names: Vec<String> = skeletons.iter().map(|skeleton| skeleton.name.clone()).collect();
        skeletons.retain(|skeleton| &skeleton.name == name);
        if skeletons.is_empty() {
            let what = format!("there is no skeleton `{name}`, only {}", names.join(", "));
            findings.push(Finding::fault(Trouble::Remark, what, "choose one with --skeleton-name", false));
            return None;
        }
    }
    let skeleton = skeletons.into_iter().max_by_key(|skeleton| (skeleton.times.len().min(2), skeleton.bones.len()))?;
    if skeleton.times.len() < 2 {
        let what = format!("the skeleton `{}` has no animation", skeleton.name);
        let mend = "export it with its animation over the same frames as the mesh";
        findings.push(Finding::fault(Trouble::Static, what, mend, false));
        return None;
    }
    Some(skeleton)
}

fn choose_mesh(scene: &mut Scene, options: &PackOptions, findings: &mut Vec<Finding>) -> Option<MeshClip> {
    let names = |meshes: &[MeshClip]| meshes.iter().map(|mesh| mesh.name.clone()).collect::<Vec<_>>().join(", ");
    let found = match &options.mesh_name {
        Some(name) => {
            let found: Vec<usize> = (0..scene.meshes.len()).filter(|&m| &scene.meshes[m].name == name).collect();
            if found.is_empty() {
                let what = format!("there is no mesh `{name}`, only {}", names(&scene.meshes));
                findings.push(Finding::fault(Trouble::Remark, what, "choose one with --mesh-name", false));
                return None;
            }
            found
        }
        None => (0..scene.meshes.len()).collect(),
    };
    let moving: Vec<usize> = found.iter().copied().filter(|&m| scene.meshes[m].times.len() > 1).collect();
    match moving[..] {
        [] => {
            let what = format!("the mesh ({}) has no frames: its points have no time samples", names(&scene.meshes));
            findings.push(Finding::fault(Trouble::Static, what, HOW_TO_BAKE, false));
            None
        }
        [one] => Some(scene.meshes.remove(one)),
        _ => {
            let list: Vec<&str> = moving.iter().map(|&m| scene.meshes[m].name.as_str()).collect();
            let what = format!("{} meshes move: {}", moving.len(), list.join(", "));
            findings.push(Finding::fault(Trouble::Remark, what, "choose one with --mesh-name", false));
            None
        }
    }
}

/// The rest meshes of a scene; a mesh without a rest gives its only frame.
fn references(scene: Scene, origin: Origin, bound: bool) -> Result<Vec<Reference>, FileError> {
    let mut list = Vec::new();
    for mut mesh in scene.meshes {
        let rest = match mesh.rest.take() {
            Some(rest) => rest,
            None if origin == Origin::Topology && !mesh.times.is_empty() => mesh.frame(0)?,
            None => continue,
        };
        list.push(Reference { rest, surface: mesh.surface, origin, bound });
    }
    Ok(list)
}

/// The space of flags alone.
pub(super) fn forced_space(options: &PackOptions) -> Space {
    Space { scale: options.mesh_scale.unwrap_or(1.0), axes: options.mesh_axes.unwrap_or(DMat3::IDENTITY) }
}
