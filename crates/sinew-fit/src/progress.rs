//! How a long fit tells where it is.

/// Hears about the stages of a fit. Calls come from one thread at a time per stage, in order.
pub trait Progress: Sync {
    /// A stage begins; `steps` is how many [`Progress::step`]s it will make, 0 if it cannot say.
    fn stage(&self, name: &str, steps: usize);
    /// One step of the stage is done.
    fn step(&self);
    /// Something worth a line: a part that is finished, with its figure.
    fn note(&self, _words: &str) {}
}

/// Says nothing.
pub struct Quiet;

impl Progress for Quiet {
    fn stage(&self, _name: &str, _steps: usize) {}
    fn step(&self) {}
}
