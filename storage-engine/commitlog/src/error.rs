//! What can go wrong with a log, one enum per operation.
//!
//! Owns the words. It never maps them to a protocol code: that is the broker's table.

use std::ops::Range;

use record::{LeaderEpoch, Offset, PartitionIndex, TopicId};

use crate::disk::{DiskError, ENOSPC};

/// What a failed transfer was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoStage {
    /// Opening or creating a segment file.
    Open,
    /// Writing blocks.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDirectory,
}

/// Why a log takes no more appends. It stays readable up to what it held durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogFailure {
    /// The disk is full: nothing past the durable end is promised. Passes: the log can be opened again.
    #[error("no space left on device: appends past the durable end are given up")]
    NoSpace,
    /// The disk failed. Never retried: after a failed sync, trying again proves nothing.
    #[error("disk failed ({stage:?}, errno {errno}): the log is read-only until restart")]
    Io {
        /// What was tried.
        stage: IoStage,
        /// The system's number; 0 where there was none.
        errno: i32,
    },
    /// A file or directory could not be opened, for a reason that lies with the process or its rights and not with the disk.
    #[error(
        "the log's files cannot be opened ({reason:?}, errno {errno}): appends past the durable end are given up"
    )]
    Refused {
        /// Which.
        reason: RefusedOpen,
        /// The system's number.
        errno: i32,
    },
    /// The log was closed or deleted.
    #[error("the log is closed")]
    Closed,
}

/// Why the system opens no more files for this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedOpen {
    /// Its rights do not suffice, or the file system is read-only.
    Denied,
    /// Too many are open, also after those that nobody used were closed.
    TooManyFiles,
}

impl LogFailure {
    /// Whether the log may be opened again while the process runs: what failed was refused before it could be half done.
    ///
    /// A failed sync never passes, whatever its number: what it covered may be gone though reads still show it, and a second
    /// sync that succeeds proves nothing.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::NoSpace | Self::Refused { reason: RefusedOpen::TooManyFiles, .. })
    }

    pub(crate) fn from_disk(stage: IoStage, error: &DiskError) -> Self {
        // A directory is opened for its sync.
        let opens = matches!(stage, IoStage::Open | IoStage::SyncDirectory);
        let is_sync = matches!(stage, IoStage::Sync | IoStage::SyncDirectory);
        match error {
            DiskError::NoSpace if is_sync => Self::Io { stage, errno: ENOSPC },
            DiskError::NoSpace => Self::NoSpace,
            DiskError::Denied { errno } if opens => {
                Self::Refused { reason: RefusedOpen::Denied, errno: *errno }
            }
            DiskError::TooManyFiles { errno } if opens => {
                Self::Refused { reason: RefusedOpen::TooManyFiles, errno: *errno }
            }
            DiskError::Denied { errno }
            | DiskError::TooManyFiles { errno }
            | DiskError::Io { errno } => Self::Io { stage, errno: *errno },
            DiskError::NotFound
            | DiskError::AlreadyExists
            | DiskError::NotAFile { .. }
            | DiskError::NotADirectory
            | DiskError::Short { .. } => Self::Io { stage, errno: 0 },
        }
    }
}

/// Why a batch was not appended. Nothing of it was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The disk is behind: `pending_bytes` accepted bytes of the log, or of all logs of its core, are not durable yet. Try
    /// again after [`crate::Log::room`].
    #[error("{pending_bytes} bytes wait for the disk, bound {bound}; batch refused")]
    Full {
        /// Accepted and not yet durable.
        pending_bytes: u64,
        /// The bound.
        bound: u64,
    },
    /// The log failed earlier.
    #[error("log is read-only: {failure}")]
    ReadOnly {
        /// How.
        failure: LogFailure,
    },
    /// The disk was full; the log takes appends again once it was opened again.
    #[error("log is read-only: no space left on device")]
    NoSpace,
    /// The caller's epoch is older than the log's.
    #[error("leader epoch {asked} is older than the log's {latest}; batch refused")]
    Fenced {
        /// The caller's.
        asked: LeaderEpoch,
        /// The log's.
        latest: LeaderEpoch,
    },
    /// The batch is larger than a segment may be.
    #[error("batch of {bytes} bytes, segment.bytes {segment_bytes}; batch refused")]
    TooLarge {
        /// Size of the batch.
        bytes: u64,
        /// `segment.bytes`.
        segment_bytes: u32,
    },
    /// No offsets are left.
    #[error("offset {base_offset} + {count} passes the last offset there is; batch refused")]
    OffsetsExhausted {
        /// Where the batch would have started.
        base_offset: Offset,
        /// Records in it.
        count: i64,
    },
}

