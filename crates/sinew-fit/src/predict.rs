//! A model's own predictions on the poses it was fitted to, in f32 as the run time makes them.

use glam::{Affine3A, DAffine3, DVec3, Vec3};
use rayon::prelude::*;
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

/// The proxy bones' transforms from the rest mesh to the posed one, both in the root's frame, for every training pose, (N)(P);
/// `count` is P.
#[must_use]
pub fn proxy_transforms(model: &Model, training: &Training, count: usize) -> Vec<Vec<DAffine3>> {
    let rest_frame = training.skeleton.rest_root_frame();
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    let pose = |transforms: &Vec<DAffine3>| {
        evaluator.positions(&globals(training, transforms), &mut positions);
        evaluator.palette().take(count).map(|t| wide(t) * rest_frame).collect()
    };
    training.transforms.iter().map(pose).collect()
}

fn wide(t: Affine3A) -> DAffine3 {
    DAffine3 { matrix3: glam::Mat3::from(t.matrix3).as_dmat3(), translation: Vec3::from(t.translation).as_dvec3() }
}

/// The mean of several models' [`poses`].
pub(crate) fn mean_poses(models: &[Model], training: &Training, transforms: &[Vec<DAffine3>]) -> Vec<Vec<DVec3>> {
    let each = |model: &Model| poses(model, training, transforms.iter().map(Vec::as_slice));
    let [first, others @ ..] = models else { return Vec::new() };
    let mut mean = each(first);
    for other in others {
        for (sum, vertex) in mean.iter_mut().flatten().zip(each(other).into_iter().flatten()) {
            *sum += vertex;
        }
    }
    mean.iter_mut().flatten().for_each(|sum| *sum /= models.len() as f64);
    mean
}

/// Vertices in the root's frame for poses given by their `T_b` in the root's frame, (J) each.
pub(crate) fn poses<'a>(
    model: &Model,
    training: &Training,
    transforms: impl Iterator<Item = &'a [DAffine3]>,
) -> Vec<Vec<DVec3>> {
    let evaluator = Evaluator::new(model);
    let scratch = || (evaluator.clone(), vec![[0.0; 3]; model.character.vertex_count()]);
    let draw = |(evaluator, positions): &mut (Evaluator, Vec<[f32; 3]>), pose: &[DAffine3]| {
        evaluator.positions(&globals(training, pose), positions);
        positions.iter().map(|&p| Vec3::from(p).as_dvec3()).collect()
    };
    transforms.collect::<Vec<_>>().into_par_iter().map_init(scratch, draw).collect()
}

/// Global bone transforms, (J), with the root's posed frame at the origin: `G_b = T_b F̂⁻¹ Ĝ_b`.
#[must_use]
pub fn globals(training: &Training, transforms: &[DAffine3]) -> Vec<Affine3A> {
    let to_root = training.skeleton.rest_root_frame().inverse();
    let bones = transforms.iter().zip(training.skeleton.bones());
    bones.map(|(&t, bone)| to_model::transform(t * to_root * bone.rest)).collect()
}
