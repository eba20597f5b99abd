//! The methods by name, and the one function that fits any of them.

use sinew_runtime::{Correction, Deformer, deform};

use crate::correct::{CorrectionParams, Place, beyond, correct, foreseen};
use crate::methods::animation_space::{self, AsParams};
use crate::methods::eigenskin::{self, EigenSkinParams};
use crate::methods::halfway::{self, HalfWayParams};
use crate::methods::multi_weight::{self, MweParams};
use crate::methods::psd::PsdParams;
use crate::methods::rr::full::{self, FullParams};
use crate::methods::rr::{self, RrFit, RrParams};
use crate::methods::scape::{self, ScapeParams};
use crate::methods::ssd::{self, SsdParams};
use crate::{FitError, FitReport, Fitted, Progress, Training};
use crate::{drawing, exercised, size, to_model};

/// A method with its parameters.
#[derive(Debug, Clone)]
pub enum Method {
    /// Every vertex follows its best single bone.
    Rigid,
    /// Linear blend skinning.
    Ssd(SsdParams),
    /// Dual quaternions with linear blend skinning's weights.
    Dqs(SsdParams),
    /// Animation space.
    AnimationSpace(AsParams),
    /// Multi-weight enveloping.
    MultiWeight(MweParams),
    /// Rotational regression, reduced to proxy bones.
    RotationalRegression(RrParams),
    /// Rotational regression with a predictor for every triangle.
    FullRotationalRegression(FullParams),
    /// SCAPE's linear prediction of every triangle's gradient.
    Scape(ScapeParams),
    /// Pose-space deformation.
    Psd(PsdParams),
    /// EigenSkin.
    EigenSkin(EigenSkinParams),
    /// Half-way and scaling joints.
    HalfWay(HalfWayParams),
    /// Any method, with its residual at the training poses interpolated and added.
    Corrected(Box<Method>, CorrectionParams),
}

/// What the command line, the reports and the help say of a method.
#[derive(Debug, Clone, Copy)]
pub struct MethodInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in tables.
    pub title: &'static str,
    /// One line for the help.
    pub summary: &'static str,
    /// The method with its default parameters.
    pub default: fn() -> Method,
}

/// Every method, in the order in which tables list them.
pub const METHODS: &[MethodInfo] = &[
    MethodInfo {
        name: "rigid",
        title: "Best single bone",
        summary: "every vertex follows the one bone that fits it best",
        default: || Method::Rigid,
    },
    MethodInfo {
        name: "ssd",
        title: "Linear blend skinning",
        summary: "linear blend skinning (SSD), weights fitted by non-negative least squares",
        default: || Method::Ssd(SsdParams::default()),
    },
    MethodInfo {
        name: "dqs",
        title: "Dual quaternions",
        summary: "dual quaternion skinning with the weights of ssd",
        default: || Method::Dqs(SsdParams::default()),
    },
    MethodInfo {
        name: "as",
        title: "Animation space",
        summary: "animation space: four weights a bone, as fast as ssd; joints neither collapse nor twist like a wrapper",
        default: || Method::AnimationSpace(AsParams::default()),
    },
    MethodInfo {
        name: "mwe",
        title: "Multi-weight enveloping",
        summary: "multi-weight enveloping: twelve weights a bone; close to the examples, larger and slower than as",
        default: || Method::MultiWeight(MweParams::default()),
    },
    MethodInfo {
        name: "psd",
        title: "Pose-space deformation",
        summary: "pose-space deformation: ssd plus interpolated displacements; exact at the training poses, large",
        default: || Method::Psd(PsdParams::default()),
    },
    MethodInfo {
        name: "eigenskin",
        title: "EigenSkin",
        summary: "EigenSkin: ssd plus each joint's displacements, compressed by principal components",
        default: || Method::EigenSkin(EigenSkinParams::default()),
    },
    MethodInfo {
        name: "halfway",
        title: "Half-way joints",
        summary: "ssd over extra joints that turn half-way or scale with the bend (Mohr and Gleicher)",
        default: || Method::HalfWay(HalfWayParams::default()),
    },
    MethodInfo {
        name: "rr",
        title: "Rotational regression",
        summary: "rotational regression: proxy bones that learn from the joints' rotations; close to the examples, fast",
        default: || Method::RotationalRegression(RrParams::default()),
    },
    MethodInfo {
        name: "rr-cp",
        title: "Rotational regression, proxies corrected",
        summary: "rr --correct proxies: what rr leaves over, interpolated over poses on the proxy bones",
        default: || corrected_rr(Place::Proxies),
    },
    MethodInfo {
        name: "rr-cv",
        title: "Rotational regression, vertices corrected",
        summary: "rr --correct vertices: what rr leaves over, interpolated over poses on the vertices",
        default: || corrected_rr(Place::Vertices),
    },
    MethodInfo {
        name: "rr-full",
        title: "Rotational regression, full",
        summary: "rotational regression with a predictor for every triangle and a Poisson solve; slow, a yardstick",
        default: || Method::FullRotationalRegression(FullParams::default()),
    },
    MethodInfo {
        name: "scape",
        title: "SCAPE",
        summary: "SCAPE: every triangle's gradient linear in two joints' rotations, and a Poisson solve; slow, a yardstick",
        default: || Method::Scape(ScapeParams::default()),
    },
];

