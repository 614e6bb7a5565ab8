//! The leader epochs of one log: which epoch started at which offset.
//!
//! Owns [`EpochTable`] and the text of Kafka's `leader-epoch-checkpoint` file. Invariant: epochs and start offsets both
//! ascend strictly. It is cut together with the log, at both ends, or a follower truncates to the wrong place (P85).
//!
//! ```text
//!   0\n                 version
//!   2\n                 number of entries
//!   0 0\n               epoch, start offset
//!   3 4711\n
//! ```

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::str;

use crate::{LeaderEpoch, Offset};

/// One epoch and where it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset of the first batch appended under it.
    pub start_offset: Offset,
}

/// The answer to "where did that epoch end here".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch known here that is not above the one asked for, or the one asked for.
    pub epoch: LeaderEpoch,
    /// One past the last offset of that epoch.
    pub end_offset: Offset,
}

/// Why a checkpoint file was refused; the table can always be rebuilt from the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EpochFileError {
    /// The file is empty or ends within a line.
    #[error("leader epoch checkpoint ends within line {line}")]
    Truncated {
        /// Counted from 1.
        line: usize,
    },
    /// Something else than numbers in plain decimal.
    #[error("leader epoch checkpoint line {line}: not what the format says")]
    Malformed {
        /// Counted from 1.
        line: usize,
    },
    /// Another version.
    #[error("leader epoch checkpoint version {version}: must be 0")]
    Version {
        /// What the file says.
        version: u64,
    },
    /// The number of lines is another one than the file says.
    #[error("leader epoch checkpoint holds {found} entries, its second line says {claimed}")]
    Count {
        /// What the file says.
        claimed: u64,
        /// What it holds.
        found: usize,
    },
    /// An entry that is not above the one before.
    #[error("leader epoch checkpoint line {line}: epochs and offsets must ascend")]
    Order {
        /// Counted from 1.
        line: usize,
    },
}

/// The epochs of one log, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EpochTable {
    entries: Vec<EpochEntry>,
}

impl EpochTable {
    /// A table of no epochs.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// The entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest epoch.
    #[must_use]
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.epoch)
    }

    /// Notes that a batch of `epoch` lies at `start_offset`, and says whether that changed the table.
    ///
    /// Order   called for every batch in log order, and by a new leader with its log end before the first append.
    ///
    /// What the log says last wins: entries of a higher epoch, or of a lower one that would start at or after this
    /// offset, are dropped. They come from a field the checksum does not cover or from an epoch in which nothing was
    /// written. A negative epoch is no epoch.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        // Nearly every call: one more batch of the current epoch.
        if epoch < LeaderEpoch(0)
            || self
                .entries
                .last()
                .is_some_and(|last| last.epoch == epoch && last.start_offset <= start_offset)
        {
            return false;
        }
        let kept = self
            .entries
            .partition_point(|entry| entry.epoch <= epoch && entry.start_offset < start_offset);
        let changed = kept < self.entries.len();
        self.entries.truncate(kept);
        if self.latest() == Some(epoch) {
            return changed;
        }
        self.entries.push(EpochEntry { epoch, start_offset });
        true
    }

    /// Where `asked` ended in this log (LO-4); `None` where Kafka answers (-1, -1).
    ///
    /// The newest epoch ends at `log_end`. An unknown epoch between two known ones gives the lower one's end; one
    /// below the first gives that first one's start, under the number asked for.
    #[must_use]
    pub fn end_offset_for(&self, asked: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        if asked < LeaderEpoch(0) {
            return None;
        }
        if self.latest() == Some(asked) {
            return Some(EpochEnd { epoch: asked, end_offset: log_end });
        }
        let above = self.entries.partition_point(|entry| entry.epoch <= asked);
        let end_offset = self.entries.get(above)?.start_offset;
        let below = above.checked_sub(1).and_then(|index| self.entries.get(index));
        Some(EpochEnd { epoch: below.map_or(asked, |entry| entry.epoch), end_offset })
    }

    /// The epoch of the batch at `offset`.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let above = self.entries.partition_point(|entry| entry.start_offset <= offset);
        self.entries.get(above.checked_sub(1)?).map(|entry| entry.epoch)
    }

    /// The log was cut so that it ends at `end_offset`: epochs that start there or later go. Says whether any did.
    pub fn truncate_tail(&mut self, end_offset: Offset) -> bool {
        let kept = self.entries.partition_point(|entry| entry.start_offset < end_offset);
        let changed = kept < self.entries.len();
        self.entries.truncate(kept);
        changed
    }

    /// The log now starts at `log_start`: epochs that ended before it go, the one it lies in starts there. Says whether
    /// anything changed.
    pub fn truncate_head(&mut self, log_start: Offset) -> bool {
        let above = self.entries.partition_point(|entry| entry.start_offset <= log_start);
        let Some(current) = above.checked_sub(1) else { return false };
        let moved = self.entries.get_mut(current).is_some_and(|entry| {
            let moved = entry.start_offset != log_start;
            entry.start_offset = log_start;
            moved
        });
        self.entries.drain(..current);
        moved || current > 0
    }

    /// Forgets every epoch.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The text of the checkpoint file.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(text, "0\n{}\n", self.entries.len());
        for entry in &self.entries {
            let _ = writeln!(text, "{} {}", entry.epoch, entry.start_offset);
        }
        text
    }

    /// Reads the checkpoint file.
    ///
    /// Errors  anything but exactly what [`EpochTable::encode`] writes: a file that was cut inside its last number must
    ///         not be read as another number.
    pub fn decode(file: &[u8]) -> Result<Self, EpochFileError> {
        let Some(body) = file.strip_suffix(b"\n") else {
            let line = 1 + file.iter().filter(|byte| **byte == b'\n').count();
            return Err(EpochFileError::Truncated { line });
        };
        let mut lines = body.split(|byte| *byte == b'\n').zip(1_usize..);
        let mut next_number = |line| match lines.next() {
            Some((text, line)) => number(text).ok_or(EpochFileError::Malformed { line }),
            None => Err(EpochFileError::Truncated { line }),
        };
        let version = next_number(1)?;
        if version != 0 {
            return Err(EpochFileError::Version { version });
        }
        let claimed = next_number(2)?;
        let mut table = Self::new();
        for (text, line) in lines {
            let entry = parse_entry(text).ok_or(EpochFileError::Malformed { line })?;
            if table.entries.last().is_some_and(|last| {
                entry.epoch <= last.epoch || entry.start_offset <= last.start_offset
            }) {
                return Err(EpochFileError::Order { line });
            }
            table.entries.push(entry);
        }
        if u64::try_from(table.entries.len()) != Ok(claimed) {
            return Err(EpochFileError::Count { claimed, found: table.entries.len() });
        }
        Ok(table)
    }
}

fn parse_entry(line: &[u8]) -> Option<EpochEntry> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (epoch, rest) = line.split_at_checked(space)?;
    Some(EpochEntry {
        epoch: LeaderEpoch(i32::try_from(number(epoch)?).ok()?),
        start_offset: Offset(i64::try_from(number(rest.get(1..)?)?).ok()?),
    })
}

/// Plain decimal digits without a sign.
fn number(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
