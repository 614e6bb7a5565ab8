//! Logs whose acknowledgements do not wait for a sync: what is safe, and when it becomes durable all the same.

use commitlog::{DiskError, LogFailure, LogOptions, ReleaseError, SafeEnd, StoreError};
use record::{Codec, Offset};

use crate::support::world::{DIRECTORY, NOW, Settings, TOPIC, World, batch, identity};

fn options(safe_end: SafeEnd) -> LogOptions {
    LogOptions { segment_bytes: 64 << 20, safe_end, ..LogOptions::default() }
}

fn cached() -> World {
    World::new(Settings { options: options(SafeEnd::Written), ..Settings::default() })
}

/// Appends batches, each written before the next comes.
fn write(world: &mut World, count: usize, bytes: usize) {
    for _ in 0..count {
        world.append(&batch(Codec::None, NOW.0, 1, bytes));
        world.settle();
    }
}

#[test]
fn what_is_written_is_safe_and_becomes_durable_when_it_is_asked_for() {
    let mut world = cached();
    write(&mut world, 50, 700);
    let ends = world.log.ends();
    assert_eq!((ends.safe_end(), ends.durable()), (Offset(50), Offset(0)));
    assert_eq!(world.store.counters().syncs, 0);
    world.verify(1 << 20);

    world.store.sync_written();
    world.settle();
    assert_eq!(world.log.ends().durable(), Offset(50));
    // The file and its directory, once for all batches.
    assert_eq!(world.store.counters().syncs, 2);
    // Nobody is behind any more.
    world.store.sync_written();
    world.settle();
    assert_eq!(world.store.counters().syncs, 2);
    write(&mut world, 3, 700);
    world.store.sync_written();
    world.settle();
    assert_eq!((world.log.ends().durable(), world.store.counters().syncs), (Offset(53), 3));
}

#[test]
fn a_killed_process_keeps_what_is_written_and_a_power_cut_what_is_durable() {
    let mut world = cached();
    write(&mut world, 4, 5_000);
    let mut world = world.kill();
    assert_eq!(world.log.ends().durable(), Offset(4), "recovery leaves nothing unsynced");
    world.verify(1 << 20);

    write(&mut world, 4, 5_000);
    assert_eq!(world.log.ends().safe_end(), Offset(8));
    let world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(4));
    let mut world = world.crash();
    assert_eq!(world.log.ends().durable(), Offset(4));
    // Offsets that nobody can read any more are given out again: to a new leader epoch, by whoever leads.
    world.model.truncate(4);
    write(&mut world, 2, 100);
    world.verify(1 << 20);
}

#[test]
fn a_log_that_is_far_ahead_of_the_disk_does_not_wait_to_be_asked() {
    let mut world = cached();
    write(&mut world, 15, 1 << 20);
    assert_eq!(world.log.ends().durable(), Offset(0));
    write(&mut world, 2, 1 << 20);
    assert!(world.log.ends().durable() >= Offset(16), "{:?}", world.log.ends());
}

#[test]
fn whoever_needs_it_durable_need_not_wait_for_a_turn() {
    let mut world = cached();
    world.append(&batch(Codec::None, NOW.0, 1, 100));
    // As DeleteRecords does: what goes must be on disk, or the start could be behind the log.
    world.sync();
    assert_eq!(world.log.ends().durable(), Offset(1));
    world.append(&batch(Codec::None, NOW.0, 1, 100));
    let world = world.stop().start();
    assert!(world.report.is_clean, "{:?}", world.report);
    assert_eq!(world.log.ends().durable(), Offset(2));
    world.verify(1 << 20);
}

#[test]
fn switched_off_acknowledgements_wait_again_and_what_was_safe_stays_safe() {
    let mut world = cached();
    write(&mut world, 3, 100);
    world.log.set_options(options(SafeEnd::Durable));
    assert_eq!(world.log.ends().safe_end(), Offset(3), "at once");
    world.settle();
    assert_eq!(world.log.ends().durable(), Offset(3), "without being asked");
    world.append(&batch(Codec::None, NOW.0, 1, 100));
    assert_eq!(world.log.ends().safe_end(), Offset(3));
    world.settle();
    assert_eq!((world.log.ends().safe_end(), world.log.ends().durable()), (Offset(4), Offset(4)));
    world.log.set_options(options(SafeEnd::Written));
    write(&mut world, 1, 100);
    assert_eq!((world.log.ends().safe_end(), world.log.ends().durable()), (Offset(5), Offset(4)));
}

#[test]
fn after_a_failed_sync_nothing_more_is_safe() {
    let mut world = cached();
    write(&mut world, 3, 100);
    world.disk.fail_syncs_of(".log");
    world.store.sync_written();
    world.settle();
    assert!(world.log.failure().is_some());
    let ends = world.log.ends();
    assert_eq!((ends.safe_end(), ends.durable()), (Offset(3), Offset(0)));
    world.log.set_options(options(SafeEnd::Durable));
    world.log.set_options(options(SafeEnd::Written));
    assert_eq!(world.log.ends().safe_end(), Offset(3));
}

