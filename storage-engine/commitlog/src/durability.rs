//! Making groups lasting: the only place that writes to or syncs a segment while it grows.
//!
//! Owns the order of transfers. A log says that it has bytes ([`Durability::request`]); the implementation takes a sealed
//! group whenever it can use one and reports how far it came. [`SyncPerFile`] syncs each file by itself; the core journal
//! (`journal/core_journal.rs`) is a second implementation behind the same trait, which leaves large groups to the first.
//!
//! ```text
//! lane of one log   write g1 ──► sync g1 ──────► durable g1
//!                                write g2 ─────► (waits for the sync) ──► sync g2 ──► durable g2
//!                                                 appends meanwhile form g3
//! ```
//! - One group of a lane is written at a time, because its first block may be its predecessor's last: a boundary block is
//!   never rewritten while it is in flight. Its parts are in flight together.
//! - A sync is submitted after the writes it covers completed, and one sync covers all groups written meanwhile.
//! - The next group is taken as soon as the last write completed, unless a written group already waits for a sync: then
//!   appends collect, for nothing would be lasting sooner. Nothing ever waits in order to batch.
//! - Of a log whose acknowledgements do not wait for it (`write.caching`) a sync is submitted when someone asks for one, and
//!   its groups are written as they come.
//! - After the first failure nothing more is written; after a failed sync nothing is synced any more. A write that fails leaves
//!   what was promised before it: that is still synced.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;

use record::{Offset, TopicPartition};

use crate::disk::{Disk, DiskFile, IO_BYTES_MAX, OpenMode};
use crate::ends::SafeEnd;
use crate::error::{IoStage, LogFailure, StoreError};
use crate::executor::{Executor, TaskClass};
use crate::files::{OpenFiles, SegmentKey};
use crate::group::{Group, GroupEnd, GroupPart};
use crate::journal::JournalLane;
use crate::local::join_all;
use crate::mutant::{Mutant, Rule};
use crate::room_ahead::{RoomAhead, RoomOfCore, RoomOfLog};

/// Transfers of one group in flight together: enough to fill the device's queue, few enough to stay fair.
pub(crate) const TRANSFERS_MAX: usize = 8;

/// What a log tells and is told.
pub(crate) trait GroupSource<D: Disk> {
    /// Where its groups stand.
    fn lane(&self) -> &Lane<D>;
    /// The directory of its files.
    fn directory(&self) -> &str;
    /// The file of a group.
    fn key(&self, end: &GroupEnd) -> SegmentKey;
    /// How long the segment of a group may become; `None` where it was rolled.
    fn segment_bytes_max(&self, end: &GroupEnd) -> Option<u64>;
    /// Bytes that wait to be taken, of all groups.
    fn open_bytes(&self) -> u64;
    /// Bytes that the next group would hold.
    fn next_bytes(&self) -> u64;
    /// Which log it is.
    fn log(&self) -> TopicPartition;
    /// What acknowledgements wait for.
    fn safe_end(&self) -> SafeEnd;
    /// Whether anyone waits for a sync.
    fn is_sync_due(&self) -> bool;
    /// Closes the next group; `None` if there is nothing to write.
    fn seal(&self) -> Option<Group<D>>;
    /// All writes up to `end` completed. Order: ends ascend.
    fn written(&self, end: GroupEnd);
    /// All up to `end` is on stable storage. Order: ends ascend, each after it was written.
    fn durable(self: Rc<Self>, end: GroupEnd);
    /// All up to `end` is written outside its segment, and stays in memory. Order: as `written`.
    fn journal_written(&self, end: GroupEnd);
    /// All up to `end` is on stable storage outside its segment, and stays in memory. Order: as `durable`.
    fn journaled(self: Rc<Self>, end: GroupEnd);
    /// The blocks of a segment that hold `range`, from memory, which has what is journaled and not yet settled. Shape: transfers in
    /// order, the last one padded with zeros.
    fn copy_blocks(&self, segment: Offset, range: Range<u64>) -> Vec<GroupPart<D>>;
    /// What was journaled up to `end` is on stable storage in its segment. Order: ends ascend.
    fn settled(self: Rc<Self>, end: GroupEnd);
    /// Its paths are out of use.
    fn is_closed(&self) -> bool;
    /// A task of the lane has ended: whatever waits is asked for again.
    fn go_on(self: Rc<Self>);
    /// No task of the lane runs any more, for now.
    fn idle(&self);
    /// Nothing more will be written or synced.
    fn failed(&self, failure: LogFailure);
}

pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// How a core makes groups lasting.
pub(crate) trait Durability<D: Disk> {
    /// Brings back what is lasting but not yet in the segments. Runs before any log opens.
    fn recover(&self) -> LocalFuture<'_, Result<(), LogFailure>>;

    /// `source` has bytes to make lasting. Never blocks; groups are taken from tasks of its own.
    fn request(&self, source: Rc<dyn GroupSource<D>>);

    /// A sync of `source` has become due without bytes of its own. Never blocks.
    fn sync(&self, source: Rc<dyn GroupSource<D>>);

    /// What is lasting of `source` outside its segments is to go there now, also where that failed before and may pass. Never
    /// blocks; says what came of it by `settled` and `idle`.
    fn settle(&self, source: Rc<dyn GroupSource<D>>);

    /// The log is gone for good, and with it what was to be settled.
    fn forget(&self, source: &dyn GroupSource<D>);

    /// A stop in order: where everything is settled, nothing is left outside the segments for the next start to find.
    fn retire(&self) -> LocalFuture<'_, Result<(), StoreError>>;
}

/// Transfers and syncs done, for metrics.
#[derive(Debug, Default)]
pub(crate) struct DurabilityCounters {
    pub(crate) reads: Cell<u64>,
    pub(crate) read_bytes: Cell<u64>,
    pub(crate) io_errors: Cell<u64>,
    pub(crate) writes: Cell<u64>,
    pub(crate) written_bytes: Cell<u64>,
    pub(crate) syncs: Cell<u64>,
    pub(crate) journal: JournalCounters,
}

/// What the core journal did, for metrics.
#[derive(Debug, Default)]
pub(crate) struct JournalCounters {
    pub(crate) sets: Cell<u64>,
    pub(crate) groups: Cell<u64>,
    pub(crate) written_bytes: Cell<u64>,
    pub(crate) settles: Cell<u64>,
    /// Memory of what is journaled and not settled.
    pub(crate) behind_bytes: Cell<u64>,
}

pub(crate) fn count(counter: &Cell<u64>, by: u64) {
    counter.set(counter.get().wrapping_add(by));
}

#[derive(Debug)]
struct Awaiting<D: Disk> {
    file: Rc<D::File>,
    end: GroupEnd,
    is_first_of_segment: bool,
}

/// Where the groups of one log stand.
#[derive(Debug)]
pub(crate) struct Lane<D: Disk> {
    writing: Cell<bool>,
    syncing: Cell<bool>,
    write_failed: Cell<bool>,
    sync_failed: Cell<bool>,
    awaiting: RefCell<VecDeque<Awaiting<D>>>,
    room: RoomOfLog,
    pub(crate) journal: JournalLane,
}

impl<D: Disk> Default for Lane<D> {
    fn default() -> Self {
        Self {
            writing: Cell::default(),
            syncing: Cell::default(),
            write_failed: Cell::default(),
            sync_failed: Cell::default(),
            awaiting: RefCell::default(),
            room: RoomOfLog::default(),
            journal: JournalLane::default(),
        }
    }
}

impl<D: Disk> Lane<D> {
    /// Keeps the writer out of an idle lane until [`Lane::release`]; false where it is not idle.
    pub(crate) fn hold(&self) -> bool {
        self.is_idle() && !self.has_failed() && !self.writing.replace(true)
    }

    /// Ends [`Lane::hold`]. The caller then asks for what was queued meanwhile.
    pub(crate) fn release(&self) {
        self.writing.set(false);
    }

    /// Whether nothing more is written to its segments.
    pub(crate) fn has_failed(&self) -> bool {
        self.write_failed.get() || self.sync_failed.get()
    }

    /// A sync of one of its segments failed.
    pub(crate) fn fail_sync(&self) {
        self.sync_failed.set(true);
    }

    /// Whether a group is being written to its segment, or waits there for a sync.
    pub(crate) fn is_direct(&self) -> bool {
        self.writing.get() || self.syncing.get() || !self.awaiting.borrow().is_empty()
    }

    /// Whether a sync failed: what it covered is in doubt for good.
    pub(crate) fn has_failed_sync(&self) -> bool {
        self.sync_failed.get()
    }

    /// Notes a written group. One that goes on in its predecessor's file needs no sync of its own: without anyone who asks for
    /// one, groups would pile up.
    fn await_sync(&self, group: Awaiting<D>) {
        let mut awaiting = self.awaiting.borrow_mut();
        match awaiting.back_mut() {
            Some(last) if last.end.segment == group.end.segment => last.end = group.end,
            _ => awaiting.push_back(group),
        }
    }

