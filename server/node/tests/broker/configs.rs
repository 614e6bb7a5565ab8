//! DescribeConfigs: values, where they come from, and what else they could be (MD-8, MD-9, MD-10).

use std::collections::BTreeMap;

use wire::ErrorCode;
use wire::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse,
};

use crate::support::{Client, Node, Topic};

pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
const SET_FOR_TOPIC: i8 = 1;
const SET_FOR_NODE: i8 = 4;
const BUILT_IN: i8 = 5;

#[test]
fn a_resource_named_many_times_is_described_once() {
    let mut client = Node::shared().connect();
    let id = "1";
    let resources = vec![
        resource(BROKER, "", None),
        resource(BROKER, id, None),
        resource(BROKER, "", None),
        resource(BROKER, "01", None),
        resource(BROKER, id, None),
    ];
    let request = DescribeConfigsRequest { resources, ..Default::default() };
    let frame = client.call(4, &request);
    let answer: DescribeConfigsResponse<'_> = frame.read();
    let found: Vec<_> =
        answer.results.iter().map(|result| (&*result.resource_name, result.error_code)).collect();
    let expected =
        [("", ErrorCode::None), (id, ErrorCode::None), ("01", ErrorCode::InvalidRequest)];
    assert_eq!(found, expected);
}

pub(crate) fn resource<'a>(
    kind: i8,
    name: &'a str,
    keys: Option<&[&'a str]>,
) -> DescribeConfigsResource<'a> {
    DescribeConfigsResource {
        resource_type: kind,
        resource_name: name.into(),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).into()).collect()),
    }
}

/// Name, value and source of each synonym.
type Synonyms = Vec<(String, Option<String>, i8)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) value: Option<String>,
    pub(crate) source: i8,
    kind: i8,
    is_read_only: bool,
    documented: bool,
    synonyms: Synonyms,
}

impl Described {
    fn of(config: &DescribeConfigsResourceResult<'_>) -> Self {
        let text = |text: &wire::Text<'_>| text.to_string();
        let synonyms = config
            .synonyms
            .iter()
            .map(|synonym| (text(&synonym.name), synonym.value.as_ref().map(text), synonym.source));
        Self {
            value: config.value.as_ref().map(text),
            source: config.config_source,
            kind: config.config_type,
            is_read_only: config.read_only,
            documented: config.documentation.is_some(),
            synonyms: synonyms.collect(),
        }
    }
}

pub(crate) fn describe(
    client: &mut Client,
    version: i16,
    asked: DescribeConfigsResource<'_>,
) -> Result<BTreeMap<String, Described>, ErrorCode> {
    let request = DescribeConfigsRequest {
        resources: vec![asked],
        include_synonyms: true,
        include_documentation: version >= 3,
    };
    let frame = client.call(version, &request);
    let answer: DescribeConfigsResponse<'_> = frame.read();
    let result = &answer.results[0];
    match result.error_code {
        ErrorCode::None => {
            let configs = result.configs.iter();
            Ok(configs.map(|config| (config.name.to_string(), Described::of(config))).collect())
        }
        error => {
            assert!(result.error_message.is_some() && result.configs.is_empty());
            Err(error)
        }
    }
}

#[test]
fn a_null_and_an_empty_list_of_keys_ask_for_all() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    for version in 1..=4 {
        for (kind, name, some) in
            [(TOPIC, topic.name.as_str(), "retention.ms"), (BROKER, "1", "num.partitions")]
        {
            let all = describe(&mut client, version, resource(kind, name, None)).unwrap();
            let empty = describe(&mut client, version, resource(kind, name, Some(&[]))).unwrap();
            assert_eq!(all, empty, "v{version}");
            assert!(all.len() > 25 && all.contains_key(some), "{:?}", all.keys());
            let named = ["no.such.key", some];
            let named = describe(&mut client, version, resource(kind, name, Some(&named))).unwrap();
            assert_eq!(named, BTreeMap::from([(some.to_owned(), all[some].clone())]));
        }
    }
}

