//! A corrected regression distilled into one that costs a fraction of it a frame (ours; the idea is that of Bucilă, Caruana
//! and Niculescu-Mizil, "Model compression", 2006).
//!
//! Rotational regression with its correction is accurate and, on a small mesh, costs more than the skinning itself:
//! predictors, c₁ and c₂, kernels over the examples. All that must be so general because it learns from a few examples.
//! Once it has learned, it can draw as many poses as one likes ([`imagined`]), and from many poses something simpler
//! can be learned without guessing. Since it is not asked to be fast, the teacher also has displacements of its vertices,
//! and a second regression beside it ([`teachers`]). In the student a proxy bone follows one bone b,
//!
//!   `T_p(q) = T_b + Q_b Σ_k m_k(θ̃) B_kp`,
//!
//! m_k being monomials of the rotations of joints near by ([`terms`]), a few a region, those that earn most ([`pursuit`]).
//! B follows from the changes that draw all seen poses best ([`lessons`]). In turns with it follow the points that vertices are
//! drawn from ([`drawing`]), so many that the student costs about what plain skinning costs ([`registers`]).

pub mod lessons;
pub mod pursuit;
pub mod teachers;
pub mod terms;

use sinew_runtime::deform::{BlockRows, GradientPredictors, RotationalRegression};
use sinew_runtime::{Deformer, Model};

use super::corrected::Corrected;
use super::farther::{self, Allowed, Spikes};
use super::proxies::Proxies;
use super::redraw;
use super::residual::carrier;
use crate::drawing::corners;
use crate::drawing::imagined::{self, Blend};
use crate::drawing::points::{Drawing, Drawn};
use crate::drawing::registers::{self, Registers};
use crate::drawing::{self, BONE, WIDTH};
use crate::geometry::JointRotations;
use crate::geometry::topology::Topology;
use crate::methods::rr::RrParams;
use crate::{FitError, FitReport, Training};
use lessons::Lessons;

/// What a term must gain for every operation that it costs, of what the correction gains on the training poses: what terms take is not
/// there for drawing vertices.
const TERM_GAIN: f64 = 2e-4;

/// What a register that is taken apart must gain for every cycle.
const CYCLE_GAIN: f64 = 1e-4;

/// What a student may lose of it in all, on training and imagined poses: more would leave little of the correction.
const MAY_LOSE: f64 = 0.25;

/// By how much more of it a student may lose on the training poses to be taught by poses blended joint by joint.
const WIDER: f64 = 0.05;

/// How much of the rigid error a pose may keep that is left out, squared: where more than half of it is not foreseen, clips go
/// where no blend of the examples does, and a student knows nothing there.
const FORESEEN: f64 = 0.25;

/// How much the corners of the trained ranges count beside all other poses, and turns of points and terms (the error has settled
/// by then); then again, with more of it, if vertices stick out beyond the ranges.
const CORNERS: [(f64, usize); 2] = [(0.05, 4), (0.2, 2)];

/// The cycles that a student may take, of those of plain skinning: measured, it comes to 1.0 to 1.13.
const ALLOWED: f32 = 1.13;

/// Cycles of predicting the palette: for a proxy bone, a term of a region and a bone (measured on Zen 4) …
const PROXY: f32 = 25.0;
const TERM: f32 = 10.0;

/// Entries that a register visits at least, on average: with one nothing bends.
const LEAST: f32 = 2.0;

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

/// Distils `corrected`, a corrected regression that was fitted with `params`; none if that is not worth it.
pub fn distil(
    training: &Training,
    corrected: &Model,
    params: &RrParams,
    gained: Gained,
    wanted: Distil,
    report: &mut FitReport,
) -> Result<Option<Model>, FitError> {
    let Deformer::RotationalRegression(deformer) = &corrected.deformer else { return Ok(None) };
    if training.bone_count() > MOST_BONES {
        report.found("distilled", format!("no: more than {MOST_BONES} bones"));
        return Ok(None);
    }
    let unforeseen =
        report.left_out_corrected.zip(report.rigid).is_some_and(|(left_out, rigid)| left_out > FORESEEN * rigid);
    if wanted == Distil::Auto && unforeseen {
        report.found("distilled", "no: a training pose that is left out is hardly foreseen from the others");
        return Ok(None);
    }
    let teachers = teachers::teachers(training, corrected, deformer, params, report.ridge)?;
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let spikes = Spikes::new(training, &topology);
    let allowed = Allowed::new(training, &spikes, corrected);
    let gain = (gained.before - gained.after).max(0.0);
    let course = Course { training, corrected, gain, topology: &topology, spikes: &spikes, allowed };
    let first = following(training, corrected, deformer);
    let joints = JointRotations::new(training);
    // Blends joint by joint cover more, if that can be learned.
    let begin = |blend: Blend| {
        let seen = imagined::beside(training, &joints, &teachers, blend);
        let (_, student) = course.lessons(&seen, &joints).choose(first.clone());
        (seen, student)
    };
    let (wide, narrow) = (begin(Blend::Joints), begin(Blend::Poses));
    let learned = wide.1.error(training)? <= narrow.1.error(training)? + WIDER * course.gain;
    let (seen, mut student) = if learned { wide } else { narrow };

    let (mut terms, mut held) = (0, false);
    for (share, turns) in CORNERS {
        let cornered = imagined::with_corners(&seen, training, &joints, &teachers, share);
        let corners = cornered.pose_count() - seen.pose_count();
        (terms, student) = course.learn(&course.lessons(&cornered, &joints), &cornered, corners, student, turns)?;
        let farthest = spikes.farthest(&farther::drawn_farther(training, &student.whole()?));
        held = farthest <= allowed.most;
        if held {
            break;
        }
    }
    let whole = student.whole()?;
    let lost = student.error(&seen)? - gained.after;
    let [before, after] = [corrected, &whole].map(operations);
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
    corrected: &'a Model,
    /// What the correction gains on the training poses, square metres.
    gain: f64,
    topology: &'a Topology,
    spikes: &'a Spikes<'a>,
    /// How far vertices may stick out at twice the trained ranges.
    allowed: Allowed,
}

