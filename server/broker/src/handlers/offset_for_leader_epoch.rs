//! OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ended (LO-4).
//!
//! Consumers ask it after an unclean restart or a change of leader, to learn whether what they have read is still the log's
//! history (KIP-320). Only the leader answers.

use record::{LeaderEpoch, Offset, PartitionIndex, ShardIndex, TopicPartition};
use wire::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};

use crate::calls::{EntrySlot, EpochEndAnswer, EpochEndEntry};
use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::FetchRefusal;
use crate::shard::TopicRef;

/// Finds the ends, wherever the partitions are.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &OffsetForLeaderEpochRequest<'a>,
) -> Answer<OffsetForLeaderEpochResponse<'a>> {
    let (entries, mut answers) = plan(call, request).await;
    answers.extend(call.shard.epoch_ends(entries, call.memory.as_ref()).await);
    answers.sort_by_key(|answer| answer.slot);
    let mut errors = Vec::with_capacity(answers.len());
    let mut answers = answers.into_iter();
    let mut results_of = |topic: &OffsetForLeaderTopic<'a>| {
        let answered = topic.partitions.iter().zip(answers.by_ref());
        let results = answered.map(|(asked, answer)| {
            let result = result_of(asked.partition, answer);
            errors.push(result.error_code);
            result
        });
        results.collect::<Vec<_>>()
    };
    let topics = request.topics.iter().map(|topic| OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: results_of(topic),
    });
    let body = OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() };
    Answer::with_errors(body, errors)
}

async fn plan<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &OffsetForLeaderEpochRequest<'_>,
) -> (Vec<(ShardIndex, EpochEndEntry)>, Vec<EpochEndAnswer>) {
    let mut entries = Vec::new();
    let mut refused = Vec::new();
    let asked = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |partition| (&*topic.topic, partition)));
    for (slot, (name, asked)) in (0..).map(EntrySlot).zip(asked) {
        match locate(call, name, asked) {
            Ok((owner, partition)) => {
                let OffsetForLeaderPartition { current_leader_epoch, leader_epoch, .. } = *asked;
                let entry = EpochEndEntry { slot, partition, current_leader_epoch, leader_epoch };
                entries.push((owner, entry));
            }
            Err(refusal) => refused.push(EpochEndAnswer { slot, outcome: Err(refusal) }),
        }
        call.shard.platform().yield_if_needed().await;
    }
    (entries, refused)
}

fn locate<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    name: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<(ShardIndex, TopicPartition), FetchRefusal> {
    let image = call.shard.image();
    let found = TopicRef::Name(name).find(&image).ok_or(FetchRefusal::UnknownPartition)?;
    if !call.context.may(Operation::Describe, Resource::Topic(&found.name)) {
        return Err(FetchRefusal::TopicAuthorization);
    }
    let partition = TopicPartition { topic_id: found.id, partition: asked.partition };
    let owner = call.shard.owner_of(partition).ok_or(FetchRefusal::UnknownPartition)?;
    Ok((owner, partition))
}

fn result_of(partition: PartitionIndex, answer: EpochEndAnswer) -> EpochEndOffset {
    match answer.outcome {
        Ok(end) => {
            let (leader_epoch, end_offset) =
                end.map_or((LeaderEpoch::NONE, Offset(-1)), |end| (end.epoch, end.end_offset));
            EpochEndOffset { partition, leader_epoch, end_offset, ..Default::default() }
        }
        Err(refusal) => {
            EpochEndOffset { partition, error_code: refusal.error_code(), ..Default::default() }
        }
    }
}
