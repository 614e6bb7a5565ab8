use super::error::Speaks;
use super::testing::{Reaction, TestPlatform, answer, run};
use super::*;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use record::{
    BatchView, Codec, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Records,
    Timestamp, TopicId,
};
use wire::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use wire::delete_topics::{DeletableTopicResult, DeleteTopicsResponse};
use wire::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
use wire::init_producer_id::InitProducerIdResponse;
use wire::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use wire::metadata::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use wire::{ApiKey, ErrorCode, Message, RequestHeader};

const TOPIC: &str = "orders";

/// A batch, behind the node that took it.
type Taken = (i32, Vec<u8>);

/// What a fake broker does about the next Produce or deletion, in place of what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    /// Does it, and the answer is lost.
    AckLost,
    /// Refuses with this code.
    Refuse(ErrorCode),
    /// Never answers.
    Hang,
}

/// A cluster of fakes; clones are the same one. Node n listens at port n.
#[derive(Clone, Default)]
struct Cluster {
    /// Leader of each partition.
    leaders: Rc<RefCell<Vec<i32>>>,
    mishaps: Rc<RefCell<VecDeque<Mishap>>>,
    /// Batches appended, with the node that took them.
    appended: Rc<RefCell<Vec<Taken>>>,
    batch_bytes_max: Rc<Cell<Option<usize>>>,
    /// What a fetch gives, by node; nothing means no answer at all.
    fetchable: Rc<RefCell<BTreeMap<i32, Vec<u8>>>>,
    is_deleted: Rc<Cell<bool>>,
    /// Where each partition ends, for the deletion of records.
    log_ends: Rc<RefCell<Vec<i64>>>,
    /// Partitions that their leaders cannot open.
    offline: Rc<RefCell<Vec<PartitionIndex>>>,
    api_versions_max: Rc<Cell<Option<i16>>>,
    /// Connections that end when they are asked what is served.
    greetings_lost: Rc<Cell<usize>>,
    requests: Rc<Cell<usize>>,
}

impl Cluster {
    fn start(platform: &TestPlatform, leaders: &[i32]) -> Self {
        let cluster = Self::default();
        *cluster.leaders.borrow_mut() = leaders.to_vec();
        for node in 1..=2 {
            let cluster = cluster.clone();
            platform
                .listen_at(u16::try_from(node).unwrap(), move |frame| cluster.react(node, frame));
        }
        cluster
    }

    fn react(&self, node: i32, frame: &[u8]) -> Reaction {
        self.requests.set(self.requests.get() + 1);
        let (header, body) = RequestHeader::decode(frame).unwrap();
        match header.api {
            ApiKey::ApiVersions => self.api_versions(&header),
            ApiKey::Metadata => answer(&header, header.version, &self.metadata()),
            ApiKey::InitProducerId => {
                let (producer_id, producer_epoch) = (ProducerId(7), ProducerEpoch(0));
                let response = InitProducerIdResponse {
                    producer_id,
                    producer_epoch,
                    ..InitProducerIdResponse::default()
                };
                answer(&header, header.version, &response)
            }
            ApiKey::Produce => self.produce(node, &header, body),
            ApiKey::Fetch => self.fetch(node, &header, body),
            ApiKey::ListOffsets => self.list_offsets(&header, body),
            ApiKey::DeleteTopics => self.delete_topic(&header),
            ApiKey::DeleteRecords => self.delete_records(node, &header, body),
            api => panic!("nobody asked for {api}"),
        }
    }

    fn api_versions(&self, header: &RequestHeader<'_>) -> Reaction {
        if let Some(left) = self.greetings_lost.get().checked_sub(1) {
            self.greetings_lost.set(left);
            return Reaction::Close;
        }
        if self.api_versions_max.get().is_some_and(|max| header.version > max) {
            return answer(header, 0, &ApiVersionsResponse::unsupported());
        }
        answer(header, header.version, &ApiVersionsResponse::advertised())
    }

