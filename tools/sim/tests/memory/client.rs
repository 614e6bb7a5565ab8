//! A client by hand, and the requests that the tests of this crate need.
//!
//! Owns frames out and frames in. Every wait has an end: a request that is never answered fails its test.

use std::time::Duration;

use record::{Offset, PartitionIndex, TopicId};
use sim::platform::SimSocket;
use wire::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use wire::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use wire::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::{Call, Decoder, ErrorCode, Records, Request, Response, ResponseHeader, encode_request};

use crate::world::World;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    world: World,
    socket: SimSocket,
    sent: i32,
}

/// What came instead of an answer, or the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    Frame(Vec<u8>),
    Closed,
    Nothing,
}

impl Client {
    pub(crate) fn new(world: &World, socket: SimSocket) -> Self {
        Self { world: world.clone(), socket, sent: 0 }
    }

    pub(crate) fn send<'a, R: Request<'a>>(&mut self, version: i16, request: &R) {
        self.sent += 1;
        let call = Call { version, correlation_id: self.sent, client_id: Some("test") };
        let frame = encode_request(call, request).unwrap().into_bytes().unwrap();
        self.socket.send(&frame);
    }

    /// Sends nothing more, and goes on to hear.
    pub(crate) fn end_sending(&self) {
        self.socket.end_sending();
    }

    /// The next frame, or why there is none.
    pub(crate) async fn hear(&mut self) -> Heard {
        let frame = async {
            let mut size = [0; 4];
            if !self.socket.fill(&mut size).await {
                return Heard::Closed;
            }
            let mut bytes = vec![0; u32::from_be_bytes(size) as usize];
            assert!(self.socket.fill(&mut bytes).await, "the connection ended within a frame");
            Heard::Frame(bytes)
        };
        self.world.within(PATIENCE, frame).await.unwrap_or(Heard::Nothing)
    }

    pub(crate) async fn call<'a, R: Request<'a>>(&mut self, version: i16, request: &R) -> Vec<u8> {
        self.send(version, request);
        match self.hear().await {
            Heard::Frame(bytes) => bytes,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    /// A new topic of so many partitions.
    pub(crate) async fn create(&mut self, name: &'static str, partitions: i32) -> Topic {
        self.try_create(name, partitions).await.unwrap()
    }

    /// [`Client::create`] where it may be refused.
    pub(crate) async fn try_create(
        &mut self,
        name: &'static str,
        partitions: i32,
    ) -> Result<Topic, ErrorCode> {
        self.send_creation(name, partitions);
        let Heard::Frame(bytes) = self.hear().await else { panic!("{name} is not created") };
        let answer: CreateTopicsResponse<'_> = read(7, &bytes);
        match answer.topics[0].error_code {
            ErrorCode::None => Ok(Topic { name, id: answer.topics[0].topic_id }),
            refused => Err(refused),
        }
    }

    /// Asks for a new topic.
    pub(crate) fn send_creation(&mut self, name: &'static str, partitions: i32) {
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let topics = vec![topic];
        self.send(7, &CreateTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() });
    }

    /// Sends a Produce of one batch to one partition, acks=-1.
    pub(crate) fn send_batch(&mut self, topic: Topic, partition: i32, batch: &[u8]) {
        self.send(VERSION, &produce_of(topic, &[partition], batch));
    }

    /// What [`Client::send_batch`] is answered.
    pub(crate) async fn produced(&mut self) -> (ErrorCode, i64) {
        match self.hear().await {
            Heard::Frame(bytes) => produced(&bytes)[0],
            other => panic!("{other:?} instead of an answer"),
        }
    }

    pub(crate) async fn append(
        &mut self,
        topic: Topic,
        partition: i32,
        batch: &[u8],
    ) -> (ErrorCode, i64) {
        self.send_batch(topic, partition, batch);
        self.produced().await
    }
}

/// Of Produce: the last that names topics.
pub(crate) const VERSION: i16 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) id: TopicId,
}

/// A body of any API.
pub(crate) fn read<'a, M: Response<'a>>(version: i16, bytes: &'a [u8]) -> M {
    let (_, body) = ResponseHeader::decode(M::API, version, bytes).unwrap();
    let mut decoder = Decoder::new(body);
    let message = M::decode_from(version, &mut decoder).unwrap();
    decoder.finish().unwrap();
    message
}

/// A Produce of the same batch to these partitions, acks=-1.
pub(crate) fn produce_of<'a>(
    topic: Topic,
    partitions: &[i32],
    batch: &'a [u8],
) -> ProduceRequest<'a> {
    let partitions = partitions.iter().map(|index| PartitionProduceData {
        index: PartitionIndex(*index),
        records: Records::Inline(batch),
    });
    let topic = TopicProduceData {
        name: topic.name.into(),
        topic_id: topic.id,
        partition_data: partitions.collect(),
    };
    ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() }
}

/// Error and offset of each partition of a Produce's answer.
pub(crate) fn produced(bytes: &[u8]) -> Vec<(ErrorCode, i64)> {
    let answer: ProduceResponse<'_> = read(VERSION, bytes);
    let partitions = answer.responses.into_iter().flat_map(|topic| topic.partition_responses);
    partitions.map(|found| (found.error_code, found.base_offset.0)).collect()
}

/// Asks for the end of a partition.
pub(crate) fn end_of(topic: Topic, partition: i32) -> ListOffsetsRequest<'static> {
    ends_of(topic, std::iter::once(partition))
}

/// Asks for the ends of partitions.
pub(crate) fn ends_of(
    topic: Topic,
    partitions: impl Iterator<Item = i32>,
) -> ListOffsetsRequest<'static> {
    let partitions = partitions.map(|index| ListOffsetsPartition {
        partition_index: PartitionIndex(index),
        timestamp: -1,
        ..Default::default()
    });
    let topic = ListOffsetsTopic { name: topic.name.into(), partitions: partitions.collect() };
    ListOffsetsRequest { topics: vec![topic], ..Default::default() }
}

/// Asks for the records of partitions, without waiting for any.
pub(crate) fn fetch_of(
    topic: Topic,
    partitions: impl Iterator<Item = i32>,
) -> FetchRequest<'static> {
    let partitions = partitions.map(|index| FetchPartition {
        partition: PartitionIndex(index),
        partition_max_bytes: 1 << 20,
        ..Default::default()
    });
    let topic = FetchTopic {
        topic: topic.name.into(),
        topic_id: topic.id,
        partitions: partitions.collect(),
    };
    FetchRequest { min_bytes: 1, max_bytes: 1 << 20, topics: vec![topic], ..Default::default() }
}

/// What [`end_of`] is answered.
pub(crate) fn ended_at(bytes: &[u8]) -> (ErrorCode, Offset) {
    let answer: ListOffsetsResponse<'_> = read(7, bytes);
    let found = &answer.topics[0].partitions[0];
    (found.error_code, found.offset)
}
