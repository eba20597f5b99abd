//! Vertex reduction (Wang, thesis 2007, section 4.1): greedy joins of contiguous groups of vertices through a priority
//! queue, from one group a vertex down to none. One run serves every number of proxy bones.
//!
//! A group G with an affine transform T^e a pose costs
//!
//!   E(G) = min_T Σ_e Σ_{v∈G} ( ‖y_v^e − T^e v̂‖² + h_v² ‖n_v^e − L^e n̂_v‖² ),   T = [L | t]
//!
//! The normals, at a height h_v of half the mean edge, keep flat groups from being singular. Two contiguous groups are
//! joined at the price E(A ∪ B) − E(A) − E(B). The thesis prices A's vertices under B's transform, an upper bound; the
//! exact price is as cheap, since E follows from sums that add up over a join:
//!
//!   M = Σ h hᵀ,  X^e = Σ y hᵀ,  Y = Σ ‖y‖²:   E = Y − Σ_e tr(X^e M⁻¹ X^eᵀ),   h = (v̂, 1)
//!
//! A group may also join a bone of the skeleton, at the price of being carried by it from then on. Bones are in the
//! palette anyway, so that proxy bones are spent only where no bone does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use glam::{DAffine3, DVec3};

use crate::Training;
use crate::geometry::topology::Topology;
use crate::methods::ssd::SparseWeights;

/// Poses that the clustering looks at, at most: groups follow from a few dozen as well as from hundreds, and the sums of
/// every vertex are in memory at once.
const MOST_POSES: usize = 48;

/// A ridge on M, relative to its trace: groups of fewer than four points in general position are singular.
const RIDGE: f64 = 1e-9;

/// Who carries a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// A bone of the skeleton.
    Bone(usize),
    /// A group that gets a proxy bone.
    Group(usize),
}

/// Who carries each vertex: a partition of the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The carrier of each vertex, (V); groups are numbered by their first vertex.
    pub carriers: Vec<Carrier>,
    /// The number of groups, P.
    pub groups: usize,
}

/// The joins in the order in which they were made.
#[derive(Debug, Clone)]
pub struct Joins {
    vertices: usize,
    /// (group, what it joined), groups named by a vertex of theirs.
    joins: Vec<(usize, Carrier)>,
}

impl Joins {
    /// The partition with `proxies` groups, or fewer if the mesh has fewer vertices.
    #[must_use]
    pub fn partition(&self, proxies: usize) -> Partition {
        let mut carriers: Vec<Carrier> = (0..self.vertices).map(Carrier::Group).collect();
        let count = self.vertices.saturating_sub(proxies).min(self.joins.len());
        for &(group, into) in &self.joins[..count] {
            carriers[group] = into;
        }
        number_groups(&carriers)
    }
}

/// Follows every vertex to its carrier and numbers the groups.
fn number_groups(carriers: &[Carrier]) -> Partition {
    let resolve = |mut carrier: Carrier| loop {
        match carrier {
            Carrier::Group(g) if carriers[g] != carrier => carrier = carriers[g],
            _ => return carrier,
        }
    };
    let mut numbers = BTreeMap::new();
    let carriers = (0..carriers.len())
        .map(|v| match resolve(Carrier::Group(v)) {
            Carrier::Group(g) => {
                let next = numbers.len();
                Carrier::Group(*numbers.entry(g).or_insert(next))
            }
            bone => bone,
        })
        .collect();
    Partition { carriers, groups: numbers.len() }
}

/// Joins everything, cheapest join first. With `given` groups (V), connected ones, vertices of a group are joined
/// before anything else.
#[must_use]
pub fn join_greedily(
    training: &Training,
    topology: &Topology,
    skin: &SparseWeights,
    normals: &Normals,
    given: Option<&[usize]>,
) -> Joins {
    let poses = spread_poses(training);
    let mut clusters = Clusters::new(training, topology, skin, normals, &poses);
    let mut joins = Vec::with_capacity(training.vertex_count());
    let mut first: BTreeMap<usize, usize> = BTreeMap::new();
    for (v, group) in given.iter().flat_map(|groups| groups.iter().enumerate()) {
        let into = *first.entry(*group).or_insert(v);
        if into != v {
            clusters.join(v, Carrier::Group(into));
            joins.push((v, Carrier::Group(into)));
        }
    }
    while let Some((group, into)) = clusters.cheapest() {
        clusters.join(group, into);
        joins.push((group, into));
    }
    Joins { vertices: training.vertex_count(), joins }
}

