//! One replica in the leader role: what may be appended, how far the high watermark goes, who is told.
//!
//! Owns the high watermark (R1), the in-sync set's count, the waiters and the read view. The log itself is the caller's: the
//! leader learns of it by [`LogProgress`]. It never answers before a batch is as safe as its producer asked for, and never
//! shows a record above the high watermark.
//!
//! ```text
//! log_start ≤ high_watermark ≤ safe_end ≤ accepted         durable ≤ safe_end ≤ written ≤ accepted
//! acks=1  goes when last_offset < safe_end                  acks=-1 and every duplicate when last_offset < high_watermark
//! effects of one step, in order: HighWatermark, CompleteProduce by gate and offset, WakeFetches
//! ```

use alloc::vec::Vec;
use core::time::Duration;

use record::{LeaderEpoch, Offset, ProducerId};

use crate::waiters::{FetchList, ProduceQueue};
use crate::{
    Acks, Attempt, Duplicate, FETCH_WAITERS_MAX, FetchWaiter, Mutant, PRODUCE_WAITERS_MAX,
    ProduceOutcome, ProduceWaiter, Producers, SequenceRefusal, Verdict, WaiterToken, Written,
};

/// The ends of the log, as its keeper reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogProgress {
    /// First offset that is still there.
    pub log_start: Offset,
    /// One past the last record on stable storage.
    pub durable: Offset,
    /// What acks, the high watermark and visibility go by: `durable`, or `written` under write caching.
    pub safe_end: Offset,
    /// One past the last record whose write has completed.
    pub written: Offset,
    /// One past the last record that has an offset: Kafka's log end.
    pub accepted: Offset,
}

impl LogProgress {
    /// Everything up to `end` is on stable storage: a log just recovered, or empty.
    #[must_use]
    pub fn settled(log_start: Offset, end: Offset) -> Self {
        Self { log_start, durable: end, safe_end: end, written: end, accepted: end }
    }

    fn check(&self) {
        assert!(self.log_start <= self.safe_end);
        assert!(self.durable <= self.safe_end);
        assert!(self.safe_end <= self.written);
        assert!(self.written <= self.accepted);
    }

    fn is_at_or_behind(&self, other: &Self) -> bool {
        self.log_start <= other.log_start
            && self.durable <= other.durable
            && self.safe_end <= other.safe_end
            && self.written <= other.written
            && self.accepted <= other.accepted
    }
}

/// How many replicas are in sync, this one included, and how many must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InSync {
    /// Members of the in-sync set.
    pub members: u16,
    /// `min.insync.replicas`, already capped by the number of replicas (PR-6).
    pub minimum: u16,
}

impl InSync {
    /// The only replica there is: the minimum is capped to it.
    pub const ALONE: Self = Self { members: 1, minimum: 1 };

    fn is_enough(self) -> bool {
        self.minimum <= self.members
    }
}

/// What a leadership begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderStart {
    /// The epoch of this leadership; appended batches carry it.
    pub epoch: LeaderEpoch,
    /// The log as it is now.
    pub log: LogProgress,
    /// The high watermark of the last checkpoint; clamped into the log, whose own recovery reports what is missing.
    pub checkpointed_high_watermark: Offset,
    /// The in-sync set.
    pub in_sync: InSync,
    /// The rule that a test has switched off.
    pub mutant: Mutant,
}

/// What a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// Everything below the high watermark.
    ReadUncommitted,
    /// Everything below the last stable offset.
    ReadCommitted,
}

/// Whether "the latest offset" has an answer yet (R10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latest {
    /// This one.
    Known(Offset),
    /// The high watermark has not reached the end that the log had when this leadership began (78, or 5 before v5).
    NotYet,
}

/// A transaction whose records a reader of committed data must drop. None exist until transactions are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Its producer.
    pub producer_id: ProducerId,
    /// Its first record in this partition.
    pub first_offset: Offset,
}

