//! Scrubbing: what nobody reads is found, what cannot be read is passed, what nobody can ask for is no damage.

use commitlog::{Pace, ReadError};
use record::Offset;

use crate::support::world::{DIRECTORY, World};

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
