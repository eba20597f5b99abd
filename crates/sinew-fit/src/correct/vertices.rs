//! Displacements of vertices: the residual of a model in the frame of the bone that carries the vertex.
//!
//! A region is what one bone carries, blended into its neighbours where they meet, so that no seam shows ([`regions`]). Its
//! targets Y (N, 3n) are its share of the displacements at the N example poses; the regression `κ(q)ᵀ A Y` is chosen by [`select`] and stored as principal components, as many as the budget
//! or the stated error asks for. Vertices whose residual is nil stand in no region.

use rayon::prelude::*;
use sinew_runtime::Model;
use sinew_runtime::correction::{VertexCorrection, VertexPart};

use super::components::{self, Budget, Components};
use super::poses::PoseTable;
use super::residual::{Residual, gram};
use super::select::{self, Chosen, Search};
use super::{Closeness, CorrectionParams, REST_TOLERANCE, regions};
use crate::geometry::topology::Topology;
use crate::{FitError, FitReport, Progress, Training, to_model};

/// A vertex is left alone if no pose displaces it by more than this fraction of the rest diagonal: f32 is no finer.
const SMALLEST_DISPLACEMENT: f64 = 1e-6;

/// The part of the residual (rms) that a smooth correction may lose to compression without a budget; an exact one may
/// lose a thousandth of it.
const COMPRESSION_LOSS: f64 = 0.02;

/// How vertex displacements are fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// How closely the training poses are followed.
    pub closeness: Closeness,
    /// Bytes at most.
    pub bytes: Option<usize>,
    /// The part of the residual (rms over poses and vertices) that leaving components out may cost; 0 to 1.
    pub loss: f64,
}

impl From<&CorrectionParams> for Params {
    fn from(params: &CorrectionParams) -> Self {
        let loss = match params.closeness {
            Closeness::Smooth => COMPRESSION_LOSS,
            Closeness::Exact => 1e-3 * COMPRESSION_LOSS,
        };
        // A budget given by the user is spent in full.
        Self { closeness: params.closeness, bytes: params.bytes, loss: if params.bytes.is_some() { 0.0 } else { loss } }
    }
}

/// A region with its regression.
struct Region {
    bone: usize,
    vertices: Vec<u32>,
    /// Y, (N, 3n).
    targets: Vec<f64>,
    /// `Y Yᵀ`, (N, N).
    gram: Vec<f64>,
    chosen: Chosen,
}

/// Fits the displacements of what `model` leaves over.
pub fn fit(
    training: &Training,
    model: &Model,
    params: &Params,
    progress: &dyn Progress,
    report: &mut FitReport,
) -> Result<VertexCorrection, FitError> {
    progress.stage("correction", 0);
    let residual = Residual::new(training, model);
    let with_rest = fit_regions(training, &residual, params, PoseTable::new(training, true));
    let without = fit_regions(training, &residual, params, PoseTable::new(training, false));
    let left_out = |regions: &[Region]| regions.iter().map(|region| region.chosen.left_out).sum::<f64>();
    let rest_helps = left_out(&with_rest.1) <= REST_TOLERANCE * left_out(&without.1);
    let (table, regions) = if rest_helps { with_rest } else { without };
    super::tell(training, &table, regions.iter().map(|r| &r.chosen), report);
    Ok(compress(&table, &regions, params, report))
}

fn fit_regions(
    training: &Training,
    residual: &Residual,
    params: &Params,
    table: PoseTable,
) -> (PoseTable, Vec<Region>) {
    let smallest = SMALLEST_DISPLACEMENT * training.diagonal;
    let displaced = |&v: &u32| residual.displacements.iter().any(|pose| pose[v as usize].length() > smallest);
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let mut parts = regions::blended(&residual.bones, training.bone_count(), &topology);
    parts.iter_mut().for_each(|(_, vertices)| vertices.retain(|(v, _)| displaced(v)));
    parts.retain(|(_, vertices)| !vertices.is_empty());
    let exact = params.closeness == Closeness::Exact;
    let fit = |(bone, vertices): (usize, Vec<(u32, f64)>)| {
        let targets = table.averaged(residual.shared_targets(bone, &vertices, table.poses));
        let gram = gram(&targets, table.poses);
        let candidates = regions::candidates(&training.skeleton, &table, bone);
        let search = Search { table: &table, candidates: &candidates, exact, product: 0.5 };
        let chosen = select::choose(&search, &gram);
        let vertices = vertices.into_iter().map(|(v, _)| v).collect();
        Region { bone, vertices, targets, gram, chosen }
    };
    let regions = parts.into_par_iter().map(fit).collect();
    (table, regions)
}

fn compress(table: &PoseTable, regions: &[Region], params: &Params, report: &mut FitReport) -> VertexCorrection {
    let components: Vec<Components> = regions.par_iter().map(|r| Components::new(&r.gram, table.poses)).collect();
    let bytes: Vec<usize> = regions.iter().map(|r| 12 * r.vertices.len() + 4 * table.poses).collect();
    let total: f64 = components.iter().flat_map(|c| &c.energies).sum();
    let own =
        |counts: &[usize]| super::total_bytes(table, regions, |r| (&r.chosen, 4 * r.vertices.len()), &bytes, counts);
    let budget = Budget { bytes: params.bytes, energy: params.loss.powi(2) * total };
    let kept = components::spend(&components, &bytes, budget, own);
    super::tell_components(&components, &kept, report);
    let used: Vec<usize> = (0..regions.len()).filter(|&r| kept.counts[r] > 0).collect();
    let kernels: Vec<&Chosen> = used.iter().map(|&r| &regions[r].chosen).collect();
    let mixing = |&r: &usize| {
        let row = |k: usize| components[r].mixing(k, &regions[r].chosen.ridge.inverse);
        (0..kept.counts[r]).flat_map(row).map(|m| m as f32).collect()
    };
    let part = |(index, &r): (usize, &usize)| {
        let component = |k: usize| components[r].component(k, &regions[r].targets);
        let values: Vec<f32> = (0..kept.counts[r]).flat_map(component).map(|c| c as f32).collect();
        VertexPart {
            region: index,
            bone: regions[r].bone,
            vertices: regions[r].vertices.clone(),
            components: values.chunks_exact(3).map(|c| [c[0], c[1], c[2]]).collect(),
        }
    };
    VertexCorrection {
        space: to_model::correction::pose_space(table, kernels.iter().map(|chosen| &chosen.kernel)),
        mixing: used.iter().map(mixing).collect(),
        parts: used.iter().enumerate().map(part).collect(),
    }
}
