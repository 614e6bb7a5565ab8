//! All logs of one core.
//!
//! Owns which logs are open, their checkpoints, and the ways a log comes and goes. One store a core; stores of one node
//! share nothing but the data directory.

mod closing;
mod deleting;
mod preparing;
mod releasing;
mod states;
mod trimming;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use record::{Fold, LeaderEpoch, Offset, Timestamp, TopicId, TopicPartition};

use crate::checkpoint::{
    self, CHECKPOINT_DIRECTORY, CheckpointEntry, CheckpointFile, CheckpointMap, Copy,
};
use crate::directory::{
    self, DELETED_DIRECTORY, META_BYTES_MAX, PARTITION_METADATA_FILE, STRAY_DIRECTORY,
    TOPICS_DIRECTORY,
};
use crate::disk::{Disk, DiskError, PathEntry};
use crate::durability::{Durability, DurabilityCounters, Lane, SyncPerFile};
use crate::ends::Ends;
use crate::error::{AtPath, LogFailure, OpenError, StoreError};
use crate::executor::{Executor, TaskClass};
use crate::files::{LogKey, OpenFiles};
use crate::journal::{CoreJournal, JournalOptions, JournalPlace};
use crate::local::{Event, join_all};
use crate::log::{DamageReport, Log, LogIdentity, LogInner, LogOptions, LogState, SealBackoff};
use crate::log_pace::LogPace;
use crate::lru::Lru;
use crate::mutant::{Mutant, Rule};
use crate::read_cache::ReadCache;
use crate::recovery::look::{self, Looked};
use crate::recovery::{Recovered, Recovery, RecoveryReport};
use crate::room_ahead::RoomAhead;
use crate::shared::Shared;
use crate::small_file;
use crate::tail_cache::TailCache;

/// A checkpoint is written at most this often…
const CHECKPOINT_MS: i64 = 1000;
/// …or when this much became durable: what recovery reads after a crash.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// What is known of producers is written down when so much became durable: what recovery reads for it after a crash.
pub const STATES_BYTES: u64 = 256 << 20;
/// Indexes of sealed segments kept in memory.
const INDEX_BYTES_MAX: usize = 16 << 20;
/// Files of leader epochs written together before a checkpoint.
const EPOCH_FLUSHES_MAX: usize = 16;

use states::Captured;

pub use closing::{Unclosed, UnclosedLog};

/// How the last stop left the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartKind {
    /// The marker was there: a log whose files are as its checkpoint says is not scanned.
    Clean,
    /// A crash, or the first start.
    Unclean,
}

/// What a store is given.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Names the checkpoint files: "0", "1", …, "coordinator".
    pub name: String,
    /// What all shards' files held at start.
    pub checkpoints: Arc<CheckpointMap>,
    /// How the last stop left the directory.
    pub start: StartKind,
    /// The first checkpoint's sequence is above it: the start count in the high 32 bits.
    pub sequence_base: u64,
    /// Memory for the newest bytes of all logs.
    pub tail_cache_bytes: usize,
    /// Memory for old bytes that are read.
    pub read_cache_bytes: usize,
    /// Segment files open at once.
    pub open_files_max: usize,
    /// When segments grow ahead of what is written.
    pub room_ahead: RoomAhead,
    /// Bytes that become durable between two writings of what is known of producers: [`STATES_BYTES`].
    pub states_bytes: u64,
    /// How small groups are made lasting together; `None` for a sync of each file.
    ///
    /// Order   [`crate::recover_journals`] ran before any log of `topics/` is opened, with or without one.
    pub journal: Option<JournalOptions>,
    /// The rule that a test switches off.
    pub mutant: Mutant,
}

