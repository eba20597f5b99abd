//! The regression of one influence set: principal components, ridge, truncation; and its use for all its vertices.
//!
//! The columns of A depend on the set and the component i only, so vertices with the same set share their covariance
//! `V = E Λ Eᵀ` (after the columns are scaled by the painted influences μ) and its principal components E. In these the
//! normal equations of eq. 8 are all but diagonal: with α = Σ a_e and m = Eᵀ μ ā, ā the columns' means,
//!
//!   Eᵀ μ AᵀA μ E + diag(s_f/Λ) = D + α m mᵀ,   D_h = α Λ_h + s_f/Λ_h.
//!
//! The constant column takes away exactly the rank-one part; without it the inverse is by Sherman and Morrison. A vertex then
//! costs its `Aᵀ b` and two products with E, whatever the number of s_f to be tried. Where μ differs from vertex to vertex,
//! E is computed for each.

use std::collections::BTreeMap;

use glam::DVec3;
use rayon::prelude::*;
use sinew_linalg::{Mat, SymmetricEigen, symmetric_eigen};

use super::weights::rows;
use super::{MultiWeights, MweParams};
use crate::Training;
use crate::methods::influence_sets::InfluenceSets;
use crate::methods::ssd::SparseWeights;

/// The weights of every vertex for each of the scale factors s_f.
pub fn solve(
    training: &Training,
    skin: &SparseWeights,
    sets: &InfluenceSets,
    params: &MweParams,
    scale_factors: &[f64],
) -> Vec<MultiWeights> {
    let features = Features::new(training, params);
    let mut groups: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
    for (v, bones) in sets.bones.iter().enumerate() {
        groups.entry(bones).or_default().push(v);
    }
    let groups: Vec<(&[usize], Vec<usize>)> = groups.into_iter().collect();
    let solved: Vec<Vec<Vec<Corrections>>> = groups
        .par_iter()
        .map(|(bones, vertices)| solve_group(training, skin, sets, params, scale_factors, &features, bones, vertices))
        .collect();
    let mut order: Vec<(usize, usize)> = vec![(0, 0); sets.bones.len()];
    for (g, (_, vertices)) in groups.iter().enumerate() {
        vertices.iter().enumerate().for_each(|(k, &v)| order[v] = (g, k));
    }
    let weights = |f: usize| {
        let vertex = |v: usize| {
            let (g, k) = order[v];
            assemble(training, skin, &features, groups[g].0, v, &solved[g][k][f])
        };
        let (vertices, constants) = (0..order.len()).into_par_iter().map(vertex).unzip();
        MultiWeights { vertices, constants }
    };
    (0..scale_factors.len()).map(weights).collect()
}

/// For each component i: the weights of A's columns, four a bone, and the constant last.
type Corrections = [Vec<f64>; 3];

/// The matrix entries of every pose: row by row, translations at the bones' own origins and in units of the rest box.
struct Features {
    /// (N)(J): 3×4 row by row.
    poses: Vec<Vec<[f64; 12]>>,
    /// a_e, (N).
    weights: Vec<f64>,
    /// ô_b in the root's rest frame, (J).
    origins: Vec<DVec3>,
    /// One over the longest side of the rest box.
    scale: f64,
    /// The number of poses that are examples; one more is the rest pose, whose correction is nil.
    examples: usize,
}

impl Features {
    fn new(training: &Training, params: &MweParams) -> Self {
        let to_root = training.skeleton.rest_root_frame().inverse();
        let origin = |bone: &sinew_examples::Bone| to_root.transform_point3(bone.rest.translation);
        let origins: Vec<DVec3> = training.skeleton.bones().iter().map(origin).collect();
        let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
        let (low, high) = training.rest.iter().fold(start, |(low, high), &v| (low.min(v), high.max(v)));
        let scale = 1.0 / (high - low).max_element();
        let entries = |transforms: &Vec<glam::DAffine3>| {
            let bone = |(t, &origin): (&glam::DAffine3, &DVec3)| {
                let moved = glam::DAffine3 { matrix3: t.matrix3, translation: t.transform_point3(origin) * scale };
                rows(&moved)
            };
            transforms.iter().zip(&origins).map(bone).collect::<Vec<_>>()
        };
        let mut poses: Vec<Vec<[f64; 12]>> = training.transforms.iter().map(entries).collect();
        let mut weights = training.pose_weights.clone();
        if params.rest_pose {
            poses.push(entries(&vec![glam::DAffine3::IDENTITY; training.bone_count()]));
            weights.push(1.0);
        }
        Self { poses, weights, origins, scale, examples: training.pose_count() }
    }

    /// Component i of the entries of `bones`, the constant last: one row of A.
    fn row(&self, e: usize, i: usize, bones: &[usize], constant: bool) -> Vec<f64> {
        let entries = bones.iter().flat_map(|&b| self.poses[e][b][4 * i..4 * i + 4].iter().copied());
        entries.chain(constant.then_some(1.0)).collect()
    }

