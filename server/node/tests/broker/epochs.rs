//! OffsetForLeaderEpoch: where a leadership ended (LO-4, KIP-320).

use record::{LeaderEpoch, Offset, PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};

use crate::support::{Client, Node, Topic, batch};

/// Asks for the ends of epochs: (partition, current epoch, epoch asked for).
fn ask(
    client: &mut Client,
    topic: &Topic,
    version: i16,
    asked: &[(i32, i32, i32)],
) -> Vec<EpochEndOffset> {
    let partitions = asked.iter().map(|(partition, current, epoch)| OffsetForLeaderPartition {
        partition: PartitionIndex(*partition),
        current_leader_epoch: LeaderEpoch(*current),
        leader_epoch: LeaderEpoch(*epoch),
    });
    let topics = vec![OffsetForLeaderTopic {
        topic: topic.name.as_str().into(),
        partitions: partitions.collect(),
    }];
    let request = OffsetForLeaderEpochRequest { topics, ..Default::default() };
    let frame = client.call(version, &request);
    let mut answer: OffsetForLeaderEpochResponse<'_> = frame.read();
    assert_eq!(answer.topics.len(), 1);
    answer.topics.remove(0).partitions
}

/// Checks what is answered for epochs of partition 0: (asked, epoch found, end offset).
fn check_ends(client: &mut Client, topic: &Topic, rows: &[(i32, i32, i64)]) {
    for version in 2..=4 {
        for (asked, epoch, end) in rows {
            let found = ask(client, topic, version, &[(0, -1, *asked)]).remove(0);
            let seen = (found.error_code, found.leader_epoch, found.end_offset);
            let expected = (ErrorCode::None, LeaderEpoch(*epoch), Offset(*end));
            assert_eq!(seen, expected, "epoch {asked} in v{version}");
        }
    }
}

#[test]
fn the_current_epoch_ends_at_the_log_end_and_a_later_one_is_unknown() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    check_ends(&mut client, &topic, &[(0, 0, 0), (1, -1, -1), (-1, -1, -1)]);
    client.append(&topic, 0, &batch(&["a", "b"]));
    check_ends(&mut client, &topic, &[(0, 0, 2), (1, -1, -1), (i32::MAX, -1, -1)]);
}

#[test]
fn an_earlier_epoch_ends_where_the_next_one_began() {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 2);
    for partition in 0..2 {
        client.append(&topic, partition, &batch(&["a", "b", "c"]));
    }
    // A crash begins epoch 1, another one epoch 2; nothing is appended in epoch 1.
    for _ in 0..2 {
        node.kill();
        node.start_again();
    }
    client = node.connect();
    check_ends(&mut client, &topic, &[(0, 0, 3), (1, 0, 3), (2, 2, 3), (3, -1, -1)]);
    client.append(&topic, 0, &batch(&["d"]));
    check_ends(&mut client, &topic, &[(0, 0, 3), (1, 0, 3), (2, 2, 4), (3, -1, -1)]);
    // Both cores, whichever serves the connection.
    for core in 0..2 {
        let mut client = node.connect_to_core(core);
        let found = ask(&mut client, &topic, 4, &[(1, 2, 0), (0, 2, 0), (1, 2, 2), (0, 2, 2)]);
        let seen: Vec<_> = found
            .iter()
            .map(|end| (end.partition.0, end.leader_epoch.0, end.end_offset.0))
            .collect();
        assert_eq!(seen, [(1, 0, 3), (0, 0, 3), (1, 2, 3), (0, 2, 4)]);
    }
}

#[test]
fn a_client_that_believes_in_another_leadership_is_told() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let codes = |client: &mut Client, current| {
        let found = ask(client, &topic, 4, &[(0, current, 0)]).remove(0);
        (found.error_code, found.end_offset)
    };
    assert_eq!(codes(&mut client, 0), (ErrorCode::None, Offset(0)));
    assert_eq!(codes(&mut client, 1), (ErrorCode::UnknownLeaderEpoch, Offset(-1)));
}

#[test]
fn topics_and_partitions_that_are_not_there_are_unknown() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let nowhere = Topic { name: "nowhere".into(), id: TopicId::ZERO };
    for (topic, partition) in [(&nowhere, 0), (&topic, 1), (&topic, -1)] {
        let found = ask(&mut client, topic, 3, &[(partition, -1, 0)]).remove(0);
        let seen = (found.error_code, found.leader_epoch.0, found.end_offset.0);
        assert_eq!(seen, (ErrorCode::UnknownTopicOrPartition, -1, -1));
    }
}
