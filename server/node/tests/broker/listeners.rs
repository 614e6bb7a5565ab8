//! Several listeners: each client is told the way it came (P58, DESIGN section 8).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use wire::metadata::{MetadataRequest, MetadataResponse};

use crate::support::{Client, Node, Topic, batch, values_of};

/// The brokers that metadata tells this client of, and DescribeCluster, which must say the same.
fn brokers(client: &mut Client) -> Vec<(i32, String, i32)> {
    let frame = client.call(12, &MetadataRequest::default());
    let answer: MetadataResponse<'_> = frame.read();
    let told = answer.brokers.iter();
    let told: Vec<_> =
        told.map(|broker| (broker.node_id.0, broker.host.to_string(), broker.port)).collect();
    let frame = client.call(0, &DescribeClusterRequest::default());
    let answer: DescribeClusterResponse<'_> = frame.read();
    let described = answer.brokers.iter();
    let described: Vec<_> = described
        .map(|broker| (broker.broker_id.0, broker.host.to_string(), broker.port))
        .collect();
    assert_eq!(told, described);
    told
}

#[test]
fn each_client_is_told_the_address_of_its_own_listener() {
    let node = Node::start(
        2,
        &[
            "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,SIX://[::1]:0",
            "advertised.listeners=OUTSIDE://broker1.example.org:443,SIX://[2001:db8::7]:0",
        ],
    );
    let port = |index| i32::from(node.listener(index).port());
    let expected = [
        (1, "127.0.0.1".to_owned(), port(0)),
        (1, "broker1.example.org".to_owned(), 443),
        (1, "2001:db8::7".to_owned(), port(2)),
    ];
    let topic = Topic::create(&mut Client::connect(node.listener(0)), 2);
    for (index, expected) in expected.into_iter().enumerate() {
        let mut client = Client::connect(node.listener(index));
        assert_eq!(brokers(&mut client), [expected]);
        client.append(&topic, 0, &batch(&["by any of them"]));
    }
    let values = values_of(&node.connect().read_from(&topic, 0, 0));
    assert_eq!(values, ["by any of them"; 3]);
}

#[test]
fn a_listener_on_every_address_takes_both_families_and_tells_each_what_it_dialled() {
    let node = Node::start(1, &["listeners=[::]:0"]);
    let port = node.listener(0).port();
    for (dialled, host) in [
        (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), "127.0.0.1"),
        (SocketAddr::from((Ipv4Addr::new(127, 1, 2, 3), port)), "127.1.2.3"),
        (SocketAddr::from((Ipv6Addr::LOCALHOST, port)), "::1"),
    ] {
        let told = brokers(&mut Client::connect(dialled));
        assert_eq!(told, [(1, host.to_owned(), i32::from(port))]);
    }
}
