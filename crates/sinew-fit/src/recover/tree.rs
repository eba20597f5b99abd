//! A skeleton over moving parts: who hangs on whom, and where they turn.
//!
//! Two bones a and b are joined where their motions agree, `x_ab = argmin Σ_e ‖T_a^e x − T_b^e x‖² + λ‖x − c_ab‖²`
//! (Anguelov et al. 2004, §5), c_ab the middle of the border between their parts: a hinge agrees along its whole axis, and
//! bones that hardly move against each other agree everywhere; there the border decides. The tree is the cheapest one over
//! the touching pairs, by how far the motions disagree at the joint and how far the joint lies from the border. The root is
//! the bone from which the mesh hangs most evenly: the one with the least sum of vertices times steps (a trunk, not a toe).

use std::collections::BTreeMap;

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Bone, Mesh, Pose};

/// λ relative to the largest eigenvalue of `Σ (R_a − R_b)ᵀ(R_a − R_b)`.
const AXIS_RIDGE: f64 = 0.01;

/// λ for bones that do not move against each other, a frame: a turn of about two degrees, the size of what soft skin feigns.
const STILL_RIDGE: f64 = 1e-3;

/// Pairs that do not touch are joined only if nothing else does: their cost has this many diagonals added.
const APART: f64 = 10.0;

/// A joint between two bones.
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    /// The bone nearer to the root.
    pub parent: usize,
    /// The bone that turns.
    pub child: usize,
    /// Where, in the rest pose.
    pub position: DVec3,
    /// How far the two bones' motions disagree there, rms over the frames, in the mesh's units.
    pub disagreement: f64,
}

/// A tree over the bones.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// The root bone.
    pub root: usize,
    /// One joint for every other bone, parents before children.
    pub joints: Vec<Joint>,
}

/// The tree over bones with skinning transforms `transforms` (N)(B), each vertex `v` belonging to bone `owner[v]`.
#[must_use]
pub fn hierarchy(mesh: &Mesh, owner: &[usize], transforms: &[Vec<DAffine3>]) -> Tree {
    let bones = transforms.first().map_or(0, Vec::len);
    let pairs = candidate_pairs(mesh, owner, transforms, bones);
    let edges = cheapest_tree(pairs, bones);
    let mut mass = vec![0; bones];
    owner.iter().for_each(|&b| mass[b] += 1);
    orient(edges, &mass, bones)
}

/// Bones with rest frames at their joints, and the poses; the root's frame is at its vertices' middle.
#[must_use]
pub fn rig(mesh: &Mesh, owner: &[usize], transforms: &[Vec<DAffine3>], tree: &Tree) -> (Vec<Bone>, Vec<Pose>) {
    let bones = transforms.first().map_or(0, Vec::len);
    let mut rest = vec![DVec3::ZERO; bones];
    let mut parents = vec![None; bones];
    let own = |b: usize| owner.iter().enumerate().filter(move |&(_, &o)| o == b).map(|(v, _)| mesh.vertices()[v]);
    let count = own(tree.root).count().max(1) as f64;
    rest[tree.root] = own(tree.root).sum::<DVec3>() / count;
    let mut names = vec![String::new(); bones];
    names[tree.root] = "root".into();
    for (k, joint) in tree.joints.iter().enumerate() {
        rest[joint.child] = joint.position;
        parents[joint.child] = Some(joint.parent);
        names[joint.child] = format!("bone_{:02}", k + 1);
    }
    let frames: Vec<DAffine3> = rest.iter().map(|&place| DAffine3::from_translation(place)).collect();
    let bone = |b: usize| Bone { name: names[b].clone(), parent: parents[b], rest: frames[b] };
    let pose = |frame: &Vec<DAffine3>| Pose { globals: frame.iter().zip(&frames).map(|(&t, &f)| t * f).collect() };
    ((0..bones).map(bone).collect(), transforms.iter().map(pose).collect())
}

/// Where bones `a` and `b` agree best, no further than `radius` from `centre`; with the rms disagreement there.
#[must_use]
pub fn joint_position(transforms: &[Vec<DAffine3>], a: usize, b: usize, centre: DVec3, radius: f64) -> (DVec3, f64) {
    let mut normal = DMat3::ZERO;
    let mut right = DVec3::ZERO;
    for frame in transforms {
        let difference = frame[a].matrix3 - frame[b].matrix3;
        // The disagreement at `centre + x`: D x + g.
        let gap = frame[a].transform_point3(centre) - frame[b].transform_point3(centre);
        normal += difference.transpose() * difference;
        right -= difference.transpose() * gap;
    }
    let frames = transforms.len() as f64;
    let trace = normal.x_axis.x + normal.y_axis.y + normal.z_axis.z;
    let mut ridge = AXIS_RIDGE * trace / 2.0 + STILL_RIDGE * frames;
    let offset = |ridge: f64| (normal + DMat3::from_diagonal(DVec3::splat(ridge))).inverse() * right;
    // The offset shrinks like 1/ridge at last, so this ends.
    while offset(ridge).length() > radius && ridge.is_finite() {
        ridge *= 2.0;
    }
    let place = centre + offset(ridge);
    let squares: f64 = transforms
        .iter()
        .map(|frame| frame[a].transform_point3(place).distance_squared(frame[b].transform_point3(place)))
        .sum();
    (place, (squares / frames).sqrt())
}

/// Points along the border between two parts, weighted.
#[derive(Debug, Clone, Default)]
pub(super) struct Border {
    weight: f64,
    sum: DVec3,
    squares: f64,
}

impl Border {
    pub fn add(&mut self, point: DVec3, weight: f64) {
        self.weight += weight;
        self.sum += point * weight;
        self.squares += point.length_squared() * weight;
    }

