//! DescribeTopicPartitions (key 75): partitions of topics, page by page.

use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, PartitionIndex, TopicId};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for a page of partitions.
    request(DescribeTopicPartitions) DescribeTopicPartitionsRequest<'a> {
        /// The topics.
        topics: Vec<TopicRequest<'a>>, in 0..;
        /// The most partitions that the page should hold.
        response_partition_limit: i32, in 0.., default 2000;
        /// Where the page begins; null for the first.
        cursor: Option<Cursor<'a>>, in 0.., null 0..;
    }

    /// One topic asked for.
    part TopicRequest<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
    }

    /// Where a page begins: a topic, and a partition in it.
    nullable Cursor<'a> {
        /// The first topic.
        topic_name: Text<'a>, in 0..;
        /// The first partition in it.
        partition_index: PartitionIndex, in 0..;
    }

    /// A page of partitions.
    response(DescribeTopicPartitions) DescribeTopicPartitionsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// The topics.
        topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>, in 0..;
        /// Where the next page begins; null after the last.
        next_cursor: Option<Cursor<'a>>, in 0.., null 0..;
    }

    /// One topic.
    part DescribeTopicPartitionsResponseTopic<'a> {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The name of the topic.
        name: Option<Text<'a>>, in 0.., null 0..;
        /// The id of the topic.
        topic_id: TopicId, in 0..;
        /// Whether the cluster keeps its own state in it.
        is_internal: bool, in 0..;
        /// Its partitions, as far as the page goes.
        partitions: Vec<DescribeTopicPartitionsResponsePartition>, in 0..;
        /// Operations allowed, as a bit field; `i32::MIN` when it was not asked for.
        topic_authorized_operations: i32, in 0.., default i32::MIN;
    }

    /// One partition.
    part DescribeTopicPartitionsResponsePartition {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The node that leads; -1 for none.
        leader_id: NodeId, in 0..;
        /// The epoch of its leadership.
        leader_epoch: LeaderEpoch, in 0.., default LeaderEpoch::NONE;
        /// The replicas, the preferred leader first.
        replica_nodes: Vec<NodeId>, in 0..;
        /// Those that are in sync.
        isr_nodes: Vec<NodeId>, in 0..;
        /// Those that may lead though they left the in-sync set (KIP-966).
        eligible_leader_replicas: Option<Vec<NodeId>>, in 0.., null 0..;
        /// Those of the last set that may lead.
        last_known_elr: Option<Vec<NodeId>>, in 0.., null 0..;
        /// Those that are offline.
        offline_replicas: Vec<NodeId>, in 0..;
    }
}
