//! Produce: order, acks, and every way in which a batch is refused (PR, RB).

use record::{Codec, Offset, PartitionIndex, Timestamp, TopicId};
use wire::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::metadata::{MetadataRequest, MetadataResponse};
use wire::produce::{ProduceRequest, TopicProduceData};
use wire::{ErrorCode, Records};

use crate::support::{
    Client, Node, TIME, Topic, batch, batch_of, changed, fetch_of, fetched, offsets_of, plain,
    produce_of, produced, produced_all, record, sequenced, values_of,
};

fn topic_and_client() -> (Client, Topic) {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    (client, topic)
}

/// Produces with acks=-1 and expects this error, and that nothing was appended if it is one.
fn check(client: &mut Client, topic: &Topic, version: i16, records: &[u8], expected: ErrorCode) {
    let before = client.end_of(topic, 0);
    let frame = client.call(version, &produce_of(topic, &[(0, records)]));
    let answer = produced(&frame);
    let message = &answer.error_message;
    assert_eq!(answer.error_code, expected, "v{version}: {message:?}");
    if expected != ErrorCode::None {
        assert_eq!(answer.base_offset, Offset(-1));
        assert_eq!(client.end_of(topic, 0), before, "a refused batch was appended");
        assert_eq!(message.is_some(), version >= 8);
    }
}

#[test]
fn pipelined_requests_are_answered_in_their_order_and_see_what_came_before_and_nothing_else() {
    let (mut client, topic) = topic_and_client();
    let mut sent = Vec::new();
    for round in 0..20 {
        let records = batch(&[&round.to_string()]);
        let acks = if round % 2 == 0 { -1 } else { 1 };
        let produce = ProduceRequest { acks, ..produce_of(&topic, &[(0, &records)]) };
        sent.push((client.send(9, &produce), 9, 'p'));
        sent.push((client.send(12, &fetch_of(&topic, &[(0, round)])), 12, 'f'));
        sent.push((client.send(9, &MetadataRequest::default()), 9, 'm'));
    }
    for (step, (id, version, kind)) in sent.into_iter().enumerate() {
        let frame = client.receive(version).unwrap();
        assert_eq!(frame.correlation_id(), id);
        let round = (step / 3) as i64;
        match kind {
            'p' => assert_eq!(produced(&frame).base_offset, Offset(round)),
            'f' => {
                let answer = fetched(&frame);
                let values = values_of(answer.records.inline());
                assert_eq!(values, [round.to_string()]);
            }
            _ => assert!(!frame.read::<MetadataResponse<'_>>().topics.is_empty()),
        }
    }
}

#[test]
fn a_batch_sent_right_behind_the_creation_of_its_topic_is_appended() {
    let mut client = Node::shared().connect();
    let name = "created-and-written-in-one-go";
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let creation = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
    let topic = Topic { name: name.to_owned(), id: TopicId::ZERO };
    let records = batch(&["first"]);
    client.send(7, &creation);
    client.send(9, &produce_of(&topic, &[(0, &records)]));
    client.receive(7).unwrap();
    let frame = client.receive(9).unwrap();
    assert_eq!(produced(&frame).error_code, ErrorCode::None);
}

#[test]
fn a_hundred_pipelined_batches_of_an_idempotent_producer_are_appended_in_order() {
    let (mut client, topic) = topic_and_client();
    for sequence in 0..100 {
        let records = sequenced(900, 0, sequence, 1);
        client.send(9, &produce_of(&topic, &[(0, &records)]));
    }
    for sequence in 0..100 {
        let frame = client.receive(9).unwrap();
        let answer = produced(&frame);
        assert_eq!((answer.error_code, answer.base_offset.0), (ErrorCode::None, sequence));
    }
}

#[test]
fn acks_0_is_not_answered_and_the_records_are_there() {
    let (mut client, topic) = topic_and_client();
    let records = batch(&["silent"]);
    client.send(9, &ProduceRequest { acks: 0, ..produce_of(&topic, &[(0, &records)]) });
    // Behind it, so that it is acknowledged after it.
    assert_eq!(client.append(&topic, 0, &batch(&["loud"])), 1);
    assert_eq!(values_of(&client.read_from(&topic, 0, 0)), ["silent", "loud"]);
}

#[test]
fn acks_0_with_an_error_closes_the_connection() {
    let (mut client, topic) = topic_and_client();
    let records = batch(&["lost"]);
    client.send(9, &ProduceRequest { acks: 0, ..produce_of(&topic, &[(7, &records)]) });
    client.expect_closed();
    assert_eq!(Node::shared().connect().end_of(&topic, 0), 0);
}

#[test]
fn acks_1_and_all_are_answered_when_readers_can_see_the_records() {
    let (mut client, topic) = topic_and_client();
    for (round, acks) in (0..).zip([1, -1, 1, -1]) {
        let records = batch(&["seen"]);
        let frame =
            client.call(9, &ProduceRequest { acks, ..produce_of(&topic, &[(0, &records)]) });
        assert_eq!(produced(&frame).base_offset, Offset(round));
        assert_eq!(offsets_of(&client.read_from(&topic, 0, round)), [round], "acks={acks}");
    }
}

#[test]
fn other_acks_are_refused_for_every_partition_and_answered() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 2);
    let records = batch(&["refused"]);
    for acks in [2, -2, i16::MAX, i16::MIN] {
        let request = produce_of(&topic, &[(0, &records), (1, &records)]);
        let frame = client.call(9, &ProduceRequest { acks, ..request });
        let codes: Vec<_> = produced_all(&frame).iter().map(|answer| answer.error_code).collect();
        assert_eq!(codes, [ErrorCode::InvalidRequiredAcks; 2], "acks={acks}");
    }
    assert_eq!((client.end_of(&topic, 0), client.end_of(&topic, 1)), (0, 0));
    // No partition to refuse: an answer all the same, or the client would take the next one for it.
    for request in [produce_of(&topic, &[]), ProduceRequest::default()] {
        let frame = client.call(9, &ProduceRequest { acks: 2, ..request });
        let answer: wire::produce::ProduceResponse<'_> = frame.read();
        assert!(answer.responses.iter().all(|topic| topic.partition_responses.is_empty()));
    }
    client.expect_alive();
}

