//! Rotational regression's prediction, from a palette with the bones' matrices to the proxy bones' matrices beside them:
//!
//!   t = c₁ d(q) + c₂ q
//!
//! What does not grow with the mesh, and so must be small: everything runs on eight joints, eight predictors or four
//! proxies (see `draw`) at a time, and straight in the world. With F the root's frame and F̂ its rest frame, a proxy's world
//! transform is `F (c₁ d + c₂ q) F̂⁻¹`. F̂ is constant and goes into the blocks of c₁ and c₂ once; its rotation alone, for the
//! rest mesh is counted from its place: a rest pose far from the world's origin would leave the blocks no digits. F goes into
//! d (its rotation into the predictors' frames) and q (the bones' world transforms, their translations taken from F's),
//! so that nothing is multiplied at the end. A pose beyond the trained ranges is held within them first (see `hold`). The
//! plain twin is [`pose_palette`](crate::deform::RotationalRegression::pose_palette).

use glam::{Affine3A, DMat3, DMat4, Mat3A, Quat, Vec3A};

use super::Matrix;
use super::correct::{CorrectionRoom, Corrections};
use super::draw::Drawing;
use super::follow::Follow;
use super::hold::{Carriers, Hold, HoldRoom, Link};
use super::lanes::{Kernel, Lanes, Row};
use super::predict::Predictors;
use super::rotation::{
    Matrices, NEARLY_ROTATION, Quaternions, dot, from_to, half_angle, on_branch, on_short_branch, polished, product,
    quaternions, short_logarithms,
};
use crate::Character;
use crate::beyond::{ROUNDING, parents_first};
use crate::correction::ProxyCorrection;
use crate::deform::RotationalRegression;
use crate::posed::{nearest_rotation, rigid_part};

/// Items side by side.
pub(super) const LANES: usize = 8;

/// A regression laid out for its kernel.
#[derive(Debug, Clone)]
pub(crate) struct Regression {
    /// The rotation of the root's rest frame, F̂: the rest mesh is counted from its place.
    rest_frame: Mat3A,
    /// Bones whose rotation is needed, eight at a time; the last repeats to fill up.
    turning: Vec<[u32; LANES]>,
    /// The other bones, which only poses beyond the trained ranges need, in the same way.
    others: Vec<[u32; LANES]>,
    /// All joints, eight at a time: predictors and the correction see some, and all may be beyond their ranges.
    joints: Vec<Joints>,
    /// Predictors, eight at a time.
    predictors: Vec<Predictors>,
    /// Bones in c₂, ascending.
    held: Vec<u32>,
    /// The number of gradients in c₁, G.
    gradients: usize,
    /// c₁ and c₂.
    drawing: Drawing,
    /// What changes the proxies, if they are corrected.
    correction: Option<Corrections>,
    /// In place of c₁ and c₂, if the proxies follow blends of bones.
    follow: Option<Follow>,
    /// What poses beyond the trained ranges need.
    hold: Hold,
    /// Whether poses are held within the ranges here, or by who asks.
    holds: bool,
}

/// Eight joints: places in the room's rotations.
#[derive(Debug, Clone)]
pub(super) struct Joints {
    own: [u32; LANES],
    parent: [u32; LANES],
    /// The branch references and their directions, x, y, z.
    pub reference: [Row; 3],
    pub direction: [Row; 3],
    /// See [`on_short_branch`].
    still: Row,
    /// The middle of each range and half its extent and [`ROUNDING`], x, y, z.
    pub middle: [Row; 3],
    pub half: [Row; 3],
}

/// Memory of the kernel, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    /// Quaternions of F Q_b in the first four lanes of a row, in eights.
    rotations: Vec<Row>,
    /// Quaternions of the joints, x, y, z, w of eight at a time.
    turns: Vec<[Row; 4]>,
    /// What predictors see of each joint, first eight and the ninth, in eights.
    features: Vec<(Row, f32)>,
    /// What proxies are drawn from: key gradients F D without translation, (G), then the bones' world transforms with
    /// translations from F's, in the order of `held`.
    sources: Vec<Matrix>,
    correction: CorrectionRoom,
    hold: HoldRoom,
    /// Changes of the proxies that are carried on, (P); empty if none are.
    changes: Vec<Matrix>,
    /// Whether the last pose was beyond the trained ranges.
    pub beyond: bool,
}

