//! Checkpoints: where recovery may begin.
//!
//! Owns the files `checkpoints/<shard>.{a,b}` and the rule which copy of a partition's entry counts: the highest sequence,
//! over all files of all shards, whatever the number of shards is now. An entry never names a byte that is not durable.
//!
//! ```text
//! file   magic "CLCP" | version u16 = 1 | reserved u16 = 0 | sequence u64 | count u32 | entries | CRC-32 u32 of all before
//! entry  sequence u64 | topic id 16 | partition i32 | flags u8 | segment i64 | position u64 | end i64 | log start i64
//!        | high watermark i64 | first timestamp i64 | maximum timestamp i64 | its offset i64        all big-endian, 93 bytes
//! flags  bit 0: created (the log's directory was synced)
//! ```
//! An entry carries the sequence under which its owner last wrote it: a shard that keeps an entry of a log it has not
//! opened yet must not make it look newer than what the log's present owner writes.

use std::collections::BTreeMap;

use record::codec::Reader;
use record::{Offset, PartitionIndex, Timestamp, TopicId, TopicPartition};

use crate::disk::{Disk, DiskError, DiskResult, EntryKind};
use crate::error::{AtPath, StoreError};
use crate::mutant::{Mutant, Rule};
use crate::producer_states::{self, ProducerState, ProducerStates};
use crate::small_file;

/// Directory of the files.
pub const CHECKPOINT_DIRECTORY: &str = "checkpoints";

const MAGIC: &[u8; 4] = b"CLCP";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 20;
const ENTRY_BYTES: usize = 93;
const CRC_BYTES: usize = 4;
const FLAG_CREATED: u8 = 1;
/// 1,000,000 entries: far past what one shard can hold open.
const FILE_BYTES_MAX: usize = HEADER_BYTES + 1_000_000 * ENTRY_BYTES + CRC_BYTES;

/// What is known to be on stable storage of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointEntry {
    /// The order of writing over all shards and starts: start count in the high 32 bits.
    pub sequence: u64,
    /// The log.
    pub log: TopicPartition,
    /// Its directory was synced: if it is missing now, that is a loss and not news.
    pub created: bool,
    /// Base offset of the oldest segment that is not sealed.
    pub segment: Offset,
    /// Bytes of that segment that are durable; a batch ends there.
    pub position: u64,
    /// The offset that follows them.
    pub end: Offset,
    /// First offset held.
    pub log_start: Offset,
    /// High watermark, as last told to the log.
    pub high_watermark: Offset,
    /// Timestamp of the segment's first batch; -1 for none.
    pub first_timestamp: Timestamp,
    /// Largest timestamp in the segment below `position`; -1 for none.
    pub max_timestamp: Timestamp,
    /// Last offset of the batch that holds it.
    pub max_timestamp_offset: Offset,
}

/// One file's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointFile {
    pub(crate) sequence: u64,
    pub(crate) entries: Vec<CheckpointEntry>,
}

/// Why a copy was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointDamage {
    /// Shorter than its header says, or longer.
    #[error("{bytes} bytes do not hold what the header says")]
    Length {
        /// The length found.
        bytes: usize,
    },
    /// The checksum differs.
    #[error("crc {computed:#010x}, file says {stored:#010x}")]
    Crc {
        /// Over the bytes.
        computed: u32,
        /// In the file.
        stored: u32,
    },
    /// Right by its checksum, and no log can be so: ends that are negative, or in the wrong order.
    #[error(
        "entry {index} cannot be: segment {segment}, end {end}, log start {log_start}, high watermark {high_watermark}"
    )]
    Entry {
        /// Counted from 0.
        index: usize,
        /// What it says.
        segment: Offset,
        /// What it says.
        end: Offset,
        /// What it says.
        log_start: Offset,
        /// What it says.
        high_watermark: Offset,
    },
    /// Not a checkpoint file, or of a later version.
    #[error("magic or version {version} unknown")]
    Unknown {
        /// The version found.
        version: u16,
    },
}

/// A copy that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedCheckpoint {
    /// Path of the file.
    pub path: String,
    /// What is wrong with it.
    pub damage: CheckpointDamage,
    /// The shard's other copy can be read, and counts. Otherwise the shard's logs are scanned from their beginning.
    pub has_other: bool,
}