/// Work done and memory held, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCounters {
    /// Transfers from segment files for readers; recovery is not counted.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Transfers and syncs that the disk refused.
    pub io_errors: u64,
    /// Transfers to segment files.
    pub writes: u64,
    /// Their bytes, carried and padding ones included.
    pub written_bytes: u64,
    /// Syncs of segment files and their directories.
    pub syncs: u64,
    /// Entry sets written to the core journal.
    pub journal_sets: u64,
    /// Groups of logs in them.
    pub journal_groups: u64,
    /// Bytes written to the core journal.
    pub journal_written_bytes: u64,
    /// Times that a log's segment took what the journal held of it.
    pub journal_settles: u64,
    /// Memory of what is in the journal and not in its segment yet.
    pub journal_behind_bytes: u64,
    /// Bytes that the logs took in and that no sync covers yet; those of a log that failed are not among them.
    pub unsynced_bytes: u64,
    /// Memory in the tail cache.
    pub tail_cache_bytes: usize,
    /// Memory in the read cache.
    pub read_cache_bytes: usize,
    /// Logs open.
    pub log_count: usize,
}

/// The logs of one core; clones are the same store.
pub struct Store<D: Disk, E: Executor>(Rc<StoreInner<D, E>>);

impl<D: Disk, E: Executor> Clone for Store<D, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct StoreInner<D: Disk, E: Executor> {
    shared: Rc<Shared<D, E>>,
    name: String,
    start: StartKind,
    checkpoints: Arc<CheckpointMap>,
    logs: RefCell<BTreeMap<TopicPartition, Rc<LogInner<D, E>>>>,
    opening: RefCell<BTreeSet<TopicPartition>>,
    /// Logs whose directories were made lasting before they are opened.
    prepared: RefCell<BTreeSet<TopicPartition>>,
    /// Logs whose directories this life began to make, and failed to make lasting.
    half_made: RefCell<BTreeSet<TopicPartition>>,
    /// Logs that were opened, or tried: how the last stop left their files says nothing any more.
    tried: RefCell<BTreeSet<TopicPartition>>,
    /// What logs promised that were released and are not open again: a stop is not clean without them.
    unsettled: RefCell<BTreeMap<TopicPartition, StoreError>>,
    /// What a stop could not leave in order.
    unclosed: RefCell<Vec<UnclosedLog>>,
    /// The newest entry of every log this shard answers for, open or not.
    entries: RefCell<BTreeMap<TopicPartition, CheckpointEntry>>,
    next_key: Cell<u64>,
    sequence: Cell<u64>,
    copy: Cell<Copy>,
    checkpointed_at: Cell<Option<Timestamp>>,
    is_writing: Cell<bool>,
    written: Event,
    epochs_pace: LogPace<Option<DiskError>>,
    states_bytes: u64,
    /// What was known of producers a while ago, until the logs are durable up to there.
    states: RefCell<Option<Vec<Captured<D, E>>>>,
}

