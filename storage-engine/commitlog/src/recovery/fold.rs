//! State that is a function of the batches: restored from a snapshot, then brought up to the scan.
//!
//! Owns the choice of the snapshot. A damaged or stale one costs a longer walk, never a wrong state.

use record::{
    BatchHeader, LeaderEpoch, Offset, ProducerBatch, SNAPSHOT_BYTES_MAX, decode_snapshot,
};

use crate::disk::{Disk, DiskError};
use crate::error::{AtPath, OpenError, StoreError};
use crate::executor::Executor;
use crate::files::{Suffix, segment_name};
use crate::index::{INDEX_ENTRIES_MAX, OFFSET_ENTRY_BYTES, SegmentIndex};
use crate::log::Damage;
use crate::producer_states::ProducerState;
use crate::recovery::{Listing, Noted, Plan, Recovery, RecoveryReport, note};
use crate::small_file;
use crate::stream::{FoundBatch, SegmentStream};
use crate::walk::{SegmentWalk, Stretch};

/// What restoring the state found on its way.
pub(super) struct Restored {
    /// Where the snapshot stood that was used.
    pub(super) snapshot_at: Option<Offset>,
    /// Base offset and leader epoch of the last batch below the plan's offset that was looked at.
    pub(super) last_epoch: Option<(Offset, LeaderEpoch)>,
    /// The state has every batch below it, and none from it on.
    pub(super) end: Offset,
}

/// Whether what the shard knew of the log is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Asked,
    NotAsked,
}

