//! Disks that refuse: the log is read-only, says so, and serves what it held.

use std::cell::RefCell;
use std::rc::Rc;

use commitlog::{
    AppendError, DiskError, Ends, IoStage, LogFailure, LogIdentity, LogListener, LogOptions,
    PENDING_BYTES_CORE_MAX, PENDING_BYTES_MAX, RefusedOpen,
};
use record::{BatchHeader, Codec, LeaderEpoch, Offset};

use crate::support::world::{NOW, Settings, World, batch};

#[derive(Default)]
struct Heard(RefCell<(Vec<Ends>, Vec<LogFailure>)>);

impl LogListener for Heard {
    fn progressed(&self, ends: Ends) {
        self.0.borrow_mut().0.push(ends);
    }
    fn failed(&self, failure: LogFailure) {
        self.0.borrow_mut().1.push(failure);
    }
}

fn fails(break_disk: impl Fn(&World), failure: LogFailure, refused: AppendError) {
    let mut world = World::new(Settings::default());
    world.fill(5, 1, 100);
    let heard = Rc::new(Heard::default());
    world.log.set_listener(heard.clone());
    break_disk(&world);
    let bytes = batch(Codec::None, NOW.0, 1, 100);
    let header = BatchHeader::parse(&bytes).unwrap();
    world.log.append(NOW, LeaderEpoch(0), &header, &bytes).unwrap();
    let log = world.log.clone();
    assert_eq!(world.executor.run(log.durable_through(Offset(5))), Err(failure));
    assert_eq!(heard.0.borrow().1, [failure]);
    assert_eq!(world.log.append(NOW, LeaderEpoch(0), &header, &bytes), Err(refused));
    assert_eq!(world.log.ends().durable(), Offset(5));
    world.verify(1 << 20);
    world.checkpoint();
    // What was held is there after the restart, and the log takes appends.
    let mut world = world.crash();
    world.verify(1 << 20);
    world.fill(2, 1, 100);
    world.verify(1 << 20);
}

#[test]
fn a_failed_write_ends_appends() {
    let failure = LogFailure::Io { stage: IoStage::Write, errno: 5 };
    fails(
        |world| world.disk.fail_writes_of(".log", DiskError::Io { errno: 5 }),
        failure,
        AppendError::ReadOnly { failure },
    );
}

#[test]
fn a_failed_sync_ends_appends() {
    let failure = LogFailure::Io { stage: IoStage::Sync, errno: 5 };
    fails(|world| world.disk.fail_syncs_of(".log"), failure, AppendError::ReadOnly { failure });
}

#[test]
fn a_full_disk_ends_appends_and_is_named() {
    fails(
        |world| world.disk.fail_writes_of(".log", DiskError::NoSpace),
        LogFailure::NoSpace,
        AppendError::NoSpace,
    );
}

#[test]
fn progress_is_told_in_order() {
    let mut world = World::new(Settings::default());
    let heard = Rc::new(Heard::default());
    world.log.set_listener(heard.clone());
    for _ in 0..200 {
        world.append(&batch(Codec::None, NOW.0, 1, 1000));
    }
    world.sync();
    let heard = heard.0.borrow();
    assert!(heard.0.len() >= 2);
    for pair in heard.0.windows(2) {
        assert!(pair[0].written() <= pair[1].written());
        assert!(pair[0].durable() <= pair[1].durable());
    }
    assert_eq!(heard.0.last().unwrap().durable(), Offset(200));
    assert_eq!(heard.1, []);
}

#[test]
fn a_stop_makes_lasting_what_was_accepted_and_refuses_more() {
    let mut world = World::new(Settings::default());
    for _ in 0..50 {
        world.append(&batch(Codec::None, NOW.0, 1, 3000));
    }
    let (log, bytes) = (world.log.clone(), batch(Codec::None, NOW.0, 1, 10));
    let world = world.stop().start();
    let header = BatchHeader::parse(&bytes).unwrap();
    let refused = log.append(NOW, LeaderEpoch(0), &header, &bytes);
    assert_eq!(refused, Err(AppendError::ReadOnly { failure: LogFailure::Closed }));
    assert_eq!(world.log.ends().durable(), Offset(50));
    world.verify(1 << 20);
}

#[test]
fn files_that_nobody_uses_are_closed_where_no_more_may_be_opened() {
    let mut world = World::new(Settings::default());
    world.fill(40, 2, 2000);
    world.settle();
    assert!(world.log.segment_count() >= 3);
    world.disk.limit_open_files(3);
    world.fill(40, 2, 2000);
    world.settle();
    assert_eq!(world.log.failure(), None);
    world.verify(100_000);
    // Where not even one may be opened, the words say whose fault it is.
    world.disk.limit_open_files(0);
    let bytes = batch(Codec::None, NOW.0, 1, 60_000);
    let header = BatchHeader::parse(&bytes).unwrap();
    for _ in 0..2 {
        let _ = world.log.append(NOW, LeaderEpoch(0), &header, &bytes);
    }
    world.settle();
    let reason = RefusedOpen::TooManyFiles;
    assert_eq!(world.log.failure(), Some(LogFailure::Refused { reason, errno: 24 }));
}

#[test]
fn what_waits_for_the_disk_is_bounded_over_all_logs_of_a_core() {
    let options = LogOptions { segment_bytes: 1 << 30, ..LogOptions::default() };
    let world = World::new(Settings { options, ..Settings::default() });
    let logs: Vec<_> = (1..8)
        .map(|partition| {
            let identity = LogIdentity {
                partition: record::PartitionIndex(partition),
                ..crate::support::world::identity(crate::support::world::TOPIC)
            };
            let fold = Rc::new(RefCell::new(crate::support::world::LastBatches::default()));
            let opened = world.store.open_log(identity, options, fold, NOW);
            world.executor.run(opened).unwrap().0
        })
        .collect();
    let bytes = batch(Codec::None, NOW.0, 1, 1 << 20);
    let header = BatchHeader::parse(&bytes).unwrap();
    // Nothing runs: the disk hangs, and clients that ask for no answer go on sending.
    let mut accepted = 0;
    let mut refused = Vec::new();
    for log in &logs {
        while refused.is_empty() || log.status().pending_bytes == 0 {
            match log.append(NOW, LeaderEpoch(0), &header, &bytes) {
                Ok(_) => accepted += bytes.len() as u64,
                Err(AppendError::Full { bound, .. }) if bound == PENDING_BYTES_MAX => break,
                Err(error) => {
                    refused.push(error);
                    break;
                }
            }
        }
    }
    let bound = PENDING_BYTES_CORE_MAX;
    assert!(accepted <= bound, "{accepted} bytes accepted");
    assert!(accepted > bound - 2 * bytes.len() as u64);
    assert!(matches!(refused[0], AppendError::Full { .. }), "{refused:?}");
    // The last log holds nothing back itself: it waits for the others.
    let last = logs.last().unwrap();
    assert_eq!(last.status().pending_bytes, 0);
    world.executor.run(last.room());
    world.settle();
    last.append(NOW, LeaderEpoch(0), &header, &bytes).unwrap();
    world.settle();
}
