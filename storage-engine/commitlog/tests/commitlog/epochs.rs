//! The file of leader epochs has no checksum: it is held against the batches and against what the metadata knows.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use commitlog::DiskError;
use record::{LeaderEpoch, Offset, Timestamp};
use tracing::span;

use crate::support::world::{DIRECTORY, NOW, Settings, World};

const FILE: &str = "leader-epoch-checkpoint";

/// Epochs 0, 3 and 7 of four batches each, and then `edit` done to the file.
fn world(clean: bool, edit: impl Fn(&mut Vec<u8>)) -> (World, record::EpochTable) {
    let mut world = World::new(Settings::default());
    for epoch in [0, 3, 7] {
        world.epoch = LeaderEpoch(epoch);
        world.fill(4, 2, 3000);
    }
    world.checkpoint();
    let epochs = world.log.epochs();
    let path = format!("{DIRECTORY}/{FILE}");
    let world = if clean {
        let stopped = world.stop();
        stopped.disk.edit(&path, edit);
        stopped.start()
    } else {
        world.disk.edit(&path, edit);
        world.crash()
    };
    (world, epochs)
}

fn replace(bytes: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(from), "{text}");
    *bytes = text.replace(from, to).into_bytes();
}

#[test]
fn a_flipped_digit_of_the_newest_epoch_is_put_right_by_the_batches() {
    for clean in [false, true] {
        for (from, to) in [("\n7 16", "\n8 16"), ("\n7 16", "\n5 16"), ("\n7 16", "\n7 24")] {
            let (mut world, epochs) = world(clean, |bytes| replace(bytes, from, to));
            assert_eq!(world.log.epochs(), epochs, "{to} clean {clean}");
            assert!(world.report.epochs_rebuilt);
            world.epoch = LeaderEpoch(7);
            world.fill(1, 1, 10);
            world.verify(1 << 20);
            world.checkpoint();
            let text = world.disk.edit(&format!("{DIRECTORY}/{FILE}"), |bytes| bytes.clone());
            assert_eq!(text, b"0\n3\n0 0\n3 8\n7 16\n");
        }
    }
}

#[test]
fn a_right_file_is_taken_as_it_is() {
    for clean in [false, true] {
        let (world, epochs) = world(clean, |_| {});
        assert_eq!(world.log.epochs(), epochs);
        assert!(!world.report.epochs_rebuilt);
        assert_eq!(world.log.ends().durable(), Offset(24));
    }
}

#[test]
fn an_epoch_above_the_metadatas_is_not_believed_of_the_file_nor_of_a_batch() {
    for clean in [false, true] {
        let settings = Settings { newest_epoch: LeaderEpoch(7), ..Settings::default() };
        let mut world = World::new(settings);
        for epoch in [0, 7] {
            world.epoch = LeaderEpoch(epoch);
            world.fill(4, 2, 3000);
        }
        let epochs = world.log.epochs();
        // The last batch, whose epoch no checksum covers, and the file that was written after it.
        let position: usize = world.model[..7].iter().map(Vec::len).sum();
        let flip = |bytes: &mut Vec<u8>| bytes[position + 15] = 9;
        let path = format!("{DIRECTORY}/{:020}.log", 0);
        let world = if clean {
            let stopped = world.stop();
            stopped.disk.edit(&path, flip);
            stopped.disk.edit(&format!("{DIRECTORY}/{FILE}"), |bytes| {
                replace(bytes, "\n7 8", "\n9 8");
            });
            stopped.start()
        } else {
            world.disk.edit(&path, flip);
            world.crash()
        };
        assert_eq!(world.log.epochs(), epochs, "clean {clean}");
        assert_eq!(world.log.latest_epoch(), Some(LeaderEpoch(7)));
    }
}

#[test]
fn whoever_needs_the_file_of_epochs_waits_until_it_is_written() {
    let mut world = World::new(Settings::default());
    world.epoch = LeaderEpoch(3);
    world.fill(4, 2, 3000);
    world.settle();
    let holds = |suffix: &str| world.files(suffix).len() == 1;
    let mut context = Context::from_waker(Waker::noop());
    // A checkpoint begins to write it, and its disk is slow.
    let mut checkpoint = pin!(world.store.checkpoint(NOW));
    while !holds("leader-epoch-checkpoint.tmp") {
        assert!(checkpoint.as_mut().poll(&mut context).is_pending());
    }
    // A stop writes it before the producers' snapshot, and may not take it for written.
    let mut stop = pin!(world.store.close(NOW));
    for _ in 0..10_000 {
        assert!(stop.as_mut().poll(&mut context).is_pending());
    }
    assert!(!holds(FILE));
    assert!(!holds(".snapshot"), "went on without the file");
    let mut both = 0;
    while both < 2 {
        both += u32::from(both == 0 && checkpoint.as_mut().poll(&mut context).is_ready());
        both += u32::from(both == 1 && stop.as_mut().poll(&mut context) == Poll::Ready(Ok(())));
    }
    assert!(holds(FILE));
    assert!(holds(".snapshot"));
}

/// Counts what is logged.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn epochs_that_cannot_be_written_are_told_of_once_and_written_by_a_later_checkpoint() {
    let mut world = World::new(Settings::default());
    world.fill(4, 2, 3000);
    let error = DiskError::TooManyFiles { errno: 24 };
    world.disk.fail_creates_of("leader-epoch-checkpoint.tmp", error);
    let lines = Lines::default();
    let at = |second: i64| Timestamp(NOW.0 + second * 1000);
    tracing::subscriber::with_default(lines.clone(), || {
        for second in 0..5 {
            assert!(world.store.checkpoint_due(at(second)), "it is tried again");
            world.executor.run(world.store.checkpoint(at(second))).unwrap();
        }
    });
    // One for the epochs, and one for the files that were closed to make room.
    assert_eq!(lines.0.load(Ordering::Relaxed), 2);
    assert!(world.files("leader-epoch-checkpoint").is_empty());
    // Nothing is appended any more; descriptors are there again.
    world.disk.fail_creates_of("nothing", DiskError::NoSpace);
    assert!(world.store.checkpoint_due(at(5)));
    world.executor.run(world.store.checkpoint(at(5))).unwrap();
    assert_eq!(world.files("leader-epoch-checkpoint").len(), 1);
    assert!(!world.store.checkpoint_due(at(6)), "nothing is left to be done");
    let world = world.crash();
    assert!(!world.report.epochs_rebuilt, "{:?}", world.report);
}
