//! A learned skin as plain data.

use std::collections::BTreeMap;

use crate::correction::{ProxyCorrection, VertexCorrection};
use crate::deform::Cost;
use crate::{Character, Correction, Deformer, ModelError};

/// What a model says of itself: where it comes from and how well it fits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// The method's name on the command line, e.g. `rr`.
    pub method: String,
    /// The examples it was fitted to, as the user named them.
    pub source: String,
    /// Error figures by name, e.g. `train.ee_percent`.
    pub figures: BTreeMap<String, f64>,
    /// Anything else a method wants to tell, as words by name.
    pub notes: BTreeMap<String, String>,
}

/// A learned skin: the character it belongs to and the method that deforms it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Rest mesh, skeleton, plain weights.
    pub character: Character,
    /// How a pose becomes vertices.
    pub deformer: Deformer,
    /// What is added to it, interpolated over poses.
    pub correction: Option<Correction>,
    /// Where it comes from.
    pub metadata: Metadata,
}

impl Model {
    /// Puts a model together; refuses parts that do not fit.
    pub fn new(character: Character, deformer: Deformer, metadata: Metadata) -> Result<Self, ModelError> {
        character.check()?;
        deformer.check(&character)?;
        Ok(Self { character, deformer, correction: None, metadata })
    }

    /// The same model with `correction`; refuses one that does not fit.
    pub fn with_correction(self, correction: Correction) -> Result<Self, ModelError> {
        correction.check(&self.character, &self.deformer)?;
        Ok(Self { correction: Some(correction), ..self })
    }

    /// The correction of proxy bones, if it has one.
    #[must_use]
    pub fn proxy_correction(&self) -> Option<&ProxyCorrection> {
        self.correction.as_ref().and_then(Correction::proxies)
    }

    /// The correction of vertices, if it has one.
    #[must_use]
    pub fn vertex_correction(&self) -> Option<&VertexCorrection> {
        self.correction.as_ref().and_then(Correction::vertices)
    }

    /// What a frame costs, the correction included.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let base = self.deformer.cost(&self.character);
        let extra = self.correction.as_ref().map_or(Cost::default(), Correction::cost);
        Cost { flops: base.flops + extra.flops, bytes: base.bytes + extra.bytes }
    }
}
