//! Rotational regression's prediction, from a palette with the bones' matrices to the proxy bones' matrices beside them:
//!
//!   t = c₁ d(q) + c₂ q
//!
//! What does not grow with the mesh, and so must be small: everything runs on eight joints, eight predictors or four
//! proxies (see `draw`) at a time, and straight in the world. With F the root's frame and F̂ its rest frame, a proxy's world
//! transform is `F (c₁ d + c₂ q) F̂⁻¹`. F̂ is constant and goes into the blocks of c₁ and c₂ once; F goes into d (its
//! rotation into the predictors' frames) and q (the bones' world transforms, their translations taken from F's), so
//! that nothing is multiplied at the end. The plain twin is
//! [`pose_palette`](crate::deform::RotationalRegression::pose_palette).

use glam::{Affine3A, DAffine3, DMat4, Mat3A, Quat, Vec3A};

use super::Matrix;
use super::correct::{CorrectionRoom, Corrections};
use super::draw::Drawing;
use super::lanes::{Kernel, Lanes, Row};
use super::rotation::{
    Matrices, NEARLY_ROTATION, Quaternions, exponentials, from_to, half_angle, logarithms, matrices, polished, product,
    quaternions,
};
use crate::Character;
use crate::beyond::ROUNDING;
use crate::correction::ProxyCorrection;
use crate::deform::{GradientPredictors, RotationalRegression};
use crate::joint_rotations::FEATURES;
use crate::posed::{nearest_rotation, rigid_part};

/// Rows of M and H: ρ̃ and the six of S − I.
const ROWS: usize = 9;
/// Items side by side.
pub(super) const LANES: usize = 8;

/// A regression laid out for its kernel.
#[derive(Debug, Clone)]
pub(crate) struct Regression {
    /// The root's rest frame F̂.
    rest_frame: Affine3A,
    /// Bones whose rotation is needed, eight at a time; the last repeats to fill up.
    turning: Vec<[u32; LANES]>,
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
}

/// Eight joints: places in the room's rotations.
#[derive(Debug, Clone)]
struct Joints {
    own: [u32; LANES],
    parent: [u32; LANES],
    /// The branch references and their directions, x, y, z.
    reference: [Row; 3],
    direction: [Row; 3],
    /// The middle of each range and half its extent, x, y, z.
    middle: [Row; 3],
    half: [Row; 3],
}

/// Eight predictors.
#[derive(Debug, Clone)]
struct Predictors {
    /// Places of their gradients among the sources.
    own: [u32; LANES],
    /// Places of their frames in the room's rotations.
    frames: [u32; LANES],
    /// Places of their joints in the room's features, one entry for each joint that any of them uses.
    joints: Vec<[u32; LANES]>,
    /// Columns of `[M; H]`: the constant first, then feature after feature.
    columns: Vec<[Row; ROWS]>,
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
    /// Whether some joint of the last pose was beyond its trained range.
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
        let held = ascending(d.c2.columns.iter().copied());
        let rest_frame = rigid_part(character.bones[character.root()].rest);
        Self {
            rest_frame,
            correction: correction
                .map(|c| Corrections::new(c, rest_frame, |b| place(&turning, b), |b| place(&joints, b))),
            joints: eights(&joints).iter().map(|eight| Joints::new(eight, &turning, parent, d)).collect(),
            predictors: Predictors::all(predictors, &used, &joints, &turning),
            turning: eights(&turning).iter().map(|eight| eight.map(u32::from)).collect(),
            drawing: Drawing::new(
                d,
                homogeneous(rest_frame),
                |k| place(&used, k),
                |b| used.len() as u32 + place(&held, b),
            ),
            gradients: used.len(),
            held: held.into_iter().map(u32::from).collect(),
        }
    }

    /// Room for it.
    pub fn room(&self) -> Room {
        Room {
            rotations: vec![Row::default(); LANES * self.turning.len()],
            turns: vec![[Row::default(); 4]; self.joints.len()],
            features: vec![(Row::default(), 0.0); LANES * self.joints.len()],
            sources: vec![Matrix::default(); self.gradients + self.held.len()],
            correction: self.correction.as_ref().map(Corrections::room).unwrap_or_default(),
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

fn place(sorted: &[u16], value: u16) -> u32 {
    sorted.binary_search(&value).expect("it was listed") as u32
}

/// By eight, the last one repeated to fill up.
pub(super) fn eights<T: Copy>(items: &[T]) -> Vec<[T; LANES]> {
    items.chunks(LANES).map(|chunk| std::array::from_fn(|l| chunk[l.min(chunk.len() - 1)])).collect()
}

fn homogeneous(frame: Affine3A) -> DMat4 {
    let [x, y, z] = [frame.matrix3.x_axis, frame.matrix3.y_axis, frame.matrix3.z_axis].map(|c| c.as_dvec3());
    DMat4::from(DAffine3::from_mat3_translation(glam::DMat3::from_cols(x, y, z), frame.translation.as_dvec3()))
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
            middle: lanes(std::array::from_fn(|l| (low[l] + high[l]) * 0.5)),
            half: lanes(std::array::from_fn(|l| (high[l] - low[l]) * 0.5 + ROUNDING)),
        }
    }
}

