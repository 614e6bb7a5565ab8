//! CreatePartitions (key 37), versions 0 to 3: more partitions for topics that exist (MD-6).
//!
//! The answer leaves when every core of this node leads its new partitions. Keys that went to one partition may go to another
//! afterwards: that is what the client asked for.

use cluster::{CreatePartitions, GrowthOutcome, Intent, TopicGrowth};
use wire::ErrorCode;
use wire::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
    CreatePartitionsTopicResult,
};

use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Has the coordinator add them.
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &CreatePartitionsRequest<'_>,
) -> Answer<CreatePartitionsResponse<'static>> {
    let may_alter = |name: &str| call.context.may(Operation::Alter, Resource::Topic(name));
    let (allowed, denied): (Vec<_>, Vec<_>) =
        request.topics.iter().partition(|topic| may_alter(&topic.name));
    let topics = allowed.iter().map(|topic| growth(topic)).collect();
    let intent = if request.validate_only { Intent::ValidateOnly } else { Intent::Apply };
    let growth = CreatePartitions { topics, intent };
    let grown = call.shard.create_partitions(growth, call.memory.clone()).await;
    let mut results: Vec<CreatePartitionsTopicResult<'static>> = match grown {
        Ok(outcomes) => outcomes.into_iter().map(result).collect(),
        Err(error) => {
            let failed = |topic: &CreatePartitionsTopic<'_>| {
                refused(topic.name.to_string(), error.error_code(), error.to_string())
            };
            allowed.into_iter().map(failed).collect()
        }
    };
    results.extend(denied.into_iter().map(|topic| {
        let message = "not allowed to alter this topic".to_owned();
        refused(topic.name.to_string(), ErrorCode::TopicAuthorizationFailed, message)
    }));
    let errors: Vec<ErrorCode> = results.iter().map(|topic| topic.error_code).collect();
    Answer::with_errors(CreatePartitionsResponse { results, ..Default::default() }, errors)
}

fn growth(topic: &CreatePartitionsTopic<'_>) -> TopicGrowth {
    let assignments = topic.assignments.as_ref();
    TopicGrowth {
        name: topic.name.to_string(),
        partition_count: topic.count,
        assignments: assignments
            .map(|each| each.iter().map(|assigned| assigned.broker_ids.clone()).collect()),
    }
}

fn result(outcome: GrowthOutcome) -> CreatePartitionsTopicResult<'static> {
    match outcome.result {
        Ok(()) => CreatePartitionsTopicResult { name: outcome.name.into(), ..Default::default() },
        Err(refusal) => refused(outcome.name, refusal.error_code(), refusal.to_string()),
    }
}

fn refused(
    name: String,
    error_code: ErrorCode,
    message: String,
) -> CreatePartitionsTopicResult<'static> {
    CreatePartitionsTopicResult {
        name: name.into(),
        error_code,
        error_message: Some(message.into()),
    }
}
