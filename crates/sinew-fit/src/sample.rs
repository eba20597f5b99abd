//! A sample of a large mesh, so that cross-validation costs the same whatever the size of the character.
//!
//! The sample consists of patches: seeds spread over the rest mesh (each the vertex farthest from those before it), and
//! around each the nearest vertices by edges. Within a patch edges and triangles are as in the whole mesh, so that a
//! method that couples neighbours meets what it will meet in the whole.

use glam::DVec3;
use sinew_examples::Mesh;

use crate::Training;
use crate::geometry::topology::Topology;

/// Vertices a patch: some eight rings, several times as wide as the two rings by which influence sets grow.
const PATCH: usize = 200;

/// The training poses on at most `most` vertices (but at least a patch); `None` if the mesh is no larger than that.
#[must_use]
pub fn patches(training: &Training, most: usize) -> Option<Training> {
    let vertices = training.vertex_count();
    if vertices <= most.max(PATCH) {
        return None;
    }
    let topology = Topology::new(vertices, training.mesh.triangles());
    let mut chosen = vec![false; vertices];
    let mut count = 0;
    for seed in spread(&training.rest, most.div_ceil(PATCH)) {
        count += grow(&topology, seed, PATCH.min(most.saturating_sub(count)), &mut chosen);
    }
    let kept: Vec<usize> = (0..vertices).filter(|&v| chosen[v]).collect();
    restrict(training, &kept)
}

/// `count` vertices, each the one farthest from those before; the first is the one farthest from the centroid.
fn spread(positions: &[DVec3], count: usize) -> Vec<usize> {
    let centroid = positions.iter().sum::<DVec3>() / positions.len() as f64;
    let mut distance: Vec<f64> = positions.iter().map(|p| p.distance_squared(centroid)).collect();
    let mut seeds: Vec<usize> = Vec::new();
    while seeds.len() < count {
        let far = (0..positions.len()).fold(0, |far, v| if distance[v] > distance[far] { v } else { far });
        for (d, p) in distance.iter_mut().zip(positions) {
            let to_seed = p.distance_squared(positions[far]);
            *d = if seeds.is_empty() { to_seed } else { d.min(to_seed) };
        }
        seeds.push(far);
    }
    seeds
}

/// Marks up to `count` vertices around `seed`, ring by ring; says how many are new.
fn grow(topology: &Topology, seed: usize, count: usize, chosen: &mut [bool]) -> usize {
    let mut queue = std::collections::VecDeque::from([seed]);
    let mut seen = std::collections::BTreeSet::from([seed]);
    let mut added = 0;
    while let Some(v) = queue.pop_front() {
        if added == count || seen.len() > 8 * PATCH {
            break;
        }
        if !chosen[v] {
            chosen[v] = true;
            added += 1;
        }
        queue.extend(topology.vertex_vertices.row(v).iter().copied().filter(|&u| seen.insert(u)));
    }
    added
}

/// The training poses on the vertices `kept` and the triangles between them; `None` if no triangle is left.
fn restrict(training: &Training, kept: &[usize]) -> Option<Training> {
    let mut index = vec![u32::MAX; training.vertex_count()];
    for (new, &old) in kept.iter().enumerate() {
        index[old] = new as u32;
    }
    let triangles = training.mesh.triangles().iter().map(|t| t.map(|v| index[v as usize]));
    let triangles: Vec<[u32; 3]> = triangles.filter(|t| t.iter().all(|&v| v != u32::MAX)).collect();
    let pick = |all: &[DVec3]| kept.iter().map(|&v| all[v]).collect::<Vec<_>>();
    let mesh = Mesh::new(pick(training.mesh.vertices()), triangles, None, None).ok()?;
    Some(Training {
        mesh,
        skeleton: training.skeleton.clone(),
        rest: pick(&training.rest),
        transforms: training.transforms.clone(),
        vertices: training.vertices.iter().map(|frame| pick(frame)).collect(),
        pose_weights: training.pose_weights.clone(),
        sources: training.sources.clone(),
        influences: training.influences.as_ref().map(|map| map.of_vertices(kept)),
        fps: training.fps,
        diagonal: training.diagonal,
    })
}
