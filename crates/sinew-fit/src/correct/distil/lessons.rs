//! What a student learns from, and how: terms for every region, coefficients for every term.
//!
//! With the pulls `Φᵀ r` of all poses (see [`proxies`](crate::correct::proxies)) vertices need not be looked at again:
//! regions learn the changes that draw the residual, each by itself, then in sweeps what they leave together. A sweep goes
//! as far along its changes δ as draws the poses best, `Σ a δᵀ Φᵀr / Σ a δᵀ ΦᵀΦ δ`.

use glam::{DMat3, DVec3};
use nalgebra::DMatrix;
use rayon::prelude::*;
use sinew_examples::nearest_rotation;
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion};
use sinew_runtime::{Deformer, Model};

use super::pursuit::{self, Step};
use super::terms::{self, Direction, Monomial};
use crate::correct::corrected::Corrected;
use crate::correct::poses::PoseTable;
use crate::correct::proxies::{Proxies, Spreading};
use crate::correct::regions;
use crate::geometry::JointRotations;
use crate::{Training, predict};

/// A ridge on the coefficients of terms, which are about one: little, for terms that nearly say the same.
const RIDGE: f64 = 1e-4;

/// Terms a region at most: on a body more of them follow what chance makes of poses between the examples.
const MOST_TERMS: usize = 16;

/// Steps of conjugate gradients at most, and the part of the first gradient (squared) after which no more are taken.
const STEPS: usize = 40;
const SETTLED: f64 = 1e-5;

/// Poses, and what terms are made of in them.
pub struct Lessons<'a> {
    seen: &'a Training,
    directions: Vec<Direction>,
    /// Coordinates in the poses that are seen and the rest pose, (N + 1)(C).
    coordinates: Vec<Vec<f64>>,
    /// The bones' rotations in them, (N + 1)(J).
    turns: Vec<Vec<DMat3>>,
    /// How much the poses count, (N + 1).
    weights: Vec<f64>,
    /// What a term must gain for every operation that it costs, square metres.
    least_gain: f64,
    /// The joints that move, with those that may drive what each bone carries, (J).
    near: Vec<Vec<usize>>,
}

/// The terms of each region, with its bone.
pub struct Chosen {
    regions: Vec<(usize, Vec<Monomial>)>,
}

impl Chosen {
    /// How many terms there are.
    pub fn count(&self) -> usize {
        self.regions.iter().map(|(_, terms)| terms.len()).sum()
    }
}

/// A region with its terms.
struct Part<'a> {
    bone: usize,
    members: Vec<usize>,
    monomials: &'a Vec<Monomial>,
}

/// What the residuals of a model ask of its proxies.
struct Asked {
    proxies: Proxies,
    spreading: Spreading,
    /// Of all poses and the rest pose, (N + 1)(4P).
    pulls: Vec<Vec<DVec3>>,
}

impl<'a> Lessons<'a> {
    /// From the poses that are `seen`, of which `training` are the real ones.
    pub fn new(training: &Training, seen: &'a Training, joints: &JointRotations, least_gain: f64) -> Self {
        let directions = terms::directions(joints, training.bone_count());
        let logs = seen.transforms.iter().map(|pose| joints.of_pose(&training.skeleton, pose).1);
        let rest = vec![DVec3::ZERO; training.bone_count()];
        let of = |logs: Vec<DVec3>| directions.iter().map(|d| d.of(&logs)).collect();
        let turns = seen.transforms.iter().map(|pose| pose.iter().map(|t| nearest_rotation(t.matrix3)).collect());
        let table = PoseTable::new(training, true);
        let near = |b: usize| {
            let joints = regions::candidates(&training.skeleton, &table, b).into_iter().map(|c| table.joints[c]);
            let mut joints: Vec<usize> = joints.collect();
            joints.sort_unstable();
            joints
        };
        Self {
            coordinates: logs.chain([rest]).map(of).collect(),
            turns: turns.chain([vec![DMat3::IDENTITY; training.bone_count()]]).collect(),
            weights: seen.pose_weights.iter().copied().chain([1.0]).collect(),
            near: (0..training.bone_count()).map(near).collect(),
            directions,
            seen,
            least_gain,
        }
    }

