//! s_f by cross-validation over the training poses, skin and influence sets fitted anew in every fold.

use super::{MweParams, envelope, underlying_skin};
use crate::cross_validation::{self, squared_error};
use crate::geometry::topology::Topology;
use crate::methods::influence_sets::InfluenceSets;
use crate::methods::ssd;
use crate::{FitError, Progress, Quiet, Training, sample};

/// Candidates for s_f, the safest first: from the skin alone to the examples alone.
const SCALE_FACTORS: [f64; 10] = [1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8];

/// Vertices that cross-validation looks at, at most.
const SAMPLE: usize = 2500;

/// s_f, given or chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// s_f of eq. 9.
    pub scale_factor: f64,
    /// The squared error of each s_f that was tried on poses it had not seen; empty if nothing was tried.
    pub tried: Vec<(f64, f64)>,
}

/// Chooses what `params` leaves open.
pub fn choose(training: &Training, params: &MweParams, progress: &dyn Progress) -> Result<Chosen, FitError> {
    let candidates = params.scale_factor.map_or(SCALE_FACTORS.to_vec(), |factor| vec![factor]);
    progress.stage("choosing s_f", 0);
    let sampled = if candidates.len() > 1 { sample::patches(training, SAMPLE) } else { None };
    let seen = sampled.as_ref().unwrap_or(training);
    let choice = cross_validation::choose(seen, candidates.len(), |kept, held_out| {
        let skin = ssd::fit(kept, &underlying_skin(params), &Quiet)?;
        let topology = Topology::new(kept.vertex_count(), kept.mesh.triangles());
        let sets = InfluenceSets::new(kept, &skin, &topology, &params.influences);
        let fits = envelope::solve(kept, &skin, &sets, params, &candidates);
        let error = |weights: &super::MultiWeights| {
            let predicted: Vec<_> = held_out.transforms.iter().map(|pose| weights.pose(pose)).collect();
            squared_error(held_out, &predicted)
        };
        Ok(fits.iter().map(error).collect())
    })?;
    let tried = candidates.iter().copied().zip(choice.squared_errors).collect();
    Ok(Chosen { scale_factor: candidates[choice.best], tried })
}
