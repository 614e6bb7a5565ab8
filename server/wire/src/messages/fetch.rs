//! Fetch (key 1): batches of records to read. The record sets of an answer are sent from where they lie.

use alloc::vec::Vec;

use record::{LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerId, TopicId};

use super::common::{LeaderIdAndEpoch, NodeEndpoint};
use crate::error::ErrorCode;
use crate::field::{Records, Text};
use crate::message::message;

message! {
    /// Asks for batches from given offsets on.
    request(Fetch) FetchRequest<'a> {
        /// The cluster that the client believes to talk to.
        cluster_id: Option<Text<'a>>, in 12.., null 12.., tag 0;
        /// The replica that asks; -1 for a consumer.
        replica_id: NodeId, in 0..=14, default NodeId::NONE;
        /// The replica that asks.
        replica_state: ReplicaState, in 15.., tag 1;
        /// How long to wait for `min_bytes`.
        max_wait_ms: i32, in 0..;
        /// Fewer bytes are not worth an answer yet.
        min_bytes: i32, in 0..;
        /// The bytes that the answer should not exceed.
        max_bytes: i32, in 3.., default i32::MAX;
        /// 0 reads all records, 1 only those of committed transactions.
        isolation_level: i8, in 4..;
        /// The fetch session; 0 for none.
        session_id: i32, in 7..;
        /// The request's number in its session: 0 opens one, -1 does without.
        session_epoch: i32, in 7.., default -1;
        /// What to fetch.
        topics: Vec<FetchTopic<'a>>, in 0..;
        /// What to drop from the session.
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, in 7..;
        /// The rack of the consumer.
        rack_id: Text<'a>, in 11..;
    }

    /// Which replica asks, and in which of its lives.
    part ReplicaState {
        /// The node of the replica; -1 for a consumer.
        replica_id: NodeId, in 15.., default NodeId::NONE;
        /// The epoch of that node; -1 where it is not known.
        replica_epoch: i64, in 15.., default -1;
    }

    /// The partitions of one topic to fetch.
    part FetchTopic<'a> {
        /// The name of the topic.
        topic: Text<'a>, in 0..=12;
        /// The id of the topic.
        topic_id: TopicId, in 13..;
        /// What to fetch of it.
        partitions: Vec<FetchPartition>, in 0..;
    }

    /// One partition to fetch.
    part FetchPartition {
        /// The partition.
        partition: PartitionIndex, in 0..;
        /// The leader epoch that the client knows of; -1 to skip the check.
        current_leader_epoch: LeaderEpoch, in 9.., default LeaderEpoch::NONE;
        /// The first offset wanted.
        fetch_offset: Offset, in 0..;
        /// The leader epoch of the last record that the replica has; -1 for none.
        last_fetched_epoch: LeaderEpoch, in 12.., default LeaderEpoch::NONE;
        /// The first offset that the replica has; -1 for a consumer.
        log_start_offset: Offset, in 5.., default Offset(-1);
        /// The bytes that this partition should not exceed.
        partition_max_bytes: i32, in 0..;
        /// The directory of the replica.
        replica_directory_id: TopicId, in 17.., tag 0;
        /// The high watermark that the replica knows of (KIP-1166); `i64::MAX` where it says nothing.
        high_watermark: Offset, in 18.., tag 1, default Offset(i64::MAX);
    }

    /// Partitions to drop from a fetch session.
    part ForgottenTopic<'a> {
        /// The name of the topic.
        topic: Text<'a>, in 7..=12;
        /// The id of the topic.
        topic_id: TopicId, in 13..;
        /// The partitions to drop.
        partitions: Vec<PartitionIndex>, in 7..;
    }

    /// The batches found.
    response(Fetch) FetchResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 1..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 7..;
        /// The fetch session; 0 for none.
        session_id: i32, in 7..;
        /// The batches, by topic.
        responses: Vec<FetchableTopicResponse<'a>>, in 0..;
        /// Where the leaders named above can be reached.
        node_endpoints: Vec<NodeEndpoint<'a>>, in 16.., tag 0;
    }

    /// The batches of one topic.
    part FetchableTopicResponse<'a> {
        /// The name of the topic.
        topic: Text<'a>, in 0..=12;
        /// The id of the topic.
        topic_id: TopicId, in 13..;
        /// The batches, by partition.
        partitions: Vec<PartitionData<'a>>, in 0..;
    }

    /// The batches of one partition.
    part PartitionData<'a> {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// One past the last offset that is replicated.
        high_watermark: Offset, in 0..;
        /// One past the last offset that no open transaction precedes; -1 where it is not known.
        last_stable_offset: Offset, in 4.., default Offset(-1);
        /// The first offset of the log; -1 where it is not known.
        log_start_offset: Offset, in 5.., default Offset(-1);
        /// Where the leader's log and the replica's part ways.
        diverging_epoch: EpochEndOffset, in 12.., tag 0;
        /// The leader, when the node asked is not it.
        current_leader: LeaderIdAndEpoch, in 12.., tag 1;
        /// The snapshot to fetch in place of the log.
        snapshot_id: SnapshotId, in 12.., tag 2;
        /// The aborted transactions among the batches; null for one who reads all records.
        aborted_transactions: Option<Vec<AbortedTransaction>>, in 4.., null 4..;
        /// The replica to fetch from in future; -1 for the leader.
        preferred_read_replica: NodeId, in 11.., default NodeId::NONE;
        /// The batches.
        records: Records<'a>, in 0.., null 0..;
    }

    /// Where the log of a leader epoch ends.
    part EpochEndOffset {
        /// The leader epoch; -1 for none.
        epoch: LeaderEpoch, in 12.., default LeaderEpoch::NONE;
        /// One past the last offset of that epoch; -1 where it is not known.
        end_offset: Offset, in 12.., default Offset(-1);
    }

    /// A snapshot of the metadata log; only between controllers.
    part SnapshotId {
        /// One past its last offset.
        end_offset: Offset, in 0.., default Offset(-1);
        /// Its epoch.
        epoch: LeaderEpoch, in 0.., default LeaderEpoch::NONE;
    }

    /// A transaction whose records a reader of committed data skips.
    part AbortedTransaction {
        /// The producer.
        producer_id: ProducerId, in 4..;
        /// Its first offset.
        first_offset: Offset, in 4..;
    }
}
