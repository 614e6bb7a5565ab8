//! Metadata, DescribeCluster and FindCoordinator: who is there and what there is (MD).

use record::{LeaderEpoch, NodeId, TopicId};
use wire::ErrorCode;
use wire::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use wire::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use crate::support::{Client, Node, Topic};

const NODE: NodeId = NodeId(1);
/// MD-11: Kafka's bits for read, write, create, delete, alter, describe, describe configs, alter configs.
const TOPIC_OPERATIONS: i32 = 3576;
/// The same for create, alter, describe, cluster action, describe configs, alter configs, idempotent write.
const CLUSTER_OPERATIONS: i32 = 8096;

fn by_name(name: &str) -> MetadataRequestTopic<'_> {
    MetadataRequestTopic { name: Some(name.into()), ..Default::default() }
}

/// Asks for topics that are not to be created.
fn asking<'a>(topics: Vec<MetadataRequestTopic<'a>>) -> MetadataRequest<'a> {
    MetadataRequest { topics: Some(topics), allow_auto_topic_creation: false, ..Default::default() }
}

/// A node with two topics, and a client of it.
fn two_topics() -> (Node, Client, Topic, Topic) {
    let node = Node::start(1, &["auto.create.topics.enable=false"]);
    let mut client = node.connect();
    let first = Topic::create_named(&mut client, "alpha", 2, &[]);
    let second = Topic::create_named(&mut client, "beta", 1, &[]);
    (node, client, first, second)
}

fn names<'a>(answer: &'a MetadataResponse<'_>) -> Vec<&'a str> {
    answer.topics.iter().map(|topic| topic.name.as_deref().unwrap()).collect()
}

#[test]
fn all_topics_are_an_empty_list_in_version_0_and_null_later() {
    let (_node, mut client, ..) = two_topics();
    for version in 0..=13 {
        let empty = client.call(version, &asking(Vec::new()));
        let expected: &[&str] = if version == 0 { &["alpha", "beta"] } else { &[] };
        assert_eq!(names(&empty.read()), expected, "v{version} empty");
        if version > 0 {
            let all = client.call(version, &MetadataRequest::default());
            assert_eq!(names(&all.read()), ["alpha", "beta"], "v{version} null");
        }
    }
}

#[test]
fn every_version_names_the_broker_the_partitions_and_their_leader() {
    let (node, mut client, first, _) = two_topics();
    for version in 0..=13 {
        let frame = client.call(version, &asking(vec![by_name("alpha")]));
        let answer: MetadataResponse<'_> = frame.read();
        let broker = &answer.brokers[0];
        assert_eq!((broker.node_id, &*broker.host), (NODE, "127.0.0.1"));
        assert_eq!((answer.brokers.len(), broker.port), (1, node.address().port().into()));
        assert_eq!(answer.controller_id, if version >= 1 { NODE } else { NodeId::NONE });
        assert_eq!(answer.cluster_id.is_some_and(|id| id.len() == 22), version >= 2);
        let topic = &answer.topics[0];
        assert_eq!((topic.error_code, topic.is_internal), (ErrorCode::None, false));
        assert_eq!(topic.topic_id, if version >= 10 { first.id } else { TopicId::ZERO });
        assert_eq!(topic.partitions.len(), 2);
        for (index, partition) in (0..).zip(&topic.partitions) {
            assert_eq!((partition.partition_index.0, partition.leader_id), (index, NODE));
            assert_eq!(
                (&partition.replica_nodes, &partition.isr_nodes),
                (&vec![NODE], &vec![NODE])
            );
            let epoch = if version >= 7 { LeaderEpoch(0) } else { LeaderEpoch::NONE };
            assert_eq!(partition.leader_epoch, epoch);
            assert!(partition.offline_replicas.is_empty());
        }
    }
}

#[test]
fn what_is_not_there_or_cannot_be_has_its_own_code() {
    let (_node, mut client, ..) = two_topics();
    let long = "x".repeat(250);
    for (name, expected) in [
        ("gamma", ErrorCode::UnknownTopicOrPartition),
        ("with space", ErrorCode::InvalidTopicException),
        ("..", ErrorCode::InvalidTopicException),
        ("", ErrorCode::InvalidTopicException),
        (&long, ErrorCode::InvalidTopicException),
    ] {
        for version in [0, 1, 9, 12, 13] {
            let frame = client.call(version, &asking(vec![by_name(name)]));
            let answer: MetadataResponse<'_> = frame.read();
            assert_eq!(answer.topics[0].error_code, expected, "v{version} {name:?}");
            assert_eq!(answer.topics[0].name.as_deref(), Some(name));
            assert!(answer.topics[0].partitions.is_empty());
        }
    }
}

