//! Look-ups by time against a model that looks at every record.

use commitlog::{AtLeastOneBatch, LogOptions, ReadRequest, TimestampedOffset};
use record::batch::{Attributes, HEADER_BYTES, crc_of};
use record::{
    BatchBuilder, BatchHeader, BatchView, Codec, NewRecord, Offset, Records, Timestamp, Workspace,
    decompress,
};

use crate::support::world::{DIRECTORY, NOW, Settings, World, batch};

/// Every record of the world: offset and timestamp.
fn records(world: &World) -> Vec<(Offset, Timestamp)> {
    let mut found = Vec::new();
    for bytes in &world.model {
        let view = BatchView::parse(bytes).unwrap();
        let header: &BatchHeader = view.header();
        let codec = header.codec().unwrap();
        let plain = if codec == Codec::None {
            view.record_bytes().to_vec()
        } else {
            decompress(codec, view.record_bytes(), 1 << 20, &mut Workspace::new()).unwrap()
        };
        for record in Records::new(header, &plain) {
            let record = record.unwrap();
            found.push((record.offset(header), record.timestamp(header)));
        }
    }
    found
}

fn world(tail_cache_bytes: usize) -> World {
    let options =
        LogOptions { segment_bytes: 6000, index_interval_bytes: 300, ..LogOptions::default() };
    let mut world = World::new(Settings { options, tail_cache_bytes, ..Settings::default() });
    let mut state = 7_u64;
    for index in 0..300_usize {
        let codec = Codec::ALL[index % 5];
        let mut builder = BatchBuilder::new(codec);
        for _ in 0..1 + index % 4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Rising, with jumps back and a few far ahead.
            let jitter = (state >> 40) as i64 % 50;
            let far = if index % 97 == 50 { 1000 } else { 0 };
            builder.append(&NewRecord {
                timestamp: Timestamp(index as i64 * 10 + jitter + far),
                value: Some(&[7; 40]),
                ..NewRecord::default()
            });
        }
        world.append_synced(&builder.build());
    }
    world
}

fn check(world: &World) {
    let records = records(world);
    let end = world.log.ends().durable();
    for end in [end, Offset(end.0 / 2), Offset(1), Offset(0)] {
        for target in (-1..4200).step_by(7) {
            let expected = records
                .iter()
                .find(|(_, timestamp)| timestamp.0 >= target)
                .filter(|(offset, _)| *offset < end)
                .map(|found| found.0);
            let found =
                world.executor.run(world.log.offset_for_timestamp(Timestamp(target), end)).unwrap();
            assert_eq!(found.map(|found| found.offset), expected, "target {target} end {end}");
        }
    }
}

#[test]
fn the_first_record_at_or_after_a_time_is_found_hot_cold_and_after_restarts() {
    check(&world(1 << 20));
    let cold = world(0);
    check(&cold);
    cold.settle();
    check(&cold);
    let cold = cold.stop().start();
    check(&cold);
    cold.checkpoint();
    let mut cold = cold.crash();
    check(&cold);
    cold.fill(3, 1, 100);
    check(&cold.crash());
}

#[test]
fn a_batch_that_rots_between_its_header_and_its_records_is_passed_over() {
    let options = LogOptions { segment_bytes: 16 << 10, ..LogOptions::default() };
    let settings =
        Settings { options, tail_cache_bytes: 0, read_cache_bytes: 0, ..Settings::default() };
    let mut world = World::new(settings);
    // Who looks for the time of its first record, which is below the log start, is long at it and finds nothing.
    let mut builder = BatchBuilder::new(Codec::Zstd);
    let zeros = vec![0; 1 << 20];
    for after_ms in [1000, 0, 0, 0, 0, 0, 0, 0] {
        let timestamp = Timestamp(NOW.0 + after_ms);
        let value = Some(zeros.as_slice());
        builder.append(&NewRecord { timestamp, value, ..NewRecord::default() });
    }
    world.append_synced(&builder.build());
    for index in 0..8 {
        world.append_synced(&batch(Codec::None, NOW.0 + 600 + index, 2, 1_900));
    }
    let end = world.log.ends().durable();
    world.log.set_high_watermark(end);
    assert_eq!(world.log.raise_log_start(Offset(1)), Ok(Offset(1)));
    world.settle();
    world.executor.give_way();
    let path = format!("{DIRECTORY}/{:020}.log", 0);
    let (position, before) = (world.model[0].len(), world.executor.yields());
    let rot = async {
        while world.executor.yields() - before < 200 {
            futures_lite::future::yield_now().await;
        }
        // The cache keeps what it read last: headers that were seen are read again with their records.
        let (bytes_max, minimum) = (1, AtLeastOneBatch::Yes);
        let request = ReadRequest { from: Offset(end.0 - 4), end, bytes_max, minimum };
        world.log.read(request).await.unwrap();
        world.disk.edit(&path, |bytes| bytes[position + 100] ^= 1);
    };
    let look_up = world.log.offset_for_timestamp(Timestamp(NOW.0 + 500), end);
    let (found, ()) = world.executor.run(futures_lite::future::zip(look_up, rot));
    assert_eq!(found.unwrap().map(|found| found.offset), Some(Offset(10)));
    let listed = world.store.damage();
    let listed: Vec<_> = listed.iter().map(|one| one.offsets.clone()).collect();
    assert_eq!(listed, [Offset(8)..Offset(10)]);
}

