use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::batch::{Attributes, HEADER_BYTES, LENGTH_END, crc_of};
use crate::codec::DecodeError;
use crate::{
    BatchBuilder, Batches, Found, Header, NewRecord, Offset, ProducerId, Records, compress,
    decompress,
};

const OPTIONS: ValidateOptions = ValidateOptions {
    batch_bytes_max: 64 << 20,
    output_bytes_max: 64 << 20,
    timestamp_min: Timestamp(0),
    timestamp_max: Timestamp(i64::MAX),
    null_keys: NullKeys::Allow,
};

fn validate(batch: &[u8]) -> Result<Summary, BatchRefusal> {
    validate_with(batch, &OPTIONS)
}

fn validate_with(batch: &[u8], options: &ValidateOptions) -> Result<Summary, BatchRefusal> {
    Validator::new(batch, options, &mut Workspace::new())?.run()
}

/// A batch of these record bytes, whatever they are, under a right checksum.
fn wrap(codec: Codec, records_count: i32, plain: &[u8]) -> Vec<u8> {
    let mut batch = vec![0; HEADER_BYTES];
    compress(codec, plain, &mut batch);
    let mut builder = BatchBuilder::new(codec);
    builder.append(&NewRecord { timestamp: Timestamp(1000), ..NewRecord::default() });
    let header = BatchHeader {
        length: i32::try_from(batch.len() - LENGTH_END).unwrap(),
        last_offset_delta: records_count - 1,
        records_count,
        ..BatchHeader::parse(&builder.build()).unwrap()
    };
    batch[..HEADER_BYTES].copy_from_slice(&header.encode());
    seal(&mut batch);
    batch
}

