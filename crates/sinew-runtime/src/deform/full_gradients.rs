//! Gradients of every triangle, and vertices from them by the Poisson equation of the whole mesh (Wang, thesis 2007,
//! chapters 2 and 3; Anguelov et al., "SCAPE", 2005, with a linear predictor). The equation's matrix was factored by the fit; a frame is a prediction a triangle and a
//! back-substitution. In f64: over thousands of vertices f32 would lose what the gradients gained.

use glam::{DMat3, DVec3, Mat3A, Vec3};

use super::{Cost, GradientPredictors, LinearGradients, Scratch};
use crate::character::check_indices;
use crate::file::{TensorReader, TensorWriter};
use crate::joint_rotations::{JointRanges, JointRotations};
use crate::posed::rigid_part;
use crate::{Character, ModelError, PosedSkeleton};

/// `A = Pᵀ L D Lᵀ P` over the vertices that are solved for; L has a unit diagonal.
#[derive(Debug, Clone, PartialEq)]
pub struct PoissonFactor {
    /// The vertex that each row stands for, in the order of elimination, (n). Vertices that are not here are held to
    /// linear blend skinning.
    pub vertices: Vec<u32>,
    /// Where each column of L starts in `rows`, (n + 1).
    pub starts: Vec<u32>,
    /// The rows of L's entries below the diagonal.
    pub rows: Vec<u32>,
    /// L's entries below the diagonal.
    pub values: Vec<f64>,
    /// D, (n).
    pub diagonal: Vec<f64>,
}

/// What predicts the triangles' gradients.
#[derive(Debug, Clone, PartialEq)]
pub enum TrianglePredictors {
    /// A rotation's logarithm and a stretch (rotational regression).
    Rotational(GradientPredictors),
    /// All nine entries (SCAPE).
    Linear(LinearGradients),
}

/// The full model.
#[derive(Debug, Clone, PartialEq)]
pub struct FullGradients {
    /// The joints' trained ranges and branch references.
    pub ranges: JointRanges,
    /// A predictor for every triangle, (F).
    pub predictors: TrianglePredictors,
    /// The factored Poisson equation.
    pub factor: PoissonFactor,
}

/// Memory that a frame of the full model reuses.
#[derive(Debug, Clone, Default)]
pub(crate) struct FullScratch {
    /// Rest positions in the root's frame, (V).
    rest: Vec<DVec3>,
    /// Whether a vertex is held, (V).
    held: Vec<bool>,
    /// Positions in the root's frame, (V).
    positions: Vec<DVec3>,
    /// The right side, (V).
    right: Vec<DVec3>,
    /// The unknowns in the order of elimination, (n).
    unknowns: Vec<DVec3>,
}

impl FullGradients {
    pub(crate) const ROTATIONAL: &'static str = "full-gradients";
    pub(crate) const LINEAR: &'static str = "linear-gradients";

