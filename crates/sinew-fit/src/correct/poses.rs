//! The example poses as the joints see them: rotations, distances between poses, ranges.
//!
//! `d² = ‖q − q'‖² ‖q + q'‖² = 4 sin²(δ/2)`, δ the angle between two rotations of a joint, as the run time computes it.
//! The rest pose may stand among the examples, as the last one: the rest mesh is an example of itself.

use glam::DQuat;

use crate::Training;
use crate::exercised::SMALLEST_ANGLE;
use crate::geometry::joint_rotations::JointRotations;

/// Rotations of the joints that move, over the example poses.
#[derive(Debug, Clone)]
pub struct PoseTable {
    /// The number of poses, N; the training poses and, if it was asked for, the rest pose.
    pub poses: usize,
    /// Whether the last pose is the rest pose.
    pub with_rest: bool,
    /// How much each pose counts, (N).
    pub weights: Vec<f64>,
    /// The example that each pose comes from, (N), as [`Training::sources`].
    pub sources: Vec<usize>,
    /// The bones whose joints move, (C).
    pub joints: Vec<usize>,
    /// Their rotations `Q_parentᵀ Q_b`, (C)(N).
    pub rotations: Vec<Vec<DQuat>>,
    /// `d²` between poses, (C), each (N, N).
    pub distances: Vec<Vec<f64>>,
    /// The first pose that each one repeats, itself if none, (N).
    first_alike: Vec<usize>,
}

impl PoseTable {
    /// The training poses, and the rest pose after them if `with_rest`.
    #[must_use]
    pub fn new(training: &Training, with_rest: bool) -> Self {
        let bones = JointRotations::new(training).bones;
        let skeleton = &training.skeleton;
        let mut table = Self {
            poses: bones.len() + usize::from(with_rest),
            with_rest,
            weights: training.pose_weights.clone(),
            sources: training.sources.clone(),
            joints: Vec::new(),
            rotations: Vec::new(),
            distances: Vec::new(),
            first_alike: Vec::new(),
        };
        if with_rest {
            table.weights.push(1.0);
            table.sources.push(training.sources.iter().max().map_or(0, |last| last + 1));
        }
        for b in (0..training.bone_count()).filter(|&b| b != skeleton.root()) {
            let relative = |pose: &Vec<glam::DMat3>| pose[skeleton.parent(b)].transpose() * pose[b];
            let mut rotations: Vec<DQuat> = bones.iter().map(|pose| DQuat::from_mat3(&relative(pose))).collect();
            if with_rest {
                rotations.push(DQuat::IDENTITY);
            }
            let distances = distances(&rotations);
            if distances.iter().any(|&d| d > SMALLEST_ANGLE * SMALLEST_ANGLE) {
                table.joints.push(b);
                table.rotations.push(rotations);
                table.distances.push(distances);
            }
        }
        let all = table.all_distances();
        let alike = |a: usize, b: usize| all[a * table.poses + b] < SMALLEST_ANGLE * SMALLEST_ANGLE;
        table.first_alike = (0..table.poses).map(|e| (0..e).find(|&a| alike(a, e)).unwrap_or(e)).collect();
        if with_rest && table.first_alike[table.poses - 1] != table.poses - 1 {
            // A training pose already stands in the rest pose, and what it shows counts.
            return Self::new(training, false);
        }
        table
    }

    /// How many training poses repeat another one.
    #[must_use]
    pub fn alike(&self) -> usize {
        self.first_alike.iter().enumerate().filter(|&(e, &first)| e != first).count()
    }

    /// Targets (N, D) with the average, by the poses' weights, in place of those of poses that repeat each other.
    #[must_use]
    pub fn averaged(&self, mut targets: Vec<f64>) -> Vec<f64> {
        let width = targets.len() / self.poses.max(1);
        for first in 0..self.poses {
            let group: Vec<usize> = (first..self.poses).filter(|&e| self.first_alike[e] == first).collect();
            if group.len() < 2 {
                continue;
            }
            let weight: f64 = group.iter().map(|&e| self.weights[e]).sum();
            for k in 0..width {
                let mean = group.iter().map(|&e| self.weights[e] * targets[e * width + k]).sum::<f64>() / weight;
                group.iter().for_each(|&e| targets[e * width + k] = mean);
            }
        }
        targets
    }