impl<D: Disk, E: Executor> Store<D, E> {
    /// Opens a store without logs.
    ///
    /// Order   after [`directory::open_or_create`] and [`CheckpointMap::load`]; one store a name.
    pub async fn open(disk: D, executor: E, options: StoreOptions) -> Result<Self, StoreError> {
        for name in [TOPICS_DIRECTORY, CHECKPOINT_DIRECTORY, DELETED_DIRECTORY, STRAY_DIRECTORY] {
            small_file::ensure_directory(&disk, "", name).await.at(name)?;
        }
        let files = Rc::new(OpenFiles::new(disk.clone(), options.open_files_max));
        let counters = Rc::new(DurabilityCounters::default());
        let per_file = SyncPerFile::new(
            executor.clone(),
            files.clone(),
            counters.clone(),
            options.room_ahead,
            options.mutant,
        );
        let durability: Rc<dyn Durability<D>> = match options.journal {
            None => Rc::new(per_file),
            Some(journal) => {
                let place = JournalPlace { shard: options.name.clone(), options: journal };
                Rc::new(CoreJournal::new(disk.clone(), per_file, place, options.sequence_base))
            }
        };
        durability.recover().await.map_err(|failure| StoreError::Recover { failure })?;
        let shared = Rc::new(Shared {
            tail_cache: TailCache::new(disk.clone(), options.tail_cache_bytes),
            read_cache: ReadCache::new(options.read_cache_bytes),
            indexes: RefCell::new(Lru::new(INDEX_BYTES_MAX)),
            indexes_in_work: RefCell::default(),
            index_ready: Event::default(),
            durability,
            counters,
            mutant: options.mutant,
            pending_bytes: Cell::new(0),
            drained: Cell::new(0),
            room: Event::default(),
            unsynced: RefCell::default(),
            unsynced_max: (options.open_files_max / 4).max(1),
            wrote: Event::default(),
            large_window: Cell::new(false),
            large_window_free: Event::default(),
            changed: Cell::new(false),
            bytes_since_checkpoint: Cell::new(0),
            bytes_since_states: Cell::new(0),
            disk,
            executor,
            files,
        });
        let kept = options.checkpoints.shard_entries(&options.name);
        let entries = kept.iter().map(|entry| (entry.log, *entry)).collect();
        Ok(Self(Rc::new(StoreInner {
            copy: Cell::new(options.checkpoints.next_copy(&options.name)),
            shared,
            name: options.name,
            start: options.start,
            checkpoints: options.checkpoints,
            logs: RefCell::default(),
            opening: RefCell::default(),
            prepared: RefCell::default(),
            half_made: RefCell::default(),
            tried: RefCell::default(),
            unsettled: RefCell::default(),
            unclosed: RefCell::default(),
            entries: RefCell::new(entries),
            next_key: Cell::new(0),
            sequence: Cell::new(options.sequence_base),
            checkpointed_at: Cell::new(None),
            is_writing: Cell::new(false),
            written: Event::default(),
            epochs_pace: LogPace::default(),
            states_bytes: options.states_bytes,
            states: RefCell::default(),
        })))
    }

    /// Opens the log of a partition in `topics/<topic>-<partition>`, creates it if it is new, and recovers it otherwise.
    ///
    /// Order   `fold` is restored to the state at the log end before this returns.
    /// Errors  `Missing`: created before and gone now, or its directory names another topic: never recreated empty. For a log
    ///         that no checkpoint knows a directory of another topic is no error: it is moved to `stray/`, and the log is new.
    pub async fn open_log(
        &self,
        identity: LogIdentity,
        options: LogOptions,
        fold: Rc<RefCell<dyn Fold>>,
        now: Timestamp,
    ) -> Result<(Log<D, E>, RecoveryReport), OpenError> {
        self.open_log_under(LeaderEpoch(i32::MAX), identity, options, fold, now).await
    }

    /// The same where the metadata says that `newest` is the newest leader epoch of the partition: a later one on disk is not
    /// believed, for neither the file of epochs nor that field of a batch has a checksum.
    pub async fn open_log_under(
        &self,
        newest: LeaderEpoch,
        identity: LogIdentity,
        options: LogOptions,
        fold: Rc<RefCell<dyn Fold>>,
        now: Timestamp,
    ) -> Result<(Log<D, E>, RecoveryReport), OpenError> {
        let name = identity.to_string();
        let opening = Opening::begin(&self.0, identity.topic_partition())?;
        let place = Place { parent: TOPICS_DIRECTORY, name, has_metadata: true, newest };
        let opened = self.0.open_in(place, identity, options, fold, now).await;
        drop(opening);
        opened
    }

    /// Waits until a log whose acknowledgements do not wait for a sync has been written to.
    pub async fn has_unsynced(&self) {
        let shared = &self.0.shared;
        let has_some = || (!shared.unsynced.borrow().is_empty()).then_some(());
        shared.wrote.wait_for(has_some).await;
    }

    /// Syncs what was written to logs whose acknowledgements do not wait for it (`write.caching`), each in a task of its own.
    /// Call it as often as such a log may be behind.
    pub fn sync_written(&self) {
        self.0.shared.sync_written();
    }

