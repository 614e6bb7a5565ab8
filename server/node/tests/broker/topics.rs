//! CreateTopics and DeleteTopics (MD-4, MD-5, MD-6).

use record::{NodeId, PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
    CreateTopicsResponse,
};
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::fetch::FetchRequest;
use wire::metadata::{MetadataRequest, MetadataResponse};

use crate::support::{
    Client, Node, Topic, batch, fetch_of, fetched, produce_of, produced, values_of,
};

fn topic(name: &str, partitions: i32, replicas: i16) -> CreatableTopic<'_> {
    CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: replicas,
        ..Default::default()
    }
}

fn with_config<'a>(name: &'a str, key: &'a str, value: Option<&'a str>) -> CreatableTopic<'a> {
    let config = CreatableTopicConfig { name: key.into(), value: value.map(Into::into) };
    CreatableTopic { configs: vec![config], ..topic(name, 1, 1) }
}

fn with_replicas<'a>(name: &'a str, partitions: &[(i32, &[i32])]) -> CreatableTopic<'a> {
    let assignments = partitions.iter().map(|(index, nodes)| CreatableReplicaAssignment {
        partition_index: PartitionIndex(*index),
        broker_ids: nodes.iter().copied().map(NodeId).collect(),
    });
    CreatableTopic { assignments: assignments.collect(), ..topic(name, -1, -1) }
}

/// Creates, and gives name and error of each answer.
fn create(
    client: &mut Client,
    version: i16,
    topics: Vec<CreatableTopic<'_>>,
    validate_only: bool,
) -> Vec<(String, ErrorCode)> {
    let request = CreateTopicsRequest { topics, validate_only, ..Default::default() };
    let frame = client.call(version, &request);
    let answer: CreateTopicsResponse<'_> = frame.read();
    let results = answer.topics.iter().map(|topic| {
        assert_eq!(topic.error_message.is_some(), topic.error_code != ErrorCode::None);
        (topic.name.to_string(), topic.error_code)
    });
    results.collect()
}

fn delete(client: &mut Client, version: i16, topics: &[(Option<&str>, TopicId)]) -> Vec<ErrorCode> {
    let names = topics.iter().filter_map(|(name, _)| *name);
    let states = topics.iter().map(|(name, topic_id)| DeleteTopicState {
        name: name.map(Into::into),
        topic_id: *topic_id,
    });
    let request = DeleteTopicsRequest {
        topic_names: names.map(Into::into).collect(),
        topics: states.collect(),
        timeout_ms: 30_000,
    };
    let frame = client.call(version, &request);
    let answer: DeleteTopicsResponse<'_> = frame.read();
    answer.responses.iter().map(|topic| topic.error_code).collect()
}

fn names(client: &mut Client) -> Vec<String> {
    let frame = client.call(9, &MetadataRequest::default());
    let answer: MetadataResponse<'_> = frame.read();
    answer.topics.iter().map(|topic| topic.name.as_deref().unwrap().to_owned()).collect()
}

#[test]
fn what_cannot_be_created_is_refused_by_code_whether_it_is_tried_or_only_validated() {
    let node = Node::start(1, &["partitions.max=100"]);
    let mut client = node.connect();
    Topic::create_named(&mut client, "taken", 1, &[]);
    Topic::create_named(&mut client, "with.dot", 1, &[]);
    let long = "x".repeat(250);
    let one: &[i32] = &[1];
    let rows = [
        (topic("taken", 1, 1), ErrorCode::TopicAlreadyExists),
        (topic("a", 0, 1), ErrorCode::InvalidPartitions),
        (topic("a", -2, 1), ErrorCode::InvalidPartitions),
        (topic("a", i32::MAX, 1), ErrorCode::InvalidPartitions),
        (topic("a", 99, 1), ErrorCode::PolicyViolation),
        (topic("a", 1, 0), ErrorCode::InvalidReplicationFactor),
        (topic("a", 1, -2), ErrorCode::InvalidReplicationFactor),
        (topic("a", 1, 2), ErrorCode::InvalidReplicationFactor),
        (with_replicas("a", &[(0, &[7])]), ErrorCode::InvalidReplicaAssignment),
        (with_replicas("a", &[(0, &[])]), ErrorCode::InvalidReplicaAssignment),
        (with_replicas("a", &[(0, &[1, 1])]), ErrorCode::InvalidReplicaAssignment),
        (with_replicas("a", &[(1, one)]), ErrorCode::InvalidReplicaAssignment),
        (with_replicas("a", &[(0, one), (0, one)]), ErrorCode::InvalidReplicaAssignment),
        (with_replicas("a", &[(0, one), (-1, one)]), ErrorCode::InvalidReplicaAssignment),
        (
            CreatableTopic { num_partitions: 1, ..with_replicas("a", &[(0, one)]) },
            ErrorCode::InvalidRequest,
        ),
        (with_config("a", "no.such.option", Some("1")), ErrorCode::InvalidConfig),
        (with_config("a", "retention.ms", Some("7d")), ErrorCode::InvalidConfig),
        (with_config("a", "retention.ms", None), ErrorCode::InvalidConfig),
        (with_config("a", "segment.bytes", Some("1")), ErrorCode::InvalidConfig),
        (with_config("a", "cleanup.policy", Some("compactt")), ErrorCode::InvalidConfig),
        (topic("", 1, 1), ErrorCode::InvalidTopicException),
        (topic(".", 1, 1), ErrorCode::InvalidTopicException),
        (topic("..", 1, 1), ErrorCode::InvalidTopicException),
        (topic("a/b", 1, 1), ErrorCode::InvalidTopicException),
        (topic("ä", 1, 1), ErrorCode::InvalidTopicException),
        (topic(&long, 1, 1), ErrorCode::InvalidTopicException),
        (topic("with_dot", 1, 1), ErrorCode::InvalidTopicException),
        (topic("__cluster_metadata", 1, 1), ErrorCode::InvalidRequest),
    ];
    for (asked, expected) in &rows {
        for validate_only in [true, false] {
            for version in [2, 4, 7] {
                let found = create(&mut client, version, vec![asked.clone()], validate_only);
                assert_eq!(found, [(asked.name.to_string(), *expected)], "{asked:?}");
            }
        }
    }
    assert_eq!(names(&mut client), ["taken", "with.dot"]);
}

