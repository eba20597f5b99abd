//! The normal equations of animation space, and conjugate gradients on them.
//!
//! Everything is in a unit box: positions are centred and divided by the longest side of the rest box. Bone b's
//! coordinates are taken about its own rest origin ô_b (in the paper: in its own frame), `G_b = [R_b | T_b ô_b]`.
//!
//! The unknown is q = p − p₀, p₀ the linear blend skin, with `Σ_b w(q_vb) = 0`. For vertex v with bones S the matrix is
//!
//!   M_v = H[S, S] + (λ + δ Σ_u 1/ℓ_uv) I,   H = Σ_e a_e (G^e)ᵀ G^e  (4J × 4J, the same for all vertices),
//!
//! and edges couple neighbours by −δ/ℓ on the bones that both have. So the matrix is never formed: H is small, and a
//! product costs (4n)² a vertex. The preconditioner is the exact inverse of every M_v on the constraint: the weight of the
//! vertex's heaviest bone is eliminated (§6.3), the rest factored by Cholesky.

use glam::{DMat3, DVec3, DVec4};
use rayon::prelude::*;

use super::{Coordinates, Prior};
use crate::Training;
use crate::geometry::topology::Topology;
use crate::methods::influence_sets::InfluenceSets;
use crate::methods::ssd::SparseWeights;
use crate::report::Iterations;

/// Where the final solve stops: the preconditioned residual relative to its start. A thousandth of a correction that
/// is itself a few percent of the box is far below what f32 examples resolve.
pub const FINAL_TOLERANCE: f64 = 1e-4;

/// Where a solve for cross-validation stops: it only has to rank candidates.
pub const RANKING_TOLERANCE: f64 = 1e-2;

/// Conjugate gradients give up after this many steps and keep what they have; the horse of the paper took 4,185 with LSQR
/// and no preconditioner.
const MOST_ITERATIONS: usize = 1000;

/// Vertices a task: enough work to be worth a task, little enough to share evenly.
const GRAIN: usize = 64;

/// The system of one set of examples; λ and δ come with each solve.
pub struct System<'a> {
    sets: &'a InfluenceSets,
    /// Where each vertex's unknowns start, (V + 1); four a bone.
    starts: Vec<usize>,
    /// The slot, in its set, of the bone whose weight is eliminated, (V).
    eliminated: Vec<usize>,
    /// Neighbours and 1/ℓ of each vertex, (V).
    edges: Vec<Vec<(usize, f64)>>,
    /// `H = Σ_e a_e (G^e)ᵀ G^e`, (4J, 4J) row by row.
    gram: Vec<f64>,
    bones: usize,
    /// `Σ_e a_e (G^e)ᵀ (y^e − G^e p₀)`, (unknowns).
    data: Vec<f64>,
    /// p₀ − p̄, (unknowns): nil when the prior is p₀ itself.
    offset: Vec<f64>,
    /// p₀, (unknowns).
    base: Vec<f64>,
    scale: f64,
    /// ô_b in the root's rest frame, (J).
    origins: Vec<DVec3>,
}

impl<'a> System<'a> {
    /// Prepares everything that does not depend on λ and δ.
    pub fn new(
        examples: &Training,
        skin: &SparseWeights,
        sets: &'a InfluenceSets,
        topology: &Topology,
        prior: Prior,
    ) -> Self {
        let frame = UnitBox::new(examples);
        let to_root = examples.skeleton.rest_root_frame().inverse();
        let origins: Vec<DVec3> =
            examples.skeleton.bones().iter().map(|bone| to_root.transform_point3(bone.rest.translation)).collect();
        let matrices = matrices(examples, &origins, &frame);
        let mut starts = vec![0];
        sets.bones.iter().for_each(|bones| starts.push(starts[starts.len() - 1] + 4 * bones.len()));
        let base = base(examples, skin, sets, &origins, &frame);
        let mut system = Self {
            sets,
            eliminated: (0..sets.bones.len()).map(|v| heaviest_slot(skin, sets, v)).collect(),
            edges: edges(examples, topology, &frame),
            gram: gram(examples, &matrices),
            bones: examples.bone_count(),
            data: Vec::new(),
            offset: match prior {
                Prior::Skinning => vec![0.0; base.len()],
                Prior::Zero => base.clone(),
            },
            base,
            scale: frame.scale,
            origins,
            starts,
        };
        system.data = system.data_term(examples, &matrices, &frame);
        system
    }

