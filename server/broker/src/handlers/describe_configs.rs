//! DescribeConfigs (key 32), versions 1 to 4: what holds for a topic or a broker, and why.
//!
//! 1 brings sources and synonyms, 3 types and documentation. A null or empty key list asks for all (MD-8). A broker named "" is the
//! default of all brokers.

use cluster::{ConfigTarget, DescribedConfig};
use wire::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::{ErrorCode, Text};

use crate::context::{Operation, Resource};
use crate::handlers::config_resource::{Refusal, target};
use crate::handlers::{Answer, Call, first_of_each};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// About what a resource takes in an answer, with synonyms and documentation.
const RESOURCE_BYTES: usize = 20_000;

/// About how many bytes an answer has.
pub(super) fn answer_bytes(request: &DescribeConfigsRequest<'_>) -> usize {
    request.resources.len() * RESOURCE_BYTES
}

/// Answers from the image and this node's configuration.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeConfigsRequest<'a>,
) -> Answer<DescribeConfigsResponse<'a>> {
    let key = |resource: &DescribeConfigsResource<'a>| {
        (resource.resource_type, resource.resource_name.clone())
    };
    let mut results = Vec::new();
    for resource in first_of_each(&request.resources, key) {
        let result = match describe(call, resource) {
            Ok(configs) => DescribeConfigsResult {
                configs: configs.into_iter().map(|config| entry(config, request)).collect(),
                ..Default::default()
            },
            Err((error_code, message)) => DescribeConfigsResult {
                error_code,
                error_message: Some(message.into()),
                ..Default::default()
            },
        };
        results.push(DescribeConfigsResult {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            ..result
        });
        call.shard.platform().yield_if_needed().await;
    }
    let errors: Vec<ErrorCode> = results.iter().map(|result| result.error_code).collect();
    Answer::with_errors(DescribeConfigsResponse { results, ..Default::default() }, errors)
}

fn describe<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    resource: &DescribeConfigsResource<'_>,
) -> Result<Vec<DescribedConfig>, Refusal> {
    let names: Option<Vec<&str>> =
        resource.configuration_keys.as_ref().map(|keys| keys.iter().map(|key| &**key).collect());
    match target(call, resource.resource_type, &resource.resource_name)? {
        ConfigTarget::Topic(name) => describe_topic(call, &name, names.as_deref()),
        ConfigTarget::Node(_) => {
            may_describe_brokers(call)?;
            let (image, state) = (call.shard.image(), call.shard.state());
            Ok(image.describe_node(state.node_id, &state.broker_configs, names.as_deref()))
        }
        ConfigTarget::AllNodes => {
            may_describe_brokers(call)?;
            Ok(call.shard.image().describe_all_nodes(&call.shard.state().broker_configs))
        }
    }
}

fn describe_topic<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    name: &str,
    names: Option<&[&str]>,
) -> Result<Vec<DescribedConfig>, Refusal> {
    if !call.context.may(Operation::DescribeConfigs, Resource::Topic(name)) {
        let message = "not allowed to describe this topic's configuration".to_owned();
        return Err((ErrorCode::TopicAuthorizationFailed, message));
    }
    if let Err(refusal) = cluster::check_topic_name(name) {
        return Err((ErrorCode::InvalidTopicException, refusal.to_string()));
    }
    let (image, state) = (call.shard.image(), call.shard.state());
    let topic = image.topic(name).ok_or_else(|| {
        (ErrorCode::UnknownTopicOrPartition, format!("topic {name}: does not exist"))
    })?;
    Ok(image.describe_topic(state.node_id, topic, &state.broker_configs, names))
}

fn may_describe_brokers<P: Platform, M: Mesh<Message>>(call: &Call<P, M>) -> Result<(), Refusal> {
    if call.context.may(Operation::DescribeConfigs, Resource::Cluster) {
        return Ok(());
    }
    let message = "not allowed to describe the brokers' configuration".to_owned();
    Err((ErrorCode::ClusterAuthorizationFailed, message))
}

fn entry(
    config: DescribedConfig,
    request: &DescribeConfigsRequest<'_>,
) -> DescribeConfigsResourceResult<'static> {
    let synonyms = if request.include_synonyms { config.synonyms } else { Vec::new() };
    let text = |value: &str| Text::Owned(value.to_owned());
    DescribeConfigsResourceResult {
        name: config.name.into(),
        value: config.value.map(Into::into),
        read_only: config.is_read_only,
        config_source: config.source.code(),
        is_sensitive: config.is_sensitive,
        synonyms: synonyms
            .into_iter()
            .map(|synonym| DescribeConfigsSynonym {
                name: synonym.name.into(),
                value: synonym.value.as_deref().map(text),
                source: synonym.source.code(),
            })
            .collect(),
        config_type: config.kind.code(),
        documentation: request.include_documentation.then(|| config.doc.into()),
    }
}
