//! Interpolation over poses: how much each example pose has to say about the present one.
//!
//! The distance between two rotations q, q' of a joint (unit quaternions) is `d² = ‖q − q'‖² ‖q + q'‖²`, which is
//! `4 sin²(δ/2)` for the angle δ between them: no branch to choose, no jump at π, the same for q and −q. A region of the
//! skin sees a few joints only; with `f_j = 1 / (1 + rate_j d_j²)` its kernel is
//!
//!   `κ(e) = constant + product · Π_j f_j + additive · mean_j f_j + peak · ν(e)`.
//!
//! `ν = (1 + rate_ν Σ_j d_j²)⁻²` over all joints is narrow: it is one at an example and next to nil at the others. It
//! takes the place of a regression's ridge where the examples must come out exactly. Each term is positive definite (Cauchy's kernel over a Euclidean embedding of the rotations, products and sums of
//! such), and none needs an exponential. A pose outside the range of the examples fades all of it out: `κ` is multiplied
//! by `Π_j fade_j`, which falls smoothly from one at distance `near_j` from the joint's nearest example to nil at `far_j`.

use glam::{Mat3A, Quat};

use crate::character::{check_finite, check_indices, check_not_negative};
use crate::file::{TensorReader, TensorWriter};
use crate::{Character, ModelError, PosedSkeleton};

/// The example poses as the joints see them, and the regions of the skin that look at them.
#[derive(Debug, Clone, PartialEq)]
pub struct PoseSpace {
    /// The number of example poses, N.
    pub poses: usize,
    /// The bones whose joints count, (C).
    pub joints: Vec<u16>,
    /// Joint rotations `Q_parentᵀ Q_b` of the examples as unit quaternions, (C, 4, N): x of every pose, then y, z, w.
    pub rotations: Vec<f32>,
    /// Squared distances `near²`, `far²` of each joint's fade, (C).
    pub fade: Vec<[f32; 2]>,
    /// The rate of ν, 1/(2 width²); not used if no region has a peak.
    pub peak_rate: f32,
    /// The regions, (R).
    pub regions: Vec<KernelRegion>,
}

/// The kernel of a region of the skin.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRegion {
    /// (index into [`PoseSpace::joints`], rate = 1/(2 width²)), width in radians.
    pub joints: Vec<(u16, f32)>,
    /// The constant term.
    pub constant: f32,
    /// The weight of the product over joints.
    pub product: f32,
    /// The weight of the mean over joints.
    pub additive: f32,
    /// The weight of ν.
    pub peak: f32,
}

/// Memory that pose-space interpolation reuses from frame to frame.
#[derive(Debug, Clone, Default)]
pub struct PoseSpaceScratch {
    /// `d²`, (C, N).
    distances: Vec<f32>,
    /// (C).
    fades: Vec<f32>,
    /// `ν(e)`, (N); empty if no region has a peak.
    peaks: Vec<f32>,
    /// `κ(e)` of one region, (N).
    kernel: Vec<f32>,
    /// `Π (1 + rate d²)`, (N).
    denominators: Vec<f32>,
}

