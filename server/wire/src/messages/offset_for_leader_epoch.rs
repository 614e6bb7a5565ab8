//! OffsetForLeaderEpoch (key 23): where the log of a leader epoch ends (KIP-320).

use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, Offset, PartitionIndex};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks where leader epochs end.
    request(OffsetForLeaderEpoch) OffsetForLeaderEpochRequest<'a> {
        /// The replica that asks; -1 for a consumer, -2 for a debugger.
        replica_id: NodeId, in 3.., default NodeId(-2);
        /// The topics.
        topics: Vec<OffsetForLeaderTopic<'a>>, in 0..;
    }

    /// The partitions of one topic to look at.
    part OffsetForLeaderTopic<'a> {
        /// The name of the topic.
        topic: Text<'a>, in 0..;
        /// Where to look.
        partitions: Vec<OffsetForLeaderPartition>, in 0..;
    }

    /// One partition to look at.
    part OffsetForLeaderPartition {
        /// The partition.
        partition: PartitionIndex, in 0..;
        /// The leader epoch that the client knows of; -1 to skip the check.
        current_leader_epoch: LeaderEpoch, in 2.., default LeaderEpoch::NONE;
        /// The leader epoch wanted.
        leader_epoch: LeaderEpoch, in 0..;
    }

    /// Where the leader epochs end.
    response(OffsetForLeaderEpoch) OffsetForLeaderEpochResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 2..;
        /// The topics.
        topics: Vec<OffsetForLeaderTopicResult<'a>>, in 0..;
    }

    /// The ends found in one topic.
    part OffsetForLeaderTopicResult<'a> {
        /// The name of the topic.
        topic: Text<'a>, in 0..;
        /// The ends found.
        partitions: Vec<EpochEndOffset>, in 0..;
    }

    /// Where the log of a leader epoch ends.
    part EpochEndOffset {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The partition.
        partition: PartitionIndex, in 0..;
        /// The largest leader epoch known that is not above the one wanted; -1 for none.
        leader_epoch: LeaderEpoch, in 1.., default LeaderEpoch::NONE;
        /// One past the last offset of that epoch; -1 where it is not known.
        end_offset: Offset, in 0.., default Offset(-1);
    }
}
