//! The topic of a run: made, found, measured for length, deleted.
//!
//! Owns the waiting for leaders: a cluster answers that a topic is made before its partitions are led. Codes that pass are
//! waited out until the time is up.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Platform;
use record::{NodeId, PartitionIndex};
use wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse,
};
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::{ApiKey, Text};

use super::{Connection, Connections};
use crate::address::Address;
use crate::error::LoadError;

/// Between two looks at a topic that is not ready.
const PAUSE: Duration = Duration::from_millis(50);
/// Partitions of a topic that a run can hold: what a whole cluster of Kafka's has.
const PARTITIONS_MAX: usize = 200_000;
/// Partitions without a leader that are named.
const OFFLINE_NAMED_MAX: usize = 20;
/// Of a resource in DescribeConfigs.
const TOPIC_RESOURCE: i8 = 2;
/// Versions up to 5 of DeleteTopics carry names alone.
const DELETE_TOPICS_MAX: i16 = 6;

/// A partition and where its leader is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionLeader {
    pub(crate) partition: PartitionIndex,
    pub(crate) leader: Address,
}

/// An end of a log, as ListOffsets asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogPlace {
    /// The first record there is.
    Start = -2,
    /// One past the last record that is replicated.
    End = -1,
}

/// A topic that is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewTopic<'a> {
    pub(crate) name: &'a str,
    pub(crate) partitions: i32,
    pub(crate) replication_factor: i16,
    pub(crate) configs: &'a [(String, String)],
}

/// Whether a topic that is not there is only not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TopicOrigin {
    /// It was made a moment ago.
    JustMade,
    /// It should have been there before.
    Given,
}

/// Who asks about topics.
pub(crate) struct Admin<P: Platform> {
    platform: P,
    addresses: Vec<Address>,
    bootstrap: Connection<P>,
    leaders: Connections<P>,
    timeout: Duration,
}

impl<P: Platform> Admin<P> {
    /// Connects to the first of `bootstrap` that answers.
    pub(crate) async fn open(
        platform: &P,
        bootstrap: &[Address],
        timeout: Duration,
    ) -> Result<Self, LoadError> {
        let connection = open_any(platform, bootstrap, timeout).await?;
        Ok(Self {
            platform: platform.clone(),
            addresses: bootstrap.to_vec(),
            bootstrap: connection,
            leaders: BTreeMap::new(),
            timeout,
        })
    }