#[test]
fn a_value_says_where_it_comes_from_and_what_it_would_be_otherwise() {
    let node = Node::start(1, &["log.segment.bytes=2097152", "message.max.bytes=500000"]);
    let mut client = node.connect();
    let set = [("segment.bytes", "3145728"), ("retention.ms", "1000")];
    let topic = Topic::create_with(&mut client, 1, &set);
    let all = describe(&mut client, 4, resource(TOPIC, &topic.name, None)).unwrap();
    let check = |key: &str, value: &str, synonyms: &[(&str, &str, i8)]| {
        let found = &all[key];
        let synonym = |(name, value, source): &(&str, &str, i8)| {
            (name.to_string(), Some(value.to_string()), *source)
        };
        assert_eq!(found.value.as_deref(), Some(value), "{key}");
        assert_eq!(found.synonyms, synonyms.iter().map(synonym).collect::<Synonyms>(), "{key}");
        assert_eq!(found.source, synonyms[0].2, "{key}");
        assert!(found.documented && !found.is_read_only);
    };
    check(
        "segment.bytes",
        "3145728",
        &[
            ("segment.bytes", "3145728", SET_FOR_TOPIC),
            ("log.segment.bytes", "2097152", SET_FOR_NODE),
            ("log.segment.bytes", "1073741824", BUILT_IN),
        ],
    );
    check(
        "max.message.bytes",
        "500000",
        &[
            ("message.max.bytes", "500000", SET_FOR_NODE),
            ("message.max.bytes", "1048588", BUILT_IN),
        ],
    );
    check("min.insync.replicas", "1", &[("min.insync.replicas", "1", BUILT_IN)]);
    assert_eq!(all["retention.ms"].source, SET_FOR_TOPIC);
    assert_eq!(all["cleanup.policy"].value.as_deref(), Some("delete"));
    assert_eq!(all["cleanup.policy"].source, BUILT_IN);
}

#[test]
fn types_come_with_version_3_and_synonyms_and_words_only_when_asked_for() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let keys = ["cleanup.policy", "preallocate", "retention.ms", "segment.bytes"];
    for (version, kinds) in [(2, [0; 4]), (3, [7, 1, 5, 3]), (4, [7, 1, 5, 3])] {
        let asked = resource(TOPIC, &topic.name, Some(&keys));
        let found = describe(&mut client, version, asked).unwrap();
        assert_eq!(found.values().map(|config| config.kind).collect::<Vec<_>>(), kinds);
    }
    let resources = vec![resource(TOPIC, &topic.name, None)];
    let frame = client.call(4, &DescribeConfigsRequest { resources, ..Default::default() });
    let answer: DescribeConfigsResponse<'_> = frame.read();
    for config in &answer.results[0].configs {
        assert!(config.synonyms.is_empty() && config.documentation.is_none(), "{}", config.name);
    }
}

#[test]
fn a_broker_is_described_by_its_id_and_all_brokers_by_no_name() {
    let node = Node::start(1, &["num.partitions=5"]);
    let mut client = node.connect();
    let own = describe(&mut client, 4, resource(BROKER, "1", None)).unwrap();
    assert_eq!(
        (own["num.partitions"].value.as_deref(), own["num.partitions"].source),
        (Some("5"), SET_FOR_NODE)
    );
    for key in [
        "advertised.listeners",
        "log.dirs",
        "min.insync.replicas",
        "default.replication.factor",
        "delete.topic.enable",
        "auto.create.topics.enable",
        "offsets.topic.replication.factor",
        "log.retention.ms",
    ] {
        assert!(own.contains_key(key), "{key} is what tools ask for");
    }
    let all = describe(&mut client, 4, resource(BROKER, "", None)).unwrap();
    assert!(all.values().all(|config| config.source == 3), "only what is set for all brokers");
}

#[test]
fn what_cannot_be_described_is_refused_by_code() {
    let mut client = Node::shared().connect();
    for (kind, name, expected) in [
        (TOPIC, "no-such-topic", ErrorCode::UnknownTopicOrPartition),
        (TOPIC, "no such topic", ErrorCode::InvalidTopicException),
        (TOPIC, "", ErrorCode::InvalidTopicException),
        (BROKER, "2", ErrorCode::InvalidRequest),
        (BROKER, "one", ErrorCode::InvalidRequest),
        (BROKER, "-1", ErrorCode::InvalidRequest),
        (99, "x", ErrorCode::InvalidRequest),
        (0, "", ErrorCode::InvalidRequest),
    ] {
        for version in 1..=4 {
            let found = describe(&mut client, version, resource(kind, name, None));
            assert_eq!(found, Err(expected), "v{version} {kind} {name:?}");
        }
    }
}

#[test]
fn each_resource_of_a_request_is_answered_for_itself_in_order() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let resources = vec![
        resource(TOPIC, "no-such-topic", None),
        resource(TOPIC, &topic.name, None),
        resource(BROKER, "1", None),
    ];
    let frame = client.call(4, &DescribeConfigsRequest { resources, ..Default::default() });
    let answer: DescribeConfigsResponse<'_> = frame.read();
    let found: Vec<_> = answer
        .results
        .iter()
        .map(|result| (result.resource_type, &*result.resource_name, result.error_code))
        .collect();
    let expected = [
        (TOPIC, "no-such-topic", ErrorCode::UnknownTopicOrPartition),
        (TOPIC, topic.name.as_str(), ErrorCode::None),
        (BROKER, "1", ErrorCode::None),
    ];
    assert_eq!(found, expected);
}
