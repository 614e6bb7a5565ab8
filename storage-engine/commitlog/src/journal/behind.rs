//! What is durable in the journal and not in its segment yet, and the way it goes there.
//!
//! Owns the order: a log's groups are settled as they came, those of one segment together, and a segment is on stable storage before
//! the next one is made. The bytes come from memory, where the tail keeps them until then.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use record::Offset;

use crate::disk::{AlignedBuffer, Disk, DiskError, DiskFile, DiskResult, OpenMode};
use crate::durability::{GroupSource, TRANSFERS_MAX, count};
use crate::error::{IoStage, LogFailure};
use crate::executor::{Executor, TaskClass};
use crate::files::SegmentKey;
use crate::group::GroupEnd;
use crate::journal::core_journal::Core;
use crate::local::join_all;
use crate::mutant::Rule;

/// Groups of a log in one file of the journal that follow each other in one segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behind {
    /// Where they begin in the segment.
    pub(super) from: u64,
    pub(super) end: GroupEnd,
    /// The first of them makes the segment's file.
    pub(super) is_first_of_segment: bool,
    /// Which file of the journal holds them, and how many they are there.
    pub(super) file: usize,
    pub(super) group_count: u64,
    /// Memory that they keep.
    pub(super) memory_bytes: u64,
}

/// Where the groups of one log stand with the journal.
#[derive(Debug)]
pub(crate) struct JournalLane {
    /// Waits for the next set.
    pub(super) is_queued: Cell<bool>,
    /// A group of it is in the set that is being written.
    pub(super) is_writing: Cell<bool>,
    pub(super) is_settling: Cell<bool>,
    /// Settling was asked for, and its task waits for another one of the lane.
    pub(super) is_settle_due: Cell<bool>,
    /// It failed; only somebody who asks for it lets it be tried again.
    pub(super) has_failed: Cell<bool>,
    /// Has its place among those of the core that are to be settled.
    pub(super) is_in_order: Cell<bool>,
    /// How far it goes before it rests.
    pub(super) settle_to: Cell<Offset>,
    pub(super) behind: RefCell<VecDeque<Behind>>,
    /// How many of them are on their way: they are as they were when that began.
    under_way: Cell<usize>,
    /// Where what is in the journal ends, if that is not synced yet: it joins what is behind when it is.
    pub(super) unsynced_to: Cell<Option<Offset>>,
    /// Record bytes behind.
    pub(super) behind_bytes: Cell<u64>,
    /// The newest segment whose file settling has made.
    pub(super) made: Cell<Option<Offset>>,
    /// Something of it went into the journal, in this life.
    pub(super) was_used: Cell<bool>,
}

impl Default for JournalLane {
    fn default() -> Self {
        Self {
            is_queued: Cell::default(),
            is_writing: Cell::default(),
            is_settling: Cell::default(),
            is_settle_due: Cell::default(),
            has_failed: Cell::default(),
            is_in_order: Cell::default(),
            settle_to: Cell::new(Offset::ZERO),
            behind: RefCell::default(),
            under_way: Cell::default(),
            unsynced_to: Cell::default(),
            behind_bytes: Cell::default(),
            made: Cell::default(),
            was_used: Cell::default(),
        }
    }
}

impl JournalLane {
    /// Whether no task of it runs.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_writing.get() && !self.is_settling.get()
    }

    /// Whether its segments are being written, or soon will be.
    pub(crate) fn is_settling(&self) -> bool {
        self.is_settling.get() || self.is_settle_due.get()
    }

    /// Whether anything of the log went into the journal.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used.get()
    }

    /// Whether its segments lack something.
    pub(super) fn is_behind(&self) -> bool {
        !self.behind.borrow().is_empty() || self.unsynced_to.get().is_some()
    }

    /// Whether it is worth writing to the segment now.
    pub(super) fn is_due(&self, settle_bytes: u64) -> bool {
        let behind = self.behind.borrow();
        let segment = |one: Option<&Behind>| one.map(|one| one.end.segment);
        // A segment that takes no more is closed soon, and cannot be sealed before.
        self.behind_bytes.get() >= settle_bytes || segment(behind.front()) != segment(behind.back())
    }

    /// Notes groups that have become durable; those that go on where the last ones end are one with them.
    pub(super) fn push(&self, new: Behind) {
        self.was_used.set(true);
        self.behind_bytes.set(self.behind_bytes.get() + (new.end.position - new.from));
        let mut behind = self.behind.borrow_mut();
        let is_free = behind.len() > self.under_way.get();
        match behind.back_mut().filter(|_| is_free) {
            Some(last) if last.end.segment == new.end.segment && last.file == new.file => {
                assert!(last.end.position == new.from);
                last.end = new.end;
                last.group_count += new.group_count;
                last.memory_bytes += new.memory_bytes;
            }
            _ => behind.push_back(new),
        }
    }

    /// The oldest ones that lie in one segment, to be written together.
    fn begin_run(&self) -> Option<Run> {
        let behind = self.behind.borrow();
        let first = behind.front()?;
        let of_one = behind.iter().take_while(|one| one.end.segment == first.end.segment);
        let (length, last) = of_one.enumerate().last()?;
        self.under_way.set(length + 1);
        Some(Run {
            from: first.from,
            end: last.end,
            is_first_of_segment: first.is_first_of_segment,
            length: length + 1,
        })
    }

    /// Takes out what was settled, or is given up.
    pub(super) fn take(&self, length: usize) -> Vec<Behind> {
        let taken: Vec<Behind> = self.behind.borrow_mut().drain(..length).collect();
        self.under_way.set(0);
        let bytes: u64 = taken.iter().map(|one| one.end.position - one.from).sum();
        self.behind_bytes.set(self.behind_bytes.get() - bytes);
        taken
    }
}

