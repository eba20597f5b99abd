//! Triangles that turn alike: mean shift over their rotation sequences.
//!
//! James and Twigg, "Skinning mesh animations", 2005, §3: a triangle's rotations in all frames are one point in R^{9N};
//! triangles of one rigid piece fall together, and mean shift (Comaniciu and Meer, 2002) finds the heaps without being
//! told how many there are. Where we differ: distances are the rotation angle (rms over the frames) to first order; only a
//! sample of the triangles climbs, and the others follow the nearest mode; the flat kernel's radius is given in radians.

use glam::DMat3;
use rayon::prelude::*;

use super::super::geometry::gradient::polar;

/// Triangles that climb; modes of more hardly differ.
const CLIMBERS: usize = 500;

/// Triangles whose density is climbed.
const CROWD: usize = 2500;

/// Steps of a climb; a flat kernel on a sample stands still sooner.
const STEPS: usize = 30;

/// Rotation sequences as points: `R_f^e / √(2N)` in all frames, so that squared distances are mean squared angles (for
/// small ones: `‖R − Q‖² = 4(1 − cos θ) ≈ 2θ²`); (F, 9N).
#[derive(Debug, Clone)]
pub(super) struct RotationSequences {
    width: usize,
    points: Vec<f64>,
}

impl RotationSequences {
    /// From the triangles' deformation gradients, (N)(F).
    pub fn new(gradients: &[Vec<DMat3>]) -> Self {
        let (frames, faces) = (gradients.len(), gradients.first().map_or(0, Vec::len));
        let scale = 1.0 / (2.0 * frames as f64).sqrt();
        let point = |f: usize| gradients.iter().flat_map(move |frame| (polar(frame[f]).0 * scale).to_cols_array());
        let points = (0..faces).into_par_iter().flat_map_iter(point).collect();
        Self { width: 9 * frames, points }
    }

    fn point(&self, f: usize) -> &[f64] {
        &self.points[f * self.width..(f + 1) * self.width]
    }

    /// The rms distance of the sequences from their mean, in radians: how much the mesh bends.
    pub fn spread(&self) -> f64 {
        let faces = self.len().max(1);
        let mut mean = vec![0.0; self.width];
        for f in 0..self.len() {
            mean.iter_mut().zip(self.point(f)).for_each(|(m, p)| *m += p / faces as f64);
        }
        let squares: f64 = (0..self.len()).map(|f| distance_squared(self.point(f), &mean)).sum();
        (squares / faces as f64).sqrt()
    }

    /// The number of triangles, F.
    pub fn len(&self) -> usize {
        self.points.len() / self.width.max(1)
    }
}

/// The mode that each triangle belongs to, (F), for a kernel of `radius` radians.
pub(super) fn cluster(sequences: &RotationSequences, radius: f64) -> Vec<usize> {
    let faces = sequences.len();
    let crowd: Vec<usize> = (0..faces).step_by(faces.div_ceil(CROWD).max(1)).collect();
    let climbers: Vec<usize> = (0..faces).step_by(faces.div_ceil(CLIMBERS).max(1)).collect();
    let peaks: Vec<(Vec<f64>, usize)> = climbers.par_iter().map(|&f| climb(sequences, &crowd, f, radius)).collect();
    // The densest peaks first; a peak within the radius of a denser one is the same mode.
    let mut order: Vec<usize> = (0..peaks.len()).collect();
    order.sort_by(|&a, &b| peaks[b].1.cmp(&peaks[a].1).then(a.cmp(&b)));
    let mut modes: Vec<&[f64]> = Vec::new();
    for k in order {
        if modes.iter().all(|mode| distance_squared(mode, &peaks[k].0) > radius * radius) {
            modes.push(&peaks[k].0);
        }
    }
    let nearest = |f: usize| {
        let distance = |m: usize| distance_squared(modes[m], sequences.point(f));
        (0..modes.len()).map(|m| (m, distance(m))).min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(m, _)| m)
    };
    (0..faces).into_par_iter().map(nearest).collect()
}

/// Climbs from triangle `f` to the mean of the crowd within the radius, until it stands still; with the crowd's size there.
fn climb(sequences: &RotationSequences, crowd: &[usize], f: usize, radius: f64) -> (Vec<f64>, usize) {
    let mut place = sequences.point(f).to_vec();
    let mut size = 0;
    for _ in 0..STEPS {
        let mut mean = vec![0.0; place.len()];
        size = 0;
        for &g in crowd {
            let point = sequences.point(g);
            if distance_squared(&place, point) <= radius * radius {
                mean.iter_mut().zip(point).for_each(|(m, p)| *m += p);
                size += 1;
            }
        }
        if size == 0 {
            break;
        }
        mean.iter_mut().for_each(|m| *m /= size as f64);
        let moved = distance_squared(&mean, &place);
        place = mean;
        if moved <= 1e-6 * radius * radius {
            break;
        }
    }
    (place, size)
}

fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}
