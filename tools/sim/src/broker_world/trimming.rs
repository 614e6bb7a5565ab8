//! Records that go: by request, and by themselves.
//!
//! Owns the administrator who deletes records, and the way of a reader to where a log begins. What was answered of a deletion
//! holds in all lives to come: the log never starts below it again, and nothing from below it is shown. Nothing else goes.

use std::collections::BTreeMap;
use std::rc::Rc;

use broker::sync::Flag;
use record::{Offset, PartitionIndex};
use wire::ErrorCode;
use wire::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteRecordsTopic,
};
use wire::list_offsets::ListOffsetsResponse;

use super::connection::{Connection, read, visit};
use super::history::{History, Place};
use super::verify::{EARLIEST, LIST_VERSION, request_of_targets};
use super::{LifePlan, World};
use crate::platform::SimMachine;
use crate::prng::{OneIn, Prng};
use crate::verdict::{Verdict, broken};

/// Of DeleteRecords.
const DELETE_VERSION: i16 = 2;
/// Further than any log comes.
const FAR: i64 = 1 << 40;

/// What is asked of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Records below this one go.
    Below(i64),
    /// All go that can.
    All,
    /// More than there are: this must be refused.
    TooMany,
}

impl Wanted {
    fn draw(prng: &mut Prng, high_watermark: i64) -> Self {
        match prng.below(12) {
            0 => Self::All,
            1 => Self::TooMany,
            2..5 => Self::Below(high_watermark),
            _ => {
                let below = prng.below(high_watermark.unsigned_abs() + 1);
                Self::Below(i64::try_from(below).expect("small"))
            }
        }
    }

    fn offset(self) -> Offset {
        match self {
            Self::Below(offset) => Offset(offset),
            Self::All => Offset(-1),
            Self::TooMany => Offset(FAR),
        }
    }
}

/// Deletes records until `is_over`.
pub(super) async fn delete(
    world: Rc<World>,
    machine: SimMachine,
    plan: LifePlan,
    is_over: Flag,
) -> Verdict {
    let act = async |connection: &mut Connection| delete_some(&world, connection, plan).await;
    visit((&world, &machine, plan), is_over, (5, 800), act).await
}

/// One request for a few partitions.
async fn delete_some(world: &World, connection: &mut Connection, plan: LifePlan) -> Verdict {
    let asked = draw(world);
    let request = {
        let mut history = world.history.borrow_mut();
        for (place, (wanted, _)) in &asked {
            match wanted {
                Wanted::Below(offset) => history.asks_deletion(*place, Some(*offset)),
                Wanted::All => history.asks_deletion(*place, None),
                Wanted::TooMany => {}
            }
        }
        request_of(&history, &asked)
    };
    if !plan.is_last && world.chance(|prng| prng.happens(OneIn(8))) {
        connection.send(DELETE_VERSION, &request, super::connection::Answered::Yes);
        return Ok(());
    }
    let Some(frame) = connection.call(DELETE_VERSION, &request).await? else { return Ok(()) };
    let answer: DeleteRecordsResponse<'_> = read(DELETE_VERSION, &frame)?;
    let mut answered = 0;
    for topic in &answer.topics {
        for found in &topic.partitions {
            let mut history = world.history.borrow_mut();
            let known = history.topics.iter().position(|one| *one.name == *topic.name);
            let place = known.and_then(|known| history.place(known, found.partition_index.0));
            let entry = place.and_then(|place| Some((place, *asked.get(&place)?)));
            let Some((place, entry)) = entry else {
                return broken("an answer names what was asked", format!("{found:?}"));
            };
            let has_moved = check(&mut history, plan, (place, entry), found)?;
            drop(history);
            world.count(|stats| stats.deletions += u64::from(has_moved));
            world.trace.note("deleted", "", [place.0 as u64, found.low_watermark.0.unsigned_abs()]);
            answered += 1;
        }
    }
    if answered != asked.len() {
        return broken("an answer names what was asked", format!("{answered} partitions"));
    }
    Ok(())
}

