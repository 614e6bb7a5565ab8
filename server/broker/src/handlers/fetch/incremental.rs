//! Fetches that go on in a session (KIP-227): they say what is different, and are told what is different.
//!
//! Owns the way from a session to a plan and back. Every partition of the session is read; the answer has those with news only.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Image, Topic};
use record::{PartitionIndex, ShardIndex, TopicPartition};
use wire::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};

use super::{
    Answers, Session, data_of, entry_of, full, plan_of, read, read_of, refuse_session, wanted_of,
};
use crate::calls::{EntrySlot, FetchAnswer};
use crate::connection::Served;
use crate::context::{Operation, Resource};
use crate::fetch_sessions::{
    FetchSession, Naming, Resumed, Resumption, SessionPartition, SessionRefusal, SessionTopic,
    Shown,
};
use crate::handlers::leaders::Leaders;
use crate::handlers::{Answer, Call};
use crate::memory::HeldMemory;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};
use crate::refusal::FetchRefusal;
use crate::shard::{FetchPlan, TopicRef};

/// Reads what the session wants, waits where there is too little, and answers what is new.
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
    resumption: Resumption,
) -> Served<P::Disk> {
    let now = call.shard.platform().monotonic();
    let resumed = call.shard.fetch_sessions().borrow_mut().resume(now, resumption, |session| {
        change(session, request);
    });
    match resumed {
        Ok(Resumed::Open) => call.context.routing.note_session(resumption.id),
        // Nothing is left to go on with: what the request names is read as if there had been no session.
        Ok(Resumed::Emptied) => {
            call.context.routing.forget_session(resumption.id);
            return full(call, request, Session::None).await;
        }
        Err(refusal) => return refuse_session(call, refusal),
    }
    call.shard.metrics().fetches_incremental.increment();
    let (plan, refused) = match plan(call, request, resumption) {
        Ok(planned) => planned,
        Err(refusal) => return refuse_session(call, refusal),
    };
    let read = read(call, &plan, refused).await;
    reply(call, request, resumption, read)
}

/// What the request adds, changes and forgets; who is in both lists is forgotten, as in Kafka.
fn change(session: &mut FetchSession, request: &FetchRequest<'_>) {
    let by_id = session.naming() == Naming::Ids;
    for topic in &request.topics {
        let topic_ref = TopicRef::of(by_id, &topic.topic, topic.topic_id);
        for partition in &topic.partitions {
            let wanted = wanted_of(partition);
            session.put(topic_ref, partition.partition, wanted, Shown::NOTHING);
        }
    }
    for topic in &request.forgotten_topics_data {
        let topic_ref = TopicRef::of(by_id, &topic.topic, topic.topic_id);
        for partition in &topic.partitions {
            session.forget(topic_ref, *partition);
        }
    }
}

/// Notes the names that ids lead to: once a topic is gone, its name tells what has become of it.
pub(super) fn learn_names(session: &mut FetchSession, image: &Image) {
    if session.naming() == Naming::Names {
        return;
    }
    session.for_each(|_, topic, _| {
        if topic.name.is_none() {
            topic.name = image.topic_by_id(topic.id).map(|found| Arc::clone(&found.name));
        }
    });
}

fn plan<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
    Resumption { id, epoch, naming }: Resumption,
) -> Result<(FetchPlan, Answers<P>), SessionRefusal> {
    let image = call.shard.image();
    let mut sessions = call.shard.fetch_sessions().borrow_mut();
    let session = sessions.answering(id, epoch)?;
    session.expect_places_of(image.next_offset());
    let mut entries = Vec::with_capacity(session.partition_count());
    let mut refused = Vec::new();
    let mut is_news = false;
    session.for_each(|position, topic, partition| {
        let slot = EntrySlot(position);
        match locate(call, &image, (naming, topic), partition) {
            Ok((owner, found)) => entries.push((owner, entry_of(slot, found, &partition.wanted))),
            Err(refusal) => {
                is_news |= !partition.is_refused;
                refused.push(FetchAnswer { slot, outcome: Err(refusal) });
            }
        }
    });
    let mut plan = plan_of(call, request, entries);
    if is_news {
        // FE-2. An error that the client was told already does not hurry the partitions that can be read: it would be told in an
        // endless loop.
        plan.wait_max = Duration::ZERO;
    }
    Ok((plan, refused))
}

