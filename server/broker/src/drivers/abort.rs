//! A panic inside a core's step ends the process.
//!
//! Owns the guard that says so. A core that panicked half-way may hold a state that was never checked; serving it could lose or
//! invent acknowledged records, and a restart from the log cannot.

/// While this is alive, a panic of this thread ends the process.
#[derive(Debug)]
pub(crate) struct AbortOnPanic(&'static str);

impl AbortOnPanic {
    /// Guards the steps of `core`.
    #[must_use]
    pub(crate) fn new(core: &'static str) -> Self {
        Self(core)
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                core = self.0,
                "a core panicked: its state cannot be trusted, aborting"
            );
            std::process::abort();
        }
    }
}
