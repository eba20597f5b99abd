//! Ranges of motion: how far each joint may turn, from a small text file.
//!
//! ```text
//! # bone   how    axis in the bone's own rest frame   degrees
//! elbow    hinge  0 0 1    0 130
//! wrist    hinge  0 1 0  -50  50     # a joint may have several hinges; they turn one after the other
//! shoulder cone   1 0 0   60         # any direction up to 60° from rest, without twist
//! ```
//!
//! Angles are uniformly distributed within their limits. For a hinge `E[R]` is analytic (Merry et al. 2006, §5.1); hinges of
//! one joint are independent of each other, so the expectation of their product is the product of their expectations. A
//! cone is sampled. Joints that the file does not name do not move.

use glam::{DAffine3, DMat3, DQuat, DVec3};
use sinew_examples::Skeleton;

use super::MotionModel;
use super::models::{compose, resized, rest_locals, rest_sizes};
use crate::FitError;

/// Directions by which a cone is sampled: a spiral whose mean rotation is right to three digits.
const CONE_SAMPLES: usize = 512;

/// How a joint may turn about its rest orientation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Turn {
    /// About one axis, from the first to the second angle in radians.
    Hinge {
        /// The axis in the bone's own rest frame, of unit length.
        axis: DVec3,
        /// Radians.
        from: f64,
        /// Radians, not below `from`.
        to: f64,
    },
    /// Swings the axis in any direction up to an angle in radians.
    Cone {
        /// The axis that is swung, in the bone's own rest frame, of unit length.
        axis: DVec3,
        /// Radians, 0 to π.
        most: f64,
    },
}

impl Turn {
    /// `E[R]`.
    #[must_use]
    pub fn mean(&self) -> DMat3 {
        match *self {
            Self::Hinge { axis, from, to } => {
                let range = to - from;
                let (cosine, sine) = if range.abs() < 1e-12 {
                    (from.cos(), from.sin())
                } else {
                    ((to.sin() - from.sin()) / range, (from.cos() - to.cos()) / range)
                };
                let along = DMat3::from_cols(axis * axis.x, axis * axis.y, axis * axis.z);
                let across = DMat3::from_cols(
                    DVec3::new(0.0, axis.z, -axis.y),
                    DVec3::new(-axis.z, 0.0, axis.x),
                    DVec3::new(axis.y, -axis.x, 0.0),
                );
                along + (DMat3::IDENTITY - along) * cosine + across * sine
            }
            Self::Cone { .. } => {
                let samples = self.samples();
                samples.iter().fold(DMat3::ZERO, |sum, &r| sum + r) * (1.0 / samples.len() as f64)
            }
        }
    }

    /// The rotation at `along`, nil to one, of the range; a cone swings in the direction `about`, nil to one of a full turn.
    #[must_use]
    pub fn at(&self, along: f64, about: f64) -> DMat3 {
        match *self {
            Self::Hinge { axis, from, to } => DMat3::from_axis_angle(axis, from + (to - from) * along),
            Self::Cone { axis, most } => {
                let about = DQuat::from_axis_angle(axis, std::f64::consts::TAU * about) * axis.any_orthonormal_vector();
                DMat3::from_axis_angle(about, most * along)
            }
        }
    }

    /// Rotations that cover the range evenly.
    #[must_use]
    pub fn samples(&self) -> Vec<DMat3> {
        let middle = |k: usize, count: usize| (k as f64 + 0.5) / count as f64;
        match *self {
            Self::Hinge { axis, from, to } => {
                (0..64).map(|k| DMat3::from_axis_angle(axis, from + (to - from) * middle(k, 64))).collect()
            }
            Self::Cone { axis, most } => {
                let side = axis.any_orthonormal_vector();
                let golden = std::f64::consts::PI * (3.0 - 5.0_f64.sqrt());
                let sample = |k: usize| {
                    let about = DQuat::from_axis_angle(axis, golden * k as f64) * side;
                    DMat3::from_axis_angle(about, most * middle(k, CONE_SAMPLES))
                };
                (0..CONE_SAMPLES).map(sample).collect()
            }
        }
    }
}

