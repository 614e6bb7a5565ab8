//! The two sparse indexes of one segment: by offset and by time.
//!
//! Owns Kafka's bytes of `.index` and `.timeindex` and the rule when an entry is made. An index is derived from the log and
//! proves nothing: who uses an entry looks at the batch it points to, and rebuilds the index where they differ.
//!
//! ```text
//! .index      relative offset u32 | position u32      offset: of the LAST record of the batch at that position
//! .timeindex  timestamp i64 | relative offset u32     the largest timestamp so far | last offset of the batch that has it
//!             timestamps and offsets ascend strictly  all big-endian; relative to the segment's base offset
//! ```

use record::{BatchHeader, Offset, Timestamp};

pub(crate) const OFFSET_ENTRY_BYTES: usize = 8;
pub(crate) const TIME_ENTRY_BYTES: usize = 12;
/// 10 MiB of `.index`, Kafka's bound for one (`segment.index.bytes`): a full index rolls the segment.
pub(crate) const INDEX_ENTRIES_MAX: usize = 10 * 1024 * 1024 / OFFSET_ENTRY_BYTES;

/// Where a batch lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    pub(crate) relative_last_offset: u32,
    pub(crate) position: u32,
}

/// How late it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) timestamp: Timestamp,
    pub(crate) relative_last_offset: u32,
}

/// The largest timestamp of a stretch of log, and the last offset of the batch that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaxTimestamp {
    pub(crate) timestamp: Timestamp,
    pub(crate) last_offset: Offset,
}

/// Why index bytes were not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IndexDamage {
    /// There is no such file.
    #[error("missing")]
    Missing,
    /// Not a whole number of entries.
    #[error("{bytes} bytes are not whole entries")]
    Length {
        /// The length found.
        bytes: usize,
    },
    /// Entries that do not ascend.
    #[error("entry {index} does not follow its predecessor")]
    Order {
        /// Counted from 0.
        index: usize,
    },
    /// An entry past the end of the segment.
    #[error("entry {index} points past the segment")]
    Range {
        /// Counted from 0.
        index: usize,
    },
    /// An entry of `.index` that no batch bears out.
    #[error("no batch at byte {position} ends with offset {offset}, as an entry says")]
    Mismatch {
        /// What the entry says.
        position: u64,
        /// What it says.
        offset: Offset,
    },
    /// An entry of `.timeindex` that no batch bears out.
    #[error("{timestamp} ms is not the largest time up to offset {offset}, as an entry says")]
    TimeMismatch {
        /// What the entry says.
        timestamp: Timestamp,
        /// What it says.
        offset: Offset,
    },
    /// A stretch of the segment that should have an entry has none.
    #[error("entries are missing after position {position}")]
    Gap {
        /// Where the stretch begins.
        position: u64,
    },
}

impl IndexDamage {
    pub(crate) const fn time_mismatch(entry: MaxTimestamp) -> Self {
        Self::TimeMismatch { timestamp: entry.timestamp, offset: entry.last_offset }
    }
}

/// Both indexes of one segment, or of its part from `from_position` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentIndex {
    base: Offset,
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
}

impl SegmentIndex {
    pub(crate) const fn new(base: Offset) -> Self {
        Self { base, offsets: Vec::new(), times: Vec::new() }
    }

