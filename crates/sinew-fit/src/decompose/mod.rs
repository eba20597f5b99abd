//! Bones and weights that replay a mesh sequence: smooth skinning decomposition.
//!
//! Le and Deng, "Smooth skinning decomposition with rigid bones", 2012 (rigid bones), and "Robust and accurate skeletal
//! rigging from mesh sequences", 2014; Kavan, Sloan and O'Sullivan, "Fast and efficient skinning of animated meshes", 2010
//! (affine bones):
//!
//! ```text
//! min  Σ_e Σ_v ‖Σ_b w_vb T_b^e v̂ − v^e‖²   over T_b^e rigid (or affine) and w ≥ 0, Σ_b w_vb = 1, at most K of them not zero.
//! ```
//!
//! Where we differ. The papers cluster the vertices into the final number of bones and then alternate; here bones are
//! added one by one, each where it promises to take away most of the *present skinning's* error ([`seeds`]), with a round
//! of alternation after each. The weight step searches all bones for every vertex rather than the nearest few: on a
//! galloping horse with 30 bones that alone divides the error by three. Both steps run on sums gathered once
//! ([`weights`], [`transforms`]), which makes the thorough search affordable.

mod alternate;
pub(crate) mod problem;
pub(crate) mod seeds;
pub(crate) mod transforms;
pub(crate) mod weights;

#[cfg(test)]
mod tests;

use glam::{DAffine3, DVec3};
use sinew_examples::{ExamplesError, MeshSequence};

use crate::methods::ssd::SparseWeights;
use crate::report::Iterations;
use crate::{FitError, Progress};
use alternate::{Alternation, Grown};
use problem::{Motion, Problem, Weights};

/// What a bone may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoneKind {
    /// Rotate and translate: what every engine plays.
    #[default]
    Rigid,
    /// Any affine map: lower error, but shear has no place in a glTF node.
    Affine,
}

/// How a sequence is decomposed.
#[derive(Debug, Clone, PartialEq)]
pub struct DecomposeParams {
    /// Bones in all, given ones included; 1 to 1024. Fewer come back if there is no motion for more.
    pub bones: usize,
    /// Bones a vertex at most, 1 to 16. Engines play 4 (three.js, Bevy) or 8 (Babylon, Godot).
    pub influences: usize,
    /// Rigid or affine.
    pub kind: BoneKind,
    /// A round of four iterations that lowers the error by less than this fraction is idle; at least 0. The default loses
    /// about one percent of error against running on ten times as long (galloping horse, 10 to 30 bones).
    pub tolerance: f64,
    /// Stop after this many idle rounds in a row, at least 1.
    pub patience: usize,
    /// Stop after this many iterations once all bones are there.
    pub max_iterations: usize,
}

impl Default for DecomposeParams {
    fn default() -> Self {
        Self { bones: 20, influences: 4, kind: BoneKind::Rigid, tolerance: 5e-3, patience: 2, max_iterations: 100 }
    }
}

/// What is known beforehand and what of it must stay. The default knows nothing.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Skinning transforms of known bones in the decomposed frames, (N)(B₀); they come first in the result.
    pub transforms: Vec<Vec<DAffine3>>,
    /// Whether each known bone keeps its motion, (B₀); shorter means that the rest are free.
    pub locked_bones: Vec<bool>,
    /// Known weights over the known bones.
    pub weights: Option<SparseWeights>,
    /// Whether each vertex keeps its weights, (V); empty means that all are free.
    pub locked_vertices: Vec<bool>,
}

/// How a decomposition went.
#[derive(Debug, Clone, PartialEq)]
pub struct DecomposeReport {
    /// `1000 ‖A − Ã‖_F / √(3NV)` over half the rest bounding-box diagonal.
    pub e_rms: f64,
    /// The error as each bone was added, and after each iteration with all of them.
    pub iterations: Vec<Iterations>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Bones and weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Decomposition {
    /// Skinning transforms, world rest to world posed, (N)(B).
    pub transforms: Vec<Vec<DAffine3>>,
    /// Weights, (V).
    pub weights: SparseWeights,
    /// How it went.
    pub report: DecomposeReport,
}

impl Decomposition {
    /// The number of bones, B.
    #[must_use]
    pub fn bone_count(&self) -> usize {
        self.transforms.first().map_or(0, Vec::len)
    }

