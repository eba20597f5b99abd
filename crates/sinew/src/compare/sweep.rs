//! Error against a parameter: regularisation, the number of training poses, the number of proxy bones
//! (Jacka, Reid, Merry and Gain, "A comparison of linear skinning techniques for character animation", 2007, figures 5
//! and 6).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sinew_examples::Examples;
use sinew_fit::methods::animation_space::AsParams;
use sinew_fit::methods::multi_weight::MweParams;
use sinew_fit::methods::rr::RrParams;
use sinew_fit::methods::rr::refine::RefineParams;
use sinew_fit::{Method, Progress, Training};

use super::charts::{self, Axis, Series, series_colour};
use super::contest::{Contender, Contest};
use super::evaluate::Bench;
use crate::predict::predict;

/// One curve: (parameter, train EE, test EE), failed fits left out.
struct Curve {
    name: String,
    points: Vec<(f64, f64, f64)>,
}

/// What sweeps share.
struct Sweep<'a> {
    train: &'a [usize],
    train_bench: Bench,
    test_bench: Bench,
    stop: &'a AtomicBool,
}

/// The sweeps as a page shows them and as machines read them.
pub struct Sweeps {
    /// A section of the page.
    pub html: String,
    /// `[{"sweep", "curves": [{"name", "points": [{"value", "train_ee_percent", "test_ee_percent"}]}]}]`, and the surface of
    /// multi-weight enveloping with its two parameters.
    pub json: serde_json::Value,
}

/// A sweep's figure and its numbers.
struct Figure {
    html: String,
    json: serde_json::Value,
}

/// Every sweep that the contenders allow. Each fit is measured on the contest's own frames; `progress` hears of each sweep.
pub fn sweeps(contest: &Contest, contenders: &[Contender], stop: &AtomicBool, progress: &dyn Progress) -> Sweeps {
    let examples = &contest.examples;
    let sweep = Sweep {
        train: &contest.rules.train,
        train_bench: Bench::new(examples, &contest.rules.train),
        test_bench: Bench::new(examples, &contest.test_frames),
        stop,
    };
    let has = |name: &str| contenders.iter().any(|contender| contender.name == name);
    let wanted: [(bool, &dyn Fn() -> Figure); 5] = [
        (true, &|| sweep.poses(contenders)),
        (has("as"), &|| sweep.animation_space()),
        (has("mwe"), &|| sweep.multi_weight()),
        (has("rr"), &|| sweep.proxies()),
        (has("rr"), &|| sweep.refinement()),
    ];
    progress.stage("sweeps", wanted.iter().filter(|w| w.0).count());
    let mut figures = Vec::new();
    for (_, make) in wanted.iter().filter(|w| w.0) {
        figures.push(make());
        progress.step();
    }
    let note = if contest.rules.test.is_none() {
        "<p class=\"note\">Without test frames the solid lines are on the training poses too.</p>"
    } else {
        ""
    };
    let html: String = figures.iter().map(|figure| figure.html.as_str()).collect();
    Sweeps {
        html: format!("<h2>Sweeps</h2>\n<div class=\"charts\">{html}</div>\n{note}"),
        json: figures.into_iter().map(|figure| figure.json).collect(),
    }
}

