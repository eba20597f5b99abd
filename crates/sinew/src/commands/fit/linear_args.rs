//! The flags of the linear methods: animation space and multi-weight enveloping.

use clap::ValueEnum;
use sinew_fit::Method;
use sinew_fit::methods::animation_space::Prior;
use sinew_fit::methods::multi_weight::Underlying;

/// Flags of `as` and `mwe`.
#[derive(clap::Args, Debug, Clone)]
pub struct LinearArgs {
    /// What the examples leave open falls back on plain skinning, or shrinks to zero as published [default: ssd].
    #[arg(long, value_enum, help_heading = "Animation space (as)")]
    pub regularise: Option<Fallback>,
    /// How strongly, in a unit box [default: by cross-validation].
    #[arg(long, value_name = "λ", help_heading = "Animation space (as)")]
    pub lambda: Option<f64>,
    /// How strongly neighbours' corrections are held together, in a unit box [default: by cross-validation].
    #[arg(long, value_name = "δ", help_heading = "Animation space (as)")]
    pub delta: Option<f64>,
    /// The ridge over each component's variance [default: by cross-validation].
    #[arg(long, value_name = "S_F", help_heading = "Multi-weight enveloping (mwe)")]
    pub sf: Option<f64>,
    /// The published form, without a constant column.
    #[arg(long, help_heading = "Multi-weight enveloping (mwe)")]
    pub no_constant: bool,
    /// What the weights correct: the best single bone, or plain skinning [default: ssd].
    #[arg(long, value_enum, help_heading = "Multi-weight enveloping (mwe)")]
    pub underlying: Option<Beneath>,
    /// Poses whose matrices differ by less than this count as one [default: 0.001].
    #[arg(long, value_name = "DISTANCE", help_heading = "Multi-weight enveloping (mwe)")]
    pub duplicates: Option<f64>,
    /// Drop principal components below this fraction of the largest variance [default: 1e-5].
    #[arg(long, value_name = "FRACTION", help_heading = "Multi-weight enveloping (mwe)")]
    pub variance_threshold: Option<f64>,
    /// Drop singular values below this fraction of the largest [default: 1e-10].
    #[arg(long, value_name = "FRACTION", help_heading = "Multi-weight enveloping (mwe)")]
    pub singular_threshold: Option<f64>,
    /// Without a painted map: bones of vertices up to this many edges away may move a vertex too [default: 2].
    #[arg(long, value_name = "N", help_heading = "Animation space and multi-weight enveloping")]
    pub rings: Option<usize>,
    /// Do not count the rest mesh in the rest pose as an example.
    #[arg(long, help_heading = "Animation space and multi-weight enveloping")]
    pub no_rest_pose: bool,
}

/// What under-determined coordinates fall back on.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Fallback {
    /// Plain skinning.
    Ssd,
    /// Zero, as published.
    Zero,
}

/// What multi-weights correct.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Beneath {
    /// The best single bone.
    Rigid,
    /// Plain skinning.
    Ssd,
}

impl LinearArgs {
    /// Puts the flags into the method; a flag that it does not know is an error.
    pub fn apply(&self, method: &mut Method) -> anyhow::Result<()> {
        let given = |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        let of_as = [
            ("--regularise", self.regularise.is_some()),
            ("--lambda", self.lambda.is_some()),
            ("--delta", self.delta.is_some()),
        ];
        let of_mwe = [
            ("--sf", self.sf.is_some()),
            ("--no-constant", self.no_constant),
            ("--underlying", self.underlying.is_some()),
            ("--duplicates", self.duplicates.is_some()),
            ("--variance-threshold", self.variance_threshold.is_some()),
            ("--singular-threshold", self.singular_threshold.is_some()),
        ];
        let of_both = [("--rings", self.rings.is_some()), ("--no-rest-pose", self.no_rest_pose)];
        let unknown = match method {
            Method::AnimationSpace(_) => given(&of_mwe),
            Method::MultiWeight(_) => given(&of_as),
            _ => given(&of_as).or(given(&of_mwe)).or(given(&of_both)),
        };
        if let Some(flag) = unknown {
            anyhow::bail!("{flag} means nothing to `{}`", method.name());
        }
        match method {
            Method::AnimationSpace(params) => {
                if let Some(prior) = self.regularise {
                    params.prior = match prior {
                        Fallback::Ssd => Prior::Skinning,
                        Fallback::Zero => Prior::Zero,
                    };
                }
                params.lambda = self.lambda.or(params.lambda);
                params.delta = self.delta.or(params.delta);
                params.influences.rings = self.rings.unwrap_or(params.influences.rings);
                params.rest_pose &= !self.no_rest_pose;
            }
            Method::MultiWeight(params) => {
                if let Some(beneath) = self.underlying {
                    params.underlying = match beneath {
                        Beneath::Rigid => Underlying::Rigid,
                        Beneath::Ssd => Underlying::Skinning,
                    };
                }
                params.constant &= !self.no_constant;
                params.scale_factor = self.sf.or(params.scale_factor);
                params.duplicate_distance = self.duplicates.unwrap_or(params.duplicate_distance);
                params.variance_threshold = self.variance_threshold.unwrap_or(params.variance_threshold);
                params.singular_threshold = self.singular_threshold.unwrap_or(params.singular_threshold);
                params.influences.rings = self.rings.unwrap_or(params.influences.rings);
                params.rest_pose &= !self.no_rest_pose;
            }
            _ => {}
        }
        Ok(())
    }
}
