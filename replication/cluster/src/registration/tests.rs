//! Registration and producer ids, and the image as a function of its log.

use alloc::string::{String, ToString};
use alloc::vec;

use proptest::prelude::*;
use record::Offset;

use super::*;
use crate::testing::{image_of_nodes, registration, run, topic_id};
use crate::{
    ApplyError, BrokerConfigs, CreateDefaults, CreateTopics, Deletion, Intent, NewTopic,
    TopicReference,
};

fn cluster() -> Arc<str> {
    Arc::from("cluster")
}

fn create(image: &mut Image, name: &str, id: u8, partition_count: i32) {
    let topic = NewTopic { partition_count, ..NewTopic::with_defaults(name, topic_id(id)) };
    let defaults =
        CreateDefaults { partition_count: 1, replication_factor: 1, partitions_max: 10_000 };
    let request =
        CreateTopics { topics: vec![topic], intent: Intent::Apply, defaults, node: NodeId(1) };
    let decision = image.decide_create_topics(&request, &BrokerConfigs::new());
    run(image, &decision.records);
}

#[test]
fn the_first_start_says_whose_log_it_is_and_later_ones_only_register() {
    let mut image = Image::default();
    let decision = image.decide_register(&cluster(), &registration(1), LeaderEpochs::Bump).unwrap();
    assert_eq!(decision.records.len(), 3);
    assert!(matches!(decision.records[0], MetadataRecord::Cluster { .. }));
    run(&mut image, &decision.records);
    assert_eq!(image.cluster_id().map(|id| &**id), Some("cluster"));
    assert_eq!(image.feature_level(), FEATURE_LEVEL_KNOWN);
    let again = image.decide_register(&cluster(), &registration(1), LeaderEpochs::Keep).unwrap();
    assert_eq!(again.records, [MetadataRecord::NodeRegister(registration(1))]);
    run(&mut image, &again.records);
    assert_eq!(image.node(NodeId(1)).unwrap().epoch, Offset(3));
}

#[test]
fn an_unclean_start_begins_a_new_epoch_of_every_leadership_of_that_node() {
    let mut image = image_of_nodes(2);
    create(&mut image, "a", 1, 4);
    let decision = image.decide_register(&cluster(), &registration(1), LeaderEpochs::Bump).unwrap();
    assert_eq!(decision.reply, 2);
    run(&mut image, &decision.records);
    let epochs: Vec<(i32, i32, i32)> = (image.topic("a").unwrap().partitions.iter())
        .map(|partition| (partition.leader.0, partition.leader_epoch.0, partition.partition_epoch))
        .collect();
    assert_eq!(epochs, [(1, 1, 1), (2, 0, 0), (1, 1, 1), (2, 0, 0)]);
}

#[test]
fn impossible_registrations_are_refused() {
    let image = image_of_nodes(1);
    let check = |change: fn(&mut NodeRegistration), expected: &str| {
        let mut node = registration(1);
        change(&mut node);
        let refused = image.decide_register(&cluster(), &node, LeaderEpochs::Keep);
        assert_eq!(refused.unwrap_err().to_string(), expected);
    };
    check(|node| node.node = NodeId(10_000), "node.id = 10000: must be 0 to 9999");
    check(|node| node.node = NodeId(-1), "node.id = -1: must be 0 to 9999");
    check(|node| node.shards = 0, "node 1: has no data core");
    let listeners =
        |count| alloc::format!("node 1: {count} listeners: must be 1 to 64 with distinct names");
    check(|node| node.listeners.clear(), &listeners(0));
    check(|node| node.listeners.push(node.listeners[0].clone()), &listeners(2));
    check(
        |node| node.directory_id = [9; 16],
        "node 1: another data directory has registered under this id",
    );
    let refused = image.decide_register(&Arc::from("x"), &registration(1), LeaderEpochs::Keep);
    assert_eq!(refused, Err(RegisterRefusal::OtherCluster));
}

