//! What is appended is read back, from memory and from disk, whole batches at a time.

use crate::support::world::{NOW, Settings, World, batch};
use commitlog::{AppendError, AtLeastOneBatch, LogOptions, ReadError, ReadRequest};
use record::{BatchHeader, Codec, LeaderEpoch, Offset, Timestamp};

#[test]
fn batches_of_all_sizes_read_back_hot_and_cold() {
    let tail_bytes = [64 << 20, 0];
    for tail_cache_bytes in tail_bytes {
        let options = LogOptions { segment_bytes: 20 << 20, ..LogOptions::default() };
        let mut world = World::new(Settings { options, tail_cache_bytes, ..Settings::default() });
        for bytes in [0, 10, 4000, 4023, 4024, 4025, 4096, 70_000, 1 << 20, 10 << 20, 5] {
            world.append(&batch(Codec::None, NOW.0, 1, bytes));
            world.append_synced(&batch(Codec::Lz4, NOW.0, 3, bytes));
        }
        for bytes_max in [1, 5000, 1 << 20, 64 << 20] {
            world.verify(bytes_max);
        }
    }
}

#[test]
fn appends_without_waiting_form_groups_and_keep_their_order() {
    let mut world = World::new(Settings::default());
    for index in 0..3000_usize {
        world.append(&batch(Codec::None, NOW.0, 1 + index % 3, index % 700));
    }
    world.sync();
    let counters = world.store.counters();
    assert!(counters.syncs < 300, "{} syncs for 3000 batches", counters.syncs);
    world.verify(1 << 20);
    assert!(world.log.segment_count() > 10);
}

#[test]
fn a_read_begins_with_the_batch_that_holds_the_offset() {
    for tail_cache_bytes in [1 << 20, 0] {
        let mut world = World::new(Settings { tail_cache_bytes, ..Settings::default() });
        for _ in 0..50 {
            world.append_synced(&batch(Codec::Gzip, NOW.0, 4, 300));
        }
        for from in 0..200 {
            let (bytes, _) = world.read_at(Offset(from), 1).unwrap();
            let header = BatchHeader::parse(&bytes).unwrap();
            assert_eq!(header.base_offset, Offset(from / 4 * 4));
            assert_eq!(header.total_bytes(), bytes.len());
        }
    }
}

#[test]
fn reads_stop_at_their_end_and_their_size() {
    for tail_cache_bytes in [1 << 20, 0] {
        let mut world = World::new(Settings { tail_cache_bytes, ..Settings::default() });
        for _ in 0..10 {
            world.append_synced(&batch(Codec::None, NOW.0, 2, 100));
        }
        let one = world.model[0].len();
        let read = |end: i64, bytes_max: usize, minimum| {
            let request = ReadRequest { from: Offset(0), end: Offset(end), bytes_max, minimum };
            let read = world.executor.run(world.log.read(request)).unwrap();
            (read.bytes, read.next_offset.0)
        };
        assert_eq!(read(6, 1 << 20, AtLeastOneBatch::No), (3 * one, 6));
        assert_eq!(read(7, 1 << 20, AtLeastOneBatch::No), (3 * one, 6));
        assert_eq!(read(20, 2 * one, AtLeastOneBatch::No), (2 * one, 4));
        assert_eq!(read(20, 2 * one - 1, AtLeastOneBatch::No), (one, 2));
        assert_eq!(read(20, one - 1, AtLeastOneBatch::No), (0, 0));
        assert_eq!(read(20, one - 1, AtLeastOneBatch::Yes), (one, 2));
        assert_eq!(read(0, 1 << 20, AtLeastOneBatch::Yes), (0, 0));
    }
}

#[test]
fn offsets_outside_the_log_are_refused() {
    let mut world = World::new(Settings::default());
    world.append_synced(&batch(Codec::None, NOW.0, 2, 100));
    assert_eq!(world.read_at(Offset(2), 10).unwrap(), (Vec::new(), Offset(2)));
    let beyond = ReadError::BeyondEnd { asked: Offset(3), end: Offset(2) };
    assert_eq!(world.read_at(Offset(3), 10), Err(beyond));
    let below = ReadError::BelowStart { asked: Offset(-1), log_start: Offset(0) };
    assert_eq!(world.read_at(Offset(-1), 10), Err(below));
}

