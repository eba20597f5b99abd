//! The rest mesh of a clip: its positions in the order of the frames, its faces, and whether it is the mesh in the
//! skeleton's rest pose.

use glam::{DAffine3, DVec3};
use sinew_examples::{Bone, Polygons, Pose};

use super::correspond::{diagonal, farthest, nearest_within, relative_volume, same_order};
use super::sources::{Reference, Sources};
use super::{Finding, PackOptions, Trouble};
use crate::Surface;

/// Two points nearer than this, relative to the mesh's diagonal, are the same vertex in two files: far above the
/// rounding of any format (OBJ writes six digits), far below the distance of neighbours.
pub(super) const SAME_PLACE: f64 = 1e-4;

/// A pose is the rest pose if no bone moves any point of the mesh by more than this share of the diagonal.
const AT_REST: f64 = 1e-3;

/// A rest mesh that is off by more than this share of the diagonal (root mean square), measured in the bones, while the
/// frames themselves agree with the bones, is not the mesh in the rest pose. A choice, tried on the body and
/// on a bar only: a right rest passes there, another pose as the rest does not.
const WRONG_REST: f64 = 0.03;

/// The rest mesh.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    pub vertices: Vec<DVec3>,
    pub surface: Surface,
}

impl Rest {
    pub(super) fn diagonal(&self) -> f64 {
        diagonal(&self.vertices)
    }
}

/// Finds the rest mesh of matched frames; `None` after a fault that leaves none. With a wrong rest pose to mend, or a
/// rest frame chosen, the bones' rest is replaced too.
pub(super) fn find(
    sources: Sources,
    bones: &mut [Bone],
    poses: &[Pose],
    frames: &[Vec<DVec3>],
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) -> Option<Rest> {
    if frames.is_empty() {
        return None;
    }
    let quiet = quietest(bones, poses, diagonal(&frames[0]));
    let mapped = sources.reference.and_then(|reference| map_reference(reference, frames, quiet.0, findings));
    let surface = choose_surface(sources.mesh.surface, mapped.as_ref(), findings)?;
    let vertices = match (options.rest_frame, &mapped) {
        (Some(frame), _) => {
            let Some(points) = frames.get(frame) else {
                let what = format!("there is no frame {frame} to rest at: {} frames match", frames.len());
                findings.push(Finding::fault(Trouble::RestPose, what, "choose another with --rest-frame", false));
                return None;
            };
            rest_at(bones, &poses[frame]);
            points.clone()
        }
        (None, Some(mapped)) => mapped.rest.clone(),
        (None, None) if quiet.1 < AT_REST => frames[quiet.0].clone(),
        (None, None) => {
            let what =
                format!("no file has the rest mesh, and no frame shows the rest pose (frame {} is nearest)", quiet.0);
            let mend = "give the rest mesh with --topology rest.obj, or take a frame as the rest with --rest-frame 0";
            findings.push(Finding::fault(Trouble::RestPose, what, mend, options.fix));
            if !options.fix {
                return None;
            }
            rest_at(bones, &poses[0]);
            frames[0].clone()
        }
    };
    let mut rest = Rest { vertices, surface };
    check_rest_pose(&mut rest, bones, poses, frames, options, findings);
    check_winding(&mut rest, options, findings);
    Some(rest)
}

/// Finds the rest mesh of a mesh without a skeleton.
pub(super) fn find_bare(
    sources: Sources,
    frames: &[Vec<DVec3>],
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) -> Option<Rest> {
    let first = frames.first()?;
    let mapped = sources.reference.and_then(|reference| map_reference(reference, frames, 0, findings));
    let surface = choose_surface(sources.mesh.surface, mapped.as_ref(), findings)?;
    let vertices = match (options.rest_frame.and_then(|frame| frames.get(frame)), mapped) {
        (Some(frame), _) => frame.clone(),
        (None, Some(mapped)) => mapped.rest,
        (None, None) => first.clone(),
    };
    let mut rest = Rest { vertices, surface };
    check_winding(&mut rest, options, findings);
    Some(rest)
}

