//! CreateTopics (key 19), versions 2 to 7.
//!
//! 4 brings -1 for the broker's defaults, 5 the configs in the answer, 7 the topic id. The answer leaves when every core of this
//! node knows the topic, so that a produce that follows it finds a leader.

use cluster::{CreateRefusal, CreatedTopic, DescribedConfig, Intent};
use record::TopicId;
use wire::ErrorCode;
use wire::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};

use crate::context::{Operation, Resource};
use crate::control::{TopicCreation, TopicToCreate};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Has the coordinator create them.
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &CreateTopicsRequest<'_>,
) -> Answer<CreateTopicsResponse<'static>> {
    let may_create = |name: &str| call.context.may(Operation::Create, Resource::Topic(name));
    let (allowed, denied): (Vec<_>, Vec<_>) =
        request.topics.iter().partition(|topic| may_create(&topic.name));
    let names: Vec<String> = allowed.iter().map(|topic| topic.name.to_string()).collect();
    let intent = if request.validate_only { Intent::ValidateOnly } else { Intent::Apply };
    let topics = allowed.into_iter().map(to_create).collect();
    let creation = TopicCreation { topics, intent };
    let created = call.shard.create_topics(creation, call.memory.clone()).await;
    let mut topics: Vec<CreatableTopicResult<'static>> = match created {
        Ok(outcomes) => {
            outcomes.into_iter().map(|outcome| result(outcome.name, outcome.result)).collect()
        }
        Err(error) => {
            let failed = |name| refused(name, error.error_code(), error.to_string());
            names.into_iter().map(failed).collect()
        }
    };
    topics.extend(denied.into_iter().map(|topic| {
        let error = ErrorCode::TopicAuthorizationFailed;
        refused(topic.name.to_string(), error, "not allowed to create this topic".to_owned())
    }));
    let errors: Vec<ErrorCode> = topics.iter().map(|topic| topic.error_code).collect();
    Answer::with_errors(CreateTopicsResponse { topics, ..Default::default() }, errors)
}

fn to_create(topic: &CreatableTopic<'_>) -> TopicToCreate {
    let assignments = topic.assignments.iter();
    let configs = topic.configs.iter();
    TopicToCreate {
        name: topic.name.to_string(),
        partition_count: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.map(|a| (a.partition_index, a.broker_ids.clone())).collect(),
        configs: configs
            .map(|c| (c.name.to_string(), c.value.as_ref().map(ToString::to_string)))
            .collect(),
    }
}

fn result(
    name: String,
    result: Result<CreatedTopic, CreateRefusal>,
) -> CreatableTopicResult<'static> {
    match result {
        Ok(created) => CreatableTopicResult {
            name: name.into(),
            topic_id: created.id,
            num_partitions: i32::try_from(created.partition_count).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(created.replication_factor).unwrap_or(i16::MAX),
            configs: Some(created.configs.into_iter().map(config).collect()),
            ..Default::default()
        },
        Err(refusal) => refused(name, refusal.error_code(), refusal.to_string()),
    }
}

fn config(config: DescribedConfig) -> CreatableTopicConfigs<'static> {
    CreatableTopicConfigs {
        name: config.name.into(),
        value: config.value.map(Into::into),
        read_only: config.is_read_only,
        config_source: config.source.code(),
        is_sensitive: config.is_sensitive,
    }
}

fn refused(name: String, error_code: ErrorCode, message: String) -> CreatableTopicResult<'static> {
    CreatableTopicResult {
        name: name.into(),
        topic_id: TopicId::ZERO,
        error_code,
        error_message: Some(message.into()),
        configs: Some(Vec::new()),
        ..Default::default()
    }
}
