//! DescribeQuorum (key 55): who votes on cluster metadata, and how far each has its log.

use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, Offset, PartitionIndex, Timestamp, TopicId};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for the state of a quorum.
    request(DescribeQuorum) DescribeQuorumRequest<'a> {
        /// The logs: partition 0 of `__cluster_metadata` is the only one there is.
        topics: Vec<TopicAsked<'a>>, in 0..;
    }

    /// The partitions of one topic to look at.
    part TopicAsked<'a> {
        /// The name of the topic.
        topic_name: Text<'a>, in 0..;
        /// Where to look in it.
        partitions: Vec<PartitionAsked>, in 0..;
    }

    /// One partition to look at.
    part PartitionAsked {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
    }

    /// The state of a quorum.
    response(DescribeQuorum) DescribeQuorumResponse<'a> {
        /// What went wrong as a whole, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 2.., null 2..;
        /// The logs.
        topics: Vec<TopicData<'a>>, in 0..;
        /// Where the voters and observers listen.
        nodes: Vec<QuorumNode<'a>>, in 2..;
    }

    /// The partitions of one topic.
    part TopicData<'a> {
        /// The name of the topic.
        topic_name: Text<'a>, in 0..;
        /// Its partitions.
        partitions: Vec<PartitionData<'a>>, in 0..;
    }

    /// One partition.
    part PartitionData<'a> {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 2.., null 2..;
        /// The node that leads.
        leader_id: NodeId, in 0..;
        /// The epoch of its leadership.
        leader_epoch: LeaderEpoch, in 0..;
        /// One past the last committed record.
        high_watermark: Offset, in 0..;
        /// Who votes.
        current_voters: Vec<ReplicaState>, in 0..;
        /// Who follows without a vote.
        observers: Vec<ReplicaState>, in 0..;
    }

    /// How far one node has the log.
    part ReplicaState {
        /// The node.
        replica_id: NodeId, in 0..;
        /// Its data directory; ids of directories have the form of topic ids.
        replica_directory_id: TopicId, in 2..;
        /// One past its last record; -1 where it is unknown.
        log_end_offset: Offset, in 0..;
        /// When it last fetched, by the leader's clock; -1 where it is unknown.
        last_fetch_timestamp: Timestamp, in 1.., default Timestamp(-1);
        /// When it last had all there was, by the leader's clock; -1 where it is unknown.
        last_caught_up_timestamp: Timestamp, in 1.., default Timestamp(-1);
    }

    /// Where one node listens.
    part QuorumNode<'a> {
        /// The node.
        node_id: NodeId, in 2..;
        /// Its listeners.
        listeners: Vec<QuorumListener<'a>>, in 2..;
    }

    /// One listener.
    part QuorumListener<'a> {
        /// Its name.
        name: Text<'a>, in 2..;
        /// The host to connect to.
        host: Text<'a>, in 2..;
        /// The port.
        port: u16, in 2..;
    }
}
