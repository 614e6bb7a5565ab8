//! The metadata log seam: append, committed, read.
//!
//! Owns the trait, and its implementation for a quorum of one: an ordinary log whose commit is its durable end and whose term is
//! 1. Several coordinators will bring another implementation behind the same trait. It never interprets a record.

use std::future::Future;

use commitlog::{AtLeastOneBatch, Disk, Executor, Log, LogFailure, ReadRequest, abort_on_panic};
use record::{BatchHeader, BatchView, LeaderEpoch, Offset, Timestamp};

use crate::drivers::metadata_batch;

/// The only term of a quorum of one.
const TERM: LeaderEpoch = LeaderEpoch(1);
/// Bytes of metadata read at a time while it is replayed.
const REPLAY_BYTES: usize = 1 << 20;

/// Why metadata could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataLogError {
    /// The record does not fit, or the disk failed: metadata changes are refused, data is still served.
    #[error("the metadata log cannot be written: {detail}")]
    Write {
        /// Which fact.
        detail: String,
    },
    /// The coordinator is going down.
    #[error("the node is stopping")]
    Stopping,
    /// A bug ended the change; it may have been made.
    #[error("the change failed; the broker's log says how")]
    Failed,
    /// The bytes on disk cannot be trusted.
    #[error("coordinator/: {detail}")]
    Read {
        /// File, position and cure.
        detail: String,
    },
}

/// A record of the metadata log and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its bytes, which `cluster` reads.
    pub value: Vec<u8>,
}

/// The log of cluster metadata.
pub trait MetadataLog {
    /// Appends records as one unit and waits until they are committed; returns the offset of the first.
    ///
    /// Order   calls commit in the order they are made. Errors leave nothing behind that could become visible later, other than
    ///         when the log is opened again, where a record that had reached the disk counts as committed.
    fn append(
        &self,
        now: Timestamp,
        values: &[Vec<u8>],
    ) -> impl Future<Output = Result<Offset, MetadataLogError>>;

    /// One past the last committed record.
    fn committed(&self) -> Offset;

    /// One past the last record, committed or not.
    fn end(&self) -> Offset;

    /// The term of the leadership.
    fn term(&self) -> LeaderEpoch;

    /// Committed records from `from` on: some of them, at least one where there is one.
    fn read(
        &self,
        from: Offset,
    ) -> impl Future<Output = Result<Vec<MetadataRecord>, MetadataLogError>>;

    /// The checksum of the committed batch that ends before `end`, as its header has it; `None` where no batch ends there.
    fn batch_crc(&self, end: Offset)
    -> impl Future<Output = Result<Option<u32>, MetadataLogError>>;
}

/// A quorum of one.
#[derive(Debug, Clone)]
pub struct SoloMetadataLog<D: Disk, E: Executor>(pub Log<D, E>);

impl<D: Disk, E: Executor> SoloMetadataLog<D, E> {
    /// Why nothing can be appended any more, if so.
    pub fn failure(&self) -> Option<LogFailure> {
        self.0.failure()
    }

    /// Committed batches from the one that holds `from` on: that one, and more as far as they fit.
    async fn read_batches(
        &self,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<u8>, MetadataLogError> {
        let request =
            ReadRequest { from, end: self.committed(), bytes_max, minimum: AtLeastOneBatch::Yes };
        let batches = self.0.read(request).await.map_err(|error| unreadable(error.to_string()))?;
        let mut bytes = Vec::with_capacity(batches.bytes);
        batches.slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        Ok(bytes)
    }
}

fn unreadable(detail: String) -> MetadataLogError {
    MetadataLogError::Read { detail }
}

impl<D: Disk, E: Executor> MetadataLog for SoloMetadataLog<D, E> {
    async fn append(&self, now: Timestamp, values: &[Vec<u8>]) -> Result<Offset, MetadataLogError> {
        let write = |detail: String| MetadataLogError::Write { detail };
        let batch = metadata_batch::build(now, TERM, values);
        let view = BatchView::parse(&batch).map_err(|error| write(error.to_string()))?;
        let appended = abort_on_panic(|| self.0.append(now, TERM, view.header(), view.bytes()));
        let appended = appended.map_err(|error| write(error.to_string()))?;
        let durable = self.0.durable_through(appended.last_offset).await;
        durable.map_err(|failure| write(failure.to_string()))?;
        Ok(appended.base_offset)
    }

    fn committed(&self) -> Offset {
        self.0.ends().durable()
    }

    fn end(&self) -> Offset {
        self.0.ends().accepted()
    }

    fn term(&self) -> LeaderEpoch {
        TERM
    }

    async fn read(&self, from: Offset) -> Result<Vec<MetadataRecord>, MetadataLogError> {
        let bytes = self.read_batches(from, REPLAY_BYTES).await?;
        metadata_batch::records_from(&bytes, from).map_err(unreadable)
    }

    async fn batch_crc(&self, end: Offset) -> Result<Option<u32>, MetadataLogError> {
        let last_offset = Offset(end.0.saturating_sub(1));
        if !(Offset::ZERO..self.committed()).contains(&last_offset) {
            return Ok(None);
        }
        // The first batch is the one that holds the offset, and is given whole however large it is.
        let bytes = self.read_batches(last_offset, 0).await?;
        let header = BatchHeader::parse(&bytes).map_err(|error| unreadable(error.to_string()))?;
        Ok((header.last_offset() == last_offset).then_some(header.crc))
    }
}