    fn metadata(&self) -> MetadataResponse<'static> {
        let broker = |node: i32| MetadataResponseBroker {
            node_id: NodeId(node),
            host: "127.0.0.1".into(),
            port: node,
            ..MetadataResponseBroker::default()
        };
        let leaders = self.leaders.borrow();
        let partition = |(index, leader): (usize, &i32)| MetadataResponsePartition {
            partition_index: PartitionIndex(i32::try_from(index).unwrap()),
            leader_id: NodeId(*leader),
            leader_epoch: LeaderEpoch(0),
            ..MetadataResponsePartition::default()
        };
        let topic = MetadataResponseTopic {
            name: Some(TOPIC.into()),
            topic_id: TopicId([1; 16]),
            partitions: leaders.iter().enumerate().map(partition).collect(),
            ..MetadataResponseTopic::default()
        };
        MetadataResponse {
            brokers: vec![broker(1), broker(2)],
            topics: vec![topic],
            ..MetadataResponse::default()
        }
    }

    fn produce(&self, node: i32, header: &RequestHeader<'_>, body: &[u8]) -> Reaction {
        let request = ProduceRequest::decode(header.version, body).unwrap();
        let mishap = self.mishaps.borrow_mut().pop_front();
        if mishap == Some(Mishap::Hang) {
            return Reaction::Silence;
        }
        let partition_responses = request.topic_data[0]
            .partition_data
            .iter()
            .map(|data| {
                let batch = data.records.inline();
                let is_large = self.batch_bytes_max.get().is_some_and(|max| batch.len() > max);
                let is_led_here =
                    self.leaders.borrow()[usize::try_from(data.index.0).unwrap()] == node;
                let error_code = match mishap {
                    Some(Mishap::Refuse(code)) => code,
                    _ if self.offline.borrow().contains(&data.index) => {
                        ErrorCode::KafkaStorageError
                    }
                    _ if is_large => ErrorCode::MessageTooLarge,
                    _ if !is_led_here => ErrorCode::NotLeaderOrFollower,
                    _ => self.append(node, batch),
                };
                let index = data.index;
                PartitionProduceResponse { index, error_code, ..Default::default() }
            })
            .collect();
        if mishap == Some(Mishap::AckLost) {
            return Reaction::Close;
        }
        let response = ProduceResponse {
            responses: vec![TopicProduceResponse { partition_responses, ..Default::default() }],
            ..ProduceResponse::default()
        };
        answer(header, header.version, &response)
    }

    /// Appends as a broker that recognises a batch it has.
    fn append(&self, node: i32, batch: &[u8]) -> ErrorCode {
        let sequence = |batch: &[u8]| {
            let header = *BatchView::parse(batch).unwrap().header();
            (header.producer_id, header.base_sequence)
        };
        let mut appended = self.appended.borrow_mut();
        let has_it = appended.iter().any(|(_, other)| sequence(other) == sequence(batch));
        if has_it && sequence(batch).0 != ProducerId::NONE {
            return ErrorCode::DuplicateSequenceNumber;
        }
        appended.push((node, batch.to_vec()));
        ErrorCode::None
    }

    fn fetch(&self, node: i32, header: &RequestHeader<'_>, body: &[u8]) -> Reaction {
        let request = FetchRequest::decode(header.version, body).unwrap();
        let Some(batch) = self.fetchable.borrow_mut().remove(&node) else {
            return Reaction::Silence;
        };
        let partitions = request.topics[0].partitions.iter().map(|partition| PartitionData {
            partition_index: partition.partition,
            records: wire::Records::Inline(&batch),
            ..PartitionData::default()
        });
        let topic =
            FetchableTopicResponse { partitions: partitions.collect(), ..Default::default() };
        let response = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
        answer(header, header.version, &response)
    }

    fn list_offsets(&self, header: &RequestHeader<'_>, body: &[u8]) -> Reaction {
        let request = ListOffsetsRequest::decode(header.version, body).unwrap();
        let partitions = request.topics[0].partitions.iter().map(|asked| {
            let partition_index = asked.partition_index;
            let error_code = match self.offline.borrow().contains(&partition_index) {
                true => ErrorCode::KafkaStorageError,
                false => ErrorCode::None,
            };
            let offset = Offset(5);
            ListOffsetsPartitionResponse {
                partition_index,
                error_code,
                offset,
                ..Default::default()
            }
        });
        let (name, partitions) = (TOPIC.into(), partitions.collect());
        let response = ListOffsetsResponse {
            topics: vec![ListOffsetsTopicResponse { name, partitions }],
            ..ListOffsetsResponse::default()
        };
        answer(header, header.version, &response)
    }

    fn delete_topic(&self, header: &RequestHeader<'_>) -> Reaction {
        let mishap = self.mishaps.borrow_mut().pop_front();
        let error_code = match mishap {
            Some(Mishap::Refuse(code)) => code,
            _ if self.is_deleted.replace(true) => ErrorCode::UnknownTopicOrPartition,
            _ => ErrorCode::None,
        };
        if mishap == Some(Mishap::AckLost) {
            return Reaction::Close;
        }
        let result = DeletableTopicResult {
            name: Some(TOPIC.into()),
            error_code,
            ..DeletableTopicResult::default()
        };
        let response =
            DeleteTopicsResponse { responses: vec![result], ..DeleteTopicsResponse::default() };
        answer(header, header.version, &response)
    }

    fn delete_records(&self, node: i32, header: &RequestHeader<'_>, body: &[u8]) -> Reaction {
        let request = DeleteRecordsRequest::decode(header.version, body).unwrap();
        let mishap = self.mishaps.borrow_mut().pop_front();
        if mishap == Some(Mishap::Hang) {
            return Reaction::Silence;
        }
        let partitions = request.topics[0].partitions.iter().map(|asked| {
            let index = usize::try_from(asked.partition_index.0).unwrap();
            let error_code = match mishap {
                Some(Mishap::Refuse(code)) => code,
                _ if self.leaders.borrow()[index] != node => ErrorCode::NotLeaderOrFollower,
                _ if asked.offset.0 > self.log_ends.borrow()[index] => ErrorCode::OffsetOutOfRange,
                _ => ErrorCode::None,
            };
            DeleteRecordsPartitionResult {
                partition_index: asked.partition_index,
                low_watermark: asked.offset,
                error_code,
            }
        });
        let (name, partitions) = (TOPIC.into(), partitions.collect());
        let response = DeleteRecordsResponse {
            topics: vec![DeleteRecordsTopicResult { name, partitions }],
            ..DeleteRecordsResponse::default()
        };
        answer(header, header.version, &response)
    }

    /// Every value stored, in the order of the batches.
    fn values(&self) -> Vec<String> {
        let mut values = Vec::new();
        for (_, bytes) in self.appended.borrow().iter() {
            let batch = BatchView::parse(bytes).unwrap();
            for record in Records::new(batch.header(), batch.record_bytes()) {
                values.push(String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap());
            }
        }
        values
    }

    fn sequences(&self) -> Vec<(i32, i32)> {
        let appended = self.appended.borrow();
        let headers = appended.iter().map(|(_, bytes)| *BatchView::parse(bytes).unwrap().header());
        headers.map(|header| (header.base_sequence, header.records_count)).collect()
    }
}

