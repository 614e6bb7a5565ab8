//! Deleting topics: references, duplicates, and what is left.

use alloc::string::ToString;
use alloc::vec;

use record::NodeId;

use super::*;
use crate::testing::{image_of_nodes, run, topic_id};
use crate::{BrokerConfigs, CreateDefaults, CreateTopics, Intent, NewTopic};

fn image() -> Image {
    let mut image = image_of_nodes(1);
    let names = ["a", "b", "c.d"];
    let topics = (1_u8..).zip(names).map(|(id, name)| NewTopic::with_defaults(name, topic_id(id)));
    let request = CreateTopics {
        topics: topics.collect(),
        intent: Intent::Apply,
        defaults: CreateDefaults { partition_count: 2, replication_factor: 1, partitions_max: 100 },
        node: NodeId(1),
    };
    let decision = image.decide_create_topics(&request, &BrokerConfigs::new());
    run(&mut image, &decision.records);
    image
}

fn delete(image: &mut Image, references: &[TopicReference<'_>]) -> Vec<String> {
    let decision = image.decide_delete_topics(references, Deletion::Enabled);
    run(image, &decision.records);
    decision.reply.iter().map(said).collect()
}

fn said(outcome: &DeleteOutcome) -> String {
    match &outcome.result {
        Ok(()) => alloc::format!("{} gone", outcome.name.as_deref().unwrap_or("?")),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn topics_go_by_name_or_by_identity() {
    let mut image = image();
    let references = [TopicReference::Name("a"), TopicReference::Id(topic_id(3))];
    assert_eq!(delete(&mut image, &references), ["a gone", "c.d gone"]);
    assert_eq!((image.topic_count(), image.partition_count()), (1, 2));
    assert!(image.topic("a").is_none() && image.topic_by_id(topic_id(3)).is_none());
    assert!(image.topic("b").is_some());
}

#[test]
fn unknown_topics_and_bad_references_are_answered_each_for_itself() {
    let mut image = image();
    let references = [
        TopicReference::Name("zz"),
        TopicReference::Id(topic_id(9)),
        TopicReference::Both("a", topic_id(1)),
        TopicReference::Neither,
        TopicReference::Name("bad/name"),
        TopicReference::Name("b"),
    ];
    let by_both = "a topic is named by its name or by its id, not by both or neither";
    let expected = [
        "topic zz: does not exist".to_string(),
        alloc::format!("topic id {}: does not exist", topic_id(9)),
        by_both.to_string(),
        by_both.to_string(),
        "topic bad/name: does not exist".to_string(),
        "b gone".to_string(),
    ];
    assert_eq!(delete(&mut image, &references), expected);
    assert_eq!(image.topic_count(), 2);
}

#[test]
fn a_topic_that_stands_twice_is_kept() {
    let mut image = image();
    let references =
        [TopicReference::Name("a"), TopicReference::Id(topic_id(1)), TopicReference::Name("b")];
    let twice = "the topic stands more than once in the request";
    assert_eq!(delete(&mut image, &references), [twice, twice, "b gone"]);
    assert!(image.topic("a").is_some());
}

#[test]
fn nothing_goes_while_deletion_is_off() {
    let image = image();
    let references = [TopicReference::Name("a"), TopicReference::Name("zz")];
    let decision = image.decide_delete_topics(&references, Deletion::Disabled);
    assert_eq!(decision.records, vec![]);
    let said: Vec<String> = decision.reply.iter().map(said).collect();
    assert_eq!(said, ["delete.topic.enable = false", "topic zz: does not exist"]);
}
