//! A corrected regression distilled into one that costs a fraction of it a frame (ours; the idea is that of Bucilă, Caruana
//! and Niculescu-Mizil, "Model compression", 2006).
//!
//! Rotational regression with its correction is accurate and, on a small mesh, costs more than the skinning itself:
//! predictors, c₁ and c₂, kernels over the examples. All that must be so general because it learns from a few examples.
//! Once it has learned, it can draw as many poses as one likes ([`imagined`]), and from many poses something simpler
//! can be learned without guessing. In the student proxy bones follow the plain blend of their bones, and
//!
//!   `T_p(q) = Σ_b ω_pb T_b + Q_b(p) Σ_k m_k(θ̃) B_kp`,
//!
//! m_k being monomials of the rotations of joints near by ([`terms`]), a few a region, those that earn most ([`pursuit`]).
//! B follows from the changes that draw all seen poses best, as a correction's do (see [`proxies`](super::proxies)), and
//! the drawing weights follow in turns, as in [`redraw`].

pub mod imagined;
pub mod pursuit;
pub mod terms;

use glam::{DAffine3, DVec3};
use nalgebra::DMatrix;
use rayon::prelude::*;
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion};
use sinew_runtime::deform::{BlockRows, GradientPredictors, RotationalRegression};
use sinew_runtime::{Correction, Deformer, Model};

use super::farther::Farther;
use super::poses::PoseTable;
use super::proxies::Proxies;
use super::redraw;
use super::{CorrectionParams, Place, regions};
use crate::cross_validation::squared_error;
use crate::geometry::JointRotations;
use crate::geometry::topology::Topology;
use crate::methods::rr::describe::rigid_error;
use crate::methods::rr::{thin, weights};
use crate::methods::ssd::SparseWeights;
use crate::{FitError, FitReport, Training, predict, to_model};
use pursuit::Step;
use terms::{Direction, Monomial};

/// Shares of bones that a proxy does not follow: what they move is in the changes.
const LEAST_SHARE: f64 = 0.05;

/// A ridge on the coefficients of terms, which are about one: next to nothing, for terms that nearly say the same.
const RIDGE: f64 = 1e-6;

/// Terms a region at most: on a body more of them follow what chance makes of poses between the examples.
const MOST_TERMS: usize = 16;

/// What a term must gain for every operation that it costs, of what the correction gains on the training poses.
const LEAST_GAIN: f64 = 1e-4;

/// What thinner drawing weights may lose of what the correction gains.
const THINNED_AWAY: f64 = 0.15;

/// What a student may lose of it in all, on training and imagined poses: more would leave little of the correction.
const MAY_LOSE: f64 = 0.25;

/// Sweeps in which the coefficients of all regions follow what they leave together.
const SWEEPS: usize = 2;

/// Turns of drawing weights and terms; the error has settled by then.
const TURNS: usize = 2;

/// Steps in which entries leave the drawing weights, the student learning anew after each.
const STAGES: usize = 3;

/// Imagined poses that drawing weights see beside the training poses.
const DRAWN: usize = 60;

/// How much poses beyond the trained ranges count for the drawing weights beside those within. There a student's vertices stick
/// out farther than its teacher's all the same: twice as much mends it on an arm and spoils a body.
const FARTHER: f64 = 0.1;

/// Bones at most: terms and coordinates are counted in 16 bits.
const MOST_BONES: usize = 1000;

/// When a corrected regression is distilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distil {
    /// Never.
    #[default]
    Off,
    /// If the student costs less a frame and loses little of what the correction gains.
    Auto,
    /// Always.
    On,
}

/// What is known of the teacher on the training poses: squared errors without its correction and with it.
#[derive(Debug, Clone, Copy)]
pub struct Gained {
    /// Without.
    pub before: f64,
    /// With.
    pub after: f64,
}

