//! Metadata (key 3): nodes, topics, partitions and their leaders.

use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, PartitionIndex, TopicId};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for nodes and topics.
    request(Metadata) MetadataRequest<'a> {
        /// The topics wanted. Version 0: none means all. Later: null means all.
        topics: Option<Vec<MetadataRequestTopic<'a>>>, in 0.., null 1..;
        /// Whether topics that do not exist may be created.
        allow_auto_topic_creation: bool, in 4.., default true;
        /// Whether to say which operations on the cluster are allowed.
        include_cluster_authorized_operations: bool, in 8..=10;
        /// Whether to say which operations on each topic are allowed.
        include_topic_authorized_operations: bool, in 8..;
    }

    /// One topic asked for, by name or by id.
    part MetadataRequestTopic<'a> {
        /// The id, or zero.
        topic_id: TopicId, in 10..;
        /// The name, or null.
        name: Option<Text<'a>>, in 0.., null 10..;
    }

    /// Nodes and topics.
    response(Metadata) MetadataResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 3..;
        /// The nodes.
        brokers: Vec<MetadataResponseBroker<'a>>, in 0..;
        /// The cluster.
        cluster_id: Option<Text<'a>>, in 2.., null 2..;
        /// The node to send administrative requests to; -1 for none.
        controller_id: NodeId, in 1.., default NodeId::NONE;
        /// The topics.
        topics: Vec<MetadataResponseTopic<'a>>, in 0..;
        /// Operations allowed on the cluster, as a bit field; `i32::MIN` when it was not asked for.
        cluster_authorized_operations: i32, in 8..=10, default i32::MIN;
        /// What went wrong with the request as a whole.
        error_code: ErrorCode, in 13..;
    }

    /// One node, as clients reach it.
    part MetadataResponseBroker<'a> {
        /// The node.
        node_id: NodeId, in 0..;
        /// The host to connect to.
        host: Text<'a>, in 0..;
        /// The port to connect to.
        port: i32, in 0..;
        /// The rack that it stands in.
        rack: Option<Text<'a>>, in 1.., null 1..;
    }

    /// One topic.
    part MetadataResponseTopic<'a> {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The name; null where only an unknown id was asked for.
        name: Option<Text<'a>>, in 0.., null 12..;
        /// The id of the topic.
        topic_id: TopicId, in 10..;
        /// Whether the cluster keeps its own state in it.
        is_internal: bool, in 1..;
        /// Its partitions.
        partitions: Vec<MetadataResponsePartition>, in 0..;
        /// Operations allowed, as a bit field; `i32::MIN` when it was not asked for.
        topic_authorized_operations: i32, in 8.., default i32::MIN;
    }

    /// One partition.
    part MetadataResponsePartition {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// The node that leads; -1 for none.
        leader_id: NodeId, in 0..;
        /// The epoch of its leadership.
        leader_epoch: LeaderEpoch, in 7.., default LeaderEpoch::NONE;
        /// The replicas, the preferred leader first.
        replica_nodes: Vec<NodeId>, in 0..;
        /// Those that are in sync.
        isr_nodes: Vec<NodeId>, in 0..;
        /// Those that are offline.
        offline_replicas: Vec<NodeId>, in 5..;
    }
}
