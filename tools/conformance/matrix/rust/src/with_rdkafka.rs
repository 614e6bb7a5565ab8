//! rdkafka: librdkafka under a Rust interface, with its admin client and its future producer.

use std::time::Duration;

use futures::executor::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::{Client, Failure, Idempotence, Record, Told, Writing};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Rdkafka {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    consumer: BaseConsumer,
}

impl Rdkafka {
    pub(crate) fn new(bootstrap: &str) -> Result<Self, Failure> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap);
        let admin = config.create()?;
        config.set("group.id", "unused").set("enable.auto.commit", "false");
        config.set("fetch.message.max.bytes", "12582912");
        Ok(Rdkafka { bootstrap: bootstrap.to_owned(), admin, consumer: config.create()? })
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
    }

    fn create_topic(&self, topic: &NewTopic<'_>) -> Result<(), Failure> {
        only(block_on(self.admin.create_topics([topic], &self.options()))?)
    }

    fn append(&self, topic: &str, records: &[Record], writing: Writing) -> Result<(), Failure> {
        let idempotence = (writing.idempotence == Idempotence::On).to_string();
        let producer: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("acks", "all")
            .set("compression.type", writing.codec)
            .set("enable.idempotence", idempotence)
            .set("linger.ms", "50")
            .set("message.max.bytes", "11534336")
            .create()?;
        let mut under_way = Vec::new();
        for record in records {
            let mut next = FutureRecord::<[u8], [u8]>::to(topic).partition(0);
            next.key = record.key.as_deref();
            next.payload = record.value.as_deref();
            next.timestamp = record.timestamp_ms;
            if !record.headers.is_empty() {
                next = next.headers(headers_of(record));
            }
            under_way.push(producer.send_result(next).map_err(|(error, _)| error)?);
        }
        for delivery in under_way {
            block_on(delivery)?.map_err(|(error, _)| error)?;
        }
        Ok(())
    }

    fn change_config(&self, topic: &str, key: &str, value: &str) -> Result<(), Failure> {
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(key, value);
        let answers = block_on(self.admin.alter_configs([&change], &self.options()))?;
        let answer = answers.into_iter().next().ok_or("no answer")?;
        answer.map(drop).map_err(|(_, code)| code.into())
    }

    fn described(&self, topic: &str, key: &str) -> Result<Option<String>, Failure> {
        let resource = ResourceSpecifier::Topic(topic);
        let answers = block_on(self.admin.describe_configs([&resource], &self.options()))?;
        let answer = answers.into_iter().next().ok_or("no answer")??;
        Ok(answer.get(key).and_then(|entry| entry.value.clone()))
    }
}

fn headers_of(record: &Record) -> OwnedHeaders {
    record.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
        all.insert(Header { key, value: Some(value) })
    })
}

/// The one answer of a request about one topic.
fn only(answers: Vec<rdkafka::admin::TopicResult>) -> Result<(), Failure> {
    let answer = answers.into_iter().next().ok_or("no answer")?;
    answer.map(drop).map_err(|(_, code)| code.into())
}

impl Client for Rdkafka {
    fn create(&self, topic: &str, partitions: i32) -> Result<(), Failure> {
        self.create_topic(&NewTopic::new(topic, partitions, TopicReplication::Fixed(1)))
    }

    fn create_with(&self, topic: &str, configs: &[(&str, &str)]) -> Result<(), Failure> {
        let topic = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
        self.create_topic(&configs.iter().fold(topic, |topic, (key, value)| topic.set(key, value)))
    }

    fn produce(&self, topic: &str, records: &[Record], writing: Writing) -> Told<()> {
        Some(self.append(topic, records, writing))
    }

    fn consume(&self, topic: &str, count: usize) -> Result<Vec<Record>, Failure> {
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(topic, 0, Offset::Beginning)?;
        self.consumer.assign(&assignment)?;
        let mut found = Vec::new();
        while found.len() < count {
            let message = self.consumer.poll(PATIENCE).ok_or("no record came")??;
            let headers = message.headers().into_iter().flat_map(|all| all.iter());
            found.push(Record {
                key: message.key().map(<[u8]>::to_vec),
                value: message.payload().map(<[u8]>::to_vec),
                headers: headers
                    .map(|one| (one.key.to_owned(), one.value.unwrap_or(b"null").to_vec()))
                    .collect(),
                timestamp_ms: message.timestamp().to_millis(),
            });
        }
        self.consumer.unassign()?;
        Ok(found)
    }

    fn offset_at(&self, topic: &str, timestamp_ms: i64) -> Result<Option<i64>, Failure> {
        let mut times = TopicPartitionList::new();
        times.add_partition_offset(topic, 0, Offset::Offset(timestamp_ms))?;
        let found = self.consumer.offsets_for_times(times, PATIENCE)?;
        let one = found.find_partition(topic, 0).ok_or("no answer")?;
        one.error()?;
        Ok(match one.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        })
    }

    fn ends(&self, topic: &str) -> Result<(i64, i64), Failure> {
        Ok(self.consumer.fetch_watermarks(topic, 0, PATIENCE)?)
    }

    fn partitions(&self, topic: &str) -> Result<usize, Failure> {
        let metadata = self.consumer.fetch_metadata(Some(topic), PATIENCE)?;
        Ok(metadata.topics().first().map_or(0, |found| found.partitions().len()))
    }

    fn set_config(&self, topic: &str, key: &str, value: &str) -> Told<()> {
        Some(self.change_config(topic, key, value))
    }

    fn config(&self, topic: &str, key: &str) -> Told<Option<String>> {
        Some(self.described(topic, key))
    }

    fn add_partitions(&self, topic: &str, total: usize) -> Told<()> {
        let grown = NewPartitions::new(topic, total);
        let answers = block_on(self.admin.create_partitions([&grown], &self.options()));
        Some(answers.map_err(Failure::from).and_then(only))
    }

    fn delete(&self, topic: &str) -> Result<(), Failure> {
        only(block_on(self.admin.delete_topics(&[topic], &self.options()))?)
    }

    fn topics(&self) -> Result<Vec<String>, Failure> {
        let metadata = self.consumer.fetch_metadata(None, PATIENCE)?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    fn repeats_headers(&self) -> bool {
        true
    }
}