    /// The index of bone `b` among [`joints`](Self::joints), if its joint moves.
    #[must_use]
    pub fn joint(&self, b: usize) -> Option<usize> {
        self.joints.iter().position(|&joint| joint == b)
    }

    /// The number of training poses, without the rest pose.
    #[must_use]
    pub fn training_poses(&self) -> usize {
        self.poses - usize::from(self.with_rest)
    }

    /// The rate 1/(2 width²) of ν: its width is a quarter of the distance over all joints from a pose to its nearest
    /// neighbour, for the pose whose neighbour is nearest. Poses closer than a degree count as the same pose.
    #[must_use]
    pub fn peak_rate(&self) -> f64 {
        let all = self.all_distances();
        let distinct = all.iter().copied().filter(|&d| d > SMALLEST_ANGLE * SMALLEST_ANGLE);
        let nearest = distinct.fold(f64::INFINITY, f64::min);
        if nearest.is_finite() { 8.0 / nearest } else { 1.0 }
    }

    /// `ν = (1 + rate_ν Σ_j d_j²)⁻²` between poses, (N, N).
    #[must_use]
    pub fn peaks(&self) -> Vec<f64> {
        let rate = self.peak_rate();
        self.all_distances().iter().map(|d| (1.0 + rate * d).powi(-2)).collect()
    }

    /// `Σ_j d_j²`, (N, N).
    fn all_distances(&self) -> Vec<f64> {
        let mut all = vec![0.0; self.poses * self.poses];
        for distances in &self.distances {
            all.iter_mut().zip(distances).for_each(|(sum, d)| *sum += d);
        }
        all
    }

    /// Squared distances (near², far²) between which joint `c`'s part of a correction fades out.
    ///
    /// With R the largest distance from the rest pose: at twice the trained range the nearest example is R away, and
    /// nothing is left; up to half of that, or to the widest gap between examples, nothing is taken away, so that poses
    /// between the examples are corrected in full.
    #[must_use]
    pub fn fade(&self, c: usize) -> [f64; 2] {
        let from_rest = |q: &DQuat| squared_distance(*q, DQuat::IDENTITY);
        let range = self.rotations[c].iter().map(from_rest).fold(0.0, f64::max).sqrt();
        let gap = self.widest_gap(c).sqrt();
        let near = gap.clamp(0.5 * range, 0.75 * range);
        [near * near, range * range]
    }

    /// The longest edge (squared) of the minimum spanning tree over the poses and the rest pose, by Prim's algorithm.
    fn widest_gap(&self, c: usize) -> f64 {
        let rotations = &self.rotations[c];
        let mut gaps: Vec<f64> = rotations.iter().map(|&q| squared_distance(q, DQuat::IDENTITY)).collect();
        let mut widest: f64 = 0.0;
        for _ in 0..rotations.len() {
            let next = crate::cross_validation::least(&gaps);
            widest = widest.max(gaps[next]);
            gaps[next] = f64::NAN;
            for e in 0..rotations.len() {
                gaps[e] = if gaps[e].is_nan() {
                    gaps[e]
                } else {
                    gaps[e].min(squared_distance(rotations[e], rotations[next]))
                };
            }
        }
        widest
    }
}

/// `‖a − b‖² ‖a + b‖²`.
#[must_use]
pub fn squared_distance(a: DQuat, b: DQuat) -> f64 {
    (a - b).length_squared() * (a + b).length_squared()
}

fn distances(rotations: &[DQuat]) -> Vec<f64> {
    rotations.iter().flat_map(|&a| rotations.iter().map(move |&b| squared_distance(a, b))).collect()
}
