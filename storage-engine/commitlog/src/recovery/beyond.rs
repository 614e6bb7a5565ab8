//! What lies past the end of a recovered log: cut, and kept aside first if it could hold a record.
//!
//! Owns `stray/<topic id>-<partition>/` as far as recovery fills it. On return every file that was scanned ends where the log
//! says and is on stable storage, so that the first append finds nothing behind it.

use std::rc::Rc;

use record::Offset;

use crate::checkpoint::CheckpointEntry;
use crate::directory::{STRAY_DIRECTORY, ensure_stray};
use crate::disk::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, EntryKind, IO_BYTES_MAX, Lasting,
    OpenMode,
};
use crate::error::{AtPath, OpenError, StoreError};
use crate::executor::Executor;
use crate::files::{SegmentKey, Suffix, segment_name};
use crate::log::Segment;
use crate::mutant::Rule;
use crate::recovery::{Cut, CutReason, Listing, LogFile, Plan, Recovery, RecoveryReport};
use crate::small_file::{self, block_floor};
use crate::stream::{FoundBatch, SegmentStream};

/// What follows the last batches of the segments that were scanned.
pub(super) struct Tails {
    /// Why the log ends where it does; `None` at the end of the last file.
    pub(super) reason: Option<CutReason>,
    /// Bases of segments whose last batch only zeros follow: that was read once, and a file may be long.
    pub(super) zeros: Vec<Offset>,
}