impl Course<'_> {
    /// The gain over so many poses as `poses` count.
    fn counted(&self, poses: &Training) -> f64 {
        self.gain * poses.pose_weights.iter().sum::<f64>() / self.training.pose_weights.iter().sum::<f64>()
    }

    fn lessons<'b>(&self, seen: &'b Training, joints: &JointRotations) -> Lessons<'b> {
        Lessons::new(self.training, seen, joints, TERM_GAIN * self.counted(seen))
    }

    /// Points and terms in turns; how many terms there are, and the student. The last `corners` of the poses that are `seen` are
    /// corners of the trained ranges.
    fn learn(
        &self,
        lessons: &Lessons,
        seen: &Training,
        corners: usize,
        mut student: Corrected,
        turns: usize,
    ) -> Result<(usize, Corrected), FitError> {
        let skin = &self.corrected.character.skin;
        let candidates = redraw::candidates(&student.weights(), self.topology);
        let carriers: Vec<usize> = (0..skin.vertex_count()).map(|v| carrier(skin, v)).collect();
        let over = Drawing { poses: seen, proxies: &[], candidates: &candidates, carriers: &carriers, width: WIDTH };
        let bones = BONE * self.training.bone_count() as f32;
        let mut terms = student.term_count();
        let (mut registers, mut drawn) = (None, Vec::new());
        for _ in 0..turns {
            let prediction = bones + PROXY * student.deformer().proxy_count() as f32 + TERM * terms as f32;
            let cycles = ALLOWED * (sinew_runtime::skinning_cycles(skin) + bones) - prediction;
            let cycles = cycles.max(registers::least_cycles(skin.vertex_count(), LEAST));
            let proxies = student.transforms(seen)?;
            let least = CYCLE_GAIN * self.counted(seen);
            let drawing = Drawing { proxies: &proxies, ..over };
            let registers = registers.get_or_insert_with(|| Registers::new(&drawing, cycles, least));
            drawn = drawing.draw(registers, registers::visits(cycles - registers.writing));
            let chosen;
            (chosen, student) = lessons.choose(self.drawn(&student, &drawn, seen)?);
            terms = chosen.count();
        }
        // The terms stay; where vertices stick out beyond the ranges points follow once more.
        let proxies = student.transforms(seen)?;
        let weights = student.weights();
        let correction = student.whole()?.correction;
        let sticking_out = |drawn: &[Drawn]| {
            let model = Model { correction: correction.clone(), ..student.drawn_from(self.training, drawn, &weights) };
            self.spikes.most(&farther::drawn_farther(self.training, &model))
        };
        let drawing = Drawing { proxies: &proxies, ..over };
        corners::hold(&drawing, corners, self.spikes, self.allowed, &mut drawn, sticking_out);
        student.model = self.drawn(&student, &drawn, seen)?;
        Ok((terms, student))
    }

    /// `student` drawn from points, without its changes.
    fn drawn(&self, student: &Corrected, drawn: &[Drawn], seen: &Training) -> Result<Model, FitError> {
        let some = drawing::some_of(self.training, seen);
        let weights = drawing::beside(self.training, drawn, &some, &student.transforms(&some)?);
        Ok(student.drawn_from(self.training, drawn, &weights))
    }
}

/// `corrected` with proxies that follow a bone each, and nothing else.
fn following(training: &Training, corrected: &Model, deformer: &RotationalRegression) -> Model {
    let root = corrected.character.root() as u16;
    let proxies = deformer.proxy_count();
    let bones = Proxies::new(training, corrected, deformer).bones;
    let identity = std::array::from_fn(|r| std::array::from_fn(|c| f32::from(r == c)));
    let c2 = BlockRows {
        starts: (0..=proxies as u32).collect(),
        columns: bones.iter().map(|&b| b as u16).collect(),
        blocks: vec![identity; proxies],
    };
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
        points: Vec::new(),
    };
    Model { deformer: Deformer::RotationalRegression(followed), correction: None, ..corrected.clone() }
}