fn client(platform: TestPlatform) -> Client<TestPlatform> {
    Client::new(platform, ClientOptions::parse("127.0.0.1:1", 30_000).unwrap())
}

const OPTIONS: ProducerOptions =
    ProducerOptions { acks: Acks::InSync, codec: Codec::None, partition: None };

fn value(text: &str) -> OutgoingRecord {
    let value = Some(text.as_bytes().to_vec());
    OutgoingRecord { key: None, value, timestamp: Timestamp(1), headers: [].into() }
}

/// Produces `values` in one flush to a cluster that `spoil` was let loose on.
fn produce(
    options: ProducerOptions,
    values: &'static [&'static str],
    spoil: impl FnOnce(&Cluster) + 'static,
) -> (Result<(), ClientError>, Cluster, Duration) {
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1]);
        spoil(&cluster);
        let mut client = client(platform.clone());
        let mut producer = Producer::open(&mut client, TOPIC, options).await.unwrap();
        for text in values {
            producer.add(value(text));
        }
        let result = producer.flush().await;
        (result, cluster, platform.monotonic())
    })
}

#[test]
fn a_lost_ack_leads_to_the_same_batch_again_and_one_copy() {
    let (result, cluster, _) = produce(OPTIONS, &["a", "b"], |cluster| {
        cluster.mishaps.borrow_mut().extend([Mishap::AckLost, Mishap::AckLost]);
    });
    result.unwrap();
    assert_eq!(cluster.values(), ["a", "b"]);
    assert_eq!(cluster.sequences(), [(0, 2)]);
}

