//! Times that mean something on a machine that others use too.
//!
//! Contestants run in turn, a short burst each, round after round and every other round backwards (who runs after whom must
//! not tell), so that whatever disturbs the machine disturbs all
//! of them alike; ratios are taken between bursts of the same round, and a burst counts by its lower quartile, which a
//! lost time slice does not move even if the burst has few calls. The best burst says what the code can do, the median of all calls what it did.

use std::time::{Duration, Instant};

use serde::Serialize;

/// The times of one contestant, in microseconds a call.
#[derive(Debug, Clone, Serialize)]
pub struct Times {
    /// The fastest burst's lower quartile.
    pub best: f64,
    /// Half the calls were faster.
    pub p50: f64,
    /// 99 of 100 calls were faster.
    pub p99: f64,
    /// Each burst's lower quartile, in the order they ran.
    #[serde(skip)]
    pub bursts: Vec<f64>,
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rounds: bursts of each contestant. Default 60.
    pub rounds: usize,
    /// How long a burst lasts at least. Default 2 ms: shorter than a time slice, so that some bursts run undisturbed.
    pub burst: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self { rounds: 60, burst: Duration::from_millis(2) }
    }
}

/// Runs the contestants in turn and returns their times in the same order.
pub fn race(effort: Effort, contestants: &mut [&mut dyn FnMut()]) -> Vec<Times> {
    let mut calls: Vec<Vec<f64>> = vec![Vec::new(); contestants.len()];
    let mut bursts: Vec<Vec<f64>> = vec![Vec::new(); contestants.len()];
    for contestant in contestants.iter_mut() {
        contestant(); // warm caches and page tables
    }
    for round in 0..effort.rounds {
        for turn in 0..contestants.len() {
            let c = if round % 2 == 0 { turn } else { contestants.len() - 1 - turn };
            let contestant = &mut contestants[c];
            contestant(); // the one before has cooled the caches
            let start = Instant::now();
            let mut last = start;
            let mut count = 0_usize;
            while last.duration_since(start) < effort.burst || count == 0 {
                contestant();
                let now = Instant::now();
                calls[c].push(now.duration_since(last).as_secs_f64() * 1e6);
                last = now;
                count += 1;
            }
            bursts[c].push(low_quartile(&calls[c][calls[c].len() - count..]));
        }
    }
    calls.into_iter().zip(bursts).map(|(calls, bursts)| Times::of(calls, bursts)).collect()
}

impl Times {
    fn of(mut calls: Vec<f64>, bursts: Vec<f64>) -> Self {
        calls.sort_by(f64::total_cmp);
        let at = |share: f64| calls[((calls.len() - 1) as f64 * share).round() as usize];
        let best = bursts.iter().copied().fold(f64::INFINITY, f64::min);
        Self { best, p50: at(0.5), p99: at(0.99), bursts }
    }

    /// How many times longer than `other`: the median over rounds of the ratio within the round.
    #[must_use]
    pub fn ratio_to(&self, other: &Self) -> f64 {
        median(&self.bursts.iter().zip(&other.bursts).map(|(a, b)| a / b).collect::<Vec<_>>())
    }
}

/// A quarter of the values are smaller; the smallest of up to four.
fn low_quartile(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 4]
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_work_takes_about_twice_the_time() {
        let work = |n: u64| (0..n).fold(1.0_f64, |x, k| std::hint::black_box(x * 0.999 + k as f64));
        let effort = Effort { rounds: 20, burst: Duration::from_micros(300) };
        let mut once = || {
            std::hint::black_box(work(20_000));
        };
        let mut twice = || {
            std::hint::black_box(work(40_000));
        };
        let times = race(effort, &mut [&mut once, &mut twice]);
        let ratio = times[1].ratio_to(&times[0]);
        // A median of paired ratios; a loaded machine moves it by some percent, never by half.
        assert!((1.5..2.7).contains(&ratio), "{ratio}");
    }
}
