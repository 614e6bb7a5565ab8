//! Record batches encoded once, before any clock starts.

use record::{BatchBuilder, Codec, NewRecord, Timestamp};

/// Bytes of a record's value: the size that the figures of DESIGN section 10 were taken with.
const VALUE_BYTES: usize = 1_024;
/// The most that a record here needs beside its value: lengths, deltas, counts.
const RECORD_OVERHEAD_MAX: usize = 24;
/// The least.
const RECORD_OVERHEAD_MIN: usize = 7;

/// One uncompressed batch of exactly `total_bytes`, of 1 KiB values as far as they go; the last one fills the rest.
///
/// Panics if `total_bytes` has no room for a record, or is beyond 2 GiB: callers pass constants.
pub(crate) fn of_bytes(total_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    // Twice a whole record left: one more fits and still leaves room for the last.
    while total_bytes - builder.plain_bytes() > 2 * (VALUE_BYTES + RECORD_OVERHEAD_MAX) {
        append(&mut builder, VALUE_BYTES);
    }
    let left = total_bytes - builder.plain_bytes();
    for overhead in RECORD_OVERHEAD_MIN..RECORD_OVERHEAD_MAX {
        let mut whole = builder.clone();
        append(&mut whole, left - overhead);
        if whole.plain_bytes() == total_bytes {
            return whole.build();
        }
    }
    panic!("no value makes a record of {left} bytes");
}

fn append(builder: &mut BatchBuilder, value_bytes: usize) {
    let value = noise(value_bytes);
    let timestamp = Timestamp(1_700_000_000_000);
    builder.append(&NewRecord { timestamp, value: Some(&value), ..NewRecord::default() });
}

/// Bytes that do not repeat within a value: a disk that compresses must not look fast.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use record::BatchView;

    use super::*;

    #[test]
    fn batches_have_the_asked_size_and_a_right_checksum() {
        for total_bytes in [1_200, 1_103, 4_096, 65_536, 131_072, 1 << 20] {
            let batch = of_bytes(total_bytes);
            assert_eq!(batch.len(), total_bytes);
            BatchView::parse(&batch).unwrap().verify_crc().unwrap();
        }
    }
}
