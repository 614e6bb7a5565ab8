//! Segments and their indexes read as they lie, with no log opened: for `corelog log dump` and `verify`.
//!
//! Owns the order in which findings come. It changes nothing and skips nothing: every byte of a segment is part of a batch,
//! of a damaged stretch or of the tail of zeros. What it calls damage is what recovery and reads refuse as well, since all
//! of them take the same walk.

use std::ops::Range;
use std::rc::Rc;

use record::{BatchHeader, Offset, Timestamp};

use crate::disk::{Disk, DiskFile, DiskResult, OpenMode};
use crate::executor::Executor;
use crate::index::{
    OFFSET_ENTRY_BYTES, SegmentIndex, TIME_ENTRY_BYTES, offsets_ascend, times_ascend,
};
use crate::small_file;
use crate::stream::{BadBatch, END_UNKNOWN, FoundBatch, SegmentStream};
use crate::walk::{SegmentWalk, Stretch};

/// One stretch of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanItem {
    /// A whole batch with the right checksum, where the one before ended.
    Batch {
        /// Where it starts.
        position: u64,
        /// What it says of itself.
        header: BatchHeader,
    },
    /// Bytes that are no batch, or not the one that should be here. Reading goes on behind them.
    Damage {
        /// Where it starts.
        position: u64,
        /// How far it goes: to the next batch that can be trusted, or to the end.
        bytes: u64,
        /// The first thing that is wrong.
        reason: BadBatch,
        /// Where the offsets before it end.
        from: Offset,
        /// Where the offsets behind it go on; equal to `from` where it is not known to hold any.
        to: Offset,
    },
    /// Zeros up to the end: room for appends, or what a crash left of them.
    ZeroTail {
        /// Where it starts.
        position: u64,
        /// How far it goes.
        bytes: u64,
    },
}

/// All of a file that is small by its nature; `None` where there is none of that name. What lies past `bytes_max` is left
/// out.
pub async fn read_file<D: Disk>(
    disk: &D,
    path: &str,
    bytes_max: usize,
) -> DiskResult<Option<Vec<u8>>> {
    small_file::read(disk, path, bytes_max).await
}

/// A segment on its way from front to back.
pub struct SegmentScan<D: Disk, E> {
    walk: SegmentWalk<D>,
    executor: E,
}

impl<D: Disk, E: Executor> SegmentScan<D, E> {
    /// Opens the segment whose first offset is `base`.
    pub async fn open(disk: &D, executor: E, path: &str, base: Offset) -> DiskResult<Self> {
        let file = Rc::new(disk.open(path, OpenMode::Read).await?);
        let bytes = file.size().await?;
        let walk = SegmentWalk::new(SegmentStream::new(file, bytes), 0, base, None);
        Ok(Self { walk, executor })
    }

    /// Opens what recovery has kept of a segment, whose batches begin at `position`. Which offset comes first only the first
    /// whole batch says: what lies before it is damage without offsets.
    pub async fn open_copy(disk: &D, executor: E, path: &str, position: u64) -> DiskResult<Self> {
        let file = Rc::new(disk.open(path, OpenMode::Read).await?);
        let bytes = file.size().await?;
        let mut stream = SegmentStream::new(file, bytes);
        let first = match stream.find(&executor, position).await? {
            FoundBatch::Batch(header) => Some(header),
            FoundBatch::End | FoundBatch::ZeroTail => None,
            FoundBatch::Bad(_) => {
                let any = Offset::ZERO..END_UNKNOWN;
                stream.find_next(&executor, position + 1, any).await?.map(|(_, header)| header)
            }
        };
        let base = first.map_or(Offset::ZERO, |header| header.base_offset);
        Ok(Self { walk: SegmentWalk::new(stream, position, base, None), executor })
    }

    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.walk.limit()
    }

    /// One past the last offset of the batches so far.
    pub fn end_offset(&self) -> Offset {
        self.walk.expected()
    }

    /// The next stretch; `None` at the end of the file.
    pub async fn next(&mut self) -> DiskResult<Option<ScanItem>> {
        let stretch = self.walk.next(&self.executor).await?;
        Ok(stretch.map(|stretch| match stretch {
            Stretch::Batch { position, header } => ScanItem::Batch { position, header },
            Stretch::ZeroTail { positions } => ScanItem::ZeroTail {
                position: positions.start,
                bytes: positions.end - positions.start,
            },
            Stretch::Damage { damage, reason } => ScanItem::Damage {
                position: damage.positions.start,
                bytes: damage.positions.end - damage.positions.start,
                reason,
                from: damage.offsets.start,
                to: damage.offsets.end,
            },
        }))
    }

    /// All bytes of a batch that [`SegmentScan::next`] gave.
    ///
    /// Shape   the caller bounds `header`'s size: it is what the file says, and may be as long as the file.
    pub async fn batch_bytes(
        &mut self,
        position: u64,
        header: &BatchHeader,
    ) -> DiskResult<Vec<u8>> {
        let mut bytes = Vec::with_capacity(header.total_bytes());
        while bytes.len() < header.total_bytes() {
            let piece = self.walk.stream().bytes_at(position + bytes.len() as u64).await?;
            if piece.is_empty() {
                break;
            }
            let wanted = piece.len().min(header.total_bytes() - bytes.len());
            bytes.extend(piece.iter().take(wanted));
            self.executor.yield_if_needed().await;
        }
        Ok(bytes)
    }
}

