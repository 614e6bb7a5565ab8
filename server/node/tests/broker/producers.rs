//! DescribeProducers: what partitions remember of their producers (KIP-664).

use record::{Offset, PartitionIndex, ProducerId, Timestamp, TopicId};
use wire::ErrorCode;
use wire::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, DescribeProducersTopic,
    DescribeProducersTopicResult, ProducerState,
};
use wire::fetch::FetchRequest;

use crate::support::{Client, Node, TIME, Topic, batch, fetch_of, fetched, plain, sequenced};

/// What a partition answers: error, whether there are words, producers.
type Told = (ErrorCode, bool, Vec<ProducerState>);

fn ask(client: &mut Client, asked: &[(&Topic, &[i32])]) -> Vec<Vec<Told>> {
    let topics = asked.iter().map(|(topic, partitions)| DescribeProducersTopic {
        name: topic.name.as_str().into(),
        partition_indexes: partitions.iter().copied().map(PartitionIndex).collect(),
    });
    let frame = client.call(0, &DescribeProducersRequest { topics: topics.collect() });
    let answer: DescribeProducersResponse<'_> = frame.read();
    assert_eq!(answer.topics.len(), asked.len());
    let told_of = |(found, (topic, partitions)): (DescribeProducersTopicResult<'_>, _)| {
        let (topic, partitions): (&Topic, &[i32]) = (topic, partitions);
        assert_eq!(*found.name, *topic.name);
        let indexes: Vec<i32> = found.partitions.iter().map(|one| one.partition_index.0).collect();
        assert_eq!(indexes, partitions);
        let told = found.partitions.into_iter();
        told.map(|one| (one.error_code, one.error_message.is_some(), one.active_producers))
            .collect()
    };
    answer.topics.into_iter().zip(asked.iter().copied()).map(told_of).collect()
}

fn state(id: i64, epoch: i32, last_sequence: i32) -> ProducerState {
    ProducerState {
        producer_id: ProducerId(id),
        producer_epoch: epoch,
        last_sequence,
        last_timestamp: Timestamp(TIME),
        coordinator_epoch: -1,
        current_txn_start_offset: Offset(-1),
    }
}

#[test]
fn a_partition_lists_the_producers_that_it_remembers_and_nobody_else() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 2);
    assert_eq!(ask(&mut client, &[(&topic, &[0])]), [[(ErrorCode::None, false, vec![])]]);
    // A plain batch has no producer.
    client.append(&topic, 0, &batch(&["a"]));
    assert_eq!(ask(&mut client, &[(&topic, &[0])]), [[(ErrorCode::None, false, vec![])]]);
    client.append(&topic, 0, &sequenced(9, 0, 0, 3));
    client.append(&topic, 0, &sequenced(7, 2, 0, 1));
    client.append(&topic, 0, &sequenced(7, 2, 1, 4));
    let expected = vec![state(7, 2, 4), state(9, 0, 2)];
    assert_eq!(ask(&mut client, &[(&topic, &[0])]), [[(ErrorCode::None, false, expected)]]);
    // A new epoch counts from 0 again.
    client.append(&topic, 0, &sequenced(7, 3, 0, 1));
    let expected = vec![state(7, 3, 0), state(9, 0, 2)];
    let told = ask(&mut client, &[(&topic, &[1, 0])]);
    assert_eq!(told, [[(ErrorCode::None, false, vec![]), (ErrorCode::None, false, expected)]]);
}

#[test]
fn every_core_answers_for_all_and_remembers_over_a_restart() {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 4);
    let other = Topic::create(&mut client, 1);
    for partition in 0..4 {
        client.append(&topic, partition, &sequenced(i64::from(partition), 0, 0, 2));
    }
    node.stop();
    node.start_again();
    let told = |id| (ErrorCode::None, false, vec![state(id, 0, 1)]);
    for core in 0..2 {
        let mut client = node.connect_to_core(core);
        let found = ask(&mut client, &[(&topic, &[3, 1, 0, 2, 1]), (&other, &[0])]);
        let nobody = (ErrorCode::None, false, vec![]);
        assert_eq!(found, [vec![told(3), told(1), told(0), told(2), told(1)], vec![nobody]]);
    }
}

