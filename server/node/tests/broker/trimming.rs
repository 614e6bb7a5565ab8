//! Records that go: DeleteRecords (LG-3) and retention (LG-2), as clients see them.

use std::time::Instant;

use record::{Codec, Offset, PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
};

use crate::support::{
    Client, Node, PATIENCE, Topic, batch, batch_of, fetch_of, fetched, list_of, listed, produce_of,
    produced, record, sequenced, values_of,
};

/// Deletes records of partitions below offsets; the answers as (error, low watermark).
pub(crate) fn delete(
    client: &mut Client,
    topic: &Topic,
    version: i16,
    asked: &[(i32, i64)],
) -> Vec<(ErrorCode, i64)> {
    let partitions = asked.iter().map(|(partition, offset)| DeleteRecordsPartition {
        partition_index: PartitionIndex(*partition),
        offset: Offset(*offset),
    });
    let topics = vec![DeleteRecordsTopic {
        name: topic.name.as_str().into(),
        partitions: partitions.collect(),
    }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 30_000 };
    let frame = client.call(version, &request);
    let answer: DeleteRecordsResponse<'_> = frame.read();
    let answers = answer.topics[0].partitions.iter();
    answers.map(|answer| (answer.error_code, answer.low_watermark.0)).collect()
}

fn earliest(client: &mut Client, topic: &Topic, partition: i32) -> i64 {
    let frame = client.call(7, &list_of(topic, &[(partition, -2)]));
    listed(&frame)[0].offset.0
}

/// A topic of one record a batch: "0", "1", …
fn filled(client: &mut Client, partitions: i32, records: usize) -> Topic {
    let topic = Topic::create(client, partitions);
    for partition in 0..partitions {
        for value in 0..records {
            client.append(&topic, partition, &batch(&[&value.to_string()]));
        }
    }
    topic
}

#[test]
fn deleted_records_are_out_of_range_for_every_reader() {
    let mut client = Node::shared().connect();
    for version in 0..=2 {
        let topic = filled(&mut client, 1, 6);
        assert_eq!(delete(&mut client, &topic, version, &[(0, 4)]), [(ErrorCode::None, 4)]);
        assert_eq!(earliest(&mut client, &topic, 0), 4);
        let frame = client.call(12, &fetch_of(&topic, &[(0, 3)]));
        let answer = fetched(&frame);
        assert_eq!(answer.error_code, ErrorCode::OffsetOutOfRange);
        assert_eq!(values_of(&client.read_from(&topic, 0, 4)), ["4", "5"]);
        // P21: a look-up by time never answers below the start.
        let frame = client.call(7, &list_of(&topic, &[(0, 0)]));
        assert_eq!(listed(&frame)[0].offset.0, 4);
        let frame = client.call(9, &produce_of(&topic, &[(0, &batch(&["6"]))]));
        assert_eq!(produced(&frame).log_start_offset.0, 4);
    }
}

#[test]
fn a_start_goes_forward_and_up_to_the_high_watermark_only() {
    let mut client = Node::shared().connect();
    let topic = filled(&mut client, 1, 6);
    let out_of_range = (ErrorCode::OffsetOutOfRange, -1);
    for (offset, expected) in [
        (7, out_of_range),
        (i64::MAX, out_of_range),
        (-2, out_of_range),
        (i64::MIN, out_of_range),
        (0, (ErrorCode::None, 0)),
        (3, (ErrorCode::None, 3)),
        (2, (ErrorCode::None, 3)),
        (-1, (ErrorCode::None, 6)),
        (6, (ErrorCode::None, 6)),
    ] {
        assert_eq!(delete(&mut client, &topic, 2, &[(0, offset)]), [expected], "{offset}");
    }
    assert_eq!(client.append(&topic, 0, &batch(&["next"])), 6);
    assert_eq!(values_of(&client.read_from(&topic, 0, 6)), ["next"]);
}

