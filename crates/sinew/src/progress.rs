//! Progress bars on stderr; only lines of what is finished when stderr is not a terminal.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use sinew_fit::Progress;

/// One bar, renamed from stage to stage.
pub struct Bars {
    bar: Mutex<Option<ProgressBar>>,
    shown: bool,
}

impl Bars {
    /// No bar yet; the first stage draws it.
    pub fn new() -> Self {
        Self { bar: Mutex::new(None), shown: std::io::stderr().is_terminal() }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bars {
    fn stage(&self, name: &str, steps: usize) {
        if !self.shown {
            return;
        }
        self.finish();
        let template = if steps == 0 { "{spinner} {msg} {elapsed}" } else { "{msg} {wide_bar} {percent} % {left}" };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let words = time_left(state.elapsed(), state.pos(), state.len().unwrap_or(0));
            // A bar that cannot be written to is not worth an error.
            let _ = out.write_str(&words);
        });
        let bar = ProgressBar::new(steps as u64).with_style(style).with_message(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        *self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(bar);
    }

    fn step(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner).as_ref() {
            bar.inc(1);
        }
    }

    fn note(&self, words: &str) {
        match self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner).as_ref() {
            Some(bar) => bar.println(words),
            None => eprintln!("{words}"),
        }
    }
}

/// How long the rest takes if it goes on as before, in words; empty while nothing is known.
fn time_left(elapsed: Duration, done: u64, all: u64) -> String {
    if done == 0 || done >= all {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() * (all - done) as f64 / done as f64;
    match seconds {
        s if s < 90.0 => format!("about {s:.0} s left"),
        s if s < 5400.0 => format!("about {:.0} min left", s / 60.0),
        s => format!("about {:.1} h left", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_goes_by_the_share_that_is_done() {
        assert_eq!(time_left(Duration::from_secs(10), 1, 4), "about 30 s left");
        assert_eq!(time_left(Duration::from_secs(600), 1, 2), "about 10 min left");
        assert_eq!(time_left(Duration::from_secs(7200), 1, 2), "about 2.0 h left");
        assert_eq!(time_left(Duration::from_secs(10), 0, 4), "");
        assert_eq!(time_left(Duration::from_secs(10), 4, 4), "");
    }
}
