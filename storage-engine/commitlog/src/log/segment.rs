//! What is known of one segment without reading it.
//!
//! Owns a few words a segment. Everything bulky (file handles, indexes) lives in bounded caches of the core.

use record::{Offset, Timestamp};

use crate::group::GroupEnd;
use crate::index::{IndexBuilder, MaxTimestamp};

/// The index of the part of a segment that this process appended or scanned: trusted, and complete from `from_offset` on.
#[derive(Debug)]
pub(crate) struct Memory {
    /// A batch starts here.
    pub(crate) from_position: u64,
    /// With this base offset.
    pub(crate) from_offset: Offset,
    pub(crate) builder: IndexBuilder,
}

/// Whether the largest timestamp of a segment is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentMax {
    /// Only its time index says, which proves nothing.
    Unverified,
    /// From the batches; `None` if none of them carries a timestamp.
    Known(Option<MaxTimestamp>),
}

#[derive(Debug)]
pub(crate) struct Segment {
    /// Offset of its first record; names the files.
    pub(crate) base: Offset,
    /// One past the last offset; the accepted end where it takes appends.
    pub(crate) end: Offset,
    /// Bytes of batches, accepted ones included.
    pub(crate) bytes: u64,
    /// Its file has its exact length and its indexes are on disk.
    pub(crate) is_sealed: bool,
    /// The file is there, or a group that creates it is on its way.
    pub(crate) has_file: bool,
    /// Its file was made, or found, before anything was appended to it here: the name is lasting.
    pub(crate) is_named: bool,
    /// Timestamp of the first batch; -1 for none.
    pub(crate) first_timestamp: Timestamp,
    /// When the segment was opened, for batches without timestamps.
    pub(crate) opened_at: Timestamp,
    pub(crate) max: SegmentMax,
    /// Until the segment is sealed.
    pub(crate) memory: Option<Box<Memory>>,
    /// Producer state at its end, to be written when it is sealed.
    pub(crate) snapshot_at_end: Option<Vec<u8>>,
}

impl Segment {
    /// A segment without a file.
    pub(crate) fn fresh(base: Offset, now: Timestamp) -> Self {
        Self {
            base,
            end: base,
            bytes: 0,
            is_sealed: false,
            has_file: false,
            is_named: false,
            first_timestamp: Timestamp::NONE,
            opened_at: now,
            max: SegmentMax::Unverified,
            memory: Some(Box::new(Memory {
                from_position: 0,
                from_offset: base,
                builder: IndexBuilder::new(base, None),
            })),
            snapshot_at_end: None,
        }
    }

    /// Its end, as a group would say it.
    pub(crate) fn whole(&self, reached: GroupEnd) -> GroupEnd {
        GroupEnd {
            segment: self.base,
            position: self.bytes,
            offset: self.end,
            max: self.max_known(),
            total_bytes: reached.total_bytes,
        }
    }

    /// The largest timestamp as far as it is certain.
    pub(crate) fn max_known(&self) -> Option<MaxTimestamp> {
        match (&self.memory, self.max) {
            (Some(memory), _) => memory.builder.max(),
            (None, SegmentMax::Known(max)) => max,
            (None, SegmentMax::Unverified) => None,
        }
    }
}
