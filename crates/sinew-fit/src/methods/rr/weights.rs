//! Drawing vertices by the palette of proxy bones and bones: weights given transforms, transforms given weights.
//!
//!   minimise Σ_e a_e Σ_v ‖y_v^e − Σ_i α_vi T_i^e v̂‖²,   α ≥ 0, Σ_i α_vi = 1, at most K of them not zero
//!
//! over palette entries i: proxy bones 0..P, whose transforms are free, and bones P..P + J, whose transforms are given.
//! Weights are solved vertex by vertex over the proxy bones of the vertex's own and the adjacent groups and over its
//! bones in linear blend skinning; transforms pose by pose, all proxy bones at once, with the vertices' normals beside
//! the vertices so that flat groups are not singular.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use super::cluster::{Carrier, Normals, Partition};
use crate::Training;
use crate::geometry::topology::Topology;
use crate::methods::ssd::SparseWeights;
use crate::solve::simplex;
use sinew_linalg::Cholesky;

/// Weights below this are dropped, as in linear blend skinning.
pub(super) const SMALLEST_WEIGHT: f64 = 1e-3;

/// A ridge on the weights, relative to the candidates' mean error: candidates that draw a vertex equally well share it,
/// and which of them does must not hang on the last bit.
const WEIGHT_RIDGE: f64 = 1e-6;

/// What is too fine to draw, a fraction of the diagonal: about the resolution of f32 coordinates.
const FINEST: f64 = 1e-6;

/// A ridge toward the previous transforms, relative to the mean of the diagonal.
const RIDGE: f64 = 1e-6;

/// What draws the mesh: candidates a vertex, and the centre of each proxy bone.
#[derive(Debug, Clone)]
pub struct Palette {
    /// The number of proxy bones, P.
    pub proxies: usize,
    /// The palette entries that may draw each vertex, ascending, (V).
    pub candidates: Vec<Vec<usize>>,
    /// The mean rest position of each group, (P): proxies' linear parts act about it, which keeps systems well
    /// conditioned.
    pub centres: Vec<DVec3>,
    /// The bone that carries each group best by itself, (P).
    pub home_bones: Vec<usize>,
}

impl Palette {
    /// The palette of `partition`.
    #[must_use]
    pub fn new(training: &Training, topology: &Topology, skin: &SparseWeights, partition: &Partition) -> Self {
        let proxies = partition.groups;
        let around = adjacent_groups(topology, partition);
        let limit = (3 * training.pose_count() / 2).max(8);
        let candidates = (0..training.vertex_count())
            .map(|v| {
                let mut entries = around[v].clone();
                entries.truncate(limit);
                entries.extend(skin.vertices[v].iter().map(|&(b, _)| proxies + b));
                entries.sort_unstable();
                entries
            })
            .collect();
        let mut sums = vec![(DVec3::ZERO, 0.0, vec![0.0; training.bone_count()]); proxies];
        for (v, &carrier) in partition.carriers.iter().enumerate() {
            let Carrier::Group(g) = carrier else { continue };
            sums[g].0 += training.rest[v];
            sums[g].1 += 1.0;
            skin.vertices[v].iter().for_each(|&(b, w)| sums[g].2[b] += w);
        }
        let heaviest = |weights: &[f64]| {
            (0..weights.len()).fold(0, |best, b| if weights[b] > weights[best] * (1.0 + 1e-9) { b } else { best })
        };
        Self {
            proxies,
            candidates,
            centres: sums.iter().map(|(sum, count, _)| *sum / *count).collect(),
            home_bones: sums.iter().map(|(_, _, weights)| heaviest(weights)).collect(),
        }
    }
}

