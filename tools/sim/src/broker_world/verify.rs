//! Reading everything back: what was shown or acknowledged is there, and nothing else.
//!
//! Owns the comparison of a node at rest with the history: every partition from its start to its high watermark, over one
//! connection, and offsets by time.

use std::collections::BTreeMap;
use std::rc::Rc;

use record::{Offset, PartitionIndex};
use wire::ErrorCode;
use wire::fetch::FetchResponse;
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};

use super::connection::{Answered, Connection, read};
use super::consumer::{Appetite, asked_of, request_of, take_partitions};
use super::history::{History, Place};
use super::producer::RESIDUES;
use super::{LifePlan, World, trimming};
use crate::platform::SimMachine;
use crate::verdict::{Verdict, broken};

/// Of Fetch: the last that names topics.
const FETCH_VERSION: i16 = 12;
/// Of ListOffsets.
pub(super) const LIST_VERSION: i16 = 7;
/// The end of a log.
const LATEST: i64 = -1;
/// Its start.
pub(super) const EARLIEST: i64 = -2;

/// Reads every partition and compares it. Order: while nobody produces.
pub(super) async fn everything(world: &Rc<World>, machine: &SimMachine, plan: LifePlan) -> Verdict {
    let Some(mut connection) = Connection::open(world, machine, plan) else {
        return broken("a node that is ready listens", "nobody does");
    };
    let count = world.history.borrow().partitions.len();
    let places: Vec<Place> = (0..count).map(Place).collect();
    let mut starts = starts_at_rest(world, &mut connection, &places).await?;
    let mut positions = starts.clone();
    let mut ends: BTreeMap<Place, i64> = BTreeMap::new();
    while positions.iter().any(|(place, at)| ends.get(place).is_none_or(|end| at < end)) {
        let gone = read_on(world, &mut connection, &mut positions, &mut ends).await?;
        // Old segments go by themselves at any time.
        let later = starts_at_rest(world, &mut connection, &gone).await?;
        starts.extend(later.clone());
        positions.extend(later);
    }
    for (place, end) in &ends {
        let history = world.history.borrow();
        history.read_whole(*place, starts[place], *end)?;
        let placed = history.placed_count(*place);
        world.count(|stats| stats.verified_batches += placed);
    }
    let bounds = ends.iter().map(|(place, end)| (*place, (starts[place], *end)));
    look_up(world, &mut connection, &bounds.collect()).await
}

async fn starts_at_rest(
    world: &Rc<World>,
    connection: &mut Connection,
    places: &[Place],
) -> Verdict<BTreeMap<Place, i64>> {
    if places.is_empty() {
        return Ok(BTreeMap::new());
    }
    match trimming::starts(world, connection, places, true).await? {
        Some(starts) => Ok(starts),
        None => broken("a node at rest answers", "the connection ended"),
    }
}

async fn read_on(
    world: &Rc<World>,
    connection: &mut Connection,
    positions: &mut BTreeMap<Place, i64>,
    ends: &mut BTreeMap<Place, i64>,
) -> Verdict<Vec<Place>> {
    let mut places: Vec<Place> = positions.keys().copied().collect();
    let appetite = world.chance(|prng| {
        prng.shuffle(&mut places);
        let max_bytes = *prng.pick(&[5_000, 100_000, 1 << 20]);
        Appetite { max_wait_ms: 0, min_bytes: 0, max_bytes, partition_max_bytes: max_bytes }
    });
    let asked = asked_of(world, positions);
    let request = request_of(world, &asked, &places, appetite);
    connection.send(FETCH_VERSION, &request, Answered::Yes);
    let Some(frame) = connection.hear().await? else {
        return broken("a node at rest answers", "the connection ended");
    };
    let answer: FetchResponse<'_> = read(FETCH_VERSION, &frame)?;
    let answered = take_partitions(world, FETCH_VERSION, &asked, &answer, true)?;
    let count = answered.next.len();
    if count != positions.len() {
        return broken("an answer names what was asked", format!("{count} partitions"));
    }
    let history = world.history.borrow();
    for (place, next) in &answered.next {
        // Nobody produces: what is known now is the end.
        ends.insert(*place, history.partition(*place).high_watermark);
        positions.insert(*place, *next);
    }
    Ok(answered.gone)
}