    /// The starting point q = 0.
    pub fn start(&self) -> Vec<f64> {
        vec![0.0; self.base.len()]
    }

    /// Solves for q from the start given, in place.
    pub fn solve(&self, lambda: f64, delta: f64, tolerance: f64, q: &mut [f64]) -> Iterations {
        let blocks = self.factors(lambda, delta);
        let mut residual = self.data.clone();
        let mut product = vec![0.0; q.len()];
        if self.offset.iter().any(|&o| o != 0.0) {
            self.smoothness(lambda, delta, &self.offset, &mut product);
            subtract(&mut residual, &product);
        }
        let mut direction = vec![0.0; q.len()];
        self.precondition(&blocks, &residual, &mut direction);
        let start_energy = self.dot(&residual, &direction);
        self.multiply(lambda, delta, q, &mut product);
        subtract(&mut residual, &product);
        let mut preconditioned = vec![0.0; q.len()];
        self.precondition(&blocks, &residual, &mut preconditioned);
        direction.copy_from_slice(&preconditioned);
        let mut energy = self.dot(&residual, &preconditioned);
        let mut residuals = Vec::new();
        let relative = |energy: f64| if start_energy > 0.0 { (energy / start_energy).sqrt() } else { 0.0 };
        let stopped = loop {
            if relative(energy) <= tolerance {
                break "converged";
            }
            if residuals.len() == MOST_ITERATIONS {
                break "the limit of iterations was reached";
            }
            self.multiply(lambda, delta, &direction, &mut product);
            let curvature = self.dot(&direction, &product);
            if !(curvature > 0.0) {
                break "no direction is left";
            }
            let step = energy / curvature;
            add(q, step, &direction);
            add(&mut residual, -step, &product);
            self.precondition(&blocks, &residual, &mut preconditioned);
            let next = self.dot(&residual, &preconditioned);
            let ratio = next / energy;
            direction.par_iter_mut().zip(&preconditioned).for_each(|(d, z)| *d = z + ratio * *d);
            energy = next;
            residuals.push(relative(energy));
        };
        Iterations { name: "animation space".into(), residuals, stopped }
    }

    /// The coordinates p₀ + q in the root's rest frame.
    pub fn coordinates(&self, q: &[f64]) -> Coordinates {
        let vertex = |v: usize| {
            let pair = |(slot, &b): (usize, &usize)| {
                let at = self.starts[v] + 4 * slot;
                let p = DVec4::from_slice(&self.base[at..at + 4]) + DVec4::from_slice(&q[at..at + 4]);
                (b, (p.truncate() / self.scale + self.origins[b] * p.w).extend(p.w))
            };
            let pairs = self.sets.bones[v].iter().enumerate().map(pair);
            pairs.filter(|&(_, p)| p != DVec4::ZERO).collect()
        };
        Coordinates { vertices: (0..self.sets.bones.len()).map(vertex).collect() }
    }

    fn block(&self, v: usize) -> std::ops::Range<usize> {
        self.starts[v]..self.starts[v + 1]
    }

