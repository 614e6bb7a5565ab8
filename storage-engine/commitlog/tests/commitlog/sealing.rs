//! Sealing: what goes wrong beside a log's own lane, and what a sealed segment's index may be believed.

use commitlog::{AppendError, DiskError, IoStage, LogFailure, ReadError};
use record::{BatchHeader, Codec, LeaderEpoch, Offset, Timestamp};

use crate::support::world::{DIRECTORY, NOW, Settings, World, batch};

/// A log whose first segment has room for no further batch of 8,000 bytes.
fn nearly_full() -> World {
    let mut world = World::new(Settings::default());
    world.fill(8, 1, 7900);
    assert_eq!(world.log.segment_count(), 1);
    world
}

#[test]
fn a_failed_sync_of_a_segment_that_is_sealed_ends_appends_for_good() {
    let mut world = nearly_full();
    world.disk.fail_syncs_of(&format!("{:020}.log", 0));
    world.fill(1, 1, 7900);
    world.settle();
    let failure = LogFailure::Io { stage: IoStage::Sync, errno: 5 };
    assert_eq!(world.log.failure(), Some(failure));
    let bytes = batch(Codec::None, NOW.0, 1, 100);
    let header = BatchHeader::parse(&bytes).unwrap();
    let refused = world.log.append(NOW, LeaderEpoch(0), &header, &bytes);
    assert_eq!(refused, Err(AppendError::ReadOnly { failure }));
    assert_eq!(world.store.counters().io_errors, 1);
    world.verify(1 << 20);
    // Whatever a later sync would say, the file never counts as sealed.
    world.disk.fail_syncs_of("nothing");
    world.checkpoint();
    world.settle();
    assert_eq!(world.files(".index"), Vec::<String>::new());
    world.crash().verify(1 << 20);
}

#[test]
fn sealing_that_fails_otherwise_is_counted_and_tried_less_and_less_often() {
    let mut world = nearly_full();
    world.disk.fail_writes_of(".index.tmp", DiskError::Io { errno: 5 });
    for _ in 0..100 {
        world.fill(1, 1, 10);
        world.settle();
    }
    world.fill(1, 1, 7900);
    for _ in 0..100 {
        world.fill(1, 1, 10);
        world.settle();
    }
    assert_eq!(world.log.failure(), None);
    let failed = world.store.counters().io_errors;
    assert!((2..=10).contains(&failed), "{failed} tries");
    // Once it works again, it is done.
    world.disk.fail_writes_of("nothing", DiskError::NoSpace);
    for _ in 0..200 {
        world.fill(1, 1, 10);
        world.settle();
    }
    assert!(world.files(".index").contains(&format!("{:020}.index", 0)));
}

#[test]
fn a_stop_waits_for_an_index_that_was_made_again_and_keeps_it() {
    let mut world = World::sealed();
    let index = format!("{:020}.index", 0);
    let stopped = world.stop();
    stopped.disk.delete(&format!("{DIRECTORY}/{index}"));
    world = stopped.start();
    // It is being written when the stop comes.
    world.disk.hold_writes_of(&format!("{index}.tmp"));
    {
        let mut close = Box::pin(world.store.close(NOW));
        for _ in 0..1_000 {
            let over = world.executor.run(futures_lite::future::poll_once(&mut close));
            assert_eq!(over, None, "closed before it was written");
            world.executor.run(futures_lite::future::yield_now());
        }
        world.disk.hold_writes_of("");
        world.executor.run(close).unwrap();
    }
    assert!(world.files(".index").contains(&index), "{:?}", world.files(".index"));
    let world = world.kill();
    let before = world.disk.read_bytes();
    world.settle();
    assert!(world.disk.read_bytes() - before < 4096, "no segment is read for its index");
}

#[test]
fn what_an_index_file_said_before_a_restart_is_still_checked_after_the_seal() {
    let settings = Settings { tail_cache_bytes: 0, read_cache_bytes: 0, ..Settings::default() };
    let mut world = World::new(settings);
    for index in 0..30 {
        world.append_synced(&batch(Codec::None, NOW.0 + index * 10, 1, 1500));
    }
    let stopped = world.stop();
    let path = |suffix: &str| format!("{DIRECTORY}/{:020}.{suffix}", 0);
    // Still ascending, and wrong: an offset that is too low by one, a time that is too early by 16 ms.
    stopped.disk.edit(&path("index"), |bytes| {
        let entry = (8..bytes.len()).step_by(8).find(|at| bytes[at + 3] & 1 == 1).unwrap();
        bytes[entry + 3] ^= 1;
    });
    stopped.disk.edit(&path("timeindex"), |bytes| {
        let entry = (12..bytes.len()).step_by(12).find(|at| bytes[at + 7] & 0x10 != 0).unwrap();
        bytes[entry + 7] ^= 0x10;
    });
    let mut world = stopped.start();
    for index in 30..60 {
        world.append_synced(&batch(Codec::None, NOW.0 + index * 10, 1, 1500));
    }
    world.settle();
    assert!(world.log.segment_count() > 1);
    let end = world.log.ends().durable();
    for (index, expected) in (0_i64..).zip(&world.model) {
        let at = Offset(index);
        let read: Result<_, ReadError> = world.read_at(at, 1);
        assert!(read.unwrap().0 == *expected, "offset {index}");
        let target = Timestamp(NOW.0 + index * 10);
        let found = world.executor.run(world.log.offset_for_timestamp(target, end)).unwrap();
        assert_eq!(found.map(|found| found.offset), Some(at), "time of {index}");
    }
    assert_eq!(world.store.damage(), []);
}
