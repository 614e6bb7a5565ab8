//! What happens to files behind the log's back: derived files spoiled and segments lengthened while it is down, bits flipped
//! below the checkpoint.
//!
//! Owns the choice of the victim. A bit is flipped only in a batch that a lasting checkpoint covers: above it a bad batch
//! cannot be told from a torn one, and the design cuts there. The leader epoch of a batch (bytes 12 to 15) is left alone:
//! Kafka's checksum does not cover it, so no reader of the format can notice.

use std::rc::Rc;

use commitlog::CheckpointMap;
use commitlog::checkpoint::CHECKPOINT_DIRECTORY;
use record::batch::HEADER_BYTES;

use super::model::LogModel;
use super::{World, WorldLog, start};
use crate::disk::{Faults, SimDisk};
use crate::executor::{RunEnd, RunLimits};
use crate::prng::OneIn;
use crate::verdict::{Verdict, broken};

/// Bytes of a batch's leader epoch.
const UNCHECKED: std::ops::Range<u64> = 12..16;
/// Last byte of a batch's base offset.
const LOW_BYTE_OF_BASE: u64 = 7;

/// Between two lives, with nobody at work.
pub(super) fn between_lives(world: &Rc<World>, disk: &SimDisk) -> Verdict {
    disk.set_faults(Faults::default());
    if world.chance(|prng| prng.happens(OneIn(3))) {
        spoil_indexes(world, disk);
    }
    if world.chance(|prng| prng.happens(OneIn(6))) {
        alone(world, lengthen_active(Rc::clone(world), disk.clone()))?;
    }
    let has_rot = world.logs.iter().any(|log| log.model.borrow().has_rot());
    // Rot below the checkpoint can be told from a torn tail only while that checkpoint, and the state that a damaged batch
    // took with it, can still be read: a world has the one kind of damage or the other.
    if !has_rot && world.chance(|prng| prng.happens(OneIn(4))) {
        spoil_small_files(world, disk);
    }
    if !world.chance(|prng| prng.happens(OneIn(4))) {
        return Ok(());
    }
    alone(world, rot_one(Rc::clone(world), disk.clone()))
}

/// Runs a tamperer to its end.
fn alone(world: &World, tamper: impl Future<Output = ()> + 'static) -> Verdict {
    let limits = RunLimits { steps_max: 10_000, crash_at: None };
    match world.executor.run(tamper, limits) {
        RunEnd::Done(()) => Ok(()),
        _ => broken("progress", "checkpoints cannot be read"),
    }
}

/// Makes the segment longer that a checkpoint names as the one that takes appends, as preallocation and `truncate -s` do: what is
/// added reads as zeros. The length of one that is sealed counts as what it holds.
async fn lengthen_active(world: Rc<World>, disk: SimDisk) {
    let Ok((map, _)) = CheckpointMap::load(&disk).await else { return };
    let log = world.chance(|prng| prng.index(world.logs.len()));
    let log = &world.logs[log];
    let Some(entry) = map.get(&log.id) else { return };
    let path = format!("{}/{:020}.log", log.directory(), entry.segment.0);
    let Some(mut bytes) = disk.peek(&path) else { return };
    let more = world.chance(|prng| prng.index(600_000));
    bytes.resize(bytes.len() + more, 0);
    disk.poke(&path, bytes);
    world.is_untouched.set(false);
}

fn spoil_indexes(world: &World, disk: &SimDisk) {
    for (path, _) in disk.files() {
        let is_index = path.ends_with(".index") || path.ends_with(".timeindex");
        if !is_index || !world.chance(|prng| prng.happens(OneIn(2))) {
            continue;
        }
        world.count(|stats| stats.indexes_spoiled += 1);
        spoil(world, disk, &path);
    }
}

