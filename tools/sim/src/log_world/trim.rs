//! Records that go: by request, and by retention.
//!
//! Owns these tasks and the oracle of retention: a plain look at the batches, which knows nothing of segments. What was told
//! to a client may not come back; what nobody allowed may not go.

use std::ops::Range;
use std::rc::Rc;

use commitlog::{RetentionPolicy, TrimError};
use record::{Offset, Timestamp};

use super::replica::Replica;
use super::start::{Node, SimStore};
use super::work::pause;
use super::{FaultPlan, LifePlan, World};
use crate::disk::SimDisk;
use crate::prng::OneIn;
use crate::verdict::{Verdict, broken};

/// Later than any record and any segment of a world by more than any policy allows.
const LONG_AFTER: Timestamp = Timestamp(super::EPOCH_MS + 10 * 365 * 86_400_000);

/// Trims the logs of one shard, now and then.
pub(super) async fn run(
    world: Rc<World>,
    store: SimStore,
    replicas: Vec<Rc<Replica>>,
    plan: LifePlan,
) -> Verdict {
    for _ in 0..world.config.batches_per_life {
        pause(&world).await;
        if !world.chance(|prng| prng.happens(OneIn(3))) {
            continue;
        }
        let replica = world.chance(|prng| Rc::clone(prng.pick(&replicas)));
        if world.config.trims.deletes && world.chance(|prng| prng.coin()) {
            delete(&world, &store, &replica, plan).await?;
        } else {
            retain(&world, &store, &replica, plan).await?;
        }
    }
    Ok(())
}

/// One DeleteRecords request, and the removal that follows it.
async fn delete(world: &World, store: &SimStore, replica: &Replica, plan: LifePlan) -> Verdict {
    let high_watermark = replica.high_watermark();
    let offset = world.chance(|prng| match prng.below(4) {
        0 => high_watermark,
        1 => Offset(high_watermark.0 + 1),
        _ => Offset(prng.below(high_watermark.0.unsigned_abs() + 1).cast_signed()),
    });
    if offset <= high_watermark
        && let Err(failure) = replica.log.durable_through(Offset(offset.0 - 1)).await
    {
        // Under write caching a log that failed has more than it may let go of.
        return match replica.failure.get() {
            Some(_) if replica.log.ends().durable() < high_watermark => Ok(()),
            _ => broken("what is to go becomes durable", failure.to_string()),
        };
    }
    match replica.log.raise_log_start(offset) {
        Ok(_) => {}
        Err(TrimError::BeyondEnd { .. }) if offset > high_watermark => return Ok(()),
        Err(error) => return broken("records below the high watermark can go", format!("{error}")),
    }
    let answer = store.persist_log_starts(std::slice::from_ref(&replica.log), world.now()).await;
    match answer.as_slice() {
        [Ok(log_start)] => {
            replica.of().model.borrow_mut().start_told(log_start.0);
            world.count(|stats| stats.starts_moved += 1);
        }
        [Err(TrimError::NotLasting { .. })] if plan.faults != FaultPlan::None => {}
        other => return broken("a healthy disk keeps a log start", format!("{other:?}")),
    }
    if world.chance(|prng| prng.coin()) {
        return Ok(());
    }
    match store.remove_below_start(&replica.log, world.now()).await {
        Ok(removed) => world.count(|stats| stats.segments_removed += removed.len() as u64),
        Err(_) if plan.faults != FaultPlan::None => {}
        Err(error) => return broken("a healthy disk removes segments", error.to_string()),
    }
    Ok(())
}

async fn retain(world: &World, store: &SimStore, replica: &Replica, plan: LifePlan) -> Verdict {
    let policy = world.config.trims.policy;
    let before = replica.log.ends().log_start();
    let now = world.now();
    let applied = store.apply_retention(&replica.log, policy, now).await;
    let after = replica.log.ends().log_start();
    if after > before {
        check(replica, policy, now, before..after)?;
    }
    match applied {
        Ok(removed) => world.count(|stats| stats.segments_removed += removed.len() as u64),
        Err(_) if plan.faults != FaultPlan::None => {}
        Err(_) if replica.of().model.borrow().has_rot() => {}
        Err(error) => return broken("a healthy disk applies retention", error.to_string()),
    }
    Ok(())
}

