//! Fits and measures every contender on the same frames.
//!
//! Several are fitted side by side, as many as [`Rules::jobs`]; each fit gives the same bytes however many there are. They
//! are timed afterwards, one at a time, so that the times a frame mean something. A contender that fails, or even panics,
//! is recorded with its reason and the others go on. When the user interrupts, the contenders at work are given up and
//! what is finished is kept.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    /// How many contenders are fitted at the same time, at least one.
    pub jobs: usize,
}

impl Rules {
    /// What the errors are measured on, in words: frames that trained are not called unseen.
    pub fn measured(&self) -> &'static str {
        match &self.test {
            None => "poses that were left out in turn",
            Some(test) if test.iter().all(|e| !self.train.contains(e)) => "unseen poses",
            Some(test) if test.iter().all(|e| self.train.contains(e)) => "training poses",
            Some(_) => "the measured poses, some of which trained",
        }
    }
}

/// A fit's working memory over the size of its training meshes: a guess on the safe side, not a measurement.
const FIT_MEMORY: usize = 24;

/// What all fits at work may take together, bytes.
const MOST_MEMORY: usize = 4 << 30;

/// How many fits to run at the same time on this machine: one a core, fewer where `frames` meshes of `vertices` are large.
pub fn default_jobs(vertices: usize, frames: usize) -> usize {
    let one = FIT_MEMORY * vertices.max(1) * frames.max(1) * size_of::<DVec3>();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    cores.min(8).min(MOST_MEMORY / one.max(1)).max(1)
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
    /// Enveloping error of the best possible transforms of its proxy bones on the test frames, percent
    /// ([`sinew_fit::limit`]); `None` for methods without proxy bones.
    pub limit_percent: Option<f64>,
    /// Held-out predictions of leave-one-out, one a test frame; empty otherwise.
    pub held_out: Vec<Vec<DVec3>>,
    /// Seconds for the fit to all training frames, by the clock, while up to [`Rules::jobs`] fits shared the machine.
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
        let contenders = Arc::new(contenders);
        progress.stage("methods", contenders.iter().map(|contender| expected_cost(&contender.name)).sum());
        let rules = Arc::new(rules);
        let work = {
            let (contenders, rules) = (Arc::clone(&contenders), Arc::clone(&rules));
            move |k: usize| enter(&contenders[k], &rules, &train, &test)
        };
        let finished = |k: usize, outcome: &Outcome| {
            progress.note(&finished_words(&contenders[k], outcome));
            (0..expected_cost(&contenders[k].name)).for_each(|_| progress.step());
        };
        let mut outcomes = run_until(stop, contenders.len(), rules.jobs, work, finished);
        let interrupted = outcomes.iter().any(Option::is_none);
        for outcome in outcomes.iter_mut().flatten() {
            if let Outcome::Finished(finished) = outcome {
                finished.microseconds = time(&finished.model, &examples, &test_frames, rules.timing);
            }
        }
        let outcome =
            |o: Option<Outcome>| o.unwrap_or_else(|| Outcome::Failed("interrupted before it was finished".into()));
        let entries = contenders.iter().cloned().zip(outcomes.into_iter().map(outcome)).collect();
        let rules = (*rules).clone();
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

/// What one contender's fit costs in relation to others, roughly: for the estimate of the time left, nothing else.
fn expected_cost(name: &str) -> usize {
    match name.split([':', '+']).next().unwrap_or(name) {
        "rigid" | "ssd" | "dqs" => 1,
        "as" | "mwe" | "psd" | "eigenskin" => 3,
        "halfway" => 4,
        "rr-full" => 6,
        _ => 12,
    }
}

/// The line that tells of a contender that is done.
fn finished_words(contender: &Contender, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(reason) => format!("{} failed: {reason}", contender.name),
        Outcome::Finished(f) => {
            format!("{}: {:.2} % EE, {:.1} s", contender.name, f.test.details.measures.ee_percent, f.fit_seconds)
        }
    }
}

