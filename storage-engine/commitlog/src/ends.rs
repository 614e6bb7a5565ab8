//! How far a log has come: the one type that holds its ends.
//!
//! Owns the order of the ends. Only this module moves them, each only forwards, and [`Ends::check`] runs after every move.
//!
//! ```text
//! log_start ≤ durable ≤ written ≤ accepted
//!     │          │         │         └ offsets given out; the bytes are in memory
//!     │          │         └ the writes completed; a killed process keeps them, a power cut may not
//!     │          └ synced, and so is every byte below
//!     └ first offset that is still held
//! ```

use record::Offset;

/// Which end acknowledgements and visibility wait for (`write.caching`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SafeEnd {
    /// Stable storage: survives a power cut.
    #[default]
    Durable,
    /// The operating system: survives a killed process only.
    Written,
}

/// The ends of one log. Units: offsets; each end is one past the last offset it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    log_start: Offset,
    accepted: Offset,
    written: Offset,
    durable: Offset,
    safe_end: SafeEnd,
    /// What counted as safe when acknowledgements began to wait for stable storage again: that is not taken back.
    promised: Offset,
}

impl Ends {
    /// The ends of a log that recovery left at `end`: everything it holds is durable.
    #[must_use]
    pub fn recovered(log_start: Offset, end: Offset, safe_end: SafeEnd) -> Self {
        let ends =
            Self { log_start, accepted: end, written: end, durable: end, safe_end, promised: end };
        ends.check();
        ends
    }

    /// First offset that is still held.
    #[must_use]
    pub const fn log_start(&self) -> Offset {
        self.log_start
    }

    /// One past the last offset given out: the log end offset.
    #[must_use]
    pub const fn accepted(&self) -> Offset {
        self.accepted
    }

    /// One past the last offset whose write completed.
    #[must_use]
    pub const fn written(&self) -> Offset {
        self.written
    }

    /// One past the last offset that is on stable storage together with all before it.
    #[must_use]
    pub const fn durable(&self) -> Offset {
        self.durable
    }

    /// The end that acknowledgements and visibility use. It never goes back, whichever end it is taken from.
    #[must_use]
    pub fn safe_end(&self) -> Offset {
        match self.safe_end {
            SafeEnd::Durable => self.durable.max(self.promised),
            SafeEnd::Written => self.written,
        }
    }

    /// Which end that is.
    #[must_use]
    pub const fn safe_end_kind(&self) -> SafeEnd {
        self.safe_end
    }

    /// Asserts the order of the ends.
    pub fn check(&self) {
        assert!(Offset::ZERO <= self.log_start);
        assert!(self.log_start <= self.durable);
        assert!(self.durable <= self.written);
        assert!(self.written <= self.accepted);
        assert!(self.promised <= self.written);
    }

    pub(crate) fn accept(&mut self, end: Offset) {
        assert!(self.accepted < end);
        self.accepted = end;
        self.check();
    }

    pub(crate) fn write(&mut self, end: Offset) {
        assert!(self.written <= end);
        self.written = end;
        self.check();
    }

    pub(crate) fn sync(&mut self, end: Offset) {
        assert!(self.durable <= end);
        self.durable = end;
        self.check();
    }

    pub(crate) fn start_at(&mut self, offset: Offset) {
        assert!(self.log_start < offset);
        self.log_start = offset;
        self.check();
    }

    pub(crate) fn set_safe_end(&mut self, safe_end: SafeEnd) {
        self.promised = self.safe_end();
        self.safe_end = safe_end;
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Ends {
        Ends::recovered(Offset(5), Offset(10), SafeEnd::Durable)
    }

    #[test]
    fn ends_move_in_order() {
        let mut ends = fresh();
        ends.accept(Offset(20));
        ends.write(Offset(15));
        ends.sync(Offset(12));
        assert_eq!(ends.safe_end(), Offset(12));
        ends.set_safe_end(SafeEnd::Written);
        assert_eq!(ends.safe_end(), Offset(15));
        assert_eq!(
            (ends.log_start(), ends.durable(), ends.written(), ends.accepted()),
            (Offset(5), Offset(12), Offset(15), Offset(20))
        );
    }

    #[test]
    fn what_was_safe_stays_safe_when_acknowledgements_wait_for_the_disk_again() {
        let mut ends = fresh();
        ends.set_safe_end(SafeEnd::Written);
        ends.accept(Offset(20));
        ends.write(Offset(15));
        ends.set_safe_end(SafeEnd::Durable);
        ends.write(Offset(20));
        assert_eq!(ends.safe_end(), Offset(15));
        ends.sync(Offset(12));
        assert_eq!(ends.safe_end(), Offset(15));
        ends.sync(Offset(20));
        assert_eq!(ends.safe_end(), Offset(20));
    }

    #[test]
    #[should_panic(expected = "self.durable <= self.written")]
    fn a_sync_never_passes_its_write() {
        let mut ends = fresh();
        ends.accept(Offset(20));
        ends.sync(Offset(11));
    }

    #[test]
    #[should_panic(expected = "self.written <= self.accepted")]
    fn a_write_never_passes_what_was_accepted() {
        fresh().write(Offset(11));
    }

    #[test]
    #[should_panic(expected = "self.log_start <= self.durable")]
    fn the_log_start_never_passes_what_is_durable() {
        fresh().start_at(Offset(11));
    }

    #[test]
    #[should_panic(expected = "self.durable <= end")]
    fn the_durable_end_never_goes_back() {
        fresh().sync(Offset(9));
    }
}
