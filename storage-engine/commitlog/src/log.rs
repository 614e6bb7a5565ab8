//! One partition's log.
//!
//! Owns the segments of one log and everything that is derived from them. One core uses it; no borrow is held over an await
//! or while a listener runs. It never acknowledges: it says how far it came.
//!
//! ```text
//! append.rs   a batch gets its offset and its place          segment.rs  what is known of one segment
//! read.rs     whole batches by offset, hot and cold          cold.rs     disk reads, checked as they enter the read cache
//! time.rs     records by timestamp                           damage.rs   what is wrong on disk, and where good bytes go on
//! seal.rs     rolled segments: exact length, indexes         lookup.rs   indexes: loaded, verified, rebuilt
//! trim.rs     the log start moves, segments below it go      retention.rs  which segments may go by age and size
//! ```

mod append;
mod cold;
mod damage;
mod lookup;
mod read;
mod retention;
mod scrub;
mod seal;
mod segment;
mod time;
mod trim;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::{Rc, Weak};

use record::{
    EpochEnd, EpochTable, Fold, LeaderEpoch, Offset, PartitionIndex, Timestamp, TopicId,
    TopicPartition,
};

use crate::checkpoint::CheckpointEntry;
use crate::disk::Disk;
use crate::durability::{GroupSource, Lane};
use crate::ends::{Ends, SafeEnd};
use crate::error::{LogFailure, StoreError};
use crate::executor::{Executor, abort_on_panic};
use crate::files::{LogKey, SegmentKey};
use crate::group::{Group, GroupEnd, GroupPart, OpenGroup};
use crate::local::Event;
use crate::mutant::Rule;
use crate::shared::Shared;
use crate::tail_cache::LogTail;

pub use append::{Appended, PENDING_BYTES_CORE_MAX, PENDING_BYTES_MAX};
pub use damage::DamageReport;
pub use read::{AtLeastOneBatch, ReadBatches, ReadRequest};
pub use retention::RetentionPolicy;
pub use scrub::Pace;
pub use time::TimestampedOffset;
pub use trim::{RemovalReason, RemovedSegment};

pub(crate) use damage::{DAMAGE_MAX, Damage};
pub(crate) use seal::{EPOCH_FILE, SealBackoff};
pub(crate) use segment::{Memory, Segment};
pub(crate) use trim::Kept;

/// Which log it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogIdentity {
    /// The topic's name, which names the directory.
    pub topic: Rc<str>,
    /// The topic's id, which a topic created again under the same name does not share.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: PartitionIndex,
}

impl LogIdentity {
    /// The log by id.
    #[must_use]
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition { topic_id: self.topic_id, partition: self.partition }
    }
}

impl std::fmt::Display for LogIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.topic, self.partition)
    }
}

/// How a log behaves; may change while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// A segment is rolled before it passes this (`segment.bytes`).
    pub segment_bytes: u32,
    /// A segment is rolled when it spans more time than this (`segment.ms`).
    pub segment_ms: i64,
    /// Largest part taken off `segment_ms`, another for each segment (`segment.jitter.ms`).
    pub segment_jitter_ms: i64,
    /// Bytes of log between two index entries (`index.interval.bytes`).
    pub index_interval_bytes: u32,
    /// What acknowledgements wait for.
    pub safe_end: SafeEnd,
}

impl Default for LogOptions {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 60 * 60 * 1000,
            segment_jitter_ms: 0,
            index_interval_bytes: 4096,
            safe_end: SafeEnd::Durable,
        }
    }
}

/// Who wants to know how far a log came. Called with no borrow held, from the task that moved it.
pub trait LogListener {
    /// `written` or `durable` moved.
    fn progressed(&self, ends: Ends);
    /// The log takes no more appends; what is not durable will never be.
    fn failed(&self, failure: LogFailure);
}

/// A log at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStatus {
    /// How far it came.
    pub ends: Ends,
    /// As last told by [`Log::set_high_watermark`].
    pub high_watermark: Offset,
    /// Bytes of record batches held.
    pub bytes: u64,
    /// Segments held.
    pub segment_count: usize,
    /// Accepted and not yet durable.
    pub pending_bytes: u64,
    /// Stretches of damage known.
    pub damage_count: usize,
    /// Why it takes no appends, if so.
    pub failure: Option<LogFailure>,
}