impl<D: Disk, E: Executor> Recovery<'_, D, E> {
    /// Cuts each scanned segment after its last batch, sets aside what follows the last, and makes the rest lasting.
    pub(super) async fn settle(
        &self,
        listing: &Listing,
        plan: &Plan,
        segments: &[Segment],
        tails: &Tails,
        report: &mut RecoveryReport,
    ) -> Result<(), OpenError> {
        if let (Some(reason), Some(last)) = (tails.reason, segments.last()) {
            report.cut = Some(Cut { segment: last.base, position: last.bytes, reason });
        }
        let mut names_last = true;
        for log in listing.logs.iter().skip(plan.first_scanned) {
            match segments.iter().find(|segment| segment.base == log.base) {
                Some(segment) => {
                    names_last &= self.entry.is_some_and(|entry| names(&entry, log.base));
                    self.cut(*log, segment, tails, report).await?;
                }
                None => {
                    names_last = false;
                    self.set_aside(*log, report).await?;
                }
            }
        }
        if !names_last && !self.shared.mutant.lacks(Rule::RecoveredNotSynced) {
            let synced = self.shared.disk.sync_dir(self.directory).await;
            synced.map_err(DiskError::of_sync).at(self.directory)?;
        }
        Ok(())
    }

    async fn cut(
        &self,
        log: LogFile,
        kept: &Segment,
        tails: &Tails,
        report: &mut RecoveryReport,
    ) -> Result<(), OpenError> {
        let path = self.log_path(log.base);
        let mut bytes = log.bytes;
        let mut are_zeros = true;
        if log.bytes > kept.bytes && !self.shared.mutant.lacks(Rule::AppendAfterGap) {
            bytes = kept.bytes;
            are_zeros = tails.zeros.contains(&log.base);
            if !are_zeros {
                self.keep_tail(log, kept, report).await?;
            }
        }
        let lasting = self.lasting(log, kept, are_zeros);
        if bytes == log.bytes && lasting == Lasting::No {
            return Ok(());
        }
        // The cut comes first even where it need not last: it waits for writes of a killed process that are under way still,
        // which would otherwise land on what is appended now. Where there is nothing to cut, the kernel is relied upon to end
        // those writes before it closes the descriptor that holds the lock of the directory.
        let cut = self.shared.disk.set_size(&path, bytes, lasting).await;
        cut.map_err(DiskError::of_sync).at(&path)?;
        Ok(())
    }

    /// Keeps what is cut off a segment, if a batch may be in it.
    async fn keep_tail(
        &self,
        log: LogFile,
        kept: &Segment,
        report: &mut RecoveryReport,
    ) -> Result<(), OpenError> {
        let path = self.log_path(log.base);
        let mut stream = self.stream(log.base, kept.bytes, log.bytes).await?;
        // The bad batch itself may be whole and only out of order.
        if stream.may_hold_batch(&self.shared.executor, kept.bytes).await.at(&path)? {
            let file = self.open_segment(log.base, OpenMode::Read).await?;
            let name = self.copy_aside(&file, log, kept.bytes).await?;
            report.strays.push(name);
        }
        tracing::warn!(
            log = %self.identity, segment = %log.base, position = kept.bytes,
            dropped_bytes = log.bytes - kept.bytes, end = %kept.end,
            "segment cut after its last good batch"
        );
        Ok(())
    }

    /// Whether a scanned segment has to be made lasting. Not where all that is kept was durable before, by the checkpoint, and
    /// only zeros follow: without the cut a crash would leave them there again, as the end of a segment may look at any time.
    fn lasting(&self, log: LogFile, kept: &Segment, are_zeros: bool) -> Lasting {
        let was_durable = self.entry.is_some_and(|entry| {
            names(&entry, log.base) && (entry.position, entry.end) == (kept.bytes, kept.end)
        });
        if (was_durable && are_zeros) || self.shared.mutant.lacks(Rule::RecoveredNotSynced) {
            Lasting::No
        } else {
            Lasting::Yes
        }
    }

    /// Copies bytes that stay where they are, unless an earlier start did.
    pub(super) async fn copy_once(
        &self,
        file: &Rc<D::File>,
        log: LogFile,
        position: u64,
    ) -> Result<Option<String>, StoreError> {
        let directory = self.stray_directory().await?;
        let name = copy_name(log, position);
        let kind = EntryKind::File { bytes: log.bytes - block_floor(position) };
        let there = self.shared.disk.list(&directory).await.at(&directory)?;
        if there.iter().any(|entry| entry.name == name && entry.kind == kind) {
            return Ok(None);
        }
        self.copy_aside(file, log, position).await.map(Some)
    }

    /// Copies the bytes of a segment from `position` on to `stray/`; lasting on return.
    async fn copy_aside(
        &self,
        file: &Rc<D::File>,
        log: LogFile,
        position: u64,
    ) -> Result<String, StoreError> {
        let directory = self.stray_directory().await?;
        let name = copy_name(log, position);
        let path = self.free_path(&directory, &name).await?;
        let disk = &self.shared.disk;
        let copy = disk.open(&path, OpenMode::CreateNew).await.at(&path)?;
        // Whole blocks are copied: the first may begin with bytes of the last good batch.
        let start = block_floor(position);
        let mut at = start;
        while at < log.bytes {
            // A hole stays one: a file may be many times as long as what is stored of it.
            if let Ok(stored) = file.next_stored(at).await {
                at = stored.map_or(log.bytes, |stored| at.max(block_floor(stored.start)));
                if at >= log.bytes {
                    break;
                }
            }
            let piece = file.read_at_aligned(at, IO_BYTES_MAX).await.at(&path)?;
            if piece.is_empty() {
                break;
            }
            let whole = piece.len().next_multiple_of(BLOCK_BYTES);
            let mut buffer = disk.allocate(whole);
            buffer.truncate(whole);
            buffer.as_bytes_mut()[..piece.len()].copy_from_slice(&piece);
            buffer.as_bytes_mut()[piece.len()..].fill(0);
            copy.write_rc_at(Rc::new(buffer), at - start).await.at(&path)?;
            at += piece.len() as u64;
            self.shared.executor.yield_if_needed().await;
        }
        copy.truncate(log.bytes - start).await.at(&path)?;
        copy.full_sync().await.at(&path)?;
        disk.sync_dir(&directory).await.at(&directory)?;
        Ok(path)
    }

    /// A later segment that does not follow: removed if it is empty or zeros, else moved to `stray/`.
    async fn set_aside(&self, log: LogFile, report: &mut RecoveryReport) -> Result<(), OpenError> {
        let path = self.log_path(log.base);
        let disk = &self.shared.disk;
        let file = self.open_segment(log.base, OpenMode::ReadWrite).await?;
        let mut stream = SegmentStream::<D>::new(file, log.bytes);
        let found = stream.find(&self.shared.executor, 0).await.at(&path)?;
        let key = SegmentKey { log: self.key, segment: log.base };
        self.shared.files.forget(key);
        if matches!(found, FoundBatch::End | FoundBatch::ZeroTail) {
            disk.remove(&path).await.at(&path)?;
        } else {
            let directory = self.stray_directory().await?;
            let name = segment_name(log.base, Suffix::Log);
            let target = self.free_path(&directory, &name).await?;
            disk.rename(&path, &target).await.at(&path)?;
            disk.sync_dir(&directory).await.at(&directory)?;
            tracing::warn!(%path, %target, "segment does not follow the log: moved aside");
            report.strays.push(target);
        }
        for suffix in [Suffix::Index, Suffix::TimeIndex] {
            let path = small_file::join(self.directory, &segment_name(log.base, suffix));
            match disk.remove(&path).await {
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(OpenError::Io { path, error }),
            }
        }
        Ok(())
    }

    pub(super) async fn stray_directory(&self) -> Result<String, StoreError> {
        let name = format!("{}-{}", self.identity.topic_id, self.identity.partition);
        ensure_stray(&self.shared.disk, &name).await?;
        Ok(small_file::join(STRAY_DIRECTORY, &name))
    }

    pub(super) async fn free_path(
        &self,
        directory: &str,
        name: &str,
    ) -> Result<String, StoreError> {
        let taken = self.shared.disk.list(directory).await.at(directory)?;
        let free = crate::directory::free_name(&taken, name);
        Ok(small_file::join(directory, &free))
    }
}

/// Whether the checkpoint speaks of bytes in that segment: its name is lasting then.
fn names(entry: &CheckpointEntry, segment: Offset) -> bool {
    entry.segment == segment && entry.position > 0
}

/// What the copy of a segment's tail is called.
fn copy_name(log: LogFile, position: u64) -> String {
    format!("{:020}-at-{position}", log.base.0)
}
