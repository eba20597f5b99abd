//! A model's own predictions on the poses it was fitted to, in f32 as the run time makes them.

use glam::{Affine3A, DAffine3, DVec3, Vec3};
use sinew_runtime::{Evaluator, Model};

use crate::{Training, to_model};

/// Vertices in the root's frame for every training pose, (N)(V).
#[must_use]
pub fn training_poses(model: &Model, training: &Training) -> Vec<Vec<DVec3>> {
    poses(model, training, training.transforms.iter().map(Vec::as_slice))
}

/// Vertices in the root's frame for the rest pose, (V).
#[must_use]
pub fn rest_pose(model: &Model, training: &Training) -> Vec<DVec3> {
    let rest = vec![DAffine3::IDENTITY; training.bone_count()];
    poses(model, training, std::iter::once(&rest[..])).remove(0)
}

/// Vertices in the root's frame for poses given by their `T_b` in the root's frame, (J) each.
fn poses<'a>(model: &Model, training: &Training, transforms: impl Iterator<Item = &'a [DAffine3]>) -> Vec<Vec<DVec3>> {
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    transforms
        .map(|pose| {
            evaluator.positions(&globals(training, pose), &mut positions);
            positions.iter().map(|&p| Vec3::from(p).as_dvec3()).collect()
        })
        .collect()
}

/// Global bone transforms, (J), with the root's posed frame at the origin: `G_b = T_b F̂⁻¹ Ĝ_b`.
#[must_use]
pub fn globals(training: &Training, transforms: &[DAffine3]) -> Vec<Affine3A> {
    let to_root = training.skeleton.rest_root_frame().inverse();
    let bones = transforms.iter().zip(training.skeleton.bones());
    bones.map(|(&t, bone)| to_model::transform(t * to_root * bone.rest)).collect()
}
