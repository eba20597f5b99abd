//! Regions of the skin, and the joints that may drive them.

use sinew_examples::Skeleton;

use super::poses::PoseTable;
use crate::geometry::topology::Topology;

/// Joints tried at most a region: the search grows with their number, and beyond the near ones chance alone finds more.
const MOST_CANDIDATES: usize = 16;

/// The vertices of each bone that carries any, as (bone, vertices), in the bones' order.
#[must_use]
pub fn by_bone(bones: &[usize], bone_count: usize) -> Vec<(usize, Vec<u32>)> {
    let mut regions: Vec<(usize, Vec<u32>)> = (0..bone_count).map(|b| (b, Vec::new())).collect();
    for (v, &b) in bones.iter().enumerate() {
        regions[b].1.push(v as u32);
    }
    regions.retain(|(_, vertices)| !vertices.is_empty());
    regions
}

/// Rounds of averaging over neighbours that blend regions into each other: a step from one region to the next is spread
/// over about six rings, and a ring's part of it is lost among what neighbouring triangles differ by anyway.
const BLENDING_ROUNDS: usize = 8;

/// Shares below this go to the vertex's other regions: they would cost a displacement and smooth next to nothing.
const SMALLEST_SHARE: f64 = 0.1;

/// The vertices of each bone with their shares, as (bone, (vertex, share)), in the bones' order. A vertex is its own bone's
/// (`bones`, (V)) far from others, and is shared with the next bone's region where they meet; its shares sum to one.
#[must_use]
pub fn blended(bones: &[usize], bone_count: usize, topology: &Topology) -> Vec<(usize, Vec<(u32, f64)>)> {
    let mut shares: Vec<Vec<(usize, f64)>> = bones.iter().map(|&b| vec![(b, 1.0)]).collect();
    for _ in 0..BLENDING_ROUNDS {
        shares = (0..bones.len()).map(|v| averaged(&shares, topology.vertex_vertices.row(v), v)).collect();
    }
    let mut regions: Vec<(usize, Vec<(u32, f64)>)> = (0..bone_count).map(|b| (b, Vec::new())).collect();
    for (v, shares) in shares.iter().enumerate() {
        let kept = || shares.iter().filter(|&&(_, share)| share >= SMALLEST_SHARE);
        let sum: f64 = kept().map(|&(_, share)| share).sum();
        kept().for_each(|&(b, share)| regions[b].1.push((v as u32, share / sum)));
    }
    regions.retain(|(_, vertices)| !vertices.is_empty());
    regions
}

/// Half of vertex `v`'s shares and half of its neighbours' mean, by bone in ascending order.
fn averaged(shares: &[Vec<(usize, f64)>], neighbours: &[usize], v: usize) -> Vec<(usize, f64)> {
    if neighbours.iter().all(|&n| shares[n] == shares[v]) {
        return shares[v].clone();
    }
    let part = 0.5 / neighbours.len() as f64;
    let own = shares[v].iter().map(|&(b, share)| (b, 0.5 * share));
    let theirs = neighbours.iter().flat_map(|&n| &shares[n]).map(|&(b, share)| (b, part * share));
    let mut sums: Vec<(usize, f64)> = Vec::new();
    for (b, share) in own.chain(theirs) {
        match sums.iter_mut().find(|(bone, _)| *bone == b) {
            Some((_, sum)) => *sum += share,
            None => sums.push((b, share)),
        }
    }
    sums.sort_unstable_by_key(|&(b, _)| b);
    sums
}

/// The joints that may drive what bone `b` carries, as indices into the table's joints: its own, its children's and
/// its parent's; then grandchildren, siblings and the grandparent. Joints that never move are not among them.
#[must_use]
pub fn candidates(skeleton: &Skeleton, table: &PoseTable, b: usize) -> Vec<usize> {
    let parent = skeleton.parent(b);
    let mut bones = vec![b];
    bones.extend(skeleton.children(b));
    bones.push(parent);
    bones.extend(skeleton.children(b).flat_map(|c| skeleton.children(c)));
    bones.extend(skeleton.children(parent));
    bones.push(skeleton.parent(parent));
    let mut found: Vec<usize> = Vec::new();
    for joint in bones.into_iter().filter_map(|bone| table.joint(bone)) {
        if !found.contains(&joint) && found.len() < MOST_CANDIDATES {
            found.push(joint);
        }
    }
    found
}
