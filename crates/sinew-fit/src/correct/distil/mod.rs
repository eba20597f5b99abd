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
//! B follows from the changes that draw all seen poses best ([`lessons`]), and the drawing weights follow in turns, as in
//! [`redraw`].

pub mod imagined;
pub mod lessons;
pub mod pursuit;
pub mod terms;

use sinew_runtime::deform::{BlockRows, GradientPredictors, LinearBlend, RotationalRegression};
use sinew_runtime::{Deformer, Model};

use super::corrected::Corrected;
use super::farther::{self, Farther};
use super::redraw;
use crate::geometry::JointRotations;
use crate::geometry::topology::Topology;
use crate::methods::rr::describe::rigid_error;
use crate::methods::rr::{thin, weights};
use crate::methods::ssd::SparseWeights;
use crate::{FitError, FitReport, Training};
use imagined::Blend;
use lessons::{Chosen, Lessons};

/// Shares of bones that a proxy does not follow: what they move is in the changes.
const LEAST_SHARE: f64 = 0.05;

/// What a term must gain for every operation that it costs, of what the correction gains on the training poses.
const LEAST_GAIN: f64 = 1e-4;

/// What thinner drawing weights may lose of what the correction gains.
const THINNED_AWAY: f64 = 0.15;

/// What a student may lose of it in all, on training and imagined poses: more would leave little of the correction.
const MAY_LOSE: f64 = 0.35;

/// By how much more of it a student may lose on the training poses to be taught by poses blended joint by joint.
const WIDER: f64 = 0.05;

/// How much of the rigid error a pose may keep that is left out, squared: where more than half of it is not foreseen, clips go
/// where no blend of the examples does, and a student knows nothing there.
const FORESEEN: f64 = 0.25;

/// Turns of drawing weights and terms; the error has settled by then.
const TURNS: usize = 2;

/// Steps in which entries leave the drawing weights, the student learning anew after each.
const STAGES: usize = 3;

/// Imagined poses that drawing weights see beside the training poses.
const DRAWN: usize = 40;

/// How much poses beyond the trained ranges count for the drawing weights beside those within, one after the other until no
/// vertex sticks out: more than it takes costs accuracy.
const FARTHER: [f64; 3] = [0.1, 0.4, 1.6];

/// How much farther vertices may stick out of their neighbours at twice the trained ranges than in the examples or with linear
/// blend skinning, in their distances: a tenth of them does not show.
const STICKS_OUT: f64 = 0.09;

/// Bones at most: terms and coordinates are counted in 16 bits.
const MOST_BONES: usize = 1000;

/// When a corrected regression is distilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distil {
    /// Never.
    Off,
    /// If the student costs less a frame, loses little of what the correction gains, and holds beyond the trained ranges.
    #[default]
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
    let unforeseen = report.left_out_corrected.is_some_and(|left_out| left_out > FORESEEN * rigid_error(training));
    if wanted == Distil::Auto && unforeseen {
        report.found("distilled", "no: a training pose that is left out is hardly foreseen from the others");
        return Ok(None);
    }
    let course = Course { training, teacher, gain: (gained.before - gained.after).max(0.0) };
    let first = following(teacher, deformer);
    let joints = JointRotations::new(training);
    // Blends joint by joint cover more, if that can be learned.
    let begin = |blend: Blend| {
        let seen = imagined::beside(training, &joints, teacher, blend);
        let (_, student) = course.lessons(&seen, &joints).choose(first.clone());
        (seen, student)
    };
    let (wide, narrow) = (begin(Blend::Joints), begin(Blend::Poses));
    let learned = wide.1.error(training)? <= narrow.1.error(training)? + WIDER * course.gain;
    let (seen, beginner) = if learned { wide } else { narrow };

    let lessons = course.lessons(&seen, &joints);
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let allowed = course.allowed_spike(&topology);
    let learn = |share: f64| -> Result<(Chosen, Corrected, bool), FitError> {
        let (chosen, student) = course.learn(&lessons, &seen, &topology, share, beginner.clone())?;
        let drawn = farther::drawn_farther(training, &student.whole()?);
        Ok((chosen, student, farther::farthest_spike(training, &topology, &drawn) <= allowed))
    };
    let mut last = learn(FARTHER[0])?;
    for share in &FARTHER[1..] {
        if !last.2 {
            last = learn(*share)?;
        }
    }
    let (chosen, student, held) = last;
    let whole = student.whole()?;
    let lost = student.error(&seen)? - gained.after;
    let [before, after] = [teacher, &whole].map(operations);
    if wanted == Distil::Auto {
        let refused = match (lost < MAY_LOSE * course.counted(&seen), held) {
            (false, _) => Some("it would lose too much"),
            (true, false) => Some("vertices would stick out beyond the trained ranges"),
            (true, true) => (after >= before).then_some("it would cost no less"),
        };
        if let Some(reason) = refused {
            report.found("distilled", format!("no: {reason}"));
            return Ok(None);
        }
    }
    let imagined = seen.pose_count() - training.pose_count();
    let terms = chosen.count();
    report.found(
        "distilled",
        format!("{terms} terms over {imagined} imagined poses, {before} → {after} operations a frame"),
    );
    super::tell_errors(training, &whole, "distilled", report);
    Ok(Some(whole))
}

