//! Proxy bones of rotational regression over ranges of motion.
//!
//! A proxy's transform is `t = c₁ d + c₂ q`, plus what a correction adds (see `sinew_runtime::deform::RotationalRegression`). Its
//! gradient is `d = Q_f exp(ρ̃) S` with ρ̃ and S linear in features of θ̃; `exp(ρ̃)` is to first order
//! ([`FormAffine::exponential`]). Where the ranges go beyond the trained ones gradients are carried on (`held`), or the bones
//! are those of the held pose already (`blocks`).

use std::cell::OnceCell;

use glam::{DVec3, DVec4};
use sinew_runtime::Model;
use sinew_runtime::deform::RotationalRegression;

use super::blocks::Setting;
use super::bones::Bones;
use super::form::{Form, FormAffine};
use super::held;
use super::interval::Interval;
use super::joints::Joints;
use super::terms::Driven;

/// What a region of a correction changes of a proxy bone.
pub(super) struct Change {
    /// The region whose kernel counts.
    pub region: usize,
    /// The bone in whose rotated frame it stands.
    pub bone: usize,
    /// D_e of each number that drives the region (an example pose's kernel, or a term), column by column, (N).
    d: Vec<[f64; 12]>,
}

impl Change {
    /// What the model's correction changes of proxy bone `p`.
    pub(super) fn of(model: &Model, p: usize) -> Vec<Self> {
        let Some(correction) = model.proxy_correction() else { return Vec::new() };
        let mut changes = Vec::new();
        for (r, region) in correction.regions.iter().enumerate() {
            let Some(place) = region.proxies.iter().position(|&q| q as usize == p) else { continue };
            let n = correction.drivers.inputs(r);
            let mut d = vec![[0.0; 12]; n];
            let rows = region.components.chunks_exact(region.proxies.len()).zip(region.mixing.chunks_exact(n.max(1)));
            for (components, mixing) in rows {
                for (d, &m) in d.iter_mut().zip(mixing) {
                    (0..12).for_each(|i| d[i] += f64::from(m) * f64::from(components[place][i]));
                }
            }
            changes.push(Self { region: r, bone: region.bone, d });
        }
        changes
    }

    /// `D_e h` of each number that drives the region, (N).
    pub(super) fn at(&self, h: DVec4) -> impl Iterator<Item = DVec3> + '_ {
        let column = |d: &[f64; 12], s: usize| DVec3::from_slice(&d[3 * s..]);
        self.d.iter().map(move |d| (0..4).map(|s| column(d, s) * h[s]).sum())
    }
}

/// The palette's transforms relative to the home bone, made when asked for.
pub(super) struct Proxies<'a> {
    rr: &'a RotationalRegression,
    setting: &'a Setting<'a>,
    bones: &'a Bones,
    joints: &'a Joints<'a>,
    /// `−Q_h⁻¹ t_h`, the translation of `T_h⁻¹`.
    pub(super) back: [Form; 3],
    /// `Q_h⁻¹ D_k`, (P).
    gradients: Vec<OnceCell<FormAffine>>,
    pub(super) driven: Option<&'a Driven<'a>>,
}

impl<'a> Proxies<'a> {
    pub(super) fn new(
        rr: &'a RotationalRegression,
        setting: &'a Setting<'a>,
        bones: &'a Bones,
        joints: &'a Joints<'a>,
        driven: Option<&'a Driven<'a>>,
    ) -> Self {
        let gradients = (0..setting.proxies).map(|_| OnceCell::new()).collect();
        let inverse = bones.seen_home.inverse_rotation();
        let back = [0, 1, 2].map(|i| inverse.rows[i][3]);
        Self { rr, setting, bones, joints, back, gradients, driven }
    }

    /// `T_h⁻¹ T_joint`, joint of the palette.
    pub(super) fn palette(&self, joint: usize) -> FormAffine {
        if let Some(bone) = joint.checked_sub(self.setting.proxies) {
            return self.bones.relative[bone];
        }
        // Column r of the transform in the root's frame is Σ c₁ D + Σ c₂ q; relative to h with t_b = t_h + (t_b − t_h)
        // there remains (σ_r − [r = 3]) τ, σ_r the sum of c₂'s coefficients of translations, τ = Q_h⁻¹ t_h.
        let mut columns = [[Form::ZERO; 3]; 4];
        let mut remains = [0.0, 0.0, 0.0, -1.0];
        for (k, block) in self.rr.c1.row(joint) {
            let gradient = self.gradient(k);
            for (r, coefficients) in block.iter().enumerate() {
                for (s, &c) in coefficients.iter().enumerate() {
                    (0..3).for_each(|i| columns[r][i].add_scaled(&gradient.rows[i][s], c.into()));
                }
            }
        }
        for (b, block) in self.rr.c2.row(joint) {
            let bone = &self.bones.relative[b];
            for (r, coefficients) in block.iter().enumerate() {
                remains[r] += f64::from(coefficients[3]);
                for (s, &c) in coefficients.iter().enumerate() {
                    (0..3).for_each(|i| columns[r][i].add_scaled(&bone.rows[i][s], c.into()));
                }
            }
        }
        for (r, column) in columns.iter_mut().enumerate() {
            (0..3).for_each(|i| column[i].add_scaled(&self.back[i], -remains[r]));
        }
        let correction = self.correction(joint);
        FormAffine::from(|i, s| columns[s][i] + correction.rows[i][s])
    }

