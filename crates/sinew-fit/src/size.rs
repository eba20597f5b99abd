//! Characters in any unit, fitted at the size of a metre (ours).
//!
//! A proxy bone's 3×3 part has no unit and its translation is a length. Rotational regression solves for both at once, and
//! its small ridges, relative to the mean over both, were settled on characters of about a metre; on a character in
//! centimetres or millimetres the same ridges hold one part too fast and let the other go. So a character of
//! another size is scaled to that of a metre, by a power of two (nothing is rounded), fitted, and its model scaled back.

use std::ops::Range;

use glam::{DAffine3, DVec3};
use sinew_examples::{Bone, Skeleton};
use sinew_runtime::correction::{ProxyCorrection, VertexCorrection};
use sinew_runtime::{Correction, Deformer, Model};

use crate::{FitError, Training};

/// Diagonals that need no scaling, metres: from a hand to a horse and its rider.
const ABOUT_A_METRE: Range<f64> = 0.25..8.0;

/// What to multiply the lengths of `training` by, if it should be.
#[must_use]
pub fn factor(training: &Training) -> Option<f64> {
    let size = training.diagonal;
    let odd = !ABOUT_A_METRE.contains(&size) && size.is_normal();
    // To a diagonal between one and two. Beyond 2^±500 squares of lengths are no numbers, whatever is done.
    odd.then(|| (-size.log2().floor().clamp(-500.0, 500.0)).exp2())
}

/// `training` with every length multiplied by `factor`.
pub fn scaled(training: &Training, factor: f64) -> Result<Training, FitError> {
    let points = |points: &[DVec3]| -> Vec<DVec3> { points.iter().map(|&p| p * factor).collect() };
    let transform = |t: DAffine3| DAffine3 { translation: t.translation * factor, ..t };
    let bone = |bone: &Bone| Bone { rest: transform(bone.rest), ..bone.clone() };
    Ok(Training {
        mesh: training.mesh.with_vertices(points(training.mesh.vertices()))?,
        skeleton: Skeleton::new(training.skeleton.bones().iter().map(bone).collect())?,
        rest: points(&training.rest),
        transforms: training.transforms.iter().map(|pose| pose.iter().map(|&t| transform(t)).collect()).collect(),
        vertices: training.vertices.iter().map(|vertices| points(vertices)).collect(),
        diagonal: training.diagonal * factor,
        ..training.clone()
    })
}

/// Multiplies every length of a rotational regression by `factor`: its poses and positions are then larger by as much.
pub fn scale_model(model: &mut Model, factor: f64) {
    let factor = factor as f32;
    model.character.rest_positions.as_flattened_mut().iter_mut().for_each(|x| *x *= factor);
    model.character.bones.iter_mut().for_each(|bone| bone.rest.translation *= factor);
    if let Deformer::RotationalRegression(d) = &mut model.deformer {
        d.points.iter_mut().for_each(|h| h[..3].iter_mut().for_each(|x| *x *= factor));
        // Row 3 of a block gives a proxy's translation, column 3 multiplies a bone's.
        for block in &mut d.c1.blocks {
            block[3].iter_mut().for_each(|x| *x *= factor);
        }
        for block in &mut d.c2.blocks {
            block[3].iter_mut().for_each(|x| *x *= factor);
            block.iter_mut().for_each(|row| row[3] /= factor);
        }
    }
    match &mut model.correction {
        Some(Correction::Proxies(proxies)) => scale_proxies(proxies, factor),
        Some(Correction::Vertices(vertices)) => scale_vertices(vertices, factor),
        Some(Correction::Both(proxies, vertices)) => {
            scale_proxies(proxies, factor);
            scale_vertices(vertices, factor);
        }
        None => {}
    }
}

fn scale_proxies(correction: &mut ProxyCorrection, factor: f32) {
    for change in correction.regions.iter_mut().flat_map(|region| &mut region.components) {
        // The last of four columns.
        change[9..].iter_mut().for_each(|x| *x *= factor);
    }
}

fn scale_vertices(correction: &mut VertexCorrection, factor: f32) {
    for part in &mut correction.parts {
        part.components.as_flattened_mut().iter_mut().for_each(|x| *x *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correct::distil::Distil;
    use crate::correct::{CorrectionParams, Place};
    use crate::{Method, Quiet, fit, predict};
    use sinew_examples::datasets;

    #[test]
    fn the_unit_of_a_character_does_not_matter() {
        let examples = datasets::by_name("bar").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let metres = scaled(&training, 0.5).unwrap();
        assert_eq!((factor(&training), factor(&metres)), (None, None));
        let plain = || Method::by_name("rr").unwrap();
        let corrected = |place: Place, distil: Distil| {
            let params = CorrectionParams { distil, ..CorrectionParams::new(place) };
            Method::Corrected(Box::new(plain()), params)
        };
        let methods = [
            ("plain", plain()),
            ("proxies", corrected(Place::Proxies, Distil::Off)),
            ("vertices", corrected(Place::Vertices, Distil::Off)),
            // Drawn from points.
            ("distilled", corrected(Place::Proxies, Distil::On)),
        ];
        for (name, method) in methods {
            let drawn = |training: &Training| {
                let model = fit(training, &method, &Quiet).unwrap().model;
                predict::training_poses(&model, training)
            };
            let expected = drawn(&metres);
            for unit in [1024.0, 1.0 / 1024.0] {
                let other = scaled(&metres, unit).unwrap();
                for (there, here) in drawn(&other).iter().flatten().zip(expected.iter().flatten()) {
                    // The same numbers up to a power of two; 1e-5 of the size for f32 positions of a root that scales along.
                    let off = (*there / unit - *here).length() / metres.diagonal;
                    assert!(off < 1e-5, "{name}, unit {unit}: {off}");
                }
            }
        }
    }
}
