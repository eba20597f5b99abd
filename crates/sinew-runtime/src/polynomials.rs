//! Polynomials of joint rotations: what the proxy bones of a distilled regression follow.
//!
//! A coordinate is a direction in the rotation of one joint, `x_c = a_c · θ̃_b + o_c`, see
//! [`joint_rotations`](crate::joint_rotations), held between −[`FARTHEST`] and [`FARTHEST`]: about from −1 to 1 over the poses
//! of a fit, and beyond them no term grows. The first term is one; every other is an earlier term times a coordinate
//! (x, x², x y, …), which costs one multiplication. A region of the skin sees a few of the terms.

use glam::Vec3A;

use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};
use crate::joint_rotations::log_near;
use crate::pose_space::short;
use crate::{Character, ModelError, PosedSkeleton};

/// How far coordinates go.
pub const FARTHEST: f32 = 1.5;

/// Terms over the joints' rotations, and which of them each region sees.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Polynomials {
    /// What the terms are made of, (C).
    pub coordinates: Vec<Coordinate>,
    /// Term k + 1 as (an earlier term, a coordinate), (T − 1); term 0 is one.
    pub factors: Vec<[u16; 2]>,
    /// The terms that each region sees, (R).
    pub regions: Vec<Vec<u16>>,
}

/// A direction in the rotation of a joint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coordinate {
    /// The bone whose joint it is.
    pub joint: u16,
    /// a, one over radians.
    pub axis: [f32; 3],
    /// o.
    pub offset: f32,
}

/// Memory reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct PolynomialScratch {
    /// (C).
    coordinates: Vec<f32>,
    /// (T).
    terms: Vec<f32>,
    /// One region's terms.
    seen: Vec<f32>,
}

impl Polynomials {
    /// What the names of its tensors begin with.
    pub(crate) const NAME: &'static str = "polynomials";

    /// The number of terms, T.
    #[must_use]
    pub fn term_count(&self) -> usize {
        self.factors.len() + 1
    }

    /// The bones whose joints the terms of region `r` are made of, ascending.
    #[must_use]
    pub fn region_joints(&self, r: usize) -> Vec<u16> {
        let mut joints = Vec::new();
        for &seen in &self.regions[r] {
            let mut term = usize::from(seen);
            while let Some(&[earlier, coordinate]) = term.checked_sub(1).map(|k| &self.factors[k]) {
                joints.push(self.coordinates[usize::from(coordinate)].joint);
                term = usize::from(earlier);
            }
        }
        joints.sort_unstable();
        joints.dedup();
        joints
    }

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        let joints = self.coordinates.iter().map(|c| usize::from(c.joint));
        check_indices("polynomials.joints", joints, character.bones.len())?;
        for Coordinate { axis: [x, y, z], offset, .. } in &self.coordinates {
            check_finite("polynomials.axes", &[*x, *y, *z, *offset])?;
        }
        for (k, &[term, coordinate]) in self.factors.iter().enumerate() {
            check_indices("polynomials.factors", [usize::from(term)], k + 1)?;
            check_indices("polynomials.factors", [usize::from(coordinate)], self.coordinates.len())?;
        }
        let seen = self.regions.iter().flatten().map(|&term| usize::from(term));
        check_indices("polynomials.region_terms", seen, self.term_count())
    }

    pub(crate) fn flops(&self) -> u64 {
        // Three multiply-adds and two comparisons a coordinate; a joint's logarithm is counted with the regression.
        8 * self.coordinates.len() as u64 + self.factors.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        let seen: usize = self.regions.iter().map(Vec::len).sum();
        (18 * self.coordinates.len() + 4 * self.factors.len() + 2 * seen) as u64
    }

    pub(crate) fn scratch(&self) -> PolynomialScratch {
        PolynomialScratch {
            coordinates: vec![0.0; self.coordinates.len()],
            terms: vec![1.0; self.term_count()],
            seen: vec![0.0; self.regions.iter().map(Vec::len).max().unwrap_or(0)],
        }
    }

    /// Takes a pose; `reference` holds the branch reference of each joint, (J).
    pub(crate) fn set(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        reference: &[[f32; 3]],
        scratch: &mut PolynomialScratch,
    ) {
        for (x, &Coordinate { joint, axis, offset }) in scratch.coordinates.iter_mut().zip(&self.coordinates) {
            let b = usize::from(joint);
            let theta = character.bones[b].parent.map_or(Vec3A::ZERO, |parent| {
                let turn = posed.seen_rotation(parent).transpose() * posed.seen_rotation(b);
                log_near(turn, Vec3A::from_array(reference[b]))
            });
            *x = (Vec3A::from_array(axis).dot(theta) + offset).clamp(-FARTHEST, FARTHEST);
        }
        for (k, &[term, coordinate]) in self.factors.iter().enumerate() {
            scratch.terms[k + 1] = scratch.terms[usize::from(term)] * scratch.coordinates[usize::from(coordinate)];
        }
    }

    /// The terms that region `r` sees in the pose that was [`set`](Self::set).
    pub(crate) fn seen<'scratch>(&self, r: usize, scratch: &'scratch mut PolynomialScratch) -> &'scratch [f32] {
        let region = &self.regions[r];
        for (seen, &term) in scratch.seen.iter_mut().zip(region) {
            *seen = scratch.terms[usize::from(term)];
        }
        &scratch.seen[..region.len()]
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        let joints: Vec<u16> = self.coordinates.iter().map(|c| c.joint).collect();
        let axes: Vec<f32> =
            self.coordinates.iter().flat_map(|c| [c.axis[0], c.axis[1], c.axis[2], c.offset]).collect();
        let counts: Vec<u32> = self.regions.iter().map(|terms| terms.len() as u32).collect();
        let seen = self.regions.concat();
        writer.u16("polynomials.joints", &[joints.len()], &joints);
        writer.f32("polynomials.axes", &[joints.len(), 4], &axes);
        writer.u16("polynomials.factors", &[self.factors.len(), 2], self.factors.as_flattened());
        writer.u32("polynomials.region_term_counts", &[counts.len()], &counts);
        writer.u16("polynomials.region_terms", &[seen.len()], &seen);
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        let joints = reader.u16("polynomials.joints", &[None])?;
        let axes = reader.f32("polynomials.axes", &[Some(joints.len()), Some(4)])?;
        let factors = reader.u16("polynomials.factors", &[None, Some(2)])?;
        let counts = reader.u32("polynomials.region_term_counts", &[None])?;
        let seen = reader.u16("polynomials.region_terms", &[None])?;
        let mut seen = &seen[..];
        let mut regions = Vec::with_capacity(counts.len());
        for &count in &counts {
            let (own, rest) = seen.split_at_checked(count as usize).ok_or_else(|| short("polynomials.region_terms"))?;
            regions.push(own.to_vec());
            seen = rest;
        }
        let coordinates = joints.iter().zip(axes.as_chunks::<4>().0);
        let coordinate =
            |(&joint, &[x, y, z, offset]): (&u16, &[f32; 4])| Coordinate { joint, axis: [x, y, z], offset };
        Ok(Self {
            coordinates: coordinates.map(coordinate).collect(),
            factors: factors.as_chunks::<2>().0.to_vec(),
            regions,
        })
    }
}
