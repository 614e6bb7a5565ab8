//! Which group goes where: into the journal with others, or straight to its segment.
//!
//! Owns the sets of one core. One is written at a time; whatever waits when it is done forms the next. Nothing ever waits in order
//! to be with others.
//!
//! ```text
//! request ─► ready ─► route: large, alone ─────────────────► settle what is behind ─► its segment (PerFile)
//!                     small, with others ─► room? ─► set ─► write that lasts ─► journaled ─► behind ─► settle
//! ```
//! - A set that holds a group of a log whose acknowledgements wait for the disk is on stable storage before it is told. One of logs under write
//!   caching only is told to be written at once, and synced when somebody asks for one of them, before a set that is synced follows
//!   it, and before the next file is used: all that is not durable lies in one file, and at the end of the ring.
//! - A disk that has no room for the ring and much more, or a ring whose next file is kept by a log that cannot be settled: groups go to their
//!   segments until there is room again.
//! - Before a file is used again that the newest set still calls needed, a set without groups says otherwise (a mark): the write that
//!   goes there may be torn, and would take away what that set asks for.
//! - A ring that could not be written or synced is never used again in this life: of its last set nobody knows. Logs with a group in
//!   that set have failed; what was told before is settled as ever.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use record::Timestamp;

use crate::directory::TOPICS_DIRECTORY;
use crate::disk::{AlignedBuffer, BLOCK_BYTES, Disk, DiskFile, DiskResult};
use crate::durability::{Durability, GroupSource, LocalFuture, PerFile, SyncPerFile, count};
use crate::ends::SafeEnd;
use crate::error::{IoStage, LogFailure, StoreError};
use crate::executor::{Executor, TaskClass};
use crate::group::Group;
use crate::journal::JournalOptions;
use crate::journal::behind::Behind;
use crate::journal::entry::{JournalGroup, SET_HEADER_BYTES, SetWriter, group_bytes};
use crate::journal::ring::{JournalPlace, MARK_BYTES, Ring, Slot, drop_ring};
use crate::local::Event;
use crate::log_pace::LogPace;
use crate::mutant::Rule;

/// After the ring could not be made, so many sets go by before it is tried again: nobody tells this core the time.
const MAKE_AGAIN_AFTER: u64 = 4096;
/// A ring is made only where the disk has so many times its bytes free. With the default sizes a gigabyte is left for records then,
/// which is above what `disk.floor.bytes` keeps of a small disk: making it must not be what refuses them.
const FREE_TIMES_MIN: u64 = 16;
/// Logs settled side by side because their memory or their file is wanted: as many as share a commit of the file system's journal.
const SETTLES_MAX: u64 = 16;

/// How far the ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RingState {
    /// Not made; it is after so many sets that were not written.
    Absent {
        skips_left: u64,
    },
    Making,
    Ready,
    /// Its last set failed.
    Broken,
    /// The core stops.
    Retired,
}

/// Makes groups lasting together.
pub(crate) struct CoreJournal<D: Disk, E: Executor>(Rc<Core<D, E>>);

/// The work of [`CoreJournal`].
pub(super) struct Core<D: Disk, E: Executor> {
    disk: D,
    pub(super) per_file: Rc<PerFile<D, E>>,
    place: JournalPlace,
    sequence_base: u64,
    state: Cell<RingState>,
    made_count: Cell<u64>,
    /// It was said that the disk has too little room for a ring.
    is_small_told: Cell<bool>,
    pub(super) ring: RefCell<Option<Ring<D>>>,
    ready: RefCell<VecDeque<Rc<dyn GroupSource<D>>>>,
    /// Groups that are written and not synced, in order.
    unsynced: RefCell<Vec<Journaled<D>>>,
    /// Somebody waits for those.
    is_sync_wanted: Cell<bool>,
    is_running: Cell<bool>,
    /// Logs that are behind, those first whose oldest group came first. One may be there though it is settled by now.
    order: RefCell<VecDeque<Weak<dyn GroupSource<D>>>>,
    pub(super) settling_count: Cell<u64>,
    /// Counts what was settled, or could not be.
    pub(super) turns: Cell<u64>,
    /// `turns` has moved, the ring was made, or nothing is under way any more.
    pub(super) freed: Event,
    blocked_pace: LogPace<()>,
}