/// Makes `pose` the rest pose.
fn rest_at(bones: &mut [Bone], pose: &Pose) {
    for (bone, &global) in bones.iter_mut().zip(&pose.globals) {
        bone.rest = global;
    }
}

/// The frame whose pose is nearest to the rest pose, and how far a point a diagonal away from a bone moves in it,
/// relative to the diagonal.
fn quietest(bones: &[Bone], poses: &[Pose], size: f64) -> (usize, f64) {
    let moved = |pose: &Pose| {
        let of_bone = |(bone, &global): (&Bone, &DAffine3)| {
            let motion = global * bone.rest.inverse();
            let turned =
                (motion.matrix3 - glam::DMat3::IDENTITY).to_cols_array().iter().map(|c| c * c).sum::<f64>().sqrt();
            let at_bone = (global.translation - bone.rest.translation).length() / size;
            turned.max(at_bone)
        };
        bones.iter().zip(&pose.globals).map(of_bone).fold(0.0, f64::max)
    };
    poses
        .iter()
        .enumerate()
        .map(|(frame, pose)| (frame, moved(pose)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, f64::INFINITY))
}

/// A rest mesh in the order of the frames.
struct Mapped {
    rest: Vec<DVec3>,
    surface: Option<Surface>,
}

/// Brings a rest mesh of another file into the order of the frames: as it is if it fits so, else by position in the
/// frame that shows the rest pose.
fn map_reference(
    reference: Reference,
    frames: &[Vec<DVec3>],
    quiet: usize,
    findings: &mut Vec<Finding>,
) -> Option<Mapped> {
    let Reference { rest, surface, .. } = reference;
    let count = frames[0].len();
    let fits = match &surface {
        Some(surface) => same_order(surface, &rest, &frames[quiet]),
        None => rest.len() == count,
    };
    if fits {
        return Some(Mapped { rest, surface });
    }
    let tolerance = SAME_PLACE * diagonal(&rest);
    // The quietest frame first: it is the rest in nearly every file.
    let tries = std::iter::once(quiet).chain(0..frames.len());
    let mut found = tries.filter_map(|e| Some((e, nearest_within(&rest, &frames[e], tolerance)?)));
    let Some((frame, map)) = found.next() else {
        let what = format!(
            "the rest mesh has {} vertices and the frames {count}, in another order, and no frame shows the rest shape to map them by",
            rest.len()
        );
        let mend =
            "give the rest mesh in the frames' order with --topology, or take a frame as the rest with --rest-frame";
        findings.push(Finding::fault(Trouble::VertexOrder, what, mend, false));
        return None;
    };
    let what = format!(
        "the rest mesh has {} vertices and the frames {count}, in another order or split at seams: mapped by rest position (frame {frame})",
        rest.len()
    );
    findings.push(Finding::note(Trouble::VertexOrder, what));
    let mut ordered = frames[frame].clone();
    for (v, &place) in map.iter().enumerate() {
        ordered[place] = rest[v];
    }
    let surface = surface.map(|surface| Surface {
        polygons: Polygons {
            counts: surface.polygons.counts,
            vertices: surface.polygons.vertices.iter().map(|&v| map[v as usize] as u32).collect(),
        },
        uvs: surface.uvs,
    });
    Some(Mapped { rest: ordered, surface })
}

/// The better of two descriptions of the faces: polygons before triangles, with texture coordinates before without.
fn choose_surface(own: Option<Surface>, mapped: Option<&Mapped>, findings: &mut Vec<Finding>) -> Option<Surface> {
    let other = mapped.and_then(|mapped| mapped.surface.clone());
    match (own, other) {
        (Some(own), Some(other)) => {
            if own.is_triangulated() != other.is_triangulated() {
                let (which, of) = if own.is_triangulated() { ("moving", "rest") } else { ("rest", "moving") };
                let what = format!("the {which} mesh is triangulated, the {of} mesh is not: its polygons are taken");
                findings.push(Finding::note(Trouble::Triangulated, what));
            }
            let rank = |surface: &Surface| (!surface.is_triangulated(), surface.uvs.is_some());
            Some(if rank(&other) > rank(&own) { other } else { own })
        }
        (own, other) => {
            let either = own.or(other);
            if either.is_none() {
                let mend = "give a file with the same mesh and its faces: --topology mesh.obj";
                findings.push(Finding::fault(Trouble::VertexOrder, "no file has the mesh's faces", mend, false));
            }
            either
        }
    }
}