fn seal(batch: &mut [u8]) {
    let crc = crc_of(batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn three() -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for (timestamp, key) in [(50, "a"), (70, "b"), (70, "c")] {
        let (key, value) = (Some(key.as_bytes()), Some(b"value".as_slice()));
        let headers = &[Header { key: b"h", value: None }];
        builder.append(&NewRecord { timestamp: Timestamp(timestamp), key, value, headers });
    }
    builder.build()
}

#[test]
fn what_clients_wrote_passes_and_the_header_is_true() {
    let fixtures: [&[u8]; 18] = [
        include_bytes!("../../tests/fixtures/java-none.log"),
        include_bytes!("../../tests/fixtures/java-gzip.log"),
        include_bytes!("../../tests/fixtures/java-snappy.log"),
        include_bytes!("../../tests/fixtures/java-lz4.log"),
        include_bytes!("../../tests/fixtures/java-zstd.log"),
        include_bytes!("../../tests/fixtures/java-gzip-large.log"),
        include_bytes!("../../tests/fixtures/java-snappy-large.log"),
        include_bytes!("../../tests/fixtures/java-lz4-large.log"),
        include_bytes!("../../tests/fixtures/java-zstd-large.log"),
        include_bytes!("../../tests/fixtures/librdkafka-none.log"),
        include_bytes!("../../tests/fixtures/librdkafka-gzip.log"),
        include_bytes!("../../tests/fixtures/librdkafka-snappy.log"),
        include_bytes!("../../tests/fixtures/librdkafka-lz4.log"),
        include_bytes!("../../tests/fixtures/librdkafka-zstd.log"),
        include_bytes!("../../tests/fixtures/librdkafka-gzip-large.log"),
        include_bytes!("../../tests/fixtures/librdkafka-snappy-large.log"),
        include_bytes!("../../tests/fixtures/librdkafka-lz4-large.log"),
        include_bytes!("../../tests/fixtures/librdkafka-zstd-large.log"),
    ];
    let mut records = 0;
    for file in fixtures {
        for (_, found) in Batches::new(file) {
            let Found::Whole(view) = found else { panic!("{found:?}") };
            // As it was when the producer sent it.
            let mut batch = view.bytes().to_vec();
            crate::batch::assign(&mut batch, Offset(0), crate::LeaderEpoch::NONE);
            let summary = validate(&batch).unwrap();
            assert!(summary.is_header_true());
            records += summary.header.records_count;
        }
    }
    assert_eq!(records, 10 * 3 + 8 * 250);
}

#[test]
fn the_largest_timestamp_is_found_with_its_first_offset() {
    let mut batch = three();
    let summary = validate(&batch).unwrap();
    assert_eq!((summary.max_timestamp, summary.max_timestamp_offset_delta), (Timestamp(70), 1));
    assert!(summary.is_header_true());
    batch[35..43].copy_from_slice(&99_i64.to_be_bytes());
    seal(&mut batch);
    let summary = validate(&batch).unwrap();
    assert!(!summary.is_header_true());
    let records = &batch[HEADER_BYTES..];
    let fixed = crate::with_timestamps(
        &summary.header,
        TimestampType::CreateTime,
        summary.max_timestamp,
        records,
    );
    assert_eq!([fixed.encode().as_slice(), records].concat(), three());
}

#[test]
fn headers_that_no_producer_may_send_are_refused() {
    let check = |at: usize, bytes: &[u8], expected: BatchRefusal| {
        let mut batch = three();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        // The checksum comes first: a flipped bit is not the producer's fault.
        let crc = validate(&batch).unwrap_err();
        let before_crc = !matches!(crc, BatchRefusal::Batch(BatchError::Crc { .. }));
        assert_eq!(before_crc, at < crate::batch::CRC_REGION_START, "{crc}");
        seal(&mut batch);
        assert_eq!(validate(&batch), Err(expected));
    };
    check(16, &[1], BatchError::Magic { magic: 1 }.into());
    check(0, &5_i64.to_be_bytes(), BatchRefusal::BaseOffset { base_offset: 5 });
    let count =
        |records_count, last_offset_delta| BatchRefusal::Count { records_count, last_offset_delta };
    check(57, &2_i32.to_be_bytes(), count(2, 2));
    check(57, &0_i32.to_be_bytes(), count(0, 2));
    let negative = BatchError::Count { records_count: -1, last_offset_delta: 2 };
    check(57, &(-1_i32).to_be_bytes(), negative.into());
    let offsets = BatchError::Offsets { base_offset: 0, last_offset_delta: -1 };
    check(23, &(-1_i32).to_be_bytes(), offsets.into());
    check(21, &Attributes(0).control().0.to_be_bytes(), BatchRefusal::Control);
    check(21, &8_i16.to_be_bytes(), BatchRefusal::TimestampType);
    check(21, &5_i16.to_be_bytes(), UnknownCodec { bits: 5 }.into());
    let sequence = BatchRefusal::Sequence { producer_id: 7, base_sequence: -1 };
    check(43, &7_i64.to_be_bytes(), sequence);
}

#[test]
fn exactly_one_batch_is_taken() {
    let batch = three();
    let batch_bytes = batch.len();
    let two = [batch.as_slice(), &batch].concat();
    let trailing = BatchError::Trailing { batch_bytes, left: batch_bytes };
    assert_eq!(validate(&two), Err(trailing.into()));
    for left in 0..batch_bytes {
        let needed = if left < HEADER_BYTES { HEADER_BYTES } else { batch_bytes };
        let truncated = BatchError::Truncated { needed, left };
        assert_eq!(validate(&batch[..left]), Err(truncated.into()));
    }
    let batch_bytes_max = batch_bytes - 1;
    let options = ValidateOptions { batch_bytes_max, ..OPTIONS };
    let too_large = BatchRefusal::TooLarge { batch_bytes, batch_bytes_max };
    assert_eq!(validate_with(&batch, &options), Err(too_large));
}

#[test]
fn whole_records_are_judged_and_listed() {
    let null_keys = |count| {
        let mut builder = BatchBuilder::new(Codec::Zstd);
        for _ in 0..count {
            builder.append(&NewRecord { timestamp: Timestamp(5), ..NewRecord::default() });
        }
        builder.build()
    };
    assert!(validate(&null_keys(100)).is_ok());
    let compacted = ValidateOptions { null_keys: NullKeys::Refuse, ..OPTIONS };
    let refusal = validate_with(&null_keys(100), &compacted).unwrap_err();
    let BatchRefusal::Records { faults } = refusal else { panic!("{refusal}") };
    assert_eq!((faults.count, faults.first.len()), (100, RECORD_FAULTS_MAX));
    assert_eq!(faults.first[7], RecordFault { index: 7, kind: RecordFaultKind::NullKey });
    let check = |min, max, expected: &[(i32, i64)]| {
        let (timestamp_min, timestamp_max) = (Timestamp(min), Timestamp(max));
        let options = ValidateOptions { timestamp_min, timestamp_max, ..OPTIONS };
        let expected: Vec<_> = expected
            .iter()
            .map(|(index, timestamp)| {
                let kind = RecordFaultKind::Timestamp(Timestamp(*timestamp));
                RecordFault { index: *index, kind }
            })
            .collect();
        match validate_with(&three(), &options) {
            Ok(_) => assert_eq!(expected, []),
            Err(BatchRefusal::Records { faults }) => assert_eq!(faults.first, expected),
            Err(other) => panic!("{other}"),
        }
    };
    check(50, 70, &[]);
    check(51, 70, &[(0, 50)]);
    check(0, 69, &[(1, 70), (2, 70)]);
    // A record without a timestamp is exempt.
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(&NewRecord { timestamp: Timestamp::NONE, ..NewRecord::default() });
    assert_eq!(validate(&builder.build()).unwrap().max_timestamp, Timestamp::NONE);
}

/// A record without key, value and headers; the fourth byte is twice its place.
const PLAIN: [u8; 7] = [12, 0, 0, 0, 1, 1, 0];

#[test]
fn records_that_are_none_are_refused_under_every_codec() {
    let check = |plain: &[u8], records_count, index, expected: RecordDefect| {
        for codec in Codec::ALL {
            let refusal = validate(&wrap(codec, records_count, plain));
            let expected = BatchRefusal::Record { index, defect: expected };
            assert_eq!(refusal, Err(expected), "{codec}");
        }
    };
    let second = [12, 0, 0, 2, 1, 1, 0];
    let two = [PLAIN, second].concat();
    for codec in Codec::ALL {
        assert!(validate(&wrap(codec, 2, &two)).is_ok(), "{codec}");
    }
    let too_many = |what, at, count, element_bytes_min, left| {
        RecordDefect::Field(DecodeError::TooMany { what, at, count, element_bytes_min, left })
    };
    let negative =
        |what, at, length| RecordDefect::Field(DecodeError::Negative { what, at, length });
    // Count: the bytes end early, or go on.
    check(&PLAIN, 2, 1, RecordDefect::Count { records_count: 2 });
    check(&two, 1, 1, RecordDefect::Count { records_count: 1 });
    check(&[], 1, 0, RecordDefect::Count { records_count: 1 });
    // Offset deltas 0, 1, 2 …
    let wrong_delta = RecordDefect::OffsetDelta { expected: 1, found: 0 };
    check(&PLAIN.repeat(2), 2, 1, wrong_delta);
    // Lengths (P71), in the second record so that positions are seen to go on.
    let after = |record: &[u8]| [&PLAIN, record].concat();
    check(&after(&[1, 0, 0, 2, 1, 1, 0]), 2, 1, negative("record", 7, -1));
    check(&after(&[12, 0, 0, 2, 3, 1, 0]), 2, 1, negative("key", 11, -2));
    check(&after(&[12, 0, 0, 2, 1, 3, 0]), 2, 1, negative("value", 12, -2));
    check(&after(&[12, 0, 0, 2, 1, 1, 1]), 2, 1, negative("headers", 13, -1));
    check(&after(&[16, 0, 0, 2, 1, 1, 2, 1, 1]), 2, 1, negative("header key", 14, -1));
    check(&after(&[12, 0, 0, 2, 6, 1, 0]), 2, 1, too_many("key", 11, 3, 1, 2));
    let many = [20, 0, 0, 2, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    check(&after(&many), 2, 1, too_many("headers", 13, i32::MAX as usize, 2, 0));
    check(&after(&[14, 0, 0, 2, 1, 1, 0, 9]), 2, 1, RecordDefect::Leftover { left: 1 });
    check(&after(&[2, 0, 0, 2, 1, 1, 0]), 2, 1, too_many("fields beyond the record", 8, 4, 1, 1));
    // Zeros are no records: a bomb of them ends at its first byte.
    check(&vec![0; 1 << 20], 1, 0, too_many("fields beyond the record", 1, 4, 1, 0));
}

#[test]
fn a_large_record_passes_without_being_held() {
    let value = vec![7; 10 << 20];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = BatchBuilder::new(codec);
        builder.append(&NewRecord { value: Some(&value), ..NewRecord::default() });
        let batch = builder.build();
        let mut workspace = Workspace::new();
        let summary = Validator::new(&batch, &OPTIONS, &mut workspace).unwrap().run().unwrap();
        assert_eq!(summary.record_bytes, 13 + (10 << 20), "{codec}");
        let memory = workspace.window.buffer_bytes();
        assert!(memory <= 256 << 10, "{codec}: {memory} bytes");
    }
}

#[test]
fn a_record_beyond_the_output_bound_is_refused() {
    let value = vec![0; 9 << 20];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = BatchBuilder::new(codec);
        builder.append(&NewRecord { value: Some(&value), ..NewRecord::default() });
        let output_bytes_max = 8 << 20;
        let options = ValidateOptions { output_bytes_max, ..OPTIONS };
        let expected = DecompressError::OutputBound { codec, output_bytes_max };
        assert_eq!(validate_with(&builder.build(), &options), Err(expected.into()));
    }
}

