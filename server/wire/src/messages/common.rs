//! Structs that several messages share.

use record::{LeaderEpoch, NodeId};

use crate::field::Text;
use crate::message::message;

message! {
    /// Who leads a partition (KIP-951).
    part LeaderIdAndEpoch {
        /// The node; -1 for none.
        leader_id: NodeId, in 0.., default NodeId::NONE;
        /// The epoch of its leadership; -1 where it is not known.
        leader_epoch: LeaderEpoch, in 0.., default LeaderEpoch::NONE;
    }

    /// Where a node can be reached (KIP-951).
    part NodeEndpoint<'a> {
        /// The node.
        node_id: NodeId, in 0..;
        /// The host to connect to.
        host: Text<'a>, in 0..;
        /// The port to connect to.
        port: i32, in 0..;
        /// The rack that it stands in.
        rack: Option<Text<'a>>, in 0.., null 0..;
    }
}