/// The groups that may draw each vertex, its own first, then the others by how near they come: the groups that touch
/// its own region, (V). Regions are the connected pieces of what one carrier carries.
fn adjacent_groups(topology: &Topology, partition: &Partition) -> Vec<Vec<usize>> {
    let rings = &topology.vertex_vertices;
    let region = regions(topology, partition);
    let count = region.iter().max().map_or(0, |most| most + 1);
    let mut touching = vec![Vec::new(); count];
    for v in 0..rings.len() {
        let near = rings.row(v).iter().chain([&v]).filter_map(|&w| match partition.carriers[w] {
            Carrier::Group(g) => Some(g),
            Carrier::Bone(_) => None,
        });
        touching[region[v]].extend(near);
    }
    for groups in &mut touching {
        groups.sort_unstable();
        groups.dedup();
    }
    (0..rings.len())
        .map(|v| {
            let mut groups = touching[region[v]].clone();
            if let Carrier::Group(own) = partition.carriers[v] {
                groups.retain(|&g| g != own);
                groups.insert(0, own);
            }
            groups
        })
        .collect()
}

/// The connected pieces of the partition, numbered from 0, (V).
fn regions(topology: &Topology, partition: &Partition) -> Vec<usize> {
    let rings = &topology.vertex_vertices;
    let mut region = vec![usize::MAX; rings.len()];
    let mut next = 0;
    for start in 0..rings.len() {
        if region[start] != usize::MAX {
            continue;
        }
        region[start] = next;
        let mut front = vec![start];
        while let Some(v) = front.pop() {
            for &w in rings.row(v) {
                if region[w] == usize::MAX && partition.carriers[w] == partition.carriers[v] {
                    region[w] = next;
                    front.push(w);
                }
            }
        }
        next += 1;
    }
    region
}

/// Transforms to begin with, (N)(P): each group's own least-squares fit, as if it were drawn by its proxy alone.
#[must_use]
pub fn first_transforms(
    training: &Training,
    palette: &Palette,
    partition: &Partition,
    normals: &Normals,
) -> Vec<Vec<DAffine3>> {
    let alone = |&carrier: &Carrier| match carrier {
        Carrier::Group(g) => vec![(g, 1.0)],
        Carrier::Bone(b) => vec![(palette.proxies + b, 1.0)],
    };
    let weights = SparseWeights { vertices: partition.carriers.iter().map(alone).collect() };
    let home = |e: usize| palette.home_bones.iter().map(|&b| training.transforms[e][b]).collect();
    let start: Vec<Vec<DAffine3>> = (0..training.pose_count()).map(home).collect();
    solve_transforms(training, palette, &weights, normals, &start)
}

/// Weights given the palette entries that may draw each vertex, (V), and the proxies' transforms, (N)(P).
#[must_use]
pub fn solve_weights(
    training: &Training,
    candidates: &[Vec<usize>],
    proxies: &[Vec<DAffine3>],
    influences: usize,
) -> SparseWeights {
    let solve = |workspace: &mut simplex::Workspace, v: usize| {
        solve_vertex(training, &candidates[v], proxies, influences, v, workspace)
    };
    let vertices = (0..training.vertex_count()).into_par_iter().map_init(simplex::Workspace::default, solve).collect();
    SparseWeights { vertices }
}

/// The weights of vertex `v` alone.
pub fn solve_vertex(
    training: &Training,
    candidates: &[usize],
    proxies: &[Vec<DAffine3>],
    influences: usize,
    v: usize,
    workspace: &mut simplex::Workspace,
) -> Vec<(usize, f64)> {
    let gram = residual_gram(training, candidates, proxies, v);
    let weights = simplex::solve_sparse(&gram, candidates.len(), influences, SMALLEST_WEIGHT, workspace);
    weights.into_iter().map(|(index, weight)| (candidates[index], weight)).collect()
}