#[test]
fn the_record_with_the_largest_time_is_the_first_of_its_kind() {
    for tail_cache_bytes in [1 << 20, 0] {
        let world = world(tail_cache_bytes);
        world.settle();
        let records = records(&world);
        for end in (0..=world.log.ends().durable().0).step_by(13) {
            // Only whole batches count below the end.
            let visible = world
                .model
                .iter()
                .map(|batch| BatchHeader::parse(batch).unwrap().next_offset())
                .filter(|next| next.0 <= end)
                .max()
                .unwrap_or(Offset(0));
            let visible: Vec<_> = records.iter().filter(|(offset, _)| *offset < visible).collect();
            let largest = visible.iter().map(|(_, timestamp)| *timestamp).max();
            let expected = largest.map(|largest| {
                visible.iter().find(|(_, timestamp)| *timestamp == largest).unwrap().0
            });
            let found: Option<TimestampedOffset> =
                world.executor.run(world.log.offset_of_max_timestamp(Offset(end))).unwrap();
            assert_eq!(found.map(|found| found.offset), expected, "end {end}");
        }
    }
}

#[test]
fn the_largest_time_there_can_be_is_found_in_a_batch_that_lies_across_the_start() {
    let mut world = World::new(Settings::default());
    for records in [1, 2] {
        let mut builder = BatchBuilder::new(Codec::None);
        for _ in 0..records {
            builder.append(&NewRecord { timestamp: Timestamp(i64::MAX), ..NewRecord::default() });
        }
        world.append_synced(&builder.build());
    }
    world.log.set_high_watermark(Offset(3));
    assert_eq!(world.log.raise_log_start(Offset(2)), Ok(Offset(2)));
    let found = world.executor.run(world.log.offset_of_max_timestamp(Offset(3))).unwrap();
    assert_eq!(found.map(|found| found.offset), Some(Offset(2)));
}

#[test]
fn a_look_into_records_that_expand_a_thousandfold_gives_way_as_it_goes() {
    let mut world = World::new(Settings::default());
    let mut builder = BatchBuilder::new(Codec::Zstd);
    let zeros = vec![0; 1 << 20];
    for timestamp in 0..16 {
        builder.append(&NewRecord {
            timestamp: Timestamp(timestamp),
            value: Some(&zeros),
            ..NewRecord::default()
        });
    }
    world.append_synced(&builder.build());
    let (end, before) = (world.log.ends().durable(), world.executor.yields());
    let found = world.executor.run(world.log.offset_for_timestamp(Timestamp(15), end)).unwrap();
    assert_eq!(found.map(|found| found.offset), Some(Offset(15)));
    let yields = world.executor.yields() - before;
    // 16 MiB at 2 ns a byte, a turn for others every 20 us.
    assert!(yields > 1000, "{yields}");
}

/// A batch of two records whose values are `blocks` times 128 KiB of zeros in all, in a frame with a window of 128 MiB.
fn expanding(blocks: usize) -> Vec<u8> {
    expanding_at(blocks, 0)
}