    /// Opens a log in a directory of its own directly below the root, without `partition.metadata`: the metadata log.
    pub async fn open_log_at(
        &self,
        directory: &str,
        identity: LogIdentity,
        options: LogOptions,
        fold: Rc<RefCell<dyn Fold>>,
        now: Timestamp,
    ) -> Result<(Log<D, E>, RecoveryReport), OpenError> {
        let opening = Opening::begin(&self.0, identity.topic_partition())?;
        let (parent, name, newest) = ("", directory.to_owned(), LeaderEpoch(i32::MAX));
        let place = Place { parent, name, has_metadata: false, newest };
        let opened = self.0.open_in(place, identity, options, fold, now).await;
        drop(opening);
        opened
    }

    /// Forgets a log that is in the checkpoint and not open, because its topic is gone.
    pub fn forget(&self, log: &TopicPartition) {
        if self.0.logs.borrow().contains_key(log) {
            return;
        }
        self.0.tried.borrow_mut().remove(log);
        self.0.prepared.borrow_mut().remove(log);
        self.0.half_made.borrow_mut().remove(log);
        self.0.unsettled.borrow_mut().remove(log);
        if self.0.entries.borrow_mut().remove(log).is_some() {
            self.0.shared.changed.set(true);
        }
    }

    /// Drops the entries of logs for which `owned` is false and that are not open here.
    ///
    /// Order   once every log that the metadata gives this shard has been opened or refused, and every shard has written
    ///         [`Store::checkpoint_both`]: until then an entry may be the only word of a log. Then write a checkpoint, and then
    ///         [`checkpoint::remove_vanished`].
    pub fn retain_entries(&self, owned: impl Fn(&TopicPartition) -> bool) {
        let logs = self.0.logs.borrow();
        let mut entries = self.0.entries.borrow_mut();
        let before = entries.len();
        entries.retain(|log, _| logs.contains_key(log) || owned(log));
        if entries.len() != before {
            self.0.shared.changed.set(true);
        }
    }

    /// Whether a checkpoint is worth writing now.
    #[must_use]
    pub fn checkpoint_due(&self, now: Timestamp) -> bool {
        let shared = &self.0.shared;
        shared.files.tell_time(now);
        if self.0.is_writing.get() || !shared.changed.get() {
            return false;
        }
        // A clock that jumps back must not put checkpoints off.
        let waited = self
            .0
            .checkpointed_at
            .get()
            .is_none_or(|at| now.0.abs_diff(at.0) >= CHECKPOINT_MS.unsigned_abs());
        waited || shared.bytes_since_checkpoint.get() >= CHECKPOINT_BYTES
    }

    /// Writes where every log is durable; lasting on return. Never on the way of an acknowledgement.
    pub async fn checkpoint(&self, now: Timestamp) -> Result<(), StoreError> {
        let inner = &self.0;
        inner.written.wait_for(|| (!inner.is_writing.get()).then_some(())).await;
        let mut writing = Writing::begin(inner);
        inner.checkpointed_at.set(Some(now));
        inner.shared.files.tell_time(now);
        let result = inner.write_checkpoint(now).await;
        writing.is_done = result.is_ok();
        if result.is_ok() {
            inner.write_states().await;
        }
        drop(writing);
        inner.remove_superseded_later(result?);
        Ok(())
    }

    /// [`Store::checkpoint`] into both copies: from here on the loss of either leaves one that knows all that this life found.
    ///
    /// Order   before another shard drops the entries of logs that moved here, and before its files go: a copy of an earlier
    ///         life may know an end below which nothing is left.
    pub async fn checkpoint_both(&self, now: Timestamp) -> Result<(), StoreError> {
        self.checkpoint(now).await?;
        if self.0.shared.mutant.lacks(Rule::OneCheckpointBeforeRemoval) {
            return Ok(());
        }
        self.checkpoint(now).await
    }

    /// Every known stretch of damage.
    #[must_use]
    pub fn damage(&self) -> Vec<DamageReport> {
        self.0.logs.borrow().values().flat_map(|log| log.damage()).collect()
    }

    /// The open log of that identity.
    #[must_use]
    pub fn log(&self, log: &TopicPartition) -> Option<Log<D, E>> {
        self.0.logs.borrow().get(log).cloned().map(Log)
    }

    /// Every open log.
    #[must_use]
    pub fn logs(&self) -> Vec<Log<D, E>> {
        self.0.logs.borrow().values().cloned().map(Log).collect()
    }

