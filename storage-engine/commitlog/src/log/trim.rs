//! Moving the log start: what lies below it is gone for readers at once, and from the disk soon after.
//!
//! Owns the order that makes it safe. A file goes only after both copies of the checkpoint say that the log starts behind it:
//! a start that finds either copy never takes the gap for a loss. The file with the highest name stays until the next one
//! is there, because the name says where the log goes on when no checkpoint can be read.
//!
//! ```text
//! raise_log_start   memory: reads below are refused          checkpoint: lasting, may be answered
//! remove_below      hold sealing ► next file ► snapshot ► segments leave the list ► checkpoint A, B ► files ► sync directory
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;

use record::{Offset, Timestamp};

use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::error::{AtPath, IoStage, LogFailure, StoreError, TrimError};
use crate::executor::{Executor, abort_on_panic};
use crate::files::{Suffix, segment_name};
use crate::log::{Damage, Log, LogInner, LogState, Segment};
use crate::mutant::Rule;
use crate::small_file;

/// Why a segment was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalReason {
    /// Its newest record is older than `retention.ms`.
    Age,
    /// The log without it is still as large as `retention.bytes`.
    Size,
    /// It lies below the log start: records were deleted by request.
    LogStart,
}

/// A segment whose files are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedSegment {
    /// Its first offset.
    pub base: Offset,
    /// One past its last.
    pub end: Offset,
    /// Bytes of batches it held.
    pub bytes: u64,
    /// Why it went.
    pub reason: RemovalReason,
}

/// Whether what must outlast removed segments is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is.
    Yes,
    /// That has to wait: nothing may be removed before a later call says so.
    NotYet,
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// Moves the log start forward to `offset`; one that is not ahead changes nothing. Returns where the log starts now.
    ///
    /// Order   after [`Log::durable_through`] what goes: under write caching the high watermark is ahead of the disk.
    ///         Readers see it on return. It is lasting after the next checkpoint: see [`crate::Store::persist_log_starts`].
    /// Errors  `BeyondEnd`: past the high watermark, or past what is durable.
    pub fn raise_log_start(&self, offset: Offset) -> Result<Offset, TrimError> {
        let inner = &self.0;
        if inner.is_closed() {
            return Err(TrimError::Closed);
        }
        let mut ends = inner.ends.get();
        let end = inner.high_watermark.get().min(ends.durable());
        if offset > end {
            return Err(TrimError::BeyondEnd { asked: offset, end });
        }
        if offset <= ends.log_start() {
            return Ok(ends.log_start());
        }
        abort_on_panic(|| ends.start_at(offset));
        inner.ends.set(ends);
        inner.shared.changed.set(true);
        inner.tell_progress();
        Ok(offset)
    }
}

impl<D: Disk> LogState<D> {
    /// How many segments lie wholly below `log_start` and take no appends.
    fn count_below(&self, log_start: Offset) -> usize {
        let settled = self.settled_at.offset;
        let active = self.active().base;
        let is_below = |segment: &&Segment| {
            segment.base != active && segment.end <= log_start && segment.end <= settled
        };
        self.segments.iter().take_while(is_below).count()
    }
}

impl<D: Disk> LogState<D> {
    /// The oldest segment from `from` on that is not sealed, or else the active one.
    pub(crate) fn oldest_unsealed(&self, from: Offset) -> &Segment {
        let mut left = self.segments.iter().filter(|segment| segment.base >= from);
        left.find(|segment| !segment.is_sealed).unwrap_or_else(|| self.active())
    }

