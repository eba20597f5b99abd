//! The terms that may drive a region: monomials in the coordinates of the joints near it.
//!
//! A joint's coordinates are the principal directions of its θ̃ over the training poses, from −1 to 1 over them: a hinge has
//! one. Of one joint's coordinates monomials up to the fourth degree are tried; of two joints' products up to the
//! third. That is as far as a smooth function over half a turn needs: what is left of a cosine is less than a thousandth.

use std::collections::BTreeMap;

use glam::{DMat3, DVec3};
use nalgebra::{DMatrix, Matrix3};
use sinew_runtime::polynomials::{Coordinate, FARTHEST, Polynomials};

use crate::exercised::SMALLEST_ANGLE;
use crate::geometry::JointRotations;

/// The highest degree in the coordinates of one joint.
const DEGREE: usize = 4;

/// Coordinates, ascending; one that occurs twice is squared. None of them is the constant one.
pub type Monomial = Vec<u16>;

/// A direction in the rotation of a joint: `a · θ̃_b + o`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Direction {
    /// The bone whose joint it is.
    pub joint: usize,
    axis: DVec3,
    offset: f64,
}

impl Direction {
    /// The coordinate in a pose with these θ̃, (J).
    #[must_use]
    pub fn of(&self, logs: &[DVec3]) -> f64 {
        let farthest = f64::from(FARTHEST);
        (self.axis.dot(logs[self.joint]) + self.offset).clamp(-farthest, farthest)
    }
}

/// The directions in which joints turn over the training poses and the rest pose, joint by joint.
#[must_use]
pub fn directions(joints: &JointRotations, bones: usize) -> Vec<Direction> {
    (0..bones).flat_map(|b| of_joint(joints, b)).collect()
}

fn of_joint(joints: &JointRotations, b: usize) -> Vec<Direction> {
    let logs: Vec<DVec3> = joints.logs.iter().map(|pose| pose[b]).chain([DVec3::ZERO]).collect();
    let mean = logs.iter().sum::<DVec3>() / logs.len() as f64;
    let spread = logs.iter().fold(DMat3::ZERO, |sum, &log| {
        let d = log - mean;
        sum + DMat3::from_cols(d * d.x, d * d.y, d * d.z)
    });
    let eigen = Matrix3::from_column_slice(&spread.to_cols_array()).symmetric_eigen();
    let mut order = [0, 1, 2];
    order.sort_by(|&i, &j| eigen.eigenvalues[j].total_cmp(&eigen.eigenvalues[i]).then(i.cmp(&j)));
    let direction = |i: usize| {
        let v = eigen.eigenvectors.column(i);
        let v = DVec3::new(v[0], v[1], v[2]);
        // Of a direction and its opposite always the same one.
        let v = if v.to_array().into_iter().find(|x| x.abs() > 1e-6).is_some_and(|x| x < 0.0) { -v } else { v };
        let along = || logs.iter().map(|&log| v.dot(log));
        let (low, high) = (along().fold(f64::INFINITY, f64::min), along().fold(f64::NEG_INFINITY, f64::max));
        (high - low > SMALLEST_ANGLE).then(|| {
            let half = (high - low) / 2.0;
            Direction { joint: b, axis: v / half, offset: -(low + high) / 2.0 / half }
        })
    };
    order.into_iter().filter_map(direction).collect()
}

/// The monomials that the joints `near` a region allow, the constant first.
#[must_use]
pub fn candidates(directions: &[Direction], near: &[usize]) -> Vec<Monomial> {
    let own = |b: usize| (0..directions.len()).filter(move |&c| directions[c].joint == b).map(|c| c as u16);
    let mut all: Vec<Monomial> = vec![Vec::new()];
    for &b in near {
        let coordinates: Vec<u16> = own(b).collect();
        let mut last: Vec<Monomial> = vec![Vec::new()];
        for _ in 0..DEGREE {
            let longer = |m: &Monomial| {
                let from = m.last().copied().unwrap_or(0);
                coordinates.iter().filter(move |&&c| c >= from).map(|&c| [&m[..], &[c]].concat()).collect::<Vec<_>>()
            };
            last = last.iter().flat_map(longer).collect();
            all.extend(last.iter().cloned());
        }
    }
    for (k, &a) in near.iter().enumerate() {
        for &b in &near[..k] {
            for (x, y) in own(a.min(b)).flat_map(|x| own(a.max(b)).map(move |y| (x, y))) {
                all.extend([vec![x, y], vec![x, x, y], vec![x, y, y]]);
            }
        }
    }
    all
}

