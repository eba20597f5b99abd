//! Corrections of proxy bones' transforms: what rotational regression leaves over, put where it costs next to nothing.
//!
//! For every example pose the residual r of the drawn vertices is spread over the proxy bones,
//!
//!   minimise Σ_v ‖r_v − Σ_p α_vp Δ_p ĥ_vp‖² + μ Σ_p tr(Δ_p M_p Δ_pᵀ),
//!
//! Δ_p a 3×4 change of proxy p's transform about its centre c_p, `ĥ_vp = [v̂ − c_p; 1]`, `M_p = Σ_v α_vp ĥ ĥᵀ` what the change
//! weighs on the vertices. The matrix is the same for all poses and for x, y, z. The changes, turned into the frame of
//! the bone that carries the proxy and measured by M_p, are the targets of the regression over poses.

use glam::{DAffine3, DMat3, DVec3, DVec4, Vec4};
use nalgebra::Matrix4;
use rayon::prelude::*;
use sinew_examples::nearest_rotation;
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion};
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Deformer, Model};

use super::components::{self, Budget, Components};
use super::poses::PoseTable;
use super::residual::gram;
use super::select::{self, Chosen, Regression, Search};
use super::{Closeness, CorrectionParams, REST_TOLERANCE, regions};
use crate::{FitError, FitReport, Training, predict, to_model};
use sinew_linalg::Cholesky;

/// μ of a smooth correction: proxies that would pull against each other to draw the last bit of a residual do not
/// predict each other's moves in a new pose.
const SMOOTH_SPREAD: f64 = 1e-2;

/// μ of an exact correction: no more than the system needs to be solvable.
const EXACT_SPREAD: f64 = 1e-6;

/// The part of the residual (rms) that a smooth correction may lose to compression.
/// Next to what a regression over a few poses does not foresee, about half of the residual, it is nothing: squares add up.
const COMPRESSION_LOSS: f64 = 0.02;
/// The same of an exact one.
const EXACT_LOSS: f64 = 1e-5;

/// The proxy bones as the correction sees them.
#[derive(Clone)]
pub(super) struct Proxies {
    /// What the proxy bones draw each vertex from, (V): (proxy, ĥ), about the proxy's centre.
    points: Vec<Vec<(usize, [f64; 4])>>,
    /// c_p, (P).
    centres: Vec<DVec3>,
    /// The bone that carries each proxy's vertices, (P).
    pub bones: Vec<usize>,
    /// Lower Cholesky factors of M_p, (P).
    masses: Vec<Matrix4<f64>>,
}

/// The equations that spread residuals over proxies, in the proxies' own coordinates: vertices are looked at once.
pub(super) struct Spreading {
    /// `ΦᵀΦ`: of each proxy the blocks with those that it shares vertices with, row by row, (P).
    shared: Vec<Vec<(usize, [f64; 16])>>,
    /// `ΦᵀΦ + μ diag(M_p)`.
    system: Cholesky,
}

/// A region with its regression.
struct Region {
    bone: usize,
    proxies: Vec<usize>,
    /// Changes measured by M_p, (N, 12n).
    targets: Vec<f64>,
    gram: Vec<f64>,
    chosen: Chosen,
}

/// A fitted correction, and what it was fitted with.
pub struct ProxyFit {
    /// The correction.
    pub correction: ProxyCorrection,
    /// The kernels and ridges it regresses with.
    pub regressions: Regressions,
    /// The squared error at the vertices to expect of a training pose that is left out of the regression, summed over
    /// the poses: what the proxies cannot draw, and what the regression does not foresee of what they can.
    pub left_out: f64,
}

/// The regressions of the regions.
pub struct Regressions {
    with_rest: bool,
    /// Those of the regions, each with its bone.
    regions: Vec<(usize, Regression)>,
}

