//! Every measure of one prediction, for reports.

use glam::DVec3;
use serde::Serialize;
use sinew_examples::Mesh;

use crate::{Measures, kg_percent, measure_over, spread_percent, sted, surface_distance, vertex_rms, volume_change};

/// Surface distances are looked up in at most this many frames, evenly chosen: each vertex costs microseconds.
pub const SURFACE_FRAMES: usize = 10;

/// The usual measures and the slower ones. Percentages are of the rest bounding box's diagonal unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Details {
    /// The usual measures.
    #[serde(flatten)]
    pub measures: Measures,
    /// Standard deviation of the vertices' errors, percent of the best rigid binding's error.
    pub spread_percent: f64,
    /// KG error, percent of the shape's extent.
    pub kg_percent: f64,
    /// Mean distance of predicted vertices from the true surface.
    pub surface_mean_percent: f64,
    /// Hausdorff distance between the surfaces, at the vertices.
    pub hausdorff_percent: f64,
    /// In how many frames the surfaces were compared.
    pub surface_frames: usize,
    /// Mean absolute change of volume, percent of the true volume.
    pub volume_mean_percent: f64,
    /// The largest change of volume with its sign, percent of the true volume.
    pub volume_worst_percent: f64,
    /// STED, no unit.
    pub sted: f64,
    /// STED's spatial part.
    pub sted_spatial: f64,
    /// STED's temporal part.
    pub sted_temporal: f64,
}

/// Measures `predicted` (N)(V) against `truth` (N)(V) in every way; `rigid` is the best rigid binding's squared error
/// on the same frames ([`crate::best_rigid_error`]).
#[must_use]
pub fn details(mesh: &Mesh, rigid: f64, truth: &[&[DVec3]], predicted: &[Vec<DVec3>]) -> Details {
    let (triangles, percent) = (mesh.triangles(), 100.0 / mesh.diagonal());
    let chosen = evenly(truth.len(), SURFACE_FRAMES);
    let chosen_truth: Vec<&[DVec3]> = chosen.iter().map(|&e| truth[e]).collect();
    let chosen_predicted: Vec<Vec<DVec3>> = chosen.iter().map(|&e| predicted[e].clone()).collect();
    let surface = surface_distance(&chosen_truth, &chosen_predicted, triangles);
    let volume = volume_change(truth, predicted, triangles);
    let sted = sted(truth, predicted, triangles, mesh.diagonal());
    Details {
        measures: measure_over(mesh, rigid, truth, predicted),
        spread_percent: spread_percent(&vertex_rms(truth, predicted), rigid, truth.len()),
        kg_percent: kg_percent(truth, predicted),
        surface_mean_percent: percent * surface.mean,
        hausdorff_percent: percent * surface.hausdorff,
        surface_frames: chosen.len(),
        volume_mean_percent: volume.mean_percent,
        volume_worst_percent: volume.worst_percent,
        sted: sted.total,
        sted_spatial: sted.spatial,
        sted_temporal: sted.temporal,
    }
}

/// At most `most` of `count` indices, the middles of equal stretches: key frames that are spaced from the first frame to
/// the last, as training frames often are, are then not the only ones that are looked at.
fn evenly(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|k| (2 * k + 1) * count / (2 * most)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_chosen_from_the_middles_of_equal_stretches() {
        assert_eq!(evenly(3, 10), [0, 1, 2]);
        assert_eq!(evenly(100, 4), [12, 37, 62, 87]);
    }

    #[test]
    fn a_perfect_prediction_has_no_error_in_any_measure() {
        let corners = vec![DVec3::ZERO, DVec3::X, DVec3::Y, DVec3::Z];
        let faces = vec![[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]];
        let mesh = Mesh::new(corners.clone(), faces, None, None).unwrap();
        let moved: Vec<DVec3> = corners.iter().map(|&p| p * 1.5).collect();
        let found = details(&mesh, 1.0, &[&moved], std::slice::from_ref(&moved));
        let value = serde_json::to_value(found).unwrap();
        for (name, value) in value.as_object().unwrap() {
            if !["frames", "surface_frames", "e_rms_normaliser"].contains(&name.as_str()) {
                // 1e-5: the surface search is in f32, in percent.
                assert!(value.as_f64().unwrap().abs() < 1e-5, "{name} is {value}");
            }
        }
    }
}
