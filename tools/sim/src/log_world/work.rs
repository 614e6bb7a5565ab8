//! What happens at the same time in one life: writers, readers, seekers by time, checkpoints, rot.
//!
//! Owns the tasks. Each draws its next step from the seed, reports the first broken property and stops; none waits for
//! another, so that the executor may interleave them as it likes.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use commitlog::{AtLeastOneBatch, Executor, ReadRequest, SafeEnd, TaskClass};
use record::Offset;

use super::replica::{Produced, Replica};
use super::start::{Node, SimStore};
use super::verify::{self, ReadFaults};
use super::{FaultPlan, LifePlan, World, scrub, tamper, trim};
use crate::disk::SimDisk;
use crate::prng::OneIn;
use crate::verdict::{Verdict, broken};

/// Attempts of a writer whose log's memory is full, before it counts as stuck.
const FULL_TRIES_MAX: u32 = 10_000;

/// Starts every task; the cell counts those that still run.
pub(super) fn begin(
    world: &Rc<World>,
    disk: &SimDisk,
    node: &Node,
    plan: LifePlan,
) -> Rc<Cell<usize>> {
    let running = Rc::new(Cell::new(0));
    let faults = match plan.faults {
        FaultPlan::None | FaultPlan::Slow | FaultPlan::BitRot | FaultPlan::FullDisk => {
            ReadFaults::No
        }
        _ => ReadFaults::Possible,
    };
    for replica in &node.replicas {
        start(world, &running, write(Rc::clone(world), Rc::clone(replica)));
        for _ in 0..world.chance(|prng| prng.between(0, 2)) {
            start(world, &running, read(Rc::clone(world), Rc::clone(replica), faults));
        }
        if world.chance(|prng| prng.happens(OneIn(3))) {
            start(world, &running, seek(Rc::clone(world), Rc::clone(replica), faults));
        }
        if world.chance(|prng| prng.coin()) {
            let task = scrub::run(Rc::clone(world), disk.clone(), Rc::clone(replica), faults);
            start(world, &running, task);
        }
    }
    for (shard, store) in node.stores.iter().enumerate() {
        let replicas = node.replicas_of(world, shard);
        if !replicas.is_empty() {
            start(world, &running, cache(Rc::clone(world), store.clone(), replicas.clone()));
            start(world, &running, checkpoint(Rc::clone(world), store.clone(), plan));
            if world.config.trims.any() {
                let task = trim::run(Rc::clone(world), store.clone(), replicas, plan);
                start(world, &running, task);
            }
        }
    }
    if plan.faults == FaultPlan::BitRot {
        let (world, disk) = (Rc::clone(world), disk.clone());
        start(&Rc::clone(&world), &running, rot(world, disk));
    }
    running
}

fn start(
    world: &Rc<World>,
    running: &Rc<Cell<usize>>,
    task: impl Future<Output = Verdict> + 'static,
) {
    running.set(running.get() + 1);
    let (world_of_task, running) = (Rc::clone(world), Rc::clone(running));
    world.executor.spawn(
        TaskClass::Foreground,
        Box::pin(async move {
            if let Err(violation) = task.await {
                world_of_task.report(violation);
            }
            running.set(running.get() - 1);
        }),
    );
}

/// Now and then at once, mostly a little later, seldom much later.
pub(super) async fn pause(world: &World) {
    let micros = world.chance(|prng| match prng.below(6) {
        0..2 => 0,
        2..5 => prng.between(1, 400),
        _ => prng.between(1_000, 60_000),
    });
    match micros {
        0 => world.executor.yield_now().await,
        _ => world.executor.sleep(Duration::from_micros(micros)).await,
    }
}

async fn write(world: Rc<World>, replica: Rc<Replica>) -> Verdict {
    let mut left = world.config.batches_per_life;
    let mut tries = 0;
    while left > 0 {
        // A burst: arrivals during a sync form the next group.
        for _ in 0..world.chance(|prng| prng.between(1, 5)) {
            match replica.produce()? {
                Produced::Taken => {
                    left = left.saturating_sub(1);
                    tries = 0;
                }
                Produced::Later if tries >= FULL_TRIES_MAX => {
                    return broken("progress", "a log stays full");
                }
                Produced::Later => tries += 1,
                Produced::Refused => return refusals_last(&world, &replica).await,
            }
        }
        pause(&world).await;
    }
    Ok(())
}

/// A failed log goes on refusing: trying again proves nothing.
async fn refusals_last(world: &World, replica: &Replica) -> Verdict {
    for _ in 0..3 {
        pause(world).await;
        if replica.produce()? == Produced::Taken {
            return broken("a failed log refuses appends", format!("{:?}", replica.log.ends()));
        }
    }
    Ok(())
}

async fn read(world: Rc<World>, replica: Rc<Replica>, faults: ReadFaults) -> Verdict {
    for _ in 0..world.config.batches_per_life {
        pause(&world).await;
        let end = replica.high_watermark();
        if end == Offset::ZERO {
            continue;
        }
        let from = world.chance(|prng| match prng.below(3) {
            0 => Offset(prng.below(end.0.unsigned_abs()).cast_signed()),
            1 => Offset(end.0 - 1),
            _ => Offset((end.0 - 1 - prng.below(20).cast_signed()).max(0)),
        });
        let bytes_max = world.chance(|prng| *prng.pick(&[1, 3_000, 60_000, 1 << 20]));
        let request = ReadRequest { from, end, bytes_max, minimum: AtLeastOneBatch::Yes };
        let next = verify::one_read(&world, &replica, request, faults).await?;
        if next <= from && faults == ReadFaults::No {
            return broken("progress", format!("a read at {from} below {end} returned nothing"));
        }
    }
    Ok(())
}

async fn seek(world: Rc<World>, replica: Rc<Replica>, faults: ReadFaults) -> Verdict {
    for _ in 0..world.config.batches_per_life / 4 {
        pause(&world).await;
        verify::lookup(&world, &replica, faults).await?;
    }
    Ok(())
}

async fn checkpoint(world: Rc<World>, store: SimStore, plan: LifePlan) -> Verdict {
    for _ in 0..world.config.batches_per_life {
        pause(&world).await;
        if !world.chance(|prng| prng.happens(OneIn(3))) {
            continue;
        }
        match store.checkpoint(world.now()).await {
            Ok(()) => {}
            Err(_) if plan.faults != FaultPlan::None => {}
            Err(error) => return broken("checkpoints are written", format!("{error}")),
        }
    }
    Ok(())
}

/// What the broker does all the time for logs under write caching; and now and then that begins or ends.
async fn cache(world: Rc<World>, store: SimStore, replicas: Vec<Rc<Replica>>) -> Verdict {
    for _ in 0..world.config.batches_per_life {
        pause(&world).await;
        if world.chance(|prng| prng.happens(world.config.sync_turn_odds)) {
            store.sync_written();
        }
        if world.chance(|prng| prng.happens(OneIn(40))) {
            let replica = world.chance(|prng| Rc::clone(prng.pick(&replicas)));
            let safe_end = world.chance(|prng| *prng.pick(&[SafeEnd::Durable, SafeEnd::Written]));
            replica.set_safe_end(safe_end);
        }
    }
    Ok(())
}

async fn rot(world: Rc<World>, disk: SimDisk) -> Verdict {
    for _ in 0..world.chance(|prng| prng.between(1, 3)) {
        pause(&world).await;
        pause(&world).await;
        tamper::rot_one(Rc::clone(&world), disk.clone()).await;
    }
    Ok(())
}