#[test]
fn a_write_that_fails_leaves_what_was_promised_to_be_synced() {
    for error in [DiskError::Io { errno: 5 }, DiskError::NoSpace] {
        let mut world = cached();
        write(&mut world, 3, 100);
        world.disk.fail_writes_of(".log", error);
        write(&mut world, 1, 100);
        assert!(world.log.failure().is_some());
        let ends = world.log.ends();
        assert_eq!(
            (ends.safe_end(), ends.durable()),
            (Offset(3), Offset(3)),
            "without being asked"
        );
        // As for a DeleteRecords that is to make room on a full disk.
        assert_eq!(world.executor.run(world.log.durable_through(Offset(2))), Ok(()));
        world.executor.run(world.store.close(NOW)).unwrap();
    }
}

#[test]
fn switched_on_while_a_sync_runs_what_it_does_not_cover_is_synced_in_the_next_turn() {
    let mut world =
        World::new(Settings { options: options(SafeEnd::Durable), ..Settings::default() });
    let written_to = |world: &World, end| {
        let log = world.log.clone();
        let until = std::future::poll_fn(move |_| match log.ends().written() >= end {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        });
        world.executor.run(until);
    };
    world.disk.hold_syncs_of(".log");
    for end in 1..=2 {
        world.append(&batch(Codec::None, NOW.0, 1, 100));
        written_to(&world, Offset(end));
        // The sync of the first has begun by now.
        world.executor.run(futures_lite::future::yield_now());
        world.executor.run(futures_lite::future::yield_now());
    }
    world.log.set_options(options(SafeEnd::Written));
    world.disk.hold_syncs_of("");
    world.settle();
    let ends = world.log.ends();
    assert_eq!((ends.safe_end(), ends.durable()), (Offset(2), Offset(1)));
    world.store.sync_written();
    world.settle();
    assert_eq!(world.log.ends().durable(), Offset(2));
}

#[test]
fn a_stop_that_leaves_a_promise_open_is_not_called_clean() {
    let mut world = cached();
    write(&mut world, 3, 100);
    world.disk.fail_syncs_of(".log");
    let closed = world.executor.run(world.store.close(NOW));
    let (safe_end, durable) = (Offset(3), Offset(0));
    assert_eq!(
        closed,
        Err(StoreError::Unsettled { log: "orders-0".to_owned(), safe_end, durable })
    );
}

#[test]
fn what_a_released_log_has_promised_is_owed_until_it_is_open_again_with_all_of_it() {
    enum Again {
        Closed,
        Whole,
        Emptied,
    }
    for again in [Again::Closed, Again::Whole, Again::Emptied] {
        let mut world = cached();
        // Its first file becomes durable, and the directory that names it cannot be opened for a sync.
        world.disk.fail_dir_syncs_after_create(usize::MAX, DiskError::TooManyFiles { errno: 24 });
        write(&mut world, 3, 100);
        world.store.sync_written();
        world.settle();
        assert!(world.log.failure().is_some_and(|failure| failure.is_passing()));
        world.disk.fail_dir_syncs_after_create(0, DiskError::NotFound);
        let World { executor, store, log, fold, settings, .. } = &world;
        executor.run(store.release_log(log)).unwrap();
        if matches!(again, Again::Emptied) {
            let file = world.files(".log").remove(0);
            world.disk.edit(&format!("{DIRECTORY}/{file}"), Vec::clear);
        }
        if !matches!(again, Again::Closed) {
            let opened = store.open_log(identity(TOPIC), settings.options, fold.clone(), NOW);
            let (log, _) = executor.run(opened).unwrap();
            let expected = if matches!(again, Again::Whole) { 3 } else { 0 };
            assert_eq!(log.ends().durable(), Offset(expected));
        }
        let (safe_end, durable) = (Offset(3), Offset(0));
        let owed = StoreError::Unsettled { log: "orders-0".to_owned(), safe_end, durable };
        let expected = if matches!(again, Again::Whole) { Ok(()) } else { Err(owed) };
        assert_eq!(executor.run(store.close(NOW)), expected);
    }
}

#[test]
fn a_log_that_is_deleted_while_it_is_released_is_gone_and_owes_nothing() {
    let mut world = cached();
    write(&mut world, 3, 100);
    world.disk.hold_syncs_of(".log");
    world.store.sync_written();
    world.disk.fail_writes_of(".log", DiskError::NoSpace);
    world.append(&batch(Codec::None, NOW.0, 1, 100));
    let World { executor, store, log, disk, .. } = &world;
    let failed = std::future::poll_fn(|_| match log.failure() {
        Some(_) => std::task::Poll::Ready(()),
        None => std::task::Poll::Pending,
    });
    executor.run(failed);
    let topic = identity(TOPIC);
    let delete_and_go_on = async {
        let go_on = async { disk.hold_syncs_of("") };
        futures_lite::future::zip(store.delete_unopened(&topic), go_on).await.0
    };
    // It waits for the sync that is under way.
    let release = store.release_log(log);
    let (released, deleted) = executor.run(futures_lite::future::zip(release, delete_and_go_on));
    let failure = Some(LogFailure::Closed);
    assert_eq!(released, Err(ReleaseError::NotPassing { failure }));
    assert_eq!(deleted, Ok(()));
    assert!(disk.names("topics").is_empty(), "{:?}", disk.names("topics"));
    assert_eq!(executor.run(store.close(NOW)), Ok(()));
}
