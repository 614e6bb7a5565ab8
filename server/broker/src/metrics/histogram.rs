//! Counts of durations by size.
//!
//! Owns the bounds: two and a half steps a decade from 50 µs, below which a loopback round trip cannot be, to 30 s, where
//! clients give up. Fixed bounds let the cores' counts be added.

use std::time::Duration;

/// The upper bounds, in microseconds; one more bucket has none.
pub const BUCKET_BOUNDS_US: [u64; 18] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000,
];

/// Counts by bucket, and their sum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKET_BOUNDS_US.len() + 1],
    total_ns: u64,
}

impl Histogram {
    /// One more of that duration. A duration on a bound belongs to it.
    pub fn record(&mut self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKET_BOUNDS_US.partition_point(|bound_us| bound_us * 1_000 < time_ns);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.total_ns = self.total_ns.saturating_add(time_ns);
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        for (count, others) in self.counts.iter_mut().zip(other.counts) {
            *count += others;
        }
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }

    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total_ns)
    }

    /// How many are at most each bound, ascending; the last, without a bound, is [`Histogram::count`].
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut sum = 0;
        BUCKET_BOUNDS_US.iter().zip(&self.counts).map(move |(bound_us, count)| {
            sum += count;
            (*bound_us, sum)
        })
    }
}