impl Predictors {
    /// The predictors `which` in eights, those that use the same number of joints together.
    fn all(d: &GradientPredictors, which: &[u16], joints: &[u16], turning: &[u16]) -> Vec<Self> {
        let used = |k: usize| (0..d.width).rev().find(|&w| d.uses(k, w)).map_or(0, |last| last + 1);
        let mut order: Vec<usize> = which.iter().map(|&k| k as usize).collect();
        order.sort_by_key(|&k| (used(k), k));
        let columns = d.columns();
        let entry = |k: usize, row: usize, c: usize| match row {
            0..3 => d.rotation[(k * 3 + row) * columns + c],
            _ => d.stretch[(k * 6 + row - 3) * columns + c],
        };
        let eight = |own: &[usize; LANES]| {
            let width = own.iter().map(|&k| used(k)).max().unwrap_or(0);
            let column = |c: usize| std::array::from_fn(|row| Row(own.map(|k| entry(k, row, c))));
            Self {
                own: own.map(|k| place(which, k as u16)),
                frames: own.map(|k| place(turning, d.frames[k])),
                joints: (0..width).map(|w| own.map(|k| place(joints, d.joints[k * d.width + w]))).collect(),
                columns: std::iter::once(columns - 1).chain(0..width * d.features).map(column).collect(),
            }
        };
        eights(&order).iter().map(eight).collect()
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
}

impl Kernel for Regress<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, s: L) {
        let Self { regression, room, frame, bones, proxies } = self;
        turn(s, regression, bones, frame, &mut room.rotations);
        room.beyond = see(s, regression, &room.rotations, &mut room.turns, &mut room.features);
        let (gradients, held) = room.sources.split_at_mut(regression.gradients);
        predict(s, regression, &room.rotations, &room.features, gradients);
        hold(regression, bones, frame, held);
        regression.drawing.draw(s, frame, &room.sources, proxies);
        if let Some(correction) = &regression.correction {
            correction.add(s, &room.rotations, &room.turns, &mut room.correction, proxies);
        }
    }
}