/// Which of a segment's two indexes a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// `.index`.
    Offset,
    /// `.timeindex`.
    Time,
}

/// What is wrong with an index. The log is not in danger: the index is derived from it, and is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IndexFinding {
    /// Not a whole number of entries.
    #[error("{bytes} bytes are not whole entries of {entry_bytes}")]
    Length {
        /// Length of the file.
        bytes: usize,
        /// Length of an entry.
        entry_bytes: usize,
    },
    /// An entry that does not ascend.
    #[error("entry {entry} does not follow its predecessor")]
    Order {
        /// Counted from 0.
        entry: usize,
    },
    /// An entry of `.index` whose position is not the start of a batch.
    #[error("entry {entry} points to byte {position}, where no batch starts")]
    NoBatchThere {
        /// Counted from 0.
        entry: usize,
        /// What it says.
        position: u64,
    },
    /// An entry of `.index` with another offset than the last one of the batch it points to.
    #[error("entry {entry} says offset {offset}, the batch at byte {position} ends with {found}")]
    OtherOffset {
        /// Counted from 0.
        entry: usize,
        /// What it says.
        offset: Offset,
        /// Where it points.
        position: u64,
        /// What is there.
        found: Offset,
    },
    /// An entry of `.timeindex` whose offset is the last one of no batch.
    #[error("entry {entry} says offset {offset}, with which no batch ends")]
    NoBatchOf {
        /// Counted from 0.
        entry: usize,
        /// What it says.
        offset: Offset,
    },
    /// An entry of `.timeindex` with another time than the largest of its batch.
    #[error("entry {entry} says {timestamp} ms, the batch that ends with {offset} has {found} ms")]
    OtherTime {
        /// Counted from 0.
        entry: usize,
        /// What it says.
        timestamp: Timestamp,
        /// Whose.
        offset: Offset,
        /// What is there.
        found: Timestamp,
    },
}

/// Compares a segment's indexes with its batches as they go by, as Kafka's dump-log does.
#[derive(Debug)]
pub struct IndexCheck {
    index: SegmentIndex,
    /// Entries compared so far, of each kind.
    offset_entry: usize,
    time_entry: usize,
    findings: Vec<(IndexKind, IndexFinding)>,
    findings_left: usize,
    /// Of each kind: one entry of zeros is all there is.
    is_lone_zero: [bool; 2],
}

/// Findings that are kept: a wrong index has one an entry, and nobody reads a million.
const FINDINGS_MAX: usize = 20;

impl IndexCheck {
    /// A check of these files of the segment whose first offset is `base`; an index that is not there is empty.
    ///
    /// Zeros at the end are room that was reserved and not used: they are no entries.
    pub fn new(base: Offset, offsets: &[u8], times: &[u8]) -> Self {
        let offsets_used = used(offsets, OFFSET_ENTRY_BYTES);
        let times_used = used(times, TIME_ENTRY_BYTES);
        let index = SegmentIndex::decode_unchecked(base, offsets_used, times_used);
        let mut check = Self {
            index,
            offset_entry: 0,
            time_entry: 0,
            findings: Vec::new(),
            findings_left: FINDINGS_MAX,
            is_lone_zero: [
                is_one_zero(offsets, OFFSET_ENTRY_BYTES),
                is_one_zero(times, TIME_ENTRY_BYTES),
            ],
        };
        for (kind, bytes, entry_bytes) in [
            (IndexKind::Offset, offsets.len(), OFFSET_ENTRY_BYTES),
            (IndexKind::Time, times.len(), TIME_ENTRY_BYTES),
        ] {
            if !bytes.is_multiple_of(entry_bytes) {
                check.add(kind, IndexFinding::Length { bytes, entry_bytes });
            }
        }
        check.check_order();
        check
    }

