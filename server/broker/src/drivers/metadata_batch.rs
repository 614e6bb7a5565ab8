//! Metadata records as a record batch, and back.
//!
//! Owns the envelope: one uncompressed batch a change, so that it is committed whole or not at all. The values are `cluster`'s.

use record::{
    BatchBuilder, Batches, Codec, Found, LeaderEpoch, NewRecord, Offset, Records, Timestamp,
};

use crate::drivers::metadata_log::MetadataRecord;

/// The batch of one change. `values` is not empty.
pub(super) fn build(now: Timestamp, epoch: LeaderEpoch, values: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None).assigned(Offset::ZERO, epoch);
    for value in values {
        builder.append(&NewRecord { timestamp: now, value: Some(value), ..NewRecord::default() });
    }
    builder.build()
}

/// The records of whole batches from `from` on. Errors: what is wrong, and where.
pub(super) fn records_from(bytes: &[u8], from: Offset) -> Result<Vec<MetadataRecord>, String> {
    let mut records = Vec::new();
    for (position, found) in Batches::new(bytes) {
        let Found::Whole(batch) = found else {
            return Err(format!("no whole batch at byte {position} after offset {from}"));
        };
        let header = batch.header();
        for record in Records::new(header, batch.record_bytes()) {
            let base = header.base_offset;
            let record = record.map_err(|defect| format!("batch at offset {base}: {defect}"))?;
            let offset = record.offset(header);
            if offset < from {
                continue;
            }
            let value = record.value.unwrap_or_default().to_vec();
            records.push(MetadataRecord { offset, value });
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back_from_any_offset() {
        let values = [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()];
        let batch = build(Timestamp(5), LeaderEpoch(1), &values);
        let read = |from| {
            let records = records_from(&batch, Offset(from)).expect("whole");
            records.into_iter().map(|record| (record.offset.0, record.value)).collect::<Vec<_>>()
        };
        assert_eq!(
            read(0),
            [(0, values[0].clone()), (1, values[1].clone()), (2, values[2].clone())]
        );
        assert_eq!(read(2), [(2, values[2].clone())]);
        assert!(records_from(&batch[..batch.len() - 1], Offset(0)).is_err());
    }
}
