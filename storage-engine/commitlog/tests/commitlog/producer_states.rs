//! After a crash a busy segment is not read from its front to know its producers again.

use commitlog::LogOptions;

use crate::support::world::{DIRECTORY, Settings, World};

const FILE: &str = "checkpoints/0.producers";

fn settings(states_bytes: u64) -> Settings {
    let options = LogOptions { segment_bytes: 64 << 20, ..LogOptions::default() };
    Settings { options, states_bytes, ..Settings::default() }
}

/// Four rounds of 200 kB and a checkpoint each, and a crash; gives how many bytes were read to be back.
fn bytes_read_after_a_crash(states_bytes: u64, between: impl Fn(&World)) -> u64 {
    let mut world = World::new(settings(states_bytes));
    for _ in 0..4 {
        world.fill(20, 2, 5000);
        world.checkpoint();
    }
    world.fill(1, 2, 5000);
    between(&world);
    let fold = world.fold.borrow().clone();
    assert!(!fold.0.is_empty());
    let mut world = world.crash();
    assert_eq!(*world.fold.borrow(), fold);
    let bytes_read = world.report.bytes_read;
    world.verify(1 << 20);
    // And once more, with what the first start made of it.
    world.fill(1, 2, 5000);
    let fold = world.fold.borrow().clone();
    let world = world.crash();
    assert_eq!(*world.fold.borrow(), fold);
    world.verify(1 << 20);
    bytes_read
}

#[test]
fn recovery_begins_where_the_producers_are_known() {
    let without = bytes_read_after_a_crash(u64::MAX, |_| {});
    assert!(without > 800_000, "{without} bytes");
    let with = bytes_read_after_a_crash(1, |world| assert!(!world.files_of_states().is_empty()));
    assert!(with < 500_000, "{with} bytes");
}

#[test]
fn what_is_known_may_be_past_where_the_scan_begins_and_no_batch_counts_twice() {
    // Without a checkpoint the scan begins at the front.
    bytes_read_after_a_crash(1, |world| {
        for name in ["checkpoints/0.a", "checkpoints/0.b"] {
            world.disk.edit(name, |bytes| bytes[30] ^= 4);
        }
    });
}

#[test]
fn what_is_known_of_records_that_are_gone_is_not_believed() {
    let mut world = World::new(settings(1));
    world.fill(20, 2, 5000);
    let kept = (world.log.size_bytes(), world.fold.borrow().clone());
    world.checkpoint();
    for _ in 0..4 {
        world.fill(20, 2, 5000);
        world.checkpoint();
    }
    for name in ["checkpoints/0.a", "checkpoints/0.b"] {
        world.disk.edit(name, |bytes| bytes[30] ^= 4);
    }
    let path = format!("{DIRECTORY}/00000000000000000000.log");
    world.disk.edit(&path, |bytes| bytes.truncate(kept.0 as usize));
    let world = world.crash();
    assert_eq!(*world.fold.borrow(), kept.1);
}

#[test]
fn what_is_known_is_written_once_so_many_bytes_would_be_read_again() {
    bytes_read_after_a_crash(10 << 20, |world| assert!(world.files_of_states().is_empty()));
    bytes_read_after_a_crash(300_000, |world| assert!(!world.files_of_states().is_empty()));
}

#[test]
fn a_file_that_cannot_be_read_costs_time_only() {
    for damage in [0, 9, 40] {
        let read = bytes_read_after_a_crash(1, |world| {
            world.disk.edit(FILE, |bytes| bytes[damage] ^= 1);
        });
        assert!(read > 800_000, "{read} bytes");
    }
    let read =
        bytes_read_after_a_crash(1, |world| world.disk.edit(FILE, |bytes| bytes.truncate(7)));
    assert!(read > 800_000, "{read} bytes");
}

#[test]
fn what_is_not_durable_is_not_written_down() {
    let mut world = World::new(settings(1));
    world.fill(20, 2, 5000);
    world.disk.hold_syncs_of(".log");
    for _ in 0..3 {
        world.append(&crate::support::world::batch(record::Codec::None, 1, 2, 5000));
        world.checkpoint();
    }
    let states = world.files_of_states();
    assert_eq!(states, Vec::<String>::new(), "written before the log was durable");
    world.disk.hold_syncs_of("");
    world.sync();
    world.checkpoint();
    assert_eq!(world.files_of_states(), ["0.producers"]);
}