impl Method {
    /// The method called `name`, with its default parameters.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        METHODS.iter().find(|info| info.name == name).map(|info| (info.default)())
    }

    /// The method's name on the command line.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rigid => "rigid",
            Self::Ssd(_) => "ssd",
            Self::Dqs(_) => "dqs",
            Self::AnimationSpace(_) => "as",
            Self::MultiWeight(_) => "mwe",
            Self::RotationalRegression(_) => "rr",
            Self::FullRotationalRegression(_) => "rr-full",
            Self::Scape(_) => "scape",
            Self::Psd(_) => "psd",
            Self::EigenSkin(_) => "eigenskin",
            Self::HalfWay(_) => "halfway",
            Self::Corrected(method, params) => match (&**method, params.place) {
                (Self::RotationalRegression(_), Place::Proxies) => "rr-cp",
                (Self::RotationalRegression(_), Place::Vertices) => "rr-cv",
                (method, _) => method.name(),
            },
        }
    }

    /// Whether it is rotational regression with proxy bones, corrected or not.
    fn regresses_rotations(&self) -> bool {
        match self {
            Self::RotationalRegression(_) => true,
            Self::Corrected(method, _) => method.regresses_rotations(),
            _ => false,
        }
    }
}

fn corrected_rr(place: Place) -> Method {
    Method::Corrected(Box::new(Method::RotationalRegression(RrParams::default())), CorrectionParams::new(place))
}

