//! Bounds of blocks of vertices over ranges of motion.
//!
//! A proxy's transform is `t = c₁ d + c₂ q` with `d = Q_f exp(ρ̃) S` (see `sinew_runtime::deform::RotationalRegression`). Everything
//! is taken relative to the block's home bone h, `T_h⁻¹ T`, so that only the joints between h and another bone widen it,
//! and put into the root's frame at the end by `T_h`. Bones turn and shift but keep their size, so that products of their
//! matrices never grow beyond rotations, however long the chain.
//!
//! - θ̃ of a joint with one hinge lies on a line; of several turns within a ball about that of their middles;
//! - ρ̃ and S are linear in features of θ̃, by intervals;
//! - `exp(ρ̃)` turns away from `exp(ρ̃_middle)` by at most `‖ρ̃ − ρ̃_middle‖`, so no entry moves by more than twice the sine
//!   of half of that;
//! - a correction is `Q_b Σ_e κ_e D_e` over the example poses, with kernels κ between nil and the sum of their terms.
//!
//! The hinges that drive the block most are cut into pieces, and the box is that around the pieces' boxes: intervals are
//! tight where they are short.

use glam::{DMat3, DQuat, DVec3};
use rayon::prelude::*;
use sinew_examples::Skeleton;
use sinew_runtime::bounds::{Aabb, Block, Bounds};
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Correction, Deformer, Model, PoseSpace};

use super::interval::{Interval, IntervalAffine};
use super::{blend, widened};
use crate::norm::ranges::{RangesOfMotion, Turn};

/// Into how many pieces the hinges of a block are cut together.
const PIECES: usize = 625;

/// At most this many hinges are cut.
const CUT_HINGES: usize = 4;

/// A box for every block, in the root's rest frame.
pub(super) fn over_ranges(model: &Model, bounds: &Bounds, skeleton: &Skeleton, ranges: &RangesOfMotion) -> Vec<Aabb> {
    let setting = Setting::new(model, skeleton);
    let block = |block: &Block| {
        let needs = setting.needs(block);
        let pieces = cut(ranges, &needs.drivers);
        let boxes = pieces.iter().map(|piece| setting.block(block, &needs, piece));
        let hull = boxes.reduce(|a, b| std::array::from_fn(|i| a[i].hull(b[i])));
        hull.map_or(Aabb::EMPTY, widened)
    };
    bounds.blocks.par_iter().map(block).collect()
}

/// The ranges with the hinges of `joints` cut into pieces, every combination.
fn cut(ranges: &RangesOfMotion, joints: &[usize]) -> Vec<RangesOfMotion> {
    let mut hinges = Vec::new();
    for &b in joints {
        for (k, turn) in ranges.joints[b].iter().enumerate() {
            if matches!(turn, Turn::Hinge { from, to, .. } if to > from) {
                hinges.push((b, k));
            }
        }
    }
    hinges.truncate(CUT_HINGES);
    let each = (PIECES as f64).powf(1.0 / hinges.len().max(1) as f64).floor() as usize;
    let mut pieces = vec![ranges.clone()];
    for (b, k) in hinges {
        let halved = |whole: &RangesOfMotion| -> Vec<RangesOfMotion> {
            let Turn::Hinge { axis, from, to } = whole.joints[b][k] else { return vec![whole.clone()] };
            let at = |j: usize| from + (to - from) * j as f64 / each as f64;
            let piece = |j: usize| {
                let mut piece = whole.clone();
                piece.joints[b][k] = Turn::Hinge { axis, from: at(j), to: at(j + 1) };
                piece
            };
            (0..each).map(piece).collect()
        };
        pieces = pieces.iter().flat_map(halved).collect();
    }
    pieces
}

/// What is the same for all blocks.
struct Setting<'a> {
    model: &'a Model,
    skeleton: &'a Skeleton,
    /// Proxy bones first in the palette, P.
    proxies: usize,
    /// Rest transforms in the root's rest frame, (J).
    rest: Vec<glam::DAffine3>,
    to_root: glam::DAffine3,
}

/// What a block needs of the model.
struct Needs {
    /// The bone everything is taken relative to.
    home: usize,
    /// The joints that matter most for it.
    drivers: Vec<usize>,
}