/// `G_ij = Σ_e a_e r_i^e · r_j^e`, `r_i^e = T_i^e v̂ − y_v^e`, over the candidates of vertex `v`, (n, n).
pub(super) fn residual_gram(
    training: &Training,
    candidates: &[usize],
    proxies: &[Vec<DAffine3>],
    v: usize,
) -> Vec<f64> {
    let n = candidates.len();
    let mut gram = vec![0.0; n * n];
    let mut residuals = vec![DVec3::ZERO; n];
    for e in 0..training.pose_count() {
        for (residual, &i) in residuals.iter_mut().zip(candidates) {
            let count = proxies[e].len();
            let transform = if i < count { proxies[e][i] } else { training.transforms[e][i - count] };
            *residual = transform.transform_point3(training.rest[v]) - training.vertices[e][v];
        }
        for i in 0..n {
            let weighted = residuals[i] * training.pose_weights[e];
            for j in 0..=i {
                gram[i * n + j] += weighted.dot(residuals[j]);
            }
        }
    }
    let mean = (0..n).map(|i| gram[i * n + i]).sum::<f64>() / n as f64;
    let floor = (FINEST * training.diagonal).powi(2) * training.pose_count() as f64;
    for i in 0..n {
        gram[i * n + i] += WEIGHT_RIDGE * mean + floor;
        for j in 0..i {
            gram[j * n + i] = gram[i * n + j];
        }
    }
    gram
}

/// The transforms (N)(P) that draw the training meshes best with `weights`; `previous` where nothing determines them.
#[must_use]
pub fn solve_transforms(
    training: &Training,
    palette: &Palette,
    weights: &SparseWeights,
    normals: &Normals,
    previous: &[Vec<DAffine3>],
) -> Vec<Vec<DAffine3>> {
    let unknowns = 4 * palette.proxies;
    let mut matrix = drawing_matrix(training, palette, weights);
    for (v, pairs) in weights.vertices.iter().enumerate() {
        let normal = normals.rest[v] * normals.heights[v];
        for &(p, w) in pairs.iter().filter(|&&(i, _)| i < palette.proxies) {
            for (r, c) in pairs_of_four().filter(|&(r, c)| r < 3 && c < 3) {
                matrix[(4 * p + r) * unknowns + 4 * p + c] += w * normal[r] * normal[c];
            }
        }
    }
    let mean = (0..unknowns).map(|i| matrix[i * unknowns + i]).sum::<f64>() / unknowns.max(1) as f64;
    let ridge = RIDGE * mean.max(f64::MIN_POSITIVE);
    (0..unknowns).for_each(|i| matrix[i * unknowns + i] += ridge);
    let factor = Cholesky::new(matrix, unknowns);
    let pose = |e: usize| {
        let (mut right, _) = drawing_right_side(training, palette, weights, e);
        add_normals(palette, weights, normals, e, &mut right);
        for (p, &previous) in previous[e].iter().enumerate() {
            let columns = centred_columns(previous, palette.centres[p]);
            (0..4).for_each(|r| right[4 * p + r] += ridge * columns[r]);
        }
        let solution = factor.solve3(&right);
        (0..palette.proxies).map(|p| from_centred(&solution[4 * p..4 * p + 4], palette.centres[p])).collect()
    };
    (0..training.pose_count()).into_par_iter().map(pose).collect()
}

/// `ΦᵀΦ`, the normal equations' matrix of the proxies' centred columns, (4P, 4P).
#[must_use]
pub fn drawing_matrix(training: &Training, palette: &Palette, weights: &SparseWeights) -> Vec<f64> {
    let unknowns = 4 * palette.proxies;
    let mut matrix = vec![0.0; unknowns * unknowns];
    for (v, pairs) in weights.vertices.iter().enumerate() {
        let proxies = || pairs.iter().filter(|&&(i, _)| i < palette.proxies);
        for &(p, wp) in proxies() {
            let hp = homogeneous(training.rest[v] - palette.centres[p]);
            for &(q, wq) in proxies() {
                let hq = homogeneous(training.rest[v] - palette.centres[q]);
                for (r, c) in pairs_of_four() {
                    matrix[(4 * p + r) * unknowns + 4 * q + c] += wp * wq * hp[r] * hq[c];
                }
            }
        }
    }
    matrix
}