/// A group and its log.
struct Member<D: Disk> {
    source: Rc<dyn GroupSource<D>>,
    group: Group<D>,
}

/// A group that the journal holds.
struct Journaled<D: Disk> {
    source: Rc<dyn GroupSource<D>>,
    behind: Behind,
}

/// Whether a set can be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// One of any size.
    Yes,
    /// None.
    No,
}

impl<D: Disk, E: Executor> CoreJournal<D, E> {
    pub(crate) fn new(
        disk: D,
        per_file: SyncPerFile<D, E>,
        place: JournalPlace,
        sequence_base: u64,
    ) -> Self {
        assert!(place.options.file_count >= 2);
        assert!(place.options.file_bytes.is_multiple_of(BLOCK_BYTES as u64));
        assert!(place.options.file_bytes >= 4 * BLOCK_BYTES as u64);
        Self(Rc::new(Core {
            disk,
            per_file: per_file.into_shared(),
            state: Cell::new(RingState::Absent { skips_left: place.options.sets_before }),
            place,
            sequence_base,
            made_count: Cell::new(0),
            is_small_told: Cell::new(false),
            ring: RefCell::new(None),
            ready: RefCell::default(),
            unsynced: RefCell::default(),
            is_sync_wanted: Cell::new(false),
            is_running: Cell::new(false),
            order: RefCell::default(),
            settling_count: Cell::new(0),
            turns: Cell::new(0),
            freed: Event::default(),
            blocked_pace: LogPace::default(),
        }))
    }
}

impl<D: Disk, E: Executor> Durability<D> for CoreJournal<D, E> {
    fn recover(&self) -> LocalFuture<'_, Result<(), LogFailure>> {
        // Every ring of the directory was replayed before: see `recover_journals`.
        Box::pin(async { Ok(()) })
    }

    fn request(&self, source: Rc<dyn GroupSource<D>>) {
        self.0.request(source);
    }

    fn sync(&self, source: Rc<dyn GroupSource<D>>) {
        self.0.per_file.ensure_syncer(&source);
        if source.lane().journal.unsynced_to.get().is_some() && source.is_sync_due() {
            self.0.want_sync();
        }
    }

    fn settle(&self, source: Rc<dyn GroupSource<D>>) {
        source.lane().journal.has_failed.set(false);
        self.0.ensure_settling(&source);
    }

    fn forget(&self, source: &dyn GroupSource<D>) {
        let journal = &source.lane().journal;
        let length = journal.behind.borrow().len();
        self.0.release(&journal.take(length));
        self.0.forget_unsynced(source);
        self.0.freed.notify();
    }

    fn retire(&self) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(self.0.retire())
    }
}

impl<D: Disk, E: Executor> Core<D, E> {
    fn request(self: &Rc<Self>, source: Rc<dyn GroupSource<D>>) {
        let lane = source.lane();
        if lane.journal.is_settle_due.get() {
            self.ensure_settling(&source);
        }
        if source.open_bytes() == 0 || lane.has_failed() || lane.journal.is_queued.get() {
            return;
        }
        if lane.is_direct() {
            // It goes on there as long as its groups are large; a small one is asked for again when the lane is at rest. Under write
            // caching that may be long: it waits for a sync that nobody has asked for.
            if !self.is_small(source.as_ref()) || source.safe_end() == SafeEnd::Written {
                self.per_file.ensure_writer(source);
            }
            return;
        }
        if lane.journal.is_writing.get() {
            return;
        }
        lane.journal.is_queued.set(true);
        self.ready.borrow_mut().push_back(source);
        self.ensure_running();
    }

    fn ensure_running(self: &Rc<Self>) {
        if self.is_running.replace(true) {
            return;
        }
        let core = self.clone();
        let run = async move { core.write_sets().await };
        self.per_file.executor.spawn(TaskClass::Foreground, Box::pin(run));
    }

