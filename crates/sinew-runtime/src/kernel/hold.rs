//! Poses beyond the trained ranges, in lanes: joints held within their ranges, and the predicted gradients carried on by
//! what that leaves of the bones' rotations. The formulas stand in [`beyond`](crate::beyond), which is the plain twin.
//!
//! Only such poses pay for it: the rotations are found for within first, and looked at again once they are held.

use glam::{Quat, Vec4};

use super::Matrix;
use super::lanes::{Lanes, Row};
use super::regress::{Joints, LANES, gathered, loaded, rows_of};
use super::rotation::{dot, exponentials, on_branch, product, short_logarithms};
use crate::beyond::{MARGIN, ROUNDING};

/// What holds a regression's joints and carries its gradients.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    /// Bones with a parent, parents before their children.
    pub links: Vec<Link>,
    /// ω of the gradients in use, (G).
    pub gradients: Carriers,
    /// ω of all proxies, (P); empty if nothing of theirs is carried.
    pub changes: Carriers,
}

/// ω: the bones that carry something on.
#[derive(Debug, Clone, Default)]
pub(super) struct Carriers {
    /// The number of bones of each thing, and all bones' places in the rotations with their shares.
    counts: Vec<usize>,
    shares: Vec<(u32, f32)>,
}

/// A bone and its parent: places in the rotations; and the place of its joint, if someone watches it.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub bone: u32,
    pub parent: u32,
    pub joint: Option<u32>,
}

/// Memory for it, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(super) struct HoldRoom {
    /// Quaternions of F Q′_b as the room's rotations stand.
    pub rotations: Vec<Row>,
    /// `F E_b Fᵀ` in the same places, without translation.
    excess: Vec<Matrix>,
}

impl HoldRoom {
    /// Room for so many rotations.
    pub fn new(rotations: usize) -> Self {
        Self { rotations: vec![Row::default(); rotations], excess: vec![Matrix::default(); rotations] }
    }
}

impl Hold {
    /// Holds the joints' rotations `turns` within their ranges and fills in what follows for the bones; `rotations` are
    /// those of all bones.
    #[inline(always)]
    pub fn hold<L: Lanes>(
        &self,
        s: L,
        joints: &[Joints],
        rotations: &[Row],
        turns: &mut [[Row; 4]],
        room: &mut HoldRoom,
    ) {
        for (joints, turn) in joints.iter().zip(turns.iter_mut()) {
            let held = within(s, joints, [s.load(&turn[0]), s.load(&turn[1]), s.load(&turn[2]), s.load(&turn[3])]);
            *turn = [Row(s.array(held[0])), Row(s.array(held[1])), Row(s.array(held[2])), Row(s.array(held[3]))];
        }
        self.chain(rotations, turns, &mut room.rotations);
        let places = |first: usize| std::array::from_fn(|l| (first + l) as u32);
        for first in (0..rotations.len()).step_by(LANES) {
            let [x, y, z, w] = gathered(s, &room.rotations, &places(first));
            let zero = s.splat(0.0);
            let back = [s.sub(zero, x), s.sub(zero, y), s.sub(zero, z), w];
            let excess = super::rotation::matrices(s, product(s, gathered(s, rotations, &places(first)), back));
            rows_of(s, excess, &places(first), &mut room.excess);
        }
    }

    /// `Q′_b = Q′_parent exp(θ̃′_b)`, bone by bone.
    #[inline(always)]
    fn chain(&self, rotations: &[Row], turns: &[[Row; 4]], held: &mut [Row]) {
        let quat = |row: &Row| Quat::from_slice(&row.0);
        held.copy_from_slice(rotations);
        for Link { bone, parent, joint } in &self.links {
            let turn = match joint {
                Some(joint) => {
                    let (turn, lane) = (&turns[*joint as usize / LANES], *joint as usize % LANES);
                    Quat::from_xyzw(turn[0].0[lane], turn[1].0[lane], turn[2].0[lane], turn[3].0[lane])
                }
                None => quat(&rotations[*parent as usize]).conjugate() * quat(&rotations[*bone as usize]),
            };
            let q = quat(&held[*parent as usize]) * turn;
            // A step of Newton towards length one: products of many would drift off.
            let q = q * (1.5 - 0.5 * q.length_squared());
            held[*bone as usize].0[..4].copy_from_slice(&q.to_array());
        }
    }
}

impl Carriers {
    /// Bones and shares of each thing; `place` gives a bone's place in the rotations.
    pub fn new<'a>(rows: impl Iterator<Item = &'a Vec<(usize, f32)>>, place: impl Fn(u16) -> u32) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.counts.push(row.len());
            all.shares.extend(row.iter().map(|&(b, share)| (place(b as u16), share)));
        }
        all
    }

    /// How many things are carried.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// `(Σ_b ω_kb F E_b Fᵀ) M_k` of every matrix: key gradients F D_k, or changes of proxies.
    #[inline(always)]
    pub fn carry(&self, room: &HoldRoom, matrices: &mut [Matrix]) {
        let mut shares = &self.shares[..];
        for (&count, matrix) in self.counts.iter().zip(matrices) {
            let own;
            (own, shares) = shares.split_at(count);
            let mut sum = [Vec4::ZERO; 3];
            for &(place, share) in own {
                let excess = &room.excess[place as usize].0;
                for row in 0..3 {
                    sum[row] += share * Vec4::from_slice(&excess[4 * row..]);
                }
            }
            let [x, y, z] = [0, 4, 8].map(|row| Vec4::from_slice(&matrix.0[row..]));
            for row in 0..3 {
                (sum[row].x * x + sum[row].y * y + sum[row].z * z).write_to_slice(&mut matrix.0[4 * row..]);
            }
        }
    }
}

/// Eight joints' rotations held within their ranges, those that are not within.
#[inline(always)]
fn within<L: Lanes>(s: L, joints: &Joints, q: [L::V; 4]) -> [L::V; 4] {
    let (zero, one, rounding) = (s.splat(0.0), s.splat(1.0), s.splat(ROUNDING));
    let short = short_logarithms(s, q).0;
    let log = on_branch(s, short, loaded(s, &joints.reference), loaded(s, &joints.direction));
    let (middle, half) = (loaded(s, &joints.middle), loaded(s, &joints.half));
    let (mut held, mut most) = (log, zero);
    for k in 0..3 {
        let off = s.sub(log[k], middle[k]);
        let sign = s.select_less(off, zero, s.splat(-1.0), one);
        let half = s.sub(half[k], rounding);
        let past = s.sub(s.mul(sign, off), half);
        let past = s.select_less(past, zero, zero, past);
        most = s.select_less(most, past, past, most);
        // e ↦ m e / (m + e) past the end: less by e² / (m + e).
        let margin = s.mul_add(s.splat(2.0 * MARGIN), half, rounding);
        let less = s.div(s.mul(past, past), s.add(margin, past));
        held[k] = s.neg_mul_add(sign, less, log[k]);
    }
    let exponential = exponentials(s, held);
    let mut out = q;
    for k in 0..4 {
        out[k] = s.select_less(rounding, most, exponential[k], q[k]);
    }
    // Of length one again: q was rounded on its way.
    let length = s.mul_add(out[3], out[3], dot(s, [out[0], out[1], out[2]], [out[0], out[1], out[2]]));
    let scale = s.neg_mul_add(s.splat(0.5), length, s.splat(1.5));
    [s.mul(out[0], scale), s.mul(out[1], scale), s.mul(out[2], scale), s.mul(out[3], scale)]
}