fn expanding_at(blocks: usize, first_timestamp: i64) -> Vec<u8> {
    let block_bytes = 128 << 10;
    let record = |offset_delta: i64, value_bytes: usize| {
        let mut fields = vec![0];
        for value in [offset_delta * 1000, offset_delta, -1, value_bytes as i64] {
            put_varint(&mut fields, value);
        }
        let mut head = Vec::new();
        // The value and the count of headers follow.
        put_varint(&mut head, (fields.len() + value_bytes + 1) as i64);
        [head, fields].concat()
    };
    // No content size, no checksum; a window of 2^27 bytes.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3];
    let mut block = |kind: u32, size: usize, content: &[u8]| {
        let head = (u32::try_from(size).unwrap() << 3) | (kind << 1);
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.extend_from_slice(content);
    };
    for (offset_delta, blocks) in [(0, blocks - 1), (1, 1)] {
        // The last zero of its value is the count of headers.
        let head = record(offset_delta, blocks * block_bytes - 1);
        block(0, head.len(), &head);
        for _ in 0..blocks {
            block(1, block_bytes, &[0]);
        }
    }
    frame.extend_from_slice(&[1, 0, 0]);
    let mut template = BatchBuilder::new(Codec::None);
    for timestamp in [0, 1000] {
        let timestamp = Timestamp(first_timestamp + timestamp);
        template.append(&NewRecord { timestamp, ..NewRecord::default() });
    }
    let header = BatchHeader::parse(&template.build()).unwrap();
    let length = i32::try_from(HEADER_BYTES - 12 + frame.len()).unwrap();
    let attributes = Attributes(0).with_codec(Codec::Zstd);
    let header = BatchHeader { length, attributes, ..header };
    let mut bytes = [header.encode().to_vec(), frame].concat();
    let crc = crc_of(&bytes);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// Kafka's signed varint.
fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

#[test]
fn records_beyond_a_gibibyte_and_a_large_window_are_looked_through_like_any() {
    let mut world = World::new(Settings::default());
    let bytes = expanding(9_000);
    assert!(bytes.len() < 40_000);
    world.append_synced(&bytes);
    let end = world.log.ends().durable();
    let found = world.executor.run(world.log.offset_for_timestamp(Timestamp(500), end)).unwrap();
    assert_eq!(
        found.map(|found| (found.offset, found.timestamp)),
        Some((Offset(1), Timestamp(1000)))
    );
}

#[test]
fn look_ups_that_need_a_large_window_take_turns_and_all_end() {
    let mut world = World::new(Settings::default());
    world.append_synced(&expanding(70));
    let (end, log, executor) = (world.log.ends().durable(), &world.log, &world.executor);
    let before = executor.yields();
    let look_up = async || {
        let found = log.offset_for_timestamp(Timestamp(500), end).await;
        (found, executor.yields() - before)
    };
    let two = futures_lite::future::zip(look_up(), look_up());
    let ((one, other), third) = executor.run(futures_lite::future::zip(two, look_up()));
    let mut ends = Vec::new();
    for (found, at) in [one, other, third] {
        assert_eq!(found.unwrap().map(|found| found.offset), Some(Offset(1)));
        ends.push(at);
    }
    ends.sort_unstable();
    // Each has a third of all the work. Side by side all of them would end at the end.
    let whole = ends[2];
    assert!(ends[0] < whole / 2 && ends[1] < whole * 5 / 6, "{ends:?}");
}

#[test]
fn look_ups_that_look_into_records_or_wait_to_do_so_hold_nothing_of_the_disk() {
    let options = LogOptions { segment_bytes: 32 << 10, ..LogOptions::default() };
    let settings =
        Settings { options, tail_cache_bytes: 0, read_cache_bytes: 0, ..Settings::default() };
    let mut world = World::new(settings);
    let times = [10_000, 20_000, 30_000];
    for time in times {
        for _ in 0..16 {
            world.append_synced(&batch(Codec::None, time, 1, 2_000));
        }
        world.append_synced(&expanding_at(70, time));
    }
    world.settle();
    world.executor.give_way();
    let (end, log, disk) = (world.log.ends().durable(), &world.log, &world.disk);
    let look_up = |time| log.offset_for_timestamp(Timestamp(time + 500), end);
    let two = futures_lite::future::zip(look_up(times[0]), look_up(times[1]));
    let mut all = std::pin::pin!(futures_lite::future::zip(two, look_up(times[2])));
    let (mut looks, mut spared) = (0, 0);
    let ((one, other), third) = world.executor.run(std::future::poll_fn(|context| {
        let polled = all.as_mut().poll(context);
        looks += 1;
        // The cache itself keeps what it read last.
        spared += usize::from(disk.held_bytes() <= 40 << 10);
        polled
    }));
    for (found, time) in [one, other, third].into_iter().zip(times) {
        assert_eq!(found.unwrap().map(|found| found.timestamp), Some(Timestamp(time + 1_000)));
    }
    assert!(looks > 500 && spared > looks * 95 / 100, "{spared} of {looks}");
}
