//! The reduced Poisson equation (Wang, thesis 2007, section 3.3 and appendix A): proxy transforms from key gradients and
//! bones, `t(q) = c₁ d(q) + c₂ q`.
//!
//!   minimise over t:  Σ_k Σ_{(i,j) ∈ k} ‖ Σ_ℓ β_kℓ D_ℓ ê_ij − (y_i − y_j) ‖²  +  Σ_{a∈F} ‖ y_a − Ψ_a q ‖²,
//!   y_a = Σ_p α_ap T_p v̂_a + Σ_b α_ab T_b v̂_a,   Ψ_a q = Σ_b w_ab T_b v̂_a
//!
//! Where we differ: all three edges of a triangle count, so that the order of its vertices does not matter. Near-rigid
//! vertices F are drawn by the palette like all others and held by the second sum, instead of being substituted. Bones
//! take part in the blends α and β. Proxies act about their group's centre, which keeps the system well conditioned; a
//! small term holds a proxy's linear part to its own key gradient and its centre to its home bone where nothing else
//! does. Every term treats x, y and z alike, so the thesis's C₁ and C₂ are exactly `c₁ ⊗ I₃` and `c₂ ⊗ I₃`.

use glam::{DAffine3, DMat3, DVec3};
use sinew_linalg::{Cholesky, Mat, product};

use super::near_rigid::NearRigid;
use super::weights::{Palette, from_centred};
use crate::Training;
use crate::methods::ssd::SparseWeights;

/// The hold of a proxy's linear part on its own key gradient, relative to its group's own extent.
const OWN_GRADIENT: f64 = 1e-2;

/// The hold of a proxy's centre on its home bone, relative to one vertex held by F.
const HOME: f64 = 1e-6;

/// The reduced model's matrices, for proxies about their centres.
#[derive(Debug, Clone)]
pub struct Reduction {
    /// c₁, (4P, 3P): rows are the columns of the proxies' linear parts and the places of their centres; columns are the
    /// columns of the key gradients.
    pub c1: Mat<f64>,
    /// c₂, (4P, 4J): columns are the columns of the bones' linear parts and their translations.
    pub c2: Mat<f64>,
}

impl Reduction {
    /// The proxies' transforms for key gradients `d` (P) and bones `q` (J).
    #[must_use]
    pub fn transforms(&self, centres: &[DVec3], d: &[DMat3], q: &[DAffine3]) -> Vec<DAffine3> {
        let by_gradients = product(self.c1.as_ref(), stack_gradients(d).as_ref());
        let by_bones = product(self.c2.as_ref(), stack_bones(q).as_ref());
        let column =
            |row: usize| DVec3::from_array(std::array::from_fn(|k| by_gradients[(row, k)] + by_bones[(row, k)]));
        (0..centres.len())
            .map(|p| from_centred(&std::array::from_fn::<_, 4, _>(|r| column(4 * p + r)), centres[p]))
            .collect()
    }
}

/// The columns of P gradients as rows, (3P, 3).
#[must_use]
pub fn stack_gradients(d: &[DMat3]) -> Mat<f64> {
    Mat::from_fn(3 * d.len(), 3, |row, k| d[row / 3].col(row % 3)[k])
}

/// The columns of J transforms as rows, (4J, 3).
#[must_use]
pub fn stack_bones(q: &[DAffine3]) -> Mat<f64> {
    Mat::from_fn(4 * q.len(), 3, |row, k| match row % 4 {
        3 => q[row / 4].translation[k],
        column => q[row / 4].matrix3.col(column)[k],
    })
}