/// Fits the correction of `model`, which must be a rotational regression; with the regressions that are `given`, where
/// they were chosen already.
pub fn fit(
    training: &Training,
    model: &Model,
    params: &CorrectionParams,
    given: Option<&Regressions>,
    report: &mut FitReport,
) -> Result<ProxyFit, FitError> {
    let Deformer::RotationalRegression(deformer) = &model.deformer else {
        let method = &model.metadata.method;
        return Err(FitError::Data(format!("`{method}` has no proxy bones to correct; use `--correct vertices`")));
    };
    let proxies = Proxies::new(training, model, deformer);
    let (changes, undrawn) = proxies.changes(training, model, params);
    let fit = |with_rest: bool| {
        let table = PoseTable::new(training, with_rest);
        fit_regions(training, &proxies, &changes, params, given, table)
    };
    let left_out = |regions: &[Region]| regions.iter().map(|region| region.chosen.left_out).sum::<f64>();
    let (table, regions) = match given {
        Some(given) => fit(given.with_rest),
        None => {
            let (with_rest, without) = (fit(true), fit(false));
            let rest_helps = left_out(&with_rest.1) <= REST_TOLERANCE * left_out(&without.1);
            if rest_helps { with_rest } else { without }
        }
    };
    super::tell(training, &table, regions.iter().map(|r| &r.chosen), report);
    let regression = |region: &Region| (region.bone, region.chosen.regression.clone());
    Ok(ProxyFit {
        correction: compress(&table, &proxies, &regions, params, report),
        regressions: Regressions { with_rest: table.with_rest, regions: regions.iter().map(regression).collect() },
        left_out: undrawn + left_out(&regions),
    })
}

impl Proxies {
    pub fn new(training: &Training, model: &Model, deformer: &RotationalRegression) -> Self {
        let count = deformer.proxy_count();
        let drawn = drawn_points(training, deformer);
        let mut sums = vec![(DVec3::ZERO, 0.0, vec![0.0; training.bone_count()]); count];
        for (v, pairs) in drawn.iter().enumerate() {
            for &(p, h) in pairs {
                let w = h.w.abs();
                sums[p].0 += w * training.rest[v];
                sums[p].1 += w;
                model.character.skin.vertex(v).for_each(|(b, s)| sums[p].2[b] += w * f64::from(s));
            }
        }
        let heaviest =
            |carried: &[f64]| crate::cross_validation::least(&carried.iter().map(|c| -c).collect::<Vec<_>>());
        let centres: Vec<DVec3> = sums.iter().map(|(sum, weight, _)| *sum / weight.max(f64::MIN_POSITIVE)).collect();
        let about = |&(p, h): &(usize, DVec4)| (p, (h.truncate() - h.w * centres[p]).extend(h.w).to_array());
        let points: Vec<Vec<(usize, [f64; 4])>> = drawn.iter().map(|pairs| pairs.iter().map(about).collect()).collect();
        let mut masses = vec![Matrix4::zeros(); count];
        for &(p, h) in points.iter().flatten() {
            // w [v̂ − c; 1] [v̂ − c; 1]ᵀ; points of their own have weights that may be nil.
            let scale = if deformer.points.is_empty() { 1.0 / h[3] } else { 1.0 };
            let h = nalgebra::Vector4::from(h);
            masses[p] += scale * h * h.transpose();
        }
        Self {
            points,
            centres,
            bones: sums.iter().map(|(_, _, carried)| heaviest(carried)).collect(),
            masses: masses.into_iter().map(factor).collect(),
        }
    }

    /// Δ_p in the frame of its bone, measured by M_p: `Q_bᵀ Δ_p L_p`, for every training pose and the rest pose,
    /// (N + 1)(P), column by column; and the squared residual that they leave at the training poses.
    pub fn changes(&self, training: &Training, model: &Model, params: &CorrectionParams) -> (Vec<Vec<[f64; 12]>>, f64) {
        let spread = if params.closeness == Closeness::Exact { EXACT_SPREAD } else { SMOOTH_SPREAD };
        let system = Cholesky::new(self.matrix(spread), 4 * self.centres.len());
        let predicted = predict::training_poses(model, training);
        let rest = vec![DAffine3::IDENTITY; training.bone_count()];
        let predicted_rest = predict::rest_pose(model, training);
        let pose = |e: usize| {
            let (truth, predicted, transforms) = match predicted.get(e) {
                Some(predicted) => (&training.vertices[e], predicted, &training.transforms[e]),
                None => (&training.rest, &predicted_rest, &rest),
            };
            let solution = system.solve3(&self.pulls(truth, predicted));
            let turns: Vec<DMat3> = transforms.iter().map(|t| nearest_rotation(t.matrix3)).collect();
            let moved = |&(p, h): &(usize, [f64; 4])| -> DVec3 { (0..4).map(|k| h[k] * solution[4 * p + k]).sum() };
            let left = |(v, pairs): (usize, &Vec<(usize, [f64; 4])>)| {
                (truth[v] - predicted[v] - pairs.iter().map(moved).sum::<DVec3>()).length_squared()
            };
            let undrawn: f64 = self.points.iter().enumerate().map(left).sum();
            (undrawn, self.measured(&solution, &turns))
        };
        let poses: Vec<(f64, Vec<[f64; 12]>)> = (0..=training.pose_count()).into_par_iter().map(pose).collect();
        let undrawn = training.pose_weights.iter().zip(&poses).map(|(a, (undrawn, _))| a * undrawn).sum();
        (poses.into_iter().map(|(_, changes)| changes).collect(), undrawn)
    }