/// Groups of one segment.
#[derive(Debug, Clone, Copy)]
struct Run {
    from: u64,
    end: GroupEnd,
    is_first_of_segment: bool,
    length: usize,
}

impl<D: Disk, E: Executor> Core<D, E> {
    /// Settles what is behind of a log now, unless that is under way or has failed.
    pub(super) fn ensure_settling(self: &Rc<Self>, source: &Rc<dyn GroupSource<D>>) {
        let lane = source.lane();
        let journal = &lane.journal;
        let (has_lasting, last) = {
            let behind = journal.behind.borrow();
            let last = behind.back().map(|last| last.end.offset);
            (last.is_some(), journal.unsynced_to.get().or(last))
        };
        let Some(last) = last else {
            journal.is_settle_due.set(false);
            return;
        };
        journal.settle_to.set(journal.settle_to.get().max(last));
        if journal.is_settling.get() {
            return;
        }
        let is_over = journal.has_failed.get() || lane.has_failed() || source.is_closed();
        // Somebody makes the segment's file, or what is to go there is not durable yet: it is asked for again then.
        let is_unsynced = journal.unsynced_to.get().is_some();
        journal.is_settle_due.set(!is_over && (lane.is_direct() || is_unsynced));
        if is_over || lane.is_direct() {
            return;
        }
        if is_unsynced {
            self.want_sync();
        }
        if !has_lasting {
            return;
        }
        journal.is_settling.set(true);
        self.settling_count.set(self.settling_count.get() + 1);
        let (core, source) = (self.clone(), source.clone());
        let settle = async move { core.settle_lane(source).await };
        self.per_file.executor.spawn(TaskClass::Background, Box::pin(settle));
    }

    async fn settle_lane(self: Rc<Self>, source: Rc<dyn GroupSource<D>>) {
        let lane = source.lane();
        let journal = &lane.journal;
        while let Some(run) = journal.begin_run() {
            if lane.has_failed() || source.is_closed() {
                break;
            }
            match self.settle_run(source.as_ref(), &run).await {
                Ok(()) => {
                    count(&self.per_file.counters.journal.settles, 1);
                    self.release(&journal.take(run.length));
                    source.clone().settled(run.end);
                }
                Err(failure) => {
                    count(&self.per_file.counters.io_errors, 1);
                    journal.has_failed.set(true);
                    if matches!(failure, LogFailure::Io { stage: IoStage::Sync, .. }) {
                        lane.fail_sync();
                    }
                    source.failed(failure);
                    break;
                }
            }
            if run.end.offset >= journal.settle_to.get() {
                break;
            }
        }
        journal.under_way.set(0);
        journal.is_settling.set(false);
        self.settling_count.set(self.settling_count.get() - 1);
        self.keep_in_order(&source);
        self.turns.set(self.turns.get() + 1);
        self.freed.notify();
        source.idle();
        source.go_on();
    }

    /// Writes a run to its segment; on stable storage on return.
    async fn settle_run(&self, source: &dyn GroupSource<D>, run: &Run) -> Result<(), LogFailure> {
        let failed = |stage| move |error: DiskError| LogFailure::from_disk(stage, &error);
        let file = self.segment(source, run).await.map_err(failed(IoStage::Open))?;
        let parts = source.copy_blocks(run.end.segment, run.from..run.end.position);
        let counters = &self.per_file.counters;
        for some in parts.chunks(TRANSFERS_MAX) {
            let transfers =
                some.iter().map(|part| file.write_rc_at(part.buffer.clone(), part.position));
            for result in join_all(transfers.collect()).await {
                result.map_err(failed(IoStage::Write))?;
            }
            count(&counters.writes, some.len() as u64);
        }
        let bytes = parts.iter().map(|part| part.buffer.as_bytes().len() as u64).sum();
        count(&counters.written_bytes, bytes);
        count(&counters.syncs, 1);
        file.data_sync().await.map_err(failed(IoStage::Sync))?;
        if run.is_first_of_segment && !self.per_file.mutant.lacks(Rule::NoDirectorySync) {
            count(&counters.syncs, 1);
            let synced = self.per_file.files.sync_dir(source.directory()).await;
            synced.map_err(failed(IoStage::SyncDirectory))?;
        }
        Ok(())
    }

    /// The segment's file, made where it is new and no attempt before this one has made it.
    async fn segment(&self, source: &dyn GroupSource<D>, run: &Run) -> DiskResult<Rc<D::File>> {
        let key: SegmentKey = source.key(&run.end);
        let made = &source.lane().journal.made;
        let is_new = run.is_first_of_segment && made.get() != Some(run.end.segment);
        let mode = if is_new { OpenMode::CreateNew } else { OpenMode::ReadWrite };
        let file = self.per_file.files.get(source.directory(), key, mode).await?;
        if is_new {
            made.set(Some(run.end.segment));
        }
        Ok(file)
    }

    /// Groups are behind no more: what they keep is free.
    pub(super) fn release(&self, settled: &[Behind]) {
        let behind = &self.per_file.counters.journal.behind_bytes;
        for one in settled {
            behind.set(behind.get() - one.memory_bytes);
            if let Some(ring) = self.ring.borrow_mut().as_mut() {
                (0..one.group_count).for_each(|_| ring.note_settled(one.file));
            }
        }
    }
}
