//! What may be assumed of a skeleton's motion, and P = E[Gᵀ G] under it (appendix A), in the bones' own frames.
//!
//! L_j is bone j's transform relative to its parent, `G_j = G_φ(j) L_j`, L̄ its linear part and ℓ its translation; G has
//! three rows, and Ḡ, g are its linear part and translation. All models end in the same recursion (eq. 19): for j ≠ k, k
//! not an ancestor of j,
//!
//!   E[G_jᵀ G_k] = E[G_jᵀ G_φ(k)] E[L_k],
//!
//! which needs `E[L_k]` and the diagonal blocks `E[G_jᵀ G_j]`. The first model is given the diagonal; the others derive it
//! top-down by eq. 20 to 22. O(J²) in all.

use glam::{DAffine3, DMat3, DMat4, DVec3};
use sinew_examples::{Pose, Skeleton, nearest_rotation};

use crate::FitError;

/// Combinations of group samples that are enumerated at most.
const MOST_COMBINATIONS: usize = 100_000;

/// A statistical model of motion, from the most general to the most specific.
#[derive(Debug, Clone, PartialEq)]
pub enum MotionModel {
    /// Joints move independently of one another, in any way.
    IndependentJoints {
        /// `E[L_j]`, (J); the root's is not used.
        local: Vec<DMat4>,
        /// `E[G_jᵀ G_j]`, (J).
        diagonal: Vec<DMat4>,
    },
    /// Besides, each joint's rotation and translation are independent.
    IndependentComponents {
        /// `E[L_j]`, (J).
        local: Vec<DMat4>,
        /// `E[Ḡ_jᵀ Ḡ_j]`, (J): the identity if nothing scales.
        scale: Vec<DMat3>,
        /// `E‖Ḡ_φ(j) ℓ_j‖²`, (J).
        length: Vec<f64>,
    },
    /// Bones keep their lengths but may scale across.
    FixedTranslations {
        /// `E[L̄_j]`, (J).
        linear: Vec<DMat3>,
        /// `E[Ḡ_jᵀ Ḡ_j]`, (J).
        scale: Vec<DMat3>,
        /// ℓ_j, (J).
        translation: Vec<DVec3>,
    },
    /// Joints only turn, bones keep their lengths.
    Rotations {
        /// `E[L̄_j]`, (J).
        linear: Vec<DMat3>,
        /// ℓ_j, (J).
        translation: Vec<DVec3>,
    },
    /// Nothing is known but the skeleton: every rotation is as likely as any other, `E[L̄_j] = 0`.
    UniformRotations,
    /// Joints only turn; those of a group move together, groups and all other joints independently.
    Hybrid {
        /// `E[L̄_j]` of the joints in no group, (J).
        linear: Vec<DMat3>,
        /// ℓ_j, (J).
        translation: Vec<DVec3>,
        /// The groups; no joint in two of them.
        groups: Vec<Group>,
    },
    /// The plain average over samples: all joints move together, as sampled.
    Average(MotionSamples),
}

/// Joints that move together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The joints, each named by its bone.
    pub bones: Vec<usize>,
    /// L̄ of each of those joints in each sample, (samples)(bones).
    pub samples: Vec<Vec<DMat3>>,
}

/// Poses of a skeleton as local joint transforms, from which every model's priors can be taken.
#[derive(Debug, Clone, PartialEq)]
pub struct MotionSamples {
    /// L_j of each sample, (N)(J), between bones without their rest size; the root's is usually the identity.
    pub local: Vec<Vec<DAffine3>>,
}

