//! Topics that come and go under the same few names, beside those that last.
//!
//! Owns what their administrator was told of each. A creation or deletion that was acknowledged holds in all lives to come; one
//! that was not answered is made wholly or not at all. A name that comes again is another topic: it has another id, and
//! nothing of the records of the one before.

use std::collections::BTreeSet;
use std::rc::Rc;

use broker::sync::Flag;
use record::{BatchBuilder, Codec, NewRecord, PartitionIndex, Timestamp, TopicId};
use wire::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::{ErrorCode, Records};

use super::connection::{Connection, read, visit};
use super::{LifePlan, World};
use crate::platform::{EPOCH_MS, SimMachine};
use crate::prng::{OneIn, Prng};
use crate::verdict::{Verdict, broken};

/// The names.
const NAMES: [&str; 3] = ["passing-a", "passing-b", "passing-c"];

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// There is no such topic.
    Gone,
    /// It was asked for.
    Asked,
    /// It is there, and each of its partitions ends at least there.
    There { id: TopicId, end: i64 },
    /// Its deletion was asked for.
    DeletionAsked { id: TopicId, end: i64 },
}

/// The passing topics of a world.
#[derive(Debug)]
pub(super) struct PassingTopics {
    known: [Known; NAMES.len()],
    ids: BTreeSet<TopicId>,
}

impl Default for PassingTopics {
    fn default() -> Self {
        Self { known: [Known::Gone; NAMES.len()], ids: BTreeSet::new() }
    }
}

impl PassingTopics {
    /// A topic was found under a name that was asked for: it must be a new one.
    fn appears(&mut self, index: usize, id: TopicId) -> Verdict {
        if !self.ids.insert(id) {
            let detail = format!("{} as {id}", NAMES[index]);
            return broken("a topic that was deleted never comes back", detail);
        }
        self.known[index] = Known::There { id, end: 0 };
        Ok(())
    }
}

/// Compares every name with what is known of it. Order: while nobody creates or deletes.
pub(super) async fn verify(world: &Rc<World>, machine: &SimMachine, plan: LifePlan) -> Verdict {
    let Some(mut connection) = Connection::open(world, machine, plan) else {
        return broken("a node that is ready listens", "nobody does");
    };
    for (index, name) in NAMES.iter().enumerate() {
        let Some(found) = find(&mut connection, index).await? else {
            return broken("a node at rest answers", "the connection ended");
        };
        let known = world.passing.borrow().known[index];
        match (known, found) {
            (Known::Gone | Known::Asked | Known::DeletionAsked { .. }, None) => {
                world.passing.borrow_mut().known[index] = Known::Gone;
            }
            (Known::Asked, Some(id)) => world.passing.borrow_mut().appears(index, id)?,
            (Known::There { id, end } | Known::DeletionAsked { id, end }, Some(found))
                if id == found =>
            {
                world.passing.borrow_mut().known[index] = Known::There { id, end };
                if let Some(found) = end_of(&mut connection, index).await?
                    && found < end
                {
                    let detail = format!("{name}: ends at {found}, told {end}");
                    return broken("what was shown or acknowledged stays", detail);
                }
            }
            (known, found) => {
                let detail = format!("{name}: {known:?}, found {found:?}");
                return broken("creations and deletions that were acknowledged hold", detail);
            }
        }
    }
    Ok(())
}

