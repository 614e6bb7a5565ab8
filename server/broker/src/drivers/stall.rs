//! Whether a log's disk stands still.
//!
//! Owns the judgement: a failed disk says so, a stalled one says nothing, and nobody else can tell an operator why the producers
//! of a partition wait. It never ends anything: the disk may go on, and then all that was accepted is made lasting. Producers wait
//! for the safe end, so that it is what is watched: under write caching a log may be behind the disk for as long as it is set to.

use std::cell::Cell;
use std::time::Duration;

use partition::LogProgress;
use record::Offset;

/// A disk answers within milliseconds, one that others use or that is throttled within a second or two.
pub(crate) const STALL: Duration = Duration::from_secs(5);

/// What changed with a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StallChange {
    /// Nothing has become lasting for so long, though something waits.
    Began(Duration),
    /// Something became lasting again, after so long.
    Ended(Duration),
}

/// What was seen of one log.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    safe_end: Cell<Offset>,
    /// Since when something waits and nothing moved.
    waits_since: Cell<Option<Duration>>,
    is_stalled: Cell<bool>,
}

impl StallWatch {
    /// Whether the last look found a stall.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.get()
    }

    /// Looks at a log. One that has failed is none of this watch's: `log` is `None` then.
    pub(crate) fn look(&self, log: Option<LogProgress>, now: Duration) -> Option<StallChange> {
        let Some(log) = log else {
            self.waits_since.set(None);
            self.is_stalled.set(false);
            return None;
        };
        let has_moved = self.safe_end.replace(log.safe_end) != log.safe_end;
        let waits = log.safe_end < log.accepted;
        let waited = now.saturating_sub(self.waits_since.get().unwrap_or(now));
        if has_moved || !waits {
            self.waits_since.set(waits.then_some(now));
            return self.is_stalled.replace(false).then_some(StallChange::Ended(waited));
        }
        self.waits_since.set(Some(self.waits_since.get().unwrap_or(now)));
        let begins = waited >= STALL && !self.is_stalled.replace(true);
        begins.then_some(StallChange::Began(waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StallChange::{Began, Ended};

    const SECOND: Duration = Duration::from_secs(1);

    fn log(durable: i64, accepted: i64) -> Option<LogProgress> {
        let (durable, accepted) = (Offset(durable), Offset(accepted));
        let log_start = Offset::ZERO;
        Some(LogProgress { log_start, durable, safe_end: durable, written: accepted, accepted })
    }

    /// Looks at (durable, accepted) once a second.
    fn check(looks: &[((i64, i64), Option<StallChange>)]) {
        let watch = StallWatch::default();
        for (second, ((durable, accepted), expected)) in (0..).zip(looks) {
            let now = SECOND * second;
            assert_eq!(watch.look(log(*durable, *accepted), now), *expected, "second {second}");
        }
    }

    #[test]
    fn a_log_stalls_when_something_waits_and_nothing_becomes_lasting() {
        let quiet = ((0, 1), None);
        let began = ((0, 1), Some(Began(SECOND * 5)));
        check(&[
            quiet,
            quiet,
            quiet,
            quiet,
            quiet,
            began,
            quiet,
            ((1, 1), Some(Ended(SECOND * 7))),
        ]);
        // Some of it became lasting: slow, not stalled.
        check(&[((0, 9), None), ((1, 9), None), ((2, 9), None), ((3, 9), None), ((4, 9), None)]);
        // Nothing waits, for however long.
        check(&[((7, 7), None); 20]);
        // What waited became lasting, and later something else waits: that is a time of its own.
        let idle = ((1, 1), None);
        let later = ((1, 2), None);
        check(&[quiet, quiet, idle, idle, idle, idle, idle, later, later, later]);
    }

    #[test]
    fn under_write_caching_nobody_waits_for_the_sync() {
        let watch = StallWatch::default();
        let behind = log(0, 9).map(|log| LogProgress { safe_end: Offset(9), ..log });
        for second in 0..20 {
            assert_eq!(watch.look(behind, SECOND * second), None);
        }
    }

    #[test]
    fn a_log_that_failed_no_longer_waits() {
        let watch = StallWatch::default();
        watch.look(log(0, 1), Duration::ZERO);
        assert_eq!(watch.look(log(0, 1), STALL), Some(Began(STALL)));
        assert!(watch.is_stalled());
        assert_eq!(watch.look(None, STALL * 2), None);
        assert!(!watch.is_stalled());
    }
}