impl MotionSamples {
    /// The joints of `poses`.
    pub fn new<'a>(skeleton: &Skeleton, poses: impl IntoIterator<Item = &'a Pose>) -> Self {
        let sizes = rest_sizes(skeleton);
        let local = |pose: &Pose| {
            let to_root = skeleton.root_frame(pose).inverse();
            let global = |b: usize| resized(pose.globals[b], 1.0 / sizes[b]);
            let joint = |b: usize| match skeleton.bones()[b].parent {
                Some(parent) => global(parent).inverse() * global(b),
                None => to_root * global(b),
            };
            (0..skeleton.bone_count()).map(joint).collect()
        };
        Self { local: poses.into_iter().map(local).collect() }
    }

    /// Root-relative globals G_j of each sample without the bones' rest size, (N)(J).
    #[must_use]
    pub fn globals(&self, skeleton: &Skeleton) -> Vec<Vec<DAffine3>> {
        self.local.iter().map(|local| compose(skeleton, local)).collect()
    }

    fn mean<T: std::ops::Add<Output = T> + std::ops::Mul<f64, Output = T>>(&self, of: impl Fn(usize) -> T) -> T {
        let sum = (1..self.local.len()).fold(of(0), |sum, e| sum + of(e));
        sum * (1.0 / self.local.len() as f64)
    }

    /// Priors of [`MotionModel::IndependentJoints`].
    #[must_use]
    pub fn independent_joints(&self, skeleton: &Skeleton) -> MotionModel {
        let globals = self.globals(skeleton);
        let bones = 0..skeleton.bone_count();
        MotionModel::IndependentJoints {
            local: bones.clone().map(|b| self.mean(|e| DMat4::from(self.local[e][b]))).collect(),
            diagonal: bones.map(|b| self.mean(|e| product(globals[e][b], globals[e][b]))).collect(),
        }
    }

    /// Priors of [`MotionModel::IndependentComponents`].
    #[must_use]
    pub fn independent_components(&self, skeleton: &Skeleton) -> MotionModel {
        let globals = self.globals(skeleton);
        let bones = 0..skeleton.bone_count();
        let length = |b: usize| {
            let parent = skeleton.parent(b);
            self.mean(|e| (globals[e][parent].matrix3 * self.local[e][b].translation).length_squared())
        };
        MotionModel::IndependentComponents {
            local: bones.clone().map(|b| self.mean(|e| DMat4::from(self.local[e][b]))).collect(),
            scale: self.scale(skeleton, &globals),
            length: bones.map(length).collect(),
        }
    }

    /// Priors of [`MotionModel::FixedTranslations`]; the lengths are the mean ones.
    #[must_use]
    pub fn fixed_translations(&self, skeleton: &Skeleton) -> MotionModel {
        let globals = self.globals(skeleton);
        let bones = 0..skeleton.bone_count();
        MotionModel::FixedTranslations {
            linear: bones.clone().map(|b| self.mean(|e| self.local[e][b].matrix3)).collect(),
            scale: self.scale(skeleton, &globals),
            translation: self.translations(skeleton),
        }
    }

    /// Priors of [`MotionModel::Rotations`]: the rotations' mean; scale is dropped.
    #[must_use]
    pub fn rotations(&self, skeleton: &Skeleton) -> MotionModel {
        let bones = 0..skeleton.bone_count();
        MotionModel::Rotations {
            linear: bones.map(|b| self.mean(|e| nearest_rotation(self.local[e][b].matrix3))).collect(),
            translation: self.translations(skeleton),
        }
    }

    /// Priors of [`MotionModel::Hybrid`]: the joints of each group move as sampled, all others independently.
    #[must_use]
    pub fn hybrid(&self, skeleton: &Skeleton, groups: &[Vec<usize>]) -> MotionModel {
        let MotionModel::Rotations { linear, translation } = self.rotations(skeleton) else {
            unreachable!("`rotations` gives rotations")
        };
        let sample = |bones: &Vec<usize>, local: &Vec<DAffine3>| {
            bones.iter().map(|&b| nearest_rotation(local[b].matrix3)).collect()
        };
        let group = |bones: &Vec<usize>| Group {
            bones: bones.clone(),
            samples: self.local.iter().map(|local| sample(bones, local)).collect(),
        };
        MotionModel::Hybrid { linear, translation, groups: groups.iter().map(group).collect() }
    }

    fn scale(&self, skeleton: &Skeleton, globals: &[Vec<DAffine3>]) -> Vec<DMat3> {
        let square = |m: DMat3| m.transpose() * m;
        (0..skeleton.bone_count()).map(|b| self.mean(|e| square(globals[e][b].matrix3))).collect()
    }

    fn translations(&self, skeleton: &Skeleton) -> Vec<DVec3> {
        (0..skeleton.bone_count()).map(|b| self.mean(|e| self.local[e][b].translation)).collect()
    }
}

/// `E[G_jᵀ G_k]`, (J, J) row by row, in the bones' own frames.
pub(super) fn expectation(skeleton: &Skeleton, model: &MotionModel) -> Result<Vec<DMat4>, FitError> {
    check(skeleton, model)?;
    let bones = skeleton.bone_count();
    let identity = vec![DMat3::IDENTITY; bones];
    Ok(match model {
        MotionModel::IndependentJoints { local, diagonal } => recursion(skeleton, local, diagonal),
        MotionModel::IndependentComponents { local, scale, length } => {
            recursion(skeleton, local, &diagonal(skeleton, local, scale, |b, _| length[b]))
        }
        MotionModel::FixedTranslations { linear, scale, translation } => fixed(skeleton, linear, scale, translation),
        MotionModel::Rotations { linear, translation } => fixed(skeleton, linear, &identity, translation),
        MotionModel::UniformRotations => {
            let translation: Vec<DVec3> = rest_locals(skeleton).iter().map(|local| local.translation).collect();
            let mut linear = vec![DMat3::ZERO; bones];
            linear[skeleton.root()] = DMat3::IDENTITY;
            fixed(skeleton, &linear, &identity, &translation)
        }
        MotionModel::Hybrid { linear, translation, groups } => hybrid(skeleton, linear, translation, groups),
        MotionModel::Average(samples) => {
            let globals = samples.globals(skeleton);
            let block = |index: usize| samples.mean(|e| product(globals[e][index / bones], globals[e][index % bones]));
            (0..bones * bones).map(block).collect()
        }
    })
}