#[test]
fn producer_ids_are_handed_out_once_each_in_blocks_of_a_thousand() {
    let mut image = image_of_nodes(1);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let decision = image.decide_producer_ids(NodeId(1)).unwrap();
        run(&mut image, &decision.records);
        let mut block = decision.reply;
        let mut part = block.split(300);
        assert_eq!((part.remaining(), block.remaining()), (300, 700));
        seen.extend(core::iter::from_fn(|| part.take()));
        seen.extend(core::iter::from_fn(|| block.take()));
        assert_eq!(block.split(5).remaining(), 0);
    }
    let expected: Vec<ProducerId> = (0..2_000).map(ProducerId).collect();
    assert_eq!(seen, expected);
}

#[test]
fn exhausted_producer_ids_are_an_answer() {
    let mut image = image_of_nodes(1);
    image.producer_id_next = i64::MAX - 10;
    let exhausted = ProducerIdsExhausted { next: i64::MAX - 10 };
    assert_eq!(image.decide_producer_ids(NodeId(1)), Err(exhausted));
}

#[test]
fn records_that_do_not_fit_change_nothing() {
    let mut image = image_of_nodes(1);
    create(&mut image, "a.b", 1, 2);
    let before = image.facts();
    let next = image.next_offset();
    let known = image.topic("a.b").unwrap().partitions[0].clone();
    let change = |leader, isr, leader_epoch, partition_epoch| {
        MetadataRecord::PartitionChange(PartitionChange {
            topic_id: topic_id(1),
            index: record::PartitionIndex(0),
            leader: NodeId(leader),
            leader_epoch: LeaderEpoch(leader_epoch),
            partition_epoch,
            isr,
            shard_override: None,
        })
    };
    let state = |index, replicas: Vec<NodeId>| {
        MetadataRecord::Partition(crate::PartitionState {
            topic_id: topic_id(1),
            index: record::PartitionIndex(index),
            slot: known.slot,
            shard_override: None,
            leader: NodeId(1),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            isr: replicas.clone(),
            replicas,
        })
    };
    let one = || vec![NodeId(1)];
    let topic = |name: &str, id| MetadataRecord::Topic { name: Arc::from(name), id };
    let bad = [
        MetadataRecord::Cluster { cluster_id: Arc::from("other") },
        MetadataRecord::FeatureLevel { level: 0 },
        MetadataRecord::FeatureLevel { level: FEATURE_LEVEL_KNOWN + 1 },
        MetadataRecord::NodeRegister(NodeRegistration { shards: 0, ..registration(1) }),
        MetadataRecord::NodeRegister(NodeRegistration { listeners: vec![], ..registration(1) }),
        MetadataRecord::NodeRegister(registration(10_000)),
        topic("a.b", topic_id(2)),
        topic("a_b", topic_id(2)),
        topic("c", topic_id(1)),
        topic("c", record::TopicId::ZERO),
        topic("../c", topic_id(2)),
        MetadataRecord::TopicRemove { id: topic_id(2) },
        state(1, one()),
        state(3, one()),
        state(-1, one()),
        state(2, vec![]),
        state(2, vec![NodeId(1), NodeId(1)]),
        state(2, vec![NodeId(2)]),
        change(1, one(), 0, 0),
        change(1, one(), -1, 1),
        change(1, vec![], 1, 1),
        change(2, one(), 1, 1),
        change(2, vec![NodeId(2)], 1, 1),
        MetadataRecord::TopicConfig { id: topic_id(1), name: Arc::from("no.such"), value: None },
        MetadataRecord::ProducerIdBlock { node: NodeId(1), first: 5, count: 1_000 },
        MetadataRecord::ProducerIdBlock { node: NodeId(1), first: 0, count: 0 },
    ];
    for record in bad {
        assert!(image.apply(next, &record).is_err(), "{record:?}");
        assert_eq!(image.facts(), before, "{record:?}");
        image.check();
    }
    let skipped = image.apply(Offset(next.0 + 1), &MetadataRecord::NoOp);
    let out_of_order = ApplyError::OutOfOrder { offset: Offset(next.0 + 1), expected: next };
    assert_eq!(skipped, Err(out_of_order));
    assert!(image.apply(next, &change(1, one(), 1, 1)).is_ok());
}

