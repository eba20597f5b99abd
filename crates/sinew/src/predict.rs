//! A model on the frames of examples.

use glam::{DAffine3, DVec3};
use sinew_examples::Examples;
use sinew_measure::{Details, EnvelopingError, Measures, PositionErrors, best_rigid_error};
use sinew_runtime::{Evaluator, Model};

/// The model's vertices in each of `frames`, (N)(V).
pub fn predict(model: &Model, examples: &Examples, frames: &[usize]) -> anyhow::Result<Vec<Vec<DVec3>>> {
    check_same_character(model, examples)?;
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    let mut frame = |e: usize| {
        let pose: Vec<_> = examples.pose(e).globals.iter().map(|&g| sinew_fit::to_model::transform(g)).collect();
        evaluator.positions(&pose, &mut positions);
        positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect()
    };
    Ok(frames.iter().map(|&e| frame(e)).collect())
}

/// The model's errors over `frames`.
pub fn measure(model: &Model, examples: &Examples, frames: &[usize]) -> anyhow::Result<Measures> {
    let predicted = predict(model, examples, frames)?;
    let truth: Vec<&[DVec3]> = frames.iter().map(|&e| examples.vertices(e)).collect();
    let transforms: Vec<Vec<DAffine3>> = frames.iter().map(|&e| world_transforms(examples, e)).collect();
    Ok(sinew_measure::measure(examples.mesh(), &transforms, &truth, &predicted))
}

/// The model's errors over `frames` in every measure there is; slower than [`measure`].
pub fn details(model: &Model, examples: &Examples, frames: &[usize]) -> anyhow::Result<Details> {
    let predicted = predict(model, examples, frames)?;
    let truth: Vec<&[DVec3]> = frames.iter().map(|&e| examples.vertices(e)).collect();
    Ok(sinew_measure::details(examples.mesh(), rigid_error(examples, frames), &truth, &predicted))
}

/// The enveloping error of the best possible transforms of the model's proxy bones, percent; `None` if it has none.
pub fn limit_percent(model: &Model, examples: &Examples, frames: &[usize]) -> Option<f64> {
    let best = sinew_fit::limit::limit(model, examples, frames)?;
    let truth: Vec<&[DVec3]> = frames.iter().map(|&e| examples.vertices(e)).collect();
    let squared_error = PositionErrors::new(&truth, &best).squared_sum();
    Some(EnvelopingError { squared_error, rigid_squared_error: rigid_error(examples, frames) }.percent())
}

/// The best rigid binding's squared error over `frames`.
fn rigid_error(examples: &Examples, frames: &[usize]) -> f64 {
    let truth: Vec<&[DVec3]> = frames.iter().map(|&e| examples.vertices(e)).collect();
    let transforms: Vec<Vec<DAffine3>> = frames.iter().map(|&e| world_transforms(examples, e)).collect();
    best_rigid_error(examples.mesh().vertices(), &transforms, &truth)
}

/// `G_b Ĝ_b⁻¹`, (J).
fn world_transforms(examples: &Examples, e: usize) -> Vec<DAffine3> {
    let bones = examples.skeleton().bones().iter();
    bones.zip(&examples.pose(e).globals).map(|(bone, &global)| global * bone.rest.inverse()).collect()
}

/// Refuses examples of another character.
pub fn check_same_character(model: &Model, examples: &Examples) -> anyhow::Result<()> {
    let (vertices, bones) = (model.character.vertex_count(), model.character.bones.len());
    let (found_vertices, found_bones) = (examples.mesh().vertex_count(), examples.skeleton().bone_count());
    anyhow::ensure!(
        vertices == found_vertices && bones == found_bones,
        "the model was made for {vertices} vertices and {bones} bones, the examples have {found_vertices} and {found_bones}"
    );
    let pairs = model.character.bones.iter().zip(examples.skeleton().bones());
    for (b, (of_model, of_examples)) in pairs.enumerate() {
        anyhow::ensure!(
            of_model.name == of_examples.name,
            "bone {b} is `{}` in the model and `{}` in the examples; they are not the same skeleton",
            of_model.name,
            of_examples.name
        );
    }
    Ok(())
}
