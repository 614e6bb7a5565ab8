//! Produce (key 0): batches of records to append. The record sets stay where they are in the frame.

use alloc::vec::Vec;

use record::{Offset, PartitionIndex, Timestamp, TopicId};

use super::common::{LeaderIdAndEpoch, NodeEndpoint};
use crate::error::ErrorCode;
use crate::field::{Records, Text};
use crate::message::message;

message! {
    /// Batches to append.
    request(Produce) ProduceRequest<'a> {
        /// The transaction; null for none.
        transactional_id: Option<Text<'a>>, in 3.., null 3..;
        /// Who must have the batches before the answer: 0 nobody (and no answer), 1 the leader, -1 the in-sync replicas.
        acks: i16, in 0..;
        /// How long the request may take.
        timeout_ms: i32, in 0..;
        /// The batches, by topic.
        topic_data: Vec<TopicProduceData<'a>>, in 0..;
    }

    /// The batches for one topic.
    part TopicProduceData<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..=12;
        /// The id of the topic.
        topic_id: TopicId, in 13..;
        /// The batches, by partition.
        partition_data: Vec<PartitionProduceData<'a>>, in 0..;
    }

    /// The batches for one partition.
    part PartitionProduceData<'a> {
        /// The partition.
        index: PartitionIndex, in 0..;
        /// The batches: bytes of the frame.
        records: Records<'a>, in 0.., null 0..;
    }

    /// What became of the batches.
    response(Produce) ProduceResponse<'a> {
        /// The answers, by topic.
        responses: Vec<TopicProduceResponse<'a>>, in 0..;
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 1..;
        /// Where the leaders named above can be reached.
        node_endpoints: Vec<NodeEndpoint<'a>>, in 10.., tag 0;
    }

    /// What became of the batches for one topic.
    part TopicProduceResponse<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..=12;
        /// The id of the topic.
        topic_id: TopicId, in 13..;
        /// The answers, by partition.
        partition_responses: Vec<PartitionProduceResponse<'a>>, in 0..;
    }

    /// What became of the batches for one partition.
    part PartitionProduceResponse<'a> {
        /// The partition.
        index: PartitionIndex, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The offset of the first record; -1 on error.
        base_offset: Offset, in 0..;
        /// When the batches were appended, if the topic stamps them; else -1.
        log_append_time_ms: Timestamp, in 2.., default Timestamp::NONE;
        /// The first offset of the log; -1 where it is not known.
        log_start_offset: Offset, in 5.., default Offset(-1);
        /// The records that are at fault.
        record_errors: Vec<BatchIndexAndErrorMessage<'a>>, in 8..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 8.., null 8..;
        /// The leader, when the node asked is not it.
        current_leader: LeaderIdAndEpoch, in 10.., tag 0;
    }

    /// What is wrong with one record.
    part BatchIndexAndErrorMessage<'a> {
        /// The index of the record in its batch.
        batch_index: i32, in 8..;
        /// What is wrong with it.
        batch_index_error_message: Option<Text<'a>>, in 8.., null 8..;
    }
}
