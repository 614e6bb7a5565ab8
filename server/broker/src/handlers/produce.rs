//! Produce (key 0), versions 3 to 13: append batches of records.
//!
//! Versions 0 to 2 are advertised and refused (KAFKA-18659). 7 brings zstd, 8 per-record errors, 10 the current leader, 13 topic
//! ids. The append half runs before the next request of the connection is looked at (PR-5); the answer waits for its acks.
//! Record bytes stay sub-slices of the frame until the one copy into the log's buffer.

use std::time::Duration;

use bytes::Bytes;
use cluster::is_internal_topic;
use partition::Acks;
use record::batch::HEADER_BYTES;
use record::{BatchHeader, Offset, PartitionIndex, ShardIndex, TopicId, TopicPartition};
use wire::produce::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceResponse,
};
use wire::{ErrorCode, Message as _};

use crate::calls::{EntrySlot, ProduceAnswer, ProduceEntry, ZstdAllowed};
use crate::connection::{Begun, PendingReply, Served};
use crate::context::{Operation, Resource};
use crate::drivers::admission::Terms;
use crate::error_code::ToErrorCode;
use crate::handlers::leaders::Leaders;
use crate::handlers::{Answer, BadRequest, Call};
use crate::mesh_call::Message;
use crate::metrics::Stage;
use crate::platform::{Mesh, Platform};
use crate::refusal::ProduceRefusal;
use crate::shard::TopicRef;

/// The least time that a Produce has. In Kafka it limits the wait for replicas alone; here an append waits for the disk as well,
/// which the time of an impatient client must not be too short for.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// The most that it has. An append that waits for a disk that hangs keeps its connection and its memory for as long.
const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 60);
/// The first version that may carry zstd (RB-2).
const ZSTD_VERSION: i16 = 7;

/// What the response repeats of the request.
struct TopicEcho {
    name: String,
    topic_id: TopicId,
    partitions: Vec<PartitionIndex>,
}

/// A Produce taken apart: what goes to the partitions, and what is refused already.
#[derive(Default)]
struct Plan {
    topics: Vec<TopicEcho>,
    entries: Vec<(ShardIndex, ProduceEntry)>,
    refused: Vec<ProduceAnswer>,
}

/// Whether the client waits for an answer: under acks=0 none comes, whatever happens (PR-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listens {
    Yes,
    No,
}

/// Appends what the request carries and returns the reply that waits for its acks.
pub(super) async fn begin<P: Platform, M: Mesh<Message>>(
    mut call: Call<P, M>,
    body: Bytes,
) -> Result<Begun<P::Disk>, BadRequest> {
    let turn = call.note_turn();
    let (api, version) = (call.api, call.version);
    let request = ProduceRequest::decode(version, &body).map_err(|error| BadRequest::Body {
        api,
        version,
        error,
    })?;
    let acks = acks_of(request.acks);
    // Not what became of it: acks that are none are refused, and that is answered though no partition be named.
    let listens = if request.acks == 0 { Listens::No } else { Listens::Yes };
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let timeout = timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    let parsed = call.shard.platform().monotonic();
    call.shard.metrics().stage(Stage::Decode, parsed.saturating_sub(turn));
    let terms = Terms {
        acks: acks.clone().unwrap_or_default(),
        timeout,
        deadline: parsed.saturating_add(timeout),
        zstd: if version < ZSTD_VERSION { ZstdAllowed::No } else { ZstdAllowed::Yes },
    };
    let plan = plan(&call, &request, &body, acks.err()).await;
    call.context.routing.note(plan.entries.iter().map(|(owner, _)| *owner));
    drop(request);
    // What this core appends is copied before this returns; what another core appends stays in the frame until then.
    let here = call.shard.index();
    let is_held = plan.entries.iter().any(|(owner, _)| *owner != here);
    let held_bytes = if is_held { body.len() } else { 0 };
    drop(body);
    let entries = (call.context.connection, plan.entries);
    let under_way = call.shard.begin_produce(&terms, entries, call.memory.as_ref()).await;
    let appended = call.shard.platform().monotonic();
    call.shard.metrics().stage(Stage::Append, appended.saturating_sub(parsed));
    call.context.stages.appended = Some(appended).filter(|_| listens == Listens::Yes);
    let memory = call.memory.take().filter(|_| is_held);
    let (topics, refused) = (plan.topics, plan.refused);
    let reply: PendingReply<P::Disk> = Box::pin(async move {
        let mut answers = under_way.answers().await;
        answers.extend(refused);
        answers.sort_by_key(|answer| answer.slot);
        answer(&call, listens, topics, answers)
    });
    Ok(Begun::now(reply, held_bytes).holding(memory))
}

/// PR-1: acks is 0, 1 or -1.
fn acks_of(acks: i16) -> Result<Option<Acks>, ProduceRefusal> {
    match acks {
        0 => Ok(None),
        1 => Ok(Some(Acks::Leader)),
        -1 => Ok(Some(Acks::InSync)),
        _ => Err(ProduceRefusal::InvalidAcks),
    }
}