/// One look-up in every partition at once: its end, its start, or the first record of some time.
async fn look_up(
    world: &Rc<World>,
    connection: &mut Connection,
    bounds: &BTreeMap<Place, (i64, i64)>,
) -> Verdict {
    for _ in 0..3 {
        let targets = bounds.iter().map(|(place, at)| (*place, draw_target(world, *place, *at)));
        let targets: Vec<(Place, i64)> = targets.collect();
        let request = request_of_targets(&world.history.borrow(), &targets);
        let Some(frame) = connection.call(LIST_VERSION, &request).await? else {
            return broken("a node at rest answers", "the connection ended");
        };
        let answer: ListOffsetsResponse<'_> = read(LIST_VERSION, &frame)?;
        let history = world.history.borrow();
        for topic in &answer.topics {
            let known = history.topics.iter().position(|one| *one.name == *topic.name);
            for found in &topic.partitions {
                let place = known.and_then(|known| history.place(known, found.partition_index.0));
                let target = targets.iter().find(|(asked, _)| Some(*asked) == place);
                let Some((place, target)) = target else {
                    return broken("an answer names what was asked", format!("{found:?}"));
                };
                if found.error_code != ErrorCode::None {
                    let detail = format!("list offsets: {:?}", found.error_code);
                    return broken("refusals are explained by faults", detail);
                }
                let facts = (found.timestamp.0, found.offset);
                check_found(&history, *place, *target, bounds[place], facts)?;
                world.count(|stats| stats.lookups += 1);
            }
        }
    }
    Ok(())
}

fn draw_target(world: &World, place: Place, (start, end): (i64, i64)) -> i64 {
    let history = world.history.borrow();
    world.chance(|prng| match prng.below(3) {
        0 => LATEST,
        1 => EARLIEST,
        _ if end == start => EARLIEST,
        _ => {
            let below_end = prng.below((end - start).unsigned_abs());
            let offset = start + i64::try_from(below_end).expect("small");
            history.batch_at(place, offset).map_or(LATEST, |(_, batch)| batch.base_timestamp)
        }
    })
}

/// A ListOffsets of these.
pub(super) fn request_of_targets(
    history: &History,
    targets: &[(Place, i64)],
) -> ListOffsetsRequest<'static> {
    let mut topics: Vec<ListOffsetsTopic<'static>> = Vec::new();
    for (place, timestamp) in targets {
        let partition = history.partition(*place);
        let name = &history.topics[partition.topic].name;
        let wanted = ListOffsetsPartition {
            partition_index: PartitionIndex(partition.index),
            timestamp: *timestamp,
            ..Default::default()
        };
        match topics.iter_mut().find(|one| *one.name == **name) {
            Some(known) => known.partitions.push(wanted),
            None => topics
                .push(ListOffsetsTopic { name: name.to_string().into(), partitions: vec![wanted] }),
        }
    }
    ListOffsetsRequest { topics, ..Default::default() }
}

fn check_found(
    history: &History,
    place: Place,
    target: i64,
    (start, end): (i64, i64),
    (timestamp, offset): (i64, Offset),
) -> Verdict {
    let has_moved = history.retains && offset.0 > start;
    let is_right = match target {
        LATEST => offset.0 == end,
        EARLIEST => offset.0 == start || has_moved,
        _ => {
            // The first record of that time or later: none before it is as late.
            let residue = i64::try_from(place.0).expect("a few") % RESIDUES;
            let found = history.batch_at(place, offset.0);
            // All records of a batch are of one time: the first of them that is still there is found.
            let is_there = found.is_some_and(|(base, batch)| {
                base.max(start) == offset.0
                    && batch.base_timestamp == timestamp
                    && timestamp >= target
            });
            let is_first = history.is_first_at(place, target, start, offset.0);
            is_there && timestamp % RESIDUES == residue && (is_first || history.retains)
        }
    };
    if is_right {
        return Ok(());
    }
    let name = history.name(place);
    let detail = format!("{name}: {offset} ({timestamp}) for {target}, {start}..{end}");
    broken("look-ups are exact, and each for its partition", detail)
}