impl Regression {
    /// Lays `d` and what corrects it out; `character` is its own, and the joints `watched` are looked at.
    pub fn new(
        d: &RotationalRegression,
        correction: Option<&ProxyCorrection>,
        watched: &[u16],
        character: &Character,
    ) -> Self {
        let parent = |b: u16| character.bones[b as usize].parent.map_or(b, |parent| parent as u16);
        let predictors = &d.predictors;
        // A proxy that follows its bones exactly has no gradient in c₁, and none need be predicted.
        let used = ascending(d.c1.columns.iter().copied());
        let regions = correction.map(|c| &c.regions[..]).unwrap_or_default();
        let joints = watched.to_vec();
        let seen = joints.iter().flat_map(|&b| [b, parent(b)]);
        let frames = used.iter().map(|&k| predictors.frames[k as usize]);
        let turning = ascending(seen.chain(frames).chain(regions.iter().map(|region| region.bone as u16)));
        let others: Vec<u16> =
            (0..character.bones.len() as u16).filter(|b| turning.binary_search(b).is_err()).collect();
        let held = ascending(d.c2.columns.iter().copied());
        let rest_frame = rigid_part(character.bones[character.root()].rest).matrix3;
        let carried = correction.is_some_and(|c| c.drivers.carried());
        let laid_out = |c| Corrections::new(c, wide(rest_frame), |b| place(&turning, b), |b| place(&joints, b));
        let (changes, correction) = (correction, correction.map(laid_out));
        let followed = changes.zip(correction.as_ref());
        let source = |b: u16| used.len() as u32 + place(&held, b);
        Self {
            rest_frame,
            follow: followed.and_then(|(c, changed)| Follow::new(d, c, changed, wide(rest_frame))),
            correction,
            joints: eights(&joints).iter().map(|eight| Joints::new(eight, &turning, parent, d)).collect(),
            predictors: Predictors::all(predictors, &used, &joints, &turning),
            hold: holding(d, character, &used, &joints, carried, |b| match turning.binary_search(&b) {
                Ok(place) => place as u32,
                Err(_) => turning.len().next_multiple_of(LANES) as u32 + place(&others, b),
            }),
            turning: eights(&turning).iter().map(|eight| eight.map(u32::from)).collect(),
            others: eights(&others).iter().map(|eight| eight.map(u32::from)).collect(),
            drawing: Drawing::new(d, DMat4::from_mat3(wide(rest_frame)), |k| place(&used, k), source),
            gradients: used.len(),
            held: held.into_iter().map(u32::from).collect(),
            holds: d.points.is_empty(),
        }
    }

    /// Room for it.
    pub fn room(&self) -> Room {
        let rotations = LANES * (self.turning.len() + self.others.len());
        Room {
            rotations: vec![Row::default(); rotations],
            turns: vec![[Row::default(); 4]; self.joints.len()],
            features: vec![(Row::default(), 0.0); LANES * self.joints.len()],
            sources: vec![Matrix::default(); self.gradients + self.held.len()],
            correction: self.correction.as_ref().map(Corrections::room).unwrap_or_default(),
            hold: HoldRoom::new(rotations),
            changes: vec![Matrix::default(); self.hold.changes.len()],
            beyond: false,
        }
    }
}

