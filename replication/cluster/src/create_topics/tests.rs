//! Creating topics: counts, assignments, names, configurations, and what the image looks like afterwards.

use alloc::string::ToString;
use alloc::vec;

use record::Slot;

use crate::effective::BrokerConfig;
use crate::testing::{image_of_nodes, run, topic_id};
use crate::{ConfigSource, ConfigType, topic_config};

use super::*;

const DEFAULTS: CreateDefaults =
    CreateDefaults { partition_count: 3, replication_factor: 1, partitions_max: 1_000 };

fn request(topics: Vec<NewTopic<'_>>) -> CreateTopics<'_> {
    CreateTopics { topics, intent: Intent::Apply, defaults: DEFAULTS, node: NodeId(1) }
}

fn topic(name: &str, id: u8) -> NewTopic<'_> {
    NewTopic::with_defaults(name, topic_id(id))
}

/// Decides and applies; the results as texts: `partitions x factor`, or the refusal.
fn create(image: &mut Image, topics: Vec<NewTopic<'_>>) -> Vec<String> {
    let decision = image.decide_create_topics(&request(topics), &BrokerConfigs::new());
    run(image, &decision.records);
    decision.reply.iter().map(said).collect()
}

fn said(outcome: &CreateOutcome) -> String {
    match &outcome.result {
        Ok(created) => alloc::format!("{}x{}", created.partition_count, created.replication_factor),
        Err(refusal) => refusal.to_string(),
    }
}

fn one(topic: NewTopic<'_>) -> String {
    let mut image = image_of_nodes(2);
    create(&mut image, vec![topic]).pop().unwrap()
}

#[test]
fn configurations_of_one_request_have_a_bound() {
    let long: String = core::iter::repeat_n("1234567:1", 3_200).collect::<Vec<_>>().join(",");
    assert!(long.len() < 32_768);
    let names: Vec<String> = (0..40).map(|index| alloc::format!("topic-{index}")).collect();
    let topics = names.iter().zip(1..).map(|(name, id)| NewTopic {
        partition_count: 1,
        configs: vec![("leader.replication.throttled.replicas", Some(long.as_str()))],
        ..topic(name, id)
    });
    let mut image = image_of_nodes(1);
    let said = create(&mut image, topics.collect());
    let created = said.iter().take_while(|one| *one == "1x1").count();
    assert_eq!(created, (1 << 20) / (long.len() + 85));
    let refused = "of configurations in one request: 1048576 are allowed";
    assert!(said[created].ends_with(refused), "{}", said[created]);
    assert_eq!(image.topics().count(), created);
}

#[test]
fn open_counts_take_the_defaults() {
    assert_eq!(one(topic("orders", 1)), "3x1");
    let counted = NewTopic { partition_count: 5, replication_factor: 2, ..topic("orders", 1) };
    assert_eq!(one(counted), "5x2");
}

#[test]
fn impossible_counts_are_refused_with_their_bound() {
    let bound = "must be 1 to 100000, or -1 for the default";
    for count in [0, -2, i32::MIN, 100_001] {
        let asked = NewTopic { partition_count: count, ..topic("orders", 1) };
        assert_eq!(one(asked), alloc::format!("{count} partitions: {bound}"));
    }
    let many = NewTopic { partition_count: 10_001, ..topic("orders", 1) };
    assert_eq!(one(many), "10001 partitions in one request: 10000 are allowed");
    let many = NewTopic { partition_count: 1_001, ..topic("orders", 1) };
    assert_eq!(one(many), "1001 more partitions: 0 of 1000 are taken");
    for factor in [0, -2, 3, i16::MAX] {
        let asked = NewTopic { replication_factor: factor, ..topic("orders", 1) };
        let text = alloc::format!(
            "replication factor {factor}: must be 1 to 2, the number of nodes, or -1"
        );
        assert_eq!(one(asked), text);
    }
}

#[test]
fn replicas_are_counted_in_nodes_not_in_cores() {
    let mut image = image_of_nodes(1);
    assert_eq!(image.node(NodeId(1)).map(|node| node.shards), Some(2));
    let asked = NewTopic { replication_factor: 2, ..topic("orders", 1) };
    let refusal = "replication factor 2: must be 1, the number of nodes, or -1";
    assert_eq!(create(&mut image, vec![asked]), [refusal]);
}

#[test]
fn the_bound_on_partitions_counts_what_the_request_created_before() {
    let mut image = image_of_nodes(1);
    let counted = |name, id, count| NewTopic { partition_count: count, ..topic(name, id) };
    let said = create(&mut image, vec![counted("a", 1, 600), counted("b", 2, 600), topic("c", 3)]);
    assert_eq!(said, ["600x1", "600 more partitions: 600 of 1000 are taken", "3x1"]);
    assert_eq!(image.partition_count(), 603);
}

