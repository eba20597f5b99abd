//! Learn a skin from examples and measure it on poses that trained nothing.
//!
//!     cargo run --release -p sinew --example fit_and_measure

use glam::{DAffine3, DVec3};
use sinew_examples::datasets::DATASETS;
use sinew_fit::{Method, Quiet, Training, fit, to_model};
use sinew_runtime::Evaluator;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Examples: frames of (skeleton pose, mesh). Yours come from `sinew_io::npz::read` or `Examples::new`.
    let arm = DATASETS.iter().find(|set| set.name == "arm").ok_or("no such data set")?;
    let examples = arm.make();

    // Fit to the training frames.
    let training = Training::new(&examples, &examples.split().train)?;
    let method = Method::by_name("ssd").ok_or("no such method")?;
    let fitted = fit(&training, &method, &Quiet)?;
    for warning in &fitted.report.warnings {
        println!("warning: {warning}");
    }

    // Evaluate on the unseen ones.
    let frames = &examples.split().test;
    let mut evaluator = Evaluator::new(&fitted.model);
    let mut positions = vec![[0.0_f32; 3]; examples.mesh().vertex_count()];
    let mut predicted = Vec::new();
    for &e in frames {
        let pose: Vec<_> = examples.pose(e).globals.iter().map(|&global| to_model::transform(global)).collect();
        evaluator.positions(&pose, &mut positions);
        predicted.push(positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect::<Vec<DVec3>>());
    }

    // Measure.
    let truth: Vec<&[DVec3]> = frames.iter().map(|&e| examples.vertices(e)).collect();
    let bones = examples.skeleton().bones();
    let transforms: Vec<Vec<DAffine3>> = frames
        .iter()
        .map(|&e| bones.iter().zip(&examples.pose(e).globals).map(|(bone, &g)| g * bone.rest.inverse()).collect())
        .collect();
    let measures = sinew_measure::measure(examples.mesh(), &transforms, &truth, &predicted);
    println!("{} on {} unseen poses: {:.1} % EE", method.name(), measures.frames, measures.ee_percent);
    Ok(())
}
