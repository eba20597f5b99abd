//! Registers drawn anew whose vertices stick out beyond the trained ranges (ours).
//!
//! A pose beyond the ranges is drawn as its corner, the nearest pose within them, and carried on. Corners are seen while points are
//! fitted, but count little there, and a few registers draw them badly. These see them again, ever heavier, with a vertex no
//! farther out of its neighbours than is allowed, and with another entry each time.

use glam::DVec3;

use super::points::{Drawing, Drawn};
use crate::Training;
use crate::correct::farther::{Allowed, Spikes};

/// How many times as much corners count, and how far out of its neighbours a vertex of a corner is left, of what is allowed (carrying
/// it on adds to that), one after the other.
const ROUNDS: [(f64, f64); 4] = [(8.0, 0.8), (32.0, 0.5), (128.0, 0.2), (512.0, 0.0)];

/// Registers that are drawn anew so that vertices stick out no farther than with linear blend skinning, at most one of so many: where
/// more do, the examples do too, and their shape would be lost.
const ONE_OF: usize = 50;

/// Draws registers anew until no vertex sticks out farther than is allowed, or all was tried. The last `corners` of the poses are
/// corners; `sticking_out` says how far each vertex (V) sticks out beyond the ranges if it is drawn so.
pub fn hold(
    drawing: &Drawing,
    corners: usize,
    spikes: &Spikes,
    allowed: Allowed,
    drawn: &mut [Drawn],
    sticking_out: impl Fn(&[Drawn]) -> Vec<f64>,
) {
    let mut tried = 0;
    for (aim, registers) in [(allowed.examples, drawn.len()), (allowed.skinned, drawn.len() / ONE_OF)] {
        while let Some(&(heavier, left)) = ROUNDS.get(tried) {
            let out = sticking_out(drawn);
            let sticks_out = |register: &Drawn| register.vertices.iter().any(|(v, _)| out[*v] > aim);
            let places: Vec<usize> = (0..drawn.len()).filter(|&r| sticks_out(&drawn[r])).collect();
            if places.is_empty() || places.len() > registers {
                break;
            }
            let vertices = |r: &usize| drawn[*r].vertices.iter().map(|(v, _)| *v).collect();
            let together: Vec<Vec<usize>> = places.iter().map(vertices).collect();
            let poses = weighed(drawing.poses, corners, heavier, spikes, left * aim);
            let pursued = Drawing { poses: &poses, ..*drawing }.pursue(&together);
            for (r, register) in places.into_iter().zip(pursued) {
                drawn[r] = register.drawn(drawn[r].entries.len() + usize::from(tried > 0));
            }
            tried += 1;
        }
    }
}

/// `poses`, whose last are corners: these count more, and no vertex of them sticks out farther than `most`.
fn weighed(poses: &Training, corners: usize, heavier: f64, spikes: &Spikes, most: f64) -> Training {
    let first = poses.pose_count() - corners;
    let mut poses = poses.clone();
    poses.pose_weights[first..].iter_mut().for_each(|weight| *weight *= heavier);
    for vertices in &mut poses.vertices[first..] {
        let held: Vec<DVec3> = (0..vertices.len()).map(|v| spikes.held(vertices, v, most)).collect();
        *vertices = held;
    }
    poses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::topology::Topology;
    use glam::DAffine3;
    use sinew_examples::datasets;
    use sinew_runtime::REGISTER;

    #[test]
    fn only_what_sticks_out_is_drawn_anew() {
        let examples = datasets::by_name("shoulder").unwrap().make();
        let poses = Training::new(&examples, &examples.split().train).unwrap();
        let topology = Topology::new(poses.vertex_count(), poses.mesh.triangles());
        let spikes = Spikes::new(&poses, &topology);
        // Two proxies, as the first two bones.
        let proxies: Vec<Vec<DAffine3>> = poses.transforms.iter().map(|bones| bones[..2].to_vec()).collect();
        let count = poses.vertex_count();
        let (candidates, carriers) = (vec![vec![0, 1]; count], vec![0; count]);
        let drawing =
            Drawing { poses: &poses, proxies: &proxies, candidates: &candidates, carriers: &carriers, width: 2 };
        let rows: Vec<Vec<usize>> = (0..count).collect::<Vec<_>>().chunks(REGISTER).map(<[usize]>::to_vec).collect();
        let first: Vec<Drawn> = drawing.pursue(&rows).iter().map(|register| register.drawn(1)).collect();
        let allowed = Allowed { skinned: 1.0, examples: 2.0, most: 2.0 };
        let held = |sticks: &dyn Fn(usize) -> f64, until: usize| {
            let mut drawn = first.clone();
            let sticking_out = |drawn: &[Drawn]| {
                let entries = |r: usize| drawn[r].entries.len();
                (0..count).map(|v| if entries(v / REGISTER) < until { sticks(v) } else { 0.0 }).collect()
            };
            hold(&drawing, 3, &spikes, allowed, &mut drawn, sticking_out);
            (0..drawn.len()).filter(|&r| drawn[r] != first[r]).map(|r| (r, drawn[r].entries.len())).collect::<Vec<_>>()
        };
        assert_eq!(held(&|_| 0.9, 2), []);
        // Another entry the second time.
        assert_eq!(held(&|v| if v == 100 { 1.5 } else { 0.0 }, 2), [(100 / REGISTER, 2)]);
        // Where every other register sticks out farther than with skinning, the examples do: only what exceeds these is held.
        let every_other = |far: f64| move |v: usize| if (v / REGISTER).is_multiple_of(2) { far } else { 0.0 };
        assert_eq!(held(&every_other(1.5), 2), []);
        assert_eq!(held(&every_other(2.5), 2).len(), first.len().div_ceil(2));
    }

    #[test]
    fn corners_count_more_and_stick_out_no_more() {
        let examples = datasets::by_name("bar").unwrap().make();
        let mut poses = Training::new(&examples, &examples.split().train).unwrap();
        let topology = Topology::new(poses.vertex_count(), poses.mesh.triangles());
        let last = poses.pose_count() - 1;
        poses.vertices[last][40] += DVec3::splat(poses.diagonal);
        let spikes = Spikes::new(&poses, &topology);
        let weighed = weighed(&poses, 1, 8.0, &spikes, 0.5);
        assert_eq!(weighed.pose_weights[last], 8.0 * poses.pose_weights[last]);
        assert_eq!(weighed.pose_weights[..last], poses.pose_weights[..last]);
        assert_eq!(weighed.vertices[..last], poses.vertices[..last]);
        let moved = weighed.vertices[last][40].distance(poses.vertices[last][40]);
        assert!(moved > 0.9 * poses.diagonal, "the vertex that was pulled out came back by {moved} m only");
    }
}
