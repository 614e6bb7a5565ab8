//! Records into one batch, with the sequence that makes a retry recognisable.
//!
//! Owns the arithmetic of sequences. The bytes of a batch are `record`'s.

use record::{BatchBuilder, Codec, Header, NewRecord, Producer};

use super::OutgoingRecord;

/// A batch of all `records`, of which there is at least one.
pub(super) fn build(records: &[OutgoingRecord], codec: Codec, producer: Producer) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec).producer(producer);
    for record in records {
        let headers = record.headers.iter();
        let headers: Vec<Header<'_>> = headers
            .map(|(key, value)| Header { key: key.as_bytes(), value: Some(value.as_bytes()) })
            .collect();
        builder.append(&NewRecord {
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        });
    }
    builder.build()
}

/// The sequence that follows `count` records from `sequence` on: after the largest comes 0 again (ID-4).
pub(super) fn sequence_after(sequence: i32, count: usize) -> i32 {
    let count = u32::try_from(count).expect("a batch counts its records in i32");
    (sequence.cast_unsigned().wrapping_add(count) & i32::MAX.cast_unsigned()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{BatchView, ProducerEpoch, ProducerId, Records, Timestamp};

    #[test]
    fn sequences_start_again_after_the_largest() {
        assert_eq!(sequence_after(0, 0), 0);
        assert_eq!(sequence_after(5, 10), 15);
        assert_eq!(sequence_after(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(sequence_after(i32::MAX, 1), 0);
        assert_eq!(sequence_after(i32::MAX - 1, 5), 3);
    }

    #[test]
    fn a_batch_holds_the_records_and_their_producer() {
        let record = |key: Option<&str>, value: &str, timestamp| OutgoingRecord {
            key: key.map(|key| key.as_bytes().to_vec()),
            value: Some(value.as_bytes().to_vec()),
            timestamp: Timestamp(timestamp),
            headers: [("h".to_owned(), value.to_owned())].into(),
        };
        let records = [record(Some("k"), "a", 10), record(None, "b", 12)];
        let producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(2), base_sequence: 40 };
        let bytes = build(&records, Codec::None, producer);
        let batch = BatchView::parse(&bytes).unwrap();
        batch.verify_crc().unwrap();
        let header = batch.header();
        assert_eq!((header.producer_id, header.base_sequence), (ProducerId(7), 40));
        assert_eq!(header.max_timestamp, Timestamp(12));
        let found: Vec<_> = Records::new(header, batch.record_bytes())
            .map(|record| record.unwrap())
            .map(|record| (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec)))
            .collect();
        let expected: Vec<_> = records.iter().map(|r| (r.key.clone(), r.value.clone())).collect();
        assert_eq!(found, expected);
    }
}