    /// What a residual asks of the proxies: `Φᵀ r`, (4P).
    pub fn pulls(&self, truth: &[DVec3], predicted: &[DVec3]) -> Vec<DVec3> {
        let mut pulls = vec![DVec3::ZERO; 4 * self.centres.len()];
        for (pairs, (truth, predicted)) in self.points.iter().zip(truth.iter().zip(predicted)) {
            for &(p, h) in pairs {
                (0..4).for_each(|k| pulls[4 * p + k] += h[k] * (truth - predicted));
            }
        }
        pulls
    }

    /// Changes Δ, (4P), in the frames of the proxies' bones and measured by their masses, (P); `turns` are the Q_b, (J).
    pub fn measured(&self, changes: &[DVec3], turns: &[DMat3]) -> Vec<[f64; 12]> {
        let own = |p: usize| &changes[4 * p..4 * p + 4];
        let turn = |p: usize| turns[self.bones[p]].transpose();
        (0..self.centres.len()).map(|p| measured(own(p), turn(p), &self.masses[p])).collect()
    }

    /// The equations of a smooth correction.
    pub fn spreading(&self) -> Spreading {
        let size = 4 * self.centres.len();
        let gram = self.matrix(0.0);
        let block =
            |p: usize, q: usize| -> [f64; 16] { std::array::from_fn(|k| gram[(4 * p + k / 4) * size + 4 * q + k % 4]) };
        let row = |p: usize| {
            let blocks = (0..self.centres.len()).map(|q| (q, block(p, q)));
            blocks.filter(|(_, block)| block.iter().any(|&x| x != 0.0)).collect()
        };
        Spreading {
            shared: (0..self.centres.len()).map(row).collect(),
            system: Cholesky::new(self.matrix(SMOOTH_SPREAD), size),
        }
    }

    /// `ΦᵀΦ + μ diag(M_p)`, (4P, 4P).
    fn matrix(&self, spread: f64) -> Vec<f64> {
        let size = 4 * self.centres.len();
        let mut matrix = vec![0.0; size * size];
        for pairs in &self.points {
            for &(p, hp) in pairs {
                for &(q, hq) in pairs {
                    for k in 0..16 {
                        matrix[(4 * p + k / 4) * size + 4 * q + k % 4] += hp[k / 4] * hq[k % 4];
                    }
                }
            }
        }
        for (p, l) in self.masses.iter().enumerate() {
            let mass = l * l.transpose();
            for k in 0..16 {
                matrix[(4 * p + k / 4) * size + 4 * p + k % 4] += spread * mass[(k / 4, k % 4)];
            }
        }
        matrix
    }

    /// A measured change as a 3×4 matrix on rest points in the root's frame, column by column.
    pub fn unmeasured(&self, p: usize, measured: &[f64]) -> [f64; 12] {
        let mut columns = self.about_centre(p, measured);
        let linear = DMat3::from_cols_slice(&columns[..9]);
        let moved = DVec3::from_slice(&columns[9..]) - linear * self.centres[p];
        columns[9..].copy_from_slice(&moved.to_array());
        columns
    }

    /// What a pull on a proxy about its centre, (4), asks of its measured change: `turn G L⁻ᵀ`, column by column.
    pub fn measured_pull(&self, p: usize, pull: &[DVec3], turn: DMat3) -> [f64; 12] {
        // Row by row: L⁻¹ Gᵀ.
        let mut rows = nalgebra::Matrix4x3::from_fn(|k, c| (turn * pull[k])[c]);
        self.masses[p].solve_lower_triangular_mut(&mut rows);
        std::array::from_fn(|i| rows[(i / 3, i % 3)])
    }

    /// The same about the proxy's centre.
    pub fn about_centre(&self, p: usize, measured: &[f64]) -> [f64; 12] {
        let b = nalgebra::Matrix3x4::from_column_slice(measured);
        let change = self.masses[p].tr_solve_lower_triangular(&b.transpose()).map_or(b * 0.0, |x| x.transpose());
        std::array::from_fn(|k| change.as_slice()[k])
    }
}

