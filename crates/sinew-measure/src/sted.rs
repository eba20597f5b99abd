//! STED, the spatio-temporal edge difference (Váša and Skala, "A perception correlated comparison method for dynamic
//! meshes", 2011), a stand-in for viewers' ratings.
//!
//! Viewers overlook an error that neighbours share and see one that neighbours do not. So not edge lengths' changes
//! are counted, but how much they differ within a neighbourhood:
//!
//!   change of an edge in a frame        d = | ‖ŷ_i − ŷ_j‖ − ‖y_i − y_j‖ | / ‖y_i − y_j‖
//!   spatial part of vertex i, frame e   s = standard deviation of d over the edges at i, weighted by true length
//!   temporal edge of vertex i           ‖(y_i^{e+1} − y_i^e, τ)‖, the step's length in space and time; its change likewise
//!   temporal part of vertex i, frame e  t = standard deviation of these changes over a window of steps around e
//!
//!   STED = √( mean(s)² + c² mean(t)² )
//!
//! The constants are fixed here ([`TIME_STEP`], [`WINDOW`], [`TIME_WEIGHT`]): our figures compare with each other,
//! not with other programs'. Where frames are not a sequence the temporal part says little; it is also given alone.

use glam::DVec3;
use rayon::prelude::*;

/// τ, what one frame counts as in space: a fraction of the rest diagonal, about what a limb moves in a frame.
pub const TIME_STEP: f64 = 0.01;

/// Steps in a temporal window, odd: at 24 frames a second about a fifth of a second, the time a glance takes.
pub const WINDOW: usize = 5;

/// c, what a temporal deviation counts against a spatial one.
pub const TIME_WEIGHT: f64 = 1.0;

/// STED and its parts; no unit, 0 is perfect.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sted {
    /// Both together.
    pub total: f64,
    /// Mean deviation of edge changes within a vertex's neighbourhood.
    pub spatial: f64,
    /// Mean deviation of step changes within a window of time.
    pub temporal: f64,
}

/// STED of `predicted` (N)(V) against `truth` (N)(V), frames in the order of time. `diagonal` is the rest mesh's.
#[must_use]
pub fn sted(truth: &[&[DVec3]], predicted: &[Vec<DVec3>], triangles: &[[u32; 3]], diagonal: f64) -> Sted {
    let vertices = truth.first().map_or(0, |frame| frame.len());
    let neighbours = neighbours(vertices, triangles);
    let frame = |(truth, predicted): (&&[DVec3], &Vec<DVec3>)| spatial(truth, predicted, &neighbours);
    let frames: Vec<f64> = truth.par_iter().zip(predicted).map(frame).collect();
    let spatial = mean(&frames);
    let of_vertex = |v: usize| temporal(truth, predicted, v, TIME_STEP * diagonal);
    let steps: Vec<f64> = (0..vertices).into_par_iter().map(of_vertex).collect();
    let temporal = mean(&steps);
    Sted { total: spatial.hypot(TIME_WEIGHT * temporal), spatial, temporal }
}

/// The vertices joined to each vertex by an edge, in order, (V).
fn neighbours(vertices: usize, triangles: &[[u32; 3]]) -> Vec<Vec<u32>> {
    let mut neighbours = vec![Vec::new(); vertices];
    for &[a, b, c] in triangles {
        for (from, to) in [(a, b), (b, c), (c, a)] {
            neighbours[from as usize].push(to);
            neighbours[to as usize].push(from);
        }
    }
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    neighbours
}

/// Mean over the vertices of the deviation of edge changes at each.
fn spatial(truth: &[DVec3], predicted: &[DVec3], neighbours: &[Vec<u32>]) -> f64 {
    let deviations: Vec<f64> = neighbours
        .iter()
        .enumerate()
        .map(|(v, around)| {
            let edge = |&w: &u32| {
                let length = truth[v].distance(truth[w as usize]);
                (length, predicted[v].distance(predicted[w as usize]))
            };
            deviation(around.iter().map(edge))
        })
        .collect();
    mean(&deviations)
}

