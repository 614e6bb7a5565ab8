//! The metadata snapshot: what a start reads instead of all records since the beginning.
//!
//! Owns when one is written and whether one is believed. It is written of an image whose records are all committed, so that it
//! is never ahead of the log; the log keeps every record, so that a snapshot that cannot be read costs a longer replay and
//! nothing else.

use std::cell::Cell;

use cluster::{Image, METADATA_SNAPSHOT_BYTES_MAX};
use commitlog::{Disk, StoreError, directory};
use record::Offset;

use crate::control::Control;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Fewer records than this are replayed in less time than a snapshot is worth…
const RECORDS_MIN: i64 = 1_000;

/// What is known of the file.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// It holds all records before this one, or was to.
    at: Cell<Offset>,
    /// It is being replaced: by one at a time.
    is_under_way: Cell<bool>,
}

impl Written {
    /// As a start found it.
    pub(super) fn found(at: Offset) -> Self {
        Self { at: Cell::new(at), is_under_way: Cell::new(false) }
    }
}

/// The image of the last snapshot; an empty one where there is none that can be used.
pub(super) async fn load<D: Disk>(disk: &D, committed: Offset) -> Result<Image, StoreError> {
    let bytes = directory::read_metadata_snapshot(disk, METADATA_SNAPSHOT_BYTES_MAX).await?;
    let Some(bytes) = bytes else { return Ok(Image::default()) };
    match Image::decode_snapshot(&bytes) {
        Ok(image) if image.next_offset() <= committed => Ok(image),
        Ok(image) => {
            let at = image.next_offset();
            tracing::warn!(%at, %committed, "the metadata snapshot is ahead of its log: all records are replayed");
            Ok(Image::default())
        }
        Err(error) => {
            tracing::warn!(%error, "the metadata snapshot cannot be read: all records are replayed");
            Ok(Image::default())
        }
    }
}

impl<P: Platform, M: Mesh<Message>> Control<P, M> {
    /// Whether the next start would replay enough to be worth a snapshot. …and a snapshot is as long as the partitions are many:
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
        let written = &self.snapshot;
        if image.next_offset() <= written.at.get() || written.is_under_way.replace(true) {
            return;
        }
        // One that fails is not tried again before as much has changed once more: it says nothing that the log does not.
        written.at.set(image.next_offset());
        let bytes = image.encode_snapshot();
        let result = directory::write_metadata_snapshot(&self.platform.disk(), &bytes).await;
        written.is_under_way.set(false);
        if let Err(error) = result {
            tracing::warn!(%error, "metadata snapshot not written: the next start replays more");
        }
    }
}
