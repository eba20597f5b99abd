//! What one model costs a frame, and plain skinning on the same mesh: hot and cold, with the bound that the machine sets.

use glam::Affine3A;
use serde::Serialize;
use sinew_runtime::deform::LinearBlend;
use sinew_runtime::{Deformer, Evaluator, Metadata, Model, Options};

use crate::timing::{Effort, Times, race};
use crate::{plain, probes, synthetic};

/// The figures of one contestant.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Microseconds a frame, caches warm: the best burst's median.
    pub microseconds: f64,
    /// Vertices a second at that time.
    pub vertices_per_second: f64,
    /// Bytes of model data a frame, by counting.
    pub bytes: u64,
    /// Floating-point operations a frame, by counting.
    pub operations: u64,
    /// Microseconds, half the calls, caches warm.
    pub p50_microseconds: f64,
    /// Microseconds, 99 of 100 calls, caches warm.
    pub p99_microseconds: f64,
    /// Microseconds a frame after the caches were filled with something else, the median.
    pub cold_microseconds: f64,
}

/// What the machine allows.
#[derive(Debug, Clone, Serialize)]
pub struct Bound {
    /// Fused multiply-adds a second, measured from registers.
    pub multiply_adds_per_second: f64,
    /// Bytes a second, measured by streaming as much as the frame touches.
    pub bytes_per_second: f64,
    /// The time that the frame's multiply-adds (12 an influence and 9 a vertex) or its bytes need, the larger.
    pub microseconds: f64,
}

/// A stated aim and what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// What is compared.
    pub name: String,
    /// What was measured.
    pub value: f64,
    /// What it must reach, or must not pass.
    pub limit: f64,
    /// Whether more is better.
    pub at_least: bool,
    /// Whether it was met, within what the run can tell: see [`Report::uncertainty`], of which two hundredths count at most.
    pub met: bool,
}

/// The result of [`bench()`].
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The method's name.
    pub method: String,
    /// Whether the method is meant for every frame; one that solves an equation over the mesh is not.
    pub real_time: bool,
    /// Vertices, V.
    pub vertices: usize,
    /// Joints, J.
    pub joints: usize,
    /// Influences a vertex of plain skinning, on average.
    pub influences: f64,
    /// The model.
    pub model: Figures,
    /// Linear blend skinning of the same mesh with the same kernels.
    pub ssd: Figures,
    /// The plain loop: blend the matrices, then transform; microseconds. Nothing above 8 influences.
    pub plain_microseconds: Option<f64>,
    /// The model's time over linear blend skinning's: the median of ratios within a round.
    pub ratio_to_ssd: f64,
    /// How far linear blend skinning raced against itself is from one: what a ratio of this run may be off by.
    pub uncertainty: f64,
    /// (vertex, joint) pairs that the kernel computes over those that count: what sharing matrices in blocks costs.
    pub pairs_over_influences: f64,
    /// What the machine allows linear blend skinning.
    pub bound: Bound,
    /// The model with palette normals over the model.
    pub palette_normals_ratio: f64,
    /// The model with normals from the posed triangles over the model.
    pub one_ring_normals_ratio: f64,
    /// A character of a crowd of 100 over one posed alone, each into memory of its own.
    pub crowd_ratio: f64,
    /// A character of a crowd of 100 over one alone that is posed again and again in the same, cached place.
    pub crowd_ratio_to_hot: f64,
    /// A pose beyond the trained ranges over one within them, if the model keeps to some.
    pub beyond_ratio: Option<f64>,
    /// The aims.
    pub targets: Vec<Target>,
}

/// Characters in the crowd.
const CROWD: usize = 100;
/// Characters a call of the crowd's measurement.
const CALL: usize = 4;
/// Floats that push everything else out of the caches: 64 MB, twice a large last-level cache.
const FLUSH: usize = 16 << 20;
/// Cold frames measured.
const COLD: usize = 25;

