//! The correction layer: regression over poses on what a fitted model leaves over.
//!
//! Wang, Pulli and Popović (2007) name it in their conclusion: a displacement model on top of rotational regression would
//! reproduce the training poses, "an important feature to animators". Lewis, Cordner and Fong, "Pose space deformation"
//! (2000), is the same layer over linear blend skinning. Ours sees a few joints a region, chosen with the kernel and the
//! ridge by predicting each pose from the others ([`select`]), and takes the rest mesh as one more example.

pub mod components;
pub mod kernel;
pub mod poses;
pub mod regions;
pub mod residual;
pub mod select;
pub mod vertices;

use sinew_runtime::Correction;

use crate::{FitError, Fitted, Progress, Training};

/// What is corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Displacements of vertices; for any method.
    Vertices,
}

/// How closely a correction follows the example poses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Closeness {
    /// With the ridge that predicts unseen poses best.
    #[default]
    Smooth,
    /// The training poses come out exactly.
    Exact,
}

/// How a correction is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrectionParams {
    /// What is corrected.
    pub place: Place,
    /// How closely.
    pub closeness: Closeness,
    /// Bytes at most, if there is a budget.
    pub bytes: Option<usize>,
}

impl CorrectionParams {
    /// A smooth correction without a budget.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Self { place, closeness: Closeness::Smooth, bytes: None }
    }
}

/// Corrects a fitted model on the poses it was fitted to.
pub fn correct(
    training: &Training,
    fitted: Fitted,
    params: &CorrectionParams,
    progress: &dyn Progress,
) -> Result<Fitted, FitError> {
    let Fitted { model, mut report } = fitted;
    let correction = match params.place {
        Place::Vertices => Correction::Vertices(vertices::fit(
            training,
            &model,
            &vertices::Params::from(params),
            progress,
            &mut report,
        )?),
    };
    let cost = correction.cost();
    report
        .found("correction", format!("{}, {} operations a frame, {} bytes", correction.kind(), cost.flops, cost.bytes));
    Ok(Fitted { model: model.with_correction(correction)?, report })
}
