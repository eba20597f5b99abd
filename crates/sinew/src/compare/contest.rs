//! Fits and measures every contender on the same frames.
//!
//! A contender that fails, or even panics, is recorded with its reason and the others go on. When the user interrupts,
//! the contender at work is given up and what is finished is kept.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use glam::{Affine3A, DVec3};
use sinew_examples::Examples;
use sinew_fit::correct::{CorrectionParams, Place};
use sinew_fit::methods::rr::RrParams;
use sinew_fit::methods::ssd::SsdParams;
use sinew_fit::{FitReport, Fitted, METHODS, Method, Progress, Training};
use sinew_runtime::{Evaluator, Model};

use super::evaluate::{Bench, Evaluation};
use crate::predict::predict;

/// A method that takes part.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Its name on the command line, with what differs from the default, e.g. `rr:proxies=80`.
    pub name: String,
    /// Its name in tables.
    pub title: String,
    /// The method.
    pub method: Method,
}

/// How the contest is held.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What the examples are called on the page.
    pub source: String,
    /// The frames to fit.
    pub train: Vec<usize>,
    /// The frames to measure; `None` for leave-one-out over `train`.
    pub test: Option<Vec<usize>>,
    /// How long each model is timed.
    pub timing: Duration,
}

/// How a contender came out.
pub enum Outcome {
    /// It was fitted and measured.
    Finished(Box<Finished>),
    /// It was not, and why.
    Failed(String),
}

/// A contender that was fitted and measured.
pub struct Finished {
    /// The model fitted to all training frames.
    pub model: Model,
    /// How its fit went.
    pub report: FitReport,
    /// Errors on the training frames.
    pub train: Evaluation,
    /// Errors on unseen frames.
    pub test: Evaluation,
    /// Held-out predictions of leave-one-out, one a test frame; empty otherwise.
    pub held_out: Vec<Vec<DVec3>>,
    /// Seconds for the fit to all training frames.
    pub fit_seconds: f64,
    /// Microseconds to pose one frame on one thread.
    pub microseconds: f64,
    /// The size of its `.sinew` file.
    pub file_bytes: usize,
}

/// All that a report needs.
pub struct Contest {
    /// The examples.
    pub examples: Arc<Examples>,
    /// How it was held.
    pub rules: Rules,
    /// The frames of the test figures.
    pub test_frames: Vec<usize>,
    /// Every contender with its outcome, in the order of the table.
    pub entries: Vec<(Contender, Outcome)>,
    /// Whether the user cut it short.
    pub interrupted: bool,
}

/// The contenders called `names`, or every method. A name may ask for a correction of the vertices: `as+vertices`.
pub fn contenders(names: Option<&[String]>) -> anyhow::Result<Vec<Contender>> {
    match names {
        Some(names) => names.iter().map(|name| contender(name)).collect(),
        None => METHODS.iter().map(|info| contender(info.name)).collect(),
    }
}

fn contender(name: &str) -> anyhow::Result<Contender> {
    let (base, corrected) = name.strip_suffix("+vertices").map_or((name, false), |base| (base, true));
    let info = METHODS.iter().find(|info| info.name == base).ok_or_else(|| {
        let known: Vec<&str> = METHODS.iter().map(|info| info.name).collect();
        anyhow::anyhow!("there is no method `{name}`; there are {}, and each with +vertices", known.join(", "))
    })?;
    let (method, title) = ((info.default)(), info.title.to_string());
    if !corrected {
        return Ok(Contender { name: name.into(), title, method });
    }
    let method = Method::Corrected(Box::new(method), CorrectionParams::new(Place::Vertices));
    Ok(Contender { name: name.into(), title: format!("{title}, vertices corrected"), method })
}

/// Further settings of the methods, to find the best under a budget.
pub fn variants() -> Vec<Contender> {
    let mut variants = Vec::new();
    for proxy_bones in [10, 20, 40, 80] {
        let params = RrParams { proxy_bones: Some(proxy_bones), ..RrParams::default() };
        variants.push(Contender {
            name: format!("rr:proxies={proxy_bones}"),
            title: format!("Rotational regression, {proxy_bones} proxy bones"),
            method: Method::RotationalRegression(params),
        });
    }
    variants.push(Contender {
        name: "ssd:influences=8".into(),
        title: "Linear blend skinning, 8 influences".into(),
        method: Method::Ssd(SsdParams { influences: 8 }),
    });
    variants
}

impl Contest {
    /// Holds the contest. `stop` ends it early; `progress` hears of each contender.
    pub fn hold(
        examples: Examples,
        rules: Rules,
        contenders: Vec<Contender>,
        stop: &AtomicBool,
        progress: &(dyn Progress + Sync),
    ) -> Self {
        let test_frames = rules.test.clone().unwrap_or_else(|| rules.train.clone());
        let examples = Arc::new(examples);
        let train = Arc::new(Bench::new(&examples, &rules.train));
        let test = Arc::new(Bench::new(&examples, &test_frames));
        let mut entries = Vec::new();
        let mut interrupted = false;
        progress.stage("methods", contenders.len());
        for contender in contenders {
            let outcome = if interrupted {
                None
            } else {
                let (contender, rules) = (contender.clone(), rules.clone());
                let (train, test) = (Arc::clone(&train), Arc::clone(&test));
                run_until(stop, move || enter(&contender, &rules, &train, &test))
            };
            interrupted |= outcome.is_none();
            let outcome = outcome.unwrap_or_else(|| Outcome::Failed("interrupted before it was finished".into()));
            entries.push((contender, outcome));
            progress.step();
        }
        Self { examples, rules, test_frames, entries, interrupted }
    }