/// Distils `teacher`, a corrected regression; none if that is not worth it.
pub fn distil(
    training: &Training,
    teacher: &Model,
    gained: Gained,
    wanted: Distil,
    report: &mut FitReport,
) -> Result<Option<Model>, FitError> {
    let Deformer::RotationalRegression(deformer) = &teacher.deformer else { return Ok(None) };
    if training.bone_count() > MOST_BONES {
        report.found("distilled", format!("no: more than {MOST_BONES} bones"));
        return Ok(None);
    }
    let joints = JointRotations::new(training);
    let seen = imagined::beside(training, &joints, teacher);
    let counted = |poses: &Training| poses.pose_weights.iter().sum::<f64>() / training.pose_weights.iter().sum::<f64>();
    let gain = (gained.before - gained.after).max(0.0);
    let lessons = Lessons::new(training, &seen, &joints, LEAST_GAIN * gain * counted(&seen));
    let (mut chosen, mut student) = lessons.choose(following(teacher, deformer))?;
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let drawn: Vec<usize> = (0..seen.pose_count().min(training.pose_count() + DRAWN)).collect();
    let mut farther = Farther::new(&seen.subset(&drawn), &teacher.character.skin, &topology, FARTHER);
    let width = deformer.skin.width;
    for _ in 0..TURNS {
        let candidates = redraw::candidates(&student.weights(), &topology);
        let poses = farther.drawn_by(&student.whole()?, &topology);
        let found = weights::solve_weights(poses, &candidates, &student.transforms(poses)?, width);
        (chosen, student) = lessons.choose(student.drawn(&found))?;
    }
    // No more entries are visited than in plain skinning, as far as that does not show.
    let (from, to) = (visits(&student), thin::visits(&SparseWeights::of(&teacher.character.skin)));
    for stage in 1..=STAGES {
        let poses = farther.drawn_by(&student.whole()?, &topology);
        let part = stage as f64 / STAGES as f64;
        let limits = thin::Limits {
            loss: THINNED_AWAY * gain * counted(poses) / STAGES as f64,
            visits: (from as f64 * (to as f64 / from.max(1) as f64).powf(part)) as usize,
        };
        let thinned = thin::thin(poses, &student.transforms(poses)?, student.weights(), width, limits);
        student = lessons.taught(student.drawn(&thinned), &chosen)?;
    }
    let whole = student.whole()?;
    let lost = squared_error(&seen, &predict::training_poses(&whole, &seen)) - gained.after;
    let worth = lost < MAY_LOSE * gain * counted(&seen) && operations(&whole) < operations(teacher);
    if wanted == Distil::Auto && !worth {
        report.found("distilled", "no: it would lose too much or cost no less");
        return Ok(None);
    }
    let terms: usize = chosen.regions.iter().map(|(_, terms)| terms.len()).sum();
    let (before, after) = (operations(teacher), operations(&whole));
    report.found(
        "distilled",
        format!(
            "{terms} terms over {} imagined poses, {before} → {after} operations a frame",
            seen.pose_count() - training.pose_count()
        ),
    );
    let (rigid, left) = (rigid_error(training), squared_error(training, &predict::training_poses(&whole, training)));
    if rigid > 0.0 {
        report.found("training error, distilled", format!("{:.2} % EE", 100.0 * (left / rigid).sqrt()));
    }
    Ok(Some(whole))
}

fn visits(student: &Student) -> usize {
    thin::visits(&student.weights())
}

fn operations(model: &Model) -> u64 {
    let correction = model.correction.as_ref().map_or(0, |correction| correction.cost().flops);
    model.deformer.cost(&model.character).flops + correction
}

/// What a student learns from: poses, and what terms are made of in them.
struct Lessons<'a> {
    seen: &'a Training,
    directions: Vec<Direction>,
    /// Coordinates in the poses that are seen and the rest pose, (N + 1)(C).
    coordinates: Vec<Vec<f64>>,
    /// How much the poses count, (N + 1).
    weights: Vec<f64>,
    /// What a term must gain for every operation that it costs, square metres.
    least_gain: f64,
    /// The joints that move, with those that may drive what each bone carries, (J).
    near: Vec<Vec<usize>>,
}

/// The terms of each region, with its bone.
struct Chosen {
    regions: Vec<(usize, Vec<Monomial>)>,
    /// The bone whose region each proxy is of, (P). It stays when weights change: another region's terms may not do.
    bones: Vec<usize>,
}