/// Measures `model` and linear blend skinning of its mesh, in turn.
#[must_use]
pub fn bench(model: &Model, effort: Effort) -> Report {
    let character = &model.character;
    let metadata = Metadata { method: "ssd".into(), ..Metadata::default() };
    let ssd = Model { deformer: Deformer::LinearBlend(LinearBlend), correction: None, metadata, ..model.clone() };
    let poses: Vec<Vec<Affine3A>> = (0..4).map(|k| pose(model, k as f32)).collect();
    let normals = Options { normals: true, ..Options::default() };
    let mut evaluators = [Evaluator::with(model, normals), Evaluator::with(&ssd, normals)];
    let pairs = evaluators[1].pairs_computed();
    let hot = hot(model, &mut evaluators, &poses, effort);
    let cold = cold(character.vertex_count(), &mut evaluators, &poses);
    let [crowd_ratio, crowd_ratio_to_hot] = crowd(&mut evaluators[0], &poses, effort);
    let influences = character.skin.weights.iter().filter(|&&w| w != 0.0).count();
    let bound = bound(character.vertex_count(), influences, effort);
    let uncertainty = (hot[SSD_AGAIN].ratio_to(&hot[1]) - 1.0).abs();
    let mut report = Report {
        method: model.metadata.method.clone(),
        real_time: model.deformer.real_time(),
        vertices: character.vertex_count(),
        joints: character.bones.len(),
        influences: influences as f64 / character.vertex_count().max(1) as f64,
        ratio_to_ssd: hot[0].ratio_to(&hot[1]),
        uncertainty,
        palette_normals_ratio: hot[2].ratio_to(&hot[0]),
        one_ring_normals_ratio: hot[3].ratio_to(&hot[0]),
        plain_microseconds: hot.get(PLAIN).map(|times| times.best),
        pairs_over_influences: pairs as f64 / influences.max(1) as f64,
        crowd_ratio,
        crowd_ratio_to_hot,
        beyond_ratio: beyond(model, &evaluators[0], effort),
        model: figures(model, &hot[0], cold[0]),
        ssd: figures(&ssd, &hot[1], cold[1]),
        bound,
        targets: Vec::new(),
    };
    report.targets = targets(model, &report, &hot);
    report
}

/// A pose as a clip has them: within the trained ranges, if the model keeps to some. Beyond them it costs more, see
/// [`beyond`].
fn pose(model: &Model, phase: f32) -> Vec<Affine3A> {
    match &model.deformer {
        Deformer::RotationalRegression(d) => synthetic::pose_within(&model.character, &d.ranges, phase),
        _ => synthetic::pose(&model.character, phase),
    }
}

/// A pose with joints up to half a radian beyond their trained ranges over one within them; none for models that keep to
/// no ranges.
fn beyond(model: &Model, evaluator: &Evaluator, effort: Effort) -> Option<f64> {
    let Deformer::RotationalRegression(d) = &model.deformer else { return None };
    let mut wider = d.ranges.clone();
    wider.low.as_flattened_mut().iter_mut().for_each(|low| *low -= 0.5);
    wider.high.as_flattened_mut().iter_mut().for_each(|high| *high += 0.5);
    let poses = [&wider, &d.ranges].map(|ranges| synthetic::pose_within(&model.character, ranges, 1.0));
    let [mut a, mut b] = [(); 2].map(|()| (evaluator.clone(), vec![[0.0_f32; 3]; model.character.vertex_count()]));
    let mut run_beyond = || a.0.positions(&poses[0], &mut a.1);
    let mut run_within = || b.0.positions(&poses[1], &mut b.1);
    let times = race(effort, &mut [&mut run_beyond, &mut run_within]);
    Some(times[0].ratio_to(&times[1]))
}

/// Places of contestants in [`hot`].
const SSD_AGAIN: usize = 4;
const PLAIN: usize = 5;

