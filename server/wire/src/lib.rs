//! The Kafka protocol as messages: every API defined once, in all its versions.
//!
//! ```text
//!   socket ── framing ──► frame ── RequestHeader ──► body ── Message::decode ──► a struct that borrows from the frame
//!   socket ◄── Encoded (head, and the places of records that are elsewhere) ◄── encode_response ── a struct
//! ```
//!
//! Owns framing ([`FrameDecoder`]), headers, the codec of each message (`messages/`, one file an API), the table of versions
//! ([`ApiKey`]) and the error codes ([`ErrorCode`]). It knows no log, topic or connection: what a message means is the
//! handlers' business. Hostile bytes are refused within bounds: nothing is allocated that they do not pay for.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod api;
mod decode;
pub mod docs;
mod encode;
mod error;
mod field;
mod framing;
mod header;
mod message;
mod messages;
#[cfg(test)]
mod tests;

pub use api::{Api, ApiKey, Versions, name_of_key};
pub use decode::{
    BodyError, Decoder, EXPANSION_FLOOR_BYTES, EXPANSION_MAX, PRODUCE_ARRAYS_FLOOR_BYTES,
    REQUEST_ARRAYS_BYTES_MAX, STRING_BYTES_MAX,
};
pub use encode::{Cut, EncodeError, Encoded, FRAME_BYTES_MAX, SIZE_BYTES, Segment};
pub use error::{ErrorCode, Retry};
pub use field::{Records, Text};
pub use framing::{BufferPool, FrameDecoder, FrameError, FrameLimits};
pub use header::{
    Call, HeaderError, RequestHeader, ResponseHeader, encode_request, encode_response,
};
pub use message::{Message, Request, Response};
pub use messages::{
    AnyRequest, AnyResponse, alter_configs, api_versions, common, create_partitions, create_topics,
    delete_records, delete_topics, describe_cluster, describe_configs, describe_log_dirs,
    describe_producers, describe_quorum, describe_topic_partitions, fetch, find_coordinator,
    incremental_alter_configs, init_producer_id, list_config_resources, list_offsets,
    list_partition_reassignments, metadata, offset_for_leader_epoch, produce, update_features,
};
