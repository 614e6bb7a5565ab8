//! Fetch (key 1), versions 4 to 18: read batches of records.
//!
//! 5 brings the log start, 7 sessions, 9 leader epochs, 12 divergence, 13 topic ids. Here are full fetches, which name all they
//! want; [`incremental`] has those that go on in a session. Record bytes are never part of the encoded response: they are sent
//! from where they lie.

mod incremental;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use commitlog::{Disk, Executor};
use partition::Isolation;
use record::{LeaderEpoch, Offset, ShardIndex, TopicPartition};
use wire::fetch::{
    EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic,
    FetchableTopicResponse, PartitionData,
};
use wire::{ErrorCode, Records};

use crate::calls::{EntrySlot, FetchAnswer, FetchEntry, Fetched};
use crate::connection::Served;
use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::fetch_sessions::{
    Naming, Read, Resumption, SessionEpoch, SessionId, SessionRefusal, Shown, Wanted,
};
use crate::handlers::leaders::Leaders;
use crate::handlers::{Answer, Call};
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::FetchRefusal;
use crate::send_path::Part;
use crate::shard::{FetchPlan, TopicRef};

type Answers<P> = Vec<FetchAnswer<Part<<P as Platform>::Disk>>>;

/// Whether a full fetch opens a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    /// If there is room.
    Open,
    /// The client wants none.
    None,
}

/// Reads, waits where there is too little, and answers (FE-5: which of the three kinds of request it is).
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
) -> Served<P::Disk> {
    let (id, epoch) = (SessionId(request.session_id), SessionEpoch(request.session_epoch));
    match epoch {
        SessionEpoch::INITIAL | SessionEpoch::FINAL => {
            // Whatever session a full fetch names is over.
            call.shard.fetch_sessions().borrow_mut().close(id);
            call.context.routing.forget_session(id);
            let session =
                if epoch == SessionEpoch::INITIAL { Session::Open } else { Session::None };
            full(call, request, session).await
        }
        _ => {
            let resumption = Resumption { id, epoch, naming: naming_of(call.version) };
            incremental::handle(call, request, resumption).await
        }
    }
}

/// Names were replaced by ids in version 13.
fn naming_of(version: i16) -> Naming {
    if version >= 13 { Naming::Ids } else { Naming::Names }
}

async fn full<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
    session: Session,
) -> Served<P::Disk> {
    let request = &*each_partition_once(call.shard.platform(), call.version, request).await;
    let (entries, refused) = find_all(call, request).await;
    // FE-2: a partition that is refused is news, and news does not wait.
    let wait_max = if refused.is_empty() { wait_of(request) } else { Duration::ZERO };
    let plan = FetchPlan { wait_max, ..plan_of(call, request, entries) };
    let (answers, memory) = read(call, &plan, refused).await;
    let session_id = match session {
        Session::Open => open_session(call, request, &answers),
        Session::None => SessionId::NONE,
    };
    call.context.routing.note_session(session_id);
    reply(call, request, session_id, (answers, memory))
}

/// The request with every partition once: of equal entries the last one counts, at the place of the first, as in a session and
/// in Kafka. A request of one partition sixty thousand times would be read and wait as often.
async fn each_partition_once<'r, 'a>(
    executor: &impl Executor,
    version: i16,
    request: &'r FetchRequest<'a>,
) -> Cow<'r, FetchRequest<'a>> {
    let by_id = version >= 13;
    if is_in_order(by_id, request) {
        return Cow::Borrowed(request);
    }
    let asked = request.topics.iter().flat_map(|topic| {
        let topic_ref = TopicRef::of(by_id, &topic.topic, topic.topic_id);
        topic.partitions.iter().map(move |partition| (topic_ref, partition))
    });
    let mut last = HashMap::new();
    let mut asked_count = 0;
    for (topic_ref, partition) in asked {
        last.insert((topic_ref, partition.partition), partition);
        asked_count += 1;
        executor.yield_if_needed().await;
    }
    if last.len() == asked_count {
        return Cow::Borrowed(request);
    }
    let mut once = request.clone();
    for topic in &mut once.topics {
        let topic_ref = TopicRef::of(by_id, &topic.topic, topic.topic_id);
        // Taken out at the first, so that the others find none.
        topic.partitions.retain_mut(|partition| {
            let last = last.remove(&(topic_ref, partition.partition));
            last.is_some_and(|last| {
                *partition = last.clone();
                true
            })
        });
    }
    once.topics.retain(|topic| !topic.partitions.is_empty());
    Cow::Owned(once)
}