/// Mean over windows of time of the deviation of vertex `v`'s step changes.
fn temporal(truth: &[&[DVec3]], predicted: &[Vec<DVec3>], v: usize, time_step: f64) -> f64 {
    if truth.len() < 3 {
        return 0.0;
    }
    let step = |a: DVec3, b: DVec3| a.distance(b).hypot(time_step);
    let steps: Vec<(f64, f64)> = (0..truth.len() - 1)
        .map(|e| (step(truth[e][v], truth[e + 1][v]), step(predicted[e][v], predicted[e + 1][v])))
        .collect();
    let half = WINDOW / 2;
    let window = |e: usize| {
        let range = e.saturating_sub(half)..(e + half + 1).min(steps.len());
        deviation(steps[range].iter().copied())
    };
    mean(&(0..steps.len()).map(window).collect::<Vec<f64>>())
}

/// Standard deviation of |predicted − true| / true over (true, predicted) lengths, weighted by the true ones.
fn deviation(lengths: impl Iterator<Item = (f64, f64)>) -> f64 {
    let changes: Vec<(f64, f64)> = lengths.filter(|l| l.0 > 0.0).map(|(t, p)| (t, (p - t).abs() / t)).collect();
    let weight: f64 = changes.iter().map(|c| c.0).sum();
    if weight == 0.0 {
        return 0.0;
    }
    let mean = changes.iter().map(|c| c.0 * c.1).sum::<f64>() / weight;
    (changes.iter().map(|c| c.0 * (c.1 - mean).powi(2)).sum::<f64>() / weight).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spatial_part_by_hand() {
        // A right triangle with legs 1 and 1; the corner at X moves out to 2X. The leg doubles (change 1), the other
        // stays (0), the hypotenuse goes from √2 to √5 (change √2.5 − 1).
        let truth = [DVec3::ZERO, DVec3::X, DVec3::Y];
        let predicted = vec![vec![DVec3::ZERO, DVec3::X * 2.0, DVec3::Y]];
        let long = 2.5_f64.sqrt() - 1.0;
        let pair = |(w1, d1): (f64, f64), (w2, d2): (f64, f64)| (w1 * w2).sqrt() / (w1 + w2) * (d1 - d2).abs();
        let (a, b, c) = ((1.0, 1.0), (1.0, 0.0), (2.0_f64.sqrt(), long));
        let expected = (pair(a, b) + pair(a, c) + pair(b, c)) / 3.0;
        let found = sted(&[&truth], &predicted, &[[0, 1, 2]], 1.0);
        // 1e-12: rounding of square roots near one.
        assert!((found.spatial - expected).abs() < 1e-12, "{found:?} and {expected}");
        assert_eq!(found.temporal, 0.0);
    }

    #[test]
    fn what_all_share_is_not_seen() {
        let truth = [DVec3::ZERO, DVec3::X, DVec3::Y];
        let moved: Vec<DVec3> = truth.iter().map(|&p| p * 1.2 + DVec3::Z).collect();
        let found = sted(&[&truth, &truth, &truth], &[moved.clone(), moved.clone(), moved], &[[0, 1, 2]], 1.0);
        // 1e-12: a scaling changes all edges alike, up to rounding.
        assert!(found.total < 1e-12, "{found:?}");
    }

    #[test]
    fn a_jump_in_time_is_seen_by_hand() {
        // Everything rests; in the second frame of three the prediction jumps by the time step and back. Both steps
        // change alike (√2 − 1), so nothing deviates; with a fourth frame at rest the third step does not change.
        let truth = [DVec3::ZERO, DVec3::X, DVec3::Y];
        let rest = truth.to_vec();
        let jump: Vec<DVec3> = truth.iter().map(|&p| p + DVec3::Z * TIME_STEP).collect();
        let three = sted(&[&truth[..]; 3], &[rest.clone(), jump.clone(), rest.clone()], &[[0, 1, 2]], 1.0);
        // 1e-9: the prediction's step is computed from coordinates near one.
        assert!(three.temporal < 1e-9, "{three:?}");
        let four = sted(&[&truth[..]; 4], &[rest.clone(), jump, rest.clone(), rest], &[[0, 1, 2]], 1.0);
        // Each of the three windows sees all three steps: changes d, d, 0 with deviation d √2 / 3.
        let expected = (2.0_f64.sqrt() - 1.0) * 2.0_f64.sqrt() / 3.0;
        assert!((four.temporal - expected).abs() < 1e-9, "{four:?} and {expected}");
    }
}