fn check(skeleton: &Skeleton, model: &MotionModel) -> Result<(), FitError> {
    let bones = skeleton.bone_count();
    let lengths: Vec<usize> = match model {
        MotionModel::IndependentJoints { local, diagonal } => vec![local.len(), diagonal.len()],
        MotionModel::IndependentComponents { local, scale, length } => vec![local.len(), scale.len(), length.len()],
        MotionModel::FixedTranslations { linear, scale, translation } => {
            vec![linear.len(), scale.len(), translation.len()]
        }
        MotionModel::Rotations { linear, translation } | MotionModel::Hybrid { linear, translation, .. } => {
            vec![linear.len(), translation.len()]
        }
        MotionModel::UniformRotations => Vec::new(),
        MotionModel::Average(samples) => {
            if samples.local.is_empty() {
                return Err(FitError::Data("an average over poses needs at least one pose".into()));
            }
            samples.local.iter().map(Vec::len).collect()
        }
    };
    if let Some(found) = lengths.into_iter().find(|&found| found != bones) {
        return Err(FitError::Data(format!("the motion model speaks of {found} bones, the skeleton has {bones}")));
    }
    let MotionModel::Hybrid { groups, .. } = model else { return Ok(()) };
    let combinations = groups.iter().try_fold(1_usize, |product, group| product.checked_mul(group.samples.len()));
    if combinations.is_none_or(|count| count == 0 || count > MOST_COMBINATIONS) {
        return Err(FitError::Data(format!(
            "the groups' samples combine in more than {MOST_COMBINATIONS} ways, or a group has none; use fewer groups or samples"
        )));
    }
    let mut seen = vec![false; bones];
    for &b in groups.iter().flat_map(|group| &group.bones) {
        if b >= bones || std::mem::replace(&mut seen[b], true) {
            return Err(FitError::Data(format!("bone {b} is in two groups, or there is no such bone")));
        }
    }
    Ok(())
}

/// Fixed translations: `E‖Ḡ_φ ℓ‖² = ℓᵀ E[Ḡ_φᵀ Ḡ_φ] ℓ`.
fn fixed(skeleton: &Skeleton, linear: &[DMat3], scale: &[DMat3], translation: &[DVec3]) -> Vec<DMat4> {
    let local: Vec<DMat4> = linear.iter().zip(translation).map(|(m, t)| affine(*m, *t)).collect();
    let length = |b: usize, parent: usize| translation[b].dot(scale[parent] * translation[b]);
    recursion(skeleton, &local, &diagonal(skeleton, &local, scale, length))
}

/// The mean over all combinations of the groups' samples; given a sample, a group's joints are fixed and so independent.
fn hybrid(skeleton: &Skeleton, linear: &[DMat3], translation: &[DVec3], groups: &[Group]) -> Vec<DMat4> {
    let bones = skeleton.bone_count();
    let identity = vec![DMat3::IDENTITY; bones];
    let combinations: usize = groups.iter().map(|group| group.samples.len()).product();
    let mut sum = vec![DMat4::ZERO; bones * bones];
    for combination in 0..combinations {
        let mut linear = linear.to_vec();
        let mut rest = combination;
        for group in groups {
            let sample = &group.samples[rest % group.samples.len()];
            rest /= group.samples.len();
            group.bones.iter().zip(sample).for_each(|(&b, &m)| linear[b] = m);
        }
        let blocks = fixed(skeleton, &linear, &identity, translation);
        sum.iter_mut().zip(blocks).for_each(|(sum, block)| *sum += block * (1.0 / combinations as f64));
    }
    sum
}