    /// Whether its next group is for the journal, as far as it alone is concerned.
    fn is_small(&self, source: &dyn GroupSource<D>) -> bool {
        let (bytes, options) = (source.next_bytes(), &self.place.options);
        let Some(name) = name_of(source) else { return false };
        let in_set = group_bytes(name.len(), usize::try_from(bytes).unwrap_or(usize::MAX / 2));
        bytes <= options.group_bytes_max && SET_HEADER_BYTES + in_set <= self.place.set_bytes_max()
    }

    async fn write_sets(self: Rc<Self>) {
        loop {
            if self.must_sync() {
                self.sync_unsynced().await;
                continue;
            }
            if self.ready.borrow().is_empty() {
                break;
            }
            let room = self.room().await;
            // Others may have come meanwhile.
            if self.must_sync() {
                continue;
            }
            let members = self.gather(room);
            if !members.is_empty() {
                self.write_set(members).await;
            }
        }
        self.is_running.set(false);
        self.freed.notify();
    }

    /// What is not synced shall be, before anything else is written.
    pub(super) fn want_sync(self: &Rc<Self>) {
        self.is_sync_wanted.set(true);
        self.ensure_running();
    }

    /// Whether what is not synced must be now: somebody waits for it, or for a set that comes behind it.
    fn must_sync(&self) -> bool {
        let is_lasting = |source: &Rc<dyn GroupSource<D>>| source.safe_end() == SafeEnd::Durable;
        if self.unsynced.borrow().is_empty() {
            self.is_sync_wanted.set(false);
            return false;
        }
        self.is_sync_wanted.get() || self.ready.borrow().iter().any(is_lasting)
    }

    /// Makes all that is written durable. One sync at a time: nothing is written meanwhile.
    async fn sync_unsynced(self: &Rc<Self>) {
        self.is_sync_wanted.set(false);
        let file = self.ring.borrow().as_ref().map(Ring::file);
        let Some(file) = file else { return };
        let synced = self.sync_file(&file).await;
        let unsynced = std::mem::take(&mut *self.unsynced.borrow_mut());
        match synced {
            Ok(()) => unsynced.into_iter().for_each(|one| self.tell(one)),
            Err(failure) => {
                self.note_broken(failure);
                for Journaled { source, .. } in unsynced {
                    // As after any sync that failed: it is in doubt for good, and readers have it from memory.
                    source.lane().journal.unsynced_to.set(None);
                    source.lane().journal.is_settle_due.set(false);
                    source.lane().fail_sync();
                    source.failed(failure);
                    source.idle();
                }
            }
        }
    }

    /// The log is gone: nobody is to be told of it.
    fn forget_unsynced(&self, source: &dyn GroupSource<D>) {
        let is_it = |one: &Journaled<D>| std::ptr::eq(one.source.lane(), source.lane());
        let (gone, kept) = self.unsynced.borrow_mut().drain(..).partition(is_it);
        *self.unsynced.borrow_mut() = kept;
        let gone: Vec<Journaled<D>> = gone;
        gone.iter().for_each(|one| self.release(&[one.behind]));
        source.lane().journal.unsynced_to.set(None);
    }

    /// Waits until a set of any size fits, where it is known to come to that.
    async fn room(self: &Rc<Self>) -> Room {
        loop {
            match self.look_for_room() {
                Look::Room(room) => return room,
                Look::Mark => {
                    if let Err(failure) = self.write_mark().await {
                        self.give_up(Vec::new(), failure);
                    }
                }
                Look::Sync => self.sync_unsynced().await,
                // Whoever keeps the next file cannot be settled now.
                Look::Wait if self.settling_count.get() == 0 => {
                    if let Some(times) = self.blocked_pace.due((), Timestamp::NONE, 1) {
                        tracing::warn!(
                            shard = %self.place.shard, times,
                            "the journal is full of a log that cannot be written: every log is synced by itself until it can"
                        );
                    }
                    return Room::No;
                }
                Look::Wait => {
                    let before = self.turns.get();
                    let moved = || (self.turns.get() != before).then_some(());
                    self.freed.wait_for(moved).await;
                }
            }
        }
    }