#[test]
fn assignments_place_replicas_exactly() {
    let mut image = image_of_nodes(3);
    let nodes = |ids: &[i32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
    let asked = NewTopic {
        // Order in the request does not matter.
        assignments: vec![(PartitionIndex(1), nodes(&[3, 1])), (PartitionIndex(0), nodes(&[2, 3]))],
        ..topic("orders", 1)
    };
    assert_eq!(create(&mut image, vec![asked]), ["2x2"]);
    let orders = image.topic("orders").unwrap();
    assert_eq!(orders.partitions[0].replicas, nodes(&[2, 3]));
    assert_eq!(orders.partitions[0].leader, NodeId(2));
    assert_eq!(orders.partitions[1].isr, nodes(&[3, 1]));
}

#[test]
fn contradicting_assignments_are_refused() {
    let check = |assignments: &[(i32, &[i32])], expected: &str| {
        let assignments = assignments
            .iter()
            .map(|(index, nodes)| {
                (PartitionIndex(*index), nodes.iter().copied().map(NodeId).collect())
            })
            .collect();
        assert_eq!(one(NewTopic { assignments, ..topic("orders", 1) }), expected);
    };
    let replicas = |index| {
        alloc::format!(
            "assignments: partition {index}: replicas must be distinct registered nodes, equally many for all"
        )
    };
    check(&[(0, &[1]), (2, &[1])], "assignments: partition 1 is missing or stands twice");
    check(&[(0, &[1]), (0, &[1])], "assignments: partition 1 is missing or stands twice");
    check(&[(1, &[1])], "assignments: partition 0 is missing or stands twice");
    check(&[(0, &[])], &replicas(0));
    check(&[(0, &[1, 1])], &replicas(0));
    check(&[(0, &[9])], &replicas(0));
    check(&[(0, &[-1])], &replicas(0));
    check(&[(0, &[1, 2]), (1, &[1])], &replicas(1));
    let both = "partitions and replication factor must be -1 where replicas are assigned by hand";
    let assignments = vec![(PartitionIndex(0), vec![NodeId(1)])];
    let counted =
        NewTopic { assignments: assignments.clone(), partition_count: 1, ..topic("orders", 1) };
    assert_eq!(one(counted), both);
    assert_eq!(one(NewTopic { assignments, replication_factor: 1, ..topic("orders", 1) }), both);
}

#[test]
fn names_that_exist_collide_or_stand_twice_are_refused_alone() {
    let mut image = image_of_nodes(1);
    assert_eq!(create(&mut image, vec![topic("a.b", 1), topic("plain", 2)]), ["3x1", "3x1"]);
    let collision = |name: &str, other: &str| {
        alloc::format!(
            "topic name {name}: collides with {other}, since '.' and '_' count as the same"
        )
    };
    let topics = vec![
        topic("plain", 3),
        topic("a_b", 4),
        topic("x_y", 5),
        topic("x.y", 6),
        topic("twice", 7),
        topic("good", 8),
        topic("twice", 9),
        topic("bad/name", 10),
        topic(METADATA_TOPIC, 11),
    ];
    let expected = [
        "topic plain: exists already",
        &collision("a_b", "a.b"),
        "3x1",
        &collision("x.y", "x_y"),
        "topic twice: stands more than once in the request",
        "3x1",
        "topic name bad/name: character '/' is not a letter, digit, '.', '_' or '-'",
        "topic __cluster_metadata: cannot be created",
    ];
    assert_eq!(create(&mut image, topics), expected);
    image.check();
    assert_eq!(image.topic_count(), 4);
    // The name is free again, with its collision form, once the topic is gone.
    let id = image.topic("a.b").unwrap().id;
    run(&mut image, &[MetadataRecord::TopicRemove { id }]);
    assert_eq!(create(&mut image, vec![topic("a_b", 12)]), ["3x1"]);
    image.check();
}

#[test]
fn identities_that_are_reserved_or_taken_are_refused() {
    let mut image = image_of_nodes(1);
    create(&mut image, vec![topic("a", 1)]);
    for id in [TopicId::ZERO, TopicId::METADATA, topic_id(1)] {
        let said = create(&mut image, vec![NewTopic::with_defaults("b", id)]);
        assert_eq!(said, [alloc::format!("topic id {id}: reserved or taken")]);
    }
    let said = create(&mut image, vec![topic("b", 2), topic("c", 2)]);
    assert_eq!(said[0], "3x1");
    assert!(said[1].ends_with("reserved or taken"));
}

#[test]
fn configurations_are_stored_and_answered_with_their_source() {
    let mut image = image_of_nodes(1);
    let broker_row = BrokerConfig {
        kind: ConfigType::Int,
        allowed: crate::Allowed::Any,
        built: crate::Built::Now,
        default: Some(Arc::from("1073741824")),
        set: Some(Arc::from("2000000")),
        is_dynamic: true,
        doc: "",
    };
    let broker = BrokerConfigs::from([("log.segment.bytes", broker_row)]);
    let configs = vec![
        ("retention.ms", Some("-1")),
        ("retention.ms", Some(" 5 ")),
        ("message.format.version", Some("0.9.0")),
    ];
    let asked = NewTopic { configs, ..topic("orders", 1) };
    let decision = image.decide_create_topics(&request(vec![asked]), &broker);
    let created = decision.reply[0].result.as_ref().unwrap();
    let find = |name: &str| created.configs.iter().find(|config| config.name == name).unwrap();
    assert_eq!(created.configs.len(), crate::TOPIC_CONFIGS.len());
    let retention = find("retention.ms");
    assert_eq!((retention.value.as_deref(), retention.source), (Some("5"), ConfigSource::Topic));
    let segment = find("segment.bytes");
    assert_eq!(segment.value.as_deref(), Some("2000000"));
    assert_eq!(segment.source, ConfigSource::StaticNode);
    let policy = find("cleanup.policy");
    assert_eq!(policy.value.as_deref(), Some("delete"));
    assert_eq!(policy.source, ConfigSource::Default);
    run(&mut image, &decision.records);
    let orders = image.topic("orders").unwrap();
    assert_eq!(orders.configs.len(), 1);
    let settings = image.topic_settings(NodeId(1), orders, &broker);
    assert_eq!(settings.segment_bytes, 2_000_000);
    assert_eq!(settings.max_message_bytes, 1_048_588);
}

#[test]
fn a_bad_configuration_refuses_its_topic_only() {
    let mut image = image_of_nodes(1);
    let bad = NewTopic { configs: vec![("segment.bytes", Some("-1"))], ..topic("bad", 1) };
    let said = create(&mut image, vec![bad, topic("good", 2)]);
    assert_eq!(said, ["segment.bytes = -1: must be 1048576 to 2147483647", "3x1"]);
    assert!(topic_config("segment.bytes").is_some());
}

#[test]
fn validating_only_says_the_same_and_changes_nothing() {
    let image = image_of_nodes(1);
    let topics = vec![topic("a.b", 1), topic("a_b", 2), topic("c", 3)];
    let create = request(topics);
    let validate = CreateTopics { intent: Intent::ValidateOnly, ..create.clone() };
    let would = image.decide_create_topics(&validate, &BrokerConfigs::new());
    let does = image.decide_create_topics(&create, &BrokerConfigs::new());
    assert_eq!(would.records, []);
    assert!(!does.records.is_empty());
    let texts = |decision: &Decision<Vec<CreateOutcome>>| -> Vec<String> {
        decision.reply.iter().map(said).collect()
    };
    assert_eq!(texts(&would), texts(&does));
    assert_eq!(would.reply[0].result.as_ref().unwrap().id, TopicId::ZERO);
    assert_eq!(does.reply[0].result.as_ref().unwrap().id, topic_id(1));
}

#[test]
fn slots_are_dealt_by_preferred_leader_so_that_leaders_spread_over_cores() {
    let mut image = image_of_nodes(2);
    let counted = |name, id, count| NewTopic {
        partition_count: count,
        replication_factor: 2,
        ..topic(name, id)
    };
    create(&mut image, vec![counted("a", 1, 5), counted("b", 2, 3)]);
    create(&mut image, vec![counted("c", 3, 4)]);
    image.check();
    let mut slots: BTreeMap<NodeId, Vec<u16>> = BTreeMap::new();
    for name in ["a", "b", "c"] {
        for partition in &image.topic(name).unwrap().partitions {
            slots.entry(partition.replicas[0]).or_default().push(partition.slot.0);
        }
    }
    for dealt in slots.values() {
        let expected: Vec<u16> = (0..6).collect();
        assert_eq!(*dealt, expected);
    }
}

#[test]
fn slots_begin_again_after_the_last_one() {
    let mut image = image_of_nodes(1);
    let last = NewTopic { partition_count: 1, ..topic("last", 1) };
    let mut decision = image.decide_create_topics(&request(vec![last]), &BrokerConfigs::new());
    for record in &mut decision.records {
        if let MetadataRecord::Partition(state) = record {
            state.slot = Slot(u16::MAX);
        }
    }
    run(&mut image, &decision.records);
    create(&mut image, vec![topic("next", 2)]);
    assert_eq!(image.topic("next").unwrap().partitions[0].slot, Slot(0));
}