/// The one answer to "what may be seen": Fetch, ListOffsets and later share groups all go by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadView {
    /// One past the last committed record.
    pub high_watermark: Offset,
    /// First offset that an open transaction may still change; the high watermark where none is open.
    pub last_stable_offset: Offset,
    /// First offset that is still there.
    pub log_start: Offset,
    /// Where this reader must stop (exclusive).
    pub end: Offset,
    /// What to answer to "latest" for this reader.
    pub latest: Latest,
    /// Epoch of this leadership.
    pub leader_epoch: LeaderEpoch,
    /// Aborted transactions below `end`; empty until transactions are built.
    pub aborted: Vec<AbortedTransaction>,
}

/// Why a leadership ended, or stopped taking records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Another node or core leads, or nobody (6).
    LeadershipLost,
    /// The log is read-only after a failed write or sync (56).
    LogFailed,
    /// The disk is full: pending appends are gone (56).
    DiskFull,
    /// The topic is deleted (3, or 100 by id).
    Deleted,
    /// The node stops (6: clients look for the leader again).
    ShuttingDown,
}

/// Why nothing may be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    /// This replica does not take records any more.
    #[error("the partition takes no records: {0:?}")]
    Ended(EndReason),
    /// Too few replicas are in sync for acks=-1 (19).
    #[error("{in_sync} replicas in sync, min.insync.replicas is {minimum}")]
    NotEnoughReplicas {
        /// Replicas in sync.
        in_sync: u16,
        /// The minimum.
        minimum: u16,
    },
    /// Too many produce requests wait already; nothing was appended, the client should try again (6 or 7).
    #[error("{waiting} produce requests are waiting, {maximum} may")]
    Busy {
        /// Requests waiting.
        waiting: usize,
        /// The bound.
        maximum: usize,
    },
    /// The producer is out of line.
    #[error(transparent)]
    Sequence(#[from] SequenceRefusal),
}

/// The answer of [`Leader::decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendDecision {
    /// Append it now, before anything else happens to this partition.
    Append,
    /// Append nothing; wait with [`Written::Before`], then answer with these.
    Duplicate(Duplicate),
    /// Append nothing; answer this.
    Refuse(AppendRefusal),
}

/// Why nothing may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FetchRefusal {
    /// This replica does not serve any more.
    #[error("the partition is not served here: {0:?}")]
    Ended(EndReason),
    /// The client's leader epoch is older than ours (74).
    #[error("leader epoch {asked}: the current one is {current}")]
    Fenced {
        /// The client's.
        asked: LeaderEpoch,
        /// Ours.
        current: LeaderEpoch,
    },
    /// The client's leader epoch is newer than ours (75).
    #[error("leader epoch {asked} is not known here yet; the current one is {current}")]
    UnknownEpoch {
        /// The client's.
        asked: LeaderEpoch,
        /// Ours.
        current: LeaderEpoch,
    },
    /// The offset is below the log start or above the log end (1).
    #[error("offset {offset}: the log holds {log_start}..{log_end}")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// First offset held.
        log_start: Offset,
        /// One past the last offset held.
        log_end: Offset,
    },
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The log moved. A report that is wholly behind what is known already is ignored; one that is ahead at one end and
    /// behind at another is a bug and panics.
    Log(LogProgress),
    /// A produce request waits for its acknowledgement.
    Wait(ProduceWaiter),
    /// A fetch request waits for visible records.
    WaitFetch(FetchWaiter),
    /// A fetch request was answered or is gone.
    CancelFetch(WaiterToken),
    /// The in-sync set or its minimum changed.
    InSync(InSync),
    /// Nothing but time: [`Leader::next_deadline`] has passed.
    Time,
    /// No more records: fails all producers, wakes all consumers. After `LogFailed` and `DiskFull` reading goes on.
    End(EndReason),
}