    /// Work done and memory held.
    #[must_use]
    pub fn counters(&self) -> StoreCounters {
        let shared = &self.0.shared;
        StoreCounters {
            reads: shared.counters.reads.get(),
            read_bytes: shared.counters.read_bytes.get(),
            io_errors: shared.counters.io_errors.get(),
            writes: shared.counters.writes.get(),
            written_bytes: shared.counters.written_bytes.get(),
            syncs: shared.counters.syncs.get(),
            journal_sets: shared.counters.journal.sets.get(),
            journal_groups: shared.counters.journal.groups.get(),
            journal_written_bytes: shared.counters.journal.written_bytes.get(),
            journal_settles: shared.counters.journal.settles.get(),
            journal_behind_bytes: shared.counters.journal.behind_bytes.get(),
            unsynced_bytes: shared.pending_bytes.get(),
            tail_cache_bytes: shared.tail_cache.bytes(),
            read_cache_bytes: shared.read_cache.bytes(),
            log_count: self.0.logs.borrow().len(),
        }
    }
}

impl<D: Disk, E: Executor> Log<D, E> {
    /// Known damage of this log.
    #[must_use]
    pub fn damage(&self) -> Vec<DamageReport> {
        self.0.damage()
    }
}

/// Keeps others from writing a checkpoint at the same time, until it is dropped, whatever way that comes: one that is given
/// up, or panics, must not be waited for.
struct Writing<'a, D: Disk, E: Executor> {
    inner: &'a StoreInner<D, E>,
    is_done: bool,
}

impl<'a, D: Disk, E: Executor> Writing<'a, D, E> {
    fn begin(inner: &'a StoreInner<D, E>) -> Self {
        inner.is_writing.set(true);
        Self { inner, is_done: false }
    }
}

impl<D: Disk, E: Executor> Drop for Writing<'_, D, E> {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.shared.changed.set(true);
        }
        self.inner.is_writing.set(false);
        self.inner.written.notify();
    }
}

/// What a checkpoint is to say of a log; `None` where it is closed and keeps what it said before.
async fn flushed<D: Disk, E: Executor>(
    log: &Rc<LogInner<D, E>>,
    sequence: u64,
) -> Option<Result<CheckpointEntry, StoreError>> {
    if log.is_closed() {
        return None;
    }
    // The entry first, then the epochs: the file may know more than the entry, never less.
    let entry = log.checkpoint_entry(sequence);
    Some(log.flush_epochs().await.map(|()| entry))
}

/// Logs whose leader epochs could not be written for a checkpoint.
#[derive(Debug, Default)]
struct Unflushed {
    count: u64,
    /// The last one's.
    error: Option<StoreError>,
    /// Another attempt may succeed: not every one of them has failed for good.
    may_pass: bool,
}

impl Unflushed {
    fn note(&mut self, failure: Option<LogFailure>, error: StoreError) {
        self.count += 1;
        self.may_pass |= failure.is_none_or(|failure| failure.is_passing());
        self.error = Some(error);
    }
}

/// Where a log's directory is.
struct Place {
    parent: &'static str,
    name: String,
    has_metadata: bool,
    /// The newest leader epoch that its batches can have.
    newest: LeaderEpoch,
}

/// What is there of a log.
enum Found {
    Files(Looked),
    Nothing,
}