impl<'a> Setting<'a> {
    fn new(model: &'a Model, skeleton: &'a Skeleton) -> Self {
        let to_root = skeleton.rest_root_frame().inverse();
        let rest = skeleton.bones().iter().map(|bone| to_root * bone.rest).collect();
        let proxies = regression(model).map_or(0, RotationalRegression::proxy_count);
        Self { model, skeleton, proxies, rest, to_root }
    }

    fn needs(&self, block: &Block) -> Needs {
        let of = |joint: usize| match (regression(self.model), joint.checked_sub(self.proxies)) {
            (Some(rr), None) => usize::from(rr.predictors.frames[joint]),
            (_, bone) => bone.unwrap_or(joint),
        };
        let home = of(block.terms[0].joint);
        let mut counts = vec![0.0; self.rest.len()];
        // The joints above carry the whole block, the nearest with most effect on its shape.
        let (mut b, mut weight) = (home, 1e-3);
        counts[b] += weight;
        while let Some(p) = self.skeleton.bones()[b].parent {
            (b, weight) = (p, weight / 2.0);
            counts[b] += weight;
        }
        for term in &block.terms {
            let weight = f64::from(term.weight.abs() + term.half_weight);
            match regression(self.model).filter(|_| term.joint < self.proxies) {
                Some(rr) => {
                    let (width, predictors) = (rr.predictors.width, &rr.predictors);
                    let joints = &predictors.joints[term.joint * width..(term.joint + 1) * width];
                    joints.iter().for_each(|&b| counts[usize::from(b)] += weight / width as f64);
                }
                None => counts[of(term.joint)] += weight,
            }
        }
        let mut drivers: Vec<usize> = (0..counts.len()).filter(|&b| counts[b] > 0.0).collect();
        drivers.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]).then(a.cmp(&b)));
        Needs { home, drivers }
    }

    /// The block's box in the root's rest frame over `ranges`.
    fn block(&self, block: &Block, needs: &Needs, ranges: &RangesOfMotion) -> [Interval; 3] {
        let bones = self.bones_from(needs.home, ranges);
        let home = &bones.home;
        let pivot = self.to_root.transform_point3(block.pivot.as_dvec3());
        let turn = self.to_root.matrix3;
        let (transforms, images): (Vec<IntervalAffine>, Vec<[Interval; 3]>) = match regression(self.model) {
            Some(rr) => {
                let mut proxies = Proxies { rr, setting: self, bones: &bones, ranges, gradients: Vec::new() };
                proxies.gradients.resize(self.proxies, None);
                block.terms.iter().map(|term| (proxies.palette(term.joint), proxies.image(term.joint, pivot))).unzip()
            }
            None => {
                let of = |joint: usize| (bones.relative[joint], bones.relative[joint].point(pivot));
                block.terms.iter().map(|term| of(term.joint)).unzip()
            }
        };
        let mut sides = blend(&block.terms, &images);
        let absolute = DMat3::from_cols(turn.x_axis.abs(), turn.y_axis.abs(), turn.z_axis.abs());
        for (term, transform) in block.terms.iter().zip(&transforms) {
            let (centre, half) = (turn * term.centre.as_dvec3(), absolute * term.half.as_dvec3());
            let turned = transform.vector(centre, half);
            (0..3).for_each(|i| sides[i] = sides[i] + turned[i]);
        }
        for displaced in self.displacements(block, &bones) {
            (0..3).for_each(|i| sides[i] = sides[i] + displaced[i]);
        }
        home.rigid_point(sides)
    }

    /// Every bone's skinning transform relative to that of `home`, and that of `home` itself, in the root's rest frame.
    fn bones_from(&self, home: usize, ranges: &RangesOfMotion) -> Bones {
        let parent = |b: usize| self.skeleton.bones()[b].parent;
        // `L̂ R₁ R₂ …` of each joint; the root stays.
        let local = |b: usize| {
            let joint = parent(b).map_or(glam::DAffine3::IDENTITY, |p| self.rest[p].inverse() * self.rest[b]);
            ranges.joints[b]
                .iter()
                .fold(IntervalAffine::exact(joint), |all, turn| all.rigid_times(&IntervalAffine::turn(turn)))
        };
        let inverse_local = |b: usize| {
            let joint = parent(b).map_or(glam::DAffine3::IDENTITY, |p| self.rest[p].inverse() * self.rest[b]);
            let turns = ranges.joints[b].iter().rev();
            let back = turns.fold(IntervalAffine::exact(glam::DAffine3::IDENTITY), |all, turn| {
                all.rigid_times(&IntervalAffine::turn(turn).inverse_rotation())
            });
            back.rigid_times(&IntervalAffine::exact(joint.inverse()))
        };
        // G_h⁻¹ G_b: up from h to the root, then down to everything else.
        let mut relative: Vec<Option<IntervalAffine>> = vec![None; self.rest.len()];
        relative[home] = Some(IntervalAffine::exact(glam::DAffine3::IDENTITY));
        let (mut b, mut up, mut path) = (home, IntervalAffine::exact(glam::DAffine3::IDENTITY), vec![home]);
        while let Some(p) = parent(b) {
            up = up.rigid_times(&inverse_local(b));
            relative[p] = Some(up);
            path.push(p);
            b = p;
        }
        for &b in self.skeleton.parents_first() {
            if let (None, Some(p)) = (relative[b], parent(b)) {
                relative[b] = relative[p].map(|to_parent| to_parent.rigid_times(&local(b)));
            }
        }
        let identity = IntervalAffine::exact(glam::DAffine3::IDENTITY);
        // Ĝ_h (G_h⁻¹ G_b) Ĝ_b⁻¹.
        let skinning = |b: usize| {
            let between = relative[b].unwrap_or(identity).rigid_times(&IntervalAffine::exact(self.rest[b].inverse()));
            IntervalAffine::exact(self.rest[home]).rigid_times(&between)
        };
        // The root keeps its rest transform; down its path to h.
        let root = path.last().copied().unwrap_or(home);
        let down = path.iter().rev().skip(1);
        let global = down.fold(IntervalAffine::exact(self.rest[root]), |all, &b| all.rigid_times(&local(b)));
        Bones {
            relative: (0..self.rest.len()).map(skinning).collect(),
            home: global.rigid_times(&IntervalAffine::exact(self.rest[home].inverse())),
        }
    }

    /// What a correction of vertices adds to the block, relative to its home bone, one box a part.
    fn displacements(&self, block: &Block, bones: &Bones) -> Vec<[Interval; 3]> {
        let Some(Correction::Vertices(correction)) = &self.model.correction else { return Vec::new() };
        let n = correction.space.poses;
        let mut boxes = Vec::new();
        for part in &correction.parts {
            let place = |v: &u32| part.vertices.binary_search(v).ok();
            let sorted = part.vertices.is_sorted();
            let find = |v: &u32| if sorted { place(v) } else { part.vertices.iter().position(|w| w == v) };
            let own: Vec<Option<usize>> = block.vertices.iter().map(find).collect();
            if own.iter().all(Option::is_none) {
                continue;
            }
            let mixing = &correction.mixing[part.region];
            let kernel = kernel_range(&correction.space, part.region);
            let (components, count) = (&part.components, part.vertices.len());
            // `Σ_e κ_e D_e` of each vertex, the hull over the block's.
            let vertex = |place: &Option<usize>| -> [Interval; 3] {
                let Some(v) = *place else { return [Interval::exact(0.0); 3] };
                let mut sum = [Interval::exact(0.0); 3];
                for e in 0..n {
                    let terms = components.chunks_exact(count).zip(mixing.chunks_exact(n));
                    let d = terms.fold(DVec3::ZERO, |sum, (row, mixing)| {
                        sum + f64::from(mixing[e]) * DVec3::from_array(row[v].map(f64::from))
                    });
                    (0..3).for_each(|i| sum[i] = sum[i] + kernel.scaled(d[i]));
                }
                sum
            };
            let hull = own.iter().map(vertex).reduce(|a, b| std::array::from_fn(|i| a[i].hull(b[i])));
            if let Some(hull) = hull {
                boxes.push(bones.relative[part.bone].turned(hull));
            }
        }
        boxes
    }
}