impl<D: Disk, E: Executor> Recovery<'_, D, E> {
    /// Restores the newest good snapshot at or below the plan's offset, or what the shard knew later, and applies the batches
    /// between that and the plan's offset, if it is below.
    pub(super) async fn restore_fold(
        &self,
        listing: &Listing,
        plan: &Plan,
        known: Known,
        damage: &mut Vec<Damage>,
        report: &mut RecoveryReport,
    ) -> Result<Restored, OpenError> {
        let mut restored = None;
        for at in listing.snapshots.iter().rev().copied().filter(|at| *at <= plan.offset) {
            let name = segment_name(at, Suffix::Snapshot);
            let path = small_file::join(self.directory, &name);
            // One byte more than the largest: a longer file is seen to be too long.
            let (disk, bytes_max) = (&self.shared.disk, SNAPSHOT_BYTES_MAX + 1);
            let file = self.looked.read(disk, self.directory, &name, bytes_max).await;
            let Some(bytes) = file.at(&path)? else { continue };
            match decode_snapshot(&bytes) {
                Ok(entries) => {
                    self.fold.borrow_mut().restore(&entries);
                    restored = Some(at);
                    break;
                }
                Err(error) => {
                    let kept = self.move_aside(&path, at).await?;
                    tracing::warn!(%path, %error, %kept, "producer snapshot unusable: moved aside");
                    report.strays.push(kept);
                }
            }
        }
        if restored.is_none() {
            self.fold.borrow_mut().restore(&[]);
        }
        let mut from = restored.unwrap_or(Offset::ZERO);
        // It may be past where the scan begins: the log was durable up to there, so that the scan comes to it.
        let is_usable = |state: &&ProducerState| {
            let is_scanned = known == Known::Asked && !plan.is_clean;
            from < state.offset && (is_scanned || state.offset <= plan.offset)
        };
        if let Some(state) = self.state.filter(is_usable)
            && let Some(entries) = state.entries()
        {
            self.fold.borrow_mut().restore(&entries);
            from = state.offset;
        }
        let mut last = None;
        self.walk_front(listing, plan, from, report, damage, |header| {
            self.fold.borrow_mut().apply(&ProducerBatch::from(header));
            last = Some((header.base_offset, header.partition_leader_epoch));
        })
        .await?;
        Ok(Restored { snapshot_at: restored, last_epoch: last, end: from.max(plan.offset) })
    }

    /// Moves the snapshot at `at` to `stray/`; lasting on return.
    async fn move_aside(&self, path: &str, at: Offset) -> Result<String, StoreError> {
        let directory = self.stray_directory().await?;
        let target = self.free_path(&directory, &segment_name(at, Suffix::Snapshot)).await?;
        let disk = &self.shared.disk;
        disk.rename(path, &target).await.at(path)?;
        disk.sync_dir(&directory).await.at(&directory)?;
        disk.sync_dir(self.directory).await.at(self.directory)?;
        Ok(target)
    }

    /// Shows every good batch from `from` up to the plan's offset. Damage on the way is noted and passed; the last of it is
    /// returned, whether or not there was room to note it.
    pub(super) async fn walk_front(
        &self,
        listing: &Listing,
        plan: &Plan,
        from: Offset,
        report: &mut RecoveryReport,
        damage: &mut Vec<Damage>,
        mut show: impl FnMut(&BatchHeader),
    ) -> Result<Option<Damage>, OpenError> {
        let executor = &self.shared.executor;
        let mut last = None;
        for (index, log) in listing.logs.iter().enumerate().take(plan.first_scanned + 1) {
            let is_scanned = index == plan.first_scanned;
            let limit = if is_scanned { plan.position } else { log.bytes };
            let end = plan.front_end(listing, index);
            if end <= from || (is_scanned && limit == 0) {
                continue;
            }
            let path = self.log_path(log.base);
            let mut stream = self.stream(log.base, 0, limit).await?;
            let (position, expected) = self.begin(&mut stream, log.base, from).await?;
            let mut walk = SegmentWalk::new(stream, position, expected, Some(end));
            while let Some(stretch) = walk.next(executor).await.at(&path)? {
                match stretch {
                    Stretch::Batch { header, .. } if header.base_offset >= from => show(&header),
                    Stretch::Batch { .. } | Stretch::ZeroTail { .. } => {}
                    Stretch::Damage { damage: found, .. } => {
                        let found = Damage::of(log.base, found);
                        last = Some(found.clone());
                        if note(damage, found.clone()) == Noted::Now {
                            tracing::error!(log = %self.identity, ?found, "record bytes are damaged on disk");
                        }
                    }
                }
            }
            let reached = walk.expected();
            if reached < end {
                // Every byte is right, and the file ends too early.
                let positions = limit..limit;
                let missing = Damage { segment: log.base, positions, offsets: reached..end };
                last = Some(missing.clone());
                if note(damage, missing.clone()) == Noted::Now {
                    tracing::error!(log = %self.identity, ?missing, "record bytes are missing on disk");
                }
            }
            report.bytes_read += walk.bytes_read();
        }
        Ok(last)
    }

    /// Position and base offset of a batch at or before `from`: from the index where a batch bears it out, else the start.
    async fn begin(
        &self,
        stream: &mut SegmentStream<D>,
        base: Offset,
        from: Offset,
    ) -> Result<(u64, Offset), StoreError> {
        if from <= base {
            return Ok((0, base));
        }
        if let Some(state) =
            self.state.filter(|state| (state.segment, state.offset) == (base, from))
            && state.position < stream.limit()
        {
            let path = self.log_path(base);
            let found = stream.find(&self.shared.executor, state.position).await.at(&path)?;
            if matches!(found, FoundBatch::Batch(header) if header.base_offset == from) {
                return Ok((state.position, from));
            }
        }
        let name = segment_name(base, Suffix::Index);
        let path = small_file::join(self.directory, &name);
        let (disk, bytes_max) = (&self.shared.disk, INDEX_ENTRIES_MAX * OFFSET_ENTRY_BYTES + 1);
        let file = self.looked.read(disk, self.directory, &name, bytes_max).await.at(&path)?;
        let Some(bytes) = file else { return Ok((0, base)) };
        let end = Offset(i64::MAX);
        let Ok(index) = SegmentIndex::decode(base, end, stream.limit(), &bytes, &[]) else {
            return Ok((0, base));
        };
        let before = Offset(from.0.saturating_sub(1));
        let Some((last_offset, position)) = index.at_or_before(before) else {
            return Ok((0, base));
        };
        let found = stream.find(&self.shared.executor, position).await.at(&path)?;
        Ok(match found {
            FoundBatch::Batch(header) if header.last_offset() == last_offset => {
                (position, header.base_offset)
            }
            _ => (0, base),
        })
    }

    /// Snapshots of a future that did not happen: with other batches at their offsets they would be wrong.
    pub(super) async fn remove_snapshots_past(
        &self,
        listing: &Listing,
        end: Offset,
    ) -> Result<(), OpenError> {
        let mut removed = false;
        for at in listing.snapshots.iter().copied().filter(|at| *at > end) {
            let path = small_file::join(self.directory, &segment_name(at, Suffix::Snapshot));
            match self.shared.disk.remove(&path).await {
                Ok(()) | Err(DiskError::NotFound) => removed = true,
                Err(error) => return Err(OpenError::Io { path, error }),
            }
        }
        if removed {
            self.shared.disk.sync_dir(self.directory).await.at(self.directory)?;
        }
        Ok(())
    }
}
