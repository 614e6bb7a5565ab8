//! What is known of producers, of all logs of a shard in one file: recovery begins there instead of at a segment's front.
//!
//! Owns `checkpoints/<shard>.producers`. A segment's own snapshot comes when it is rolled or closed; a crash before that would
//! have a gigabyte of each busy log read again. A state is kept in memory until its log is durable up to there, and written
//! then: whatever the file says stays true, for what is durable is never taken back. Derived: without it recovery reads more.
//!
//! ```text
//! file   magic "CLPS" | version u16 = 1 | reserved u16 = 0 | count u32 | entries | CRC-32 u32 of all before
//! entry  topic id 16 | partition i32 | segment i64 | position u64 | offset i64 | length u32 | a `.snapshot` file's bytes
//! ```
//! All big-endian. `offset` is the log end that the state belongs to, `position` where that is in the segment.

use std::collections::BTreeMap;

use record::codec::{DecodeError, Reader};
use record::{
    Offset, PartitionIndex, ProducerSnapshotEntry, TopicId, TopicPartition, decode_snapshot,
};

use crate::checkpoint::CHECKPOINT_DIRECTORY;
use crate::disk::{Disk, DiskError};
use crate::error::{AtPath, StoreError};
use crate::small_file;

/// What the file's name ends with.
const SUFFIX: &str = ".producers";
const MAGIC: &[u8; 4] = b"CLPS";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 12;
/// Of an entry, without the state.
const ENTRY_BYTES: usize = 48;
const CRC_BYTES: usize = 4;
/// A file is not made larger, and not read if it is: some hundred thousand producers.
const FILE_BYTES_MAX: usize = 32 << 20;

/// What a log had seen of producers at one of its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProducerState {
    /// Base offset of the segment that ends there, or goes on.
    pub(crate) segment: Offset,
    /// Bytes of it up to there.
    pub(crate) position: u64,
    /// The log end.
    pub(crate) offset: Offset,
    /// As a `.snapshot` file holds it.
    pub(crate) snapshot: Vec<u8>,
}

impl ProducerState {
    /// The producers; `None` where the bytes are none.
    pub(crate) fn entries(&self) -> Option<Vec<ProducerSnapshotEntry>> {
        decode_snapshot(&self.snapshot).ok()
    }
}

/// The states of a shard's logs.
pub(crate) type ProducerStates = BTreeMap<TopicPartition, ProducerState>;

/// The shard whose file has that name.
pub(crate) fn shard_of(name: &str) -> Option<&str> {
    name.strip_suffix(SUFFIX)
}

/// `None` where there is too much for one file.
pub(crate) fn encode(states: &ProducerStates) -> Option<Vec<u8>> {
    let of_states: usize = states.values().map(|state| ENTRY_BYTES + state.snapshot.len()).sum();
    let total = HEADER_BYTES + of_states + CRC_BYTES;
    if total > FILE_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(total);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&u32::try_from(states.len()).ok()?.to_be_bytes());
    for (log, state) in states {
        bytes.extend_from_slice(&log.topic_id.0);
        bytes.extend_from_slice(&log.partition.0.to_be_bytes());
        bytes.extend_from_slice(&state.segment.0.to_be_bytes());
        bytes.extend_from_slice(&state.position.to_be_bytes());
        bytes.extend_from_slice(&state.offset.0.to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(state.snapshot.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(&state.snapshot);
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    Some(bytes)
}

/// `None` for anything but what [`encode`] makes: the file says nothing then.
pub(crate) fn decode(bytes: &[u8]) -> Option<ProducerStates> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
    if crc32fast::hash(body) != u32::from_be_bytes(*crc) {
        return None;
    }
    let mut reader = Reader::new(body);
    decode_body(&mut reader).ok().flatten().filter(|_| reader.remaining() == 0)
}

fn decode_body(reader: &mut Reader<'_>) -> Result<Option<ProducerStates>, DecodeError> {
    if reader.take(MAGIC.len())? != MAGIC || reader.u16()? != VERSION {
        return Ok(None);
    }
    reader.u16()?;
    let mut states = ProducerStates::new();
    for _ in 0..reader.u32()? {
        let topic_id = TopicId(reader.uuid()?);
        let log = TopicPartition { topic_id, partition: PartitionIndex(reader.i32()?) };
        let (segment, position) = (Offset(reader.i64()?), reader.i64()?.cast_unsigned());
        let offset = Offset(reader.i64()?);
        let length = reader.u32()? as usize;
        let snapshot = reader.take(length)?.to_vec();
        states.insert(log, ProducerState { segment, position, offset, snapshot });
    }
    Ok(Some(states))
}

/// Writes a shard's file; lasting on return. What would be too much is not written, and what was there before stays.
pub(crate) async fn write<D: Disk>(
    disk: &D,
    shard: &str,
    states: &ProducerStates,
) -> Result<(), StoreError> {
    let name = format!("{shard}{SUFFIX}");
    let Some(bytes) = encode(states) else { return Ok(()) };
    small_file::replace(disk, CHECKPOINT_DIRECTORY, &name, &bytes)
        .await
        .at(&small_file::join(CHECKPOINT_DIRECTORY, &name))
}

/// Reads a shard's file into `states`, where the one that is further on counts. One that cannot be read says nothing.
pub(crate) async fn read_into<D: Disk>(disk: &D, name: &str, states: &mut ProducerStates) {
    let path = small_file::join(CHECKPOINT_DIRECTORY, name);
    // One byte more than the largest: a longer file is seen to be too long.
    let read = small_file::read(disk, &path, FILE_BYTES_MAX + 1).await;
    let found = match read {
        Ok(None) | Err(DiskError::NotFound) => return,
        Ok(Some(bytes)) => decode(&bytes),
        Err(_) => None,
    };
    let Some(found) = found else {
        tracing::warn!(%path, "unusable: recovery reads more, and the file is made again");
        return;
    };
    for (log, state) in found {
        let known = states.entry(log).or_insert_with(|| state.clone());
        if known.offset < state.offset {
            *known = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use record::encode_snapshot;

    use super::*;

    fn states() -> ProducerStates {
        let log = TopicPartition { topic_id: TopicId([7; 16]), partition: PartitionIndex(3) };
        let snapshot = encode_snapshot(&[]);
        let (segment, offset) = (Offset(16), Offset(0x20));
        [(log, ProducerState { segment, position: 0x1234, offset, snapshot })].into()
    }

    #[test]
    fn producer_states_golden_bytes() {
        let bytes = encode(&states()).unwrap();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = [
            "434c5053",
            "0001",
            "0000",
            "00000001",
            "07070707070707070707070707070707",
            "00000003",
            "0000000000000010",
            "0000000000001234",
            "0000000000000020",
            "0000000a",
            "000148674bc700000000",
            "5fd36b74",
        ];
        assert_eq!(text, expected.concat());
        assert_eq!(decode(&bytes), Some(states()));
    }

    #[test]
    fn a_file_that_is_cut_changed_or_longer_says_nothing() {
        let bytes = encode(&states()).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length} bytes");
        }
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 0x10;
            assert_eq!(decode(&changed), None, "byte {index}");
        }
        // Right by its checksum, and one entry short, or with bytes behind the last.
        for (index, by) in [(11, 1_u8), (11, 0xff)] {
            let mut body = bytes[..bytes.len() - CRC_BYTES].to_vec();
            body[index] = body[index].wrapping_add(by);
            let crc = crc32fast::hash(&body);
            body.extend_from_slice(&crc.to_be_bytes());
            assert_eq!(decode(&body), None);
        }
    }
}