    /// The mesh as the bones draw it in frame `e` of the decomposed ones, (V).
    #[must_use]
    pub fn draw(&self, rest: &[DVec3], e: usize) -> Vec<DVec3> {
        let place = |v: usize| {
            let carried = |&(b, w): &(usize, f64)| self.transforms[e][b].transform_point3(rest[v]) * w;
            self.weights.vertices[v].iter().map(carried).sum()
        };
        (0..rest.len()).map(place).collect()
    }
}

/// Decomposes the frames `frames` of `sequence`.
pub fn decompose(
    sequence: &MeshSequence,
    frames: &[usize],
    given: &Given,
    params: &DecomposeParams,
    progress: &dyn Progress,
) -> Result<Decomposition, FitError> {
    check(sequence, frames, given, params)?;
    let chosen: Vec<&[DVec3]> = frames.iter().map(|&e| &sequence.frames()[e][..]).collect();
    let problem = Problem::new(sequence.mesh(), &chosen);
    let mut alternation = start(&problem, given, params);
    let mut warnings = Vec::new();
    progress.stage("adding bones", params.bones.saturating_sub(alternation.bone_count()));
    if let Grown::Enough { bones } = alternation.grow(params.bones, progress) {
        warnings.push(format!(
            "{} bones were asked for and {bones} came back: more would only follow rounding or noise",
            params.bones
        ));
    }
    progress.stage("refining bones and weights", 0);
    let refinement = alternation.refine(progress);
    if let Some(idle) = alternation.drop_idle_bones() {
        warnings.push(idle);
    }
    let growth = Iterations { name: "bones added".into(), residuals: alternation.growth.clone(), stopped: "all bones" };
    Ok(Decomposition {
        transforms: problem.to_transforms(&alternation.motion),
        weights: from_rows(&alternation.weights, problem.vertex_count()),
        report: DecomposeReport { e_rms: alternation.e_rms(), iterations: vec![growth, refinement], warnings },
    })
}

fn check(sequence: &MeshSequence, frames: &[usize], given: &Given, params: &DecomposeParams) -> Result<(), FitError> {
    let refuse = |name, value: String, range| Err(FitError::Parameter { name, value, range });
    if !(1..=1024).contains(&params.bones) {
        return refuse("bones", params.bones.to_string(), "1 to 1024");
    }
    if !(1..=weights::MOST).contains(&params.influences) {
        return refuse("influences", params.influences.to_string(), "1 to 16");
    }
    if !(params.tolerance >= 0.0) || params.patience == 0 {
        return refuse("tolerance", params.tolerance.to_string(), "at least 0, with a patience of at least 1");
    }
    if frames.is_empty() {
        return Err(ExamplesError::NoFrames.into());
    }
    if let Some(&frame) = frames.iter().find(|&&e| e >= sequence.frame_count()) {
        let what = "the frames to decompose".to_string();
        return Err(ExamplesError::FrameIndex { what, frame: frame as i64, frames: sequence.frame_count() }.into());
    }
    let vertices = sequence.mesh().vertex_count();
    let length = |what, found, expected| Err(ExamplesError::Length { what, found, expected }.into());
    if !given.transforms.is_empty() && given.transforms.len() != frames.len() {
        return length("the given bones' frames", given.transforms.len(), frames.len());
    }
    let known = given.transforms.first().map_or(0, Vec::len);
    if let Some(frame) = given.transforms.iter().find(|frame| frame.len() != known) {
        return length("the given bones of a frame", frame.len(), known);
    }
    if known > params.bones {
        return refuse("bones", params.bones.to_string(), "at least the number of given bones");
    }
    if let Some(weights) = &given.weights {
        if weights.vertices.len() != vertices {
            return length("the given weights", weights.vertices.len(), vertices);
        }
        let bones = if known > 0 { known } else { params.bones };
        for (v, row) in weights.vertices.iter().enumerate() {
            if row.is_empty() || row.iter().any(|&(b, w)| b >= bones || !(w >= 0.0)) {
                let what = format!("vertex {v}'s given weights must be at least one, not negative, over {bones} bones");
                return Err(FitError::Data(what));
            }
        }
    }
    if !given.locked_vertices.is_empty() && given.locked_vertices.len() != vertices {
        return length("the locked vertices", given.locked_vertices.len(), vertices);
    }
    if given.locked_vertices.contains(&true) && given.weights.is_none() {
        return Err(FitError::Data("weights can only be kept if weights are given".into()));
    }
    Ok(())
}

/// The state before any bone is added: the given bones, or one that carries the whole mesh.
fn start<'a>(problem: &'a Problem, given: &'a Given, params: &'a DecomposeParams) -> Alternation<'a> {
    let all: Vec<usize> = (0..problem.vertex_count()).collect();
    let whole = |motion: &mut Motion| {
        let fitted = seeds::fit_patch(problem, &all);
        for b in 0..motion.bone_count() {
            fitted.iter().enumerate().for_each(|(e, &t)| motion.set(b, e, t));
        }
    };
    let largest = |weights: &SparseWeights| weights.vertices.iter().flatten().map(|&(b, _)| b + 1).max().unwrap_or(1);
    let motion = if given.transforms.is_empty() || given.transforms[0].is_empty() {
        let bones = given.weights.as_ref().map_or(1, largest);
        let mut motion = Motion::identity(problem.frame_count(), bones);
        whole(&mut motion);
        motion
    } else {
        problem.motion_from(&given.transforms)
    };
    let mut locked_bones = given.locked_bones.clone();
    locked_bones.resize(motion.bone_count(), false);
    let weights = given.weights.as_ref().map(|weights| to_rows(weights, params.influences));
    Alternation::new(problem, motion, weights, locked_bones, &given.locked_vertices, params)
}

/// The heaviest `most` entries of each vertex, made to sum to one.
fn to_rows(weights: &SparseWeights, most: usize) -> Weights {
    let mut entries = vec![(0, 0.0); weights.vertices.len() * most];
    for (row, given) in entries.chunks_mut(most).zip(&weights.vertices) {
        let mut given = given.clone();
        given.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        given.truncate(most);
        let total: f64 = given.iter().map(|&(_, w)| w).sum();
        for (slot, &(b, w)) in row.iter_mut().zip(&given) {
            *slot = (b as u32, if total > 0.0 { w / total } else { 1.0 / given.len() as f64 });
        }
    }
    Weights { most, entries }
}

pub(crate) fn from_rows(weights: &Weights, vertices: usize) -> SparseWeights {
    let row = |v: usize| weights.of(v).iter().map(|&(b, w)| (b as usize, w)).collect();
    SparseWeights { vertices: (0..vertices).map(row).collect() }
}
