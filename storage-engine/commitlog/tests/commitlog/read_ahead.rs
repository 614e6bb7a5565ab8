//! Who reads a log from end to end has each byte read from the disk once, and most of it before it is asked for.

use commitlog::LogOptions;
use record::{Codec, Offset};

use crate::support::world::{NOW, Settings, World, batch};

/// A log of `count` batches of two records in one segment, nothing of it in memory.
fn cold(count: usize, batch_bytes: usize, read_cache_bytes: usize) -> World {
    let options = LogOptions { segment_bytes: 64 << 20, ..LogOptions::default() };
    let mut world = World::new(Settings {
        options,
        tail_cache_bytes: 0,
        read_cache_bytes,
        ..Settings::default()
    });
    for _ in 0..count {
        world.append_synced(&batch(Codec::None, NOW.0, 2, batch_bytes / 2));
    }
    world
}

/// Reads on from `from`, and lets what was begun come to its end.
fn read_on(world: &World, from: Offset, bytes_max: usize) -> Offset {
    let (_, next) = world.read_at(from, bytes_max).unwrap();
    world.settle();
    next
}

/// Reads all of it; gives how many bytes came from the disk, and how many there are.
fn read_all(world: &World) -> (u64, u64) {
    let before = world.disk.read_bytes();
    let mut from = Offset(0);
    while from < world.log.ends().safe_end() {
        from = read_on(world, from, 1 << 20);
    }
    (world.disk.read_bytes() - before, world.log.size_bytes())
}

#[test]
fn each_byte_is_read_once_by_who_reads_on() {
    // Batches that fill an answer, and such that many fit: of the first kind, an index entry names the one before.
    for (count, batch_bytes) in [(12, 1_000_000), (200, 60_000)] {
        let (read, held) = read_all(&cold(count, batch_bytes, 32 << 20));
        assert!(read < held + held / 20, "{read} bytes read of {held}");
    }
}

#[test]
fn the_next_bytes_are_there_before_they_are_asked_for() {
    let world = cold(12, 1_000_000, 32 << 20);
    let second = read_on(&world, Offset(0), 1 << 20);
    let third = read_on(&world, second, 1 << 20);
    let before = world.disk.read_bytes();
    let (bytes, _) = world.read_at(third, 1 << 20).unwrap();
    assert_eq!(bytes, world.model[2]);
    assert_eq!(world.disk.read_bytes(), before, "it was read when it was asked for");
}

#[test]
fn who_reads_here_and_there_has_nothing_read_ahead() {
    let world = cold(40, 300_000, 32 << 20);
    for from in [60, 6, 34] {
        let before = world.disk.read_bytes();
        read_on(&world, Offset(from), 1);
        let read = world.disk.read_bytes() - before;
        assert!(read < 700_000, "{read} bytes read for one batch at {from}");
    }
}

#[test]
fn a_small_cache_is_not_filled_with_what_nobody_has_asked_for() {
    let (read, held) = read_all(&cold(12, 1_000_000, 1 << 20));
    assert!(read < held + held / 20, "{read} bytes read of {held}");
}