#[test]
fn what_is_not_there_is_refused_partition_by_partition() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let nowhere = Topic { name: "nowhere".into(), id: TopicId::ZERO };
    let impossible = Topic { name: "a/b".into(), id: TopicId::ZERO };
    let codes = |told: &[Told]| told.iter().map(|one| one.0).collect::<Vec<_>>();
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let found = ask(&mut client, &[(&topic, &[1, 0, -1]), (&nowhere, &[0]), (&impossible, &[0])]);
    assert_eq!(codes(&found[0]), [unknown, ErrorCode::None, unknown]);
    assert_eq!(codes(&found[1]), [unknown]);
    assert_eq!(codes(&found[2]), [ErrorCode::InvalidTopicException]);
}

/// Whoever waits behind a long poll of his own takes no memory for what he will be told.
#[test]
fn a_question_behind_a_long_poll_takes_no_memory_from_others() {
    let node = Node::start(1, &["request.memory.bytes=1048576"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    client.append(&topic, 0, &sequenced(7, 0, 0, 1));
    let mut waiting = node.connect();
    let poll = FetchRequest { max_wait_ms: i32::MAX, ..fetch_of(&topic, &[(0, 1)]) };
    waiting.send(4, &poll);
    let asked = DescribeProducersTopic {
        name: topic.name.as_str().into(),
        partition_indexes: vec![PartitionIndex(0)],
    };
    waiting.send(0, &DescribeProducersRequest { topics: vec![asked] });
    node.wait_for_metric("corelog_fetches_parked", |parked| parked == 1);
    // Large enough to be counted: it would wait for as long as the poll does.
    let mut other = node.connect();
    other.append(&topic, 0, &plain(100_000));
    // It ends the poll, and then the question has its turn.
    let polled = waiting.receive(4).unwrap();
    assert!(!fetched(&polled).records.inline().is_empty());
    let frame = waiting.receive(0).unwrap();
    let answer: DescribeProducersResponse<'_> = frame.read();
    assert_eq!(answer.topics[0].partitions[0].active_producers, [state(7, 0, 0)]);
}

/// Names a partition of 300 producers so often: those of so many are told, and the rest is refused.
fn check_told(client: &mut Client, topic: &Topic, named: usize, told: usize) {
    let found = ask(client, &[(topic, &vec![0; named])]).remove(0);
    let counts: Vec<usize> = found.iter().map(|one| one.2.len()).collect();
    assert_eq!(counts[..told], vec![300; told]);
    assert_eq!(counts[told..], vec![0; named - told]);
    assert!(found[told..].iter().all(|one| one.0 == ErrorCode::InvalidRequest && one.1));
}

#[test]
fn one_answer_holds_as_many_producers_as_a_partition_may_remember() {
    let node = Node::start(1, &["producer.state.count.max=100000"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    for id in 0..300 {
        client.append(&topic, 0, &sequenced(id, 0, 0, 1));
    }
    check_told(&mut client, &topic, 334, 334);
    check_told(&mut client, &topic, 420, 416);
}

#[test]
fn one_answer_is_bounded_however_often_a_partition_is_named() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    for id in 0..300 {
        client.append(&topic, 0, &sequenced(id, 0, 0, 1));
    }
    // 100 times 300 producers would be 30,000: 25,000 are told, a full partition's and some.
    check_told(&mut client, &topic, 100, 83);
    // More partitions than that are refused before any is looked at.
    let found = ask(&mut client, &[(&topic, &vec![0; 100_001])]).remove(0);
    assert!(found.iter().all(|one| one.0 == ErrorCode::InvalidRequest && one.1));
}