pub(crate) fn encode(file: &CheckpointFile) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + file.entries.len() * ENTRY_BYTES + CRC_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&file.sequence.to_be_bytes());
    let count = u32::try_from(file.entries.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&count.to_be_bytes());
    for entry in &file.entries {
        bytes.extend_from_slice(&entry.sequence.to_be_bytes());
        bytes.extend_from_slice(&entry.log.topic_id.0);
        bytes.extend_from_slice(&entry.log.partition.0.to_be_bytes());
        bytes.push(if entry.created { FLAG_CREATED } else { 0 });
        bytes.extend_from_slice(&entry.segment.0.to_be_bytes());
        bytes.extend_from_slice(&entry.position.to_be_bytes());
        for value in [
            entry.end.0,
            entry.log_start.0,
            entry.high_watermark.0,
            entry.first_timestamp.0,
            entry.max_timestamp.0,
            entry.max_timestamp_offset.0,
        ] {
            bytes.extend_from_slice(&value.to_be_bytes());
        }
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<CheckpointFile, CheckpointDamage> {
    let length = CheckpointDamage::Length { bytes: bytes.len() };
    let Some((body, crc)) = bytes.split_last_chunk::<CRC_BYTES>() else { return Err(length) };
    let stored = u32::from_be_bytes(*crc);
    let computed = crc32fast::hash(body);
    if stored != computed {
        return Err(CheckpointDamage::Crc { computed, stored });
    }
    let mut reader = Reader::new(body);
    decode_body(&mut reader).map_err(|damage| damage.unwrap_or(length))
}

/// `Err(None)` where the bytes end early or late.
fn decode_body(reader: &mut Reader<'_>) -> Result<CheckpointFile, Option<CheckpointDamage>> {
    let magic = reader.take(MAGIC.len()).map_err(|_| None)?;
    let version = reader.u16().map_err(|_| None)?;
    reader.u16().map_err(|_| None)?;
    if magic != MAGIC || version != VERSION {
        return Err(Some(CheckpointDamage::Unknown { version }));
    }
    let sequence = reader.i64().map_err(|_| None)?.cast_unsigned();
    let count = reader.u32().map_err(|_| None)? as usize;
    if count.checked_mul(ENTRY_BYTES) != Some(reader.remaining()) {
        return Err(None);
    }
    let mut entries = Vec::with_capacity(count);
    for index in 0..count {
        let entry = decode_entry(reader).map_err(|_| None)?;
        entries.push(possible(index, entry).map_err(Some)?);
    }
    Ok(CheckpointFile { sequence, entries })
}

fn decode_entry(reader: &mut Reader<'_>) -> Result<CheckpointEntry, record::codec::DecodeError> {
    Ok(CheckpointEntry {
        sequence: reader.i64()?.cast_unsigned(),
        log: TopicPartition {
            topic_id: TopicId(reader.uuid()?),
            partition: PartitionIndex(reader.i32()?),
        },
        created: reader.i8()?.cast_unsigned() & FLAG_CREATED != 0,
        segment: Offset(reader.i64()?),
        position: reader.i64()?.cast_unsigned(),
        end: Offset(reader.i64()?),
        log_start: Offset(reader.i64()?),
        high_watermark: Offset(reader.i64()?),
        first_timestamp: Timestamp(reader.i64()?),
        max_timestamp: Timestamp(reader.i64()?),
        max_timestamp_offset: Offset(reader.i64()?),
    })
}

/// The entry if a log can be so. Log start and high watermark may be past `end`, which is that of the oldest segment that is
/// not sealed.
fn possible(index: usize, entry: CheckpointEntry) -> Result<CheckpointEntry, CheckpointDamage> {
    let CheckpointEntry { segment, end, log_start, high_watermark, .. } = entry;
    let are_offsets = [segment, log_start, high_watermark].iter().all(|at| *at >= Offset::ZERO);
    if are_offsets && segment <= end {
        return Ok(entry);
    }
    Err(CheckpointDamage::Entry { index, segment, end, log_start, high_watermark })
}

/// Every partition's newest entry, over all shards' files.
#[derive(Debug, Clone, Default)]
pub struct CheckpointMap {
    winners: BTreeMap<TopicPartition, CheckpointEntry>,
    /// What each shard's newest file holds: entries that the shard must keep until it has opened their logs.
    by_shard: BTreeMap<String, (Copy, CheckpointFile)>,
    /// What is known of producers at some durable end of each log.
    states: ProducerStates,
    sequence_highest: u64,
}

impl CheckpointMap {
    /// Reads every file in `checkpoints/`. Damaged copies are reported and otherwise ignored: the other copy, or a longer
    /// recovery, stands in.
    pub async fn load<D: Disk>(disk: &D) -> Result<(Self, Vec<DamagedCheckpoint>), StoreError> {
        Self::load_with(disk, Mutant::NONE).await
    }

    /// [`CheckpointMap::load`] with a rule that may be off.
    pub async fn load_with<D: Disk>(
        disk: &D,
        mutant: Mutant,
    ) -> Result<(Self, Vec<DamagedCheckpoint>), StoreError> {
        let mut map = Self::default();
        let mut damaged = Vec::new();
        let names = match disk.list(CHECKPOINT_DIRECTORY).await {
            Ok(names) => names,
            Err(DiskError::NotFound) => return Ok((map, Vec::new())),
            Err(error) => return Err(error).at(CHECKPOINT_DIRECTORY),
        };
        for entry in names {
            if producer_states::shard_of(&entry.name).is_some() {
                producer_states::read_into(disk, &entry.name, &mut map.states).await;
            }
            let Some((shard, copy)) = shard_of(&entry.name) else { continue };
            let path = small_file::join(CHECKPOINT_DIRECTORY, &entry.name);
            if !matches!(entry.kind, EntryKind::File { .. }) {
                return Err(DiskError::NotAFile { found: entry.kind }).at(&path);
            }
            let Some(bytes) = small_file::read(disk, &path, FILE_BYTES_MAX).await.at(&path)? else {
                continue;
            };
            match decode(&bytes) {
                Ok(file) => map.add(shard, copy, file, mutant),
                Err(damage) => damaged.push((shard.to_owned(), path, damage)),
            }
        }
        let damaged = damaged.into_iter().map(|(shard, path, damage)| {
            let has_other = map.by_shard.contains_key(&shard);
            DamagedCheckpoint { path, damage, has_other }
        });
        let damaged = damaged.collect();
        Ok((map, damaged))
    }

    fn add(&mut self, shard: &str, copy: Copy, file: CheckpointFile, mutant: Mutant) {
        self.sequence_highest = self.sequence_highest.max(file.sequence);
        for entry in &file.entries {
            self.sequence_highest = self.sequence_highest.max(entry.sequence);
            let winner = self.winners.entry(entry.log).or_insert(*entry);
            let wins = if mutant.lacks(Rule::StaleCheckpointWins) {
                entry.sequence < winner.sequence
            } else {
                entry.sequence > winner.sequence
            };
            if wins {
                *winner = *entry;
            }
        }
        let newest = self.by_shard.entry(shard.to_owned()).or_insert_with(|| (copy, file.clone()));
        if file.sequence > newest.1.sequence {
            *newest = (copy, file);
        }
    }

    /// The entry that counts for a log.
    #[must_use]
    pub fn get(&self, log: &TopicPartition) -> Option<&CheckpointEntry> {
        self.winners.get(log)
    }

    /// What is known of the producers of a log.
    pub(crate) fn producer_state(&self, log: &TopicPartition) -> Option<&ProducerState> {
        self.states.get(log)
    }

    /// How many logs have an entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.winners.len()
    }

    /// Whether no log has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.winners.is_empty()
    }

    /// The start count of this start: greater than that of any start that wrote a checkpoint.
    #[must_use]
    pub fn start_count(&self) -> u32 {
        u32::try_from(self.sequence_highest >> 32).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(crate) fn shard_entries(&self, shard: &str) -> &[CheckpointEntry] {
        self.by_shard.get(shard).map_or(&[], |(_, file)| &file.entries)
    }

    /// The copy that is written next: never the newest one.
    pub(crate) fn next_copy(&self, shard: &str) -> Copy {
        self.by_shard.get(shard).map_or(Copy::A, |(copy, _)| copy.other())
    }
}

