//! Progress bars on stderr; nothing at all when stderr is not a terminal.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
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
        let template = if steps == 0 { "{spinner} {msg} {elapsed}" } else { "{msg} {wide_bar} {pos}/{len} {eta}" };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(steps as u64).with_style(style).with_message(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        *self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(bar);
    }

    fn step(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner).as_ref() {
            bar.inc(1);
        }
    }
}