/// Under write caching a log is synced once so much was written, without waiting for its turn: less than what appends may be
/// ahead of the disk, so that they need not wait.
const UNSYNCED_BYTES_MAX: u64 = 16 << 20;

const _: () = assert!(2 * UNSYNCED_BYTES_MAX <= PENDING_BYTES_MAX);

/// A handle of an open log; clones are the same log.
pub struct Log<D: Disk, E: Executor>(pub(crate) Rc<LogInner<D, E>>);

impl<D: Disk, E: Executor> Clone for Log<D, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: Disk, E: Executor> std::fmt::Debug for Log<D, E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Log({}, {:?})", self.0.identity, self.ends())
    }
}

pub(crate) struct LogInner<D: Disk, E: Executor> {
    pub(crate) this: Weak<Self>,
    pub(crate) shared: Rc<Shared<D, E>>,
    pub(crate) key: LogKey,
    pub(crate) identity: LogIdentity,
    pub(crate) directory: Rc<str>,
    pub(crate) fold: Rc<RefCell<dyn Fold>>,
    pub(crate) ends: Cell<Ends>,
    pub(crate) high_watermark: Cell<Offset>,
    pub(crate) checkpointed_high_watermark: Cell<Offset>,
    /// What the last checkpoint that was written says of the log: where it starts, and where recovery begins.
    pub(crate) checkpointed_log_start: Cell<Offset>,
    pub(crate) checkpointed_segment: Cell<Offset>,
    /// And how far it came. The copy that is not the last one may say less.
    pub(crate) checkpointed_end: Cell<Offset>,
    pub(crate) options: Cell<LogOptions>,
    pub(crate) failure: Cell<Option<LogFailure>>,
    /// Takes no more appends; what was accepted is still made lasting.
    pub(crate) is_closing: Cell<bool>,
    /// Tasks that use the log's paths: its directory is not moved before they are done.
    pub(crate) busy_count: Cell<usize>,
    /// What this log is counted with among the core's pending bytes.
    pub(crate) pending_counted: Cell<u64>,
    /// The file of leader epochs is being written.
    pub(crate) flushing_epochs: Cell<bool>,
    pub(crate) state: RefCell<LogState<D>>,
    pub(crate) tail: Rc<LogTail<D>>,
    pub(crate) lane: Lane<D>,
    /// Under write caching: someone wants all below it to be durable.
    pub(crate) sync_asked: Cell<Offset>,
    /// Among those of the core that wait for [`crate::Store::sync_written`].
    pub(crate) is_unsynced: Cell<bool>,
    /// The ends moved, the log failed, or a segment was sealed.
    pub(crate) moved: Event,
    pub(crate) listener: RefCell<Option<Rc<dyn LogListener>>>,
}

/// What changes while a log is open and is more than one word.
pub(crate) struct LogState<D: Disk> {
    /// Ascending by base offset, never empty; the last one takes appends.
    pub(crate) segments: Vec<Segment>,
    /// Where the next batch goes.
    pub(crate) end: GroupEnd,
    pub(crate) written_at: GroupEnd,
    pub(crate) durable_at: GroupEnd,
    /// How far the segments' own files are written: behind `written_at` by what is in the journal and in memory only.
    pub(crate) in_file_at: GroupEnd,
    /// And how far they are on stable storage: what a checkpoint, a sealed segment and a removed one go by.
    pub(crate) settled_at: GroupEnd,
    /// Filled and not yet taken by the core's `Durability`, oldest first; the last one takes appends.
    pub(crate) groups: VecDeque<OpenGroup<D>>,
    pub(crate) epochs: EpochTable,
    /// The table differs from its file: no checkpoint may pass what only memory knows.
    pub(crate) epochs_changed: bool,
    /// The newest epoch has no batch yet. It goes to the file with its first one: a node with many idle logs must not write a
    /// file for each at every start, and recovery drops an epoch without a batch anyway.
    pub(crate) epoch_begun: bool,
    /// What lies wholly below the log start stays as long as its segment, so that who passes it need not search again; it is
    /// no damage to report.
    pub(crate) damage: Vec<Damage>,
    pub(crate) sealing: bool,
    pub(crate) seal_backoff: SealBackoff,
    /// Log end of the newest producer snapshot on disk.
    pub(crate) snapshot_at: Option<Offset>,
    /// Older ones, each with the one that came after it: they stay until recovery can begin at that one from either copy of the
    /// checkpoint. What removed segments said of producers is nowhere else.
    pub(crate) superseded: Vec<(Offset, Offset)>,
    /// Bases of files below the log start that an earlier life left: no segments any more.
    pub(crate) left: Vec<Offset>,
    /// Segment and bytes for which a clean stop would find every file as it should be.
    pub(crate) tidy_at: Option<(Offset, u64)>,
}