#[test]
fn a_topic_asked_for_many_times_is_answered_once() {
    let (_node, mut client, first, second) = two_topics();
    let by_id = |topic_id| MetadataRequestTopic { topic_id, name: None };
    for version in [0, 1, 9, 13] {
        let mut topics = vec![by_name("beta"); 20_000];
        topics.extend(vec![by_name("nowhere"); 20_000]);
        if version == 13 {
            topics.extend([by_id(first.id), by_id(second.id), by_id(first.id)]);
        }
        let frame = client.call(version, &asking(topics));
        let expected: &[_] = if version == 13 {
            &["beta", "nowhere", "alpha", "beta"]
        } else {
            &["beta", "nowhere"]
        };
        assert_eq!(names(&frame.read()), expected, "v{version}");
    }
}

#[test]
fn a_missing_topic_named_twice_is_created_once() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    let topics = vec![by_name("made"), by_name("made")];
    let request = MetadataRequest { topics: Some(topics), ..Default::default() };
    for _ in 0..2 {
        let frame = client.call(9, &request);
        assert_eq!(names(&frame.read()), ["made"]);
    }
    let frame = client.call(9, &asking(vec![by_name("made")]));
    let answer: MetadataResponse<'_> = frame.read();
    assert_eq!(answer.topics[0].error_code, ErrorCode::None);
}

#[test]
fn versions_10_and_11_do_not_take_ids() {
    let (_node, mut client, first, _) = two_topics();
    for version in [10, 11] {
        let by_id = MetadataRequestTopic { topic_id: first.id, ..by_name("alpha") };
        let unnamed = MetadataRequestTopic::default();
        for refused in [by_id, unnamed] {
            let frame = client.call(version, &asking(vec![by_name("beta"), refused]));
            let answer: MetadataResponse<'_> = frame.read();
            let codes: Vec<_> = answer.topics.iter().map(|topic| topic.error_code).collect();
            assert_eq!(codes, [ErrorCode::InvalidRequest; 2], "v{version}");
        }
    }
}

#[test]
fn topics_are_found_by_id_from_version_12() {
    let (_node, mut client, first, second) = two_topics();
    let ids = [second.id, TopicId([7; 16]), first.id];
    let asked = ids.map(|topic_id| MetadataRequestTopic { topic_id, name: None });
    for version in [12, 13] {
        let frame = client.call(version, &asking(asked.to_vec()));
        let answer: MetadataResponse<'_> = frame.read();
        let found: Vec<_> =
            answer.topics.iter().map(|topic| (topic.error_code, topic.name.as_deref())).collect();
        let unknown = (ErrorCode::UnknownTopicId, None);
        let none = ErrorCode::None;
        assert_eq!(found, [(none, Some("beta")), unknown, (none, Some("alpha"))]);
        assert_eq!(answer.topics.iter().map(|topic| topic.topic_id).collect::<Vec<_>>(), ids);
    }
}

#[test]
fn authorized_operations_are_told_when_asked_for() {
    let (_node, mut client, ..) = two_topics();
    for version in 8..=13 {
        for asked in [false, true] {
            let request = MetadataRequest {
                include_cluster_authorized_operations: asked && version <= 10,
                include_topic_authorized_operations: asked,
                ..asking(vec![by_name("alpha")])
            };
            let frame = client.call(version, &request);
            let answer: MetadataResponse<'_> = frame.read();
            let told = |told: bool, bits| if told { bits } else { i32::MIN };
            let topic = answer.topics[0].topic_authorized_operations;
            assert_eq!(topic, told(asked, TOPIC_OPERATIONS), "v{version}");
            let cluster = answer.cluster_authorized_operations;
            assert_eq!(cluster, told(asked && version <= 10, CLUSTER_OPERATIONS), "v{version}");
        }
    }
}

#[test]
fn a_missing_topic_is_created_only_where_client_and_node_allow_it() {
    let open = Node::start(1, &["num.partitions=3"]);
    let closed = Node::start(1, &["auto.create.topics.enable=false"]);
    for (node, version, allow, expected) in [
        (&open, 4, false, ErrorCode::UnknownTopicOrPartition),
        (&open, 12, false, ErrorCode::UnknownTopicOrPartition),
        (&closed, 12, true, ErrorCode::UnknownTopicOrPartition),
        // Before version 4 clients could not say no.
        (&closed, 1, true, ErrorCode::UnknownTopicOrPartition),
        (&open, 1, true, ErrorCode::None),
        (&open, 4, true, ErrorCode::None),
        (&open, 12, true, ErrorCode::None),
    ] {
        let mut client = node.connect();
        let name = Topic::fresh_name();
        let request =
            MetadataRequest { allow_auto_topic_creation: allow, ..asking(vec![by_name(&name)]) };
        client.call(version, &request);
        let frame = client.call(12, &asking(vec![by_name(&name)]));
        let answer: MetadataResponse<'_> = frame.read();
        assert_eq!(answer.topics[0].error_code, expected, "v{version} allow={allow}");
        let created = expected == ErrorCode::None;
        assert_eq!(answer.topics[0].partitions.len(), if created { 3 } else { 0 });
    }
}