/// Why the log start was not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrimError {
    /// Past the high watermark, or past what is durable.
    #[error("offset {asked} is past {end}, the last that may go")]
    BeyondEnd {
        /// Where the log was to start.
        asked: Offset,
        /// Where it may start at most.
        end: Offset,
    },
    /// It could not be made lasting; readers may see it already.
    #[error("the new log start {log_start} is not on disk yet")]
    NotLasting {
        /// Where readers see the log start.
        log_start: Offset,
    },
    /// The log was closed or deleted.
    #[error("the log is closed")]
    Closed,
}

/// Why a read was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The offset is no longer held.
    #[error("offset {asked} is below the log start {log_start}")]
    BelowStart {
        /// What was asked for.
        asked: Offset,
        /// First offset held.
        log_start: Offset,
    },
    /// The offset does not exist yet.
    #[error("offset {asked} is past the end {end}")]
    BeyondEnd {
        /// What was asked for.
        asked: Offset,
        /// One past the last.
        end: Offset,
    },
    /// The bytes are there and wrong. What lies before and after the range can be read.
    #[error("offsets {}..{} are damaged on disk", range.start, range.end)]
    Damaged {
        /// The offsets that cannot be read.
        range: Range<Offset>,
    },
    /// Nothing is wrong with the bytes; decompressed there are more than anybody looks through.
    #[error("records {}..{} expand beyond {bound} bytes", range.start, range.end)]
    Expands {
        /// The offsets of the batch.
        range: Range<Offset>,
        /// The bound.
        bound: usize,
    },
    /// The log was closed or deleted.
    #[error("the log is closed")]
    Closed,
    /// The disk failed; the read may be tried again.
    #[error("read failed: {0}")]
    Io(#[from] DiskError),
}

/// Why a log was not let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// It works, or it failed for good.
    #[error("the log stays as it is: {failure:?}")]
    NotPassing {
        /// How it failed, if it did.
        failure: Option<LogFailure>,
    },
}

/// Why a log was not opened. Its files are untouched unless the variant says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The log was created before, and its files are gone: offline, never recreated empty.
    #[error("{path}: created before and missing now; restore it, or delete the topic")]
    Missing {
        /// What is missing.
        path: String,
    },
    /// The same log is open already.
    #[error("topic {topic_id} partition {partition} is open already")]
    AlreadyOpen {
        /// The topic.
        topic_id: TopicId,
        /// The partition.
        partition: PartitionIndex,
    },
    /// The disk failed.
    #[error("{path}: {error}")]
    Io {
        /// File or directory.
        path: String,
        /// How.
        error: DiskError,
    },
}

/// Why the store did not open, write a checkpoint, or delete a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// What was lasting outside the segments could not be brought back.
    #[error("recovery before opening logs: {failure}")]
    Recover {
        /// How.
        failure: LogFailure,
    },
    /// The disk failed.
    #[error("{path}: {error}")]
    Io {
        /// File or directory.
        path: String,
        /// How.
        error: DiskError,
    },
    /// Under write caching a sync failed: what readers have seen may be gone at the next start, which must not count as one after a
    /// clean stop, or the offsets would be given out again under the same leader epoch.
    #[error(
        "{log}: acknowledged up to {safe_end} under write caching, on stable storage up to {durable} only"
    )]
    Unsettled {
        /// Which log.
        log: String,
        /// One past the last record that was acknowledged.
        safe_end: Offset,
        /// One past the last that is on stable storage.
        durable: Offset,
    },
}

impl OpenError {
    /// Whether opening may succeed later by itself: space or descriptors were missing, nothing is damaged.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Io { error: DiskError::NoSpace | DiskError::TooManyFiles { .. }, .. })
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { error, .. } => Self::Io(error),
            StoreError::Recover { .. } | StoreError::Unsettled { .. } => {
                Self::Io(DiskError::Io { errno: 0 })
            }
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { path, error } => Self::Io { path, error },
            StoreError::Recover { .. } | StoreError::Unsettled { .. } => {
                Self::Io { path: String::new(), error: DiskError::Io { errno: 0 } }
            }
        }
    }
}

/// Adds the path that a [`DiskError`] leaves to its caller.
pub(crate) trait AtPath<T> {
    fn at(self, path: &str) -> Result<T, StoreError>;
}

impl<T> AtPath<T> for Result<T, DiskError> {
    fn at(self, path: &str) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::Io { path: path.to_owned(), error })
    }
}