/// Holds a log's directory in its place.
pub(crate) struct Busy<'a, D: Disk, E: Executor>(&'a LogInner<D, E>);

impl<D: Disk, E: Executor> Drop for Busy<'_, D, E> {
    fn drop(&mut self) {
        self.0.busy_count.set(self.0.busy_count.get() - 1);
        self.0.moved.notify();
    }
}

/// [`Busy`] for a task: it counts from before its first step, so that a log which closes meanwhile waits for what it leaves.
pub(crate) struct BusyTask<D: Disk, E: Executor>(Rc<LogInner<D, E>>);

impl<D: Disk, E: Executor> Drop for BusyTask<D, E> {
    fn drop(&mut self) {
        self.0.busy_count.set(self.0.busy_count.get() - 1);
        self.0.moved.notify();
    }
}

impl<D: Disk, E: Executor> std::ops::Deref for BusyTask<D, E> {
    type Target = LogInner<D, E>;

    fn deref(&self) -> &LogInner<D, E> {
        &self.0
    }
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// Which log this is.
    #[must_use]
    pub fn identity(&self) -> &LogIdentity {
        &self.0.identity
    }

    /// How far the log came.
    #[must_use]
    pub fn ends(&self) -> Ends {
        self.0.ends.get()
    }

    /// Sets who is told of progress; one at a time.
    pub fn set_listener(&self, listener: Rc<dyn LogListener>) {
        *self.0.listener.borrow_mut() = Some(listener);
    }

    /// Nobody is told any more: breaks the circle where the listener holds the log.
    pub fn clear_listener(&self) {
        *self.0.listener.borrow_mut() = None;
    }

    /// Notes the high watermark for the next checkpoint. Nothing waits for it.
    pub fn set_high_watermark(&self, high_watermark: Offset) {
        if self.0.high_watermark.replace(high_watermark) != high_watermark {
            self.0.shared.changed.set(true);
        }
    }

    /// The high watermark that the last checkpoint held.
    #[must_use]
    pub fn checkpointed_high_watermark(&self) -> Offset {
        self.0.checkpointed_high_watermark.get()
    }

    /// Changes how the log behaves from the next append on.
    pub fn set_options(&self, options: LogOptions) {
        self.0.options.set(options);
        let mut ends = self.0.ends.get();
        // A log that failed stays with what it promised.
        if ends.safe_end_kind() == options.safe_end || self.failure().is_some() {
            return;
        }
        ends.set_safe_end(options.safe_end);
        self.0.ends.set(ends);
        self.0.shared.durability.sync(self.0.clone());
        // What the sync that runs now does not cover has just become safe.
        self.0.note_unsynced();
        self.0.tell_progress();
    }

    /// Under write caching: asks for a sync of all that is accepted, and waits for nothing.
    pub fn sync_soon(&self) {
        self.0.ask_sync(self.ends().accepted());
    }

    /// Waits until the record at `offset` and all before it are durable. An offset that is not accepted yet waits for what
    /// is accepted now.
    pub async fn durable_through(&self, offset: Offset) -> Result<(), LogFailure> {
        let inner = &self.0;
        let wanted = Offset(offset.0.saturating_add(1)).min(inner.ends.get().accepted());
        inner.ask_sync(wanted);
        inner
            .moved
            .wait_for(|| {
                if inner.ends.get().durable() >= wanted {
                    return Some(Ok(()));
                }
                inner.failure.get().map(Err)
            })
            .await
    }

