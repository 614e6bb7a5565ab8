//! AlterConfigs and IncrementalAlterConfigs: what changes, what is refused, and that a change holds at once (MD-8, P96, P98).

use wire::ErrorCode;
use wire::alter_configs::{self, AlterConfigsRequest, AlterConfigsResponse};
use wire::incremental_alter_configs::{
    self, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use crate::configs::{BROKER, TOPIC, describe, resource};
use crate::support::{Client, Node, Topic, plain, produce_of, produced, sequenced};

const LOGGER: i8 = 8;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// What [`Described`](crate::configs::Described) calls the sources.
const OF_TOPIC: i8 = 1;
const OF_NODE: i8 = 2;
const OF_ALL_NODES: i8 = 3;
const BUILT_IN: i8 = 5;

/// Name, operation, value.
type Edit<'a> = (&'a str, i8, Option<&'a str>);

fn edited<'a>(
    kind: i8,
    name: &'a str,
    edits: &[Edit<'a>],
) -> incremental_alter_configs::AlterConfigsResource<'a> {
    let configs = edits.iter().map(|(name, config_operation, value)| {
        let (name, value) = ((*name).into(), value.map(Into::into));
        let config_operation = *config_operation;
        incremental_alter_configs::AlterableConfig { name, config_operation, value }
    });
    incremental_alter_configs::AlterConfigsResource {
        resource_type: kind,
        resource_name: name.into(),
        configs: configs.collect(),
    }
}

fn replaced<'a>(
    kind: i8,
    name: &'a str,
    values: &[(&'a str, Option<&'a str>)],
) -> alter_configs::AlterConfigsResource<'a> {
    let configs = values.iter().map(|(name, value)| alter_configs::AlterableConfig {
        name: (*name).into(),
        value: value.map(Into::into),
    });
    alter_configs::AlterConfigsResource {
        resource_type: kind,
        resource_name: name.into(),
        configs: configs.collect(),
    }
}

/// Edits, and gives the error of each resource; each must be answered in its place, with words where it failed.
fn edit_all(
    client: &mut Client,
    version: i16,
    resources: Vec<incremental_alter_configs::AlterConfigsResource<'_>>,
    validate_only: bool,
) -> Vec<ErrorCode> {
    let request = IncrementalAlterConfigsRequest { resources, validate_only };
    let frame = client.call(version, &request);
    let answer: IncrementalAlterConfigsResponse<'_> = frame.read();
    assert_eq!(answer.responses.len(), request.resources.len());
    let codes = answer.responses.iter().zip(&request.resources).map(|(answer, asked)| {
        let place = (answer.resource_type, &*answer.resource_name);
        assert_eq!(place, (asked.resource_type, &*asked.resource_name));
        assert_eq!(answer.error_message.is_some(), answer.error_code != ErrorCode::None);
        answer.error_code
    });
    codes.collect()
}

