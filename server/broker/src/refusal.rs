//! Why a request was refused, in the broker's own words.
//!
//! Owns one enum per operation, holding values. `error_code.rs` alone turns them into Kafka's numbers.

use std::time::Duration;

use commitlog::{AppendError, ReadError, TrimError};
use partition::{EndReason, SequenceRefusal};
use record::{LeaderEpoch, Offset};

/// One record of a batch that was refused, and why (Produce v8 and up).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRecord {
    /// Index of the record in its batch, from 0.
    pub index: u32,
    /// What is wrong with it.
    pub message: String,
}

/// Why a batch was not appended, or not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProduceRefusal {
    /// acks is none of -1, 0, 1.
    #[error("acks must be -1, 0 or 1")]
    InvalidAcks,
    /// No such topic or partition.
    #[error("this server does not host this topic-partition")]
    UnknownPartition,
    /// No topic of this id.
    #[error("this server does not host a topic of this id")]
    UnknownTopicId,
    /// This principal may not write here.
    #[error("topic authorization failed")]
    TopicAuthorization,
    /// A transactional batch without a transactional id that may be used.
    #[error("transactional batches need a transactional id")]
    TransactionalIdAuthorization,
    /// Transactions do not exist here yet.
    #[error("transactions are not supported yet; set transactional.id only once they are")]
    InvalidTransactionState,
    /// Only the broker itself writes internal topics.
    #[error("the topic is internal")]
    InternalTopic,
    /// The partition is not led here, or its leader is not ready.
    #[error("this server is not the leader of the partition")]
    NotLeader,
    /// Too few in-sync replicas before the append.
    #[error("{in_sync} in-sync replicas, min.insync.replicas = {minimum}")]
    NotEnoughReplicas {
        /// Live in-sync replicas.
        in_sync: u16,
        /// How many there must be.
        minimum: u16,
    },
    /// The batch is larger than the topic allows.
    #[error("batch of {bytes} bytes: max.message.bytes = {maximum}")]
    TooLarge {
        /// Size of the batch.
        bytes: usize,
        /// The topic's bound.
        maximum: usize,
    },
    /// The batch is larger than the topic allows once it is decompressed.
    #[error("decompressed beyond {maximum} bytes: max.decompressed.message.bytes")]
    ExpandsTooFar {
        /// The topic's bound.
        maximum: usize,
    },
    /// The batch does not fit a segment.
    #[error("batch of {bytes} bytes: segment.bytes = {maximum}")]
    LargerThanSegment {
        /// Size of the batch.
        bytes: usize,
        /// The topic's bound.
        maximum: usize,
    },
    /// Its checksum, its framing or its compression is wrong.
    #[error("{detail}")]
    Corrupt {
        /// Which fact.
        detail: String,
    },
    /// Well-formed, but not what a producer may send.
    #[error("{detail}")]
    InvalidRecord {
        /// Which rule.
        detail: String,
        /// The records at fault, where it is single ones.
        records: Vec<RefusedRecord>,
    },
    /// A timestamp outside the topic's bounds.
    #[error("{detail}")]
    InvalidTimestamp {
        /// Which bound.
        detail: String,
        /// The records at fault.
        records: Vec<RefusedRecord>,
    },
    /// A codec that does not exist, or zstd from a client whose version cannot carry it.
    #[error("the compression type is unknown, or needs Produce version 7 or higher (zstd)")]
    UnsupportedCompression,
    /// The producer is out of line.
    #[error(transparent)]
    Sequence(#[from] SequenceRefusal),
    /// The log cannot take it: full, read-only, offline.
    #[error("{detail}")]
    Storage {
        /// Which fact, with the word "disk" where it is the disk.
        detail: String,
    },
    /// Its partition could take nothing more until the request's deadline. Nothing was appended.
    #[error("not appended within {} ms: those before it wait for the disk", timeout.as_millis())]
    Overdue {
        /// The request's timeout.
        timeout: Duration,
    },
    /// Appended, but not known to be safe within the request's timeout.
    #[error("not replicated within {} ms; the records stay in the log", timeout.as_millis())]
    TimedOut {
        /// The request's timeout.
        timeout: Duration,
    },
    /// Appended and replicated, but to fewer replicas than the minimum.
    #[error("appended with {in_sync} in-sync replicas, min.insync.replicas = {minimum}")]
    NotEnoughReplicasAfterAppend {
        /// Replicas in sync.
        in_sync: u16,
        /// How many there must be.
        minimum: u16,
    },
    /// The leadership ended, or its log stopped, before the batch was safe.
    #[error("the partition takes no records: {0:?}")]
    Ended(EndReason),
    /// A bug ended the service of the request; the batch may have been appended.
    #[error("the request failed; the broker's log says how")]
    Failed,
    /// Too many produce requests wait on the partition.
    #[error("{waiting} produce requests wait, {maximum} may; try again")]
    Busy {
        /// Requests waiting.
        waiting: usize,
        /// The bound.
        maximum: usize,
    },
}