    /// Bytes of memory it holds.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + self.offsets.capacity() * size_of::<OffsetEntry>()
            + self.times.capacity() * size_of::<TimeEntry>()
    }

    pub(crate) fn offsets(&self) -> &[OffsetEntry] {
        &self.offsets
    }

    pub(crate) fn times(&self) -> &[TimeEntry] {
        &self.times
    }

    pub(crate) fn absolute(&self, relative: u32) -> Offset {
        Offset(self.base.0.saturating_add(i64::from(relative)))
    }

    /// The last entry whose batch ends at or before `offset`: last offset and position of that batch.
    pub(crate) fn at_or_before(&self, offset: Offset) -> Option<(Offset, u64)> {
        let above = self
            .offsets
            .partition_point(|entry| self.absolute(entry.relative_last_offset) <= offset);
        let entry = self.offsets.get(above.checked_sub(1)?)?;
        Some((self.absolute(entry.relative_last_offset), u64::from(entry.position)))
    }

    /// The last time entry that is older than `target`: no record up to its offset is as late as `target`.
    pub(crate) fn older_than(&self, target: Timestamp) -> Option<MaxTimestamp> {
        let above = self.times.partition_point(|entry| entry.timestamp < target);
        self.times.get(above.checked_sub(1)?).map(|entry| self.time(entry))
    }

    /// The last time entry whose batch lies wholly below `end`.
    pub(crate) fn latest_below(&self, end: Offset) -> Option<MaxTimestamp> {
        let above =
            self.times.partition_point(|entry| self.absolute(entry.relative_last_offset) < end);
        self.times.get(above.checked_sub(1)?).map(|entry| self.time(entry))
    }

    fn time(&self, entry: &TimeEntry) -> MaxTimestamp {
        MaxTimestamp {
            timestamp: entry.timestamp,
            last_offset: self.absolute(entry.relative_last_offset),
        }
    }

    /// Takes in the entries of the part that follows. Time entries that are no longer the largest so far are dropped.
    pub(crate) fn extend(&mut self, later: &Self) {
        assert_eq!(self.base, later.base);
        self.offsets.extend_from_slice(&later.offsets);
        let newest = self.times.last().copied();
        self.times.extend(later.times.iter().filter(|entry| {
            newest.is_none_or(|newest| {
                entry.timestamp > newest.timestamp
                    && entry.relative_last_offset > newest.relative_last_offset
            })
        }));
    }

    pub(crate) fn encode_offsets(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.offsets.len() * OFFSET_ENTRY_BYTES);
        for entry in &self.offsets {
            bytes.extend_from_slice(&entry.relative_last_offset.to_be_bytes());
            bytes.extend_from_slice(&entry.position.to_be_bytes());
        }
        bytes
    }

    pub(crate) fn encode_times(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.times.len() * TIME_ENTRY_BYTES);
        for entry in &self.times {
            bytes.extend_from_slice(&entry.timestamp.0.to_be_bytes());
            bytes.extend_from_slice(&entry.relative_last_offset.to_be_bytes());
        }
        bytes
    }

    /// Reads whole entries without a look at what they say.
    pub(crate) fn decode_unchecked(base: Offset, offsets: &[u8], times: &[u8]) -> Self {
        let (offsets, _) = offsets.as_chunks::<OFFSET_ENTRY_BYTES>();
        let (times, _) = times.as_chunks::<TIME_ENTRY_BYTES>();
        let offset = |&[o0, o1, o2, o3, p0, p1, p2, p3]: &[u8; OFFSET_ENTRY_BYTES]| OffsetEntry {
            relative_last_offset: u32::from_be_bytes([o0, o1, o2, o3]),
            position: u32::from_be_bytes([p0, p1, p2, p3]),
        };
        let time = |&[t0, t1, t2, t3, t4, t5, t6, t7, o0, o1, o2, o3]: &[u8; TIME_ENTRY_BYTES]| {
            TimeEntry {
                timestamp: Timestamp(i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7])),
                relative_last_offset: u32::from_be_bytes([o0, o1, o2, o3]),
            }
        };
        Self {
            base,
            offsets: offsets.iter().map(offset).collect(),
            times: times.iter().map(time).collect(),
        }
    }

    /// Reads both files of a segment that ends at `end` and is `segment_bytes` long.
    pub(crate) fn decode(
        base: Offset,
        end: Offset,
        segment_bytes: u64,
        offsets: &[u8],
        times: &[u8],
    ) -> Result<Self, IndexDamage> {
        if !offsets.len().is_multiple_of(OFFSET_ENTRY_BYTES) {
            return Err(IndexDamage::Length { bytes: offsets.len() });
        }
        if !times.len().is_multiple_of(TIME_ENTRY_BYTES) {
            return Err(IndexDamage::Length { bytes: times.len() });
        }
        let index = Self::decode_unchecked(base, offsets, times);
        let unordered = index
            .offsets
            .windows(2)
            .position(|pair| !offsets_ascend(pair))
            .or_else(|| index.times.windows(2).position(|pair| !times_ascend(pair)));
        if let Some(before) = unordered {
            return Err(IndexDamage::Order { index: before + 1 });
        }
        for (at, entry) in index.offsets.iter().enumerate() {
            let inside = u64::from(entry.position) < segment_bytes
                && index.absolute(entry.relative_last_offset) < end;
            if !inside {
                return Err(IndexDamage::Range { index: at });
            }
        }
        for (at, entry) in index.times.iter().enumerate() {
            if index.absolute(entry.relative_last_offset) >= end {
                return Err(IndexDamage::Range { index: at });
            }
        }
        Ok(index)
    }
}

pub(crate) fn offsets_ascend(pair: &[OffsetEntry]) -> bool {
    let [left, right] = pair else { return true };
    left.relative_last_offset < right.relative_last_offset && left.position < right.position
}

pub(crate) fn times_ascend(pair: &[TimeEntry]) -> bool {
    let [left, right] = pair else { return true };
    left.timestamp < right.timestamp && left.relative_last_offset < right.relative_last_offset
}

/// Makes entries as batches go by, by Kafka's rule: one whenever more than `interval_bytes` passed since the last.
#[derive(Debug, Clone)]
pub(crate) struct IndexBuilder {
    index: SegmentIndex,
    bytes_since_entry: u64,
    max: Option<MaxTimestamp>,
}

impl IndexBuilder {
    /// Starts where `max` is the largest timestamp that the segment holds so far.
    pub(crate) const fn new(base: Offset, max: Option<MaxTimestamp>) -> Self {
        Self { index: SegmentIndex::new(base), bytes_since_entry: 0, max }
    }

    pub(crate) const fn index(&self) -> &SegmentIndex {
        &self.index
    }

    pub(crate) const fn max(&self) -> Option<MaxTimestamp> {
        self.max
    }

    pub(crate) fn is_full(&self) -> bool {
        self.index.offsets.len() >= INDEX_ENTRIES_MAX
    }

