//! DescribeProducers (key 61): the idempotent and transactional producers that partitions remember (KIP-664).

use alloc::vec::Vec;

use record::{Offset, PartitionIndex, ProducerId, Timestamp};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for the producers of partitions.
    request(DescribeProducers) DescribeProducersRequest<'a> {
        /// The topics.
        topics: Vec<DescribeProducersTopic<'a>>, in 0..;
    }

    /// The partitions of one topic.
    part DescribeProducersTopic<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Its partitions.
        partition_indexes: Vec<PartitionIndex>, in 0..;
    }

    /// The producers.
    response(DescribeProducers) DescribeProducersResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// The topics.
        topics: Vec<DescribeProducersTopicResult<'a>>, in 0..;
    }

    /// The producers of one topic.
    part DescribeProducersTopicResult<'a> {
        /// The name of the topic.
        name: Text<'a>, in 0..;
        /// Its partitions.
        partitions: Vec<DescribeProducersPartitionResult<'a>>, in 0..;
    }

    /// The producers of one partition.
    part DescribeProducersPartitionResult<'a> {
        /// The partition.
        partition_index: PartitionIndex, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
        /// The producers.
        active_producers: Vec<ProducerState>, in 0..;
    }

    /// What a partition remembers of one producer.
    part ProducerState {
        /// The producer.
        producer_id: ProducerId, in 0..;
        /// Its epoch: 32 bits here alone.
        producer_epoch: i32, in 0..;
        /// The sequence of its last record; -1 for none.
        last_sequence: i32, in 0.., default -1;
        /// The timestamp of its last batch; -1 for none.
        last_timestamp: Timestamp, in 0.., default Timestamp::NONE;
        /// The epoch of the coordinator that wrote its last marker; -1 for none.
        coordinator_epoch: i32, in 0..;
        /// Where its open transaction began; -1 for none.
        current_txn_start_offset: Offset, in 0.., default Offset(-1);
    }
}
