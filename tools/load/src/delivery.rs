//! From when a request was due to when a consumer had its batch: two halves that meet, whichever comes first.
//!
//! ```text
//!   acked(place, offset, due) ──┐
//!                               ├─ the same place and offset ─► record(due, arrival), once for each consumer
//!   arrived(place, offset, at) ─┘
//! ```
//!
//! Owns the bound on what waits for its other half. It reads no clock: instants are arguments.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// A batch of which one half is missing, or some consumers.
#[derive(Debug)]
struct Open {
    /// When it was due; `None` before it is acknowledged.
    due: Option<Duration>,
    /// When consumers had it that were faster than the acknowledgement.
    early: Vec<Duration>,
    /// Consumers that have not got it.
    consumers_left: u32,
}

/// The batches under way to consumers.
#[derive(Debug)]
pub(crate) struct Deliveries {
    consumers: u32,
    /// By the partition's place in the run, and the base offset.
    open: BTreeMap<(usize, i64), Open>,
    open_max: usize,
    /// Of them, those that are acknowledged.
    waiting: usize,
    untaken: u64,
}

impl Deliveries {
    /// To so many consumers; at most `open_max` batches wait for something.
    pub(crate) fn new(consumers: u32, open_max: usize) -> Self {
        Self { consumers, open: BTreeMap::new(), open_max, waiting: 0, untaken: 0 }
    }

    /// A batch was acknowledged; `record` is called with both instants for each consumer that has it already.
    pub(crate) fn acked(
        &mut self,
        place: usize,
        offset: i64,
        due: Duration,
        mut record: impl FnMut(Duration, Duration),
    ) {
        let Some(open) = self.open((place, offset)) else { return };
        if open.due.replace(due).is_some() {
            return;
        }
        let early = std::mem::take(&mut open.early);
        let is_done = open.consumers_left == 0;
        self.waiting += 1;
        for arrival in early {
            record(due, arrival);
        }
        if is_done {
            self.close((place, offset));
        }
    }

    /// A consumer has a batch; `record` is called with both instants where it is acknowledged.
    pub(crate) fn arrived(
        &mut self,
        place: usize,
        offset: i64,
        at: Duration,
        record: impl FnOnce(Duration, Duration),
    ) {
        let Some(open) = self.open((place, offset)) else { return };
        if open.consumers_left == 0 {
            // It came twice to somebody: that is the reader's finding.
            return;
        }
        open.consumers_left -= 1;
        match open.due {
            Some(due) => {
                let is_done = open.consumers_left == 0;
                record(due, at);
                if is_done {
                    self.close((place, offset));
                }
            }
            None => open.early.push(at),
        }
    }

    /// A consumer goes on behind these offsets, which are gone from the log: it gets no batch of them.
    pub(crate) fn skipped(&mut self, place: usize, offsets: Range<i64>) {
        let open = self.open.range_mut((place, offsets.start)..(place, offsets.end));
        let mut done = Vec::new();
        for (key, open) in open {
            open.consumers_left = open.consumers_left.saturating_sub(1);
            if open.consumers_left == 0 && open.due.is_some() {
                done.push(*key);
            }
        }
        done.into_iter().for_each(|key| self.close(key));
    }