/// `F Q_b` of every bone that predictors look at: the rotation nearest to its world transform, times F̂'s.
#[inline(always)]
fn turn<L: Lanes>(s: L, regression: &Regression, bones: &[Matrix], frame: Affine3A, rotations: &mut [Row]) {
    let [x, y, z, w] = Quat::from_mat3a(&regression.rest_frame.matrix3).normalize().to_array();
    let rest: Quaternions<L> = [s.splat(x), s.splat(y), s.splat(z), s.splat(w)];
    for (eight, out) in regression.turning.iter().zip(rotations.as_chunks_mut::<LANES>().0) {
        let (mut m, off) = polished(s, turns_of(s, bones, eight));
        if s.array(off).iter().any(|&off| !(off < NEARLY_ROTATION)) {
            let slow = eight.map(|b| stretched(&bones[b as usize], frame.matrix3, regression.rest_frame.matrix3));
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

/// The rotation of every joint, and `φ(θ̃_b)`. Tells whether some joint is beyond its range.
#[inline(always)]
fn see<L: Lanes>(
    s: L,
    regression: &Regression,
    rotations: &[Row],
    turns: &mut [[Row; 4]],
    features: &mut [(Row, f32)],
) -> bool {
    let mut past = s.splat(0.0);
    let room = turns.iter_mut().zip(features.as_chunks_mut::<LANES>().0);
    for (joints, (turn, out)) in regression.joints.iter().zip(room) {
        let q = from_to(s, gathered(s, rotations, &joints.parent), gathered(s, rotations, &joints.own));
        *turn = [Row(s.array(q[0])), Row(s.array(q[1])), Row(s.array(q[2])), Row(s.array(q[3]))];
        let [x, y, z] = logarithms(s, q, loaded(s, &joints.reference), loaded(s, &joints.direction));
        let (middle, half) = (loaded(s, &joints.middle), loaded(s, &joints.half));
        for (k, component) in [x, y, z].into_iter().enumerate() {
            let off = s.sub(component, middle[k]);
            // (θ̃ − middle)² − half², positive beyond the range.
            let excess = s.mul_add(off, off, s.neg_mul_add(half[k], half[k], s.splat(0.0)));
            past = s.select_less(past, excess, excess, past);
        }
        let square = s.mul_add(x, x, s.mul_add(y, y, s.mul(z, z)));
        let [sine, _] = half_angle(s, square);
        // (1 − cos θ)/θ² = 2 (sin(θ/2)/θ)².
        let factor = s.mul(s.add(sine, sine), sine);
        let (fx, fy, fz) = (s.mul(factor, x), s.mul(factor, y), s.mul(factor, z));
        let first = [x, y, z, s.mul(fx, x), s.mul(fy, y), s.mul(fz, z), s.mul(fx, y), s.mul(fx, z)];
        let (rows, last) = (s.transpose(first), s.array(s.mul(fy, z)));
        for l in 0..LANES {
            out[l] = (Row(s.array(rows[l])), last[l]);
        }
    }
    s.array(past).iter().any(|&past| past > 0.0)
}

#[inline(always)]
fn loaded<L: Lanes>(s: L, rows: &[Row; 3]) -> [L::V; 3] {
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

/// `F D = F Q_frame exp(ρ̃) S` of every predictor.
#[inline(always)]
fn predict<L: Lanes>(
    s: L,
    regression: &Regression,
    rotations: &[Row],
    features: &[(Row, f32)],
    gradients: &mut [Matrix],
) {
    for eight in &regression.predictors {
        let [px, py, pz, xx, yy, zz, xy, xz, yz] = regressed(s, eight, features);
        let q = product(s, gathered(s, rotations, &eight.frames), exponentials(s, [px, py, pz]));
        let r = matrices(s, q);
        let one = s.splat(1.0);
        let stretch = [[s.add(one, xx), xy, xz], [xy, s.add(one, yy), yz], [xz, yz, s.add(one, zz)]];
        let zero = s.splat(0.0);
        let mut product = [[zero; 4]; 3];
        for row in 0..3 {
            for c in 0..3 {
                let [a, b, d] = stretch[c];
                product[row][c] = s.mul_add(r[3 * row], a, s.mul_add(r[3 * row + 1], b, s.mul(r[3 * row + 2], d)));
            }
        }
        let [[xa, xb, xc, _], [ya, yb, yc, _], [za, zb, zc, _]] = product;
        let (upper, lower) = ([xa, xb, xc, zero, ya, yb, yc, zero], [za, zb, zc, zero, za, zb, zc, zero]);
        let (upper, lower) = (s.transpose(upper), s.transpose(lower));
        for l in 0..LANES {
            let out = &mut gradients[eight.own[l] as usize].0;
            out[..8].copy_from_slice(&s.array(upper[l]));
            out[8..].copy_from_slice(&s.array(lower[l])[..4]);
        }
    }
}

/// `[M; H] x` of eight predictors.
#[inline(always)]
fn regressed<L: Lanes>(s: L, eight: &Predictors, features: &[(Row, f32)]) -> [L::V; ROWS] {
    let (constant, columns) = eight.columns.split_first().expect("the constant column");
    let mut sums = [s.splat(0.0); ROWS];
    for row in 0..ROWS {
        sums[row] = s.load(&constant[row]);
    }
    let used = columns.len() / eight.joints.len().max(1);
    for (places, columns) in eight.joints.iter().zip(columns.chunks_exact(used.max(1))) {
        let values = seen(s, features, places);
        // Three features or all nine, known to the compiler.
        match columns.first_chunk::<FEATURES>() {
            Some(columns) => add(s, columns, values, &mut sums),
            None => {
                let [a, b, c, ..] = values;
                add(s, columns.first_chunk::<3>().expect("three features"), [a, b, c], &mut sums);
            }
        }
    }
    sums
}

/// The features of the joints in these places, a row of lanes each.
#[inline(always)]
fn seen<L: Lanes>(s: L, features: &[(Row, f32)], places: &[u32; LANES]) -> [L::V; FEATURES] {
    let (mut rows, mut last) = ([s.splat(0.0); LANES], Row::default());
    for l in 0..LANES {
        let (row, ninth) = &features[places[l] as usize];
        rows[l] = s.load(row);
        last.0[l] = *ninth;
    }
    let [a, b, c, d, e, f, g, h] = s.transpose(rows);
    [a, b, c, d, e, f, g, h, s.load(&last)]
}

/// Adds columns times values.
#[inline(always)]
fn add<L: Lanes, const N: usize>(s: L, columns: &[[Row; ROWS]; N], values: [L::V; N], sums: &mut [L::V; ROWS]) {
    for k in 0..N {
        for row in 0..ROWS {
            sums[row] = s.mul_add(s.load(&columns[k][row]), values[k], sums[row]);
        }
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