    /// Opens all connections anew: brokers close those that were silent for minutes, such as ours during a run.
    pub(crate) async fn renew(&mut self) -> Result<(), LoadError> {
        self.leaders.clear();
        self.bootstrap = open_any(&self.platform, &self.addresses, self.timeout).await?;
        Ok(())
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX)
    }

    /// Makes a topic.
    pub(crate) async fn create(&mut self, topic: NewTopic<'_>) -> Result<(), LoadError> {
        let configs = topic.configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: name.into(),
            value: Some(value.into()),
        });
        let wanted = CreatableTopic {
            name: topic.name.into(),
            num_partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            configs: configs.collect(),
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![wanted],
            timeout_ms: self.timeout_ms(),
            ..CreateTopicsRequest::default()
        };
        let answer = self.bootstrap.call(&request, i16::MAX, self.timeout).await?;
        let response: CreateTopicsResponse<'_> = answer.read()?;
        let result = response.topics.first();
        let result = result.ok_or_else(|| not_mentioned(topic.name, ApiKey::CreateTopics))?;
        let message = result.error_message.as_deref();
        LoadError::check(|| topic.name.to_owned(), result.error_code, message)
    }

    /// Deletes a topic.
    pub(crate) async fn delete(&mut self, topic: &str) -> Result<(), LoadError> {
        // Version 6 names it in one field, older ones in another; each version writes the one it has.
        let state = DeleteTopicState { name: Some(topic.into()), ..DeleteTopicState::default() };
        let request = DeleteTopicsRequest {
            topics: vec![state],
            topic_names: vec![topic.into()],
            timeout_ms: self.timeout_ms(),
        };
        let answer = self.bootstrap.call(&request, DELETE_TOPICS_MAX, self.timeout).await?;
        let response: DeleteTopicsResponse<'_> = answer.read()?;
        let result = response.responses.first();
        let result = result.ok_or_else(|| not_mentioned(topic, ApiKey::DeleteTopics))?;
        LoadError::check(|| topic.to_owned(), result.error_code, None)
    }

    /// The partitions of a topic with their leaders, ascending; waits until all are led.
    pub(crate) async fn leaders(
        &mut self,
        topic: &str,
        origin: TopicOrigin,
    ) -> Result<Vec<PartitionLeader>, LoadError> {
        let until = self.platform.monotonic() + self.timeout;
        // A name that somebody typed is wrong far more often than it is about to be there, and a partition of a topic that was
        // there before is offline far more often than it is about to be led.
        let passes = |error: &LoadError| {
            let is_waited_out = !error.is_absence() && !error.is_offline();
            error.passes() && (origin == TopicOrigin::JustMade || is_waited_out)
        };
        loop {
            match self.leaders_once(topic).await {
                Err(error) if passes(&error) && self.platform.monotonic() < until => {
                    self.platform.sleep(PAUSE).await;
                }
                result => return result,
            }
        }
    }

    async fn leaders_once(&mut self, topic: &str) -> Result<Vec<PartitionLeader>, LoadError> {
        let asked = MetadataRequestTopic { name: Some(topic.into()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![asked]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let answer = self.bootstrap.call(&request, i16::MAX, self.timeout).await?;
        let response: MetadataResponse<'_> = answer.read()?;
        LoadError::check(|| "metadata".to_owned(), response.error_code, None)?;
        let found = response.topics.iter().find(|found| found.name.as_deref() == Some(topic));
        let found = found.ok_or_else(|| not_mentioned(topic, ApiKey::Metadata))?;
        LoadError::check(|| topic.to_owned(), found.error_code, None)?;
        let address_of = |node: NodeId| {
            let broker = response.brokers.iter().find(|broker| broker.node_id == node)?;
            let port = u16::try_from(broker.port).ok()?;
            Some(Address { host: broker.host.to_string(), port })
        };
        let count = found.partitions.len();
        if count > PARTITIONS_MAX {
            let (topic, count_max) = (topic.to_owned(), PARTITIONS_MAX);
            return Err(LoadError::TooMany { topic, what: "partitions", count, count_max });
        }
        let mut leaders = Vec::with_capacity(count);
        let mut offline = Vec::new();
        for partition in &found.partitions {
            match address_of(partition.leader_id) {
                Some(leader) => {
                    leaders.push(PartitionLeader { partition: partition.partition_index, leader });
                }
                None => offline.push(partition.partition_index),
            }
        }
        if !offline.is_empty() {
            offline.sort_unstable();
            let count = offline.len();
            offline.truncate(OFFLINE_NAMED_MAX);
            return Err(LoadError::Offline { topic: topic.to_owned(), partitions: offline, count });
        }
        leaders.sort_by_key(|leader| leader.partition);
        let is_wrong = |pair: &&[PartitionLeader]| matches!(pair, [one, next] if one.partition == next.partition);
        let below_zero = leaders.first().filter(|leader| leader.partition.0 < 0);
        let wrong = below_zero.or_else(|| leaders.windows(2).find(is_wrong)?.first());
        if let Some(leader) = wrong {
            return Err(LoadError::Layout { place: place(topic, leader.partition) });
        }
        if leaders.is_empty() {
            return Err(not_mentioned(topic, ApiKey::Metadata));
        }
        Ok(leaders)
    }

    /// Where each of `partitions` begins or ends, in their order; waits until every leader answers.
    pub(crate) async fn offsets(
        &mut self,
        topic: &str,
        partitions: &[PartitionLeader],
        place: LogPlace,
    ) -> Result<Vec<i64>, LoadError> {
        let until = self.platform.monotonic() + self.timeout;
        loop {
            match self.offsets_once(topic, partitions, place).await {
                Err(error) if error.passes() && self.platform.monotonic() < until => {
                    self.platform.sleep(PAUSE).await;
                }
                result => return result,
            }
        }
    }

    async fn offsets_once(
        &mut self,
        topic: &str,
        partitions: &[PartitionLeader],
        at: LogPlace,
    ) -> Result<Vec<i64>, LoadError> {
        let mut by_leader: BTreeMap<&Address, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for PartitionLeader { partition, leader } in partitions {
            by_leader.entry(leader).or_default().push(ListOffsetsPartition {
                partition_index: *partition,
                timestamp: at as i64,
                ..ListOffsetsPartition::default()
            });
        }
        let mut found = BTreeMap::new();
        for (leader, asked) in by_leader {
            let request = ListOffsetsRequest {
                replica_id: NodeId::NONE,
                topics: vec![ListOffsetsTopic { name: topic.into(), partitions: asked }],
                timeout_ms: self.timeout_ms(),
                ..ListOffsetsRequest::default()
            };
            let within = self.timeout;
            let answer = self.leader(leader).await?.call(&request, i16::MAX, within).await?;
            let response: ListOffsetsResponse<'_> = answer.read()?;
            for answered in response.topics.iter().flat_map(|topic| &topic.partitions) {
                let index = answered.partition_index;
                LoadError::check(|| place(topic, index), answered.error_code, None)?;
                found.insert(index, answered.offset.0);
            }
        }
        let end = |leader: &PartitionLeader| {
            let end = found.get(&leader.partition).copied();
            let place = || place(topic, leader.partition);
            end.ok_or_else(|| not_mentioned(&place(), ApiKey::ListOffsets))
        };
        partitions.iter().map(end).collect()
    }

    /// What the broker says of the topic's options, those that matter to a run. A broker that refuses or cannot say says nothing.
    pub(crate) async fn configs(
        &mut self,
        topic: &str,
    ) -> Result<BTreeMap<String, String>, LoadError> {
        let keys = crate::topic_facts::OPTIONS.map(Text::from);
        let resource = DescribeConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: topic.into(),
            configuration_keys: Some(keys.to_vec()),
        };
        let request = DescribeConfigsRequest {
            resources: vec![resource],
            ..DescribeConfigsRequest::default()
        };
        let answer = match self.bootstrap.call(&request, i16::MAX, self.timeout).await {
            Err(LoadError::NoCommonVersion { .. }) => return Ok(BTreeMap::new()),
            answer => answer?,
        };
        let response: DescribeConfigsResponse<'_> = answer.read()?;
        let configs = response.results.iter().flat_map(|result| &result.configs);
        let known = |name: &str| crate::topic_facts::OPTIONS.contains(&name);
        let said = configs.filter_map(|config| {
            Some((config.name.to_string(), config.value.as_ref()?.to_string()))
        });
        Ok(said.filter(|(name, _)| known(name)).collect())
    }

    /// A connection to a leader.
    pub(crate) async fn leader(
        &mut self,
        address: &Address,
    ) -> Result<&mut Connection<P>, LoadError> {
        if !self.leaders.contains_key(address) {
            let opened = Connection::open(&self.platform, address, self.timeout).await?;
            self.leaders.insert(address.clone(), opened);
        }
        let missing = || not_mentioned(&address.to_string(), ApiKey::Metadata);
        self.leaders.get_mut(address).ok_or_else(missing)
    }

    /// Forgets a connection that failed.
    pub(crate) fn forget(&mut self, address: &Address) {
        self.leaders.remove(address);
    }
}

/// A connection to the first of `addresses` that answers.
async fn open_any<P: Platform>(
    platform: &P,
    addresses: &[Address],
    timeout: Duration,
) -> Result<Connection<P>, LoadError> {
    let mut refusal = LoadError::NoBootstrap;
    for address in addresses {
        match Connection::open(platform, address, timeout).await {
            Ok(connection) => return Ok(connection),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// How errors name a partition.
pub(crate) fn place(topic: &str, partition: PartitionIndex) -> String {
    format!("{topic}-{partition}")
}

fn not_mentioned(place: &str, api: ApiKey) -> LoadError {
    LoadError::NotMentioned { place: place.to_owned(), api }
}
