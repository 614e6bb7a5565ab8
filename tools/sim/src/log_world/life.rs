//! One life of the process, from start to its planned end.
//!
//! Owns the order: start, compare, work under faults, make peace, end. It returns the first property that did not hold; a
//! start that fails is a violation unless the disk was made to fail.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use commitlog::{IoStage, LogFailure, SafeEnd, StartKind};
use futures_lite::future::or;

use super::replica::Replica;
use super::start::{self, Node, SimStore, StartError, Stopped};
use super::{Ending, FaultPlan, LifePlan, World, scrub, trim, verify, work};
use crate::disk::{Faults, SimDisk};
use crate::prng::OneIn;
use crate::verdict::{Verdict, broken};

/// Virtual time that pending acknowledgements get once faults are over: far more than any operation takes.
const PEACE: Duration = Duration::from_secs(60);

/// Read by a start after a clean stop: identity, marker, checkpoints…
const CLEAN_START_BYTES: u64 = 32 << 10;
/// …and for each log its metadata, epochs, snapshot, last index entry and the two blocks that its last batch lies in.
const CLEAN_START_BYTES_A_LOG: u64 = 24 << 10;

pub(super) async fn live(world: Rc<World>, disk: SimDisk, plan: LifePlan) -> Verdict {
    disk.set_faults(Faults::default());
    disk.set_capacity(u64::MAX);
    set_start_faults(&world, &disk, plan);
    let errors_before = disk.stats().errors + disk.stats().refused;
    let excused_before = world.excused_errors.get();
    let read_before = disk.stats().read_bytes;
    let node = match start::start(&world, &disk, plan).await {
        Ok(node) => node,
        Err(StartError::Broken(violation)) => return Err(violation),
        Err(StartError::Refused(_))
            if errors_before + world.excused_errors.get() - excused_before
                < disk.stats().errors + disk.stats().refused =>
        {
            return Ok(());
        }
        Err(StartError::Refused(detail)) => return broken("a healthy disk starts", detail),
    };
    disk.set_faults(Faults::default());
    world.is_up.set(true);
    clean_start_reads_little(&world, &node, disk.stats().read_bytes - read_before)?;
    verify::everything(&world, &node, plan).await?;
    set_faults(&world, &disk, plan);
    work_until_done(&world, &disk, &node, plan).await?;
    disk.set_faults(Faults::default());
    disk.set_capacity(u64::MAX);
    let sets: u64 = node.stores.iter().map(|store| store.counters().journal_sets).sum();
    world.count(|stats| stats.journal_sets += sets);
    let mut node = node;
    if plan.faults == FaultPlan::FullDisk {
        let resumed = start::resume(&world, &mut node, plan).await?;
        world.count(|stats| stats.resumed += resumed as u64);
        // As if there had never been a fault: every batch is taken, every acknowledgement comes.
        let healthy = LifePlan { faults: FaultPlan::None, ..plan };
        work_until_done(&world, &disk, &node, healthy).await?;
        settle(&world, &node).await?;
        verify::everything(&world, &node, healthy).await?;
    }
    if plan.ending != Ending::Clean {
        if world.chance(|prng| prng.coin()) {
            cut_off_stop(&world, &node).await;
        }
        return Ok(());
    }
    settle(&world, &node).await?;
    // Before everything is read: what only the scrubber has met is listed as well.
    for replica in &node.replicas {
        scrub::everything(&world, &disk, replica).await?;
    }
    verify::everything(&world, &node, plan).await?;
    if plan.is_last {
        trim::goes_in_the_end(&world, &node).await?;
        verify::everything(&world, &node, plan).await?;
    }
    stop(&world, &disk, node).await
}

/// P07: after a clean stop the small files and the last block of each log are read, and no segment is scanned.
fn clean_start_reads_little(world: &World, node: &Node, bytes: u64) -> Verdict {
    world.trace.note("start-read", "", [bytes, 0]);
    let bound = CLEAN_START_BYTES + CLEAN_START_BYTES_A_LOG * node.replicas.len() as u64;
    if node.start == StartKind::Clean && world.is_untouched.get() && bytes > bound {
        return broken(
            "a clean start reads almost nothing",
            format!("{bytes} bytes, bound {bound}"),
        );
    }
    world.is_untouched.set(false);
    Ok(())
}

/// Some starts run on a failing disk: they may refuse, and must not do harm.
fn set_start_faults(world: &World, disk: &SimDisk, plan: LifePlan) {
    if plan.is_last || !world.chance(|prng| prng.happens(OneIn(12))) {
        return;
    }
    let odds = world.chance(|prng| OneIn(u32::try_from(prng.between(10, 80)).expect("small")));
    let faults = match plan.faults {
        FaultPlan::Reads => Faults { read_error: odds, ..Faults::default() },
        FaultPlan::Writes => Faults { write_error: odds, ..Faults::default() },
        FaultPlan::Syncs => Faults { sync_error: odds, ..Faults::default() },
        FaultPlan::Names => Faults { name_error: odds, ..Faults::default() },
        _ => Faults::default(),
    };
    disk.set_faults(faults);
}

