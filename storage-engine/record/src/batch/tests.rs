use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::{Codec, Crc, ProducerBatch, ProducerEpoch, ProducerId, Timestamp};

/// What Apache Kafka 4.4 stored of three records by its own console producer.
const JAVA_NONE: &[u8] = include_bytes!("../../tests/fixtures/java-none.log");

fn header() -> BatchHeader {
    BatchHeader::parse(JAVA_NONE).unwrap()
}

#[test]
fn kafkas_bytes_parse_to_what_its_dump_prints() {
    let header = header();
    assert_eq!(header.total_bytes(), JAVA_NONE.len());
    assert_eq!((header.base_offset, header.last_offset_delta), (Offset(0), 2));
    assert_eq!((header.last_offset(), header.next_offset()), (Offset(2), Offset(3)));
    assert_eq!(header.records_count, 3);
    assert_eq!(header.codec(), Ok(Codec::None));
    assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
    assert!(!header.is_transactional());
    assert!(!header.is_control());
    assert_eq!(header.delete_horizon(), None);
    assert!(header.has_producer_id());
    assert_eq!((header.base_sequence, header.last_sequence()), (0, 2));
    assert_eq!(header.encode(), JAVA_NONE[..HEADER_BYTES]);
    BatchView::parse(JAVA_NONE).unwrap().verify_crc().unwrap();
}

#[test]
fn attribute_bits_are_kafkas() {
    let attributes = |bits| Attributes(bits);
    assert_eq!(attributes(0x04).codec(), Ok(Codec::Zstd));
    assert_eq!(attributes(0x07).codec(), Err(UnknownCodec { bits: 7 }));
    assert_eq!(attributes(0x08).timestamp_type(), TimestampType::LogAppendTime);
    assert!(attributes(0x10).is_transactional() && !attributes(0x10).is_control());
    assert!(attributes(0x20).is_control() && !attributes(0x20).is_transactional());
    assert!(attributes(0x40).has_delete_horizon());
    let built = attributes(0x45)
        .with_codec(Codec::Lz4)
        .with_timestamp_type(TimestampType::LogAppendTime)
        .transactional()
        .control();
    assert_eq!(built, attributes(0x7b));
    assert_eq!(built.with_timestamp_type(TimestampType::CreateTime), attributes(0x73));
}

#[test]
fn values_that_no_batch_has_are_refused() {
    let check = |at: usize, bytes: &[u8], expected: BatchError| {
        let mut batch = JAVA_NONE.to_vec();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(BatchHeader::parse(&batch), Err(expected));
    };
    check(16, &[1], BatchError::Magic { magic: 1 });
    check(8, &48_i32.to_be_bytes(), BatchError::Length { length: 48, minimum: 49 });
    check(8, &[0xff; 4], BatchError::Length { length: -1, minimum: 49 });
    let offsets =
        |base_offset, last_offset_delta| BatchError::Offsets { base_offset, last_offset_delta };
    check(0, &[0xff; 8], offsets(-1, 2));
    check(0, &(i64::MAX - 2).to_be_bytes(), offsets(i64::MAX - 2, 2));
    check(23, &[0xff; 4], offsets(0, -1));
    let count = |records_count| BatchError::Count { records_count, last_offset_delta: 2 };
    check(57, &[0xff; 4], count(-1));
    check(57, &4_i32.to_be_bytes(), count(4));
}

#[test]
fn assignment_leaves_the_checksum_alone() {
    let mut batch = JAVA_NONE.to_vec();
    assign(&mut batch, Offset(4711), LeaderEpoch(9));
    let view = BatchView::parse(&batch).unwrap();
    assert_eq!(view.header().base_offset, Offset(4711));
    assert_eq!(view.header().partition_leader_epoch, LeaderEpoch(9));
    assert_eq!(view.header().crc, header().crc);
    view.verify_crc().unwrap();
    assert_eq!(&batch[16..], &JAVA_NONE[16..]);
}

#[test]
fn every_flipped_bit_that_the_checksum_covers_is_found() {
    for bit in CRC_REGION_START * 8..JAVA_NONE.len() * 8 {
        let mut damaged = JAVA_NONE.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(crc_of(&damaged), header().crc, "{bit}");
    }
}

#[test]
fn sequences_wrap_to_zero() {
    let last = |base_sequence, last_offset_delta| {
        BatchHeader { base_sequence, last_offset_delta, ..header() }.last_sequence()
    };
    assert_eq!(last(0, 0), 0);
    assert_eq!(last(i32::MAX - 1, 1), i32::MAX);
    assert_eq!(last(i32::MAX, 1), 0);
    assert_eq!(last(i32::MAX, i32::MAX), i32::MAX - 1);
    assert_eq!(last(-1, 0), -1);
}

#[test]
fn a_fold_is_told_what_the_header_says() {
    let header = BatchHeader {
        base_offset: Offset(100),
        attributes: Attributes(0x30),
        max_timestamp: Timestamp(8),
        producer_id: ProducerId(3),
        producer_epoch: ProducerEpoch(4),
        base_sequence: 5,
        ..header()
    };
    let expected = ProducerBatch {
        producer_id: ProducerId(3),
        producer_epoch: ProducerEpoch(4),
        base_sequence: 5,
        base_offset: Offset(100),
        last_offset: Offset(102),
        last_offset_delta: 2,
        max_timestamp: Timestamp(8),
        is_transactional: true,
        is_control: true,
    };
    assert_eq!(ProducerBatch::from(&header), expected);
}