#[test]
fn segments_roll_by_size_by_age_and_never_empty() {
    let options = LogOptions { segment_bytes: 1000, segment_ms: 10_000, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    world.append_synced(&batch(Codec::None, NOW.0, 1, 500));
    world.append_synced(&batch(Codec::None, NOW.0, 1, 300));
    assert_eq!(world.log.segment_count(), 1);
    world.append_synced(&batch(Codec::None, NOW.0, 1, 500));
    assert_eq!(world.log.segment_count(), 2);
    world.append_synced(&batch(Codec::None, NOW.0 + 10_000, 1, 10));
    assert_eq!(world.log.segment_count(), 2);
    world.append_synced(&batch(Codec::None, NOW.0 + 10_001, 1, 10));
    assert_eq!(world.log.segment_count(), 3);
    // The first batch of a segment has no timestamp: the clock since the roll decides.
    world.settle();
    world.verify(1 << 20);
}

#[test]
fn a_segment_without_timestamps_rolls_by_the_clock() {
    let options = LogOptions { segment_ms: 10_000, ..LogOptions::default() };
    let world = World::new(Settings { options, ..Settings::default() });
    let bytes = batch(Codec::None, -1, 1, 10);
    let header = BatchHeader::parse(&bytes).unwrap();
    for (at, segments) in [(0, 1), (10_000, 1), (10_001, 2)] {
        let now = Timestamp(NOW.0 + at);
        world.log.append(now, LeaderEpoch(0), &header, &bytes).unwrap();
        assert_eq!(world.log.segment_count(), segments, "at {at}");
    }
}

#[test]
fn refused_appends_leave_nothing() {
    let options = LogOptions { segment_bytes: 1000, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    world.epoch = LeaderEpoch(5);
    world.append_synced(&batch(Codec::None, NOW.0, 1, 10));
    let large = batch(Codec::None, NOW.0, 1, 1000);
    let header = BatchHeader::parse(&large).unwrap();
    let refused = world.log.append(NOW, LeaderEpoch(5), &header, &large);
    let bytes = large.len() as u64;
    assert_eq!(refused, Err(AppendError::TooLarge { bytes, segment_bytes: 1000 }));
    let small = batch(Codec::None, NOW.0, 1, 10);
    let header = BatchHeader::parse(&small).unwrap();
    let refused = world.log.append(NOW, LeaderEpoch(4), &header, &small);
    let fenced = AppendError::Fenced { asked: LeaderEpoch(4), latest: LeaderEpoch(5) };
    assert_eq!(refused, Err(fenced));
    assert_eq!(world.log.ends().accepted(), Offset(1));
    world.verify(1 << 20);
}

#[test]
fn a_log_that_waits_for_the_disk_is_full() {
    let options = LogOptions { segment_bytes: 1 << 30, ..LogOptions::default() };
    let mut world = World::new(Settings { options, ..Settings::default() });
    let bytes = batch(Codec::None, NOW.0, 1, 8 << 20);
    let header = BatchHeader::parse(&bytes).unwrap();
    let accepted = (0..20)
        .take_while(|_| match world.log.append(NOW, LeaderEpoch(0), &header, &bytes) {
            Ok(_) => true,
            Err(AppendError::Full { pending_bytes, bound }) => {
                assert!(pending_bytes <= bound);
                false
            }
            Err(other) => panic!("{other}"),
        })
        .count();
    assert_eq!(accepted, 7);
    world.sync();
    world.append_synced(&bytes);
}

#[test]
fn the_tail_cache_keeps_to_its_budget_and_reads_go_on() {
    let mut world = World::new(Settings {
        options: LogOptions::default(),
        tail_cache_bytes: 100_000,
        read_cache_bytes: 300_000,
        ..Settings::default()
    });
    for index in 0..400 {
        world.append_synced(&batch(Codec::None, NOW.0, 1, 3000));
        let counters = world.store.counters();
        assert!(counters.tail_cache_bytes <= 100_000, "{counters:?}");
        if index % 50 == 0 {
            world.verify(20_000);
        }
    }
    let request = ReadRequest {
        from: Offset(399),
        end: Offset(400),
        bytes_max: 1 << 20,
        minimum: AtLeastOneBatch::Yes,
    };
    assert!(world.log.try_read_hot(&request).is_some());
    assert!(world.log.try_read_hot(&ReadRequest { from: Offset(0), ..request }).is_none());
}