impl<D: Disk, E: Executor> StoreInner<D, E> {
    async fn open_in(
        &self,
        place: Place,
        identity: LogIdentity,
        options: LogOptions,
        fold: Rc<RefCell<dyn Fold>>,
        now: Timestamp,
    ) -> Result<(Log<D, E>, RecoveryReport), OpenError> {
        let log = identity.topic_partition();
        // A log that was open before in this life is known better than its checkpoint at the start.
        let known = self.entries.borrow().get(&log).copied();
        let entry = known.into_iter().chain(self.checkpoints.get(&log).copied());
        let entry = entry.max_by_key(|entry| entry.sequence);
        let is_first = self.tried.borrow_mut().insert(log);
        if let Some(entry) = entry {
            // From here on this shard answers for the log, whatever becomes of opening it.
            self.entries.borrow_mut().insert(log, entry);
        }
        let key = LogKey(self.next_key.replace(self.next_key.get() + 1));
        let path = small_file::join(place.parent, &place.name);
        let start = if is_first { self.start } else { StartKind::Unclean };
        let found = self.find(&place, &path, &identity, entry, start).await?;
        let recovered = match found {
            Found::Nothing => {
                self.create(&place, &path, identity.topic_id).await?;
                fold.borrow_mut().restore(&[]);
                let report = RecoveryReport { is_new: true, ..RecoveryReport::default() };
                Recovered::empty(Offset::ZERO, now, report)
            }
            Found::Files(looked) => {
                if entry.is_none() && place.has_metadata && !self.is_prepared(&log) {
                    // Made, perhaps just before a crash, and never opened: its name may not last, and records are going to.
                    self.make_lasting(&identity).await?;
                }
                let recovery = Recovery {
                    shared: &self.shared,
                    key,
                    identity: &identity,
                    directory: &path,
                    entry,
                    start,
                    options,
                    fold: &fold,
                    now,
                    newest_epoch: place.newest,
                    looked: &looked,
                    state: self.checkpoints.producer_state(&log),
                };
                recovery.run().await?
            }
        };
        let report = recovered.report.clone();
        let to_read_again = self.shared.bytes_since_states.get() + report.bytes_read;
        self.shared.bytes_since_states.set(to_read_again);
        let unindexed = recovered.unindexed.clone();
        let inner = self.assemble(key, identity, path, options, fold, recovered);
        self.prepared.borrow_mut().remove(&log);
        self.half_made.borrow_mut().remove(&log);
        self.settle(log, &inner);
        self.logs.borrow_mut().insert(log, inner.clone());
        self.shared.changed.set(true);
        inner.seal_if_due();
        inner.rebuild_later(unindexed);
        Ok((Log(inner), report))
    }

    /// Looks for the log's directory, and makes sure that it is this log's.
    async fn find(
        &self,
        place: &Place,
        path: &str,
        identity: &LogIdentity,
        entry: Option<CheckpointEntry>,
        start: StartKind,
    ) -> Result<Found, OpenError> {
        let disk = &self.shared.disk;
        let choose = move |entries: &[PathEntry]| look::choose(entries, entry.as_ref(), start);
        let mut looked = match disk.look(path, choose).await {
            Ok(look) => Looked::from(look),
            Err(DiskError::NotFound) if entry.is_some_and(|entry| entry.created) => {
                return Err(OpenError::Missing { path: path.to_owned() });
            }
            Err(DiskError::NotFound) => return Ok(Found::Nothing),
            Err(error) => return Err(OpenError::Io { path: path.to_owned(), error }),
        };
        let misplaced = looked.take_misplaced(entry.as_ref()).map_err(|entry| OpenError::Io {
            path: small_file::join(path, &entry.name),
            error: DiskError::NotAFile { found: entry.kind },
        })?;
        for PathEntry { name, .. } in misplaced {
            let path_of = small_file::join(path, &name);
            small_file::move_odd_aside(disk, path, &name).await.at(&path_of)?;
        }
        if !place.has_metadata {
            // Empty though the checkpoint knows records: for recovery to refuse.
            let is_new = looked.entries.is_empty() && entry.is_none();
            return Ok(if is_new { Found::Nothing } else { Found::Files(looked) });
        }
        let metadata = looked.read(disk, path, PARTITION_METADATA_FILE, META_BYTES_MAX).await;
        match metadata.at(path)?.and_then(|bytes| directory::decode_topic_id(&bytes)) {
            Some(id) if id == identity.topic_id => Ok(Found::Files(looked)),
            None if entry.is_some() => {
                // The checkpoint knows the log by its id: only the small file is damaged.
                tracing::warn!(%path, "{PARTITION_METADATA_FILE} damaged: written again");
                self.write_metadata(path, identity.topic_id).await?;
                Ok(Found::Files(looked))
            }
            None if looked.entries.iter().all(|file| !file.name.ends_with(".log")) => {
                Ok(Found::Nothing)
            }
            Some(other) if entry.is_some_and(|entry| entry.created) => {
                // The small file has no checksum, and the checkpoint has: this log was here.
                tracing::error!(
                    %path, says = %other, expected = %identity.topic_id,
                    "{PARTITION_METADATA_FILE} names another topic than the checkpoint: log not opened"
                );
                Err(OpenError::Missing { path: path.to_owned() })
            }
            other => {
                directory::move_to_stray(disk, &place.name, other).await?;
                Ok(Found::Nothing)
            }
        }
    }