    /// Takes in the batch at `position`.
    pub(crate) fn observe(&mut self, header: &BatchHeader, position: u64, interval_bytes: u32) {
        let last_offset = header.last_offset();
        if header.max_timestamp > self.max.map_or(Timestamp::NONE, |max| max.timestamp) {
            self.max = Some(MaxTimestamp { timestamp: header.max_timestamp, last_offset });
        }
        if self.bytes_since_entry > u64::from(interval_bytes) {
            // The log rolls before either passes 32 bits; what recovery finds beyond has no entry.
            let relative = u32::try_from(last_offset.0 - self.index.base.0);
            if let (Ok(relative_last_offset), Ok(position)) = (relative, u32::try_from(position)) {
                self.index.offsets.push(OffsetEntry { relative_last_offset, position });
                self.note_time();
            }
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += header.total_bytes() as u64;
    }

    /// Puts the entries of the part before in front.
    pub(crate) fn prepend(&mut self, earlier: &SegmentIndex) {
        let later = std::mem::replace(&mut self.index, earlier.clone());
        self.index.extend(&later);
    }

    /// The segment is complete: its largest timestamp gets an entry in any case.
    pub(crate) fn finish(&mut self) {
        self.note_time();
    }

    fn note_time(&mut self) {
        let Some(max) = self.max else { return };
        let Ok(relative) = u32::try_from(max.last_offset.0 - self.index.base.0) else { return };
        let newer = self.index.times.last().is_none_or(|last| last.timestamp < max.timestamp);
        if newer {
            self.index
                .times
                .push(TimeEntry { timestamp: max.timestamp, relative_last_offset: relative });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built() -> SegmentIndex {
        let mut index = SegmentIndex::new(Offset(100));
        index.offsets = vec![
            OffsetEntry { relative_last_offset: 5, position: 4096 },
            OffsetEntry { relative_last_offset: 9, position: 9000 },
        ];
        index.times = vec![
            TimeEntry { timestamp: Timestamp(50), relative_last_offset: 3 },
            TimeEntry { timestamp: Timestamp(70), relative_last_offset: 9 },
        ];
        index
    }

    #[test]
    fn index_files_golden_bytes() {
        let index = built();
        assert_eq!(
            index.encode_offsets(),
            [0, 0, 0, 5, 0, 0, 0x10, 0, 0, 0, 0, 9, 0, 0, 0x23, 0x28]
        );
        assert_eq!(
            index.encode_times(),
            [0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 70, 0, 0, 0, 9]
        );
        let decoded = SegmentIndex::decode(
            Offset(100),
            Offset(110),
            9500,
            &index.encode_offsets(),
            &index.encode_times(),
        );
        assert_eq!(decoded, Ok(index));
    }

    #[test]
    fn look_ups_take_the_last_entry_that_cannot_be_too_late() {
        let index = built();
        assert_eq!(index.at_or_before(Offset(104)), None);
        assert_eq!(index.at_or_before(Offset(105)), Some((Offset(105), 4096)));
        assert_eq!(index.at_or_before(Offset(500)), Some((Offset(109), 9000)));
        assert_eq!(index.older_than(Timestamp(50)), None);
        let first = MaxTimestamp { timestamp: Timestamp(50), last_offset: Offset(103) };
        assert_eq!(index.older_than(Timestamp(70)), Some(first));
        assert_eq!(index.latest_below(Offset(109)), Some(first));
    }

    #[test]
    fn damaged_files_are_refused() {
        let check = |offsets: &[u8], times: &[u8], damage| {
            let decoded = SegmentIndex::decode(Offset(100), Offset(110), 9500, offsets, times);
            assert_eq!(decoded, Err(damage));
        };
        let (offsets, times) = (built().encode_offsets(), built().encode_times());
        check(&offsets[..7], &times, IndexDamage::Length { bytes: 7 });
        check(&offsets, &times[..11], IndexDamage::Length { bytes: 11 });
        check(&[0; 16], &times, IndexDamage::Order { index: 1 });
        check(&offsets, &[0; 24], IndexDamage::Order { index: 1 });
        check(&[0, 0, 0, 5, 0, 0, 0x25, 0x1c], &[], IndexDamage::Range { index: 0 });
        check(&[0, 0, 0, 10, 0, 0, 0, 0], &[], IndexDamage::Range { index: 0 });
        check(&[], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 10], IndexDamage::Range { index: 0 });
    }

    #[test]
    fn a_later_part_adds_only_later_times() {
        let mut index = built();
        let mut later = SegmentIndex::new(Offset(100));
        later.offsets = vec![OffsetEntry { relative_last_offset: 20, position: 20_000 }];
        later.times = vec![
            TimeEntry { timestamp: Timestamp(60), relative_last_offset: 15 },
            TimeEntry { timestamp: Timestamp(90), relative_last_offset: 20 },
        ];
        index.extend(&later);
        assert_eq!(index.offsets.len(), 3);
        let times: Vec<i64> = index.times.iter().map(|entry| entry.timestamp.0).collect();
        assert_eq!(times, [50, 70, 90]);
    }
}