fn operations(model: &Model) -> u64 {
    let correction = model.correction.as_ref().map_or(0, |correction| correction.cost().flops);
    model.deformer.cost(&model.character).flops + correction
}

/// What stays the same whatever the student sees.
struct Course<'a> {
    training: &'a Training,
    teacher: &'a Model,
    /// What the correction gains on the training poses, square metres.
    gain: f64,
}

impl Course<'_> {
    /// The gain over so many poses as `poses` count.
    fn counted(&self, poses: &Training) -> f64 {
        self.gain * poses.pose_weights.iter().sum::<f64>() / self.training.pose_weights.iter().sum::<f64>()
    }

    fn lessons<'b>(&self, seen: &'b Training, joints: &JointRotations) -> Lessons<'b> {
        Lessons::new(self.training, seen, joints, LEAST_GAIN * self.counted(seen))
    }

    /// How far vertices may stick out at twice the trained ranges.
    fn allowed_spike(&self, topology: &Topology) -> f64 {
        let spike = |poses: &[Vec<glam::DVec3>]| farther::farthest_spike(self.training, topology, poses);
        let skinned = Model { deformer: Deformer::LinearBlend(LinearBlend), correction: None, ..self.teacher.clone() };
        let farther = |model: &Model| spike(&farther::drawn_farther(self.training, model));
        (spike(&self.training.vertices).max(farther(&skinned)) + STICKS_OUT).max(farther(self.teacher))
    }

    /// Drawing weights and terms in turns, then fewer weights; poses beyond the trained ranges count `share`.
    fn learn(
        &self,
        lessons: &Lessons,
        seen: &Training,
        topology: &Topology,
        share: f64,
        mut student: Corrected,
    ) -> Result<(Chosen, Corrected), FitError> {
        let trained = self.training.pose_count();
        let drawn: Vec<usize> = (0..seen.pose_count().min(trained + DRAWN)).collect();
        let skin = &self.teacher.character.skin;
        let mut farther = Farther::new(&seen.subset(&drawn), trained, skin, topology, share);
        let width = student.width();
        let mut chosen = None;
        for _ in 0..TURNS {
            let candidates = redraw::candidates(&student.weights(), topology);
            let poses = farther.drawn_by(&student.whole()?, topology);
            let found = weights::solve_weights(poses, &candidates, &student.transforms(poses)?, width);
            let (terms, taught) = lessons.choose(student.drawn_by(&found));
            (chosen, student) = (Some(terms), taught);
        }
        let chosen = chosen.unwrap_or_else(|| unreachable!("there are turns"));
        // No more entries are visited than in plain skinning, as far as that does not show.
        let (from, to) = (thin::visits(&student.weights()), thin::visits(&SparseWeights::of(skin)));
        for stage in 1..=STAGES {
            let poses = farther.drawn_by(&student.whole()?, topology);
            let part = stage as f64 / STAGES as f64;
            let limits = thin::Limits {
                loss: THINNED_AWAY * self.counted(poses) / STAGES as f64,
                visits: (from as f64 * (to as f64 / from.max(1) as f64).powf(part)) as usize,
            };
            let thinned = thin::thin(poses, &student.transforms(poses)?, student.weights(), width, limits);
            student = lessons.taught(student.drawn_by(&thinned), &chosen);
        }
        Ok((chosen, student))
    }
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
