//! Altering configurations: single changes, whole sets, what is refused, and what holds afterwards.

use alloc::string::ToString;
use alloc::vec;

use crate::effective::BrokerConfig;
use crate::testing::{image_of_nodes, run, topic_id};
use crate::{Allowed, Built, ConfigSource, TOPIC_CONFIGS};

use super::*;

const NODE: NodeId = NodeId(1);
const TIMES: &str = "retention.ms";
const LIST: &str = "leader.replication.throttled.replicas";

fn broker() -> BrokerConfigs {
    let row = BrokerConfig {
        kind: ConfigType::Int,
        allowed: Allowed::Range(0, 1_000_000),
        built: Built::Now,
        default: Some(Arc::from("1000")),
        set: None,
        is_dynamic: true,
        doc: "",
    };
    let secret = BrokerConfig {
        kind: ConfigType::Password,
        set: Some(Arc::from("hunter2")),
        is_dynamic: false,
        ..row.clone()
    };
    let policy = BrokerConfig {
        kind: ConfigType::List,
        allowed: Allowed::ListOf(&["compact", "delete"]),
        built: Built::Only(&["delete", ""]),
        default: Some(Arc::from("delete")),
        ..row.clone()
    };
    BrokerConfigs::from([
        ("message.max.bytes", row.clone()),
        ("log.roll.ms", BrokerConfig { default: None, ..row.clone() }),
        ("num.partitions", BrokerConfig { is_dynamic: false, ..row }),
        ("secret", secret),
        ("log.cleanup.policy", policy),
    ])
}

fn image() -> Image {
    let mut image = image_of_nodes(2);
    for (name, id) in [("orders", 1), ("other", 2)] {
        run(&mut image, &[MetadataRecord::Topic { name: Arc::from(name), id: topic_id(id) }]);
    }
    image
}

fn topic(name: &str) -> ConfigTarget {
    ConfigTarget::Topic(name.to_string())
}

fn set(name: &str, value: &str) -> ConfigEdit {
    edit(name, ConfigOperation::Set, Some(value))
}

fn edit(name: &str, operation: ConfigOperation, value: Option<&str>) -> ConfigEdit {
    let value = value.map(ToString::to_string);
    ConfigEdit { name: name.to_string(), operation: Some(operation), value }
}

fn replace(values: &[(&str, Option<&str>)]) -> ConfigChange {
    let owned =
        |(name, value): &(&str, Option<&str>)| (name.to_string(), value.map(ToString::to_string));
    ConfigChange::Replace(values.iter().map(owned).collect())
}

/// Decides and applies; each answer as text, `ok` for none.
fn alter(image: &mut Image, resources: Vec<(ConfigTarget, ConfigChange)>) -> Vec<String> {
    let request = AlterConfigs { resources, intent: Intent::Apply };
    let decision = image.decide_alter_configs(&request, &broker());
    let only = AlterConfigs { intent: Intent::ValidateOnly, ..request };
    let validated = image.decide_alter_configs(&only, &broker());
    assert_eq!((validated.records, &validated.reply), (vec![], &decision.reply));
    run(image, &decision.records);
    let said = |result: &Result<(), AlterRefusal>| match result {
        Ok(()) => "ok".to_string(),
        Err(refusal) => refusal.to_string(),
    };
    decision.reply.iter().map(said).collect()
}

fn edits(image: &mut Image, target: ConfigTarget, edits: Vec<ConfigEdit>) -> String {
    alter(image, vec![(target, ConfigChange::Edit(edits))]).remove(0)
}

