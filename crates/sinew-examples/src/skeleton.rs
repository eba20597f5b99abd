//! A tree of bones and its poses, both as global transforms.

use glam::{DAffine3, DQuat};

use crate::transform::rigid_part;
use crate::{ExamplesError, Notice};

/// A rest transform whose determinant, relative to its own scale, is below this cannot be inverted in f32.
const SMALLEST_RELATIVE_DETERMINANT: f64 = 1e-7;

/// One bone as it comes from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Bone {
    /// The bone's name.
    pub name: String,
    /// The parent's index; `None` for a root.
    pub parent: Option<usize>,
    /// The global rest transform Ĝ_b.
    pub rest: DAffine3,
}

/// A tree of bones (J) with one root. Bones keep their order; parents may come after children.
#[derive(Debug, Clone, PartialEq)]
pub struct Skeleton {
    bones: Vec<Bone>,
    root: usize,
    order: Vec<usize>,
}

/// The global posed transforms G_b of a skeleton's bones, (J).
#[derive(Debug, Clone, PartialEq)]
pub struct Pose {
    /// One global transform a bone.
    pub globals: Vec<DAffine3>,
}

impl Skeleton {
    /// Checks and makes a skeleton; several roots are first joined by [`join_roots`].
    pub fn new(bones: Vec<Bone>) -> Result<Self, ExamplesError> {
        if bones.is_empty() {
            return Err(ExamplesError::NoBones);
        }
        for (b, bone) in bones.iter().enumerate() {
            if let Some(parent) = bone.parent.filter(|&parent| parent >= bones.len()) {
                return Err(ExamplesError::ParentIndex {
                    bone: b,
                    name: bone.name.clone(),
                    parent: i64::try_from(parent).unwrap_or(i64::MAX),
                    bones: bones.len(),
                });
            }
            check_transform(bone.rest, "rest pose", b, &bone.name)?;
        }
        let order = parents_first(&bones)?;
        let root = order[0];
        if let Some(other) = order[1..].iter().copied().find(|&b| bones[b].parent.is_none()) {
            // `Examples::new` joins roots before it comes here; a caller who did not is told which bone is in the way.
            return Err(ExamplesError::ParentIndex {
                bone: other,
                name: bones[other].name.clone(),
                parent: -1,
                bones: bones.len(),
            });
        }
        Ok(Self { bones, root, order })
    }

    /// The bones, (J).
    #[must_use]
    pub fn bones(&self) -> &[Bone] {
        &self.bones
    }

    /// The number of bones, J.
    #[must_use]
    pub fn bone_count(&self) -> usize {
        self.bones.len()
    }

    /// The root bone's index.
    #[must_use]
    pub fn root(&self) -> usize {
        self.root
    }

    /// The parent of bone `b`; the root is its own parent, so that its joint rotation is nil.
    #[must_use]
    pub fn parent(&self, b: usize) -> usize {
        self.bones[b].parent.unwrap_or(b)
    }

    /// The children of bone `b`.
    pub fn children(&self, b: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.bones.len()).filter(move |&c| self.bones[c].parent == Some(b))
    }

    /// All bones, each after its parent.
    #[must_use]
    pub fn parents_first(&self) -> &[usize] {
        &self.order
    }

    /// The index of the bone called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.bones.iter().position(|bone| bone.name == name)
    }

    /// The rest pose.
    #[must_use]
    pub fn rest_pose(&self) -> Pose {
        Pose { globals: self.bones.iter().map(|bone| bone.rest).collect() }
    }

    /// The root's rest frame: the rigid part of its rest transform. Everything is fitted in this frame.
    #[must_use]
    pub fn rest_root_frame(&self) -> DAffine3 {
        rigid_part(self.bones[self.root].rest)
    }

    /// Skinning transforms in the root's own frame, (J):
    /// `T_b = (F⁻¹ G_b)(F̂⁻¹ Ĝ_b)⁻¹`, F and F̂ the root's posed and rest frames ([`rigid_part`] of its transforms).
    #[must_use]
    pub fn root_relative(&self, pose: &Pose) -> Vec<DAffine3> {
        let inverse_frame = self.root_frame(pose).inverse();
        let rest_frame = self.rest_root_frame();
        let relative = |(bone, &global): (&Bone, &DAffine3)| inverse_frame * global * bone.rest.inverse() * rest_frame;
        self.bones.iter().zip(&pose.globals).map(relative).collect()
    }

    /// The root's frame in `pose`: the rigid part of its global transform.
    #[must_use]
    pub fn root_frame(&self, pose: &Pose) -> DAffine3 {
        rigid_part(pose.globals[self.root])
    }

    /// Checks a pose of this skeleton; `place` names it in the error.
    pub(crate) fn check_pose(&self, pose: &Pose, frame: usize) -> Result<(), ExamplesError> {
        if pose.globals.len() != self.bones.len() {
            return Err(ExamplesError::BoneCount { frame, found: pose.globals.len(), expected: self.bones.len() });
        }
        for (b, &global) in pose.globals.iter().enumerate() {
            let place = format!("frame {frame}");
            check_finite(global, &place, b, &self.bones[b].name)?;
            // Only the root's frame is inverted; a limb may be scaled to nothing in a pose.
            if b == self.root {
                check_transform(global, &place, b, &self.bones[b].name)?;
            }
        }
        Ok(())
    }

    /// What is unusual about the skeleton over `poses`.
    pub(crate) fn notices(&self, poses: &[Pose]) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mirrored: Vec<String> =
            self.bones.iter().filter(|b| b.rest.matrix3.determinant() < 0.0).map(|b| b.name.clone()).collect();
        if !mirrored.is_empty() {
            notices.push(Notice::MirroredBones { bones: mirrored });
        }
        // A change of volume of 1 % is beyond what rounding or key reduction in exporters does.
        let change = |b: usize, pose: &Pose| {
            (pose.globals[b].matrix3.determinant() / self.bones[b].rest.matrix3.determinant() - 1.0).abs()
        };
        let mut scaled = Vec::new();
        let mut worst = (0.0, 0);
        for (b, bone) in self.bones.iter().enumerate() {
            for (frame, pose) in poses.iter().enumerate() {
                let change = change(b, pose);
                if change > 0.01 && scaled.last() != Some(&bone.name) {
                    scaled.push(bone.name.clone());
                }
                if change > worst.0 {
                    worst = (change, frame);
                }
            }
        }
        if !scaled.is_empty() {
            notices.push(Notice::ScaledBones { bones: scaled, frame: worst.1 });
        }
        notices
    }

    /// `pose` with every joint turned `factor` times as far from rest; the root stays.
    #[must_use]
    pub fn turned_farther(&self, pose: &Pose, factor: f64) -> Pose {
        let mut globals = pose.globals.clone();
        let mut done: Vec<bool> = (0..self.bones.len()).map(|b| b == self.root()).collect();
        while let Some(b) = (0..self.bones.len()).find(|&b| !done[b] && done[self.parent(b)]) {
            let parent = self.parent(b);
            let local = pose.globals[parent].inverse() * pose.globals[b];
            let rest = self.bones[parent].rest.inverse() * self.bones[b].rest;
            let turn = DQuat::from_mat3(&(rest.matrix3.inverse() * local.matrix3)).normalize();
            let turn = DQuat::from_scaled_axis(turn.to_scaled_axis() * factor);
            let still = DAffine3 { matrix3: rest.matrix3, translation: local.translation };
            globals[b] = globals[parent] * still * DAffine3::from_quat(turn);
            done[b] = true;
        }
        Pose { globals }
    }
}

