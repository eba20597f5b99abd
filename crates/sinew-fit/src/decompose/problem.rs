//! A mesh sequence as a matrix problem, and the unknowns of a decomposition.
//!
//! Stacked over the frames, vertex `v` is a trajectory `y_v ∈ R^{3N}` and bone `b` a matrix `M_b ∈ R^{3N×4}`; linear blend
//! skinning draws `y_v ≈ Σ_b w_vb M_b x̂_v` with `x̂ = (x, y, z, 1)` the rest position. Both sides are centred and scaled to
//! the rest mesh's diagonal, which changes nothing (the weights sum to one) but keeps the sums of squares well conditioned.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::Mesh;
use sinew_linalg::Mat;

/// The pairs (i, j), i ≤ j, of the ten distinct products `x̂_i x̂_j`.
pub(crate) const PRODUCTS: [(usize, usize); 10] =
    [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)];

/// Vertices handled together by one task; fixed, so that sums have the same order with any number of threads.
pub(crate) const CHUNK: usize = 512;

/// What is to be drawn.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// `x̂_v`, (V).
    pub rest: Vec<[f64; 4]>,
    /// `x̂_i x̂_j` in the order of [`PRODUCTS`], (10, V).
    pub products: Mat<f64>,
    /// `y_v`, (3N, V).
    pub targets: Mat<f64>,
    /// `‖y_v‖²`, (V).
    pub energy: Vec<f64>,
    /// What f32 coordinates of this size resolve, relative to the diagonal.
    pub resolution: f64,
    /// Undoes the rest mesh's centring and scaling.
    rest_centre: DVec3,
    /// Undoes each frame's centring, (N).
    centres: Vec<DVec3>,
    /// The rest mesh's diagonal.
    diagonal: f64,
}

impl Problem {
    /// The problem of drawing `frames` (N)(V) with the rest mesh `mesh`.
    pub fn new(mesh: &Mesh, frames: &[&[DVec3]]) -> Self {
        let diagonal = mesh.diagonal();
        let rest_centre = mean(mesh.vertices());
        let centres: Vec<DVec3> = frames.iter().map(|frame| mean(frame)).collect();
        let rest: Vec<[f64; 4]> =
            mesh.vertices().iter().map(|&v| ((v - rest_centre) / diagonal).extend(1.0).to_array()).collect();
        let products = Mat::from_fn(10, rest.len(), |k, v| rest[v][PRODUCTS[k].0] * rest[v][PRODUCTS[k].1]);
        let mut targets = Mat::zeros(3 * frames.len(), rest.len());
        for v in 0..rest.len() {
            let column = targets.col_as_slice_mut(v);
            for (e, frame) in frames.iter().enumerate() {
                let y = (frame[v] - centres[e]) / diagonal;
                column[3 * e..3 * e + 3].copy_from_slice(&y.to_array());
            }
        }
        let energy = (0..rest.len()).map(|v| dot(targets.col_as_slice(v), targets.col_as_slice(v))).collect();
        let reach = frames.iter().flat_map(|frame| frame.iter()).map(|v| v.abs().max_element()).fold(0.0, f64::max);
        let resolution = f64::from(f32::EPSILON) * reach / diagonal;
        Self { rest, products, targets, energy, resolution, rest_centre, centres, diagonal }
    }

    /// The number of vertices, V.
    pub fn vertex_count(&self) -> usize {
        self.rest.len()
    }

    /// The number of frames, N.
    pub fn frame_count(&self) -> usize {
        self.centres.len()
    }

    /// `E_RMS = 1000 ‖A − Ã‖_F / √(3NV)` over half the rest diagonal, from the sum of squares in this problem's units.
    pub fn e_rms(&self, squares: f64) -> f64 {
        2000.0 * (squares.max(0.0) / (self.targets.nrows() * self.rest.len()) as f64).sqrt()
    }

    /// Skinning transforms in the user's units, (N)(B).
    pub fn to_transforms(&self, motion: &Motion) -> Vec<Vec<DAffine3>> {
        let rest_to_unit = |t: DAffine3, e: usize| DAffine3 {
            matrix3: t.matrix3,
            translation: t.translation * self.diagonal - t.matrix3 * self.rest_centre + self.centres[e],
        };
        (0..self.frame_count())
            .map(|e| (0..motion.bone_count()).map(|b| rest_to_unit(motion.get(b, e), e)).collect())
            .collect()
    }