/// Fits `method` to the training frames. Every model also carries plain skinning weights to fall back on.
pub fn fit(training: &Training, method: &Method, progress: &dyn Progress) -> Result<Fitted, FitError> {
    if let Some(factor) = size::factor(training).filter(|_| method.regresses_rotations()) {
        let mut fitted = fit(&size::scaled(training, factor)?, method, progress)?;
        size::scale_model(&mut fitted.model, 1.0 / factor);
        let FitReport { rigid, left_out_corrected, ridge, .. } = &mut fitted.report;
        let of_ridge = ridge.iter_mut().flat_map(|ridge| [&mut ridge.squared_error, &mut ridge.corrected]).flatten();
        rigid.iter_mut().chain(left_out_corrected).chain(of_ridge).for_each(|squares| *squares /= factor * factor);
        return Ok(fitted);
    }
    let mut report = FitReport { warnings: exercised::warnings(training), ..FitReport::default() };
    let name = method.name();
    let (skin, deformer) = match method {
        Method::Rigid => {
            let skin = ssd::fit(training, &SsdParams { influences: 1 }, progress)?;
            (skin, Deformer::LinearBlend(deform::LinearBlend))
        }
        Method::Corrected(method, params) => {
            let mut fitted = foreseen::fit(training, method, params, progress)?;
            fitted.model.metadata.method = name.into();
            return Ok(fitted);
        }
        Method::HalfWay(params) => {
            let skin = ssd::fit(training, &params.skin, progress)?;
            let plain = to_model::model(training, &skin, Deformer::LinearBlend(deform::LinearBlend), method.name())?;
            let fit = halfway::fit(training, &skin, &plain.character, params, progress, &mut report)?;
            let drawn = to_model::skin(&fit.weights);
            (skin, Deformer::HalfWay(deform::HalfWay { extras: fit.extras, skin: drawn }))
        }
        Method::Ssd(params)
        | Method::Psd(PsdParams { skin: params, .. })
        | Method::EigenSkin(EigenSkinParams { skin: params, .. }) => {
            let skin = ssd::fit(training, params, progress)?;
            (skin, Deformer::LinearBlend(deform::LinearBlend))
        }
        Method::Dqs(params) => {
            let skin = ssd::fit(training, params, progress)?;
            (skin, Deformer::DualQuaternion(deform::DualQuaternion))
        }
        Method::AnimationSpace(params) => {
            let fit = animation_space::fit(training, params, progress)?;
            animation_space::describe(&fit, &mut report);
            (fit.skin, Deformer::AnimationSpace(to_model::animation_space(training, &fit.coordinates)))
        }
        Method::MultiWeight(params) => {
            let fit = multi_weight::fit(training, params, progress)?;
            multi_weight::describe(&fit, &mut report);
            (fit.skin, Deformer::MultiWeight(to_model::multi_weight(&fit.weights)))
        }
        Method::RotationalRegression(params) => {
            let Fitted { model, mut report } = regressions(training, params, progress)?.swap_remove(0);
            if !params.condenses() {
                let model = if params.refine.is_some() { beyond::hold(training, model, &mut report) } else { model };
                return Ok(Fitted { model, report });
            }
            progress.stage("points", 0);
            return match drawing::from_points(training, &model, &mut report) {
                Ok(model) => Ok(Fitted { model, report }),
                // Few blocks hold beyond the trained ranges where whole poses are held, as they are for points.
                Err(reason) => {
                    let params = RrParams { points: false, ..params.clone() };
                    let mut fitted = fit(training, &Method::RotationalRegression(params), progress)?;
                    fitted.report.found("vertices drawn from points", format!("no: {reason}"));
                    Ok(fitted)
                }
            };
        }
        Method::FullRotationalRegression(params) => {
            let skin = ssd::fit(training, &SsdParams::default(), progress)?;
            let fit = full::fit(training, &skin, params, &mut report, progress)?;
            (skin, Deformer::FullGradients(to_model::full_gradients(&fit)))
        }
        Method::Scape(params) => {
            let skin = ssd::fit(training, &SsdParams::default(), progress)?;
            let fit = scape::fit(training, &skin, params, &mut report, progress)?;
            (skin, Deformer::FullGradients(to_model::linear_gradients(&fit)))
        }
    };
    report.found("influences a vertex (mean)", format!("{:.2}", skin.mean_count()));
    let model = to_model::model(training, &skin, deformer, method.name())?;
    let fitted = Fitted { model, report };
    match method {
        Method::Psd(params) => correct(training, fitted, &params.correction, progress),
        Method::EigenSkin(params) => {
            let Fitted { model, mut report } = fitted;
            let correction = eigenskin::fit(training, &model, params, progress, &mut report)?;
            Ok(Fitted { model: model.with_correction(Correction::Vertices(correction))?, report })
        }
        _ => Ok(fitted),
    }
}

/// Rotational regression and, if a correction is to follow, its rivals behind it (see [`rr::fit`]).
pub(crate) fn regressions(
    training: &Training,
    params: &RrParams,
    progress: &dyn Progress,
) -> Result<Vec<Fitted>, FitError> {
    let skin = ssd::fit(training, &SsdParams::default(), progress)?;
    let fits = rr::fit(training, &skin, params, progress)?;
    let fitted = |(fit, mut report): (RrFit, FitReport)| {
        report.warnings.splice(0..0, exercised::warnings(training));
        let deformer = to_model::rotational_regression(&fit);
        report.found("palette entries a vertex (mean)", format!("{:.2}", deformer.skin.mean_count()));
        let model = to_model::model(training, &skin, Deformer::RotationalRegression(deformer), "rr")?;
        Ok(Fitted { model, report })
    };
    fits.into_iter().map(fitted).collect()
}