/// Model, linear blend skinning, the model with either kind of normals, linear blend skinning again, and the plain loop, in turn.
fn hot(model: &Model, evaluators: &mut [Evaluator; 2], poses: &[Vec<Affine3A>], effort: Effort) -> Vec<Times> {
    let character = &model.character;
    let room = || vec![[0.0_f32; 3]; character.vertex_count()];
    let [mut ours, mut ssd] = [evaluators[0].clone(), evaluators[1].clone()];
    let (mut palette, mut ring, mut again) = (ours.clone(), ours.clone(), ssd.clone());
    let mut rooms: [Vec<[f32; 3]>; 8] = std::array::from_fn(|_| room());
    let [a, b, c, c_normals, d, d_normals, e, f] = &mut rooms;
    let columns = plain_palette(model, &poses[0]);
    let (mut first, mut second, mut third) = (0, 0, 0);
    let mut run_model = || {
        first = (first + 1) % poses.len();
        ours.positions(&poses[first], a);
    };
    let mut run_ssd = || {
        second = (second + 1) % poses.len();
        ssd.positions(&poses[second], b);
    };
    let mut run_palette = || palette.positions_and_palette_normals(&poses[0], c, c_normals);
    let mut run_ring = || ring.positions_and_normals(&poses[0], d, d_normals);
    let mut run_again = || {
        third = (third + 1) % poses.len();
        again.positions(&poses[third], f);
    };
    let mut run_plain = || plain::linear_blend(&character.skin, &columns, &character.rest_positions, e);
    let mut contestants: Vec<&mut dyn FnMut()> =
        vec![&mut run_model, &mut run_ssd, &mut run_palette, &mut run_ring, &mut run_again];
    if character.skin.width <= 8 {
        contestants.push(&mut run_plain);
    }
    race(effort, &mut contestants)
}

/// The palette in the plain loop's own form; not part of its time.
fn plain_palette(model: &Model, pose: &[Affine3A]) -> Vec<plain::Columns> {
    let bones = pose.iter().zip(&model.character.bones);
    bones
        .map(|(global, bone)| {
            let t = *global * bone.rest.inverse();
            [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation].map(|c| [c.x, c.y, c.z, 0.0])
        })
        .collect()
}

