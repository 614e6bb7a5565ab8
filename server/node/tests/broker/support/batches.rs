//! Record batches, sound ones and others, and what is in them.

use record::batch::crc_of;
use record::{
    BatchBuilder, Batches, Codec, Found, NewRecord, Producer, ProducerEpoch, ProducerId, Records,
    Timestamp,
};

/// When the records of these tests were made.
pub(crate) const TIME: i64 = 1_700_000_000_000;

/// A record of that time, in milliseconds after [`TIME`].
pub(crate) fn record(after_ms: i64, value: &[u8]) -> NewRecord<'_> {
    let timestamp = Timestamp(TIME + after_ms);
    NewRecord { timestamp, value: Some(value), ..NewRecord::default() }
}

/// A batch of these records.
pub(crate) fn batch_of(codec: Codec, records: &[NewRecord<'_>]) -> Vec<u8> {
    built(BatchBuilder::new(codec), records)
}

/// A plain batch of records with these values.
pub(crate) fn batch(values: &[&str]) -> Vec<u8> {
    let records: Vec<_> = values.iter().map(|value| record(0, value.as_bytes())).collect();
    batch_of(Codec::None, &records)
}

/// A batch of one record with a value of `bytes` bytes.
pub(crate) fn plain(bytes: usize) -> Vec<u8> {
    batch_of(Codec::None, &[record(0, &vec![b'v'; bytes])])
}

/// A batch of `count` records of an idempotent producer.
pub(crate) fn sequenced(producer: i64, epoch: i16, base_sequence: i32, count: usize) -> Vec<u8> {
    let producer =
        Producer { id: ProducerId(producer), epoch: ProducerEpoch(epoch), base_sequence };
    let value = format!("{}/{epoch}/{base_sequence}", producer.id);
    let records = vec![record(0, value.as_bytes()); count];
    built(BatchBuilder::new(Codec::None).producer(producer), &records)
}

fn built(mut builder: BatchBuilder, records: &[NewRecord<'_>]) -> Vec<u8> {
    for record in records {
        builder.append(record);
    }
    builder.build()
}

/// The batch with some bytes changed and a checksum that fits again.
pub(crate) fn changed(batch: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = batch.to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    with_crc(batch)
}

/// The batch with the checksum that it should have.
fn with_crc(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc_of(&batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// Each record of these uncompressed batches.
fn for_each_record(bytes: &[u8], mut look: impl FnMut(i64, &[u8])) {
    for (_, found) in Batches::new(bytes) {
        let Found::Whole(batch) = found else { panic!("a fetch ends within a batch") };
        batch.verify_crc().unwrap();
        for record in Records::new(batch.header(), batch.record_bytes()) {
            let record = record.unwrap();
            look(record.offset(batch.header()).0, record.value.unwrap_or_default());
        }
    }
}

/// The values of the records, in order.
pub(crate) fn values_of(bytes: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    for_each_record(bytes, |_, value| values.push(String::from_utf8(value.to_vec()).unwrap()));
    values
}

/// The offsets of the records, in order.
pub(crate) fn offsets_of(bytes: &[u8]) -> Vec<i64> {
    let mut offsets = Vec::new();
    for_each_record(bytes, |offset, _| offsets.push(offset));
    offsets
}