#[test]
fn compressed_bytes_that_are_damaged_under_a_right_checksum_are_refused() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut batch = wrap(codec, 1, &PLAIN);
        let cut = batch.len() - 1;
        batch.truncate(cut);
        let length = i32::try_from(cut - LENGTH_END).unwrap();
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        seal(&mut batch);
        assert!(matches!(validate(&batch), Err(BatchRefusal::Data(_))), "{codec}");
    }
}

/// The same judgement, made of simpler parts: everything decompressed, every record read.
fn oracle(batch: &[u8]) -> bool {
    let header = BatchHeader::parse(batch).unwrap();
    let records = &batch[HEADER_BYTES..];
    let plain = decompress(header.codec().unwrap(), records, 1 << 24, &mut Workspace::new());
    let plain = plain.unwrap();
    let mut records = Records::new(&header, &plain).zip(0..);
    records.all(|(record, index)| record.is_ok_and(|record| record.offset_delta == index))
}

fn rows() -> impl Strategy<Value = Vec<(i64, usize, usize, usize)>> {
    prop::collection::vec((0_i64..1 << 45, 0_usize..20, 0_usize..300, 0_usize..4), 1..30)
}

fn build(codec: Codec, rows: &[(i64, usize, usize, usize)]) -> Vec<u8> {
    let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
    let mut builder = BatchBuilder::new(codec).producer(crate::Producer {
        id: ProducerId(1),
        epoch: crate::ProducerEpoch(2),
        base_sequence: 3,
    });
    for (timestamp, key, value, headers) in rows {
        let header = Header { key: &bytes[..*headers], value: Some(&bytes[..*key]) };
        builder.append(&NewRecord {
            timestamp: Timestamp(*timestamp),
            key: bytes.get(..*key),
            value: bytes.get(..*value),
            headers: &vec![header; *headers],
        });
    }
    builder.build()
}