/// The turns of every joint, (J); none for a joint that does not move.
#[derive(Debug, Clone, PartialEq)]
pub struct RangesOfMotion {
    /// The turns of each joint in order: `L = L̂ R₁ R₂ …`.
    pub joints: Vec<Vec<Turn>>,
}

impl RangesOfMotion {
    /// Reads the text format above; errors name the line.
    pub fn parse(text: &str, skeleton: &Skeleton) -> Result<Self, FitError> {
        let mut joints = vec![Vec::new(); skeleton.bone_count()];
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let wrong = |what: String| FitError::Data(format!("line {}: {what}", number + 1));
            // Names may have spaces (`Bip001 L Hand`): everything before the kind is one.
            let at = words.iter().rposition(|word| matches!(*word, "hinge" | "cone")).filter(|&at| at > 0).unwrap_or(1);
            let [kind, numbers @ ..] = words.get(at..).unwrap_or_default() else {
                return Err(wrong("a line is `BONE hinge X Y Z FROM TO` or `BONE cone X Y Z MOST`".into()));
            };
            let name = words[..at].join(" ");
            let bone = skeleton.find(&name).ok_or_else(|| wrong(format!("there is no bone `{name}`")))?;
            let numbers: Vec<f64> = numbers
                .iter()
                .map(|word| word.parse::<f64>().ok().filter(|x| x.is_finite()))
                .collect::<Option<_>>()
                .ok_or_else(|| wrong("a number is missing or not a number".into()))?;
            joints[bone].push(turn(kind, &numbers).map_err(|what| wrong(what.into()))?);
        }
        Ok(Self { joints })
    }

    /// A pose within the ranges: globals in the root's rest frame, (J). `unit` gives numbers from nil to one, two a turn, which
    /// place each turn evenly within its limits. The root stays: bounds and distances are relative to it.
    #[must_use]
    pub fn pose(&self, skeleton: &Skeleton, mut unit: impl FnMut() -> f64) -> Vec<DAffine3> {
        let mut local = rest_locals(skeleton);
        for (b, local) in local.iter_mut().enumerate().filter(|(b, _)| *b != skeleton.root()) {
            for turn in &self.joints[b] {
                *local *= DAffine3::from_mat3(turn.at(unit(), unit()));
            }
        }
        compose(skeleton, &local)
            .into_iter()
            .zip(rest_sizes(skeleton))
            .map(|(global, size)| resized(global, size))
            .collect()
    }

    /// Rotations with fixed translations whose means are those of the ranges.
    #[must_use]
    pub fn model(&self, skeleton: &Skeleton) -> MotionModel {
        let rest = rest_locals(skeleton);
        let mean = |turns: &Vec<Turn>| turns.iter().fold(DMat3::IDENTITY, |product, turn| product * turn.mean());
        let linear = self.joints.iter().zip(&rest).map(|(turns, rest)| rest.matrix3 * mean(turns)).collect();
        MotionModel::Rotations { linear, translation: rest.iter().map(|rest| rest.translation).collect() }
    }
}

fn turn(kind: &str, numbers: &[f64]) -> Result<Turn, &'static str> {
    let axis = |numbers: &[f64]| DVec3::from_slice(&numbers[..3]).try_normalize().ok_or("the axis has no direction");
    match (kind, numbers) {
        ("hinge", [_, _, _, from, to]) if from <= to => {
            Ok(Turn::Hinge { axis: axis(numbers)?, from: from.to_radians(), to: to.to_radians() })
        }
        ("hinge", [_, _, _, _, _]) => Err("the range ends before it begins"),
        ("cone", [_, _, _, most]) if (0.0..=180.0).contains(most) => {
            Ok(Turn::Cone { axis: axis(numbers)?, most: most.to_radians() })
        }
        ("cone", [_, _, _, _]) => Err("a cone opens by 0 to 180 degrees"),
        _ => Err("a line is `BONE hinge X Y Z FROM TO` or `BONE cone X Y Z MOST`"),
    }
}
