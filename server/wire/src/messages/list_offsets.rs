//! ListOffsets (key 2): offsets by time, and those at the ends of a log.

use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, Offset, PartitionIndex, Timestamp};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for offsets.
    request(ListOffsets) ListOffsetsRequest<'a> {
        /// The replica that asks; -1 for a consumer.
        replica_id: NodeId, in 0..;
        /// 0 reads all records, 1 only those of committed transactions.
        isolation_level: i8, in 2..;
        /// Where to look.
        topics: Vec<ListOffsetsTopic<'a>>, in 0..;
        /// How long the request may take.
        timeout_ms: i32, in 10..;
    }

    /// The partitions of one topic to look at.
    part ListOffsetsTopic<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Where to look in it.
        partitions: Vec<ListOffsetsPartition>, in 0..;
    }

    /// One partition to look at.
    part ListOffsetsPartition {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The leader epoch that the client knows of; -1 to skip the check.
        current_leader_epoch: LeaderEpoch, in 4.., default LeaderEpoch::NONE;
        /// The time to look for, or: -1 log end, -2 log start, -3 largest timestamp, -4 start of the local log, -5 end of the tiered log, -6 start of what is not yet tiered.
        timestamp: i64, in 0..;
    }

    /// The offsets found.
    response(ListOffsets) ListOffsetsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 2..;
        /// The offsets, by topic.
        topics: Vec<ListOffsetsTopicResponse<'a>>, in 0..;
    }

    /// The offsets found in one topic.
    part ListOffsetsTopicResponse<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// The offsets, by partition.
        partitions: Vec<ListOffsetsPartitionResponse>, in 0..;
    }

    /// The offset found in one partition.
    part ListOffsetsPartitionResponse {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The timestamp of the record found; -1 for none.
        timestamp: Timestamp, in 1.., default Timestamp::NONE;
        /// The offset found; -1 for none.
        offset: Offset, in 1.., default Offset(-1);
        /// The leader epoch of the record found.
        leader_epoch: LeaderEpoch, in 4.., default LeaderEpoch::NONE;
    }
}
