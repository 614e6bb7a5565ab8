//! The order of sources, and what is told of a secret.

use alloc::vec;

use super::*;
use crate::MetadataRecord;
use crate::testing::{image_of_nodes, run, topic_id};

const NODE: NodeId = NodeId(1);

fn row(default: Option<&str>, set: Option<&str>) -> BrokerConfig {
    BrokerConfig {
        kind: ConfigType::Long,
        allowed: Allowed::Any,
        built: Built::Now,
        default: default.map(Arc::from),
        set: set.map(Arc::from),
        is_dynamic: true,
        doc: "A row.",
    }
}

fn broker() -> BrokerConfigs {
    BrokerConfigs::from([
        ("log.segment.bytes", row(Some("1073741824"), Some("4000000"))),
        ("log.retention.ms", row(None, None)),
        ("message.max.bytes", row(Some("1048588"), None)),
        (
            "ssl.key.password",
            BrokerConfig { kind: ConfigType::Password, ..row(None, Some("hunter2")) },
        ),
        ("node.id", BrokerConfig { is_dynamic: false, ..row(Some("1"), None) }),
    ])
}

fn node_config(node: NodeId, name: &str, value: Option<&str>) -> MetadataRecord {
    MetadataRecord::NodeConfig { node, name: Arc::from(name), value: value.map(Arc::from) }
}

fn topic_config_record(name: &str, value: Option<&str>) -> MetadataRecord {
    MetadataRecord::TopicConfig {
        id: topic_id(1),
        name: Arc::from(name),
        value: value.map(Arc::from),
    }
}

fn synonyms(config: &DescribedConfig) -> Vec<(&str, i8, &str)> {
    let said = config.synonyms.iter();
    said.map(|said| (said.name, said.source.code(), said.value.as_deref().unwrap_or("null")))
        .collect()
}

fn describe(image: &Image, name: &str) -> DescribedConfig {
    let topic = image.topic("orders").unwrap();
    image.describe_topic(NODE, topic, &broker(), Some(&[name])).pop().unwrap()
}

fn image() -> Image {
    let mut image = image_of_nodes(1);
    run(&mut image, &[MetadataRecord::Topic { name: Arc::from("orders"), id: topic_id(1) }]);
    image
}

#[test]
fn sources_hold_in_kafkas_order() {
    let mut image = image();
    let segment = |image: &Image| {
        let config = describe(image, "segment.bytes");
        let topic = image.topic("orders").unwrap();
        let settings = image.topic_settings(NODE, topic, &broker());
        // What is told and what is used are the same.
        assert_eq!(config.value, Some(alloc::format!("{}", settings.segment_bytes)));
        (config.source.code(), config.value.unwrap())
    };
    assert_eq!(segment(&image), (4, "4000000".into()));
    run(&mut image, &[node_config(NodeId::NONE, "log.segment.bytes", Some("3000000"))]);
    assert_eq!(segment(&image), (3, "3000000".into()));
    run(&mut image, &[node_config(NODE, "log.segment.bytes", Some("2000000"))]);
    assert_eq!(segment(&image), (2, "2000000".into()));
    run(&mut image, &[topic_config_record("segment.bytes", Some("1500000"))]);
    assert_eq!(segment(&image), (1, "1500000".into()));
    let config = describe(&image, "segment.bytes");
    let expected = [
        ("segment.bytes", 1, "1500000"),
        ("log.segment.bytes", 2, "2000000"),
        ("log.segment.bytes", 3, "3000000"),
        ("log.segment.bytes", 4, "4000000"),
        ("log.segment.bytes", 5, "1073741824"),
    ];
    assert_eq!(synonyms(&config), expected);
    run(&mut image, &[topic_config_record("segment.bytes", None)]);
    run(&mut image, &[node_config(NODE, "log.segment.bytes", None)]);
    run(&mut image, &[node_config(NodeId::NONE, "log.segment.bytes", None)]);
    assert_eq!(segment(&image), (4, "4000000".into()));
}

#[test]
fn a_broker_option_without_a_value_leaves_the_topics_own_default() {
    let config = describe(&image(), "retention.ms");
    assert_eq!(config.value.as_deref(), Some("604800000"));
    assert_eq!(config.source, ConfigSource::Default);
    assert_eq!(synonyms(&config), []);
    let config = describe(&image(), "max.message.bytes");
    assert_eq!(synonyms(&config), [("message.max.bytes", 5, "1048588")]);
}

#[test]
fn no_names_and_an_empty_list_both_ask_for_everything() {
    let image = image();
    let topic = image.topic("orders").unwrap();
    let all = image.describe_topic(NODE, topic, &broker(), None);
    assert_eq!(all.len(), TOPIC_CONFIGS.len());
    assert_eq!(image.describe_topic(NODE, topic, &broker(), Some(&[])), all);
    let two = image.describe_topic(NODE, topic, &broker(), Some(&["segment.ms", "no.such"]));
    assert_eq!(two.len(), 1);
}

#[test]
fn a_secret_is_named_and_never_told() {
    let config = image().describe_node(NODE, &broker(), Some(&["ssl.key.password"])).pop().unwrap();
    assert!(config.is_sensitive);
    assert_eq!((config.value.as_deref(), config.source.code()), (None, 4));
    assert_eq!(synonyms(&config), [("ssl.key.password", 4, "null")]);
}

#[test]
fn a_nodes_options_say_whether_they_can_be_changed() {
    let described = image().describe_node(NODE, &broker(), None);
    let read_only = |name: &str| {
        described.iter().find(|config| config.name == name).map(|config| config.is_read_only)
    };
    assert_eq!(described.len(), broker().len());
    assert_eq!((read_only("node.id"), read_only("log.segment.bytes")), (Some(true), Some(false)));
}

#[test]
fn what_was_set_for_all_nodes_is_listed_alone() {
    let mut image = image();
    assert_eq!(image.describe_all_nodes(&broker()), vec![]);
    run(&mut image, &[node_config(NodeId::NONE, "message.max.bytes", Some("5"))]);
    let described = image.describe_all_nodes(&broker());
    assert_eq!(described.len(), 1);
    assert_eq!(described[0].value.as_deref(), Some("5"));
    assert_eq!(synonyms(&described[0]), [("message.max.bytes", 3, "5")]);
}
