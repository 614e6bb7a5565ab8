//! What a partition remembers of its idempotent producers: a fold over batch headers.
//!
//! Owns the window of five batches per producer (rules ID-1 … ID-9), its expiry and its bound. The state is a function of the
//! log's headers in order, apart from expiry, which only ever forgets; so a restart, a new leader and a follower agree.
//!
//! ```text
//! decide ── no state ───────────────► Append            any sequence (ID-5: state may have expired, KIP-360)
//!        ── same (epoch, first, last) among the five ─► Duplicate with the original offsets (ID-2)
//!        ── older epoch ────────────► StaleEpoch         (ID-3)
//!        ── newer epoch ────────────► Append if the first sequence is 0
//!        ── same epoch ─────────────► Append if the sequence continues, 2^31-1 being followed by 0 (ID-4)
//! ```
//!
//! It never trusts a timestamp of a client for expiry: `idle_since` is the caller's clock at the first sweep after the append.
//! It never forgets a producer because its records were deleted (P32, P33).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;

use record::{
    Fold, Offset, ProducerBatch, ProducerEpoch, ProducerId, ProducerSnapshotEntry, Timestamp,
};

use crate::Mutant;

/// Batches remembered per producer: an idempotent client has at most five in flight, and any of them may be a retry.
pub const BATCHES_PER_PRODUCER: usize = record::SNAPSHOT_BATCHES_MAX;
/// Producers remembered per partition; beyond it the one whose last batch is oldest goes. At most 400 bytes each, so 8 MB a partition.
pub const PRODUCERS_MAX: usize = 20_000;

const NO_SEQUENCE: i32 = -1;
const NO_TRANSACTION: i64 = -1;

/// What [`Producers`] is told at its birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducersOptions {
    /// Producers remembered at most.
    pub producers_max: usize,
    /// How long a producer is remembered after its last append (`producer.id.expiration.ms`).
    pub expiration_ms: i64,
    /// The rule that a test has switched off.
    pub mutant: Mutant,
}

impl Default for ProducersOptions {
    fn default() -> Self {
        Self { producers_max: PRODUCERS_MAX, expiration_ms: 86_400_000, mutant: Mutant::None }
    }
}

/// What the header of a batch that wants to be appended says about its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Producer of the batch; [`ProducerId::NONE`] for a plain one.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record.
    pub base_sequence: i32,
    /// Last minus first offset of the batch.
    pub last_offset_delta: i32,
    /// Attribute bit 4.
    pub is_transactional: bool,
    /// Attribute bit 5.
    pub is_control: bool,
}

/// The original of a batch that was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duplicate {
    /// Offset the original's first record took.
    pub base_offset: Offset,
    /// Offset of its last record; the retry is answered once the high watermark has passed it.
    pub last_offset: Offset,
    /// Largest timestamp of the original.
    pub timestamp: Timestamp,
}

/// Why a batch is out of line. `broker` maps these to Kafka's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SequenceRefusal {
    /// The producer was fenced by a newer epoch (47 on the produce path).
    #[error("producer {producer_id} epoch {epoch}: the last known epoch is {known}")]
    StaleEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// The epoch of the batch.
        epoch: ProducerEpoch,
        /// The newest epoch this partition has seen.
        known: ProducerEpoch,
    },
    /// A gap, or a retry older than the window (45).
    #[error("producer {producer_id} epoch {epoch}: sequence {sequence} where {expected} is next")]
    OutOfOrder {
        /// The producer.
        producer_id: ProducerId,
        /// The epoch of the batch.
        epoch: ProducerEpoch,
        /// The first sequence of the batch.
        sequence: i32,
        /// The sequence that would continue.
        expected: i32,
    },
    /// A producer id without a sequence, or without an epoch (87).
    #[error("producer {producer_id}: sequence {sequence} and epoch {epoch} must not be negative")]
    Incomplete {
        /// The producer.
        producer_id: ProducerId,
        /// The epoch of the batch.
        epoch: ProducerEpoch,
        /// The first sequence of the batch.
        sequence: i32,
    },
    /// Only transaction coordinators write control batches (87).
    #[error("control batches are not accepted from clients")]
    Control,
    /// Transactions are not built yet, or a plain batch meets an open transaction of its producer (48).
    #[error("producer {producer_id}: the batch does not fit the state of its transaction")]
    Transaction {
        /// The producer.
        producer_id: ProducerId,
    },
}

