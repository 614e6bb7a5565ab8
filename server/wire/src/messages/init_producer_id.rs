//! InitProducerId (key 22): the identity of an idempotent or transactional producer.

use record::{ProducerEpoch, ProducerId};

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for a producer id and epoch.
    request(InitProducerId) InitProducerIdRequest<'a> {
        /// The transaction; null for none.
        transactional_id: Option<Text<'a>>, in 0.., null 0..;
        /// How long a transaction may stay open.
        transaction_timeout_ms: i32, in 0..;
        /// The id that the producer has; -1 for none.
        producer_id: ProducerId, in 3.., default ProducerId::NONE;
        /// The epoch that the producer has; -1 for none.
        producer_epoch: ProducerEpoch, in 3.., default ProducerEpoch::NONE;
    }

    /// The producer id and epoch.
    response(InitProducerId) InitProducerIdResponse {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The producer.
        producer_id: ProducerId, in 0.., default ProducerId::NONE;
        /// Its epoch.
        producer_epoch: ProducerEpoch, in 0..;
    }
}
