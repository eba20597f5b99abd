//! Ctrl-C: the first asks long work to stop and keep what is finished, the second ends the program.
//!
//! The C library is there already, and one call of it is all we need; a crate for it would be one more to trust.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

/// The flag that Ctrl-C sets, from the first call on. Where signals are not those of Unix, Ctrl-C ends the program.
pub fn flag() -> &'static AtomicBool {
    #[cfg(unix)]
    unix::listen();
    &STOP
}

#[cfg(unix)]
mod unix {
    use super::{Ordering, STOP};

    const SIGINT: i32 = 2;
    /// The system's own reaction: end the program.
    const DEFAULT: usize = 0;

    unsafe extern "C" {
        /// `sighandler_t signal(int signum, sighandler_t handler)` of the C library; a handler is an address.
        fn signal(number: i32, handler: usize) -> usize;
    }

    pub fn listen() {
        let handler: extern "C" fn(i32) = stop;
        // SAFETY: `signal` takes a signal that exists and the address of a function with the signature it expects,
        // which lives as long as the program.
        unsafe { signal(SIGINT, handler as usize) };
    }

    /// Runs in the middle of whatever the program does, so it only sets a flag and hands the next Ctrl-C to the system.
    extern "C" fn stop(_number: i32) {
        STOP.store(true, Ordering::Relaxed);
        // SAFETY: `signal` may be called within a handler (POSIX lists it as safe there), with a signal that exists and
        // the system's own handler.
        unsafe { signal(SIGINT, DEFAULT) };
    }
}