/// What the caller must do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The high watermark is here now; keep it for the next checkpoint.
    HighWatermark(Offset),
    /// Answer a produce request.
    CompleteProduce {
        /// Which.
        token: WaiterToken,
        /// How it ended.
        outcome: ProduceOutcome,
    },
    /// Answer this fetch request with what is there, without parking it again: too many are parked.
    AnswerFetch {
        /// Which.
        token: WaiterToken,
    },
    /// Look again for these fetch requests. They are not waiting any more.
    WakeFetches {
        /// Which, ascending.
        tokens: Vec<WaiterToken>,
    },
}

/// A replica in the leader role.
#[derive(Debug, Clone)]
pub struct Leader {
    epoch: LeaderEpoch,
    log: LogProgress,
    high_watermark: Offset,
    /// The log's end when this leadership began (LESO).
    term_start: Offset,
    in_sync: InSync,
    ended: Option<EndReason>,
    /// Producers that wait for `safe_end`.
    for_safe_end: ProduceQueue,
    /// Producers that wait for the high watermark.
    for_high_watermark: ProduceQueue,
    fetches: FetchList,
    mutant: Mutant,
}

impl Leader {
    /// Begins a leadership. The high watermark is already as far as the in-sync set allows.
    #[must_use]
    pub fn new(start: &LeaderStart) -> Self {
        start.log.check();
        let checkpointed = start.checkpointed_high_watermark;
        let mut leader = Self {
            epoch: start.epoch,
            log: start.log,
            high_watermark: checkpointed.clamp(start.log.log_start, start.log.safe_end),
            term_start: start.log.accepted,
            in_sync: start.in_sync,
            ended: None,
            for_safe_end: ProduceQueue::default(),
            for_high_watermark: ProduceQueue::default(),
            fetches: FetchList::default(),
            mutant: start.mutant,
        };
        leader.high_watermark = leader.committed_end();
        leader
    }

    /// The epoch that appended batches carry.
    #[must_use]
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// One past the last committed record.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The log's ends as last reported.
    #[must_use]
    pub fn log(&self) -> &LogProgress {
        &self.log
    }

    /// Why no more records are taken, if so.
    #[must_use]
    pub fn ended(&self) -> Option<EndReason> {
        self.ended
    }

    /// Whether a request with these acks may append at all: the checks of RB-3 that come before the batch is looked at.
    pub fn admit(&self, acks: Option<Acks>) -> Result<(), AppendRefusal> {
        if let Some(reason) = self.ended {
            return Err(AppendRefusal::Ended(reason));
        }
        if acks == Some(Acks::InSync) && !self.in_sync.is_enough() {
            let InSync { members, minimum } = self.in_sync;
            return Err(AppendRefusal::NotEnoughReplicas { in_sync: members, minimum });
        }
        let waiting = self.produce_waiter_count();
        if acks.is_some() && waiting >= PRODUCE_WAITERS_MAX {
            return Err(AppendRefusal::Busy { waiting, maximum: PRODUCE_WAITERS_MAX });
        }
        Ok(())
    }

    /// Whether a validated batch comes next. `acks` is `None` for acks=0.
    ///
    /// Order   append, and [`Input::Wait`], in the same turn as this: nothing else may touch the partition in between.
    #[must_use]
    pub fn decide(
        &self,
        producers: &Producers,
        attempt: &Attempt,
        acks: Option<Acks>,
    ) -> AppendDecision {
        if let Err(refusal) = self.admit(acks) {
            return AppendDecision::Refuse(refusal);
        }
        match producers.decide(attempt) {
            Verdict::Append => AppendDecision::Append,
            Verdict::Duplicate(duplicate) => AppendDecision::Duplicate(duplicate),
            Verdict::Refuse(refusal) => AppendDecision::Refuse(refusal.into()),
        }
    }

    /// Whether a client that knows `asked` as the leader epoch speaks to the right leadership (FE-7; -1 is not checked).
    pub fn check_epoch(&self, asked: LeaderEpoch) -> Result<(), FetchRefusal> {
        match self.ended {
            // A log that only stopped taking records still answers for what it holds.
            None | Some(EndReason::LogFailed | EndReason::DiskFull) => {}
            Some(reason) => return Err(FetchRefusal::Ended(reason)),
        }
        let current = self.epoch;
        if asked == LeaderEpoch::NONE || asked == current {
            return Ok(());
        }
        if asked < current {
            return Err(FetchRefusal::Fenced { asked, current });
        }
        Err(FetchRefusal::UnknownEpoch { asked, current })
    }