    /// Begins what makes room where there is none.
    fn look_for_room(self: &Rc<Self>) -> Look {
        if self.state.get() != RingState::Ready {
            return Look::Room(Room::No);
        }
        let (behind, bound) = (self.behind_bytes(), self.place.options.behind_bytes_max);
        let is_synced = self.unsynced.borrow().is_empty();
        if behind > bound / 2 {
            if !is_synced {
                return Look::Sync;
            }
            self.settle_some(|_| true);
        }
        if behind > bound {
            return Look::Wait;
        }
        let is_hasty = self.per_file.mutant.lacks(Rule::JournalReclaimedEarly);
        let kept = {
            let mut ring = self.ring.borrow_mut();
            let Some(ring) = ring.as_mut() else { return Look::Room(Room::No) };
            if ring.has_room(self.place.set_bytes_max()) {
                return Look::Room(Room::Yes);
            }
            if !is_synced && !self.per_file.mutant.lacks(Rule::JournalLeavesUnsynced) {
                return Look::Sync;
            }
            let kept = ring.next_unsettled().filter(|_| !is_hasty);
            if kept.is_none() {
                if !is_hasty && ring.must_mark() {
                    return Look::Mark;
                }
                ring.advance();
            }
            kept
        };
        let Some(file) = kept else { return Look::Room(Room::Yes) };
        self.settle_file(file);
        Look::Wait
    }

    fn behind_bytes(&self) -> u64 {
        self.per_file.counters.journal.behind_bytes.get()
    }

    /// Settles logs that keep a file of the ring.
    fn settle_file(self: &Rc<Self>, file: usize) {
        self.settle_some(|source| {
            let behind = source.lane().journal.behind.borrow();
            behind.front().is_some_and(|first| first.file == file)
        });
    }

    /// Settles some of the logs that are behind, those first that have been for longest.
    fn settle_some(self: &Rc<Self>, is_wanted: impl Fn(&dyn GroupSource<D>) -> bool) {
        let mut kept = VecDeque::new();
        let order = std::mem::take(&mut *self.order.borrow_mut());
        for weak in order {
            let Some(source) = weak.upgrade() else { continue };
            let journal = &source.lane().journal;
            if !journal.is_behind() {
                journal.is_in_order.set(false);
                continue;
            }
            if self.settling_count.get() < SETTLES_MAX && is_wanted(source.as_ref()) {
                self.ensure_settling(&source);
            }
            kept.push_back(weak);
        }
        // Nothing above adds to it: tasks run later.
        *self.order.borrow_mut() = kept;
    }

    /// A log that is behind has its place among those that are to be settled.
    pub(super) fn keep_in_order(&self, source: &Rc<dyn GroupSource<D>>) {
        let journal = &source.lane().journal;
        if journal.is_behind() && !journal.is_in_order.replace(true) {
            self.order.borrow_mut().push_back(Rc::downgrade(source));
        }
    }

    /// Takes the next group of each log that waits, as many as fit a set. Synchronous: what a log appends meanwhile is in the
    /// next one.
    fn gather(self: &Rc<Self>, room: Room) -> Vec<Member<D>> {
        let ready = std::mem::take(&mut *self.ready.borrow_mut());
        let mut small = Vec::new();
        for source in ready {
            let lane = source.lane();
            lane.journal.is_queued.set(false);
            if lane.has_failed() || lane.is_direct() || source.is_closed() {
                continue;
            }
            if self.is_small(source.as_ref()) { small.push(source) } else { self.go_direct(source) }
        }
        let is_company = small.len() >= self.company_min(&small);
        if is_company && room == Room::No {
            self.make_if_absent();
        }
        let mut members = Vec::new();
        let mut bytes = SET_HEADER_BYTES;
        for source in small {
            let is_for_set = is_company || source.lane().journal.is_behind();
            if room == Room::No || !is_for_set {
                self.go_direct(source);
                continue;
            }
            let name_bytes = name_of(source.as_ref()).map_or(0, str::len);
            let record_bytes = usize::try_from(source.next_bytes()).unwrap_or(usize::MAX / 2);
            let more = group_bytes(name_bytes, record_bytes);
            if bytes + more > self.place.set_bytes_max() {
                source.lane().journal.is_queued.set(true);
                self.ready.borrow_mut().push_back(source);
                continue;
            }
            let Some(group) = source.seal() else { continue };
            bytes += more;
            source.lane().journal.is_writing.set(true);
            members.push(Member { source, group });
        }
        members
    }

