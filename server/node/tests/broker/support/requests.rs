//! Short forms of the common requests. A test changes the field that it is about.

use std::sync::atomic::{AtomicU32, Ordering};

use record::{Offset, PartitionIndex, TopicId};
use wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData};
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic,
};
use wire::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData,
};
use wire::{ErrorCode, Records};

use super::{Client, Frame};

/// A topic of one test.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: TopicId,
}

impl Topic {
    /// A name that no other test has.
    pub(crate) fn fresh_name() -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("topic-{}", COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// A new topic of so many partitions.
    pub(crate) fn create(client: &mut Client, partitions: i32) -> Self {
        Self::create_with(client, partitions, &[])
    }

    /// [`Topic::create`] with configurations.
    pub(crate) fn create_with(
        client: &mut Client,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Self {
        Self::create_named(client, &Self::fresh_name(), partitions, configs)
    }

    /// [`Topic::create_with`] under a name of the caller's.
    pub(crate) fn create_named(
        client: &mut Client,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Self {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: (*name).into(),
            value: Some((*value).into()),
        });
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let frame = client.call(7, &request);
        let answer: CreateTopicsResponse<'_> = frame.read();
        let created = &answer.topics[0];
        assert_eq!(created.error_code, ErrorCode::None, "{:?}", created.error_message);
        Self { name: name.to_owned(), id: created.topic_id }
    }
}

/// A Produce of one batch a partition: acks=-1, by name and by id, whichever the version has.
pub(crate) fn produce_of<'a>(topic: &'a Topic, batches: &[(i32, &'a [u8])]) -> ProduceRequest<'a> {
    let partitions = batches.iter().map(|(index, batch)| PartitionProduceData {
        index: PartitionIndex(*index),
        records: Records::Inline(batch),
    });
    let topic_data = vec![TopicProduceData {
        name: topic.name.as_str().into(),
        topic_id: topic.id,
        partition_data: partitions.collect(),
    }];
    ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data, ..Default::default() }
}

/// The answers of a Produce to one topic, in order.
pub(crate) fn produced_all(frame: &Frame) -> Vec<PartitionProduceResponse<'_>> {
    let mut answer: ProduceResponse<'_> = frame.read();
    assert_eq!(answer.responses.len(), 1);
    answer.responses.remove(0).partition_responses
}

/// The answer of a Produce to one partition.
pub(crate) fn produced(frame: &Frame) -> PartitionProduceResponse<'_> {
    let mut answers = produced_all(frame);
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// A Fetch that does not wait, from these offsets of these partitions.
pub(crate) fn fetch_of<'a>(topic: &'a Topic, from: &[(i32, i64)]) -> FetchRequest<'a> {
    let partitions = from.iter().map(|(partition, offset)| FetchPartition {
        partition: PartitionIndex(*partition),
        fetch_offset: Offset(*offset),
        partition_max_bytes: 1 << 20,
        ..Default::default()
    });
    let topics = vec![FetchTopic {
        topic: topic.name.as_str().into(),
        topic_id: topic.id,
        partitions: partitions.collect(),
    }];
    FetchRequest { min_bytes: 1, max_bytes: 50 << 20, topics, ..Default::default() }
}

/// The answer of a Fetch to one partition.
pub(crate) fn fetched(frame: &Frame) -> PartitionData<'_> {
    let mut answer: FetchResponse<'_> = frame.read();
    assert_eq!((answer.error_code, answer.responses.len()), (ErrorCode::None, 1));
    let mut partitions = answer.responses.remove(0).partitions;
    assert_eq!(partitions.len(), 1);
    partitions.remove(0)
}

/// A ListOffsets for these partitions and timestamps.
pub(crate) fn list_of<'a>(topic: &'a Topic, asked: &[(i32, i64)]) -> ListOffsetsRequest<'a> {
    let partitions = asked.iter().map(|(partition, timestamp)| ListOffsetsPartition {
        partition_index: PartitionIndex(*partition),
        timestamp: *timestamp,
        ..Default::default()
    });
    let topics = vec![ListOffsetsTopic {
        name: topic.name.as_str().into(),
        partitions: partitions.collect(),
    }];
    ListOffsetsRequest { topics, ..Default::default() }
}

/// The answers of a ListOffsets for one topic, in order.
pub(crate) fn listed(frame: &Frame) -> Vec<ListOffsetsPartitionResponse> {
    let mut answer: ListOffsetsResponse<'_> = frame.read();
    assert_eq!(answer.topics.len(), 1);
    answer.topics.remove(0).partitions
}

impl Client {
    /// Appends a batch, waits until it is safe, and gives its first offset.
    pub(crate) fn append(&mut self, topic: &Topic, partition: i32, batch: &[u8]) -> i64 {
        let frame = self.call(9, &produce_of(topic, &[(partition, batch)]));
        let answer = produced(&frame);
        assert_eq!(answer.error_code, ErrorCode::None, "{:?}", answer.error_message);
        answer.base_offset.0
    }

    /// One past the last offset of a partition.
    pub(crate) fn end_of(&mut self, topic: &Topic, partition: i32) -> i64 {
        let frame = self.call(7, &list_of(topic, &[(partition, -1)]));
        let answer = listed(&frame)[0].clone();
        assert_eq!(answer.error_code, ErrorCode::None);
        answer.offset.0
    }

    /// The bytes of a partition from an offset on.
    pub(crate) fn read_from(&mut self, topic: &Topic, partition: i32, offset: i64) -> Vec<u8> {
        let frame = self.call(12, &fetch_of(topic, &[(partition, offset)]));
        let answer = fetched(&frame);
        assert_eq!(answer.error_code, ErrorCode::None);
        answer.records.inline().to_vec()
    }
}
