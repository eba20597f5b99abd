//! Whether a mesh follows a skeleton, and in which units, axes and frame offset it does.
//!
//! A vertex that follows bone b stands still in that bone's frame. For vertices v and frames e, with x the mesh's
//! points put through a change of space C and a shift of time Δ,
//!
//! `misfit(C, Δ) = Σ_v min_b Var_e(G_b(t_e + Δ)⁻¹ C x_v(t_e)) / Σ_v Var_e(C x_v(t_e))`
//!
//! is near 0 for a skin on its skeleton, and 1 for a mesh that the skeleton does not explain. It needs no rest pose, so
//! that units, axes and time are found before anything is said of the rest. The candidates are searched all at once
//! for the space, then frame by frame for the time.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Pose, rigid_part};

use crate::Space;

/// How often frames a space is tried at: the given time and its neighbours.
const NEIGHBOURS: [i64; 3] = [0, -1, 1];

/// Frames and vertices that are looked at: enough for every limb to have moved, few enough to try thousands of
/// candidates in a second.
pub(super) const FRAMES: usize = 12;
pub(super) const VERTICES: usize = 32;

/// Frames a clip is shifted by at most.
pub(super) const FARTHEST_SHIFT: i64 = 60;

/// Ratios of units that occur: metres, centimetres, millimetres, decimetres, inches, feet.
const UNITS: [f64; 13] =
    [1.0, 0.01, 100.0, 0.001, 1000.0, 0.1, 10.0, 0.0254, 1.0 / 0.0254, 0.3048, 1.0 / 0.3048, 2.54, 1.0 / 2.54];

/// A candidate must explain at least this much of what the given one leaves, or it is not believed.
const CLEARLY_BETTER: f64 = 0.5;

/// And it must explain at least this share of the motion more: below lies what correctives and rounding leave.
const WORTH_MORE: f64 = 0.002;

/// A misfit so good that no other space need be tried: another would leave most of the motion unexplained.
pub(super) const GOOD: f64 = 0.05;

/// A mesh whose best misfit is above this does not follow the skeleton. A choice in a wide gap: the body and the muscle
/// arm of the development data leave below 0.001, and above 0.9 when their frames are shuffled (20 shuffles each).
/// Cloth or very loose flesh was not tried.
pub(super) const UNRELATED: f64 = 0.4;

/// Points of a mesh at a few times.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    /// The time of each frame, (FRAMES) at most.
    pub times: Vec<f64>,
    /// (frame)(vertex), the same vertices in each.
    pub points: Vec<Vec<DVec3>>,
}

/// A skeleton's motion, prepared: `G_b⁻¹` of every frame.
pub(super) struct Motion<'a> {
    pub times: &'a [f64],
    pub inverses: Vec<Vec<DAffine3>>,
}

/// A way to lay the mesh on the skeleton.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Alignment {
    /// What the mesh's points go through.
    pub space: Space,
    /// Added to the mesh's times, in frames of the skeleton.
    pub shift: i64,
    /// Added to the points after the change of space.
    pub offset: DVec3,
    pub misfit: f64,
}

impl<'a> Motion<'a> {
    pub(super) fn new(times: &'a [f64], poses: &[Pose]) -> Self {
        // The rigid part: a bone's own scale would scale the variances, and the bones with the largest would win.
        let inverse = |pose: &Pose| pose.globals.iter().map(|&global| rigid_part(global).inverse()).collect();
        Self { times, inverses: poses.iter().map(inverse).collect() }
    }

    /// Seconds from frame to frame.
    pub(super) fn step(&self) -> f64 {
        typical_step(self.times).unwrap_or(1.0 / 24.0)
    }

    /// The frame at `time`, to within a quarter of a frame.
    pub(super) fn frame_at(&self, time: f64) -> Option<usize> {
        let after = self.times.partition_point(|&t| t < time);
        let nearest = [after.checked_sub(1), (after < self.times.len()).then_some(after)]
            .into_iter()
            .flatten()
            .min_by(|&a, &b| (self.times[a] - time).abs().total_cmp(&(self.times[b] - time).abs()))?;
        ((self.times[nearest] - time).abs() < 0.25 * self.step()).then_some(nearest)
    }
}

/// The median distance of neighbouring times.
pub(super) fn typical_step(times: &[f64]) -> Option<f64> {
    let mut steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).copied()
}

/// How badly the skeleton explains the mesh; `None` if fewer than three frames (or the only ones) meet.
pub(super) fn misfit(probe: &Probe, motion: &Motion<'_>, space: &Space, shift: i64) -> Option<f64> {
    let delta = shift as f64 * motion.step();
    let met: Vec<(usize, usize)> =
        probe.times.iter().enumerate().filter_map(|(e, &time)| Some((e, motion.frame_at(time + delta)?))).collect();
    if met.len() < 3.min(probe.times.len()).max(2) || 2 * met.len() < probe.times.len() {
        return None;
    }
    let bones = motion.inverses.first()?.len();
    let (mut left, mut total) = (0.0, 0.0);
    let mut placed = vec![DVec3::ZERO; met.len()];
    for v in 0..probe.points.first()?.len() {
        for (place, &(e, _)) in placed.iter_mut().zip(&met) {
            *place = space.point(probe.points[e][v]);
        }
        let in_bone =
            |b: usize| variance(met.iter().zip(&placed).map(|(&(_, s), &x)| motion.inverses[s][b].transform_point3(x)));
        left += (0..bones).map(in_bone).fold(f64::INFINITY, f64::min);
        total += variance(placed.iter().copied());
    }
    (total > 0.0).then_some(left / total)
}

