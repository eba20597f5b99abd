//! Characters of any size, for measuring only: a trunk with limbs, tubes of rings around bones, and smooth weights over
//! the nearest bones. What matters is that neighbours share most joints and that the sizes are right.

use glam::{Affine3A, Quat, Vec3};
use sinew_runtime::deform::{BlockRows, GradientPredictors, RotationalRegression};
use sinew_runtime::{Bone, Character, JointRanges, Skin};

/// How large.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Vertices, V.
    pub vertices: usize,
    /// Bones, J.
    pub bones: usize,
    /// Influences a vertex, on average (as far as there are bones).
    pub influences: f32,
}

/// The T-Rex of Wang, Pulli and Popović (2007), the size of the built-in `creature`.
pub const CREATURE: Size = Size { vertices: 29_380, bones: 155, influences: 4.0 };

/// Vertices around a ring.
const AROUND: usize = 20;
/// Bones of a limb; the first limb is the trunk that the others grow from.
const LIMB: usize = 12;
/// A bone's length, metres.
const LENGTH: f32 = 0.1;

/// A character of that size with weights over its nearest bones.
#[must_use]
pub fn character(size: Size) -> Character {
    let bones = bones(size.bones);
    let rest_positions = positions(size, &bones);
    let skin = nearest_bones(&rest_positions, &bones, size.influences);
    let rings = size.vertices / AROUND;
    let corner = |ring: usize, k: usize| (ring * AROUND + k % AROUND) as u32;
    let triangles = (0..rings.saturating_sub(1))
        .flat_map(|r| (0..AROUND).map(move |k| (r, k)))
        .flat_map(|(r, k)| {
            let [a, b, c, d] = [corner(r, k), corner(r, k + 1), corner(r + 1, k), corner(r + 1, k + 1)];
            [[a, b, c], [b, d, c]]
        })
        .collect();
    Character { rest_positions, triangles, polygons: None, uvs: None, bones, skin, fps: None }
}

/// A pose that bends every joint a little, differently for every `phase`: global transforms, (J).
#[must_use]
pub fn pose(character: &Character, phase: f32) -> Vec<Affine3A> {
    let bones = &character.bones;
    let mut globals: Vec<Option<Affine3A>> = vec![None; bones.len()];
    // Parents may stand anywhere; every round poses at least one bone of each chain.
    while globals.iter().any(Option::is_none) {
        for (b, bone) in bones.iter().enumerate() {
            let carried = match bone.parent {
                Some(parent) => globals[parent].map(|global| global * bones[parent].rest.inverse() * bone.rest),
                None => Some(bone.rest),
            };
            let angle = 0.15 * (phase + b as f32 * 0.37).sin();
            let turn = Affine3A::from_quat(Quat::from_rotation_z(angle) * Quat::from_rotation_x(0.5 * angle));
            globals[b] = carried.map(|carried| carried * turn);
        }
    }
    globals.into_iter().map(|global| global.unwrap_or(Affine3A::IDENTITY)).collect()
}

/// A pose within the trained ranges, as a clip has them, differently for every `phase`: global transforms, (J).
#[must_use]
pub fn pose_within(character: &Character, ranges: &JointRanges, phase: f32) -> Vec<Affine3A> {
    let bones = &character.bones;
    let root = bones.iter().position(|bone| bone.parent.is_none()).map_or(Affine3A::IDENTITY, |b| bones[b].rest);
    let (_, turn, origin) = root.to_scale_rotation_translation();
    let frame = Affine3A::from_rotation_translation(turn, origin);
    // Skinning transforms in the root's frame: each bone turns about its own rest position, which its parent carries.
    let mut moved: Vec<Option<Affine3A>> = vec![None; bones.len()];
    while moved.iter().any(Option::is_none) {
        for (b, bone) in bones.iter().enumerate() {
            let parent = bone.parent.map_or(Some(Affine3A::IDENTITY), |parent| moved[parent]);
            let share = 0.5 + 0.45 * (phase + b as f32 * 0.37).sin();
            let (low, high) = (Vec3::from(ranges.low[b]), Vec3::from(ranges.high[b]));
            let angle = if bone.parent.is_some() { low.lerp(high, share) } else { Vec3::ZERO };
            let pivot = Affine3A::from_translation((frame.inverse() * bone.rest).translation.into());
            let own = pivot * Affine3A::from_quat(Quat::from_scaled_axis(angle)) * pivot.inverse();
            moved[b] = parent.map(|parent| parent * own);
        }
    }
    let global = |(bone, moved): (&Bone, Option<Affine3A>)| {
        moved.map_or(bone.rest, |moved| frame * moved * frame.inverse() * bone.rest)
    };
    bones.iter().zip(moved).map(global).collect()
}

/// Blocks a proxy bone keeps in c₁ and in c₂ in [`rotational_regression`].
const KEPT: usize = 12;

