//! The floor of the house: the nouns of a log and the bytes of its records.
//!
//! Owns the newtypes every other crate speaks in, record batch v2 as a bounded view, its checksum, the streaming
//! validator, the builder, compression behind a bound, the leader-epoch table, Kafka's primitive encodings and the
//! [`Fold`] seam. It never names a clock, a file, a socket, a thread or a randomly ordered map: time, identity and
//! randomness are arguments.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod codec;
mod fold;
mod noun;

pub use fold::{Fold, ProducerBatch, ProducerSnapshotEntry};
pub use noun::{
    LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, ShardIndex, Slot,
    Timestamp, TopicId, TopicPartition,
};