    /// The terms that earn their place, and the student that they make of `model`.
    pub fn choose(&self, model: Model) -> (Chosen, Corrected) {
        let asked = self.asked(&model);
        let changes = self.changes(&asked);
        let of_region = |(bone, members): &(usize, Vec<u32>)| {
            let members: Vec<usize> = members.iter().map(|&p| p as usize).collect();
            let candidates = terms::candidates(&self.directions, &self.near[*bone]);
            let steps = pursuit::pursue(self.values(&candidates), &self.targets(&changes, &members), MOST_TERMS);
            // Three multiply-adds of a register for two proxies, and what becomes of the term itself.
            let cost = 3.0 * members.len().div_ceil(2) as f64 + 4.0;
            let worth = |step: &Step| step.gain >= self.least_gain * cost;
            // A term that gains little may be what makes the next one gain much.
            let count = steps.iter().rposition(worth).map_or(0, |last| last + 1);
            (*bone, steps[..count].iter().map(|step| candidates[step.term].clone()).collect())
        };
        let parts = regions::by_bone(&asked.proxies.bones, self.seen.bone_count());
        let chosen = Chosen { regions: parts.par_iter().map(of_region).collect() };
        let student = self.fitted(model, asked, &chosen);
        (chosen, student)
    }

    fn asked(&self, model: &Model) -> Asked {
        let Deformer::RotationalRegression(d) = &model.deformer else { unreachable!("proxies follow their bones") };
        let mut proxies = Proxies::new(self.seen, model, d);
        proxies.bones = (0..d.proxy_count()).map(|p| d.c2.row(p).next().map_or(0, |(b, _)| b)).collect();
        let mut predicted = predict::training_poses(model, self.seen);
        predicted.push(predict::rest_pose(model, self.seen));
        let truth = self.seen.vertices.par_iter().chain([&self.seen.rest]);
        let pulls = truth.zip(&predicted).map(|(truth, predicted)| proxies.pulls(truth, predicted));
        let pulls = pulls.collect();
        Asked { spreading: proxies.spreading(), proxies, pulls }
    }

    /// The measured changes of every pose, (N + 1)(P).
    fn changes(&self, Asked { proxies, spreading, pulls }: &Asked) -> Vec<Vec<[f64; 12]>> {
        let pose = |(pulls, turns): (&Vec<DVec3>, &Vec<DMat3>)| proxies.measured(&spreading.changes(pulls), turns);
        pulls.par_iter().zip(&self.turns).map(pose).collect()
    }

    /// A region's changes, a pose a row, each as much longer as it counts.
    fn targets(&self, changes: &[Vec<[f64; 12]>], members: &[usize]) -> DMatrix<f64> {
        DMatrix::from_fn(changes.len(), 12 * members.len(), |e, k| {
            self.weights[e].sqrt() * changes[e][members[k / 12]][k % 12]
        })
    }

    /// Monomials in the same way.
    fn values(&self, monomials: &[Monomial]) -> DMatrix<f64> {
        let mut values = terms::values(monomials, &self.coordinates);
        for (mut row, weight) in values.row_iter_mut().zip(&self.weights) {
            row *= weight.sqrt();
        }
        values
    }