    /// The contenders that were finished.
    pub fn finished(&self) -> impl Iterator<Item = (&Contender, &Finished)> {
        self.entries.iter().filter_map(|(contender, outcome)| match outcome {
            Outcome::Finished(finished) => Some((contender, &**finished)),
            Outcome::Failed(_) => None,
        })
    }

    /// What `finished` predicts for test frame number `k`: held out if this was leave-one-out.
    pub fn predicted(&self, finished: &Finished, k: usize) -> Vec<DVec3> {
        match finished.held_out.get(k) {
            Some(predicted) => predicted.clone(),
            None => predict(&finished.model, &self.examples, &[self.test_frames[k]])
                .ok()
                .and_then(|mut frames| frames.pop())
                .unwrap_or_default(),
        }
    }
}

/// Runs `work` on a thread of its own until it is done, or abandons it when `stop` is set. A panic is a failure.
fn run_until(stop: &AtomicBool, work: impl FnOnce() -> anyhow::Result<Finished> + Send + 'static) -> Option<Outcome> {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || {
        let outcome = match std::panic::catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(finished)) => Outcome::Finished(Box::new(finished)),
            Ok(Err(error)) => Outcome::Failed(format!("{error:#}")),
            Err(panic) => Outcome::Failed(format!("it panicked: {}", panic_message(&*panic))),
        };
        // Nobody listens any more if the user interrupted.
        let _ = done.send(outcome);
    });
    loop {
        match result.recv_timeout(Duration::from_millis(50)) {
            Ok(outcome) => return Some(outcome),
            Err(mpsc::RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Some(Outcome::Failed("its thread ended without a result".into()));
            }
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?")
}

/// Fits, measures and times one contender.
fn enter(contender: &Contender, rules: &Rules, train: &Bench, test: &Bench) -> anyhow::Result<Finished> {
    let examples = &*train.examples;
    let start = Instant::now();
    let Fitted { model, report } = fit(examples, &contender.method, &rules.train)?;
    let fit_seconds = start.elapsed().as_secs_f64();
    let on_train = train.evaluate(&predict(&model, examples, &rules.train)?);
    anyhow::ensure!(on_train.details.measures.ee_percent.is_finite(), "its prediction is not finite");
    let (on_test, held_out) = match &rules.test {
        Some(frames) => (test.evaluate(&predict(&model, examples, frames)?), Vec::new()),
        None => {
            let predicted = leave_one_out(examples, &contender.method, &rules.train)?;
            (test.evaluate(&predicted), predicted)
        }
    };
    let microseconds = time(&model, examples, &test.frames, rules.timing);
    let file_bytes = model.to_bytes().len();
    Ok(Finished { model, report, train: on_train, test: on_test, held_out, fit_seconds, microseconds, file_bytes })
}

fn fit(examples: &Examples, method: &Method, frames: &[usize]) -> anyhow::Result<Fitted> {
    let training = Training::new(examples, frames)?;
    Ok(sinew_fit::fit(&training, method, &sinew_fit::Quiet)?)
}

/// Each of `frames` as predicted by a model that was fitted to the others, (N)(V).
pub fn leave_one_out(examples: &Examples, method: &Method, frames: &[usize]) -> anyhow::Result<Vec<Vec<DVec3>>> {
    anyhow::ensure!(frames.len() >= 2, "leave-one-out needs at least two training poses, there is {}", frames.len());
    let fold = |k: usize| -> anyhow::Result<Vec<DVec3>> {
        let others: Vec<usize> = frames.iter().copied().enumerate().filter(|&(j, _)| j != k).map(|(_, e)| e).collect();
        let fitted = fit(examples, method, &others)?;
        let mut predicted = predict(&fitted.model, examples, &[frames[k]])?;
        predicted.pop().ok_or_else(|| anyhow::anyhow!("no prediction"))
    };
    (0..frames.len()).map(fold).collect()
}

/// Microseconds a frame on one thread: the best of several rounds through `frames`, for about `budget`.
fn time(model: &Model, examples: &Examples, frames: &[usize], budget: Duration) -> f64 {
    let pose = |&e: &usize| -> Vec<Affine3A> {
        examples.pose(e).globals.iter().map(|&g| sinew_fit::to_model::transform(g)).collect()
    };
    // A few poses are enough, and stay in the cache as an engine's would.
    let poses: Vec<Vec<Affine3A>> = frames.iter().take(8).map(pose).collect();
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    while best.is_infinite() || start.elapsed() < budget {
        let round = Instant::now();
        for pose in &poses {
            evaluator.positions(pose, &mut positions);
        }
        best = best.min(round.elapsed().as_secs_f64() / poses.len().max(1) as f64);
    }
    1e6 * best
}