impl PoseSpace {
    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        check_indices("pose_space.joints", self.joints.iter().map(|&j| j as usize), character.bones.len())?;
        let joints = self.joints.len();
        if self.rotations.len() != joints * 4 * self.poses || self.fade.len() != joints {
            return Err(ModelError::Shape {
                name: "pose_space.rotations".into(),
                found: format!("{} entries, {} fades", self.rotations.len(), self.fade.len()),
                expected: format!("{joints} × 4 × {} entries, {joints} fades", self.poses),
            });
        }
        check_finite("pose_space.rotations", &self.rotations)?;
        // Squares, and rates of 1/(1 + rate d²): less than nil has no root, or divides by nil somewhere.
        check_not_negative("pose_space.fade", self.fade.as_flattened())?;
        check_not_negative("pose_space.peak_rate", &[self.peak_rate])?;
        for region in &self.regions {
            let indices = region.joints.iter().map(|&(j, _)| j as usize);
            check_indices("pose_space.region_joints", indices, joints)?;
            check_finite("pose_space.region_terms", &[region.constant, region.product, region.additive, region.peak])?;
            let rates: Vec<f32> = region.joints.iter().map(|&(_, rate)| rate).collect();
            check_not_negative("pose_space.region_rates", &rates)?;
        }
        Ok(())
    }

    /// The bones whose joints region `r` looks at.
    #[must_use]
    pub fn region_joints(&self, r: usize) -> Vec<u16> {
        self.regions[r].joints.iter().map(|&(c, _)| self.joints[usize::from(c)]).collect()
    }

    fn has_peaks(&self) -> bool {
        self.regions.iter().any(|region| region.peak != 0.0)
    }

    pub(crate) fn scratch(&self) -> PoseSpaceScratch {
        PoseSpaceScratch {
            distances: vec![0.0; self.joints.len() * self.poses],
            fades: vec![0.0; self.joints.len()],
            peaks: vec![0.0; if self.has_peaks() { self.poses } else { 0 }],
            kernel: vec![0.0; self.poses],
            denominators: vec![0.0; self.poses],
        }
    }

    /// Floating-point operations a frame, by counting.
    pub(crate) fn flops(&self) -> u64 {
        let poses = self.poses as u64;
        // A distance: 8 differences, 8 multiply-adds and a product.
        let distances = self.joints.len() as u64 * (poses * 25 + 60);
        let region = |r: &KernelRegion| {
            let a_joint = if r.additive == 0.0 { 3 } else { 5 };
            poses * (a_joint * r.joints.len() as u64 + 4)
        };
        let peaks = if self.has_peaks() { poses * (self.joints.len() + 2 * self.regions.len()) as u64 } else { 0 };
        distances + peaks + self.regions.iter().map(region).sum::<u64>()
    }

    /// Bytes that a frame reads.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let pairs: usize = self.regions.iter().map(|region| region.joints.len()).sum();
        (self.rotations.len() * 4 + self.joints.len() * 10 + pairs * 6 + self.regions.len() * 16) as u64
    }

    /// Takes a pose: the distances of every joint to every example, and the fades.
    pub(crate) fn set(&self, character: &Character, posed: &PosedSkeleton, scratch: &mut PoseSpaceScratch) {
        let n = self.poses;
        if n == 0 {
            return;
        }
        for (c, &joint) in self.joints.iter().enumerate() {
            let q = joint_rotation(character, posed, joint as usize).to_array();
            let examples = &self.rotations[c * 4 * n..(c + 1) * 4 * n];
            let [x, y, z, w] = [0, 1, 2, 3].map(|k| &examples[k * n..(k + 1) * n]);
            let distances = &mut scratch.distances[c * n..(c + 1) * n];
            for e in 0..n {
                let example = [x[e], y[e], z[e], w[e]];
                let (mut minus, mut plus) = (0.0, 0.0);
                for k in 0..4 {
                    minus += (q[k] - example[k]) * (q[k] - example[k]);
                    plus += (q[k] + example[k]) * (q[k] + example[k]);
                }
                distances[e] = minus * plus;
            }
            let nearest = distances.iter().copied().fold(f32::INFINITY, f32::min);
            scratch.fades[c] = fade(nearest, self.fade[c]);
        }
        if !scratch.peaks.is_empty() {
            scratch.peaks.fill(0.0);
            for distances in scratch.distances.chunks_exact(n) {
                scratch.peaks.iter_mut().zip(distances).for_each(|(sum, d)| *sum += d);
            }
            for peak in &mut scratch.peaks {
                let factor = 1.0 / (1.0 + self.peak_rate * *peak);
                *peak = factor * factor;
            }
        }
    }

    /// `κ(e)` of region `r`, (N), for the pose that was [`set`](Self::set); all nil where the pose is out of range.
    pub(crate) fn kernel<'scratch>(&self, r: usize, scratch: &'scratch mut PoseSpaceScratch) -> &'scratch [f32] {
        let region = &self.regions[r];
        let PoseSpaceScratch { distances, fades, peaks, kernel, denominators } = scratch;
        let faded: f32 = region.joints.iter().map(|&(c, _)| fades[c as usize]).product();
        kernel.fill(0.0);
        if faded == 0.0 {
            return kernel;
        }
        denominators.fill(1.0);
        let share = region.additive / region.joints.len().max(1) as f32;
        for &(c, rate) in &region.joints {
            let distances = &distances[c as usize * self.poses..][..self.poses];
            if region.additive == 0.0 {
                for (denominator, d) in denominators.iter_mut().zip(distances) {
                    *denominator *= 1.0 + rate * d;
                }
            } else {
                for ((denominator, kernel), d) in denominators.iter_mut().zip(kernel.iter_mut()).zip(distances) {
                    let factor = 1.0 + rate * d;
                    *denominator *= factor;
                    *kernel += share / factor;
                }
            }
        }
        for (kernel, denominator) in kernel.iter_mut().zip(denominators) {
            *kernel = faded * (region.constant + *kernel + region.product / *denominator);
        }
        if region.peak != 0.0 {
            kernel.iter_mut().zip(peaks).for_each(|(kernel, peak)| *kernel += faded * region.peak * *peak);
        }
        kernel
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        writer.u32("pose_space.poses", &[1], &[self.poses as u32]);
        writer.f32("pose_space.peak_rate", &[1], &[self.peak_rate]);
        writer.u16("pose_space.joints", &[self.joints.len()], &self.joints);
        writer.f32("pose_space.rotations", &[self.joints.len(), 4, self.poses], &self.rotations);
        writer.f32("pose_space.fade", &[self.fade.len(), 2], self.fade.as_flattened());
        let counts: Vec<u32> = self.regions.iter().map(|region| region.joints.len() as u32).collect();
        let pairs = || self.regions.iter().flat_map(|region| &region.joints);
        let joints: Vec<u16> = pairs().map(|&(joint, _)| joint).collect();
        let rates: Vec<f32> = pairs().map(|&(_, rate)| rate).collect();
        let terms: Vec<f32> = self.regions.iter().flat_map(|r| [r.constant, r.product, r.additive, r.peak]).collect();
        writer.u32("pose_space.region_joint_counts", &[counts.len()], &counts);
        writer.u16("pose_space.region_joints", &[joints.len()], &joints);
        writer.f32("pose_space.region_rates", &[rates.len()], &rates);
        writer.f32("pose_space.region_terms", &[counts.len(), 4], &terms);
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        let poses = reader.u32("pose_space.poses", &[Some(1)])?[0] as usize;
        let joints = reader.u16("pose_space.joints", &[None])?;
        let rotations = reader.f32("pose_space.rotations", &[Some(joints.len()), Some(4), Some(poses)])?;
        let fade = reader.f32("pose_space.fade", &[Some(joints.len()), Some(2)])?;
        let counts = reader.u32("pose_space.region_joint_counts", &[None])?;
        let region_joints = reader.u16("pose_space.region_joints", &[None])?;
        let rates = reader.f32("pose_space.region_rates", &[Some(region_joints.len())])?;
        let terms = reader.f32("pose_space.region_terms", &[Some(counts.len()), Some(4)])?;
        let mut pairs = region_joints.iter().copied().zip(rates);
        let mut regions = Vec::with_capacity(counts.len());
        for (&count, terms) in counts.iter().zip(terms.chunks_exact(4)) {
            let joints: Vec<(u16, f32)> = pairs.by_ref().take(count as usize).collect();
            if joints.len() != count as usize {
                return Err(short("pose_space.region_joints"));
            }
            regions.push(KernelRegion {
                joints,
                constant: terms[0],
                product: terms[1],
                additive: terms[2],
                peak: terms[3],
            });
        }
        let peak_rate = reader.f32("pose_space.peak_rate", &[Some(1)])?[0];
        Ok(Self {
            poses,
            peak_rate,
            rotations,
            fade: fade.chunks_exact(2).map(|f| [f[0], f[1]]).collect(),
            joints,
            regions,
        })
    }
}

/// A list that holds fewer entries than its counts claim.
pub(crate) fn short(name: &str) -> ModelError {
    ModelError::Format(format!("`{name}` holds fewer entries than its counts say"))
}

/// The rotation of a joint, `Q_parentᵀ Q_b`; the root's is the identity.
fn joint_rotation(character: &Character, posed: &PosedSkeleton, bone: usize) -> Quat {
    let rotation = |b: usize| posed.seen_rotation(b);
    match character.bones[bone].parent {
        Some(parent) => Quat::from_mat3a(&(rotation(parent).transpose() * rotation(bone))),
        None => Quat::from_mat3a(&Mat3A::IDENTITY),
    }
}

/// `fade_j` of a squared distance to the nearest example: one up to `near²`, nil from `far²` on, smooth between (in the
/// distance, not its square).
#[must_use]
pub fn fade(squared: f32, [near, far]: [f32; 2]) -> f32 {
    if squared <= near {
        return 1.0;
    }
    if squared >= far {
        return 0.0;
    }
    let t = (squared.sqrt() - near.sqrt()) / (far.sqrt() - near.sqrt());
    1.0 - t * t * (3.0 - 2.0 * t)
}