/// Joins several roots under a new last bone that stands and moves with the first root, in the rest pose and in
/// every pose. The added bone must move with the character, or rigid motions would no longer carry through.
pub(crate) fn join_roots(bones: &mut Vec<Bone>, poses: &mut [Pose]) -> Option<Notice> {
    let roots: Vec<usize> = (0..bones.len()).filter(|&b| bones[b].parent.is_none()).collect();
    let [first, _, ..] = roots[..] else { return None };
    let joined = bones.len();
    let notice = Notice::RootsJoined { roots: roots.iter().map(|&b| bones[b].name.clone()).collect() };
    for pose in poses.iter_mut() {
        // A pose of the wrong length is refused later, with its frame number.
        if let Some(&global) = pose.globals.get(first).filter(|_| pose.globals.len() == joined) {
            pose.globals.push(global);
        }
    }
    let rest = bones[first].rest;
    for &root in &roots {
        bones[root].parent = Some(joined);
    }
    bones.push(Bone { name: "joined_root".into(), parent: None, rest });
    Some(notice)
}

fn check_finite(transform: DAffine3, place: &str, bone: usize, name: &str) -> Result<(), ExamplesError> {
    match transform.to_cols_array().iter().find(|value| !value.is_finite()) {
        Some(&value) => {
            Err(ExamplesError::NotFinite { place: format!("{place}, transform of bone {bone} ({name})"), value })
        }
        None => Ok(()),
    }
}

fn check_transform(transform: DAffine3, place: &str, bone: usize, name: &str) -> Result<(), ExamplesError> {
    check_finite(transform, place, bone, name)?;
    let m = transform.matrix3;
    let size = m.x_axis.length() * m.y_axis.length() * m.z_axis.length();
    let determinant = m.determinant();
    if !(determinant.abs() > SMALLEST_RELATIVE_DETERMINANT * size) {
        return Err(ExamplesError::SingularBone { place: place.into(), bone, name: name.into(), determinant });
    }
    Ok(())
}

/// All bones, each after its parent, roots first; an error if some bone is its own ancestor.
fn parents_first(bones: &[Bone]) -> Result<Vec<usize>, ExamplesError> {
    let mut order: Vec<usize> = (0..bones.len()).filter(|&b| bones[b].parent.is_none()).collect();
    let mut children = vec![Vec::new(); bones.len()];
    for (b, bone) in bones.iter().enumerate() {
        if let Some(parent) = bone.parent {
            children[parent].push(b);
        }
    }
    let mut next = 0;
    while next < order.len() {
        order.extend_from_slice(&children[order[next]]);
        next += 1;
    }
    if order.len() < bones.len() {
        let mut reached = vec![false; bones.len()];
        order.iter().for_each(|&b| reached[b] = true);
        let mut bone = reached.iter().position(|&r| !r).unwrap_or(0);
        // Walk up until we are on the cycle itself, so that the bone we name is truly its own ancestor.
        for _ in 0..bones.len() {
            bone = bones[bone].parent.unwrap_or(bone);
        }
        return Err(ExamplesError::ParentCycle { bone, name: bones[bone].name.clone() });
    }
    Ok(order)
}
