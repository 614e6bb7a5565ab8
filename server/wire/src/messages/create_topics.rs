//! CreateTopics (key 19).

use alloc::vec::Vec;

use record::{NodeId, PartitionIndex, TopicId};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Topics to create.
    request(CreateTopics) CreateTopicsRequest<'a> {
        /// The topics.
        topics: Vec<CreatableTopic<'a>>, in 0..;
        /// How long the request may take.
        timeout_ms: i32, in 0.., default 60000;
        /// Only say what would happen.
        validate_only: bool, in 1..;
    }

    /// One topic to create.
    part CreatableTopic<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// How many partitions; -1 for the default, or where the assignments say.
        num_partitions: i32, in 0..;
        /// How many replicas of each; -1 for the default, or where the assignments say.
        replication_factor: i16, in 0..;
        /// Where each partition lives; empty to leave that to the cluster.
        assignments: Vec<CreatableReplicaAssignment>, in 0..;
        /// The configurations.
        configs: Vec<CreatableTopicConfig<'a>>, in 0..;
    }

    /// The replicas of one partition.
    part CreatableReplicaAssignment {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The nodes that hold it, the preferred leader first.
        broker_ids: Vec<NodeId>, in 0..;
    }

    /// One configuration to begin with.
    part CreatableTopicConfig<'a> {
        /// The key.
        name: Text<'a>, in 0..;
        /// The value.
        value: Option<Text<'a>>, in 0.., null 0..;
    }

    /// What became of the topics.
    response(CreateTopics) CreateTopicsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 2..;
        /// The topics.
        topics: Vec<CreatableTopicResult<'a>>, in 0..;
    }

    /// What became of one topic.
    part CreatableTopicResult<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// The id of the topic.
        topic_id: TopicId, in 7..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 1.., null 0..;
        /// Why its configurations may not be seen.
        topic_config_error_code: ErrorCode, in 5.., tag 0;
        /// How many partitions it has; -1 where that may not be seen.
        num_partitions: i32, in 5.., default -1;
        /// How many replicas of each; -1 where that may not be seen.
        replication_factor: i16, in 5.., default -1;
        /// Its configurations; null where they may not be seen.
        configs: Option<Vec<CreatableTopicConfigs<'a>>>, in 5.., null 5..;
    }

    /// One configuration of the new topic.
    part CreatableTopicConfigs<'a> {
        /// The key.
        name: Text<'a>, in 5..;
        /// The value.
        value: Option<Text<'a>>, in 5.., null 5..;
        /// Whether it cannot be changed while the node runs.
        read_only: bool, in 5..;
        /// Where the value comes from: 1 topic, 2 broker, 3 default of all brokers, 4 file, 5 built in.
        config_source: i8, in 5.., default -1;
        /// Whether its value is a secret, which is never shown.
        is_sensitive: bool, in 5..;
    }
}