/// Unit vertex normals of the rest mesh and of every pose.
#[derive(Debug, Clone)]
pub struct Normals {
    /// Of the rest mesh, (V).
    pub rest: Vec<DVec3>,
    /// Of the poses, (N)(V).
    pub poses: Vec<Vec<DVec3>>,
    /// The height at which a normal counts as a point, half the mean length of the vertex's edges, (V).
    pub heights: Vec<f64>,
}

impl Normals {
    /// The normals of the training meshes, weighted by area; nil where no triangle has one.
    #[must_use]
    pub fn new(training: &Training, topology: &Topology) -> Self {
        use rayon::prelude::*;
        let triangles = training.mesh.triangles();
        let height = |v: usize| {
            let around = topology.vertex_vertices.row(v);
            let sum: f64 = around.iter().map(|&w| training.rest[v].distance(training.rest[w])).sum();
            0.5 * sum / around.len().max(1) as f64
        };
        Self {
            rest: vertex_normals(&training.rest, triangles),
            poses: training.vertices.par_iter().map(|posed| vertex_normals(posed, triangles)).collect(),
            heights: (0..training.vertex_count()).map(height).collect(),
        }
    }
}

fn vertex_normals(positions: &[DVec3], triangles: &[[u32; 3]]) -> Vec<DVec3> {
    let mut normals = vec![DVec3::ZERO; positions.len()];
    for triangle in triangles {
        let [a, b, c] = triangle.map(|v| positions[v as usize]);
        let area = (b - a).cross(c - a);
        triangle.iter().for_each(|&v| normals[v as usize] += area);
    }
    normals.into_iter().map(DVec3::normalize_or_zero).collect()
}

/// At most [`MOST_POSES`] poses, spread over the sequence.
fn spread_poses(training: &Training) -> Vec<usize> {
    let count = training.pose_count();
    let kept = count.min(MOST_POSES);
    (0..kept).map(|k| k * count / kept).collect()
}

/// The sums of a group over its vertices.
#[derive(Debug, Clone)]
struct Sums {
    /// `Σ h hᵀ`, the lower triangle row by row.
    m: [f64; 10],
    /// `Σ y hᵀ`, three rows of four a pose, (N, 3, 4).
    x: Vec<f64>,
    /// `Σ ‖y‖²` over vertices and poses.
    y: f64,
}

impl Sums {
    /// `E = Y − ‖X L⁻ᵀ‖²` of the sums of `self` and, if given, of `other`, `M = L Lᵀ`.
    fn error(&self, other: Option<&Sums>) -> f64 {
        let mut m = self.m;
        if let Some(other) = other {
            m.iter_mut().zip(&other.m).for_each(|(a, b)| *a += b);
        }
        let factor = factor(m);
        let row_error = |x: [f64; 4]| -> f64 {
            let mut z = [0.0; 4];
            for i in 0..4 {
                let mut sum = x[i];
                for k in 0..i {
                    sum -= factor[i * (i + 1) / 2 + k] * z[k];
                }
                z[i] = sum * factor[i * (i + 1) / 2 + i];
            }
            z.iter().map(|z| z * z).sum()
        };
        let (rows, _) = self.x.as_chunks::<4>();
        let (explained, y): (f64, f64) = match other {
            None => (rows.iter().map(|&x| row_error(x)).sum(), self.y),
            Some(other) => {
                let both = rows.iter().zip(other.x.as_chunks::<4>().0);
                let sum = both.map(|(a, b)| row_error(std::array::from_fn(|k| a[k] + b[k]))).sum();
                (sum, self.y + other.y)
            }
        };
        (y - explained).max(0.0)
    }

    /// `Y − 2 tr(X Tᵀ) + tr(T M Tᵀ)`: the error under the transforms of a bone, (N) row by row.
    fn error_under(&self, transforms: &[[f64; 12]]) -> f64 {
        let m = &self.m;
        let mut error = self.y;
        for (x, t) in self.x.as_chunks::<12>().0.iter().zip(transforms) {
            for row in 0..3 {
                let (x, t) = (&x[4 * row..], &t[4 * row..]);
                for i in 0..4 {
                    let mut tm = 0.0;
                    for k in 0..4 {
                        let (high, low) = (i.max(k), i.min(k));
                        tm += t[k] * m[high * (high + 1) / 2 + low];
                    }
                    error += t[i] * (tm - 2.0 * x[i]);
                }
            }
        }
        error.max(0.0)
    }

    /// Adds `share` times `other`.
    fn add(&mut self, other: &Sums, share: f64) {
        self.m.iter_mut().zip(&other.m).for_each(|(a, b)| *a += share * b);
        self.x.iter_mut().zip(&other.x).for_each(|(a, b)| *a += share * b);
        self.y += share * other.y;
    }
}

