//! Where a client reaches a partition, on the way it came (DESIGN section 8).
//!
//! Owns what `cluster::endpoint` leaves to the connection: a listener without an advertised host answers the address that the
//! client itself connected to. Every response that names a broker is built through here and nowhere else.

use std::net::{IpAddr, SocketAddr};

use cluster::Node;
use record::{NodeId, ShardIndex};

/// A broker as one client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Its id.
    pub id: NodeId,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// How a client came here, and so by which address it reaches everyone else.
#[derive(Debug, Clone, Copy)]
pub struct Approach<'a> {
    /// The listener it connected to.
    pub listener: &'a str,
    /// Our end of its connection.
    pub connected_to: SocketAddr,
}

impl Approach<'_> {
    /// The broker that stands for core `owner` of `node`; `None` where the node has no such listener (MD-1).
    #[must_use]
    pub fn to(&self, node: &Node, owner: ShardIndex) -> Option<Reached> {
        cluster::endpoint(node, owner, self.listener).map(|endpoint| self.reached(&endpoint))
    }

    /// Every broker that this client sees of `node`: one, or one a core.
    pub fn to_all(&self, node: &Node) -> Vec<Reached> {
        cluster::endpoints(node, self.listener).map(|endpoint| self.reached(&endpoint)).collect()
    }

    fn reached(&self, endpoint: &cluster::Endpoint) -> Reached {
        let host = if endpoint.host.is_empty() {
            text_of(self.connected_to.ip())
        } else {
            endpoint.host.to_string()
        };
        Reached { id: endpoint.id, host, port: endpoint.port }
    }
}

/// An IPv4 address that arrived in IPv6 clothes is told as what the client dialled.
fn text_of(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{Advertise, ListenerEndpoint};
    use record::Offset;

    fn node(host: &str) -> Node {
        let listener = ListenerEndpoint {
            name: "main".into(),
            host: host.into(),
            port: 9092,
            security: 0,
            advertise: Advertise::Node,
        };
        Node {
            id: NodeId(7),
            incarnation: [0; 16],
            epoch: Offset(0),
            directory_id: [0; 16],
            listeners: vec![listener],
            rack: None,
            shards: 4,
        }
    }

    #[test]
    fn a_client_is_told_the_advertised_host_or_the_address_it_dialled() {
        let check = |host: &str, connected_to: &str, expected: &str| {
            let connected_to = connected_to.parse().expect("an address");
            let approach = Approach { listener: "main", connected_to };
            let reached = approach.to(&node(host), ShardIndex(3)).expect("the listener is there");
            assert_eq!(
                (reached.id, reached.host.as_str(), reached.port),
                (NodeId(7), expected, 9092)
            );
            assert_eq!(approach.to_all(&node(host)), [reached]);
        };
        check("kafka.example", "10.1.2.3:9092", "kafka.example");
        check("", "10.1.2.3:9092", "10.1.2.3");
        check("", "[::ffff:127.0.0.1]:9092", "127.0.0.1");
        check("", "[::1]:9092", "::1");
    }

    #[test]
    fn a_node_without_the_clients_listener_is_not_seen() {
        let connected_to = "10.1.2.3:9092".parse().expect("an address");
        let approach = Approach { listener: "other", connected_to };
        assert_eq!(approach.to(&node("a"), ShardIndex(0)), None);
        assert_eq!(approach.to_all(&node("a")), []);
    }
}
