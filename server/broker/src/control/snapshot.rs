//! The metadata snapshot: what a start reads instead of all records since the beginning.
//!
//! Owns when one is written and whether one is believed. It is written of an image whose records are all committed, so that it
//! is never ahead of the log; the log keeps every record, so that a snapshot that cannot be read costs a longer replay and
//! nothing else. One that can be read and does not fit the log proves that committed records are gone: passed by, it would
//! be believed again as soon as the log, which then goes on with other records, has come as far.

use std::cell::Cell;

use cluster::{
    Image, METADATA_SNAPSHOT_BYTES_MAX, MetadataSnapshot, MetadataSnapshotError, SnapshotTooLarge,
};
use commitlog::directory::{COORDINATOR_DIRECTORY, METADATA_SNAPSHOT_FILE};
use commitlog::{Disk, StoreError, directory};
use record::Offset;

use crate::control::Control;
use crate::drivers::metadata_log::{MetadataLog, MetadataLogError};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Fewer records than this are replayed in less time than a snapshot is worth.
const RECORDS_MIN: i64 = 1_000;

/// What is known of the file.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// It holds all records before this one, or was to.
    at: Cell<Offset>,
    /// It is being replaced: by one at a time.
    is_under_way: Cell<bool>,
    /// That it would be too large has been said.
    is_told: Cell<bool>,
}

/// The one writing under way, until it is dropped: one that panics must not be the last.
struct Writing<'a>(&'a Written);

impl Written {
    /// As a start found it.
    pub(super) fn found(at: Offset) -> Self {
        Self { at: Cell::new(at), ..Self::default() }
    }

    /// Begins to write one of all records before `next`; `None` where it would say nothing new, or one is being written.
    fn begin(&self, next: Offset) -> Option<Writing<'_>> {
        if next <= self.at.get() || self.is_under_way.replace(true) {
            return None;
        }
        // One that fails is not tried again before as much has changed once more: it says nothing that the log does not.
        self.at.set(next);
        Some(Writing(self))
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.is_under_way.set(false);
    }
}

/// Why a snapshot does not fit its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    /// The log ends before it.
    #[error("holds records up to offset {next_offset}, the metadata log ends at {committed}")]
    Ahead {
        /// Of the snapshot.
        next_offset: Offset,
        /// End of the log.
        committed: Offset,
    },
    /// The log is another one, at least there.
    #[error(
        "ends with another batch before offset {next_offset} than the metadata log has there (crc {ours:#010x})"
    )]
    Another {
        /// Of the snapshot.
        next_offset: Offset,
        /// As the snapshot has it.
        ours: u32,
    },
}

impl Misfit {
    /// File, fact and cure.
    pub(super) fn refusal(&self) -> String {
        format!(
            "{COORDINATOR_DIRECTORY}/{METADATA_SNAPSHOT_FILE}: {self}: acknowledged metadata records are gone from disk; \
             restore {COORDINATOR_DIRECTORY}/ from a copy, or, to serve without them, remove this file: what no record names \
             is then moved to stray/"
        )
    }
}

/// What there is of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Its image; an empty one where there is none that can be used.
    pub(super) image: Image,
    /// Where one ends that an earlier version wrote. It was passed by: nothing says that it is a copy of this log, and one of
    /// another log would bring back topics that are gone, and hide those that came since.
    pub(super) passed_by: Option<Offset>,
}

/// What to say of records that cannot be replayed, after those before `reached`: a snapshot that was passed by may hold them.
pub(super) fn refusal_of(
    error: &MetadataLogError,
    reached: Offset,
    passed_by: Option<Offset>,
) -> String {
    match passed_by {
        Some(next_offset) if reached < next_offset => format!(
            "{error}; {COORDINATOR_DIRECTORY}/{METADATA_SNAPSHOT_FILE} holds all records before offset {next_offset}, but an \
             earlier Corelog wrote it, in format version 1, which does not say of which log it is a copy: it is not \
             believed, and nothing was changed; restore {COORDINATOR_DIRECTORY}/ from a copy, or start that earlier \
             Corelog, which does believe it, and bring the records over through a client"
        ),
        _ => error.to_string(),
    }
}

