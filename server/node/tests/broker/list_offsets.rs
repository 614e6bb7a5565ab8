//! ListOffsets: the ends of a log, and the records at a time (LO).

use record::{Codec, LeaderEpoch, Offset, Timestamp, TopicId};
use wire::ErrorCode;
use wire::list_offsets::{ListOffsetsRequest, ListOffsetsTopic};

use crate::support::{Client, Node, TIME, Topic, batch, batch_of, list_of, listed, record};

/// What a lookup found: timestamp and offset, or -1 twice.
type Found = (i64, i64);
const NOTHING: Found = (-1, -1);

fn topic_and_client() -> (Client, Topic) {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    (client, topic)
}

fn look_up(client: &mut Client, topic: &Topic, version: i16, timestamp: i64) -> (ErrorCode, Found) {
    let frame = client.call(version, &list_of(topic, &[(0, timestamp)]));
    let answer = listed(&frame).remove(0);
    (answer.error_code, (answer.timestamp.0, answer.offset.0))
}

fn check_times(client: &mut Client, topic: &Topic, rows: &[(i64, Found)]) {
    for (after_ms, expected) in rows {
        let found = look_up(client, topic, 7, TIME + after_ms);
        assert_eq!(found, (ErrorCode::None, *expected), "{after_ms} ms after");
    }
}

#[test]
fn special_timestamps_exist_from_the_version_that_brought_them() {
    let (mut client, topic) = topic_and_client();
    let records = [record(5, b"a"), record(9, b"latest"), record(2, b"c")];
    client.append(&topic, 0, &batch_of(Codec::None, &records));
    let unsupported = (ErrorCode::UnsupportedVersion, NOTHING);
    let found = |timestamp, offset| (ErrorCode::None, (timestamp, offset));
    for (timestamp, since, expected) in [
        (-1, 1, found(-1, 3)),
        (-2, 1, found(-1, 0)),
        (-3, 7, found(TIME + 9, 1)),
        (-4, 8, found(-1, 0)),
        (-5, 9, found(-1, -1)),
        (-6, 11, found(-1, -1)),
        (-7, i16::MAX, unsupported),
        (i64::MIN, i16::MAX, unsupported),
    ] {
        for version in 1..=11 {
            let expected = if version < since { unsupported } else { expected };
            let found = look_up(&mut client, &topic, version, timestamp);
            assert_eq!(found, expected, "{timestamp} in v{version}");
        }
    }
}

#[test]
fn an_empty_log_has_ends_and_no_records() {
    let (mut client, topic) = topic_and_client();
    for (timestamp, expected) in [(-1, (-1, 0)), (-2, (-1, 0)), (-3, NOTHING), (0, NOTHING)] {
        let found = look_up(&mut client, &topic, 7, timestamp);
        assert_eq!(found, (ErrorCode::None, expected), "{timestamp}");
    }
}

#[test]
fn answers_carry_the_leader_epoch_from_version_4() {
    let (mut client, topic) = topic_and_client();
    client.append(&topic, 0, &batch(&["a"]));
    for version in [1, 3, 4, 11] {
        for timestamp in [-1, -2, 0] {
            let frame = client.call(version, &list_of(&topic, &[(0, timestamp)]));
            let expected = if version < 4 { LeaderEpoch::NONE } else { LeaderEpoch(0) };
            assert_eq!(listed(&frame)[0].leader_epoch, expected, "v{version} {timestamp}");
        }
    }
}

#[test]
fn a_lookup_by_time_finds_records_inside_batches_of_every_codec() {
    for codec in Codec::ALL {
        let (mut client, topic) = topic_and_client();
        let first: Vec<_> = [10, 20, 30].map(|time| record(time, b"early")).to_vec();
        let second: Vec<_> = [40, 50, 60].map(|time| record(time, b"late")).to_vec();
        client.append(&topic, 0, &batch_of(codec, &first));
        client.append(&topic, 0, &batch_of(codec, &second));
        let at = |after_ms: i64, offset| (TIME + after_ms, offset);
        let rows = [
            (0, at(10, 0)),
            (10, at(10, 0)),
            (11, at(20, 1)),
            (20, at(20, 1)),
            (30, at(30, 2)),
            (31, at(40, 3)),
            (50, at(50, 4)),
            (60, at(60, 5)),
            (61, NOTHING),
            (1 << 40, NOTHING),
        ];
        check_times(&mut client, &topic, &rows);
        assert_eq!(look_up(&mut client, &topic, 7, 0), (ErrorCode::None, at(10, 0)), "{codec}");
    }
}