#[test]
fn one_batch_fills_its_bytes_exactly() {
    let mut two = JAVA_NONE.to_vec();
    two.push(0);
    let batch_bytes = JAVA_NONE.len();
    let parse = |bytes| BatchView::parse(bytes).map(|_| ());
    assert_eq!(parse(&two), Err(BatchError::Trailing { batch_bytes, left: 1 }));
    for left in 0..batch_bytes {
        let needed = if left < HEADER_BYTES { HEADER_BYTES } else { batch_bytes };
        assert_eq!(parse(&JAVA_NONE[..left]), Err(BatchError::Truncated { needed, left }));
    }
}

fn walk(bytes: &[u8]) -> Vec<(usize, &'static str)> {
    Batches::new(bytes)
        .map(|(at, found)| {
            let word = match found {
                Found::Whole(_) => "whole",
                Found::Truncated { .. } => "truncated",
                Found::ZeroTail { .. } => "zeros",
                Found::Corrupt(_) => "corrupt",
            };
            (at, word)
        })
        .collect()
}

#[test]
fn the_walk_tells_whole_truncated_zeros_and_corrupt_apart() {
    let len = JAVA_NONE.len();
    let check = |tail: &[u8], expected: Option<&'static str>| {
        let mut bytes = JAVA_NONE.to_vec();
        bytes.extend_from_slice(tail);
        let mut all = vec![(0, "whole")];
        all.extend(expected.map(|word| (len, word)));
        assert_eq!(walk(&bytes), all);
    };
    check(&[], None);
    check(&[0], Some("zeros"));
    check(&[0; 60], Some("zeros"));
    check(&[0; 4096], Some("zeros"));
    // The first byte of an offset is zero as well: it cannot be told from room.
    check(&JAVA_NONE[..1], Some("zeros"));
    check(&JAVA_NONE[..20], Some("truncated"));
    check(&JAVA_NONE[..len - 1], Some("truncated"));
    check(&[7; 100], Some("corrupt"));
    let mut zeros_with_a_bit = [0; 61];
    zeros_with_a_bit[60] = 1;
    check(&zeros_with_a_bit, Some("corrupt"));
    assert_eq!(walk(&[]), []);
}

#[test]
fn a_batch_whose_checksum_is_zero_is_not_the_tail() {
    // P01. CRC-32C is linear: what the last four bytes change can be solved for.
    let mut batch = JAVA_NONE.to_vec();
    let end = batch.len();
    let mut crc_with_tail = |tail: u32| {
        batch[end - 4..].copy_from_slice(&tail.to_be_bytes());
        crc_of(&batch)
    };
    let of_zeros = crc_with_tail(0);
    // Gauss: for each leading bit of a change, the change and the tail that makes it.
    let mut basis: [Option<(u32, u32)>; 32] = [None; 32];
    for bit in 0..32 {
        let (mut change, mut tail) = (crc_with_tail(1 << bit) ^ of_zeros, 1_u32 << bit);
        while let Some((row, row_tail)) = basis[change.leading_zeros() as usize] {
            change ^= row;
            tail ^= row_tail;
        }
        basis[change.leading_zeros() as usize] = Some((change, tail));
    }
    let (mut left, mut tail) = (of_zeros, 0);
    while left != 0 {
        let (row, row_tail) = basis[left.leading_zeros() as usize].unwrap();
        left ^= row;
        tail ^= row_tail;
    }
    assert_eq!(crc_with_tail(tail), 0);
    batch[17..21].fill(0);
    let view = BatchView::parse(&batch).unwrap();
    view.verify_crc().unwrap();
    assert_eq!(view.header().crc, 0);
    assert_eq!(
        walk(&[batch.as_slice(), &[0; 100]].concat()),
        [(0, "whole"), (batch.len(), "zeros")]
    );
}

proptest! {
    #[test]
    fn pieces_have_the_checksum_of_the_whole(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(0_usize..400, 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.push(0);
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let (mut all, mut region) = (Crc::new(), Crc::of_batch());
        for pair in cuts.windows(2) {
            all.update(&bytes[pair[0]..pair[1]]);
            region.update(&bytes[pair[0]..pair[1]]);
        }
        prop_assert_eq!(all.value(), crc32c(&bytes));
        prop_assert_eq!(region.value(), crc_of(&bytes));
    }

    #[test]
    fn any_bytes_are_walked_within_bounds(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        plausible in any::<bool>(),
        length in 40_i32..200,
    ) {
        if plausible && bytes.len() > 17 {
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[16] = 2;
        }
        let mut end = 0;
        for (at, found) in Batches::new(&bytes) {
            prop_assert_eq!(at, end);
            if let Found::Whole(view) = found {
                end += view.bytes().len();
                prop_assert!(end <= bytes.len());
                prop_assert_eq!(&view.header().encode()[..], &view.bytes()[..HEADER_BYTES]);
                prop_assert!(view.header().next_offset() > view.header().base_offset);
            }
        }
    }
}
