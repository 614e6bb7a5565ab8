//! Records that go: the log start moves, segments below it are removed, and both survive a crash.

use commitlog::{LogOptions, ReadError, RemovalReason, RetentionPolicy, TrimError};
use record::{BatchHeader, Codec, LeaderEpoch, Offset, Timestamp};

use crate::support::world::{NOW, Settings, World, batch};

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
