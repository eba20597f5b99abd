//! A layer over a deformer: what is left of its error at the example poses, interpolated over poses and added.
//!
//! Each kind is a file: its data, its checks, its tensors, its evaluation.

mod vertices;

pub use vertices::{VertexCorrection, VertexPart};

use crate::deform::Cost;
use crate::file::{TensorReader, TensorWriter};
use crate::{Character, ModelError, PosedSkeleton};

/// A pose-dependent correction of a deformer.
#[derive(Debug, Clone, PartialEq)]
pub enum Correction {
    /// Displacements of vertices.
    Vertices(VertexCorrection),
}

/// Memory that a correction reuses from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct CorrectionScratch {
    vertices: vertices::VertexScratch,
}

impl Correction {
    /// The kind's name in files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Vertices(_) => VertexCorrection::KIND,
        }
    }

    /// Refuses sizes and indices that do not fit.
    pub fn check(&self, character: &Character) -> Result<(), ModelError> {
        match self {
            Self::Vertices(c) => c.check(character),
        }
    }

    /// What it adds to a frame.
    #[must_use]
    pub fn cost(&self) -> Cost {
        match self {
            Self::Vertices(c) => Cost { flops: c.flops(), bytes: c.bytes() },
        }
    }

    pub(crate) fn scratch(&self) -> CorrectionScratch {
        match self {
            Self::Vertices(c) => CorrectionScratch { vertices: c.scratch() },
        }
    }

    /// What is added after the deformer, in the world.
    pub(crate) fn add_to_positions(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut CorrectionScratch,
        positions: &mut [[f32; 3]],
    ) {
        match self {
            Self::Vertices(c) => c.add(character, posed, &mut scratch.vertices, positions),
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        match self {
            Self::Vertices(c) => c.write(writer),
        }
    }

    pub(crate) fn read(kind: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        match kind {
            VertexCorrection::KIND => VertexCorrection::read(reader).map(Self::Vertices),
            other => {
                Err(ModelError::Format(format!("it uses the correction `{other}`, which this program does not know")))
            }
        }
    }
}
