//! Where the time of requests goes, stage by stage.
//!
//! Owns the stages and their histograms. A stage ends where the next one begins, so a request costs one look at the clock a
//! stage, and where it has one already, none. Bounds double from 1 µs, below which no clock here tells anything apart, to 4 s:
//! finding a bucket is a count of leading zeros.
//!
//! ```text
//! first byte ─ read ─ whole ─ queue ─ its turn ─ decode ─ parsed ─ append ─ has its place ─ sync ─ acknowledged
//!                                                                            answers given to the socket ─ send ─ taken by it
//! ```

use std::time::Duration;

use super::{Metric, MetricKind, MetricUnit};

/// Bounds of a stage's histogram; one more bucket has none.
pub const STAGE_BOUNDS_COUNT: usize = 23;

/// The time of stages.
pub(crate) const STAGES: Metric = Metric {
    name: "corelog_stage_seconds",
    kind: MetricKind::Histogram,
    unit: MetricUnit::Seconds,
    labels: &["core", "stage"],
    help: "Time of requests by stage. read: from its first bytes to its last, 0 where it came in one piece. queue: until its turn comes, behind those before it and for memory. Of a Produce also decode: taking it apart; append: checking batches, giving them their places, handing what others own to them; sync: until all is as safe as acks asks. send: from when answers are given to the socket until it has taken them, once for all that leave together.",
};

/// A part of a request's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From its first bytes to its last.
    Read,
    /// Until its turn comes.
    Queue,
    /// A Produce is taken apart.
    Decode,
    /// Its batches get their places.
    Append,
    /// They become safe.
    Sync,
    /// Answers leave.
    Send,
}

impl Stage {
    /// All, in their order.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Queue, Self::Decode, Self::Append, Self::Sync, Self::Send];

    /// Its name in the label `stage`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Queue => "queue",
            Self::Decode => "decode",
            Self::Append => "append",
            Self::Sync => "sync",
            Self::Send => "send",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Times {
    counts: [u64; STAGE_BOUNDS_COUNT + 1],
    total_ns: u64,
}

/// The histograms of all stages of one core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageTimes([Times; Stage::ALL.len()]);

impl StageTimes {
    /// One more of that stage.
    pub fn record(&mut self, stage: Stage, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let Some(times) = self.0.get_mut(stage as usize) else { return };
        if let Some(count) = times.counts.get_mut(bucket_of(time_ns)) {
            *count += 1;
        }
        times.total_ns = times.total_ns.saturating_add(time_ns);
    }

    /// How many of that stage took at most each bound, in microseconds and ascending.
    pub fn cumulative(&self, stage: Stage) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut sum = 0;
        self.0[stage as usize].counts.iter().take(STAGE_BOUNDS_COUNT).enumerate().map(
            move |(bucket, count)| {
                sum += count;
                (1 << bucket, sum)
            },
        )
    }

    /// How many there were of that stage.
    #[must_use]
    pub fn count(&self, stage: Stage) -> u64 {
        self.0[stage as usize].counts.iter().sum()
    }

    /// Their sum, in nanoseconds.
    #[must_use]
    pub(super) fn total_ns(&self, stage: Stage) -> u64 {
        self.0[stage as usize].total_ns
    }
}

/// The bucket whose bound, 1 µs doubled so many times, is the first that the time does not pass.
fn bucket_of(time_ns: u64) -> usize {
    let below = time_ns.div_ceil(1_000).saturating_sub(1);
    let doublings = (u64::BITS - below.leading_zeros()) as usize;
    doublings.min(STAGE_BOUNDS_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_the_first_bucket_whose_bound_it_does_not_pass() {
        for (time_ns, bucket) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (2_001, 2),
            (4_194_304_000, 22),
            (4_194_304_001, 23),
            (u64::MAX, 23),
        ] {
            assert_eq!(bucket_of(time_ns), bucket, "{time_ns}");
        }
        let mut times = StageTimes::default();
        times.record(Stage::Sync, Duration::from_micros(3));
        times.record(Stage::Sync, Duration::from_secs(60));
        let cumulative: Vec<_> = times.cumulative(Stage::Sync).collect();
        assert_eq!(cumulative[..3], [(1, 0), (2, 0), (4, 1)]);
        assert_eq!(cumulative.last(), Some(&(4_194_304, 1)));
        assert_eq!(times.count(Stage::Sync), 2);
        assert_eq!(times.count(Stage::Send), 0);
    }
}
