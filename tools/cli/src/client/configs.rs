//! Options of topics and nodes as they stand, and changes to them; partitions added to a topic.
//!
//! Owns the requests. A node answers for its own options alone; everything else any broker answers.

use broker::Platform;
use record::NodeId;
use wire::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
};
use wire::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse,
};
use wire::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use crate::client::{CallOptions, Client, ClientError};

/// IncrementalAlterConfigs' number for setting a value.
const OPERATION_SET: i8 = 0;
/// IncrementalAlterConfigs' number for going back to the default.
const OPERATION_DELETE: i8 = 1;

/// Whose options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigOwner {
    /// A topic's.
    Topic(String),
    /// One node's.
    Node(NodeId),
    /// The defaults of all nodes.
    AllNodes,
}

impl ConfigOwner {
    const fn resource_type(&self) -> i8 {
        match self {
            Self::Topic(_) => 2,
            Self::Node(_) | Self::AllNodes => 4,
        }
    }

    fn resource_name(&self) -> String {
        match self {
            Self::Topic(name) => name.clone(),
            Self::Node(id) => id.to_string(),
            Self::AllNodes => String::new(),
        }
    }

    /// How errors and tables name it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Topic(name) => format!("topic {name}"),
            Self::Node(id) => format!("node {id}"),
            Self::AllNodes => "all nodes".to_owned(),
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on the node while it ran.
    Node,
    /// Set for all nodes while they ran.
    AllNodes,
    /// The node's file, environment or command line: brokers do not tell which.
    Static,
    /// Built in.
    Default,
    /// A number that this program does not know.
    Other(i8),
}

impl ConfigSource {
    const fn of(number: i8) -> Self {
        match number {
            1 => Self::Topic,
            2 => Self::Node,
            3 => Self::AllNodes,
            4 => Self::Static,
            5 => Self::Default,
            other => Self::Other(other),
        }
    }

    /// In a word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Node => "node",
            Self::AllNodes => "all nodes",
            Self::Static => "static",
            Self::Default => "default",
            Self::Other(_) => "other",
        }
    }
}

/// An option as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigState {
    /// Key.
    pub(crate) key: String,
    /// Value; `None` where it is secret or there is none.
    pub(crate) value: Option<String>,
    /// Where it comes from.
    pub(crate) source: ConfigSource,
    /// Whether it can only change with a restart.
    pub(crate) is_read_only: bool,
}

/// A change of one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigChange {
    /// To this value.
    Set(String, String),
    /// Back to what it is without.
    Reset(String),
}

/// Whether a change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It is.
    Yes,
    /// Only judged.
    DryRun,
}

impl<P: Platform> Client<P> {
    /// The options of `owner`, ascending by key; all, or those of `keys`.
    pub(crate) async fn configs_of(
        &mut self,
        owner: &ConfigOwner,
        keys: &[String],
    ) -> Result<Vec<ConfigState>, ClientError> {
        let name = owner.resource_name();
        let keys = keys.iter().map(|key| key.as_str().into()).collect::<Vec<_>>();
        let resource = DescribeConfigsResource {
            resource_type: owner.resource_type(),
            resource_name: name.as_str().into(),
            configuration_keys: (!keys.is_empty()).then_some(keys),
        };
        let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
        self.retried(async |client| client.describe_once(owner, &request).await).await
    }

    async fn describe_once(
        &mut self,
        owner: &ConfigOwner,
        request: &DescribeConfigsRequest<'_>,
    ) -> Result<Vec<ConfigState>, ClientError> {
        let answer = self.ask_owner(owner, request).await?;
        let response: DescribeConfigsResponse<'_> = answer.read()?;
        let Some(result) = response.results.first() else {
            return Err(ClientError::NotMentioned { place: owner.place() });
        };
        let message = result.error_message.as_deref();
        ClientError::check(&owner.place(), result.error_code, message)?;
        let state = |config: &DescribeConfigsResourceResult<'_>| ConfigState {
            key: config.name.to_string(),
            value: config.value.as_ref().map(ToString::to_string),
            source: ConfigSource::of(config.config_source),
            is_read_only: config.read_only,
        };
        let mut states: Vec<ConfigState> = result.configs.iter().map(state).collect();
        states.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(states)
    }

    /// Changes options of `owner`: all of them, or none.
    pub(crate) async fn alter_configs(
        &mut self,
        owner: &ConfigOwner,
        changes: &[ConfigChange],
        commit: Commit,
    ) -> Result<(), ClientError> {
        let name = owner.resource_name();
        let configs = changes.iter().map(|change| match change {
            ConfigChange::Set(key, value) => AlterableConfig {
                name: key.as_str().into(),
                config_operation: OPERATION_SET,
                value: Some(value.as_str().into()),
            },
            ConfigChange::Reset(key) => AlterableConfig {
                name: key.as_str().into(),
                config_operation: OPERATION_DELETE,
                value: None,
            },
        });
        let resource = AlterConfigsResource {
            resource_type: owner.resource_type(),
            resource_name: name.as_str().into(),
            configs: configs.collect(),
        };
        let request = IncrementalAlterConfigsRequest {
            resources: vec![resource],
            validate_only: commit == Commit::DryRun,
        };
        self.retried(async |client| {
            let answer = client.ask_owner(owner, &request).await?;
            let response: IncrementalAlterConfigsResponse<'_> = answer.read()?;
            let Some(result) = response.responses.first() else {
                return Err(ClientError::NotMentioned { place: owner.place() });
            };
            let message = result.error_message.as_deref();
            ClientError::check(&owner.place(), result.error_code, message)
        })
        .await
    }

    /// Makes a topic have `count` partitions in all.
    pub(crate) async fn add_partitions(
        &mut self,
        name: &str,
        count: i32,
        commit: Commit,
    ) -> Result<(), ClientError> {
        let topic = CreatePartitionsTopic { name: name.into(), count, assignments: None };
        let request = CreatePartitionsRequest {
            topics: vec![topic],
            timeout_ms: self.timeout_ms(),
            validate_only: commit == Commit::DryRun,
        };
        self.retried(async |client| {
            let answer = client.ask_any(&request).await?;
            let response: CreatePartitionsResponse<'_> = answer.read()?;
            let Some(result) = response.results.first() else {
                return Err(ClientError::NotMentioned { place: name.to_owned() });
            };
            ClientError::check(name, result.error_code, result.error_message.as_deref())
        })
        .await
    }

    async fn ask_owner<'q, Q: wire::Request<'q>>(
        &mut self,
        owner: &ConfigOwner,
        request: &Q,
    ) -> Result<crate::client::Answer, ClientError> {
        let ConfigOwner::Node(id) = owner else { return self.ask_any(request).await };
        self.learn_brokers().await?;
        if !self.brokers.contains_key(id) {
            let known = self.brokers.keys().copied().collect();
            return Err(ClientError::NoSuchNode { node: *id, known });
        }
        let options = CallOptions::within(self.timeout());
        self.ask(*id, request, options).await
    }
}
