//! How far vertices leave the mesh: what shows when a model is posed where there is no truth to compare with.
//!
//! Two lengths a vertex. It **strays** by its distance from the nearest of the places where a single bone would carry it,
//! `min_b ‖v − T_b v̂‖`: a skin follows its skeleton, and a vertex that no bone would carry to where it is has left it. It
//! **spikes** by its distance from the centroid of its neighbours, over their mean distance at rest: next to nil on a
//! smooth surface, whatever the pose, and one where a vertex sticks out as far as its neighbours are away.

use glam::{DAffine3, DVec3};
use sinew_examples::{Examples, Pose};

/// How far each vertex strays in a pose, in units of length, (V). `transforms` are the bones' `T_b`, (J); `rest` and
/// `posed` are (V).
#[must_use]
pub fn strays(rest: &[DVec3], transforms: &[DAffine3], posed: &[DVec3]) -> Vec<f64> {
    let nearest = |(v, at): (&DVec3, &DVec3)| {
        transforms.iter().map(|t| t.transform_point3(*v).distance(*at)).fold(f64::INFINITY, f64::min)
    };
    rest.iter().zip(posed).map(nearest).collect()
}

/// How far each vertex spikes in a pose, in mean distances of its neighbours at rest, (V). Nil for vertices without
/// triangles, and where the neighbours lie upon each other.
#[must_use]
pub fn spikes(rest: &[DVec3], posed: &[DVec3], triangles: &[[u32; 3]]) -> Vec<f64> {
    // Each neighbour counts once a triangle; on a closed surface that is twice.
    let mut rings: Vec<(f64, f64, DVec3)> = vec![(0.0, 0.0, DVec3::ZERO); rest.len()];
    for corner in triangles.iter().flat_map(|&[a, b, c]| [[a, b, c], [b, c, a], [c, a, b]]) {
        let [v, others @ ..] = corner.map(|v| v as usize);
        for u in others {
            let (count, length, sum) = &mut rings[v];
            *count += 1.0;
            *length += rest[v].distance(rest[u]);
            *sum += posed[u];
        }
    }
    let spike = |((count, length, sum), &at): (&(f64, f64, DVec3), &DVec3)| {
        if *length > 0.0 { at.distance(*sum / *count) / (length / count) } else { 0.0 }
    };
    rings.iter().zip(posed).map(spike).collect()
}

/// The farthest stray in a pose, percent of the diagonal, and the farthest spike beyond what the vertex does at rest.
/// `posed` is (V).
#[must_use]
pub fn farthest(examples: &Examples, pose: &Pose, posed: &[DVec3]) -> [f64; 2] {
    let (rest, triangles) = (examples.mesh().vertices(), examples.mesh().triangles());
    let bones = pose.globals.iter().zip(examples.skeleton().bones());
    let carried: Vec<DAffine3> = bones.map(|(&g, bone)| g * bone.rest.inverse()).collect();
    let stray = strays(rest, &carried, posed).into_iter().fold(0.0, f64::max);
    let still = spikes(rest, rest, triangles);
    let beyond = spikes(rest, posed, triangles).into_iter().zip(still).map(|(posed, still)| posed - still);
    [100.0 * stray / examples.mesh().diagonal(), beyond.fold(0.0, f64::max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vertex_strays_from_the_nearest_bone() {
        let transforms = [DAffine3::IDENTITY, DAffine3::from_translation(DVec3::X)];
        let found = strays(&[DVec3::ZERO, DVec3::Y], &transforms, &[DVec3::X * 0.25, DVec3::new(1.0, 1.5, 0.0)]);
        assert_eq!(found, [0.25, 0.5]);
    }

    #[test]
    fn a_vertex_pulled_out_of_a_flat_ring_spikes_by_how_far() {
        // Four neighbours at distance one around the origin.
        let rest = [DVec3::ZERO, DVec3::X, DVec3::Y, -DVec3::X, -DVec3::Y];
        let triangles = [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1]];
        let mut posed = rest;
        assert_eq!(spikes(&rest, &posed, &triangles)[0], 0.0);
        posed[0].z = 3.0;
        assert_eq!(spikes(&rest, &posed, &triangles)[0], 3.0);
    }
}