    /// The newest leader epoch that the log holds.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.0.state.borrow().epochs.latest()
    }

    /// A leadership of `epoch` begins at the log end, whether or not it ever appends: a reader that asks where it ends is
    /// told the log end, as Kafka's leaders tell it.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) {
        let mut state = self.0.state.borrow_mut();
        let end = state.end.offset;
        // An older one is refused at its first append; nothing is noted of it.
        if state.epochs.latest().is_none_or(|latest| latest < epoch) {
            state.epoch_begun = state.epochs.assign(epoch, end);
        }
    }

    /// Where `asked` ended in this log, by LO-4.
    #[must_use]
    pub fn end_offset_for(&self, asked: LeaderEpoch) -> Option<EpochEnd> {
        self.0.state.borrow().epochs.end_offset_for(asked, self.ends().accepted())
    }

    /// The leader epoch of the batch at `offset`.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.0.state.borrow().epochs.epoch_at(offset)
    }

    /// The whole epoch table.
    #[must_use]
    pub fn epochs(&self) -> EpochTable {
        self.0.state.borrow().epochs.clone()
    }

    /// Bytes of record batches held.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.state.borrow().segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Segments held.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.0.state.borrow().segments.len()
    }

    /// The log at a glance.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        let state = self.0.state.borrow();
        LogStatus {
            ends: self.0.ends.get(),
            high_watermark: self.0.high_watermark.get(),
            bytes: state.segments.iter().map(|segment| segment.bytes).sum(),
            segment_count: state.segments.len(),
            pending_bytes: state.pending_bytes(),
            damage_count: state.damage_from(self.0.ends.get().log_start()).count(),
            failure: self.0.failure.get(),
        }
    }

    /// Why the log takes no appends, if so.
    #[must_use]
    pub fn failure(&self) -> Option<LogFailure> {
        self.0.failure.get()
    }

    /// Asserts what must always hold.
    pub fn check(&self) {
        self.0.ends.get().check();
        self.0.state.borrow().check(self.0.ends.get());
    }
}

impl<D: Disk> LogState<D> {
    /// A producer snapshot of the state at `at` is on disk.
    pub(crate) fn note_snapshot(&mut self, at: Offset) {
        match self.snapshot_at {
            Some(before) if before >= at => {}
            before => {
                self.superseded.extend(before.map(|before| (before, at)));
                self.snapshot_at = Some(at);
            }
        }
    }

    pub(crate) fn pending_bytes(&self) -> u64 {
        self.end.total_bytes - self.durable_at.total_bytes
    }

    pub(crate) fn active(&self) -> &Segment {
        self.segments.last().expect("a log always has a segment that takes appends")
    }

    pub(crate) fn active_mut(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("a log always has a segment that takes appends")
    }

    /// The segment that holds `offset`, or would.
    pub(crate) fn segment_of(&self, offset: Offset) -> &Segment {
        let above = self.segments.partition_point(|segment| segment.base <= offset);
        let index = above.saturating_sub(1);
        self.segments.get(index).unwrap_or_else(|| self.active())
    }

    pub(crate) fn segment(&self, base: Offset) -> Option<&Segment> {
        let index = self.segments.binary_search_by_key(&base, |segment| segment.base).ok()?;
        self.segments.get(index)
    }

    pub(crate) fn segment_mut(&mut self, base: Offset) -> Option<&mut Segment> {
        let index = self.segments.binary_search_by_key(&base, |segment| segment.base).ok()?;
        self.segments.get_mut(index)
    }

    fn check(&self, ends: Ends) {
        assert!(!self.segments.is_empty());
        assert!(self.end.offset == ends.accepted());
        assert!(self.written_at.offset == ends.written());
        assert!(self.durable_at.offset == ends.durable());
        assert!(self.settled_at.offset <= self.in_file_at.offset);
        assert!(self.settled_at.offset <= self.durable_at.offset);
        assert!(self.active().base == self.end.segment);
        assert!(self.active().bytes == self.end.position);
        assert!(self.segments.is_sorted_by(|left, right| left.end == right.base));
    }
}