    fn fitted(&self, model: Model, asked: Asked, chosen: &Chosen) -> Corrected {
        let parts: Vec<Part> = regions::by_bone(&asked.proxies.bones, self.seen.bone_count())
            .into_iter()
            .filter_map(|(bone, members)| {
                // A bone that carried no proxy when terms were chosen has none.
                let (_, monomials) = chosen.regions.iter().find(|(b, terms)| *b == bone && !terms.is_empty())?;
                let members: Vec<usize> = members.into_iter().map(|p| p as usize).collect();
                Some(Part { bone, members, monomials })
            })
            .collect();
        let solutions = self.solved(&parts, asked.proxies.clone(), &asked.spreading, asked.pulls);
        Corrected { correction: self.correction(&asked.proxies, &parts, &solutions), model }
    }

    /// The coefficients of each region's terms, measured, (R): (terms, 12 members). Conjugate gradients on the squared error of the
    /// vertices in all poses, preconditioned as if every proxy drew its vertices alone.
    fn solved(
        &self,
        parts: &[Part],
        proxies: Proxies,
        spreading: &Spreading,
        mut pulls: Vec<Vec<DVec3>>,
    ) -> Vec<DMatrix<f64>> {
        let ridge = RIDGE * self.weights.iter().sum::<f64>();
        let values: Vec<DMatrix<f64>> =
            parts.iter().map(|part| terms::values(part.monomials, &self.coordinates)).collect();
        let factor = |f: &DMatrix<f64>| {
            let mut weighted = f.clone();
            weighted.row_iter_mut().zip(&self.weights).for_each(|(mut row, weight)| row *= *weight);
            let mut gram = f.tr_mul(&weighted);
            (0..gram.nrows()).for_each(|k| gram[(k, k)] += ridge);
            gram.cholesky()
        };
        let factors: Vec<_> = values.iter().map(factor).collect();
        let empty = |part: &Part| DMatrix::<f64>::zeros(part.monomials.len(), 12 * part.members.len());
        let mut solutions: Vec<DMatrix<f64>> = parts.iter().map(empty).collect();
        let (mut direction, mut last, mut first) = (solutions.clone(), 0.0, 0.0);
        let dot = |a: &[DMatrix<f64>], b: &[DMatrix<f64>]| a.iter().zip(b).map(|(a, b)| a.dot(b)).sum::<f64>();
        for _ in 0..STEPS {
            let mut gradient = self.asked_of(&proxies, parts, &values, &pulls);
            gradient.iter_mut().zip(&solutions).for_each(|(g, solution)| *g -= solution * ridge);
            let along = |(g, factor): (&DMatrix<f64>, &Option<_>)| -> DMatrix<f64> {
                let factor: &Option<nalgebra::Cholesky<f64, nalgebra::Dyn>> = factor;
                factor.as_ref().map_or_else(|| g * 0.0, |factor| factor.solve(g))
            };
            let steepest: Vec<DMatrix<f64>> = gradient.par_iter().zip(&factors).map(along).collect();
            let length = dot(&gradient, &steepest);
            first = f64::max(first, length);
            if !(length > SETTLED * first) {
                break;
            }
            let turned = if last > 0.0 { length / last } else { 0.0 };
            last = length;
            direction.iter_mut().zip(&steepest).for_each(|(d, z)| *d = z + &*d * turned);
            let moved = self.moved(&proxies, parts, &values, &direction);
            let drawn: Vec<Vec<DVec3>> = moved.par_iter().map(|moved| spreading.drawn(moved)).collect();
            let pose = |(a, b): (&Vec<DVec3>, &Vec<DVec3>)| a.iter().zip(b).map(|(a, b)| a.dot(*b)).sum::<f64>();
            let curved: f64 =
                self.weights.iter().zip(moved.iter().zip(&drawn).map(pose)).map(|(weight, sum)| weight * sum).sum();
            let step = length / (curved + ridge * dot(&direction, &direction));
            solutions.iter_mut().zip(&direction).for_each(|(solution, d)| *solution += d * step);
            pulls.par_iter_mut().zip(&drawn).for_each(|(pulls, drawn)| {
                pulls.iter_mut().zip(drawn).for_each(|(pull, drawn)| *pull -= step * *drawn);
            });
        }
        solutions
    }

