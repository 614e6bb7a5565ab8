use alloc::vec;

use proptest::prelude::*;

use super::*;

fn entry(producer_id: i64) -> ProducerSnapshotEntry {
    ProducerSnapshotEntry {
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(1),
        last_sequence: 4,
        last_offset: Offset(14),
        offset_delta: 4,
        timestamp: Timestamp(0x0102_0304_0506),
        coordinator_epoch: -1,
        current_transaction_first_offset: -1,
    }
}

#[test]
fn the_bytes_are_kafkas() {
    let file = encode_snapshot(&[entry(7)]);
    #[rustfmt::skip]
    let expected = [
        0, 1,                               // version
        0x8f, 0x58, 0x4f, 0xc5,             // crc
        0, 0, 0, 1,                         // count
        0, 0, 0, 0, 0, 0, 0, 7,             // producer id
        0, 1,                               // epoch
        0, 0, 0, 4,                         // last sequence
        0, 0, 0, 0, 0, 0, 0, 14,            // last offset
        0, 0, 0, 4,                         // offset delta
        0, 0, 1, 2, 3, 4, 5, 6,             // timestamp
        0xff, 0xff, 0xff, 0xff,             // coordinator epoch
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ];
    assert_eq!(file, expected);
}

#[test]
fn files_that_kafka_wrote_are_read_and_written_back() {
    let check = |file: &[u8], producer_id, last_sequence, last_offset, coordinator_epoch| {
        let entries = decode_snapshot(file).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].producer_id, ProducerId(producer_id));
        assert_eq!(entries[0].last_sequence, last_sequence);
        assert_eq!(entries[0].last_offset, Offset(last_offset));
        assert_eq!(entries[0].coordinator_epoch, coordinator_epoch);
        assert_eq!(encode_snapshot(&entries), file);
    };
    check(include_bytes!("../../tests/fixtures/producer.snapshot"), 0, 2, 2, -1);
    // After a marker of a newer epoch the window is empty: no sequence, no offset.
    check(include_bytes!("../../tests/fixtures/transactions.snapshot"), 9, -1, -1, 0);
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused() {
    let file = encode_snapshot(&[entry(1), entry(2)]);
    for len in 0..file.len() {
        assert!(decode_snapshot(&file[..len]).is_err(), "{len}");
    }
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_snapshot(&damaged).is_err(), "{bit}");
    }
}

#[test]
fn a_count_that_lies_is_refused_under_a_right_checksum() {
    for count in [-1_i32, 0, 2, i32::MAX] {
        let mut file = encode_snapshot(&[entry(1)]);
        file[6..10].copy_from_slice(&count.to_be_bytes());
        let crc = crc32c(&file[6..]);
        file[2..6].copy_from_slice(&crc.to_be_bytes());
        let expected = SnapshotError::Count { count, entry_bytes: SNAPSHOT_ENTRY_BYTES };
        assert_eq!(decode_snapshot(&file), Err(expected));
    }
}

proptest! {
    #[test]
    fn entries_round_trip(rows in prop::collection::vec(
        any::<(i64, i16, i32, i64, i32, i64, i32, i64)>(), 0..20,
    )) {
        let entries: Vec<_> = rows.into_iter().map(|row| ProducerSnapshotEntry {
            producer_id: ProducerId(row.0),
            producer_epoch: ProducerEpoch(row.1),
            last_sequence: row.2,
            last_offset: Offset(row.3),
            offset_delta: row.4,
            timestamp: Timestamp(row.5),
            coordinator_epoch: row.6,
            current_transaction_first_offset: row.7,
        }).collect();
        prop_assert_eq!(decode_snapshot(&encode_snapshot(&entries)), Ok(entries));
    }
}

#[test]
fn no_producers_make_a_file_of_ten_bytes() {
    let file = encode_snapshot(&[]);
    assert_eq!(file.len(), SNAPSHOT_HEADER_BYTES);
    assert_eq!(decode_snapshot(&file), Ok(vec![]));
}