impl<D: Disk, E: Executor> LogInner<D, E> {
    pub(crate) fn segment_key(&self, base: Offset) -> SegmentKey {
        SegmentKey { log: self.key, segment: base }
    }

    /// Keeps the directory where it is until the guard is dropped.
    pub(crate) fn busy(&self) -> Busy<'_, D, E> {
        self.busy_count.set(self.busy_count.get() + 1);
        Busy(self)
    }

    /// The same for a task that is about to be spawned.
    pub(crate) fn busy_task(&self) -> Option<BusyTask<D, E>> {
        let inner = self.this.upgrade()?;
        inner.busy_count.set(inner.busy_count.get() + 1);
        Some(BusyTask(inner))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.failure.get() == Some(LogFailure::Closed)
    }

    /// Whether something counts as safe that is not durable.
    pub(crate) fn owes_sync(&self) -> bool {
        let ends = self.ends.get();
        ends.durable() < ends.safe_end()
    }

    /// What it owes, as a stop says it.
    pub(crate) fn unsettled(&self) -> Option<StoreError> {
        let (safe_end, durable) = (self.ends.get().safe_end(), self.ends.get().durable());
        let log = || self.identity.to_string();
        self.owes_sync().then(|| StoreError::Unsettled { log: log(), safe_end, durable })
    }

    /// Takes no more appends and waits until all that was accepted is durable, or never will be.
    pub(crate) async fn drain(&self) {
        self.is_closing.set(true);
        self.ask_sync(self.ends.get().accepted());
        let done = || {
            let ends = self.ends.get();
            let is_given_up = self.failure.get().is_some()
                && (self.lane.has_failed_sync() || self.is_closed() || !self.owes_sync());
            (ends.durable() == ends.accepted() || is_given_up).then_some(())
        };
        self.moved.wait_for(done).await;
    }

    /// Ends the log and waits until nothing uses its paths any more.
    pub(crate) async fn close(&self) {
        self.is_closing.set(true);
        self.fail(LogFailure::Closed);
        // An earlier failure stays the one that counts for appends; paths are out of use either way.
        self.failure.set(Some(LogFailure::Closed));
        let idle = || (self.busy_count.get() == 0 && self.lane.is_idle()).then_some(());
        self.moved.wait_for(idle).await;
    }

    /// Whether something is written or durable that its segment does not hold yet.
    pub(crate) fn is_behind(&self) -> bool {
        let state = self.state.borrow();
        state.in_file_at.offset < state.written_at.offset
            || state.settled_at.offset < state.durable_at.offset
    }

    /// Waits until all that is durable is on stable storage in the segments, or this cannot be.
    pub(crate) async fn settle(&self) {
        let Some(inner) = self.this.upgrade() else { return };
        if !self.is_behind() {
            return;
        }
        self.shared.durability.settle(inner);
        let wanted = self.ends.get().durable();
        let done = || {
            let is_over = self.state.borrow().settled_at.offset >= wanted;
            (is_over || !self.lane.journal.is_settling()).then_some(())
        };
        self.moved.wait_for(done).await;
    }

    /// Makes all below `offset` durable, whether or not an acknowledgement waits for that.
    pub(crate) fn ask_sync(&self, offset: Offset) {
        self.sync_asked.set(self.sync_asked.get().max(offset));
        if let Some(inner) = self.this.upgrade() {
            self.shared.durability.sync(inner);
        }
    }

    /// Under write caching a written group waits for the core's next turn of syncs.
    fn note_unsynced(&self) {
        let ends = self.ends.get();
        let waits = ends.safe_end_kind() == SafeEnd::Written && ends.durable() < ends.written();
        if !waits || self.is_unsynced.replace(true) {
            return;
        }
        self.shared.unsynced.borrow_mut().push(self.this.clone());
        self.shared.wrote.notify();
        if self.shared.unsynced.borrow().len() >= self.shared.unsynced_max {
            self.shared.sync_written();
        }
    }

    pub(crate) fn tell_progress(&self) {
        self.moved.notify();
        let listener = self.listener.borrow().clone();
        if let Some(listener) = listener {
            listener.progressed(self.ends.get());
        }
    }

    /// Ends appends for good. Order: the first failure is the one that counts, unless it would pass and a later one does not.
    pub(crate) fn fail(&self, failure: LogFailure) {
        if self.failure.get().is_some_and(|first| !first.is_passing() || failure.is_passing()) {
            return;
        }
        self.failure.set(Some(failure));
        // From here on nothing is safe because it was written: a write that is still in flight may complete.
        let mut ends = self.ends.get();
        ends.set_safe_end(SafeEnd::Durable);
        self.ends.set(ends);
        self.state.borrow_mut().groups.clear();
        self.count_pending();
        // What was promised before is still made lasting.
        if let Some(inner) = self.this.upgrade() {
            self.shared.durability.sync(inner);
        }
        self.let_tail_go();
        self.moved.notify();
        let listener = self.listener.borrow().clone();
        if let Some(listener) = listener {
            listener.failed(failure);
        }
    }

    /// Of a log that failed the cache keeps nothing, unless it is all that readers have of durable records, or soon will be: a set of
    /// the journal that is in flight may still complete.
    fn let_tail_go(&self) {
        if self.failure.get().is_some() && self.lane.journal.is_idle() && !self.is_behind() {
            self.tail.set_written(Offset(i64::MAX));
        }
    }

    /// What a checkpoint may say of this log now.
    pub(crate) fn checkpoint_entry(&self, sequence: u64) -> CheckpointEntry {
        let state = self.state.borrow();
        let ahead = self.shared.mutant.lacks(Rule::CheckpointAheadOfSync);
        // Not what is in the journal only: replaying that ends with what the segments hold.
        let reached = if ahead {
            state.end
        } else if self.shared.mutant.lacks(Rule::CheckpointAheadOfSettling) {
            state.durable_at
        } else {
            state.settled_at
        };
        // The oldest segment that is not sealed: all below it have their exact length, so that recovery can begin here.
        let oldest = state.oldest_unsealed(Offset::ZERO);
        let end = if oldest.base < reached.segment { oldest.whole(reached) } else { reached };
        // Of the segment that is named: nothing of the oldest unsealed one need be durable yet.
        let named = state.segment(end.segment);
        CheckpointEntry {
            sequence,
            log: self.identity.topic_partition(),
            created: true,
            segment: end.segment,
            position: end.position,
            end: end.offset,
            log_start: self.ends.get().log_start(),
            high_watermark: self.high_watermark.get(),
            first_timestamp: named.map_or(Timestamp::NONE, |named| named.first_timestamp),
            max_timestamp: end.max.map_or(Timestamp::NONE, |max| max.timestamp),
            max_timestamp_offset: end.max.map_or(Offset(-1), |max| max.last_offset),
        }
    }
}

