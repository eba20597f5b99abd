//! A layer over a deformer: what is left of its error at the example poses, interpolated over poses and added.
//!
//! Each kind is a file: its data, its checks, its tensors, its evaluation.

mod proxies;
mod vertices;

pub use proxies::{ProxyCorrection, ProxyRegion};
pub use vertices::{VertexCorrection, VertexPart};

use crate::deform::Cost;
use crate::file::{TensorReader, TensorWriter};
use crate::{Character, Deformer, ModelError, PosedSkeleton};
use glam::Affine3A;

/// A pose-dependent correction of a deformer.
#[derive(Debug, Clone, PartialEq)]
pub enum Correction {
    /// Changes of proxy bones' transforms; for rotational regression.
    Proxies(ProxyCorrection),
    /// Displacements of vertices.
    Vertices(VertexCorrection),
}

/// Memory that a correction reuses from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct CorrectionScratch {
    vertices: vertices::VertexScratch,
    proxies: proxies::ProxyScratch,
}

impl CorrectionScratch {
    pub(crate) fn vertices_mut(&mut self) -> &mut vertices::VertexScratch {
        &mut self.vertices
    }
}

impl Correction {
    /// The kind's name in files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Proxies(_) => ProxyCorrection::KIND,
            Self::Vertices(_) => VertexCorrection::KIND,
        }
    }

    /// Refuses sizes and indices that do not fit.
    pub fn check(&self, character: &Character, deformer: &Deformer) -> Result<(), ModelError> {
        match (self, deformer) {
            (Self::Proxies(c), Deformer::RotationalRegression(d)) if d.proxy_count() == c.proxy_count => {
                c.check(character)
            }
            (Self::Proxies(c), _) => Err(ModelError::Format(format!(
                "it corrects {} proxy bones, which its method `{}` does not have",
                c.proxy_count,
                deformer.kind()
            ))),
            (Self::Vertices(c), _) => c.check(character),
        }
    }

    /// What it adds to a frame.
    #[must_use]
    pub fn cost(&self) -> Cost {
        match self {
            Self::Proxies(c) => Cost { flops: c.flops(), bytes: c.bytes() },
            Self::Vertices(c) => Cost { flops: c.flops(), bytes: c.bytes() },
        }
    }

    pub(crate) fn scratch(&self) -> CorrectionScratch {
        match self {
            Self::Proxies(c) => CorrectionScratch { proxies: c.scratch(), ..CorrectionScratch::default() },
            Self::Vertices(c) => CorrectionScratch { vertices: c.scratch(), ..CorrectionScratch::default() },
        }
    }

    /// What is added to proxy bones' transforms in the root's frame before the deformer draws, (P); none for other kinds.
    pub(crate) fn proxy_deltas<'scratch>(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &'scratch mut CorrectionScratch,
    ) -> &'scratch [Affine3A] {
        match self {
            Self::Proxies(c) => {
                c.pose(character, posed, &mut scratch.proxies);
                &scratch.proxies.deltas
            }
            Self::Vertices(_) => &[],
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
            Self::Proxies(_) => {}
            Self::Vertices(c) => c.add(character, posed, &mut scratch.vertices, positions),
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        match self {
            Self::Proxies(c) => c.write(writer),
            Self::Vertices(c) => c.write(writer),
        }
    }

    pub(crate) fn read(kind: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        match kind {
            ProxyCorrection::KIND => ProxyCorrection::read(reader).map(Self::Proxies),
            VertexCorrection::KIND => VertexCorrection::read(reader).map(Self::Vertices),
            other => {
                Err(ModelError::Format(format!("it uses the correction `{other}`, which this program does not know")))
            }
        }
    }
}