/// Median microseconds a frame of each evaluator after the caches were filled with something else.
fn cold(vertices: usize, evaluators: &mut [Evaluator; 2], poses: &[Vec<Affine3A>]) -> [f64; 2] {
    let mut other = vec![1.0_f32; FLUSH];
    let mut out = vec![[0.0; 3]; vertices];
    let mut times = [Vec::new(), Vec::new()];
    for frame in 0..COLD {
        for (evaluator, times) in evaluators.iter_mut().zip(&mut times) {
            other.iter_mut().for_each(|x| *x += 1.0);
            std::hint::black_box(&other);
            let start = std::time::Instant::now();
            evaluator.positions(&poses[frame % poses.len()], &mut out);
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// A character of a crowd over one posed alone, each into memory of its own: a hundred characters' vertices do not stay
/// in a cache, and that costs the same either way. And over one alone that is posed again and again in the same place.
fn crowd(evaluator: &mut Evaluator, poses: &[Vec<Affine3A>], effort: Effort) -> [f64; 2] {
    let all: Vec<Affine3A> = (0..CROWD).flat_map(|k| poses[k % poses.len()].iter().copied()).collect();
    let vertices = evaluator.vertex_count();
    let (mut out, mut room) = (vec![[0.0; 3]; vertices], vec![[0.0; 3]; CROWD * vertices]);
    let mut rooms = room.clone();
    let (mut one, mut again) = (evaluator.clone(), evaluator.clone());
    let mut alone = 0;
    let mut run_one = || {
        one.positions(&poses[alone % poses.len()], &mut rooms[alone * vertices..(alone + 1) * vertices]);
        alone = (alone + 1) % CROWD;
    };
    let mut run_again = || again.positions(&poses[0], &mut out);
    // A few characters a call, each call the next few of the hundred: short enough to be left alone by other programs,
    // and by the time a character's memory comes round again the caches have forgotten it.
    let mut next = 0;
    let bones = all.len() / CROWD;
    let mut run_crowd = || {
        let some = next * CALL..(next + 1) * CALL;
        evaluator
            .crowd(&all[some.start * bones..some.end * bones], &mut room[some.start * vertices..some.end * vertices]);
        next = (next + 1) % (CROWD / CALL);
    };
    let times = race(effort, &mut [&mut run_one, &mut run_crowd, &mut run_again]);
    [0, 2].map(|k| times[1].ratio_to(&times[k]) / CALL as f64)
}

/// What the machine allows linear blend skinning.
fn bound(vertices: usize, influences: usize, effort: Effort) -> Bound {
    // A weight (4 bytes) and a joint (2) an influence, a rest position and a result (12 each) a vertex.
    let bytes = (6 * influences + 24 * vertices) as f64;
    let floats = (bytes / 8.0) as usize;
    let (from, mut to) = (vec![1.0_f32; floats], vec![0.0_f32; floats]);
    const STEPS: usize = 4_000;
    let mut count = 0;
    let mut moved = 0;
    let mut fma = || count = probes::multiply_adds(STEPS);
    let mut stream = || moved = probes::stream(&from, &mut to);
    let times = race(Effort { rounds: effort.rounds.div_ceil(2), ..effort }, &mut [&mut fma, &mut stream]);
    let per_second = |count: u64, times: &Times| count as f64 / times.best * 1e6;
    let (multiply_adds_per_second, bytes_per_second) = (per_second(count, &times[0]), per_second(moved, &times[1]));
    let multiply_adds = (12 * influences + 9 * vertices) as f64;
    let microseconds = 1e6 * (multiply_adds / multiply_adds_per_second).max(bytes / bytes_per_second);
    Bound { multiply_adds_per_second, bytes_per_second, microseconds }
}

fn figures(model: &Model, times: &Times, cold: f64) -> Figures {
    let cost = model.cost();
    Figures {
        microseconds: times.best,
        vertices_per_second: model.character.vertex_count() as f64 / times.best * 1e6,
        bytes: cost.bytes,
        operations: cost.flops,
        p50_microseconds: times.p50,
        p99_microseconds: times.p99,
        cold_microseconds: cold,
    }
}

/// A run that cannot tell a ratio to this has met nothing by not telling.
const MOST_UNCERTAIN: f64 = 0.02;

fn targets(model: &Model, report: &Report, hot: &[Times]) -> Vec<Target> {
    let slack = 1.0 + report.uncertainty.min(MOST_UNCERTAIN);
    let at_least = |name: &str, value: f64, limit: f64| Target {
        name: name.into(),
        value,
        limit,
        at_least: true,
        met: value * slack >= limit,
    };
    let at_most = |name: &str, value: f64, limit: f64| Target {
        name: name.into(),
        value,
        limit,
        at_least: false,
        met: value <= limit * slack,
    };
    let mut targets = Vec::new();
    if let Some(plain) = hot.get(PLAIN) {
        targets.push(at_least("ssd: times the plain loop's speed", plain.ratio_to(&hot[1]), 1.5));
    }
    targets.push(at_least(
        "ssd: share of the attainable bound",
        report.bound.microseconds / report.ssd.microseconds,
        0.7,
    ));
    match &model.deformer {
        // The thesis is within twice; on a large mesh the prediction hardly shows.
        Deformer::RotationalRegression(_) => {
            let limit = if report.vertices >= 10_000 { 1.15 } else { 1.5 };
            targets.push(at_most("rr: time over ssd", report.ratio_to_ssd, limit));
        }
        Deformer::AnimationSpace(_) => targets.push(at_most("as: time over ssd", report.ratio_to_ssd, 1.0)),
        Deformer::MultiWeight(_) => targets.push(at_most("mwe: time over ssd", report.ratio_to_ssd, 2.5)),
        _ => {}
    }
    targets.push(at_most("palette normals: time over positions only", report.palette_normals_ratio, 1.6));
    targets.push(at_most("crowd of 100: a character over one alone", report.crowd_ratio, 1.1));
    targets
}
