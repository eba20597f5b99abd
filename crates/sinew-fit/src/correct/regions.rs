//! Regions of the skin, and the joints that may drive them.

use sinew_examples::Skeleton;

use super::poses::PoseTable;

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
