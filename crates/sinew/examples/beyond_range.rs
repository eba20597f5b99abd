//! How models behave beyond the range of their examples:
//!
//!     cargo run --release -p sinew --example beyond_range -- EXAMPLES MODEL…
//!
//! Every training pose is taken with all its joints turned 1, 1.5, 2 and 3 times as far. Printed for each model: how far the
//! farthest vertex strays from every place where a bone would carry it (percent of the diagonal), and how far it spikes out
//! of its neighbours beyond what it does at rest (in their distances there). The last line is what the examples themselves do.

use glam::{DVec3, Vec3};
use sinew_examples::{Examples, datasets};
use sinew_fit::to_model;
use sinew_measure::farthest;
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
    if let Some(built_in) = datasets::by_name(data) {
        let truths = FACTORS.map(|factor| built_in.turned_farther(factor));
        for path in models {
            let model = Model::from_bytes(&std::fs::read(path)?)?;
            let cells: Vec<String> = truths.iter().map(|truth| from_truth(truth, &model)).collect();
            println!("{:40} {}", path.rsplit('/').next().unwrap_or(path), cells.join("  "));
        }
    }
    let truth = examples.split().train.iter().map(|&e| farthest(&examples, examples.pose(e), examples.vertices(e)));
    let [stray, spike] = truth.fold([0.0; 2], most);
    println!("{:40} {stray:6.2} {spike:6.2}", "the examples");
    Ok(())
}

fn read(data: &str) -> Result<Examples> {
    if let Some(built_in) = datasets::by_name(data) {
        return Ok(built_in.make());
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
    let mut found = [0.0; 2];
    for &e in &examples.split().train {
        let pose = examples.skeleton().turned_farther(examples.pose(e), factor);
        let globals: Vec<_> = pose.globals.iter().map(|&g| to_model::transform(g)).collect();
        evaluator.positions(&globals, &mut positions);
        let posed: Vec<DVec3> = positions.iter().map(|&p| Vec3::from(p).as_dvec3()).collect();
        found = most(found, farthest(examples, &pose, &posed));
    }
    format!("{:6.2} {:6.2}", found[0], found[1])
}

fn from_truth(truth: &Examples, model: &Model) -> String {
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0_f32; 3]; model.character.vertex_count()];
    let (mut worst, mut sum, mut spike) = (0.0_f64, 0.0, 0.0_f64);
    for &e in &truth.split().train {
        let globals: Vec<_> = truth.pose(e).globals.iter().map(|&g| to_model::transform(g)).collect();
        evaluator.positions(&globals, &mut positions);
        for (p, t) in positions.iter().zip(truth.vertices(e)) {
            let d = Vec3::from(*p).as_dvec3().distance_squared(*t);
            worst = worst.max(d.sqrt());
            sum += d;
        }
        spike = spike.max(farthest(truth, truth.pose(e), truth.vertices(e))[1]);
    }
    let d = truth.mesh().diagonal();
    let n = (truth.split().train.len() * positions.len()) as f64;
    format!("max {:6.2} rms {:6.2} (truth spike {:.2})", 100.0 * worst / d, 100.0 * (sum / n).sqrt() / d, spike)
}

fn most(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0].max(b[0]), a[1].max(b[1])]
}
