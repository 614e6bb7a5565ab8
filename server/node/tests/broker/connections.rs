//! Connections: versions, bytes that are no request, and clients that do not behave (P59, P70, P72, P73).

use std::cell::RefCell;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use wire::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::fetch::FetchRequest;
use wire::metadata::{MetadataRequest, MetadataResponse};
use wire::produce::ProduceResponse;
use wire::{Call, ErrorCode, Records, encode_request};

use crate::support::{Client, Node, Topic, fetch_of, fetched, list_of, plain, produce_of};

/// A frame of this key and version with a body of these bytes.
fn frame(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let client_id: &[u8] = &[0, 1, b'c'];
    let rest = [
        &key.to_be_bytes(),
        &version.to_be_bytes(),
        7_i32.to_be_bytes().as_slice(),
        client_id,
        body,
    ]
    .concat();
    [&(rest.len() as u32).to_be_bytes(), rest.as_slice()].concat()
}

fn bytes_of(request: &MetadataRequest<'_>, correlation_id: i32) -> Vec<u8> {
    let call = Call { version: 9, correlation_id, client_id: None };
    encode_request(call, request).unwrap().into_bytes().unwrap().to_vec()
}

#[test]
fn every_version_of_api_versions_lists_the_same() {
    let mut client = Node::shared().connect();
    let request = ApiVersionsRequest {
        client_software_name: "tests".into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    };
    for version in 0..=5 {
        let frame = client.call(version, &request);
        let answer: ApiVersionsResponse<'_> = frame.read();
        assert_eq!(answer.error_code, ErrorCode::None, "v{version}");
        let range = |key| {
            let row = answer.api_keys.iter().find(|row| row.api_key == key);
            row.map(|row| (row.min_version, row.max_version))
        };
        // Produce from 0, though 0 to 2 are refused: older librdkafka would not compress otherwise (P59).
        let rows = [
            (0, (0, 13)),
            (1, (4, 18)),
            (2, (1, 11)),
            (3, (0, 13)),
            (18, (0, 5)),
            (19, (2, 7)),
            (20, (1, 6)),
            (22, (0, 5)),
            (32, (1, 4)),
            (60, (0, 2)),
        ];
        for (key, expected) in rows {
            assert_eq!(range(key), Some(expected), "key {key}");
        }
        assert_eq!(range(68), None, "what is not built is not advertised");
    }
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0_and_the_connection_goes_on() {
    let mut client = Node::shared().connect();
    for version in [6, 99, i16::MAX, -1] {
        client.send_bytes(&frame(18, version, &[1, 2, 3, 4]));
        let answer = client.receive(0).unwrap();
        assert_eq!(answer.correlation_id(), 7);
        let body: ApiVersionsResponse<'_> = answer.read();
        assert_eq!(body.error_code, ErrorCode::UnsupportedVersion, "v{version}");
        let rows: Vec<_> = body
            .api_keys
            .iter()
            .map(|row| (row.api_key, row.min_version, row.max_version))
            .collect();
        assert_eq!(rows, [(18, 0, 5)]);
    }
    client.expect_alive();
}

#[test]
fn a_client_whose_name_no_log_could_show_is_refused() {
    let mut client = Node::shared().connect();
    for (name, version) in [("", "1"), ("a b", "1"), ("a", ""), ("a", "1\n2")] {
        let request = ApiVersionsRequest {
            client_software_name: name.into(),
            client_software_version: version.into(),
            ..Default::default()
        };
        let frame = client.call(3, &request);
        let answer: ApiVersionsResponse<'_> = frame.read();
        assert_eq!(answer.error_code, ErrorCode::InvalidRequest, "{name:?} {version:?}");
    }
    client.expect_alive();
}

#[test]
fn what_is_not_served_closes_its_connection_and_no_other() {
    let mut witness = Node::shared().connect();
    for (key, version) in [
        // Produce before version 3 is advertised and refused.
        (0, 0),
        (0, 2),
        (0, 14),
        (1, 3),
        (1, 19),
        (3, -1),
        (3, 14),
        (4, 0),
        (17, 0),
        (58, 0),
        (999, 0),
        (-1, 0),
        (i16::MIN, 0),
    ] {
        let mut client = Node::shared().connect();
        client.send_bytes(&frame(key, version, &[0; 40]));
        client.expect_closed();
        witness.expect_alive();
    }
}

#[test]
fn a_body_that_is_not_what_its_header_says_closes_its_connection_and_no_other() {
    let mut witness = Node::shared().connect();
    let before = Node::shared().metric("corelog_resident_bytes");
    let huge = i32::MAX.to_be_bytes();
    for (key, version, body) in [
        // Arrays, strings and records that claim 2^31 - 1 entries or bytes.
        (3, 1, huge.to_vec()),
        (3, 9, [0, 0xff, 0xff, 0xff, 0xff, 0x0f].to_vec()),
        (3, 1, [[0, 0, 0, 1].as_slice(), &[0x7f, 0xff]].concat()),
        (0, 8, [[0xff; 2].as_slice(), &[0; 6], &huge].concat()),
        (1, 4, [[0xff; 4].as_slice(), &[0; 12], &[0], &huge].concat()),
        (2, 1, [[0xff; 4].as_slice(), &huge].concat()),
        (19, 2, huge.to_vec()),
        (20, 1, huge.to_vec()),
        (32, 1, huge.to_vec()),
        // Too short.
        (3, 1, vec![0]),
        (0, 8, Vec::new()),
        (22, 0, vec![0xff]),
    ] {
        let mut client = Node::shared().connect();
        client.send_bytes(&frame(key, version, &body));
        client.expect_closed();
        witness.expect_alive();
    }
    let grown = Node::shared().metric("corelog_resident_bytes").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for twelve small frames");
}

#[test]
fn sizes_that_no_frame_has_and_other_protocols_close_the_connection() {
    for bytes in [
        &[0xff, 0xff, 0xff, 0xff][..],
        &[0x80, 0, 0, 0],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x06, 0x40, 0, 1],
        // A TLS handshake, and HTTP.
        &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03],
        b"GET / HTTP/1.1\r\nHost: corelog\r\n\r\n",
        // Too short to be a request.
        &[0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 3, 0, 3, 0],
    ] {
        let mut client = Node::shared().connect();
        client.send_bytes(bytes);
        client.expect_closed();
    }
    Node::shared().connect().expect_alive();
}