    pub(crate) fn kind(&self) -> &'static str {
        match self.predictors {
            TrianglePredictors::Rotational(_) => Self::ROTATIONAL,
            TrianglePredictors::Linear(_) => Self::LINEAR,
        }
    }

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        let factor = &self.factor;
        self.ranges.check("ranges", character.bones.len())?;
        self.predictors.check("predictors", character)?;
        let n = factor.vertices.len();
        let ascending = factor.starts.first() == Some(&0) && factor.starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let entries = factor.starts.last().map_or(0, |&end| end as usize);
        let fits = self.predictors.len() == character.triangles.len()
            && factor.starts.len() == n + 1
            && ascending
            && entries == factor.rows.len()
            && entries == factor.values.len()
            && factor.diagonal.len() == n;
        if !fits {
            return Err(ModelError::Shape {
                name: "factor".into(),
                found: format!("{n} unknowns, {} predictors, {} entries", self.predictors.len(), factor.rows.len()),
                expected: format!("a predictor for each of {} triangles, {entries} entries", character.triangles.len()),
            });
        }
        check_indices("factor.vertices", factor.vertices.iter().map(|&v| v as usize), character.vertex_count())?;
        check_indices("factor.rows", factor.rows.iter().map(|&row| row as usize), n)?;
        let numbers = factor.values.iter().chain(&factor.diagonal);
        match numbers.enumerate().find(|(_, value)| !value.is_finite()) {
            Some((entry, &value)) => {
                Err(ModelError::NotFinite { name: "factor.values".into(), entry, value: value as f32 })
            }
            None => factor.check_pivots(),
        }
    }

    pub(crate) fn cost(&self, character: &Character) -> Cost {
        let predictors = self.predictors.cost();
        // Per triangle: three edges (15 each) and their sums (18). Per entry of L: two multiply-adds of three numbers.
        let (entries, n) = (self.factor.rows.len() as u64, self.factor.vertices.len() as u64);
        let triangles = character.triangles.len() as u64;
        Cost {
            flops: predictors.flops + 63 * triangles + 12 * entries + 6 * n,
            bytes: predictors.bytes + 12 * triangles + 12 * entries + 20 * n,
        }
    }

    pub(crate) fn scratch(&self, character: &Character) -> Scratch {
        let vertices = character.vertex_count();
        let to_root = rigid_part(character.bones[character.root()].rest).inverse();
        let mut held = vec![true; vertices];
        self.factor.vertices.iter().for_each(|&v| held[v as usize] = false);
        let inside = |p: &[f32; 3]| to_root.transform_point3(Vec3::from_array(*p)).as_dvec3();
        Scratch {
            joints: JointRotations::new(character),
            full: FullScratch {
                rest: character.rest_positions.iter().map(inside).collect(),
                held,
                positions: vec![DVec3::ZERO; vertices],
                right: vec![DVec3::ZERO; vertices],
                unknowns: vec![DVec3::ZERO; self.factor.vertices.len()],
            },
            ..Scratch::default()
        }
    }

    pub(crate) fn deform(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        scratch.joints.set(posed, &self.ranges.reference);
        let FullScratch { rest, held, positions, right, unknowns } = &mut scratch.full;
        for v in (0..held.len()).filter(|&v| held[v]) {
            let at = rest[v].as_vec3();
            let carried = |(b, w): (usize, f32)| f64::from(w) * posed.relative[b].transform_point3(at).as_dvec3();
            positions[v] = character.skin.vertex(v).map(carried).sum();
        }
        right.fill(DVec3::ZERO);
        for (k, triangle) in character.triangles.iter().enumerate() {
            let d = self.predictors.gradient(k, &scratch.joints);
            let d = DMat3::from_cols(d.x_axis.as_dvec3(), d.y_axis.as_dvec3(), d.z_axis.as_dvec3());
            for corner in 0..3 {
                let (i, j) = (triangle[corner] as usize, triangle[(corner + 1) % 3] as usize);
                let edge = d * (rest[i] - rest[j]);
                right[i] += edge;
                right[j] -= edge;
                if i != j {
                    right[i] += if held[j] { positions[j] } else { DVec3::ZERO };
                    right[j] += if held[i] { positions[i] } else { DVec3::ZERO };
                }
            }
        }
        for (unknown, &v) in unknowns.iter_mut().zip(&self.factor.vertices) {
            *unknown = right[v as usize];
        }
        self.factor.solve(unknowns);
        for (unknown, &v) in unknowns.iter().zip(&self.factor.vertices) {
            positions[v as usize] = *unknown;
        }
        for (out, position) in out.iter_mut().zip(positions) {
            *out = posed.frame.transform_point3(position.as_vec3()).to_array();
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        let factor = &self.factor;
        self.ranges.write("ranges", writer);
        self.predictors.write("predictors", writer);
        writer.u32("factor.vertices", &[factor.vertices.len()], &factor.vertices);
        writer.u32("factor.starts", &[factor.starts.len()], &factor.starts);
        writer.u32("factor.rows", &[factor.rows.len()], &factor.rows);
        writer.f64("factor.values", &[factor.values.len()], &factor.values);
        writer.f64("factor.diagonal", &[factor.diagonal.len()], &factor.diagonal);
    }

    /// Reads a model of `kind`, [`Self::ROTATIONAL`] or [`Self::LINEAR`].
    pub(crate) fn read(kind: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        Ok(Self {
            ranges: JointRanges::read("ranges", reader)?,
            predictors: if kind == Self::LINEAR {
                TrianglePredictors::Linear(LinearGradients::read("predictors", reader)?)
            } else {
                TrianglePredictors::Rotational(GradientPredictors::read("predictors", reader)?)
            },
            factor: PoissonFactor {
                vertices: reader.u32("factor.vertices", &[None])?,
                starts: reader.u32("factor.starts", &[None])?,
                rows: reader.u32("factor.rows", &[None])?,
                values: reader.f64("factor.values", &[None])?,
                diagonal: reader.f64("factor.diagonal", &[None])?,
            },
        })
    }
}

