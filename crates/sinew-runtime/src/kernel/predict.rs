//! The predictors of rotational regression, eight at a time: `F D = F Q_frame exp(ρ̃) S`, with `[ρ̃; S − I] = [M; H] x`.
//! The plain twin is [`GradientPredictors::gradient`].

use super::Matrix;
use super::lanes::{Lanes, Row};
use super::regress::{LANES, eights, gathered, place, rows_of};
use super::rotation::{Quaternions, exponentials, matrices, product};
use crate::deform::GradientPredictors;
use crate::joint_rotations::FEATURES;

/// Rows of M and H: ρ̃ and the six of S − I.
const ROWS: usize = 9;

/// Eight predictors.
#[derive(Debug, Clone)]
pub(super) struct Predictors {
    /// Places of their gradients among the sources.
    own: [u32; LANES],
    /// Places of their frames in the room's rotations.
    frames: Places,
    /// Places of their joints in the room's features, one entry for each joint that any of them uses.
    joints: Vec<Places>,
    /// The constant column of `[M; H]`.
    constant: Column,
    columns: Columns,
}

/// A column of `[M; H]`.
type Column = [Row; ROWS];

/// The other columns, joint after joint.
#[derive(Debug, Clone)]
enum Columns {
    /// Of θ̃.
    Angles(Vec<[Column; 3]>),
    /// Of all that is seen of a joint.
    Features(Vec<[Column; FEATURES]>),
}

/// Places that eight lanes read from.
#[derive(Debug, Clone)]
enum Places {
    /// All from one: nothing need be transposed. The usual case if few joints drive many predictors.
    One(u32),
    Each([u32; LANES]),
}

impl Predictors {
    /// The predictors `which` in eights, those that use the same number of joints together, and of those the ones that use
    /// the same joints and frames.
    pub fn all(d: &GradientPredictors, which: &[u16], joints: &[u16], turning: &[u16]) -> Vec<Self> {
        let used = |k: usize| (0..d.width).rev().find(|&w| d.uses(k, w)).map_or(0, |last| last + 1);
        let mut order: Vec<usize> = which.iter().map(|&k| k as usize).collect();
        order.sort_by_cached_key(|&k| (used(k), &d.joints[k * d.width..][..used(k)], d.frames[k], k));
        let columns = d.columns();
        let entry = |k: usize, row: usize, c: usize| match row {
            0..3 => d.rotation[(k * 3 + row) * columns + c],
            _ => d.stretch[(k * 6 + row - 3) * columns + c],
        };
        let eight = |own: &[usize; LANES]| {
            let width = own.iter().map(|&k| used(k)).max().unwrap_or(0);
            let column = |c: usize| -> Column { std::array::from_fn(|row| Row(own.map(|k| entry(k, row, c)))) };
            Self {
                own: own.map(|k| place(which, k as u16)),
                frames: Places::new(own.map(|k| place(turning, d.frames[k]))),
                joints: (0..width)
                    .map(|w| Places::new(own.map(|k| place(joints, d.joints[k * d.width + w]))))
                    .collect(),
                constant: column(columns - 1),
                columns: match d.features {
                    3 => Columns::Angles((0..width).map(|w| std::array::from_fn(|k| column(3 * w + k))).collect()),
                    _ => {
                        let joint = |w: usize| std::array::from_fn(|k| column(FEATURES * w + k));
                        Columns::Features((0..width).map(joint).collect())
                    }
                },
            }
        };
        eights(&order).iter().map(eight).collect()
    }

    /// Fills in their gradients in the world, without translation.
    #[inline(always)]
    pub fn predict<L: Lanes>(&self, s: L, rotations: &[Row], features: &[(Row, f32)], gradients: &mut [Matrix]) {
        let [px, py, pz, xx, yy, zz, xy, xz, yz] = self.regressed(s, features);
        let q = product(s, self.frames.rotations(s, rotations), exponentials(s, [px, py, pz]));
        let r = matrices(s, q);
        let one = s.splat(1.0);
        let stretch = [[s.add(one, xx), xy, xz], [xy, s.add(one, yy), yz], [xz, yz, s.add(one, zz)]];
        let mut stretched = r;
        for row in 0..3 {
            for c in 0..3 {
                let [a, b, d] = stretch[c];
                stretched[3 * row + c] =
                    s.mul_add(r[3 * row], a, s.mul_add(r[3 * row + 1], b, s.mul(r[3 * row + 2], d)));
            }
        }
        rows_of(s, stretched, &self.own, gradients);
    }

    /// `[M; H] x`.
    #[inline(always)]
    fn regressed<L: Lanes>(&self, s: L, features: &[(Row, f32)]) -> [L::V; ROWS] {
        let mut sums = [s.splat(0.0); ROWS];
        for row in 0..ROWS {
            sums[row] = s.load(&self.constant[row]);
        }
        // Three features or all nine, known to the compiler.
        match &self.columns {
            Columns::Angles(columns) => {
                for (places, columns) in self.joints.iter().zip(columns) {
                    let [x, y, z, ..] = places.features(s, features);
                    add(s, columns, [x, y, z], &mut sums);
                }
            }
            Columns::Features(columns) => {
                for (places, columns) in self.joints.iter().zip(columns) {
                    add(s, columns, places.features(s, features), &mut sums);
                }
            }
        }
        sums
    }
}

impl Places {
    fn new(places: [u32; LANES]) -> Self {
        match places.iter().all(|&place| place == places[0]) {
            true => Self::One(places[0]),
            false => Self::Each(places),
        }
    }

    /// The quaternions in these places.
    #[inline(always)]
    fn rotations<L: Lanes>(&self, s: L, rotations: &[Row]) -> Quaternions<L> {
        match self {
            Self::One(place) => {
                let [x, y, z, w, ..] = rotations[*place as usize].0;
                [s.splat(x), s.splat(y), s.splat(z), s.splat(w)]
            }
            Self::Each(places) => gathered(s, rotations, places),
        }
    }

    /// The features of the joints in these places, a row of lanes each.
    #[inline(always)]
    fn features<L: Lanes>(&self, s: L, features: &[(Row, f32)]) -> [L::V; FEATURES] {
        match self {
            Self::One(place) => {
                let (Row([a, b, c, d, e, f, g, h]), ninth) = features[*place as usize];
                let [a, b, c, d] = [s.splat(a), s.splat(b), s.splat(c), s.splat(d)];
                [a, b, c, d, s.splat(e), s.splat(f), s.splat(g), s.splat(h), s.splat(ninth)]
            }
            Self::Each(places) => {
                let (mut rows, mut last) = ([s.splat(0.0); LANES], Row::default());
                for l in 0..LANES {
                    let (row, ninth) = &features[places[l] as usize];
                    rows[l] = s.load(row);
                    last.0[l] = *ninth;
                }
                let [a, b, c, d, e, f, g, h] = s.transpose(rows);
                [a, b, c, d, e, f, g, h, s.load(&last)]
            }
        }
    }
}

/// Adds columns times values.
#[inline(always)]
fn add<L: Lanes, const N: usize>(s: L, columns: &[Column; N], values: [L::V; N], sums: &mut [L::V; ROWS]) {
    for k in 0..N {
        for row in 0..ROWS {
            sums[row] = s.mul_add(s.load(&columns[k][row]), values[k], sums[row]);
        }
    }
}