/// Where a partition of the session is: remembered as long as the metadata is the same.
fn locate<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
    (naming, topic): (Naming, &mut SessionTopic),
    partition: &mut SessionPartition,
) -> Result<(ShardIndex, TopicPartition), FetchRefusal> {
    let may_read = |name: &str| {
        let may = call.context.may(Operation::Read, Resource::Topic(name));
        may.then_some(()).ok_or(FetchRefusal::TopicAuthorization)
    };
    if let (Some((owner, topic_id)), Some(name)) = (partition.place, &topic.name) {
        may_read(name)?;
        return Ok((owner, TopicPartition { topic_id, partition: partition.index }));
    }
    let found = find(image, naming, topic)?;
    if topic.name.is_none() {
        topic.name = Some(Arc::clone(&found.name));
    }
    may_read(&found.name)?;
    let place = TopicPartition { topic_id: found.id, partition: partition.index };
    let owner = call.shard.owner_of(place).ok_or(FetchRefusal::UnknownPartition)?;
    partition.place = Some((owner, found.id));
    Ok((owner, place))
}

/// FE-6 in a session: an id that was never known is an unknown id, and stays in the session until it is known or forgotten. One
/// that was known is told by what has become of its name, as in Kafka.
fn find<'i>(
    image: &'i Image,
    naming: Naming,
    topic: &SessionTopic,
) -> Result<&'i Arc<Topic>, FetchRefusal> {
    let name = topic.name.as_deref();
    let by_name = name.and_then(|name| image.topic(name));
    match naming {
        Naming::Names => by_name.ok_or(FetchRefusal::UnknownPartition),
        Naming::Ids => image.topic_by_id(topic.id).ok_or(match (name, by_name) {
            (None, _) => FetchRefusal::UnknownTopicId,
            (Some(_), None) => FetchRefusal::UnknownPartition,
            (Some(_), Some(_)) => FetchRefusal::InconsistentTopicId,
        }),
    }
}

fn reply<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FetchRequest<'_>,
    Resumption { id, epoch, naming }: Resumption,
    (mut answers, memory): (Answers<P>, HeldMemory),
) -> Served<P::Disk> {
    let mut sessions = call.shard.fetch_sessions().borrow_mut();
    let session = match sessions.answering(id, epoch) {
        Ok(session) => session,
        Err(refusal) => return refuse_session(call, refusal),
    };
    answers.retain(|answer| session.answer(answer.slot.0, read_of(&answer.outcome)));
    let mut errors = Vec::with_capacity(answers.len());
    let mut records = Vec::new();
    let mut leaders = Leaders::new(call);
    let mut responses = Responses { naming, last: None, topics: Vec::new() };
    for answer in answers {
        let Some((topic, index)) = session.at(answer.slot.0) else { continue };
        let data = data_of(call.version, request, answer.outcome, &mut records);
        errors.push(data.error_code);
        let name = topic.name.as_deref().unwrap_or_default();
        let topic_ref = TopicRef::of(naming == Naming::Ids, name, topic.id);
        let current_leader = leaders.beside(data.error_code, topic_ref, index);
        let data = PartitionData { current_leader, ..data };
        responses.push(topic, index, data);
    }
    let body = FetchResponse {
        session_id: id.0,
        responses: responses.topics,
        node_endpoints: leaders.endpoints(),
        ..Default::default()
    };
    let served = call.reply_with(&Answer::with_errors(body, errors), records, Some(memory));
    session.settle();
    served
}

/// Partitions in the session's order, those of one topic that follow each other under one head.
struct Responses<'s> {
    naming: Naming,
    last: Option<&'s SessionTopic>,
    topics: Vec<FetchableTopicResponse<'s>>,
}

impl<'s> Responses<'s> {
    fn push(&mut self, topic: &'s SessionTopic, index: PartitionIndex, data: PartitionData<'s>) {
        let data = PartitionData { partition_index: index, ..data };
        let is_same = self.last.is_some_and(|last| std::ptr::eq(last, topic));
        match self.topics.last_mut().filter(|_| is_same) {
            Some(response) => response.partitions.push(data),
            None => self.topics.push(FetchableTopicResponse {
                topic: match (self.naming, &topic.name) {
                    (Naming::Names, Some(name)) => (&**name).into(),
                    _ => "".into(),
                },
                topic_id: topic.id,
                partitions: vec![data],
            }),
        }
        self.last = Some(topic);
    }
}