/// Rotational regression of the usual make-up on `character`: every proxy bone follows one joint, has a dozen blocks in
/// c₁ and in c₂, and takes its bone's heaviest weight over. The numbers are not fitted to anything; only the cost is
/// meant.
#[must_use]
pub fn rotational_regression(character: &Character, proxies: usize) -> RotationalRegression {
    let bones = character.bones.len();
    let bone_of = |p: usize| (p * bones / proxies) as u16;
    let near = |p: usize, limit: usize| (0..KEPT.min(limit)).map(move |k| ((p + k) % limit) as u16);
    let starts = |limit: usize| (0..=proxies).map(|p| (p * KEPT.min(limit)) as u32).collect();
    let share = 1.0 / KEPT as f32;
    let identity = |r: usize, c: usize| if r == c { share } else { 0.0 };
    let mut skin = character.skin.clone();
    for joint in &mut skin.joints {
        let p = (*joint as usize * proxies).div_ceil(bones).min(proxies - 1);
        *joint = if bone_of(p) == *joint { p as u16 } else { proxies as u16 + *joint };
    }
    RotationalRegression {
        ranges: JointRanges {
            reference: vec![[0.0; 3]; bones],
            low: vec![[-1.0; 3]; bones],
            high: vec![[1.0; 3]; bones],
        },
        predictors: GradientPredictors {
            width: 2,
            features: 9,
            frames: (0..proxies).map(bone_of).collect(),
            joints: (0..proxies).flat_map(|p| [bone_of(p), bone_of((p + 1) % proxies)]).collect(),
            rotation: vec![0.1; proxies * 3 * 19],
            stretch: vec![0.01; proxies * 6 * 19],
        },
        c1: BlockRows {
            starts: starts(proxies),
            columns: (0..proxies).flat_map(|p| near(p, proxies)).collect(),
            blocks: vec![std::array::from_fn(|r| std::array::from_fn(|c| identity(r, c))); proxies * KEPT.min(proxies)],
        },
        c2: BlockRows {
            starts: starts(bones),
            columns: (0..proxies).flat_map(|p| near(bone_of(p) as usize, bones)).collect(),
            blocks: vec![
                std::array::from_fn(|r| std::array::from_fn(|c| 0.1 * identity(r, c)));
                proxies * KEPT.min(bones)
            ],
        },
        skin,
        points: Vec::new(),
    }
}

fn bones(count: usize) -> Vec<Bone> {
    let mut bones: Vec<Bone> = Vec::with_capacity(count);
    for b in 0..count {
        let (limb, along) = (b / LIMB, b % LIMB);
        let parent = match (limb, along) {
            (0, 0) => None,
            // Limbs grow from the trunk's bones in turn.
            (_, 0) => Some((limb - 1) % LIMB),
            _ => Some(b - 1),
        };
        let direction = Quat::from_rotation_y(limb as f32 * 2.4) * Vec3::new(1.0, 0.2 * limb as f32, 0.0).normalize();
        let start = parent.map_or(Vec3::ZERO, |p| bones[p].rest.translation.into());
        let rest = Affine3A::from_translation(start + LENGTH * direction);
        bones.push(Bone { name: format!("bone {b}"), parent, rest });
    }
    bones
}

/// Rings spread evenly along the bones, in order.
fn positions(size: Size, bones: &[Bone]) -> Vec<[f32; 3]> {
    let rings = size.vertices.div_ceil(AROUND);
    (0..size.vertices)
        .map(|v| {
            let along = (v / AROUND) as f32 / rings as f32 * size.bones as f32;
            let bone = (along as usize).min(size.bones - 1);
            let start: Vec3 = bones[bone].rest.translation.into();
            let parent = bones[bone].parent.unwrap_or(bone);
            let direction = (start - Vec3::from(bones[parent].rest.translation)).normalize_or(Vec3::X);
            let side = direction.any_orthonormal_vector();
            let around = Quat::from_axis_angle(direction, (v % AROUND) as f32 * std::f32::consts::TAU / AROUND as f32);
            (start + direction * LENGTH * along.fract() + around * side * 0.03).to_array()
        })
        .collect()
}

/// Weights that fall off with the distance to the nearest joints; whole rings have the number above or below the
/// average, so that the average comes out.
fn nearest_bones(positions: &[[f32; 3]], bones: &[Bone], influences: f32) -> Skin {
    let width = (influences.ceil() as usize).min(bones.len());
    let mut skin = Skin { width, joints: Vec::new(), weights: Vec::new() };
    for (v, &p) in positions.iter().enumerate() {
        let ring = (v / AROUND) as f32;
        let count = (((ring + 1.0) * influences).floor() - (ring * influences).floor()) as usize;
        let count = count.clamp(1, width);
        let mut distances: Vec<(f32, usize)> = bones
            .iter()
            .enumerate()
            .map(|(b, bone)| (Vec3::from(bone.rest.translation).distance(p.into()), b))
            .collect();
        distances.select_nth_unstable_by(width - 1, |a, b| a.0.total_cmp(&b.0));
        distances[..width].sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f32 = distances[..count].iter().map(|(d, _)| 1.0 / (0.01 + d)).sum();
        for (k, &(distance, bone)) in distances[..width].iter().enumerate() {
            skin.joints.push(if k < count { bone as u16 } else { 0 });
            skin.weights.push(if k < count { 1.0 / (0.01 + distance) / total } else { 0.0 });
        }
    }
    skin
}