/// Runs `work` for 0..`count` on `jobs` threads until all are done, or abandons those at work when `stop` is set: these
/// and those not begun are `None`. A panic is a failure. `finished` hears of each.
fn run_until(
    stop: &AtomicBool,
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> anyhow::Result<Finished> + Send + Sync + 'static,
    finished: impl Fn(usize, &Outcome),
) -> Vec<Option<Outcome>> {
    let (done, results) = mpsc::channel();
    let (work, next) = (Arc::new(work), Arc::new(AtomicUsize::new(0)));
    for _ in 0..jobs.clamp(1, count.max(1)) {
        let (work, next, done) = (Arc::clone(&work), Arc::clone(&next), done.clone());
        std::thread::spawn(move || {
            loop {
                let k = next.fetch_add(1, Ordering::Relaxed);
                // Nobody listens any more if the user interrupted.
                if k >= count || done.send((k, attempt(|| work(k)))).is_err() {
                    return;
                }
            }
        });
    }
    drop(done);
    let mut outcomes: Vec<Option<Outcome>> = (0..count).map(|_| None).collect();
    loop {
        match results.recv_timeout(Duration::from_millis(50)) {
            Ok((k, outcome)) => {
                finished(k, &outcome);
                outcomes[k] = Some(outcome);
            }
            Err(mpsc::RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
            // Interrupted, or all threads are through.
            Err(_) => return outcomes,
        }
    }
}

fn attempt(work: impl FnOnce() -> anyhow::Result<Finished>) -> Outcome {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(finished)) => Outcome::Finished(Box::new(finished)),
        Ok(Err(error)) => Outcome::Failed(format!("{error:#}")),
        Err(panic) => Outcome::Failed(format!("it panicked: {}", panic_message(&*panic))),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?")
}

/// Fits and measures one contender; it is timed later.
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
    let limit_percent = sinew_fit::limit::limit(&model, examples, &test.frames).map(|best| test.ee_percent(&best));
    Ok(Finished {
        file_bytes: model.to_bytes().len(),
        model,
        report,
        train: on_train,
        test: on_test,
        limit_percent,
        held_out,
        fit_seconds,
        microseconds: 0.0,
    })
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

#[cfg(test)]
mod tests {
    use sinew_examples::datasets;

    use super::*;
    use crate::compare::{page, results};

    #[test]
    fn frames_that_trained_are_not_called_unseen() {
        let measured = |test: Option<Vec<usize>>| {
            Rules { source: "bar".into(), train: vec![0, 1], test, timing: Duration::ZERO, jobs: 1 }.measured()
        };
        assert_eq!(measured(Some(vec![2, 3])), "unseen poses");
        assert_eq!(measured(Some(vec![1, 0])), "training poses");
        assert!(measured(Some(vec![1, 2])).contains("some of which trained"));
        assert!(measured(None).contains("left out"));
    }

    /// No examples that pass their checks make a method fail, so one gets a parameter that it refuses.
    #[test]
    fn one_fails_with_its_reason_and_the_others_go_on() {
        let bar = datasets::by_name("bar").unwrap().make();
        let contender = |name: &str, method: Method| Contender { name: name.into(), title: name.into(), method };
        let refused = Method::Ssd(SsdParams { influences: 99 });
        let contenders = vec![
            contender("rigid", Method::Rigid),
            contender("ssd<99>", refused),
            contender("ssd", Method::by_name("ssd").unwrap()),
        ];
        let rules = Rules {
            source: "bar".into(),
            train: bar.split().train.clone(),
            test: Some(bar.split().test.clone()),
            timing: Duration::ZERO,
            jobs: 2,
        };
        let contest = Contest::hold(bar, rules, contenders, &AtomicBool::new(false), &sinew_fit::Quiet);
        assert!(!contest.interrupted);
        let json = results::json(&contest);
        let status = |k: usize| json["methods"][k]["status"].as_str().unwrap();
        assert_eq!([status(0), status(1), status(2)], ["ok", "failed", "ok"]);
        assert_eq!(json["methods"][1]["reason"], "influences is 99; it must be 1 to 16");
        let page = page::html(&contest, &page::PageOptions::default());
        assert!(page.contains("failed: influences is 99; it must be 1 to 16"));
        assert!(page.contains("ssd&lt;99&gt;"), "its name is escaped as text");
        let csv = results::csv(&contest);
        assert_eq!(csv.lines().filter(|line| line.contains("failed")).count(), 1, "{csv}");
    }
}
