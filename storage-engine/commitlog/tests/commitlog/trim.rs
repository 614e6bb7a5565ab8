//! Records that go: the log start moves, segments below it are removed, and both survive a crash.

use commitlog::{
    AppendError, CheckpointMap, DiskError, IoStage, LogFailure, LogOptions, ReadError, RefusedOpen,
    RemovalReason, RetentionPolicy, TrimError,
};
use record::{BatchHeader, Codec, LeaderEpoch, Offset, Timestamp};

use crate::support::world::{DIRECTORY, NOW, Settings, TOPIC, World, batch, identity};

/// A log of `count` batches of ten records, each in a segment of its own, but the last.
fn world(count: usize) -> World {
    let options = LogOptions { segment_bytes: 1_000, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    world.fill(count, 10, 50);
    world.settle();
    world.log.set_high_watermark(world.log.ends().durable());
    world
}

fn raise(world: &World, to: i64) -> Result<Offset, TrimError> {
    world.log.raise_log_start(Offset(to))?;
    let logs = [world.log.clone()];
    world.executor.run(world.store.persist_log_starts(&logs, NOW)).remove(0)
}

fn remove_below(world: &World) -> Vec<(i64, RemovalReason)> {
    let removed = world.executor.run(world.store.remove_below_start(&world.log, NOW)).unwrap();
    removed.iter().map(|one| (one.base.0, one.reason)).collect()
}

fn retain(world: &World, policy: RetentionPolicy, now: Timestamp) -> Vec<(i64, RemovalReason)> {
    let applied = world.store.apply_retention(&world.log, policy, now);
    let removed = world.executor.run(applied).unwrap();
    removed.iter().map(|one| (one.base.0, one.reason)).collect()
}

/// Offsets of the segments' files.
fn bases(world: &World) -> Vec<i64> {
    let names = world.files(".log");
    let number = |name: &String| name.rsplit('/').next().unwrap().trim_end_matches(".log").parse();
    names.iter().map(|name| number(name).unwrap()).collect()
}

/// Everything from the log start on can be read and is what was appended; what lies below is refused.
fn verify(world: &World, log_start: i64) {
    assert_eq!(world.log.ends().log_start(), Offset(log_start));
    let below = Offset(log_start - 1);
    let refused = ReadError::BelowStart { asked: below, log_start: Offset(log_start) };
    assert_eq!(world.read_at(below, 1 << 20).unwrap_err(), refused);
    let held: Vec<u8> = world
        .model
        .iter()
        .filter(|batch| BatchHeader::parse(batch).unwrap().last_offset() >= Offset(log_start))
        .flatten()
        .copied()
        .collect();
    let (mut from, mut read) = (Offset(log_start), Vec::new());
    while from < world.log.ends().durable() {
        let (bytes, next) = world.read_at(from, 1 << 20).unwrap();
        read.extend_from_slice(&bytes);
        from = next;
    }
    assert!(read == held, "{} bytes of {}", read.len(), held.len());
}

#[test]
fn an_answered_log_start_survives_a_crash_with_and_without_its_segments() {
    let world = world(5);
    assert_eq!(bases(&world), [0, 10, 20, 30, 40]);
    assert_eq!(raise(&world, 25), Ok(Offset(25)));
    verify(&world, 25);
    let world = world.crash();
    // The other copy of the checkpoint may still need them: they wait for the next removal.
    assert_eq!((bases(&world).len(), world.log.segment_count()), (5, 3));
    verify(&world, 25);
    assert_eq!(remove_below(&world), []);
    assert_eq!(bases(&world), [20, 30, 40]);
    let world = world.crash();
    verify(&world, 25);
    assert!(world.store.damage().is_empty());
}

#[test]
fn segments_wholly_below_the_start_go_with_all_their_files() {
    let world = world(5);
    raise(&world, 30).unwrap();
    let by_request = RemovalReason::LogStart;
    assert_eq!(remove_below(&world), [(0, by_request), (10, by_request), (20, by_request)]);
    assert_eq!(bases(&world), [30, 40]);
    assert_eq!((world.files(".index").len(), world.files(".timeindex").len()), (1, 1));
    verify(&world, 30);
    assert_eq!(remove_below(&world), []);
    let world = world.crash();
    assert_eq!(bases(&world), [30, 40]);
    verify(&world, 30);
    let world = world.stop().start();
    verify(&world, 30);
}

#[test]
fn a_log_start_goes_forward_and_never_past_the_high_watermark() {
    let world = world(3);
    world.log.set_high_watermark(Offset(20));
    let beyond = TrimError::BeyondEnd { asked: Offset(21), end: Offset(20) };
    assert_eq!(raise(&world, 21), Err(beyond));
    assert_eq!(raise(&world, 15), Ok(Offset(15)));
    assert_eq!(raise(&world, 3), Ok(Offset(15)));
    verify(&world, 15);
}

#[test]
fn producers_are_remembered_though_all_their_records_are_gone() {
    let world = world(4);
    let known = world.fold.borrow().clone();
    assert_eq!(known.0.len(), 1);
    let policy = RetentionPolicy { age_ms_max: Some(1_000), bytes_max: None };
    let later = Timestamp(NOW.0 + 1_000_000);
    let age = RemovalReason::Age;
    assert_eq!(retain(&world, policy, later), [(0, age), (10, age), (20, age), (30, age)]);
    let mut world = world.crash();
    assert_eq!(*world.fold.borrow(), known);
    // The name of an empty file says where the log goes on, even when no checkpoint does.
    assert_eq!(bases(&world), [40]);
    for copy in world.disk.names("checkpoints") {
        world.disk.delete(&format!("checkpoints/{copy}"));
    }
    world = world.crash();
    assert_eq!(
        (world.log.ends().log_start(), world.log.ends().durable()),
        (Offset(40), Offset(40))
    );
    world.fill(2, 10, 50);
    world.settle();
    verify(&world.crash(), 40);
}

#[test]
fn age_stops_at_the_first_segment_with_a_younger_record() {
    let world = world(4);
    // The records of the batch at sequence n carry the times n to n + 9 after NOW.
    let policy = RetentionPolicy { age_ms_max: Some(1_000), bytes_max: None };
    let at = |after_ms: i64| Timestamp(NOW.0 + 1_000 + after_ms);
    assert_eq!(retain(&world, policy, at(9)), []);
    assert_eq!(retain(&world, policy, at(10)), [(0, RemovalReason::Age)]);
    assert_eq!(retain(&world, policy, at(29)), [(10, RemovalReason::Age)]);
    verify(&world, 20);
    verify(&world.crash(), 20);
}

#[test]
fn size_never_leaves_less_than_retention_bytes() {
    let world = world(4);
    let each = world.model[0].len() as u64;
    let keep = |bytes| RetentionPolicy { age_ms_max: None, bytes_max: Some(bytes) };
    assert_eq!(retain(&world, keep(4 * each), NOW), []);
    assert_eq!(retain(&world, keep(3 * each + 1), NOW), []);
    assert_eq!(retain(&world, keep(3 * each), NOW), [(0, RemovalReason::Size)]);
    assert_eq!(
        retain(&world, keep(1), NOW),
        [(10, RemovalReason::Size), (20, RemovalReason::Size)]
    );
    assert_eq!(retain(&world, keep(0), NOW), [(30, RemovalReason::Size)]);
    verify(&world.crash(), 40);
}

#[test]
fn nothing_above_the_high_watermark_is_let_go() {
    let world = world(4);
    world.log.set_high_watermark(Offset(25));
    let policy = RetentionPolicy { age_ms_max: Some(0), bytes_max: Some(0) };
    let gone = retain(&world, policy, Timestamp(i64::MAX));
    assert_eq!(gone, [(0, RemovalReason::Age), (10, RemovalReason::Age)]);
    verify(&world, 20);
}

#[test]
fn an_idle_segment_is_closed_when_it_is_old() {
    let mut world = World::new(Settings::default());
    world.fill(1, 1, 50);
    let policy = RetentionPolicy::default();
    let week = LogOptions::default().segment_ms;
    retain(&world, policy, Timestamp(NOW.0 + week));
    assert_eq!(world.log.segment_count(), 1);
    retain(&world, policy, Timestamp(NOW.0 + week + 1));
    world.settle();
    assert_eq!(world.log.segment_count(), 2);
    assert_eq!(world.files(".index").len(), 1, "sealed");
    world.fill(1, 1, 50);
    world.verify(1 << 20);
    world.crash().verify(1 << 20);
}

#[test]
fn epochs_that_ended_below_the_start_go() {
    let mut world = world(2);
    world.epoch = LeaderEpoch(3);
    world.append_synced(&batch(Codec::None, NOW.0, 10, 50));
    world.log.set_high_watermark(Offset(30));
    let end_of =
        |world: &World, epoch| world.log.end_offset_for(LeaderEpoch(epoch)).unwrap().end_offset.0;
    assert_eq!(end_of(&world, 0), 20);
    world.settle();
    raise(&world, 25).unwrap();
    assert_eq!((end_of(&world, 0), end_of(&world, 3)), (25, 30));
    world.checkpoint();
    let world = world.crash();
    assert_eq!((end_of(&world, 0), end_of(&world, 3)), (25, 30));
    remove_below(&world);
    assert_eq!(bases(&world), [20]);
    assert_eq!((end_of(&world, 0), end_of(&world, 3)), (25, 30));
}

/// A log of one batch of ten records whose segment was closed for its age: the next one has no file yet.
fn idle_and_rolled() -> World {
    let world = world(1);
    let later = Timestamp(NOW.0 + LogOptions::default().segment_ms + 1);
    retain(&world, RetentionPolicy::default(), later);
    world.settle();
    assert_eq!((world.log.segment_count(), bases(&world)), (2, vec![0]));
    world
}

/// Appends a batch; the log judges whether it becomes durable.
fn append_one(world: &World) -> Result<(), LogFailure> {
    let bytes = batch(Codec::None, NOW.0, 10, 50);
    let header = BatchHeader::parse(&bytes).unwrap();
    match world.log.append(NOW, LeaderEpoch(0), &header, &bytes) {
        Ok(appended) => world.executor.run(world.log.durable_through(appended.last_offset)),
        Err(AppendError::ReadOnly { failure }) => Err(failure),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_last_name_of_a_log_stays_where_the_next_file_could_not_be_made() {
    let world = idle_and_rolled();
    let known = world.fold.borrow().clone();
    world.disk.fail_creates_of(".log", DiskError::Io { errno: 5 });
    let failure = LogFailure::Io { stage: IoStage::Open, errno: 5 };
    assert_eq!(append_one(&world), Err(failure));
    // Records may be deleted by request all the same; their file is the only one that says where the log goes on.
    assert_eq!(raise(&world, 10), Ok(Offset(10)));
    assert_eq!(remove_below(&world), []);
    assert_eq!(bases(&world), [0]);
    let world = world.crash();
    assert_eq!(*world.fold.borrow(), known);
    for copy in world.disk.names("checkpoints") {
        world.disk.delete(&format!("checkpoints/{copy}"));
    }
    let world = world.crash();
    assert_eq!(world.log.ends().accepted(), Offset(10));
    assert_eq!(*world.fold.borrow(), known);
}

#[test]
fn a_log_without_a_segment_file_goes_on_with_its_producers() {
    let world = world(4);
    let known = world.fold.borrow().clone();
    let policy = RetentionPolicy { age_ms_max: Some(1_000), bytes_max: None };
    assert_eq!(retain(&world, policy, Timestamp(NOW.0 + 1_000_000)).len(), 4);
    world.disk.delete(&format!("{DIRECTORY}/{:020}.log", 40));
    let world = world.crash();
    assert_eq!((bases(&world), world.log.ends().accepted()), (vec![], Offset(40)));
    assert_eq!(*world.fold.borrow(), known);
    // Without a checkpoint the snapshot says how far the log came: no offset is given out twice.
    for copy in world.disk.names("checkpoints") {
        world.disk.delete(&format!("checkpoints/{copy}"));
    }
    let mut world = world.crash();
    assert_eq!(
        (world.log.ends().accepted(), world.log.ends().log_start()),
        (Offset(40), Offset(40))
    );
    assert_eq!(*world.fold.borrow(), known);
    world.fill(2, 10, 50);
    world.settle();
    verify(&world.crash(), 40);
}

/// Removes all records while directories fail `count` times to be synced, once the next file was made.
fn make_a_name(count: usize, error: DiskError) -> World {
    let world = idle_and_rolled();
    raise(&world, 10).unwrap();
    world.disk.fail_dir_syncs_after_create(count, error);
    let removed = world.executor.run(world.store.remove_below_start(&world.log, NOW));
    assert_eq!(removed.is_ok(), world.log.failure().is_none(), "{removed:?}");
    world
}

#[test]
fn a_name_that_is_made_lasting_at_the_second_try_to_open_its_directory_is_a_name() {
    let world = make_a_name(1, DiskError::TooManyFiles { errno: 24 });
    assert_eq!((world.log.failure(), bases(&world)), (None, vec![10]));
    assert_eq!(append_one(&world), Ok(()));
    assert_eq!(world.crash().log.ends().accepted(), Offset(20));
}

#[test]
fn a_name_that_is_not_lasting_ends_appends_as_any_failed_sync_does() {
    let world = make_a_name(usize::MAX, DiskError::Io { errno: 5 });
    let failure = LogFailure::Io { stage: IoStage::SyncDirectory, errno: 5 };
    assert_eq!((world.log.failure(), append_one(&world)), (Some(failure), Err(failure)));
    assert_eq!(bases(&world), [0, 10], "nothing went");
    assert_eq!(world.crash().log.ends().accepted(), Offset(10));
}

#[test]
fn a_log_whose_new_name_met_too_many_open_files_takes_records_again_later() {
    let world = make_a_name(usize::MAX, DiskError::TooManyFiles { errno: 24 });
    let reason = RefusedOpen::TooManyFiles;
    assert_eq!(world.log.failure(), Some(LogFailure::Refused { reason, errno: 24 }));
    world.disk.fail_dir_syncs_after_create(0, DiskError::NotFound);
    let World { executor, store, log, fold, settings, .. } = &world;
    executor.run(store.release_log(log)).unwrap();
    let opened = store.open_log(identity(TOPIC), settings.options, fold.clone(), NOW);
    let (log, _) = executor.run(opened).unwrap();
    let world = World { log, ..world };
    assert_eq!(append_one(&world), Ok(()));
    assert_eq!(world.crash().log.ends().accepted(), Offset(20));
}

#[test]
fn a_checkpoint_says_of_a_segment_when_its_own_first_record_was() {
    let options = LogOptions { segment_bytes: 1_000, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    world.append(&batch(Codec::None, NOW.0 + 7, 10, 50));
    // The next segment's bytes are on their way for as long as it takes the first one to be sealed.
    world.disk.hold_writes_of(&format!("{:020}.log", 10));
    world.append(&batch(Codec::None, NOW.0 + 5_000, 10, 50));
    let is_sealed = || (!world.files(".index").is_empty()).then_some(());
    world.executor.run(futures_lite::future::poll_fn(|_| match is_sealed() {
        Some(()) => std::task::Poll::Ready(()),
        None => std::task::Poll::Pending,
    }));
    for _ in 0..20 {
        world.executor.run(futures_lite::future::yield_now());
    }
    world.checkpoint();
    let (map, _) = world.executor.run(CheckpointMap::load(&world.disk)).unwrap();
    let entry = map.get(&world.log.identity().topic_partition()).unwrap();
    assert_eq!((entry.segment, entry.end), (Offset(0), Offset(10)));
    assert_eq!(entry.first_timestamp, Timestamp(NOW.0 + 16));
    world.disk.hold_writes_of("");
    world.sync();
}

/// A segment is sealed that has no index of its front; after so many steps a reader finds that out as well. Retention follows.
fn retain_after_a_reader_met_a_seal(steps_before_reader: usize) {
    let options = LogOptions { segment_bytes: 8 << 20, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    let large = batch(Codec::None, NOW.0, 2, 500_000);
    for _ in 0..7 {
        world.append(&large);
    }
    world.sync();
    let stopped = world.stop();
    // As a clean stop long before leaves it: nothing wrong, and nothing said of the last six megabytes.
    stopped.disk.edit(&format!("{DIRECTORY}/{:020}.index", 0), |bytes| bytes.truncate(8));
    let mut world = stopped.start();
    let late = NOW.0 + 1_000_000;
    world.append_synced(&batch(Codec::None, late, 1, 100));
    world.append_synced(&batch(Codec::None, late, 4, 500_000));
    for _ in 0..steps_before_reader {
        world.executor.run(futures_lite::future::yield_now());
    }
    world.read_at(Offset(13), 1).unwrap();
    world.settle();
    assert_eq!((world.log.segment_count(), world.files(".snapshot").len()), (2, 2), "sealed");
    world.log.set_high_watermark(world.log.ends().durable());
    let policy = RetentionPolicy { age_ms_max: Some(1_000), bytes_max: None };
    assert_eq!(retain(&world, policy, Timestamp(late + 900)), [], "{steps_before_reader}");
    let times = world.disk.edit(&format!("{DIRECTORY}/{:020}.timeindex", 0), |bytes| bytes.clone());
    let newest = times.as_chunks::<12>().0.last().unwrap()[..8].to_vec();
    assert_eq!(newest, late.to_be_bytes(), "{steps_before_reader}: what is on disk");
}

#[test]
fn an_index_made_again_while_its_segment_is_sealed_does_not_age_the_segment() {
    (0..60).step_by(4).for_each(retain_after_a_reader_met_a_seal);
}

/// A log whose producer wrote nothing but segments that are gone: a snapshot of offset 40, within the segment from 30 on, is all
/// that is known of it. Then a record of nobody at 40.
fn remembered_by_one_snapshot() -> World {
    let mut world = world(3);
    world.append_synced(&batch(Codec::None, NOW.0, 10, 50));
    let stopped = world.stop();
    // As where a crash came between the end of the segment before and its sealing.
    stopped.disk.delete(&format!("{DIRECTORY}/{:020}.snapshot", 30));
    let mut world = stopped.start();
    world.log.set_high_watermark(world.log.ends().durable());
    raise(&world, 30).unwrap();
    assert_eq!(remove_below(&world).len(), 3);
    assert_eq!((bases(&world), snapshots(&world)), (vec![30], vec![40]));
    world.append_synced(&batch(Codec::None, NOW.0, 1, 50));
    assert_eq!(world.log.segment_count(), 1);
    world
}

fn snapshots(world: &World) -> Vec<i64> {
    let names = world.files(".snapshot");
    names.iter().map(|name| name.trim_end_matches(".snapshot").parse().unwrap()).collect()
}

#[test]
fn the_only_word_of_a_producer_outlives_a_stop_that_is_cut_off_before_its_checkpoint() {
    let world = remembered_by_one_snapshot();
    let known = world.fold.borrow().clone();
    assert_eq!(known.0.len(), 1);
    world.disk.fail_writes_of("checkpoints/", DiskError::NoSpace);
    world.executor.run(world.store.close(NOW)).unwrap_err();
    assert_eq!(snapshots(&world), [40, 41]);
    // It is killed there; the checkpoints that are left end before the newer snapshot.
    let world = world.kill();
    assert_eq!(*world.fold.borrow(), known);
}

#[test]
fn an_older_snapshot_goes_once_both_checkpoints_are_past_the_newer_one() {
    let world = remembered_by_one_snapshot();
    let known = world.fold.borrow().clone();
    let world = world.stop().start();
    // The other copy of the checkpoint ends at the older one.
    assert_eq!(snapshots(&world), [40, 41]);
    world.checkpoint();
    assert_eq!(snapshots(&world), [40, 41]);
    world.checkpoint();
    world.settle();
    assert_eq!(snapshots(&world), [41]);
    let world = world.crash();
    assert_eq!(*world.fold.borrow(), known);
}

#[test]
fn a_snapshot_that_is_slow_to_go_keeps_no_checkpoint_waiting() {
    let mut world = remembered_by_one_snapshot().stop().start();
    world.disk.hold_removes_of(".snapshot");
    world.checkpoint();
    world.checkpoint();
    // Both copies are past it by now, and it is on its way.
    world.append_synced(&batch(Codec::None, NOW.0, 1, 50));
    world.checkpoint();
    assert_eq!(snapshots(&world), [40, 41]);
    let (map, _) = world.executor.run(CheckpointMap::load(&world.disk)).unwrap();
    let entry = map.get(&world.log.identity().topic_partition()).unwrap();
    assert_eq!(entry.end, Offset(42));
    // A log that goes waits for it: its name may be another's afterwards.
    let mut deleted = Box::pin(world.store.delete_log(world.log.clone()));
    for _ in 0..100 {
        let over = world.executor.run(futures_lite::future::poll_once(&mut deleted));
        assert_eq!(over, None);
        world.executor.run(futures_lite::future::yield_now());
    }
    world.disk.hold_removes_of("");
    world.executor.run(deleted).unwrap();
}

#[test]
fn no_checkpoint_goes_back_to_segments_that_another_one_has_left_behind() {
    let options = LogOptions { segment_bytes: 1_000, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    // Nothing is sealed, so that a checkpoint points at the oldest segment that is left.
    world.disk.fail_creates_of(".index.tmp", DiskError::NoSpace);
    world.fill(4, 10, 50);
    world.settle();
    world.log.set_high_watermark(world.log.ends().durable());
    let entry = |world: &World| {
        let (map, _) = world.executor.run(CheckpointMap::load(&world.disk)).unwrap();
        *map.get(&world.log.identity().topic_partition()).unwrap()
    };
    world.checkpoint();
    world.checkpoint();
    raise(&world, 20).unwrap();
    assert_eq!(entry(&world).segment, Offset(0));
    // The copy that is written second cannot be.
    world.disk.fail_writes_of("checkpoints/0.a", DiskError::NoSpace);
    world.executor.run(world.store.remove_below_start(&world.log, NOW)).unwrap_err();
    assert_eq!(entry(&world).segment, Offset(20));
    world.disk.fail_writes_of("nothing", DiskError::NoSpace);
    world.checkpoint();
    assert_eq!((entry(&world).segment, bases(&world)), (Offset(20), vec![0, 10, 20, 30]));
    let known = world.fold.borrow().clone();
    assert_eq!(remove_below(&world), Vec::new());
    assert_eq!(bases(&world), [20, 30]);
    let world = world.crash();
    assert_eq!(*world.fold.borrow(), known);
    verify(&world, 20);
}

#[test]
fn a_log_that_is_opened_again_forgets_no_epoch_for_a_log_start_that_does_not_last() {
    let mut world = World::new(Settings::default());
    world.fill(1, 10, 50);
    // The last epoch bears the table out, whatever became of those before it.
    for epoch in 1..3 {
        world.epoch = LeaderEpoch(epoch);
        world.fill(1, 10, 50);
    }
    world.log.set_high_watermark(world.log.ends().durable());
    world.checkpoint();
    // No checkpoint can be written, and no record.
    world.disk.fail_writes_of("0.", DiskError::NoSpace);
    let log_start = Offset(15);
    assert_eq!(raise(&world, 15), Err(TrimError::NotLasting { log_start }));
    let last = world.append(&batch(Codec::None, NOW.0, 1, 50));
    let refused = world.executor.run(world.log.durable_through(last));
    assert_eq!(refused, Err(LogFailure::NoSpace));
    let World { executor, store, log, fold, settings, .. } = &world;
    executor.run(store.release_log(log)).unwrap();
    let opened = store.open_log(identity(TOPIC), settings.options, fold.clone(), NOW);
    let (log, _) = executor.run(opened).unwrap();
    executor.run(store.checkpoint(NOW)).unwrap_err();
    let world = World { log, ..world }.crash();
    assert_eq!(world.log.ends().log_start(), Offset(0));
    let end = world.log.end_offset_for(LeaderEpoch(0)).map(|end| end.end_offset);
    assert_eq!(end, Some(Offset(10)));
}
