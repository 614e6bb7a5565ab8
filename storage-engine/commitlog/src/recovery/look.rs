//! What is seen of a log before it is recovered: its directory and, in the same trip to the disk, the bytes that recovery is
//! going to ask for.
//!
//! Owns the choice of those bytes. It is a guess that saves trips, never a judgement: what was not brought along is read when
//! it is asked for, and every byte is checked by whoever uses it. A node with ten thousand logs opens each of them in one trip.

use std::rc::Rc;

use record::Offset;

use crate::checkpoint::CheckpointEntry;
use crate::directory::PARTITION_METADATA_FILE;
use crate::disk::{BLOCK_BYTES, Disk, DiskResult, EntryKind, Look, PathEntry, Piece};
use crate::files::{Suffix, parse_segment_name, segment_name};
use crate::index::OFFSET_ENTRY_BYTES;
use crate::log::EPOCH_FILE;
use crate::small_file::{self, block_floor};
use crate::store::StartKind;

/// Bytes brought along of one file: all of a log that has little, and never much memory for those opened side by side.
const PIECE_BYTES_MAX: u64 = 64 << 10;

/// A log's directory and what was brought along.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) entries: Vec<PathEntry>,
    pieces: Vec<(Piece, Rc<Vec<u8>>)>,
}

impl From<Look> for Looked {
    fn from(look: Look) -> Self {
        let pieces = look.pieces.into_iter().map(|(piece, bytes)| (piece, Rc::new(bytes)));
        Self { entries: look.entries, pieces: pieces.collect() }
    }
}

impl Looked {
    /// Takes out what has the name of one of the log's files and is none. Errors: one that only this file can tell of; it would be
    /// taken for a file that is missing, and put in place again or gone without.
    pub(crate) fn take_misplaced(
        &mut self,
        checkpoint: Option<&CheckpointEntry>,
    ) -> Result<Vec<PathEntry>, PathEntry> {
        let has = |name: &str, suffix| parse_segment_name(name, suffix).is_some();
        let is_file = |entry: &PathEntry| matches!(entry.kind, EntryKind::File { .. });
        let has_log = self.entries.iter().any(|entry| has(&entry.name, Suffix::Log));
        let mut misplaced = Vec::new();
        for entry in self.entries.iter().filter(|entry| !is_file(entry)) {
            let name = entry.name.as_str();
            let is_derived = if has(name, Suffix::Log) {
                false
            } else if has(name, Suffix::Index) || has(name, Suffix::TimeIndex) || name == EPOCH_FILE
            {
                true
            } else if has(name, Suffix::Snapshot) {
                // Without either its name is all that says where the log goes on.
                has_log || checkpoint.is_some()
            } else if name == PARTITION_METADATA_FILE {
                checkpoint.is_some()
            } else {
                continue;
            };
            if !is_derived {
                return Err(entry.clone());
            }
            misplaced.push(entry.clone());
        }
        self.entries.retain(|entry| !misplaced.contains(entry));
        Ok(misplaced)
    }

    /// All of a small file of this directory, or `None` where there is none: like [`small_file::read`].
    pub(crate) async fn read<D: Disk>(
        &self,
        disk: &D,
        directory: &str,
        name: &str,
        bytes_max: usize,
    ) -> DiskResult<Option<Vec<u8>>> {
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            return Ok(None);
        };
        if let EntryKind::File { bytes } = entry.kind
            && let Some((_, contents)) = self.piece(name, 0, bytes)
        {
            return Ok(Some(contents[..contents.len().min(bytes_max)].to_vec()));
        }
        small_file::read(disk, &small_file::join(directory, name), bytes_max).await
    }

    /// Bytes of a file, and the position of the first, if all from `from` to `to` are among them.
    pub(crate) fn piece(&self, name: &str, from: u64, to: u64) -> Option<(u64, &Rc<Vec<u8>>)> {
        let holds = |piece: &Piece| {
            piece.name == name && piece.range.start <= from && to <= piece.range.end
        };
        let (piece, bytes) = self.pieces.iter().find(|(piece, _)| holds(piece))?;
        Some((piece.range.start, bytes))
    }
}