fn ascending(values: impl Iterator<Item = u16>) -> Vec<u16> {
    let mut values: Vec<u16> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

pub(super) fn place(sorted: &[u16], value: u16) -> u32 {
    sorted.binary_search(&value).expect("it was listed") as u32
}

/// By eight, the last one repeated to fill up.
pub(super) fn eights<T: Copy>(items: &[T]) -> Vec<[T; LANES]> {
    items.chunks(LANES).map(|chunk| std::array::from_fn(|l| chunk[l.min(chunk.len() - 1)])).collect()
}

/// What holds the joints of `d` and carries the gradients `used`, and changes of proxies if they are `carried`; `bone` gives a
/// bone's place in the rotations.
fn holding(
    d: &RotationalRegression,
    character: &Character,
    used: &[u16],
    joints: &[u16],
    carried: bool,
    bone: impl Fn(u16) -> u32,
) -> Hold {
    let carriers = d.carriers(character);
    let changed = if carried { &carriers[..] } else { &[] };
    let link = |(b, parent): (usize, usize)| {
        let joint = joints.binary_search(&(b as u16)).ok().map(|joint| joint as u32);
        Link { bone: bone(b as u16), parent: bone(parent as u16), joint }
    };
    Hold {
        links: parents_first(character).into_iter().map(link).collect(),
        gradients: Carriers::new(used.iter().map(|&k| &carriers[k as usize]), &bone),
        changes: Carriers::new(changed.iter(), &bone),
    }
}

/// In double precision.
fn wide(rotation: Mat3A) -> DMat3 {
    DMat3::from_cols_array(&rotation.to_cols_array().map(f64::from))
}

impl Joints {
    fn new(own: &[u16; LANES], turning: &[u16], parent: impl Fn(u16) -> u16, d: &RotationalRegression) -> Self {
        let of = |values: &[[f32; 3]]| own.map(|b| Vec3A::from_array(values[b as usize]));
        let lanes = |values: [Vec3A; LANES]| std::array::from_fn(|k| Row(values.map(|value| value[k])));
        let (reference, low, high) = (of(&d.ranges.reference), of(&d.ranges.low), of(&d.ranges.high));
        Self {
            own: own.map(|b| place(turning, b)),
            parent: own.map(|b| place(turning, parent(b))),
            reference: lanes(reference),
            direction: lanes(reference.map(Vec3A::normalize_or_zero)),
            still: Row(reference.map(|reference| if reference.length() < 3.1 { 1e-12 } else { -1.0 })),
            middle: lanes(std::array::from_fn(|l| (low[l] + high[l]) * 0.5)),
            // The root does not turn against a parent, whatever branch its reference names.
            half: lanes(std::array::from_fn(|l| match parent(own[l]) == own[l] {
                true => Vec3A::INFINITY,
                false => (high[l] - low[l]) * 0.5 + ROUNDING,
            })),
        }
    }
}

/// Fills in the proxy bones' matrices.
pub(crate) struct Regress<'a> {
    pub regression: &'a Regression,
    pub room: &'a mut Room,
    /// The root's frame F.
    pub frame: Affine3A,
    /// The bones' world transforms, (J).
    pub bones: &'a [Matrix],
    /// The proxy bones' world transforms, (P).
    pub proxies: &'a mut [Matrix],
    /// Whether they are wanted even if the pose is beyond the trained ranges.
    pub whole: bool,
}

impl Kernel for Regress<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, s: L) {
        let Self { regression, room, frame, bones, proxies, whole } = self;
        let (turning, others) = room.rotations.split_at_mut(LANES * regression.turning.len());
        turn(s, regression, &regression.turning, bones, frame, turning);
        relate(s, regression, turning, &mut room.turns);
        room.beyond = look(s, regression, &room.turns, &mut room.features);
        if room.beyond && !whole {
            return;
        }
        let beyond = room.beyond && regression.holds;
        if beyond {
            turn(s, regression, &regression.others, bones, frame, others);
            regression.hold.hold(s, &regression.joints, &room.rotations, &mut room.turns, &mut room.hold);
            look(s, regression, &room.turns, &mut room.features);
        }
        let seen = if beyond { &room.hold.rotations } else { &room.rotations };
        let (gradients, held) = room.sources.split_at_mut(regression.gradients);
        for eight in &regression.predictors {
            eight.predict(s, seen, &room.features, gradients);
        }
        if beyond {
            regression.hold.gradients.carry(&room.hold, gradients);
        }
        // What is carried on is found in the held pose.
        let carried = beyond && !room.changes.is_empty();
        let turned = if carried { &room.hold.rotations } else { &room.rotations };
        if let Some(correction) = &regression.correction {
            correction.weigh(s, turned, &room.turns, &room.features, &mut room.correction);
        }
        if let (Some(follow), false) = (&regression.follow, carried) {
            return follow.draw(s, bones, &room.correction, proxies);
        }
        hold(regression, bones, frame, held);
        regression.drawing.draw(s, frame, &room.sources, proxies);
        match &regression.correction {
            Some(correction) if carried => {
                room.changes.fill(Matrix::default());
                correction.change(s, &room.correction, &mut room.changes);
                regression.hold.changes.carry(&room.hold, &mut room.changes);
                for (proxy, change) in proxies.iter_mut().zip(&room.changes) {
                    proxy.0.iter_mut().zip(&change.0).for_each(|(sum, change)| *sum += change);
                }
            }
            Some(correction) => correction.change(s, &room.correction, proxies),
            None => {}
        }
    }
}

