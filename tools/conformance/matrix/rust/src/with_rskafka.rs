//! rskafka: a client in Rust alone, without configurations of topics, growing topics and idempotence.

use chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client as Library, ClientBuilder};
use rskafka::record::Record as Sent;
use tokio::runtime::Runtime;

use crate::with_rdkafka::Rdkafka;
use crate::{Client, Failure, Idempotence, Record, Told, Writing};

const TIMEOUT_MS: i32 = 60_000;
const FETCH_BYTES: std::ops::Range<i32> = 1..(12 << 20);
const FETCH_WAIT_MS: i32 = 1_000;

pub(crate) struct Rskafka {
    runtime: Runtime,
    library: Library,
    /// Creates what rskafka cannot: topics with configurations.
    other: Rdkafka,
}

impl Rskafka {
    pub(crate) fn new(bootstrap: &str) -> Result<Self, Failure> {
        let runtime = Runtime::new()?;
        let library = runtime.block_on(ClientBuilder::new(vec![bootstrap.to_owned()]).build())?;
        Ok(Rskafka { runtime, library, other: Rdkafka::new(bootstrap)? })
    }

    fn partition(&self, topic: &str) -> Result<PartitionClient, Failure> {
        let opened = self.library.partition_client(topic, 0, UnknownTopicHandling::Retry);
        Ok(self.runtime.block_on(opened)?)
    }

    fn append(&self, topic: &str, records: &[Record], codec: Compression) -> Result<(), Failure> {
        let records = records.iter().map(sent).collect();
        self.runtime.block_on(self.partition(topic)?.produce(records, codec))?;
        Ok(())
    }

    fn offset(&self, topic: &str, at: OffsetAt) -> Result<i64, Failure> {
        Ok(self.runtime.block_on(self.partition(topic)?.get_offset(at))?)
    }
}

fn sent(record: &Record) -> Sent {
    Sent {
        key: record.key.clone(),
        value: record.value.clone(),
        headers: record.headers.iter().cloned().collect(),
        timestamp: record
            .timestamp_ms
            .and_then(DateTime::from_timestamp_millis)
            .unwrap_or_else(Utc::now),
    }
}

fn received(record: Sent) -> Record {
    Record {
        key: record.key,
        value: record.value,
        headers: record.headers.into_iter().collect(),
        timestamp_ms: Some(record.timestamp.timestamp_millis()),
    }
}

impl Client for Rskafka {
    fn create(&self, topic: &str, partitions: i32) -> Result<(), Failure> {
        let controller = self.library.controller_client()?;
        self.runtime.block_on(controller.create_topic(topic, partitions, 1, TIMEOUT_MS))?;
        Ok(())
    }

    fn create_with(&self, topic: &str, configs: &[(&str, &str)]) -> Result<(), Failure> {
        self.other.create_with(topic, configs)
    }

    fn produce(&self, topic: &str, records: &[Record], writing: Writing) -> Told<()> {
        if writing.idempotence == Idempotence::On {
            return None;
        }
        let codec = match writing.codec {
            "none" => Compression::NoCompression,
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => return None,
        };
        Some(self.append(topic, records, codec))
    }

    fn consume(&self, topic: &str, count: usize) -> Result<Vec<Record>, Failure> {
        let partition = self.partition(topic)?;
        let mut found: Vec<Record> = Vec::new();
        while found.len() < count {
            let next = i64::try_from(found.len())?;
            let fetch = partition.fetch_records(next, FETCH_BYTES, FETCH_WAIT_MS);
            let (records, _) = self.runtime.block_on(fetch)?;
            if records.is_empty() {
                return Err(format!("no record at offset {next}").into());
            }
            found.extend(records.into_iter().map(|one| received(one.record)));
        }
        Ok(found)
    }

    fn offset_at(&self, topic: &str, timestamp_ms: i64) -> Result<Option<i64>, Failure> {
        let time = DateTime::from_timestamp_millis(timestamp_ms).ok_or("no such time")?;
        let found = self.offset(topic, OffsetAt::Timestamp(time))?;
        Ok((found >= 0).then_some(found))
    }

    fn ends(&self, topic: &str) -> Result<(i64, i64), Failure> {
        Ok((self.offset(topic, OffsetAt::Earliest)?, self.offset(topic, OffsetAt::Latest)?))
    }

    fn partitions(&self, topic: &str) -> Result<usize, Failure> {
        let topics = self.runtime.block_on(self.library.list_topics())?;
        Ok(topics.iter().find(|one| one.name == topic).map_or(0, |one| one.partitions.len()))
    }

    fn set_config(&self, _topic: &str, _key: &str, _value: &str) -> Told<()> {
        None
    }

    fn config(&self, _topic: &str, _key: &str) -> Told<Option<String>> {
        None
    }

    fn add_partitions(&self, _topic: &str, _total: usize) -> Told<()> {
        None
    }

    fn delete(&self, topic: &str) -> Result<(), Failure> {
        let controller = self.library.controller_client()?;
        self.runtime.block_on(controller.delete_topic(topic, TIMEOUT_MS))?;
        Ok(())
    }

    fn topics(&self) -> Result<Vec<String>, Failure> {
        let topics = self.runtime.block_on(self.library.list_topics())?;
        Ok(topics.into_iter().map(|topic| topic.name).collect())
    }

    fn repeats_headers(&self) -> bool {
        false
    }
}
