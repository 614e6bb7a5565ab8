//! Comparing a log with its model: every batch, every look-up, every report.
//!
//! Owns the reading side of the oracle. A read may be refused for one reason only while nothing fails: the batch at hand is
//! one that the world has spoiled; then the refusal must name exactly that batch, and the rest must be served.

use std::ops::Range;
use std::rc::Rc;

use commitlog::{AtLeastOneBatch, ReadBatches, ReadError, ReadRequest};
use partition::{Producers, ProducersOptions};
use record::{Fold, LeaderEpoch, Offset, Timestamp};

use super::model::LogModel;
use super::replica::Replica;
use super::start::Node;
use super::{LifePlan, World};
use crate::disk::SimDisk;
use crate::verdict::{Verdict, broken};

/// Look-ups by time in one comparison of a log.
const LOOKUPS: u64 = 4;

/// Whether the disk is failing reads at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadFaults {
    No,
    Possible,
}

/// Compares every log from its start to the end of what is safe.
pub(super) async fn everything(world: &Rc<World>, node: &Node, plan: LifePlan) -> Verdict {
    for replica in &node.replicas {
        whole_log(world, replica).await?;
        epochs(replica)?;
        if replica.failure.get().is_none() {
            producers(world, replica)?;
        }
        for _ in 0..LOOKUPS {
            lookup(world, replica, ReadFaults::No).await?;
        }
        damage_is_listed(node, replica)?;
    }
    world.trace.note("verified", "", [node.replicas.len() as u64, u64::from(plan.is_last)]);
    Ok(())
}

async fn whole_log(world: &World, replica: &Replica) -> Verdict {
    let ends = replica.log.ends();
    let mut from = ends.log_start();
    let started = replica.of().model.borrow().log_start;
    if from.0 != started {
        return broken("the log start never moves by itself", format!("{from}, model {started}"));
    }
    while from < ends.safe_end() {
        let bytes_max = world.chance(|prng| *prng.pick(&[1, 5_000, 100_000, 2 << 20]));
        let request =
            ReadRequest { from, end: ends.safe_end(), bytes_max, minimum: AtLeastOneBatch::Yes };
        let next = one_read(world, replica, request, ReadFaults::No).await?;
        if next <= from {
            return broken("progress", format!("a read at {from} returned nothing"));
        }
        from = next;
    }
    let acked = (ends.safe_end().0 - started).unsigned_abs();
    world.count(|stats| stats.acked_records_checked += acked);
    Ok(())
}

/// One read, compared; returns where the next one goes on.
pub(super) async fn one_read(
    world: &World,
    replica: &Replica,
    request: ReadRequest,
    faults: ReadFaults,
) -> Verdict<Offset> {
    let from = request.from;
    world.count(|stats| stats.reads += 1);
    let hot = replica.log.try_read_hot(&request);
    let result = match hot {
        Some(result) => result,
        None => replica.log.read(request).await,
    };
    match result {
        Ok(batches) => check_batches(&replica.of().model.borrow(), &request, &batches),
        Err(ReadError::Damaged { range }) => {
            let next = check_damage(&replica.of().model.borrow(), from.0, &range)?;
            world.count(|stats| stats.damage_isolated += 1);
            let mut refused = replica.refused.borrow_mut();
            if !refused.contains(&range) {
                refused.push(range);
            }
            Ok(next)
        }
        Err(ReadError::Io(_)) if faults == ReadFaults::Possible => Ok(from),
        Err(ReadError::BelowStart { log_start, .. })
            if from < log_start && log_start.0 <= replica.of().model.borrow().start_max =>
        {
            Ok(log_start)
        }
        Err(error) => broken("held records can be read", format!("{from}: {error}")),
    }
}

fn check_batches(
    model: &LogModel,
    request: &ReadRequest,
    batches: &ReadBatches<SimDisk>,
) -> Verdict<Offset> {
    let mut bytes = Vec::with_capacity(batches.bytes);
    for slice in &batches.slices {
        bytes.extend_from_slice(slice);
    }
    if bytes.is_empty() {
        return Ok(request.from);
    }
    let next = model.check_read(request.from.0, &bytes)?;
    if next != batches.next_offset.0 || next > request.end.0 {
        let detail = format!("read to {next}, says {}, end {}", batches.next_offset, request.end);
        return broken("a read says where it ended", detail);
    }
    let first = model.index_of(request.from.0).map_or(0, |index| model.batches[index].bytes.len());
    if bytes.len() > request.bytes_max.max(first) {
        let detail = format!("{} bytes, asked for {}", bytes.len(), request.bytes_max);
        return broken("a read is bounded", detail);
    }
    Ok(Offset(next))
}