    /// How many entries there are of each kind: by offset, by time.
    pub fn entry_counts(&self) -> (usize, usize) {
        (self.index.offsets().len(), self.index.times().len())
    }

    /// Takes in the next batch. Order: as they lie.
    pub fn observe(&mut self, position: u64, header: &BatchHeader) {
        let last_offset = header.last_offset();
        while let Some(entry) = self.index.offsets().get(self.offset_entry).copied() {
            let at = u64::from(entry.position);
            if at > position {
                break;
            }
            let offset = self.index.absolute(entry.relative_last_offset);
            let number = self.offset_entry;
            self.offset_entry += 1;
            if at < position {
                let finding = IndexFinding::NoBatchThere { entry: number, position: at };
                self.add(IndexKind::Offset, finding);
            } else if offset != last_offset {
                let found = last_offset;
                let finding = IndexFinding::OtherOffset { entry: number, offset, position, found };
                self.add(IndexKind::Offset, finding);
            }
        }
        while let Some(entry) = self.index.times().get(self.time_entry).copied() {
            let offset = self.index.absolute(entry.relative_last_offset);
            if offset > last_offset {
                break;
            }
            let number = self.time_entry;
            self.time_entry += 1;
            let (timestamp, found) = (entry.timestamp, header.max_timestamp);
            if offset < last_offset {
                self.add(IndexKind::Time, IndexFinding::NoBatchOf { entry: number, offset });
            } else if timestamp != found {
                let finding = IndexFinding::OtherTime { entry: number, timestamp, offset, found };
                self.add(IndexKind::Time, finding);
            }
        }
    }

    /// Passes over a damaged stretch: what points into it cannot be judged.
    ///
    /// Order   among the batches, as they lie.
    pub fn pass_over(&mut self, positions: Range<u64>, offsets: Range<Offset>) {
        while let Some(entry) = self.index.offsets().get(self.offset_entry)
            && positions.contains(&u64::from(entry.position))
        {
            self.offset_entry += 1;
        }
        while let Some(entry) = self.index.times().get(self.time_entry)
            && offsets.contains(&self.index.absolute(entry.relative_last_offset))
        {
            self.time_entry += 1;
        }
    }

    /// What was found, once all batches went by.
    pub fn finish(mut self) -> Vec<(IndexKind, IndexFinding)> {
        for number in self.offset_entry..self.index.offsets().len() {
            if let Some(entry) = self.index.offsets().get(number) {
                let position = u64::from(entry.position);
                let finding = IndexFinding::NoBatchThere { entry: number, position };
                self.add(IndexKind::Offset, finding);
            }
        }
        for number in self.time_entry..self.index.times().len() {
            if let Some(entry) = self.index.times().get(number) {
                let offset = self.index.absolute(entry.relative_last_offset);
                self.add(IndexKind::Time, IndexFinding::NoBatchOf { entry: number, offset });
            }
        }
        self.findings
    }

    fn check_order(&mut self) {
        let offsets = self.index.offsets().windows(2).position(|pair| !offsets_ascend(pair));
        let times = self.index.times().windows(2).position(|pair| !times_ascend(pair));
        for (kind, before) in [(IndexKind::Offset, offsets), (IndexKind::Time, times)] {
            if let Some(before) = before {
                self.add(kind, IndexFinding::Order { entry: before + 1 });
            }
        }
    }

    fn add(&mut self, kind: IndexKind, finding: IndexFinding) {
        // Where no batch bears it out it is room that was reserved: segments whose records have no time get no entry by time.
        if self.is_lone_zero[kind as usize] {
            return;
        }
        if self.findings_left > 0 {
            self.findings_left -= 1;
            self.findings.push((kind, finding));
        }
    }
}

/// One entry of zeros, and nothing else.
fn is_one_zero(bytes: &[u8], entry_bytes: usize) -> bool {
    bytes.len() == entry_bytes && bytes.iter().all(|byte| *byte == 0)
}

/// `bytes` without the entries of zeros at their end, but for one that stands alone: offset 0 at byte 0, or at time 0, may be a true
/// entry; it is judged by the batch that it names.
fn used(bytes: &[u8], entry_bytes: usize) -> &[u8] {
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let tail_entries = zeros / entry_bytes;
    let keep = bytes.len() - tail_entries * entry_bytes;
    if keep == 0 && bytes.len() == entry_bytes { bytes } else { &bytes[..keep] }
}