impl TrianglePredictors {
    /// The number of predictors, F.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Rotational(p) => p.len(),
            Self::Linear(p) => p.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The gradient of triangle `k` in the root's frame.
    fn gradient(&self, k: usize, joints: &JointRotations) -> Mat3A {
        match self {
            Self::Rotational(p) => p.gradient(k, joints),
            Self::Linear(p) => p.gradient(k, joints),
        }
    }

    fn check(&self, name: &str, character: &Character) -> Result<(), ModelError> {
        match self {
            Self::Rotational(p) => p.check(name, character),
            Self::Linear(p) => p.check(name, character),
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Rotational(p) => p.cost(),
            Self::Linear(p) => p.cost(),
        }
    }

    fn write(&self, name: &str, writer: &mut TensorWriter) {
        match self {
            Self::Rotational(p) => p.write(name, writer),
            Self::Linear(p) => p.write(name, writer),
        }
    }
}

impl PoissonFactor {
    /// Every frame divides by D. A factor of a positive definite matrix has all of it above nil, and no entry so far below
    /// the largest that a product of two roundings would swallow it.
    fn check_pivots(&self) -> Result<(), ModelError> {
        let largest = self.diagonal.iter().copied().fold(0.0, f64::max);
        let least = (largest * f64::EPSILON * f64::EPSILON).max(f64::MIN_POSITIVE);
        match self.diagonal.iter().position(|&pivot| pivot < least) {
            Some(entry) => {
                let value = self.diagonal[entry];
                Err(ModelError::TooSmall { name: "factor.diagonal".into(), entry, value, least })
            }
            None => Ok(()),
        }
    }

    /// Solves in place, in the order of elimination.
    fn solve(&self, x: &mut [DVec3]) {
        let column = |k: usize| self.starts[k] as usize..self.starts[k + 1] as usize;
        for k in 0..x.len() {
            let value = x[k];
            for index in column(k) {
                x[self.rows[index] as usize] -= self.values[index] * value;
            }
        }
        for k in (0..x.len()).rev() {
            let mut value = x[k] / self.diagonal[k];
            for index in column(k) {
                value -= self.values[index] * x[self.rows[index] as usize];
            }
            x[k] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_that_would_divide_by_nil_is_refused() {
        let factor = |diagonal: Vec<f64>| {
            let n = diagonal.len() as u32;
            PoissonFactor {
                vertices: (0..n).collect(),
                starts: vec![0; diagonal.len() + 1],
                rows: vec![],
                values: vec![],
                diagonal,
            }
        };
        assert!(factor(vec![]).check_pivots().is_ok());
        assert!(factor(vec![2.0, 1e-9]).check_pivots().is_ok());
        // The last is a whole number's bits taken for a number.
        for pivot in [0.0, -1.0, f64::from_bits(39)] {
            let error = factor(vec![2.0, pivot]).check_pivots().unwrap_err().to_string();
            assert!(error.contains("`factor.diagonal` entry 1"), "{error}");
        }
    }
}