/// Damages files that the log can do without: epochs (P09), producer snapshots, copies of the checkpoint.
fn spoil_small_files(world: &World, disk: &SimDisk) {
    // What removed segments said of producers is in the snapshot alone.
    let may_lose_producers = !world.config.trims.any();
    let is_small = |path: &str| {
        path.ends_with("leader-epoch-checkpoint")
            || (path.ends_with(".snapshot") && may_lose_producers)
            || path.starts_with("checkpoints/")
    };
    for (path, _) in disk.files() {
        if is_small(&path) && world.chance(|prng| prng.happens(OneIn(3))) {
            let is_checkpoint = path.starts_with("checkpoints/");
            // Where segments go, what an older checkpoint needs may be gone. Either of the two newest copies does: one may be
            // lost, and no third.
            if is_checkpoint && world.config.trims.any() {
                if world.is_checkpoint_spoiled.replace(true) {
                    continue;
                }
                world.logs.iter().for_each(|log| log.model.borrow_mut().forget_told_start());
            }
            world.count(|stats| stats.small_files_spoiled += 1);
            spoil(world, disk, &path);
        }
    }
}

/// Deletes, zeroes, cuts, extends or fills one file with chance, flips a bit of it, or makes one of its entries wrong.
fn spoil(world: &World, disk: &SimDisk, path: &str) {
    world.is_untouched.set(false);
    let mut bytes = disk.peek(path).unwrap_or_default();
    // The file of leader epochs has no checksum: one digit that changed makes another list that is as plausible.
    let has_checksum = !path.ends_with("leader-epoch-checkpoint");
    match world.chance(|prng| prng.below(if has_checksum { 8 } else { 5 })) {
        0 => return disk.erase(path),
        1 => bytes.fill(0),
        2 => world.chance(|prng| prng.fill(&mut bytes)),
        3 => bytes.truncate(world.chance(|prng| prng.index(bytes.len() + 1))),
        4 => {
            let mut more = vec![0; world.chance(|prng| prng.index(100))];
            world.chance(|prng| prng.fill(&mut more));
            bytes.extend_from_slice(&more);
        }
        6 => {
            let bit = world.chance(|prng| prng.index(bytes.len().max(1) * 8));
            bytes.get_mut(bit / 8).into_iter().for_each(|byte| *byte ^= 1 << (bit % 8));
        }
        7 => misplace(world, path, &mut bytes),
        // Plausible and wrong: the positions or times of two entries changed places.
        _ if bytes.len() >= 24 => bytes.rotate_left(4),
        _ => bytes.clear(),
    }
    disk.poke(path, bytes);
}

/// Makes one entry of an index wrong and leaves their order as it was: no look at the file alone can tell.
fn misplace(world: &World, path: &str, bytes: &mut [u8]) {
    let entry_bytes = if path.ends_with(".timeindex") { 12 } else { 8 };
    let entries: Vec<usize> = (0..bytes.len() / entry_bytes).map(|at| at * entry_bytes).collect();
    if entries.is_empty() {
        return;
    }
    let entry = world.chance(|prng| *prng.pick(&entries));
    // The last four bytes of an entry: a position, or a relative offset.
    let number_of = |bytes: &[u8], entry: usize| {
        let (_, field) = bytes.get(entry..entry + entry_bytes)?.split_last_chunk::<4>()?;
        Some(u64::from(u32::from_be_bytes(*field)))
    };
    let before = entry.checked_sub(entry_bytes).and_then(|before| number_of(bytes, before));
    let after = number_of(bytes, entry + entry_bytes).unwrap_or(u64::from(u32::MAX));
    let lowest = before.map_or(0, |before| before + 1);
    if lowest >= after {
        return;
    }
    // Mostly close to the truth, where it misleads and is not seen to.
    let truth = number_of(bytes, entry).unwrap_or(lowest);
    let near = world.chance(|prng| prng.between(truth.saturating_sub(400), truth + 400));
    let wrong = near.clamp(lowest, after - 1);
    if is_of_another_batch(world, path, &bytes[entry..entry + entry_bytes], wrong) {
        return;
    }
    let field = u32::try_from(wrong).expect("below an entry of 32 bits").to_be_bytes();
    bytes[entry + entry_bytes - 4..entry + entry_bytes].copy_from_slice(&field);
}