    /// Makes an empty log's directory; lasting on return.
    async fn create(&self, place: &Place, path: &str, topic_id: TopicId) -> Result<(), StoreError> {
        let disk = &self.shared.disk;
        small_file::ensure_directory(disk, place.parent, &place.name).await.at(path)?;
        if place.has_metadata {
            self.write_metadata(path, topic_id).await?;
        }
        Ok(())
    }

    async fn write_metadata(&self, path: &str, topic_id: TopicId) -> Result<(), StoreError> {
        let contents = directory::encode_partition_metadata(topic_id);
        small_file::replace(&self.shared.disk, path, PARTITION_METADATA_FILE, &contents)
            .await
            .at(path)
    }

    fn assemble(
        &self,
        key: LogKey,
        identity: LogIdentity,
        path: String,
        options: LogOptions,
        fold: Rc<RefCell<dyn Fold>>,
        recovered: Recovered<D>,
    ) -> Rc<LogInner<D, E>> {
        let end = recovered.end;
        let ends = Ends::recovered(recovered.log_start, end.offset, options.safe_end);
        Rc::new_cyclic(|this| LogInner {
            this: this.clone(),
            shared: self.shared.clone(),
            key,
            identity,
            directory: path.into(),
            fold,
            ends: Cell::new(ends),
            high_watermark: Cell::new(recovered.high_watermark),
            checkpointed_high_watermark: Cell::new(recovered.high_watermark),
            // Nothing is known to be written yet in this life: the first checkpoint says so.
            checkpointed_log_start: Cell::new(Offset(-1)),
            checkpointed_segment: Cell::new(Offset(-1)),
            checkpointed_end: Cell::new(Offset(-1)),
            options: Cell::new(options),
            failure: Cell::new(None),
            is_closing: Cell::new(false),
            busy_count: Cell::new(0),
            flushing_epochs: Cell::new(false),
            pending_counted: Cell::new(0),
            tail: self.shared.tail_cache.log_tail(end.offset, recovered.boundary),
            state: RefCell::new(LogState {
                segments: recovered.segments,
                end,
                written_at: end,
                durable_at: end,
                in_file_at: end,
                settled_at: end,
                groups: std::collections::VecDeque::new(),
                epochs: recovered.epochs,
                epochs_changed: recovered.epochs_changed,
                epoch_begun: false,
                damage: if self.shared.mutant.lacks(Rule::DamageNotListed) {
                    Vec::new()
                } else {
                    recovered.damage
                },
                sealing: false,
                seal_backoff: SealBackoff::default(),
                snapshot_at: recovered.snapshot_at,
                superseded: recovered.superseded,
                left: recovered.left,
                tidy_at: recovered.tidy_at,
            }),
            lane: Lane::default(),
            sync_asked: Cell::new(Offset::ZERO),
            is_unsynced: Cell::new(false),
            moved: Event::default(),
            listener: RefCell::new(None),
        })
    }

