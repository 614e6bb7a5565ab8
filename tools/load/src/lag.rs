//! How far a consumer may read that is to stay behind: what was acknowledged so long ago, and no more.
//!
//! Owns the marks by which that is known, and the bound on them. It reads no clock: instants are arguments.

use std::collections::VecDeque;
use std::time::Duration;

/// Marks in the time that a consumer stays behind: it moves on in steps of a part of that.
const MARKS: u32 = 32;

/// Where each partition's acknowledged records ended, now and then.
#[derive(Debug)]
pub(crate) struct Lag {
    behind: Duration,
    ends: Vec<i64>,
    /// Ascending by instant.
    marks: VecDeque<(Duration, Vec<i64>)>,
    /// What is old enough.
    limits: Vec<i64>,
}

impl Lag {
    /// Of partitions that ended at `starts` when the run began, and consumers that stay so long behind.
    pub(crate) fn new(starts: &[i64], behind: Duration) -> Self {
        Self { behind, ends: starts.to_vec(), marks: VecDeque::new(), limits: starts.to_vec() }
    }

    /// Between two looks at the limits.
    pub(crate) fn step(&self) -> Duration {
        self.behind / MARKS
    }

    /// A batch with this offset was acknowledged at `now`.
    pub(crate) fn acked(&mut self, place: usize, offset: i64, now: Duration) {
        if let Some(end) = self.ends.get_mut(place) {
            *end = offset.saturating_add(1).max(*end);
        }
        let is_due = self.marks.back().is_none_or(|(last, _)| now >= *last + self.step());
        if is_due {
            self.marks.push_back((now, self.ends.clone()));
        }
    }

    /// Up to which offset a partition may be read at `now`.
    pub(crate) fn limit(&mut self, place: usize, now: Duration) -> i64 {
        while let Some((instant, _)) = self.marks.front()
            && *instant + self.behind <= now
        {
            self.limits = self.marks.pop_front().map(|(_, ends)| ends).unwrap_or_default();
        }
        self.limits.get(place).copied().unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_consumer_may_read_what_is_old_enough_and_no_more() {
        let mut lag = Lag::new(&[100, 200], at(3_200));
        assert_eq!(lag.step(), at(100));
        lag.acked(0, 100, at(1_000));
        lag.acked(0, 108, at(1_010));
        lag.acked(1, 200, at(1_150));
        assert_eq!((lag.limit(0, at(4_199)), lag.limit(1, at(4_199))), (100, 200));
        assert_eq!((lag.limit(0, at(4_200)), lag.limit(1, at(4_200))), (101, 200));
        assert_eq!((lag.limit(0, at(9_000)), lag.limit(1, at(9_000))), (109, 201));
    }

    #[test]
    fn marks_are_bounded_however_much_is_acknowledged() {
        let mut lag = Lag::new(&[0], at(3_200));
        for ms in 0..100_000 {
            lag.acked(0, i64::try_from(ms).unwrap(), at(ms));
            let limit = lag.limit(0, at(ms));
            let expected = i64::try_from(ms).unwrap() - 3_200;
            assert!(limit <= expected.max(0) + 1 && limit >= expected - 100, "{limit} {expected}");
            assert!(lag.marks.len() <= 33);
        }
    }
}