#[test]
fn without_identity_a_lost_ack_may_lead_to_two_copies() {
    let options = ProducerOptions { acks: Acks::Leader, ..OPTIONS };
    let (result, cluster, _) = produce(options, &["a"], |cluster| {
        cluster.mishaps.borrow_mut().push_back(Mishap::AckLost);
    });
    result.unwrap();
    assert_eq!(cluster.values(), ["a", "a"]);
}

#[test]
fn a_batch_that_is_too_large_is_halved_in_order_with_sequences_that_follow() {
    let values = &["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc", "dddddddddd", "eeeeeeeeee"];
    let (result, cluster, _) = produce(OPTIONS, values, |cluster| {
        cluster.batch_bytes_max.set(Some(110));
    });
    result.unwrap();
    assert_eq!(cluster.values(), *values);
    assert_eq!(cluster.sequences(), [(0, 2), (2, 1), (3, 2)]);
}

#[test]
fn one_record_that_is_too_large_is_refused() {
    let (result, cluster, _) = produce(OPTIONS, &["aaaaaaaaaa"], |cluster| {
        cluster.batch_bytes_max.set(Some(50));
    });
    assert_eq!(result.unwrap_err().code(), Some(ErrorCode::MessageTooLarge));
    assert_eq!(cluster.values(), [] as [&str; 0]);
}

#[test]
fn a_code_that_passes_is_waited_for_and_one_that_does_not_ends_it() {
    let check = |code: ErrorCode, times: usize, expected: Option<ErrorCode>| {
        let (result, _, _) = produce(OPTIONS, &["a"], move |cluster| {
            cluster.mishaps.borrow_mut().extend(vec![Mishap::Refuse(code); times]);
        });
        assert_eq!(result.err().and_then(|error| error.code()), expected, "{code:?}");
    };
    check(ErrorCode::KafkaStorageError, 3, None);
    check(ErrorCode::KafkaStorageError, 100, Some(ErrorCode::KafkaStorageError));
    check(ErrorCode::InvalidRecord, 1, Some(ErrorCode::InvalidRecord));
}

#[test]
fn a_partition_that_is_offline_is_not_waited_for_with_the_first_records() {
    let offline = |cluster: &Cluster| cluster.offline.borrow_mut().push(PartitionIndex(0));
    let (result, cluster, took) = produce(OPTIONS, &["a"], offline);
    let error = result.unwrap_err();
    let is_offline =
        matches!(&error, ClientError::Offline { places, .. } if places == &["orders-0"]);
    assert!(is_offline && took == Duration::ZERO, "{error}");
    assert!(cluster.values().is_empty());
    // One that goes offline under way may be on its way back.
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1]);
        let mut client = client(platform.clone());
        let mut producer = Producer::open(&mut client, TOPIC, OPTIONS).await.unwrap();
        producer.add(value("a"));
        producer.flush().await.unwrap();
        offline(&cluster);
        producer.add(value("b"));
        let error = producer.flush().await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::KafkaStorageError), "{error}");
        assert!(platform.monotonic() > Duration::from_secs(20));
    });
}

