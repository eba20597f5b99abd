//! λ and δ by cross-validation over the training poses, skin and influence sets fitted anew in every fold.

use super::system::{self, System};
use super::{AsParams, with_rest_pose};
use crate::cross_validation::{self, squared_error};
use crate::geometry::topology::Topology;
use crate::methods::influence_sets::InfluenceSets;
use crate::methods::ssd;
use crate::sample;
use crate::{FitError, Progress, Quiet, Training};

/// Candidates for λ, the safest first; from little but skinning to the examples alone.
const LAMBDAS: [f64; 4] = [1.0, 1e-1, 1e-2, 1e-3];

/// Candidates for δ, the safest first. Larger ones flatten real muscles (Merry et al. 2006, §7.1).
const DELTAS: [f64; 3] = [1e-2, 1e-3, 1e-5];

/// Vertices that cross-validation looks at, at most.
const SAMPLE: usize = 2500;

/// λ and δ, given or chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// λ of eq. 17.
    pub lambda: f64,
    /// δ of eq. 18.
    pub delta: f64,
    /// The squared error of each (λ, δ) that was tried on poses it had not seen; empty if nothing was tried.
    pub tried: Vec<(f64, f64, f64)>,
}

/// Chooses what `params` leaves open.
pub fn choose(training: &Training, params: &AsParams, progress: &dyn Progress) -> Result<Chosen, FitError> {
    let lambdas = params.lambda.map_or(LAMBDAS.to_vec(), |lambda| vec![lambda]);
    let deltas = params.delta.map_or(DELTAS.to_vec(), |delta| vec![delta]);
    let candidates: Vec<(f64, f64)> =
        lambdas.iter().flat_map(|&lambda| deltas.iter().map(move |&delta| (lambda, delta))).collect();
    progress.stage("choosing lambda and delta", 0);
    let sampled = if candidates.len() > 1 { sample::patches(training, SAMPLE) } else { None };
    let seen = sampled.as_ref().unwrap_or(training);
    let choice =
        cross_validation::choose(seen, candidates.len(), |kept, held_out| errors(kept, held_out, params, &candidates))?;
    let (lambda, delta) = candidates[choice.best];
    let tried = candidates.iter().zip(&choice.squared_errors).map(|(&(l, d), &error)| (l, d, error)).collect();
    Ok(Chosen { lambda, delta, tried })
}

/// The squared error of every candidate on `held_out`; each solve starts from the one before.
fn errors(
    kept: &Training,
    held_out: &Training,
    params: &AsParams,
    candidates: &[(f64, f64)],
) -> Result<Vec<f64>, FitError> {
    let skin = ssd::fit(kept, &params.skin, &Quiet)?;
    let examples = with_rest_pose(kept, params);
    let topology = Topology::new(kept.vertex_count(), kept.mesh.triangles());
    let sets = InfluenceSets::new(kept, &skin, &topology, &params.influences);
    let system = System::new(&examples, &skin, &sets, &topology, params.prior);
    let mut unknowns = system.start();
    let mut error = |&(lambda, delta): &(f64, f64)| {
        system.solve(lambda, delta, system::RANKING_TOLERANCE, &mut unknowns);
        let coordinates = system.coordinates(&unknowns);
        let predicted: Vec<_> = held_out.transforms.iter().map(|pose| coordinates.pose(pose)).collect();
        squared_error(held_out, &predicted)
    };
    Ok(candidates.iter().map(&mut error).collect())
}
