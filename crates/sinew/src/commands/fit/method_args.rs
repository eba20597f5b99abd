//! The flags that choose a method and its parameters; shared by every command that fits.

use sinew_fit::methods::animation_space::AsParams;
use sinew_fit::methods::eigenskin::EigenSkinParams;
use sinew_fit::methods::halfway::HalfWayParams;
use sinew_fit::methods::multi_weight::MweParams;
use sinew_fit::methods::psd::PsdParams;
use sinew_fit::methods::ssd::SsdParams;
use sinew_fit::{METHODS, Method};

use super::correction_args::CorrectionArgs;
use super::linear_args::LinearArgs;
use super::rr_args::RrArgs;

/// A method and its parameters. A flag that is not given takes the library's default.
#[derive(clap::Args, Debug, Clone)]
pub struct MethodArgs {
    /// The method; `--help` lists them.
    #[arg(long, default_value = "ssd", value_parser = method_names(), help_heading = "Method")]
    pub method: String,
    /// Bones a vertex at most [default: 4; as, mwe: as many as their influence sets have].
    #[arg(long, value_name = "N", help_heading = "Method")]
    pub influences: Option<usize>,
    #[command(flatten)]
    pub linear: LinearArgs,
    #[command(flatten)]
    pub rr: RrArgs,
    #[command(flatten)]
    pub correction: CorrectionArgs,
}

impl MethodArgs {
    /// The method with its parameters; a flag that the method does not know is an error, not ignored.
    pub fn method(&self) -> anyhow::Result<Method> {
        let mut method =
            Method::by_name(&self.method).ok_or_else(|| anyhow::anyhow!("there is no method `{}`", self.method))?;
        if let Some(influences) = self.influences {
            match &mut method {
                Method::Ssd(params) | Method::Dqs(params) => *params = SsdParams { influences },
                Method::AnimationSpace(AsParams { skin, influences: sets, .. })
                | Method::MultiWeight(MweParams { skin, influences: sets, .. }) => {
                    sets.most = Some(influences);
                    skin.influences = skin.influences.min(influences);
                }
                Method::RotationalRegression(params) => params.influences = influences,
                Method::Psd(PsdParams { skin, .. })
                | Method::EigenSkin(EigenSkinParams { skin, .. })
                | Method::HalfWay(HalfWayParams { skin }) => *skin = SsdParams { influences },
                Method::Corrected(..) => {
                    anyhow::bail!("write `--method rr --correct …` to change the method under the correction")
                }
                Method::Rigid => anyhow::bail!("--influences means nothing to `rigid`, which has one bone a vertex"),
                Method::FullRotationalRegression(_) | Method::Scape(_) => {
                    anyhow::bail!("--influences means nothing to `{}`, which solves for its vertices", self.method)
                }
            }
        }
        self.linear.apply(&mut method)?;
        self.rr.apply(&mut method)?;
        self.correction.apply(method)
    }
}

/// The names that `--method` takes.
pub fn method_names() -> clap::builder::PossibleValuesParser {
    let value = |info: &sinew_fit::MethodInfo| clap::builder::PossibleValue::new(info.name).help(info.summary);
    METHODS.iter().map(value).collect::<Vec<_>>().into()
}
