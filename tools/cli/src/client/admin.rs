//! Topics made, deleted and described.
//!
//! Owns the requests that change the cluster. They are sent to any broker: each one may answer them (MD-1).

use broker::Platform;
use record::TopicId;
use wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse,
};

use crate::client::{Client, ClientError};

/// DescribeConfigs' number for topics.
const RESOURCE_TYPE_TOPIC: i8 = 2;
/// DescribeConfigs' number for a value that was set on the topic itself.
const CONFIG_SOURCE_TOPIC: i8 = 1;
/// "The broker's default" in CreateTopics.
const BROKER_DEFAULT: i32 = -1;

/// A topic to be made.
#[derive(Debug, Clone)]
pub(crate) struct NewTopic {
    /// Name.
    pub(crate) name: String,
    /// Partitions; the broker's default where it is not said.
    pub(crate) partitions: Option<i32>,
    /// Replicas of each; the broker's default where it is not said.
    pub(crate) replication_factor: Option<i16>,
    /// Options by key.
    pub(crate) configs: Vec<(String, String)>,
}

/// One option of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigEntry {
    /// Key.
    pub(crate) name: String,
    /// Value; `None` where it is secret.
    pub(crate) value: Option<String>,
    /// Whether it was set on the topic itself.
    pub(crate) is_set_on_topic: bool,
}

impl<P: Platform> Client<P> {
    /// Makes a topic; gives its id, zero where the broker is too old to tell.
    pub(crate) async fn create_topic(&mut self, topic: &NewTopic) -> Result<TopicId, ClientError> {
        let configs = topic.configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: name.into(),
            value: Some(value.into()),
        });
        let creatable = CreatableTopic {
            name: topic.name.as_str().into(),
            num_partitions: topic.partitions.unwrap_or(BROKER_DEFAULT),
            replication_factor: topic.replication_factor.unwrap_or(-1),
            configs: configs.collect(),
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![creatable],
            timeout_ms: self.timeout_ms(),
            ..CreateTopicsRequest::default()
        };
        let mut attempts = self.attempts();
        loop {
            match self.create_once(&topic.name, &request).await {
                Err(error) if self.passes(&error) => attempts.pause(error).await?,
                result => return result,
            }
        }
    }

    async fn create_once(
        &mut self,
        name: &str,
        request: &CreateTopicsRequest<'_>,
    ) -> Result<TopicId, ClientError> {
        let answer = self.ask_any(request).await?;
        let response: CreateTopicsResponse<'_> = answer.read()?;
        let Some(result) = response.topics.iter().find(|result| result.name == name) else {
            return Err(ClientError::NotMentioned { place: name.to_owned() });
        };
        ClientError::check(name, result.error_code, result.error_message.as_deref())?;
        Ok(result.topic_id)
    }

    /// Deletes a topic.
    pub(crate) async fn delete_topic(&mut self, name: &str) -> Result<(), ClientError> {
        // Version 6 names it in one field, older ones in another; each version writes the one it has.
        let state = DeleteTopicState { name: Some(name.into()), ..DeleteTopicState::default() };
        let request = DeleteTopicsRequest {
            topics: vec![state],
            topic_names: vec![name.into()],
            timeout_ms: self.timeout_ms(),
        };
        let answer = self.ask_any(&request).await?;
        let response: DeleteTopicsResponse<'_> = answer.read()?;
        let Some(result) = response.responses.first() else {
            return Err(ClientError::NotMentioned { place: name.to_owned() });
        };
        ClientError::check(name, result.error_code, result.error_message.as_deref())
    }

    /// The options of a topic, ascending by key.
    pub(crate) async fn topic_configs(
        &mut self,
        name: &str,
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        let resource = DescribeConfigsResource {
            resource_type: RESOURCE_TYPE_TOPIC,
            resource_name: name.into(),
            configuration_keys: None,
        };
        let request = DescribeConfigsRequest {
            resources: vec![resource],
            ..DescribeConfigsRequest::default()
        };
        let answer = self.ask_any(&request).await?;
        let response: DescribeConfigsResponse<'_> = answer.read()?;
        let Some(result) = response.results.first() else {
            return Err(ClientError::NotMentioned { place: name.to_owned() });
        };
        ClientError::check(name, result.error_code, result.error_message.as_deref())?;
        let entry =
            |config: &wire::describe_configs::DescribeConfigsResourceResult<'_>| ConfigEntry {
                name: config.name.to_string(),
                value: config.value.as_ref().map(ToString::to_string),
                is_set_on_topic: config.config_source == CONFIG_SOURCE_TOPIC,
            };
        let mut entries: Vec<ConfigEntry> = result.configs.iter().map(entry).collect();
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    /// The time that a request may take, as requests carry it.
    pub(crate) fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout().as_millis()).unwrap_or(i32::MAX)
    }
}