pub(crate) fn edit(client: &mut Client, kind: i8, name: &str, edits: &[Edit<'_>]) -> ErrorCode {
    edit_all(client, 1, vec![edited(kind, name, edits)], false)[0]
}

fn replace_all(
    client: &mut Client,
    version: i16,
    resources: Vec<alter_configs::AlterConfigsResource<'_>>,
    validate_only: bool,
) -> Vec<ErrorCode> {
    let request = AlterConfigsRequest { resources, validate_only };
    let frame = client.call(version, &request);
    let answer: AlterConfigsResponse<'_> = frame.read();
    assert_eq!(answer.responses.len(), request.resources.len());
    let codes = answer.responses.iter().zip(&request.resources).map(|(answer, asked)| {
        let place = (answer.resource_type, &*answer.resource_name);
        assert_eq!(place, (asked.resource_type, &*asked.resource_name));
        assert_eq!(answer.error_message.is_some(), answer.error_code != ErrorCode::None);
        answer.error_code
    });
    codes.collect()
}

/// Value and source of one configuration.
fn told(client: &mut Client, kind: i8, name: &str, key: &str) -> (Option<String>, i8) {
    let described = describe(client, 4, resource(kind, name, Some(&[key]))).unwrap();
    let config = &described[key];
    (config.value.clone(), config.source)
}

fn value(value: &str, source: i8) -> (Option<String>, i8) {
    (Some(value.to_owned()), source)
}

/// The error of a batch of so many bytes of payload.
fn produce(client: &mut Client, topic: &Topic, partition: i32, bytes: usize) -> ErrorCode {
    let batch = plain(bytes);
    let frame = client.call(9, &produce_of(topic, &[(partition, &batch)]));
    produced(&frame).error_code
}

#[test]
fn every_version_edits_one_configuration_and_replaces_all() {
    let mut client = Node::shared().connect();
    let none = [ErrorCode::None];
    for version in 0..=1 {
        let topic = Topic::create_with(&mut client, 1, &[("flush.ms", "7")]);
        let name = topic.name.as_str();
        let edits = [("retention.ms", SET, Some("5000")), ("flush.ms", DELETE, None)];
        assert_eq!(edit_all(&mut client, version, vec![edited(TOPIC, name, &edits)], false), none);
        assert_eq!(told(&mut client, TOPIC, name, "retention.ms"), value("5000", OF_TOPIC));
        assert_eq!(told(&mut client, TOPIC, name, "flush.ms").1, BUILT_IN);
    }
    for version in 0..=2 {
        let topic = Topic::create_with(&mut client, 1, &[("flush.ms", "7")]);
        let name = topic.name.as_str();
        let values = [("retention.ms", Some("5000"))];
        let asked = vec![replaced(TOPIC, name, &values)];
        assert_eq!(replace_all(&mut client, version, asked, false), none);
        assert_eq!(told(&mut client, TOPIC, name, "retention.ms"), value("5000", OF_TOPIC));
        assert_eq!(told(&mut client, TOPIC, name, "flush.ms").1, BUILT_IN);
    }
}

#[test]
fn items_are_appended_to_lists_and_subtracted() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let key = "leader.replication.throttled.replicas";
    for (operation, items, expected) in [
        (APPEND, "0:1,1:1", "0:1,1:1"),
        (APPEND, "1:1,2:1", "0:1,1:1,2:1"),
        (SUBTRACT, "1:1", "0:1,2:1"),
    ] {
        let edits = [(key, operation, Some(items))];
        assert_eq!(edit(&mut client, TOPIC, &topic.name, &edits), ErrorCode::None);
        assert_eq!(told(&mut client, TOPIC, &topic.name, key), value(expected, OF_TOPIC));
    }
}

