//! Idempotent producers: duplicates, gaps, epochs, and what is remembered of them over a restart (ID).

use std::collections::BTreeSet;

use record::{ProducerEpoch, ProducerId};
use wire::ErrorCode;
use wire::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use crate::support::{Client, Node, Topic, produce_of, produced, sequenced};

const NEXT: ErrorCode = ErrorCode::None;
const GAP: ErrorCode = ErrorCode::OutOfOrderSequenceNumber;
const STALE: ErrorCode = ErrorCode::InvalidProducerEpoch;

/// One producer's batches on one partition.
struct Producer {
    client: Client,
    topic: Topic,
}

impl Producer {
    fn new() -> Self {
        let mut client = Node::shared().connect();
        let topic = Topic::create(&mut client, 1);
        Self { client, topic }
    }

    /// Sends `count` records from `sequence` on; gives the error and the base offset.
    fn send(&mut self, epoch: i16, sequence: i32, count: usize) -> (ErrorCode, i64) {
        let batch = sequenced(77, epoch, sequence, count);
        let frame = self.client.call(9, &produce_of(&self.topic, &[(0, &batch)]));
        let answer = produced(&frame);
        (answer.error_code, answer.base_offset.0)
    }

    /// Sends one record for each row and expects its error; an appended one must be the newest.
    fn check(&mut self, rows: &[(i16, i32, ErrorCode)]) {
        for (epoch, sequence, expected) in rows {
            let end = self.client.end_of(&self.topic, 0);
            let (code, offset) = self.send(*epoch, *sequence, 1);
            assert_eq!(code, *expected, "epoch {epoch}, sequence {sequence}");
            let appended = i64::from(code == ErrorCode::None);
            assert_eq!(offset, if appended == 1 { end } else { -1 });
            assert_eq!(self.client.end_of(&self.topic, 0), end + appended);
        }
    }
}

#[test]
fn a_duplicate_gets_the_original_offset_and_is_not_appended() {
    let mut producer = Producer::new();
    assert_eq!(producer.send(0, 0, 3), (NEXT, 0));
    for _ in 0..3 {
        assert_eq!(producer.send(0, 0, 3), (NEXT, 0));
    }
    assert_eq!(producer.client.end_of(&producer.topic, 0), 3);
}

#[test]
fn the_latest_five_batches_are_known_again_and_the_sixth_is_out_of_order() {
    let mut producer = Producer::new();
    for batch in 0..6 {
        assert_eq!(producer.send(0, batch * 2, 2), (NEXT, i64::from(batch) * 2));
    }
    for batch in 1..6 {
        assert_eq!(producer.send(0, batch * 2, 2), (NEXT, i64::from(batch) * 2));
    }
    assert_eq!(producer.send(0, 0, 2).0, GAP);
    assert_eq!(producer.client.end_of(&producer.topic, 0), 12);
}

#[test]
fn only_the_very_same_sequences_are_a_duplicate() {
    let mut producer = Producer::new();
    assert_eq!(producer.send(0, 0, 4), (NEXT, 0));
    for (sequence, count) in [(0, 3), (0, 5), (1, 3), (3, 1)] {
        assert_eq!(producer.send(0, sequence, count).0, GAP, "{count} records from {sequence}");
    }
    assert_eq!(producer.send(0, 4, 1), (NEXT, 4));
}

#[test]
fn sequences_follow_each_other_and_a_refused_one_changes_nothing() {
    Producer::new().check(&[
        (0, 0, NEXT),
        (0, 2, GAP),
        (0, 1, NEXT),
        (0, 5, GAP),
        (0, 2, NEXT),
        (0, i32::MAX, GAP),
        (0, 3, NEXT),
    ]);
}

#[test]
fn sequences_wrap_to_zero() {
    Producer::new().check(&[
        (0, i32::MAX - 1, NEXT),
        (0, i32::MAX, NEXT),
        (0, 0, NEXT),
        (0, 1, NEXT),
        (0, 3, GAP),
    ]);
}

#[test]
fn a_batch_may_wrap_within_itself() {
    let mut producer = Producer::new();
    assert_eq!(producer.send(0, i32::MAX - 1, 4), (NEXT, 0));
    assert_eq!(producer.send(0, i32::MAX - 1, 4), (NEXT, 0));
    assert_eq!(producer.send(0, 3, 1).0, GAP);
    assert_eq!(producer.send(0, 2, 1), (NEXT, 4));
}

#[test]
fn a_new_epoch_begins_at_zero_and_fences_the_old_one() {
    Producer::new().check(&[
        (3, 0, NEXT),
        (3, 1, NEXT),
        (4, 2, GAP),
        (4, 0, NEXT),
        (3, 2, STALE),
        (0, 0, STALE),
        (4, 1, NEXT),
        (9, 1, GAP),
        (9, 0, NEXT),
        (4, 2, STALE),
    ]);
}

