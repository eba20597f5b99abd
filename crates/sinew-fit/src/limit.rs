//! The limit of a rotational regression: how near its proxy bones could come to meshes that are known.
//!
//! Weights stay as fitted, the skeleton's bones as posed; for each frame the proxies' transforms are those that draw the
//! mesh best,
//!
//! `min_T Σ_v ‖Σ_p T_p h_vp + Σ_b T_b h_vb − y_v‖² + ε Σ_p ‖T_p − I‖²`,   `h_vp = w_vp (v̂, 1)` or the model's own points,
//!
//! a linear least-squares problem of 4P unknowns an axis with one matrix for all frames. What a model leaves beyond this
//! limit is prediction, which more poses would mend; the limit itself is drawing, which more proxies would mend.

use glam::{DAffine3, DMat3, DVec3, DVec4, Vec4};
use rayon::prelude::*;
use sinew_examples::Examples;
use sinew_linalg::Cholesky;
use sinew_runtime::deform::RotationalRegression;
use sinew_runtime::{Character, Deformer, Model};

/// ε over the mean diagonal entry of the matrix: enough that an unused proxy does not matter, too little to show.
const RIDGE: f64 = 1e-9;

/// Proxies beyond which the dense system is too large to be worth its figure: 4 × 1000 unknowns are 128 MB.
const MOST_PROXIES: usize = 1000;

/// The meshes that `model`'s proxy bones draw at best in each of `frames`, (N)(V); `None` for a model without proxy
/// bones or with a correction of single vertices, which proxies do not limit.
#[must_use]
pub fn limit(model: &Model, examples: &Examples, frames: &[usize]) -> Option<Vec<Vec<DVec3>>> {
    let Deformer::RotationalRegression(rr) = &model.deformer else { return None };
    if model.vertex_correction().is_some() || rr.proxy_count() > MOST_PROXIES {
        return None;
    }
    let system = System::new(rr, &model.character, examples.mesh().vertices());
    Some(frames.par_iter().map(|&e| system.draw(examples, e)).collect())
}

/// The least-squares problem, factored.
struct System {
    /// P.
    proxies: usize,
    /// What draws each vertex, (V): palette entries and h, in world space for bones, for proxies about the centre in units of
    /// the extent.
    drawn: Vec<Vec<(usize, DVec4)>>,
    /// The middle of the rest mesh and its extent: unknowns are about the one in units of the other, so that the matrix is
    /// well conditioned and ε weighs alike in any unit.
    centre: DVec3,
    extent: f64,
    ridge: f64,
    /// Of `ΦᵀΦ + εI`, (4P, 4P).
    factor: Cholesky,
}

impl System {
    fn new(rr: &RotationalRegression, character: &Character, rest: &[DVec3]) -> Self {
        let centre = rest.iter().sum::<DVec3>() / rest.len().max(1) as f64;
        let extent = rest.iter().map(|&v| v.distance(centre)).fold(f64::MIN_POSITIVE, f64::max);
        let proxies = rr.proxy_count();
        let own = |(entry, h): (usize, [f32; 4])| {
            let h = Vec4::from(h).as_dvec4();
            let about = ((h.truncate() - h.w * centre) / extent).extend(h.w);
            (entry, if entry < proxies { about } else { h })
        };
        let points = rr.world_points(character);
        let drawn: Vec<Vec<(usize, DVec4)>> =
            points.into_iter().map(|pairs| pairs.into_iter().map(own).collect()).collect();
        let n = 4 * proxies;
        let mut matrix = vec![0.0; n * n];
        for pairs in &drawn {
            for &(p, g) in pairs.iter().filter(|&&(p, _)| p < proxies) {
                for &(q, h) in pairs.iter().filter(|&&(q, _)| q < proxies) {
                    for r in 0..4 {
                        for c in 0..4 {
                            matrix[(4 * p + r) * n + 4 * q + c] += g[r] * h[c];
                        }
                    }
                }
            }
        }
        let mean = (0..n).map(|i| matrix[i * n + i]).sum::<f64>() / n.max(1) as f64;
        let ridge = RIDGE * mean.max(f64::MIN_POSITIVE);
        (0..n).for_each(|i| matrix[i * n + i] += ridge);
        Self { proxies, drawn, centre, extent, ridge, factor: Cholesky::new(matrix, n) }
    }

