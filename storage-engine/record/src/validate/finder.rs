//! Looks for one record of a batch by time.
//!
//! Owns [`RecordFinder`]: the same walk as the validator's, over the same bounded window, in steps that a caller can put other
//! work between. It judges nothing but what it needs: a batch that compaction left with fewer records is as good as any.

use super::walker::{Paused, Search, Walker};
use super::{BatchRefusal, Budget, Stage, walk_records};
use crate::compression::Decoder;
use crate::{BatchHeader, Codec, DecompressError, Offset, Timestamp, Workspace};

/// Which timestamps will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedTime {
    /// This one or a later one.
    AtLeast(Timestamp),
    /// This one.
    Exactly(Timestamp),
}

impl WantedTime {
    pub(super) fn takes(self, timestamp: Timestamp) -> bool {
        match self {
            Self::AtLeast(target) => timestamp >= target,
            Self::Exactly(target) => timestamp == target,
        }
    }
}

/// Which record is looked for: the first that has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its timestamp.
    pub time: WantedTime,
    /// The lowest offset that it may have.
    pub offset_min: Offset,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindStep {
    /// The budget is used up; step again.
    More,
    /// The record.
    Found {
        /// Its offset.
        offset: Offset,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// The batch holds no such record.
    Absent,
}

/// Why a batch could not be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// Nothing is wrong with the bytes, but there are too many of them once decompressed.
    #[error("records expand beyond {output_bytes_max} bytes")]
    OutputBound {
        /// The bound.
        output_bytes_max: usize,
    },
    /// A frame needs a large window, which the workspace does not allow: see [`crate::Windows`].
    #[error("decompressed only with a window of more than 8 MiB")]
    LargeWindow,
    /// The bytes are no records.
    #[error("not the records that the header says")]
    Damaged,
}

impl From<BatchRefusal> for FindError {
    fn from(refusal: BatchRefusal) -> Self {
        match refusal {
            BatchRefusal::Data(DecompressError::OutputBound { output_bytes_max, .. }) => {
                Self::OutputBound { output_bytes_max }
            }
            BatchRefusal::Data(DecompressError::LargeWindow { .. }) => Self::LargeWindow,
            _ => Self::Damaged,
        }
    }
}

/// A search on its way through the records of a batch.
#[derive(Debug)]
pub struct RecordFinder<'a> {
    header: BatchHeader,
    workspace: &'a mut Workspace,
    stage: Stage<'a>,
    walker: Walker,
}

impl<'a> RecordFinder<'a> {
    /// Starts on `records`, what follows the header of a batch whose checksum is right.
    ///
    /// Units   `output_bytes_max` bounds the work, not the memory: that is one window.
    pub fn new(
        header: &BatchHeader,
        records: &'a [u8],
        wanted: Wanted,
        output_bytes_max: usize,
        workspace: &'a mut Workspace,
    ) -> Result<Self, FindError> {
        let stage = match header.codec().map_err(BatchRefusal::from)? {
            Codec::None => Stage::Plain { rest: records },
            codec => {
                let decoder = Decoder::new(codec, records, output_bytes_max, workspace)
                    .map_err(BatchRefusal::from)?;
                Stage::Compressed { decoder, ended: false }
            }
        };
        let walker = Walker::searching(header, Search::new(header, wanted));
        Ok(Self { header: *header, workspace, stage, walker })
    }

    /// Goes on for about `budget_ns` nanoseconds of work, as calibrated on a slow machine.
    ///
    /// Units   a zstd block is decoded in one piece: up to 128 KiB whatever the budget.
    /// Order   call until it says anything but `More`.
    pub fn step(&mut self, budget_ns: u32) -> Result<FindStep, FindError> {
        let mut budget = Budget { ns_left: budget_ns.max(1) };
        while budget.ns_left > 0 {
            let paused = walk_records(
                &mut self.stage,
                &mut self.walker,
                &self.header,
                self.workspace,
                &mut budget,
            )?;
            match paused {
                Paused::Found { offset_delta, timestamp } => {
                    let base = self.header.base_offset.0;
                    let offset = Offset(base.saturating_add(i64::from(offset_delta)));
                    return Ok(FindStep::Found { offset, timestamp });
                }
                Paused::End => return Ok(FindStep::Absent),
                Paused::Budget | Paused::NeedsBytes => {}
            }
        }
        Ok(FindStep::More)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;
    use crate::{BatchBuilder, BatchView, NewRecord};

    fn batch(codec: Codec, timestamps: &[i64], value_bytes: usize) -> Vec<u8> {
        let value = vec![0; value_bytes];
        let mut builder = BatchBuilder::new(codec);
        for timestamp in timestamps {
            let timestamp = Timestamp(*timestamp);
            builder.append(&NewRecord { timestamp, value: Some(&value), ..NewRecord::default() });
        }
        builder.build()
    }

    fn find(bytes: &[u8], wanted: Wanted, output_bytes_max: usize) -> Result<FindStep, FindError> {
        let view = BatchView::parse(bytes).unwrap();
        let (header, mut workspace) = (*view.header(), Workspace::new());
        let mut finder = RecordFinder::new(
            &header,
            view.record_bytes(),
            wanted,
            output_bytes_max,
            &mut workspace,
        )?;
        loop {
            match finder.step(100)? {
                FindStep::More => {}
                done => return Ok(done),
            }
        }
    }

    #[test]
    fn the_first_record_that_has_both_is_found() {
        let at_least = |target, offset| Wanted {
            time: WantedTime::AtLeast(Timestamp(target)),
            offset_min: Offset(offset),
        };
        let exactly = |target, offset| Wanted {
            time: WantedTime::Exactly(Timestamp(target)),
            offset_min: Offset(offset),
        };
        for codec in Codec::ALL {
            let bytes = batch(codec, &[10, 30, 20, 30], 3000);
            let found = |offset, timestamp| {
                Ok(FindStep::Found { offset: Offset(offset), timestamp: Timestamp(timestamp) })
            };
            for (wanted, expected) in [
                (at_least(0, 0), found(0, 10)),
                (at_least(11, 0), found(1, 30)),
                (at_least(11, 2), found(2, 20)),
                (at_least(31, 0), Ok(FindStep::Absent)),
                (exactly(20, 0), found(2, 20)),
                (exactly(30, 2), found(3, 30)),
                (exactly(25, 0), Ok(FindStep::Absent)),
                (at_least(0, 4), Ok(FindStep::Absent)),
            ] {
                assert_eq!(find(&bytes, wanted, 1 << 20), expected, "{codec} {wanted:?}");
            }
        }
    }

    #[test]
    fn records_that_expand_too_far_are_not_called_damaged() {
        let wanted = Wanted { time: WantedTime::AtLeast(Timestamp(99)), offset_min: Offset(0) };
        let bytes = batch(Codec::Zstd, &[1, 2], 100_000);
        let output_bytes_max = 50_000;
        assert_eq!(
            find(&bytes, wanted, output_bytes_max),
            Err(FindError::OutputBound { output_bytes_max })
        );
        let mut cut = bytes;
        cut.truncate(cut.len() - 10);
        let header_length = i32::try_from(cut.len() - 12).unwrap();
        cut[8..12].copy_from_slice(&header_length.to_be_bytes());
        assert_eq!(find(&cut, wanted, 1 << 20), Err(FindError::Damaged));
    }
}