    /// a_e shared among the poses that are near-duplicates as far as `bones` can see.
    fn weights_without_duplicates(&self, bones: &[usize], distance: f64) -> Vec<f64> {
        let limit = distance * distance * 12.0 * bones.len() as f64;
        let gap = |e: usize, f: usize| -> f64 {
            let entries = bones.iter().flat_map(|&b| self.poses[e][b].iter().zip(&self.poses[f][b]));
            entries.map(|(x, y)| (x - y) * (x - y)).sum()
        };
        let mut leaders: Vec<usize> = Vec::new();
        let leader: Vec<usize> = (0..self.poses.len())
            .map(|e| {
                leaders.iter().copied().find(|&l| gap(e, l) <= limit).unwrap_or_else(|| {
                    leaders.push(e);
                    e
                })
            })
            .collect();
        let alike = |e: usize| leader.iter().filter(|&&l| l == leader[e]).count() as f64;
        (0..self.poses.len()).map(|e| self.weights[e] / alike(e)).collect()
    }
}

fn solve_group(
    training: &Training,
    skin: &SparseWeights,
    sets: &InfluenceSets,
    params: &MweParams,
    scale_factors: &[f64],
    features: &Features,
    bones: &[usize],
    vertices: &[usize],
) -> Vec<Vec<Corrections>> {
    let weights = features.weights_without_duplicates(bones, params.duplicate_distance);
    let sides: [Regression; 3] =
        std::array::from_fn(|i| Regression::new(features, &weights, i, bones, params.constant));
    let uniform = |v: usize| sets.freedom[v].iter().all(|&f| f == 1.0);
    let ones = vec![1.0; bones.len()];
    let shared = vertices.iter().any(|&v| uniform(v)).then(|| sides.each_ref().map(|s| s.components(&ones, params)));
    let vertex = |&v: &usize| {
        let wrong = corrections_wanted(training, skin, features.examples, v);
        let own = (!uniform(v)).then(|| sides.each_ref().map(|side| side.components(&sets.freedom[v], params)));
        let components =
            own.as_ref().or(shared.as_ref()).expect("shared components exist for a vertex without its own");
        let solved: [Vec<Vec<f64>>; 3] = std::array::from_fn(|i| {
            sides[i].solve(&components[i], &sides[i].right_hand_side(&wrong, i), params, scale_factors)
        });
        (0..scale_factors.len()).map(|f| std::array::from_fn(|i| solved[i][f].clone())).collect()
    };
    vertices.par_iter().with_min_len(16).map(vertex).collect()
}

/// `y^e − base^e` of vertex `v`, (N).
fn corrections_wanted(training: &Training, skin: &SparseWeights, examples: usize, v: usize) -> Vec<DVec3> {
    let wrong = |e: usize| {
        let base: DVec3 = skin.vertices[v].iter().map(|&(b, w)| w * training.carried(e, b, v)).sum();
        training.vertices[e][v] - base
    };
    (0..examples).map(wrong).collect()
}

/// The regression of component i over one influence set.
struct Regression {
    /// Columns of A, the constant's included.
    columns: usize,
    constant: bool,
    /// `a_e A^e`, (N)(columns).
    weighted: Vec<Vec<f64>>,
    /// `Σ_e a_e (A^e)ᵀ A^e`, (columns, columns).
    gram: Mat<f64>,
    /// Weighted mean of each column, (columns).
    means: Vec<f64>,
    total: f64,
}

impl Regression {
    fn new(features: &Features, weights: &[f64], i: usize, bones: &[usize], constant: bool) -> Self {
        let rows: Vec<Vec<f64>> = (0..features.poses.len()).map(|e| features.row(e, i, bones, constant)).collect();
        let columns = rows[0].len();
        let weighted: Vec<Vec<f64>> =
            rows.iter().zip(weights).map(|(row, a)| row.iter().map(|x| a * x).collect()).collect();
        let total: f64 = weights.iter().sum();
        let means = (0..columns).map(|c| weighted.iter().map(|row| row[c]).sum::<f64>() / total).collect();
        let mut flat = vec![0.0; columns * columns];
        for (row, weighted) in rows.iter().zip(&weighted) {
            for (line, x) in flat.chunks_exact_mut(columns).zip(weighted) {
                line.iter_mut().zip(row).for_each(|(sum, y)| *sum += x * y);
            }
        }
        let gram = Mat::from_fn(columns, columns, |r, c| flat[r * columns + c]);
        Self { columns, constant, weighted, gram, means, total }
    }

