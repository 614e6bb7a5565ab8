//! DescribeTopicPartitions (key 75), version 0: partitions of topics, page by page (MD-7).
//!
//! Topics come ascending by name, whatever the order of the request; a page begins where the last one's cursor says. Whoever may
//! not describe a topic is not told whether it exists.

use cluster::{Image, Partition, Topic, is_internal_topic};
use record::{NodeId, PartitionIndex};
use wire::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use wire::{ErrorCode, Text};

use crate::context::{Operation, Resource};
use crate::handlers::metadata::{
    PARTITION_BYTES, TOPIC_BYTES, TOPIC_OPERATIONS, broker_id, leader_error,
};
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Partitions on one page: Kafka's `max.request.partition.size.limit`.
const PARTITIONS_PER_PAGE_MAX: usize = 2_000;

/// About how many bytes a page has at most.
pub(super) fn answer_bytes<P: Platform, M: Mesh<Message>>(call: &Call<P, M>) -> usize {
    let partitions = call.shard.image().partition_count().min(PARTITIONS_PER_PAGE_MAX);
    partitions * (PARTITION_BYTES + TOPIC_BYTES)
}

/// Answers from the image.
pub(super) fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeTopicPartitionsRequest<'a>,
) -> Answer<DescribeTopicPartitionsResponse<'a>> {
    if !is_sound(request) {
        return refuse(request);
    }
    let image = call.shard.image();
    let may_describe = |name: &str| call.context.may(Operation::Describe, Resource::Topic(name));
    let first = request.cursor.as_ref().map_or("", |cursor| &*cursor.topic_name);
    let mut asked: Vec<&str> = if request.topics.is_empty() {
        image.topics_sorted().into_iter().map(|topic| &*topic.name).collect()
    } else {
        request.topics.iter().map(|topic| &*topic.name).collect()
    };
    asked.retain(|name| *name >= first);
    asked.sort_unstable();
    asked.dedup();
    let (allowed, denied): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|name| may_describe(name));
    let mut body = page(call, &image, request, &allowed);
    if !request.topics.is_empty() {
        let error = ErrorCode::TopicAuthorizationFailed;
        body.topics.extend(denied.into_iter().map(|name| missing(name, error)));
    }
    let errors: Vec<ErrorCode> = body.topics.iter().map(|topic| topic.error_code).collect();
    Answer::with_errors(body, errors)
}

/// Whether the cursor names a partition that can be, of a topic that is asked for.
fn is_sound(request: &DescribeTopicPartitionsRequest<'_>) -> bool {
    let Some(cursor) = &request.cursor else { return true };
    let is_asked = request.topics.is_empty()
        || request.topics.iter().any(|topic| topic.name == cursor.topic_name);
    is_asked && cursor.partition_index.0 >= 0
}

/// There is no error for the answer as a whole: each topic carries it, as in Kafka.
fn refuse<'a>(
    request: &DescribeTopicPartitionsRequest<'a>,
) -> Answer<DescribeTopicPartitionsResponse<'a>> {
    let error_code = ErrorCode::InvalidRequest;
    let topics = request.topics.iter().map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code,
        name: Some(topic.name.clone()),
        ..Default::default()
    });
    let topics = topics.collect();
    Answer::failed(DescribeTopicPartitionsResponse { topics, ..Default::default() }, error_code)
}

fn page<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
    request: &DescribeTopicPartitionsRequest<'_>,
    names: &[&str],
) -> DescribeTopicPartitionsResponse<'static> {
    let mut left = partitions_on_page(request.response_partition_limit);
    let mut body = DescribeTopicPartitionsResponse::default();
    for name in names {
        if left == 0 {
            body.next_cursor = Some(cursor(name, 0));
            break;
        }
        let Some(topic) = image.topic(name) else {
            body.topics.push(unknown(name));
            continue;
        };
        let begin = match &request.cursor {
            Some(cursor) if cursor.topic_name == *name => {
                usize::try_from(cursor.partition_index.0).unwrap_or(0)
            }
            _ => 0,
        };
        let partitions = topic.indexed().skip(begin).take(left);
        let partitions: Vec<_> =
            partitions.map(|(index, found)| partition(call, image, index, found)).collect();
        let end = begin + partitions.len();
        left -= partitions.len();
        body.topics.push(described(topic, partitions));
        if end < topic.partitions.len() {
            body.next_cursor = Some(cursor(name, end));
            break;
        }
    }
    body
}

/// At least one, so that whoever asks gets on.
fn partitions_on_page(asked: i32) -> usize {
    usize::try_from(asked).unwrap_or(0).clamp(1, PARTITIONS_PER_PAGE_MAX)
}

fn cursor(topic: &str, partition: usize) -> Cursor<'static> {
    // Below PARTITIONS_PER_TOPIC_MAX.
    let partition_index = PartitionIndex(i32::try_from(partition).unwrap_or(i32::MAX));
    Cursor { topic_name: Text::Owned(topic.to_owned()), partition_index }
}

fn described(
    topic: &Topic,
    partitions: Vec<DescribeTopicPartitionsResponsePartition>,
) -> DescribeTopicPartitionsResponseTopic<'static> {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::None,
        name: Some(topic.name.to_string().into()),
        topic_id: topic.id,
        is_internal: is_internal_topic(&topic.name),
        partitions,
        topic_authorized_operations: TOPIC_OPERATIONS,
    }
}

fn unknown(name: &str) -> DescribeTopicPartitionsResponseTopic<'static> {
    let error_code = match cluster::check_topic_name(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..missing(name, error_code)
    }
}

fn missing(name: &str, error_code: ErrorCode) -> DescribeTopicPartitionsResponseTopic<'static> {
    DescribeTopicPartitionsResponseTopic {
        error_code,
        name: Some(Text::Owned(name.to_owned())),
        is_internal: is_internal_topic(name),
        ..Default::default()
    }
}

fn partition<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
    partition_index: PartitionIndex,
    partition: &Partition,
) -> DescribeTopicPartitionsResponsePartition {
    let seen = |node: NodeId| broker_id(call, image, node, partition);
    let leader_id = seen(partition.leader);
    DescribeTopicPartitionsResponsePartition {
        error_code: leader_error(leader_id),
        partition_index,
        leader_id,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.iter().copied().map(seen).collect(),
        isr_nodes: partition.isr.iter().copied().map(seen).collect(),
        // Nobody leaves an in-sync set while there is one node.
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_to_two_thousand_partitions() {
        for (asked, expected) in [
            (i32::MIN, 1),
            (-1, 1),
            (0, 1),
            (1, 1),
            (1_999, 1_999),
            (2_000, 2_000),
            (2_001, 2_000),
            (i32::MAX, 2_000),
        ] {
            assert_eq!(partitions_on_page(asked), expected, "{asked}");
        }
    }
}