    /// What pulls on the proxies in all poses ask of the measured coefficients: the adjoint of [`Self::moved`].
    fn asked_of(
        &self,
        proxies: &Proxies,
        parts: &[Part],
        values: &[DMatrix<f64>],
        pulls: &[Vec<DVec3>],
    ) -> Vec<DMatrix<f64>> {
        let of_part = |(part, values): (&Part, &DMatrix<f64>)| {
            let mut pulled = DMatrix::zeros(12 * part.members.len(), pulls.len());
            for (e, pulls) in pulls.iter().enumerate() {
                let turn = self.turns[e][part.bone].transpose() * self.weights[e];
                for (i, &p) in part.members.iter().enumerate() {
                    let own = proxies.measured_pull(p, &pulls[4 * p..4 * p + 4], turn);
                    pulled.view_mut((12 * i, e), (12, 1)).copy_from_slice(&own);
                }
            }
            (pulled * values).transpose()
        };
        parts.par_iter().zip(values).map(of_part).collect()
    }

    /// By how much terms with such coefficients change the proxies in every pose, about their centres, (N + 1)(4P).
    fn moved(
        &self,
        proxies: &Proxies,
        parts: &[Part],
        values: &[DMatrix<f64>],
        solutions: &[DMatrix<f64>],
    ) -> Vec<Vec<DVec3>> {
        let in_bone = |((part, values), solution): ((&Part, &DMatrix<f64>), &DMatrix<f64>)| {
            let mut centred = solution.clone();
            for (k, i) in (0..part.monomials.len()).flat_map(|k| (0..part.members.len()).map(move |i| (k, i))) {
                let own: Vec<f64> = (0..12).map(|c| solution[(k, 12 * i + c)]).collect();
                let about = proxies.about_centre(part.members[i], &own);
                (0..12).for_each(|c| centred[(k, 12 * i + c)] = about[c]);
            }
            // A pose a column.
            (values * centred).transpose()
        };
        let drawn: Vec<DMatrix<f64>> = parts.par_iter().zip(values).zip(solutions).map(in_bone).collect();
        let pose = |e: usize| {
            let mut moved = vec![DVec3::ZERO; 4 * proxies.bones.len()];
            for (part, drawn) in parts.iter().zip(&drawn) {
                let (turn, column) = (self.turns[e][part.bone], drawn.column(e));
                let columns = column.as_slice().chunks_exact(3).map(|c| turn * DVec3::from_slice(c));
                for (i, column) in columns.enumerate() {
                    moved[4 * part.members[i / 4] + i % 4] = column;
                }
            }
            moved
        };
        (0..self.coordinates.len()).into_par_iter().map(pose).collect()
    }

    fn correction(&self, proxies: &Proxies, parts: &[Part], solutions: &[DMatrix<f64>]) -> ProxyCorrection {
        let region = |(part, solution): (&Part, &DMatrix<f64>)| {
            let component = |k: usize, i: usize| {
                let values: Vec<f64> = (0..12).map(|c| solution[(k, 12 * i + c)]).collect();
                proxies.unmeasured(part.members[i], &values).map(|x| x as f32)
            };
            let (count, members) = (part.monomials.len(), part.members.len());
            ProxyRegion {
                bone: part.bone,
                proxies: part.members.iter().map(|&p| p as u32).collect(),
                mixing: (0..count * count).map(|k| if k / count == k % count { 1.0 } else { 0.0 }).collect(),
                components: (0..count * members).map(|k| component(k / members, k % members)).collect(),
            }
        };
        let monomials: Vec<Vec<Monomial>> = parts.iter().map(|part| part.monomials.clone()).collect();
        ProxyCorrection {
            proxy_count: proxies.bones.len(),
            drivers: Drivers::Polynomials(terms::polynomials(&self.directions, &monomials)),
            regions: parts.iter().zip(solutions).map(region).collect(),
        }
    }
}