    /// `Σ_e a_e (G^e)ᵀ (y^e − G^e p₀)`, vertex by vertex.
    fn data_term(&self, examples: &Training, matrices: &[Vec<(DMat3, DVec3)>], frame: &UnitBox) -> Vec<f64> {
        let vertex = |v: usize| {
            let bones = &self.sets.bones[v];
            let p0: Vec<DVec4> = self.base[self.block(v)].chunks_exact(4).map(DVec4::from_slice).collect();
            let mut sums = vec![DVec4::ZERO; bones.len()];
            for (e, pose) in matrices.iter().enumerate() {
                let carried: DVec3 =
                    bones.iter().zip(&p0).map(|(&b, p)| pose[b].0 * p.truncate() + pose[b].1 * p.w).sum();
                let wrong = (frame.to_unit(examples.vertices[e][v]) - carried) * examples.pose_weights[e];
                for (sum, &b) in sums.iter_mut().zip(bones) {
                    let (linear, translation) = &pose[b];
                    *sum += (linear.transpose() * wrong).extend(translation.dot(wrong));
                }
            }
            sums
        };
        let sums: Vec<Vec<DVec4>> = (0..self.sets.bones.len()).into_par_iter().map(vertex).collect();
        sums.iter().flatten().flat_map(|sum| sum.to_array()).collect()
    }

    /// `out = (H + λ + δ L) x`.
    fn multiply(&self, lambda: f64, delta: f64, x: &[f64], out: &mut [f64]) {
        self.smoothness(lambda, delta, x, out);
        let columns = 4 * self.bones;
        self.for_each_vertex(out, |v, out| {
            let bones = &self.sets.bones[v];
            let x = &x[self.block(v)];
            for (i, &row_bone) in bones.iter().enumerate() {
                for r in 0..4 {
                    let row = &self.gram[(4 * row_bone + r) * columns..][..columns];
                    let mut sum = 0.0;
                    for (j, &b) in bones.iter().enumerate() {
                        let (h, x) = (&row[4 * b..4 * b + 4], &x[4 * j..4 * j + 4]);
                        sum += h[0] * x[0] + h[1] * x[1] + h[2] * x[2] + h[3] * x[3];
                    }
                    out[4 * i + r] += sum;
                }
            }
        });
    }

    /// `out = (λ + δ L) x`; a bone that the neighbour does not have counts as zero there.
    fn smoothness(&self, lambda: f64, delta: f64, x: &[f64], out: &mut [f64]) {
        self.for_each_vertex(out, |v, out| {
            let own = &x[self.block(v)];
            let diagonal = lambda + delta * self.edges[v].iter().map(|&(_, inverse)| inverse).sum::<f64>();
            out.iter_mut().zip(own).for_each(|(out, x)| *out = diagonal * x);
            if delta == 0.0 {
                return;
            }
            let bones = &self.sets.bones[v];
            for &(u, inverse) in &self.edges[v] {
                let theirs = &x[self.block(u)];
                let other = &self.sets.bones[u];
                let (mut i, mut j) = (0, 0);
                while i < bones.len() && j < other.len() {
                    match bones[i].cmp(&other[j]) {
                        std::cmp::Ordering::Less => i += 1,
                        std::cmp::Ordering::Greater => j += 1,
                        std::cmp::Ordering::Equal => {
                            for r in 0..4 {
                                out[4 * i + r] -= delta * inverse * theirs[4 * j + r];
                            }
                            (i, j) = (i + 1, j + 1);
                        }
                    }
                }
            }
        });
    }

    /// Cholesky factors of `Zᵀ M_v Z`, Z the substitution of the eliminated weight, (V), each packed row by row.
    fn factors(&self, lambda: f64, delta: f64) -> Vec<Vec<f64>> {
        let columns = 4 * self.bones;
        let vertex = |v: usize| {
            let bones = &self.sets.bones[v];
            let eliminated = 4 * self.eliminated[v] + 3;
            let shift = lambda + delta * self.edges[v].iter().map(|&(_, inverse)| inverse).sum::<f64>();
            let entry = |i: usize, j: usize| {
                let h = self.gram[(4 * bones[i / 4] + i % 4) * columns + 4 * bones[j / 4] + j % 4];
                if i == j { h + shift } else { h }
            };
            let kept: Vec<usize> = (0..4 * bones.len()).filter(|&i| i != eliminated).collect();
            // Z has ones at the kept entries and −1 in the eliminated row for every weight.
            let reduced = |i: usize, j: usize| {
                let (wi, wj) = (i % 4 == 3, j % 4 == 3);
                let mut sum = entry(i, j);
                if wi {
                    sum -= entry(eliminated, j);
                }
                if wj {
                    sum -= entry(i, eliminated);
                }
                if wi && wj {
                    sum += entry(eliminated, eliminated);
                }
                sum
            };
            cholesky(&kept, reduced)
        };
        (0..self.sets.bones.len()).into_par_iter().with_min_len(GRAIN).map(vertex).collect()
    }