#[test]
fn an_answer_says_where_the_batch_went() {
    let (mut client, topic) = topic_and_client();
    let records = batch(&["a", "b", "c"]);
    for (version, base) in (3..=13).zip((0..).step_by(3)) {
        let frame = client.call(version, &produce_of(&topic, &[(0, &records)]));
        let answer = produced(&frame);
        assert_eq!((answer.error_code, answer.index), (ErrorCode::None, PartitionIndex(0)));
        assert_eq!(answer.base_offset, Offset(base), "v{version}");
        assert_eq!(answer.log_append_time_ms, Timestamp::NONE);
        assert_eq!(answer.log_start_offset.0, if version >= 5 { 0 } else { -1 });
    }
}

#[test]
fn stored_bytes_differ_from_sent_ones_in_base_offset_and_leader_epoch_alone() {
    let (mut client, topic) = topic_and_client();
    for codec in Codec::ALL {
        let sent = batch_of(codec, &[record(0, b"first"), record(5, &[b'x'; 2000])]);
        let base = client.append(&topic, 0, &sent);
        let stored = client.read_from(&topic, 0, base);
        assert_eq!(stored[..8], base.to_be_bytes());
        assert_eq!(stored[12..16], 0_i32.to_be_bytes(), "the leader's epoch");
        assert_eq!((&stored[8..12], &stored[16..]), (&sent[8..12], &sent[16..]), "{codec}");
    }
}

#[test]
fn a_wrong_largest_timestamp_is_corrected() {
    let (mut client, topic) = topic_and_client();
    let sent = batch_of(Codec::None, &[record(7, b"late"), record(3, b"early")]);
    let wrong = changed(&sent, 35, &(TIME + 999).to_be_bytes());
    client.append(&topic, 0, &wrong);
    assert_eq!(client.read_from(&topic, 0, 0)[16..], sent[16..]);
}