/// The range must be whole spoiled batches, beginning with the one at hand, and what they hide.
fn check_damage(model: &LogModel, from: i64, range: &Range<Offset>) -> Verdict<Offset> {
    let damaged = model
        .batches
        .iter()
        .enumerate()
        .filter(|(_, batch)| range.start.0 <= batch.last && batch.base < range.end.0);
    let mut expected: Option<Range<i64>> = None;
    for (index, batch) in damaged {
        if !batch.is_rotten && !model.is_hidden(index) {
            let detail = format!("{range:?} at {from} takes in {:?}", batch.range());
            return broken("damage is isolated", detail);
        }
        let start = expected.as_ref().map_or(batch.base, |known| known.start);
        expected = Some(start..batch.last + 1);
    }
    let is_exact = expected.as_ref().is_some_and(|expected| {
        *expected == (range.start.0..range.end.0) && expected.contains(&from)
    });
    if !is_exact {
        return broken("damage is isolated", format!("{range:?} at {from}, model {expected:?}"));
    }
    Ok(range.end)
}

/// What reads have refused must be listed for the operator, and nothing else.
fn damage_is_listed(node: &Node, replica: &Replica) -> Verdict {
    let model = replica.of().model.borrow();
    let listed = node.damage_of(replica);
    for range in &listed {
        check_damage(&model, range.start.0, range)?;
    }
    for range in replica.refused.borrow().iter() {
        if range.end.0 > model.log_start && !listed.contains(range) {
            let detail = format!("{range:?} was refused, listed are {listed:?}");
            return broken("damage is listed", detail);
        }
    }
    Ok(())
}

fn epochs(replica: &Replica) -> Verdict {
    let model = replica.of().model.borrow();
    let latest = replica.epoch();
    let table = replica.log.epochs();
    if model.has_rot() {
        return Ok(());
    }
    if table.latest() != Some(latest) {
        return broken("leader epochs", format!("{:?}, model {latest}", table.latest()));
    }
    for batch in model.batches.iter().filter(|batch| batch.base >= model.log_start) {
        let found = table.end_offset_for(LeaderEpoch(batch.epoch), Offset(model.end()));
        let expected = model.epoch_end(batch.epoch);
        let is_right = found.as_ref().is_some_and(|end| {
            end.epoch == LeaderEpoch(batch.epoch) && end.end_offset.0 == expected
        });
        if !is_right {
            let detail = format!("epoch {} ends at {found:?}, model {expected}", batch.epoch);
            return broken("leader epochs", detail);
        }
    }
    Ok(())
}

fn producers(world: &World, replica: &Replica) -> Verdict {
    let model = replica.of().model.borrow();
    if model.has_rot() {
        return Ok(());
    }
    let options = ProducersOptions { mutant: world.mutant.leader, ..ProducersOptions::default() };
    let expected = model.producers(Producers::new(options));
    let found = replica.producers().borrow().snapshot();
    if found != expected {
        return broken("producer state", format!("{found:?}, model {expected:?}"));
    }
    Ok(())
}

/// One look-up by time, compared with a search from the front.
pub(super) async fn lookup(world: &World, replica: &Replica, faults: ReadFaults) -> Verdict {
    let end = replica.high_watermark();
    let target = {
        let model = replica.of().model.borrow();
        if model.batches.is_empty() {
            return Ok(());
        }
        let batch = world.chance(|prng| prng.pick(&model.batches).clone());
        let near = world.chance(|prng| *prng.pick(&batch.draft.timestamps));
        near + world.chance(|prng| prng.between(0, 2)).cast_signed() - 1
    };
    world.count(|stats| stats.lookups += 1);
    let started = replica.of().model.borrow().log_start;
    if target < 0 {
        return largest(replica, end, faults).await;
    }
    let found = match replica.log.offset_for_timestamp(Timestamp(target), end).await {
        Ok(found) => found.map(|at| (at.timestamp.0, at.offset.0, at.leader_epoch.0)),
        Err(ReadError::Io(_)) if faults == ReadFaults::Possible => return Ok(()),
        Err(error) => return broken("held records can be read", format!("time {target}: {error}")),
    };
    let model = replica.of().model.borrow();
    if model.log_start != started {
        // The start moved while it was looked up: either answer is right.
        return Ok(());
    }
    if model.has_rot() {
        return model.may_be_first_at(target, end.0, found);
    }
    let expected = model.first_at(target, end.0);
    if found != expected {
        let detail = format!("time {target} below {end}: {found:?}, model {expected:?}");
        return broken("look-ups by time are exact", detail);
    }
    Ok(())
}

async fn largest(replica: &Replica, end: Offset, faults: ReadFaults) -> Verdict {
    let started = replica.of().model.borrow().log_start;
    let found = match replica.log.offset_of_max_timestamp(end).await {
        Ok(found) => found.map(|at| (at.timestamp.0, at.offset.0)),
        Err(ReadError::Io(_)) if faults == ReadFaults::Possible => return Ok(()),
        Err(_) if replica.of().model.borrow().has_rot() => return Ok(()),
        Err(error) => return broken("held records can be read", format!("latest time: {error}")),
    };
    let model = replica.of().model.borrow();
    if model.log_start != started {
        return Ok(());
    }
    let expected = model.largest(end.0);
    if found != expected && !model.has_rot() {
        let detail = format!("largest time below {end}: {found:?}, model {expected:?}");
        return broken("look-ups by time are exact", detail);
    }
    Ok(())
}