/// What is left on the disk says where each log goes on, even if no checkpoint could be read: a name of one of its segments.
pub(super) fn names_are_kept(world: &World, disk: &SimDisk) -> Verdict {
    let files = disk.files();
    if files.iter().any(|(path, _)| path.starts_with("journal/")) {
        // The journal names the segments that a replay makes.
        return Ok(());
    }
    for log in world.logs.iter().filter(|log| log.model.borrow().acked_end > 0) {
        let directory = format!("{}/", log.directory());
        let is_name = |path: &str| path.starts_with(&directory) && path.ends_with(".log");
        if !files.iter().any(|(path, _)| is_name(path)) {
            let detail = format!("{directory}: no segment file is left");
            return broken("a name says where a log goes on", detail);
        }
    }
    Ok(())
}

/// Nothing fails any more, nothing is appended, and time has passed: what the policy lets go has to be gone.
pub(super) async fn goes_in_the_end(world: &World, node: &Node) -> Verdict {
    let policy = world.config.trims.policy;
    'logs: for replica in &node.replicas {
        let store = &node.stores[world.shard_of(replica.index, node.stores.len())];
        // Twice: a segment that was closed for its age by the first call may have to be sealed before it goes.
        for _ in 0..2 {
            let applied = store.apply_retention(&replica.log, policy, LONG_AFTER).await;
            match applied {
                Ok(removed) => world.count(|stats| stats.segments_removed += removed.len() as u64),
                Err(_) if replica.of().model.borrow().has_rot() => continue 'logs,
                Err(error) => return broken("a healthy disk applies retention", error.to_string()),
            }
        }
        let model = replica.of().model.borrow();
        let (log_start, end) = (replica.log.ends().log_start().0, model.end());
        let must_all_go = policy.age_ms_max.is_some() || policy.bytes_max == Some(0);
        let held_max = policy.bytes_max.map(|bytes| bytes + u64::from(world.config.segment_bytes));
        let is_wrong = (must_all_go && (log_start != end || replica.log.segment_count() > 1))
            || held_max.is_some_and(|held_max| model.held_bytes() > held_max);
        if is_wrong && !model.has_rot() {
            let detail = format!(
                "{}: starts at {log_start} of {end}, {} bytes in {} segments, {policy:?}",
                replica.of().directory(),
                model.held_bytes(),
                replica.log.segment_count(),
            );
            return broken("what policy lets go goes", detail);
        }
    }
    Ok(())
}

/// Every batch that went was too old, or the log without it is still as large as it may be.
fn check(
    replica: &Replica,
    policy: RetentionPolicy,
    now: Timestamp,
    gone: Range<Offset>,
) -> Verdict {
    let model = replica.of().model.borrow();
    let still_held = model.held_bytes();
    let is_large = policy.bytes_max.is_some_and(|bytes_max| still_held >= bytes_max);
    if is_large {
        return Ok(());
    }
    let is_gone = |last: i64| gone.contains(&Offset(last));
    // What is damaged on disk has no age that the log could know: it goes with what can be read around it.
    let held = model.batches.iter().filter(|batch| !batch.is_rotten);
    for batch in held.filter(|batch| is_gone(batch.last)) {
        let newest = batch.draft.timestamps.iter().copied().max().unwrap_or(-1);
        // A batch without timestamps goes with its segment, whose others may be old.
        let is_old = policy.age_ms_max.is_some_and(|age_ms| now.0 - newest > age_ms);
        if !is_old {
            let detail = format!(
                "batch at {} of time {newest} went at {}, {still_held} bytes left, {policy:?}",
                batch.base, now.0
            );
            return broken("only what policy lets go goes", detail);
        }
    }
    Ok(())
}