#[test]
fn what_cannot_be_is_refused_by_code_and_nothing_else_in_the_request_is_affected() {
    let mut client = Node::shared().connect();
    let (good, bad) = (Topic::create(&mut client, 1), Topic::create(&mut client, 1));
    let name = bad.name.as_str();
    let rows: &[(i8, &str, Edit<'_>, ErrorCode)] = &[
        (TOPIC, name, ("cleanup.policy", SET, Some("compactt")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("cleanup.policy", APPEND, Some("compact")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("compression.type", SET, Some("SNAPPY")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("segment.bytes", SET, Some("-1")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("retention.ms", SET, Some("-2")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("retention.ms", SET, Some("")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("retention.ms", APPEND, Some("1")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("no.such.option", SET, Some("1")), ErrorCode::InvalidConfig),
        (TOPIC, name, ("retention.ms", SET, None), ErrorCode::InvalidRequest),
        (TOPIC, name, ("retention.ms", 4, Some("1")), ErrorCode::InvalidRequest),
        (TOPIC, name, ("retention.ms", -1, Some("1")), ErrorCode::InvalidRequest),
        (TOPIC, "absent", ("retention.ms", SET, Some("1")), ErrorCode::UnknownTopicOrPartition),
        (TOPIC, "no topic", ("retention.ms", SET, Some("1")), ErrorCode::InvalidTopicException),
        (TOPIC, "", ("retention.ms", SET, Some("1")), ErrorCode::InvalidRequest),
        (BROKER, "2", ("message.max.bytes", SET, Some("1")), ErrorCode::InvalidRequest),
        (BROKER, "one", ("message.max.bytes", SET, Some("1")), ErrorCode::InvalidRequest),
        (BROKER, "1", ("message.max.bytes", SET, Some("-1")), ErrorCode::InvalidConfig),
        (BROKER, "1", ("num.partitions", SET, Some("2")), ErrorCode::InvalidRequest),
        (BROKER, "1", ("num.io.threads", SET, Some("9")), ErrorCode::InvalidRequest),
        (BROKER, "1", ("log.cleanup.policy", SET, Some("compact")), ErrorCode::InvalidConfig),
        (BROKER, "", ("no.such.option", SET, Some("1")), ErrorCode::InvalidConfig),
        (LOGGER, "1", ("root", SET, Some("DEBUG")), ErrorCode::InvalidRequest),
        (16, "metrics", ("interval.ms", SET, Some("1")), ErrorCode::InvalidRequest),
        (32, "group", ("consumer.session.timeout.ms", SET, Some("1")), ErrorCode::InvalidRequest),
        (0, "x", ("a", SET, Some("1")), ErrorCode::InvalidRequest),
        (-1, "x", ("a", SET, Some("1")), ErrorCode::InvalidRequest),
    ];
    for (count, (kind, name, refused, expected)) in (1_000..).zip(rows) {
        let first = count.to_string();
        // By itself this edit is good: it must not be made without the other.
        let sound = match *kind {
            BROKER => ("log.segment.bytes", SET, Some("2097152")),
            _ => ("flush.ms", SET, Some("9")),
        };
        for (version, validate_only) in [(0, true), (0, false), (1, false)] {
            let asked = vec![
                edited(TOPIC, &good.name, &[("retention.ms", SET, Some(&first))]),
                edited(*kind, name, &[sound, *refused]),
            ];
            let found = edit_all(&mut client, version, asked, validate_only);
            assert_eq!(found, [ErrorCode::None, *expected], "{kind} {name} {refused:?}");
        }
        assert_eq!(told(&mut client, TOPIC, &good.name, "retention.ms").0, Some(first));
    }
    assert_eq!(told(&mut client, BROKER, "1", "log.segment.bytes").1, BUILT_IN);
    let all = describe(&mut client, 4, resource(TOPIC, name, None)).unwrap();
    assert!(all.values().all(|config| config.source != OF_TOPIC), "half of a resource was altered");
}

#[test]
fn the_longest_value_is_kept_whole_and_an_error_repeats_a_part_only() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let mut set = |bytes: usize| {
        let value = "1:1,".repeat(bytes.div_ceil(4));
        let edits = [("leader.replication.throttled.replicas", SET, Some(&value[..bytes]))];
        let resources = vec![edited(TOPIC, &topic.name, &edits)];
        let request = IncrementalAlterConfigsRequest { resources, validate_only: false };
        let frame = client.call(1, &request);
        let answer: IncrementalAlterConfigsResponse<'_> = frame.read();
        let message = answer.responses[0].error_message.as_ref();
        (answer.responses[0].error_code, message.map_or(0, |message| message.len()))
    };
    assert_eq!(set(32_767), (ErrorCode::None, 0));
    let (code, message_bytes) = set(32_766);
    assert_eq!((code, message_bytes < 300), (ErrorCode::InvalidConfig, true), "it ends with 1:");
}

#[test]
fn a_resource_or_a_configuration_that_stands_twice_is_refused() {
    let mut client = Node::shared().connect();
    let (one, other) = (Topic::create(&mut client, 1), Topic::create(&mut client, 1));
    let (set, twice) = (("flush.ms", SET, Some("1")), ErrorCode::InvalidRequest);
    let asked = || {
        vec![
            edited(TOPIC, &one.name, &[set]),
            edited(TOPIC, &other.name, &[set]),
            edited(TOPIC, &one.name, &[set]),
        ]
    };
    assert_eq!(edit_all(&mut client, 1, asked(), false), [twice, ErrorCode::None, twice]);
    assert_eq!(edit(&mut client, TOPIC, &one.name, &[set, set]), twice);
    let values = [("flush.ms", Some("1")), ("flush.ms", Some("2"))];
    let asked = vec![replaced(TOPIC, &one.name, &values), replaced(TOPIC, &other.name, &[])];
    assert_eq!(replace_all(&mut client, 2, asked, false), [twice, ErrorCode::None]);
    assert_eq!(told(&mut client, TOPIC, &one.name, "flush.ms").1, BUILT_IN);
    assert_eq!(edit_all(&mut client, 1, vec![], false), []);
}

#[test]
fn validation_answers_as_the_change_would_and_changes_nothing() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let edits = [("flush.ms", SET, Some("1"))];
    let asked = vec![edited(TOPIC, &topic.name, &edits)];
    assert_eq!(edit_all(&mut client, 1, asked, true), [ErrorCode::None]);
    let asked = vec![replaced(TOPIC, &topic.name, &[("flush.ms", Some("1"))])];
    assert_eq!(replace_all(&mut client, 2, asked, true), [ErrorCode::None]);
    assert_eq!(told(&mut client, TOPIC, &topic.name, "flush.ms").1, BUILT_IN);
}

#[test]
fn what_was_described_can_be_sent_back_and_describes_the_same() {
    let node = Node::start(1, &["num.partitions=3", "message.max.bytes=500000"]);
    let mut client = node.connect();
    let topic = Topic::create_with(&mut client, 1, &[("retention.ms", "5000")]);
    for (kind, name) in [(TOPIC, topic.name.as_str()), (BROKER, "1")] {
        let values = |client: &mut Client| -> Vec<(String, Option<String>)> {
            let described = describe(client, 4, resource(kind, name, None)).unwrap();
            described.into_iter().map(|(name, config)| (name, config.value)).collect()
        };
        let before = values(&mut client);
        let sent: Vec<_> =
            before.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        let asked = vec![replaced(kind, name, &sent)];
        assert_eq!(replace_all(&mut client, 2, asked, false), [ErrorCode::None], "{name}");
        assert_eq!(values(&mut client), before);
    }
}

#[test]
fn a_change_holds_for_the_next_batch_on_every_core_and_after_a_crash() {
    let mut node = Node::start(2, &["advertise=core"]);
    let mut clients = [node.connect_to_core(0), node.connect_to_core(1)];
    let topic = Topic::create(&mut clients[0], 4);
    let check = |clients: &mut [Client; 2], bytes, expected| {
        let owners = (0..4).map(|partition| {
            let codes = clients.iter_mut().map(|client| produce(client, &topic, partition, bytes));
            codes.collect::<Vec<_>>()
        });
        assert_eq!(owners.collect::<Vec<_>>(), vec![vec![expected; 2]; 4]);
    };
    check(&mut clients, 5_000, ErrorCode::None);
    let small = [("max.message.bytes", SET, Some("2000"))];
    assert_eq!(edit(&mut clients[1], TOPIC, &topic.name, &small), ErrorCode::None);
    check(&mut clients, 5_000, ErrorCode::MessageTooLarge);
    check(&mut clients, 1_000, ErrorCode::None);
    node.kill();
    node.start_again();
    let mut clients = [node.connect_to_core(0), node.connect_to_core(1)];
    check(&mut clients, 5_000, ErrorCode::MessageTooLarge);
    assert_eq!(
        told(&mut clients[0], TOPIC, &topic.name, "max.message.bytes"),
        value("2000", OF_TOPIC)
    );
    let back = [("max.message.bytes", DELETE, None)];
    assert_eq!(edit(&mut clients[0], TOPIC, &topic.name, &back), ErrorCode::None);
    check(&mut clients, 5_000, ErrorCode::None);
    let segments =
        [("segment.bytes", SET, Some("1048576")), ("max.message.bytes", SET, Some("4000000"))];
    assert_eq!(edit(&mut clients[0], TOPIC, &topic.name, &segments), ErrorCode::None);
    check(&mut clients, 2 << 20, ErrorCode::RecordListTooLarge);
}

#[test]
fn what_is_set_for_brokers_reaches_topics_that_say_nothing_themselves() {
    let mut node = Node::start(2, &[]);
    let mut client = node.connect();
    let silent = Topic::create(&mut client, 2);
    let own = Topic::create_with(&mut client, 1, &[("max.message.bytes", "100000")]);
    let key = "message.max.bytes";
    let set = |client: &mut Client, broker: &str, to: Option<&str>| {
        let operation = if to.is_some() { SET } else { DELETE };
        assert_eq!(edit(client, BROKER, broker, &[(key, operation, to)]), ErrorCode::None);
    };
    let check = |client: &mut Client, expected, source| {
        let codes = [produce(client, &silent, 0, 5_000), produce(client, &silent, 1, 5_000)];
        assert_eq!(codes, [expected; 2]);
        assert_eq!(produce(client, &own, 0, 5_000), ErrorCode::None);
        assert_eq!(told(client, TOPIC, &silent.name, "max.message.bytes").1, source);
        assert_eq!(told(client, BROKER, "1", key).1, source);
    };
    check(&mut client, ErrorCode::None, BUILT_IN);
    set(&mut client, "", Some("2000"));
    check(&mut client, ErrorCode::MessageTooLarge, OF_ALL_NODES);
    set(&mut client, "1", Some("9000"));
    check(&mut client, ErrorCode::None, OF_NODE);
    node.kill();
    node.start_again();
    let mut client = node.connect();
    check(&mut client, ErrorCode::None, OF_NODE);
    set(&mut client, "1", None);
    check(&mut client, ErrorCode::MessageTooLarge, OF_ALL_NODES);
    let asked = vec![replaced(BROKER, "", &[])];
    assert_eq!(replace_all(&mut client, 2, asked, false), [ErrorCode::None]);
    check(&mut client, ErrorCode::None, BUILT_IN);
}

#[test]
fn the_bound_of_connections_changes_while_the_node_runs() {
    let mut node = Node::start(1, &["max.connections=3"]);
    let mut client = node.connect();
    let set = |client: &mut Client, to: &str| {
        assert_eq!(
            edit(client, BROKER, "1", &[("max.connections", SET, Some(to))]),
            ErrorCode::None
        );
    };
    set(&mut client, "1");
    node.connect().expect_closed();
    set(&mut client, "2");
    node.connect().expect_alive();
    node.kill();
    node.start_again();
    let (mut client, mut other) = (node.connect(), node.connect());
    client.expect_alive();
    other.expect_alive();
    node.connect().expect_closed();
    // Lowered below what is there: nobody is thrown out.
    set(&mut client, "1");
    other.expect_alive();
}

#[test]
fn the_memory_of_producers_changes_while_the_node_runs() {
    let node = Node::start(1, &["producer.id.expiration.ms=2147483647"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    client.append(&topic, 0, &sequenced(7, 0, 0, 1));
    assert_eq!(node.metric("corelog_producers"), 1);
    let short = [("producer.id.expiration.ms", SET, Some("1"))];
    assert_eq!(edit(&mut client, BROKER, "", &short), ErrorCode::None);
    node.wait_for_metric("corelog_producers", |count| count == 0);
}
