//! Kafka's `.snapshot` files: what a log remembers of its producers.
//!
//! Owns the bytes, in both directions. It never interprets an entry: `partition` does, behind [`crate::Fold`].
//!
//! ```text
//!    0         2       6        10
//!    ├─version─┼──crc──┼─count──┼─ count × 46 bytes ─────────────────────────────────────────────────────────┤
//!       = 1     CRC-32C of bytes 6..end
//!
//!   entry  0           8       10              14            22             26          34                  38
//!          producer_id │ epoch │ last_sequence │ last_offset │ offset_delta │ timestamp │ coordinator_epoch │ …
//!         38                               46
//!          current_transaction_first_offset
//! ```

use alloc::vec::Vec;

use crate::codec::{DecodeError, Reader, Writer};
use crate::crc::crc32c;
use crate::{Offset, ProducerEpoch, ProducerId, ProducerSnapshotEntry, Timestamp};

/// The version of the format, Kafka's since 0.11.
pub const SNAPSHOT_VERSION: i16 = 1;
/// Bytes before the first entry.
pub const SNAPSHOT_HEADER_BYTES: usize = 10;
/// Bytes of one entry.
pub const SNAPSHOT_ENTRY_BYTES: usize = 46;

/// Producers that one log remembers at most: the bound of `producer.state.count.max`.
pub const SNAPSHOT_PRODUCERS_MAX: u32 = 1_000_000;
/// Batches remembered of each.
pub const SNAPSHOT_BATCHES_MAX: usize = 5;
/// No snapshot is larger: 230 MB, where every producer is remembered with all its batches.
pub const SNAPSHOT_BYTES_MAX: usize = SNAPSHOT_HEADER_BYTES
    + SNAPSHOT_PRODUCERS_MAX as usize * SNAPSHOT_BATCHES_MAX * SNAPSHOT_ENTRY_BYTES;

/// Where the bytes that the checksum covers start.
const CRC_REGION_START: usize = 6;

/// Why a snapshot was refused; it can be rebuilt from the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The file is too short for what it must hold.
    #[error("producer snapshot: {0}")]
    Truncated(DecodeError),
    /// Another version.
    #[error("producer snapshot version {version}: must be {SNAPSHOT_VERSION}")]
    Version {
        /// What the file says.
        version: i16,
    },
    /// The checksum of the bytes is another one.
    #[error("producer snapshot crc {computed:#010x}, header {header:#010x}")]
    Crc {
        /// What the file says.
        header: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The size is not that of so many entries.
    #[error("producer snapshot of {count} entries, {entry_bytes} bytes of entries")]
    Count {
        /// What the file says.
        count: i32,
        /// Bytes after the header.
        entry_bytes: usize,
    },
}

impl From<DecodeError> for SnapshotError {
    fn from(error: DecodeError) -> Self {
        Self::Truncated(error)
    }
}

/// The bytes of a snapshot. Order: as [`crate::Fold::snapshot`] gives the entries.
///
/// Panics above 2^31 - 1 entries, which the memory for their producers rules out.
#[must_use]
pub fn encode_snapshot(entries: &[ProducerSnapshotEntry]) -> Vec<u8> {
    let bytes = SNAPSHOT_HEADER_BYTES + entries.len() * SNAPSHOT_ENTRY_BYTES;
    let mut writer = Writer::new(Vec::with_capacity(bytes));
    writer.i16(SNAPSHOT_VERSION);
    writer.u32(0);
    writer.array_len(Some(entries.len()));
    for entry in entries {
        writer.i64(entry.producer_id.0);
        writer.i16(entry.producer_epoch.0);
        writer.i32(entry.last_sequence);
        writer.i64(entry.last_offset.0);
        writer.i32(entry.offset_delta);
        writer.i64(entry.timestamp.0);
        writer.i32(entry.coordinator_epoch);
        writer.i64(entry.current_transaction_first_offset);
    }
    let mut file = writer.into_sink();
    assert_eq!(file.len(), bytes);
    let crc = crc32c(&file[CRC_REGION_START..]);
    file[2..CRC_REGION_START].copy_from_slice(&crc.to_be_bytes());
    file
}

/// Reads a snapshot.
pub fn decode_snapshot(file: &[u8]) -> Result<Vec<ProducerSnapshotEntry>, SnapshotError> {
    let mut reader = Reader::new(file);
    let version = reader.i16()?;
    if version != SNAPSHOT_VERSION {
        return Err(SnapshotError::Version { version });
    }
    let header = reader.u32()?;
    let computed = crc32c(reader.rest());
    if header != computed {
        return Err(SnapshotError::Crc { header, computed });
    }
    let count = reader.i32()?;
    let entry_bytes = reader.remaining();
    let entries = entry_bytes / SNAPSHOT_ENTRY_BYTES;
    if !entry_bytes.is_multiple_of(SNAPSHOT_ENTRY_BYTES) || usize::try_from(count) != Ok(entries) {
        return Err(SnapshotError::Count { count, entry_bytes });
    }
    (0..entries).map(|_| read_entry(&mut reader).map_err(SnapshotError::from)).collect()
}

fn read_entry(reader: &mut Reader<'_>) -> Result<ProducerSnapshotEntry, DecodeError> {
    Ok(ProducerSnapshotEntry {
        producer_id: ProducerId(reader.i64()?),
        producer_epoch: ProducerEpoch(reader.i16()?),
        last_sequence: reader.i32()?,
        last_offset: Offset(reader.i64()?),
        offset_delta: reader.i32()?,
        timestamp: Timestamp(reader.i64()?),
        coordinator_epoch: reader.i32()?,
        current_transaction_first_offset: reader.i64()?,
    })
}

#[cfg(test)]
mod tests;
