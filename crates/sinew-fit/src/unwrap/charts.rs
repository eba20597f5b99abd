//! Charts: the pieces of the surface that are flattened, each by itself.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use glam::DVec3;

use crate::FitError;

/// A face joins an automatic chart if its normal is within this angle of the chart's mean normal: the chart is then a
/// height field, never closed, and flattens with little distortion.
const LARGEST_ANGLE: f64 = 60.0;

/// Charts that touch are joined if every normal of both is within this angle of their common mean: still a height field.
const MERGED_ANGLE: f64 = 72.0;

/// The same for charts of less than this part of all faces: scraps cost more in seams than they distort.
const SCRAP: (f64, f64) = (0.01, 85.0);

/// Triangles that are flattened together, over vertices of their own: a vertex on a seam has several.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The mesh's triangles, ascending.
    pub faces: Vec<usize>,
    /// Their corners as the chart's own vertices.
    pub corners: Vec<[usize; 3]>,
    /// The mesh vertex of each of the chart's vertices.
    pub vertices: Vec<u32>,
}

impl Chart {
    /// The chart of `faces` whose corners are told apart by `key`.
    fn new<K: Ord>(faces: Vec<usize>, key: impl Fn(usize, usize) -> K, triangles: &[[u32; 3]]) -> Self {
        let mut index: BTreeMap<K, usize> = BTreeMap::new();
        let mut vertices = Vec::new();
        let mut corner = |f: usize, k: usize| {
            *index.entry(key(f, k)).or_insert_with(|| {
                vertices.push(triangles[f][k]);
                vertices.len() - 1
            })
        };
        let corners = faces.iter().map(|&f| [corner(f, 0), corner(f, 1), corner(f, 2)]).collect();
        Self { faces, corners, vertices }
    }

    /// The error of a solver that found no map.
    pub(super) fn cannot_be_flattened(&self) -> FitError {
        FitError::Data(format!("a chart of {} triangles could not be flattened", self.faces.len()))
    }

    /// Whether some edge has one triangle only.
    #[must_use]
    pub fn has_boundary(&self) -> bool {
        let mut count: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for corners in &self.corners {
            for k in 0..3 {
                let (a, b) = (corners[k], corners[(k + 1) % 3]);
                *count.entry((a.min(b), a.max(b))).or_default() += 1;
            }
        }
        count.values().any(|&faces| faces == 1)
    }
}

/// The charts that `uvs` draw: triangles that share an edge with the same coordinates on both sides.
#[must_use]
pub fn from_uvs(triangles: &[[u32; 3]], uvs: &[[[f32; 2]; 3]]) -> Vec<Chart> {
    let key = |f: usize, k: usize| (triangles[f][k], uvs[f][k].map(f32::to_bits));
    let all: Vec<usize> = (0..triangles.len()).collect();
    components(&all, key).into_iter().map(|faces| Chart::new(faces, key, triangles)).collect()
}

/// Charts over `faces` by growing regions of like normals, the flattest way on first.
#[must_use]
pub fn automatic(rest: &[DVec3], triangles: &[[u32; 3]], faces: &[usize]) -> Vec<Chart> {
    let normals: BTreeMap<usize, DVec3> = faces.iter().map(|&f| (f, area_normal(rest, triangles[f]))).collect();
    let neighbours = neighbours(faces, |f, k| triangles[f][k]);
    let mut assigned: BTreeMap<usize, bool> = faces.iter().map(|&f| (f, false)).collect();
    let mut regions = Vec::new();
    for &seed in faces {
        if !assigned[&seed] {
            regions.push(grow(seed, &normals, &neighbours, &mut assigned));
        }
    }
    let merged = merge(regions, &normals, &neighbours).into_iter();
    merged.map(|members| Chart::new(members, |f, k| triangles[f][k], triangles)).collect()
}

/// Joins regions that touch, the smallest first, each to the one it shares most edges with that allows it.
fn merge(
    mut regions: Vec<Vec<usize>>,
    normals: &BTreeMap<usize, DVec3>,
    neighbours: &BTreeMap<usize, Vec<usize>>,
) -> Vec<Vec<usize>> {
    let all = normals.len() as f64;
    let mut of: BTreeMap<usize, usize> = BTreeMap::new();
    for (r, members) in regions.iter().enumerate() {
        of.extend(members.iter().map(|&f| (f, r)));
    }
    let fits = |a: &[usize], b: &[usize]| {
        let scrap = (a.len().min(b.len()) as f64) < SCRAP.0 * all;
        let limit = if scrap { SCRAP.1 } else { MERGED_ANGLE }.to_radians().cos();
        let both = || a.iter().chain(b);
        let mean = both().map(|f| normals[f]).sum::<DVec3>().normalize_or_zero();
        let within = |f: &usize| normals[f] == DVec3::ZERO || normals[f].normalize_or_zero().dot(mean) >= limit;
        both().all(within)
    };
    // Waiting regions by size; one that cannot be joined waits no longer until a neighbour has changed.
    let mut waiting: BTreeSet<(usize, usize)> = regions.iter().enumerate().map(|(r, m)| (m.len(), r)).collect();
    while let Some((_, r)) = waiting.pop_first() {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for f in &regions[r] {
            for g in &neighbours[f] {
                if of[g] != r {
                    *shared.entry(of[g]).or_default() += 1;
                }
            }
        }
        let mut touching: Vec<(usize, usize)> = shared.into_iter().collect();
        touching.sort_by_key(|&(other, edges)| (std::cmp::Reverse(edges), other));
        let Some(&(into, _)) = touching.iter().find(|&&(other, _)| fits(&regions[r], &regions[other])) else {
            continue;
        };
        waiting.remove(&(regions[into].len(), into));
        let moved = std::mem::take(&mut regions[r]);
        of.extend(moved.iter().map(|&f| (f, into)));
        regions[into].extend(moved);
        regions[into].sort_unstable();
        waiting.insert((regions[into].len(), into));
    }
    regions.retain(|members| !members.is_empty());
    regions
}

