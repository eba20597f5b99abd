//! Poses beyond the trained ranges: predicted at the nearest trained pose, and carried on by the skeleton.
//!
//! A regression says nothing of joints turned farther than in its examples; extrapolated, its stretches and rotations grow
//! without bound, and the skin with them. So predictors and corrections see the pose held within the trained ranges,
//! joint by joint, and what is left of a bone's rotation turns the predicted gradients as plain skinning would:
//!
//!   `θ̃′_b = hold(θ̃_b)`,   `Q′_b = Q′_parent exp(θ̃′_b)`,   `E_b = Q_b Q′_bᵀ`,   `D_k = (Σ_b ω_kb E_b) D_k(θ̃′, Q′)`,
//!
//! `ω_kb = Σ_v α_vk w_vb / Σ_v α_vk` with α the weights that draw the vertices by proxies and w the plain skinning weights.
//! No gradient is larger than in the held pose, for a mean of rotations lengthens nothing; and proxy bones follow
//! from gradients and from the bones where these really are, by the same `t = c₁ d + c₂ q`, so that the skin stays in one
//! piece. (Carrying the proxies themselves on by ω tears it where neighbours follow different bones.) Within the ranges
//! every `E_b` is the identity, and nothing is computed here.

use glam::{Mat3A, Vec3A};

use crate::deform::RotationalRegression;
use crate::joint_rotations::{JointRanges, exp, log_near};
use crate::posed::nearest_rotation;
use crate::{Character, Model, PosedSkeleton};

/// How far predictors may see past a joint's trained range, in parts of its extent: only so far as to let the skin come to
/// rest there without a jolt. On a body whose test poses go up to 0.3 radians past the trained ones, errors grew with it.
pub(crate) const MARGIN: f32 = 0.05;

/// Radians past the range that are not beyond it: the logarithm's rounding next to a half turn.
pub const ROUNDING: f32 = 1e-3;

/// What holds poses within the ranges of a model.
#[derive(Debug, Clone)]
pub(crate) struct Beyond {
    /// The bones with a parent, parents before their children, each with its parent.
    pub order: Vec<(usize, usize)>,
    ranges: JointRanges,
    /// ω, a row a predictor: bones and their shares, which sum to one, (P).
    carriers: Vec<Vec<(usize, f32)>>,
}

impl Beyond {
    /// Prepares the ranges of `d`, the regression of `model`.
    pub fn new(model: &Model, d: &RotationalRegression) -> Self {
        let character = &model.character;
        Self { order: parents_first(character), ranges: model.held_ranges(d), carriers: d.carriers(character) }
    }

    /// Fills in what predictors see of the pose that was set, and `carries` with `Σ_b ω_kb E_b`, (P), or nothing if the pose
    /// is within the ranges.
    pub fn hold(&self, posed: &mut PosedSkeleton, carries: &mut Vec<Mat3A>) {
        self.hold_joints(posed);
        carries.clear();
        if posed.beyond {
            let carry = |row: &Vec<(usize, f32)>| {
                row.iter().fold(Mat3A::ZERO, |sum, &(b, weight)| sum + posed.excess[b] * weight)
            };
            carries.extend(self.carriers.iter().map(carry));
        }
    }

    /// Sets `posed`'s `beyond`, `held` and `excess`.
    pub fn hold_joints(&self, posed: &mut PosedSkeleton) {
        let PosedSkeleton { relative, turned, held, excess, beyond, .. } = posed;
        *beyond = false;
        for (turned, relative) in turned.iter_mut().zip(&*relative) {
            *turned = nearest_rotation(relative.matrix3);
        }
        held.copy_from_slice(turned);
        excess.fill(Mat3A::IDENTITY);
        for &(b, parent) in &self.order {
            // What nobody looks at is not held, and moves with its parent.
            let bounded = self.ranges.low[b][0].is_finite();
            if !bounded && excess[parent] == Mat3A::IDENTITY {
                continue;
            }
            // Of the rotations as they are: products of what is held and what is left over would double what rounding leaves at
            // every joint of a long chain.
            let own = turned[b];
            let turn = turned[parent].transpose() * own;
            let reference = Vec3A::from_array(self.ranges.reference[b]);
            let near = if bounded { self.ranges.held(b, log_near(turn, reference)) } else { None };
            if near.is_some() || excess[parent] != Mat3A::IDENTITY {
                *beyond = true;
                held[b] = nearest_rotation(held[parent] * near.map_or(turn, exp));
                excess[b] = own * held[b].transpose();
            }
        }
    }
}

