//! Two cores: a client that comes by the wrong one is served as by the right one (DESIGN, sections 2 and 8).

use std::collections::BTreeMap;
use std::time::Instant;

use record::{Codec, LeaderEpoch, NodeId, Offset};
use wire::ErrorCode;
use wire::create_topics::CreateTopicsRequest;
use wire::delete_topics::DeleteTopicsRequest;
use wire::fetch::{FetchRequest, FetchResponse};
use wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::produce::ProduceRequest;

use crate::support::{
    Client, Frame, Node, TIME, Topic, batch, batch_of, fetch_of, fetched, list_of, listed,
    offsets_of, plain, produce_of, produced, produced_all, record, sequenced, values_of,
};

const CORES: [u16; 2] = [0, 1];

fn pair() -> [Client; 2] {
    CORES.map(|core| Node::shared_pair().connect_to_core(core))
}

/// The core that leads each partition, as metadata tells it.
fn leaders(client: &mut Client, topic: &Topic) -> Vec<u16> {
    let asked =
        MetadataRequestTopic { name: Some(topic.name.as_str().into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![asked]), ..Default::default() };
    let frame = client.call(9, &request);
    let answer: MetadataResponse<'_> = frame.read();
    let partitions = answer.topics[0].partitions.iter();
    partitions.map(|partition| if partition.leader_id == NodeId(1) { 0 } else { 1 }).collect()
}

/// A topic with a partition on each core, the first of core 0 and of core 1.
fn topic_on_both(client: &mut Client) -> (Topic, [i32; 2]) {
    let topic = Topic::create(client, 2);
    let leaders = leaders(client, &topic);
    let on = CORES.map(|core| leaders.iter().position(|leader| *leader == core).unwrap() as i32);
    (topic, on)
}

/// The same request over both cores must have the same answer, byte for byte.
fn check_same<'a, R: wire::Request<'a>>(
    clients: &mut [Client; 2],
    version: i16,
    request: &R,
) -> Frame {
    let mut answers = clients.each_mut().map(|client| client.call(version, request));
    for answer in &mut answers {
        answer.bytes[..4].fill(0);
    }
    let [first, second] = answers;
    assert_eq!(first, second);
    first
}

#[test]
fn each_core_is_a_broker_of_its_own_at_a_port_of_its_own() {
    let node = Node::shared_pair();
    for mut client in pair() {
        let frame =
            client.call(9, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() });
        let answer: MetadataResponse<'_> = frame.read();
        let found: Vec<_> =
            answer.brokers.iter().map(|broker| (broker.node_id.0, broker.port)).collect();
        let port = i32::from(node.address().port());
        assert_eq!(found, [(1, port), (10_001, port + 1)]);
    }
}

#[test]
fn partitions_are_dealt_to_the_cores_in_turn() {
    let [mut client, _] = pair();
    let topic = Topic::create(&mut client, 8);
    let leaders = leaders(&mut client, &topic);
    for pair in leaders.windows(2) {
        assert_ne!(pair[0], pair[1], "{leaders:?}");
    }
}

#[test]
fn a_fetch_has_the_same_answer_over_either_core() {
    let mut clients = pair();
    let (topic, on) = topic_on_both(&mut clients[0]);
    for partition in on {
        for codec in Codec::ALL {
            let records = [record(0, b"first"), record(5, &[b'x'; 2000])];
            clients[0].append(&topic, partition, &batch_of(codec, &records));
        }
    }
    let [own, other] = on;
    for version in 4..=18 {
        check_same(&mut clients, version, &fetch_of(&topic, &[(own, 0), (other, 3), (9, 0)]));
        check_same(
            &mut clients,
            version,
            &fetch_of(&topic, &[(other, 10), (own, 11), (other, 99)]),
        );
        let committed =
            FetchRequest { isolation_level: 1, ..fetch_of(&topic, &[(other, 1), (own, 0)]) };
        check_same(&mut clients, version, &committed);
    }
    let mut wrong = fetch_of(&topic, &[(own, 0), (other, 0)]);
    for partition in &mut wrong.topics[0].partitions {
        partition.current_leader_epoch = LeaderEpoch(4);
    }
    let frame = check_same(&mut clients, 12, &wrong);
    let answer: FetchResponse<'_> = frame.read();
    for partition in &answer.responses[0].partitions {
        assert_eq!(partition.error_code, ErrorCode::UnknownLeaderEpoch);
    }
}

