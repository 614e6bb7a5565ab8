//! What all logs of one core share: the disk, the caches, the way to stable storage.
//!
//! Owns no log. Logs hold it, so that dropping a store and its logs frees everything.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use crate::disk::Disk;
use crate::durability::{Durability, DurabilityCounters};
use crate::executor::Executor;
use crate::files::{LogKey, OpenFiles, SegmentKey};
use crate::index::SegmentIndex;
use crate::local::Event;
use crate::log::LogInner;
use crate::lru::Lru;
use crate::mutant::{Mutant, Rule};
use crate::read_cache::ReadCache;
use crate::tail_cache::TailCache;

/// Where an index came from, and so how far it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexOrigin {
    /// Read from its file: each entry is checked against its batch when it is used.
    File,
    /// Made from the batches themselves.
    Built,
}

/// An index by what it covers: the front of a segment that still grows is another index than that of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexKey {
    pub(crate) segment: SegmentKey,
    pub(crate) bytes: u64,
}

/// An index in memory.
#[derive(Debug)]
pub(crate) struct HeldIndex {
    pub(crate) index: SegmentIndex,
    pub(crate) origin: IndexOrigin,
}

pub(crate) struct Shared<D: Disk, E: Executor> {
    pub(crate) disk: D,
    pub(crate) executor: E,
    pub(crate) files: Rc<OpenFiles<D>>,
    pub(crate) tail_cache: TailCache<D>,
    pub(crate) read_cache: ReadCache<D>,
    pub(crate) indexes: RefCell<Lru<IndexKey, Rc<HeldIndex>>>,
    /// Indexes that are being loaded or built now: whoever else wants one waits for `index_ready`.
    pub(crate) indexes_in_work: RefCell<BTreeSet<IndexKey>>,
    pub(crate) index_ready: Event,
    pub(crate) durability: Rc<dyn Durability<D>>,
    pub(crate) counters: Rc<DurabilityCounters>,
    pub(crate) mutant: Mutant,
    /// Bytes that all logs of the core accepted and that are not durable yet.
    pub(crate) pending_bytes: Cell<u64>,
    /// Moves whenever some of them became durable or were given up; `room` says so.
    pub(crate) drained: Cell<u64>,
    pub(crate) room: Event,
    /// Logs under write caching that wrote something since their last sync.
    pub(crate) unsynced: RefCell<Vec<Weak<LogInner<D, E>>>>,
    /// So many do not wait for their turn: each keeps its file open until it is synced.
    pub(crate) unsynced_max: usize,
    /// The first of them came.
    pub(crate) wrote: Event,
    /// Somebody decompresses with a large window.
    pub(crate) large_window: Cell<bool>,
    pub(crate) large_window_free: Event,
    /// Something that a checkpoint holds has moved since the last one.
    pub(crate) changed: Cell<bool>,
    /// Bytes made durable since the last checkpoint.
    pub(crate) bytes_since_checkpoint: Cell<u64>,
    /// Bytes that recovery would read again for what is known of producers: made durable since the last time that was written
    /// down, or read by the recovery of this life.
    pub(crate) bytes_since_states: Cell<u64>,
}

impl<D: Disk, E: Executor> Shared<D, E> {
    /// A log that held `before` pending bytes holds `now`.
    pub(crate) fn note_pending(&self, before: u64, now: u64) {
        assert!(before <= self.pending_bytes.get());
        self.pending_bytes.set(self.pending_bytes.get() - before + now);
        if now < before {
            self.drained.set(self.drained.get().wrapping_add(1));
            self.room.notify();
        }
    }

    /// Syncs what was written under write caching, each log in a task of its own.
    pub(crate) fn sync_written(&self) {
        if self.mutant.lacks(Rule::WrittenNeverSynced) {
            return;
        }
        let unsynced = std::mem::take(&mut *self.unsynced.borrow_mut());
        for inner in unsynced.iter().filter_map(Weak::upgrade) {
            inner.is_unsynced.set(false);
            inner.ask_sync(inner.ends.get().written());
        }
    }

    pub(crate) fn note_durable(&self, bytes: u64) {
        self.changed.set(true);
        self.bytes_since_checkpoint.set(self.bytes_since_checkpoint.get() + bytes);
        self.bytes_since_states.set(self.bytes_since_states.get() + bytes);
    }

    /// Forgets everything held for a segment that is gone.
    pub(crate) fn forget_segment(&self, segment: SegmentKey) {
        self.files.forget(segment);
        self.read_cache.forget_segment(segment);
        let (first, last) = (IndexKey { segment, bytes: 0 }, IndexKey { segment, bytes: u64::MAX });
        self.indexes.borrow_mut().remove_range(first..=last);
    }

    /// Forgets everything held for a log that is gone.
    pub(crate) fn forget_log(&self, log: LogKey) {
        self.files.forget_log(log);
        self.read_cache.forget_log(log);
        let segments = SegmentKey::all_of(log);
        let first = IndexKey { segment: *segments.start(), bytes: 0 };
        let last = IndexKey { segment: *segments.end(), bytes: u64::MAX };
        self.indexes.borrow_mut().remove_range(first..=last);
    }
}
