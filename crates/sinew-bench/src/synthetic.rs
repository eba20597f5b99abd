//! Characters of any size, for measuring only: a trunk with limbs, tubes of rings around bones, and smooth weights over
//! the nearest bones. What matters is that neighbours share most joints and that the sizes are right.

use glam::{Affine3A, Quat, Vec3};
use sinew_runtime::{Bone, Character, Skin};

/// How large.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Vertices, V.
    pub vertices: usize,
    /// Bones, J.
    pub bones: usize,
    /// Influences, K, the same for every vertex (as far as there are bones).
    pub influences: usize,
}

/// The T-Rex of Wang, Pulli and Popović (2007), the size of the built-in `creature`.
pub const CREATURE: Size = Size { vertices: 29_380, bones: 155, influences: 4 };

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
    let mut globals: Vec<Affine3A> = Vec::with_capacity(character.bones.len());
    for (b, bone) in character.bones.iter().enumerate() {
        let angle = 0.15 * (phase + b as f32 * 0.37).sin();
        let turn = Affine3A::from_quat(Quat::from_rotation_z(angle) * Quat::from_rotation_x(0.5 * angle));
        let local = match bone.parent {
            Some(parent) => globals[parent] * character.bones[parent].rest.inverse() * bone.rest,
            None => bone.rest,
        };
        globals.push(local * turn);
    }
    globals
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

/// Weights that fall off with the distance to the nearest `influences` joints.
fn nearest_bones(positions: &[[f32; 3]], bones: &[Bone], influences: usize) -> Skin {
    let width = influences.min(bones.len());
    let mut skin = Skin { width, joints: Vec::new(), weights: Vec::new() };
    for &p in positions {
        let mut distances: Vec<(f32, usize)> = bones
            .iter()
            .enumerate()
            .map(|(b, bone)| (Vec3::from(bone.rest.translation).distance(p.into()), b))
            .collect();
        distances.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f32 = distances[..width].iter().map(|(d, _)| 1.0 / (0.01 + d)).sum();
        for &(distance, bone) in &distances[..width] {
            skin.joints.push(bone as u16);
            skin.weights.push(1.0 / (0.01 + distance) / total);
        }
    }
    skin
}