    /// `Σ_e a_e (A^e)ᵀ b^e`, (columns); the rest pose, if it is there, wants no correction.
    fn right_hand_side(&self, wrong: &[DVec3], i: usize) -> Vec<f64> {
        let mut sum = vec![0.0; self.columns];
        for (row, wrong) in self.weighted.iter().zip(wrong) {
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * wrong[i]);
        }
        sum
    }

    /// The principal components of the columns scaled by `freedom` (μ, one a bone).
    fn components(&self, freedom: &[f64], params: &MweParams) -> Components {
        let varying = self.columns - usize::from(self.constant);
        let mu = |c: usize| freedom[c / 4];
        let covariance = Mat::from_fn(varying, varying, |r, c| {
            mu(r) * mu(c) * (self.gram[(r, c)] / self.total - self.means[r] * self.means[c])
        });
        let Some(eigen) = symmetric_eigen(&covariance) else { return Components::default() };
        let SymmetricEigen { values, vectors } = eigen;
        let largest = values.iter().copied().fold(0.0, f64::max);
        // Below 1e-12 (rotations by a millionth of a radian) a column does not vary: eq. 9's λ is infinite.
        let enough = |&h: &usize| values[h] > (params.variance_threshold * largest).max(1e-12);
        let kept: Vec<usize> = (0..varying).filter(enough).collect();
        let direction = |&h: &usize| (0..varying).map(|r| mu(r) * vectors[(r, h)]).collect::<Vec<f64>>();
        let directions: Vec<Vec<f64>> = kept.iter().map(direction).collect();
        Components {
            variances: kept.iter().map(|&h| values[h]).collect(),
            means: directions.iter().map(|direction| dot(direction, &self.means[..varying])).collect(),
            directions,
        }
    }

    /// The weights of A's columns for each scale factor, the constant last.
    fn solve(
        &self,
        components: &Components,
        right: &[f64],
        params: &MweParams,
        scale_factors: &[f64],
    ) -> Vec<Vec<f64>> {
        let varying = self.columns - usize::from(self.constant);
        // Σ a b, if there is a constant to take it up.
        let sum = if self.constant { right[varying] } else { 0.0 };
        let Components { variances, means, directions } = components;
        let centred = |(direction, mean): (&Vec<f64>, &f64)| dot(direction, &right[..varying]) - mean * sum;
        let projected: Vec<f64> = directions.iter().zip(means).map(centred).collect();
        let solution = |&factor: &f64| {
            let diagonal: Vec<f64> = variances.iter().map(|&v| self.total * v + factor / v).collect();
            let smallest = params.singular_threshold * diagonal.iter().copied().fold(0.0, f64::max);
            let divide = |x: &[f64]| -> Vec<f64> {
                x.iter().zip(&diagonal).map(|(x, &d)| if d > smallest { x / d } else { 0.0 }).collect()
            };
            let mut w = divide(&projected);
            if !self.constant {
                let scaled = divide(means);
                let share = self.total * dot(means, &w) / (1.0 + self.total * dot(means, &scaled));
                w.iter_mut().zip(&scaled).for_each(|(w, s)| *w -= share * s);
            }
            let mut weights = vec![0.0; self.columns];
            for (direction, w) in directions.iter().zip(&w) {
                weights.iter_mut().zip(direction).for_each(|(sum, x)| *sum += w * x);
            }
            if self.constant {
                weights[varying] = sum / self.total - dot(means, &w);
            }
            weights
        };
        scale_factors.iter().map(solution).collect()
    }
}

/// Principal components of one regression that vary enough.
#[derive(Default)]
struct Components {
    /// Λ_h, (components).
    variances: Vec<f64>,
    /// `m = Eᵀ μ ā`, (components).
    means: Vec<f64>,
    /// The columns of μ E, (components)(varying columns).
    directions: Vec<Vec<f64>>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Corrections and the skin beneath as one set of weights over plain skinning transforms.
fn assemble(
    training: &Training,
    skin: &SparseWeights,
    features: &Features,
    bones: &[usize],
    v: usize,
    corrections: &Corrections,
) -> (Vec<(usize, [f64; 12])>, DVec3) {
    let rest = training.rest[v].extend(1.0).to_array();
    let pair = |(slot, &b): (usize, &usize)| {
        let weight = skin.vertices[v].iter().find(|&&(bone, _)| bone == b).map_or(0.0, |&(_, w)| w);
        let origin = features.origins[b].to_array();
        let u = std::array::from_fn(|k| {
            let (i, s) = (k / 4, k % 4);
            let own = &corrections[i][4 * slot..4 * slot + 4];
            // The translation column was T ô in box units: Σ_s R[i,s] ô_s + t[i], times the scale.
            let column = if s == 3 { own[3] * features.scale } else { own[s] + own[3] * features.scale * origin[s] };
            weight * rest[s] + column
        });
        (b, u)
    };
    let constant = |i: usize| corrections[i].get(4 * bones.len()).copied().unwrap_or(0.0);
    (bones.iter().enumerate().map(pair).collect(), DVec3::new(constant(0), constant(1), constant(2)))
}
