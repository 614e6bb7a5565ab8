//! One line in a while about what may befall every log of a core at once.
//!
//! Owns the pace of one such line. It knows no clock: time is what its user was told last, and where nobody tells it the time, the
//! first line about a cause is the only one. What is not said is counted, and the next line gives the count.

use std::cell::{Cell, RefCell};

use record::Timestamp;

/// At most one line in this time about the same cause.
const INTERVAL_MS: u64 = 10_000;

/// The pace of a line about causes of a kind.
#[derive(Debug)]
pub(crate) struct LogPace<Cause> {
    last: RefCell<Option<(Cause, Timestamp)>>,
    unlogged: Cell<u64>,
}

impl<Cause> Default for LogPace<Cause> {
    fn default() -> Self {
        Self { last: RefCell::new(None), unlogged: Cell::new(0) }
    }
}

impl<Cause: PartialEq> LogPace<Cause> {
    /// It happened `count` times. Where a line about it is due, how many times it did since the last line, these included.
    pub(crate) fn due(&self, cause: Cause, now: Timestamp, count: u64) -> Option<u64> {
        let mut last = self.last.borrow_mut();
        self.unlogged.set(self.unlogged.get().saturating_add(count));
        // A clock that jumps back must not silence it.
        let is_recent = |at: Timestamp| now.0.abs_diff(at.0) < INTERVAL_MS;
        if last.as_ref().is_some_and(|(known, at)| *known == cause && is_recent(*at)) {
            return None;
        }
        *last = Some((cause, now));
        Some(self.unlogged.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_at_once_and_then_once_an_interval_with_a_count() {
        let pace = LogPace::default();
        let due = |cause, now, count| pace.due(cause, Timestamp(now), count);
        assert_eq!(due("full", 5, 3), Some(3));
        assert_eq!([due("full", 6, 2), due("full", 10_004, 1)], [None, None]);
        assert_eq!(due("full", 10_005, 1), Some(4));
        assert_eq!(due("files", 10_006, 1), Some(1), "another cause");
        assert_eq!(due("files", 5, 1), Some(1), "a clock that jumps back");
    }
}
