//! FindCoordinator (key 10): which node coordinates a group or a transaction.

use alloc::vec::Vec;

use record::NodeId;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for coordinators: one up to version 3, several from version 4.
    request(FindCoordinator) FindCoordinatorRequest<'a> {
        /// The group or transactional id.
        key: Text<'a>, in 0..=3;
        /// 0 a group, 1 a transaction, 2 a share group.
        key_type: i8, in 1..;
        /// The groups or transactional ids.
        coordinator_keys: Vec<Text<'a>>, in 4..;
    }

    /// The coordinators.
    response(FindCoordinator) FindCoordinatorResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 1..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..=3;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 1..=3, null 1..=3;
        /// The node.
        node_id: NodeId, in 0..=3;
        /// The host to connect to.
        host: Text<'a>, in 0..=3;
        /// The port to connect to.
        port: i32, in 0..=3;
        /// The coordinators, by key.
        coordinators: Vec<Coordinator<'a>>, in 4..;
    }

    /// The coordinator of one key.
    part Coordinator<'a> {
        /// The group or transactional id.
        key: Text<'a>, in 4..;
        /// The node.
        node_id: NodeId, in 4..;
        /// The host to connect to.
        host: Text<'a>, in 4..;
        /// The port to connect to.
        port: i32, in 4..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 4..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 4.., null 4..;
    }
}
