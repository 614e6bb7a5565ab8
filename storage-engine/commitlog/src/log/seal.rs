//! Sealing: what a segment needs once nothing is appended to it any more.
//!
//! Owns the background work after a roll: exact length, both index files, the producer snapshot, all of it lasting before
//! the segment counts as sealed. Until then a checkpoint keeps pointing at it, so that recovery does the same work again.

use std::rc::Rc;

use record::Offset;

use crate::checkpoint::CheckpointEntry;
use crate::disk::{Disk, DiskError, DiskFile, DiskResult, OpenMode};
use crate::durability::count;
use crate::error::{AtPath, IoStage, LogFailure, ReadError, StoreError};
use crate::executor::{Executor, TaskClass};
use crate::files::{Suffix, segment_name};
use crate::index::{IndexBuilder, IndexDamage, SegmentIndex};
use crate::log::LogInner;
use crate::log::damage::Readable;
use crate::log::segment::SegmentMax;
use crate::shared::{IndexKey, IndexOrigin};
use crate::small_file;

/// An index file that says nothing of this much log before the part in memory is left from an earlier stop.
const GAP_BYTES_MAX: u64 = 4 << 20;

/// After failures in a row, this many occasions to try again are let go by at most.
const SKIPPED_MAX: u32 = 1024;

/// How long sealing is left alone after it failed, counted in groups that became durable: the log has no clock.
#[derive(Debug, Default)]
pub(crate) struct SealBackoff {
    failures: u32,
    skips_left: u32,
}

impl SealBackoff {
    fn failed(&mut self) {
        self.skips_left = 2_u32.saturating_pow(self.failures.saturating_add(1)).min(SKIPPED_MAX);
        self.failures = self.failures.saturating_add(1);
    }

    /// Whether this occasion is taken.
    fn take(&mut self) -> bool {
        let skip = self.skips_left > 0;
        self.skips_left = self.skips_left.saturating_sub(1);
        !skip
    }
}

/// The one who seals segments of a log, or keeps others from it, until it is dropped, whatever way that comes.
pub(crate) struct Sealing<D: Disk, E: Executor>(Rc<LogInner<D, E>>);

impl<D: Disk, E: Executor> Sealing<D, E> {
    fn begin(inner: &Rc<LogInner<D, E>>) -> Self {
        let was_held = std::mem::replace(&mut inner.state.borrow_mut().sealing, true);
        assert!(!was_held);
        Self(inner.clone())
    }

    /// Sealing goes on. Not in `drop`, which also runs where tasks end and none may begin.
    pub(crate) fn release(self) {
        let inner = self.0.clone();
        drop(self);
        inner.seal_if_due();
    }
}

impl<D: Disk, E: Executor> Drop for Sealing<D, E> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().sealing = false;
        self.0.moved.notify();
    }
}