/// The Cholesky factor of M with a ridge, lower triangle row by row, the diagonal inverted.
fn factor(m: [f64; 10]) -> [f64; 10] {
    let ridge = RIDGE * (m[0] + m[2] + m[5] + m[9]);
    let mut l = [0.0; 10];
    for i in 0..4 {
        for j in 0..=i {
            let mut sum = m[i * (i + 1) / 2 + j];
            for k in 0..j {
                sum -= l[i * (i + 1) / 2 + k] * l[j * (j + 1) / 2 + k];
            }
            l[i * (i + 1) / 2 + j] = if i == j {
                // A pivot that rounding made negative is a direction without extent: the ridge stands in for it.
                1.0 / (sum.max(0.0) + ridge).max(f64::MIN_POSITIVE).sqrt()
            } else {
                sum * l[j * (j + 1) / 2 + j]
            };
        }
    }
    l
}

/// An offer in the queue, cheapest first, equal ones in the vertices' order; out of date if a party has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    class: u64,
    group: usize,
    into: Carrier,
    versions: (u32, u32),
}

/// Prices in steps of a ten-thousandth, from (3e-5 of the diagonal)² a pose on. Symmetric meshes have many joins of equal price,
/// and which goes first must not hang on the last bit, or the same data elsewhere in space would be clustered otherwise.
#[derive(Debug, Clone, Copy)]
struct PriceSteps {
    unit: f64,
}

impl PriceSteps {
    fn class(self, price: f64) -> u64 {
        ((1.0 + price.max(0.0) / self.unit).ln() * 1e4) as u64
    }
}

/// The groups while they are being joined.
struct Clusters {
    /// The sums of each living group, named by a vertex, (V).
    sums: Vec<Option<Sums>>,
    /// `E` of each group, (V).
    errors: Vec<f64>,
    /// Neighbours of each group, (V).
    neighbours: Vec<BTreeSet<usize>>,
    /// The bone that would carry the group best, (V).
    bones: Vec<usize>,
    versions: Vec<u32>,
    /// The transforms of each bone row by row, (J)(N).
    transforms: Vec<Vec<[f64; 12]>>,
    queue: BinaryHeap<Reverse<Offer>>,
    steps: PriceSteps,
}

impl Clusters {
    fn new(training: &Training, topology: &Topology, skin: &SparseWeights, normals: &Normals, poses: &[usize]) -> Self {
        let vertices = training.vertex_count();
        let centre = training.rest.iter().copied().sum::<DVec3>() / vertices as f64;
        let own: Vec<Sums> = (0..vertices).map(|v| vertex_sums(training, normals, poses, centre, v)).collect();
        let sums: Vec<Option<Sums>> = (0..vertices).map(|v| Some(shared_sums(&own, topology, v))).collect();
        drop(own);
        let transforms = (0..training.bone_count())
            .map(|b| poses.iter().map(|&e| about(training.transforms[e][b], centre)).collect())
            .collect();
        let mut clusters = Self {
            errors: sums.iter().map(|sums| sums.as_ref().map_or(0.0, |sums| sums.error(None))).collect(),
            neighbours: (0..vertices).map(|v| topology.vertex_vertices.row(v).iter().copied().collect()).collect(),
            bones: (0..vertices).map(|v| skin.dominant(v)).collect(),
            versions: vec![0; vertices],
            sums,
            transforms,
            queue: BinaryHeap::new(),
            steps: PriceSteps { unit: 1e-9 * training.diagonal.powi(2) * poses.len() as f64 },
        };
        for v in 0..vertices {
            let bones: Vec<usize> = skin.vertices[v].iter().map(|&(b, _)| b).collect();
            clusters.offer_bone(v, &bones);
            for &w in topology.vertex_vertices.row(v).iter().filter(|&&w| w > v) {
                clusters.offer_group(w, v);
            }
        }
        clusters
    }

    /// Offers to let the best of `bones` carry `group`.
    fn offer_bone(&mut self, group: usize, bones: &[usize]) {
        let sums = self.sums[group].as_ref().expect("only living groups are offered");
        let mut best = (f64::INFINITY, bones[0]);
        for &b in bones {
            let error = sums.error_under(&self.transforms[b]);
            // Better by more than rounding: between bones that do equally well the first named stays.
            if error < best.0 * (1.0 - 1e-9) {
                best = (error, b);
            }
        }
        self.bones[group] = best.1;
        let class = self.steps.class(best.0 - self.errors[group]);
        let versions = (self.versions[group], 0);
        self.queue.push(Reverse(Offer { class, group, into: Carrier::Bone(best.1), versions }));
    }