#[test]
fn offsets_have_the_same_answer_over_either_core() {
    let mut clients = pair();
    let (topic, on) = topic_on_both(&mut clients[0]);
    for partition in on {
        let records = [record(10, b"v"), record(20, b"v")];
        clients[0].append(&topic, partition, &batch_of(Codec::Gzip, &records));
    }
    let [own, other] = on;
    for timestamp in [-1, -2, -3, -4, -5, -6, -7, 0, TIME + 11, TIME + 21] {
        let asked = [(own, timestamp), (other, timestamp), (9, timestamp)];
        for version in [1, 4, 7, 11] {
            let frame = check_same(&mut clients, version, &list_of(&topic, &asked));
            let answers = listed(&frame);
            assert_eq!(answers[0].error_code, answers[1].error_code);
            assert_eq!(answers[0].offset, answers[1].offset);
        }
    }
}

#[test]
fn a_refused_batch_has_the_same_answer_over_either_core() {
    let mut clients = pair();
    let (topic, [own, other]) = topic_on_both(&mut clients[0]);
    let sound = batch(&["sound"]);
    let mut flipped = sound.clone();
    flipped[65] ^= 1;
    let large = plain(2 << 20);
    let zstd = batch_of(Codec::Zstd, &[record(0, b"zstd")]);
    for (version, records, expected) in [
        (9, flipped, ErrorCode::CorruptMessage),
        (13, large, ErrorCode::MessageTooLarge),
        (6, zstd, ErrorCode::UnsupportedCompressionType),
        (8, Vec::new(), ErrorCode::InvalidRecord),
    ] {
        for acks in [1, -1, 5] {
            let batches = [(own, records.as_slice()), (other, &records), (7, &sound)];
            let request = ProduceRequest { acks, ..produce_of(&topic, &batches) };
            let frame = check_same(&mut clients, version, &request);
            let codes: Vec<_> = produced_all(&frame).iter().map(|a| a.error_code).collect();
            let unknown = ErrorCode::UnknownTopicOrPartition;
            let invalid = ErrorCode::InvalidRequiredAcks;
            let codes_expected =
                if acks == 5 { [invalid; 3] } else { [expected, expected, unknown] };
            assert_eq!(codes, codes_expected, "v{version} acks={acks}");
        }
    }
    assert_eq!((clients[0].end_of(&topic, own), clients[0].end_of(&topic, other)), (0, 0));
}

#[test]
fn a_produce_over_either_core_goes_to_every_partition_and_is_seen_by_all() {
    let mut clients = pair();
    let topic = Topic::create(&mut clients[0], 6);
    let before = Node::shared_pair().metric("corelog_forwarded_requests_total");
    for round in 0..4 {
        for client in &mut clients {
            let records = batch(&["everywhere"]);
            let batches: Vec<_> = (0..6).map(|partition| (partition, records.as_slice())).collect();
            let frame = client.call(9, &produce_of(&topic, &batches));
            for (index, answer) in (0..).zip(produced_all(&frame)) {
                assert_eq!((answer.error_code, answer.index.0), (ErrorCode::None, index));
                assert!([round * 2, round * 2 + 1].contains(&answer.base_offset.0));
            }
        }
    }
    for client in &mut clients {
        for partition in 0..6 {
            assert_eq!(offsets_of(&client.read_from(&topic, partition, 0)).len(), 8);
        }
    }
    assert!(Node::shared_pair().metric("corelog_forwarded_requests_total") > before);
}