/// Whether every topic stands once and its partitions ascend, as most clients name them: then nothing repeats, and that is seen
/// without a look at each partition's name.
fn is_in_order(by_id: bool, request: &FetchRequest<'_>) -> bool {
    let ascends = |topic: &FetchTopic<'_>| {
        topic.partitions.is_sorted_by(|one, next| one.partition < next.partition)
    };
    let topic_refs =
        || request.topics.iter().map(|topic| TopicRef::of(by_id, &topic.topic, topic.topic_id));
    let mut seen = HashSet::new();
    request.topics.iter().all(ascends)
        && (request.topics.len() < 2 || topic_refs().all(|topic_ref| seen.insert(topic_ref)))
}

/// Reads by plan; `refused` are the answers that are known already.
async fn read<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    plan: &FetchPlan,
    refused: Answers<P>,
) -> (Answers<P>, HeldMemory) {
    call.context.routing.note(plan.entries.iter().map(|(owner, _)| *owner));
    let (mut answers, memory) = call.shard.fetch(plan).await;
    if !refused.is_empty() {
        answers.extend(refused);
        answers.sort_by_key(|answer| answer.slot);
    }
    (answers, memory)
}

/// Remembers what a full fetch wants and was told.
fn open_session<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
    answers: &Answers<P>,
) -> SessionId {
    let platform = call.shard.platform();
    let random = || {
        let mut bytes = [0; 4];
        platform.random(&mut bytes);
        u32::from_ne_bytes(bytes)
    };
    let mut sessions = call.shard.fetch_sessions().borrow_mut();
    let kind = (naming_of(call.version), answers.len());
    let created = sessions.create(platform.monotonic(), kind, random, |session| {
        let mut answers = answers.iter();
        for topic in &request.topics {
            let topic_ref = TopicRef::of(call.version >= 13, &topic.topic, topic.topic_id);
            for (partition, answer) in topic.partitions.iter().zip(answers.by_ref()) {
                let shown = match read_of(&answer.outcome) {
                    Read::Ends { ends, .. } => ends,
                    Read::Refused => Shown::NOTHING,
                };
                session.put(topic_ref, partition.partition, wanted_of(partition), shown);
            }
        }
        incremental::learn_names(session, &call.shard.image());
    });
    created.unwrap_or(SessionId::NONE)
}

/// What a session goes by of an answer.
fn read_of<Records>(outcome: &Result<Fetched<Records>, FetchRefusal>) -> Read {
    match outcome {
        Ok(fetched) => Read::Ends {
            ends: Shown { high_watermark: fetched.high_watermark, log_start: fetched.log_start },
            bytes: fetched.bytes,
            diverges: fetched.diverging.is_some(),
        },
        Err(_) => Read::Refused,
    }
}

/// The answer to a request whose session does not go on.
fn refuse_session<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    refusal: SessionRefusal,
) -> Served<P::Disk> {
    let error_code = refusal.error_code();
    let body = FetchResponse { error_code, ..Default::default() };
    call.reply(&Answer::failed(body, error_code))
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

fn wait_of(request: &FetchRequest<'_>) -> Duration {
    Duration::from_millis(at_least_zero(request.max_wait_ms) as u64)
}

fn plan_of<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
    entries: Vec<(ShardIndex, FetchEntry)>,
) -> FetchPlan {
    FetchPlan {
        isolation: isolation_of(request),
        bytes_min: at_least_zero(request.min_bytes),
        bytes_max: at_least_zero(request.max_bytes).min(call.shard.fetch_bytes_max()),
        wait_max: wait_of(request),
        entries,
        memory: call.memory.clone(),
        received: call.context.stages.received,
        activity: Rc::clone(&call.context.activity),
    }
}

/// Finds every partition of a full fetch; what is not to be found is answered already.
async fn find_all<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
) -> (Vec<(ShardIndex, FetchEntry)>, Answers<P>) {
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
                    entries.push((owner, entry_of(entry_slot, found, &wanted_of(partition))));
                }
                Err(refusal) => {
                    refused.push(FetchAnswer { slot: entry_slot, outcome: Err(refusal) });
                }
            }
            call.shard.platform().yield_if_needed().await;
        }
    }
    (entries, refused)
}

fn wanted_of(partition: &FetchPartition) -> Wanted {
    Wanted {
        offset: partition.fetch_offset,
        bytes_max: at_least_zero(partition.partition_max_bytes),
        current_leader_epoch: epoch_of(partition.current_leader_epoch),
        last_fetched_epoch: epoch_of(partition.last_fetched_epoch),
    }
}