    /// The pairs of vertex `v` with proxies.
    fn by_proxies(&self, v: usize) -> impl Iterator<Item = &(usize, DVec4)> {
        self.drawn[v].iter().filter(|&&(i, _)| i < self.proxies)
    }

    /// Frame `e` as drawn by the best transforms, (V).
    fn draw(&self, examples: &Examples, e: usize) -> Vec<DVec3> {
        let bones = examples.skeleton().bones().iter();
        let bones: Vec<DAffine3> = bones.zip(&examples.pose(e).globals).map(|(b, &g)| g * b.rest.inverse()).collect();
        let carried = |v: usize| -> DVec3 {
            let pairs = self.drawn[v].iter().filter(|&&(i, _)| i >= self.proxies);
            let by_bone = |&(i, h): &(usize, DVec4)| {
                let bone = &bones[i - self.proxies];
                bone.matrix3 * h.truncate() + h.w * bone.translation
            };
            pairs.map(by_bone).sum()
        };
        // The prior, "where nothing determines them", is that a proxy rests.
        let axes = DMat3::IDENTITY * self.extent;
        let prior = [axes.x_axis, axes.y_axis, axes.z_axis, self.centre];
        let mut right: Vec<DVec3> = (0..4 * self.proxies).map(|i| self.ridge * prior[i % 4]).collect();
        for (v, &truth) in examples.vertices(e).iter().enumerate() {
            let remains = truth - carried(v);
            for &(p, h) in self.by_proxies(v) {
                (0..4).for_each(|r| right[4 * p + r] += h[r] * remains);
            }
        }
        let columns = self.factor.solve3(&right);
        let drawn = |v: usize| {
            let by_proxy = |&(p, h): &(usize, DVec4)| (0..4).map(|r| h[r] * columns[4 * p + r]).sum::<DVec3>();
            carried(v) + self.by_proxies(v).map(by_proxy).sum::<DVec3>()
        };
        (0..self.drawn.len()).map(drawn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Quiet, Training, fit};
    use sinew_examples::datasets;

    /// `Σ ‖a − b‖²` over frames of vertices.
    fn squared(examples: &Examples, frames: &[usize], drawn: &[Vec<DVec3>]) -> f64 {
        let frame = |(&e, drawn): (&usize, &Vec<DVec3>)| -> f64 {
            examples.vertices(e).iter().zip(drawn).map(|(a, b)| a.distance_squared(*b)).sum()
        };
        frames.iter().zip(drawn).map(frame).sum()
    }

    #[test]
    fn no_transforms_draw_better_than_the_limit() {
        let examples = datasets::by_name("bar").map(|info| info.make()).unwrap();
        let (train, test) = (examples.split().train.clone(), examples.split().test.clone());
        let training = Training::new(&examples, &train).unwrap();
        let model = fit(&training, &Method::by_name("rr").unwrap(), &Quiet).unwrap().model;
        let best = squared(&examples, &test, &limit(&model, &examples, &test).unwrap());
        let mut evaluator = sinew_runtime::Evaluator::new(&model);
        let mut positions = vec![[0.0; 3]; examples.mesh().vertex_count()];
        let predicted: Vec<Vec<DVec3>> = test
            .iter()
            .map(|&e| {
                let pose: Vec<_> = examples.pose(e).globals.iter().map(|&g| crate::to_model::transform(g)).collect();
                evaluator.positions(&pose, &mut positions);
                positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect()
            })
            .collect();
        let found = squared(&examples, &test, &predicted);
        // The predicted transforms are among those the limit chooses from.
        assert!(best <= found, "the limit {best} is above the model's own error {found}");
        assert!(best > 0.0);
        let ssd = fit(&training, &Method::by_name("ssd").unwrap(), &Quiet).unwrap().model;
        assert!(limit(&ssd, &examples, &test).is_none());
    }
}