impl Spreading {
    /// The changes that draw a residual, (4P), from what it asks of the proxies.
    pub fn changes(&self, pulls: &[DVec3]) -> Vec<DVec3> {
        self.system.solve3(pulls)
    }

    /// What is drawn by changes, as a residual would ask for it: `ΦᵀΦ Δ`, (4P).
    pub fn drawn(&self, changes: &[DVec3]) -> Vec<DVec3> {
        let row = |(p, k): (usize, usize)| -> DVec3 {
            let blocks = self.shared[p].iter();
            blocks.map(|(q, block)| (0..4).map(|l| block[4 * k + l] * changes[4 * q + l]).sum::<DVec3>()).sum()
        };
        (0..changes.len()).map(|i| row((i / 4, i % 4))).collect()
    }
}

/// What the proxy bones of `deformer` draw each vertex from, in the root's rest frame, (V): (proxy, h).
fn drawn_points(training: &Training, deformer: &RotationalRegression) -> Vec<Vec<(usize, DVec4)>> {
    let count = deformer.proxy_count();
    let to_root = training.skeleton.rest_root_frame().matrix3.transpose();
    let of_vertex = |v: usize| -> Vec<(usize, DVec4)> {
        if deformer.points.is_empty() {
            let pairs = deformer.skin.vertex(v).filter(|&(i, _)| i < count);
            return pairs.map(|(i, w)| (i, f64::from(w) * training.rest[v].extend(1.0))).collect();
        }
        let in_root = |h: [f32; 4]| (to_root * Vec4::from(h).truncate().as_dvec3()).extend(f64::from(h[3]));
        deformer.vertex(v, [0.0; 3]).filter(|&(i, _)| i < count).map(|(i, h)| (i, in_root(h))).collect()
    };
    (0..training.vertex_count()).map(of_vertex).collect()
}

/// The lower Cholesky factor of a proxy's mass; a flat or empty one is thickened until it has one.
fn factor(mass: Matrix4<f64>) -> Matrix4<f64> {
    let size = mass.trace().max(1e-12);
    let mut thicker = mass + Matrix4::identity() * (1e-6 * size);
    loop {
        if let Some(factor) = thicker.cholesky() {
            return factor.l();
        }
        thicker += Matrix4::identity() * size;
    }
}

/// `turn Δ L`, column by column.
fn measured(columns: &[DVec3], turn: DMat3, l: &Matrix4<f64>) -> [f64; 12] {
    let turned: Vec<DVec3> = columns.iter().map(|&c| turn * c).collect();
    let mut out = [0.0; 12];
    for c in 0..4 {
        let sum: DVec3 = (0..4).map(|k| turned[k] * l[(k, c)]).sum();
        out[3 * c..3 * c + 3].copy_from_slice(&sum.to_array());
    }
    out
}

fn fit_regions(
    training: &Training,
    proxies: &Proxies,
    changes: &[Vec<[f64; 12]>],
    params: &CorrectionParams,
    given: Option<&Regressions>,
    table: PoseTable,
) -> (PoseTable, Vec<Region>) {
    let exact = params.closeness == Closeness::Exact;
    let fit = |(bone, members): (usize, Vec<u32>)| {
        let members: Vec<usize> = members.into_iter().map(|p| p as usize).collect();
        let rows = (0..table.poses).flat_map(|e| members.iter().flat_map(move |&p| changes[e][p]));
        let targets = table.averaged(rows.collect());
        let gram = gram(&targets, table.poses);
        let candidates = regions::candidates(&training.skeleton, &table, bone);
        let search = Search { table: &table, candidates: &candidates, exact, product: 0.5 };
        let known = given.and_then(|given| given.regions.iter().find(|(b, _)| *b == bone));
        let chosen = match known {
            Some((_, regression)) => select::take(&search, &gram, regression.clone()),
            None => select::choose(&search, &gram),
        };
        Region { bone, proxies: members, targets, gram, chosen }
    };
    let parts = regions::by_bone(&proxies.bones, training.bone_count());
    let regions = parts.into_par_iter().map(fit).collect();
    (table, regions)
}

