//! Topics made and deleted.
//!
//! Owns the requests that change the cluster. They are sent to any broker: each one may answer them (MD-1).

use broker::Platform;
use record::TopicId;
use wire::ApiKey;
use wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};

use crate::client::{Client, ClientError};

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
        self.retried(async |client| client.create_once(&topic.name, &request).await).await
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

    /// Deletes a topic. One that an earlier attempt may have deleted, and that is absent now, is deleted.
    pub(crate) async fn delete_topic(&mut self, name: &str) -> Result<(), ClientError> {
        // Version 6 names it in one field, older ones in another; each version writes the one it has.
        let state = DeleteTopicState { name: Some(name.into()), ..DeleteTopicState::default() };
        let request = DeleteTopicsRequest {
            topics: vec![state],
            topic_names: vec![name.into()],
            timeout_ms: self.timeout_ms(),
        };
        let mut may_be_done = false;
        self.retried(async |client| match client.delete_once(name, &request).await {
            Err(error) if error.is_absence() && may_be_done => Ok(()),
            result => {
                let is_open = |error: &ClientError| error.may_be_done(ApiKey::DeleteTopics);
                may_be_done |= result.as_ref().is_err_and(is_open);
                result
            }
        })
        .await
    }

    async fn delete_once(
        &mut self,
        name: &str,
        request: &DeleteTopicsRequest<'_>,
    ) -> Result<(), ClientError> {
        let answer = self.ask_any(request).await?;
        let response: DeleteTopicsResponse<'_> = answer.read()?;
        let Some(result) = response.responses.first() else {
            return Err(ClientError::NotMentioned { place: name.to_owned() });
        };
        ClientError::check(name, result.error_code, result.error_message.as_deref())
    }

    /// The time that a request may take, as requests carry it.
    pub(crate) fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout().as_millis()).unwrap_or(i32::MAX)
    }
}