/// `Φᵀ(y − Ψq)` in pose `e`, (4P), and `‖y − Ψq‖²`; Ψq is what the bones draw of the vertices.
#[must_use]
pub fn drawing_right_side(
    training: &Training,
    palette: &Palette,
    weights: &SparseWeights,
    e: usize,
) -> (Vec<DVec3>, f64) {
    let mut right = vec![DVec3::ZERO; 4 * palette.proxies];
    let mut square = 0.0;
    for (v, pairs) in weights.vertices.iter().enumerate() {
        let carried = |&(i, w): &(usize, f64)| {
            if i < palette.proxies { DVec3::ZERO } else { w * training.carried(e, i - palette.proxies, v) }
        };
        let left = training.vertices[e][v] - pairs.iter().map(carried).sum::<DVec3>();
        square += left.length_squared();
        for &(p, w) in pairs.iter().filter(|&&(i, _)| i < palette.proxies) {
            let h = homogeneous(training.rest[v] - palette.centres[p]);
            (0..4).for_each(|r| right[4 * p + r] += w * h[r] * left);
        }
    }
    (right, square)
}

/// Adds the normals' part to the right side of pose `e`.
fn add_normals(palette: &Palette, weights: &SparseWeights, normals: &Normals, e: usize, right: &mut [DVec3]) {
    for (v, pairs) in weights.vertices.iter().enumerate() {
        let square = normals.heights[v].powi(2);
        for &(p, w) in pairs.iter().filter(|&&(i, _)| i < palette.proxies) {
            (0..3).for_each(|r| right[4 * p + r] += w * square * normals.rest[v][r] * normals.poses[e][v]);
        }
    }
}

/// `Σ_e a_e Σ_v ‖y_v^e − Σ_i α_vi T_i^e v̂‖²`.
#[must_use]
pub fn drawing_error(training: &Training, weights: &SparseWeights, proxies: &[Vec<DAffine3>]) -> f64 {
    vertex_errors(training, weights, proxies).iter().sum()
}

/// Each vertex's share of [`drawing_error`], (V).
#[must_use]
pub fn vertex_errors(training: &Training, weights: &SparseWeights, proxies: &[Vec<DAffine3>]) -> Vec<f64> {
    let error = |v: usize| {
        let squared = |e: usize| (drawn(training, weights, proxies, e, v) - training.vertices[e][v]).length_squared();
        (0..training.pose_count()).map(|e| training.pose_weights[e] * squared(e)).sum()
    };
    (0..training.vertex_count()).into_par_iter().map(error).collect()
}

/// `Σ_i α_vi T_i^e v̂`; `proxies` is (N)(P).
#[must_use]
pub fn drawn(training: &Training, weights: &SparseWeights, proxies: &[Vec<DAffine3>], e: usize, v: usize) -> DVec3 {
    drawn_by(training, &weights.vertices[v], proxies, e, v)
}

/// The same with the weights of vertex `v` alone.
pub(super) fn drawn_by(
    training: &Training,
    weights: &[(usize, f64)],
    proxies: &[Vec<DAffine3>],
    e: usize,
    v: usize,
) -> DVec3 {
    let count = proxies[e].len();
    let term = |&(i, w): &(usize, f64)| {
        w * if i < count { proxies[e][i].transform_point3(training.rest[v]) } else { training.carried(e, i - count, v) }
    };
    weights.iter().map(term).sum()
}

fn homogeneous(v: DVec3) -> [f64; 4] {
    [v.x, v.y, v.z, 1.0]
}

fn pairs_of_four() -> impl Iterator<Item = (usize, usize)> {
    (0..16).map(|k| (k / 4, k % 4))
}

/// The columns of a transform that acts on points relative to `centre`: L's three, and where the centre goes.
#[must_use]
pub fn centred_columns(transform: DAffine3, centre: DVec3) -> [DVec3; 4] {
    let l = transform.matrix3;
    [l.x_axis, l.y_axis, l.z_axis, transform.transform_point3(centre)]
}

/// The transform of the columns that [`centred_columns`] gives.
#[must_use]
pub fn from_centred(columns: &[DVec3], centre: DVec3) -> DAffine3 {
    let matrix3 = DMat3::from_cols(columns[0], columns[1], columns[2]);
    DAffine3 { matrix3, translation: columns[3] - matrix3 * centre }
}