/// The last snapshot, where it can be used.
pub(super) async fn load<D: Disk>(disk: &D, log: &impl MetadataLog) -> Result<Loaded, Misfit> {
    let bytes = match directory::read_metadata_snapshot(disk, METADATA_SNAPSHOT_BYTES_MAX).await {
        Ok(None) => return Ok(Loaded::default()),
        Ok(Some(bytes)) => bytes,
        Err(error) => {
            tracing::warn!(%error, "the metadata snapshot cannot be read: all records are replayed");
            return Ok(Loaded::default());
        }
    };
    match Image::decode_snapshot(&bytes) {
        Ok(snapshot) => Ok(Loaded { image: fitting(snapshot, log).await?, passed_by: None }),
        Err(error) => {
            let passed_by = match error {
                MetadataSnapshotError::Earlier { next_offset } => Some(next_offset),
                _ => None,
            };
            tracing::warn!(%error, "the metadata snapshot is not used: all records are replayed");
            Ok(Loaded { passed_by, ..Loaded::default() })
        }
    }
}

/// The snapshot's image, where it is a copy of what the log holds.
async fn fitting(snapshot: MetadataSnapshot, log: &impl MetadataLog) -> Result<Image, Misfit> {
    let MetadataSnapshot { image, batch_crc } = snapshot;
    let (next_offset, committed) = (image.next_offset(), log.committed());
    if next_offset > committed {
        return Err(Misfit::Ahead { next_offset, committed });
    }
    match log.batch_crc(next_offset).await {
        Ok(Some(theirs)) if theirs == batch_crc => Ok(image),
        Ok(_) => Err(Misfit::Another { next_offset, ours: batch_crc }),
        Err(error) => {
            // Then the snapshot is the only one that still has the facts of this batch.
            tracing::warn!(%error, "the metadata snapshot cannot be held against its log, and is believed");
            Ok(image)
        }
    }
}

/// Why a snapshot was not written.
#[derive(Debug, thiserror::Error)]
enum NotWritten {
    #[error(transparent)]
    TooLarge(#[from] SnapshotTooLarge),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] MetadataLogError),
    #[error("no batch of the metadata log ends before offset {0}")]
    NoBatch(Offset),
}

impl<P: Platform, M: Mesh<Message>> Control<P, M> {
    /// Whether the next start would replay enough to be worth a snapshot. A snapshot is as long as the partitions are many:
    /// written once for so many records, it costs each of them the same.
    pub(super) fn snapshot_due(&self) -> bool {
        let image = self.image();
        let partitions = i64::try_from(image.partition_count()).unwrap_or(i64::MAX);
        let replayed = image.next_offset().0.saturating_sub(self.snapshot.at.get().0);
        replayed >= RECORDS_MIN.max(partitions)
    }

    /// Writes a snapshot of the image, which holds what is committed and nothing else.
    pub(super) async fn write_snapshot(&self) {
        let image = self.image();
        let Some(_writing) = self.snapshot.begin(image.next_offset()) else { return };
        match self.try_write_snapshot(&image).await {
            Ok(()) => {}
            Err(NotWritten::TooLarge(error)) => {
                // The image seldom shrinks: once is enough.
                if !self.snapshot.is_told.replace(true) {
                    tracing::warn!(%error, "no metadata snapshot is written: starts replay all records");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "metadata snapshot not written: the next start replays more");
            }
        }
    }

    async fn try_write_snapshot(&self, image: &Image) -> Result<(), NotWritten> {
        let next = image.next_offset();
        let batch_crc = self.log().batch_crc(next).await?.ok_or(NotWritten::NoBatch(next))?;
        let bytes = image.encode_snapshot(batch_crc)?;
        Ok(directory::write_metadata_snapshot(&self.platform.disk(), &bytes).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_snapshot_is_written_at_a_time_and_one_that_ends_early_is_not_the_last() {
        let written = Written::found(Offset(5));
        assert!(written.begin(Offset(5)).is_none(), "it would say nothing new");
        let first = written.begin(Offset(6)).unwrap();
        assert!(written.begin(Offset(7)).is_none(), "one is being written");
        drop(first);
        assert!(written.begin(Offset(6)).is_none(), "it was to hold that");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _writing = written.begin(Offset(8)).unwrap();
            panic!("a bug");
        }));
        assert!(panicked.is_err());
        assert!(written.begin(Offset(9)).is_some());
    }
}