    /// Offers to join `group` into `into`.
    fn offer_group(&mut self, group: usize, into: usize) {
        let (a, b) = (&self.sums[group], &self.sums[into]);
        let (Some(a), Some(b)) = (a, b) else { return };
        let class = self.steps.class(a.error(Some(b)) - self.errors[group] - self.errors[into]);
        let versions = (self.versions[group], self.versions[into]);
        self.queue.push(Reverse(Offer { class, group, into: Carrier::Group(into), versions }));
    }

    /// The cheapest offer that still stands.
    fn cheapest(&mut self) -> Option<(usize, Carrier)> {
        while let Some(Reverse(offer)) = self.queue.pop() {
            let stands = self.sums[offer.group].is_some()
                && self.versions[offer.group] == offer.versions.0
                && match offer.into {
                    Carrier::Bone(_) => true,
                    Carrier::Group(into) => self.sums[into].is_some() && self.versions[into] == offer.versions.1,
                };
            if stands {
                return Some((offer.group, offer.into));
            }
        }
        None
    }

    fn join(&mut self, group: usize, into: Carrier) {
        let sums = self.sums[group].take().expect("an offer that stands has a living group");
        let around = std::mem::take(&mut self.neighbours[group]);
        for &n in &around {
            self.neighbours[n].remove(&group);
        }
        let Carrier::Group(into) = into else { return };
        self.sums[into].as_mut().expect("an offer that stands has a living target").add(&sums, 1.0);
        self.versions[into] += 1;
        self.errors[into] = self.sums[into].as_ref().map_or(0.0, |sums| sums.error(None));
        for n in around.into_iter().filter(|&n| n != into) {
            self.neighbours[n].insert(into);
            self.neighbours[into].insert(n);
        }
        let bones = [self.bones[into], self.bones[group]];
        self.offer_bone(into, if bones[0] == bones[1] { &bones[..1] } else { &bones });
        let neighbours: Vec<usize> = self.neighbours[into].iter().copied().collect();
        for n in neighbours {
            self.offer_group(n, into);
        }
    }
}

/// The sums of one vertex and its normal, rest positions relative to `centre`.
fn vertex_sums(training: &Training, normals: &Normals, poses: &[usize], centre: DVec3, v: usize) -> Sums {
    let rest = training.rest[v] - centre;
    let h = [rest.x, rest.y, rest.z, 1.0];
    let normal = normals.rest[v] * normals.heights[v];
    let n = [normal.x, normal.y, normal.z, 0.0];
    let mut sums = Sums { m: [0.0; 10], x: Vec::with_capacity(12 * poses.len()), y: 0.0 };
    for i in 0..4 {
        for j in 0..=i {
            sums.m[i * (i + 1) / 2 + j] = h[i] * h[j] + n[i] * n[j];
        }
    }
    for &e in poses {
        let (posed, posed_normal) = (training.vertices[e][v], normals.poses[e][v] * normals.heights[v]);
        for row in 0..3 {
            sums.x.extend((0..4).map(|k| posed[row] * h[k] + posed_normal[row] * n[k]));
        }
        sums.y += posed.length_squared() + posed_normal.length_squared();
    }
    sums
}

/// Half of a vertex's own sums and its part of the other half of each neighbour's. A single vertex fits any transform;
/// with its ring it says from the start how the surface moves there, and the first joins are not left to chance.
fn shared_sums(own: &[Sums], topology: &Topology, v: usize) -> Sums {
    let around = topology.vertex_vertices.row(v);
    let mut sums = Sums { m: [0.0; 10], x: vec![0.0; own[v].x.len()], y: 0.0 };
    sums.add(&own[v], if around.is_empty() { 1.0 } else { 0.5 });
    for &w in around {
        sums.add(&own[w], 0.5 / topology.vertex_vertices.row(w).len() as f64);
    }
    sums
}

/// The rows of `transform`, to be applied to points relative to `centre`.
fn about(transform: DAffine3, centre: DVec3) -> [f64; 12] {
    let moved = transform * DAffine3::from_translation(centre);
    let rows = moved.matrix3.transpose();
    let (x, y, z, t) = (rows.x_axis, rows.y_axis, rows.z_axis, moved.translation);
    [x.x, x.y, x.z, t.x, y.x, y.y, y.z, t.y, z.x, z.y, z.z, t.z]
}
