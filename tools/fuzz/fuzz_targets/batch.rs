//! Any bytes as a segment, a producer snapshot and an epoch checkpoint.
//!
//! Holds: the walk covers the bytes without gap or overlap; a parsed header encodes to its bytes and keeps its
//! invariants; patching leaves the checksum alone; what decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::batch::{HEADER_BYTES, assign};
use record::{
    BatchHeader, BatchView, Batches, EpochTable, Found, LeaderEpoch, Offset, Records,
    decode_snapshot, encode_snapshot,
};

fn check_batch(view: BatchView<'_>) {
    let header = *view.header();
    assert_eq!(header.encode(), view.bytes()[..HEADER_BYTES]);
    assert!(header.base_offset <= header.last_offset());
    assert!(header.last_offset() < header.next_offset());
    assert!(header.last_sequence() >= 0 || header.base_sequence < 0);
    let _ = (header.codec(), header.delete_horizon());
    for record in Records::new(&header, view.record_bytes()).flatten() {
        let _ = (record.offset(&header), record.timestamp(&header));
        assert_eq!(record.headers.len(), record.headers.count());
    }
    let mut patched = view.bytes().to_vec();
    assign(&mut patched, Offset(7), LeaderEpoch(8));
    if let Ok(again) = BatchView::parse(&patched) {
        assert_eq!(again.verify_crc().is_ok(), view.verify_crc().is_ok());
        let expected = BatchHeader {
            base_offset: Offset(7),
            partition_leader_epoch: LeaderEpoch(8),
            ..header
        };
        assert_eq!(*again.header(), expected);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut end = 0;
    for (at, found) in Batches::new(data) {
        assert_eq!(at, end);
        if let Found::Whole(view) = found {
            end += view.bytes().len();
            check_batch(view);
        }
    }
    assert!(end <= data.len());
    if let Ok(entries) = decode_snapshot(data) {
        assert_eq!(encode_snapshot(&entries), data);
    }
    if let Ok(table) = EpochTable::decode(data) {
        assert_eq!(EpochTable::decode(table.encode().as_bytes()), Ok(table));
    }
});