    /// The oldest written groups that lie in one file: one sync covers them all.
    fn take_awaiting(&self) -> Option<Awaiting<D>> {
        self.awaiting.borrow_mut().pop_front()
    }

    /// Whether no task of the lane runs.
    pub(crate) fn is_idle(&self) -> bool {
        let is_at_rest = !self.writing.get() && !self.syncing.get() && !self.is_growing();
        is_at_rest && self.journal.is_idle()
    }

    /// Whether the file of its segment grows now: it must not be cut meanwhile.
    pub(crate) fn is_growing(&self) -> bool {
        self.room.is_growing()
    }
}

/// A sync for each file that was written.
pub(crate) struct SyncPerFile<D: Disk, E: Executor> {
    shared: Rc<PerFile<D, E>>,
}

/// The work of [`SyncPerFile`].
pub(crate) struct PerFile<D: Disk, E: Executor> {
    pub(crate) executor: E,
    pub(crate) files: Rc<OpenFiles<D>>,
    pub(crate) counters: Rc<DurabilityCounters>,
    pub(crate) room: RoomOfCore,
    pub(crate) mutant: Mutant,
}

impl<D: Disk, E: Executor> SyncPerFile<D, E> {
    pub(crate) fn new(
        executor: E,
        files: Rc<OpenFiles<D>>,
        counters: Rc<DurabilityCounters>,
        room_ahead: RoomAhead,
        mutant: Mutant,
    ) -> Self {
        let room = RoomOfCore::new(room_ahead);
        Self { shared: Rc::new(PerFile { executor, files, counters, room, mutant }) }
    }

    /// For another that sends some groups this way.
    pub(crate) fn into_shared(self) -> Rc<PerFile<D, E>> {
        self.shared
    }
}

impl<D: Disk, E: Executor> Durability<D> for SyncPerFile<D, E> {
    fn recover(&self) -> LocalFuture<'_, Result<(), LogFailure>> {
        // A group is in its segment or nowhere.
        Box::pin(async { Ok(()) })
    }

    fn request(&self, source: Rc<dyn GroupSource<D>>) {
        self.shared.ensure_writer(source);
    }

    fn sync(&self, source: Rc<dyn GroupSource<D>>) {
        self.shared.ensure_syncer(&source);
    }

    fn settle(&self, _source: Rc<dyn GroupSource<D>>) {}

    fn forget(&self, _source: &dyn GroupSource<D>) {}

    fn retire(&self) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

impl<D: Disk, E: Executor> PerFile<D, E> {
    pub(crate) fn ensure_writer(self: &Rc<Self>, source: Rc<dyn GroupSource<D>>) {
        let lane = source.lane();
        if lane.writing.get() || lane.has_failed() || self.must_wait(source.as_ref()) {
            return;
        }
        lane.writing.set(true);
        let shared = self.clone();
        self.executor.spawn(TaskClass::Foreground, Box::pin(shared.write_groups(source)));
    }

    /// Whether the next group gains nothing by being written now.
    fn must_wait(&self, source: &dyn GroupSource<D>) -> bool {
        let open_bytes = source.open_bytes();
        let waiting =
            source.safe_end() == SafeEnd::Durable && !source.lane().awaiting.borrow().is_empty();
        open_bytes == 0 || (waiting && open_bytes < IO_BYTES_MAX as u64)
    }

    async fn write_groups(self: Rc<Self>, source: Rc<dyn GroupSource<D>>) {
        let lane = source.lane();
        while !lane.has_failed() && !self.must_wait(source.as_ref()) {
            let Some(group) = source.seal() else { break };
            if self.mutant.lacks(Rule::BoundaryRewriteInFlight) && !group.is_first_of_segment {
                let (shared, source) = (self.clone(), source.clone());
                let write = async move { shared.write_group(&source, group).await };
                self.executor.spawn(TaskClass::Foreground, Box::pin(write));
                continue;
            }
            self.write_group(&source, group).await;
        }
        lane.writing.set(false);
        source.idle();
        source.go_on();
    }