/// Solves the reduced equation. `blends` (F) are the triangles' β over palette entries, `skin` linear blend skinning's
/// weights for F.
#[must_use]
pub fn reduce(
    training: &Training,
    palette: &Palette,
    weights: &SparseWeights,
    blends: &[Vec<(usize, f64)>],
    skin: &SparseWeights,
    near_rigid: &NearRigid,
) -> Reduction {
    let mut system = System::new(palette.proxies, training.bone_count());
    let terms: Vec<Terms> =
        (0..training.vertex_count()).map(|v| Terms::vertex(training, palette, &weights.vertices[v], v)).collect();
    for (triangle, blend) in training.mesh.triangles().iter().zip(blends) {
        for k in 0..3 {
            let (i, j) = (triangle[k] as usize, triangle[(k + 1) % 3] as usize);
            let edge = Terms::edge(palette, blend, training.rest[i] - training.rest[j]);
            system.add(&terms[i].minus(&terms[j]), &edge, 1.0);
        }
    }
    for v in (0..training.vertex_count()).filter(|&v| near_rigid.fixed[v]) {
        system.add(&terms[v], &Terms::skinned(training, skin, v), 1.0);
    }
    for (left, right, weight) in system.holds(palette) {
        system.add(&left, &right, weight);
    }
    system.solve()
}

/// A linear form in the unknown t, the key gradients d and the bones q, as (index, factor) pairs.
#[derive(Debug, Clone, Default)]
struct Terms {
    t: Vec<(usize, f64)>,
    d: Vec<(usize, f64)>,
    q: Vec<(usize, f64)>,
}

impl Terms {
    /// `y_v = Σ_p α T_p v̂ + Σ_b α T_b v̂`.
    fn vertex(training: &Training, palette: &Palette, pairs: &[(usize, f64)], v: usize) -> Self {
        let mut terms = Self::default();
        for &(i, w) in pairs {
            if i < palette.proxies {
                let h = training.rest[v] - palette.centres[i];
                terms.t.extend((0..3).map(|r| (4 * i + r, w * h[r])).chain([(4 * i + 3, w)]));
            } else {
                terms.push_bone(i - palette.proxies, training.rest[v], w, 1.0);
            }
        }
        terms
    }

    /// `Σ_ℓ β_ℓ D_ℓ ê`, bones' gradients included.
    fn edge(palette: &Palette, blend: &[(usize, f64)], edge: DVec3) -> Self {
        let mut terms = Self::default();
        for &(i, w) in blend {
            if i < palette.proxies {
                terms.d.extend((0..3).map(|r| (3 * i + r, w * edge[r])));
            } else {
                terms.push_bone(i - palette.proxies, edge, w, 0.0);
            }
        }
        terms
    }

    /// `Ψ_v q`, linear blend skinning.
    fn skinned(training: &Training, skin: &SparseWeights, v: usize) -> Self {
        let mut terms = Self::default();
        for &(b, w) in &skin.vertices[v] {
            terms.push_bone(b, training.rest[v], w, 1.0);
        }
        terms
    }

    /// Adds `w (L_b x + translation t_b)`.
    fn push_bone(&mut self, b: usize, x: DVec3, w: f64, translation: f64) {
        self.q.extend((0..3).map(|r| (4 * b + r, w * x[r])));
        if translation != 0.0 {
            self.q.push((4 * b + 3, w * translation));
        }
    }

    fn minus(&self, other: &Self) -> Self {
        let subtract =
            |a: &[(usize, f64)], b: &[(usize, f64)]| a.iter().copied().chain(b.iter().map(|&(i, x)| (i, -x))).collect();
        Self { t: subtract(&self.t, &other.t), d: subtract(&self.d, &other.d), q: subtract(&self.q, &other.q) }
    }
}

/// The normal equations `A t = B₁ d + B₂ q`.
struct System {
    a: Vec<f64>,
    b1: Mat<f64>,
    b2: Mat<f64>,
    unknowns: usize,
}

impl System {
    fn new(proxies: usize, bones: usize) -> Self {
        let unknowns = 4 * proxies;
        Self {
            a: vec![0.0; unknowns * unknowns],
            b1: Mat::zeros(unknowns, 3 * proxies),
            b2: Mat::zeros(unknowns, 4 * bones),
            unknowns,
        }
    }

    /// Adds `weight ‖left − right‖²`.
    fn add(&mut self, left: &Terms, right: &Terms, weight: f64) {
        for &(i, x) in &left.t {
            let x = weight * x;
            left.t.iter().for_each(|&(j, y)| self.a[i * self.unknowns + j] += x * y);
            right.d.iter().for_each(|&(j, y)| self.b1[(i, j)] += x * y);
            left.d.iter().for_each(|&(j, y)| self.b1[(i, j)] -= x * y);
            right.q.iter().for_each(|&(j, y)| self.b2[(i, j)] += x * y);
            left.q.iter().for_each(|&(j, y)| self.b2[(i, j)] -= x * y);
        }
    }