/// What is set for a topic itself, as `name=value` with blanks between.
fn set_of(image: &Image, name: &str) -> String {
    let configs = &image.topic(name).unwrap().configs;
    let pairs = configs.iter().map(|(name, value)| alloc::format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

#[test]
fn single_changes_leave_the_rest_alone() {
    let mut image = image();
    let both = vec![set(TIMES, " 5 "), set("segment.bytes", "2000000")];
    assert_eq!(edits(&mut image, topic("orders"), both), "ok");
    assert_eq!(set_of(&image, "orders"), "retention.ms=5 segment.bytes=2000000");
    let one = vec![edit(TIMES, ConfigOperation::Delete, None), set("flush.ms", "1")];
    assert_eq!(edits(&mut image, topic("orders"), one), "ok");
    assert_eq!(set_of(&image, "orders"), "flush.ms=1 segment.bytes=2000000");
    assert_eq!(set_of(&image, "other"), "");
}

#[test]
fn a_whole_set_replaces_what_was_set() {
    let mut image = image();
    let change = replace(&[(TIMES, Some("5")), ("segment.bytes", Some("2000000"))]);
    assert_eq!(alter(&mut image, vec![(topic("orders"), change)]), ["ok"]);
    let change =
        replace(&[("segment.bytes", Some("3000000")), ("message.format.version", Some("3"))]);
    assert_eq!(alter(&mut image, vec![(topic("orders"), change)]), ["ok"]);
    assert_eq!(set_of(&image, "orders"), "segment.bytes=3000000");
    assert_eq!(alter(&mut image, vec![(topic("orders"), replace(&[]))]), ["ok"]);
    assert_eq!(set_of(&image, "orders"), "");
}

#[test]
fn what_holds_already_is_not_written_again() {
    let mut image = image();
    edits(&mut image, topic("orders"), vec![set(TIMES, "5")]);
    let before = image.next_offset();
    let same = vec![set(TIMES, "5 "), edit("flush.ms", ConfigOperation::Delete, None)];
    assert_eq!(edits(&mut image, topic("orders"), same), "ok");
    let same = vec![edit("no.such.name", ConfigOperation::Delete, None)];
    assert_eq!(edits(&mut image, topic("orders"), same), "ok");
    assert_eq!(image.next_offset(), before);
}

#[test]
fn items_join_and_leave_lists() {
    let mut image = image();
    let mut check = |operation, value: &str, expected: &str| {
        let change = vec![edit(LIST, operation, Some(value))];
        assert_eq!(edits(&mut image, topic("orders"), change), "ok");
        assert_eq!(set_of(&image, "orders"), alloc::format!("{LIST}={expected}"));
    };
    check(ConfigOperation::Append, "0:1,1:1", "0:1,1:1");
    check(ConfigOperation::Append, "1:1, 2:1", "0:1,1:1,2:1");
    check(ConfigOperation::Subtract, "1:1,9:9", "0:1,2:1");
    check(ConfigOperation::Subtract, "0:1,2:1", "");
    let number = vec![edit(TIMES, ConfigOperation::Append, Some("5"))];
    let said = "retention.ms: is no list, so that nothing can be appended or subtracted";
    assert_eq!(edits(&mut image, topic("orders"), number), said);
    // Where nothing is set, the list that holds is the one to change.
    let policy = vec![edit("cleanup.policy", ConfigOperation::Append, Some("compact"))];
    let said = "cleanup.policy = delete,compact: not supported yet; supported: delete, (empty)";
    assert_eq!(edits(&mut image, topic("orders"), policy), said);
    let policy = vec![edit("cleanup.policy", ConfigOperation::Subtract, Some("delete"))];
    assert_eq!(edits(&mut image, topic("other"), policy), "ok");
    assert_eq!(set_of(&image, "other"), "cleanup.policy=");
}

#[test]
fn a_refusal_names_bound_and_value_and_leaves_its_whole_resource_alone() {
    let mut image = image();
    let mut check = |bad: ConfigEdit, expected: &str| {
        let resources = vec![
            (topic("orders"), ConfigChange::Edit(vec![set(TIMES, "5"), bad.clone()])),
            (topic("other"), ConfigChange::Edit(vec![set(TIMES, "7")])),
        ];
        assert_eq!(alter(&mut image, resources), [expected, "ok"], "{bad:?}");
        assert_eq!(set_of(&image, "orders"), "");
        assert_eq!(set_of(&image, "other"), "retention.ms=7");
    };
    check(set("segment.bytes", "-1"), "segment.bytes = -1: must be 1048576 to 2147483647");
    check(set("flush.ms", "x"), "flush.ms = x: must be a whole number of 64 bits");
    check(set("cleanup.policy", "compactt"), "cleanup.policy = compactt: must be compact, delete");
    check(set("segment.byte", "5"), "segment.byte: unknown option; did you mean segment.bytes");
    check(set(TIMES, "6"), "retention.ms: stands more than once in the request");
    check(edit("flush.ms", ConfigOperation::Set, None), "flush.ms: null is not a value");
    check(
        edit(LIST, ConfigOperation::Append, None),
        &alloc::format!("{LIST}: null is not a value"),
    );
    let no_operation = ConfigEdit { operation: None, ..set("flush.ms", "1") };
    check(no_operation, "flush.ms: the operation must be 0 set, 1 delete, 2 append or 3 subtract");
}

#[test]
fn resources_that_are_not_there_or_stand_twice_are_refused_alone() {
    let mut image = image();
    let change = || ConfigChange::Edit(vec![set(TIMES, "5")]);
    let nodes = |bytes| ConfigChange::Edit(vec![set("message.max.bytes", bytes)]);
    let resources = vec![
        (topic(""), change()),
        (topic("no such"), change()),
        (topic("absent"), change()),
        (topic("orders"), change()),
        (topic("other"), change()),
        (topic("orders"), replace(&[])),
        (ConfigTarget::Node(NodeId(9)), nodes("1")),
        (ConfigTarget::Node(NODE), nodes("2")),
        (ConfigTarget::AllNodes, nodes("3")),
    ];
    let twice = "the resource stands more than once in the request";
    let expected = [
        "a topic needs a name: there is no default for all topics",
        "topic name no such: character ' ' is not a letter, digit, '.', '_' or '-'",
        "topic absent: does not exist",
        twice,
        "ok",
        twice,
        "node 9: is not registered",
        "ok",
        "ok",
    ];
    assert_eq!(alter(&mut image, resources), expected);
    assert_eq!(
        (set_of(&image, "orders"), set_of(&image, "other")),
        ("".into(), "retention.ms=5".into())
    );
}

#[test]
fn a_nodes_value_holds_over_that_of_all_nodes_and_reaches_topics() {
    let mut image = image();
    let holds = |image: &Image, node| {
        let topic = image.topic("orders").unwrap();
        image.topic_settings(node, topic, &broker()).max_message_bytes
    };
    assert_eq!(
        edits(&mut image, ConfigTarget::AllNodes, vec![set("message.max.bytes", "20")]),
        "ok"
    );
    assert_eq!(
        edits(&mut image, ConfigTarget::Node(NODE), vec![set("message.max.bytes", "10")]),
        "ok"
    );
    assert_eq!((holds(&image, NODE), holds(&image, NodeId(2))), (10, 20));
    let told = image.describe_node(NODE, &broker(), Some(&["message.max.bytes"]));
    let sources: Vec<_> = told[0].synonyms.iter().map(|synonym| synonym.source).collect();
    use ConfigSource::{Default, DynamicAllNodes, DynamicNode};
    assert_eq!(sources, [DynamicNode, DynamicAllNodes, Default]);
    let back = vec![edit("message.max.bytes", ConfigOperation::Delete, None)];
    assert_eq!(edits(&mut image, ConfigTarget::Node(NODE), back), "ok");
    assert_eq!(holds(&image, NODE), 20);
    assert_eq!(alter(&mut image, vec![(ConfigTarget::AllNodes, replace(&[]))]), ["ok"]);
    assert_eq!(holds(&image, NODE), 1000);
}

#[test]
fn options_of_nodes_pass_the_same_check_and_read_only_ones_stay() {
    let mut image = image();
    let mut check = |name: &str, value: &str, expected: &str| {
        let said = edits(&mut image, ConfigTarget::Node(NODE), vec![set(name, value)]);
        assert_eq!(said, expected, "{name}={value}");
    };
    check("message.max.bytes", "-1", "message.max.bytes = -1: must be 0 to 1000000");
    check(
        "message.max.byte",
        "1",
        "message.max.byte: unknown option; did you mean message.max.bytes",
    );
    check("num.partitions", "3", "num.partitions = 3: cannot be changed while the node runs");
    check("num.partitions", " 1000", "ok");
    check("secret", "hunter2", "secret = hunter2: cannot be changed while the node runs");
    let said = "log.cleanup.policy = compact: not supported yet; supported: delete, (empty)";
    check("log.cleanup.policy", "compact", said);
    let nothing = vec![edit("log.roll.ms", ConfigOperation::Set, None)];
    // What has no value was told as null, and may come back so only as part of a whole set.
    assert_eq!(
        edits(&mut image, ConfigTarget::Node(NODE), nothing),
        "log.roll.ms: null is not a value"
    );
}

#[test]
fn what_was_described_can_be_sent_back_and_describes_the_same() {
    let mut image = image();
    let values = |described: &[crate::DescribedConfig]| -> Vec<(String, Option<String>)> {
        described.iter().map(|config| (config.name.clone(), config.value.clone())).collect()
    };
    let node = |image: &Image| values(&image.describe_node(NODE, &broker(), None));
    let orders = |image: &Image| {
        values(&image.describe_topic(NODE, image.topic("orders").unwrap(), &broker(), None))
    };
    edits(&mut image, topic("orders"), vec![set(TIMES, "5")]);
    edits(&mut image, ConfigTarget::Node(NODE), vec![set("message.max.bytes", "7")]);
    let (of_node, of_topic) = (node(&image), orders(&image));
    assert_eq!((of_node.len(), of_topic.len()), (broker().len(), TOPIC_CONFIGS.len()));
    let resources = vec![
        (ConfigTarget::Node(NODE), ConfigChange::Replace(of_node.clone())),
        (topic("orders"), ConfigChange::Replace(of_topic.clone())),
    ];
    assert_eq!(alter(&mut image, resources), ["ok", "ok"]);
    assert_eq!((node(&image), orders(&image)), (of_node, of_topic));
}

#[test]
fn one_request_writes_no_more_than_a_batch_holds() {
    let mut image = image_of_nodes(1);
    let long: String = core::iter::repeat_n("1234567:1", 3_200).collect::<Vec<_>>().join(",");
    let mut resources = Vec::new();
    for id in 1..=40 {
        let name = alloc::format!("topic{id}");
        run(&mut image, &[MetadataRecord::Topic { name: Arc::from(&*name), id: topic_id(id) }]);
        resources.push((topic(&name), ConfigChange::Edit(vec![set(LIST, &long)])));
    }
    let said = alter(&mut image, resources);
    assert!(said[..32].iter().all(|said| said == "ok"), "{said:?}");
    assert!(said[39].ends_with("of names and values in one request: 1048576 are allowed"));
}