/// Why nothing was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchRefusal {
    /// No such topic or partition.
    #[error("this server does not host this topic-partition")]
    UnknownPartition,
    /// No topic of this id.
    #[error("this server does not host a topic of this id")]
    UnknownTopicId,
    /// A session's topic was deleted, and its name is now another topic's.
    #[error("the topic of this name has another id now")]
    InconsistentTopicId,
    /// This principal may not read here.
    #[error("topic authorization failed")]
    TopicAuthorization,
    /// The partition is not led here, or its leader is not ready.
    #[error("this server is not the leader of the partition")]
    NotLeader,
    /// Below the log start or beyond the log end.
    #[error("offset {offset} outside {start} to {end}")]
    OutOfRange {
        /// What was asked for.
        offset: Offset,
        /// First offset there is.
        start: Offset,
        /// One past the last.
        end: Offset,
    },
    /// The partition is not served here any more.
    #[error("the partition is not served here: {0:?}")]
    Ended(EndReason),
    /// The client believes in an older epoch.
    #[error("leader epoch {asked}, current {current}")]
    FencedEpoch {
        /// What the client believes.
        asked: LeaderEpoch,
        /// What is.
        current: LeaderEpoch,
    },
    /// The client knows an epoch that is not known here yet.
    #[error("leader epoch {asked}, current {current}")]
    UnknownEpoch {
        /// What the client believes.
        asked: LeaderEpoch,
        /// What is.
        current: LeaderEpoch,
    },
    /// Records that expand too far to be looked through.
    #[error("{detail}")]
    Expands {
        /// Which, and the bound.
        detail: String,
    },
    /// The bytes there are damaged on disk.
    #[error("damaged on disk: {detail}")]
    Damaged {
        /// File, position and offsets.
        detail: String,
    },
    /// The disk failed, or the log is offline.
    #[error("{detail}")]
    Storage {
        /// Which fact.
        detail: String,
    },
}

/// Why an offset could not be looked up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListOffsetsRefusal {
    /// As for Fetch.
    #[error(transparent)]
    Read(#[from] FetchRefusal),
    /// The leader has just been elected and does not know its high watermark yet (LO-3).
    #[error("the leader has just been elected; try again")]
    NotAvailableYet,
    /// The partition stands twice in the request.
    #[error("the partition is listed twice")]
    Duplicate,
    /// A special timestamp that this version, or this broker, does not know.
    #[error("unsupported special timestamp {0}")]
    UnsupportedTarget(i64),
}

/// Why records were not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteRecordsRefusal {
    /// As for Fetch.
    #[error(transparent)]
    Read(#[from] FetchRefusal),
    /// The topic's cleanup.policy does not delete.
    #[error("records can be deleted only where cleanup.policy contains delete")]
    Policy,
}

/// Why the producers of a partition were not listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescribeProducersRefusal {
    /// As for Fetch.
    #[error(transparent)]
    Read(#[from] FetchRefusal),
    /// No topic can have this name.
    #[error("no topic can have this name")]
    Name,
    /// There is no such topic.
    #[error("there is no such topic")]
    UnknownTopic,
    /// One answer is about so many partitions, and holds so many producers, at most.
    #[error("more than one answer holds")]
    TooMany,
}

impl From<TrimError> for DeleteRecordsRefusal {
    fn from(error: TrimError) -> Self {
        Self::Read(match error {
            TrimError::BeyondEnd { asked, end } => {
                FetchRefusal::OutOfRange { offset: asked, start: Offset::ZERO, end }
            }
            TrimError::NotLasting { .. } => {
                FetchRefusal::Storage { detail: format!("disk: {error}") }
            }
            TrimError::Closed => FetchRefusal::NotLeader,
        })
    }
}

impl From<partition::AppendRefusal> for ProduceRefusal {
    fn from(refusal: partition::AppendRefusal) -> Self {
        use partition::AppendRefusal as From;
        match refusal {
            From::Ended(reason) => Self::Ended(reason),
            From::NotEnoughReplicas { in_sync, minimum } => {
                Self::NotEnoughReplicas { in_sync, minimum }
            }
            From::Busy { waiting, maximum } => Self::Busy { waiting, maximum },
            From::Sequence(refusal) => refusal.into(),
        }
    }
}

impl From<partition::FetchRefusal> for FetchRefusal {
    fn from(refusal: partition::FetchRefusal) -> Self {
        use partition::FetchRefusal as From;
        match refusal {
            From::Ended(reason) => Self::Ended(reason),
            From::Fenced { asked, current } => Self::FencedEpoch { asked, current },
            From::UnknownEpoch { asked, current } => Self::UnknownEpoch { asked, current },
            From::OutOfRange { offset, log_start, log_end } => {
                Self::OutOfRange { offset, start: log_start, end: log_end }
            }
        }
    }
}

impl From<AppendError> for ProduceRefusal {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::TooLarge { bytes, segment_bytes } => Self::LargerThanSegment {
                bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
                maximum: usize::try_from(segment_bytes).unwrap_or(usize::MAX),
            },
            // The log has seen a newer leadership than the one this core was given.
            AppendError::Fenced { .. } => Self::NotLeader,
            AppendError::NoSpace => Self::Storage { detail: format!("disk full: {error}") },
            AppendError::Full { .. }
            | AppendError::ReadOnly { .. }
            | AppendError::OffsetsExhausted { .. } => {
                Self::Storage { detail: format!("disk: {error}") }
            }
        }
    }
}

impl FetchRefusal {
    /// What a failed read of `partition` is to a client.
    #[must_use]
    pub fn of_read(error: ReadError, partition: &str) -> Self {
        match error {
            ReadError::BelowStart { asked, log_start } => {
                Self::OutOfRange { offset: asked, start: log_start, end: log_start }
            }
            ReadError::BeyondEnd { asked, end } => {
                Self::OutOfRange { offset: asked, start: Offset::ZERO, end }
            }
            ReadError::Damaged { .. } => Self::Damaged { detail: format!("{partition}: {error}") },
            ReadError::Expands { .. } => Self::Expands { detail: format!("{partition}: {error}") },
            ReadError::Closed => Self::NotLeader,
            ReadError::Io(error) => Self::Storage { detail: format!("{partition}: disk: {error}") },
        }
    }
}