    /// The terms that hold every proxy to its own gradient and home bone, weakly, as (left, right, weight).
    fn holds(&self, palette: &Palette) -> Vec<(Terms, Terms, f64)> {
        let diagonal = |row: usize| self.a[row * self.unknowns + row];
        let count = palette.proxies.max(1) as f64;
        let linear = (0..3 * palette.proxies).map(|k| diagonal(4 * (k / 3) + k % 3)).sum::<f64>() / (3.0 * count);
        let place = (0..palette.proxies).map(|p| diagonal(4 * p + 3)).sum::<f64>() / count;
        let mut holds = Vec::with_capacity(4 * palette.proxies);
        for (p, &home) in palette.home_bones.iter().enumerate() {
            for r in 0..3 {
                let own = Terms { d: vec![(3 * p + r, 1.0)], ..Terms::default() };
                // The group's own extent in that direction, or the mean's hundredth if it is flat.
                let extent = diagonal(4 * p + r).max(0.01 * linear).max(f64::MIN_POSITIVE);
                holds.push((unknown(4 * p + r), own, OWN_GRADIENT * extent));
            }
            let mut carried = Terms::default();
            carried.push_bone(home, palette.centres[p], 1.0, 1.0);
            holds.push((unknown(4 * p + 3), carried, HOME * place.max(1.0)));
        }
        holds
    }

    fn solve(self) -> Reduction {
        let factor = Cholesky::new(self.a, self.unknowns);
        Reduction { c1: factor.solve(self.b1), c2: factor.solve(self.b2) }
    }
}

fn unknown(row: usize) -> Terms {
    Terms { t: vec![(row, 1.0)], ..Terms::default() }
}

/// The thesis's C₁ (12P, 9P) and C₂ (12P, 12J), solved for all three coordinates at once without using that they do not
/// mix: what c₁ and c₂ are tested against.
#[cfg(test)]
pub(super) fn thesis_matrices(
    training: &Training,
    palette: &Palette,
    weights: &SparseWeights,
    blends: &[Vec<(usize, f64)>],
    skin: &SparseWeights,
    near_rigid: &NearRigid,
) -> (Mat<f64>, Mat<f64>) {
    let mut system = System::new(3 * palette.proxies, 3 * training.bone_count());
    // Coordinate k of an entry of the small system is entry 3 i + k of the large one.
    let spread = |terms: &Terms, k: usize| {
        let spread = |pairs: &[(usize, f64)]| pairs.iter().map(|&(i, x)| (3 * i + k, x)).collect();
        Terms { t: spread(&terms.t), d: spread(&terms.d), q: spread(&terms.q) }
    };
    let mut small = System::new(palette.proxies, training.bone_count());
    let mut add = |left: &Terms, right: &Terms, weight: f64| {
        small.add(left, right, weight);
        (0..3).for_each(|k| system.add(&spread(left, k), &spread(right, k), weight));
    };
    let vertex = |v: usize| Terms::vertex(training, palette, &weights.vertices[v], v);
    for (triangle, blend) in training.mesh.triangles().iter().zip(blends) {
        for k in 0..3 {
            let (i, j) = (triangle[k] as usize, triangle[(k + 1) % 3] as usize);
            let edge = Terms::edge(palette, blend, training.rest[i] - training.rest[j]);
            add(&vertex(i).minus(&vertex(j)), &edge, 1.0);
        }
    }
    for v in (0..training.vertex_count()).filter(|&v| near_rigid.fixed[v]) {
        add(&vertex(v), &Terms::skinned(training, skin, v), 1.0);
    }
    for (left, right, weight) in small.holds(palette) {
        (0..3).for_each(|k| system.add(&spread(&left, k), &spread(&right, k), weight));
    }
    let solved = system.solve();
    (solved.c1, solved.c2)
}
