use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::batch::HEADER_BYTES;
use crate::{BatchBuilder, Codec, NewRecord, Workspace, decompress};

type Row = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn build(codec: Codec, rows: &[Row]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for (timestamp, key, value, headers) in rows {
        let headers: Vec<_> =
            headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
        builder.append(&NewRecord {
            timestamp: Timestamp(*timestamp),
            key: key.as_deref(),
            value: value.as_deref(),
            headers: &headers,
        });
    }
    builder.build()
}

fn read(batch: &[u8]) -> Vec<Row> {
    let header = BatchHeader::parse(batch).unwrap();
    let codec = header.codec().unwrap();
    let plain = decompress(codec, &batch[HEADER_BYTES..], 1 << 24, &mut Workspace::new()).unwrap();
    let records = Records::new(&header, &plain).zip(0..);
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    records
        .map(|(record, index)| {
            let record = record.unwrap();
            assert_eq!(record.offset(&header), Offset(index));
            assert_eq!(record.headers.len(), record.headers.count());
            let headers =
                record.headers.map(|header| (header.key.to_vec(), owned(header.value))).collect();
            (record.timestamp(&header).0, owned(record.key), owned(record.value), headers)
        })
        .collect()
}

/// One record without key, value and headers, whose bytes a test then changes.
const PLAIN: [u8; 7] = [12, 0, 0, 0, 1, 1, 0];

fn defect(bytes: &[u8]) -> RecordDefect {
    Record::read(&mut Reader::new(bytes)).unwrap_err()
}

#[test]
fn absurd_lengths_are_refused() {
    assert!(Record::read(&mut Reader::new(&PLAIN)).is_ok());
    assert_eq!(PLAIN.len(), RECORD_BYTES_MIN);
    let negative =
        |what, at, length| RecordDefect::Field(DecodeError::Negative { what, at, length });
    assert_eq!(defect(&[1]), negative("record", 0, -1));
    // Key and value length -2.
    assert_eq!(defect(&[12, 0, 0, 0, 3, 1, 0]), negative("bytes", 4, -2));
    assert_eq!(defect(&[12, 0, 0, 0, 1, 3, 0]), negative("bytes", 5, -2));
    assert_eq!(defect(&[12, 0, 0, 0, 1, 1, 1]), negative("header count", 6, -1));
    // A header count of 2^31 - 1 (P71).
    let many = [20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    let count = i32::MAX as usize;
    let (what, at, element_bytes_min, left) = ("headers", 6, 2, 0);
    let too_many = DecodeError::TooMany { what, at, count, element_bytes_min, left };
    assert_eq!(defect(&many), RecordDefect::Field(too_many));
    // A null header key; a record that is longer than its fields; one longer than the bytes.
    let null = DecodeError::Null { what: "header key", at: 7 };
    assert_eq!(defect(&[16, 0, 0, 0, 1, 1, 2, 1, 1]), RecordDefect::Field(null));
    assert_eq!(defect(&[14, 0, 0, 0, 1, 1, 0, 9]), RecordDefect::Leftover { left: 1 });
    let truncated = DecodeError::Truncated { what: "bytes", at: 1, needed: 7, left: 6 };
    assert_eq!(defect(&[14, 0, 0, 0, 1, 1, 0]), RecordDefect::Field(truncated));
}

#[test]
fn a_wrong_count_ends_the_walk_with_an_error() {
    let header =
        BatchHeader::parse(&build(Codec::None, &vec![(0, None, None, vec![]); 2])).unwrap();
    let count = |bytes: &[u8]| {
        let items: Vec<_> = Records::new(&header, bytes).map(|record| record.is_ok()).collect();
        items
    };
    assert_eq!(count(&PLAIN.repeat(2)), [true, true]);
    assert_eq!(count(&PLAIN), [true, false]);
    assert_eq!(count(&PLAIN.repeat(3)), [true, true, false]);
    assert_eq!(count(&[]), [false]);
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
    let header = (prop::collection::vec(any::<u8>(), 0..8), bytes());
    let headers = prop::collection::vec(header, 0..4);
    prop::collection::vec((0_i64..1 << 45, bytes(), bytes(), headers), 1..20)
}

proptest! {
    #[test]
    fn records_read_back_as_they_were_appended(rows in rows()) {
        for codec in Codec::ALL {
            prop_assert_eq!(&read(&build(codec, &rows)), &rows);
        }
    }

    #[test]
    fn any_bytes_are_read_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new(&bytes);
        if let Ok(record) = Record::read(&mut reader) {
            prop_assert_eq!(record.headers.count(), record.headers.len());
            prop_assert!(reader.position() >= RECORD_BYTES_MIN);
        }
    }
}