async fn plan<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &ProduceRequest<'_>,
    body: &Bytes,
    refuse_all: Option<ProduceRefusal>,
) -> Plan {
    let refuse_all = refuse_all.or_else(|| refuse_transactions(request));
    let mut plan = Plan::default();
    let mut slot = 0;
    for topic in &request.topic_data {
        let topic_ref = TopicRef::of(call.version >= 13, &topic.name, topic.topic_id);
        let found = match &refuse_all {
            Some(refusal) => Err(refusal.clone()),
            None => find(call, topic_ref),
        };
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        for data in &topic.partition_data {
            let entry_slot = EntrySlot(slot);
            slot += 1;
            partitions.push(data.index);
            let located = found.clone().and_then(|topic_id| {
                let partition = TopicPartition { topic_id, partition: data.index };
                let owner = call.shard.owner_of(partition).ok_or(ProduceRefusal::UnknownPartition);
                owner.map(|owner| (owner, partition))
            });
            match located {
                Ok((owner, partition)) => {
                    let records = body.slice_ref(data.records.inline());
                    let entry = ProduceEntry { slot: entry_slot, partition, records };
                    plan.entries.push((owner, entry));
                }
                Err(refusal) => {
                    plan.refused.push(ProduceAnswer { slot: entry_slot, outcome: Err(refusal) });
                }
            }
            call.shard.platform().yield_if_needed().await;
        }
        let name = topic.name.clone().into_owned();
        plan.topics.push(TopicEcho { name, topic_id: topic.topic_id, partitions });
    }
    plan
}

/// RB-3: authorization, then existence, then whether clients may write there at all.
fn find<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    topic: TopicRef<'_>,
) -> Result<TopicId, ProduceRefusal> {
    let image = call.shard.image();
    let unknown = match topic {
        TopicRef::Name(_) => ProduceRefusal::UnknownPartition,
        TopicRef::Id(_) => ProduceRefusal::UnknownTopicId,
    };
    let found = topic.find(&image).ok_or(unknown)?;
    if !call.context.may(Operation::Write, Resource::Topic(&found.name)) {
        return Err(ProduceRefusal::TopicAuthorization);
    }
    if is_internal_topic(&found.name) && call.context.client.as_deref() != Some("__admin_client") {
        return Err(ProduceRefusal::InternalTopic);
    }
    Ok(found.id)
}

/// PR-3: a transactional batch needs a transactional id. (With one it is refused later, batch by batch: ID-9.)
fn refuse_transactions(request: &ProduceRequest<'_>) -> Option<ProduceRefusal> {
    let is_transactional = |records: &[u8]| {
        records.len() >= HEADER_BYTES
            && BatchHeader::parse(records).is_ok_and(|header| header.attributes.is_transactional())
    };
    let mut batches = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let refused = request.transactional_id.is_none()
        && batches.any(|data| is_transactional(data.records.inline()));
    refused.then_some(ProduceRefusal::TransactionalIdAuthorization)
}

fn answer<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    listens: Listens,
    topics: Vec<TopicEcho>,
    answers: Vec<ProduceAnswer>,
) -> Served<P::Disk> {
    let errors: Vec<ErrorCode> = answers.iter().map(error_of).collect();
    if listens == Listens::No {
        // Nobody listens under acks=0: the only way to tell of an error is to close, which makes the client look again.
        let first = errors.into_iter().find(|error| *error != ErrorCode::None);
        call.count(first.unwrap_or_default());
        return if first.is_some() { Served::Close } else { Served::Silence };
    }
    let mut leaders = Leaders::new(call);
    let mut answers = answers.into_iter();
    let mut partitions_of = |topic: &TopicEcho| {
        let topic_ref = TopicRef::of(call.version >= 13, &topic.name, topic.topic_id);
        let answered = topic.partitions.iter().zip(answers.by_ref());
        let partitions = answered.map(|(index, answer)| {
            let response = partition_response(*index, answer);
            let current_leader = leaders.beside(response.error_code, topic_ref, *index);
            PartitionProduceResponse { current_leader, ..response }
        });
        partitions.collect::<Vec<_>>()
    };
    let responses = topics.into_iter().map(|topic| TopicProduceResponse {
        partition_responses: partitions_of(&topic),
        name: topic.name.into(),
        topic_id: topic.topic_id,
    });
    let responses = responses.collect();
    let node_endpoints = leaders.endpoints();
    let body = ProduceResponse { responses, node_endpoints, ..Default::default() };
    call.reply(&Answer::with_errors(body, errors))
}

fn error_of(answer: &ProduceAnswer) -> ErrorCode {
    answer.outcome.as_ref().err().map_or(ErrorCode::None, ToErrorCode::error_code)
}

fn partition_response(
    index: PartitionIndex,
    answer: ProduceAnswer,
) -> PartitionProduceResponse<'static> {
    let error_code = error_of(&answer);
    match answer.outcome {
        Ok(produced) => PartitionProduceResponse {
            index,
            base_offset: produced.base_offset,
            log_append_time_ms: produced.log_append_time,
            log_start_offset: produced.log_start,
            ..Default::default()
        },
        Err(refusal) => PartitionProduceResponse {
            index,
            error_code,
            base_offset: Offset(-1),
            error_message: Some(refusal.to_string().into()),
            record_errors: record_errors(refusal),
            ..Default::default()
        },
    }
}

fn record_errors(refusal: ProduceRefusal) -> Vec<BatchIndexAndErrorMessage<'static>> {
    let records = match refusal {
        ProduceRefusal::InvalidRecord { records, .. }
        | ProduceRefusal::InvalidTimestamp { records, .. } => records,
        _ => return Vec::new(),
    };
    let errors = records.into_iter().map(|record| BatchIndexAndErrorMessage {
        batch_index: i32::try_from(record.index).unwrap_or(i32::MAX),
        batch_index_error_message: Some(record.message.into()),
    });
    errors.collect()
}