/// The values of monomials in some poses, (poses, monomials); `coordinates` (poses)(C).
#[must_use]
pub fn values(monomials: &[Monomial], coordinates: &[Vec<f64>]) -> DMatrix<f64> {
    let product = |e: usize, m: &Monomial| m.iter().map(|&c| coordinates[e][usize::from(c)]).product();
    DMatrix::from_fn(coordinates.len(), monomials.len(), |e, k| product(e, &monomials[k]))
}

/// The terms of all regions as the run time computes them.
#[must_use]
pub fn polynomials(directions: &[Direction], regions: &[Vec<Monomial>]) -> Polynomials {
    let used: std::collections::BTreeSet<u16> = regions.iter().flatten().flatten().copied().collect();
    let place: BTreeMap<u16, u16> = used.iter().enumerate().map(|(k, &c)| (c, k as u16)).collect();
    let coordinate = |&c: &u16| {
        let Direction { joint, axis, offset } = directions[usize::from(c)];
        Coordinate { joint: joint as u16, axis: axis.as_vec3().to_array(), offset: offset as f32 }
    };
    let mut found = Polynomials { coordinates: used.iter().map(coordinate).collect(), ..Polynomials::default() };
    let mut terms: BTreeMap<Monomial, u16> = BTreeMap::from([(Vec::new(), 0)]);
    for region in regions {
        let seen = region.iter().map(|monomial| {
            // Every beginning of it is a term too.
            for end in 1..=monomial.len() {
                if !terms.contains_key(&monomial[..end]) {
                    found.factors.push([terms[&monomial[..end - 1]], place[&monomial[end - 1]]]);
                    terms.insert(monomial[..end].to_vec(), found.factors.len() as u16);
                }
            }
            terms[monomial]
        });
        let seen = seen.collect();
        found.regions.push(seen);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Training;
    use sinew_examples::datasets;

    #[test]
    fn the_run_times_terms_are_the_products_of_their_coordinates() {
        let examples = datasets::by_name("shoulder").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let joints = JointRotations::new(&training);
        let directions = directions(&joints, training.bone_count());
        let near: Vec<usize> = (0..training.bone_count()).collect();
        let all = candidates(&directions, &near);
        // Every monomial once, the constant first.
        assert!(all[0].is_empty() && all.iter().collect::<std::collections::BTreeSet<_>>().len() == all.len());
        let found = polynomials(&directions, std::slice::from_ref(&all));
        let coordinates: Vec<f64> = directions.iter().map(|d| d.of(&joints.logs[3])).collect();
        let mut terms = vec![1.0];
        for &[earlier, c] in &found.factors {
            terms.push(terms[usize::from(earlier)] * coordinates[usize::from(c)]);
        }
        let expected = values(&all, &[coordinates]);
        for (k, &term) in found.regions[0].iter().enumerate() {
            // 1e-12: the same products in another order.
            assert!((terms[usize::from(term)] - expected[(0, k)]).abs() < 1e-12, "{:?}", all[k]);
        }
    }

    #[test]
    fn coordinates_span_the_trained_poses() {
        let examples = datasets::by_name("arm").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let joints = JointRotations::new(&training);
        for direction in directions(&joints, training.bone_count()) {
            let values: Vec<f64> = joints
                .logs
                .iter()
                .map(|logs| direction.of(logs))
                .chain([direction.of(&vec![DVec3::ZERO; 10])])
                .collect();
            let (low, high) = values.iter().fold((0.0_f64, 0.0_f64), |(low, high), &x| (low.min(x), high.max(x)));
            // 1e-9: rounding of a product and a sum.
            assert!((low + 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9, "{low} to {high}");
        }
    }
}
