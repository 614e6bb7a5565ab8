//! Who leads what: topics, partitions and brokers as the cluster tells them.
//!
//! Owns the reading of Metadata. Every answer also brings the addresses of the brokers up to date.

use broker::Platform;
use record::{LeaderEpoch, NodeId, PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic,
};

use crate::client::{Address, Client, ClientError};

/// Whether asking for a topic may make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AutoCreate {
    /// Where the broker allows it: what producing does.
    Allowed,
    /// Never: what looking does.
    Never,
}

/// A topic as it stands.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    /// Name.
    pub(crate) name: String,
    /// Identity; zero where the broker is too old to tell.
    pub(crate) id: TopicId,
    /// Whether the cluster keeps it for itself.
    pub(crate) is_internal: bool,
    /// Partitions, ascending by index.
    pub(crate) partitions: Vec<Partition>,
}

/// One partition of a topic.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    /// Index.
    pub(crate) index: PartitionIndex,
    /// Leader; [`NodeId::NONE`] while there is none.
    pub(crate) leader: NodeId,
    /// The leader's epoch.
    pub(crate) leader_epoch: LeaderEpoch,
    /// Nodes that hold it, the preferred leader first.
    pub(crate) replicas: Vec<NodeId>,
    /// Those of them that are in sync.
    pub(crate) isr: Vec<NodeId>,
}

impl Topic {
    /// The partition of that index.
    pub(crate) fn partition(&self, index: PartitionIndex) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.index == index)
    }

    /// The leader of a partition. Errors: there is no such partition, or no leader now.
    pub(crate) fn leader_of(&self, index: PartitionIndex) -> Result<NodeId, ClientError> {
        let leader = self.partition(index).map(|partition| partition.leader);
        let code = match leader {
            Some(leader) if leader != NodeId::NONE => return Ok(leader),
            Some(_) => ErrorCode::LeaderNotAvailable,
            None => ErrorCode::UnknownTopicOrPartition,
        };
        Err(ClientError::Refused { place: self.place(index), code, message: None })
    }

    /// How errors name a partition of it.
    pub(crate) fn place(&self, index: PartitionIndex) -> String {
        format!("{}-{index}", self.name)
    }
}

impl<P: Platform> Client<P> {
    /// Every topic, ascending by name.
    pub(crate) async fn topics(&mut self) -> Result<Vec<Topic>, ClientError> {
        let ask = async |client: &mut Self| client.metadata_once(None, AutoCreate::Never).await;
        let mut topics = self.retried(ask).await?;
        topics.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(topics)
    }

    /// One topic by name. Waits for one that is being made; refuses one that is not there, unless it may be made.
    pub(crate) async fn topic(
        &mut self,
        name: &str,
        auto_create: AutoCreate,
    ) -> Result<Topic, ClientError> {
        let mut attempts = self.attempts();
        loop {
            let error = match self.topic_once(name, auto_create).await {
                Ok(topic) => return Ok(topic),
                Err(error) => error,
            };
            let is_final = error.is_absence() && auto_create == AutoCreate::Never;
            if is_final || !self.passes(&error) {
                return Err(error);
            }
            attempts.pause(error).await?;
        }
    }

    /// One topic by name, asked once.
    pub(crate) async fn topic_once(
        &mut self,
        name: &str,
        auto_create: AutoCreate,
    ) -> Result<Topic, ClientError> {
        let topics = self.metadata_once(Some(name), auto_create).await?;
        let found = topics.into_iter().find(|topic| topic.name == name);
        found.ok_or_else(|| ClientError::NotMentioned { place: name.to_owned() })
    }

    /// Asks where the brokers are, and nothing else.
    pub(crate) async fn learn_brokers(&mut self) -> Result<(), ClientError> {
        self.metadata_of(Some(Vec::new()), AutoCreate::Never).await.map(drop)
    }

    async fn metadata_once(
        &mut self,
        name: Option<&str>,
        auto_create: AutoCreate,
    ) -> Result<Vec<Topic>, ClientError> {
        let topics = name.map(|name| {
            let name = Some(name.into());
            vec![MetadataRequestTopic { name, ..MetadataRequestTopic::default() }]
        });
        self.metadata_of(topics, auto_create).await
    }

    async fn metadata_of(
        &mut self,
        topics: Option<Vec<MetadataRequestTopic<'_>>>,
        auto_create: AutoCreate,
    ) -> Result<Vec<Topic>, ClientError> {
        let request = MetadataRequest {
            topics,
            allow_auto_topic_creation: auto_create == AutoCreate::Allowed,
            ..MetadataRequest::default()
        };
        let answer = self.ask_any(&request).await?;
        let response: MetadataResponse<'_> = answer.read()?;
        ClientError::check("metadata", response.error_code, None)?;
        self.take_brokers(&response)?;
        response.topics.iter().map(topic).collect()
    }

    fn take_brokers(&mut self, response: &MetadataResponse<'_>) -> Result<(), ClientError> {
        let mut brokers = std::collections::BTreeMap::new();
        for broker in &response.brokers {
            let Ok(port) = u16::try_from(broker.port) else {
                let place = format!("broker {}", broker.node_id);
                let reason = format!("its port is {}", broker.port);
                return Err(ClientError::Unsendable { place, reason });
            };
            let address = Address { host: broker.host.to_string(), port };
            brokers.insert(broker.node_id, address);
        }
        // A broker that moved is another connection.
        self.leaders.retain(|node, connection| brokers.get(node) == Some(connection.address()));
        self.brokers = brokers;
        Ok(())
    }
}

fn topic(found: &MetadataResponseTopic<'_>) -> Result<Topic, ClientError> {
    let name = found.name.as_deref().unwrap_or_default().to_owned();
    ClientError::check(&name, found.error_code, None)?;
    let mut partitions: Vec<Partition> = found
        .partitions
        .iter()
        .map(|partition| Partition {
            index: partition.partition_index,
            leader: partition.leader_id,
            leader_epoch: partition.leader_epoch,
            replicas: partition.replica_nodes.clone(),
            isr: partition.isr_nodes.clone(),
        })
        .collect();
    partitions.sort_by_key(|partition| partition.index);
    Ok(Topic { name, id: found.topic_id, is_internal: found.is_internal, partitions })
}