#[test]
fn topics_that_cannot_be_written_to_have_their_own_codes() {
    let (mut client, topic) = topic_and_client();
    let records = batch(&["nowhere"]);
    let unknown = Topic { name: "no-such-topic".into(), id: TopicId([9; 16]) };
    for (topic, version, partition, expected) in [
        (&unknown, 3, 0, ErrorCode::UnknownTopicOrPartition),
        (&unknown, 12, 0, ErrorCode::UnknownTopicOrPartition),
        (&unknown, 13, 0, ErrorCode::UnknownTopicId),
        (&topic, 12, 1, ErrorCode::UnknownTopicOrPartition),
        (&topic, 13, 1, ErrorCode::UnknownTopicOrPartition),
        (&topic, 12, -1, ErrorCode::UnknownTopicOrPartition),
    ] {
        let frame = client.call(version, &produce_of(topic, &[(partition, &records)]));
        assert_eq!(produced(&frame).error_code, expected, "v{version} {partition}");
    }
}

#[test]
fn only_the_admin_client_writes_to_an_internal_topic() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create_named(&mut client, "__consumer_offsets", 1, &[]);
    check(&mut client, &topic, 9, &batch(&["mine"]), ErrorCode::InvalidTopicException);
    client.id = Some("__admin_client");
    check(&mut client, &topic, 9, &batch(&["mine"]), ErrorCode::None);
}

#[test]
fn a_partition_takes_exactly_one_batch_of_magic_2() {
    let (mut client, topic) = topic_and_client();
    let sound = batch(&["one"]);
    let twice = [sound.clone(), sound.clone()].concat();
    let mut old = sound.clone();
    old[16] = 1;
    let invalid = ErrorCode::InvalidRecord;
    for version in [3, 8, 9, 13] {
        check(&mut client, &topic, version, &[], invalid);
        check(&mut client, &topic, version, &twice, invalid);
        check(&mut client, &topic, version, &sound[..60], invalid);
        check(&mut client, &topic, version, &sound[..sound.len() - 1], invalid);
        check(&mut client, &topic, version, &old, invalid);
        let mut request = produce_of(&topic, &[(0, &sound)]);
        request.topic_data[0].partition_data[0].records = Records::Null;
        let frame = client.call(version, &request);
        assert_eq!(produced(&frame).error_code, invalid, "null records");
    }
}

#[test]
fn old_message_sets_are_refused_as_such() {
    let (mut client, topic) = topic_and_client();
    // Offset, size, checksum, magic, attributes, null key, value: as clients before 0.11 sent them, twice.
    for magic in [0_u8, 1] {
        let time: &[u8] = if magic == 1 { &[0; 8] } else { &[] };
        let head = [&[0, 0, 0, 0, magic, 0], time].concat();
        let message = [head.as_slice(), &[0xff; 4], &[0, 0, 0, 1, b'v']].concat();
        let size = (message.len() as u32).to_be_bytes();
        let entry = [&[0; 8], size.as_slice(), &message].concat();
        check(&mut client, &topic, 3, &entry, ErrorCode::InvalidRecord);
        check(&mut client, &topic, 3, &entry.repeat(3), ErrorCode::InvalidRecord);
    }
}

#[test]
fn a_batch_that_lies_about_itself_is_refused() {
    let (mut client, topic) = topic_and_client();
    let sound = batch(&["one", "two"]);
    check(&mut client, &topic, 9, &sound, ErrorCode::None);
    let mut flipped = sound.clone();
    flipped[65] ^= 1;
    check(&mut client, &topic, 9, &flipped, ErrorCode::CorruptMessage);
    let mut base = sound.clone();
    base[7] = 1;
    check(&mut client, &topic, 9, &base, ErrorCode::InvalidRecord);
    let count = |count: i32, delta: i32| {
        changed(&changed(&sound, 57, &count.to_be_bytes()), 23, &delta.to_be_bytes())
    };
    for lie in [count(1, 0), count(3, 2), count(2, 2), count(0, -1), count(-1, -2)] {
        check(&mut client, &topic, 9, &lie, ErrorCode::InvalidRecord);
    }
    let attributes = |bits: i16| changed(&sound, 21, &bits.to_be_bytes());
    check(&mut client, &topic, 9, &attributes(1 << 5), ErrorCode::InvalidRecord);
    check(&mut client, &topic, 9, &attributes(7), ErrorCode::UnsupportedCompressionType);
    check(&mut client, &topic, 9, &attributes(1 << 3), ErrorCode::InvalidTimestamp);
    let no_sequence = changed(&sound, 43, &5_i64.to_be_bytes());
    check(&mut client, &topic, 9, &no_sequence, ErrorCode::InvalidRecord);
}