proptest! {
    #[test]
    fn any_budget_gives_the_same_answer(rows in rows(), budget in 1_u32..2000, damage in any::<bool>()) {
        for codec in Codec::ALL {
            let mut batch = build(codec, &rows);
            if damage {
                let last = batch.len() - 1;
                batch[last] ^= 0x10;
                seal(&mut batch);
            }
            let whole = validate(&batch);
            prop_assert!(damage || whole.is_ok());
            let mut workspace = Workspace::new();
            let mut validator = Validator::new(&batch, &OPTIONS, &mut workspace).unwrap();
            let stepped = loop {
                match validator.step(budget) {
                    Ok(Step::More) => {}
                    Ok(Step::Done(summary)) => break Ok(summary),
                    Err(refusal) => break Err(refusal),
                }
            };
            prop_assert_eq!(stepped, whole);
        }
    }

    #[test]
    fn a_changed_byte_is_judged_as_the_plain_reader_does(
        rows in rows(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let batch = build(Codec::None, &rows);
        let mut plain = batch[HEADER_BYTES..].to_vec();
        let at = at.index(plain.len());
        plain[at] = value;
        for codec in Codec::ALL {
            let batch = wrap(codec, i32::try_from(rows.len()).unwrap(), &plain);
            let options = ValidateOptions { timestamp_min: Timestamp(i64::MIN), ..OPTIONS };
            prop_assert_eq!(validate_with(&batch, &options).is_ok(), oracle(&batch));
        }
    }
}