#[test]
fn records_are_deleted_on_the_core_that_owns_them() {
    let node = Node::shared_pair();
    let mut client = node.connect_to_core(0);
    let topic = filled(&mut client, 2, 4);
    let answers = delete(&mut client, &topic, 2, &[(1, 2), (0, 3), (2, 1)]);
    let unknown = (ErrorCode::UnknownTopicOrPartition, -1);
    assert_eq!(answers, [(ErrorCode::None, 2), (ErrorCode::None, 3), unknown]);
    let mut other = node.connect_to_core(1);
    assert_eq!((earliest(&mut other, &topic, 0), earliest(&mut other, &topic, 1)), (3, 2));
}

#[test]
fn topics_that_are_not_there_or_never_delete_refuse() {
    let mut client = Node::shared().connect();
    let nowhere = Topic { name: "nowhere".into(), id: TopicId::ZERO };
    let unknown = (ErrorCode::UnknownTopicOrPartition, -1);
    assert_eq!(delete(&mut client, &nowhere, 1, &[(0, 0)]), [unknown]);
    let kept = Topic::create_with(&mut client, 1, &[("cleanup.policy", "")]);
    client.append(&kept, 0, &batch(&["a"]));
    assert_eq!(delete(&mut client, &kept, 2, &[(0, 1)]), [(ErrorCode::PolicyViolation, -1)]);
    assert_eq!(earliest(&mut client, &kept, 0), 0);
}

#[test]
fn an_answered_start_survives_kills_and_so_do_the_producers() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    for sequence in [0, 2, 4] {
        client.append(&topic, 0, &sequenced(9, 0, sequence, 2));
    }
    for (offset, end) in [(3, 6), (-1, 6)] {
        let (_, start) = delete(&mut client, &topic, 2, &[(0, offset)])[0];
        assert_eq!(start, if offset < 0 { end } else { offset });
        node.kill();
        node.start_again();
        client = node.connect();
        assert_eq!((earliest(&mut client, &topic, 0), client.end_of(&topic, 0)), (start, end));
    }
    // P32: a retry gets the offset of its original, though that is gone. P33: the next sequence is taken.
    assert_eq!(client.append(&topic, 0, &sequenced(9, 0, 4, 2)), 4);
    assert_eq!(client.append(&topic, 0, &sequenced(9, 0, 6, 2)), 6);
}

fn wait_for_start(client: &mut Client, topic: &Topic, is_wanted: impl Fn(i64) -> bool) {
    let begin = Instant::now();
    loop {
        let start = earliest(client, topic, 0);
        if is_wanted(start) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "the log still starts at {start}");
    }
}

#[test]
fn old_and_excess_segments_go_by_themselves_and_stay_gone() {
    let mut node = Node::start(1, &["log.retention.check.interval.ms=50"]);
    let mut client = node.connect();
    // Records of years ago (P27): accepted, and gone with the next look, the segment that takes appends included.
    let old = Topic::create_with(&mut client, 1, &[("retention.ms", "1000")]);
    client.append(&old, 0, &batch(&["a", "b", "c"]));
    wait_for_start(&mut client, &old, |start| start == 3);
    node.wait_for_metric("corelog_segments_removed_by_age_total", |count| count > 0);
    assert_eq!(client.append(&old, 0, &batch(&["d"])), 3);
    let configs =
        [("retention.bytes", "1500000"), ("segment.bytes", "1048576"), ("retention.ms", "-1")];
    let large = Topic::create_with(&mut client, 1, &configs);
    for _ in 0..8 {
        client.append(&large, 0, &batch_of(Codec::None, &[record(0, &vec![7; 900_000])]));
    }
    // Two segments of 900,000 bytes: without either, the log would be smaller than it may be.
    wait_for_start(&mut client, &large, |start| start == 6);
    node.wait_for_metric("corelog_segments_removed_by_size_total", |count| count == 6);
    node.kill();
    node.start_again();
    client = node.connect();
    assert_eq!((earliest(&mut client, &large, 0), client.end_of(&large, 0)), (6, 8));
    assert_eq!(client.read_from(&large, 0, 6).len() / 900_000, 1, "one batch over the limit");
    assert!(earliest(&mut client, &old, 0) >= 3);
    assert_eq!(client.end_of(&old, 0), 4);
}