/// Compares the rest mesh, seen from its bones, with the frames, seen from theirs.
fn check_rest_pose(
    rest: &mut Rest,
    bones: &mut [Bone],
    poses: &[Pose],
    frames: &[Vec<DVec3>],
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) {
    let size = rest.diagonal();
    let off = rest_error(rest, bones, poses, frames) / size;
    if off < WRONG_REST {
        return;
    }
    // A frame that shows the rest mesh gives the pose that belongs to it.
    let shown = frames.iter().position(|frame| farthest(frame, &rest.vertices) < SAME_PLACE * size);
    let what = format!(
        "the rest mesh is not the mesh in the skeleton's rest pose: seen from the bones it is off by {:.1} % of the mesh's size",
        100.0 * off
    );
    let (frame, mend) = match shown {
        Some(frame) => (
            frame,
            format!("frame {frame} shows the rest mesh: take its pose as the rest with --rest-frame {frame}, or --fix"),
        ),
        None => (0, "take a frame, mesh and pose, as the rest with --rest-frame 0, or --fix".to_owned()),
    };
    findings.push(Finding::fault(Trouble::RestPose, what, mend, options.fix));
    if options.fix {
        rest_at(bones, &poses[frame]);
        rest.vertices = frames[frame].clone();
    }
}

/// The root mean square, over sampled vertices, of the distance between a vertex at rest in its bone's frame and its
/// mean place there over the frames, the bone being the one in whose frame it moves least.
fn rest_error(rest: &Rest, bones: &[Bone], poses: &[Pose], frames: &[Vec<DVec3>]) -> f64 {
    let spread = |count: usize, most: usize| (0..count).step_by(count.div_ceil(most).max(1)).collect::<Vec<_>>();
    let chosen = spread(frames.len(), 24);
    let inverses: Vec<Vec<DAffine3>> =
        chosen.iter().map(|&e| poses[e].globals.iter().map(|global| global.inverse()).collect()).collect();
    let vertices = spread(rest.vertices.len(), 400);
    let mut sum = 0.0;
    for &v in &vertices {
        let mut least = (f64::INFINITY, 0.0);
        for (b, bone) in bones.iter().enumerate() {
            let places = || inverses.iter().zip(&chosen).map(|(inverse, &e)| inverse[b].transform_point3(frames[e][v]));
            let mean = places().sum::<DVec3>() / chosen.len() as f64;
            let variance: f64 = places().map(|place| (place - mean).length_squared()).sum();
            if variance < least.0 {
                let at_rest = bone.rest.inverse().transform_point3(rest.vertices[v]);
                // Back to metres: the bone's frame may be scaled.
                least = (variance, bone.rest.transform_vector3(at_rest - mean).length_squared());
            }
        }
        sum += least.1;
    }
    (sum / vertices.len().max(1) as f64).sqrt()
}

fn check_winding(rest: &mut Rest, options: &PackOptions, findings: &mut Vec<Finding>) {
    if options.flip {
        rest.surface.flip();
        return;
    }
    // A millionth of the diagonal's cube: a flat or open mesh encloses less, and nothing can be said of it.
    let volume = relative_volume(&rest.surface, &rest.vertices);
    if volume < -1e-6 {
        let what = "the faces are inside out: they enclose a negative volume";
        findings.push(Finding::fault(Trouble::Winding, what, "turn them with --flip, or --fix", options.fix));
        if options.fix {
            rest.surface.flip();
        }
    }
}