impl Model {
    /// The joints that the predictors of its regression `d` or a correction look at, ascending.
    #[must_use]
    pub fn watched_joints(&self, d: &RotationalRegression) -> Vec<u16> {
        let proxies = self.proxy_correction().into_iter().flat_map(|c| c.drivers.joints());
        let vertices = self.vertex_correction().into_iter().flat_map(|c| c.space.joints.clone());
        let mut joints: Vec<u16> = d.predictors.joints.iter().copied().chain(proxies).chain(vertices).collect();
        joints.sort_unstable();
        joints.dedup();
        joints
    }

    /// The ranges that poses are held within: the trained ones of the joints that are watched. What nobody looks at need
    /// not be held, and its ranges have no end.
    #[must_use]
    pub fn held_ranges(&self, d: &RotationalRegression) -> JointRanges {
        let watched = self.watched_joints(d);
        let mut ranges = d.ranges.clone();
        for b in (0..self.character.bones.len()).filter(|&b| watched.binary_search(&(b as u16)).is_err()) {
            ranges.low[b] = [f32::NEG_INFINITY; 3];
            ranges.high[b] = [f32::INFINITY; 3];
        }
        ranges
    }
}

impl JointRanges {
    /// The rotation `log` of joint `b` held within its range and a margin, if it is not within the range: past the end it comes
    /// ever more slowly to the margin's end, so that neither the pose nor its speed jumps. Each component by itself, and the
    /// more the farther.
    #[must_use]
    pub fn held(&self, b: usize, log: Vec3A) -> Option<Vec3A> {
        let (low, high) = (Vec3A::from_array(self.low[b]), Vec3A::from_array(self.high[b]));
        let past = (log - high).max(Vec3A::ZERO) - (low - log).max(Vec3A::ZERO);
        if past.abs().max_element() <= ROUNDING {
            return None;
        }
        let margin = (high - low) * MARGIN + ROUNDING;
        // e ↦ m e / (m + e): of slope one at e = 0, m at infinity.
        Some(log - past + margin * past / (margin + past.abs()))
    }
}

impl RotationalRegression {
    /// ω: the bones that carry each key gradient on beyond the trained ranges, and their shares, which sum to one, (P).
    #[must_use]
    pub fn carriers(&self, character: &Character) -> Vec<Vec<(usize, f32)>> {
        let (proxies, bones) = (self.proxy_count(), character.bones.len());
        let mut sums = vec![vec![0.0_f32; bones]; proxies];
        for v in 0..character.vertex_count() {
            for (p, alpha) in self.skin.vertex(v).filter(|&(joint, _)| joint < proxies) {
                character.skin.vertex(v).for_each(|(b, w)| sums[p][b] += (alpha * w).max(0.0));
            }
        }
        let row = |(p, sums): (usize, Vec<f32>)| {
            let total: f32 = sums.iter().sum();
            if total == 0.0 {
                // It draws nothing.
                return vec![(usize::from(self.predictors.frames[p]), 1.0)];
            }
            let shares = sums.into_iter().map(|sum| sum / total).enumerate();
            shares.filter(|&(_, share)| share > 0.0).collect()
        };
        sums.into_iter().enumerate().map(row).collect()
    }
}