#[test]
fn asking_for_all_topics_by_bad_or_unknown_id_or_for_internal_ones_creates_nothing() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    let create = |topics| MetadataRequest { topics, ..MetadataRequest::default() };
    let unknown_id = MetadataRequestTopic { topic_id: TopicId([7; 16]), name: None };
    client.call(12, &create(None));
    client.call(12, &create(Some(vec![unknown_id])));
    client.call(12, &create(Some(vec![by_name("bad name")])));
    client.call(12, &create(Some(vec![by_name("__consumer_offsets")])));
    let frame = client.call(12, &create(None));
    assert_eq!(names(&frame.read()), [""; 0]);
}

#[test]
fn internal_topics_are_marked() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    for name in ["__consumer_offsets", "__transaction_state", "__share_group_state", "__mine"] {
        Topic::create_named(&mut client, name, 1, &[]);
        let frame = client.call(9, &asking(vec![by_name(name)]));
        let answer: MetadataResponse<'_> = frame.read();
        assert_eq!(answer.topics[0].is_internal, name != "__mine", "{name}");
    }
}

#[test]
fn the_cluster_is_described_as_its_metadata_says() {
    let (node, mut client, ..) = two_topics();
    let frame = client.call(12, &asking(Vec::new()));
    let metadata: MetadataResponse<'_> = frame.read();
    for (version, asked) in [(0, false), (1, true), (2, true)] {
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations: asked,
            ..Default::default()
        };
        let frame = client.call(version, &request);
        let answer: DescribeClusterResponse<'_> = frame.read();
        assert_eq!((answer.error_code, answer.controller_id), (ErrorCode::None, NODE));
        assert_eq!(Some(&answer.cluster_id), metadata.cluster_id.as_ref());
        assert_eq!((answer.brokers.len(), answer.endpoint_type), (1, 1));
        let broker = &answer.brokers[0];
        assert_eq!((broker.broker_id, &*broker.host), (NODE, "127.0.0.1"));
        assert_eq!((broker.port, broker.is_fenced), (node.address().port().into(), false));
        let bits = if asked { CLUSTER_OPERATIONS } else { i32::MIN };
        assert_eq!(answer.cluster_authorized_operations, bits);
    }
}

#[test]
fn controllers_cannot_be_described_here() {
    let mut client = Node::shared().connect();
    for (endpoint_type, expected) in
        [(2, ErrorCode::MismatchedEndpointType), (3, ErrorCode::UnsupportedEndpointType)]
    {
        let request = DescribeClusterRequest { endpoint_type, ..Default::default() };
        let frame = client.call(1, &request);
        let answer: DescribeClusterResponse<'_> = frame.read();
        assert_eq!(answer.error_code, expected);
        assert!(answer.brokers.is_empty());
    }
}

#[test]
fn coordinators_are_not_available_yet_and_clients_may_ask_again() {
    let mut client = Node::shared().connect();
    for version in 0..=5 {
        let request = FindCoordinatorRequest {
            key: "group".into(),
            coordinator_keys: vec!["one".into(), "two".into()],
            ..Default::default()
        };
        let frame = client.call(version, &request);
        let answer: FindCoordinatorResponse<'_> = frame.read();
        let expected = ErrorCode::CoordinatorNotAvailable;
        if version < 4 {
            assert_eq!((answer.error_code, answer.node_id), (expected, NodeId::NONE));
        } else {
            let keys: Vec<_> =
                answer.coordinators.iter().map(|found| (&*found.key, found.error_code)).collect();
            assert_eq!(keys, [("one", expected), ("two", expected)], "v{version}");
        }
    }
}

#[test]
fn a_kind_of_coordinator_that_there_is_not_is_no_request() {
    let mut client = Node::shared().connect();
    for key_type in [-1, 2, 9] {
        let request = FindCoordinatorRequest {
            key: "group".into(),
            key_type,
            coordinator_keys: vec!["group".into()],
        };
        let frame = client.call(3, &request);
        let answer: FindCoordinatorResponse<'_> = frame.read();
        assert_eq!(answer.error_code, ErrorCode::InvalidRequest, "key type {key_type}");
        let frame = client.call(5, &request);
        let answer: FindCoordinatorResponse<'_> = frame.read();
        assert_eq!(answer.coordinators[0].error_code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn an_id_decides_which_topic_is_meant_whatever_name_stands_beside_it() {
    let (_node, mut client, first, second) = two_topics();
    let asked = MetadataRequestTopic { topic_id: first.id, name: Some(second.name.into()) };
    let frame = client.call(13, &asking(vec![asked]));
    let answer: MetadataResponse<'_> = frame.read();
    assert_eq!(answer.topics[0].error_code, ErrorCode::None);
    assert_eq!(answer.topics[0].topic_id, first.id);
    assert_eq!(answer.topics[0].name.as_deref(), Some(&*first.name));
}
