//! Bounds of blocks of vertices over ranges of motion.
//!
//! A proxy's transform is `t = c₁ d + c₂ q` with `d = Q_f exp(ρ̃) S` (see `sinew_runtime::deform::RotationalRegression`). Everything
//! is taken relative to the block's home bone h, `T_h⁻¹ T`, so that only the joints between h and another bone widen it,
//! and put into the root's frame at the end by `T_h`. Bones turn and shift but keep their size, so that products of their
//! matrices never grow beyond rotations, however long the chain.
//!
//! - θ̃ of a joint with one hinge lies on a line, of several near the plane that touches it at their middles;
//! - ρ̃ and S are linear in features of θ̃, and `exp(ρ̃)` is to first order ([`FormAffine::exponential`]);
//! - a correction is `Q_b Σ_e κ_e D_e` over the example poses; how far a joint may be from an example's bounds its kernel.
//!
//! The hinges that drive the block most are cut into pieces, and the box is that around the pieces' boxes: what the forms
//! leave over shrinks with the square of the pieces.

use glam::{DMat3, DQuat, DVec3};
use rayon::prelude::*;
use sinew_examples::Skeleton;
use sinew_runtime::bounds::{Aabb, Block, Bounds};
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Deformer, JointRanges, Model, PoseSpace};

use super::form::{Form, FormAffine, SYMBOLS};
use super::held;
use super::interval::Interval;
use super::{blend, widened};
use crate::geometry::rotation::left_jacobian;
use crate::norm::ranges::{RangesOfMotion, Turn};

/// Into how many pieces the hinges of a block are cut together.
const PIECES: usize = 625;

/// At most this many hinges are cut.
const CUT_HINGES: usize = 4;

/// A box for every block, in the root's rest frame.
pub(super) fn over_ranges(model: &Model, bounds: &Bounds, skeleton: &Skeleton, ranges: &RangesOfMotion) -> Vec<Aabb> {
    let setting = Setting::new(model, skeleton);
    let block = |block: &Block| {
        let needs = setting.needs(block, ranges);
        let pieces = cut(ranges, &needs.drivers);
        let boxes = pieces.iter().map(|piece| setting.block(block, &needs, piece).map(|side| side.range()));
        let hull = boxes.reduce(|a, b| std::array::from_fn(|i| a[i].hull(b[i])));
        hull.map_or(Aabb::EMPTY, widened)
    };
    bounds.blocks.par_iter().map(block).collect()
}

/// The hinges of `joints` that turn, in their order: (joint, place among its turns).
fn hinges(ranges: &RangesOfMotion, joints: &[usize]) -> Vec<(usize, usize)> {
    let turns = joints.iter().flat_map(|&b| ranges.joints[b].iter().enumerate().map(move |(k, turn)| (b, k, turn)));
    let hinge = |(b, k, turn): (usize, usize, &Turn)| match *turn {
        Turn::Hinge { from, to, .. } if to > from => Some((b, k)),
        _ => None,
    };
    turns.filter_map(hinge).collect()
}

/// The ranges with the hinges of `joints` cut into pieces, every combination.
fn cut(ranges: &RangesOfMotion, joints: &[usize]) -> Vec<RangesOfMotion> {
    let mut hinges = hinges(ranges, joints);
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
    /// The bones that carry each key gradient on beyond the trained ranges, (P).
    carriers: Vec<Vec<(usize, f32)>>,
    /// The ranges that the pose is held within.
    held: Option<JointRanges>,
}

/// What a block needs of the model.
struct Needs {
    /// The bone everything is taken relative to.
    home: usize,
    /// The joints that matter for it, the most important first.
    drivers: Vec<usize>,
    /// Whether a bone's transform is needed at all, (J).
    used: Vec<bool>,
    /// The hinges that are remembered in forms: (joint, place among its turns).
    symbols: Vec<(usize, usize)>,
    /// The first of the three unknowns that stand for what the logarithm of a joint with several turns leaves over: (joint,
    /// unknown). The same in every predictor, it cancels where they cancel.
    left_over: Vec<(usize, usize)>,
}

impl Needs {
    fn symbol(&self, joint: usize, place: usize) -> Option<usize> {
        self.symbols.iter().position(|&hinge| hinge == (joint, place))
    }
}