    /// `T_h⁻¹ T_joint p`. A proxy's translation holds levers that cancel against its linear part: both are put together
    /// before they meet an interval.
    pub(super) fn image(&self, joint: usize, p: DVec3) -> [Form; 3] {
        if joint >= self.setting.proxies {
            return self.palette(joint).point(p);
        }
        let lever = p.extend(1.0).to_array();
        let mut sum = [Form::ZERO; 3];
        for (k, block) in self.rr.c1.row(joint) {
            let gradient = self.gradient(k);
            for s in 0..3 {
                let c: f64 = (0..4).map(|r| f64::from(block[r][s]) * lever[r]).sum();
                (0..3).for_each(|i| sum[i].add_scaled(&gradient.rows[i][s], c));
            }
        }
        let mut remains = -1.0;
        for (b, block) in self.rr.c2.row(joint) {
            let c: [f64; 4] = std::array::from_fn(|s| (0..4).map(|r| f64::from(block[r][s]) * lever[r]).sum());
            remains += c[3];
            let bone = &self.bones.relative[b];
            (0..3).for_each(|i| (0..4).for_each(|s| sum[i].add_scaled(&bone.rows[i][s], c[s])));
        }
        let correction = self.correction_of(joint, p);
        (0..3).for_each(|i| sum[i].add_scaled(&self.back[i], -remains));
        std::array::from_fn(|i| sum[i] + correction[i])
    }

    /// `Q_h⁻¹ Q_f exp(ρ̃) S` of predictor `k`, carried on where the ranges go beyond the trained ones.
    pub(super) fn gradient(&self, k: usize) -> &FormAffine {
        self.gradients[k].get_or_init(|| self.predicted(k))
    }

    fn predicted(&self, k: usize) -> FormAffine {
        let predictors = &self.rr.predictors;
        let (columns, width, features) = (predictors.columns(), predictors.width, predictors.features);
        let mut x = Vec::with_capacity(columns);
        for &b in &predictors.joints[k * width..(k + 1) * width] {
            x.extend_from_slice(&self.features(usize::from(b))[..features]);
        }
        x.push(Form::exact(1.0));
        let dot = |row: &[f32]| {
            let mut sum = Form::ZERO;
            row.iter().zip(&x).for_each(|(&m, x)| sum.add_scaled(x, m.into()));
            sum
        };
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
        self.carried(k, usize::from(self.rr.predictors.frames[k])).times(&FormAffine::exponential(&rho)).times(&stretch)
    }

    /// The features of joint `b`'s θ̃′ over the ranges.
    fn features(&self, b: usize) -> [Form; 9] {
        let theta = self.joints.seen(b).theta;
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

    /// `Σ_b ω_kb (Q_h⁻¹ Q_b) (Q′_bᵀ Q′_f)`: what was found in the frame of bone `f` for proxy `k`, carried on.
    fn carried(&self, k: usize, f: usize) -> FormAffine {
        if self.setting.holds_bones {
            return self.bones.relative[f].linear();
        }
        let mut sum = FormAffine::from(|_, _| Form::ZERO);
        for &(b, share) in &self.setting.carriers[k] {
            let part = if self.joints.hold_between(b, f) {
                let (up, down) = held::between(self.setting.skeleton, b, f);
                self.bones.relative[b].linear().rigid_times(&held::turn(&up, &down, self.joints))
            } else {
                self.bones.relative[f].linear()
            };
            let entries = sum.rows.as_flattened_mut().iter_mut().zip(part.rows.as_flattened());
            entries.for_each(|(sum, part)| sum.add_scaled(part, share.into()));
        }
        sum
    }

    /// What turns changes of proxy `p` in the frame of `bone`.
    fn turn(&self, p: usize, bone: usize) -> FormAffine {
        match self.driven {
            Some(Driven::Polynomials(_)) => self.carried(p, bone),
            _ => self.bones.relative[bone].linear(),
        }
    }

    /// What the correction adds to proxy bone `p`, relative to h.
    fn correction(&self, p: usize) -> FormAffine {
        let mut sum = FormAffine::from(|_, _| Form::ZERO);
        let Some(driven) = self.driven else { return sum };
        for change in &self.setting.changes[p] {
            let kernel = driven.region(change.region);
            let own = FormAffine::from(|i, s| kernel.sum(change.d.iter().map(|d| d[3 * s + i])));
            let turned = self.turn(p, change.bone).times(&own);
            sum = FormAffine::from(|i, s| sum.rows[i][s] + turned.rows[i][s]);
        }
        sum
    }

    /// What the correction adds to the image of `point` under proxy bone `p`, relative to h.
    fn correction_of(&self, p: usize, point: DVec3) -> [Form; 3] {
        let lever = point.extend(1.0).to_array();
        let mut sum = [Form::ZERO; 3];
        let Some(driven) = self.driven else { return sum };
        for change in &self.setting.changes[p] {
            let kernel = driven.region(change.region);
            let at = |d: &[f64; 12], i: usize| (0..4).map(|s| d[3 * s + i] * lever[s]).sum();
            let own: [Form; 3] = std::array::from_fn(|i| kernel.sum(change.d.iter().map(|d| at(d, i))));
            let turned = self.turn(p, change.bone).turned(own);
            (0..3).for_each(|i| sum[i] = sum[i] + turned[i]);
        }
        sum
    }
}