    /// `out = Z (Zᵀ M_v Z)⁻¹ Zᵀ r` for every vertex.
    fn precondition(&self, factors: &[Vec<f64>], r: &[f64], out: &mut [f64]) {
        self.for_each_vertex(out, |v, out| {
            let eliminated = 4 * self.eliminated[v] + 3;
            let r = &r[self.block(v)];
            let kept = (0..r.len()).filter(|&i| i != eliminated);
            let mut solution: Vec<f64> =
                kept.clone().map(|i| if i % 4 == 3 { r[i] - r[eliminated] } else { r[i] }).collect();
            substitute(&factors[v], &mut solution);
            let mut weights = 0.0;
            for (i, &x) in kept.zip(&solution) {
                out[i] = x;
                if i % 4 == 3 {
                    weights += x;
                }
            }
            out[eliminated] = -weights;
        });
    }

    fn for_each_vertex(&self, out: &mut [f64], work: impl Fn(usize, &mut [f64]) + Sync) {
        let mut rest = out;
        let mut blocks = Vec::with_capacity(self.sets.bones.len());
        for bones in &self.sets.bones {
            let (block, tail) = rest.split_at_mut(4 * bones.len());
            blocks.push(block);
            rest = tail;
        }
        blocks.into_par_iter().with_min_len(GRAIN).enumerate().for_each(|(v, block)| work(v, block));
    }

    /// A dot product in a fixed order, whatever the number of threads.
    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        const CHUNK: usize = 4096;
        let parts: Vec<f64> = a
            .par_chunks(CHUNK)
            .zip(b.par_chunks(CHUNK))
            .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum())
            .collect();
        parts.iter().sum()
    }
}

/// The rest box moved to the origin, its longest side made one.
struct UnitBox {
    centre: DVec3,
    scale: f64,
}

impl UnitBox {
    fn new(examples: &Training) -> Self {
        let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
        let (low, high) = examples.rest.iter().fold(start, |(low, high), &v| (low.min(v), high.max(v)));
        Self { centre: (low + high) / 2.0, scale: 1.0 / (high - low).max_element() }
    }

    fn to_unit(&self, point: DVec3) -> DVec3 {
        (point - self.centre) * self.scale
    }
}

/// `G_b^e = [R_b | T_b ô_b]` in the unit box, (N)(J).
fn matrices(examples: &Training, origins: &[DVec3], frame: &UnitBox) -> Vec<Vec<(DMat3, DVec3)>> {
    let pose = |transforms: &Vec<glam::DAffine3>| {
        let bones = transforms.iter().zip(origins);
        bones.map(|(t, &origin)| (t.matrix3, frame.to_unit(t.transform_point3(origin)))).collect()
    };
    examples.transforms.iter().map(pose).collect()
}

/// `Σ_e a_e (G^e)ᵀ G^e`, (4J, 4J).
fn gram(examples: &Training, matrices: &[Vec<(DMat3, DVec3)>]) -> Vec<f64> {
    let bones = examples.bone_count();
    let columns: Vec<Vec<[DVec3; 4]>> =
        matrices.iter().map(|pose| pose.iter().map(|(m, t)| [m.x_axis, m.y_axis, m.z_axis, *t]).collect()).collect();
    let row = |i: usize| {
        let entry = |j: usize| -> f64 {
            let poses = columns.iter().zip(&examples.pose_weights);
            poses.map(|(pose, weight)| weight * pose[i / 4][i % 4].dot(pose[j / 4][j % 4])).sum()
        };
        (0..4 * bones).map(entry).collect::<Vec<f64>>()
    };
    (0..4 * bones).into_par_iter().map(row).collect::<Vec<_>>().concat()
}