impl<'a> Setting<'a> {
    fn new(model: &'a Model, skeleton: &'a Skeleton) -> Self {
        let to_root = skeleton.rest_root_frame().inverse();
        // A scale that is the same in all directions commutes with turns: no skinning transform depends on it.
        let unscaled = |rest: glam::DAffine3| glam::DAffine3 { matrix3: rotation(rest.matrix3), ..rest };
        let rest = skeleton.bones().iter().map(|bone| unscaled(to_root * bone.rest)).collect();
        let proxies = regression(model).map_or(0, RotationalRegression::proxy_count);
        let carriers = regression(model).map_or_else(Vec::new, |rr| rr.carriers(&model.character));
        let held = regression(model).map(|rr| model.held_ranges(rr));
        Self { model, skeleton, proxies, rest, to_root, carriers, held }
    }

    fn needs(&self, block: &Block, ranges: &RangesOfMotion) -> Needs {
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
        let used = self.used(block, home);
        // Joints that only carry other bones come last.
        (0..counts.len()).filter(|&b| used[b]).for_each(|b| counts[b] += f64::MIN_POSITIVE);
        let mut drivers: Vec<usize> = (0..counts.len()).filter(|&b| counts[b] > 0.0).collect();
        drivers.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]).then(a.cmp(&b)));
        let mut symbols = hinges(ranges, &drivers);
        symbols.truncate(SYMBOLS - 2 * 3);
        let several = drivers.iter().filter(|&&b| ranges.joints[b].len() > 1);
        let left_over = several.copied().zip((symbols.len()..SYMBOLS - 2).step_by(3)).collect();
        Needs { home, drivers, used, symbols, left_over }
    }

    /// The bones whose transforms a block depends on, and those above them, (J).
    fn used(&self, block: &Block, home: usize) -> Vec<bool> {
        let mut bones = vec![home];
        for term in &block.terms {
            match regression(self.model).filter(|_| term.joint < self.proxies) {
                Some(rr) => {
                    bones.extend(rr.c2.row(term.joint).map(|(b, _)| b));
                    for (k, _) in rr.c1.row(term.joint) {
                        bones.push(usize::from(rr.predictors.frames[k]));
                        bones.extend(self.carriers[k].iter().map(|&(b, _)| b));
                        let width = rr.predictors.width;
                        bones.extend(rr.predictors.joints[k * width..(k + 1) * width].iter().map(|&b| usize::from(b)));
                    }
                }
                None => bones.push(term.joint - self.proxies),
            }
        }
        bones.extend(self.model.proxy_correction().iter().flat_map(|c| &c.regions).map(|region| region.bone));
        bones.extend(self.model.vertex_correction().iter().flat_map(|c| &c.parts).map(|part| part.bone));
        let mut used = vec![false; self.rest.len()];
        for mut b in bones {
            while !std::mem::replace(&mut used[b], true) {
                b = self.skeleton.bones()[b].parent.unwrap_or(b);
            }
        }
        used
    }

    /// The block's box in the root's rest frame over `ranges`.
    fn block(&self, block: &Block, needs: &Needs, ranges: &RangesOfMotion) -> [Form; 3] {
        let bones = self.bones_from(needs, ranges);
        let home = &bones.home;
        let pivot = self.to_root.transform_point3(block.pivot.as_dvec3());
        let turn = self.to_root.matrix3;
        let (transforms, images): (Vec<FormAffine>, Vec<[Form; 3]>) = match regression(self.model) {
            Some(rr) => {
                let mut proxies = Proxies { rr, setting: self, bones: &bones, needs, ranges, gradients: Vec::new() };
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
        for displaced in self.displacements(block, &bones, ranges) {
            (0..3).for_each(|i| sides[i] = sides[i] + displaced[i]);
        }
        home.rigid_point(sides)
    }

    /// Every bone's skinning transform relative to that of `home`, and that of `home` itself, in the root's rest frame.
    fn bones_from(&self, needs: &Needs, ranges: &RangesOfMotion) -> Bones {
        let home = needs.home;
        let turn = |b: usize, k: usize| FormAffine::turn(&ranges.joints[b][k], needs.symbol(b, k));
        let parent = |b: usize| self.skeleton.bones()[b].parent;
        // `L̂ R₁ R₂ …` of each joint; the root stays.
        let local = |b: usize| {
            let joint = parent(b).map_or(glam::DAffine3::IDENTITY, |p| self.rest[p].inverse() * self.rest[b]);
            let turns = 0..ranges.joints[b].len();
            turns.fold(FormAffine::exact(joint), |all, k| all.rigid_times(&turn(b, k)))
        };
        let inverse_local = |b: usize| {
            let joint = parent(b).map_or(glam::DAffine3::IDENTITY, |p| self.rest[p].inverse() * self.rest[b]);
            let turns = (0..ranges.joints[b].len()).rev();
            let back = turns.fold(FormAffine::exact(glam::DAffine3::IDENTITY), |all, k| {
                all.rigid_times(&turn(b, k).inverse_rotation())
            });
            back.rigid_times(&FormAffine::exact(joint.inverse()))
        };
        // G_h⁻¹ G_b: up from h to the root, then down to everything else.
        let mut relative: Vec<Option<FormAffine>> = vec![None; self.rest.len()];
        relative[home] = Some(FormAffine::exact(glam::DAffine3::IDENTITY));
        let (mut b, mut up, mut path) = (home, FormAffine::exact(glam::DAffine3::IDENTITY), vec![home]);
        while let Some(p) = parent(b) {
            up = up.rigid_times(&inverse_local(b));
            relative[p] = Some(up);
            path.push(p);
            b = p;
        }
        for &b in self.skeleton.parents_first() {
            if let (true, None, Some(p)) = (needs.used[b], relative[b], parent(b)) {
                relative[b] = relative[p].map(|to_parent| to_parent.rigid_times(&local(b)));
            }
        }
        let identity = FormAffine::exact(glam::DAffine3::IDENTITY);
        // Ĝ_h (G_h⁻¹ G_b) Ĝ_b⁻¹.
        let skinning = |b: usize| {
            if !needs.used[b] {
                return identity;
            }
            let between = relative[b].unwrap_or(identity).rigid_times(&FormAffine::exact(self.rest[b].inverse()));
            FormAffine::exact(self.rest[home]).rigid_times(&between)
        };
        // The root keeps its rest transform; down its path to h.
        let root = path.last().copied().unwrap_or(home);
        let down = path.iter().rev().skip(1);
        let global = down.fold(FormAffine::exact(self.rest[root]), |all, &b| all.rigid_times(&local(b)));
        Bones {
            relative: (0..self.rest.len()).map(skinning).collect(),
            home: global.rigid_times(&FormAffine::exact(self.rest[home].inverse())),
        }
    }

    /// What a correction of vertices adds to the block, relative to its home bone, one box a part.
    fn displacements(&self, block: &Block, bones: &Bones, ranges: &RangesOfMotion) -> Vec<[Form; 3]> {
        let Some(correction) = self.model.vertex_correction() else { return Vec::new() };
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
            let kernel = self.kernels(&correction.space, part.region, ranges);
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
                    (0..3).for_each(|i| sum[i] = sum[i] + kernel[e].scaled(d[i]));
                }
                sum
            };
            let hull = own.iter().map(vertex).reduce(|a, b| std::array::from_fn(|i| a[i].hull(b[i])));
            if let Some(hull) = hull {
                boxes.push(bones.relative[part.bone].turned(hull.map(Form::interval)));
            }
        }
        boxes
    }

    /// All values of a region's kernel for each example pose over `ranges`, (N).
    ///
    /// A joint within an angle of its middle is from an example at most that much nearer or farther than its middle, and
    /// the kernel falls with the distance `4 sin²(angle/2)`.
    fn kernels(&self, space: &PoseSpace, region: usize, ranges: &RangesOfMotion) -> Vec<Interval> {
        let (n, region) = (space.poses, &space.regions[region]);
        let distances: Vec<Vec<Interval>> = (0..space.joints.len()).map(|c| self.distances(space, c, ranges)).collect();
        let faded = region.joints.iter().fold(Interval::exact(1.0), |all, &(c, _)| {
            let nearest = distances[c as usize]
                .iter()
                .copied()
                .reduce(|a, b| Interval { low: a.low.min(b.low), high: a.high.min(b.high) });
            let nearest = nearest.unwrap_or(Interval::exact(0.0));
            let [near, far] = space.fade[c as usize].map(f64::from);
            all * Interval { low: fade(nearest.high, near, far), high: fade(nearest.low, near, far) }
        });
        let falling = |d: Interval, rate: f64| {
            // Rounding, or a rate that is not positive: anything from nil to one.
            if !(rate > 0.0) {
                return if rate == 0.0 { Interval::exact(1.0) } else { Interval { low: 0.0, high: 1.0 } };
            }
            Interval { low: 1.0 / (1.0 + rate * d.high), high: 1.0 / (1.0 + rate * d.low.max(0.0)) }
        };
        let share = 1.0 / region.joints.len().max(1) as f64;
        let kernel = |e: usize| {
            let (mut product, mut mean) = (Interval::exact(1.0), Interval::exact(0.0));
            for &(c, rate) in &region.joints {
                let factor = falling(distances[c as usize][e], rate.into());
                product = product * factor;
                mean = mean + factor.scaled(share);
            }
            let total = distances.iter().fold(Interval::exact(0.0), |sum, d| sum + d[e]);
            let peak = falling(total, space.peak_rate.into()).square();
            let sum = Interval::exact(region.constant.into())
                + product.scaled(region.product.into())
                + mean.scaled(region.additive.into())
                + peak.scaled(region.peak.into());
            faded * sum
        };
        (0..n).map(kernel).collect()
    }

    /// The squared distances of joint `c` of `space` to its examples over `ranges`, (N).
    fn distances(&self, space: &PoseSpace, c: usize, ranges: &RangesOfMotion) -> Vec<Interval> {
        let (n, b) = (space.poses, usize::from(space.joints[c]));
        let rest = self.rest[b].matrix3;
        let (middle, half) = match self.held_box(b, ranges) {
            // Two rotations are no farther apart than their logarithms.
            Some(log) => {
                let middle = DVec3::from_array(log.map(|x| (x.low + x.high) / 2.0));
                (DQuat::from_scaled_axis(middle), DVec3::from_array(log.map(|x| x.high)).distance(middle))
            }
            None => {
                let (middle, half) = middle_of(&ranges.joints[b]);
                (DQuat::from_mat3(&(rest * middle * rest.transpose())), half)
            }
        };
        let example =
            |e: usize| DQuat::from_array(std::array::from_fn(|k| space.rotations[c * 4 * n + k * n + e].into()));
        let distance = |e: usize| {
            let pi = std::f64::consts::PI;
            let angle = 2.0 * middle.dot(example(e)).abs().min(1.0).acos();
            let squared = |angle: f64| 4.0 * (angle.clamp(0.0, pi) / 2.0).sin().powi(2);
            // Quaternions are rounded to f32.
            Interval { low: squared(angle - half - 1e-5), high: squared(angle + half + 1e-5) }
        };
        (0..n).map(distance).collect()
    }

    /// All θ̃′ of joint `b` over `ranges` if it may be beyond its trained range.
    fn held_box(&self, b: usize, ranges: &RangesOfMotion) -> Option<[Interval; 3]> {
        let rr = regression(self.model)?;
        let log = self.logarithm(rr, b, ranges, &vec![None; ranges.joints[b].len()], None);
        held::held(self.held.as_ref()?, b, log).map(|held| held.map(|x| x.range()))
    }

    /// θ̃ of joint `b` over `ranges`: the turn's logarithm, turned from the bone's rest frame into the root's. `symbols` are
    /// those of its turns, `left_over` the first of three for what they leave.
    fn logarithm(
        &self,
        rr: &RotationalRegression,
        b: usize,
        ranges: &RangesOfMotion,
        symbols: &[Option<usize>],
        left_over: Option<usize>,
    ) -> [Form; 3] {
        let rest = self.rest[b].matrix3;
        let reference = DVec3::from_array(rr.ranges.reference[b].map(f64::from));
        // The logarithm is the plain one if that is within half a turn of the branch's reference. In any case it is within
        // half a turn of it along its axis.
        let plain = |log: &[Form; 3]| {
            let centre = DVec3::from_array(log.map(|x| x.centre));
            let reach = DVec3::from_array(log.map(|x| x.radius())).length();
            (rest * centre).distance(reference) + reach < std::f64::consts::PI - 1e-3
        };
        let Some(mut log) = logarithm(&ranges.joints[b], symbols).filter(plain) else {
            return [Form::around(0.0, reference.length() + std::f64::consts::PI); 3];
        };
        if let Some(first) = left_over {
            for (k, x) in log.iter_mut().enumerate() {
                x.slopes[first + k] = std::mem::take(&mut x.rest);
            }
        }
        std::array::from_fn(|i| (0..3).fold(Form::ZERO, |sum, k| sum + log[k].scaled(rest.col(k)[i])))
    }
}

