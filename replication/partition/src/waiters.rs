//! Who waits on a partition: producers for their acknowledgement, consumers for the next visible record.
//!
//! Owns the two bounded waiting lists. They decide nothing: the leader says how far each gate has moved, the lists hand back
//! who is through, who is late, and who is left when the partition ends.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use record::Offset;

use crate::{Effect, EndReason, Isolation};

/// Produce requests that may wait on one partition; beyond it new ones are refused before they are appended.
pub const PRODUCE_WAITERS_MAX: usize = 65_536;
/// Fetch requests that may be parked on one partition; beyond it a fetch is answered at once with what is there.
pub const FETCH_WAITERS_MAX: usize = 65_536;

/// The caller's name for a waiter; unique among those waiting on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterToken(pub u64);

/// How safe a batch must be before its producer is answered. `acks=0` waits for nothing and is never seen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// `acks=1`: on the leader's stable storage.
    Leader,
    /// `acks=-1`: on that of every in-sync replica.
    InSync,
}

/// Whether the request appended, or met its own earlier self.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The batch was appended by this request.
    Now,
    /// The batch is a retry of one that is here already (ID-2): it waits for the high watermark whatever its acks.
    Before,
}

/// A producer that waits for its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceWaiter {
    /// The caller's name for it.
    pub token: WaiterToken,
    /// What it waits for.
    pub acks: Acks,
    /// Whether it appended.
    pub written: Written,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Monotonic time after which it is answered as timed out.
    pub deadline: Duration,
}

/// A consumer that has seen everything below `seen_end` and waits for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchWaiter {
    /// The caller's name for it.
    pub token: WaiterToken,
    /// Which end it reads to.
    pub isolation: Isolation,
    /// The upper bound of the [`crate::ReadView`] it was answered from.
    pub seen_end: Offset,
}

/// How a produce request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProduceOutcome {
    /// As safe as it asked for.
    Acked,
    /// Not within its time; the records stay and may still become safe (7).
    TimedOut,
    /// The high watermark passed it, but fewer replicas than the minimum are in sync now (20).
    NotEnoughReplicasAfterAppend {
        /// Replicas in sync.
        in_sync: u16,
        /// The minimum.
        minimum: u16,
    },
    /// Too many wait already; the records stay and may still become safe (7).
    WaitersFull,
    /// The partition ended first.
    Ended(EndReason),
}

/// One gate's producers, ordered by the offset they wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProduceQueue {
    /// Ascending by `last_offset`. Appends arrive in that order; only duplicates are inserted further to the front.
    waiting: VecDeque<ProduceWaiter>,
    /// No waiter is due before this: exact after a sweep, a lower bound between two.
    earliest_deadline: Option<Duration>,
}

impl ProduceQueue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn earliest_deadline(&self) -> Option<Duration> {
        self.earliest_deadline
    }

    pub(crate) fn push(&mut self, waiter: ProduceWaiter) {
        let position =
            self.waiting.partition_point(|other| other.last_offset <= waiter.last_offset);
        self.waiting.insert(position, waiter);
        self.earliest_deadline = Some(match self.earliest_deadline {
            Some(earliest) => earliest.min(waiter.deadline),
            None => waiter.deadline,
        });
    }

    /// Lets everyone go whose last record lies below `end`, in order of offset.
    pub(crate) fn pass(&mut self, end: Offset, outcome: ProduceOutcome, out: &mut Vec<Effect>) {
        while let Some(waiter) = self.waiting.front() {
            if waiter.last_offset >= end {
                break;
            }
            out.push(Effect::CompleteProduce { token: waiter.token, outcome });
            self.waiting.pop_front();
        }
        if self.waiting.is_empty() {
            self.earliest_deadline = None;
        }
    }

    /// Lets everyone go whose time is over. Cost: a walk of the queue, but only when `earliest_deadline` has passed.
    pub(crate) fn expire(&mut self, now: Duration, out: &mut Vec<Effect>) {
        if self.earliest_deadline.is_none_or(|earliest| now < earliest) {
            return;
        }
        let mut earliest: Option<Duration> = None;
        self.waiting.retain(|waiter| {
            if waiter.deadline <= now {
                let outcome = ProduceOutcome::TimedOut;
                out.push(Effect::CompleteProduce { token: waiter.token, outcome });
                return false;
            }
            earliest =
                Some(earliest.map_or(waiter.deadline, |earliest| earliest.min(waiter.deadline)));
            true
        });
        self.earliest_deadline = earliest;
    }

    pub(crate) fn fail_all(&mut self, reason: EndReason, out: &mut Vec<Effect>) {
        let outcome = ProduceOutcome::Ended(reason);
        for waiter in self.waiting.drain(..) {
            out.push(Effect::CompleteProduce { token: waiter.token, outcome });
        }
        self.earliest_deadline = None;
    }

    /// Asserts order, and that nobody waits who could have gone.
    pub(crate) fn check(&self, passed_end: Offset) {
        assert!(self.waiting.front().is_none_or(|waiter| passed_end <= waiter.last_offset));
        assert!(self.waiting.iter().is_sorted_by_key(|waiter| waiter.last_offset));
        for waiter in &self.waiting {
            assert!(self.earliest_deadline.is_some_and(|earliest| earliest <= waiter.deadline));
        }
    }
}

/// The parked fetches of one partition. Their deadlines belong to the request, which spans partitions.
#[derive(Debug, Clone, Default)]
pub(crate) struct FetchList {
    waiting: BTreeMap<WaiterToken, FetchWaiter>,
}

impl FetchList {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn insert(&mut self, waiter: FetchWaiter) {
        self.waiting.insert(waiter.token, waiter);
    }

    pub(crate) fn remove(&mut self, token: WaiterToken) {
        self.waiting.remove(&token);
    }

    /// Wakes everyone whose end has moved past what they have seen: one effect for all of them.
    pub(crate) fn wake(&mut self, end_of: impl Fn(Isolation) -> Offset, out: &mut Vec<Effect>) {
        let mut tokens = Vec::new();
        self.waiting.retain(|token, waiter| {
            let stays = end_of(waiter.isolation) <= waiter.seen_end;
            if !stays {
                tokens.push(*token);
            }
            stays
        });
        if !tokens.is_empty() {
            out.push(Effect::WakeFetches { tokens });
        }
    }

    pub(crate) fn wake_all(&mut self, out: &mut Vec<Effect>) {
        if self.waiting.is_empty() {
            return;
        }
        let tokens = core::mem::take(&mut self.waiting).into_keys().collect();
        out.push(Effect::WakeFetches { tokens });
    }

    /// Asserts that nobody waits who could have been woken.
    pub(crate) fn check(&self, end_of: impl Fn(Isolation) -> Offset) {
        for (token, waiter) in &self.waiting {
            assert_eq!(*token, waiter.token);
            assert!(end_of(waiter.isolation) <= waiter.seen_end);
        }
    }
}