/// What to ask, with the log start that is known.
fn draw(world: &World) -> BTreeMap<Place, (Wanted, i64)> {
    let history = world.history.borrow();
    world.chance(|prng| {
        let mut asked = BTreeMap::new();
        for _ in 0..prng.between(1, 3) {
            let place = Place(prng.index(history.partitions.len()));
            let partition = history.partition(place);
            let wanted = Wanted::draw(prng, partition.high_watermark);
            asked.insert(place, (wanted, partition.log_start));
        }
        asked
    })
}

fn request_of(
    history: &History,
    asked: &BTreeMap<Place, (Wanted, i64)>,
) -> DeleteRecordsRequest<'static> {
    let mut topics: Vec<DeleteRecordsTopic<'static>> = Vec::new();
    for (place, (wanted, _)) in asked {
        let partition = history.partition(*place);
        let name = &history.topics[partition.topic].name;
        let partition_index = PartitionIndex(partition.index);
        let wanted = DeleteRecordsPartition { partition_index, offset: wanted.offset() };
        match topics.iter_mut().find(|one| *one.name == **name) {
            Some(known) => known.partitions.push(wanted),
            None => topics.push(DeleteRecordsTopic {
                name: name.to_string().into(),
                partitions: vec![wanted],
            }),
        }
    }
    DeleteRecordsRequest { topics, timeout_ms: 30_000 }
}

/// Compares one partition of an answer; true where its log starts where it was asked to.
fn check(
    history: &mut History,
    plan: LifePlan,
    (place, (wanted, floor)): (Place, (Wanted, i64)),
    found: &DeleteRecordsPartitionResult,
) -> Verdict<bool> {
    match (found.error_code, wanted) {
        (ErrorCode::None, Wanted::Below(offset)) => {
            history.deleted(place, floor, Some(offset), found.low_watermark.0)?;
            Ok(offset > floor)
        }
        (ErrorCode::None, Wanted::All) => {
            history.deleted(place, floor, None, found.low_watermark.0)?;
            Ok(found.low_watermark.0 > floor)
        }
        (ErrorCode::OffsetOutOfRange, Wanted::TooMany) => Ok(false),
        (ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError, _) if !plan.is_last => {
            Ok(false)
        }
        (error, _) => {
            let detail = format!("{}: delete {wanted:?}: {error:?}", history.name(place));
            broken("refusals are explained by faults", detail)
        }
    }
}

/// Where the logs of these partitions start; those that say so. `None` at the end of the connection.
pub(super) async fn starts(
    world: &World,
    connection: &mut Connection,
    places: &[Place],
    is_at_rest: bool,
) -> Verdict<Option<BTreeMap<Place, i64>>> {
    let targets: Vec<(Place, i64)> = places.iter().map(|place| (*place, EARLIEST)).collect();
    let (request, floors) = {
        let history = world.history.borrow();
        let floor = |place: &Place| (*place, history.partition(*place).log_start);
        let floors: BTreeMap<Place, i64> = places.iter().map(floor).collect();
        (request_of_targets(&history, &targets), floors)
    };
    let Some(frame) = connection.call(LIST_VERSION, &request).await? else { return Ok(None) };
    let answer: ListOffsetsResponse<'_> = read(LIST_VERSION, &frame)?;
    let history = world.history.borrow();
    let mut starts = BTreeMap::new();
    for topic in &answer.topics {
        let known = history.topics.iter().position(|one| *one.name == *topic.name);
        for found in &topic.partitions {
            let place = known.and_then(|known| history.place(known, found.partition_index.0));
            let entry = place.and_then(|place| Some((place, *floors.get(&place)?)));
            let Some((place, floor)) = entry else {
                return broken("an answer names what was asked", format!("{found:?}"));
            };
            match found.error_code {
                ErrorCode::None => {
                    history.told_log_start(place, floor, found.offset.0, i64::MAX)?;
                    starts.insert(place, found.offset.0);
                }
                ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError if !is_at_rest => {}
                error => {
                    let detail = format!("{}: list offsets: {error:?}", history.name(place));
                    return broken("refusals are explained by faults", detail);
                }
            }
        }
    }
    if is_at_rest && starts.len() != floors.len() {
        return broken("an answer names what was asked", format!("{} partitions", starts.len()));
    }
    Ok(Some(starts))
}
