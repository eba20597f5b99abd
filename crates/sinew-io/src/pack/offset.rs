//! Whether a mesh stands beside its skeleton: a constant shift that neither units nor axes nor time explain.
//!
//! A vertex x that follows bone b stands still in that bone's frame. Shifted by d it is `a_e + R_eᵀ d` that must not vary over
//! the frames e, with `a_e = G_e⁻¹ x_e` and R the rotation of G. For one vertex and one bone that is a least squares problem of three
//! unknowns,
//!
//! `min_d Σ_e |a'_e + A_e d|²`, `a' = a − mean(a)`, `A = Rᵀ − mean(Rᵀ)`,
//!
//! and each gives a candidate; the one under which the whole mesh follows best wins, and is then solved for with all
//! vertices and their bones together. A direction about which nothing turns cannot be known: there the shift is none.

use glam::{DMat3, DVec3};

use super::align::{Alignment, Motion, Probe, misfit};
use crate::Space;

/// Candidates that are tried on the whole mesh: the right one is among the first few.
const TRIED: usize = 24;

/// Relative to the problem's own size: what nothing determines stays at none.
const RIDGE: f64 = 1e-9;

/// A shift of less than this share of the mesh's extent is none.
const SMALL: f64 = 1e-3;

impl Probe {
    /// The probe's points after a change of space and a shift.
    pub(super) fn placed(&self, space: &Space, offset: DVec3) -> Self {
        let place = |frame: &Vec<DVec3>| frame.iter().map(|&p| space.point(p) + offset).collect();
        Self { times: self.times.clone(), points: self.points.iter().map(place).collect() }
    }

    fn extent(&self) -> f64 {
        let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
        let (low, high) = self.points.iter().flatten().fold(start, |(low, high), &p| (low.min(p), high.max(p)));
        (high - low).length()
    }
}

/// The best shift over `spaces` and `shifts` (of time), if one is worth speaking of.
pub(super) fn search(probe: &Probe, motion: &Motion<'_>, spaces: &[Space], shifts: &[i64]) -> Option<Alignment> {
    let tried =
        |space: &Space| shifts.iter().filter_map(|&shift| best(probe, motion, space, shift)).collect::<Vec<_>>();
    let found: Vec<Alignment> = spaces.iter().flat_map(tried).collect();
    found.into_iter().min_by(|a, b| a.misfit.total_cmp(&b.misfit))
}

fn best(probe: &Probe, motion: &Motion<'_>, space: &Space, shift: i64) -> Option<Alignment> {
    let placed = probe.placed(space, DVec3::ZERO);
    let delta = shift as f64 * motion.step();
    let met: Vec<(usize, usize)> =
        placed.times.iter().enumerate().filter_map(|(e, &time)| Some((e, motion.frame_at(time + delta)?))).collect();
    if met.len() < 3 {
        return None;
    }
    let bones = motion.inverses.first()?.len();
    let vertices = placed.points.first()?.len();
    let mut candidates: Vec<(f64, DVec3)> = Vec::new();
    for v in 0..vertices {
        for b in 0..bones {
            let mut problem = Problem::new();
            problem.add(&placed, motion, &met, v, b);
            candidates.extend(problem.solve());
        }
    }
    candidates.sort_by(|x, y| x.0.total_cmp(&y.0));
    candidates.truncate(TRIED);
    let mut found: Option<Alignment> = None;
    for (_, start) in candidates {
        let mut offset = start;
        // Twice: the bones are those of the shift before. The half of the vertices that follow a bone best say most; the
        // others lie between bones.
        for _ in 0..2 {
            let mut problem = Problem::new();
            let mut followed = Vec::new();
            for v in 0..vertices {
                let left = |b: usize| (Problem::left(&placed, motion, &met, v, b, offset), v, b);
                followed.push((0..bones).map(left).min_by(|x, y| x.0.total_cmp(&y.0))?);
            }
            followed.sort_by(|x, y| x.0.total_cmp(&y.0));
            for &(_, v, b) in &followed[..vertices.div_ceil(2)] {
                problem.add(&placed, motion, &met, v, b);
            }
            offset = problem.solve().map_or(offset, |(_, offset)| offset);
        }
        let left = misfit(&placed.placed(&Space::IDENTITY, offset), motion, &Space::IDENTITY, shift)?;
        if found.is_none_or(|found| left < found.misfit) {
            found = Some(Alignment { space: *space, shift, offset, misfit: left });
        }
    }
    found.filter(|found| found.offset.length() > SMALL * placed.extent())
}

/// The normal equations `N d = r` and the sum of squares at d = 0.
struct Problem {
    normal: DMat3,
    right: DVec3,
    squares: f64,
}

impl Problem {
    fn new() -> Self {
        Self { normal: DMat3::ZERO, right: DVec3::ZERO, squares: 0.0 }
    }

    /// The deviations `a'_e` and `A_e` of a vertex seen from a bone.
    fn deviations(
        probe: &Probe,
        motion: &Motion<'_>,
        met: &[(usize, usize)],
        v: usize,
        b: usize,
    ) -> Vec<(DVec3, DMat3)> {
        let seen = |&(e, s): &(usize, usize)| {
            let inverse = motion.inverses[s][b];
            (inverse.transform_point3(probe.points[e][v]), inverse.matrix3)
        };
        let list: Vec<(DVec3, DMat3)> = met.iter().map(seen).collect();
        let count = list.len() as f64;
        let point = list.iter().map(|&(a, _)| a).sum::<DVec3>() / count;
        let turn = list.iter().fold(DMat3::ZERO, |sum, &(_, m)| sum + m) * (1.0 / count);
        list.into_iter().map(|(a, m)| (a - point, m - turn)).collect()
    }

    fn add(&mut self, probe: &Probe, motion: &Motion<'_>, met: &[(usize, usize)], v: usize, b: usize) {
        for (a, m) in Self::deviations(probe, motion, met, v, b) {
            self.normal += m.transpose() * m;
            self.right -= m.transpose() * a;
            self.squares += a.length_squared();
        }
    }

    /// What varies of a vertex seen from a bone, shifted by `offset`.
    fn left(probe: &Probe, motion: &Motion<'_>, met: &[(usize, usize)], v: usize, b: usize, offset: DVec3) -> f64 {
        Self::deviations(probe, motion, met, v, b).iter().map(|&(a, m)| (a + m * offset).length_squared()).sum()
    }

    /// (sum of squares left, shift); nothing if the bone does not turn.
    fn solve(&self) -> Option<(f64, DVec3)> {
        let size = self.normal.x_axis.x + self.normal.y_axis.y + self.normal.z_axis.z;
        // A thousandth of a turn: less says nothing.
        if size < 1e-6 {
            return None;
        }
        let normal = self.normal + DMat3::from_diagonal(DVec3::splat(RIDGE * size));
        let offset = normal.inverse() * self.right;
        let left = self.squares - 2.0 * offset.dot(self.right) + offset.dot(self.normal * offset);
        offset.is_finite().then_some((left.max(0.0), offset))
    }
}
