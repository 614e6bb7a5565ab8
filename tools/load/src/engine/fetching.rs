//! The fetch requests of readers.
//!
//! Owns their form: the last version that names topics, and no session, so that every request names what it asks for.

use record::Offset;
use wire::fetch::{FetchPartition, FetchRequest, FetchTopic};

use crate::stream::Stream;

/// Of Fetch: the last that names topics.
pub(super) const FETCH_VERSION_MAX: i16 = 12;
/// How long a broker may wait for a first record.
const WAIT_MS: i32 = 500;

/// How much an answer may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchLimits {
    /// In all.
    pub(super) bytes: u32,
    /// For one partition; a larger batch comes all the same.
    pub(super) partition_bytes: u32,
}

/// What comes next of every stream that is not at its end.
pub(super) fn request<'a>(
    topic: &'a str,
    streams: &[Stream],
    limits: FetchLimits,
) -> FetchRequest<'a> {
    let bytes = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
    let partitions = streams.iter().filter_map(|stream| {
        Some(FetchPartition {
            partition: stream.partition(),
            fetch_offset: Offset(stream.next_offset()?),
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