    /// The batches that are acknowledged and not with every consumer: when each was due, and how many consumers lack it.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = (Duration, u64)> {
        let open = self.open.values();
        open.filter_map(|open| Some((open.due?, u64::from(open.consumers_left))))
    }

    /// Whether every batch that was acknowledged is with every consumer.
    pub(crate) fn is_settled(&self) -> bool {
        self.waiting == 0
    }

    /// The first batch that was acknowledged and is not with every consumer, and how many those are.
    pub(crate) fn missing(&self) -> Option<(usize, i64, usize)> {
        let missing = self.open.iter().find(|(_, open)| open.due.is_some());
        missing.map(|((place, offset), _)| (*place, *offset, self.waiting))
    }

    /// Halves that found no room to wait: a batch that is not followed may be told twice, as acknowledged and as come.
    pub(crate) fn untaken(&self) -> u64 {
        self.untaken
    }

    fn open(&mut self, key: (usize, i64)) -> Option<&mut Open> {
        if self.open.len() >= self.open_max && !self.open.contains_key(&key) {
            self.untaken += 1;
            return None;
        }
        let consumers_left = self.consumers;
        let new = || Open { due: None, early: Vec::new(), consumers_left };
        Some(self.open.entry(key).or_insert_with(new))
    }

    fn close(&mut self, key: (usize, i64)) {
        self.open.remove(&key);
        self.waiting = self.waiting.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn both_halves_meet_in_either_order_once_for_each_consumer() {
        let mut deliveries = Deliveries::new(2, 10);
        let mut recorded = Vec::new();
        deliveries.arrived(0, 5, at(30), |due, arrival| recorded.push((due, arrival)));
        assert!(deliveries.is_settled(), "nothing is acknowledged yet");
        deliveries.acked(0, 5, at(10), |due, arrival| recorded.push((due, arrival)));
        assert!(!deliveries.is_settled());
        assert_eq!(deliveries.missing(), Some((0, 5, 1)));
        deliveries.arrived(0, 5, at(40), |due, arrival| recorded.push((due, arrival)));
        assert!(deliveries.is_settled());
        assert_eq!(recorded, [(at(10), at(30)), (at(10), at(40))]);
        assert!(deliveries.open.is_empty(), "it is forgotten");

        deliveries.arrived(1, 5, at(1), |_, _| {});
        deliveries.arrived(1, 5, at(2), |_, _| {});
        let mut count = 0;
        deliveries.acked(1, 5, at(0), |_, _| count += 1);
        assert_eq!((count, deliveries.is_settled(), deliveries.open.len()), (2, true, 0));
    }

    #[test]
    fn what_comes_twice_counts_once() {
        let mut deliveries = Deliveries::new(1, 10);
        let mut count = 0;
        deliveries.arrived(0, 5, at(1), |_, _| count += 1);
        deliveries.arrived(0, 5, at(2), |_, _| count += 1);
        deliveries.acked(0, 5, at(0), |_, _| count += 1);
        assert_eq!(count, 1);
        let mut other = Deliveries::new(2, 10);
        other.acked(0, 5, at(0), |_, _| count += 1);
        other.acked(0, 5, at(9), |_, _| count += 1);
        assert_eq!((count, other.missing()), (1, Some((0, 5, 1))));
    }

    #[test]
    fn what_a_consumer_skips_is_not_waited_for() {
        let mut deliveries = Deliveries::new(2, 10);
        for offset in [3, 5, 8] {
            deliveries.acked(0, offset, at(7), |_, _| {});
        }
        deliveries.arrived(0, 3, at(9), |_, _| {});
        deliveries.skipped(0, 3..8);
        assert_eq!(deliveries.missing(), Some((0, 5, 2)));
        let unsettled: Vec<_> = deliveries.unsettled().collect();
        assert_eq!(unsettled, [(at(7), 1), (at(7), 2)]);
        deliveries.skipped(0, 0..9);
        deliveries.skipped(0, 8..9);
        assert!(deliveries.is_settled() && deliveries.open.is_empty());
    }

    #[test]
    fn what_waits_is_bounded_and_what_found_no_room_is_told() {
        let mut deliveries = Deliveries::new(1, 2);
        for offset in 0..5 {
            deliveries.acked(0, offset, at(0), |_, _| {});
        }
        assert_eq!((deliveries.untaken(), deliveries.missing()), (3, Some((0, 0, 2))));
        deliveries.arrived(0, 0, at(1), |_, _| {});
        deliveries.arrived(0, 1, at(1), |_, _| {});
        assert!(deliveries.is_settled());
    }
}
