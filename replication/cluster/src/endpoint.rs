//! Where a client finds a partition: the one function behind every response that names a broker (DESIGN section 8).
//!
//! Owns the ids and ports of cores. In `advertise = "node"` a node is one broker; in `advertise = "core"` each core is one.

use alloc::sync::Arc;

use record::{NodeId, ShardIndex};

use crate::image::{Advertise, NODE_ID_MAX, Node};

/// What a core's index is multiplied by in its broker id.
pub const CORE_ID_STEP: i32 = NODE_ID_MAX + 1;

/// A broker, as a client is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The broker id.
    pub id: NodeId,
    /// The host; empty where the connection's own local address must be told.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

/// The broker that stands for core `shard` of `node` on that listener; `None` where the node has no such listener, or no port
/// is left for that core.
#[must_use]
pub fn endpoint(node: &Node, shard: ShardIndex, listener: &str) -> Option<Endpoint> {
    let listener = node.listener(listener)?;
    let host = Arc::clone(&listener.host);
    match listener.advertise {
        Advertise::Node => Some(Endpoint { id: node.id, host, port: listener.port }),
        Advertise::Core => {
            let id = endpoint_id(node.id, shard, Advertise::Core);
            let port = listener.port.checked_add(shard.0)?;
            Some(Endpoint { id, host, port })
        }
    }
}

/// The broker id of core `shard` of a node: what `leader`, `replicas` and `isr` must say too.
#[must_use]
pub fn endpoint_id(node: NodeId, shard: ShardIndex, advertise: Advertise) -> NodeId {
    match advertise {
        Advertise::Node => node,
        Advertise::Core => NodeId(i32::from(shard.0) * CORE_ID_STEP + node.0),
    }
}

/// The node behind a broker id in either mode: requests may name a node or one of its cores.
#[must_use]
pub fn node_of_endpoint(id: NodeId) -> NodeId {
    if id.0 < 0 { id } else { NodeId(id.0 % CORE_ID_STEP) }
}

/// All brokers a node stands for on that listener: one, or one a core.
pub fn endpoints<'a>(node: &'a Node, listener: &'a str) -> impl Iterator<Item = Endpoint> + 'a {
    let is_core = node.listener(listener).is_some_and(|at| at.advertise == Advertise::Core);
    let count = if is_core { node.shards } else { 1 };
    (0..count).filter_map(move |shard| endpoint(node, ShardIndex(shard), listener))
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use record::Offset;

    use super::*;
    use crate::image::ListenerEndpoint;

    fn node(advertise: Advertise, port: u16) -> Node {
        let listener = ListenerEndpoint {
            name: Arc::from("PLAINTEXT"),
            host: Arc::from("example.org"),
            port,
            security: 0,
            advertise,
        };
        Node {
            id: NodeId(7),
            incarnation: [1; 16],
            epoch: Offset(0),
            directory_id: [2; 16],
            listeners: vec![listener],
            rack: None,
            shards: 3,
        }
    }

    #[test]
    fn a_node_is_one_broker_and_a_core_is_one_of_several() {
        let told = |node: &Node| -> Vec<(i32, u16)> {
            endpoints(node, "PLAINTEXT").map(|at| (at.id.0, at.port)).collect()
        };
        assert_eq!(told(&node(Advertise::Node, 9092)), [(7, 9092)]);
        let cores = [(7, 9092), (10_007, 9093), (20_007, 9094)];
        assert_eq!(told(&node(Advertise::Core, 9092)), cores);
        for (id, _) in cores {
            assert_eq!(node_of_endpoint(NodeId(id)), NodeId(7));
        }
        assert_eq!(node_of_endpoint(NodeId::NONE), NodeId::NONE);
    }

    #[test]
    fn a_missing_listener_or_port_is_no_endpoint() {
        let node = node(Advertise::Core, 65_534);
        assert_eq!(endpoint(&node, ShardIndex(0), "OTHER"), None);
        assert!(endpoint(&node, ShardIndex(1), "PLAINTEXT").is_some());
        assert_eq!(endpoint(&node, ShardIndex(2), "PLAINTEXT"), None);
    }
}