/// The answer of [`Producers::decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The batch comes next.
    Append,
    /// The batch is here already.
    Duplicate(Duplicate),
    /// The batch must not be appended.
    Refuse(SequenceRefusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Remembered {
    last_sequence: i32,
    last_offset: Offset,
    offset_delta: i32,
    timestamp: Timestamp,
}

impl Remembered {
    fn first_sequence(&self) -> i32 {
        sequence_back(self.last_sequence, self.offset_delta)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Producer {
    epoch: ProducerEpoch,
    /// Oldest first, `BATCHES_PER_PRODUCER` at most.
    batches: Vec<Remembered>,
    last_timestamp: Timestamp,
    coordinator_epoch: i32,
    transaction_first_offset: i64,
    /// When a sweep first saw the producer idle; `None` since its last append.
    idle_since: Option<Timestamp>,
}

impl Producer {
    fn new(epoch: ProducerEpoch) -> Self {
        Self {
            epoch,
            batches: Vec::new(),
            last_timestamp: Timestamp::NONE,
            coordinator_epoch: -1,
            transaction_first_offset: NO_TRANSACTION,
            idle_since: None,
        }
    }

    /// Where the producer stands in the order of eviction: the end of its newest batch, or before everyone.
    fn recency(&self) -> Offset {
        self.batches.last().map_or(Offset(-1), |batch| batch.last_offset)
    }

    fn is_young(&self, now: Timestamp, expiration_ms: i64) -> bool {
        self.idle_since.is_none_or(|since| now.0.saturating_sub(since.0) < expiration_ms)
    }

    fn in_transaction(&self) -> bool {
        self.transaction_first_offset != NO_TRANSACTION
    }

    fn remember(&mut self, batch: Remembered, batches_max: usize) {
        if self.batches.len() >= batches_max {
            self.batches.remove(0);
        }
        self.batches.push(batch);
    }
}

/// What an administrator is told of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveProducer {
    /// The producer.
    pub id: ProducerId,
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
    /// The sequence of its last record; -1 where no batch of this epoch came yet.
    pub last_sequence: i32,
    /// The largest timestamp of its last batch.
    pub last_timestamp: Timestamp,
    /// The epoch of the coordinator that wrote its last marker; -1 for none.
    pub coordinator_epoch: i32,
    /// Where its open transaction began in this partition; -1 for none.
    pub transaction_first_offset: Offset,
}

/// The producers of one partition.
#[derive(Debug, Clone)]
pub struct Producers {
    options: ProducersOptions,
    by_id: BTreeMap<ProducerId, Producer>,
    /// Every producer once, the first to be evicted first.
    by_recency: BTreeSet<(Offset, ProducerId)>,
}

impl Producers {
    /// Nobody is known.
    #[must_use]
    pub fn new(options: ProducersOptions) -> Self {
        Self { options, by_id: BTreeMap::new(), by_recency: BTreeSet::new() }
    }

    /// How many producers are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether no producer is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Every producer that is remembered, ascending by id; those behind `after`, where one is given.
    pub fn active(&self, after: Option<ProducerId>) -> impl Iterator<Item = ActiveProducer> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.range((from, Bound::Unbounded)).map(|(id, producer)| ActiveProducer {
            id: *id,
            epoch: producer.epoch,
            last_sequence: producer.batches.last().map_or(NO_SEQUENCE, |last| last.last_sequence),
            last_timestamp: producer.last_timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            transaction_first_offset: Offset(producer.transaction_first_offset),
        })
    }

    /// Whether a client's batch comes next, is here already, or is out of line.
    ///
    /// Order   batches appended before must have been applied; nothing may be appended between this and the append.
    #[must_use]
    pub fn decide(&self, attempt: &Attempt) -> Verdict {
        let producer_id = attempt.producer_id;
        if attempt.is_control {
            return Verdict::Refuse(SequenceRefusal::Control);
        }
        if attempt.is_transactional {
            return Verdict::Refuse(SequenceRefusal::Transaction { producer_id });
        }
        if producer_id == ProducerId::NONE {
            return Verdict::Append;
        }
        let (epoch, sequence) = (attempt.producer_epoch, attempt.base_sequence);
        if producer_id.0 < 0 || sequence < 0 || epoch.0 < 0 || attempt.last_offset_delta < 0 {
            return Verdict::Refuse(SequenceRefusal::Incomplete { producer_id, epoch, sequence });
        }
        let Some(producer) = self.by_id.get(&producer_id) else {
            return Verdict::Append;
        };
        if let Some(duplicate) = find_duplicate(producer, attempt) {
            return Verdict::Duplicate(duplicate);
        }
        match verdict_of_order(producer, attempt) {
            Some(refusal) => Verdict::Refuse(refusal),
            None if producer.in_transaction() => {
                Verdict::Refuse(SequenceRefusal::Transaction { producer_id })
            }
            None => Verdict::Append,
        }
    }

    /// Forgets producers that have not appended for the expiration time; returns how many.
    ///
    /// Units   `now` is the server's wall clock; a step of it can only delay or hasten forgetting, never break the order.
    /// Order   call it about once a second. A producer restored from a snapshot counts as idle from the first call. Whoever
    ///         wrote after one that stays, stays too: `corelog log verify` tells a lost producer from a forgotten one by that.
    pub fn expire(&mut self, now: Timestamp) -> usize {
        let expiration_ms = self.options.expiration_ms;
        let mut oldest_kept = Offset(i64::MAX);
        for producer in self.by_id.values_mut() {
            producer.idle_since.get_or_insert(now);
            if producer.is_young(now, expiration_ms) && !producer.batches.is_empty() {
                oldest_kept = oldest_kept.min(producer.recency());
            }
        }
        let before = self.by_id.len();
        let by_recency = &mut self.by_recency;
        self.by_id.retain(|id, producer| {
            let keep = producer.in_transaction()
                || producer.recency() >= oldest_kept
                || producer.is_young(now, expiration_ms);
            if !keep {
                by_recency.remove(&(producer.recency(), *id));
            }
            keep
        });
        before - self.by_id.len()
    }

    /// Changes the expiration time.
    pub fn set_expiration_ms(&mut self, expiration_ms: i64) {
        self.options.expiration_ms = expiration_ms;
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        assert_eq!(self.by_id.len(), self.by_recency.len());
        for (id, producer) in &self.by_id {
            assert!(id.0 >= 0);
            assert!(producer.batches.len() <= BATCHES_PER_PRODUCER);
            assert!(self.by_recency.contains(&(producer.recency(), *id)));
            for pair in producer.batches.windows(2) {
                assert!(pair[0].last_offset < pair[1].last_offset);
            }
        }
    }

    fn batches_max(&self) -> usize {
        if self.options.mutant.remembers_one_batch() { 1 } else { BATCHES_PER_PRODUCER }
    }

    /// Runs `change` on the producer, made at `epoch` if it is new, and keeps the order of eviction true.
    fn update(&mut self, id: ProducerId, epoch: ProducerEpoch, change: impl FnOnce(&mut Producer)) {
        let producer = self.by_id.entry(id).or_insert_with(|| Producer::new(epoch));
        self.by_recency.remove(&(producer.recency(), id));
        if epoch > producer.epoch {
            producer.epoch = epoch;
            producer.batches.clear();
        }
        change(producer);
        self.by_recency.insert((producer.recency(), id));
    }

    /// Keeps the bound. Neither `newest` nor a producer with an open transaction goes: forgetting that one would let the last
    /// stable offset pass it. Open transactions are bounded by their coordinator.
    fn evict(&mut self, newest: ProducerId) {
        while self.by_id.len() > self.options.producers_max {
            let victim = self.by_recency.iter().copied().find(|(_, id)| {
                *id != newest
                    && self.by_id.get(id).is_some_and(|producer| !producer.in_transaction())
            });
            let Some(victim) = victim else {
                return;
            };
            self.by_recency.remove(&victim);
            self.by_id.remove(&victim.1);
        }
    }
}

impl Fold for Producers {
    fn apply(&mut self, batch: &ProducerBatch) {
        if batch.producer_id.0 < 0 {
            return;
        }
        let batches_max = self.batches_max();
        self.update(batch.producer_id, batch.producer_epoch, |producer| {
            // A leader refuses this; a log written by others may hold it, and it must not enter the newer epoch's window.
            if batch.producer_epoch < producer.epoch {
                return;
            }
            producer.last_timestamp = batch.max_timestamp;
            producer.idle_since = None;
            if batch.is_control {
                producer.transaction_first_offset = NO_TRANSACTION;
                return;
            }
            if batch.is_transactional && !producer.in_transaction() {
                producer.transaction_first_offset = batch.base_offset.0;
            }
            let delta = batch.last_offset_delta.max(0);
            let remembered = Remembered {
                last_sequence: sequence_forward(batch.base_sequence.max(0), delta),
                last_offset: batch.last_offset,
                offset_delta: delta,
                timestamp: batch.max_timestamp,
            };
            producer.remember(remembered, batches_max);
        });
        self.evict(batch.producer_id);
    }

    fn snapshot(&self) -> Vec<ProducerSnapshotEntry> {
        let mut entries = Vec::new();
        for (id, producer) in &self.by_id {
            let entry =
                |last_sequence, last_offset, offset_delta, timestamp| ProducerSnapshotEntry {
                    producer_id: *id,
                    producer_epoch: producer.epoch,
                    last_sequence,
                    last_offset,
                    offset_delta,
                    timestamp,
                    coordinator_epoch: producer.coordinator_epoch,
                    current_transaction_first_offset: producer.transaction_first_offset,
                };
            if producer.batches.is_empty() {
                entries.push(entry(NO_SEQUENCE, Offset(-1), 0, producer.last_timestamp));
            }
            entries.extend(producer.batches.iter().map(|batch| {
                entry(batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp)
            }));
        }
        entries
    }

    fn restore(&mut self, entries: &[ProducerSnapshotEntry]) {
        self.by_id.clear();
        self.by_recency.clear();
        let batches_max = self.batches_max();
        for entry in entries.iter().filter(|entry| entry.producer_id.0 >= 0) {
            self.update(entry.producer_id, entry.producer_epoch, |producer| {
                // The file is checksummed, but written by anyone: keep only what keeps our own order.
                if entry.producer_epoch < producer.epoch {
                    return;
                }
                producer.last_timestamp = entry.timestamp;
                producer.coordinator_epoch = entry.coordinator_epoch;
                producer.transaction_first_offset =
                    entry.current_transaction_first_offset.max(NO_TRANSACTION);
                let delta_is_whole =
                    entry.offset_delta >= 0 && i64::from(entry.offset_delta) <= entry.last_offset.0;
                if entry.last_sequence >= 0
                    && delta_is_whole
                    && entry.last_offset > producer.recency()
                {
                    let remembered = Remembered {
                        last_sequence: entry.last_sequence,
                        last_offset: entry.last_offset,
                        offset_delta: entry.offset_delta,
                        timestamp: entry.timestamp,
                    };
                    producer.remember(remembered, batches_max);
                }
            });
        }
        // Only now: the order of eviction is known once every producer is there.
        self.evict(ProducerId::NONE);
    }
}

fn find_duplicate(producer: &Producer, attempt: &Attempt) -> Option<Duplicate> {
    if producer.epoch != attempt.producer_epoch {
        return None;
    }
    let last_sequence = sequence_forward(attempt.base_sequence, attempt.last_offset_delta);
    let original = producer.batches.iter().find(|batch| {
        batch.last_sequence == last_sequence && batch.first_sequence() == attempt.base_sequence
    })?;
    Some(Duplicate {
        base_offset: Offset(original.last_offset.0 - i64::from(original.offset_delta)),
        last_offset: original.last_offset,
        timestamp: original.timestamp,
    })
}

fn verdict_of_order(producer: &Producer, attempt: &Attempt) -> Option<SequenceRefusal> {
    let (producer_id, epoch) = (attempt.producer_id, attempt.producer_epoch);
    if epoch < producer.epoch {
        return Some(SequenceRefusal::StaleEpoch { producer_id, epoch, known: producer.epoch });
    }
    let expected = match producer.batches.last() {
        Some(last) if epoch == producer.epoch => sequence_forward(last.last_sequence, 1),
        // A newer epoch, or a marker moved the epoch and no batch followed.
        _ => 0,
    };
    (attempt.base_sequence != expected).then_some(SequenceRefusal::OutOfOrder {
        producer_id,
        epoch,
        sequence: attempt.base_sequence,
        expected,
    })
}

/// Sequences count 0 … 2^31-1 and begin again; both arguments are in that range.
fn sequence_forward(sequence: i32, count: i32) -> i32 {
    sequence.wrapping_add(count) & i32::MAX
}

fn sequence_back(sequence: i32, count: i32) -> i32 {
    sequence.wrapping_sub(count) & i32::MAX
}

#[cfg(test)]
mod tests;
