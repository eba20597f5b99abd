//! How models behave beyond the range of their examples:
//!
//!     cargo run --release -p sinew --example beyond_range -- EXAMPLES MODEL…
//!
//! Every training pose is taken with all its joints turned 1, 1.5, 2 and 3 times as far. Printed for each model: how far the
//! farthest vertex strays from every place where a bone would carry it (percent of the diagonal), and how far it spikes out
//! of its neighbours beyond what it does at rest (in their distances there). EXAMPLES may name a built-in data set, which knows
//! its mesh there: then also how far the farthest vertex is from where it truly is (percent of the diagonal), and what the mesh
//! itself does. The last line is what the examples do.

use glam::{DVec3, Vec3};
use sinew_examples::datasets::DatasetInfo;
use sinew_examples::{Examples, Pose, datasets};
use sinew_fit::to_model;
use sinew_measure::farthest;
use sinew_runtime::{Evaluator, Model};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FACTORS: [f64; 4] = [1.0, 1.5, 2.0, 3.0];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, models @ ..] = &arguments[..] else { return Err("EXAMPLES MODEL…".into()) };
    let built_in = datasets::by_name(data);
    let examples = match built_in {
        Some(set) => set.make(),
        None => read(data)?,
    };
    let there = FACTORS.map(|factor| Beyond::new(&examples, built_in, factor));
    println!(
        "{data} at {FACTORS:?} times the range: stray %, spike in neighbours' distances, and how far from the truth %"
    );
    for path in models {
        let model = Model::from_bytes(&std::fs::read(path)?)?;
        let cells: Vec<String> = there.iter().map(|beyond| beyond.drawn(&examples, &model)).collect();
        println!("{:40} {}", path.rsplit('/').next().unwrap_or(path), cells.join("   "));
    }
    if built_in.is_some() {
        let cells: Vec<String> = there.iter().map(|beyond| beyond.truly(&examples)).collect();
        println!("{:40} {}", "the mesh itself", cells.join("   "));
    }
    let found = examples.split().train.iter().map(|&e| farthest(&examples, examples.pose(e), examples.vertices(e)));
    let [stray, spike] = found.fold([0.0; 2], most);
    println!("{:40} {stray:6.2} {spike:6.2}", "the examples");
    Ok(())
}

fn read(data: &str) -> Result<Examples> {
    match sinew_io::npz::read(std::path::Path::new(data))? {
        sinew_io::Loaded::Examples(examples) => Ok(*examples),
        _ => Err(format!("{data} has no skeleton").into()),
    }
}

/// Training poses turned farther, and the mesh there if it is known.
struct Beyond {
    poses: Vec<Pose>,
    truth: Option<Vec<Vec<DVec3>>>,
}

impl Beyond {
    fn new(examples: &Examples, built_in: Option<&DatasetInfo>, factor: f64) -> Self {
        let train = examples.split().train.iter();
        let Some(set) = built_in else {
            let poses = train.map(|&e| examples.skeleton().turned_farther(examples.pose(e), factor)).collect();
            return Self { poses, truth: None };
        };
        let truth = set.turned_farther(factor);
        let meshes = train.clone().map(|&e| truth.vertices(e).to_vec()).collect();
        Self { poses: train.map(|&e| truth.pose(e).clone()).collect(), truth: Some(meshes) }
    }

    /// What a model does.
    fn drawn(&self, examples: &Examples, model: &Model) -> String {
        let mut evaluator = Evaluator::new(model);
        let mut positions = vec![[0.0_f32; 3]; model.character.vertex_count()];
        let (mut found, mut wrong) = ([0.0; 2], 0.0_f64);
        for (k, pose) in self.poses.iter().enumerate() {
            let globals: Vec<_> = pose.globals.iter().map(|&g| to_model::transform(g)).collect();
            evaluator.positions(&globals, &mut positions);
            let posed: Vec<DVec3> = positions.iter().map(|&p| Vec3::from(p).as_dvec3()).collect();
            found = most(found, farthest(examples, pose, &posed));
            let truth = self.truth.as_ref().map_or(&posed, |truth| &truth[k]);
            wrong = posed.iter().zip(truth).map(|(a, b)| a.distance(*b)).fold(wrong, f64::max);
        }
        let cell = format!("{:6.2} {:6.2}", found[0], found[1]);
        match &self.truth {
            Some(_) => format!("{cell} {:6.2}", 100.0 * wrong / examples.mesh().diagonal()),
            None => cell,
        }
    }

    /// What the mesh itself does.
    fn truly(&self, examples: &Examples) -> String {
        let meshes = self.poses.iter().zip(self.truth.iter().flatten());
        let [stray, spike] = meshes.map(|(pose, mesh)| farthest(examples, pose, mesh)).fold([0.0; 2], most);
        format!("{stray:6.2} {spike:6.2}   0.00")
    }
}

fn most(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0].max(b[0]), a[1].max(b[1])]
}
