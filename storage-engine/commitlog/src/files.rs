//! Open segment files: a bounded number, the one used longest ago is closed first.
//!
//! Owns every handle of a segment. A handle in use stays open though it was evicted: whoever uses it holds it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use record::{Offset, Timestamp};

use crate::disk::{Disk, DiskError, DiskResult, OpenMode};
use crate::log_pace::LogPace;
use crate::lru::Lru;
use crate::small_file;

/// Names a log within its store; never used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogKey(pub(crate) u64);

/// Names a segment within its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentKey {
    pub(crate) log: LogKey,
    pub(crate) segment: Offset,
}

impl SegmentKey {
    pub(crate) fn all_of(log: LogKey) -> std::ops::RangeInclusive<Self> {
        Self { log, segment: Offset(i64::MIN) }..=Self { log, segment: Offset(i64::MAX) }
    }
}

/// The files of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suffix {
    Log,
    Index,
    TimeIndex,
    Snapshot,
}

impl Suffix {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::Index => ".index",
            Self::TimeIndex => ".timeindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// `NNNNNNNNNNNNNNNNNNNN.log`: 20 digits sort as numbers do.
pub(crate) fn segment_name(base: Offset, suffix: Suffix) -> String {
    format!("{:020}{}", base.0, suffix.text())
}

/// Reads such a name back; `None` for any other.
pub(crate) fn parse_segment_name(name: &str, suffix: Suffix) -> Option<Offset> {
    let digits = name.strip_suffix(suffix.text())?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Offset)
}

#[derive(Debug)]
struct Held<F> {
    file: Rc<F>,
    mode: OpenMode,
}

impl<F> Clone for Held<F> {
    fn clone(&self) -> Self {
        Self { file: self.file.clone(), mode: self.mode }
    }
}

/// The handles of one core.
#[derive(Debug)]
pub(crate) struct OpenFiles<D: Disk> {
    disk: D,
    held: RefCell<Lru<SegmentKey, Held<D::File>>>,
    /// The time, as the store was last told it.
    now: Cell<Timestamp>,
    close_pace: LogPace<()>,
}

impl<D: Disk> OpenFiles<D> {
    pub(crate) fn new(disk: D, files_max: usize) -> Self {
        Self {
            disk,
            held: RefCell::new(Lru::new(files_max)),
            now: Cell::new(Timestamp::NONE),
            close_pace: LogPace::default(),
        }
    }

    /// Where the files are.
    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    /// Tells the time, for the pace of what is logged.
    pub(crate) fn tell_time(&self, now: Timestamp) {
        self.now.set(now);
    }

    /// A handle that can do what `mode` says; `CreateNew` makes the file.
    pub(crate) async fn get(
        &self,
        directory: &str,
        key: SegmentKey,
        mode: OpenMode,
    ) -> DiskResult<Rc<D::File>> {
        if mode != OpenMode::CreateNew {
            let held = self.held.borrow_mut().get(&key);
            if let Some(held) = held
                && (mode == OpenMode::Read || held.mode != OpenMode::Read)
            {
                return Ok(held.file);
            }
        }
        let path = small_file::join(directory, &segment_name(key.segment, Suffix::Log));
        let file = match self.disk.open(&path, mode).await {
            Err(DiskError::TooManyFiles { .. }) if self.close_half() => {
                self.disk.open(&path, mode).await?
            }
            opened => opened?,
        };
        let file = Rc::new(file);
        self.held.borrow_mut().insert(key, Held { file: file.clone(), mode }, 1);
        Ok(file)
    }

    /// Makes the names in a directory lasting.
    pub(crate) async fn sync_dir(&self, directory: &str) -> DiskResult<()> {
        match self.disk.sync_dir(directory).await {
            // Not even opened, so nothing of it was tried: this is no second sync after a failed one.
            Err(DiskError::TooManyFiles { .. }) if self.close_half() => {
                self.disk.sync_dir(directory).await
            }
            synced => synced,
        }
    }

    /// Closes the older half of the handles, for a process that may open no more: nothing was read or written yet, so trying
    /// again is safe. Says whether there were any.
    pub(crate) fn close_half(&self) -> bool {
        let mut held = self.held.borrow_mut();
        let count = held.len();
        for _ in 0..count.div_ceil(2) {
            held.remove_oldest();
        }
        if let Some(times) = self.close_pace.due((), self.now.get(), 1) {
            let closed = count.div_ceil(2);
            tracing::warn!(closed, times, "too many open files: closed those used longest ago");
        }
        count > 0
    }

    /// Drops a handle whose name is about to change.
    pub(crate) fn forget(&self, key: SegmentKey) {
        self.held.borrow_mut().remove(&key);
    }

    pub(crate) fn forget_log(&self, log: LogKey) {
        self.held.borrow_mut().remove_range(SegmentKey::all_of(log));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_round_trip_and_others_are_refused() {
        let name = segment_name(Offset(42_000), Suffix::Log);
        assert_eq!(name, "00000000000000042000.log");
        assert_eq!(parse_segment_name(&name, Suffix::Log), Some(Offset(42_000)));
        for other in [
            "42000.log",
            "0000000000000004200x.log",
            "+0000000000000042000.log",
            "99999999999999999999.log",
            "00000000000000042000.index",
        ] {
            assert_eq!(parse_segment_name(other, Suffix::Log), None, "{other}");
        }
    }
}
