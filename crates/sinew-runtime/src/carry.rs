//! Beyond the trained ranges, for models that draw vertices from points: the nearest pose within them, carried on by plain
//! skinning.
//!
//! Entries of a palette that draw a vertex from points of their own must move as they did in training; beyond it they part, and
//! the vertex leaves the mesh. (Weights that are not negative hold it between them, see [`beyond`](crate::beyond).) So the whole
//! pose is held within the ranges, joint by joint, and what that leaves over carries the vertices on:
//!
//!   `v = Σ_b w_b X_b v′`,   `X_b = T_b T′_b⁻¹`,
//!
//! v′ being the vertex in the held pose, whose bones are T′_b, and w the weights of linear blend skinning, smoothed ([`smooth_skin`]). The skin then bends
//! there as plain skinning bends it, no more.

use glam::{Affine3A, Mat3A, Vec3A};

use crate::beyond::Beyond;
use crate::deform::RotationalRegression;
use crate::kernel::Matrix;
use crate::kernel::carry::{CarrySkin, Excess};
use crate::plan::Plan;
use crate::{Character, Model, PosedSkeleton, Skin};

/// What holds poses and carries vertices on.
#[derive(Debug, Clone)]
pub(crate) struct Carry {
    beyond: Beyond,
    /// Where each joint is at rest, in the root's rest frame, (J).
    joints: Vec<Vec3A>,
    skin: Smooth,
    /// The bones that carry each proxy bone on, and their shares, (P).
    carriers: Vec<Vec<(usize, f32)>>,
}

/// The weights that carry vertices on.
#[derive(Debug, Clone)]
enum Smooth {
    /// For the registers of a plan.
    Registers(CarrySkin),
    /// For evaluation without kernels.
    Plain(Skin),
}

/// A pose that is held, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct Carried {
    /// Whether the last pose was beyond the ranges; if not, nothing here is of it.
    pub beyond: bool,
    /// The bones' globals in the held pose, (J).
    pub held: Vec<Affine3A>,
    /// X_b in the world, (J), and row by row.
    pub excess: Vec<Affine3A>,
    rows: Vec<Matrix>,
    /// Which of them move nothing, (J).
    still: Vec<bool>,
}

impl Carried {
    /// Room for poses of so many bones.
    pub fn new(bones: usize) -> Self {
        let still = Affine3A::IDENTITY;
        Self {
            beyond: false,
            held: vec![still; bones],
            excess: vec![still; bones],
            rows: vec![(&still).into(); bones],
            still: vec![true; bones],
        }
    }
}

impl Carry {
    /// Prepares the ranges and the skin of `model`, whose regression is `d` and whose vertices `plan` poses.
    pub fn new(model: &Model, d: &RotationalRegression, plan: &Plan) -> Self {
        let character = &model.character;
        let to_root = PosedSkeleton::new(character).rest_frame.inverse();
        let joint = |bone: &crate::Bone| to_root.transform_point3a(bone.rest.translation);
        Self {
            beyond: Beyond::new(model, d),
            joints: character.bones.iter().map(joint).collect(),
            skin: match (smooth_skin(character), plan) {
                (skin, Plan::Direct) => Smooth::Plain(skin),
                (skin, plan) => Smooth::Registers(CarrySkin::new(&skin, plan.eights())),
            },
            carriers: d.carriers(character),
        }
    }

    /// Takes a pose; `posed` takes the held one.
    pub fn hold(&self, pose: &[Affine3A], posed: &mut PosedSkeleton, carried: &mut Carried) {
        posed.set(pose);
        self.beyond.hold_joints(posed);
        carried.beyond = posed.beyond;
        if !posed.beyond {
            return;
        }
        let frame = posed.frame;
        let to_frame = frame.inverse();
        // X_b in the root's frame; nothing is left over at the root.
        carried.excess.clear();
        carried.excess.resize(pose.len(), Affine3A::IDENTITY);
        for &(b, parent) in &self.beyond.order {
            let there = posed.relative[b].transform_point3a(self.joints[b]);
            // A joint stays where its parent has it.
            let here = carried.excess[parent].inverse().transform_point3a(there);
            let turn = posed.excess[b];
            carried.excess[b] = Affine3A { matrix3: turn, translation: there - turn * here };
        }
        carried.held.clear();
        carried.rows.clear();
        carried.still.clear();
        for (excess, &global) in carried.excess.iter_mut().zip(pose) {
            let still = *excess == Affine3A::IDENTITY;
            *excess = if still { *excess } else { frame * *excess * to_frame };
            carried.held.push(if still { global } else { excess.inverse() * global });
            carried.rows.push((&*excess).into());
            carried.still.push(still);
        }
        posed.set(&carried.held);
    }