fn entry_of(slot: EntrySlot, found: TopicPartition, wanted: &Wanted) -> FetchEntry {
    FetchEntry {
        slot,
        partition: found,
        offset: wanted.offset,
        bytes_max: wanted.bytes_max,
        current_leader_epoch: wanted.current_leader_epoch,
        last_fetched_epoch: wanted.last_fetched_epoch,
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
    session_id: SessionId,
    (answers, memory): (Answers<P>, HeldMemory),
) -> Served<P::Disk> {
    let mut errors = Vec::new();
    let mut records = Vec::new();
    let mut leaders = Leaders::new(call);
    let mut answers = answers.into_iter();
    let mut response_of = |topic: &FetchTopic<'_>| {
        let topic_ref = TopicRef::of(call.version >= 13, &topic.topic, topic.topic_id);
        let answered = topic.partitions.iter().zip(answers.by_ref());
        let partitions = answered.map(|(partition, answer)| {
            let partition_index = partition.partition;
            let data = data_of(call.version, request, answer.outcome, &mut records);
            errors.push(data.error_code);
            let current_leader = leaders.beside(data.error_code, topic_ref, partition_index);
            PartitionData { partition_index, current_leader, ..data }
        });
        partitions.collect::<Vec<_>>()
    };
    let responses = request.topics.iter().map(|topic| FetchableTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: response_of(topic),
    });
    let body = FetchResponse {
        session_id: session_id.0,
        responses: responses.collect(),
        node_endpoints: leaders.endpoints(),
        ..Default::default()
    };
    call.reply_with(&Answer::with_errors(body, errors), records, Some(memory))
}

fn data_of<D: Disk>(
    version: i16,
    request: &FetchRequest<'_>,
    outcome: Result<Fetched<Part<D>>, FetchRefusal>,
    records: &mut Vec<Vec<Part<D>>>,
) -> PartitionData<'static> {
    let fetched = match outcome {
        Ok(fetched) => fetched,
        Err(refusal) => return refused_data(version, &refusal),
    };
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

/// Any negative number means none here, as in Kafka.
fn epoch_of(asked: LeaderEpoch) -> LeaderEpoch {
    asked.max(LeaderEpoch::NONE)
}

fn refused_data(version: i16, refusal: &FetchRefusal) -> PartitionData<'static> {
    let error_code = match refusal.error_code() {
        // FE-10: old clients do not know the storage error.
        ErrorCode::KafkaStorageError if version <= 5 => ErrorCode::NotLeaderOrFollower,
        error_code => error_code,
    };
    // Kafka's broker answers these itself, with an empty list; its replicas answer the others, without one.
    let is_unknown = matches!(
        refusal,
        FetchRefusal::UnknownPartition
            | FetchRefusal::UnknownTopicId
            | FetchRefusal::InconsistentTopicId
            | FetchRefusal::TopicAuthorization
    );
    PartitionData {
        error_code,
        high_watermark: Offset(-1),
        aborted_transactions: is_unknown.then(Vec::new),
        records: Records::EMPTY,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{PartitionIndex, TopicId};

    #[test]
    fn a_request_is_in_order_where_every_topic_stands_once_and_its_partitions_ascend() {
        let check = |topics: &[(&'static str, u8, &[i32])], by_id, expected| {
            let topics = topics.iter().map(|(name, id, partitions)| FetchTopic {
                topic: (*name).into(),
                topic_id: TopicId([*id; 16]),
                partitions: partitions
                    .iter()
                    .map(|partition| FetchPartition {
                        partition: PartitionIndex(*partition),
                        ..Default::default()
                    })
                    .collect(),
            });
            let request = FetchRequest { topics: topics.collect(), ..Default::default() };
            assert_eq!(is_in_order(by_id, &request), expected, "{request:?}");
        };
        check(&[], false, true);
        check(&[("a", 0, &[0, 1, 5])], false, true);
        check(&[("a", 0, &[0, 1, 1])], false, false);
        check(&[("a", 0, &[0, 2, 1])], false, false);
        check(&[("b", 0, &[0]), ("a", 0, &[0])], false, true);
        check(&[("b", 0, &[0]), ("a", 0, &[0]), ("b", 0, &[1])], false, false);
        check(&[("", 1, &[0]), ("", 2, &[0])], true, true);
        check(&[("", 1, &[0]), ("", 1, &[1])], true, false);
    }
}