#[test]
fn a_record_that_breaks_its_batch_is_refused() {
    let (mut client, topic) = topic_and_client();
    let sound = batch(&["v"]);
    // 61 length, 62 attributes, 63 timestamp delta, 64 offset delta, 65 key length, 66 value length, 67 the value, 68 headers.
    assert_eq!((sound.len(), &sound[61..]), (69, &[14, 0, 0, 0, 1, 2, b'v', 0][..]));
    let longest = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let with = |at: usize, insert: &[u8]| {
        let mut bytes = sound.clone();
        bytes.splice(at..=at, insert.iter().copied());
        if at > 61 {
            bytes[61] += 2 * (insert.len() as u8 - 1);
        }
        let length = (bytes.len() as i32 - 12).to_be_bytes();
        changed(&bytes, 8, &length)
    };
    for (what, bytes) in [
        ("offset delta 1", with(64, &[2])),
        ("key length -2", with(65, &[3])),
        ("key length 2^31-1", with(65, &longest)),
        ("value longer than the record", with(66, &[4])),
        ("header count -1", with(68, &[1])),
        ("header count 2^31-1", with(68, &longest)),
        ("record longer than the batch", with(61, &[100])),
        ("record shorter than its fields", with(61, &[6])),
        ("record length 2^31-1", with(61, &[0xfc, 0xff, 0xff, 0xff, 0x0f])),
    ] {
        let frame = client.call(9, &produce_of(&topic, &[(0, &bytes)]));
        let answer = produced(&frame);
        let refused = [ErrorCode::InvalidRecord, ErrorCode::CorruptMessage];
        assert!(refused.contains(&answer.error_code), "{what}: {:?}", answer.error_code);
    }
    assert_eq!(client.end_of(&topic, 0), 0);
    check(&mut client, &topic, 9, &sound, ErrorCode::None);
}

#[test]
fn zstd_needs_version_7() {
    let (mut client, topic) = topic_and_client();
    let zstd = batch_of(Codec::Zstd, &[record(0, b"zstd")]);
    check(&mut client, &topic, 6, &zstd, ErrorCode::UnsupportedCompressionType);
    check(&mut client, &topic, 7, &zstd, ErrorCode::None);
    check(&mut client, &topic, 3, &batch_of(Codec::Gzip, &[record(0, b"gzip")]), ErrorCode::None);
}

#[test]
fn timestamps_out_of_bounds_are_refused_by_record_and_none_is_no_timestamp() {
    let mut client = Node::shared().connect();
    let configs = [("message.timestamp.before.max.ms", "3600000")];
    let topic = Topic::create_with(&mut client, 1, &configs);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = now.as_millis() as i64 - TIME;
    let hour = 3_600_000;
    let at = |times: &[i64]| {
        batch_of(Codec::None, &times.iter().map(|time| record(*time, b"v")).collect::<Vec<_>>())
    };
    check(&mut client, &topic, 9, &at(&[now]), ErrorCode::None);
    check(&mut client, &topic, 9, &at(&[now - hour / 2, now + hour / 2]), ErrorCode::None);
    check(&mut client, &topic, 9, &at(&[-1 - TIME]), ErrorCode::None);
    let frame = client
        .call(9, &produce_of(&topic, &[(0, &at(&[now, now - 2 * hour, now, now + 2 * hour]))]));
    let answer = produced(&frame);
    assert_eq!(answer.error_code, ErrorCode::InvalidTimestamp);
    let faults: Vec<i32> = answer.record_errors.iter().map(|error| error.batch_index).collect();
    assert_eq!(faults, [1, 3]);
}