/// Skinning transforms in the root's rest frame.
struct Bones {
    /// `T_h⁻¹ T_b`, (J).
    relative: Vec<IntervalAffine>,
    /// `T_h`.
    home: IntervalAffine,
}

fn regression(model: &Model) -> Option<&RotationalRegression> {
    match &model.deformer {
        Deformer::RotationalRegression(rr) => Some(rr),
        _ => None,
    }
}

/// All values of a region's kernel: each of its factors is between nil and one, and so is the fade.
fn kernel_range(space: &PoseSpace, region: usize) -> Interval {
    let region = &space.regions[region];
    let terms = [region.constant, region.product, region.additive, region.peak].map(f64::from);
    let sum = |pick: fn(f64, f64) -> f64| terms.iter().map(|&t| pick(t, 0.0)).sum::<f64>();
    Interval { low: sum(f64::min), high: sum(f64::max) }
}

/// The palette's transforms relative to the home bone, made when asked for.
struct Proxies<'a> {
    rr: &'a RotationalRegression,
    setting: &'a Setting<'a>,
    bones: &'a Bones,
    ranges: &'a RangesOfMotion,
    /// `Q_h⁻¹ D_k`, (P).
    gradients: Vec<Option<IntervalAffine>>,
}

impl Proxies<'_> {
    /// `T_h⁻¹ T_joint`, joint of the palette.
    fn palette(&mut self, joint: usize) -> IntervalAffine {
        if let Some(bone) = joint.checked_sub(self.setting.proxies) {
            return self.bones.relative[bone];
        }
        // Column r of the transform in the root's frame is Σ c₁ D + Σ c₂ q; relative to h with t_b = t_h + (t_b − t_h)
        // there remains (σ_r − [r = 3]) τ, σ_r the sum of c₂'s coefficients of translations, τ = Q_h⁻¹ t_h.
        let mut columns = [[Interval::exact(0.0); 3]; 4];
        let mut remains = [0.0, 0.0, 0.0, -1.0];
        let c1: Vec<(usize, [[f32; 3]; 4])> = self.rr.c1.row(joint).map(|(k, block)| (k, *block)).collect();
        for (k, block) in c1 {
            let gradient = self.gradient(k);
            for (r, coefficients) in block.iter().enumerate() {
                for (s, &c) in coefficients.iter().enumerate() {
                    (0..3).for_each(|i| columns[r][i] = columns[r][i] + gradient.rows[i][s].scaled(c.into()));
                }
            }
        }
        for (b, block) in self.rr.c2.row(joint) {
            let bone = &self.bones.relative[b];
            for (r, coefficients) in block.iter().enumerate() {
                remains[r] += f64::from(coefficients[3]);
                for (s, &c) in coefficients.iter().enumerate() {
                    (0..3).for_each(|i| columns[r][i] = columns[r][i] + bone.rows[i][s].scaled(c.into()));
                }
            }
        }
        // −Q_h⁻¹ t_h is the translation of T_h⁻¹.
        let back = self.bones.home.inverse_rotation();
        for (r, column) in columns.iter_mut().enumerate() {
            (0..3).for_each(|i| column[i] = column[i] + back.rows[i][3].scaled(-remains[r]));
        }
        let correction = self.correction(joint);
        IntervalAffine::from(|i, s| columns[s][i] + correction.rows[i][s])
    }

    /// `T_h⁻¹ T_joint p`. A proxy's translation holds levers that cancel against its linear part: both are put together
    /// before they meet an interval.
    fn image(&mut self, joint: usize, p: DVec3) -> [Interval; 3] {
        if joint >= self.setting.proxies {
            return self.palette(joint).point(p);
        }
        let lever = p.extend(1.0).to_array();
        let mut sum = [Interval::exact(0.0); 3];
        let c1: Vec<(usize, [[f32; 3]; 4])> = self.rr.c1.row(joint).map(|(k, block)| (k, *block)).collect();
        for (k, block) in c1 {
            let gradient = self.gradient(k);
            for s in 0..3 {
                let c: f64 = (0..4).map(|r| f64::from(block[r][s]) * lever[r]).sum();
                (0..3).for_each(|i| sum[i] = sum[i] + gradient.rows[i][s].scaled(c));
            }
        }
        let mut remains = -1.0;
        for (b, block) in self.rr.c2.row(joint) {
            let c: [f64; 4] = std::array::from_fn(|s| (0..4).map(|r| f64::from(block[r][s]) * lever[r]).sum());
            remains += c[3];
            let bone = &self.bones.relative[b];
            (0..3).for_each(|i| (0..4).for_each(|s| sum[i] = sum[i] + bone.rows[i][s].scaled(c[s])));
        }
        let back = self.bones.home.inverse_rotation();
        let correction = self.correction(joint).point(p);
        std::array::from_fn(|i| sum[i] + back.rows[i][3].scaled(-remains) + correction[i])
    }

    /// `Q_h⁻¹ Q_f exp(ρ̃) S` of predictor `k`.
    fn gradient(&mut self, k: usize) -> IntervalAffine {
        if let Some(known) = self.gradients[k] {
            return known;
        }
        let predictors = &self.rr.predictors;
        let (columns, width, features) = (predictors.columns(), predictors.width, predictors.features);
        let mut x = Vec::with_capacity(columns);
        for &b in &predictors.joints[k * width..(k + 1) * width] {
            x.extend_from_slice(&self.features(usize::from(b))[..features]);
        }
        x.push(Interval::exact(1.0));
        let dot = |row: &[f32]| row.iter().zip(&x).fold(Interval::exact(0.0), |sum, (&m, &x)| sum + x.scaled(m.into()));
        let rotation = &predictors.rotation[k * 3 * columns..(k + 1) * 3 * columns];
        let stretch = &predictors.stretch[k * 6 * columns..(k + 1) * 6 * columns];
        let rho: Vec<Interval> = rotation.chunks_exact(columns).map(dot).collect();
        let s: Vec<Interval> = stretch.chunks_exact(columns).map(dot).collect();
        let (one, place) = (Interval::exact(1.0), [[0, 3, 4], [3, 1, 5], [4, 5, 2]]);
        let stretch = IntervalAffine::from(|i, j| match (i, j) {
            (_, 3) => Interval::exact(0.0),
            _ if i == j => one + s[i],
            _ => s[place[i][j]],
        });
        let frame = self.bones.relative[usize::from(predictors.frames[k])].linear();
        let gradient = frame.times(&exponential(&rho)).times(&stretch);
        self.gradients[k] = Some(gradient);
        gradient
    }

    /// The features of joint `b`'s θ̃ over the ranges.
    fn features(&self, b: usize) -> [Interval; 9] {
        let theta = self.logarithm(b);
        let squares = theta.map(Interval::square);
        let least = squares.iter().map(|s| s.low).sum::<f64>().sqrt();
        let most = squares.iter().map(|s| s.high).sum::<f64>().sqrt();
        // (1 − cos t)/t² falls from a half at nil to nil at a full turn; beyond that it is at most 2/(2π)² and not negative.
        let factor = |t: f64| if t < 1e-4 { 0.5 } else { (1.0 - t.cos()) / (t * t) };
        let turn = std::f64::consts::TAU;
        let factor = Interval {
            low: if most < turn { factor(most) } else { 0.0 },
            high: if least < turn { factor(least) } else { 0.051 },
        };
        let [x, y, z] = theta;
        let product = |value: Interval| factor * value;
        [
            x,
            y,
            z,
            product(squares[0]),
            product(squares[1]),
            product(squares[2]),
            product(x * y),
            product(x * z),
            product(y * z),
        ]
    }

    /// θ̃ of joint `b` over the ranges: the turn's logarithm, turned from the bone's rest frame into the root's.
    fn logarithm(&self, b: usize) -> [Interval; 3] {
        let turns = &self.ranges.joints[b];
        let reference = DVec3::from_array(self.rr.ranges.reference[b].map(f64::from)).length();
        let angle = |turn: &Turn| match *turn {
            Turn::Hinge { from, to, .. } => from.abs().max(to.abs()),
            Turn::Cone { most, .. } => most,
        };
        let most: f64 = turns.iter().map(angle).sum();
        // Within half a turn of the branch's reference the logarithm is the plain one; else it is within half a turn of
        // the reference, wherever that is. The joint of the root against itself is nil.
        if most + reference > std::f64::consts::PI - 1e-3 {
            return [Interval::around(0.0, reference + std::f64::consts::PI); 3];
        }
        match turns[..] {
            [Turn::Hinge { axis, from, to }] => {
                let direction = rotation(self.setting.rest[b].matrix3) * axis;
                std::array::from_fn(|i| Interval { low: from, high: to }.scaled(direction[i]))
            }
            _ => {
                // With every turn at its middle, and the others no further from that than their halves together: a
                // logarithm changes by at most (θ/2)/sin(θ/2) times the angle, θ the largest turn on the way.
                let (middle, half) = middle_of(turns);
                let centre = DQuat::from_mat3(&middle).to_scaled_axis();
                let centre = if centre.length() > std::f64::consts::PI {
                    centre * (1.0 - std::f64::consts::TAU / centre.length())
                } else {
                    centre
                };
                let largest = centre.length() + half;
                if largest >= 0.95 * std::f64::consts::PI {
                    return [Interval::around(0.0, most); 3];
                }
                let reach = if largest > 1e-6 { half * (largest / 2.0) / (largest / 2.0).sin() } else { half };
                let centre = rotation(self.setting.rest[b].matrix3) * centre;
                std::array::from_fn(|i| Interval::around(centre[i], reach))
            }
        }
    }

    /// What the correction adds to proxy bone `p`, relative to h.
    fn correction(&self, p: usize) -> IntervalAffine {
        let mut sum = IntervalAffine::from(|_, _| Interval::exact(0.0));
        let Some(Correction::Proxies(correction)) = &self.setting.model.correction else { return sum };
        let n = correction.space.poses;
        for (r, region) in correction.regions.iter().enumerate() {
            let Some(place) = region.proxies.iter().position(|&q| q as usize == p) else { continue };
            let kernel = kernel_range(&correction.space, r);
            let mut own = IntervalAffine::from(|_, _| Interval::exact(0.0));
            for e in 0..n {
                let mut d = [0.0; 12];
                let rows = region.components.chunks_exact(region.proxies.len()).zip(region.mixing.chunks_exact(n));
                for (components, mixing) in rows {
                    (0..12).for_each(|i| d[i] += f64::from(mixing[e]) * f64::from(components[place][i]));
                }
                own = IntervalAffine::from(|i, s| own.rows[i][s] + kernel.scaled(d[3 * s + i]));
            }
            let turn = self.bones.relative[region.bone].linear();
            let turned = IntervalAffine::from(|i, s| {
                (0..3).fold(Interval::exact(0.0), |sum, k| sum + turn.rows[i][k] * own.rows[k][s])
            });
            sum = IntervalAffine::from(|i, s| sum.rows[i][s] + turned.rows[i][s]);
        }
        sum
    }
}

