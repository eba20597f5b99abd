//! The user-guided variant: bones, parents and core vertices are given; motion and joints are found.

use glam::{DAffine3, DVec3};
use rayon::prelude::*;
use sinew_examples::{Mesh, MeshSequence};

use super::parts::{self, Residuals};
use super::tree::{Border, Joint, Tree, joint_position};
use super::{RecoverParams, Recovered, finish, problem_of, with_rest};
use crate::{FitError, Progress};

/// A bone as the user describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct GuideBone {
    /// Its name.
    pub name: String,
    /// Its parent's index; `None` for the root, of which there is one.
    pub parent: Option<usize>,
    /// Vertices that move rigidly with it, at least three.
    pub core: Vec<usize>,
}

/// Finds the motion and joints of the given bones.
pub fn recover_guided(
    sequence: &MeshSequence,
    guide: &[GuideBone],
    params: &RecoverParams,
    progress: &dyn Progress,
) -> Result<Recovered, FitError> {
    check(sequence, guide)?;
    let sequence = with_rest(sequence, params.rest)?;
    let problem = problem_of(&sequence, &sequence.split().train);
    let cores: Vec<Vec<usize>> = guide.iter().map(|bone| bone.core.clone()).collect();
    progress.stage("giving vertices to bones", 0);
    let motion = parts::motion_of(&problem, &cores);
    let residuals = Residuals::new(&problem, &motion);
    let best = |v: usize| {
        let own = |b: usize| (b, residuals.of(&problem, v, b));
        (0..guide.len()).map(own).min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(b, _)| b)
    };
    let mut owner: Vec<usize> = (0..problem.vertex_count()).into_par_iter().map(best).collect();
    for (b, core) in cores.iter().enumerate() {
        core.iter().for_each(|&v| owner[v] = b);
    }
    finish(&sequence, &problem, owner, &cores, Some(guide), params, Vec::new(), progress)
}

fn check(sequence: &MeshSequence, guide: &[GuideBone]) -> Result<(), FitError> {
    let refuse = |what: String| Err(FitError::Data(what));
    let vertices = sequence.mesh().vertex_count();
    let roots: Vec<&str> = guide.iter().filter(|bone| bone.parent.is_none()).map(|bone| bone.name.as_str()).collect();
    if roots.len() != 1 {
        return refuse(format!("the guide has {} roots ({}); it needs exactly one", roots.len(), roots.join(", ")));
    }
    let mut taken: Vec<Option<usize>> = vec![None; vertices];
    for (b, bone) in guide.iter().enumerate() {
        let name = &bone.name;
        if let Some(parent) = bone.parent.filter(|&parent| parent >= guide.len() || parent == b) {
            return refuse(format!(
                "bone {b} ({name}) of the guide has parent {parent}; there are {} bones",
                guide.len()
            ));
        }
        if bone.core.len() < 3 {
            let count = bone.core.len();
            return refuse(format!("bone {b} ({name}) of the guide has {count} core vertices; it needs at least 3"));
        }
        for &v in &bone.core {
            if v >= vertices {
                return refuse(format!("bone {b} ({name}) of the guide names vertex {v}; the mesh has {vertices}"));
            }
            if let Some(other) = taken[v].replace(b).filter(|&other| other != b) {
                let other = &guide[other].name;
                return refuse(format!("vertex {v} is in the core of both {other} and {name}; give it to one bone"));
            }
        }
    }
    Ok(())
}

/// The given tree with joints found; a cycle among the parents is refused.
pub(super) fn tree(
    mesh: &Mesh,
    owner: &[usize],
    transforms: &[Vec<DAffine3>],
    guide: &[GuideBone],
) -> Result<Tree, FitError> {
    let root = guide.iter().position(|bone| bone.parent.is_none()).unwrap_or(0);
    let mut order = vec![root];
    let mut next = 0;
    while next < order.len() {
        let parent = order[next];
        order.extend((0..guide.len()).filter(|&b| guide[b].parent == Some(parent)));
        next += 1;
    }
    if order.len() != guide.len() {
        let lost = (0..guide.len()).find(|b| !order.contains(b)).unwrap_or(0);
        return Err(FitError::Data(format!("bone {lost} ({}) of the guide is its own ancestor", guide[lost].name)));
    }
    let joint = |&child: &usize| {
        let parent = guide[child].parent?;
        let (centre, radius) = border(mesh, owner, parent, child, guide);
        let (position, disagreement) = joint_position(transforms, parent, child, centre, radius);
        Some(Joint { parent, child, position, disagreement })
    };
    Ok(Tree { root, joints: order.iter().filter_map(joint).collect() })
}

/// The border between two bones' vertices as a circle, or the way between their cores if they do not touch.
fn border(mesh: &Mesh, owner: &[usize], a: usize, b: usize, guide: &[GuideBone]) -> (DVec3, f64) {
    let mut border = Border::default();
    for triangle in mesh.triangles() {
        for k in 0..3 {
            let (u, v) = (triangle[k] as usize, triangle[(k + 1) % 3] as usize);
            if (owner[u], owner[v]) == (a, b) || (owner[u], owner[v]) == (b, a) {
                let (p, q) = (mesh.vertices()[u], mesh.vertices()[v]);
                border.add((p + q) * 0.5, p.distance(q).max(1e-9 * mesh.diagonal()));
            }
        }
    }
    let middle = |core: &[usize]| core.iter().map(|&v| mesh.vertices()[v]).sum::<DVec3>() / core.len() as f64;
    if border.is_empty() {
        let (one, other) = (middle(&guide[a].core), middle(&guide[b].core));
        return ((one + other) * 0.5, one.distance(other) * 0.5);
    }
    border.circle()
}