#[test]
fn batches_pipelined_over_either_core_are_appended_in_order() {
    for core in CORES {
        let mut client = Node::shared_pair().connect_to_core(core);
        let (topic, on) = topic_on_both(&mut client);
        for sequence in 0..60 {
            let records = sequenced(500, 0, sequence, 1);
            let request = produce_of(&topic, &[(on[0], &records), (on[1], &records)]);
            let acks = if sequence % 3 == 0 { 1 } else { -1 };
            client.send(9, &ProduceRequest { acks, ..request });
        }
        for sequence in 0..60 {
            let frame = client.receive(9).unwrap();
            for answer in produced_all(&frame) {
                let found = (answer.error_code, answer.base_offset);
                assert_eq!(found, (ErrorCode::None, Offset(sequence)), "core {core}");
            }
        }
    }
}

#[test]
fn duplicates_are_known_over_either_core() {
    let mut clients = pair();
    let (topic, on) = topic_on_both(&mut clients[0]);
    for partition in on {
        let records = sequenced(600, 0, 0, 2);
        for client in &mut clients {
            assert_eq!(client.append(&topic, partition, &records), 0);
        }
        let gap = sequenced(600, 0, 5, 1);
        let frame = check_same(&mut clients, 9, &produce_of(&topic, &[(partition, &gap)]));
        assert_eq!(produced(&frame).error_code, ErrorCode::OutOfOrderSequenceNumber);
        assert_eq!(clients[1].end_of(&topic, partition), 2);
    }
}

#[test]
fn acks_0_over_either_core_appends_in_silence_and_closes_on_an_error() {
    for core in CORES {
        let mut client = Node::shared_pair().connect_to_core(core);
        let (topic, on) = topic_on_both(&mut client);
        let sound = batch(&["silent"]);
        let mut flipped = sound.clone();
        flipped[65] ^= 1;
        for partition in on {
            let request = produce_of(&topic, &[(partition, &sound)]);
            client.send(9, &ProduceRequest { acks: 0, ..request });
            assert_eq!(client.append(&topic, partition, &batch(&["loud"])), 1);
        }
        for partition in on {
            let mut client = Node::shared_pair().connect_to_core(core);
            let request = produce_of(&topic, &[(partition, &flipped)]);
            client.send(9, &ProduceRequest { acks: 0, ..request });
            client.expect_closed();
        }
    }
}

#[test]
fn a_fetch_that_waits_is_woken_by_an_append_on_either_core() {
    let [mut writer, _] = pair();
    let (topic, on) = topic_on_both(&mut writer);
    for core in CORES {
        let mut reader = Node::shared_pair().connect_to_core(core);
        for partition in on {
            for _ in 0..5 {
                let ends = on.map(|partition| (partition, writer.end_of(&topic, partition)));
                let started = Instant::now();
                let request = FetchRequest { max_wait_ms: 20_000, ..fetch_of(&topic, &ends) };
                reader.send(12, &request);
                writer.expect_alive();
                writer.expect_alive();
                writer.append(&topic, partition, &batch(&["wake"]));
                let frame = reader.receive(12).unwrap();
                let answer: FetchResponse<'_> = frame.read();
                for data in &answer.responses[0].partitions {
                    let values = values_of(data.records.inline());
                    assert_eq!(values.len(), usize::from(data.partition_index.0 == partition));
                }
                // Both the wait and its longest piece on another core are shorter than this only if it was woken.
                assert!(
                    started.elapsed().as_millis() < 900,
                    "core {core}: {:?}",
                    started.elapsed()
                );
            }
        }
    }
}