#[test]
fn a_batch_too_large_is_refused_alone() {
    let mut client = Node::shared().connect();
    let topic = Topic::create_with(&mut client, 3, &[("max.message.bytes", "51200")]);
    let (small, large) = (plain(50_000), plain(10 << 20));
    let frame = client.call(9, &produce_of(&topic, &[(0, &small), (1, &large), (2, &small)]));
    let codes: Vec<_> = produced_all(&frame).iter().map(|answer| answer.error_code).collect();
    assert_eq!(codes, [ErrorCode::None, ErrorCode::MessageTooLarge, ErrorCode::None]);
    assert_eq!(client.end_of(&topic, 1), 0);
    let exactly = plain(51_200 - 61 - 11);
    assert_eq!(exactly.len(), 51_200);
    check(&mut client, &topic, 9, &exactly, ErrorCode::None);
    check(&mut client, &topic, 9, &plain(51_200 - 61 - 10), ErrorCode::MessageTooLarge);
}

#[test]
fn a_batch_larger_than_a_segment_is_refused() {
    let mut client = Node::shared().connect();
    let configs = [("max.message.bytes", "4194304"), ("segment.bytes", "1048576")];
    let topic = Topic::create_with(&mut client, 1, &configs);
    check(&mut client, &topic, 9, &plain(2 << 20), ErrorCode::RecordListTooLarge);
    check(&mut client, &topic, 9, &plain(1 << 19), ErrorCode::None);
}

#[test]
fn a_batch_that_expands_beyond_the_bound_is_refused() {
    let mut client = Node::shared().connect();
    let topic =
        Topic::create_with(&mut client, 1, &[("max.decompressed.message.bytes", "1000000")]);
    for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
        let bomb = batch_of(codec, &[record(0, &vec![0; 4 << 20])]);
        assert!(bomb.len() < 1_048_588, "{codec}: {} bytes", bomb.len());
        check(&mut client, &topic, 9, &bomb, ErrorCode::MessageTooLarge);
    }
}

#[test]
fn transactions_are_refused_by_code() {
    let (mut client, topic) = topic_and_client();
    let plain_batch = sequenced(901, 0, 0, 1);
    let transactional = changed(&plain_batch, 21, &(1_i16 << 4).to_be_bytes());
    let refused = ErrorCode::TransactionalIdAuthorizationFailed;
    check(&mut client, &topic, 9, &transactional, refused);
    let mut request = produce_of(&topic, &[(0, &transactional)]);
    request.transactional_id = Some("payments".into());
    let frame = client.call(9, &request);
    assert_eq!(produced(&frame).error_code, ErrorCode::InvalidTxnState);
    assert_eq!(client.end_of(&topic, 0), 0);
}

#[test]
fn topics_are_found_by_id_alone_from_version_13() {
    let (mut client, topic) = topic_and_client();
    let records = batch(&["by id"]);
    let mut request = produce_of(&topic, &[(0, &records)]);
    request.topic_data[0].name = "another".into();
    let frame = client.call(13, &request);
    assert_eq!(produced(&frame).error_code, ErrorCode::None);
    request.topic_data[0].topic_id = TopicId::ZERO;
    let frame = client.call(13, &request);
    assert_eq!(produced(&frame).error_code, ErrorCode::UnknownTopicId);
}

#[test]
fn an_empty_produce_has_an_empty_answer() {
    let (mut client, topic) = topic_and_client();
    let empty = ProduceRequest { acks: -1, ..Default::default() };
    let frame = client.call(9, &empty);
    assert!(frame.read::<wire::produce::ProduceResponse<'_>>().responses.is_empty());
    let topic_data = vec![TopicProduceData { name: topic.name.into(), ..Default::default() }];
    let frame = client.call(9, &ProduceRequest { topic_data, ..empty });
    assert!(produced_all(&frame).is_empty());
}