/// One up to `near` (squared), nil from `far` (squared) on, smooth between, as at run time.
fn fade(squared: f64, near: f64, far: f64) -> f64 {
    if squared <= near {
        return 1.0;
    }
    if squared >= far {
        return 0.0;
    }
    let t = (squared.sqrt() - near.sqrt()) / (far.sqrt() - near.sqrt());
    1.0 - t * t * (3.0 - 2.0 * t)
}

/// Skinning transforms in the root's rest frame. Those of bones that are not needed are the identity.
struct Bones {
    /// `T_h⁻¹ T_b`, (J).
    relative: Vec<FormAffine>,
    /// `T_h`.
    home: FormAffine,
}

fn regression(model: &Model) -> Option<&RotationalRegression> {
    match &model.deformer {
        Deformer::RotationalRegression(rr) => Some(rr),
        _ => None,
    }
}

/// The palette's transforms relative to the home bone, made when asked for.
struct Proxies<'a> {
    rr: &'a RotationalRegression,
    setting: &'a Setting<'a>,
    bones: &'a Bones,
    needs: &'a Needs,
    ranges: &'a RangesOfMotion,
    /// `Q_h⁻¹ D_k`, (P).
    gradients: Vec<Option<FormAffine>>,
}

impl Proxies<'_> {
    /// `T_h⁻¹ T_joint`, joint of the palette.
    fn palette(&mut self, joint: usize) -> FormAffine {
        if let Some(bone) = joint.checked_sub(self.setting.proxies) {
            return self.bones.relative[bone];
        }
        // Column r of the transform in the root's frame is Σ c₁ D + Σ c₂ q; relative to h with t_b = t_h + (t_b − t_h)
        // there remains (σ_r − [r = 3]) τ, σ_r the sum of c₂'s coefficients of translations, τ = Q_h⁻¹ t_h.
        let mut columns = [[Form::ZERO; 3]; 4];
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
        FormAffine::from(|i, s| columns[s][i] + correction.rows[i][s])
    }

    /// `T_h⁻¹ T_joint p`. A proxy's translation holds levers that cancel against its linear part: both are put together
    /// before they meet an interval.
    fn image(&mut self, joint: usize, p: DVec3) -> [Form; 3] {
        if joint >= self.setting.proxies {
            return self.palette(joint).point(p);
        }
        let lever = p.extend(1.0).to_array();
        let mut sum = [Form::ZERO; 3];
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

    /// `Q_h⁻¹ Q_f exp(ρ̃) S` of predictor `k`, carried on where the ranges go beyond the trained ones.
    fn gradient(&mut self, k: usize) -> FormAffine {
        if let Some(known) = self.gradients[k] {
            return known;
        }
        let predictors = &self.rr.predictors;
        let (columns, width, features) = (predictors.columns(), predictors.width, predictors.features);
        let mut x = Vec::with_capacity(columns);
        for &b in &predictors.joints[k * width..(k + 1) * width] {
            x.extend_from_slice(&self.features(usize::from(b))[..features]);
        }
        x.push(Form::exact(1.0));
        let dot = |row: &[f32]| row.iter().zip(&x).fold(Form::ZERO, |sum, (&m, &x)| sum + x.scaled(m.into()));
        let rotation = &predictors.rotation[k * 3 * columns..(k + 1) * 3 * columns];
        let stretch = &predictors.stretch[k * 6 * columns..(k + 1) * 6 * columns];
        let rho: [Form; 3] = std::array::from_fn(|i| dot(&rotation[i * columns..(i + 1) * columns]));
        let s: Vec<Form> = stretch.chunks_exact(columns).map(dot).collect();
        let (one, place) = (Form::exact(1.0), [[0, 3, 4], [3, 1, 5], [4, 5, 2]]);
        let stretch = FormAffine::from(|i, j| match (i, j) {
            (_, 3) => Form::ZERO,
            _ if i == j => one + s[i],
            _ => s[place[i][j]],
        });
        let gradient = self.carried(k).times(&FormAffine::exponential(&rho)).times(&stretch);
        self.gradients[k] = Some(gradient);
        gradient
    }

    /// The features of joint `b`'s θ̃ over the ranges.
    fn features(&self, b: usize) -> [Form; 9] {
        let theta = self.seen(b);
        let squares = theta.map(Form::square);
        let length = (squares[0] + squares[1] + squares[2]).range();
        let (least, most) = (length.low.max(0.0).sqrt(), length.high.max(0.0).sqrt());
        // (1 − cos t)/t² falls from a half at nil to nil at a full turn; beyond that it is at most 2/(2π)² and not negative.
        let factor = |t: f64| if t < 1e-4 { 0.5 } else { (1.0 - t.cos()) / (t * t) };
        let turn = std::f64::consts::TAU;
        let factor = Form::interval(Interval {
            low: if most < turn { factor(most) } else { 0.0 },
            high: if least < turn { factor(least) } else { 0.051 },
        });
        let [x, y, z] = theta;
        let second = [squares[0], squares[1], squares[2], x * y, x * z, y * z].map(|product| factor * product);
        std::array::from_fn(|k| if k < 3 { theta[k] } else { second[k - 3] })
    }

    /// θ̃′ of joint `b` over the ranges: θ̃ where it does not leave the trained range.
    fn seen(&self, b: usize) -> [Form; 3] {
        let log = self.logarithm(b);
        self.setting.held.as_ref().and_then(|ranges| held::held(ranges, b, log)).unwrap_or(log)
    }

    /// `Σ_b ω_kb (Q_h⁻¹ Q_b) (Q′_bᵀ Q′_f)`, f the frame of predictor `k`.
    fn carried(&self, k: usize) -> FormAffine {
        let f = usize::from(self.rr.predictors.frames[k]);
        let mut sum = FormAffine::from(|_, _| Form::ZERO);
        for &(b, share) in &self.setting.carriers[k] {
            let (up, down) = held::between(self.setting.skeleton, b, f);
            let beyond = up.iter().chain(&down).any(|&b| self.setting.held_box(b, self.ranges).is_some());
            let part = if beyond {
                self.bones.relative[b].linear().rigid_times(&held::turn(&up, &down, |b| self.seen(b)))
            } else {
                self.bones.relative[f].linear()
            };
            sum = FormAffine::from(|i, s| sum.rows[i][s] + part.rows[i][s].scaled(share.into()));
        }
        sum
    }

    /// θ̃ of joint `b` over the ranges, remembering the hinges.
    fn logarithm(&self, b: usize) -> [Form; 3] {
        let symbols: Vec<Option<usize>> = (0..self.ranges.joints[b].len()).map(|k| self.needs.symbol(b, k)).collect();
        let left_over = self.needs.left_over.iter().find(|entry| entry.0 == b).map(|entry| entry.1);
        self.setting.logarithm(self.rr, b, self.ranges, &symbols, left_over)
    }

    /// What the correction adds to proxy bone `p`, relative to h.
    fn correction(&self, p: usize) -> FormAffine {
        let mut sum = FormAffine::from(|_, _| Form::ZERO);
        let Some(correction) = self.setting.model.proxy_correction() else { return sum };
        let n = correction.space.poses;
        for (r, region) in correction.regions.iter().enumerate() {
            let Some(place) = region.proxies.iter().position(|&q| q as usize == p) else { continue };
            let kernel = self.setting.kernels(&correction.space, r, self.ranges);
            let mut own = FormAffine::from(|_, _| Form::ZERO);
            for e in 0..n {
                let mut d = [0.0; 12];
                let rows = region.components.chunks_exact(region.proxies.len()).zip(region.mixing.chunks_exact(n));
                for (components, mixing) in rows {
                    (0..12).for_each(|i| d[i] += f64::from(mixing[e]) * f64::from(components[place][i]));
                }
                own = FormAffine::from(|i, s| own.rows[i][s] + Form::interval(kernel[e].scaled(d[3 * s + i])));
            }
            let turn = self.bones.relative[region.bone].linear();
            let turned =
                FormAffine::from(|i, s| (0..3).fold(Form::ZERO, |sum, k| sum + turn.rows[i][k] * own.rows[k][s]));
            sum = FormAffine::from(|i, s| sum.rows[i][s] + turned.rows[i][s]);
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

/// The logarithm of the product of `turns` in the bone's own frame; `None` if it may come too near to half a turn.
///
/// From the middles, `dθ = J⁻¹(θ) Σ_k a_k h_k dε_k`, a_k the axis carried along by the turns after it and J the right Jacobian:
/// θ is `θ₀ + J⁻¹(θ₀) Σ_k a_k h_k ε_k`, but for how J⁻¹ and a_k change on the way: a_k by no more than the other turns' angles
/// together, J⁻¹ by no more than its Lipschitz constant times the way of θ, and both by half of that in the mean.
fn logarithm(turns: &[Turn], symbols: &[Option<usize>]) -> Option<[Form; 3]> {
    let (middle, half) = middle_of(turns);
    let centre = DQuat::from_mat3(&middle).to_scaled_axis();
    let centre = if centre.length() > std::f64::consts::PI {
        centre * (1.0 - std::f64::consts::TAU / centre.length())
    } else {
        centre
    };
    let largest = centre.length() + half;
    if largest >= 0.95 * std::f64::consts::PI {
        return None;
    }
    // ‖J⁻¹‖ is (t/2)/sin(t/2) for a turn by t, which is never above the sum of the angles.
    let stretch = |t: f64| if t > 1e-6 { (t / 2.0) / (t / 2.0).sin() } else { 1.0 };
    let norm = stretch(largest);
    let reach = half * norm;
    let inverse = left_jacobian(-centre).inverse();
    // J⁻¹ = I ± ½[θ]× + (g/t²)[θ]ײ with g = 1 − (t/2) cot(t/2), which changes by g' along θ and by 2g/t across.
    let g = |t: f64| if t > 1e-3 { 1.0 - t / 2.0 / (t / 2.0).tan() } else { t * t / 12.0 };
    let slope = |t: f64| if t > 1e-3 { t / 4.0 / (t / 2.0).sin().powi(2) - 0.5 / (t / 2.0).tan() } else { t / 6.0 };
    let lipschitz = 0.5 + slope(largest) + if largest > 1e-3 { 2.0 * g(largest) / largest } else { largest / 6.0 };
    let mut theta = centre.to_array().map(Form::exact);
    let mut after = DMat3::IDENTITY;
    let single = turns.len() == 1;
    for (turn, symbol) in turns.iter().zip(symbols).rev() {
        match (*turn, symbol) {
            (Turn::Hinge { axis, from, to }, Some(k)) => {
                let h = (to - from) / 2.0;
                let first = inverse * (after.transpose() * axis) * h;
                // One hinge alone goes along its axis, which J⁻¹ and the turns leave as it is.
                let bend = if single { 0.0 } else { 0.5 * h * (norm * (half - h) + lipschitz * reach) };
                for i in 0..3 {
                    theta[i].slopes[*k] += first[i];
                    theta[i].rest += bend;
                }
                after = DMat3::from_axis_angle(axis, (from + to) / 2.0) * after;
            }
            (Turn::Hinge { axis, from, to }, None) => {
                (0..3).for_each(|i| theta[i].rest += norm * (to - from) / 2.0);
                after = DMat3::from_axis_angle(axis, (from + to) / 2.0) * after;
            }
            (Turn::Cone { most, .. }, _) => (0..3).for_each(|i| theta[i].rest += norm * most),
        }
    }
    let bounded = |i: usize| if theta[i].radius() <= reach { theta[i] } else { Form::around(centre[i], reach) };
    Some(std::array::from_fn(bounded))
}

fn rotation(m: DMat3) -> DMat3 {
    sinew_examples::nearest_rotation(m)
}
