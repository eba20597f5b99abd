//! Mean-shift groups (James and Twigg, "Skinning mesh animations", 2005): vertices whose surroundings turn alike through
//! the poses. Less sensitive to noise than joining from single vertices, and slower.
//!
//! Each vertex is the point of its rotations' nine entries in some of the poses. A sample of the points climbs, each by
//! the mean of the sample within the bandwidth, until it stands still; points that meet are one mode. Every vertex takes
//! the nearest mode, and the connected pieces of a mode are its groups. The greedy joins of [`cluster`](super::cluster)
//! go on from there, so that any number of proxy bones can be had.

use glam::DMat3;
use rayon::prelude::*;

use crate::geometry::gradient::polar;
use crate::geometry::topology::Topology;

/// Poses whose rotations are compared, at most.
const MOST_POSES: usize = 16;

/// Points that climb and are averaged, at most.
const MOST_POINTS: usize = 1_500;

/// Steps of a climb at most; the mean settles in a handful.
const STEPS: usize = 20;

/// The group of each vertex, (V), numbered from 0; `sequences` (N)(F) are the triangles' gradients, `bandwidth` is in
/// radians a pose, rms.
#[must_use]
pub fn groups(topology: &Topology, sequences: &[Vec<DMat3>], bandwidth: f64) -> Vec<usize> {
    let points = points(topology, sequences);
    let vertices = topology.vertex_faces.len();
    let stride = vertices.div_ceil(MOST_POINTS).max(1);
    let sample: Vec<&[f64]> = points.iter().step_by(stride).map(Vec::as_slice).collect();
    let dimensions = points.first().map_or(0, Vec::len);
    // Rotations that differ by a small angle θ differ by √2 θ in the Frobenius norm.
    let radius = 2.0 * bandwidth * bandwidth * (dimensions / 9) as f64;
    let summits: Vec<Vec<f64>> = sample.par_iter().map(|start| climb(start, &sample, radius)).collect();
    let mut modes: Vec<Vec<f64>> = Vec::new();
    for summit in summits {
        if modes.iter().all(|mode| distance(mode, &summit) > 0.25 * radius) {
            modes.push(summit);
        }
    }
    let nearest = |point: &Vec<f64>| {
        let closer = |best: (f64, usize), (m, mode): (usize, &Vec<f64>)| {
            let d = distance(mode, point);
            if d < best.0 { (d, m) } else { best }
        };
        modes.iter().enumerate().fold((f64::INFINITY, 0), closer).1
    };
    let mode: Vec<usize> = points.par_iter().map(nearest).collect();
    connected_pieces(topology, &mode)
}

/// The rotations of the mean gradients around each vertex in some of the poses, (V)(9 · poses).
fn points(topology: &Topology, sequences: &[Vec<DMat3>]) -> Vec<Vec<f64>> {
    let kept = sequences.len().min(MOST_POSES);
    let poses: Vec<usize> = (0..kept).map(|k| k * sequences.len() / kept).collect();
    let point = |v: usize| {
        let around = topology.vertex_faces.row(v);
        let rotation = |&e: &usize| {
            let sum = around.iter().fold(DMat3::ZERO, |sum, &f| sum + sequences[e][f]);
            if around.is_empty() { DMat3::IDENTITY } else { polar(sum).0 }
        };
        poses.iter().flat_map(|e| rotation(e).to_cols_array()).collect()
    };
    (0..topology.vertex_faces.len()).into_par_iter().map(point).collect()
}

fn climb(start: &[f64], sample: &[&[f64]], radius: f64) -> Vec<f64> {
    let mut at = start.to_vec();
    for _ in 0..STEPS {
        let mut mean = vec![0.0; at.len()];
        let mut count = 0.0;
        for point in sample.iter().filter(|point| distance(point, &at) <= radius) {
            mean.iter_mut().zip(*point).for_each(|(m, p)| *m += p);
            count += 1.0;
        }
        if count == 0.0 {
            break;
        }
        mean.iter_mut().for_each(|m| *m /= count);
        let moved = distance(&mean, &at);
        at = mean;
        if moved < 1e-6 * radius {
            break;
        }
    }
    at
}

/// The squared distance.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Numbers the connected pieces of equal `mode`, (V).
fn connected_pieces(topology: &Topology, mode: &[usize]) -> Vec<usize> {
    let rings = &topology.vertex_vertices;
    let mut piece = vec![usize::MAX; mode.len()];
    let mut next = 0;
    for start in 0..mode.len() {
        if piece[start] != usize::MAX {
            continue;
        }
        piece[start] = next;
        let mut front = vec![start];
        while let Some(v) = front.pop() {
            for &w in rings.row(v) {
                if piece[w] == usize::MAX && mode[w] == mode[v] {
                    piece[w] = next;
                    front.push(w);
                }
            }
        }
        next += 1;
    }
    piece
}