/// The bones with a parent, parents before their children, each with its parent.
pub(crate) fn parents_first(character: &Character) -> Vec<(usize, usize)> {
    let depth = |b: usize| std::iter::successors(Some(b), |&b| character.bones[b].parent).count();
    let joints = character.bones.iter().enumerate();
    let mut order: Vec<(usize, usize)> = joints.filter_map(|(b, bone)| Some((b, bone.parent?))).collect();
    order.sort_by_key(|&(b, _)| depth(b));
    order
}

#[cfg(test)]
mod tests {
    use glam::{Affine3A, Quat, Vec3};

    use super::*;
    use crate::{Bone, Skin};

    fn ranges() -> JointRanges {
        JointRanges { reference: vec![[0.0; 3]], low: vec![[-0.5, 0.0, 0.0]], high: vec![[1.0, 0.0, 2.0]] }
    }

    #[test]
    fn nothing_within_the_range_is_held() {
        let ranges = ranges();
        for log in
            [Vec3A::ZERO, Vec3A::new(-0.5, 0.0, 2.0), Vec3A::new(1.0, 0.0, 0.0), Vec3A::new(1.0009, -0.0009, 1.0)]
        {
            assert_eq!(ranges.held(0, log), None);
        }
    }

    #[test]
    fn a_long_chain_keeps_its_rotations() {
        let bone = |b: usize| Bone {
            name: b.to_string(),
            parent: b.checked_sub(1),
            rest: Affine3A::from_translation(Vec3::X * b as f32),
        };
        let character = Character {
            rest_positions: Vec::new(),
            triangles: Vec::new(),
            polygons: None,
            uvs: None,
            bones: (0..150).map(bone).collect(),
            skin: Skin { width: 1, joints: Vec::new(), weights: Vec::new() },
            fps: None,
        };
        let (low, high) = (vec![[-0.01; 3]; 150], vec![[0.01; 3]; 150]);
        let ranges = JointRanges { reference: vec![[0.0; 3]; 150], low, high };
        let beyond = Beyond { order: parents_first(&character), ranges, carriers: Vec::new() };
        let turned = |b: usize| Affine3A::from_quat(Quat::from_rotation_z(0.03 * b as f32)) * character.bones[b].rest;
        let mut posed = PosedSkeleton::new(&character);
        posed.set(&(0..150).map(turned).collect::<Vec<_>>());
        beyond.hold(&mut posed, &mut Vec::new());
        assert!(posed.beyond);
        for b in 0..150 {
            let (held, excess) = (posed.held[b], posed.excess[b]);
            // 1e-5: a hundred and fifty products of f32 rotations.
            assert!(
                (excess * held - nearest_rotation(posed.relative[b].matrix3)).abs_diff_eq(Mat3A::ZERO, 1e-5),
                "{b}"
            );
            assert!((held.transpose() * held).abs_diff_eq(Mat3A::IDENTITY, 1e-5), "{b}");
        }
    }

    #[test]
    fn what_is_held_comes_smoothly_to_the_margins_end() {
        let ranges = ranges();
        let at = |x: f32| ranges.held(0, Vec3A::new(x, 0.0, 0.0)).map_or(x, |log| log.x);
        let end = 1.0 + 1.5 * MARGIN + ROUNDING;
        let mut before = at(1.0);
        for step in 1..400_u16 {
            let x = 1.0 + 0.01 * f32::from(step);
            let held = at(x);
            // It grows, never faster than the joint turns (1e-5 is rounding), and stays below the end.
            assert!(held > before - 1e-6 && held - before < 0.01 + 1e-5 && held < end, "{x}: {held}");
            before = held;
        }
        // Four radians past a margin of 0.076 all but 2 % of it is used up.
        assert!(before > end - 2e-3, "{before} instead of {end}");
        // A component that was never trained hardly moves at all.
        assert!(ranges.held(0, Vec3A::new(0.0, 1.0, 0.0)).unwrap().y <= ROUNDING);
    }
}
