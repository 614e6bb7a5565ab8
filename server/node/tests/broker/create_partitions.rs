//! CreatePartitions: topics grow, never shrink, and are served at once (MD-6, P100).

use record::NodeId;
use wire::ErrorCode;
use wire::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsResponse,
    CreatePartitionsTopic,
};
use wire::metadata::{MetadataRequest, MetadataResponse};

use crate::support::{Client, Node, Topic, batch, values_of};

fn to(name: &str, count: i32) -> CreatePartitionsTopic<'_> {
    CreatePartitionsTopic { name: name.into(), count, assignments: None }
}

fn placed<'a>(name: &'a str, count: i32, replicas: &[&[i32]]) -> CreatePartitionsTopic<'a> {
    let assignments = replicas.iter().map(|nodes| CreatePartitionsAssignment {
        broker_ids: nodes.iter().copied().map(NodeId).collect(),
    });
    CreatePartitionsTopic { assignments: Some(assignments.collect()), ..to(name, count) }
}

/// Grows, and gives name and error of each answer, which must have words where it failed.
fn grow(
    client: &mut Client,
    version: i16,
    topics: Vec<CreatePartitionsTopic<'_>>,
    validate_only: bool,
) -> Vec<(String, ErrorCode)> {
    let request = CreatePartitionsRequest { topics, validate_only, timeout_ms: 30_000 };
    let frame = client.call(version, &request);
    let answer: CreatePartitionsResponse<'_> = frame.read();
    let results = answer.results.iter().map(|topic| {
        assert_eq!(topic.error_message.is_some(), topic.error_code != ErrorCode::None);
        (topic.name.to_string(), topic.error_code)
    });
    results.collect()
}

fn partition_count(client: &mut Client, topic: &Topic) -> usize {
    let frame = client.call(9, &MetadataRequest::default());
    let answer: MetadataResponse<'_> = frame.read();
    let found = answer.topics.iter().find(|found| found.name.as_deref() == Some(&*topic.name));
    found.unwrap().partitions.len()
}

#[test]
fn new_partitions_are_served_when_the_answer_arrives_whatever_the_core_and_after_a_crash() {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut clients = [node.connect_to_core(0), node.connect_to_core(1)];
    let topic = Topic::create(&mut clients[0], 1);
    assert_eq!(clients[0].append(&topic, 0, &batch(&["first"])), 0);
    let none = vec![(topic.name.clone(), ErrorCode::None)];
    for (version, count) in (0..=3).zip([2, 3, 5, 6]) {
        let core = usize::from(version % 2 == 0);
        assert_eq!(grow(&mut clients[core], version, vec![to(&topic.name, count)], false), none);
        for client in &mut clients {
            let found = partition_count(client, &topic);
            assert_eq!(found, usize::try_from(count).unwrap());
            client.append(&topic, count - 1, &batch(&["new"]));
        }
    }
    node.kill();
    node.start_again();
    let mut client = node.connect_to_core(1);
    assert_eq!(partition_count(&mut client, &topic), 6);
    assert_eq!(values_of(&client.read_from(&topic, 0, 0)), ["first"]);
    for (partition, expected) in [(1, 2), (2, 2), (3, 0), (4, 2), (5, 2)] {
        assert_eq!(client.end_of(&topic, partition), expected, "partition {partition}");
    }
}

#[test]
fn what_cannot_be_is_refused_by_code_whether_it_is_tried_or_only_validated() {
    let node = Node::start(1, &["partitions.max=100"]);
    let mut client = node.connect();
    let topic = Topic::create_named(&mut client, "orders", 2, &[]);
    let one: &[i32] = &[1];
    let rows = [
        (to("orders", 2), ErrorCode::InvalidPartitions),
        (to("orders", 1), ErrorCode::InvalidPartitions),
        (to("orders", 0), ErrorCode::InvalidPartitions),
        (to("orders", -1), ErrorCode::InvalidPartitions),
        (to("orders", i32::MIN), ErrorCode::InvalidPartitions),
        (to("orders", i32::MAX), ErrorCode::InvalidPartitions),
        (to("orders", 101), ErrorCode::PolicyViolation),
        (to("absent", 3), ErrorCode::UnknownTopicOrPartition),
        (to("", 3), ErrorCode::UnknownTopicOrPartition),
        (to("no topic", 3), ErrorCode::UnknownTopicOrPartition),
        (placed("orders", 3, &[]), ErrorCode::InvalidReplicaAssignment),
        (placed("orders", 4, &[one]), ErrorCode::InvalidReplicaAssignment),
        (placed("orders", 3, &[one, one]), ErrorCode::InvalidReplicaAssignment),
        (placed("orders", 3, &[&[]]), ErrorCode::InvalidReplicaAssignment),
        (placed("orders", 3, &[&[9]]), ErrorCode::InvalidReplicaAssignment),
        (placed("orders", 3, &[&[-1]]), ErrorCode::InvalidReplicaAssignment),
        (placed("orders", 3, &[&[1, 1]]), ErrorCode::InvalidReplicaAssignment),
    ];
    for (asked, expected) in &rows {
        for validate_only in [true, false] {
            for version in 0..=3 {
                let found = grow(&mut client, version, vec![asked.clone()], validate_only);
                assert_eq!(found, [(asked.name.to_string(), *expected)], "{asked:?}");
            }
        }
    }
    assert_eq!(partition_count(&mut client, &topic), 2);
}

#[test]
fn each_topic_is_answered_once_and_stands_or_falls_alone() {
    let mut client = Node::shared().connect();
    let topics = [(); 3].map(|()| Topic::create(&mut client, 1));
    let [good, bad, twice] = &topics;
    let asked = vec![
        to(&bad.name, 1),
        to(&twice.name, 2),
        placed(&good.name, 3, &[&[1], &[1]]),
        to(&twice.name, 3),
    ];
    let expected = [
        (bad, ErrorCode::InvalidPartitions),
        (twice, ErrorCode::InvalidRequest),
        (good, ErrorCode::None),
    ];
    let expected = expected.map(|(topic, code)| (topic.name.clone(), code));
    assert_eq!(grow(&mut client, 3, asked, false), expected);
    let counts = topics.each_ref().map(|topic| partition_count(&mut client, topic));
    assert_eq!(counts, [3, 1, 1]);
    assert_eq!(grow(&mut client, 3, vec![], false), []);
}

#[test]
fn validation_answers_as_the_growth_would_and_adds_nothing() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    for version in 0..=3 {
        let found = grow(&mut client, version, vec![to(&topic.name, 5)], true);
        assert_eq!(found, [(topic.name.clone(), ErrorCode::None)]);
        assert_eq!(partition_count(&mut client, &topic), 1);
    }
}
