//! DeleteRecords (key 21): a later start for a log.

use alloc::vec::Vec;

use record::{Offset, PartitionIndex};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Logs to shorten.
    request(DeleteRecords) DeleteRecordsRequest<'a> {
        /// The topics.
        topics: Vec<DeleteRecordsTopic<'a>>, in 0..;
        /// How long the request may take.
        timeout_ms: i32, in 0..;
    }

    /// The logs of one topic.
    part DeleteRecordsTopic<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Its logs.
        partitions: Vec<DeleteRecordsPartition>, in 0..;
    }

    /// One log.
    part DeleteRecordsPartition {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The offset to start at; -1 for the high watermark.
        offset: Offset, in 0..;
    }

    /// Where the logs start now.
    response(DeleteRecords) DeleteRecordsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// The topics.
        topics: Vec<DeleteRecordsTopicResult<'a>>, in 0..;
    }

    /// Where the logs of one topic start now.
    part DeleteRecordsTopicResult<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Its logs.
        partitions: Vec<DeleteRecordsPartitionResult>, in 0..;
    }

    /// Where one log starts now.
    part DeleteRecordsPartitionResult {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The first offset of the log; -1 on error.
        low_watermark: Offset, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
    }
}
