//! Least-squares conformal maps of one chart, where every map starts.
//!
//! A triangle whose isometric image in the plane is z₁, z₂, z₃ (complex numbers) is mapped conformally to U₁, U₂, U₃ if
//! `Σ_j W_j U_j = 0` with `W₁ = z₃ − z₂` and so on. The map minimises
//!
//!   Σ_T |Σ_j W_j U_j|² / (2 area_T)
//!
//! with two far vertices pinned: sparse normal equations, solved by Cholesky. The isometric image is taken in the L2,2 norm
//! (appendix B): with q₂ = p₂ − p₁, q₃ = p₃ − p₁ it is (0, 0), (‖q₂‖, 0), (⟨q₂, q₃⟩/‖q₂‖, √(‖q₂‖²‖q₃‖² − ⟨q₂, q₃⟩²)/‖q₂‖).

use glam::{DMat2, DVec2};
use sinew_linalg::{Mat, SparseCholesky, Triplet};

use super::charts::Chart;
use super::{arap, least_stretch};
use crate::FitError;
use crate::methods::animation_space::Coordinates;
use crate::norm::{PoseNorm, difference};

/// A triangle whose area is below this fraction of the chart's mean has none: its shape is rounding.
const SMALLEST_AREA: f64 = 1e-9;

/// How strongly, relative to the mean diagonal, the edges of triangles without area are kept short.
pub(super) const SPRING: f64 = 1e-6;

/// A triangle flattened isometrically: its first corner at the origin, its second on the x axis, counter-clockwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Local {
    /// The corners.
    pub corners: [DVec2; 3],
    /// The norm is none for this triangle: a square of a length, or of the area, is negative.
    pub impossible: bool,
}

impl Local {
    /// The triangle as `norm` measures it.
    #[must_use]
    pub fn new(coordinates: &Coordinates, norm: &PoseNorm, triangle: [u32; 3]) -> Self {
        let [p1, p2, p3] = triangle.map(|v| &coordinates.vertices[v as usize]);
        let (q2, q3) = (difference(p1, p2), difference(p1, p3));
        let (a, b, c) = (norm.inner(&q2, &q2), norm.inner(&q2, &q3), norm.inner(&q3, &q3));
        // Well above what rounding leaves of a degenerate triangle.
        let impossible = a < 0.0 || c < 0.0 || a * c - b * b < -1e-6 * a * c;
        let (a, c) = (a.max(0.0), c.max(0.0));
        let length = a.sqrt();
        let third = if length > 0.0 {
            DVec2::new(b / length, ((a * c - b * b).max(0.0) / a).sqrt())
        } else {
            DVec2::new(c.sqrt(), 0.0)
        };
        Self { corners: [DVec2::ZERO, DVec2::new(length, 0.0), third], impossible }
    }

    /// `area · G`, G the Gram matrix of the edges from the first corner.
    fn form(&self) -> DMat2 {
        let [_, a, b] = self.corners;
        DMat2::from_cols(DVec2::new(a.dot(a), a.dot(b)), DVec2::new(a.dot(b), b.dot(b))) * self.area()
    }

    fn area(&self) -> f64 {
        self.corners[1].x * self.corners[2].y / 2.0
    }
}

/// A flattened chart.
pub struct Solved {
    /// Its vertices, the lower left corner of their box at the origin.
    pub uvs: Vec<DVec2>,
    /// The box.
    pub size: DVec2,
    /// Triangles turned over.
    pub flipped: usize,
    /// Triangles without area.
    pub degenerate: usize,
}

