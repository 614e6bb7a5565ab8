//! The scrubber among the others: reads sealed segments while their log is appended to, read, trimmed and spoiled.
//!
//! Owns its task and its oracle: what was rotten before a segment was scrubbed is listed afterwards. That nothing else is, the
//! comparison of every listed range sees to.

use std::rc::Rc;

use commitlog::Pace;
use record::Offset;

use super::World;
use super::replica::Replica;
use super::verify::ReadFaults;
use super::work::pause;
use crate::disk::SimDisk;
use crate::prng::OneIn;
use crate::verdict::{Verdict, broken};

/// Scrubs one log, segment by segment, now and then.
pub(super) async fn run(
    world: Rc<World>,
    disk: SimDisk,
    replica: Rc<Replica>,
    faults: ReadFaults,
) -> Verdict {
    let mut from = Offset::ZERO;
    for _ in 0..world.config.batches_per_life {
        pause(&world).await;
        let Some(base) = replica.log.sealed_from(from) else {
            from = Offset::ZERO;
            continue;
        };
        scrub_one(&world, &disk, &replica, base, faults).await?;
        from = Offset(base.0 + 1);
    }
    Ok(())
}

/// Scrubs every sealed segment of a log to its end.
pub(super) async fn everything(world: &World, disk: &SimDisk, replica: &Replica) -> Verdict {
    let mut from = Offset::ZERO;
    while let Some(base) = replica.log.sealed_from(from) {
        scrub_one(world, disk, replica, base, ReadFaults::No).await?;
        from = Offset(base.0 + 1);
    }
    Ok(())
}

/// Last offsets of the batches of a segment whose bytes on the disk are wrong. A flipped bit need not be there any more: the last
/// block of a log is written again, from memory, with what is appended to it.
fn rotten(disk: &SimDisk, replica: &Replica, base: Offset) -> Vec<i64> {
    let path = format!("{}/{:020}.log", replica.of().directory(), base.0);
    let Some(bytes) = disk.peek(&path) else { return Vec::new() };
    let model = replica.of().model.borrow();
    let is_wrong = |index: usize| {
        let from = usize::try_from(model.position_of(index, base.0)).expect("a small file");
        let expected = &model.batches[index].bytes;
        bytes.get(from..from + expected.len()).is_some_and(|found| found != expected.as_slice())
    };
    let inside = model.batches.iter().enumerate().filter(|(_, batch)| batch.base >= base.0);
    inside
        .filter(|(index, batch)| batch.is_rotten && is_wrong(*index))
        .map(|(_, batch)| batch.last)
        .collect()
}

async fn scrub_one(
    world: &World,
    disk: &SimDisk,
    replica: &Replica,
    base: Offset,
    faults: ReadFaults,
) -> Verdict {
    let rotten = rotten(disk, replica, base);
    let is_cut_short =
        world.chance(|prng| faults == ReadFaults::Possible || prng.happens(OneIn(8)));
    let pace = async |_| {
        pause(world).await;
        let stops = is_cut_short && world.chance(|prng| prng.coin());
        if stops { Pace::Stop } else { Pace::GoOn }
    };
    match replica.log.scrub(base, pace).await {
        Ok(0) => world.count(|stats| stats.scrubbed += 1),
        Ok(_) | Err(_) if faults == ReadFaults::Possible => return Ok(()),
        Ok(bytes) => return broken("a healthy disk is read", format!("{bytes} bytes not read")),
        // Retention took it.
        Err(_) if replica.log.sealed_from(base) != Some(base) => return Ok(()),
        Err(error) => return broken("a healthy disk is read", error.to_string()),
    }
    if is_cut_short || replica.log.sealed_from(base) != Some(base) {
        return Ok(());
    }
    let listed = replica.log.damage();
    let log_start = replica.log.ends().log_start().0;
    for offset in rotten.into_iter().filter(|offset| *offset >= log_start) {
        if !listed.iter().any(|report| report.offsets.contains(&Offset(offset))) {
            let detail = format!("{offset} in the segment at {base}, listed are {listed:?}");
            return broken("a scrub finds what is rotten", detail);
        }
    }
    Ok(())
}