    async fn write_group(self: &Rc<Self>, source: &Rc<dyn GroupSource<D>>, group: Group<D>) {
        let lane = source.lane();
        let is_early = self.mutant.lacks(Rule::WrittenBeforeItIs);
        if is_early {
            source.written(group.end);
        }
        match self.transfer(source.as_ref(), &group).await {
            Ok(file) => {
                let is_first_of_segment = group.is_first_of_segment;
                self.grow_ahead(source, &file, &group);
                if !is_early {
                    source.written(group.end);
                }
                lane.await_sync(Awaiting { file, end: group.end, is_first_of_segment });
                self.ensure_syncer(source);
            }
            Err(failure) => {
                lane.write_failed.set(true);
                count(&self.counters.io_errors, 1);
                source.failed(failure);
            }
        }
    }

    /// Gives a busy segment room for the groups to come.
    fn grow_ahead(
        self: &Rc<Self>,
        source: &Rc<dyn GroupSource<D>>,
        file: &Rc<D::File>,
        group: &Group<D>,
    ) {
        let Some(bytes_max) = source.segment_bytes_max(&group.end) else { return };
        let (room, bytes) = (&source.lane().room, group.bytes());
        let growth = self.room.note_written(room, bytes, &group.end, bytes_max);
        let Some(growth) = growth else { return };
        let (shared, source, file) = (self.clone(), source.clone(), file.clone());
        let grow = async move {
            let disk = shared.files.disk();
            shared.room.grow(disk, &file, &source.lane().room, growth).await;
            source.idle();
        };
        self.executor.spawn(TaskClass::Background, Box::pin(grow));
    }

    async fn transfer(
        &self,
        source: &dyn GroupSource<D>,
        group: &Group<D>,
    ) -> Result<Rc<D::File>, LogFailure> {
        let key = source.key(&group.end);
        let mode =
            if group.is_first_of_segment { OpenMode::CreateNew } else { OpenMode::ReadWrite };
        let file = self
            .files
            .get(source.directory(), key, mode)
            .await
            .map_err(|error| LogFailure::from_disk(IoStage::Open, &error))?;
        for parts in group.parts.chunks(TRANSFERS_MAX) {
            let transfers =
                parts.iter().map(|part| file.write_rc_at(part.buffer.clone(), part.position));
            for result in join_all(transfers.collect()).await {
                result.map_err(|error| LogFailure::from_disk(IoStage::Write, &error))?;
            }
            count(&self.counters.writes, parts.len() as u64);
        }
        count(&self.counters.written_bytes, group.bytes());
        Ok(file)
    }

    pub(crate) fn ensure_syncer(self: &Rc<Self>, source: &Rc<dyn GroupSource<D>>) {
        let lane = source.lane();
        let has_work = !lane.awaiting.borrow().is_empty() && source.is_sync_due();
        if lane.syncing.get() || lane.sync_failed.get() || !has_work {
            return;
        }
        lane.syncing.set(true);
        let class = match source.safe_end() {
            SafeEnd::Durable => TaskClass::Foreground,
            // A turn may begin thousands: they go behind those that producers wait for.
            SafeEnd::Written => TaskClass::Background,
        };
        let (shared, source) = (self.clone(), source.clone());
        self.executor.spawn(class, Box::pin(shared.sync_groups(source)));
    }

    async fn sync_groups(self: Rc<Self>, source: Rc<dyn GroupSource<D>>) {
        let lane = source.lane();
        while !lane.sync_failed.get() && source.is_sync_due() {
            let Some(run) = lane.take_awaiting() else { break };
            let mut synced = self.sync_run(source.directory(), &run).await;
            if synced.is_err() && self.mutant.lacks(Rule::FailedSyncRetried) {
                synced = self.sync_run(source.directory(), &run).await;
            }
            if let Err(failure) = synced {
                lane.sync_failed.set(true);
                count(&self.counters.io_errors, 1);
                source.failed(failure);
                break;
            }
            source.clone().durable(run.end);
            source.clone().go_on();
        }
        lane.syncing.set(false);
        source.idle();
        source.go_on();
    }

    async fn sync_run(&self, directory: &str, run: &Awaiting<D>) -> Result<(), LogFailure> {
        if self.mutant.lacks(Rule::AckBeforeSync) {
            return Ok(());
        }
        count(&self.counters.syncs, 1);
        run.file.data_sync().await.map_err(|error| LogFailure::from_disk(IoStage::Sync, &error))?;
        if run.is_first_of_segment && !self.mutant.lacks(Rule::NoDirectorySync) {
            count(&self.counters.syncs, 1);
            let synced = self.files.sync_dir(directory).await;
            synced.map_err(|error| LogFailure::from_disk(IoStage::SyncDirectory, &error))?;
        }
        Ok(())
    }
}