#[test]
fn a_large_request_that_nobody_serves_is_not_read_to_its_end() {
    let size = (99_u32 << 20).to_be_bytes();
    let mut client = Node::shared().connect();
    client.send_bytes(&[size.as_slice(), &frame(999, 0, &[])[4..]].concat());
    client.expect_closed();
}

#[test]
fn frames_that_are_announced_and_not_sent_take_no_memory() {
    let before = Node::shared().metric("corelog_resident_bytes");
    let size = (99_u32 << 20).to_be_bytes();
    let start = [size.as_slice(), &frame(0, 9, &[0; 100])[4..]].concat();
    let mut clients: Vec<Client> = (0..100).map(|_| Node::shared().connect()).collect();
    for client in &mut clients {
        client.send_bytes(&start);
    }
    // The node has read what was sent by the time it answers one who came later.
    for _ in 0..3 {
        Node::shared().connect().expect_alive();
    }
    let grown = Node::shared().metric("corelog_resident_bytes").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 100 connections that sent 120 bytes each");
}

#[test]
fn requests_may_arrive_in_any_pieces() {
    let mut client = Node::shared().connect();
    let one = bytes_of(&MetadataRequest::default(), 1);
    for byte in &one {
        client.send_bytes(&[*byte]);
    }
    assert_eq!(client.receive(9).unwrap().correlation_id(), 1);
    let many: Vec<u8> = (2..40).flat_map(|id| bytes_of(&MetadataRequest::default(), id)).collect();
    client.send_bytes(&many[..many.len() - 5]);
    client.send_bytes(&many[many.len() - 5..]);
    for id in 2..40 {
        assert_eq!(client.receive(9).unwrap().correlation_id(), id);
    }
}

#[test]
fn a_client_that_has_said_its_last_word_still_gets_its_answers() {
    let mut client = Node::shared().connect();
    for id in 1..=30 {
        client.send_bytes(&bytes_of(&MetadataRequest::default(), id));
    }
    client.end_sending();
    for id in 1..=30 {
        assert_eq!(client.receive(9).unwrap().correlation_id(), id);
    }
    client.expect_closed();
}

#[test]
fn a_client_that_sends_without_reading_is_not_read_any_further_and_harms_nobody() {
    let mut witness = Node::shared().connect();
    let topic = Topic::create(&mut witness, 1);
    witness.append(&topic, 0, &plain(500_000));
    let mut greedy = Node::shared().connect();
    let fetch = fetch_of(&topic, &[(0, 0)]);
    let before = Node::shared().metric("corelog_resident_bytes");
    // 500 answers of 500 KB each are far more than the sockets between us hold.
    for _ in 0..500 {
        greedy.send(12, &fetch);
    }
    witness.expect_alive();
    let grown = Node::shared().metric("corelog_resident_bytes").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for answers that nobody reads");
    for id in 1..=500 {
        let answer = greedy.receive(12).unwrap();
        assert_eq!(answer.correlation_id(), id);
        assert_eq!(fetched(&answer).records.inline().len(), plain(500_000).len());
    }
}

