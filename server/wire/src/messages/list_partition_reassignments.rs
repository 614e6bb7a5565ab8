//! ListPartitionReassignments (key 46): partitions whose replicas are moving.

use alloc::vec::Vec;

use record::{NodeId, PartitionIndex};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for partitions whose replicas are moving.
    request(ListPartitionReassignments) ListPartitionReassignmentsRequest<'a> {
        /// How long the request may take.
        timeout_ms: i32, in 0.., default 60000;
        /// Where to look; null for everywhere.
        topics: Option<Vec<ListPartitionReassignmentsTopics<'a>>>, in 0.., null 0..;
    }

    /// The partitions of one topic to look at.
    part ListPartitionReassignmentsTopics<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Where to look in it.
        partition_indexes: Vec<PartitionIndex>, in 0..;
    }

    /// The partitions that are moving.
    response(ListPartitionReassignments) ListPartitionReassignmentsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
        /// The topics.
        topics: Vec<OngoingTopicReassignment<'a>>, in 0..;
    }

    /// Those of one topic.
    part OngoingTopicReassignment<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Its partitions.
        partitions: Vec<OngoingPartitionReassignment>, in 0..;
    }

    /// One of them.
    part OngoingPartitionReassignment {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The replicas at the moment.
        replicas: Vec<NodeId>, in 0..;
        /// Those that are being added.
        adding_replicas: Vec<NodeId>, in 0..;
        /// Those that are being removed.
        removing_replicas: Vec<NodeId>, in 0..;
    }
}