#[test]
fn partitions_that_nobody_serves_are_told_at_once_beside_the_others() {
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1, -1, 2, 1]);
        cluster.offline.borrow_mut().push(PartitionIndex(2));
        let mut client = client(platform.clone());
        let mut topic = client.topic(TOPIC, AutoCreate::Never).await.unwrap();
        let all = [0, 1, 2, 3].map(PartitionIndex);
        let survey = client.find_offsets(&mut topic, &all, OffsetAt::End).await.unwrap();
        assert_eq!(survey.offsets(), [0, 3].map(|index| (PartitionIndex(index), Offset(5))).into());
        let offline = [(1, ErrorCode::LeaderNotAvailable), (2, ErrorCode::KafkaStorageError)];
        let offline = offline.map(|(index, code)| (PartitionIndex(index), code));
        assert_eq!(survey.offline, offline.into());
        let (starts, ends) = client.ends(&mut topic, &all).await.unwrap();
        assert_eq!((&starts.offline, ends.offsets()), (&survey.offline, survey.offsets()));
        let refused = client.offsets(&mut topic, &all, OffsetAt::End).await.unwrap_err();
        assert!(refused.to_string().starts_with("orders-1, orders-2: offline: "), "{refused}");
        assert_eq!(platform.monotonic(), Duration::ZERO);
    });
}

#[test]
fn one_connection_serves_for_everything_that_one_broker_answers() {
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1]);
        let mut client = client(platform.clone());
        for _ in 0..2 {
            let mut topic = client.topic(TOPIC, AutoCreate::Never).await.unwrap();
            client.offsets(&mut topic, &[PartitionIndex(0)], OffsetAt::End).await.unwrap();
        }
        assert!(client.is_connected_to(&Address { host: "127.0.0.1".to_owned(), port: 1 }));
        // What is served, asked once; then metadata and offsets, twice.
        assert_eq!(cluster.requests.get(), 5);
    });
}

#[test]
fn a_broker_that_never_answers_is_given_up_when_the_time_is_up() {
    let (result, _, took) = produce(OPTIONS, &["a"], |cluster| {
        cluster.mishaps.borrow_mut().push_back(Mishap::Hang);
    });
    assert!(matches!(result, Err(ClientError::TimedOut { .. })), "{result:?}");
    assert_eq!(took, Duration::from_secs(30));
}

#[test]
fn records_follow_a_leader_that_moves() {
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1]);
        let mut client = client(platform);
        let mut producer = Producer::open(&mut client, TOPIC, OPTIONS).await.unwrap();
        producer.add(value("a"));
        producer.flush().await.unwrap();
        *cluster.leaders.borrow_mut() = vec![2];
        producer.add(value("b"));
        producer.flush().await.unwrap();
        let nodes: Vec<i32> = cluster.appended.borrow().iter().map(|(node, _)| *node).collect();
        assert_eq!(nodes, [1, 2]);
        assert_eq!(cluster.sequences(), [(0, 1), (1, 1)]);
    });
}

#[test]
fn a_cluster_that_was_never_reached_is_not_waited_for() {
    run(|platform| async move {
        let error = client(platform.clone()).topics().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
        assert_eq!(platform.monotonic(), Duration::ZERO);
    });
}

#[test]
fn a_broker_with_older_api_versions_is_asked_again_in_version_0() {
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1]);
        cluster.api_versions_max.set(Some(0));
        let topics = client(platform).topics().await.unwrap();
        assert_eq!(topics[0].name, TOPIC);
        assert_eq!(cluster.requests.get(), 3);
    });
}

#[test]
fn a_broker_without_a_common_version_is_named() {
    run(|platform| async move {
        platform.listen_at(1, |frame| {
            let (header, _) = RequestHeader::decode(frame).unwrap();
            let api = ApiVersion { api_key: 3, min_version: 14, max_version: 20 };
            let api_keys = vec![api];
            let response = ApiVersionsResponse { api_keys, ..ApiVersionsResponse::default() };
            answer(&header, header.version, &response)
        });
        let error = client(platform).topics().await.unwrap_err().to_string();
        assert_eq!(
            error,
            "127.0.0.1:1: serves Metadata in versions 14\u{2013}20, and this client knows 0\u{2013}13"
        );
    });
}

