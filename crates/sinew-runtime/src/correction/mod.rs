//! A layer over a deformer: what is left of its error at the example poses, interpolated over poses and added.
//!
//! Each kind is a file: its data, its checks, its tensors, its evaluation.

mod drivers;
mod proxies;
mod vertices;

pub use drivers::Drivers;
pub use proxies::{ProxyCorrection, ProxyRegion};
pub use vertices::{VertexCorrection, VertexPart};

use crate::deform::Cost;
use crate::file::{TensorReader, TensorWriter};
use crate::{Character, Deformer, ModelError, PosedSkeleton};
use glam::{Affine3A, Mat3A};

/// A pose-dependent correction of a deformer.
#[derive(Debug, Clone, PartialEq)]
pub enum Correction {
    /// Changes of proxy bones' transforms; for rotational regression.
    Proxies(ProxyCorrection),
    /// Displacements of vertices.
    Vertices(VertexCorrection),
    /// Changes of proxy bones' transforms, and displacements of what they leave over.
    Both(ProxyCorrection, VertexCorrection),
}

/// The name in files of a correction of both.
const BOTH: &str = "proxies and vertices";

/// What the names of the displacements' tensors begin with where changes of proxy bones stand beside them.
const BESIDE: &str = "vertices.";

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
            Self::Both(..) => BOTH,
        }
    }

    /// The changes of proxy bones' transforms.
    #[must_use]
    pub fn proxies(&self) -> Option<&ProxyCorrection> {
        match self {
            Self::Proxies(c) | Self::Both(c, _) => Some(c),
            Self::Vertices(_) => None,
        }
    }

    /// The displacements of vertices.
    #[must_use]
    pub fn vertices(&self) -> Option<&VertexCorrection> {
        match self {
            Self::Vertices(c) | Self::Both(_, c) => Some(c),
            Self::Proxies(_) => None,
        }
    }

    /// Refuses sizes and indices that do not fit.
    pub fn check(&self, character: &Character, deformer: &Deformer) -> Result<(), ModelError> {
        match (self.proxies(), deformer) {
            (Some(c), Deformer::RotationalRegression(d)) if d.proxy_count() == c.proxy_count => c.check(character)?,
            (Some(c), _) => {
                return Err(ModelError::Format(format!(
                    "it corrects {} proxy bones, which its method `{}` does not have",
                    c.proxy_count,
                    deformer.kind()
                )));
            }
            (None, _) => {}
        }
        self.vertices().map_or(Ok(()), |c| c.check(character))
    }

    /// What it adds to a frame.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let proxies = self.proxies().map_or(Cost::default(), |c| Cost { flops: c.flops(), bytes: c.bytes() });
        let vertices = self.vertices().map_or(Cost::default(), |c| Cost { flops: c.flops(), bytes: c.bytes() });
        Cost { flops: proxies.flops + vertices.flops, bytes: proxies.bytes + vertices.bytes }
    }

    pub(crate) fn scratch(&self) -> CorrectionScratch {
        CorrectionScratch {
            proxies: self.proxies().map(ProxyCorrection::scratch).unwrap_or_default(),
            vertices: self.vertices().map(VertexCorrection::scratch).unwrap_or_default(),
        }
    }

    /// What is added to proxy bones' transforms in the root's frame before the deformer draws, (P); none if none are
    /// corrected. `reference` holds the branch reference of each joint, (J), `carries` what carries the proxies on beyond the
    /// trained ranges, (P), or nothing within them.
    pub(crate) fn proxy_deltas<'scratch>(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        reference: &[[f32; 3]],
        carries: &[Mat3A],
        scratch: &'scratch mut CorrectionScratch,
    ) -> &'scratch [Affine3A] {
        let Some(c) = self.proxies() else { return &[] };
        c.pose(character, posed, reference, carries, &mut scratch.proxies);
        &scratch.proxies.deltas
    }

    /// What is added after the deformer, in the world.
    pub(crate) fn add_to_positions(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut CorrectionScratch,
        positions: &mut [[f32; 3]],
    ) {
        if let Some(c) = self.vertices() {
            c.add(character, posed, &mut scratch.vertices, positions);
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        match self {
            Self::Proxies(c) => c.write(writer),
            Self::Vertices(c) => c.write(writer),
            Self::Both(proxies, vertices) => {
                proxies.write(writer);
                writer.beneath(BESIDE, |writer| vertices.write(writer));
            }
        }
    }

    pub(crate) fn read(kind: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        match kind {
            ProxyCorrection::KIND => ProxyCorrection::read(reader).map(Self::Proxies),
            VertexCorrection::KIND => VertexCorrection::read(reader).map(Self::Vertices),
            BOTH => Ok(Self::Both(ProxyCorrection::read(reader)?, VertexCorrection::read(&reader.beneath(BESIDE))?)),
            other => {
                Err(ModelError::Format(format!("it uses the correction `{other}`, which this program does not know")))
            }
        }
    }
}