    /// What carries the registers of the plan on.
    pub fn registers<'a>(&'a self, carried: &'a Carried) -> Option<(&'a CarrySkin, Excess<'a>)> {
        match &self.skin {
            Smooth::Registers(skin) => Some((skin, Excess { transforms: &carried.rows, still: &carried.still })),
            Smooth::Plain(_) => None,
        }
    }

    /// Carries vertices on from the held pose, if that was not done where they were posed.
    pub fn positions(&self, carried: &Carried, positions: &mut [[f32; 3]]) {
        let Smooth::Plain(skin) = &self.skin else { return };
        for (v, position) in positions.iter_mut().enumerate() {
            let held = Vec3A::from_array(*position);
            let term = |(b, w): (usize, f32)| w * carried.excess[b].transform_point3a(held);
            *position = skin.vertex(v).map(term).sum::<Vec3A>().to_array();
        }
    }

    /// Turns normals on from the held pose.
    pub fn normals(&self, character: &Character, carried: &Carried, normals: &mut [[f32; 3]]) {
        for (v, normal) in normals.iter_mut().enumerate() {
            let blended = character.skin.vertex(v);
            let turn = blended.fold(Mat3A::ZERO, |sum, (b, w)| sum + w * carried.excess[b].matrix3);
            *normal = (turn * Vec3A::from_array(*normal)).normalize_or(Vec3A::from_array(*normal)).to_array();
        }
    }

    /// Entry `i` of the palette carried on: a bone to where it is, a proxy bone with the bones whose vertices it draws.
    pub fn entry(&self, carried: &Carried, i: usize) -> Affine3A {
        let Some(shares) = self.carriers.get(i) else { return carried.excess[i - self.carriers.len()] };
        let nothing = Affine3A { matrix3: Mat3A::ZERO, translation: Vec3A::ZERO };
        shares.iter().fold(nothing, |sum, &(b, share)| Affine3A {
            matrix3: sum.matrix3 + share * carried.excess[b].matrix3,
            translation: sum.translation + share * carried.excess[b].translation,
        })
    }
}

/// How often weights are averaged with their neighbours'.
const ROUNDS: usize = 4;

/// Entries a vertex at most.
const WIDTH: usize = 8;

/// What is taken off every weight, half of a vertex's largest at most: most of what averaging spreads is less, and every bone that a
/// vertex follows takes time.
const TAKEN: f32 = 0.04;