fn set_faults(world: &World, disk: &SimDisk, plan: LifePlan) {
    let odds = world.chance(|prng| OneIn(u32::try_from(prng.between(3, 60)).expect("small")));
    let faults = match plan.faults {
        FaultPlan::None | FaultPlan::BitRot => Faults::default(),
        FaultPlan::Slow => Faults { slow: odds, ..Faults::default() },
        FaultPlan::Reads => Faults { read_error: odds, ..Faults::default() },
        FaultPlan::Writes => {
            let aimed_at = world.chance(|prng| *prng.pick(&[".log", ".log", ".journal"]));
            Faults { write_error: odds, aimed_at, ..Faults::default() }
        }
        FaultPlan::Syncs => Faults { sync_error: odds, ..Faults::default() },
        FaultPlan::Names => Faults { name_error: odds, ..Faults::default() },
        FaultPlan::FullDisk => {
            let room = world.chance(|prng| prng.between(0, 200_000));
            disk.set_capacity(disk.used_bytes() + room);
            Faults::default()
        }
    };
    disk.set_faults(faults);
}

async fn work_until_done(
    world: &Rc<World>,
    disk: &SimDisk,
    node: &Node,
    plan: LifePlan,
) -> Verdict {
    let running = work::begin(world, disk, node, plan);
    while running.get() > 0 && world.violation.borrow().is_none() {
        world.executor.sleep(Duration::from_micros(300)).await;
    }
    finish(world, &running)
}

fn finish(world: &World, running: &Cell<usize>) -> Verdict {
    match world.violation.borrow_mut().take() {
        Some(violation) => Err(violation),
        None => {
            assert_eq!(running.get(), 0);
            Ok(())
        }
    }
}

/// Faults are over: whatever a healthy log accepted is acknowledged, a failed log has answered everyone.
async fn settle(world: &Rc<World>, node: &Node) -> Verdict {
    let deadline = world.executor.now() + PEACE;
    // Those first that must not need a turn of syncs.
    let mut replicas: Vec<&Rc<Replica>> = node.replicas.iter().collect();
    replicas.sort_by_key(|replica| replica.safe_end.get() == SafeEnd::Written);
    for replica in replicas {
        while replica.waiting_count() > 0 || !is_settled(replica) {
            if replica.safe_end.get() == SafeEnd::Written {
                // As the broker does, all the time.
                node.stores.iter().for_each(SimStore::sync_written);
            }
            if world.executor.now() > deadline {
                let detail = format!(
                    "{}: {} producers wait, ends {:?}, failure {:?}",
                    replica.of().directory(),
                    replica.waiting_count(),
                    replica.log.ends(),
                    replica.failure.get(),
                );
                return broken("progress", detail);
            }
            world.executor.sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(())
}

/// Whether all that a healthy log accepted is on stable storage, and all that one promised which cannot write any more.
fn is_settled(replica: &Replica) -> bool {
    let (ends, model_end) = (replica.log.ends(), replica.of().model.borrow().end());
    match replica.failure.get() {
        None => ends.durable().0 == model_end,
        // Where names cannot be made they may not become lasting either: a sync that fails after that is told of no more.
        Some(LogFailure::Io { stage, .. }) if stage != IoStage::Write => true,
        Some(_) => ends.durable() >= ends.safe_end(),
    }
}

/// A stop that somebody does not wait for: the process ends before its last checkpoint, or soon after.
async fn cut_off_stop(world: &World, node: &Node) {
    let micros = world.chance(|prng| match prng.below(3) {
        0 => prng.between(0, 1_000),
        _ => prng.between(1_000, 10_000),
    });
    let close = async {
        for store in &node.stores {
            // Whether it ends well is nobody's to see.
            let _ = store.close(world.now()).await;
        }
    };
    world.count(|stats| stats.stops_cut_off += 1);
    or(close, world.executor.sleep(Duration::from_micros(micros))).await;
}

/// A stop in order.
async fn stop(world: &Rc<World>, disk: &SimDisk, node: Node) -> Verdict {
    if start::stop(world, disk, &node).await? == Stopped::NextRecovers {
        return Ok(());
    }
    world.is_untouched.set(node.replicas.iter().all(|replica| replica.failure.get().is_none()));
    world.count(|stats| stats.clean_stops += 1);
    Ok(())
}
