//! What goes wrong while a life serves: a core that stands still, a disk that fails, a client that does not read.
//!
//! Owns when, not what follows. Everything ends with the life's work.

use std::collections::BTreeMap;
use std::rc::Rc;

use broker::sync::Flag;
use wire::fetch::FetchResponse;

use super::connection::{Answered, Connection, read};
use super::consumer::{Appetite, asked_of, request_of, take_partitions};
use super::history::Place;
use super::{DiskPlan, LifePlan, World};
use crate::disk::{Faults, SimDisk};
use crate::executor::CoreIndex;
use crate::platform::SimMachine;
use crate::prng::{OneIn, Prng};
use crate::verdict::Verdict;

/// Fetch requests that a client sends before it stops reading.
const UNREAD_REQUESTS: u64 = 12;
/// Of Fetch, as it asks.
const FETCH_VERSION: i16 = 12;

/// Sets what the plan says of the disk.
pub(super) fn set_disk(world: &World, disk: &SimDisk, plan: LifePlan) {
    let odds = world.chance(|prng| OneIn(u32::try_from(prng.between(15, 150)).expect("small")));
    let aims: &[&str] = match plan.journal {
        Some(_) => &["topics/", ".log", "", "journal/"],
        None => &["topics/", "topics/", ".log", ""],
    };
    let aimed_at = world.chance(|prng| *prng.pick(aims));
    let none = Faults { aimed_at, ..Faults::default() };
    let faults = match plan.disk {
        DiskPlan::Good | DiskPlan::Stalled | DiskPlan::Full => Faults::default(),
        DiskPlan::Slow => Faults { slow: OneIn(3), ..none },
        DiskPlan::Reads => Faults { read_error: odds, ..none },
        DiskPlan::Writes => Faults { write_error: odds, ..none },
        DiskPlan::Syncs => Faults { sync_error: odds, ..none },
        DiskPlan::Names => Faults { name_error: odds, ..none },
    };
    disk.set_faults(faults);
    if plan.disk == DiskPlan::Full {
        let room = world.chance(|prng| prng.between(0, 60_000));
        disk.set_capacity(disk.used_bytes() + room);
    }
}

/// Makes the disk good again.
pub(super) fn clear_disk(disk: &SimDisk) {
    disk.set_faults(Faults::default());
    disk.set_capacity(u64::MAX);
    disk.release();
}

/// Lets the disk of one partition stand still, now and then, or that of all journals.
pub(super) async fn stall_disk(world: Rc<World>, disk: SimDisk, plan: LifePlan, is_over: Flag) {
    while !is_over.is_raised() {
        let is_of_journals = plan.journal.is_some() && world.chance(|p| p.happens(OneIn(3)));
        let name = if is_of_journals {
            "journal".to_owned()
        } else {
            let history = world.history.borrow();
            let place = Place(world.chance(|prng| prng.index(history.partitions.len())));
            history.name(place)
        };
        disk.hold(&format!("{name}/"));
        world.pause((1, 3_000)).await;
        disk.release();
        world.pause((1, 500)).await;
    }
}

/// Lets one core stand still, now and then.
pub(super) async fn still_cores(
    world: Rc<World>,
    machine: SimMachine,
    plan: LifePlan,
    is_over: Flag,
) {
    while !is_over.is_raised() {
        world.pause((1, 200)).await;
        let core = world.chance(|prng| prng.below(u64::from(plan.cores) + 1));
        let core = CoreIndex(u16::try_from(core).expect("a few cores"));
        let core = machine.executor().on_core(core);
        world.count(|stats| stats.still_cores += 1);
        core.stand_still();
        world.pause((1, 800)).await;
        core.go_on();
    }
}

/// A client that asks for much and does not read; then it reads after all, or leaves.
pub(super) async fn be_slow(
    world: Rc<World>,
    machine: SimMachine,
    plan: LifePlan,
    is_over: Flag,
) -> Verdict {
    while !is_over.is_raised() {
        world.pause((1, 500)).await;
        let Some(mut connection) = Connection::open(&world, &machine, plan) else { continue };
        world.count(|stats| stats.sluggards += 1);
        let places: Vec<Place> = (0..world.history.borrow().partitions.len()).map(Place).collect();
        let positions: BTreeMap<Place, i64> = places.iter().map(|place| (*place, 0)).collect();
        let all = 1 << 20;
        let appetite =
            Appetite { max_wait_ms: 0, min_bytes: 0, max_bytes: all, partition_max_bytes: all };
        let mut asked = Vec::new();
        for _ in 0..UNREAD_REQUESTS {
            let known = asked_of(&world, &positions);
            let request = request_of(&world, &known, &places, appetite);
            connection.send(FETCH_VERSION, &request, Answered::Yes);
            asked.push(known);
        }
        world.pause((1, 2_000)).await;
        if world.chance(Prng::coin) {
            connection.cut();
            continue;
        }
        for known in asked {
            let Some(frame) = connection.hear().await? else { break };
            let answer: FetchResponse<'_> = read(FETCH_VERSION, &frame)?;
            take_partitions(&world, FETCH_VERSION, &known, &answer, false)?;
        }
    }
    Ok(())
}
