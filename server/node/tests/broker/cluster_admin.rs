//! What administrators ask of the cluster as a whole: pages of partitions, moving replicas, what has configurations, the quorum of
//! metadata, feature levels (MD-7).

use record::{LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, PartitionAsked, PartitionData, TopicAsked,
};
use wire::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicRequest,
};
use wire::list_config_resources::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use wire::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
};
use wire::metadata::{MetadataRequest, MetadataResponse};
use wire::update_features::{FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse};

use crate::support::{Client, Node, Topic};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const METADATA: &str = "__cluster_metadata";

/// Where a page begins.
type Place<'a> = Option<(&'a str, i32)>;

fn page_of<'a>(
    names: &[&'a str],
    limit: i32,
    from: Place<'a>,
) -> DescribeTopicPartitionsRequest<'a> {
    let topics = names.iter().map(|name| TopicRequest { name: (*name).into() });
    let cursor = from.map(|(topic, partition)| Cursor {
        topic_name: topic.into(),
        partition_index: PartitionIndex(partition),
    });
    let (topics, response_partition_limit) = (topics.collect(), limit);
    DescribeTopicPartitionsRequest { topics, response_partition_limit, cursor }
}

/// A page as text: `name error [partitions]` for each topic, and the cursor.
fn page(client: &mut Client, asked: &DescribeTopicPartitionsRequest<'_>) -> Vec<String> {
    let frame = client.call(0, asked);
    let answer: DescribeTopicPartitionsResponse<'_> = frame.read();
    let topics = answer.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index.0);
        let (name, code) = (topic.name.as_deref().unwrap(), topic.error_code.code());
        assert_eq!(topic.topic_id == TopicId::ZERO, code != 0);
        for found in &topic.partitions {
            let one = vec![NodeId(1)];
            assert_eq!((found.error_code, found.leader_id), (ErrorCode::None, NodeId(1)));
            assert_eq!((&found.replica_nodes, &found.isr_nodes), (&one, &one));
        }
        format!("{name} {code} {:?}", partitions.collect::<Vec<_>>())
    });
    let next = answer.next_cursor.as_ref();
    let next = next.map(|next| format!("{} from {}", next.topic_name, next.partition_index.0));
    topics.chain(next).collect()
}

#[test]
fn partitions_come_page_by_page_and_topics_by_name() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    for (name, count) in [("b", 3), ("a", 2), ("c", 1)] {
        Topic::create_named(&mut client, name, count, &[]);
    }
    let mut check = |names: &[&str], limit, from: Place<'_>, expected: &[&str]| {
        let found = page(&mut client, &page_of(names, limit, from));
        assert_eq!(found, expected, "{names:?} {limit} {from:?}");
    };
    check(&[], 2_000, None, &["a 0 [0, 1]", "b 0 [0, 1, 2]", "c 0 [0]"]);
    check(&["c", "a", "c"], 2_000, None, &["a 0 [0, 1]", "c 0 [0]"]);
    check(&[], 3, None, &["a 0 [0, 1]", "b 0 [0]", "b from 1"]);
    check(&[], 3, Some(("b", 1)), &["b 0 [1, 2]", "c 0 [0]"]);
    check(&[], 2, None, &["a 0 [0, 1]", "b from 0"]);
    check(&[], 1, Some(("b", 2)), &["b 0 [2]", "c from 0"]);
    // At least one, so that whoever asks gets on.
    check(&["a"], 0, None, &["a 0 [0]", "a from 1"]);
    check(&["a"], -5, Some(("a", 1)), &["a 0 [1]"]);
    check(&["b"], 5, Some(("b", 9)), &["b 0 []"]);
    // The topic of the cursor may be gone meanwhile.
    check(&[], 5, Some(("bb", 1)), &["c 0 [0]"]);
    check(&["nothing", "a"], 5, None, &["a 0 [0, 1]", "nothing 3 []"]);
    check(&["no topic"], 5, None, &["no topic 17 []"]);
    check(&["a"], 5, Some(("b", 0)), &["a 42 []"]);
    check(&["a"], 5, Some(("a", -1)), &["a 42 []"]);
}

#[test]
fn no_partition_is_moving() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let one = ListPartitionReassignmentsTopics {
        name: topic.name.as_str().into(),
        partition_indexes: vec![PartitionIndex(0), PartitionIndex(9)],
    };
    for topics in [None, Some(vec![]), Some(vec![one])] {
        let request = ListPartitionReassignmentsRequest { topics, ..Default::default() };
        let frame = client.call(0, &request);
        let answer: ListPartitionReassignmentsResponse<'_> = frame.read();
        assert_eq!((answer.error_code, answer.topics.len()), (ErrorCode::None, 0));
    }
}

