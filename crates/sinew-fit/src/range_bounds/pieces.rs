//! Branch and bound: the ranges are cut evenly, then halved where the box is widest.
//!
//! A side of the box around all pieces is that of one piece alone. That piece is halved, and so on in turn for the six sides;
//! pieces in the middle, which decide nothing, stay as they are. A half lies in its whole, so that boxes only shrink. Halving
//! from the whole ranges on would waste its steps: large pieces are all too wide, and all have to go.

use super::form::{Form, SYMBOLS};
use super::interval::Interval;
use crate::norm::ranges::{RangesOfMotion, Turn};

/// How often a piece is halved, for one block: about as much work as the even pieces. Time against tightness; any number is safe.
pub(super) const HALVINGS: usize = 300;

/// The same for a block that is drawn from points: large numbers of either sign, which only small pieces know to cancel.
pub(super) const HALVINGS_OF_POINTS: usize = 1000;

/// Into how many even pieces the ranges of a block are cut before that.
const PIECES: usize = 625;

/// Into how many of one hinge at most; a few degrees need no more.
const MOST_OF_ONE: usize = 16;

/// At most this many hinges are cut evenly.
const CUT_HINGES: usize = 4;

/// A box over a piece of the ranges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    pub range: [Interval; 3],
    /// By how much each of the forms' unknowns moves the box along each axis: what to halve, no more.
    pub slopes: [[f64; SYMBOLS]; 3],
}

impl From<[Form; 3]> for Sides {
    fn from(forms: [Form; 3]) -> Self {
        Self { range: forms.map(|x| x.range()), slopes: forms.map(|x| x.slopes.map(f64::abs)) }
    }
}

impl Sides {
    /// Around both.
    pub(super) fn hull(self, other: Self) -> Self {
        let steeper = |i: usize, k: usize| self.slopes[i][k].max(other.slopes[i][k]);
        Self {
            range: std::array::from_fn(|i| self.range[i].hull(other.range[i])),
            slopes: std::array::from_fn(|i| std::array::from_fn(|k| steeper(i, k))),
        }
    }
}

/// A part of the ranges and its box.
struct Piece {
    ranges: RangesOfMotion,
    sides: [Interval; 3],
    slopes: [[f64; SYMBOLS]; 3],
}

/// The box around `bound(ranges)`, with so many `halvings` of `hinges`: (joint, place among its turns), the places of the forms'
/// unknowns.
pub(super) fn hull(
    ranges: &RangesOfMotion,
    hinges: &[(usize, usize)],
    halvings: usize,
    bound: impl Fn(&RangesOfMotion) -> Sides,
) -> [Interval; 3] {
    let piece = |ranges: RangesOfMotion, within: Option<[Interval; 3]>| {
        let Sides { range, slopes } = bound(&ranges);
        let sides = within.map_or(range, |within| std::array::from_fn(|i| range[i].meet(within[i])));
        Piece { ranges, sides, slopes }
    };
    let mut pieces: Vec<Piece> = grid(ranges, hinges).into_iter().map(|cut| piece(cut, None)).collect();
    for step in 0..halvings {
        let (axis, low) = (step % 3, step % 2 == 0);
        let beyond = |piece: &Piece| if low { -piece.sides[axis].low } else { piece.sides[axis].high };
        let outermost = (0..pieces.len()).max_by(|&a, &b| beyond(&pieces[a]).total_cmp(&beyond(&pieces[b])));
        let Some(outermost) = outermost else { break };
        let Some(hinge) = hinge_to_halve(&pieces[outermost], hinges, axis) else { continue };
        let whole = pieces.swap_remove(outermost);
        pieces.extend(halves(&whole.ranges, hinge).map(|half| piece(half, Some(whole.sides))));
    }
    let hull = pieces.iter().map(|piece| piece.sides).reduce(|a, b| std::array::from_fn(|i| a[i].hull(b[i])));
    hull.unwrap_or([Interval::exact(0.0); 3])
}

/// The ranges with the first of `hinges` cut into even pieces, every combination.
fn grid(ranges: &RangesOfMotion, hinges: &[(usize, usize)]) -> Vec<RangesOfMotion> {
    let hinges = &hinges[..hinges.len().min(CUT_HINGES)];
    let each = ((PIECES as f64).powf(1.0 / hinges.len().max(1) as f64).floor() as usize).min(MOST_OF_ONE);
    let mut pieces = vec![ranges.clone()];
    for &(b, place) in hinges {
        let cut = |whole: &RangesOfMotion| -> Vec<RangesOfMotion> {
            let Turn::Hinge { axis, from, to } = whole.joints[b][place] else { return vec![whole.clone()] };
            let at = |j: usize| from + (to - from) * j as f64 / each as f64;
            let piece = |j: usize| {
                let mut piece = whole.clone();
                piece.joints[b][place] = Turn::Hinge { axis, from: at(j), to: at(j + 1) };
                piece
            };
            (0..each).map(piece).collect()
        };
        pieces = pieces.iter().flat_map(cut).collect();
    }
    pieces
}

/// The hinge that bends the box's side most: what it moves times how far it turns, for the error is of second order. A hinge
/// whose slope the forms have lost may still be to blame.
fn hinge_to_halve(piece: &Piece, hinges: &[(usize, usize)], axis: usize) -> Option<(usize, usize)> {
    let size = piece.sides[axis].high - piece.sides[axis].low;
    let score = |k: usize| {
        let (b, place) = hinges[k];
        let Turn::Hinge { from, to, .. } = piece.ranges.joints[b][place] else { return 0.0 };
        (piece.slopes[axis][k] + 0.1 * size) * (to - from)
    };
    let best = (0..hinges.len()).max_by(|&a, &b| score(a).total_cmp(&score(b)).then(b.cmp(&a)))?;
    (score(best) > 0.0).then_some(hinges[best])
}

fn halves(whole: &RangesOfMotion, (b, place): (usize, usize)) -> [RangesOfMotion; 2] {
    let mut halves = [whole.clone(), whole.clone()];
    if let Turn::Hinge { axis, from, to } = whole.joints[b][place] {
        let middle = (from + to) / 2.0;
        halves[0].joints[b][place] = Turn::Hinge { axis, from, to: middle };
        halves[1].joints[b][place] = Turn::Hinge { axis, from: middle, to };
    }
    halves
}
