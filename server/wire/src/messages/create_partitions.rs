//! CreatePartitions (key 37): more partitions for a topic that exists.

use alloc::vec::Vec;

use record::NodeId;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Topics to grow.
    request(CreatePartitions) CreatePartitionsRequest<'a> {
        /// The topics.
        topics: Vec<CreatePartitionsTopic<'a>>, in 0..;
        /// How long the request may take.
        timeout_ms: i32, in 0..;
        /// Only say what would happen.
        validate_only: bool, in 0..;
    }

    /// One topic to grow.
    part CreatePartitionsTopic<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// How many partitions it should have in all.
        count: i32, in 0..;
        /// Where each new partition lives; null to leave that to the cluster.
        assignments: Option<Vec<CreatePartitionsAssignment>>, in 0.., null 0..;
    }

    /// The replicas of one new partition.
    part CreatePartitionsAssignment {
        /// The nodes that hold it, the preferred leader first.
        broker_ids: Vec<NodeId>, in 0..;
    }

    /// What became of the topics.
    response(CreatePartitions) CreatePartitionsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// The answers, by topic.
        results: Vec<CreatePartitionsTopicResult<'a>>, in 0..;
    }

    /// What became of one topic.
    part CreatePartitionsTopicResult<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
    }
}
