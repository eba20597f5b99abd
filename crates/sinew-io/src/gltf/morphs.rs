//! The frames of a glTF mesh with animated morph targets, skinned or not.

use glam::{DAffine3, DVec3};

use crate::{FileError, PointSource, VertexWeights};

/// Frames that are a base and weighted displacements, then moved as the node or its skin says.
pub(super) struct MorphFrames {
    /// (V)
    pub base: Vec<DVec3>,
    /// (targets)(V)
    pub targets: Vec<Vec<DVec3>>,
    /// (N)(targets)
    pub weights: Vec<Vec<f64>>,
    pub moved: Moved,
}

/// What becomes of the displaced points.
pub(super) enum Moved {
    /// They stand where the node is.
    ByNode(DAffine3),
    /// They follow the skin's joints: weights (V), and transforms from the bind pose, (N)(joints).
    BySkin(VertexWeights, Vec<Vec<DAffine3>>),
}

impl PointSource for MorphFrames {
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> Result<(), FileError> {
        points.clear();
        points.extend_from_slice(&self.base);
        for (target, &weight) in self.targets.iter().zip(&self.weights[frame]).filter(|(_, weight)| **weight != 0.0) {
            for (point, &displacement) in points.iter_mut().zip(target) {
                *point += weight * displacement;
            }
        }
        match &self.moved {
            Moved::ByNode(place) if *place == DAffine3::IDENTITY => {}
            Moved::ByNode(place) => points.iter_mut().for_each(|point| *point = place.transform_point3(*point)),
            Moved::BySkin(weights, transforms) => {
                for (point, weights) in points.iter_mut().zip(weights) {
                    *point = skinned(*point, weights, &transforms[frame]);
                }
            }
        }
        Ok(())
    }
}

/// Linear blend skinning of one point; one that no joint moves stays.
fn skinned(point: DVec3, weights: &[(usize, f32)], transforms: &[DAffine3]) -> DVec3 {
    let total: f64 = weights.iter().map(|&(_, weight)| f64::from(weight)).sum();
    if total <= 0.0 {
        return point;
    }
    let term = |&(joint, weight): &(usize, f32)| f64::from(weight) * transforms[joint].transform_point3(point);
    weights.iter().map(term).sum::<DVec3>() / total
}