    /// Returns the logs that have snapshots to remove now, and where recovery of each begins at the earliest.
    async fn write_checkpoint(
        &self,
        now: Timestamp,
    ) -> Result<Vec<(Rc<LogInner<D, E>>, Offset)>, StoreError> {
        let sequence = self.sequence.get() + 1;
        self.sequence.set(sequence);
        self.shared.changed.set(false);
        self.shared.bytes_since_checkpoint.set(0);
        let logs: Vec<_> = self.logs.borrow().iter().map(|(id, log)| (*id, log.clone())).collect();
        let mut noted = Vec::with_capacity(logs.len());
        let mut unflushed = Unflushed::default();
        for some in logs.chunks(EPOCH_FLUSHES_MAX) {
            let flushed = join_all(some.iter().map(|(_, log)| flushed(log, sequence)).collect());
            for ((id, log), entry) in some.iter().zip(flushed.await) {
                match entry {
                    Some(Ok(entry)) => noted.push((*id, log.clone(), entry)),
                    Some(Err(error)) => unflushed.note(log.failure.get(), error),
                    None => {}
                }
            }
            self.shared.executor.yield_if_needed().await;
        }
        self.report_unflushed(unflushed, now);
        let mut entries = self.entries.borrow().clone();
        entries.extend(noted.iter().filter_map(|(id, _, entry)| {
            let is_open = self.logs.borrow().contains_key(id);
            is_open.then_some((*id, *entry))
        }));
        let file = CheckpointFile { sequence, entries: entries.into_values().collect() };
        checkpoint::write(&self.shared.disk, &self.name, self.copy.get(), &file).await?;
        self.copy.set(self.copy.get().other());
        let left_behind = noted.into_iter().filter_map(|(id, log, entry)| {
            // Not before it lasts: a log that is opened again goes by it, and does away with what a later log start needs no more.
            self.note_entry(id, entry);
            let end = log.note_checkpointed(&entry)?;
            Some((log, end))
        });
        Ok(left_behind.collect())
    }

    /// Says it once a while for all of them, and has the next checkpoint try again.
    fn report_unflushed(&self, unflushed: Unflushed, now: Timestamp) {
        let Unflushed { count, error: Some(error), may_pass } = unflushed else { return };
        if may_pass {
            self.shared.changed.set(true);
        }
        let cause = match &error {
            StoreError::Io { error, .. } => Some(error.clone()),
            StoreError::Recover { .. } | StoreError::Unsettled { .. } => None,
        };
        if matches!(cause, Some(DiskError::TooManyFiles { .. })) {
            self.shared.files.close_half();
        }
        if let Some(times) = self.epochs_pace.due(cause, now, count) {
            tracing::warn!(
                logs = count, times, %error,
                "leader epochs not written: the checkpoint keeps the old entries of these logs, the next one tries again"
            );
        }
    }

    /// Removes snapshots that no copy of the checkpoint can ask for, in the background: the next checkpoint and whoever waits for
    /// this one wait for no removal.
    fn remove_superseded_later(&self, logs: Vec<(Rc<LogInner<D, E>>, Offset)>) {
        if logs.is_empty() {
            return;
        }
        let remove = async move {
            for (log, end) in logs {
                log.remove_superseded(end).await;
            }
        };
        self.shared.executor.spawn(TaskClass::Background, Box::pin(remove));
    }

    /// Takes an entry over, unless its log was deleted while its epochs were written.
    fn note_entry(&self, id: TopicPartition, entry: CheckpointEntry) {
        if self.logs.borrow().contains_key(&id) {
            self.entries.borrow_mut().insert(id, entry);
        }
    }
}

/// Keeps a log from being opened twice at once.
struct Opening<'a, D: Disk, E: Executor> {
    store: &'a StoreInner<D, E>,
    log: TopicPartition,
}

impl<'a, D: Disk, E: Executor> Opening<'a, D, E> {
    fn begin(store: &'a StoreInner<D, E>, log: TopicPartition) -> Result<Self, OpenError> {
        let is_open = store.logs.borrow().contains_key(&log);
        if is_open || !store.opening.borrow_mut().insert(log) {
            let TopicPartition { topic_id, partition } = log;
            return Err(OpenError::AlreadyOpen { topic_id, partition });
        }
        Ok(Self { store, log })
    }
}

impl<D: Disk, E: Executor> Drop for Opening<'_, D, E> {
    fn drop(&mut self) {
        self.store.opening.borrow_mut().remove(&self.log);
    }
}