    /// How many groups make a set.
    fn company_min(&self, groups: &[Rc<dyn GroupSource<D>>]) -> usize {
        let JournalOptions { company_min, cached_company_min, .. } = self.place.options;
        let is_lasting = groups.iter().any(|source| source.safe_end() == SafeEnd::Durable);
        if is_lasting { company_min } else { company_min.max(cached_company_min) }
    }

    /// A group goes straight to its segment, after what is behind of its log.
    fn go_direct(self: &Rc<Self>, source: Rc<dyn GroupSource<D>>) {
        if source.lane().journal.is_behind() {
            // It asks again when that is done.
            self.ensure_settling(&source);
        } else {
            self.per_file.ensure_writer(source);
        }
    }

    async fn write_set(self: &Rc<Self>, members: Vec<Member<D>>) {
        let Some((slot, buffer)) = self.encode(&members) else { return };
        let is_early = self.per_file.mutant.lacks(Rule::JournalToldBeforeSync);
        let is_lasting = members.iter().any(|one| one.source.safe_end() == SafeEnd::Durable);
        assert!(!is_lasting || self.unsynced.borrow().is_empty());
        let mut members = members;
        if is_early {
            members.drain(..).for_each(|member| self.tell(self.note(member, slot.index)));
        }
        let done = match is_lasting {
            true => self.write_lasting(&slot, buffer).await,
            false => self.write(&slot, buffer).await,
        };
        match done {
            Ok(()) => {
                for member in members {
                    let journaled = self.note(member, slot.index);
                    if is_lasting { self.tell(journaled) } else { self.tell_written(journaled) }
                }
                self.settle_ahead();
            }
            Err(failure) => self.give_up(members, failure),
        }
    }

    /// The bytes of the set, and their place in the ring.
    fn encode(&self, members: &[Member<D>]) -> Option<(Slot<D>, D::Buffer)> {
        let sizes = members.iter().map(|Member { source, group }| {
            let record_bytes = usize::try_from(group.data_bytes()).unwrap_or(usize::MAX / 2);
            group_bytes(name_of(source.as_ref()).map_or(0, str::len), record_bytes)
        });
        let bytes = SET_HEADER_BYTES + sizes.sum::<usize>();
        let whole = bytes.next_multiple_of(BLOCK_BYTES);
        let mut buffer = self.disk.allocate(whole);
        buffer.truncate(whole);
        let mut ring = self.ring.borrow_mut();
        let ring = ring.as_mut()?;
        let slot = ring.take(whole);
        let mut writer = SetWriter::new(buffer.as_bytes_mut());
        for Member { source, group } in members {
            let entry = JournalGroup {
                log: source.log(),
                name: name_of(source.as_ref())?,
                segment: group.end.segment,
                position: group.start.position,
                base_offset: group.start.offset,
                end_offset: group.end.offset,
                bytes: &[],
            };
            writer.add(&entry, group.data());
        }
        let filled = writer.finish(ring.number, slot.place);
        assert!(filled == whole);
        Some((slot, buffer))
    }

    /// Writes a set without groups: what is needed now, before the file that is needed no more is used again.
    async fn write_mark(&self) -> Result<(), LogFailure> {
        let mut buffer = self.disk.allocate(MARK_BYTES);
        buffer.truncate(MARK_BYTES);
        let slot = {
            let mut ring = self.ring.borrow_mut();
            let Some(ring) = ring.as_mut() else { return Ok(()) };
            let slot = ring.take(MARK_BYTES);
            let writer = SetWriter::new(buffer.as_bytes_mut());
            let filled = writer.finish(ring.number, slot.place);
            assert!(filled == MARK_BYTES);
            slot
        };
        self.write_lasting(&slot, buffer).await
    }

    async fn write(&self, slot: &Slot<D>, buffer: D::Buffer) -> Result<(), LogFailure> {
        let bytes = buffer.as_bytes().len();
        let written = slot.file.write_rc_at(Rc::new(buffer), slot.position).await;
        self.note_written(written, bytes)
    }