/// `F Q_b` of the bones `which`: the rotation nearest to the world transform, times F̂'s.
#[inline(always)]
fn turn<L: Lanes>(
    s: L,
    regression: &Regression,
    which: &[[u32; LANES]],
    bones: &[Matrix],
    frame: Affine3A,
    rotations: &mut [Row],
) {
    let [x, y, z, w] = Quat::from_mat3a(&regression.rest_frame).normalize().to_array();
    let rest: Quaternions<L> = [s.splat(x), s.splat(y), s.splat(z), s.splat(w)];
    for (eight, out) in which.iter().zip(rotations.as_chunks_mut::<LANES>().0) {
        let (mut m, off) = polished(s, turns_of(s, bones, eight));
        if !s.all_less(off, s.splat(NEARLY_ROTATION)) {
            let slow = eight.map(|b| stretched(&bones[b as usize], frame.matrix3, regression.rest_frame));
            m = std::array::from_fn(|k| s.load(&Row(slow.map(|rows| rows[k]))));
        }
        let [x, y, z, w] = product(s, quaternions(s, m), rest);
        let rows = s.transpose([x, y, z, w, x, y, z, w]);
        for l in 0..LANES {
            out[l] = Row(s.array(rows[l]));
        }
    }
}

/// The 3×3 parts of eight matrices.
#[inline(always)]
fn turns_of<L: Lanes>(s: L, bones: &[Matrix], eight: &[u32; LANES]) -> Matrices<L> {
    let mut upper = [s.splat(0.0); LANES];
    let mut lower = [[0.0; LANES]; 3];
    for l in 0..LANES {
        let (xy, z) = halves(&bones[eight[l] as usize]);
        upper[l] = s.load_array(xy);
        for k in 0..3 {
            lower[k][l] = z[k];
        }
    }
    let [a, b, c, _, d, e, f, _] = s.transpose(upper);
    [a, b, c, d, e, f, s.load_array(&lower[0]), s.load_array(&lower[1]), s.load_array(&lower[2])]
}

/// The rotation of a bone that scales, row by row, as the plain twin finds it: in the root's frame.
#[cold]
fn stretched(bone: &Matrix, frame: Mat3A, rest_frame: Mat3A) -> [f32; 9] {
    let [a, b, c, _, d, e, f, _, g, h, i, _] = bone.0;
    let world = Mat3A::from_cols_array(&[a, d, g, b, e, h, c, f, i]);
    let rotation = frame * nearest_rotation(frame.transpose() * world * rest_frame) * rest_frame.transpose();
    rotation.transpose().to_cols_array()
}

/// The rotation of every joint.
#[inline(always)]
fn relate<L: Lanes>(s: L, regression: &Regression, rotations: &[Row], turns: &mut [[Row; 4]]) {
    for (joints, turn) in regression.joints.iter().zip(turns) {
        let q = from_to(s, gathered(s, rotations, &joints.parent), gathered(s, rotations, &joints.own));
        *turn = [Row(s.array(q[0])), Row(s.array(q[1])), Row(s.array(q[2])), Row(s.array(q[3]))];
    }
}