#[test]
fn a_producer_that_nothing_is_known_of_may_begin_anywhere() {
    Producer::new().check(&[(5, 1234, NEXT), (5, 1235, NEXT), (5, 1, GAP)]);
}

#[test]
fn producers_and_partitions_do_not_know_each_other() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 2);
    for (producer, partition, expected) in [(1, 0, 0), (2, 0, 1), (1, 1, 0), (2, 1, 1)] {
        let batch = sequenced(producer, 0, 0, 1);
        assert_eq!(client.append(&topic, partition, &batch), expected);
    }
}

/// Six batches, an end of the node, and then what must still be known.
fn check_window_survives(end: impl FnOnce(&mut Node)) {
    let mut node = Node::start(1, &[]);
    let mut producer = Producer {
        client: node.connect(),
        topic: Topic { name: String::new(), id: record::TopicId::ZERO },
    };
    producer.topic = Topic::create(&mut producer.client, 1);
    for batch in 0..6 {
        assert_eq!(producer.send(2, batch * 2, 2), (NEXT, i64::from(batch) * 2));
    }
    end(&mut node);
    node.start_again();
    producer.client = node.connect();
    for batch in 1..6 {
        assert_eq!(producer.send(2, batch * 2, 2), (NEXT, i64::from(batch) * 2));
    }
    assert_eq!(producer.send(2, 0, 2).0, GAP);
    assert_eq!(producer.send(1, 12, 1).0, STALE);
    assert_eq!(producer.send(2, 13, 1).0, GAP);
    assert_eq!(producer.send(2, 12, 1), (NEXT, 12));
}

#[test]
fn the_window_of_five_survives_a_stop() {
    check_window_survives(Node::stop);
}

#[test]
fn the_window_of_five_survives_a_kill() {
    check_window_survives(Node::kill);
}

fn init(client: &mut Client, version: i16) -> i64 {
    let frame = client.call(version, &InitProducerIdRequest::default());
    let answer: InitProducerIdResponse = frame.read();
    assert_eq!((answer.error_code, answer.producer_epoch), (ErrorCode::None, ProducerEpoch(0)));
    assert!(answer.producer_id.0 >= 0);
    answer.producer_id.0
}

#[test]
fn producer_ids_are_never_given_twice_by_any_core_or_after_any_restart() {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut seen = BTreeSet::new();
    let ends: [fn(&mut Node); 3] = [Node::stop, Node::kill, Node::stop];
    for end in ends {
        for core in [0, 1, 0] {
            let mut client = node.connect_to_core(core);
            for version in 0..=5 {
                let id = init(&mut client, version);
                assert!(seen.insert(id), "{id} was given twice");
            }
        }
        end(&mut node);
        node.start_again();
    }
}

#[test]
fn a_block_of_producer_ids_that_is_used_up_is_followed_by_another() {
    let mut client = Node::shared().connect();
    let mut seen = BTreeSet::new();
    for _ in 0..2500 {
        client.send(4, &InitProducerIdRequest::default());
        let frame = client.receive(4).unwrap();
        let answer: InitProducerIdResponse = frame.read();
        assert_eq!(answer.error_code, ErrorCode::None);
        assert!(seen.insert(answer.producer_id));
    }
}

#[test]
fn a_transactional_producer_is_told_to_look_for_its_coordinator() {
    let mut client = Node::shared().connect();
    let request = InitProducerIdRequest {
        transactional_id: Some("payments".into()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let frame = client.call(4, &request);
    let answer: InitProducerIdResponse = frame.read();
    assert_eq!(answer.error_code, ErrorCode::NotCoordinator);
    assert_eq!((answer.producer_id.0, answer.producer_epoch.0), (-1, -1));
}

#[test]
fn an_id_without_its_epoch_and_an_empty_transactional_id_are_no_requests() {
    let mut client = Node::shared().connect();
    let plain = || InitProducerIdRequest { transaction_timeout_ms: 60_000, ..Default::default() };
    for request in [
        InitProducerIdRequest { producer_id: ProducerId(4), ..plain() },
        InitProducerIdRequest { producer_epoch: ProducerEpoch(4), ..plain() },
        InitProducerIdRequest { transactional_id: Some("".into()), ..plain() },
    ] {
        let frame = client.call(5, &request);
        let answer: InitProducerIdResponse = frame.read();
        assert_eq!(answer.error_code, ErrorCode::InvalidRequest, "{request:?}");
        assert_eq!((answer.producer_id.0, answer.producer_epoch.0), (-1, -1));
    }
}