/// `E[G_jᵀ G_j]`, (J), by eq. 20 to 22; `length(j, φ(j))` is `E‖Ḡ_φ(j) ℓ_j‖²`.
fn diagonal(skeleton: &Skeleton, local: &[DMat4], scale: &[DMat3], length: impl Fn(usize, usize) -> f64) -> Vec<DMat4> {
    let mut blocks = vec![DMat4::ZERO; local.len()];
    // Σ of E[Ḡ_jᵀ g_j] and E[g_jᵀ g_j] as the tree is walked.
    let mut mixed = vec![DVec3::ZERO; local.len()];
    let mut square = vec![0.0; local.len()];
    for &j in skeleton.parents_first() {
        let (linear, translation) = (DMat3::from_mat4(local[j]), local[j].w_axis.truncate());
        if j == skeleton.root() {
            // The root's own frame: it may scale, but its origin does not move.
            mixed[j] = linear.transpose() * translation;
            square[j] = translation.length_squared();
        } else {
            let parent = skeleton.parent(j);
            mixed[j] = linear.transpose() * (mixed[parent] + scale[parent] * translation);
            square[j] = square[parent] + 2.0 * mixed[parent].dot(translation) + length(j, parent);
        }
        let column = |k: usize| scale[j].col(k).extend(mixed[j][k]);
        blocks[j] = DMat4::from_cols(column(0), column(1), column(2), mixed[j].extend(square[j]));
    }
    blocks
}

/// Eq. 19 from the diagonal outwards: bone k after its parent, so `E[G_jᵀ G_φ(k)]` is there when it is needed.
fn recursion(skeleton: &Skeleton, local: &[DMat4], diagonal: &[DMat4]) -> Vec<DMat4> {
    let bones = local.len();
    let mut blocks = vec![DMat4::ZERO; bones * bones];
    let order = skeleton.parents_first();
    for (position, &k) in order.iter().enumerate() {
        blocks[k * bones + k] = diagonal[k];
        // Every bone before k in this order is no descendant of k.
        for &j in &order[..position] {
            let block = blocks[j * bones + skeleton.parent(k)] * local[k];
            blocks[j * bones + k] = block;
            blocks[k * bones + j] = block.transpose();
        }
    }
    blocks
}

/// `AᵀB` of two transforms with three rows.
pub(super) fn product(a: DAffine3, b: DAffine3) -> DMat4 {
    let columns = |t: DAffine3| [t.matrix3.x_axis, t.matrix3.y_axis, t.matrix3.z_axis, t.translation];
    let (a, b) = (columns(a), columns(b));
    let column = |c: usize| glam::DVec4::new(a[0].dot(b[c]), a[1].dot(b[c]), a[2].dot(b[c]), a[3].dot(b[c]));
    DMat4::from_cols(column(0), column(1), column(2), column(3))
}

/// Ĝ_b in the root's rest frame without its size, (J).
pub(super) fn rest_globals(skeleton: &Skeleton) -> Vec<DAffine3> {
    let to_root = skeleton.rest_root_frame().inverse();
    let sizes = rest_sizes(skeleton);
    skeleton.bones().iter().zip(sizes).map(|(bone, size)| resized(to_root * bone.rest, 1.0 / size)).collect()
}

/// The factor by which each bone scales at rest, (J).
///
/// A scale along all axes alike is no part of a skinning transform, `G S (Ĝ S)⁻¹ = G Ĝ⁻¹`. All bones are taken without theirs, so
/// that lengths are in the mesh's units throughout and a joint that only turns has a rotation.
pub(super) fn rest_sizes(skeleton: &Skeleton) -> Vec<f64> {
    skeleton.bones().iter().map(|bone| bone.rest.matrix3.determinant().abs().cbrt()).collect()
}

/// `G S`, S a scale by `size`.
pub(super) fn resized(global: DAffine3, size: f64) -> DAffine3 {
    DAffine3 { matrix3: global.matrix3 * size, ..global }
}

/// The rest joints, (J).
pub(super) fn rest_locals(skeleton: &Skeleton) -> Vec<DAffine3> {
    let rest = rest_globals(skeleton);
    let joint = |b: usize| match skeleton.bones()[b].parent {
        Some(parent) => rest[parent].inverse() * rest[b],
        None => rest[b],
    };
    (0..skeleton.bone_count()).map(joint).collect()
}

/// Globals (J) of local joint transforms (J).
pub(super) fn compose(skeleton: &Skeleton, local: &[DAffine3]) -> Vec<DAffine3> {
    let mut globals = local.to_vec();
    for &b in skeleton.parents_first() {
        if let Some(parent) = skeleton.bones()[b].parent {
            globals[b] = globals[parent] * local[b];
        }
    }
    globals
}

fn affine(linear: DMat3, translation: DVec3) -> DMat4 {
    DMat4::from(DAffine3 { matrix3: linear, translation })
}
