//! Deformation gradients of triangles and their polar decomposition.
//!
//! A triangle's gradient D maps its rest edges and unit normal to the posed ones (Sumner and Popović, "Deformation
//! transfer for triangle meshes", 2004, with the normal at unit length): `D [ê₁ ê₂ n̂] = [e₁ e₂ n]`. D = R S with R a
//! rotation and S symmetric. A triangle without area, at rest or posed, has no gradient of its own and takes the mean
//! of its neighbours'.

use glam::{DMat3, DVec3};
use nalgebra::Matrix3;
use rayon::prelude::*;

use super::topology::Topology;

/// Twice a triangle's area over the square of its longest edge; below this the normal is noise even in f64 positions
/// that come from f32 files.
const SMALLEST_RELATIVE_AREA: f64 = 1e-6;

/// The frames of the rest triangles, from which gradients are measured.
#[derive(Debug, Clone)]
pub struct RestTriangles {
    triangles: Vec<[u32; 3]>,
    /// `[ê₁ ê₂ n̂]⁻¹`, (F); `None` for a triangle without area.
    inverse_frames: Vec<Option<DMat3>>,
    /// Twice the rest area, (F).
    pub twice_areas: Vec<f64>,
    topology: Topology,
}

impl RestTriangles {
    /// The frames of `triangles` over `rest`, (V).
    #[must_use]
    pub fn new(rest: &[DVec3], triangles: &[[u32; 3]]) -> Self {
        let frames = triangles.iter().map(|&t| frame(rest, t));
        Self {
            inverse_frames: frames.map(|frame| frame.map(|m| m.inverse()).filter(|m| m.is_finite())).collect(),
            twice_areas: triangles.iter().map(|&t| twice_area(rest, t)).collect(),
            topology: Topology::new(rest.len(), triangles),
            triangles: triangles.to_vec(),
        }
    }

    /// The mesh's adjacency.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether rest triangle `f` has no area.
    #[must_use]
    pub fn is_degenerate(&self, f: usize) -> bool {
        self.inverse_frames[f].is_none()
    }

    /// The gradients of every triangle for the posed positions, (F).
    #[must_use]
    pub fn gradients(&self, posed: &[DVec3]) -> Vec<DMat3> {
        let own = |(&t, inverse): (&[u32; 3], &Option<DMat3>)| Some(frame(posed, t)? * (*inverse)?);
        let known: Vec<Option<DMat3>> = self.triangles.iter().zip(&self.inverse_frames).map(own).collect();
        fill_from_neighbours(known, &self.topology)
    }

    /// The gradients of every triangle in every pose, (N)(F).
    #[must_use]
    pub fn sequences(&self, poses: &[Vec<DVec3>]) -> Vec<Vec<DMat3>> {
        poses.par_iter().map(|posed| self.gradients(posed)).collect()
    }
}

/// `D = R S`: the rotation and the symmetric stretch. For a mirrored D the stretch takes the sign in its weakest
/// direction, so that R stays a rotation.
#[must_use]
pub fn polar(d: DMat3) -> (DMat3, DMat3) {
    let svd = Matrix3::from_column_slice(&d.to_cols_array()).svd(true, true);
    let (Some(mut u), Some(v_t)) = (svd.u, svd.v_t) else { return (DMat3::IDENTITY, d) };
    if (u * v_t).determinant() < 0.0 {
        let weakest = svd.singular_values.imin();
        u.column_mut(weakest).neg_mut();
    }
    let rotation = DMat3::from_cols_slice((u * v_t).as_slice());
    let stretch = rotation.transpose() * d;
    (rotation, (stretch + stretch.transpose()) * 0.5)
}

/// The rotation R nearest to `m` with det R = 1 (orthogonal Procrustes): maximises `tr(Rᵀ m)`.
#[must_use]
pub fn procrustes(m: DMat3) -> DMat3 {
    polar(m).0
}

