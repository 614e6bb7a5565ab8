//! Scrubbing: what nobody reads is found, what cannot be read is passed, what nobody can ask for is no damage.

use std::cell::Cell;

use commitlog::{DiskError, LogOptions, Pace, ReadError};
use record::{Codec, Offset};

use crate::support::world::{DIRECTORY, NOW, Settings, World, batch};

const FIRST: &str = "00000000000000000000.log";

fn sealed_world() -> World {
    let world = World::sealed();
    // So that records may be deleted.
    world.log.set_high_watermark(world.log.ends().durable());
    world
}

fn path() -> String {
    format!("{DIRECTORY}/{FIRST}")
}

fn position_of(world: &World, batch: usize) -> usize {
    world.model[..batch].iter().map(Vec::len).sum()
}

fn rot(world: &World, batch: usize) {
    let position = position_of(world, batch);
    world.disk.edit(&path(), |bytes| bytes[position + 100] ^= 1);
}

/// Scrubs the first segment; returns the bytes that could not be read.
fn scrub(world: &World) -> u64 {
    world.executor.run(world.log.scrub(Offset(0), async |_| Pace::GoOn)).unwrap()
}

fn listed(world: &World) -> Vec<(i64, i64)> {
    let damage = world.store.damage();
    damage.iter().map(|one| (one.offsets.start.0, one.offsets.end.0)).collect()
}

#[test]
fn rot_that_nobody_reads_is_found_once() {
    let world = sealed_world();
    rot(&world, 3);
    rot(&world, 20);
    for _ in 0..2 {
        assert_eq!(scrub(&world), 0);
        assert_eq!(listed(&world), [(6, 8), (40, 42)]);
    }
    let range = Offset(40)..Offset(42);
    assert_eq!(world.read_at(Offset(41), 1), Err(ReadError::Damaged { range }));
}

#[test]
fn a_sealed_segment_that_ends_too_early_is_found() {
    let world = sealed_world();
    let end = world.log.sealed_from(Offset(1)).unwrap();
    let stopped = world.stop();
    // As a file system leaves it that lost the end: every batch that is left is right.
    let lost = stopped.model[usize::try_from(end.0).unwrap() / 2 - 1].len();
    stopped.disk.edit(&path(), |bytes| bytes.truncate(bytes.len() - lost));
    let world = stopped.start();
    assert_eq!(listed(&world), []);
    for _ in 0..2 {
        assert_eq!(scrub(&world), 0);
        assert_eq!(listed(&world), [(end.0 - 2, end.0)]);
    }
    let range = Offset(end.0 - 2)..end;
    assert_eq!(world.read_at(range.start, 1), Err(ReadError::Damaged { range }));
    assert_eq!(listed(&world), [(end.0 - 2, end.0)], "a reader finds the same");
}

#[test]
fn what_the_disk_does_not_give_is_counted_and_passed() {
    let world = sealed_world();
    let block = position_of(&world, 5) / 4096 * 4096;
    rot(&world, 1);
    rot(&world, 20);
    let errors = world.store.counters().io_errors;
    world.disk.fail_reads_of(FIRST, block..block + 1);
    assert_eq!(scrub(&world), 4096);
    assert_eq!(listed(&world), [(2, 4), (40, 42)], "on both sides, and nothing else");
    assert_eq!(world.store.counters().io_errors, errors + 1);
    // Headers of a whole stretch are gone, and with them all that is known of where batches begin.
    world.disk.fail_reads_of(FIRST, block..block + 3 * 4096);
    assert_eq!(scrub(&world), 3 * 4096);
    assert_eq!(listed(&world), [(2, 4), (40, 42)]);
    world.disk.fail_reads_of(FIRST, 0..0);
    assert_eq!(scrub(&world), 0);
    assert_eq!(listed(&world), [(2, 4), (40, 42)]);
}

#[test]
fn damage_that_nobody_can_ask_for_any_more_is_not_listed() {
    let world = sealed_world();
    rot(&world, 3);
    rot(&world, 8);
    world.log.raise_log_start(Offset(8)).unwrap();
    scrub(&world);
    assert_eq!(listed(&world), [(16, 18)]);
    world.log.raise_log_start(Offset(17)).unwrap();
    assert_eq!(listed(&world), [(16, 18)], "part of it can be asked for");
    world.log.raise_log_start(Offset(18)).unwrap();
    scrub(&world);
    assert_eq!(listed(&world), []);
}

/// A sealed segment of four megabytes.
fn large() -> World {
    let options = LogOptions { segment_bytes: 4 << 20, ..LogOptions::default() };
    let settings =
        Settings { options, tail_cache_bytes: 0, read_cache_bytes: 0, ..Settings::default() };
    let mut world = World::new(settings);
    for index in 0..4_500 {
        world.append(&batch(Codec::None, NOW.0 + index, 1, 900));
    }
    world.sync();
    world.settle();
    assert!(world.log.sealed_from(Offset(0)) == Some(Offset(0)));
    world
}

#[test]
fn a_search_behind_damage_asks_for_leave_as_every_step_does() {
    let world = large();
    let sealed_end = world.log.sealed_from(Offset(1)).unwrap_or(Offset(i64::MAX));
    assert!(sealed_end > Offset(4_000));
    // Headers are gone for half of the segment, and with them all that is known of where batches begin.
    world.disk.edit(&path(), |bytes| bytes[1_000..2 << 20].fill(2));
    let (before, told) = (world.disk.read_bytes(), Cell::new(0));
    let longest = Cell::new(0);
    let pace = async |cost: commitlog::ReadCost| {
        told.set(told.get() + cost.read_bytes);
        longest.set(longest.get().max(cost.read_bytes));
        assert_eq!(world.disk.read_bytes() - before, told.get(), "read without leave");
        Pace::GoOn
    };
    assert_eq!(world.executor.run(world.log.scrub(Offset(0), pace)), Ok(0));
    assert!(longest.get() <= 256 << 10, "{longest:?}");
    assert!(told.get() > 4_000_000, "{told:?}");
    assert_eq!(listed(&world).len(), 1);
}

#[test]
fn a_scrub_that_is_stopped_in_a_search_ends_there() {
    let world = large();
    world.disk.edit(&path(), |bytes| bytes[1_000..2 << 20].fill(2));
    let before = world.disk.read_bytes();
    let asked = Cell::new(0);
    let pace = async |_| {
        asked.set(asked.get() + 1);
        if asked.get() < 3 { Pace::GoOn } else { Pace::Stop }
    };
    assert_eq!(world.executor.run(world.log.scrub(Offset(0), pace)), Ok(0));
    assert!(world.disk.read_bytes() - before <= 3 * (256 << 10));
    assert_eq!(listed(&world), []);
}

#[test]
fn a_segment_that_the_disk_does_not_give_is_given_up_after_a_bounded_number_of_reads() {
    let world = large();
    world.disk.fail_reads_of(FIRST, 0..usize::MAX);
    let failed = Cell::new(0);
    let pace = async |cost: commitlog::ReadCost| {
        assert!(cost.failed_reads <= 1);
        failed.set(failed.get() + cost.failed_reads);
        Pace::GoOn
    };
    let scrubbed = world.executor.run(world.log.scrub(Offset(0), pace));
    assert_eq!(scrubbed, Err(DiskError::Io { errno: 5 }));
    assert_eq!(failed.get(), 256);
    assert_eq!(listed(&world), []);
}