/// The file of leader epochs, as Kafka names it.
pub(crate) const EPOCH_FILE: &str = "leader-epoch-checkpoint";

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// Starts sealing in the background if a rolled segment is durable and nobody is at it.
    pub(crate) fn seal_if_due(self: &Rc<Self>) {
        // A failed log stays as it is on disk: what a sync failed for is never synced again.
        if self.failure.get().is_some()
            || self.state.borrow().sealing
            || self.next_to_seal().is_none()
            || !self.state.borrow_mut().seal_backoff.take()
        {
            return;
        }
        let sealing = Sealing::begin(self);
        let seal = async move { sealing.0.seal_all().await };
        self.shared.executor.spawn(TaskClass::Background, Box::pin(seal));
    }

    fn next_to_seal(&self) -> Option<Offset> {
        let state = self.state.borrow();
        let active = state.active().base;
        let due = state.segments.iter().find(|segment| !segment.is_sealed)?;
        (due.base != active && due.end <= state.settled_at.offset).then_some(due.base)
    }

    async fn seal_all(&self) {
        let _busy = self.busy();
        while let Some(base) = self.next_to_seal() {
            if self.is_closed() {
                break;
            }
            if let Err(error) = self.seal_segment(base).await {
                // Nothing is lost: it is tried again, less and less often, and by recovery.
                tracing::warn!(log = %self.identity, segment = %base, %error, "segment not sealed");
                count(&self.shared.counters.io_errors, 1);
                self.state.borrow_mut().seal_backoff.failed();
                break;
            }
            self.state.borrow_mut().seal_backoff = SealBackoff::default();
        }
    }

    /// Waits until no segment is being sealed, and keeps it so; `None` once the log is closed.
    pub(crate) async fn hold_seals(self: &Rc<Self>) -> Option<Sealing<D, E>> {
        let free = || (!self.state.borrow().sealing || self.is_closed()).then_some(());
        self.moved.wait_for(free).await;
        (!self.is_closed()).then(|| Sealing::begin(self))
    }

    /// Waits for sealing in the background, then seals what is left.
    pub(crate) async fn seal_rest(&self) -> Result<(), ReadError> {
        let Some(inner) = self.this.upgrade() else { return Ok(()) };
        let Some(_sealing) = inner.hold_seals().await else { return Ok(()) };
        while let Some(base) = self.next_to_seal() {
            self.seal_segment(base).await?;
        }
        Ok(())
    }

    async fn seal_segment(&self, base: Offset) -> Result<(), ReadError> {
        let Some(readable) = self.readable(base) else { return Ok(()) };
        let (builder, origin) = self.complete_index(readable).await?;
        let snapshot = {
            let state = self.state.borrow();
            state.segment(base).and_then(|segment| segment.snapshot_at_end.clone())
        };
        self.cut_to_length(readable).await?;
        self.write_beside(readable, builder.index(), snapshot.as_deref()).await?;
        let key = IndexKey { segment: self.segment_key(base), bytes: readable.bytes };
        self.hold(key, builder.index().clone(), origin);
        let mut state = self.state.borrow_mut();
        if snapshot.is_some() {
            state.note_snapshot(readable.end);
        }
        if let Some(segment) = state.segment_mut(base) {
            segment.max = SegmentMax::Known(builder.max());
            segment.memory = None;
            segment.snapshot_at_end = None;
            segment.is_sealed = true;
        }
        self.shared.changed.set(true);
        Ok(())
    }

    /// The index of the whole segment: what is in memory, after what its file or a scan says of the part before. It is believed
    /// as far as that part is: putting a file's entries together with right ones proves nothing of them.
    async fn complete_index(
        &self,
        readable: Readable,
    ) -> Result<(IndexBuilder, IndexOrigin), ReadError> {
        let (from_position, later) = {
            let state = self.state.borrow();
            let memory = state.segment(readable.base).and_then(|segment| segment.memory.as_ref());
            match memory {
                Some(memory) => (memory.from_position, memory.builder.clone()),
                None => (0, IndexBuilder::new(readable.base, None)),
            }
        };
        let mut builder = later;
        builder.finish();
        let mut origin = IndexOrigin::Built;
        if from_position > 0 {
            let mut held = self.index(readable).await?;
            let reached = held.index.offsets().last().map_or(0, |entry| u64::from(entry.position));
            if from_position.saturating_sub(reached) > GAP_BYTES_MAX {
                let gap = IndexDamage::Gap { position: reached };
                held = self.rebuild_index(readable, gap).await?;
            }
            builder.prepend(&held.index);
            origin = held.origin;
        }
        Ok((builder, origin))
    }

    /// Writes the files that belong to a segment; lasting on return.
    async fn write_beside(
        &self,
        readable: Readable,
        index: &SegmentIndex,
        snapshot: Option<&[u8]>,
    ) -> DiskResult<()> {
        let files = || {
            let mut files = vec![
                (segment_name(readable.base, Suffix::Index), index.encode_offsets()),
                (segment_name(readable.base, Suffix::TimeIndex), index.encode_times()),
            ];
            if let Some(snapshot) = snapshot {
                files.push((segment_name(readable.end, Suffix::Snapshot), snapshot.to_vec()));
            }
            files
        };
        small_file::replace_files(&self.shared.disk, &self.directory, files).await
    }

    /// Blocks are written whole; what lies past the last batch goes.
    async fn cut_to_length(&self, readable: Readable) -> DiskResult<()> {
        let key = self.segment_key(readable.base);
        let file = self.shared.files.get(&self.directory, key, OpenMode::ReadWrite).await?;
        // All of it is written: once it has stopped growing it does not begin again.
        self.moved.wait_for(|| (!self.lane.is_growing()).then_some(())).await;
        file.truncate(readable.bytes).await?;
        // The file holds acknowledged records: after a failed sync nothing that a second one says is worth anything.
        file.full_sync().await.inspect_err(|error| {
            self.fail(LogFailure::from_disk(IoStage::Sync, error));
        })
    }

    /// Writes the leader-epoch file if the table changed; lasting on return, whoever began to write it. Order: before a
    /// checkpoint that passes the change.
    pub(crate) async fn flush_epochs(&self) -> Result<(), StoreError> {
        let _busy = self.busy();
        let free = || (!self.flushing_epochs.get()).then_some(());
        self.moved.wait_for(free).await;
        let text = {
            let state = self.state.borrow();
            if self.is_closed() || !state.epochs_changed {
                return Ok(());
            }
            state.epochs.encode()
        };
        let _flushing = Flushing::begin(self);
        let written =
            small_file::replace(&self.shared.disk, &self.directory, EPOCH_FILE, text.as_bytes())
                .await
                .at(&small_file::join(&self.directory, EPOCH_FILE));
        let mut state = self.state.borrow_mut();
        // What was appended meanwhile may have begun an epoch.
        if written.is_ok() && state.epochs.encode() == text {
            state.epochs_changed = false;
        }
        written
    }

    /// Writes a producer snapshot of the durable end, if the log is quiet there; else says so by doing nothing.
    pub(crate) async fn snapshot_now(&self) -> Result<(), StoreError> {
        let ends = self.ends.get();
        let end = ends.accepted();
        if ends.durable() != end || self.state.borrow().snapshot_at == Some(end) {
            return Ok(());
        }
        let producers = self.fold.borrow().snapshot();
        if producers.is_empty() && self.holds_nothing() {
            // No file says as much, and most logs of a node with many are like this.
            return Ok(());
        }
        let contents = record::encode_snapshot(&producers);
        let name = segment_name(end, Suffix::Snapshot);
        small_file::replace(&self.shared.disk, &self.directory, &name, &contents)
            .await
            .at(&small_file::join(&self.directory, &name))?;
        self.state.borrow_mut().note_snapshot(end);
        Ok(())
    }

    /// Whether there is no batch, and never was a snapshot of producers.
    fn holds_nothing(&self) -> bool {
        let state = self.state.borrow();
        let bytes: u64 = state.segments.iter().map(|segment| segment.bytes).sum();
        bytes == 0 && state.snapshot_at.is_none()
    }

    /// A checkpoint was written that says so. Returns where recovery begins at the earliest, whichever copy it finds, if a
    /// snapshot is to go that nobody can ask for any more.
    pub(crate) fn note_checkpointed(&self, entry: &CheckpointEntry) -> Option<Offset> {
        self.checkpointed_high_watermark.set(entry.high_watermark);
        self.checkpointed_log_start.set(entry.log_start);
        self.checkpointed_segment.set(entry.segment);
        let other = self.checkpointed_end.replace(entry.end);
        let end = other.min(entry.end);
        self.state.borrow().superseded.iter().any(|(_, by)| *by <= end).then_some(end)
    }

    /// Removes the snapshots within segments that have a newer one at or below `end`, where recovery begins at the earliest.
    ///
    /// Order   after both copies of the checkpoint say so. Nothing waits for it: a log that closes first leaves them to a later
    ///         life.
    pub(crate) async fn remove_superseded(&self, end: Offset) {
        // Not after an await: a log that is closed may have another in its place.
        if self.is_closed() {
            return;
        }
        let _busy = self.busy();
        let superseded: Vec<(Offset, Offset)> = {
            let mut state = self.state.borrow_mut();
            let (gone, kept) = state.superseded.drain(..).partition(|(_, by)| *by <= end);
            state.superseded = kept;
            gone
        };
        for (at, _) in superseded {
            // At a segment's base it is its segment's, and goes with it.
            if self.state.borrow().segment(at).is_some() {
                continue;
            }
            let path = small_file::join(&self.directory, &segment_name(at, Suffix::Snapshot));
            match self.shared.disk.remove(&path).await {
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => {
                    tracing::warn!(%path, %error, "old producer snapshot not removed; a later start does it");
                }
            }
        }
    }

    /// Leaves the files as Kafka's tools want them: exact length, indexes, snapshot, epochs. Nothing is in flight.
    pub(crate) async fn tidy(&self) -> Result<(), ReadError> {
        self.seal_rest().await?;
        self.flush_epochs().await.map_err(ReadError::from)?;
        let (base, has_file, is_sealed) = {
            let state = self.state.borrow();
            (state.active().base, state.active().has_file, state.active().is_sealed)
        };
        let Some(readable) = self.readable(base) else { return Ok(()) };
        let is_tidy = self.state.borrow().tidy_at == Some((base, readable.bytes));
        if has_file && !is_sealed && !is_tidy {
            let (builder, _) = self.complete_index(readable).await?;
            self.cut_to_length(readable).await?;
            self.write_beside(readable, builder.index(), None).await?;
            self.state.borrow_mut().tidy_at = Some((base, readable.bytes));
        }
        self.snapshot_now().await.map_err(ReadError::from)
    }
}

/// Keeps others from writing the file of epochs at the same time, until it is dropped, whatever way that comes.
struct Flushing<'a, D: Disk, E: Executor>(&'a LogInner<D, E>);

impl<'a, D: Disk, E: Executor> Flushing<'a, D, E> {
    fn begin(inner: &'a LogInner<D, E>) -> Self {
        inner.flushing_epochs.set(true);
        Self(inner)
    }
}

impl<D: Disk, E: Executor> Drop for Flushing<'_, D, E> {
    fn drop(&mut self) {
        self.0.flushing_epochs.set(false);
        self.0.moved.notify();
    }
}