fn shard_of(name: &str) -> Option<(&str, Copy)> {
    let a = name.strip_suffix(".a").map(|shard| (shard, Copy::A));
    a.or_else(|| name.strip_suffix(".b").map(|shard| (shard, Copy::B)))
}

/// Which of the two copies is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Copy {
    #[default]
    A,
    B,
}

impl Copy {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    fn name(self, shard: &str) -> String {
        match self {
            Self::A => format!("{shard}.a"),
            Self::B => format!("{shard}.b"),
        }
    }
}

/// Writes one copy of a shard's file; lasting on return.
pub(crate) async fn write<D: Disk>(
    disk: &D,
    shard: &str,
    copy: Copy,
    file: &CheckpointFile,
) -> Result<(), StoreError> {
    let name = copy.name(shard);
    small_file::replace(disk, CHECKPOINT_DIRECTORY, &name, &encode(file))
        .await
        .at(&small_file::join(CHECKPOINT_DIRECTORY, &name))
}

/// Removes the files of shards that are no longer there.
///
/// Order   only after every present shard has opened its logs and written both copies of its checkpoint: until then those
///         files may hold the only entry of a log, or the only one that knows what was removed.
pub async fn remove_vanished<D: Disk>(disk: &D, present: &[&str]) -> DiskResult<usize> {
    let mut removed = 0;
    for entry in disk.list(CHECKPOINT_DIRECTORY).await? {
        let of_states = producer_states::shard_of(&entry.name);
        let shard = of_states.or_else(|| shard_of(&entry.name).map(|(shard, _)| shard));
        let Some(shard) = shard else { continue };
        if !present.contains(&shard) && matches!(entry.kind, EntryKind::File { .. }) {
            disk.remove(&small_file::join(CHECKPOINT_DIRECTORY, &entry.name)).await?;
            removed += 1;
        }
    }
    if removed > 0 {
        disk.sync_dir(CHECKPOINT_DIRECTORY).await?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: u64, end: i64) -> CheckpointEntry {
        CheckpointEntry {
            sequence,
            log: TopicPartition { topic_id: TopicId([7; 16]), partition: PartitionIndex(3) },
            created: true,
            segment: Offset(16),
            position: 0x1234,
            end: Offset(end),
            log_start: Offset(1),
            high_watermark: Offset(2),
            first_timestamp: Timestamp(5),
            max_timestamp: Timestamp(-1),
            max_timestamp_offset: Offset(6),
        }
    }

    #[test]
    fn checkpoint_file_golden_bytes() {
        let file = CheckpointFile { sequence: 0x1_0000_0002, entries: vec![entry(9, 0x20)] };
        let bytes = encode(&file);
        assert_eq!(bytes.len(), HEADER_BYTES + ENTRY_BYTES + CRC_BYTES);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            text,
            concat!(
                "434c4350",
                "0001",
                "0000",
                "0000000100000002",
                "00000001",
                "0000000000000009",
                "07070707070707070707070707070707",
                "00000003",
                "01",
                "0000000000000010",
                "0000000000001234",
                "0000000000000020",
                "0000000000000001",
                "0000000000000002",
                "0000000000000005",
                "ffffffffffffffff",
                "0000000000000006",
                "2a79a1e1"
            )
        );
        assert_eq!(decode(&bytes), Ok(file));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let bytes =
            encode(&CheckpointFile { sequence: 1, entries: vec![entry(1, 2), entry(2, 3)] });
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut to {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_count_that_does_not_fit_allocates_nothing() {
        let mut bytes = encode(&CheckpointFile { sequence: 1, entries: Vec::new() });
        bytes.truncate(HEADER_BYTES);
        bytes[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        assert_eq!(decode(&bytes), Err(CheckpointDamage::Length { bytes: bytes.len() }));
    }

    #[test]
    fn an_entry_that_no_log_can_have_is_refused_whatever_the_checksum_says() {
        type Change = fn(&mut CheckpointEntry);
        let impossible: [Change; 5] = [
            |entry| entry.log_start = Offset(-1),
            |entry| entry.high_watermark = Offset(-1),
            |entry| entry.segment = Offset(-1),
            |entry| entry.end = Offset(-1),
            |entry| entry.segment = Offset(entry.end.0 + 1),
        ];
        for (row, change) in impossible.iter().enumerate() {
            let mut wrong = entry(1, 20);
            change(&mut wrong);
            let bytes = encode(&CheckpointFile { sequence: 1, entries: vec![entry(1, 20), wrong] });
            let refused = decode(&bytes);
            assert!(
                matches!(refused, Err(CheckpointDamage::Entry { index: 1, .. })),
                "row {row}: {refused:?}"
            );
        }
        // The oldest segment that is not sealed may end below what is durable, and so below these.
        let later =
            CheckpointEntry { log_start: Offset(25), high_watermark: Offset(30), ..entry(1, 20) };
        let file = CheckpointFile { sequence: 1, entries: vec![later] };
        assert_eq!(decode(&encode(&file)), Ok(file));
    }

    #[test]
    fn the_highest_sequence_wins_over_all_shards_and_copies() {
        let mut map = CheckpointMap::default();
        let file = |sequence, entry| CheckpointFile { sequence, entries: vec![entry] };
        map.add("1", Copy::A, file(3 << 32, entry(3 << 32, 30)), Mutant::NONE);
        // Shard 0 kept the entry of a log that moved to shard 1: written later, and older.
        map.add("0", Copy::B, file(4 << 32, entry(2 << 32, 20)), Mutant::NONE);
        let log = entry(0, 0).log;
        assert_eq!(map.get(&log).map(|entry| entry.end), Some(Offset(30)));
        assert_eq!(map.start_count(), 5);
        assert_eq!(map.shard_entries("0").len(), 1);
        assert_eq!(map.next_copy("0"), Copy::A);
        assert_eq!(map.shard_entries("2").len(), 0);
    }
}