#[test]
fn bytes_that_are_no_answer_are_an_error_and_no_panic() {
    let check = |bytes: &'static [u8]| {
        run(move |platform| async move {
            platform.listen_at(1, move |_| Reaction::Answer(bytes.to_vec()));
            let error = client(platform).topics().await.unwrap_err();
            let is_named =
                matches!(error, ClientError::Broken { .. } | ClientError::Malformed { .. });
            assert!(is_named, "{error}");
        });
    };
    check(&[0, 0, 0, 0]);
    check(&[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0x7f, 0xff]);
    check(&[0, 0, 0, 4, 0, 0, 0, 9]);
}

#[test]
fn another_protocol_is_named_at_once() {
    let check = |bytes: &'static [u8], speaks: Speaks| {
        run(move |platform| async move {
            platform.listen_at(1, move |_| Reaction::Last(bytes.to_vec()));
            let error = client(platform.clone()).topics().await.unwrap_err();
            let found = match error {
                ClientError::Foreign { speaks, .. } => Some(speaks),
                _ => None,
            };
            assert_eq!(found, Some(speaks), "{error}");
            assert_eq!(platform.monotonic(), Duration::ZERO);
        });
    };
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n", Speaks::Http);
    // What OpenSSL says to a client that does not begin a handshake: protocol_version, unexpected_message.
    check(&[0x15, 3, 1, 0, 2, 2, 0x46], Speaks::Tls);
    check(&[0x15, 3, 3, 0, 2, 2, 10], Speaks::Tls);
    check(&[0x16, 3, 3, 0, 0x40, 2], Speaks::Tls);
    check(b"SSH-2.0-OpenSSH_9.2p1\r\n", Speaks::Other);
    check(&[0xff; 64], Speaks::Other);
}

#[test]
fn an_address_that_leads_nowhere_is_told_from_the_one_that_was_given() {
    run(|platform| async move {
        Cluster::start(&platform, &[2]);
        platform.close(2);
        let mut client = client(platform.clone());
        let topic = client.topic(TOPIC, AutoCreate::Never).await.unwrap();
        let positions = [(PartitionIndex(0), Offset(5))];
        let mut consumer = Consumer::new(&mut client, topic, positions.into());
        let error = loop {
            match consumer.next().await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let is_named = matches!(&error, ClientError::Misled { node, .. } if node.0 == 2);
        assert!(is_named, "{error}");
    });
}

#[test]
fn an_idle_leader_does_not_keep_a_busy_one_back() {
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1, 2]);
        cluster.fetchable.borrow_mut().insert(2, b"batch".to_vec());
        let mut client = client(platform);
        let topic = client.topic(TOPIC, AutoCreate::Never).await.unwrap();
        let positions = [0, 1].map(|index| (PartitionIndex(index), Offset(5)));
        let mut consumer = Consumer::new(&mut client, topic, positions.into());
        let fetched = consumer.next().await.unwrap();
        assert_eq!(fetched.len(), 1);
        assert_eq!((fetched[0].partition, fetched[0].from), (PartitionIndex(1), Offset(5)));
        assert_eq!(&fetched[0].batches[..], b"batch");
    });
}

#[test]
fn a_topic_that_is_absent_is_told_at_once_but_not_where_an_earlier_attempt_may_have_deleted_it() {
    let check = |mishaps: &'static [Mishap], is_deleted: bool, expected: Option<ErrorCode>| {
        run(move |platform| async move {
            let cluster = Cluster::start(&platform, &[1]);
            let mut client = client(platform.clone());
            // A cluster that was never reached is not asked again.
            client.topics().await.unwrap();
            cluster.is_deleted.set(is_deleted);
            cluster.mishaps.borrow_mut().extend(mishaps);
            let result = client.delete_topic(TOPIC).await;
            let code = result.err().and_then(|error| error.code());
            assert_eq!((code, cluster.is_deleted.get()), (expected, true), "{mishaps:?}");
            if mishaps.is_empty() {
                assert_eq!(platform.monotonic(), Duration::ZERO);
            }
        });
    };
    let absent = Some(ErrorCode::UnknownTopicOrPartition);
    check(&[], false, None);
    check(&[], true, absent);
    check(&[Mishap::AckLost], false, None);
    check(&[Mishap::Refuse(ErrorCode::RequestTimedOut)], true, None);
    // Nothing was begun there.
    check(&[Mishap::Refuse(ErrorCode::NotController)], true, absent);
}

