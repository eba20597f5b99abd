//! EigenSkin (Kry, James and Pai, "EigenSkin: real time large deformation character skinning in hardware", 2002): linear
//! blend skinning plus, for every joint, principal components of the displacements that this joint causes, with weights
//! interpolated over the joint's rotation: `v = Σ_b w_b T_b v̂ + Q_b Σ_j Σ_k a_jk(θ_j) B_jk`.
//!
//! The paper takes poses in which one joint moves at a time. Ours may move several, so the displacements are first parted
//! among the joints: a regression whose kernel is a sum over joints, `K = 1 + Σ_j K_j`, gives each joint the set
//! `D_j = K_j A Y` of its own ([`crate::correct`] has A and Y). With `D_j = U Σ Vᵀ` the components are the rows of Vᵀ, and
//! as many are kept as hold the asked-for energy. A joint's set is local: it reaches the vertices of the bones next to
//! it. Displacements stand in the frame of the bone that carries the vertex (the paper: in the neutral pose, through the
//! inverse of the blended matrix, which a twist by 180° does not have). With one joint and all components it is
//! pose-space deformation.

use rayon::prelude::*;
use sinew_runtime::Model;
use sinew_runtime::correction::{VertexCorrection, VertexPart};

use super::ssd::SsdParams;
use crate::correct::components::Components;
use crate::correct::kernel::Kernel;
use crate::correct::poses::PoseTable;
use crate::correct::residual::{Residual, gram};
use crate::correct::select::{Search, choose};
use crate::correct::{self, regions};
use crate::geometry::topology::Topology;
use crate::{FitError, FitReport, Progress, Training, to_model};

/// How EigenSkin is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct EigenSkinParams {
    /// The skinning beneath.
    pub skin: SsdParams,
    /// Components a joint and bone; `None` lets `energy` decide.
    pub components: Option<usize>,
    /// The part of a set's squared displacements that its components must hold, above 0 to 1. The paper keeps what
    /// looks right; 0.9999 leaves 1 % of the displacement (rms).
    pub energy: f64,
}

impl Default for EigenSkinParams {
    fn default() -> Self {
        Self { skin: SsdParams::default(), components: None, energy: 0.9999 }
    }
}

/// One joint's displacements of what one bone carries.
struct Set {
    kernel: Kernel,
    bone: usize,
    vertices: Vec<u32>,
    /// Rows of Vᵀ, (K)(3n).
    components: Vec<Vec<f64>>,
    /// `A Y v_k`, (K)(N).
    mixing: Vec<Vec<f64>>,
}

/// Fits the joints' displacement sets over `model`, plain skinning.
pub fn fit(
    training: &Training,
    model: &Model,
    params: &EigenSkinParams,
    progress: &dyn Progress,
    report: &mut FitReport,
) -> Result<VertexCorrection, FitError> {
    check(params)?;
    progress.stage("displacement sets", 0);
    let residual = Residual::new(training, model);
    let table = PoseTable::new(training, true);
    let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
    let parts = regions::blended(&residual.bones, training.bone_count(), &topology);
    let sets: Vec<Set> = parts
        .into_par_iter()
        .flat_map_iter(|(bone, vertices)| bone_sets(training, &residual, &table, params, bone, vertices))
        .collect();
    let components: usize = sets.iter().map(|set| set.mixing.len()).sum();
    report.found("displacement sets", format!("{}, {components} components", sets.len()));
    Ok(VertexCorrection {
        space: to_model::correction::pose_space(&table, sets.iter().map(|set| &set.kernel)),
        mixing: sets.iter().map(|set| set.mixing.iter().flatten().map(|&m| m as f32).collect()).collect(),
        parts: sets.into_iter().enumerate().map(|(r, set)| part(r, set)).collect(),
    })
}

fn check(params: &EigenSkinParams) -> Result<(), FitError> {
    if !(params.energy > 0.0 && params.energy <= 1.0) {
        let value = params.energy.to_string();
        return Err(FitError::Parameter { name: "energy", value, range: "above 0 and at most 1" });
    }
    if params.components == Some(0) {
        return Err(FitError::Parameter { name: "components", value: "0".into(), range: "at least 1" });
    }
    Ok(())
}

/// The sets of what `bone` carries: one a joint, and one for what no joint explains.
fn bone_sets(
    training: &Training,
    residual: &Residual,
    table: &PoseTable,
    params: &EigenSkinParams,
    bone: usize,
    vertices: Vec<(u32, f64)>,
) -> Vec<Set> {
    let targets = table.averaged(residual.shared_targets(bone, &vertices, table.poses));
    let vertices: Vec<u32> = vertices.into_iter().map(|(v, _)| v).collect();
    let candidates = regions::candidates(&training.skeleton, table, bone);
    let search = Search { table, candidates: &candidates, exact: true, product: 0.0 };
    let chosen = choose(&search, &gram(&targets, table.poses));
    // C = A Y, (N, 3n): what every kernel value is worth.
    let coefficients = correct::residual::product(&chosen.ridge.inverse, &targets, table.poses);
    let share = chosen.kernel.additive / chosen.kernel.joints.len().max(1) as f64;
    let nothing = Kernel { joints: Vec::new(), constant: 0.0, product: 0.0, additive: 0.0, peak: 0.0 };
    let joint = |&pair: &(usize, f64)| Kernel { joints: vec![pair], additive: share, ..nothing.clone() };
    let common = Kernel { constant: chosen.kernel.constant, peak: chosen.kernel.peak, ..nothing.clone() };
    let kernels = chosen.kernel.joints.iter().map(joint).chain([common]);
    kernels
        .map(|kernel| {
            // D = K_j C, the displacements that the joint causes at the examples.
            let caused = correct::residual::product(&kernel.matrix(table), &coefficients, table.poses);
            let directions = Components::new(&gram(&caused, table.poses), table.poses);
            let count = kept(&directions, params);
            let components: Vec<Vec<f64>> = (0..count).map(|k| unit(directions.component(k, &caused))).collect();
            let mixing = components.iter().map(|v| correct::residual::product(&coefficients, v, v.len())).collect();
            Set { kernel, bone, vertices: vertices.clone(), components, mixing }
        })
        .filter(|set| !set.mixing.is_empty())
        .collect()
}

/// How many components hold the energy.
fn kept(directions: &Components, params: &EigenSkinParams) -> usize {
    if let Some(count) = params.components {
        return count.min(directions.energies.len());
    }
    let total: f64 = directions.energies.iter().sum();
    let mut left = total;
    for (k, energy) in directions.energies.iter().enumerate() {
        if left <= (1.0 - params.energy) * total {
            return k;
        }
        left -= energy;
    }
    directions.energies.len()
}

fn unit(mut v: Vec<f64>) -> Vec<f64> {
    let length = v.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    v.iter_mut().for_each(|x| *x /= length);
    v
}

fn part(region: usize, set: Set) -> VertexPart {
    let values: Vec<f32> = set.components.iter().flatten().map(|&c| c as f32).collect();
    let components = values.chunks_exact(3).map(|c| [c[0], c[1], c[2]]).collect();
    VertexPart { region, bone: set.bone, vertices: set.vertices, components }
}
