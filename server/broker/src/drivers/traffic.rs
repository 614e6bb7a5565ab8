//! What goes in and out of one partition, and how much of late.
//!
//! Owns the counts and the rate. Counting is an addition; the rate is worked out by whoever asks, over the time since somebody
//! last asked, so that a partition that nobody asks about costs nothing more.

use std::cell::Cell;
use std::time::Duration;

/// A rate is over this much at least: two who ask one after the other get the same.
const RATE_TIME_MIN: Duration = Duration::from_millis(500);

/// The traffic of one partition since it was opened.
#[derive(Debug)]
pub(crate) struct Traffic {
    in_bytes: Cell<u64>,
    in_batches: Cell<u64>,
    out_bytes: Cell<u64>,
    out_reads: Cell<u64>,
    seen: Cell<Seen>,
}

/// What was there when somebody asked.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Duration,
    bytes: u64,
    rate: u64,
}

/// The counts of a partition at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrafficCounts {
    /// Bytes of batches appended.
    pub in_bytes: u64,
    /// Batches appended.
    pub in_batches: u64,
    /// Bytes of batches read by consumers.
    pub out_bytes: u64,
    /// Reads that found any.
    pub out_reads: u64,
}

impl Traffic {
    /// Nothing yet, at that monotonic time.
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            in_bytes: Cell::default(),
            in_batches: Cell::default(),
            out_bytes: Cell::default(),
            out_reads: Cell::default(),
            seen: Cell::new(Seen { at: now, bytes: 0, rate: 0 }),
        }
    }

    /// A batch was appended.
    pub(crate) fn count_in(&self, bytes: usize) {
        add(&self.in_bytes, bytes as u64);
        add(&self.in_batches, 1);
    }

    /// Batches were read.
    pub(crate) fn count_out(&self, bytes: usize) {
        add(&self.out_bytes, bytes as u64);
        add(&self.out_reads, 1);
    }

    /// The counts.
    pub(crate) fn counts(&self) -> TrafficCounts {
        TrafficCounts {
            in_bytes: self.in_bytes.get(),
            in_batches: self.in_batches.get(),
            out_bytes: self.out_bytes.get(),
            out_reads: self.out_reads.get(),
        }
    }

    /// Bytes a second, in and out, since it was last asked half a second or more ago.
    pub(crate) fn rate(&self, now: Duration) -> u64 {
        let seen = self.seen.get();
        let time = now.saturating_sub(seen.at);
        if time < RATE_TIME_MIN {
            return seen.rate;
        }
        let bytes = self.in_bytes.get().wrapping_add(self.out_bytes.get());
        let moved = u128::from(bytes.wrapping_sub(seen.bytes)) * 1_000_000;
        let rate = u64::try_from(moved / time.as_micros()).unwrap_or(u64::MAX);
        self.seen.set(Seen { at: now, bytes, rate });
        rate
    }
}

fn add(count: &Cell<u64>, by: u64) {
    count.set(count.get().wrapping_add(by));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_the_time_since_it_was_asked_for_and_stays_for_half_a_second() {
        let at = Duration::from_millis;
        let traffic = Traffic::new(at(1_000));
        traffic.count_in(4_000);
        traffic.count_out(1_000);
        assert_eq!(traffic.rate(at(1_100)), 0, "too early to say");
        assert_eq!(traffic.rate(at(2_000)), 5_000);
        traffic.count_in(70_000);
        assert_eq!(traffic.rate(at(2_499)), 5_000, "asked by another a moment before");
        assert_eq!(traffic.rate(at(4_000)), 35_000);
        assert_eq!(traffic.rate(at(5_000)), 0, "nothing since");
        let counts =
            TrafficCounts { in_bytes: 74_000, in_batches: 2, out_bytes: 1_000, out_reads: 1 };
        assert_eq!(traffic.counts(), counts);
    }
}
