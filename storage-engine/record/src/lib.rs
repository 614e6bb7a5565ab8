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

pub mod batch;
mod builder;
pub mod codec;
mod compression;
mod crc;
mod epoch;
mod fold;
mod noun;
mod record;
mod snapshot;
mod validate;

pub use batch::{BatchError, BatchHeader, BatchView, Batches, Found};
pub use builder::{BatchBuilder, Marker, MarkerKind, NewRecord, Producer, with_timestamps};
pub use compression::{
    Codec, DECOMPRESSED_BYTES_MAX, DecompressError, Windows, Workspace, compress, decompress,
};
pub use crc::{Crc, crc32c};
pub use epoch::{EpochEnd, EpochEntry, EpochFileError, EpochTable};
pub use fold::{Fold, ProducerBatch, ProducerSnapshotEntry};
pub use noun::{
    LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, ShardIndex, Slot,
    Timestamp, TopicId, TopicPartition,
};
pub use record::{Header, Headers, RECORD_BYTES_MIN, Record, RecordDefect, Records};
pub use snapshot::{
    SNAPSHOT_BATCHES_MAX, SNAPSHOT_BYTES_MAX, SNAPSHOT_ENTRY_BYTES, SNAPSHOT_HEADER_BYTES,
    SNAPSHOT_PRODUCERS_MAX, SNAPSHOT_VERSION, SnapshotError, decode_snapshot, encode_snapshot,
};
pub use validate::{
    BatchRefusal, FindError, FindStep, NullKeys, RECORD_FAULTS_MAX, RecordFault, RecordFaultKind,
    RecordFaults, RecordFinder, Step, Summary, ValidateOptions, Validator, Wanted, WantedTime,
};