impl<D: Disk, E: Executor> Drop for LogInner<D, E> {
    fn drop(&mut self) {
        self.shared.note_pending(self.pending_counted.get(), 0);
    }
}

impl<D: Disk, E: Executor> GroupSource<D> for LogInner<D, E> {
    fn lane(&self) -> &Lane<D> {
        &self.lane
    }

    fn directory(&self) -> &str {
        &self.directory
    }

    fn key(&self, end: &GroupEnd) -> SegmentKey {
        self.segment_key(end.segment)
    }

    fn segment_bytes_max(&self, end: &GroupEnd) -> Option<u64> {
        let is_active = self.state.borrow().active().base == end.segment;
        is_active.then(|| u64::from(self.options.get().segment_bytes))
    }

    fn open_bytes(&self) -> u64 {
        self.state.borrow().groups.iter().map(OpenGroup::data_bytes).sum()
    }

    fn next_bytes(&self) -> u64 {
        self.state.borrow().groups.front().map_or(0, OpenGroup::data_bytes)
    }

    fn log(&self) -> TopicPartition {
        self.identity.topic_partition()
    }

    fn safe_end(&self) -> SafeEnd {
        self.ends.get().safe_end_kind()
    }

    fn is_sync_due(&self) -> bool {
        if self.failure.get().is_some() {
            return self.owes_sync() && !self.is_closed();
        }
        let ends = self.ends.get();
        let unsynced_bytes = || {
            let state = self.state.borrow();
            state.written_at.total_bytes - state.durable_at.total_bytes
        };
        ends.safe_end_kind() == SafeEnd::Durable
            || ends.durable() < self.sync_asked.get()
            || unsynced_bytes() >= UNSYNCED_BYTES_MAX
    }

