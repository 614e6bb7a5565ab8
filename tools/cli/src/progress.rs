//! Progress of long work, on a terminal, once it has taken a while.
//!
//! Owns the bar on standard error. Where standard error is no terminal nothing is shown, and where data goes to the same
//! terminal the bar steps aside for it.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long work may take before it is shown: a bar for less would only flicker.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// How many bytes are done.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    /// Progress towards `bytes`, or just onwards where nobody knows how many there are.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        let started = Instant::now();
        if !io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::hidden();
        let template = match bytes {
            Some(bytes) => {
                bar.set_length(bytes);
                "{bytes} of {total_bytes} {wide_bar} {bytes_per_sec}, {eta} left"
            }
            None => "{bytes} {spinner} {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar: Some(bar), started }
    }

    /// Nothing to look at.
    pub(crate) fn hidden() -> Self {
        Self { bar: None, started: Instant::now() }
    }

    /// Runs `print`, whose lines must not land in the middle of the bar.
    pub(crate) fn beside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) if !bar.is_hidden() => bar.suspend(print),
            _ => print(),
        }
    }

    /// So many more are done.
    pub(crate) fn add(&self, bytes: u64) {
        let Some(bar) = &self.bar else { return };
        if bar.is_hidden() && self.started.elapsed() > SHOWN_AFTER {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.inc(bytes);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