/// A model whose proxies follow their bones, and the changes that make it a student.
struct Student {
    model: Model,
    correction: ProxyCorrection,
}

impl<'a> Lessons<'a> {
    fn new(training: &Training, seen: &'a Training, joints: &JointRotations, least_gain: f64) -> Self {
        let directions = terms::directions(joints, training.bone_count());
        let logs = seen.transforms.iter().map(|pose| joints.of_pose(&training.skeleton, pose).1);
        let rest = vec![DVec3::ZERO; training.bone_count()];
        let of = |logs: Vec<DVec3>| directions.iter().map(|d| d.of(&logs)).collect();
        let table = PoseTable::new(training, true);
        let near = |b: usize| {
            let joints = regions::candidates(&training.skeleton, &table, b).into_iter().map(|c| table.joints[c]);
            let mut joints: Vec<usize> = joints.collect();
            joints.sort_unstable();
            joints
        };
        Self {
            coordinates: logs.chain([rest]).map(of).collect(),
            weights: seen.pose_weights.iter().copied().chain([1.0]).collect(),
            near: (0..training.bone_count()).map(near).collect(),
            directions,
            seen,
            least_gain,
        }
    }

    /// The changes that draw the seen poses best, (N + 1)(P), and the proxies they are of.
    fn changes(&self, model: &Model, bones: Option<&Vec<usize>>) -> (Proxies, Vec<Vec<[f64; 12]>>) {
        let Deformer::RotationalRegression(d) = &model.deformer else { unreachable!("proxies follow their bones") };
        let mut proxies = Proxies::new(self.seen, model, &d.skin, d.proxy_count());
        proxies.bones = bones.unwrap_or(&proxies.bones).clone();
        let (changes, _) = proxies.changes(self.seen, model, &CorrectionParams::new(Place::Proxies));
        (proxies, changes)
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

    /// The terms that earn their place, and the student that they make of `model`.
    fn choose(&self, model: Model) -> Result<(Chosen, Student), FitError> {
        let (proxies, changes) = self.changes(&model, None);
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
        let parts = regions::by_bone(&proxies.bones, self.seen.bone_count());
        let chosen = Chosen { regions: parts.par_iter().map(of_region).collect(), bones: proxies.bones.clone() };
        let student = self.fitted(model, &proxies, &changes, &chosen)?;
        Ok((chosen, student))
    }

    /// The student that the chosen terms make of `model`.
    fn taught(&self, model: Model, chosen: &Chosen) -> Result<Student, FitError> {
        let (proxies, changes) = self.changes(&model, Some(&chosen.bones));
        self.fitted(model, &proxies, &changes, chosen)
    }

    fn fitted(
        &self,
        model: Model,
        proxies: &Proxies,
        changes: &[Vec<[f64; 12]>],
        chosen: &Chosen,
    ) -> Result<Student, FitError> {
        let parts: Vec<Part> = regions::by_bone(&proxies.bones, self.seen.bone_count())
            .into_iter()
            .filter_map(|(bone, members)| {
                // A bone that carried no proxy when terms were chosen has none.
                let (_, monomials) = chosen.regions.iter().find(|(b, terms)| *b == bone && !terms.is_empty())?;
                let members: Vec<usize> = members.into_iter().map(|p| p as usize).collect();
                Some(Part { bone, members, monomials })
            })
            .collect();
        let mut solutions = self.solved(&parts, changes);
        let student = |solutions: &[DMatrix<f64>]| Student {
            correction: self.correction(proxies, &parts, solutions),
            model: model.clone(),
        };
        for _ in 0..SWEEPS {
            let whole = student(&solutions).whole()?;
            let (left, _) = proxies.changes(self.seen, &whole, &CorrectionParams::new(Place::Proxies));
            let more = self.solved(&parts, &left);
            let farther: Vec<DMatrix<f64>> = solutions.iter().zip(&more).map(|(a, b)| a + b).collect();
            let before = predict::training_poses(&whole, self.seen);
            let after = predict::training_poses(&student(&farther).whole()?, self.seen);
            let (mut along, mut length) = (0.0, 0.0);
            for (e, weight) in self.seen.pose_weights.iter().enumerate() {
                for ((x, y), truth) in before[e].iter().zip(&after[e]).zip(&self.seen.vertices[e]) {
                    along += weight * (*truth - *x).dot(*y - *x);
                    length += weight * (*y - *x).length_squared();
                }
            }
            if !(length > 0.0 && along > 0.0) {
                break;
            }
            let step = along / length;
            solutions.iter_mut().zip(&more).for_each(|(solution, more)| *solution += more * step);
        }
        Ok(student(&solutions))
    }

    /// The coefficients of each region's terms, measured, (R): (terms, 12 members).
    fn solved(&self, parts: &[Part], changes: &[Vec<[f64; 12]>]) -> Vec<DMatrix<f64>> {
        let ridge = RIDGE * self.weights.iter().sum::<f64>();
        let solve = |part: &Part| {
            let (f, targets) = (self.values(part.monomials), self.targets(changes, &part.members));
            let mut gram = f.tr_mul(&f);
            (0..gram.nrows()).for_each(|k| gram[(k, k)] += ridge);
            let right = f.tr_mul(&targets);
            gram.cholesky().map_or_else(|| right.clone() * 0.0, |factor| factor.solve(&right))
        };
        parts.par_iter().map(solve).collect()
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

/// A region with its terms.
struct Part<'a> {
    bone: usize,
    members: Vec<usize>,
    monomials: &'a Vec<Monomial>,
}

/// `teacher` with proxies that follow the plain blend of their bones, and nothing else.
fn following(teacher: &Model, deformer: &RotationalRegression) -> Model {
    let root = teacher.character.root() as u16;
    let proxies = deformer.proxy_count();
    let mut c2 = BlockRows { starts: vec![0], columns: Vec::new(), blocks: Vec::new() };
    for shares in deformer.carriers(&teacher.character) {
        let kept = || shares.iter().filter(|&&(_, share)| f64::from(share) >= LEAST_SHARE);
        let total: f32 = kept().map(|&(_, share)| share).sum();
        for &(b, share) in kept() {
            c2.columns.push(b as u16);
            c2.blocks.push(std::array::from_fn(|r| std::array::from_fn(|c| if r == c { share / total } else { 0.0 })));
        }
        c2.starts.push(c2.columns.len() as u32);
    }
    let followed = RotationalRegression {
        ranges: deformer.ranges.clone(),
        predictors: GradientPredictors {
            width: 1,
            features: 3,
            frames: vec![root; proxies],
            joints: vec![root; proxies],
            rotation: vec![0.0; 12 * proxies],
            stretch: vec![0.0; 24 * proxies],
        },
        c1: BlockRows { starts: vec![0; proxies + 1], columns: Vec::new(), blocks: Vec::new() },
        c2,
        skin: deformer.skin.clone(),
    };
    Model { deformer: Deformer::RotationalRegression(followed), correction: None, ..teacher.clone() }
}

impl Student {
    fn deformer(&self) -> &RotationalRegression {
        match &self.model.deformer {
            Deformer::RotationalRegression(deformer) => deformer,
            _ => unreachable!("its proxies follow their bones"),
        }
    }

    fn weights(&self) -> SparseWeights {
        SparseWeights::of(&self.deformer().skin)
    }

    /// The model that `weights` draw, without changes.
    fn drawn(&self, weights: &SparseWeights) -> Model {
        let deformer = RotationalRegression { skin: to_model::skin(weights), ..self.deformer().clone() };
        Model { deformer: Deformer::RotationalRegression(deformer), ..self.model.clone() }
    }

    /// The proxies' transforms in some poses, (N)(P).
    fn transforms(&self, training: &Training) -> Result<Vec<Vec<DAffine3>>, FitError> {
        Ok(predict::proxy_transforms(&self.whole()?, training, self.deformer().proxy_count()))
    }

    fn whole(&self) -> Result<Model, FitError> {
        Ok(self.model.clone().with_correction(Correction::Proxies(self.correction.clone()))?)
    }
}