#[test]
fn each_topic_of_a_request_stands_or_falls_alone_and_twice_is_refused() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    let asked = vec![
        topic("good", 1, 1),
        topic("bad", 0, 1),
        topic("twice", 1, 1),
        topic("fine", 2, 1),
        topic("twice", 1, 1),
    ];
    let mut found = create(&mut client, 7, asked, false);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let none = ErrorCode::None;
    let expected = [
        ("bad", ErrorCode::InvalidPartitions),
        ("fine", none),
        ("good", none),
        ("twice", ErrorCode::InvalidRequest),
    ];
    assert_eq!(found, expected.map(|(name, code)| (name.to_owned(), code)));
    assert_eq!(names(&mut client), ["fine", "good"]);
}

#[test]
fn validation_answers_as_creation_would_and_creates_nothing() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    for validate_only in [true, false] {
        let asked = vec![with_config("maybe", "retention.ms", Some("1000"))];
        let request = CreateTopicsRequest { topics: asked, validate_only, ..Default::default() };
        let frame = client.call(7, &request);
        let answer: CreateTopicsResponse<'_> = frame.read();
        let topic = &answer.topics[0];
        assert_eq!(topic.error_code, ErrorCode::None, "validate_only={validate_only}");
        assert_eq!((topic.num_partitions, topic.replication_factor), (1, 1));
        assert_eq!(topic.topic_id == TopicId::ZERO, validate_only);
        let configs = topic.configs.as_ref().unwrap();
        let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
        assert_eq!((retention.value.as_deref(), retention.config_source), (Some("1000"), 1));
        assert_eq!(names(&mut client).len(), usize::from(!validate_only));
    }
}

#[test]
fn counts_that_are_left_open_take_the_nodes_defaults() {
    let node = Node::start(1, &["num.partitions=4"]);
    let mut client = node.connect();
    for (name, partitions, replicas, expected) in
        [("both", -1, -1, 4), ("partitions", -1, 1, 4), ("replicas", 2, -1, 2)]
    {
        let topics = vec![topic(name, partitions, replicas)];
        let frame = client.call(5, &CreateTopicsRequest { topics, ..Default::default() });
        let answer: CreateTopicsResponse<'_> = frame.read();
        let created = &answer.topics[0];
        assert_eq!(created.error_code, ErrorCode::None, "{name}");
        assert_eq!((created.num_partitions, created.replication_factor), (expected, 1));
    }
}

#[test]
fn replicas_assigned_by_hand_set_both_counts() {
    let mut client = Node::shared().connect();
    let name = Topic::fresh_name();
    let topics = vec![with_replicas(&name, &[(1, &[1]), (0, &[1])])];
    let frame = client.call(7, &CreateTopicsRequest { topics, ..Default::default() });
    let answer: CreateTopicsResponse<'_> = frame.read();
    assert_eq!(answer.topics[0].error_code, ErrorCode::None);
    assert_eq!((answer.topics[0].num_partitions, answer.topics[0].replication_factor), (2, 1));
}

