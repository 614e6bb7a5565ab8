//! LogAppendTime: records carry the time at which the broker appended them, whatever their producer says (RB-5).

use std::time::{SystemTime, UNIX_EPOCH};

use record::batch::TimestampType;
use record::{BatchView, Codec, Offset, Timestamp};
use wire::ErrorCode;

use crate::support::{
    Client, Node, TIME, Topic, batch_of, changed, list_of, listed, produce_of, produced, record,
    sequenced,
};

const CONFIGS: [(&str, &str); 2] =
    [("message.timestamp.type", "LogAppendTime"), ("message.timestamp.before.max.ms", "1")];

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// Appends a batch and returns what it was stamped with, by the answer.
fn append(client: &mut Client, topic: &Topic, version: i16, records: &[u8]) -> i64 {
    let before = now();
    let frame = client.call(version, &produce_of(topic, &[(0, records)]));
    let answer = produced(&frame);
    assert_eq!(answer.error_code, ErrorCode::None, "{:?}", answer.error_message);
    let time = answer.log_append_time_ms.0;
    assert!((before..=now()).contains(&time), "{time} since {before}");
    time
}

fn look_up(client: &mut Client, topic: &Topic, timestamp: i64) -> (Timestamp, Offset) {
    let frame = client.call(7, &list_of(topic, &[(0, timestamp)]));
    let answer = listed(&frame).remove(0);
    assert_eq!(answer.error_code, ErrorCode::None);
    (answer.timestamp, answer.offset)
}

#[test]
fn records_are_stamped_when_they_are_appended_in_every_codec_and_found_by_that_time() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create_with(&mut client, 1, &CONFIGS);
    let mut stamps = Vec::new();
    for (codec, version) in Codec::ALL.into_iter().zip([9, 10, 11, 12, 13]) {
        // Older than the topic's bound and newer than Kafka's: neither is looked at.
        let sent = batch_of(codec, &[record(0, b"old"), record(now(), b"future")]);
        let time = append(&mut client, &topic, version, &sent);
        let base = client.end_of(&topic, 0) - 2;
        let stored = client.read_from(&topic, 0, base);
        let view = BatchView::parse(&stored).unwrap();
        view.verify_crc().unwrap();
        assert_eq!(view.header().timestamp_type(), TimestampType::LogAppendTime, "{codec}");
        assert_eq!(view.header().max_timestamp, Timestamp(time));
        let patched = changed(&sent, 0, &stored[..43]);
        assert_eq!(stored, patched, "{codec}: only the head of the header differs");
        stamps.push((time, base));
    }
    node.kill();
    node.start_again();
    client = node.connect();
    for (time, _) in &stamps {
        let first = stamps.iter().find(|(at, _)| at >= time).unwrap();
        let expected = (Timestamp(first.0), Offset(first.1));
        assert_eq!(look_up(&mut client, &topic, *time), expected);
    }
    let latest = stamps.last().unwrap().0;
    assert_eq!(look_up(&mut client, &topic, latest + 1), (Timestamp(-1), Offset(-1)));
    let first = stamps.iter().find(|(at, _)| *at == latest).unwrap();
    assert_eq!(look_up(&mut client, &topic, -3), (Timestamp(latest), Offset(first.1)));
}

#[test]
fn a_retry_is_told_the_time_of_the_original() {
    let mut client = Node::shared().connect();
    let topic = Topic::create_with(&mut client, 1, &CONFIGS);
    let records = sequenced(77, 0, 0, 3);
    let time = append(&mut client, &topic, 9, &records);
    while now() == time {
        std::hint::spin_loop();
    }
    let frame = client.call(9, &produce_of(&topic, &[(0, &records)]));
    let again = produced(&frame);
    assert_eq!((again.error_code, again.base_offset), (ErrorCode::None, Offset(0)));
    assert_eq!(again.log_append_time_ms, Timestamp(time));
    assert_eq!(client.end_of(&topic, 0), 3);
}

#[test]
fn topics_keep_the_producers_time_unless_they_say_otherwise() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let sent = batch_of(Codec::None, &[record(7, b"v")]);
    let frame = client.call(9, &produce_of(&topic, &[(0, &sent)]));
    assert_eq!(produced(&frame).log_append_time_ms, Timestamp::NONE);
    assert_eq!(look_up(&mut client, &topic, 0), (Timestamp(TIME + 7), Offset(0)));
}