/// Flattens `chart`; `locals` are its triangles.
pub fn solve(chart: &Chart, locals: &[Local]) -> Result<Solved, FitError> {
    let area: f64 = locals.iter().map(Local::area).sum();
    let smallest = SMALLEST_AREA * area / locals.len() as f64;
    let degenerate = locals.iter().filter(|local| local.area() <= smallest).count();
    let flipped_by = |uvs: &[DVec2]| {
        let over = |(corners, local): (&[usize; 3], &Local)| local.area() > smallest && signed(uvs, corners) <= 0.0;
        chart.corners.iter().zip(locals).filter(|&pair| over(pair)).count()
    };
    let pins = pins(chart, locals);
    let mut uvs = scaled(chart, area, least_squares(chart, locals, smallest, pins)?);
    // A chart that came out on its back is mirrored.
    if 2 * flipped_by(&uvs) > chart.faces.len() - degenerate {
        uvs.iter_mut().for_each(|uv| uv.x = -uv.x);
    }
    let laplacian = arap::Laplacian::new(chart, locals, smallest)?;
    let mut rigid = uvs.clone();
    arap::improve(chart, locals, &laplacian, &mut rigid);
    // The step to an isometry must not turn triangles over that the conformal map left as they are.
    if rigid.iter().all(|uv| uv.is_finite()) && flipped_by(&rigid) <= flipped_by(&uvs) {
        uvs = rigid;
    }
    let form = |local: &Local| if local.area() > smallest { local.form() } else { DMat2::ZERO };
    let forms: Vec<DMat2> = locals.iter().map(form).collect();
    let mut uvs = least_stretch::improve(chart, &forms, &laplacian, uvs);
    let upright = upright(&uvs);
    uvs.iter_mut().for_each(|uv| *uv = upright * *uv);
    let start = (DVec2::INFINITY, DVec2::NEG_INFINITY);
    let (low, high) = uvs.iter().fold(start, |(low, high), &uv| (low.min(uv), high.max(uv)));
    uvs.iter_mut().for_each(|uv| *uv -= low);
    Ok(Solved { size: high - low, flipped: flipped_by(&uvs), uvs, degenerate })
}

/// The signed area of a triangle of the map.
fn signed(uvs: &[DVec2], corners: &[usize; 3]) -> f64 {
    (uvs[corners[1]] - uvs[corners[0]]).perp_dot(uvs[corners[2]] - uvs[corners[0]]) / 2.0
}

/// The map with the chart's own area.
fn scaled(chart: &Chart, area: f64, uvs: Vec<DVec2>) -> Vec<DVec2> {
    let flat: f64 = chart.corners.iter().map(|corners| signed(&uvs, corners)).sum();
    let scale = if flat.abs() > 0.0 && area > 0.0 { (area / flat.abs()).sqrt() } else { 1.0 };
    uvs.into_iter().map(|uv| uv * scale).collect()
}

/// Two vertices far apart along the chart's edges, and their distance.
fn pins(chart: &Chart, locals: &[Local]) -> (usize, usize, f64) {
    let mut edges = vec![Vec::new(); chart.vertices.len()];
    for (corners, local) in chart.corners.iter().zip(locals) {
        for k in 0..3 {
            let (a, b) = (k, (k + 1) % 3);
            let length = local.corners[a].distance(local.corners[b]);
            edges[corners[a]].push((corners[b], length));
            edges[corners[b]].push((corners[a], length));
        }
    }
    let (first, _) = farthest(&edges, 0);
    let (second, distance) = farthest(&edges, first);
    (first, second, if distance > 0.0 { distance } else { 1.0 })
}

/// The vertex farthest from `start` along edges (Dijkstra), and how far; another vertex even if all lie in one place.
fn farthest(edges: &[Vec<(usize, f64)>], start: usize) -> (usize, f64) {
    let mut distance = vec![f64::INFINITY; edges.len()];
    let mut queue = std::collections::BinaryHeap::from([(std::cmp::Reverse(0_u64), start)]);
    distance[start] = 0.0;
    while let Some((std::cmp::Reverse(bits), v)) = queue.pop() {
        let here = f64::from_bits(bits);
        if here > distance[v] {
            continue;
        }
        for &(u, length) in &edges[v] {
            if here + length < distance[u] {
                distance[u] = here + length;
                queue.push((std::cmp::Reverse(distance[u].to_bits()), u));
            }
        }
    }
    let other = usize::from(start == 0).min(edges.len() - 1);
    (0..edges.len())
        .filter(|&v| v != start && distance[v].is_finite())
        .fold((other, 0.0), |best, v| if distance[v] > best.1 { (v, distance[v]) } else { best })
}

