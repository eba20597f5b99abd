//! One method's errors on some frames, in every measure and every form that a report shows.

use std::sync::Arc;

use glam::{DAffine3, DVec3};
use sinew_examples::Examples;
use sinew_measure::{Details, EnvelopingError, PositionErrors, best_rigid_error, details, vertex_rms};

/// Frames to measure on, with what is the same for every method.
pub struct Bench {
    /// The examples.
    pub examples: Arc<Examples>,
    /// The frames, in order of time.
    pub frames: Vec<usize>,
    /// The best rigid binding's squared error on them.
    pub rigid_squared_error: f64,
}

/// A method's errors on the frames of a [`Bench`].
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// All measures.
    pub details: Details,
    /// Root mean square error of each frame, percent of the diagonal, (N).
    pub frame_rms_percent: Vec<f64>,
    /// Root mean square error of each vertex, metres, (V).
    pub vertex_rms: Vec<f64>,
    /// How many distances fall into each step of [`HISTOGRAM_STEP_PERCENT`] of the diagonal; the last holds the rest.
    pub histogram: Vec<u64>,
}

/// The width of a histogram's bar, percent of the rest diagonal.
pub const HISTOGRAM_STEP_PERCENT: f64 = 0.05;

/// How many bars a histogram has: up to 5 % of the diagonal.
const HISTOGRAM_STEPS: usize = 100;

impl Bench {
    /// The bench of `frames`.
    pub fn new(examples: &Arc<Examples>, frames: &[usize]) -> Self {
        let transforms: Vec<Vec<DAffine3>> = frames.iter().map(|&e| world_transforms(examples, e)).collect();
        let truth: Vec<&[DVec3]> = frames.iter().map(|&e| examples.vertices(e)).collect();
        let rigid_squared_error = best_rigid_error(examples.mesh().vertices(), &transforms, &truth);
        Self { examples: Arc::clone(examples), frames: frames.to_vec(), rigid_squared_error }
    }

    /// The enveloping error of `predicted` (N)(V) alone.
    pub fn ee_percent(&self, predicted: &[Vec<DVec3>]) -> f64 {
        let truth: Vec<&[DVec3]> = self.frames.iter().map(|&e| self.examples.vertices(e)).collect();
        let squared_error = PositionErrors::new(&truth, predicted).squared_sum();
        EnvelopingError { squared_error, rigid_squared_error: self.rigid_squared_error }.percent()
    }

    /// Measures `predicted` (N)(V) in every way.
    pub fn evaluate(&self, predicted: &[Vec<DVec3>]) -> Evaluation {
        let mesh = self.examples.mesh();
        let truth: Vec<&[DVec3]> = self.frames.iter().map(|&e| self.examples.vertices(e)).collect();
        let percent = 100.0 / mesh.diagonal();
        let mut histogram = vec![0; HISTOGRAM_STEPS];
        let mut frame_rms_percent = Vec::with_capacity(truth.len());
        for (truth, predicted) in truth.iter().zip(predicted) {
            let mut sum = 0.0;
            for (t, p) in truth.iter().zip(predicted) {
                let distance = t.distance(*p);
                sum += distance * distance;
                let step = (percent * distance / HISTOGRAM_STEP_PERCENT) as usize;
                histogram[step.min(HISTOGRAM_STEPS - 1)] += 1;
            }
            frame_rms_percent.push(percent * (sum / truth.len().max(1) as f64).sqrt());
        }
        Evaluation {
            details: details(mesh, self.rigid_squared_error, &truth, predicted),
            frame_rms_percent,
            vertex_rms: vertex_rms(&truth, predicted),
            histogram,
        }
    }
}

/// `G_b Ĝ_b⁻¹`, (J).
fn world_transforms(examples: &Examples, e: usize) -> Vec<DAffine3> {
    let bones = examples.skeleton().bones().iter();
    bones.zip(&examples.pose(e).globals).map(|(bone, &global)| global * bone.rest.inverse()).collect()
}