#[test]
fn what_has_configurations_is_listed_by_kind() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    for name in ["b", "a"] {
        Topic::create_named(&mut client, name, 1, &[]);
    }
    let mut list = |version, kinds: &[i8]| {
        let request = ListConfigResourcesRequest { resource_types: kinds.to_vec() };
        let frame = client.call(version, &request);
        let answer: ListConfigResourcesResponse<'_> = frame.read();
        let resources = answer.config_resources.iter();
        let resources = resources.map(|one| (one.resource_name.to_string(), one.resource_type));
        (answer.error_code, resources.collect::<Vec<_>>())
    };
    let (a, b) = (("a".to_owned(), TOPIC), ("b".to_owned(), TOPIC));
    let broker = ("1".to_owned(), BROKER);
    let ok = ErrorCode::None;
    assert_eq!(list(0, &[]), (ok, vec![]));
    assert_eq!(list(1, &[]), (ok, vec![broker.clone(), a.clone(), b.clone()]));
    assert_eq!(list(1, &[TOPIC, TOPIC]), (ok, vec![a, b]));
    assert_eq!(list(1, &[BROKER]), (ok, vec![broker]));
    assert_eq!(list(1, &[8, 16, 32]), (ok, vec![]));
    for unknown in [0, 1, 99, -1] {
        assert_eq!(list(1, &[TOPIC, unknown]), (ErrorCode::UnsupportedVersion, vec![]));
    }
}

fn quorum_of<'a>(topic: &'a str, partitions: &[i32]) -> DescribeQuorumRequest<'a> {
    let partitions = partitions.iter();
    let partitions = partitions
        .map(|index| PartitionAsked { partition_index: PartitionIndex(*index) })
        .collect();
    let topics = vec![TopicAsked { topic_name: topic.into(), partitions }];
    DescribeQuorumRequest { topics }
}

/// The state of the metadata log.
fn metadata_log(client: &mut Client, version: i16) -> PartitionData<'static> {
    let frame = client.call(version, &quorum_of(METADATA, &[0]));
    let answer: DescribeQuorumResponse<'_> = frame.read();
    assert_eq!(answer.error_code, ErrorCode::None);
    let [topic] = &answer.topics[..] else { panic!("{answer:?}") };
    let [partition] = &topic.partitions[..] else { panic!("{answer:?}") };
    assert_eq!((&*topic.topic_name, partition.error_code), (METADATA, ErrorCode::None));
    if version >= 2 {
        let [node] = &answer.nodes[..] else { panic!("{answer:?}") };
        let [listener] = &node.listeners[..] else { panic!("{answer:?}") };
        assert_eq!((node.node_id, &*listener.host), (NodeId(1), "127.0.0.1"));
        assert!(listener.port > 0);
    }
    PartitionData { error_message: None, ..partition.clone() }
}

#[test]
fn the_quorum_is_one_voter_whose_log_grows_with_every_change() {
    let mut node = Node::start(2, &[]);
    let mut client = node.connect();
    for version in 0..=2 {
        let before = metadata_log(&mut client, version);
        let [voter] = &before.current_voters[..] else { panic!("{before:?}") };
        assert_eq!((before.leader_id, before.leader_epoch), (NodeId(1), LeaderEpoch(1)));
        assert_eq!((voter.replica_id, voter.log_end_offset), (NodeId(1), before.high_watermark));
        assert_eq!(voter.replica_directory_id == TopicId::ZERO, version < 2);
        assert_eq!(voter.last_fetch_timestamp.0 > 0, version >= 1);
        assert_eq!(voter.last_caught_up_timestamp.0 > 0, version >= 1);
        assert!(before.observers.is_empty());
        // One record for the topic, one for each partition.
        Topic::create(&mut client, 3);
        let after = metadata_log(&mut client, version);
        assert_eq!(after.high_watermark, Offset(before.high_watermark.0 + 4));
        assert_eq!(after.current_voters[0].log_end_offset, after.high_watermark);
    }
    let before = metadata_log(&mut client, 2);
    node.stop();
    node.start_again();
    let after = metadata_log(&mut node.connect(), 2);
    assert!(after.high_watermark > before.high_watermark, "the node has registered again");
    let directory = |found: &PartitionData<'_>| found.current_voters[0].replica_directory_id;
    assert_eq!(directory(&after), directory(&before));
}

