//! How long the program has computed.

/// Processor seconds of all threads of this program so far.
pub fn seconds() -> f64 {
    cpu_time::ProcessTime::try_now().map_or(0.0, |time| time.as_duration().as_secs_f64())
}
