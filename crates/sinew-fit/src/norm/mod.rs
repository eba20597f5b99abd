//! Distances over all poses: the L2,2 norm of animation space (Merry, Marais and Gain 2006, §5 and appendix A).
//!
//!   ‖s‖²₂,₂ = E‖G s‖² = sᵀ P s,   P = E[Gᵀ G],   ⟨s, t⟩₂,₂ = sᵀ P t
//!
//! for the difference s of two animation-space points, so that its weights sum to zero. The expectation is over the poses
//! that the skeleton may take; [`MotionModel`] lists what may be assumed of them and [`ranges`] reads ranges of motion.
//!
//! P has a null space: bones turn about joints, and a point on the joint between parent and child is the same point in
//! both frames, so each joint with fixed translations has one direction whose length is zero in every pose. Formally this
//! is a norm on the quotient space; in practice distances on a surface are right, and only a solver for p itself
//! must not use it (§5.2). P is positive semidefinite.
//!
//! Where we differ from the paper: G has three rows. The fourth row of the paper's G contributes only the weight of s, which
//! is zero. P is kept for coordinates in the root's rest frame ([`Coordinates`]) rather than in the bones' own.

mod models;
pub mod ranges;

pub use models::{Group, MotionModel, MotionSamples};

use glam::{DAffine3, DMat4, DVec4};
use sinew_examples::Skeleton;

use crate::FitError;
use crate::methods::animation_space::Coordinates;

/// An animation-space vector: (bone, four numbers), bones ascending, in the root's rest frame.
pub type SparseVector = Vec<(usize, DVec4)>;

/// The L2,2 norm of a skeleton under a motion model.
#[derive(Debug, Clone, PartialEq)]
pub struct PoseNorm {
    bones: usize,
    /// `E[T_jᵀ T_k]`, (J, J) row by row, T the root-relative skinning transforms with three rows.
    blocks: Vec<DMat4>,
}

impl PoseNorm {
    /// The norm of `skeleton` under `model`.
    pub fn new(skeleton: &Skeleton, model: &MotionModel) -> Result<Self, FitError> {
        let local = models::expectation(skeleton, model)?;
        let bones = skeleton.bone_count();
        // From the bones' own frames to the root's rest frame: T_j = G_j Ĝ_j⁻¹, so the block is Ĝ_j⁻ᵀ E[G_jᵀ G_k] Ĝ_k⁻¹.
        let rest = models::rest_globals(skeleton);
        let inverse: Vec<DMat4> = rest.iter().map(|g| DMat4::from(g.inverse())).collect();
        let block = |index: usize| {
            let (j, k) = (index / bones, index % bones);
            inverse[j].transpose() * local[index] * inverse[k]
        };
        Ok(Self { bones, blocks: (0..bones * bones).map(block).collect() })
    }

    /// The plain average over `poses`, (N)(J) root-relative skinning transforms.
    #[must_use]
    pub fn average(poses: &[Vec<DAffine3>]) -> Self {
        let bones = poses.first().map_or(0, Vec::len);
        let mut blocks = vec![DMat4::ZERO; bones * bones];
        for pose in poses {
            for (index, block) in blocks.iter_mut().enumerate() {
                *block += models::product(pose[index / bones], pose[index % bones]) * (1.0 / poses.len() as f64);
            }
        }
        Self { bones, blocks }
    }

    /// `⟨s, t⟩₂,₂`. Costs the product of the two numbers of bones.
    #[must_use]
    pub fn inner(&self, s: &[(usize, DVec4)], t: &[(usize, DVec4)]) -> f64 {
        let with = |&(j, p): &(usize, DVec4)| -> f64 {
            t.iter().map(|&(k, q)| p.dot(self.blocks[j * self.bones + k] * q)).sum()
        };
        s.iter().map(with).sum()
    }

    /// `‖s‖²₂,₂`, never negative.
    #[must_use]
    pub fn squared(&self, s: &[(usize, DVec4)]) -> f64 {
        self.inner(s, s).max(0.0)
    }

    /// The root-mean-square distance between two vertices over the poses.
    #[must_use]
    pub fn distance(&self, coordinates: &Coordinates, u: usize, v: usize) -> f64 {
        self.squared(&difference(&coordinates.vertices[u], &coordinates.vertices[v])).sqrt()
    }

    /// P, (4J, 4J) row by row.
    #[must_use]
    pub fn matrix(&self) -> Vec<f64> {
        let n = 4 * self.bones;
        let entry = |r: usize, c: usize| self.blocks[(r / 4) * self.bones + c / 4].col(c % 4)[r % 4];
        (0..n * n).map(|index| entry(index / n, index % n)).collect()
    }
}

/// `b − a`, bones ascending.
#[must_use]
pub fn difference(a: &[(usize, DVec4)], b: &[(usize, DVec4)]) -> SparseVector {
    let mut out = SparseVector::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let (next_a, next_b) = (a.get(i).map_or(usize::MAX, |x| x.0), b.get(j).map_or(usize::MAX, |x| x.0));
        let bone = next_a.min(next_b);
        let mut value = DVec4::ZERO;
        if next_b == bone {
            value += b[j].1;
            j += 1;
        }
        if next_a == bone {
            value -= a[i].1;
            i += 1;
        }
        out.push((bone, value));
    }
    out
}

#[cfg(test)]
mod tests;