#[test]
fn other_partitions_have_no_quorum() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    for version in 0..=2 {
        for (name, partitions) in [(METADATA, &[1][..]), (METADATA, &[0, 0]), (&topic.name, &[0])] {
            let frame = client.call(version, &quorum_of(name, partitions));
            let answer: DescribeQuorumResponse<'_> = frame.read();
            assert_eq!(answer.error_code, ErrorCode::None);
            let found = answer.topics[0].partitions.iter();
            let found: Vec<_> = found.map(|one| (one.partition_index.0, one.error_code)).collect();
            let unknown = ErrorCode::UnknownTopicOrPartition;
            let expected: Vec<_> = partitions.iter().map(|index| (*index, unknown)).collect();
            assert_eq!(found, expected);
        }
        let frame = client.call(version, &DescribeQuorumRequest::default());
        let answer: DescribeQuorumResponse<'_> = frame.read();
        assert_eq!((answer.error_code, answer.topics.len()), (ErrorCode::None, 0));
    }
}

#[test]
fn the_feature_level_is_told_and_moves_within_what_is_known_only() {
    let mut client = Node::shared().connect();
    for version in 0..=5 {
        let request = ApiVersionsRequest {
            client_software_name: "test".into(),
            client_software_version: "1".into(),
            ..Default::default()
        };
        let frame = client.call(version, &request);
        let answer: ApiVersionsResponse<'_> = frame.read();
        let known = answer.supported_features.iter();
        let known: Vec<_> =
            known.map(|one| (&*one.name, one.min_version, one.max_version)).collect();
        let settled = answer.finalized_features.iter();
        let settled: Vec<_> =
            settled.map(|one| (&*one.name, one.min_version_level, one.max_version_level)).collect();
        if version < 3 {
            assert!(known.is_empty() && settled.is_empty());
        } else {
            assert_eq!(
                (known, settled),
                (vec![("corelog.version", 1, 1)], vec![("corelog.version", 1, 1)])
            );
            assert!(answer.finalized_features_epoch >= 0);
        }
    }
    for version in 0..=2 {
        let mut update = |feature: &str, max_version_level, upgrade_type| {
            let update = FeatureUpdateKey {
                feature: feature.to_owned().into(),
                max_version_level,
                upgrade_type,
                ..Default::default()
            };
            let request =
                UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() };
            let frame = client.call(version, &request);
            let answer: UpdateFeaturesResponse<'_> = frame.read();
            assert_eq!(answer.error_message.is_some(), answer.error_code != ErrorCode::None);
            (answer.error_code, answer.results.len())
        };
        let refused = (ErrorCode::InvalidUpdateVersion, 0);
        assert_eq!(update("corelog.version", 1, 1), (ErrorCode::None, usize::from(version < 2)));
        for level in [0, -1, 2, i16::MAX] {
            assert_eq!(update("corelog.version", level, 1), refused, "{level}");
        }
        for unknown in ["metadata.version", "transaction.version", ""] {
            assert_eq!(update(unknown, 1, 1), refused, "{unknown}");
        }
        if version > 0 {
            assert_eq!(update("corelog.version", 1, 9), refused);
        }
    }
}

#[test]
fn a_client_that_reached_another_cluster_or_node_than_it_meant_is_told_so() {
    let mut client = Node::shared().connect();
    let frame =
        client.call(13, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() });
    let metadata: MetadataResponse<'_> = frame.read();
    let own = metadata.cluster_id.clone().map(String::from).unwrap();
    let node = metadata.brokers[0].node_id.0;
    for (cluster, node_id, expected) in [
        (Some(own.as_str()), node, ErrorCode::None),
        (None, -1, ErrorCode::None),
        (Some("x"), node, ErrorCode::RebootstrapRequired),
        (Some(own.as_str()), 99, ErrorCode::RebootstrapRequired),
        (Some(own.as_str()), -1, ErrorCode::InvalidRequest),
        (None, node, ErrorCode::InvalidRequest),
    ] {
        let request = ApiVersionsRequest {
            client_software_name: "test".into(),
            client_software_version: "1".into(),
            cluster_id: cluster.map(Into::into),
            node_id,
        };
        let frame = client.call(5, &request);
        let answer: ApiVersionsResponse<'_> = frame.read();
        assert_eq!(answer.error_code, expected, "{cluster:?} {node_id}");
        assert_eq!(answer.api_keys.is_empty(), expected != ErrorCode::None);
    }
}
