//! DeleteTopics (key 20): by name, and from version 6 by id.

use alloc::vec::Vec;

use record::TopicId;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Topics to delete.
    request(DeleteTopics) DeleteTopicsRequest<'a> {
        /// The topics.
        topics: Vec<DeleteTopicState<'a>>, in 6..;
        /// The names of the topics.
        topic_names: Vec<Text<'a>>, in 0..=5;
        /// How long the request may take.
        timeout_ms: i32, in 0..;
    }

    /// One topic to delete: by name or by id, never both.
    part DeleteTopicState<'a> {
        /// The name, or null.
        name: Option<Text<'a>>, in 6.., null 6..;
        /// The id, or zero.
        topic_id: TopicId, in 6..;
    }

    /// What became of the topics.
    response(DeleteTopics) DeleteTopicsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 1..;
        /// The answers, by topic.
        responses: Vec<DeletableTopicResult<'a>>, in 0..;
    }

    /// What became of one topic.
    part DeletableTopicResult<'a> {
        /// The name; null where only an unknown id was given.
        name: Option<Text<'a>>, in 0.., null 6..;
        /// The id of the topic.
        topic_id: TopicId, in 6..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 5.., null 5..;
    }
}
