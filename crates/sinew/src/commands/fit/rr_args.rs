//! The flags of rotational regression.

use clap::ValueEnum;
use sinew_fit::Method;
use sinew_fit::methods::rr::Clustering;
use sinew_fit::methods::rr::predictor::PredictorForm;

/// Mean shift's bandwidth if none is given, radians a pose: about six degrees.
const BANDWIDTH: f64 = 0.1;

/// Flags of `rr` and `rr-full`. A flag that is not given takes the library's default.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Rotational regression (rr, rr-full)")]
pub struct RrArgs {
    /// The number of proxy bones [default: so many that more no longer help].
    #[arg(long, value_name = "N", conflicts_with = "error")]
    pub proxy_bones: Option<usize>,
    /// As few proxy bones as bring the training error under this: rms over the diagonal, e.g. 0.5%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub error: Option<f64>,
    /// Draw vertices from points over few proxy bones: faster, most of all on small meshes, but slower beyond the trained ranges;
    /// auto: where as near to the examples [default: auto]. A correction of proxy bones is distilled instead, which includes it.
    #[arg(long, value_enum, conflicts_with_all = ["no_refine", "correct"])]
    pub points: Option<Points>,
    /// Leave out the end-to-end refinement: the form of the 2007 thesis.
    #[arg(long)]
    pub no_refine: bool,
    /// The refinement's ridge toward the thesis's solution [default: by leaving poses out].
    #[arg(long, value_name = "LAMBDA", conflicts_with = "no_refine", value_parser = ridge)]
    pub refine_ridge: Option<f64>,
    /// The form of the rotation predictors [default: auto].
    #[arg(long, value_enum)]
    pub predictor: Option<Form>,
    /// How vertices are grouped into proxy bones [default: greedy].
    #[arg(long, value_enum)]
    pub clustering: Option<Groups>,
}

/// The form of the rotation predictors.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Form {
    /// The paper's: a scale factor and a rotation.
    Uw,
    /// A general matrix.
    Matrix,
    /// Whichever predicts left-out poses better.
    Auto,
}

/// Whether vertices are drawn from points.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// Where that holds.
    Auto,
    /// Never: by weights.
    Off,
}

/// How vertices are grouped.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Groups {
    /// Greedy joins from single vertices.
    Greedy,
    /// Greedy joins from mean-shift groups: slower, less sensitive to noise.
    MeanShift,
}

impl RrArgs {
    /// Puts the flags into `method`; refuses those that mean nothing to it.
    pub fn apply(&self, method: &mut Method) -> anyhow::Result<()> {
        let form = self.predictor.map(|form| match form {
            Form::Uw => PredictorForm::Offset,
            Form::Matrix => PredictorForm::Matrix,
            Form::Auto => PredictorForm::Auto,
        });
        let reduced_only = [
            ("--proxy-bones", self.proxy_bones.is_some()),
            ("--error", self.error.is_some()),
            ("--points", self.points.is_some()),
            ("--no-refine", self.no_refine),
            ("--refine-ridge", self.refine_ridge.is_some()),
            ("--clustering", self.clustering.is_some()),
        ];
        let refuse = |flags: &[(&str, bool)], name: &str| match flags.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(anyhow::anyhow!("{flag} means nothing to `{name}`; it belongs to `rr`")),
            None => Ok(()),
        };
        let name = method.name();
        match method {
            Method::RotationalRegression(params) => {
                params.proxy_bones = self.proxy_bones.or(params.proxy_bones);
                params.error = self.error.or(params.error);
                params.points = self.points.map_or(params.points, |points| points == Points::Auto);
                params.predictor = form.unwrap_or(params.predictor);
                match self.clustering {
                    Some(Groups::MeanShift) => params.clustering = Clustering::MeanShift(BANDWIDTH),
                    Some(Groups::Greedy) => params.clustering = Clustering::Greedy,
                    None => {}
                }
                match (&mut params.refine, self.no_refine) {
                    (_, true) => params.refine = None,
                    (Some(refine), false) => refine.ridge = self.refine_ridge.or(refine.ridge),
                    (None, false) => {}
                }
                Ok(())
            }
            Method::FullRotationalRegression(params) => {
                params.predictor = form.unwrap_or(params.predictor);
                refuse(&reduced_only, name)
            }
            _ => refuse(&[&reduced_only[..], &[("--predictor", form.is_some())]].concat(), name),
        }
    }
}

/// A percentage as a fraction: `0.5%` and `0.5` are both 0.005.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    let value: f64 = number.parse().map_err(|_| format!("`{text}` is not a percentage such as 0.5%"))?;
    if value > 0.0 && value.is_finite() { Ok(value / 100.0) } else { Err(format!("`{text}` is not above 0 %")) }
}

/// A ridge: zero or more.
fn ridge(text: &str) -> Result<f64, String> {
    let value = text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| format!("`{text}` is not a number, zero or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_with_and_without_their_sign() {
        assert_eq!(percent("0.5%"), Ok(0.005));
        assert_eq!(percent(" 2 "), Ok(0.02));
        assert!(percent("-1%").is_err() && percent("half").is_err() && percent("nan").is_err());
    }

    #[test]
    fn a_ridge_is_a_number_and_not_negative() {
        assert_eq!(ridge("0"), Ok(0.0));
        assert!(ridge("-1").is_err() && ridge("nan").is_err() && ridge("inf").is_err());
    }
}