#[test]
fn a_created_topic_can_be_written_to_at_once() {
    let mut client = Node::shared().connect();
    for _ in 0..20 {
        let name = Topic::fresh_name();
        let topics = vec![topic(&name, 3, 1)];
        client.send(2, &CreateTopicsRequest { topics, ..Default::default() });
        let created = Topic { name: name.clone(), id: TopicId::ZERO };
        let records = batch(&["at once"]);
        let sent: Vec<_> = (0..3).map(|partition| (partition, records.as_slice())).collect();
        client.receive(2).unwrap();
        let frame = client.call(9, &produce_of(&created, &sent));
        let codes: Vec<_> =
            crate::support::produced_all(&frame).iter().map(|answer| answer.error_code).collect();
        assert_eq!(codes, [ErrorCode::None; 3]);
    }
}

#[test]
fn topics_are_deleted_by_name_in_every_version_and_by_id_from_version_6() {
    let mut client = Node::shared().connect();
    for version in 1..=6 {
        let topic = Topic::create(&mut client, 2);
        let by_name = [(Some(topic.name.as_str()), TopicId::ZERO)];
        assert_eq!(delete(&mut client, version, &by_name), [ErrorCode::None]);
        let gone = delete(&mut client, version, &by_name);
        assert_eq!(gone, [ErrorCode::UnknownTopicOrPartition]);
    }
    let topic = Topic::create(&mut client, 2);
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: None, topic_id: topic.id }],
        ..Default::default()
    };
    let frame = client.call(6, &request);
    let answer: DeleteTopicsResponse<'_> = frame.read();
    let deleted = &answer.responses[0];
    assert_eq!((deleted.error_code, deleted.topic_id), (ErrorCode::None, topic.id));
    assert_eq!(deleted.name.as_deref(), Some(topic.name.as_str()));
    assert_eq!(delete(&mut client, 6, &[(None, topic.id)]), [ErrorCode::UnknownTopicId]);
}

#[test]
fn a_deletion_that_names_no_one_topic_is_refused() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let name = Some(topic.name.as_str());
    let refused = ErrorCode::InvalidRequest;
    assert_eq!(delete(&mut client, 6, &[(name, topic.id)]), [refused]);
    assert_eq!(delete(&mut client, 6, &[(None, TopicId::ZERO)]), [refused]);
    let twice = delete(&mut client, 6, &[(name, TopicId::ZERO), (None, topic.id)]);
    assert!(!twice.is_empty() && twice.iter().all(|code| *code == refused), "{twice:?}");
    assert_eq!(delete(&mut client, 6, &[(name, TopicId::ZERO)]), [ErrorCode::None]);
}

#[test]
fn deletion_can_be_disabled() {
    let node = Node::start(1, &["delete.topic.enable=false"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let found = delete(&mut client, 4, &[(Some(&topic.name), TopicId::ZERO)]);
    assert_eq!(found, [ErrorCode::TopicDeletionDisabled]);
    assert_eq!(client.append(&topic, 0, &batch(&["kept"])), 0);
}

#[test]
fn a_topic_created_again_is_another_and_the_old_id_is_unknown() {
    let mut node = Node::start(1, &[]);
    let mut client = node.connect();
    let old = Topic::create_named(&mut client, "again", 1, &[]);
    client.append(&old, 0, &batch(&["old", "older"]));
    assert_eq!(delete(&mut client, 6, &[(Some("again"), TopicId::ZERO)]), [ErrorCode::None]);
    let new = Topic::create_named(&mut client, "again", 1, &[]);
    assert_ne!(old.id, new.id);
    assert_eq!(client.append(&new, 0, &batch(&["new"])), 0);
    let ends: [fn(&mut Node); 2] = [Node::stop, Node::kill];
    for end in [None].into_iter().chain(ends.map(Some)) {
        if let Some(end) = end {
            end(&mut node);
            node.start_again();
            client = node.connect();
        }
        let records = batch(&["late"]);
        let frame = client.call(13, &produce_of(&old, &[(0, &records)]));
        assert_eq!(produced(&frame).error_code, ErrorCode::UnknownTopicId);
        let frame = client.call(13, &fetch_of(&old, &[(0, 0)]));
        assert_eq!(fetched(&frame).error_code, ErrorCode::UnknownTopicId);
        let frame = client.call(13, &fetch_of(&new, &[(0, 0)]));
        assert_eq!(values_of(fetched(&frame).records.inline()), ["new"]);
    }
}

#[test]
fn a_fetch_that_waits_on_a_deleted_topic_is_told_at_once() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let mut reader = Node::shared().connect();
    let started = std::time::Instant::now();
    reader.send(12, &FetchRequest { max_wait_ms: 20_000, ..fetch_of(&topic, &[(0, 0)]) });
    client.expect_alive();
    client.expect_alive();
    assert_eq!(delete(&mut client, 4, &[(Some(&topic.name), TopicId::ZERO)]), [ErrorCode::None]);
    let frame = reader.receive(12).unwrap();
    let code = fetched(&frame).error_code;
    let told = [ErrorCode::UnknownTopicOrPartition, ErrorCode::NotLeaderOrFollower];
    assert!(told.contains(&code), "{code}");
    assert!(started.elapsed().as_secs() < 20);
}
