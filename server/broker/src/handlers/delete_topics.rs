//! DeleteTopics (key 20), versions 1 to 6.
//!
//! 6 names topics by id as well. Gone from metadata and from every core of this node when the answer leaves; the bytes on disk are
//! removed in the background, and the name is free at once.

use cluster::DeleteOutcome;
use record::TopicId;
use wire::ErrorCode;
use wire::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};

use crate::context::{Operation, Resource};
use crate::control::TopicDeletion;
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::shard::TopicRef;

/// A topic as the request names it.
type Named = (Option<String>, Option<TopicId>);

/// Has the coordinator delete them.
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DeleteTopicsRequest<'_>,
) -> Answer<DeleteTopicsResponse<'static>> {
    let named: Vec<Named> = if call.version >= 6 {
        let id = |id: TopicId| (id != TopicId::ZERO).then_some(id);
        let topics = request.topics.iter();
        topics.map(|t| (t.name.as_ref().map(ToString::to_string), id(t.topic_id))).collect()
    } else {
        request.topic_names.iter().map(|name| (Some(name.to_string()), None)).collect()
    };
    let (allowed, denied): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|topic| may_delete(call, topic));
    let deletion = TopicDeletion { topics: allowed.clone() };
    let deleted = call.shard.delete_topics(deletion, call.memory.clone()).await;
    let mut responses: Vec<DeletableTopicResult<'static>> = match deleted {
        Ok(outcomes) => outcomes.into_iter().map(result).collect(),
        Err(error) => {
            let failed = |topic| refused(topic, error.error_code(), error.to_string());
            allowed.into_iter().map(failed).collect()
        }
    };
    responses.extend(denied.into_iter().map(|topic| {
        let message = "not allowed to delete this topic".to_owned();
        refused(topic, ErrorCode::TopicAuthorizationFailed, message)
    }));
    let errors: Vec<ErrorCode> = responses.iter().map(|topic| topic.error_code).collect();
    Answer::with_errors(DeleteTopicsResponse { responses, ..Default::default() }, errors)
}

fn may_delete<P: Platform, M: Mesh<Message>>(call: &Call<P, M>, topic: &Named) -> bool {
    let image = call.shard.image();
    let by_id = topic.1.and_then(|id| TopicRef::Id(id).find(&image));
    let name = topic.0.as_deref().or(by_id.map(|topic| &*topic.name));
    name.is_none_or(|name| call.context.may(Operation::Delete, Resource::Topic(name)))
}

fn result(outcome: DeleteOutcome) -> DeletableTopicResult<'static> {
    let (error_code, error_message) = match outcome.result {
        Ok(()) => (ErrorCode::None, None),
        Err(refusal) => (refusal.error_code(), Some(refusal.to_string().into())),
    };
    DeletableTopicResult {
        name: outcome.name.map(Into::into),
        topic_id: outcome.id,
        error_code,
        error_message,
    }
}

fn refused(topic: Named, error_code: ErrorCode, message: String) -> DeletableTopicResult<'static> {
    let (name, id) = topic;
    DeletableTopicResult {
        name: name.map(Into::into),
        topic_id: id.unwrap_or(TopicId::ZERO),
        error_code,
        error_message: Some(message.into()),
    }
}
