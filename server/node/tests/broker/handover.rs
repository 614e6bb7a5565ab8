//! Connections that move to the core which all their requests concern (DESIGN, section 8): nothing of them is lost on the way.

use wire::fetch::{FetchRequest, FetchResponse};
use wire::metadata::{MetadataRequest, MetadataResponse};
use wire::{ErrorCode, Records};

use crate::support::{
    Client, Node, Topic, batch, fetch_of, fetched, produce_of, produced, values_of,
};

const MOVED: &str = "corelog_connections_handed_over_total";
const FORWARDED: &str = "corelog_forwarded_requests_total";
/// After so many requests in a row the nodes of these tests move a connection.
const AFTER: usize = 4;

/// Two cores that share one port, and a topic with a partition on each.
fn node_with(settings: &[&str]) -> (Node, Topic) {
    let own = ["connections.handover.requests=4"];
    let node = Node::start(2, &[&own, settings].concat());
    let topic = Topic::create(&mut node.connect(), 2);
    node.wait_for_metric("corelog_connections", |count| count == 0);
    (node, topic)
}

/// The partition of the core that does not serve this client, which a forwarded request tells.
fn partition_elsewhere(node: &Node, client: &mut Client, topic: &Topic) -> i32 {
    let elsewhere = (0..2).find(|partition| {
        let before = node.metric(FORWARDED);
        client.end_of(topic, *partition);
        node.metric(FORWARDED) > before
    });
    let elsewhere = elsewhere.expect("each core has one of the two partitions");
    // One for its own core: what was asked above counts for nothing.
    client.end_of(topic, 1 - elsewhere);
    elsewhere
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn a_connection_moves_to_the_core_that_all_its_requests_concern_and_stays_the_same_one() {
    let (node, topic) = node_with(&[]);
    let mut client = node.connect();
    let elsewhere = partition_elsewhere(&node, &mut client, &topic);
    for value in numbered(AFTER) {
        assert_eq!(node.metric(MOVED), 0, "before {value}");
        client.append(&topic, elsewhere, &batch(&[&value]));
    }
    node.wait_for_metric(MOVED, |count| count == 1);
    let forwarded = node.metric(FORWARDED);
    for value in numbered(3 * AFTER).split_off(AFTER) {
        client.append(&topic, elsewhere, &batch(&[&value]));
    }
    let read = client.read_from(&topic, elsewhere, 0);
    assert_eq!(values_of(&read), numbered(3 * AFTER));
    assert_eq!(node.metric(FORWARDED), forwarded, "it is served where its partition is");
    let frame = client.call(9, &MetadataRequest::default());
    assert_eq!(frame.read::<MetadataResponse<'_>>().brokers[0].port, node.address().port().into());
    assert_eq!(node.metric("corelog_connections"), 1);
    // The one that made the topic, and this one: it came once.
    assert_eq!(node.metric("corelog_connections_accepted_total"), 2);
    drop(client);
    node.wait_for_metric("corelog_connections", |count| count == 0);
}

/// What was read ahead goes along: whole requests, and the beginning of one.
#[test]
fn requests_sent_without_waiting_are_answered_in_order_across_a_move() {
    let (node, topic) = node_with(&[]);
    for (round, cut) in (1_u64..).zip([1, 3, 40]) {
        let mut client = node.connect();
        let elsewhere = partition_elsewhere(&node, &mut client, &topic);
        let start = client.end_of(&topic, elsewhere);
        let values = numbered(300);
        let batches: Vec<Vec<u8>> = values.iter().map(|value| batch(&[value])).collect();
        let ids: Vec<i32> = batches
            .iter()
            .map(|records| {
                let request = produce_of(&topic, &[(elsewhere, records)]);
                client.send_in_two(9, &request, cut)
            })
            .collect();
        for (index, id) in (0..).zip(ids) {
            let frame = client.receive(9).expect("the connection goes on");
            assert_eq!(frame.correlation_id(), id);
            let answer = produced(&frame);
            assert_eq!((answer.error_code, answer.base_offset.0), (ErrorCode::None, start + index));
        }
        assert_eq!(node.metric(MOVED), round);
        assert_eq!(values_of(&client.read_from(&topic, elsewhere, start)), values);
    }
}

#[test]
fn a_client_of_several_cores_stays_where_it_came() {
    let (node, topic) = node_with(&[]);
    let mut client = node.connect();
    let records = batch(&["v"]);
    for round in 0..100 {
        client.append(&topic, round % 2, &records);
    }
    for _ in 0..5 * AFTER {
        client.call(9, &produce_of(&topic, &[(0, &records), (1, &records)]));
        client.call(12, &fetch_of(&topic, &[(1, 0), (0, 0)]));
    }
    assert!(node.metric(FORWARDED) >= 50, "half of what it asked was elsewhere");
    assert_eq!(node.metric(MOVED), 0);
}

#[test]
fn a_connection_that_has_just_moved_does_not_go_back_at_once() {
    let (node, topic) = node_with(&[]);
    let mut client = node.connect();
    let elsewhere = partition_elsewhere(&node, &mut client, &topic);
    // Before it moves, whenever that is: the second that it stays begins later.
    let started = std::time::Instant::now();
    for _ in 0..AFTER {
        client.append(&topic, elsewhere, &batch(&["v"]));
    }
    node.wait_for_metric(MOVED, |count| count == 1);
    // The next move needs twice as many in a row, and a second to have passed.
    let back = 1 - elsewhere;
    let mut count = 0;
    while node.metric(MOVED) == 1 {
        client.append(&topic, back, &batch(&["v"]));
        count += 1;
        assert!(started.elapsed().as_secs() < 30, "it never goes back");
    }
    assert!(started.elapsed().as_secs() >= 1, "after {:?}", started.elapsed());
    assert!(count >= 2 * AFTER, "after {count} requests");
}

#[test]
fn a_fetch_session_goes_along() {
    let (node, topic) = node_with(&[]);
    let mut client = node.connect();
    let elsewhere = partition_elsewhere(&node, &mut client, &topic);
    let mut producer = node.connect();
    let full = FetchRequest { session_epoch: 0, ..fetch_of(&topic, &[(elsewhere, 0)]) };
    let frame = client.call(12, &full);
    let session_id = frame.read::<FetchResponse<'_>>().session_id;
    assert_ne!(session_id, 0);
    for (epoch, value) in (1..).zip(numbered(3 * AFTER)) {
        let offset = producer.append(&topic, elsewhere, &batch(&[&value]));
        let request = fetch_of(&topic, &[(elsewhere, offset)]);
        let request = FetchRequest { session_id, session_epoch: epoch, ..request };
        let frame = client.call(12, &request);
        let answer: FetchResponse<'_> = frame.read();
        assert_eq!((answer.error_code, answer.session_id), (ErrorCode::None, session_id));
        assert_eq!(values_of(fetched(&frame).records.inline()), [value]);
    }
    node.wait_for_metric(MOVED, |count| count >= 1);
    assert_eq!(node.metric("corelog_fetch_sessions"), 1, "it is on one core, and there once");
}

/// Nothing says that a client is done with its session because it fetches without one in between.
#[test]
fn a_fetch_session_goes_along_after_fetches_without_one() {
    let (node, topic) = node_with(&[]);
    let mut client = node.connect();
    let elsewhere = partition_elsewhere(&node, &mut client, &topic);
    let mut producer = node.connect();
    let open = |client: &mut Client| {
        let full = FetchRequest { session_epoch: 0, ..fetch_of(&topic, &[(elsewhere, 0)]) };
        client.call(12, &full).read::<FetchResponse<'_>>().session_id
    };
    // One that is ended before, and one that goes on.
    let ended = open(&mut client);
    let last = FetchRequest { session_id: ended, ..fetch_of(&topic, &[(elsewhere, 0)]) };
    client.call(12, &FetchRequest { session_epoch: -1, ..last });
    let session_id = open(&mut client);
    for _ in 0..3 * AFTER {
        let alone = FetchRequest { session_epoch: -1, ..fetch_of(&topic, &[(elsewhere, 0)]) };
        client.call(12, &alone);
    }
    node.wait_for_metric(MOVED, |count| count == 1);
    let offset = producer.append(&topic, elsewhere, &batch(&["v"]));
    let request = fetch_of(&topic, &[(elsewhere, offset)]);
    let frame = client.call(12, &FetchRequest { session_id, session_epoch: 1, ..request });
    let answer: FetchResponse<'_> = frame.read();
    assert_eq!((answer.error_code, answer.session_id), (ErrorCode::None, session_id));
    assert_eq!(values_of(fetched(&frame).records.inline()), ["v"]);
    assert_eq!(node.metric("corelog_fetch_sessions"), 1);
}

/// A long poll holds its connection where it is until it is answered; what comes behind it is answered after it.
#[test]
fn a_fetch_that_waits_is_answered_before_its_connection_moves() {
    let (node, topic) = node_with(&[]);
    let mut client = node.connect();
    let elsewhere = partition_elsewhere(&node, &mut client, &topic);
    for _ in 1..AFTER {
        client.call(12, &fetch_of(&topic, &[(elsewhere, 0)]));
    }
    let waits = FetchRequest { max_wait_ms: 20_000, ..fetch_of(&topic, &[(elsewhere, 0)]) };
    let waiting = client.send(12, &waits);
    node.wait_for_metric("corelog_fetches_parked", |count| count == 1);
    let behind = client.send(9, &MetadataRequest::default());
    assert_eq!(node.metric(MOVED), 0);
    node.connect().append(&topic, elsewhere, &batch(&["there"]));
    let frame = client.receive(12).unwrap();
    assert_eq!(frame.correlation_id(), waiting);
    match fetched(&frame).records {
        Records::Inline(records) => assert_eq!(values_of(records), ["there"]),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.receive(9).unwrap().correlation_id(), behind);
    client.call(12, &fetch_of(&topic, &[(elsewhere, 0)]));
    node.wait_for_metric(MOVED, |count| count == 1);
    client.expect_alive();
}

#[test]
fn a_connection_keeps_its_place_among_those_of_its_address_when_it_moves() {
    let (node, topic) = node_with(&["max.connections.per.ip=2"]);
    for round in 1..=5 {
        let mut client = node.connect();
        let elsewhere = partition_elsewhere(&node, &mut client, &topic);
        for _ in 0..2 * AFTER {
            client.append(&topic, elsewhere, &batch(&["v"]));
        }
        node.wait_for_metric(MOVED, |count| count == round);
        let mut second = node.connect();
        second.expect_alive();
        node.connect().expect_closed();
        client.expect_alive();
        drop((client, second));
        node.wait_for_metric("corelog_connections", |count| count == 0);
    }
}

#[test]
fn clients_that_go_while_they_are_moved_leave_nothing_behind() {
    let (node, topic) = node_with(&["max.connections.per.ip=64"]);
    let records = batch(&["v"]);
    for round in 0..40 {
        let mut clients: Vec<Client> = (0..6).map(|_| node.connect()).collect();
        for (index, client) in (0..).zip(&mut clients) {
            for _ in 0..2 * AFTER {
                client.send(9, &produce_of(&topic, &[(index % 2, &records)]));
            }
            // Some have been answered once, others not at all.
            if (index + round) % 3 == 0 {
                assert!(client.receive(9).is_some());
            }
        }
    }
    node.wait_for_metric("corelog_connections", |count| count == 0);
    assert!(node.metric(MOVED) > 0);
    let mut clients: Vec<Client> = (0..64).map(|_| node.connect()).collect();
    clients.iter_mut().for_each(Client::expect_alive);
    node.connect().expect_closed();
}

#[test]
fn a_node_stops_while_its_connections_move() {
    let (mut node, topic) = node_with(&[]);
    let address = node.address();
    let moving: Vec<_> = (0..4)
        .map(|index| {
            let topic = topic.clone();
            std::thread::spawn(move || {
                let records = batch(&["v"]);
                let mut client = Client::connect(address);
                let mut count = 0;
                loop {
                    // First one partition, then the other: it moves whenever it may.
                    let partition = (index + count / 50) % 2;
                    let request = produce_of(&topic, &[(partition, &records)]);
                    if client.try_send(9, &request).is_err() || client.receive(9).is_none() {
                        return count;
                    }
                    count += 1;
                }
            })
        })
        .collect();
    node.wait_for_metric(MOVED, |count| count >= 4);
    node.stop();
    let answered: i32 = moving.into_iter().map(|client| client.join().unwrap()).sum();
    node.start_again();
    let mut client = node.connect();
    let kept = client.end_of(&topic, 0) + client.end_of(&topic, 1);
    assert!(kept >= answered.into(), "{kept} of {answered} acknowledged records");
}

#[test]
fn where_every_core_is_a_broker_of_its_own_connections_stay() {
    let node = Node::start(2, &["advertise=core", "connections.handover.requests=1"]);
    let topic = Topic::create(&mut node.connect(), 2);
    for core in 0..2 {
        let mut client = node.connect_to_core(core);
        for _ in 0..10 {
            client.append(&topic, 0, &batch(&["v"]));
            client.append(&topic, 1, &batch(&["v"]));
        }
        for _ in 0..10 {
            client.append(&topic, 0, &batch(&["v"]));
        }
    }
    assert!(node.metric(FORWARDED) > 0);
    assert_eq!(node.metric(MOVED), 0);
}