/// Whether an entry of a time index with this relative offset would name a batch that has its time indeed, only not as the first:
/// nothing but a scan of all batches before it could tell.
fn is_of_another_batch(world: &World, path: &str, entry: &[u8], relative: u64) -> bool {
    let Some((time, _)) = entry.split_first_chunk::<8>().filter(|_| entry.len() == 12) else {
        return false;
    };
    let (directory, name) = path.rsplit_once('/').unwrap_or_default();
    let base: i64 = name.split('.').next().and_then(|base| base.parse().ok()).unwrap_or(0);
    let (time, offset) = (i64::from_be_bytes(*time), base.saturating_add_unsigned(relative));
    let log = world.logs.iter().find(|log| log.directory() == directory);
    log.is_some_and(|log| {
        let model = log.model.borrow();
        let named = model.batches.iter().find(|batch| (batch.base..=batch.last).contains(&offset));
        named.is_some_and(|batch| batch.draft.timestamps.iter().max() == Some(&time))
    })
}

/// Flips one bit of a batch that a checkpoint covers, late ones first; does nothing where there is none.
pub(super) async fn rot_one(world: Rc<World>, disk: SimDisk) {
    let covered = start::covered(&world, &disk).await;
    // A checkpoint has its name before the directory is synced. Should power fail in between, the next start goes by the one before
    // it, and what only the new one covers is a torn tail for all that anybody knows: the log is right to cut there.
    if !disk.names_last(CHECKPOINT_DIRECTORY) {
        return;
    }
    let log = world.chance(|prng| prng.index(world.logs.len()));
    let covered_end = covered[log];
    let log = &world.logs[log];
    let mut model = log.model.borrow_mut();
    let covered = model.batches.iter().filter(|batch| batch.last < covered_end).count();
    if covered == 0 {
        return;
    }
    let index = world.chance(|prng| {
        let back = if prng.coin() { prng.index(covered.min(3)) } else { prng.index(covered) };
        covered - 1 - back
    });
    if model.batches[index].last < model.log_start {
        return;
    }
    let batch_bytes = model.batches[index].bytes.len() as u64;
    let at = world.chance(|prng| prng.below(batch_bytes));
    if UNCHECKED.contains(&at) {
        return;
    }
    flip(&world, &disk, log, &mut model, index, at);
    // Two together: what lies behind rotten bytes is believed on somebody's word, and no checksum covers a base offset.
    let next = index + 1;
    if next < covered
        && !model.batches[next].is_rotten
        && world.chance(|prng| prng.happens(OneIn(3)))
    {
        flip(&world, &disk, log, &mut model, next, LOW_BYTE_OF_BASE);
    }
}

/// Flips a bit of byte `at` of a batch.
fn flip(
    world: &World,
    disk: &SimDisk,
    log: &WorldLog,
    model: &mut LogModel,
    index: usize,
    at: u64,
) {
    let directory = format!("{}/", log.directory());
    let base_of =
        |path: &str| path.strip_prefix(&directory)?.strip_suffix(".log")?.parse::<i64>().ok();
    let batch_base = model.batches[index].base;
    let files = disk.files();
    let segments = files.iter().filter_map(|(path, _)| Some((base_of(path)?, path)));
    let Some((base, path)) = segments.filter(|(base, _)| *base <= batch_base).max() else { return };
    let position = model.position_of(index, base) + at;
    let bit = world.chance(|prng| prng.below(8));
    if disk.rot(path, position, u8::try_from(bit).expect("below 8")) {
        model.batches[index].is_rotten = true;
        model.batches[index].has_rotten_header |= at < HEADER_BYTES as u64;
        world.is_untouched.set(false);
        world.count(|stats| stats.bits_rotten += 1);
    }
}
