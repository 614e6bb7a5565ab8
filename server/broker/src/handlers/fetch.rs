//! Fetch (key 1), versions 4 to 18: read batches of records.
//!
//! 5 brings the log start, 7 sessions, 9 leader epochs, 12 divergence, 13 topic ids. Sessions are not kept: every full fetch is
//! answered with session id 0, which is legal for ever, and an incremental one with FETCH_SESSION_ID_NOT_FOUND. Record bytes are
//! never part of the encoded response: they are sent from where they lie.

use std::time::Duration;

use commitlog::Disk;
use partition::Isolation;
use record::{Offset, ShardIndex, TopicPartition};
use wire::fetch::{
    EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic,
    FetchableTopicResponse, PartitionData,
};
use wire::{ErrorCode, Records};

use crate::calls::{EntrySlot, FetchAnswer, FetchEntry, Fetched};
use crate::connection::Served;
use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::FetchRefusal;
use crate::send_path::Part;
use crate::shard::{FetchPlan, TopicRef};

/// Reads, waits where there is too little, and answers.
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
) -> Served<P::Disk> {
    if let Some(error_code) = refuse_session(request) {
        let body = FetchResponse { error_code, ..Default::default() };
        return call.reply(&Answer::failed(body, error_code));
    }
    let (plan, mut answers) = plan(call, request);
    let plan = if answers.is_empty() {
        plan
    } else {
        // FE-2: a partition that is refused is news, and news does not wait.
        FetchPlan { wait_max: Duration::ZERO, ..plan }
    };
    let (read, memory) = call.shard.fetch(&plan).await;
    answers.extend(read);
    answers.sort_by_key(|answer| answer.slot);
    reply(call, request, answers, memory)
}

/// FE-5 without a cache: epochs 0 and -1 are full fetches, anything else continues a session that is not here.
fn refuse_session(request: &FetchRequest<'_>) -> Option<ErrorCode> {
    match request.session_epoch {
        0 | -1 => None,
        _ => Some(ErrorCode::FetchSessionIdNotFound),
    }
}

fn isolation_of(request: &FetchRequest<'_>) -> Isolation {
    match request.isolation_level {
        1 => Isolation::ReadCommitted,
        _ => Isolation::ReadUncommitted,
    }
}

/// A number of bytes or milliseconds of a client: below zero is none.
fn at_least_zero(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn plan<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
) -> (FetchPlan, Vec<FetchAnswer<Part<P::Disk>>>) {
    let mut entries = Vec::new();
    let mut refused = Vec::new();
    let mut slot = 0;
    for topic in &request.topics {
        let topic_ref = TopicRef::of(call.version >= 13, &topic.topic, topic.topic_id);
        for partition in &topic.partitions {
            let entry_slot = EntrySlot(slot);
            slot += 1;
            match locate(call, topic_ref, partition) {
                Ok((owner, found)) => {
                    entries.push((owner, entry_of(entry_slot, found, partition)));
                }
                Err(refusal) => {
                    refused.push(FetchAnswer { slot: entry_slot, outcome: Err(refusal) });
                }
            }
        }
    }
    let plan = FetchPlan {
        isolation: isolation_of(request),
        bytes_min: at_least_zero(request.min_bytes),
        bytes_max: at_least_zero(request.max_bytes).min(call.shard.fetch_bytes_max()),
        wait_max: Duration::from_millis(at_least_zero(request.max_wait_ms) as u64),
        entries,
    };
    (plan, refused)
}

fn entry_of(slot: EntrySlot, found: TopicPartition, partition: &FetchPartition) -> FetchEntry {
    FetchEntry {
        slot,
        partition: found,
        offset: partition.fetch_offset,
        bytes_max: at_least_zero(partition.partition_max_bytes),
        current_leader_epoch: partition.current_leader_epoch,
        last_fetched_epoch: partition.last_fetched_epoch,
    }
}

fn locate<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    topic: TopicRef<'_>,
    partition: &FetchPartition,
) -> Result<(ShardIndex, TopicPartition), FetchRefusal> {
    let image = call.shard.image();
    let unknown = match topic {
        TopicRef::Name(_) => FetchRefusal::UnknownPartition,
        TopicRef::Id(_) => FetchRefusal::UnknownTopicId,
    };
    let found = topic.find(&image).ok_or(unknown)?;
    if !call.context.may(Operation::Read, Resource::Topic(&found.name)) {
        return Err(FetchRefusal::TopicAuthorization);
    }
    let partition = TopicPartition { topic_id: found.id, partition: partition.partition };
    let owner = call.shard.owner_of(partition).ok_or(FetchRefusal::UnknownPartition)?;
    Ok((owner, partition))
}

fn reply<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
    answers: Vec<FetchAnswer<Part<P::Disk>>>,
    memory: HeldMemory,
) -> Served<P::Disk> {
    let mut errors = Vec::new();
    let mut records = Vec::new();
    let mut answers = answers.into_iter();
    let mut response_of = |topic: &FetchTopic<'_>| {
        let answered = topic.partitions.iter().zip(answers.by_ref());
        let partitions = answered.map(|(partition, answer)| {
            let data = match answer.outcome {
                Ok(fetched) => data_of(request, fetched, &mut records),
                Err(refusal) => refused_data(call.version, &refusal),
            };
            errors.push(data.error_code);
            PartitionData { partition_index: partition.partition, ..data }
        });
        partitions.collect::<Vec<_>>()
    };
    let responses = request.topics.iter().map(|topic| FetchableTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: response_of(topic),
    });
    let body = FetchResponse { responses: responses.collect(), ..Default::default() };
    call.reply_with(&Answer::with_errors(body, errors), records, Some(memory))
}

fn data_of<D: Disk>(
    request: &FetchRequest<'_>,
    fetched: Fetched<Part<D>>,
    records: &mut Vec<Vec<Part<D>>>,
) -> PartitionData<'static> {
    let aborted_transactions = match isolation_of(request) {
        // TX-10: an empty list for a reader of committed records, null for the others.
        Isolation::ReadCommitted => Some(Vec::new()),
        Isolation::ReadUncommitted => None,
    };
    let mut data = PartitionData {
        high_watermark: fetched.high_watermark,
        last_stable_offset: fetched.last_stable_offset,
        log_start_offset: fetched.log_start,
        aborted_transactions,
        records: Records::EMPTY,
        ..Default::default()
    };
    if let Some((epoch, end_offset)) = fetched.diverging {
        data.diverging_epoch = EpochEndOffset { epoch, end_offset };
    }
    if fetched.bytes > 0 {
        data.records = Records::Apart { bytes: fetched.bytes };
        records.push(fetched.records);
    }
    data
}

fn refused_data(version: i16, refusal: &FetchRefusal) -> PartitionData<'static> {
    let error_code = match refusal.error_code() {
        // FE-10: old clients do not know the storage error.
        ErrorCode::KafkaStorageError if version <= 5 => ErrorCode::NotLeaderOrFollower,
        error_code => error_code,
    };
    PartitionData {
        error_code,
        high_watermark: Offset(-1),
        records: Records::EMPTY,
        ..Default::default()
    }
}