    /// Whether the newest snapshot says what all segments below `first` said of producers, and a checkpoint that is written once
    /// they are gone lets recovery begin at it or behind it: one further on is of no use to it.
    fn has_snapshot_for(&self, first: Offset) -> bool {
        let oldest = self.oldest_unsealed(first);
        let settled = self.settled_at;
        let end = if oldest.base < settled.segment { oldest.end } else { settled.offset };
        self.snapshot_at.is_some_and(|newest| (first..=end).contains(&newest))
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// Whether a segment lies wholly below the log start.
    pub(crate) fn has_segments_below(&self) -> bool {
        let state = self.state.borrow();
        !state.left.is_empty() || state.count_below(self.ends.get().log_start()) > 0
    }

    /// The first segment that does not lie wholly below the log start. Order: while seals are held; segments below it only go
    /// by the hand of who holds them, whatever is appended and rolled meanwhile.
    pub(crate) fn first_to_stay(&self) -> Offset {
        let state = self.state.borrow();
        let below = state.count_below(self.ends.get().log_start());
        state.segments.get(below).map_or(state.active().base, |first| first.base)
    }

    /// Makes sure that `first`, the first segment that stays, has a file: its name says where the log goes on.
    pub(crate) async fn keep_a_name(&self, first: Offset) -> Result<Kept, StoreError> {
        if self.shared.mutant.lacks(Rule::NameNotKept) {
            return Ok(Kept::Yes);
        }
        let base = {
            let mut state = self.state.borrow_mut();
            let Some(first) = state.segment(first) else { return Ok(Kept::NotYet) };
            // One byte of it that is synced in it proves its name; one that was made for its name has none.
            if first.is_named || first.base < state.settled_at.offset {
                return Ok(Kept::Yes);
            }
            let is_active = first.base == state.active().base;
            // A group that makes the file is on its way, or one failed to.
            if first.has_file || !is_active || !self.lane.hold() {
                return Ok(Kept::NotYet);
            }
            state.active_mut().has_file = true;
            state.active().base
        };
        let made = self.make_file(base).await;
        if made.is_ok()
            && let Some(segment) = self.state.borrow_mut().segment_mut(base)
        {
            segment.is_named = true;
        }
        self.lane.release();
        if let Some(inner) = self.this.upgrade() {
            self.moved.notify();
            self.shared.durability.request(inner);
        }
        made.map(|()| Kept::Yes)
    }

    /// Makes the file of the active segment, which counts as there already. Order: while the lane is held.
    async fn make_file(&self, base: Offset) -> Result<(), StoreError> {
        let path = small_file::join(&self.directory, &segment_name(base, Suffix::Log));
        let key = self.segment_key(base);
        let created = self.shared.files.get(&self.directory, key, OpenMode::CreateNew).await;
        let file = match created {
            Ok(file) => file,
            Err(error) => {
                // Appends meanwhile were told that the file is there.
                let mut state = self.state.borrow_mut();
                if state.groups.is_empty() && state.active().base == base {
                    state.active_mut().has_file = false;
                } else {
                    drop(state);
                    self.fail(LogFailure::from_disk(IoStage::Open, &error));
                }
                return Err(error).at(&path);
            }
        };
        // The next group opens this file and syncs no directory: a name that did not become lasting here never would.
        let synced = file.full_sync().await.inspect_err(|error| {
            self.fail(LogFailure::from_disk(IoStage::Sync, error));
        });
        synced.at(&path)?;
        let synced = self.shared.files.sync_dir(&self.directory).await.inspect_err(|error| {
            self.fail(LogFailure::from_disk(IoStage::SyncDirectory, error));
        });
        synced.at(&self.directory)
    }

    /// Makes sure that the producer state is on disk that the segments below the start lead to, so that an idempotent producer
    /// is recognised though its records are gone. They end where `first` begins.
    pub(crate) async fn keep_producers(&self, first: Offset) -> Result<Kept, StoreError> {
        if self.shared.mutant.lacks(Rule::ProducersNotKept) {
            return Ok(Kept::Yes);
        }
        let (at, snapshot) = {
            let state = self.state.borrow();
            let last = state.segments.iter().take_while(|segment| segment.base < first).last();
            let Some(last) = last else { return Ok(Kept::Yes) };
            if state.has_snapshot_for(last.end) {
                return Ok(Kept::Yes);
            }
            (last.end, last.snapshot_at_end.clone())
        };
        let Some(snapshot) = snapshot else {
            // Rolled in an earlier life and not sealed there: only the state of the log end is known now.
            self.snapshot_now().await?;
            let is_there = self.state.borrow().has_snapshot_for(at);
            return Ok(if is_there { Kept::Yes } else { Kept::NotYet });
        };
        let name = segment_name(at, Suffix::Snapshot);
        small_file::replace(&self.shared.disk, &self.directory, &name, &snapshot)
            .await
            .at(&small_file::join(&self.directory, &name))?;
        self.state.borrow_mut().note_snapshot(at);
        Ok(Kept::Yes)
    }

    /// Takes the segments below `first` off the list. From here on no checkpoint points at them.
    pub(crate) fn take_segments_below(&self, first: Offset) -> Vec<Segment> {
        let mut state = self.state.borrow_mut();
        let below = state.segments.partition_point(|segment| segment.base < first);
        state.segments.drain(..below).collect()
    }

    /// Undoes [`LogInner::take_segments_below`]: their files stay for now.
    pub(crate) fn put_segments_back(&self, segments: Vec<Segment>) {
        self.state.borrow_mut().segments.splice(0..0, segments);
    }

    /// They are no segments any more, and their files stay for now: a checkpoint has left them behind, and what only they need, such as
    /// their snapshot, may be gone.
    pub(crate) fn leave_segments(&self, segments: &[Segment]) {
        self.forget_damage_of(segments);
        for segment in segments {
            self.shared.forget_segment(self.segment_key(segment.base));
            self.state.borrow_mut().left.push(segment.base);
        }
    }

    /// Whether the last checkpoint needs none of these any more.
    pub(crate) fn is_checkpointed_past(&self, segments: &[Segment]) -> bool {
        segments.iter().all(|segment| {
            segment.end <= self.checkpointed_log_start.get()
                && segment.base < self.checkpointed_segment.get()
        })
    }

    /// The log start is lasting: epochs that ended below it go.
    pub(crate) fn trim_epochs(&self, log_start: Offset) {
        let mut state = self.state.borrow_mut();
        if state.epochs.truncate_head(log_start) {
            state.epochs_changed = true;
            self.shared.changed.set(true);
        }
    }

    /// Removes the files of segments that both checkpoints have left behind. A file that cannot be removed stays until the
    /// next start, which finds it below the log start.
    pub(crate) async fn remove_files(
        &self,
        segments: Vec<Segment>,
        reasons: &BTreeMap<Offset, RemovalReason>,
    ) -> Vec<RemovedSegment> {
        let mut removed = Vec::with_capacity(segments.len());
        self.forget_damage_of(&segments);
        for segment in segments {
            self.shared.forget_segment(self.segment_key(segment.base));
            let reason = reasons.get(&segment.base).copied().unwrap_or(RemovalReason::LogStart);
            let (base, end, bytes) = (segment.base, segment.end, segment.bytes);
            match self.remove_segment_files(base).await {
                Ok(()) => {
                    tracing::info!(
                        log = %self.identity, segment = %base, %end, bytes, ?reason,
                        log_start = %self.ends.get().log_start(), "segment removed"
                    );
                    removed.push(RemovedSegment { base, end, bytes, reason });
                }
                Err(error) => {
                    tracing::warn!(log = %self.identity, segment = %base, %error, "segment not removed; the next start does it");
                }
            }
            self.shared.executor.yield_if_needed().await;
        }
        if let Err(error) = self.shared.disk.sync_dir(&self.directory).await {
            tracing::warn!(log = %self.identity, %error, "removed segments may be there again after a crash");
        }
        removed
    }

    /// Nobody passes damage of a segment that is gone.
    fn forget_damage_of(&self, segments: &[Segment]) {
        let is_gone = |damage: &Damage| segments.iter().any(|one| one.base == damage.segment);
        self.state.borrow_mut().damage.retain(|damage| !is_gone(damage));
    }

    /// Removes what an earlier life left below the log start. Order: as [`LogInner::remove_files`], before it syncs.
    pub(crate) async fn remove_left(&self) {
        let left = std::mem::take(&mut self.state.borrow_mut().left);
        for base in left {
            if let Err(error) = self.remove_segment_files(base).await {
                tracing::warn!(log = %self.identity, segment = %base, %error, "segment not removed; a later start does it");
            }
        }
    }

    /// The log file last: what is left after a crash still says whose the others are.
    async fn remove_segment_files(&self, base: Offset) -> Result<(), StoreError> {
        let newest = self.state.borrow().snapshot_at;
        for suffix in [Suffix::Index, Suffix::TimeIndex, Suffix::Snapshot, Suffix::Log] {
            if suffix == Suffix::Snapshot && newest.is_none_or(|newest| newest <= base) {
                continue;
            }
            let path = small_file::join(&self.directory, &segment_name(base, suffix));
            match self.shared.disk.remove(&path).await {
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(error).at(&path),
            }
        }
        Ok(())
    }

    /// Closes the active segment if nothing of it is under way, and it ends at `end` where that is given; true if it did.
    pub(crate) fn roll_if_settled(self: &Rc<Self>, end: Option<Offset>, now: Timestamp) -> bool {
        {
            let state = self.state.borrow();
            let is_settled = state.settled_at.offset == state.end.offset;
            let is_same = end.is_none_or(|end| end == state.end.offset);
            let may_roll = is_same && self.failure.get().is_none() && !self.is_closing.get();
            if state.active().bytes == 0 || !is_settled || !may_roll {
                return false;
            }
        }
        abort_on_panic(|| self.roll(now));
        {
            // All is durable, and so is the empty new segment: a checkpoint may begin there.
            let mut state = self.state.borrow_mut();
            let end = state.end;
            (state.written_at, state.durable_at) = (end, end);
            (state.in_file_at, state.settled_at) = (end, end);
        }
        self.seal_if_due();
        true
    }
}