    pub fn is_empty(&self) -> bool {
        self.weight == 0.0
    }

    /// The points' mean and rms distance from it.
    pub fn circle(&self) -> (DVec3, f64) {
        let centre = self.sum / self.weight;
        (centre, (self.squares / self.weight - centre.length_squared()).max(0.0).sqrt())
    }
}

struct Edge {
    bones: (usize, usize),
    position: DVec3,
    disagreement: f64,
    cost: f64,
}

/// Every pair that touches, and, for pieces that touch nothing, every pair by its gap.
fn candidate_pairs(mesh: &Mesh, owner: &[usize], transforms: &[Vec<DAffine3>], bones: usize) -> Vec<Edge> {
    let diagonal = mesh.diagonal();
    let mut borders: BTreeMap<(usize, usize), Border> = BTreeMap::new();
    for triangle in mesh.triangles() {
        for k in 0..3 {
            let (u, v) = (triangle[k] as usize, triangle[(k + 1) % 3] as usize);
            let (a, b) = (owner[u].min(owner[v]), owner[u].max(owner[v]));
            if a != b {
                let (p, q) = (mesh.vertices()[u], mesh.vertices()[v]);
                let length = p.distance(q).max(1e-9 * diagonal);
                borders.entry((a, b)).or_default().add((p + q) * 0.5, length);
            }
        }
    }
    let edge = |bones: (usize, usize), (centre, radius): (DVec3, f64), extra: f64| {
        let (position, disagreement) = joint_position(transforms, bones.0, bones.1, centre, radius);
        let cost = disagreement + 0.25 * position.distance(centre) + extra;
        Edge { bones, position, disagreement, cost }
    };
    let mut edges: Vec<Edge> = borders.iter().map(|(&pair, border)| edge(pair, border.circle(), 0.0)).collect();
    for (a, b) in missing_links(&edges, bones) {
        let (middle, gap) = nearest_vertices(mesh, owner, a, b);
        edges.push(edge((a, b), (middle, gap), APART * diagonal + gap));
    }
    edges
}

/// All pairs of bones from different connected groups; none if the touching pairs already connect everything.
fn missing_links(edges: &[Edge], bones: usize) -> Vec<(usize, usize)> {
    let mut group: Vec<usize> = (0..bones).collect();
    for edge in edges {
        let (a, b) = (group[edge.bones.0], group[edge.bones.1]);
        group.iter_mut().filter(|g| **g == a).for_each(|g| *g = b);
    }
    let pairs = (0..bones).flat_map(|a| (a + 1..bones).map(move |b| (a, b)));
    pairs.filter(|&(a, b)| group[a] != group[b]).collect()
}

/// The middle and the length of the gap between two bones' vertices; of large parts a sample is looked at.
fn nearest_vertices(mesh: &Mesh, owner: &[usize], a: usize, b: usize) -> (DVec3, f64) {
    let sample = |bone: usize| {
        let own: Vec<DVec3> = (0..owner.len()).filter(|&v| owner[v] == bone).map(|v| mesh.vertices()[v]).collect();
        let stride = own.len().div_ceil(200).max(1);
        own.into_iter().step_by(stride).collect::<Vec<_>>()
    };
    let (one, other) = (sample(a), sample(b));
    let pairs = one.iter().flat_map(|&p| other.iter().map(move |&q| (p, q)));
    let nearest = pairs.min_by(|x, y| x.0.distance_squared(x.1).total_cmp(&y.0.distance_squared(y.1)));
    nearest.map_or((DVec3::ZERO, mesh.diagonal()), |(p, q)| ((p + q) * 0.5, p.distance(q)))
}

/// Kruskal's algorithm.
fn cheapest_tree(mut edges: Vec<Edge>, bones: usize) -> Vec<Edge> {
    edges.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.bones.cmp(&b.bones)));
    let mut group: Vec<usize> = (0..bones).collect();
    let mut tree = Vec::new();
    for edge in edges {
        let (a, b) = (group[edge.bones.0], group[edge.bones.1]);
        if a != b {
            group.iter_mut().filter(|g| **g == a).for_each(|g| *g = b);
            tree.push(edge);
        }
    }
    tree
}

/// Roots the tree at its weighted middle and orders the joints, parents first.
fn orient(edges: Vec<Edge>, mass: &[usize], bones: usize) -> Tree {
    let mut around: Vec<Vec<usize>> = vec![Vec::new(); bones];
    for (k, edge) in edges.iter().enumerate() {
        around[edge.bones.0].push(k);
        around[edge.bones.1].push(k);
    }
    let walk = |root: usize| {
        let mut order = vec![(root, None, 0_usize)];
        let mut next = 0;
        while next < order.len() {
            let (bone, by, depth) = order[next];
            for &k in around[bone].iter().filter(|&&k| Some(k) != by) {
                let other = if edges[k].bones.0 == bone { edges[k].bones.1 } else { edges[k].bones.0 };
                order.push((other, Some(k), depth + 1));
            }
            next += 1;
        }
        order
    };
    let burden = |root: usize| walk(root).iter().map(|&(bone, _, depth)| depth * mass[bone]).sum::<usize>();
    let root = (0..bones).min_by_key(|&b| (burden(b), b)).unwrap_or(0);
    let joint = |&(child, by, _): &(usize, Option<usize>, usize)| {
        let edge = &edges[by?];
        let parent = if edge.bones.0 == child { edge.bones.1 } else { edge.bones.0 };
        Some(Joint { parent, child, position: edge.position, disagreement: edge.disagreement })
    };
    Tree { root, joints: walk(root).iter().filter_map(joint).collect() }
}