fn compress(
    table: &PoseTable,
    proxies: &Proxies,
    regions: &[Region],
    params: &CorrectionParams,
    report: &mut FitReport,
) -> ProxyCorrection {
    let all: Vec<Components> = regions.par_iter().map(|r| Components::new(&r.gram, table.poses)).collect();
    let bytes: Vec<usize> = regions.iter().map(|r| 48 * r.proxies.len() + 4 * table.poses).collect();
    let total: f64 = all.iter().flat_map(|c| &c.energies).sum();
    let loss = match (params.bytes, params.closeness) {
        (Some(_), _) => 0.0,
        (None, Closeness::Exact) => EXACT_LOSS,
        (None, Closeness::Smooth) => COMPRESSION_LOSS,
    };
    let own =
        |counts: &[usize]| super::total_bytes(table, regions, |r| (&r.chosen, 4 * r.proxies.len()), &bytes, counts);
    let kept = components::spend(&all, &bytes, Budget { bytes: params.bytes, energy: loss * loss * total }, own);
    super::tell_components(&all, &kept, report);
    let used: Vec<usize> = (0..regions.len()).filter(|&r| kept.counts[r] > 0).collect();
    let region = |&r: &usize| {
        let Region { bone, proxies: members, targets, chosen, .. } = &regions[r];
        let row = |k: usize| all[r].mixing(k, &chosen.ridge.inverse);
        let component = |k: usize| {
            let values = all[r].component(k, targets);
            let matrix =
                |(i, &p): (usize, &usize)| proxies.unmeasured(p, &values[12 * i..12 * i + 12]).map(|c| c as f32);
            members.iter().enumerate().map(matrix).collect::<Vec<_>>()
        };
        ProxyRegion {
            bone: *bone,
            proxies: members.iter().map(|&p| p as u32).collect(),
            mixing: (0..kept.counts[r]).flat_map(row).map(|m| m as f32).collect(),
            components: (0..kept.counts[r]).flat_map(component).collect(),
        }
    };
    ProxyCorrection {
        proxy_count: proxies.centres.len(),
        drivers: Drivers::Examples(to_model::correction::pose_space(
            table,
            used.iter().map(|&r| &regions[r].chosen.kernel),
        )),
        regions: used.iter().map(region).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Quiet};
    use sinew_examples::datasets;

    /// The arm's proxies, and some changes of them.
    fn changed() -> (Training, Proxies, Vec<DVec3>) {
        let examples = datasets::by_name("arm").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let model = crate::fit(&training, &Method::by_name("rr").unwrap(), &Quiet).unwrap().model;
        let Deformer::RotationalRegression(d) = &model.deformer else { panic!("a regression") };
        let proxies = Proxies::new(&training, &model, d);
        let mut rng = sinew_examples::Rng::new(5);
        let mut random = || DVec3::from_array(std::array::from_fn(|_| rng.range(-1.0, 1.0)));
        let changes = (0..4 * d.proxy_count()).map(|_| random()).collect();
        (training, proxies, changes)
    }

    #[test]
    fn what_changes_draw_is_what_a_residual_of_just_that_asks_for() {
        let (training, proxies, changes) = changed();
        let moved = |v: usize| -> DVec3 {
            let by = |&(p, h): &(usize, [f64; 4])| -> DVec3 { (0..4).map(|k| h[k] * changes[4 * p + k]).sum() };
            proxies.points[v].iter().map(by).sum()
        };
        let truth: Vec<DVec3> = (0..training.vertex_count()).map(|v| training.rest[v] + moved(v)).collect();
        let asked = proxies.pulls(&truth, &training.rest);
        let drawn = proxies.spreading().drawn(&changes);
        let size = asked.iter().map(|x| x.length()).fold(0.0, f64::max);
        for (a, b) in asked.iter().zip(&drawn) {
            // 1e-11: the same sums over thousands of vertices in another order.
            assert!(a.distance(*b) < 1e-11 * size, "{a} and {b}");
        }
    }

    #[test]
    fn measured_changes_come_back_about_their_centres() {
        let (training, proxies, changes) = changed();
        let turns: Vec<DMat3> = training.transforms[2].iter().map(|t| nearest_rotation(t.matrix3)).collect();
        for (p, measured) in proxies.measured(&changes, &turns).iter().enumerate() {
            let back = proxies.about_centre(p, measured);
            for k in 0..4 {
                let column = turns[proxies.bones[p]] * DVec3::from_slice(&back[3 * k..3 * k + 3]);
                // 1e-6: masses of thin proxies are nearly singular.
                assert!(column.distance(changes[4 * p + k]) < 1e-6, "proxy {p}, column {k}");
            }
        }
    }
}