#[test]
fn a_shared_copy_keeps_what_it_saw() {
    let mut image = image_of_nodes(1);
    for id in 0..50 {
        create(&mut image, &alloc::format!("topic-{id}"), id, 2);
    }
    let shared = image.clone();
    let before = shared.facts();
    let decision =
        image.decide_delete_topics(&[TopicReference::Name("topic-7")], Deletion::Enabled);
    run(&mut image, &decision.records);
    create(&mut image, "new", 60, 1);
    assert_eq!(shared.facts(), before);
    shared.check();
    assert!(Arc::ptr_eq(image.topic("topic-8").unwrap(), shared.topic("topic-8").unwrap()));
}

#[test]
fn images_cross_threads() {
    fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Image>();
    is_shareable::<MetadataRecord>();
}

#[derive(Debug, Clone)]
enum Command {
    Create { name: u8, id: u8, count: i32 },
    Delete(u8),
    Register { node: i32, bump: bool },
    ProducerIds,
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let command = prop_oneof![
        4 => (0_u8..12, any::<u8>(), -1_i32..5)
            .prop_map(|(name, id, count)| Command::Create { name, id, count }),
        2 => (0_u8..12).prop_map(Command::Delete),
        1 => (1_i32..4, any::<bool>()).prop_map(|(node, bump)| Command::Register { node, bump }),
        1 => Just(Command::ProducerIds),
    ];
    proptest::collection::vec(command, 1..60)
}

fn name_of(index: u8) -> String {
    let names = ["a.b", "a_b", "x", "y"];
    let base = names[usize::from(index % 4)];
    alloc::format!("{base}{}", index / 4)
}

proptest! {
    #[test]
    fn whatever_is_decided_applies_and_replays_to_the_same_image(commands in commands()) {
        let mut image = image_of_nodes(1);
        let mut log = Vec::new();
        for record in log_of_one_node() {
            log.push(record);
        }
        for command in commands {
            let records = match command {
                Command::Create { name, id, count } => {
                    let name = name_of(name);
                    let topic = NewTopic {
                        partition_count: count,
                        ..NewTopic::with_defaults(&name, topic_id(id))
                    };
                    let defaults = CreateDefaults {
                        partition_count: 1, replication_factor: 1, partitions_max: 40,
                    };
                    let request = CreateTopics {
                        topics: vec![topic], intent: Intent::Apply, defaults, node: NodeId(1),
                    };
                    image.decide_create_topics(&request, &BrokerConfigs::new()).records
                }
                Command::Delete(name) => {
                    let name = name_of(name);
                    let references = [TopicReference::Name(&name)];
                    image.decide_delete_topics(&references, Deletion::Enabled).records
                }
                Command::Register { node, bump } => {
                    let epochs = if bump { LeaderEpochs::Bump } else { LeaderEpochs::Keep };
                    image.decide_register(&cluster(), &registration(node), epochs).unwrap().records
                }
                Command::ProducerIds => image.decide_producer_ids(NodeId(1)).unwrap().records,
            };
            run(&mut image, &records);
            log.extend(records);
        }
        prop_assert!(image.partition_count() <= 40);
        let mut replayed = Image::default();
        run(&mut replayed, &log);
        prop_assert_eq!(replayed.facts(), image.facts());
    }
}

fn log_of_one_node() -> Vec<MetadataRecord> {
    let image = Image::default();
    image.decide_register(&cluster(), &registration(1), LeaderEpochs::Keep).unwrap().records
}
