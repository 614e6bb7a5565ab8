//! Metadata (key 3), versions 0 to 13: brokers, topics, partitions and who leads them.
//!
//! 0 takes an empty list for "all", later versions null; 4 brings the auto-create flag, 8 authorized operations, 10 topic ids in the
//! answer, 12 in the question. Every broker in it comes from `endpoint`, so that the answer fits the way the client came.

use cluster::{Image, Topic, is_internal_topic};
use record::{NodeId, TopicId};
use wire::ErrorCode;
use wire::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};

use crate::context::{Operation, Resource};
use crate::handlers::{Answer, Call, first_of_each};
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Operations that apply to a topic, as the bits of Kafka's ACL operations: read, write, create, delete, alter, describe,
/// describe configs, alter configs. Everyone may do everything until security exists (MD-11).
pub(super) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// The same for the cluster: create, alter, describe, cluster action, describe configs, alter configs, idempotent write.
pub(super) const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;

/// About what a partition, and a topic beside its partitions, take in an answer.
pub(super) const PARTITION_BYTES: usize = 40;
pub(super) const TOPIC_BYTES: usize = 64;

/// About how many bytes an answer has: of all topics, or of those that are named.
fn answer_bytes(image: &Image, asked: Option<&[&MetadataRequestTopic<'_>]>) -> usize {
    let partitions = match asked {
        None => image.partition_count(),
        Some(topics) => {
            let found = topics.iter().filter_map(|topic| match &topic.name {
                Some(name) => image.topic(name),
                None => image.topic_by_id(topic.topic_id),
            });
            found.map(|topic| topic.partitions.len()).sum()
        }
    };
    partitions * (PARTITION_BYTES + TOPIC_BYTES)
}

/// Answers from the image, with the room that the answer waited for; creates what is missing where it may.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &MetadataRequest<'a>,
) -> (Option<HeldMemory>, Answer<MetadataResponse<'a>>) {
    let asked = match &request.topics {
        Some(topics) if call.version == 0 && topics.is_empty() => None,
        Some(topics) => Some(first_of_each(topics, topic_key)),
        None => None,
    };
    if let Some(topics) = &asked
        && let Some(refused) = refuse_ids(call.version, topics)
    {
        return (None, refused);
    }
    if let Some(topics) = &asked
        && request.allow_auto_topic_creation
        && call.shard.state().config.auto_create_topics
    {
        create_missing(call, topics).await;
    }
    let image = call.shard.image();
    // Not before: what is created takes as long as cores and disk take, and must be in nobody's way meanwhile.
    let room = call.answer_room(answer_bytes(&image, asked.as_deref())).await;
    let mut topics = match asked {
        None => all_topics(call, &image).await,
        Some(topics) => {
            let mut found = Vec::with_capacity(topics.len());
            for topic in topics {
                found.push(one_topic(call, &image, topic));
                call.shard.platform().yield_if_needed().await;
            }
            found
        }
    };
    if request.include_topic_authorized_operations {
        for topic in &mut topics {
            topic.topic_authorized_operations = TOPIC_OPERATIONS;
        }
    }
    let errors: Vec<ErrorCode> = topics.iter().map(|topic| topic.error_code).collect();
    let mut body = MetadataResponse {
        brokers: brokers(call, &image),
        cluster_id: image.cluster_id().map(|id| id.to_string().into()),
        controller_id: controller(call, &image),
        topics,
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        body.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    (room, Answer::with_errors(body, errors))
}

/// What a topic is asked for by. A request of a megabyte could name a topic of a thousand partitions a hundred thousand times.
fn topic_key<'r>(topic: &'r MetadataRequestTopic<'_>) -> Result<&'r str, TopicId> {
    topic.name.as_deref().ok_or(topic.topic_id)
}

/// Versions 10 and 11 carry topic ids in requests that nobody may use yet: INVALID_REQUEST for each topic.
fn refuse_ids<'a>(
    version: i16,
    topics: &[&MetadataRequestTopic<'a>],
) -> Option<Answer<MetadataResponse<'a>>> {
    let is_refused =
        |topic: &MetadataRequestTopic<'_>| topic.name.is_none() || topic.topic_id != TopicId::ZERO;
    if !(10..12).contains(&version) || !topics.iter().any(|topic| is_refused(topic)) {
        return None;
    }
    let error_code = ErrorCode::InvalidRequest;
    let topics = topics.iter().map(|topic| MetadataResponseTopic {
        error_code,
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    });
    let body = MetadataResponse { topics: topics.collect(), ..Default::default() };
    Some(Answer::failed(body, error_code))
}

/// MD-3: topics that are asked for by name and not there are created with the broker's defaults. What cannot be created is left
/// to the answer, which says why it is not there.
async fn create_missing<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    topics: &[&MetadataRequestTopic<'_>],
) {
    let image = call.shard.image();
    let is_missing = |name: &str| {
        image.topic(name).is_none()
            && !is_internal_topic(name)
            && call.context.may(Operation::Create, Resource::Topic(name))
    };
    let names = topics.iter().filter_map(|topic| topic.name.as_deref());
    let missing: Vec<String> = names.filter(|name| is_missing(name)).map(str::to_owned).collect();
    if !missing.is_empty() {
        call.shard.auto_create(missing, call.memory.clone()).await;
    }
}