    fn seal(&self) -> Option<Group<D>> {
        abort_on_panic(|| {
            let (group, chunks) = self.state.borrow_mut().groups.pop_front()?.seal();
            self.shared.tail_cache.insert(&self.tail, chunks);
            Some(group)
        })
    }

    fn written(&self, end: GroupEnd) {
        let mut ends = self.ends.get();
        if self.shared.mutant.lacks(Rule::BoundaryRewriteInFlight) && end.offset < ends.written() {
            return;
        }
        abort_on_panic(|| ends.write(end.offset));
        self.ends.set(ends);
        {
            let mut state = self.state.borrow_mut();
            (state.written_at, state.in_file_at) = (end, end);
        }
        self.tail.set_written(end.offset);
        self.note_unsynced();
        self.tell_progress();
    }

    fn durable(self: Rc<Self>, end: GroupEnd) {
        let mut ends = self.ends.get();
        if self.shared.mutant.lacks(Rule::BoundaryRewriteInFlight) && end.offset < ends.durable() {
            return;
        }
        abort_on_panic(|| ends.sync(end.offset));
        self.ends.set(ends);
        let before = {
            let mut state = self.state.borrow_mut();
            state.settled_at = end;
            std::mem::replace(&mut state.durable_at, end).total_bytes
        };
        self.count_pending();
        self.shared.note_durable(end.total_bytes - before);
        self.shared.tail_cache.shrink();
        self.seal_if_due();
        self.tell_progress();
    }

    fn journal_written(&self, end: GroupEnd) {
        let mut ends = self.ends.get();
        abort_on_panic(|| ends.write(end.offset));
        self.ends.set(ends);
        self.state.borrow_mut().written_at = end;
        self.note_unsynced();
        self.tell_progress();
    }

    fn journaled(self: Rc<Self>, end: GroupEnd) {
        let mut ends = self.ends.get();
        // Under write caching it may have been told to be written before, and so may more behind it.
        let is_told = end.offset <= ends.written();
        abort_on_panic(|| {
            ends.write(ends.written().max(end.offset));
            ends.sync(end.offset);
        });
        self.ends.set(ends);
        {
            let mut state = self.state.borrow_mut();
            state.durable_at = end;
            if !is_told {
                state.written_at = end;
            }
        }
        if self.shared.mutant.lacks(Rule::BehindNotKept) {
            self.tail.set_written(end.offset);
        }
        self.count_pending();
        self.shared.tail_cache.shrink();
        self.tell_progress();
    }

    fn copy_blocks(&self, segment: Offset, range: Range<u64>) -> Vec<GroupPart<D>> {
        abort_on_panic(|| self.tail.copy_blocks(&self.shared.disk, segment, range))
    }

    fn settled(self: Rc<Self>, end: GroupEnd) {
        let before = {
            let mut state = self.state.borrow_mut();
            assert!(end.offset <= state.durable_at.offset);
            state.in_file_at = end;
            std::mem::replace(&mut state.settled_at, end).total_bytes
        };
        self.tail.set_written(end.offset);
        self.shared.note_durable(end.total_bytes - before);
        self.shared.tail_cache.shrink();
        self.seal_if_due();
        self.moved.notify();
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn go_on(self: Rc<Self>) {
        let durability = self.shared.durability.clone();
        durability.request(self);
    }

    fn idle(&self) {
        self.let_tail_go();
        self.moved.notify();
    }

    fn failed(&self, failure: LogFailure) {
        self.fail(failure);
    }
}
