//! The flags of rotational regression.

use sinew_fit::Method;

/// How rotational regression is fitted. A flag that is not given takes the library's default.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Rotational regression (rr)")]
pub struct RrArgs {
    /// The number of proxy bones [default: so many that more no longer help].
    #[arg(long, value_name = "N")]
    pub proxy_bones: Option<usize>,
    /// Leave out the end-to-end refinement: the form of the 2007 thesis.
    #[arg(long)]
    pub no_refine: bool,
    /// The refinement's ridge toward the thesis's solution.
    #[arg(long, value_name = "LAMBDA")]
    pub refine_ridge: Option<f64>,
}

impl RrArgs {
    /// Puts the flags into `method`; refuses them if it is another method.
    pub fn apply(&self, method: &mut Method) -> anyhow::Result<()> {
        let Method::RotationalRegression(params) = method else {
            let given = [
                ("--proxy-bones", self.proxy_bones.is_some()),
                ("--no-refine", self.no_refine),
                ("--refine-ridge", self.refine_ridge.is_some()),
            ];
            if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
                anyhow::bail!("{flag} means nothing to `{}`; it belongs to `rr`", method.name());
            }
            return Ok(());
        };
        params.proxy_bones = self.proxy_bones.or(params.proxy_bones);
        if self.no_refine {
            params.refine = None;
        }
        if let (Some(ridge), Some(refine)) = (self.refine_ridge, &mut params.refine) {
            refine.ridge = ridge;
        }
        Ok(())
    }
}