#[test]
fn a_topic_is_not_called_deleted_where_no_request_can_have_arrived() {
    // Of the address that was given, and of the two brokers: then the attempt has failed.
    const ADDRESSES: usize = 3;
    for greetings_lost in [0, ADDRESSES] {
        run(move |platform| async move {
            let cluster = Cluster::start(&platform, &[1]);
            let mut client = client(platform.clone());
            client.topics().await.unwrap();
            cluster.is_deleted.set(true);
            platform.hang_up();
            cluster.greetings_lost.set(greetings_lost);
            let refused = client.delete_topic(TOPIC).await.unwrap_err();
            assert_eq!(refused.code(), Some(ErrorCode::UnknownTopicOrPartition), "{refused}");
            assert_eq!(cluster.greetings_lost.get(), 0);
        });
    }
}

#[test]
fn a_partition_that_is_gone_is_not_waited_for_and_the_others_are_cut_short() {
    run(|platform| async move {
        let cluster = Cluster::start(&platform, &[1, 2]);
        *cluster.log_ends.borrow_mut() = vec![5, 5];
        let mut client = client(platform.clone());
        let mut topic = client.topic(TOPIC, AutoCreate::Never).await.unwrap();
        let before = (0..3).map(|index| (PartitionIndex(index), Offset(3))).collect();
        let found = client.delete_records(&mut topic, &before).await;
        let cut = [0, 1].map(|index| (PartitionIndex(index), Offset(3)));
        assert_eq!(found.starts, cut.into());
        let failure = found.failure.unwrap();
        assert!(failure.is_absence() && failure.to_string().starts_with("orders-2: "), "{failure}");
        assert_eq!(platform.monotonic(), Duration::ZERO);
    });
}

#[test]
fn what_is_deleted_of_records_is_told_whatever_others_say() {
    let check =
        |mishaps: &'static [Mishap], done: &'static [i32], failure: Option<&'static str>| {
            run(move |platform| async move {
                let cluster = Cluster::start(&platform, &[1, 2, 1, 2]);
                *cluster.log_ends.borrow_mut() = vec![5, 2, 3, 9];
                let mut client = client(platform);
                let mut topic = client.topic(TOPIC, AutoCreate::Never).await.unwrap();
                cluster.mishaps.borrow_mut().extend(mishaps);
                let before = (0..4).map(|index| (PartitionIndex(index), Offset(3))).collect();
                let found = client.delete_records(&mut topic, &before).await;
                let starts = done.iter().map(|index| (PartitionIndex(*index), Offset(3)));
                assert_eq!(found.starts, starts.collect(), "{mishaps:?}");
                let said = found.failure.map(|error| error.to_string()).unwrap_or_default();
                assert!(said.contains(failure.unwrap_or_default()), "{mishaps:?}: {said}");
                assert_eq!(said.is_empty(), failure.is_none(), "{mishaps:?}: {said}");
            });
        };
    check(&[], &[0, 2, 3], Some("orders-1: "));
    const PASSING: Mishap = Mishap::Refuse(ErrorCode::NotLeaderOrFollower);
    check(&[PASSING, PASSING], &[0, 2, 3], Some("orders-1: "));
    check(&[Mishap::AckLost], &[0, 2, 3], Some("orders-1: "));
    // The first leader never answers: the second is asked all the same.
    check(&[Mishap::Hang], &[3], Some("no answer to DeleteRecords"));
}
