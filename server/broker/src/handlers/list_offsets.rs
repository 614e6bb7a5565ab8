//! ListOffsets (key 2), versions 1 to 11: offsets by time and at the ends of a log.
//!
//! 4 brings leader epochs, 7 the largest timestamp (-3), 8 the local start (-4), 9 the tiered end (-5), 11 the start of what is not
//! tiered yet (-6). Without remote storage the local start is the log start, and nothing is tiered.

use std::collections::HashMap;

use partition::Isolation;
use record::{PartitionIndex, ShardIndex, Timestamp, TopicPartition};
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use wire::{ErrorCode, Text};

use crate::calls::{EntrySlot, ListOffsetsAnswer, ListOffsetsEntry, OffsetTarget};
use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::{FetchRefusal, ListOffsetsRefusal};
use crate::shard::TopicRef;

/// Looks the offsets up, wherever their partitions are.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &ListOffsetsRequest<'a>,
) -> Answer<ListOffsetsResponse<'a>> {
    let isolation = match request.isolation_level {
        1 => Isolation::ReadCommitted,
        _ => Isolation::ReadUncommitted,
    };
    let asked = first_of_each_partition(request);
    let (entries, mut answers) = plan(call, &asked).await;
    call.context.routing.note(entries.iter().map(|(owner, _)| *owner));
    answers.extend(call.shard.list_offsets(isolation, entries, call.memory.as_ref()).await);
    answers.sort_by_key(|answer| answer.slot);
    let mut errors = Vec::with_capacity(answers.len());
    let mut answers = answers.into_iter();
    let mut response_of = |partitions: &[Asked<'_>]| {
        let answered = partitions.iter().zip(answers.by_ref());
        let partitions = answered.map(|(asked, answer)| {
            let response = response(call.version, asked.partition.partition_index, answer);
            errors.push(response.error_code);
            response
        });
        partitions.collect::<Vec<_>>()
    };
    let topics = asked.iter().map(|(name, partitions)| ListOffsetsTopicResponse {
        name: (*name).clone(),
        partitions: response_of(partitions),
    });
    let body = ListOffsetsResponse { topics: topics.collect(), ..Default::default() };
    Answer::with_errors(body, errors)
}

/// A partition that is asked for.
struct Asked<'r> {
    partition: &'r ListOffsetsPartition,
    /// And again: which of the two is meant is not known.
    is_repeated: bool,
}

/// The partitions asked for, each once.
fn first_of_each_partition<'r, 'a>(
    request: &'r ListOffsetsRequest<'a>,
) -> Vec<(&'r Text<'a>, Vec<Asked<'r>>)> {
    let mut counts: HashMap<(&str, PartitionIndex), u32> = HashMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *counts.entry((&topic.name, partition.partition_index)).or_default() += 1;
        }
    }
    let topics = request.topics.iter().map(|topic| {
        let first = topic.partitions.iter().filter_map(|partition| {
            // Taken out at the first, so that the others find none.
            let count = counts.remove(&(&*topic.name, partition.partition_index))?;
            Some(Asked { partition, is_repeated: count > 1 })
        });
        (&topic.name, first.collect())
    });
    topics.collect()
}

async fn plan<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    topics: &[(&Text<'_>, Vec<Asked<'_>>)],
) -> (Vec<(ShardIndex, ListOffsetsEntry)>, Vec<ListOffsetsAnswer>) {
    let mut entries = Vec::new();
    let mut refused = Vec::new();
    let asked = topics
        .iter()
        .flat_map(|(name, partitions)| partitions.iter().map(move |asked| (*name, asked)));
    for (slot, (name, asked)) in (0..).map(EntrySlot).zip(asked) {
        let located = match asked.is_repeated {
            false => locate(call, name, asked.partition),
            true => Err(ListOffsetsRefusal::Duplicate),
        };
        match located {
            Ok((owner, partition, target)) => {
                let current_leader_epoch = asked.partition.current_leader_epoch;
                let entry = ListOffsetsEntry { slot, partition, current_leader_epoch, target };
                entries.push((owner, entry));
            }
            Err(refusal) => refused.push(ListOffsetsAnswer { slot, outcome: Err(refusal) }),
        }
        call.shard.platform().yield_if_needed().await;
    }
    (entries, refused)
}

fn locate<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    name: &str,
    asked: &ListOffsetsPartition,
) -> Result<(ShardIndex, TopicPartition, OffsetTarget), ListOffsetsRefusal> {
    let image = call.shard.image();
    let found = TopicRef::Name(name).find(&image).ok_or(FetchRefusal::UnknownPartition)?;
    if !call.context.may(Operation::Describe, Resource::Topic(&found.name)) {
        return Err(FetchRefusal::TopicAuthorization.into());
    }
    let partition = TopicPartition { topic_id: found.id, partition: asked.partition_index };
    let owner = call.shard.owner_of(partition).ok_or(FetchRefusal::UnknownPartition)?;
    let target = target_of(call.version, asked.timestamp)
        .ok_or(ListOffsetsRefusal::UnsupportedTarget(asked.timestamp))?;
    Ok((owner, partition, target))
}

/// LO-1: what the special timestamps mean, each from the version that brought it.
fn target_of(version: i16, timestamp: i64) -> Option<OffsetTarget> {
    Some(match timestamp {
        0.. => OffsetTarget::Timestamp(Timestamp(timestamp)),
        -1 => OffsetTarget::Latest,
        -2 => OffsetTarget::Earliest,
        -3 if version >= 7 => OffsetTarget::MaxTimestamp,
        -4 if version >= 8 => OffsetTarget::Earliest,
        -5 if version >= 9 => OffsetTarget::LatestTiered,
        -6 if version >= 11 => OffsetTarget::LatestTiered,
        _ => return None,
    })
}

fn response(
    version: i16,
    partition_index: PartitionIndex,
    answer: ListOffsetsAnswer,
) -> ListOffsetsPartitionResponse {
    match answer.outcome {
        Ok(listed) => ListOffsetsPartitionResponse {
            partition_index,
            error_code: ErrorCode::None,
            timestamp: listed.timestamp,
            offset: listed.offset,
            leader_epoch: listed.leader_epoch,
        },
        Err(refusal) => {
            let error_code = match refusal.error_code() {
                // LO-3: clients before version 5 do not know the newer code.
                ErrorCode::OffsetNotAvailable if version < 5 => ErrorCode::LeaderNotAvailable,
                error_code => error_code,
            };
            ListOffsetsPartitionResponse { partition_index, error_code, ..Default::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_exist_from_the_version_that_brought_them() {
        let check = |version, timestamp, expected| {
            assert_eq!(target_of(version, timestamp), expected, "v{version} {timestamp}");
        };
        check(1, -1, Some(OffsetTarget::Latest));
        check(1, -2, Some(OffsetTarget::Earliest));
        check(1, 0, Some(OffsetTarget::Timestamp(Timestamp(0))));
        check(6, -3, None);
        check(7, -3, Some(OffsetTarget::MaxTimestamp));
        check(7, -4, None);
        check(8, -4, Some(OffsetTarget::Earliest));
        check(8, -5, None);
        check(9, -5, Some(OffsetTarget::LatestTiered));
        check(10, -6, None);
        check(11, -6, Some(OffsetTarget::LatestTiered));
        check(11, -7, None);
    }
}