    /// The set is on stable storage on return, and so are all before it: they were when it was begun.
    async fn write_lasting(&self, slot: &Slot<D>, buffer: D::Buffer) -> Result<(), LogFailure> {
        if self.per_file.mutant.lacks(Rule::AckBeforeSync) {
            return self.write(slot, buffer).await;
        }
        let bytes = buffer.as_bytes().len();
        count(&self.per_file.counters.syncs, 1);
        let written = slot.file.write_lasting(Rc::new(buffer), slot.position).await;
        self.note_written(written, bytes)?;
        self.note_lasting();
        Ok(())
    }

    fn note_written(&self, written: DiskResult<()>, bytes: usize) -> Result<(), LogFailure> {
        // Its blocks were allocated when the ring was made: a disk that is full now is no other than one that fails.
        written.map_err(|error| LogFailure::from_disk(IoStage::Sync, &error))?;
        let counters = &self.per_file.counters;
        count(&counters.journal.sets, 1);
        count(&counters.journal.written_bytes, bytes as u64);
        Ok(())
    }

    fn note_lasting(&self) {
        if let Some(ring) = self.ring.borrow_mut().as_mut() {
            ring.note_lasting();
        }
    }

    /// All that was written is on stable storage on return: it lies in this file, or was before.
    async fn sync_file(&self, file: &D::File) -> Result<(), LogFailure> {
        let counters = &self.per_file.counters;
        if self.per_file.mutant.lacks(Rule::AckBeforeSync) {
            return Ok(());
        }
        count(&counters.syncs, 1);
        let synced = file.data_sync().await;
        synced.map_err(|error| LogFailure::from_disk(IoStage::Sync, &error))?;
        self.note_lasting();
        Ok(())
    }

    /// The group is in the journal, and its segment lacks it.
    fn note(&self, member: Member<D>, file: usize) -> Journaled<D> {
        let Member { source, group } = member;
        let memory_bytes = group.parts.iter().map(|part| part.buffer.as_bytes().len() as u64).sum();
        let counters = &self.per_file.counters.journal;
        count(&counters.groups, 1);
        counters.behind_bytes.set(counters.behind_bytes.get() + memory_bytes);
        if let Some(ring) = self.ring.borrow_mut().as_mut() {
            ring.note_unsettled(file);
        }
        source.lane().journal.is_writing.set(false);
        let behind = Behind {
            from: group.start.position,
            end: group.end,
            is_first_of_segment: group.is_first_of_segment,
            file,
            group_count: 1,
            memory_bytes,
        };
        Journaled { source, behind }
    }

    /// The group is written: says so. It stays where it is until it is durable.
    fn tell_written(self: &Rc<Self>, journaled: Journaled<D>) {
        let (source, end) = (journaled.source.clone(), journaled.behind.end);
        let journal = &source.lane().journal;
        journal.was_used.set(true);
        journal.unsynced_to.set(Some(end.offset));
        self.unsynced.borrow_mut().push(journaled);
        source.journal_written(end);
        if source.is_sync_due() || journal.is_settle_due.get() {
            self.is_sync_wanted.set(true);
        }
        source.idle();
        source.go_on();
    }

    /// The group is durable: says so, and remembers that it is to be settled.
    fn tell(self: &Rc<Self>, journaled: Journaled<D>) {
        let Journaled { source, behind } = journaled;
        let journal = &source.lane().journal;
        journal.push(behind);
        if journal.unsynced_to.get() == Some(behind.end.offset) {
            journal.unsynced_to.set(None);
        }
        self.keep_in_order(&source);
        source.clone().journaled(behind.end);
        let is_due = journal.is_due(self.place.options.settle_bytes);
        if is_due || journal.is_settle_due.get() {
            self.ensure_settling(&source);
        }
        source.idle();
        source.go_on();
    }

    /// So that the next file is free when its turn comes.
    fn settle_ahead(self: &Rc<Self>) {
        let next = self.ring.borrow().as_ref().and_then(Ring::next_unsettled);
        if let Some(file) = next {
            self.settle_file(file);
        }
    }

    /// Of a set that failed nobody knows: its logs take no more appends, and the ring is out of use.
    fn give_up(self: &Rc<Self>, members: Vec<Member<D>>, failure: LogFailure) {
        self.note_broken(failure);
        for Member { source, .. } in members {
            source.lane().journal.is_writing.set(false);
            source.failed(failure);
            self.ensure_settling(&source);
            source.idle();
        }
    }

