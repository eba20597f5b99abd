//! From a conformal to a nearly isometric map: as rigid as possible (Liu, Zhang, Xu, Gotsman and Gortler, "A local/global
//! approach to mesh parameterization", 2008), triangles measured in the L2,2 norm.
//!
//!   minimise Σ_T Σ_k cot θ_k ‖(U_i − U_j) − R_T (z_i − z_j)‖²
//!
//! over the map U and a rotation R_T for each triangle; θ_k is the angle opposite edge (i, j) and z the triangle's
//! isometric image. The rotations are found triangle by triangle, the map by one sparse solve whose matrix never changes;
//! both lower the energy. A conformal map alone keeps angles but lets scale drift along long charts, and stretch,
//! averaged over a motion, is least for an isometry in the norm of that motion.

use glam::{DMat2, DVec2};
use sinew_linalg::{Mat, SparseCholesky, Triplet};

use super::charts::Chart;
use super::lscm::{Local, SPRING};
use crate::FitError;

/// Steps from the conformal map; the energy falls little after the first few.
const STEPS: usize = 20;

/// The chart's edges with their cotangents, and the factored matrix of the global step.
pub struct Laplacian {
    /// The weights of each triangle's edges, each opposite its corner, (T)(3).
    edges: Vec<[f64; 3]>,
    factor: SparseCholesky,
}

impl Laplacian {
    /// Triangles whose area is not above `smallest` only hold on to their neighbours.
    pub fn new(chart: &Chart, locals: &[Local], smallest: f64) -> Result<Self, FitError> {
        let edges: Vec<[f64; 3]> = locals.iter().map(|local| weights(local, smallest)).collect();
        let n = chart.vertices.len();
        let mut entries = Vec::with_capacity(9 * edges.len() + n);
        for (corners, weights) in chart.corners.iter().zip(&edges) {
            for k in 0..3 {
                let (i, j) = (corners[(k + 1) % 3], corners[(k + 2) % 3]);
                entries.push(Triplet::new(i, i, weights[k]));
                entries.push(Triplet::new(j, j, weights[k]));
                entries.push(Triplet::new(i.max(j), i.min(j), -weights[k]));
            }
        }
        // The map may float: a little weight on every vertex, nil against the angles, holds it where it is.
        (0..n).for_each(|i| entries.push(Triplet::new(i, i, SPRING)));
        let factor = SparseCholesky::new(n, &entries).ok_or_else(|| chart.cannot_be_flattened())?;
        Ok(Self { edges, factor })
    }

    /// The vertices (n) whose Laplacian is `right` (n).
    pub fn solve(&self, right: &[DVec2]) -> Vec<DVec2> {
        let solution = self.factor.solve(&Mat::from_fn(right.len(), 2, |i, k| right[i][k]));
        (0..right.len()).map(|i| DVec2::new(solution[(i, 0)], solution[(i, 1)])).collect()
    }
}

/// Improves `uvs`, the chart's vertices, in place.
pub fn improve(chart: &Chart, locals: &[Local], laplacian: &Laplacian, uvs: &mut Vec<DVec2>) {
    for _ in 0..STEPS {
        let mut right: Vec<DVec2> = uvs.iter().map(|&uv| SPRING * uv).collect();
        for ((corners, local), weights) in chart.corners.iter().zip(locals).zip(&laplacian.edges) {
            let rotation = rotation(corners, local, weights, uvs);
            for k in 0..3 {
                let (a, b) = ((k + 1) % 3, (k + 2) % 3);
                let edge = rotation * (local.corners[a] - local.corners[b]) * weights[k];
                right[corners[a]] += edge;
                right[corners[b]] -= edge;
            }
        }
        *uvs = laplacian.solve(&right);
    }
}

/// The cotangents opposite the edges, at each corner; a small spring for a triangle without area.
fn weights(local: &Local, smallest: f64) -> [f64; 3] {
    let [a, b, c] = local.corners;
    let twice = (b - a).perp_dot(c - a);
    if twice <= 2.0 * smallest {
        return [SPRING; 3];
    }
    let cotangent = |at: DVec2, p: DVec2, q: DVec2| (p - at).dot(q - at) / twice;
    [cotangent(a, b, c), cotangent(b, c, a), cotangent(c, a, b)]
}

/// The rotation that turns the triangle's isometric image most nearly into its place in the map.
fn rotation(corners: &[usize; 3], local: &Local, weights: &[f64; 3], uvs: &[DVec2]) -> DMat2 {
    let (mut cosine, mut sine) = (0.0, 0.0);
    for k in 0..3 {
        let (a, b) = ((k + 1) % 3, (k + 2) % 3);
        let (z, u) = (local.corners[a] - local.corners[b], uvs[corners[a]] - uvs[corners[b]]);
        cosine += weights[k] * z.dot(u);
        sine += weights[k] * z.perp_dot(u);
    }
    let length = cosine.hypot(sine);
    if length > 0.0 { DMat2::from_angle(sine.atan2(cosine)) } else { DMat2::IDENTITY }
}
