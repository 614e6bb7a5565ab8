//! The seam through which a log rebuilds state that it does not understand.
//!
//! Owns the trait and the words of a producer snapshot. `commitlog` calls it at append, recovery, roll and clean stop and
//! never interprets a producer; `partition` implements it and never reads a file.

use alloc::vec::Vec;

use crate::{Offset, ProducerEpoch, ProducerId, Timestamp};

/// What the header of one appended batch tells a fold (rule ID-8: headers, never records).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerBatch {
    /// Producer of the batch; [`ProducerId::NONE`] for a plain producer, which a fold ignores.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record.
    pub base_sequence: i32,
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// `last_offset_delta` of the header; differs from the record count in a compacted batch.
    pub last_offset_delta: i32,
    /// Largest timestamp in the batch.
    pub max_timestamp: Timestamp,
    /// Attribute bit 4.
    pub is_transactional: bool,
    /// Attribute bit 5.
    pub is_control: bool,
}

/// One remembered batch of one producer, as Kafka's `.snapshot` files hold it (46 bytes an entry).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerSnapshotEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch when the batch was appended.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the batch's last record; -1 where the producer has only written a marker.
    pub last_sequence: i32,
    /// Offset of the batch's last record.
    pub last_offset: Offset,
    /// Last minus first offset of the batch.
    pub offset_delta: i32,
    /// Largest timestamp of the batch.
    pub timestamp: Timestamp,
    /// Epoch of the transaction coordinator that wrote the last marker; -1 for none.
    pub coordinator_epoch: i32,
    /// First offset of the producer's open transaction; -1 for none.
    pub current_transaction_first_offset: i64,
}

/// State that is a function of the batches of one log, in order.
pub trait Fold {
    /// Takes in the next batch. Order: strictly ascending `base_offset`; each batch exactly once since the last
    /// [`Fold::restore`].
    fn apply(&mut self, batch: &ProducerBatch);

    /// What to keep so that [`Fold::restore`] gives the same state. Order: entries of one producer oldest first, producers
    /// ascending by id, so that equal states give equal bytes.
    fn snapshot(&self) -> Vec<ProducerSnapshotEntry>;

    /// Drops everything and starts again from `entries` (empty: from nothing).
    fn restore(&mut self, entries: &[ProducerSnapshotEntry]);
}