/// The character's weights, each averaged with its neighbours' a few times: fitted weights may leap from vertex to vertex where the
/// examples do not mind, and what carries vertices far must not. Small ones are left out without a leap.
#[must_use]
pub fn smooth_skin(character: &Character) -> Skin {
    let bones = character.bones.len();
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); character.vertex_count()];
    for &[a, b, c] in &character.triangles {
        for [v, w] in [[a, b], [b, c], [c, a], [b, a], [c, b], [a, c]] {
            neighbours[v as usize].push(w);
        }
    }
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    let mut rows: Vec<Vec<(usize, f32)>> =
        (0..character.vertex_count()).map(|v| character.skin.vertex(v).collect()).collect();
    let mut sums = vec![0.0_f32; bones];
    for _ in 0..ROUNDS {
        let averaged = |(v, list): (usize, &Vec<u32>)| {
            let share = 0.5 / list.len().max(1) as f32;
            let own = if list.is_empty() { 1.0 } else { 0.5 };
            let mut touched = Vec::new();
            let around = list.iter().map(|&w| (w as usize, share)).chain([(v, own)]);
            for (w, share) in around {
                for &(b, weight) in &rows[w] {
                    if sums[b] == 0.0 {
                        touched.push(b);
                    }
                    sums[b] += share * weight;
                }
            }
            touched.sort_unstable();
            touched.dedup();
            touched.into_iter().map(|b| (b, std::mem::take(&mut sums[b]))).collect::<Vec<_>>()
        };
        rows = neighbours.iter().enumerate().map(averaged).collect();
    }
    for row in &mut rows {
        let taken = row.iter().fold(0.0_f32, |most, pair| most.max(pair.1)).min(2.0 * TAKEN) / 2.0;
        row.iter_mut().for_each(|(_, weight)| *weight -= taken);
        row.retain(|&(_, weight)| weight > 0.0);
    }
    let width = rows.iter().map(Vec::len).max().unwrap_or(1).clamp(1, WIDTH);
    let mut skin = Skin { width, joints: Vec::new(), weights: Vec::new() };
    for mut row in rows {
        row.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        row.truncate(width);
        let total: f32 = row.iter().map(|pair| pair.1).sum();
        for k in 0..width {
            let (b, weight) = row.get(k).copied().unwrap_or((0, 0.0));
            skin.joints.push(b as u16);
            skin.weights.push(weight / total.max(f32::MIN_POSITIVE));
        }
    }
    skin
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bone;

    /// A strip of vertices, each following one bone.
    fn strip(bones: usize, bone_of: &[usize], triangles: Vec<[u32; 3]>) -> Character {
        let bone = |b: usize| Bone { name: b.to_string(), parent: b.checked_sub(1), rest: Affine3A::IDENTITY };
        Character {
            rest_positions: (0..bone_of.len()).map(|v| [v as f32, 0.0, 0.0]).collect(),
            triangles,
            polygons: None,
            uvs: None,
            bones: (0..bones).map(bone).collect(),
            skin: Skin {
                width: 1,
                joints: bone_of.iter().map(|&b| b as u16).collect(),
                weights: vec![1.0; bone_of.len()],
            },
            fps: None,
        }
    }

    fn check(skin: &Skin) {
        for v in 0..skin.vertex_count() {
            let weights: Vec<f32> = skin.vertex(v).map(|(_, w)| w).collect();
            let sum: f32 = weights.iter().sum();
            // 1e-6: a few roundings of f32.
            assert!((sum - 1.0).abs() < 1e-6 && weights.iter().all(|&w| w >= 0.0), "vertex {v}: {weights:?}");
        }
    }

    #[test]
    fn a_leap_of_weights_becomes_a_slope_and_far_from_it_nothing_changes() {
        let bone_of: Vec<usize> = (0..40).map(|v| v / 20).collect();
        let skin = smooth_skin(&strip(2, &bone_of, (2..40).map(|v| [v - 2, v - 1, v]).collect()));
        check(&skin);
        let second = |v: usize| skin.vertex(v).filter(|pair| pair.0 == 1).map(|pair| pair.1).sum::<f32>();
        assert!((0..39).all(|v| second(v) <= second(v + 1)));
        // A quarter: four rounds over four neighbours each spread the leap over eight vertices, most of it over four.
        assert!((0..39).all(|v| second(v + 1) - second(v) < 0.25), "{:?}", (0..40).map(second).collect::<Vec<_>>());
        assert_eq!([second(0), second(39)], [0.0, 1.0]);
    }

    #[test]
    fn a_vertex_among_many_bones_and_one_without_neighbours_keep_weights() {
        // A fan of forty bones about vertex 0; the last vertex stands alone.
        let bone_of: Vec<usize> = (0..42).map(|v| v % 41).collect();
        let skin = smooth_skin(&strip(41, &bone_of, (1..40).map(|v| [0, v, v + 1]).collect()));
        check(&skin);
        assert_eq!(skin.vertex(41).filter(|pair| pair.1 > 0.0).collect::<Vec<_>>(), [(0, 1.0)]);
    }
}