#[test]
fn many_clients_come_and_go() {
    for _ in 0..200 {
        let mut client = Node::shared().connect();
        client.send_bytes(&[0, 0, 0, 100, 0, 3]);
    }
    let mut client = Node::shared().connect();
    let frame = client.call(9, &MetadataRequest::default());
    let answer: MetadataResponse<'_> = frame.read();
    assert_eq!(answer.brokers.len(), 1);
}

/// P72 over all connections: whose request holds memory and does not arrive keeps others waiting, and loses no request of theirs.
#[test]
fn large_requests_wait_for_memory_and_come_when_there_is_room() {
    let node = Node::start(1, &["request.memory.bytes=1048576"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let mut stalled = node.connect();
    let claimed = frame(0, 9, &vec![0; 2 << 20]);
    stalled.send_bytes(&claimed[..100_000]);
    node.wait_for_metric("corelog_request_memory_bytes", |bytes| bytes > 2 << 20);

    let records = plain(100_000);
    let sent = client.send(9, &produce_of(&topic, &[(0, &records)]));
    node.wait_for_metric("corelog_request_memory_waiters", |waiters| waiters == 1);
    node.connect().expect_alive();
    drop(stalled);
    let answer = client.receive(9).unwrap();
    assert_eq!(answer.correlation_id(), sent);
    let body: ProduceResponse<'_> = answer.read();
    assert_eq!(body.responses[0].partition_responses[0].error_code, ErrorCode::None);
    node.wait_for_metric("corelog_request_memory_bytes", |bytes| bytes == 0);
    assert_eq!(node.metric("corelog_request_memory_waiters"), 0);
}

/// P72 behind a long poll: who asks for weeks of waiting and holds memory that others need is answered first.
#[test]
fn a_long_poll_ends_where_others_wait_for_what_its_client_holds() {
    let node = Node::start(1, &["request.memory.bytes=1048576"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 2);
    let mut greedy = node.connect();
    // However many there are, none of them has half a second of its own.
    let poll = FetchRequest { max_wait_ms: i32::MAX, ..fetch_of(&topic, &[(0, 0)]) };
    let polled: Vec<i32> = (0..40).map(|_| greedy.send(12, &poll)).collect();
    let behind = greedy.send(7, &list_of(&topic, &vec![(0, -1); 20_000]));
    node.wait_for_metric("corelog_request_memory_bytes", |bytes| bytes > 1 << 20);

    let records = plain(100_000);
    let answer = client.call(9, &produce_of(&topic, &[(1, &records)]));
    let body: ProduceResponse<'_> = answer.read();
    assert_eq!(body.responses[0].partition_responses[0].error_code, ErrorCode::None);
    for polled in polled {
        let answer = greedy.receive(12).unwrap();
        assert_eq!(answer.correlation_id(), polled);
        assert!(fetched(&answer).records.inline().is_empty());
    }
    assert_eq!(greedy.receive(7).unwrap().correlation_id(), behind);
    // While nobody waits it takes its time.
    greedy.send(12, &FetchRequest { max_wait_ms: 2_000, ..fetch_of(&topic, &[(0, 0)]) });
    let begun = Instant::now();
    assert!(fetched(&greedy.receive(12).unwrap()).records.inline().is_empty());
    assert!(begun.elapsed() >= Duration::from_millis(1_900), "{:?}", begun.elapsed());
}

/// P72 for answers: readers that take theirs slowly leave the others one batch at a time, and nobody nothing.
#[test]
fn fetches_share_the_memory_that_slow_readers_leave() {
    let node = Node::start(1, &["fetch.memory.bytes=1048576"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let records = plain(100_000);
    for _ in 0..20 {
        client.call(9, &produce_of(&topic, &[(0, &records)]));
    }
    // More answers than any socket takes in, and more readers than halves of what is left.
    let mut slow: Vec<Client> = (0..8).map(|_| node.connect()).collect();
    for reader in &mut slow {
        for _ in 0..64 {
            reader.send(12, &fetch_of(&topic, &[(0, 0)]));
        }
    }
    let is_used_up = |bytes| bytes + records.len() as u64 > 1 << 20;
    node.wait_for_metric("corelog_fetch_memory_bytes", is_used_up);
    let mut read = || {
        let frame = client.call(12, &fetch_of(&topic, &[(0, 0)]));
        match fetched(&frame).records {
            Records::Inline(bytes) => bytes.len() / records.len(),
            _ => 0,
        }
    };
    assert!(read() >= 1);
    drop(slow);
    node.wait_for_metric("corelog_fetch_memory_bytes", |bytes| bytes == 0);
    // Half of what is left is for those who come next.
    assert_eq!(read(), (1 << 19) / records.len());
}

#[test]
fn an_address_has_so_many_connections_and_each_that_ends_makes_room_however_it_ends() {
    let node = Node::start(1, &["max.connections.per.ip=2"]);
    let mut kept = node.connect();
    kept.expect_alive();
    for round in 0..9 {
        let mut second = node.connect();
        second.expect_alive();
        node.connect().expect_closed();
        match round % 3 {
            0 => drop(second),
            1 => {
                second.send_bytes(b"GET / HTTP/1.1\r\n\r\n");
                second.expect_closed();
            }
            _ => {
                second.end_sending();
                second.expect_closed();
            }
        }
        node.wait_for_metric("corelog_connections", |count| count == 1);
    }
    assert_eq!(node.metric("corelog_connections_refused_per_ip_total"), 9);
    assert_eq!(node.metric("corelog_connections_refused_total"), 0);
    kept.expect_alive();
}

#[test]
fn an_address_may_have_a_limit_of_its_own() {
    let limits = "max.connections.per.ip.overrides=::1:1,127.0.0.1:3";
    let node = Node::start(1, &["max.connections.per.ip=1", limits]);
    let mut kept: Vec<Client> = (0..3).map(|_| node.connect()).collect();
    kept.iter_mut().for_each(Client::expect_alive);
    node.connect().expect_closed();
    let limits = "max.connections.per.ip.overrides=127.0.0.1:0";
    let node = Node::start(1, &["max.connections.per.ip=9", limits]);
    node.connect().expect_closed();
    assert_eq!(node.metric("corelog_connections_refused_per_ip_total"), 1);
}

#[test]
fn a_connection_on_which_nothing_moves_is_closed_and_one_that_works_is_not() {
    let node = Node::start(1, &["connections.max.idle.ms=1500"]);
    let (mut silent, mut half) = (node.connect(), node.connect());
    half.send_bytes(&[0, 0, 0, 100, 0, 3]);
    let works = RefCell::new(node.connect());
    node.wait_for_metric("corelog_connections_idle_total", |count| {
        works.borrow_mut().expect_alive();
        count == 2
    });
    silent.expect_closed();
    half.expect_closed();
    works.into_inner().expect_alive();
}

/// P72 for answers: what a client does not take is not kept for it for ever.
#[test]
fn a_client_that_takes_no_answers_is_closed_and_their_memory_is_free() {
    let node = Node::start(1, &["connections.send.timeout.ms=1000"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let records = plain(100_000);
    for _ in 0..20 {
        client.call(9, &produce_of(&topic, &[(0, &records)]));
    }
    let mut stalled = node.connect();
    for _ in 0..64 {
        stalled.send(12, &fetch_of(&topic, &[(0, 0)]));
    }
    node.wait_for_metric("corelog_connections_stalled_total", |count| count == 1);
    node.wait_for_metric("corelog_connections", |count| count == 1);
    node.wait_for_metric("corelog_fetch_memory_bytes", |bytes| bytes == 0);
    client.expect_alive();
}

/// Kafka replaces what is no UTF-8; a name is not worth a connection.
#[test]
fn a_client_may_call_itself_by_bytes_that_are_no_text() {
    let mut client = Node::shared().connect();
    let header = [0, 3, 0, 1, 0, 0, 0, 7, 0, 4, b'a', 0xff, 0xc3, b'b'];
    let rest = [header.as_slice(), &[0xff; 4]].concat();
    client.send_bytes(&[&(rest.len() as u32).to_be_bytes(), rest.as_slice()].concat());
    let frame = client.receive(1).expect("an answer");
    assert_eq!(frame.correlation_id(), 7);
    assert_eq!(frame.read::<MetadataResponse<'_>>().brokers.len(), 1);
    client.expect_alive();
}

#[test]
fn clients_of_the_admin_server_that_say_nothing_keep_nobody_out() {
    let node = Node::start(1, &[]);
    let silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(node.admin()).unwrap()).collect();
    for _ in 0..5 {
        assert_eq!(node.metric("corelog_panics_total"), 0);
    }
    drop(silent);
}
