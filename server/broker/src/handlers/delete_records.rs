//! DeleteRecords (key 21), versions 0 to 2: a later start for a log (LG-3).
//!
//! The new start is on disk before it is answered. -1 stands for the high watermark; nothing above it can be deleted.

use record::{Offset, PartitionIndex, ShardIndex, TopicPartition};
use wire::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteRecordsTopic, DeleteRecordsTopicResult,
};

use crate::calls::{DeleteRecordsAnswer, DeleteRecordsEntry, EntrySlot};
use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::{DeleteRecordsRefusal, FetchRefusal};
use crate::shard::TopicRef;

/// Moves the starts, wherever the partitions are.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DeleteRecordsRequest<'a>,
) -> Answer<DeleteRecordsResponse<'a>> {
    let (entries, mut answers) = plan(call, request).await;
    answers.extend(call.shard.delete_records(entries, call.memory.as_ref()).await);
    answers.sort_by_key(|answer| answer.slot);
    let mut errors = Vec::with_capacity(answers.len());
    let mut answers = answers.into_iter();
    let mut results_of = |topic: &DeleteRecordsTopic<'a>| {
        let answered = topic.partitions.iter().zip(answers.by_ref());
        let results = answered.map(|(asked, answer)| {
            let result = result_of(asked.partition_index, answer);
            errors.push(result.error_code);
            result
        });
        results.collect::<Vec<_>>()
    };
    let topics = request.topics.iter().map(|topic| DeleteRecordsTopicResult {
        name: topic.name.clone(),
        partitions: results_of(topic),
    });
    let body = DeleteRecordsResponse { topics: topics.collect(), ..Default::default() };
    Answer::with_errors(body, errors)
}

async fn plan<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DeleteRecordsRequest<'_>,
) -> (Vec<(ShardIndex, DeleteRecordsEntry)>, Vec<DeleteRecordsAnswer>) {
    let mut entries = Vec::new();
    let mut refused = Vec::new();
    let asked = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |partition| (&*topic.name, partition)));
    for (slot, (name, asked)) in (0..).map(EntrySlot).zip(asked) {
        match locate(call, name, asked) {
            Ok((owner, partition)) => {
                let offset = asked.offset;
                entries.push((owner, DeleteRecordsEntry { slot, partition, offset }));
            }
            Err(refusal) => refused.push(DeleteRecordsAnswer { slot, outcome: Err(refusal) }),
        }
        call.shard.platform().yield_if_needed().await;
    }
    (entries, refused)
}

fn locate<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    name: &str,
    asked: &DeleteRecordsPartition,
) -> Result<(ShardIndex, TopicPartition), DeleteRecordsRefusal> {
    let image = call.shard.image();
    let found = TopicRef::Name(name).find(&image).ok_or(FetchRefusal::UnknownPartition)?;
    if !call.context.may(Operation::Delete, Resource::Topic(&found.name)) {
        return Err(FetchRefusal::TopicAuthorization.into());
    }
    let partition = TopicPartition { topic_id: found.id, partition: asked.partition_index };
    let owner = call.shard.owner_of(partition).ok_or(FetchRefusal::UnknownPartition)?;
    if !call.shard.may_delete_records(found) {
        return Err(DeleteRecordsRefusal::Policy);
    }
    Ok((owner, partition))
}

fn result_of(
    partition_index: PartitionIndex,
    answer: DeleteRecordsAnswer,
) -> DeleteRecordsPartitionResult {
    let (low_watermark, error_code) = match answer.outcome {
        Ok(log_start) => (log_start, wire::ErrorCode::None),
        Err(refusal) => (Offset(-1), refusal.error_code()),
    };
    DeleteRecordsPartitionResult { partition_index, low_watermark, error_code }
}
