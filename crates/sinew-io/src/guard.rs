//! Readers that rest on other people's parsers get a thread of their own: should such a parser panic on a malformed file,
//! that is an error like any other, and its stack may be as large as the parser wants.

/// The name of the thread in which such a file is read. Programs may leave out its panics when they show panics: they
/// come back as errors that name the file.
pub const READER_THREAD: &str = "sinew reader";

/// Runs `read` with `stack` bytes of stack (which cost nothing until they are used); `None` if it panicked.
pub(crate) fn guarded<T: Send>(stack: usize, read: impl FnOnce() -> T + Send) -> std::io::Result<Option<T>> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(READER_THREAD.into()).stack_size(stack);
        Ok(thread.spawn_scoped(scope, read)?.join().ok())
    })
}
