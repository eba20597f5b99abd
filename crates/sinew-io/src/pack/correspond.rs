//! Which vertex of one source is which of another: by index if the shapes agree so, else by rest position.

use std::collections::BTreeMap;

use glam::DVec3;

use crate::Surface;

/// An edge that is longer or shorter by more than this is not the same edge.
const EDGE_RATIO: f64 = 2.5;

/// The share of edges that may change by more: skin stretches in places.
const EDGES_WRONG: f64 = 0.1;

/// Whether `points` in the order of `surface` are a mesh of about the shape of `rest`: neighbours stay neighbours.
pub(super) fn same_order(surface: &Surface, rest: &[DVec3], points: &[DVec3]) -> bool {
    if rest.len() != points.len() {
        return false;
    }
    let (mut wrong, mut edges) = (0, 0);
    for polygon in surface.polygons.iter() {
        for k in 0..polygon.len() {
            let (a, b) = (polygon[k] as usize, polygon[(k + 1) % polygon.len()] as usize);
            let (before, after) = ((rest[a] - rest[b]).length(), (points[a] - points[b]).length());
            edges += 1;
            wrong += usize::from(after > EDGE_RATIO * before + 1e-9 || before > EDGE_RATIO * after + 1e-9);
        }
    }
    (wrong as f64) <= EDGES_WRONG * edges as f64
}

/// For each of `points` the nearest of `rest`, if every one is within `tolerance`.
pub(super) fn nearest_within(points: &[DVec3], rest: &[DVec3], tolerance: f64) -> Option<Vec<usize>> {
    let cell = |p: DVec3| (p / tolerance).floor().to_array().map(|c| c as i64);
    let mut grid: BTreeMap<[i64; 3], Vec<usize>> = BTreeMap::new();
    for (v, &p) in rest.iter().enumerate() {
        grid.entry(cell(p)).or_default().push(v);
    }
    let nearest = |&p: &DVec3| {
        let [x, y, z] = cell(p);
        let mut best: Option<(f64, usize)> = None;
        for (dx, dy, dz) in (0..27).map(|k| (k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1)) {
            for &v in grid.get(&[x + dx, y + dy, z + dz]).into_iter().flatten() {
                let distance = (rest[v] - p).length();
                if distance <= tolerance && best.is_none_or(|(least, _)| distance < least) {
                    best = Some((distance, v));
                }
            }
        }
        best.map(|(_, v)| v)
    };
    points.iter().map(nearest).collect()
}

/// The largest distance between points of the same index.
pub(super) fn farthest(a: &[DVec3], b: &[DVec3]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    a.iter().zip(b).map(|(a, b)| (*a - *b).length()).fold(0.0, f64::max)
}

/// The length of the bounding box's diagonal.
pub(super) fn diagonal(points: &[DVec3]) -> f64 {
    let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
    let (low, high) = points.iter().fold(start, |(low, high), &p| (low.min(p), high.max(p)));
    if points.is_empty() { 0.0 } else { (high - low).length() }
}

/// The volume that the faces enclose, negative if they are inside out, relative to the cube of the diagonal.
pub(super) fn relative_volume(surface: &Surface, points: &[DVec3]) -> f64 {
    let centre = points.iter().copied().sum::<DVec3>() / points.len().max(1) as f64;
    let corner = |v: u32| points[v as usize] - centre;
    let sum: f64 = surface.polygons.fan().iter().map(|t| corner(t[0]).dot(corner(t[1]).cross(corner(t[2])))).sum();
    sum / 6.0 / diagonal(points).powi(3).max(f64::MIN_POSITIVE)
}
