//! Adding partitions: counts, assignments, bounds, and what the topic looks like afterwards.

use alloc::string::ToString;
use alloc::vec;

use record::Slot;

use crate::testing::{image_of_nodes, run, topic_id};
use crate::{BrokerConfigs, CreateDefaults, CreateTopics, NewTopic};

use super::*;

const PARTITIONS_MAX: usize = 1_000;

/// Two nodes; topics of two partitions with one replica, and of one with two.
fn image() -> Image {
    let mut image = image_of_nodes(2);
    let topic = |name, id, partition_count, replication_factor| NewTopic {
        partition_count,
        replication_factor,
        ..NewTopic::with_defaults(name, topic_id(id))
    };
    let request = CreateTopics {
        topics: vec![topic("orders", 1, 2, 1), topic("wide", 2, 1, 2)],
        intent: Intent::Apply,
        defaults: CreateDefaults { partition_count: 1, replication_factor: 1, partitions_max: 9 },
        node: NodeId(1),
    };
    let decision = image.decide_create_topics(&request, &BrokerConfigs::new());
    run(&mut image, &decision.records);
    image
}

fn growth(name: &str, partition_count: i32) -> TopicGrowth {
    TopicGrowth { name: name.to_string(), partition_count, assignments: None }
}

fn assigned(name: &str, partition_count: i32, replicas: &[&[i32]]) -> TopicGrowth {
    let nodes = |ids: &&[i32]| ids.iter().copied().map(NodeId).collect();
    let assignments = Some(replicas.iter().map(nodes).collect());
    TopicGrowth { assignments, ..growth(name, partition_count) }
}

/// Decides and applies; each answer as text, `ok` for none.
fn grow(image: &mut Image, topics: Vec<TopicGrowth>) -> Vec<String> {
    let request = CreatePartitions { topics, intent: Intent::Apply };
    let decision = image.decide_create_partitions(&request, PARTITIONS_MAX);
    let only = CreatePartitions { intent: Intent::ValidateOnly, ..request };
    let validated = image.decide_create_partitions(&only, PARTITIONS_MAX);
    assert_eq!((validated.records, &validated.reply), (vec![], &decision.reply));
    run(image, &decision.records);
    let said = |outcome: &GrowthOutcome| match &outcome.result {
        Ok(()) => "ok".to_string(),
        Err(refusal) => refusal.to_string(),
    };
    decision.reply.iter().map(said).collect()
}

#[test]
fn a_topic_grows_and_what_it_has_stays_where_it_is() {
    let mut image = image();
    let before = image.topic("orders").unwrap().partitions.clone();
    assert_eq!(grow(&mut image, vec![growth("orders", 6)]), ["ok"]);
    let orders = image.topic("orders").unwrap();
    assert_eq!((orders.partitions.len(), &orders.partitions[..2]), (6, &before[..]));
    // Nodes 1 and 2 were dealt two and one slots before.
    let dealt: Vec<_> =
        orders.partitions[2..].iter().map(|partition| (partition.leader, partition.slot)).collect();
    let (one, two) = (NodeId(1), NodeId(2));
    assert_eq!(dealt, [(two, Slot(1)), (one, Slot(2)), (two, Slot(2)), (one, Slot(3))]);
    assert_eq!(image.partition_count(), 7);
}

#[test]
fn new_partitions_have_as_many_replicas_as_the_old_ones() {
    let mut image = image();
    assert_eq!(grow(&mut image, vec![growth("wide", 3)]), ["ok"]);
    let wide = image.topic("wide").unwrap();
    assert!(wide.partitions.iter().all(|partition| partition.replicas.len() == 2));
    let gone = MetadataRecord::NodeUnregister { node: NodeId(2) };
    run(&mut image, &[gone]);
    let said = grow(&mut image, vec![growth("wide", 4), growth("orders", 3)]);
    assert_eq!(said, ["2 replicas of each partition: there are 1 nodes", "ok"]);
}

#[test]
fn assignments_place_the_new_partitions_exactly() {
    let mut image = image();
    assert_eq!(grow(&mut image, vec![assigned("orders", 4, &[&[2], &[2]])]), ["ok"]);
    assert_eq!(grow(&mut image, vec![assigned("wide", 2, &[&[2, 1]])]), ["ok"]);
    let orders = image.topic("orders").unwrap();
    assert!(orders.partitions[2..].iter().all(|partition| partition.replicas == [NodeId(2)]));
    let wide = image.topic("wide").unwrap();
    assert_eq!(wide.partitions[1].replicas, [NodeId(2), NodeId(1)]);
    assert_eq!(wide.partitions[1].leader, NodeId(2));
}

#[test]
fn what_is_not_an_increase_is_refused() {
    let mut image = image();
    for asked in [2, 1, 0, -1, i32::MIN, 100_001, i32::MAX] {
        let said = grow(&mut image, vec![growth("orders", asked)]);
        let expected = alloc::format!(
            "{asked} partitions: must be above 2, which there are, up to {PARTITIONS_MAX}"
        );
        assert_eq!(said, [expected]);
    }
    assert_eq!(image.partition_count(), 3);
}

#[test]
fn assignments_that_do_not_fit_are_refused() {
    let mut image = image();
    let mut check = |replicas: &[&[i32]], expected: &str| {
        let said = grow(&mut image, vec![assigned("orders", 4, replicas)]);
        assert_eq!(said, [expected], "{replicas:?}");
    };
    let replicas = |index| {
        alloc::format!(
            "assignments: partition {index}: replicas must be distinct registered nodes, equally many for all"
        )
    };
    check(&[], "0 assignments for 2 new partitions");
    check(&[&[1]], "1 assignments for 2 new partitions");
    check(&[&[1], &[1], &[1]], "3 assignments for 2 new partitions");
    check(&[&[], &[1]], &replicas(2));
    check(&[&[1], &[9]], &replicas(3));
    check(&[&[1], &[-1]], &replicas(3));
    check(&[&[1, 1], &[1]], &replicas(2));
    check(&[&[1, 2], &[1]], &replicas(2));
}

#[test]
fn each_topic_stands_alone_and_is_answered_once() {
    let mut image = image();
    let topics = vec![
        growth("absent", 3),
        growth("orders", 3),
        growth("wide", 2),
        growth("orders", 4),
        growth("", 3),
    ];
    let expected = [
        "topic absent: does not exist",
        "topic orders: stands more than once in the request",
        "ok",
        "topic : does not exist",
    ];
    assert_eq!(grow(&mut image, topics), expected);
    assert_eq!(image.topic("orders").unwrap().partitions.len(), 2);
}

#[test]
fn the_bounds_on_partitions_count_what_the_request_added_before() {
    let mut image = image();
    let said = grow(&mut image, vec![growth("orders", 900), growth("wide", 200)]);
    assert_eq!(said, ["ok", "199 more partitions: 901 of 1000 are taken"]);
    let said = grow(&mut image, vec![growth("wide", 10_002)]);
    assert_eq!(said, ["10001 partitions in one request: 10000 are allowed"]);
}
