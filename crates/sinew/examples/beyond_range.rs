//! How models behave beyond the range of their examples:
//!
//!     cargo run --release -p sinew --example beyond_range -- EXAMPLES MODEL…
//!
//! Every training pose is taken with all its joints turned 1, 1.5, 2 and 3 times as far. Printed for each model: how far the
//! farthest vertex strays from every place where a bone would carry it (percent of the diagonal), and how far it spikes out
//! of its neighbours beyond what it does at rest (in their distances there). The last line is what the examples themselves do.

use glam::{DAffine3, DQuat, DVec3, Vec3};
use sinew_examples::{Examples, Pose, datasets};
use sinew_fit::to_model;
use sinew_measure::{spikes, strays};
use sinew_runtime::{Evaluator, Model};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FACTORS: [f64; 4] = [1.0, 1.5, 2.0, 3.0];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, models @ ..] = &arguments[..] else { return Err("EXAMPLES MODEL…".into()) };
    let examples = read(data)?;
    println!("{data}: stray percent of the diagonal, spike in neighbours' distances, at {FACTORS:?} times the range");
    for path in models {
        let model = Model::from_bytes(&std::fs::read(path)?)?;
        let cells: Vec<String> = FACTORS.iter().map(|&factor| cell(&examples, &model, factor)).collect();
        println!("{:40} {}", path.rsplit('/').next().unwrap_or(path), cells.join("  "));
    }
    let truth = examples.split().train.iter().map(|&e| worst(&examples, examples.pose(e), examples.vertices(e)));
    let (stray, spike) = truth.fold((0.0, 0.0), |a: (f64, f64), b| (a.0.max(b.0), a.1.max(b.1)));
    println!("{:40} {stray:6.2} {spike:6.2}", "the examples");
    Ok(())
}

fn read(data: &str) -> Result<Examples> {
    if let Some(built_in) = datasets::by_name(data) {
        return Ok((built_in.make)());
    }
    match sinew_io::npz::read(std::path::Path::new(data))? {
        sinew_io::Loaded::Examples(examples) => Ok(*examples),
        _ => Err(format!("{data} has no skeleton").into()),
    }
}

/// The farthest stray and spike over the training poses turned `factor` times as far.
fn cell(examples: &Examples, model: &Model, factor: f64) -> String {
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0_f32; 3]; model.character.vertex_count()];
    let mut most = (0.0_f64, 0.0_f64);
    for &e in &examples.split().train {
        let pose = turned(examples, examples.pose(e), factor);
        let globals: Vec<_> = pose.globals.iter().map(|&g| to_model::transform(g)).collect();
        evaluator.positions(&globals, &mut positions);
        let posed: Vec<DVec3> = positions.iter().map(|&p| Vec3::from(p).as_dvec3()).collect();
        let (stray, spike) = worst(examples, &pose, &posed);
        most = (most.0.max(stray), most.1.max(spike));
    }
    format!("{:6.2} {:6.2}", most.0, most.1)
}

fn worst(examples: &Examples, pose: &Pose, posed: &[DVec3]) -> (f64, f64) {
    let bones = pose.globals.iter().zip(examples.skeleton().bones());
    let transforms: Vec<DAffine3> = bones.map(|(&g, bone)| g * bone.rest.inverse()).collect();
    let rest = examples.mesh().vertices();
    let stray = strays(rest, &transforms, posed).into_iter().fold(0.0, f64::max);
    let triangles = examples.mesh().triangles();
    let still = spikes(rest, rest, triangles);
    let spike =
        spikes(rest, posed, triangles).iter().zip(still).map(|(posed, still)| posed - still).fold(0.0, f64::max);
    (100.0 * stray / examples.mesh().diagonal(), spike)
}

/// `pose` with every joint turned `factor` times as far from rest.
fn turned(examples: &Examples, pose: &Pose, factor: f64) -> Pose {
    let skeleton = examples.skeleton();
    let bones = skeleton.bones();
    let mut globals = pose.globals.clone();
    let mut done = vec![false; bones.len()];
    done[skeleton.root()] = true;
    while let Some(b) = (0..bones.len()).find(|&b| !done[b] && done[skeleton.parent(b)]) {
        let parent = skeleton.parent(b);
        let local = pose.globals[parent].inverse() * pose.globals[b];
        let rest = bones[parent].rest.inverse() * bones[b].rest;
        let turn = DQuat::from_mat3(&(rest.matrix3.inverse() * local.matrix3)).normalize();
        let turn = DQuat::from_scaled_axis(turn.to_scaled_axis() * factor);
        let still = DAffine3 { matrix3: rest.matrix3, translation: local.translation };
        globals[b] = globals[parent] * still * DAffine3::from_quat(turn);
        done[b] = true;
    }
    Pose { globals }
}