/// What to bring along, by the names and what the checkpoint says of the log.
pub(crate) fn choose(
    entries: &[PathEntry],
    checkpoint: Option<&CheckpointEntry>,
    start: StartKind,
) -> Vec<Piece> {
    let size_of = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name)?;
        if let EntryKind::File { bytes } = entry.kind { Some(bytes) } else { None }
    };
    let end = checkpoint.map_or(Offset(i64::MAX), |entry| entry.end);
    let newest = |suffix, end: Offset| {
        let bases = entries.iter().filter_map(|entry| parse_segment_name(&entry.name, suffix));
        bases.filter(|base| *base <= end).max()
    };
    let mut pieces = Vec::new();
    let mut add = |name: String, from: u64| {
        if let Some(bytes) = size_of(&name)
            && from <= bytes
            && bytes - from <= PIECE_BYTES_MAX
        {
            pieces.push(Piece { name, range: from..bytes });
        }
    };
    add(PARTITION_METADATA_FILE.to_owned(), 0);
    add(EPOCH_FILE.to_owned(), 0);
    if let Some(at) = newest(Suffix::Snapshot, end) {
        add(segment_name(at, Suffix::Snapshot), 0);
    }
    let segment = checkpoint.map_or(Offset(i64::MAX), |entry| entry.segment);
    let Some(base) = newest(Suffix::Log, segment) else { return pieces };
    let (log, index) = (segment_name(base, Suffix::Log), segment_name(base, Suffix::Index));
    let size = size_of(&log).unwrap_or_default();
    let position = checkpoint.filter(|entry| entry.segment == base);
    let position = position.map_or(size, |entry| entry.position.min(size));
    // Its last batch begins not far before its end.
    let last = block_floor(block_floor(position).saturating_sub(1));
    let is_small = size <= PIECE_BYTES_MAX && start == StartKind::Unclean;
    add(log, if is_small { 0 } else { last });
    // Only its last entry is asked for.
    let entry_bytes = OFFSET_ENTRY_BYTES as u64;
    let of_index = size_of(&index).unwrap_or_default();
    add(index, block_floor(of_index.saturating_sub(entry_bytes)));
    pieces
}

const _: () = assert!(PIECE_BYTES_MAX.is_multiple_of(BLOCK_BYTES as u64));

#[cfg(test)]
mod tests {
    use super::*;
    use record::{PartitionIndex, Timestamp, TopicId, TopicPartition};

    fn file(name: &str, bytes: u64) -> PathEntry {
        PathEntry { name: name.to_owned(), kind: EntryKind::File { bytes } }
    }

    fn entry(segment: i64, position: u64, end: i64) -> CheckpointEntry {
        CheckpointEntry {
            sequence: 1,
            log: TopicPartition { topic_id: TopicId([1; 16]), partition: PartitionIndex(0) },
            created: true,
            segment: Offset(segment),
            position,
            end: Offset(end),
            log_start: Offset(0),
            high_watermark: Offset(end),
            first_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
            max_timestamp_offset: Offset(-1),
        }
    }

    fn chosen(
        entries: &[PathEntry],
        checkpoint: Option<&CheckpointEntry>,
        start: StartKind,
    ) -> Vec<(String, std::ops::Range<u64>)> {
        let pieces = choose(entries, checkpoint, start).into_iter();
        pieces.map(|piece| (piece.name, piece.range)).collect()
    }

    const LOG: &str = "00000000000000000000.log";

    #[test]
    fn of_a_small_log_everything_comes_along() {
        let entries = [
            file("00000000000000000000.index", 0),
            file(LOG, 4096),
            file("00000000000000000003.snapshot", 52),
            file("leader-epoch-checkpoint", 8),
            file("partition.metadata", 43),
        ];
        let expected = [
            ("partition.metadata".to_owned(), 0..43),
            ("leader-epoch-checkpoint".to_owned(), 0..8),
            ("00000000000000000003.snapshot".to_owned(), 0..52),
            (LOG.to_owned(), 0..4096),
            ("00000000000000000000.index".to_owned(), 0..0),
        ];
        let checkpoint = entry(0, 300, 3);
        assert_eq!(chosen(&entries, Some(&checkpoint), StartKind::Unclean), expected);
        assert_eq!(chosen(&entries, None, StartKind::Unclean), expected);
    }

    #[test]
    fn of_a_large_log_only_its_end_comes_along() {
        let entries = [file("00000000000000000000.index", 81_920 + 8), file(LOG, 41_000_000)];
        let checkpoint = entry(0, 41_000_000, 900);
        // 41,000,000 lies in block 10,009.
        let expected = [
            (LOG.to_owned(), 10_008 * 4096..41_000_000),
            ("00000000000000000000.index".to_owned(), 81_920..81_928),
        ];
        for start in [StartKind::Clean, StartKind::Unclean] {
            assert_eq!(chosen(&entries, Some(&checkpoint), start), expected, "{start:?}");
        }
        // Much was written since: it is streamed, not brought along.
        let behind = entry(0, 40_000_000, 800);
        let index = [("00000000000000000000.index".to_owned(), 81_920..81_928)];
        assert_eq!(chosen(&entries, Some(&behind), StartKind::Unclean), index);
    }

    #[test]
    fn the_snapshot_is_the_one_that_recovery_begins_with() {
        let entries = [
            file("00000000000000000005.snapshot", 10),
            file("00000000000000000009.snapshot", 10),
            file("00000000000000000020.snapshot", 10),
        ];
        let checkpoint = entry(9, 0, 12);
        let expected = [("00000000000000000009.snapshot".to_owned(), 0..10)];
        assert_eq!(chosen(&entries, Some(&checkpoint), StartKind::Unclean), expected);
    }
}