/// p₀: the skin as coordinates about the bones' origins, in the unit box.
fn base(
    examples: &Training,
    skin: &SparseWeights,
    sets: &InfluenceSets,
    origins: &[DVec3],
    frame: &UnitBox,
) -> Vec<f64> {
    let mut base = Vec::new();
    for (v, bones) in sets.bones.iter().enumerate() {
        for &b in bones {
            let weight = skin.vertices[v].iter().find(|&&(bone, _)| bone == b).map_or(0.0, |&(_, w)| w);
            let p = ((examples.rest[v] - origins[b]) * frame.scale).extend(1.0) * weight;
            base.extend(p.to_array());
        }
    }
    base
}

fn heaviest_slot(skin: &SparseWeights, sets: &InfluenceSets, v: usize) -> usize {
    let heaviest = skin.dominant(v);
    sets.bones[v].iter().position(|&b| b == heaviest).unwrap_or(0)
}

/// Neighbours with 1/ℓ, ℓ the edge's mean length over the examples in the unit box.
fn edges(examples: &Training, topology: &Topology, frame: &UnitBox) -> Vec<Vec<(usize, f64)>> {
    let poses = examples.pose_count() as f64;
    let length = |u: usize, v: usize| -> f64 {
        let sum: f64 = examples.vertices.iter().map(|frame| frame[u].distance(frame[v])).sum();
        frame.scale * sum / poses
    };
    // An edge without length would couple without limit; 1e-6 of the box is below f32 coordinates' grid.
    let edge = |v: usize, u: usize| (u, 1.0 / length(u, v).max(1e-6));
    (0..examples.vertex_count())
        .into_par_iter()
        .map(|v| topology.vertex_vertices.row(v).iter().map(|&u| edge(v, u)).collect())
        .collect()
}

/// The lower factor of the symmetric matrix `entry(rows[i], rows[j])`, packed row by row. A pivot that rounding has made
/// negative is held at a trillionth of the largest: the direction is undetermined and gets next to no step.
fn cholesky(rows: &[usize], entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let n = rows.len();
    let mut factor = Vec::with_capacity(n * (n + 1) / 2);
    let largest = rows.iter().map(|&i| entry(i, i)).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    for i in 0..n {
        let start_i = i * (i + 1) / 2;
        for j in 0..=i {
            let start_j = j * (j + 1) / 2;
            let mut sum = entry(rows[i], rows[j]);
            for k in 0..j {
                sum -= factor[start_i + k] * factor[start_j + k];
            }
            factor.push(if i == j { sum.max(1e-12 * largest).sqrt() } else { sum / factor[start_j + j] });
        }
    }
    factor
}

/// Solves with a packed lower factor, in place.
fn substitute(factor: &[f64], x: &mut [f64]) {
    let n = x.len();
    for i in 0..n {
        let row = &factor[i * (i + 1) / 2..];
        let mut sum = x[i];
        for k in 0..i {
            sum -= row[k] * x[k];
        }
        x[i] = sum / row[i];
    }
    for i in (0..n).rev() {
        let row = &factor[i * (i + 1) / 2..];
        x[i] /= row[i];
        let value = x[i];
        for k in 0..i {
            x[k] -= row[k] * value;
        }
    }
}

fn subtract(a: &mut [f64], b: &[f64]) {
    add(a, -1.0, b);
}

fn add(a: &mut [f64], factor: f64, b: &[f64]) {
    a.par_iter_mut().with_min_len(4096).zip(b).for_each(|(a, b)| *a += factor * b);
}