fn variance(points: impl Iterator<Item = DVec3> + Clone) -> f64 {
    let (sum, count) = points.clone().fold((DVec3::ZERO, 0.0), |(sum, count), p| (sum + p, count + 1.0));
    let mean = sum / count;
    points.map(|p| (p - mean).length_squared()).sum()
}

/// What a user has settled, and the search must keep.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settled {
    pub space: Option<Space>,
    pub shift: Option<i64>,
}

/// The alignment as given (its misfit infinite if no frames meet) and the best one found.
pub(super) fn search(probe: &Probe, motion: &Motion<'_>, settled: Settled) -> (Alignment, Option<Alignment>) {
    let (space, shift) = (settled.space.unwrap_or(Space::IDENTITY), settled.shift.unwrap_or(0));
    let misfit_of = |space: &Space, shift: i64| {
        misfit(probe, motion, space, shift).map(|misfit| Alignment {
            space: *space,
            shift,
            offset: DVec3::ZERO,
            misfit,
        })
    };
    let given =
        misfit_of(&space, shift).unwrap_or(Alignment { space, shift, offset: DVec3::ZERO, misfit: f64::INFINITY });
    let shifts = candidate_shifts(probe, motion, settled.shift);
    let spaces = match settled.space {
        None if given.misfit > GOOD => all_spaces(),
        _ => vec![space],
    };
    let tried = |space: &Space| shifts.first.iter().filter_map(|&shift| misfit_of(space, shift)).collect::<Vec<_>>();
    let mut likely: Vec<Alignment> = spaces.iter().flat_map(tried).collect();
    // A stable sort: among equals the plainest (first listed) space wins.
    likely.sort_by(|a, b| a.misfit.total_cmp(&b.misfit));
    likely.truncate(3);
    likely.push(given);
    let mut best: Option<Alignment> = None;
    for candidate in likely {
        for found in shifts.all.iter().filter_map(|&shift| misfit_of(&candidate.space, shift)) {
            if best.is_none_or(|best| found.misfit < best.misfit * 0.999 - 1e-12) {
                best = Some(found);
            }
        }
    }
    (given, best)
}

/// Every change of units and axes that is tried, the plainest first.
pub(crate) fn all_spaces() -> Vec<Space> {
    axis_changes().into_iter().flat_map(|axes| UNITS.map(|scale| Space { scale, axes })).collect()
}

/// Whether the alignment found is so much better than the given one that the given one is wrong.
pub(super) fn clearly_better(given: &Alignment, best: &Alignment) -> bool {
    best.misfit < CLEARLY_BETTER * given.misfit && given.misfit - best.misfit > WORTH_MORE
}

pub(super) struct Shifts {
    /// The likely ones: none, a neighbour, or those that make the clips start or end together.
    pub first: Vec<i64>,
    all: Vec<i64>,
}

pub(super) fn candidate_shifts(probe: &Probe, motion: &Motion<'_>, settled: Option<i64>) -> Shifts {
    if let Some(shift) = settled {
        return Shifts { first: vec![shift], all: vec![shift] };
    }
    let step = motion.step();
    let frames = |seconds: f64| (seconds / step).round() as i64;
    let (Some(&first), Some(&last)) = (probe.times.first(), probe.times.last()) else {
        return Shifts { first: vec![0], all: vec![0] };
    };
    let mut starts = Vec::new();
    if let (Some(&start), Some(&end)) = (motion.times.first(), motion.times.last()) {
        starts = vec![frames(start - first), frames(end - last)];
        starts.retain(|shift| !NEIGHBOURS.contains(shift));
        starts.dedup();
    }
    // The nearest first, so that equals keep the smallest shift.
    let mut all: Vec<i64> = (0..=FARTHEST_SHIFT).flat_map(|k| [k, -k]).skip(1).collect();
    for &start in &starts {
        all.extend((0..=FARTHEST_SHIFT).flat_map(|k| [start + k, start - k]).skip(1));
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|&shift| seen.insert(shift));
    Shifts { first: NEIGHBOURS.iter().copied().chain(starts).collect(), all }
}

/// All ways to turn and mirror the axes into each other, the identity first, proper turns before mirrors.
pub(super) fn axis_changes() -> Vec<DMat3> {
    let axes = [DVec3::X, DVec3::Y, DVec3::Z];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let mut changes = Vec::new();
    for order in orders {
        for signs in 0..8 {
            let column = |k: usize| if signs >> k & 1 == 1 { -axes[order[k]] } else { axes[order[k]] };
            changes.push(DMat3::from_cols(column(0), column(1), column(2)));
        }
    }
    changes.sort_by_key(|m| m.determinant() < 0.0);
    changes
}
