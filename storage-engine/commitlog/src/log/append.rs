//! Appending: a batch gets its offset, its epoch and its place.
//!
//! Owns admission and rolling (LG-1). Synchronous: on return the batch is accepted and its bytes are where the next group
//! takes them from. It never validates records; that is done before.

use record::{BatchHeader, LeaderEpoch, Offset, ProducerBatch, Timestamp, encode_snapshot};

use crate::disk::{BLOCK_BYTES, Disk};
use crate::error::{AppendError, LogFailure};
use crate::executor::{Executor, abort_on_panic};
use crate::group::{GROUP_BYTES_MAX, GroupEnd, OpenGroup, Placed};
use crate::log::{Log, LogInner, LogOptions, LogState, Segment};

/// Accepted bytes that may wait for the disk in one log: a second or so of a busy one.
pub const PENDING_BYTES_MAX: u64 = 64 << 20;
/// The same over all logs of a core: a thousand partitions of a disk that hangs must not take all memory.
pub const PENDING_BYTES_CORE_MAX: u64 = 256 << 20;

const _: () = assert!(PENDING_BYTES_MAX <= PENDING_BYTES_CORE_MAX);

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// Appends one whole batch at the log end and returns the offsets it took.
    ///
    /// Shape   `batch` is validated. `header` is what it shall have: its own, or one with other timestamps and the checksum that
    ///         goes with them. Base offset and leader epoch are given here; all of it is written in the one copy that is made.
    /// Order   on return `accepted` has moved; `written` and `durable` follow, see [`Log::durable_through`]. The fold has
    ///         seen the batch: the caller holds no borrow of it.
    /// Errors  see [`AppendError`]; nothing was appended.
    pub fn append(
        &self,
        now: Timestamp,
        leader_epoch: LeaderEpoch,
        header: &BatchHeader,
        batch: &[u8],
    ) -> Result<Appended, AppendError> {
        assert!(header.total_bytes() == batch.len());
        let inner = &self.0;
        let placed = inner.admit(leader_epoch, header, batch)?;
        let header = BatchHeader {
            base_offset: placed.base_offset,
            partition_leader_epoch: leader_epoch,
            ..*header
        };
        let (options, seed) = (inner.options.get(), inner.jitter_seed());
        if inner.state.borrow().must_roll(&header, now, options, seed) {
            abort_on_panic(|| inner.roll(now));
        }
        abort_on_panic(|| {
            inner.place(&header, placed);
            inner.count_pending();
            inner.fold.borrow_mut().apply(&ProducerBatch::from(&header));
        });
        inner.shared.durability.request(inner.clone());
        Ok(Appended { base_offset: header.base_offset, last_offset: header.last_offset() })
    }
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// Waits after [`AppendError::Full`] until it is worth trying again: something that waited for the disk, in this log or
    /// another of its core, does so no more.
    pub async fn room(&self) {
        let shared = &self.0.shared;
        let before = shared.drained.get();
        let moved =
            || (shared.drained.get() != before || shared.pending_bytes.get() == 0).then_some(());
        shared.room.wait_for(moved).await;
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    /// Tells the core what this log holds back for the disk now; a log that failed holds nothing back.
    pub(crate) fn count_pending(&self) {
        let is_failed = self.failure.get().is_some();
        let now = if is_failed { 0 } else { self.state.borrow().pending_bytes() };
        self.shared.note_pending(self.pending_counted.replace(now), now);
    }

    fn admit<'a>(
        &self,
        leader_epoch: LeaderEpoch,
        header: &BatchHeader,
        batch: &'a [u8],
    ) -> Result<Placed<'a>, AppendError> {
        match self.failure.get() {
            Some(LogFailure::NoSpace) => return Err(AppendError::NoSpace),
            Some(failure) => return Err(AppendError::ReadOnly { failure }),
            None if self.is_closing.get() => {
                return Err(AppendError::ReadOnly { failure: LogFailure::Closed });
            }
            None => {}
        }
        let state = self.state.borrow();
        if let Some(latest) = state.epochs.latest()
            && leader_epoch < latest
        {
            return Err(AppendError::Fenced { asked: leader_epoch, latest });
        }
        let (bytes, segment_bytes) = (batch.len() as u64, self.options.get().segment_bytes);
        if bytes > u64::from(segment_bytes) {
            return Err(AppendError::TooLarge { bytes, segment_bytes });
        }
        let pending_bytes = state.pending_bytes();
        if pending_bytes > 0 && pending_bytes + bytes > PENDING_BYTES_MAX {
            return Err(AppendError::Full { pending_bytes, bound: PENDING_BYTES_MAX });
        }
        let of_core = self.shared.pending_bytes.get();
        if of_core > 0 && of_core + bytes > PENDING_BYTES_CORE_MAX {
            // Under write caching nothing else would make room before the next turn.
            self.shared.sync_written();
            let (pending_bytes, bound) = (of_core, PENDING_BYTES_CORE_MAX);
            return Err(AppendError::Full { pending_bytes, bound });
        }
        let base_offset = state.end.offset;
        let count = i64::from(header.last_offset_delta) + 1;
        let next_offset = base_offset
            .checked_add(count)
            .ok_or(AppendError::OffsetsExhausted { base_offset, count })?;
        Ok(Placed { batch, base_offset, leader_epoch, next_offset })
    }

    /// Closes the active segment and opens the next; its file comes with its first group.
    pub(crate) fn roll(&self, now: Timestamp) {
        let snapshot = encode_snapshot(&self.fold.borrow().snapshot());
        let mut state = self.state.borrow_mut();
        let base = state.end.offset;
        let closed = state.active_mut();
        assert!(closed.bytes > 0);
        assert!(closed.end == base);
        closed.snapshot_at_end = Some(snapshot);
        if let Some(memory) = closed.memory.as_mut() {
            memory.builder.finish();
        }
        state.segments.push(Segment::fresh(base, now));
        state.end = GroupEnd { segment: base, position: 0, max: None, ..state.end };
        self.shared.changed.set(true);
    }

    fn place(&self, header: &BatchHeader, placed: Placed<'_>) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let is_first_of_epoch = std::mem::take(&mut state.epoch_begun);
        if state.epochs.assign(placed.leader_epoch, placed.base_offset) || is_first_of_epoch {
            state.epochs_changed = true;
        }
        let position = state.end.position;
        let interval = self.options.get().index_interval_bytes;
        let segment = state.active_mut();
        if position == 0 {
            segment.first_timestamp = header.max_timestamp;
        }
        segment.bytes += placed.batch.len() as u64;
        segment.end = placed.next_offset;
        let memory = segment.memory.as_mut().expect("a segment that takes appends has an index");
        memory.builder.observe(header, position, interval);
        let max = memory.builder.max();
        self.ensure_group(state);
        let group = state.groups.back_mut().expect("a group was just ensured");
        group.append(&self.shared.disk, header, placed, max);
        state.end = group.end();
        let mut ends = self.ends.get();
        ends.accept(placed.next_offset);
        self.ends.set(ends);
    }

    fn ensure_group(&self, state: &mut LogState<D>) {
        let fits = state.groups.back().is_some_and(|group| {
            group.end().segment == state.end.segment && group.data_bytes() < GROUP_BYTES_MAX
        });
        if fits {
            return;
        }
        let end = state.end;
        let is_first = !state.active().has_file;
        state.active_mut().has_file = true;
        let new = |carry: &[u8]| OpenGroup::new(end, carry, is_first);
        let group = if end.position.is_multiple_of(BLOCK_BYTES as u64) {
            new(&[])
        } else if let Some(open) = state.groups.back() {
            open.with_carry(new)
        } else {
            self.tail.with_carry(new)
        };
        state.groups.push_back(group);
    }
}

impl<D: Disk> LogState<D> {
    /// LG-1: by size, by age, by offsets, by index entries. An empty segment is never rolled.
    fn must_roll(
        &self,
        header: &BatchHeader,
        now: Timestamp,
        options: LogOptions,
        log_seed: u64,
    ) -> bool {
        let segment = self.active();
        if segment.bytes == 0 {
            return false;
        }
        let bytes = segment.bytes + header.total_bytes() as u64;
        let relative_last = header.last_offset().0 - segment.base.0;
        let age_ms = if segment.first_timestamp > Timestamp::NONE {
            header.max_timestamp.0.saturating_sub(segment.first_timestamp.0)
        } else {
            now.0.saturating_sub(segment.opened_at.0)
        };
        bytes > u64::from(options.segment_bytes)
            || relative_last > i64::from(i32::MAX)
            || age_ms > options.segment_ms_of(log_seed, segment.base)
            || segment.memory.as_ref().is_some_and(|memory| memory.builder.is_full())
    }
}