#[test]
fn the_first_record_by_offset_counts_where_times_go_back_and_forth() {
    let (mut client, topic) = topic_and_client();
    let records: Vec<_> = [50, 10, 30].map(|time| record(time, b"v")).to_vec();
    client.append(&topic, 0, &batch_of(Codec::Gzip, &records));
    client.append(&topic, 0, &batch_of(Codec::None, &[record(20, b"v"), record(90, b"v")]));
    client.append(&topic, 0, &batch_of(Codec::None, &[record(40, b"v"), record(90, b"v")]));
    let at = |after_ms: i64, offset| (TIME + after_ms, offset);
    let rows = [(0, at(50, 0)), (50, at(50, 0)), (51, at(90, 4)), (90, at(90, 4)), (91, NOTHING)];
    check_times(&mut client, &topic, &rows);
    let largest = look_up(&mut client, &topic, 7, -3);
    assert_eq!(largest, (ErrorCode::None, at(90, 4)), "the first of equal ones");
}

#[test]
fn lookups_by_time_agree_after_a_restart() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create_with(&mut client, 1, &[("index.interval.bytes", "100")]);
    for step in 0..40 {
        let records = [record(step * 10, b"v"), record(step * 10 + 5, b"v")];
        client.append(&topic, 0, &batch_of(Codec::Lz4, &records));
    }
    let rows: Vec<_> = (0..80).map(|offset| (offset * 5, (TIME + offset * 5, offset))).collect();
    check_times(&mut client, &topic, &rows);
    for end in [Node::stop, Node::kill] {
        end(&mut node);
        node.start_again();
        client = node.connect();
        check_times(&mut client, &topic, &rows);
        check_times(&mut client, &topic, &[(396, NOTHING)]);
    }
}

#[test]
fn a_partition_asked_for_twice_is_refused_once() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 2);
    let frame = client.call(7, &list_of(&topic, &[(0, -1), (1, -2), (0, -2), (0, -1)]));
    let answers = listed(&frame);
    let answers: Vec<_> =
        answers.iter().map(|answer| (answer.partition_index.0, answer.error_code)).collect();
    assert_eq!(answers, [(0, ErrorCode::InvalidRequest), (1, ErrorCode::None)]);
}

#[test]
fn a_topic_asked_for_in_two_places_is_refused_in_the_first() {
    let (mut client, topic) = topic_and_client();
    let once = list_of(&topic, &[(0, -1)]);
    let topics: Vec<ListOffsetsTopic<'_>> = [once.topics.clone(), once.topics].concat();
    let frame = client.call(7, &ListOffsetsRequest { topics, ..Default::default() });
    let answer: wire::list_offsets::ListOffsetsResponse<'_> = frame.read();
    let codes = |index: usize| {
        let partitions = answer.topics[index].partitions.iter();
        partitions.map(|partition| partition.error_code).collect::<Vec<_>>()
    };
    assert_eq!((codes(0), codes(1)), (vec![ErrorCode::InvalidRequest], Vec::new()));
}

#[test]
fn topics_and_partitions_that_are_not_there_are_unknown() {
    let (mut client, topic) = topic_and_client();
    let unknown = Topic { name: "no-such-topic".into(), id: TopicId::ZERO };
    for version in 1..=11 {
        for (topic, partition) in [(&unknown, 0), (&topic, 1), (&topic, -1)] {
            let frame = client.call(version, &list_of(topic, &[(partition, -1)]));
            let answer = listed(&frame).remove(0);
            assert_eq!(answer.error_code, ErrorCode::UnknownTopicOrPartition);
            assert_eq!((answer.offset, answer.timestamp), (Offset(-1), Timestamp::NONE));
        }
    }
}

#[test]
fn a_leader_epoch_must_be_the_current_one_or_none() {
    let (mut client, topic) = topic_and_client();
    for (epoch, expected) in
        [(-1, ErrorCode::None), (0, ErrorCode::None), (1, ErrorCode::UnknownLeaderEpoch)]
    {
        let mut request = list_of(&topic, &[(0, -1)]);
        request.topics[0].partitions[0].current_leader_epoch = LeaderEpoch(epoch);
        let frame = client.call(4, &request);
        assert_eq!(listed(&frame)[0].error_code, expected, "epoch {epoch}");
    }
}
