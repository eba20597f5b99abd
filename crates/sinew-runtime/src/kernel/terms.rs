//! Polynomials of joint rotations in a kernel: [`Polynomials`] on what it has found of the joints already. The plain twin is
//! `Polynomials::set`.
//!
//! One number after the other: a frame has a few hundred terms, each a product, and gathering eight from their places would
//! take longer than multiplying them.

use super::lanes::Row;
use super::regress::LANES;
use crate::polynomials::{FARTHEST, Polynomials};

/// Polynomials laid out for their kernel.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// The places of the coordinates' joints, their axes and offsets, (C).
    coordinates: Vec<(u32, [f32; 4])>,
    /// An earlier term and a coordinate for each term but the first, (T − 1).
    factors: Vec<[u32; 2]>,
    /// What the regions see, in eights each, one after the other; what fills up is term 0.
    seen: Vec<u32>,
}

/// Memory of the kernel, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct TermsRoom {
    /// (C).
    coordinates: Vec<f32>,
    /// (T).
    terms: Vec<f32>,
    /// What each region sees, in eights each.
    pub seen: Vec<f32>,
}

impl Terms {
    /// Lays `polynomials` out, the regions in the given order; `joint` finds a joint among the joints' features.
    pub fn new(polynomials: &Polynomials, order: &[usize], joint: impl Fn(u16) -> u32) -> Self {
        let mut seen: Vec<u32> = Vec::new();
        for &r in order {
            seen.extend(polynomials.regions[r].iter().map(|&term| u32::from(term)));
            seen.resize(seen.len().next_multiple_of(LANES), 0);
        }
        let coordinate = |c: &crate::polynomials::Coordinate| {
            let [x, y, z] = c.axis;
            (joint(c.joint), [x, y, z, c.offset])
        };
        Self {
            coordinates: polynomials.coordinates.iter().map(coordinate).collect(),
            factors: polynomials.factors.iter().map(|factors| factors.map(u32::from)).collect(),
            seen,
        }
    }

    /// Room for it.
    pub fn room(&self) -> TermsRoom {
        TermsRoom {
            coordinates: vec![0.0; self.coordinates.len()],
            terms: vec![1.0; self.factors.len() + 1],
            seen: vec![0.0; self.seen.len()],
        }
    }

    /// Fills in what the regions see; `features` begin with each joint's θ̃.
    #[inline(always)]
    pub fn see(&self, features: &[(Row, f32)], room: &mut TermsRoom) {
        for (x, (place, [a, b, c, offset])) in room.coordinates.iter_mut().zip(&self.coordinates) {
            let [t, u, v, ..] = features[*place as usize].0.0;
            *x = (a * t + (b * u + (c * v + offset))).clamp(-FARTHEST, FARTHEST);
        }
        for (k, &[term, coordinate]) in self.factors.iter().enumerate() {
            room.terms[k + 1] = room.terms[term as usize] * room.coordinates[coordinate as usize];
        }
        for (seen, &term) in room.seen.iter_mut().zip(&self.seen) {
            *seen = room.terms[term as usize];
        }
    }
}
