//! The fetch requests of readers.
//!
//! Owns their form: the last version that names topics, and no session, so that every request names what it asks for.

use record::{Offset, PartitionIndex};
use wire::fetch::{FetchPartition, FetchRequest, FetchTopic};

/// Of Fetch: the last that names topics.
pub(super) const FETCH_VERSION_MAX: i16 = 12;
/// How long a broker may wait for a first record.
const WAIT_MS: i32 = 500;
/// Answers in a row that bring nothing new, before a reader gives up.
pub(super) const EMPTY_MAX: u32 = 20;

/// How much an answer may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchLimits {
    /// In all.
    pub(super) bytes: u32,
    /// For one partition; a larger batch comes all the same.
    pub(super) partition_bytes: u32,
}

/// What comes next of each partition, by the offset to go on at; one without is at its end.
pub(super) fn request(
    topic: &str,
    partitions: impl Iterator<Item = (PartitionIndex, Option<i64>)>,
    limits: FetchLimits,
) -> FetchRequest<'_> {
    let bytes = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
    let partitions = partitions.filter_map(|(partition, next_offset)| {
        Some(FetchPartition {
            partition,
            fetch_offset: Offset(next_offset?),
            partition_max_bytes: bytes(limits.partition_bytes),
            ..FetchPartition::default()
        })
    });
    let topic = FetchTopic {
        topic: topic.into(),
        partitions: partitions.collect(),
        ..FetchTopic::default()
    };
    FetchRequest {
        max_wait_ms: WAIT_MS,
        min_bytes: 1,
        max_bytes: bytes(limits.bytes),
        topics: vec![topic],
        ..FetchRequest::default()
    }
}
