//! One line in a while about what may happen often.
//!
//! Owns the pace of one such line. Whoever logs it counts every event in a metric: a flood must not hide in silence, nor fill
//! the disk with lines.

use std::cell::Cell;
use std::time::Duration;

/// The pace of a line.
#[derive(Debug)]
pub(crate) struct LogPace {
    interval: Duration,
    logged_at: Cell<Option<Duration>>,
    unlogged: Cell<u64>,
}

impl LogPace {
    /// At most one line in `interval`.
    #[must_use]
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, logged_at: Cell::new(None), unlogged: Cell::new(0) }
    }

    /// Something happened. Where a line about it is due, how many others have gone without one since the last.
    pub(crate) fn due(&self, now: Duration) -> Option<u64> {
        let is_due = self.logged_at.get().is_none_or(|at| now.saturating_sub(at) >= self.interval);
        if !is_due {
            self.unlogged.set(self.unlogged.get() + 1);
            return None;
        }
        self.logged_at.set(Some(now));
        Some(self.unlogged.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_once_an_interval_and_says_how_many_did_not() {
        let pace = LogPace::new(Duration::from_secs(1));
        let due = |millis| pace.due(Duration::from_millis(millis));
        assert_eq!([due(5), due(6), due(1004)], [Some(0), None, None]);
        assert_eq!(
            [due(1005), due(2004), due(9000), due(99_000)],
            [Some(2), None, Some(1), Some(0)]
        );
    }
}