/// The conformal map with the pins at (0, 0) and (distance, 0).
fn least_squares(
    chart: &Chart,
    locals: &[Local],
    smallest: f64,
    (first, second, distance): (usize, usize, f64),
) -> Result<Vec<DVec2>, FitError> {
    let vertices = chart.vertices.len();
    let mut unknown = vec![usize::MAX; vertices];
    let free: Vec<usize> = (0..vertices).filter(|&v| v != first && v != second).collect();
    free.iter().enumerate().for_each(|(index, &v)| unknown[v] = index);
    let pinned = |v: usize| if v == second { DVec2::new(distance, 0.0) } else { DVec2::ZERO };
    let n = free.len();
    let mut uvs: Vec<DVec2> = (0..vertices).map(pinned).collect();
    if n == 0 {
        return Ok(uvs);
    }
    let mut entries: Vec<Triplet> = Vec::new();
    let mut right = Mat::<f64>::zeros(2 * n, 1);
    // Adds (Σ c_k x_k)², x_k the u (part 0) or v (part 1) of a vertex.
    let mut add = |row: &[(usize, usize, f64)]| {
        let known: f64 =
            row.iter().filter(|r| unknown[r.0] == usize::MAX).map(|&(v, part, c)| c * pinned(v)[part]).sum();
        for &(v, part, c) in row.iter().filter(|r| unknown[r.0] != usize::MAX) {
            let i = 2 * unknown[v] + part;
            right[(i, 0)] -= c * known;
            for &(u, other, d) in row.iter().filter(|r| unknown[r.0] != usize::MAX) {
                let j = 2 * unknown[u] + other;
                if i >= j {
                    entries.push(Triplet::new(i, j, c * d));
                }
            }
        }
    };
    for (corners, local) in chart.corners.iter().zip(locals) {
        let area = local.area();
        if area <= smallest {
            for k in 0..3 {
                let (a, b) = (corners[k], corners[(k + 1) % 3]);
                (0..2).for_each(|part| add(&[(a, part, SPRING.sqrt()), (b, part, -SPRING.sqrt())]));
            }
            continue;
        }
        let weight = 1.0 / (2.0 * area).sqrt();
        let w: [DVec2; 3] = std::array::from_fn(|k| (local.corners[(k + 2) % 3] - local.corners[(k + 1) % 3]) * weight);
        let real: Vec<_> = (0..3).flat_map(|k| [(corners[k], 0, w[k].x), (corners[k], 1, -w[k].y)]).collect();
        let imaginary: Vec<_> = (0..3).flat_map(|k| [(corners[k], 0, w[k].y), (corners[k], 1, w[k].x)]).collect();
        add(&real);
        add(&imaginary);
    }
    // A vertex that no triangle determines stays put instead of making the matrix singular.
    (0..2 * n).for_each(|i| entries.push(Triplet::new(i, i, 1e-12)));
    let solution = SparseCholesky::new(2 * n, &entries).ok_or_else(|| chart.cannot_be_flattened())?.solve(&right);
    for (index, &v) in free.iter().enumerate() {
        uvs[v] = DVec2::new(solution[(2 * index, 0)], solution[(2 * index + 1, 0)]);
    }
    if uvs.iter().all(|uv| uv.is_finite()) { Ok(uvs) } else { Err(chart.cannot_be_flattened()) }
}

/// The rotation that lays the chart's longer extent along x.
fn upright(uvs: &[DVec2]) -> glam::DMat2 {
    let mean = uvs.iter().sum::<DVec2>() / uvs.len() as f64;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for uv in uvs {
        let d = *uv - mean;
        (xx, xy, yy) = (xx + d.x * d.x, xy + d.x * d.y, yy + d.y * d.y);
    }
    glam::DMat2::from_angle(-0.5 * (2.0 * xy).atan2(xx - yy))
}