/// The id under a name; the outer `None` at the end of the connection.
async fn find(connection: &mut Connection, index: usize) -> Verdict<Option<Option<TopicId>>> {
    let asked = MetadataRequestTopic { name: Some(NAMES[index].into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![asked]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let Some(frame) = connection.call(10, &request).await? else { return Ok(None) };
    let answer: MetadataResponse<'_> = read(10, &frame)?;
    match answer.topics.first().map(|found| (found.error_code, found.topic_id)) {
        Some((ErrorCode::None, id)) => Ok(Some(Some(id))),
        Some((ErrorCode::UnknownTopicOrPartition, _)) => Ok(Some(None)),
        other => broken("an answer names what was asked", format!("{other:?}")),
    }
}

/// Where its first partition ends; `None` where that was not to be learnt.
async fn end_of(connection: &mut Connection, index: usize) -> Verdict<Option<i64>> {
    let wanted = ListOffsetsPartition {
        partition_index: PartitionIndex(0),
        timestamp: -1,
        ..Default::default()
    };
    let topic = ListOffsetsTopic { name: NAMES[index].into(), partitions: vec![wanted] };
    let request = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
    let Some(frame) = connection.call(7, &request).await? else { return Ok(None) };
    let answer: ListOffsetsResponse<'_> = read(7, &frame)?;
    let found = answer.topics.first().and_then(|topic| topic.partitions.first());
    let found = found.filter(|found| found.error_code == ErrorCode::None);
    Ok(found.map(|found| found.offset.0))
}

/// Creates, uses and deletes until `is_over`.
pub(super) async fn come_and_go(
    world: Rc<World>,
    machine: SimMachine,
    plan: LifePlan,
    is_over: Flag,
) -> Verdict {
    let act = async |connection: &mut Connection| {
        let index = world.chance(|prng| prng.index(NAMES.len()));
        let known = world.passing.borrow().known[index];
        match known {
            Known::Gone => create(&world, connection, plan, index).await,
            Known::There { id, end } if world.chance(Prng::coin) => {
                delete(&world, connection, plan, index, (id, end)).await
            }
            Known::There { id, end } => append(&world, connection, index, (id, end)).await,
            // Nobody knows: the next start tells.
            Known::Asked | Known::DeletionAsked { .. } => Ok(()),
        }
    };
    visit((&world, &machine, plan), is_over, (5, 400), act).await
}

async fn create(
    world: &Rc<World>,
    connection: &mut Connection,
    plan: LifePlan,
    index: usize,
) -> Verdict {
    let topic = CreatableTopic {
        name: NAMES[index].into(),
        num_partitions: world.chance(|prng| *prng.pick(&[1, 2, 4])),
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    world.passing.borrow_mut().known[index] = Known::Asked;
    let Some(frame) = connection.call(7, &request).await? else { return Ok(()) };
    let answer: CreateTopicsResponse<'_> = read(7, &frame)?;
    match answer.topics.first().map(|made| (made.error_code, made.topic_id)) {
        Some((ErrorCode::None, id)) => {
            world.passing.borrow_mut().appears(index, id)?;
            world.count(|stats| stats.passing_topics += 1);
            match end_of(connection, index).await? {
                None | Some(0) => Ok(()),
                Some(end) => {
                    let detail = format!("{}: ends at {end}", NAMES[index]);
                    broken("a new topic is empty", detail)
                }
            }
        }
        other => refused(plan, format!("create {}: {other:?}", NAMES[index])),
    }
}

async fn delete(
    world: &Rc<World>,
    connection: &mut Connection,
    plan: LifePlan,
    index: usize,
    (id, end): (TopicId, i64),
) -> Verdict {
    let by_id = world.chance(Prng::coin);
    let topic = DeleteTopicState {
        name: (!by_id).then(|| NAMES[index].into()),
        topic_id: if by_id { id } else { TopicId::default() },
    };
    let request =
        DeleteTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    world.passing.borrow_mut().known[index] = Known::DeletionAsked { id, end };
    if world.chance(|prng| prng.happens(OneIn(8))) {
        // Half a request deletes nothing, and half of an answer is none.
        connection.send(6, &request, super::connection::Answered::Yes);
        return Ok(());
    }
    let Some(frame) = connection.call(6, &request).await? else { return Ok(()) };
    let answer: DeleteTopicsResponse<'_> = read(6, &frame)?;
    match answer.responses.first().map(|gone| gone.error_code) {
        Some(ErrorCode::None) => {
            world.passing.borrow_mut().known[index] = Known::Gone;
            match find(connection, index).await? {
                None | Some(None) => Ok(()),
                Some(Some(found)) => {
                    let detail = format!("{}: {found} after its deletion", NAMES[index]);
                    broken("creations and deletions that were acknowledged hold", detail)
                }
            }
        }
        other => refused(plan, format!("delete {}: {other:?}", NAMES[index])),
    }
}

/// One record to its first partition: nobody else writes there.
async fn append(
    world: &Rc<World>,
    connection: &mut Connection,
    index: usize,
    (id, end): (TopicId, i64),
) -> Verdict {
    let mut builder = BatchBuilder::new(Codec::None);
    let timestamp = Timestamp(EPOCH_MS);
    builder.append(&NewRecord { timestamp, value: Some(b"passing"), ..NewRecord::default() });
    let bytes = builder.build();
    let data = PartitionProduceData { index: PartitionIndex(0), records: Records::Inline(&bytes) };
    let topic = TopicProduceData { topic_id: id, partition_data: vec![data], ..Default::default() };
    let topic_data = vec![topic];
    let request = ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data, ..Default::default() };
    let Some(frame) = connection.call(13, &request).await? else { return Ok(()) };
    let answer: ProduceResponse<'_> = read(13, &frame)?;
    let found = answer.responses.first().and_then(|topic| topic.partition_responses.first());
    let Some(found) = found.filter(|found| found.error_code == ErrorCode::None) else {
        return Ok(());
    };
    let base = found.base_offset.0;
    if base < end {
        let detail = format!("{}: appended at {base}, told {end}", NAMES[index]);
        return broken("what was shown or acknowledged stays", detail);
    }
    world.passing.borrow_mut().known[index] = Known::There { id, end: base + 1 };
    Ok(())
}

/// Only a disk that fails refuses; then nobody knows what became of it.
fn refused(plan: LifePlan, detail: String) -> Verdict {
    if plan.disk.may_refuse_changes() {
        return Ok(());
    }
    broken("refusals are explained by faults", detail)
}