    /// The inverse of [`Self::to_transforms`].
    pub fn motion_from(&self, transforms: &[Vec<DAffine3>]) -> Motion {
        let mut motion = Motion::identity(self.frame_count(), transforms.first().map_or(0, Vec::len));
        for (e, bones) in transforms.iter().enumerate() {
            for (b, t) in bones.iter().enumerate() {
                let translation = t.translation + t.matrix3 * self.rest_centre - self.centres[e];
                motion.set(b, e, DAffine3 { matrix3: t.matrix3, translation: translation / self.diagonal });
            }
        }
        motion
    }
}

/// The bones' motion: `M_b` side by side, (3N, 4B).
#[derive(Debug, Clone)]
pub(crate) struct Motion {
    /// Column 4b + k is the k-th column of `M_b`.
    pub matrix: Mat<f64>,
}

impl Motion {
    /// Bones that stand still.
    pub fn identity(frames: usize, bones: usize) -> Self {
        let mut motion = Self { matrix: Mat::zeros(3 * frames, 4 * bones) };
        for b in 0..bones {
            for e in 0..frames {
                motion.set(b, e, DAffine3::IDENTITY);
            }
        }
        motion
    }

    /// The number of bones, B.
    pub fn bone_count(&self) -> usize {
        self.matrix.ncols() / 4
    }

    /// The number of frames, N.
    pub fn frame_count(&self) -> usize {
        self.matrix.nrows() / 3
    }

    /// `T_b` in frame `e`.
    pub fn get(&self, b: usize, e: usize) -> DAffine3 {
        let column = |k: usize| {
            let c = &self.matrix.col_as_slice(4 * b + k)[3 * e..3 * e + 3];
            DVec3::new(c[0], c[1], c[2])
        };
        DAffine3 { matrix3: DMat3::from_cols(column(0), column(1), column(2)), translation: column(3) }
    }

    /// Sets `T_b` in frame `e`.
    pub fn set(&mut self, b: usize, e: usize, t: DAffine3) {
        for (k, c) in [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation].into_iter().enumerate() {
            self.matrix.col_as_slice_mut(4 * b + k)[3 * e..3 * e + 3].copy_from_slice(&c.to_array());
        }
    }

    /// These bones and then bone `b` of `other`.
    pub fn with(&self, other: &Motion, b: usize) -> Self {
        let n = self.matrix.ncols();
        let matrix = Mat::from_fn(self.matrix.nrows(), n + 4, |i, j| {
            if j < n { self.matrix[(i, j)] } else { other.matrix[(i, 4 * b + j - n)] }
        });
        Self { matrix }
    }

    /// All bones but those in `gone`.
    pub fn without(&self, gone: &[usize]) -> Self {
        let kept: Vec<usize> =
            (0..self.bone_count()).filter(|b| !gone.contains(b)).flat_map(|b| 4 * b..4 * b + 4).collect();
        Self { matrix: Mat::from_fn(self.matrix.nrows(), kept.len(), |i, j| self.matrix[(i, kept[j])]) }
    }
}

/// Sparse convex weights, (V, K): the first entries of a row are in use, the rest have weight zero.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights {
    /// Entries a vertex, K.
    pub most: usize,
    /// (bone, weight), (V, K) row by row.
    pub entries: Vec<(u32, f64)>,
}

impl Weights {
    /// The entries of vertex `v` that are in use.
    pub fn of(&self, v: usize) -> &[(u32, f64)] {
        let row = &self.entries[v * self.most..(v + 1) * self.most];
        &row[..row.iter().position(|&(_, w)| w <= 0.0).unwrap_or(self.most)]
    }
}

pub(crate) fn mean(points: &[DVec3]) -> DVec3 {
    points.iter().sum::<DVec3>() / points.len().max(1) as f64
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four running sums, which the compiler turns into vector instructions.
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a4.zip(b4) {
        for k in 0..4 {
            sums[k] += x[k] * y[k];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}