#[test]
fn the_budget_of_a_fetch_is_spent_in_the_order_of_the_request_whatever_the_cores() {
    let mut clients = pair();
    let (topic, on) = topic_on_both(&mut clients[0]);
    let (large, small) = (plain(100_000), plain(1000));
    for partition in on {
        clients[0].append(&topic, partition, &large);
        clients[0].append(&topic, partition, &small);
    }
    for order in [[on[0], on[1]], [on[1], on[0]]] {
        for (max_bytes, from, expected) in [
            (10, [0, 0], [large.len(), 0]),
            (large.len() as i32 + 10, [0, 0], [large.len(), 0]),
            (200_000, [0, 1], [large.len() + small.len(), small.len()]),
            (1100, [1, 1], [small.len(), 0]),
            (2 * small.len() as i32, [1, 1], [small.len(), small.len()]),
        ] {
            let asked = [(order[0], from[0]), (order[1], from[1])];
            let request = FetchRequest { max_bytes, ..fetch_of(&topic, &asked) };
            let frame = check_same(&mut clients, 12, &request);
            let answer: FetchResponse<'_> = frame.read();
            let partitions = answer.responses[0].partitions.iter();
            let sizes: Vec<_> = partitions.map(|data| data.records.inline().len()).collect();
            assert_eq!(sizes, expected, "max_bytes={max_bytes} order={order:?}");
        }
    }
}

/// Clients that go where metadata says, as every unmodified client does.
#[test]
fn nothing_is_forwarded_where_clients_go_to_the_core_that_leads() {
    let node = Node::start(2, &["advertise=core"]);
    let mut clients = CORES.map(|core| node.connect_to_core(core));
    let topic = Topic::create(&mut clients[0], 6);
    for (partition, core) in (0..).zip(leaders(&mut clients[0], &topic)) {
        let client = &mut clients[usize::from(core)];
        for value in ["a", "b", "c"] {
            client.append(&topic, partition, &batch(&[value]));
        }
        assert_eq!(values_of(&client.read_from(&topic, partition, 0)), ["a", "b", "c"]);
        assert_eq!(client.end_of(&topic, partition), 3);
        // At the end: it waits a while.
        let request = FetchRequest { max_wait_ms: 50, ..fetch_of(&topic, &[(partition, 3)]) };
        assert_eq!(fetched(&client.call(12, &request)).error_code, ErrorCode::None);
    }
    assert_eq!(node.metric("corelog_forwarded_requests_total"), 0);
    assert_eq!(node.metric("corelog_connections_handed_over_total"), 0);
    assert_eq!(node.metric("corelog_appended_batches_total"), 18);
}

#[test]
fn a_topic_is_there_and_gone_on_both_cores_when_its_answer_comes() {
    let mut clients = pair();
    for round in 0..10 {
        let (asks, knows) = (round % 2, (round + 1) % 2);
        let topic = Topic::create(&mut clients[asks], 2);
        let records = batch(&["there"]);
        let frame = clients[knows].call(9, &produce_of(&topic, &[(0, &records), (1, &records)]));
        for answer in produced_all(&frame) {
            assert_eq!(answer.error_code, ErrorCode::None);
        }
        let request = DeleteTopicsRequest {
            topic_names: vec![topic.name.as_str().into()],
            ..Default::default()
        };
        clients[asks].call(4, &request);
        let frame = clients[knows].call(13, &fetch_of(&topic, &[(0, 0)]));
        assert_eq!(fetched(&frame).error_code, ErrorCode::UnknownTopicId);
    }
    let frame = clients[0].call(7, &CreateTopicsRequest::default());
    assert!(frame.read::<wire::create_topics::CreateTopicsResponse<'_>>().topics.is_empty());
}

#[test]
fn the_number_of_cores_may_change_at_a_restart_and_nothing_is_lost() {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 5);
    let mut expected: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for (round, cores) in (0..).zip([2, 1, 3, 2]) {
        if round > 0 {
            if round % 2 == 0 {
                node.kill();
            } else {
                node.stop();
            }
            node.set_shards(cores);
            node.start_again();
        }
        let mut client = node.connect_to_core(cores - 1);
        for partition in 0..5 {
            let value = format!("{round}-{partition}");
            client.append(&topic, partition, &batch(&[&value]));
            // The same producer goes on, whichever core its partition lives on now.
            client.append(&topic, partition, &sequenced(9, 0, round, 1));
            let values = expected.entry(partition).or_default();
            values.extend([value, format!("9/0/{round}")]);
            assert_eq!(values_of(&client.read_from(&topic, partition, 0)), *values);
        }
    }
}