    /// The ring takes no more sets in this life.
    fn note_broken(&self, failure: LogFailure) {
        tracing::error!(
            shard = %self.place.shard, %failure,
            "the journal could not be written: it is out of use until restart, and every log is synced by itself"
        );
        count(&self.per_file.counters.io_errors, 1);
        self.state.set(RingState::Broken);
    }

    /// Makes the ring in the background the first time it would be of use; logs do not wait for it.
    fn make_if_absent(self: &Rc<Self>) {
        match self.state.get() {
            RingState::Absent { skips_left: 0 } => {}
            RingState::Absent { skips_left } => {
                self.state.set(RingState::Absent { skips_left: skips_left - 1 });
                return;
            }
            RingState::Making | RingState::Ready | RingState::Broken | RingState::Retired => return,
        }
        self.state.set(RingState::Making);
        let core = self.clone();
        let make = async move { core.make().await };
        self.per_file.executor.spawn(TaskClass::Background, Box::pin(make));
    }

    async fn make(self: Rc<Self>) {
        if !self.has_disk_for_ring().await {
            self.state.set(RingState::Absent { skips_left: MAKE_AGAIN_AFTER });
            self.freed.notify();
            return;
        }
        // Another number each time: nothing that an attempt has left looks like part of this ring.
        let made_count = self.made_count.replace(self.made_count.get() + 1);
        let number = self.place.options.ring ^ made_count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let made = Ring::make(&self.disk, &self.place, number, self.sequence_base).await;
        match made {
            Ok(ring) => {
                *self.ring.borrow_mut() = Some(ring);
                self.state.set(RingState::Ready);
            }
            Err(error) => {
                tracing::warn!(
                    shard = %self.place.shard, %error,
                    "the journal could not be made: every log is synced by itself, and it is tried again"
                );
                // What there is of it takes space that the logs need.
                if let Err(error) = drop_ring(&self.disk, &self.place.shard).await {
                    tracing::warn!(shard = %self.place.shard, %error, "what was made of the journal is not removed");
                }
                self.state.set(RingState::Absent { skips_left: MAKE_AGAIN_AFTER });
            }
        }
        self.freed.notify();
    }

    /// Whether the disk has room for a ring and for what it is there for. One that cannot say how much it has is tried.
    async fn has_disk_for_ring(&self) -> bool {
        let options = &self.place.options;
        let ring_bytes = options.file_bytes.saturating_mul(options.file_count.into());
        let wanted_bytes = ring_bytes.saturating_mul(FREE_TIMES_MIN);
        let free_bytes = self.disk.free_bytes().await.unwrap_or(u64::MAX);
        if free_bytes < wanted_bytes && !self.is_small_told.replace(true) {
            tracing::info!(
                shard = %self.place.shard, free_bytes, wanted_bytes,
                "too little disk is free for a journal: every log is synced by itself until there is more"
            );
        }
        free_bytes >= wanted_bytes
    }

    async fn retire(&self) -> Result<(), StoreError> {
        let at_rest = || {
            let is_idle = !self.is_running.get() && self.settling_count.get() == 0;
            (is_idle && self.state.get() != RingState::Making).then_some(())
        };
        self.freed.wait_for(at_rest).await;
        self.state.set(RingState::Retired);
        let Some(ring) = self.ring.borrow_mut().take() else { return Ok(()) };
        if ring.is_settled() {
            return drop_ring(&self.disk, &self.place.shard).await;
        }
        tracing::warn!(
            shard = %self.place.shard,
            "the journal holds records that their segments do not: the next start writes them"
        );
        Ok(())
    }
}

/// What came of looking for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Room(Room),
    /// The newest set still calls needed what was settled since: it has to be said first.
    Mark,
    /// What is written has to be durable first.
    Sync,
    /// Something has to be settled first.
    Wait,
}

/// The name of a log's directory in `topics/`; `None` for a log that lives elsewhere, which the journal is not for.
fn name_of<D: Disk>(source: &dyn GroupSource<D>) -> Option<&str> {
    source.directory().strip_prefix(TOPICS_DIRECTORY)?.strip_prefix('/')
}