async fn all_topics<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
) -> Vec<MetadataResponseTopic<'static>> {
    let may_see = |name: &str| call.context.may(Operation::Describe, Resource::Topic(name));
    let mut found = Vec::new();
    for topic in image.topics_sorted() {
        if may_see(&topic.name) {
            found.push(describe(call, image, topic));
        }
        call.shard.platform().yield_if_needed().await;
    }
    found
}

fn one_topic<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
    asked: &MetadataRequestTopic<'a>,
) -> MetadataResponseTopic<'a> {
    // An id says more than a name: a topic of that name may be another one by now.
    let found = match &asked.name {
        Some(name) if asked.topic_id == TopicId::ZERO => image.topic(name),
        _ => image.topic_by_id(asked.topic_id),
    };
    match found {
        // QA-3: what may not be seen is told apart from what is not there only by the error, never by its id.
        Some(topic) if !call.context.may(Operation::Describe, Resource::Topic(&topic.name)) => {
            MetadataResponseTopic {
                error_code: ErrorCode::TopicAuthorizationFailed,
                name: asked.name.clone(),
                ..Default::default()
            }
        }
        Some(topic) => describe(call, image, topic),
        None => unknown(asked),
    }
}

fn unknown<'a>(asked: &MetadataRequestTopic<'a>) -> MetadataResponseTopic<'a> {
    let error_code = match &asked.name {
        _ if asked.topic_id != TopicId::ZERO => ErrorCode::UnknownTopicId,
        None => ErrorCode::UnknownTopicId,
        Some(name) if cluster::check_topic_name(name).is_err() => ErrorCode::InvalidTopicException,
        Some(_) => ErrorCode::UnknownTopicOrPartition,
    };
    MetadataResponseTopic {
        error_code,
        name: asked.name.clone(),
        topic_id: asked.topic_id,
        ..Default::default()
    }
}

fn describe<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
    topic: &Topic,
) -> MetadataResponseTopic<'static> {
    let partitions = topic.indexed().map(|(partition_index, partition)| {
        let seen = |node: NodeId| broker_id(call, image, node, partition);
        let leader_id = seen(partition.leader);
        MetadataResponsePartition {
            error_code: leader_error(leader_id),
            partition_index,
            leader_id,
            leader_epoch: partition.leader_epoch,
            replica_nodes: partition.replicas.iter().copied().map(seen).collect(),
            isr_nodes: partition.isr.iter().copied().map(seen).collect(),
            offline_replicas: Vec::new(),
        }
    });
    MetadataResponseTopic {
        error_code: ErrorCode::None,
        name: Some(topic.name.to_string().into()),
        topic_id: topic.id,
        is_internal: is_internal_topic(&topic.name),
        partitions: partitions.collect(),
        ..Default::default()
    }
}

/// What a partition's answer says beside a leader that the client sees, or does not.
pub(super) fn leader_error(leader: NodeId) -> ErrorCode {
    match leader {
        NodeId::NONE => ErrorCode::LeaderNotAvailable,
        _ => ErrorCode::None,
    }
}

/// The broker that a client sees where the image says node and slot.
pub(super) fn broker_id<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
    node: NodeId,
    partition: &cluster::Partition,
) -> NodeId {
    let Some(node) = image.node(node) else { return NodeId::NONE };
    let seen = call.context.approach().to(node, partition.shard(node.shards));
    seen.map_or(NodeId::NONE, |endpoint| endpoint.id)
}

fn brokers<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
) -> Vec<MetadataResponseBroker<'static>> {
    let mut brokers = Vec::new();
    for node in image.nodes() {
        for found in call.context.approach().to_all(node) {
            brokers.push(MetadataResponseBroker {
                node_id: found.id,
                host: found.host.into(),
                port: found.port.into(),
                rack: node.rack.as_ref().map(|rack| rack.to_string().into()),
            });
        }
    }
    brokers
}

/// MD-1: any live broker will do, since every broker passes metadata changes on.
pub(super) fn controller<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
) -> NodeId {
    let own = image.node(call.shard.state().node_id);
    let seen = own.and_then(|node| call.context.approach().to(node, call.shard.index()));
    seen.map_or(NodeId::NONE, |endpoint| endpoint.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorized_operations_are_kafkas_bits() {
        let bits = |operations: &[u32]| operations.iter().fold(0, |bits, bit| bits | 1 << bit);
        assert_eq!(TOPIC_OPERATIONS, bits(&[3, 4, 5, 6, 7, 8, 10, 11]));
        assert_eq!(CLUSTER_OPERATIONS, bits(&[5, 7, 8, 9, 10, 11, 12]));
    }
}