/// The product of the turns at their middles, and by how much all of them may turn away from it together.
fn middle_of(turns: &[Turn]) -> (DMat3, f64) {
    let step = |(product, half): (DMat3, f64), turn: &Turn| match *turn {
        Turn::Hinge { axis, from, to } => {
            (product * DMat3::from_axis_angle(axis, (from + to) / 2.0), half + (to - from) / 2.0)
        }
        Turn::Cone { most, .. } => (product, half + most),
    };
    turns.iter().fold((DMat3::IDENTITY, 0.0), step)
}

/// `exp(ρ̃)` for all ρ̃ within a box.
fn exponential(rho: &[Interval]) -> IntervalAffine {
    let middle = DVec3::new(rho[0].middle(), rho[1].middle(), rho[2].middle());
    let half = DVec3::new(rho[0].high, rho[1].high, rho[2].high) - middle;
    let change = 2.0 * (half.length().min(std::f64::consts::PI) / 2.0).sin();
    let turn = DMat3::from_quat(DQuat::from_scaled_axis(middle));
    IntervalAffine::from(|i, s| {
        if s == 3 {
            return Interval::exact(0.0);
        }
        let (low, high) = (turn.col(s)[i] - change, turn.col(s)[i] + change);
        Interval { low: low.max(-1.0), high: high.min(1.0) }
    })
}

fn rotation(m: DMat3) -> DMat3 {
    sinew_examples::nearest_rotation(m)
}