/// `φ(θ̃_b)` of every joint. Tells whether some joint is beyond its range.
#[inline(always)]
fn look<L: Lanes>(s: L, regression: &Regression, turns: &[[Row; 4]], features: &mut [(Row, f32)]) -> bool {
    let mut past = s.splat(0.0);
    let room = turns.iter().zip(features.as_chunks_mut::<LANES>().0);
    for (joints, (turn, out)) in regression.joints.iter().zip(room) {
        let q = [s.load(&turn[0]), s.load(&turn[1]), s.load(&turn[2]), s.load(&turn[3])];
        let ([x, y, z], factor) = looked(s, joints, q);
        let (middle, half) = (loaded(s, &joints.middle), loaded(s, &joints.half));
        for (k, component) in [x, y, z].into_iter().enumerate() {
            let off = s.sub(component, middle[k]);
            // (θ̃ − middle)² − half², positive beyond the range.
            let excess = s.mul_add(off, off, s.neg_mul_add(half[k], half[k], s.splat(0.0)));
            past = s.select_less(past, excess, excess, past);
        }
        let (fx, fy, fz) = (s.mul(factor, x), s.mul(factor, y), s.mul(factor, z));
        let first = [x, y, z, s.mul(fx, x), s.mul(fy, y), s.mul(fz, z), s.mul(fx, y), s.mul(fx, z)];
        let (rows, last) = (s.transpose(first), s.array(s.mul(fy, z)));
        for l in 0..LANES {
            out[l] = (Row(s.array(rows[l])), last[l]);
        }
    }
    s.array(past).iter().any(|&past| past > 0.0)
}

/// θ̃ of eight joints, and `(1 − cos θ)/θ²`.
#[inline(always)]
fn looked<L: Lanes>(s: L, joints: &Joints, q: Quaternions<L>) -> ([L::V; 3], L::V) {
    let (short, ratio) = short_logarithms(s, q);
    let reference = loaded(s, &joints.reference);
    if on_short_branch(s, short, reference, s.load(&joints.still)) {
        // 1 − cos θ = 2 sin²(θ/2), and sin(θ/2) = θ / ratio.
        return (short, s.div(s.splat(2.0), s.mul(ratio, ratio)));
    }
    let log = on_branch(s, short, reference, loaded(s, &joints.direction));
    let [sine, _] = half_angle(s, dot(s, log, log));
    // (1 − cos θ)/θ² = 2 (sin(θ/2)/θ)².
    (log, s.mul(s.add(sine, sine), sine))
}

#[inline(always)]
pub(super) fn loaded<L: Lanes>(s: L, rows: &[Row; 3]) -> [L::V; 3] {
    [s.load(&rows[0]), s.load(&rows[1]), s.load(&rows[2])]
}

/// The quaternions in these places.
#[inline(always)]
pub(super) fn gathered<L: Lanes>(s: L, rotations: &[Row], places: &[u32; LANES]) -> Quaternions<L> {
    let mut rows = [s.splat(0.0); LANES];
    for l in 0..LANES {
        rows[l] = s.load(&rotations[places[l] as usize]);
    }
    let [x, y, z, w, ..] = s.transpose(rows);
    [x, y, z, w]
}

/// Eight 3×3 matrices row by row, without translation, to their places.
#[inline(always)]
pub(super) fn rows_of<L: Lanes>(s: L, m: Matrices<L>, places: &[u32; LANES], out: &mut [Matrix]) {
    let zero = s.splat(0.0);
    let [xa, xb, xc, ya, yb, yc, za, zb, zc] = m;
    let upper = s.transpose([xa, xb, xc, zero, ya, yb, yc, zero]);
    let lower = s.transpose([za, zb, zc, zero, za, zb, zc, zero]);
    for l in 0..LANES {
        let out = &mut out[places[l] as usize].0;
        out[..8].copy_from_slice(&s.array(upper[l]));
        out[8..].copy_from_slice(&s.array(lower[l])[..4]);
    }
}

/// The bones that hold proxies, their translations taken from F's: differences stay small wherever the character stands.
#[inline(always)]
fn hold(regression: &Regression, bones: &[Matrix], frame: Affine3A, out: &mut [Matrix]) {
    let origin = frame.translation;
    for (&b, out) in regression.held.iter().zip(out) {
        *out = bones[b as usize];
        out.0[3] -= origin.x;
        out.0[7] -= origin.y;
        out.0[11] -= origin.z;
    }
}

/// Rows x and y, and row z.
#[inline(always)]
fn halves(matrix: &Matrix) -> (&[f32; 8], &[f32; 4]) {
    let (xy, z) = matrix.0.split_first_chunk::<8>().expect("twelve entries");
    (xy, z.first_chunk().expect("four of twelve"))
}