/// `[e₁ e₂ n]`, or nothing if the triangle has no area.
fn frame(positions: &[DVec3], triangle: [u32; 3]) -> Option<DMat3> {
    let [a, b, c] = triangle.map(|v| positions[v as usize]);
    let (e1, e2) = (b - a, c - a);
    let normal = e1.cross(e2);
    let longest = e1.length_squared().max(e2.length_squared()).max((c - b).length_squared());
    (normal.length() > SMALLEST_RELATIVE_AREA * longest).then(|| DMat3::from_cols(e1, e2, normal.normalize()))
}

fn twice_area(positions: &[DVec3], triangle: [u32; 3]) -> f64 {
    let [a, b, c] = triangle.map(|v| positions[v as usize]);
    (b - a).cross(c - a).length()
}

/// Gives every triangle without a gradient the mean of its neighbours', ring by ring; the identity where there is none
/// at all.
fn fill_from_neighbours(mut known: Vec<Option<DMat3>>, topology: &Topology) -> Vec<DMat3> {
    let mut missing: Vec<usize> = (0..known.len()).filter(|&f| known[f].is_none()).collect();
    while !missing.is_empty() {
        let mean = |&f: &usize| {
            let around: Vec<DMat3> = topology.face_faces.row(f).iter().filter_map(|&g| known[g]).collect();
            let sum = around.iter().fold(DMat3::ZERO, |sum, &d| sum + d);
            (!around.is_empty()).then(|| (f, sum * (1.0 / around.len() as f64)))
        };
        let found: Vec<(usize, DMat3)> = missing.iter().filter_map(mean).collect();
        if found.is_empty() {
            break;
        }
        for (f, d) in found {
            known[f] = Some(d);
        }
        missing.retain(|&f| known[f].is_none());
    }
    known.into_iter().map(|d| d.unwrap_or(DMat3::IDENTITY)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::rotation::exp;

    fn difference(a: DMat3, b: DMat3) -> f64 {
        (a - b).to_cols_array().iter().fold(0.0, |most, c| most.max(c.abs()))
    }

    #[test]
    fn an_affine_motion_in_the_plane_is_its_own_gradient() {
        let rest = [DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::new(1.0, 1.0, 0.0)];
        let rest_triangles = RestTriangles::new(&rest, &[[0, 1, 2], [1, 3, 2]]);
        // The normal keeps its length, so the third column of the stretch must be z.
        let stretch = DMat3::from_cols(DVec3::new(1.5, 0.2, 0.0), DVec3::new(0.2, 0.8, 0.0), DVec3::Z);
        let rotation = exp(DVec3::new(0.4, -1.0, 2.0));
        let posed: Vec<DVec3> = rest.iter().map(|&v| rotation * (stretch * v) + DVec3::splat(3.0)).collect();
        for d in rest_triangles.gradients(&posed) {
            let (r, s) = polar(d);
            // 1e-14: a few roundings of numbers of order one.
            assert!(difference(r, rotation) < 1e-14 && difference(s, stretch) < 1e-14);
        }
    }

    #[test]
    fn triangles_without_area_take_their_neighbours_gradient() {
        let rest = [DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::new(0.5, 0.5, 0.0)];
        // The second triangle is a line at rest; the third touches nothing and is a point.
        let rest_triangles = RestTriangles::new(&rest, &[[0, 1, 2], [1, 2, 3], [3, 3, 3]]);
        assert!(!rest_triangles.is_degenerate(0) && rest_triangles.is_degenerate(1));
        let rotation = exp(DVec3::new(0.0, 1.0, 0.0));
        let posed: Vec<DVec3> = rest.iter().map(|&v| rotation * v).collect();
        let gradients = rest_triangles.gradients(&posed);
        assert!(difference(gradients[1], rotation) < 1e-14);
        assert_eq!(gradients[2], DMat3::IDENTITY);
    }

    #[test]
    fn a_mirrored_gradient_still_gives_a_rotation() {
        let mirrored = DMat3::from_diagonal(DVec3::new(2.0, 1.0, -0.5));
        let (r, s) = polar(mirrored);
        assert!((r.determinant() - 1.0).abs() < 1e-14 && difference(r * s, mirrored) < 1e-14);
    }
}