impl Sweep<'_> {
    /// Train and test EE of `method` fitted to `frames`; `None` if it fails or the user stopped.
    fn errors(&self, method: &Method, frames: &[usize]) -> Option<(f64, f64)> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let examples: &Arc<Examples> = &self.test_bench.examples;
        let training = Training::new(examples, frames).ok()?;
        let model = sinew_fit::fit(&training, method, &sinew_fit::Quiet).ok()?.model;
        let error = |bench: &Bench| Some(bench.ee_percent(&predict(&model, examples, &bench.frames).ok()?));
        Some((error(&self.train_bench)?, error(&self.test_bench)?))
    }

    fn curve(&self, name: &str, values: &[f64], method: impl Fn(f64) -> Method) -> Curve {
        let point = |&value: &f64| self.errors(&method(value), self.train).map(|(train, test)| (value, train, test));
        Curve { name: name.into(), points: values.iter().filter_map(point).collect() }
    }

    /// Every method, fitted to more and more of the training poses.
    fn poses(&self, contenders: &[Contender]) -> Figure {
        let counts: Vec<usize> =
            [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64].into_iter().filter(|&n| n < self.train.len()).collect();
        let counts: Vec<usize> = counts.into_iter().chain([self.train.len()]).collect();
        // At most six of them: every one is a fit of every method.
        let step = counts.len().div_ceil(6);
        let counts: Vec<usize> = counts.into_iter().rev().step_by(step).collect::<Vec<_>>().into_iter().rev().collect();
        let evenly = |n: usize| -> Vec<usize> {
            (0..n).map(|k| self.train[if n == 1 { 0 } else { k * (self.train.len() - 1) / (n - 1) }]).collect()
        };
        let curves: Vec<Curve> = contenders
            .iter()
            .map(|contender| Curve {
                name: contender.name.clone(),
                points: counts
                    .iter()
                    .filter_map(|&n| {
                        let (train, test) = self.errors(&contender.method, &evenly(n))?;
                        Some((n as f64, train, test))
                    })
                    .collect(),
            })
            .collect();
        figure("Error against the number of training poses, evenly chosen", "training poses", true, &curves, false)
    }

    fn animation_space(&self) -> Figure {
        let values: Vec<f64> = (-8..=0).step_by(2).map(|k| 10_f64.powi(k)).collect();
        let lambda = self.curve("λ (toward skinning)", &values, |value| {
            Method::AnimationSpace(AsParams { lambda: Some(value), ..AsParams::default() })
        });
        let delta = self.curve("δ (smoothness)", &values, |value| {
            Method::AnimationSpace(AsParams { delta: Some(value), ..AsParams::default() })
        });
        figure("Animation space: error against regularisation", "λ or δ", true, &[lambda, delta], true)
    }

    /// The surface over both parameters.
    fn multi_weight(&self) -> Figure {
        let scales: Vec<f64> = (-5..=0).map(|k| 10_f64.powi(k)).collect();
        let thresholds: Vec<f64> = [1e-7, 1e-5, 1e-3, 1e-1].to_vec();
        let mut values = Vec::new();
        for &variance_threshold in &thresholds {
            for &scale in &scales {
                let params = MweParams { scale_factor: Some(scale), variance_threshold, ..MweParams::default() };
                let errors = self.errors(&Method::MultiWeight(params), self.train);
                values.push(errors.map_or(f64::NAN, |errors| errors.1));
            }
        }
        let title = "Multi-weight enveloping: test EE % over its two parameters";
        let svg = charts::surface(title, ("scale factor s_f", &scales), ("variance dropped", &thresholds), &values);
        Figure {
            html: format!("<figure class=\"chart\">{svg}<figcaption>{title}</figcaption></figure>"),
            // A failed fit is null.
            json: serde_json::json!({
                "sweep": "mwe scale factor and variance dropped",
                "scale_factors": scales,
                "variance_thresholds": thresholds,
                "test_ee_percent": values.chunks(scales.len()).collect::<Vec<_>>(),
            }),
        }
    }

    fn proxies(&self) -> Figure {
        let values = [5.0, 10.0, 20.0, 40.0, 80.0];
        let curve = self.curve("rr", &values, |value| {
            Method::RotationalRegression(RrParams { proxy_bones: Some(value as usize), ..RrParams::default() })
        });
        figure("Rotational regression: error against the number of proxy bones", "proxy bones", true, &[curve], true)
    }

    fn refinement(&self) -> Figure {
        let values = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0];
        let curve = self.curve("rr", &values, |value| {
            let refine = RefineParams { ridge: Some(value), ..RefineParams::default() };
            Method::RotationalRegression(RrParams { refine: Some(refine), ..RrParams::default() })
        });
        figure("Rotational regression: error against the ridge of its refinement", "ridge λ", true, &[curve], true)
    }
}

/// A chart of curves: test error solid, and the training error thin if asked.
fn figure(title: &str, label: &str, log: bool, curves: &[Curve], with_train: bool) -> Figure {
    let mut series = Vec::new();
    for (k, curve) in curves.iter().enumerate() {
        let colour = series_colour(if curves.len() == 1 { 5 } else { k });
        let points = |pick: fn(&(f64, f64, f64)) -> f64| curve.points.iter().map(|p| (p.0, pick(p))).collect();
        series.push(Series { name: &curve.name, colour, points: points(|p| p.2), strong: true });
        if with_train {
            series.push(Series { name: &curve.name, colour, points: points(|p| p.1), strong: false });
        }
    }
    let x = Axis::over(label, log, series.iter().flat_map(|s| s.points.iter().map(|p| p.0)));
    let y = Axis::over("EE, %", false, series.iter().flat_map(|s| s.points.iter().map(|p| p.1)));
    let chips: String = curves
        .iter()
        .enumerate()
        .map(|(k, curve)| {
            let colour = series_colour(if curves.len() == 1 { 5 } else { k });
            let name = charts::escape(&curve.name);
            format!("<span><span class=\"chip\" style=\"background:{colour}\"></span>{name}</span>")
        })
        .collect();
    let train = if with_train { " Thick: unseen poses; thin: training poses." } else { "" };
    let html = format!(
        "<figure class=\"chart\">{}<div class=\"legend\">{chips}</div><figcaption>{title}.{train}</figcaption></figure>",
        charts::lines(title, &x, &y, &series)
    );
    let point = |&(value, train, test): &(f64, f64, f64)| serde_json::json!({"value": value, "train_ee_percent": train, "test_ee_percent": test});
    let curve = |curve: &Curve| serde_json::json!({"name": curve.name, "points": curve.points.iter().map(point).collect::<Vec<_>>()});
    let json =
        serde_json::json!({"sweep": label, "title": title, "curves": curves.iter().map(curve).collect::<Vec<_>>()});
    Figure { html, json }
}
