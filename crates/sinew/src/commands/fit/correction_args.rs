//! The flags of the correction layer.

use sinew_fit::Method;
use sinew_fit::correct::distil::Distil;
use sinew_fit::correct::{Closeness, CorrectionParams, Place};

/// A correction of what the method leaves over at the training poses.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct CorrectionArgs {
    /// Add what the method leaves over at the training poses, interpolated over poses: on the proxy
    /// bones (rr) or on the vertices (any method) [default when it stands alone: proxies for rr, otherwise vertices].
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "auto", help_heading = "Correction")]
    pub correct: Option<CorrectedPlace>,
    /// How closely the correction follows the training poses [default: smooth; psd: exact].
    #[arg(long, value_name = "HOW", help_heading = "Correction")]
    pub correct_fit: Option<CorrectionFit>,
    /// Bytes that the correction may take in all, e.g. 200k or 1.5M [default: what 2 % of the
    /// residual left out asks for].
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Correction")]
    pub correct_bytes: Option<usize>,
    /// Whether corrected proxy bones are distilled into polynomials of joint rotations, which cost a fraction of it a
    /// frame and may cost a little accuracy [default: auto].
    #[arg(long, value_name = "WHEN", help_heading = "Correction")]
    pub distil: Option<DistilWhen>,
    /// Principal components a joint of eigenskin [default: as many as --energy asks for].
    #[arg(long, value_name = "N", help_heading = "Correction", conflicts_with = "energy")]
    pub components: Option<usize>,
    /// The part of each joint's squared displacements that eigenskin's components hold, up to 1 [default: 0.9999].
    #[arg(long, value_name = "PART", help_heading = "Correction")]
    pub energy: Option<f64>,
}

/// What is corrected.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
pub enum CorrectedPlace {
    /// The proxy bones' transforms: next to no memory or time; rr only.
    Proxies,
    /// Displacements of vertices: memory and time grow with the mesh.
    Vertices,
    /// Proxies for rr, otherwise vertices.
    #[value(hide = true)]
    Auto,
}

/// When a corrected regression is distilled.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
pub enum DistilWhen {
    /// Where it costs less a frame, loses little and holds beyond the trained ranges.
    Auto,
    /// Whatever it loses.
    On,
    /// Never: the regression and its correction run as they were fitted.
    Off,
}

/// How closely a correction follows the training poses.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
pub enum CorrectionFit {
    /// With the ridge that predicts unseen poses best.
    Smooth,
    /// Training poses come out exactly.
    Exact,
}

impl CorrectionArgs {
    /// `method` with the correction that was asked for; a flag that means nothing is an error.
    pub fn apply(&self, mut method: Method) -> anyhow::Result<Method> {
        let closeness = self.correct_fit.map(|fit| match fit {
            CorrectionFit::Smooth => Closeness::Smooth,
            CorrectionFit::Exact => Closeness::Exact,
        });
        let distil = self.distil.map(|when| match when {
            DistilWhen::Auto => Distil::Auto,
            DistilWhen::On => Distil::On,
            DistilWhen::Off => Distil::Off,
        });
        let change = |params: &mut CorrectionParams| {
            params.closeness = closeness.unwrap_or(params.closeness);
            params.bytes = self.correct_bytes.or(params.bytes);
            params.distil = distil.unwrap_or(params.distil);
        };
        let refused = |params: &CorrectionParams| {
            let smooth = params.place == Place::Proxies && params.closeness == Closeness::Smooth;
            if distil.is_some_and(|when| when != Distil::Off) && !(smooth && params.bytes.is_none()) {
                anyhow::bail!("--distil needs --correct proxies, smooth and without --correct-bytes");
            }
            Ok(())
        };
        if let Method::EigenSkin(params) = &mut method {
            params.components = self.components.or(params.components);
            params.energy = self.energy.unwrap_or(params.energy);
        } else if self.components.is_some() || self.energy.is_some() {
            anyhow::bail!("--components and --energy belong to `eigenskin`, not to `{}`", method.name());
        }
        match (self.correct, method) {
            (None, Method::Psd(mut params)) => {
                change(&mut params.correction);
                refused(&params.correction)?;
                Ok(Method::Psd(params))
            }
            (None, Method::Corrected(method, mut params)) => {
                change(&mut params);
                refused(&params)?;
                Ok(Method::Corrected(method, params))
            }
            (None, method) if closeness.is_none() && self.correct_bytes.is_none() && distil.is_none() => Ok(method),
            (None, method) => {
                anyhow::bail!(
                    "--correct-fit, --correct-bytes and --distil need --correct (or a method that corrects, not `{}`)",
                    method.name()
                )
            }
            (Some(_), method @ (Method::Psd(_) | Method::EigenSkin(_) | Method::Corrected(..))) => {
                anyhow::bail!("`{}` already is a corrected method; leave --correct out", method.name())
            }
            (Some(place), method) => {
                let has_proxies = matches!(method, Method::RotationalRegression(_));
                let mut params = CorrectionParams::new(match place {
                    CorrectedPlace::Proxies if !has_proxies => {
                        anyhow::bail!(
                            "--correct proxies belongs to `rr`; with `{}` use --correct vertices",
                            method.name()
                        )
                    }
                    CorrectedPlace::Proxies => Place::Proxies,
                    CorrectedPlace::Auto if has_proxies => Place::Proxies,
                    CorrectedPlace::Auto | CorrectedPlace::Vertices => Place::Vertices,
                });
                change(&mut params);
                refused(&params)?;
                Ok(Method::Corrected(Box::new(method), params))
            }
        }
    }
}

/// `200k`, `1.5M`, `4096`.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches('b');
    let (number, unit) = match digits.strip_suffix(['k', 'm']) {
        Some(number) if digits.ends_with('k') => (number, 1e3),
        Some(number) => (number, 1e6),
        None => (digits, 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value * unit < 1e12 => Ok((value * unit) as usize),
        _ => Err(format!("`{text}` is not a number of bytes; write e.g. 65536, 200k or 1.5M")),
    }
}