fn grow(
    seed: usize,
    normals: &BTreeMap<usize, DVec3>,
    neighbours: &BTreeMap<usize, Vec<usize>>,
    assigned: &mut BTreeMap<usize, bool>,
) -> Vec<usize> {
    let limit = LARGEST_ANGLE.to_radians().cos();
    let mut members = Vec::new();
    let mut sum = DVec3::ZERO;
    // Likeness as ordered bits, then the lower face first, so that ties do not depend on anything else.
    let mut queue = BinaryHeap::from([(u64::MAX, std::cmp::Reverse(seed))]);
    while let Some((_, std::cmp::Reverse(f))) = queue.pop() {
        let mean = sum.normalize_or_zero();
        let normal = normals[&f].normalize_or_zero();
        // A triangle without area has no normal and fits anywhere.
        let fits = mean == DVec3::ZERO || normal == DVec3::ZERO || normal.dot(mean) >= limit;
        if assigned[&f] || !fits {
            continue;
        }
        assigned.insert(f, true);
        members.push(f);
        sum += normals[&f];
        for &next in &neighbours[&f] {
            if !assigned[&next] {
                let likeness = normals[&next].normalize_or_zero().dot(sum.normalize_or_zero()) + 2.0;
                queue.push((likeness.to_bits(), std::cmp::Reverse(next)));
            }
        }
    }
    members.sort_unstable();
    members
}

/// The chart's two halves across its longest side at rest, or more if a half falls apart.
#[must_use]
pub fn halve(rest: &[DVec3], chart: &Chart) -> Vec<Chart> {
    let middle = |corners: &[usize; 3]| corners.iter().map(|&c| rest[chart.vertices[c] as usize]).sum::<DVec3>() / 3.0;
    let middles: Vec<DVec3> = chart.corners.iter().map(middle).collect();
    let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
    let (low, high) = middles.iter().fold(start, |(low, high), &m| (low.min(m), high.max(m)));
    let side = high - low;
    let axis = if side.x >= side.y && side.x >= side.z { 0 } else { 1 + usize::from(side.z > side.y) };
    let mut order: Vec<usize> = (0..middles.len()).collect();
    order.sort_by(|&a, &b| middles[a][axis].total_cmp(&middles[b][axis]).then(a.cmp(&b)));
    let mut halves = Vec::new();
    for half in [&order[..order.len() / 2], &order[order.len() / 2..]] {
        let mut half = half.to_vec();
        half.sort_unstable();
        for members in components(&half, |k, corner| chart.corners[k][corner]) {
            halves.push(part(chart, &members));
        }
    }
    halves
}

/// The chart of the members `kept` (indices into its faces) only.
fn part(chart: &Chart, kept: &[usize]) -> Chart {
    let mut index: BTreeMap<usize, usize> = BTreeMap::new();
    let mut vertices = Vec::new();
    let mut corner = |c: usize| {
        *index.entry(c).or_insert_with(|| {
            vertices.push(chart.vertices[c]);
            vertices.len() - 1
        })
    };
    let corners = kept.iter().map(|&k| chart.corners[k].map(&mut corner)).collect();
    Chart { faces: kept.iter().map(|&k| chart.faces[k]).collect(), corners, vertices }
}

/// For every face of `faces` those that share an edge, by the corners' keys.
fn neighbours<K: Ord + Copy>(faces: &[usize], key: impl Fn(usize, usize) -> K) -> BTreeMap<usize, Vec<usize>> {
    let mut edges: BTreeMap<(K, K), Vec<usize>> = BTreeMap::new();
    for &f in faces {
        for k in 0..3 {
            let (a, b) = (key(f, k), key(f, (k + 1) % 3));
            edges.entry((a.min(b), a.max(b))).or_default().push(f);
        }
    }
    let mut out: BTreeMap<usize, Vec<usize>> = faces.iter().map(|&f| (f, Vec::new())).collect();
    for around in edges.values() {
        for &f in around {
            out.entry(f).or_default().extend(around.iter().copied().filter(|&g| g != f));
        }
    }
    out
}

/// The connected pieces of `faces`, each ascending.
fn components<K: Ord + Copy>(faces: &[usize], key: impl Fn(usize, usize) -> K) -> Vec<Vec<usize>> {
    let neighbours = neighbours(faces, key);
    let mut seen: BTreeMap<usize, bool> = BTreeMap::new();
    let mut pieces = Vec::new();
    for &seed in faces {
        if seen.insert(seed, true).is_some() {
            continue;
        }
        let mut piece = vec![seed];
        let mut next = 0;
        while next < piece.len() {
            for &g in &neighbours[&piece[next]] {
                if seen.insert(g, true).is_none() {
                    piece.push(g);
                }
            }
            next += 1;
        }
        piece.sort_unstable();
        pieces.push(piece);
    }
    pieces
}

fn area_normal(rest: &[DVec3], triangle: [u32; 3]) -> DVec3 {
    let [a, b, c] = triangle.map(|v| rest[v as usize]);
    (b - a).cross(c - a)
}