    /// Whether a consumer may read at `offset`, and how far (FE-1, FE-7). Between the view's end and the log end there is
    /// nothing to see and no error.
    pub fn admit_fetch(
        &self,
        asked: LeaderEpoch,
        offset: Offset,
        isolation: Isolation,
    ) -> Result<ReadView, FetchRefusal> {
        self.check_epoch(asked)?;
        let (log_start, log_end) = (self.log.log_start, self.log.accepted);
        if offset < log_start || offset > log_end {
            return Err(FetchRefusal::OutOfRange { offset, log_start, log_end });
        }
        Ok(self.read_view(isolation))
    }

    /// What a reader may see now.
    #[must_use]
    pub fn read_view(&self, isolation: Isolation) -> ReadView {
        let end = self.end_of(isolation);
        let latest =
            if self.high_watermark < self.term_start { Latest::NotYet } else { Latest::Known(end) };
        ReadView {
            high_watermark: self.high_watermark,
            last_stable_offset: self.end_of(Isolation::ReadCommitted),
            log_start: self.log.log_start,
            end,
            latest,
            leader_epoch: self.epoch,
            aborted: Vec::new(),
        }
    }

    /// Takes in one event and appends what must be done to `out`. `now` is monotonic.
    pub fn step(&mut self, now: Duration, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Log(progress) => self.take_progress(progress, out),
            Input::Wait(waiter) => self.wait(waiter, out),
            Input::WaitFetch(waiter) => self.wait_fetch(waiter, out),
            Input::CancelFetch(token) => self.fetches.remove(token),
            Input::InSync(in_sync) => {
                self.in_sync = in_sync;
                self.advance(out);
            }
            Input::Time => {}
            Input::End(reason) => self.end(reason, out),
        }
        self.for_safe_end.expire(now, out);
        self.for_high_watermark.expire(now, out);
    }

    /// When to call [`Leader::step`] with [`Input::Time`] at the latest. May be early, never late.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let (safe, high) =
            (self.for_safe_end.earliest_deadline(), self.for_high_watermark.earliest_deadline());
        match (safe, high) {
            (Some(safe), Some(high)) => Some(safe.min(high)),
            (deadline, None) | (None, deadline) => deadline,
        }
    }

    /// Produce requests that wait.
    #[must_use]
    pub fn produce_waiter_count(&self) -> usize {
        self.for_safe_end.len() + self.for_high_watermark.len()
    }

    /// Fetch requests that wait.
    #[must_use]
    pub fn fetch_waiter_count(&self) -> usize {
        self.fetches.len()
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        self.log.check();
        assert!(self.log.log_start <= self.high_watermark);
        if !self.mutant.commits_accepted() {
            assert!(self.high_watermark <= self.log.safe_end);
        }
        assert!(self.produce_waiter_count() <= PRODUCE_WAITERS_MAX);
        assert!(self.fetch_waiter_count() <= FETCH_WAITERS_MAX);
        self.for_safe_end.check(self.leader_ack_end());
        self.for_high_watermark.check(self.high_watermark);
        self.fetches.check(|isolation| self.end_of(isolation));
        if self.ended.is_some() {
            assert_eq!(self.produce_waiter_count(), 0);
        }
    }

    /// R1 with this replica as the only member that speaks: its own safe end, frozen below the minimum.
    fn committed_end(&self) -> Offset {
        if !self.in_sync.is_enough() {
            return self.high_watermark;
        }
        let own_end =
            if self.mutant.commits_accepted() { self.log.accepted } else { self.log.safe_end };
        // The maximum: the high watermark never goes back while one epoch lasts.
        self.high_watermark.max(own_end)
    }

    fn leader_ack_end(&self) -> Offset {
        if self.mutant.acks_accepted() { self.log.accepted } else { self.log.safe_end }
    }

    /// Where a reader must stop. No transaction can be open yet, so both isolations end at the high watermark.
    fn end_of(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::ReadUncommitted | Isolation::ReadCommitted => self.high_watermark,
        }
    }

    fn take_progress(&mut self, progress: LogProgress, out: &mut Vec<Effect>) {
        progress.check();
        if progress.is_at_or_behind(&self.log) {
            return;
        }
        assert!(self.log.is_at_or_behind(&progress));
        self.log = progress;
        self.advance(out);
    }

    fn advance(&mut self, out: &mut Vec<Effect>) {
        let committed_end = self.committed_end().max(self.log.log_start);
        let moved = committed_end > self.high_watermark;
        if moved {
            self.high_watermark = committed_end;
            out.push(Effect::HighWatermark(committed_end));
        }
        self.for_safe_end.pass(self.leader_ack_end(), ProduceOutcome::Acked, out);
        self.for_high_watermark.pass(self.high_watermark, self.in_sync_outcome(), out);
        if moved {
            let end = self.high_watermark;
            self.fetches.wake(|_| end, out);
        }
    }

    fn in_sync_outcome(&self) -> ProduceOutcome {
        let InSync { members, minimum } = self.in_sync;
        if self.in_sync.is_enough() {
            ProduceOutcome::Acked
        } else {
            ProduceOutcome::NotEnoughReplicasAfterAppend { in_sync: members, minimum }
        }
    }

    fn wait(&mut self, waiter: ProduceWaiter, out: &mut Vec<Effect>) {
        let token = waiter.token;
        if let Some(reason) = self.ended {
            let outcome = ProduceOutcome::Ended(reason);
            out.push(Effect::CompleteProduce { token, outcome });
            return;
        }
        let is_duplicate = waiter.written == Written::Before;
        if is_duplicate && self.mutant.acks_duplicate_at_once() {
            out.push(Effect::CompleteProduce { token, outcome: ProduceOutcome::Acked });
            return;
        }
        let (passed_end, outcome) = match waiter.acks {
            Acks::Leader if !is_duplicate => (self.leader_ack_end(), ProduceOutcome::Acked),
            Acks::Leader => (self.high_watermark, ProduceOutcome::Acked),
            Acks::InSync => (self.high_watermark, self.in_sync_outcome()),
        };
        if waiter.last_offset < passed_end {
            out.push(Effect::CompleteProduce { token, outcome });
            return;
        }
        if self.produce_waiter_count() >= PRODUCE_WAITERS_MAX {
            out.push(Effect::CompleteProduce { token, outcome: ProduceOutcome::WaitersFull });
            return;
        }
        match waiter.acks {
            Acks::Leader if !is_duplicate => self.for_safe_end.push(waiter),
            Acks::Leader | Acks::InSync => self.for_high_watermark.push(waiter),
        }
    }

    fn wait_fetch(&mut self, waiter: FetchWaiter, out: &mut Vec<Effect>) {
        let is_ready = self.end_of(waiter.isolation) > waiter.seen_end;
        if is_ready || self.check_epoch(LeaderEpoch::NONE).is_err() {
            out.push(Effect::WakeFetches { tokens: alloc::vec![waiter.token] });
        } else if self.fetches.len() >= FETCH_WAITERS_MAX {
            out.push(Effect::AnswerFetch { token: waiter.token });
        } else {
            self.fetches.insert(waiter);
        }
    }

    fn end(&mut self, reason: EndReason, out: &mut Vec<Effect>) {
        // A failed log may still lose its leadership afterwards: the later reason decides what readers are told.
        if self.check_epoch(LeaderEpoch::NONE).is_ok() {
            self.ended = Some(reason);
        }
        self.for_safe_end.fail_all(reason, out);
        self.for_high_watermark.fail_all(reason, out);
        self.fetches.wake_all(out);
    }
}

#[cfg(test)]
mod tests;
