//! The logs of a core follow the image: opened, given new rules, deleted.
//!
//! Owns the way from an image to open logs and back. A partition that cannot be opened stays offline with its reason, and the core
//! serves the rest. Nothing is deleted because metadata is missing: only a topic that an image has dropped is.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Topic, TopicSettings};
use commitlog::{
    BLOCK_BYTES, JournalOptions, LogIdentity, LogOptions, OpenError, RoomAhead, STATES_BYTES,
    SafeEnd, Store, StoreOptions,
};
use partition::{EndReason, Producers, ProducersOptions};
use record::{LeaderEpoch, PartitionIndex, TopicId, TopicPartition};
use wire::BufferPool;

use crate::calls::{CoreStop, ImageChange};
use crate::config::JournalConfig;
use crate::drivers::admission::{BatchRules, Workspaces};
use crate::drivers::partition::{PartitionDriver, PartitionParts};
use crate::drivers::recovery::report_recovery;
use crate::fetch_sessions::{FetchSessions, SessionLimits};
use crate::log_pace::LogPace;
use crate::memory::MemoryBudget;
use crate::mesh_call::{Caller, Message};
use crate::metrics::CoreMetrics;
use crate::mutant::Rule;
use crate::node_state::NodeState;
use crate::platform::{Mesh, Platform};
use crate::shard::disk_floor::DiskSpace;
use crate::shard::handover::HandoverPace;
use crate::shard::lines::Lines;
use crate::shard::listening::Listening;
use crate::shard::node_settings::NodeSettings;
use crate::shard::resuming::Offline;
use crate::shard::scrubbing::SCRUB_LOG_INTERVAL;
use crate::shard::{NO_COORDINATOR_LOG_INTERVAL, Shard, producers};
use crate::sync::{Event, Flag, join};

/// Read buffers that one core keeps for its connections' next large frames.
const READ_BUFFER_BYTES: usize = 16 << 20;

/// At most one line in this time about checkpoints that cannot be written: one is tried each second.
const CHECKPOINT_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Memory of a core for large answers to requests of a few bytes: a dozen of all metadata of ten thousand partitions.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Files of a journal: one is written, one is full and waits, one is being settled, one is free.
const JOURNAL_FILES: u32 = 4;
/// A log's segment takes what the journal has of it in pieces of this size: sixteen blocks are one transfer like any.
const JOURNAL_SETTLE_BYTES: u64 = 64 << 10;
/// Groups under write caching alone that make a set: one would be written twice, and has no sync to share.
const JOURNAL_CACHED_COMPANY_MIN: usize = 2;

/// Logs that are opened side by side.
const OPENS_MAX: usize = 16;

/// Images that are being taken, each with logs to open and to delete.
#[derive(Debug, Default)]
pub(super) struct Openings {
    count: Cell<usize>,
    /// No log is opened any more.
    is_closed: Cell<bool>,
    ended: Rc<Event>,
}

impl Openings {
    /// Lets no more logs be opened, and waits for those that are.
    async fn close(&self) {
        self.is_closed.set(true);
        while self.count.get() > 0 {
            self.ended.listen().await;
        }
    }
}

/// An image that is being taken, until dropped.
struct Opening<'a>(&'a Openings);

impl<'a> Opening<'a> {
    fn begin(openings: &'a Openings) -> Self {
        openings.count.set(openings.count.get() + 1);
        Self(openings)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.ended.notify();
    }
}

/// A log to be opened on this core.
struct Wanted {
    topic: Arc<Topic>,
    index: PartitionIndex,
    settings: TopicSettings,
    epoch: LeaderEpoch,
}

/// How the journal of a core is made in this life.
fn journal_options<P: Platform>(platform: &P, config: JournalConfig) -> JournalOptions {
    let mut ring = [0; 8];
    platform.random(&mut ring);
    let file_bytes = config.bytes / u64::from(JOURNAL_FILES);
    JournalOptions {
        file_bytes: file_bytes - file_bytes % BLOCK_BYTES as u64,
        file_count: JOURNAL_FILES,
        ring: u64::from_be_bytes(ring),
        group_bytes_max: config.group_bytes_max,
        company_min: config.groups_min,
        cached_company_min: JOURNAL_CACHED_COMPANY_MIN,
        sets_before: config.sets_before,
        settle_bytes: JOURNAL_SETTLE_BYTES,
        // Memory of small groups is several times their bytes, and no more than the journal's size in any case.
        behind_bytes_max: config.bytes,
    }
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// Opens the logs of every partition that lives on this core. Errors: the core cannot serve at all.
    pub(super) async fn open(
        platform: P,
        caller: Caller<P, M>,
        state: Arc<NodeState>,
        listening: Listening<P>,
    ) -> Result<Rc<Self>, String> {
        let options = StoreOptions {
            name: caller.index().0.to_string(),
            checkpoints: Arc::clone(&state.checkpoints),
            start: state.start,
            sequence_base: state.sequence_base,
            tail_cache_bytes: state.config.tail_cache_bytes,
            read_cache_bytes: state.config.read_cache_bytes,
            open_files_max: state.open_files_max,
            room_ahead: RoomAhead::default(),
            states_bytes: STATES_BYTES,
            journal: state.config.journal.map(|journal| journal_options(&platform, journal)),
            mutant: state.mutant.log,
        };
        let store = Store::open(platform.disk(), platform.clone(), options)
            .await
            .map_err(|error| error.to_string())?;
        let (image, opened_at) = (Arc::clone(&state.image), platform.monotonic());
        let mutant = state.mutant;
        let request_memory = MemoryBudget::new(state.config.request_memory_bytes);
        let fetch_memory = MemoryBudget::new(state.config.fetch_memory_bytes);
        let listing_memory = MemoryBudget::new(producers::listing_bytes(&state.config));
        let session_limits =
            SessionLimits::of_core(state.config.fetch_session_slots, state.shard_count);
        let shard = Rc::new(Self {
            platform,
            caller,
            image: RefCell::new(Arc::clone(&image)),
            settings: Cell::new(NodeSettings::of(&state, &image)),
            state,
            store,
            partitions: RefCell::default(),
            offline: RefCell::default(),
            watched: Rc::default(),
            producer_ids: Rc::default(),
            buffers: RefCell::new(BufferPool::new(READ_BUFFER_BYTES)),
            request_memory,
            fetch_memory,
            listing_memory,
            answer_memory: MemoryBudget::new(ANSWER_BYTES_MAX),
            fetch_sessions: RefCell::new(FetchSessions::new(session_limits)),
            workspaces: Workspaces::default(),
            append_lines: Lines::new(mutant),
            check_lines: Lines::new(mutant),
            metrics: CoreMetrics::default(),
            opening: Openings::default(),
            stopping: Flag::default(),
            ended: Flag::default(),
            listening,
            disk_space: DiskSpace::default(),
            producers_swept_at: Cell::new(opened_at),
            connections_swept_at: Cell::new(opened_at),
            handover_pace: HandoverPace::default(),
            bad_input: RefCell::default(),
            no_coordinator_pace: LogPace::new(NO_COORDINATOR_LOG_INTERVAL),
            checkpoint_pace: LogPace::new(CHECKPOINT_LOG_INTERVAL),
            scrub_pace: LogPace::new(SCRUB_LOG_INTERVAL),
        });
        let wanted = image.topics().flat_map(|topic| shard.wanted_of(topic));
        let wanted: Vec<Wanted> = wanted.collect();
        shard.open_all(wanted).await;
        shard.write_checkpoint().await;
        Ok(shard)
    }

    /// Drops checkpoint entries of partitions that live elsewhere now. Order: their new cores have opened them and settled: an entry
    /// that went earlier could be the only word of a log.
    pub(super) async fn forget_others(&self) {
        let image = self.image();
        self.store.retain_entries(|partition| {
            let topic = image.topic_by_id(partition.topic_id);
            let found = topic.and_then(|topic| topic.partition(partition.partition));
            found.is_some_and(|found| found.shard(self.state.shard_count) == self.index())
        });
        self.write_checkpoint().await;
    }

    pub(super) async fn write_checkpoint(&self) {
        if let Err(error) = self.store.checkpoint(self.platform.now()).await
            && let Some(unlogged) = self.checkpoint_pace.due(self.platform.monotonic())
        {
            tracing::warn!(%error, unlogged, "checkpoint not written; the next start reads more");
        }
    }

    /// How many partitions are served here.
    pub(super) fn partition_count(&self) -> usize {
        self.partitions.borrow().len()
    }

    /// Takes a new image. A stop waits for it, and opens nothing of it any more: the next start does.
    pub(super) async fn apply(&self, change: &ImageChange) {
        let _opening = Opening::begin(&self.opening);
        *self.image.borrow_mut() = Arc::clone(&change.image);
        self.take_node_settings();
        let mut wanted = Vec::new();
        for topic_id in change.topics.iter() {
            match change.image.topic_by_id(*topic_id) {
                Some(topic) => wanted.extend(self.wanted_of(topic)),
                None => self.delete_topic(*topic_id).await,
            }
            self.platform.yield_if_needed().await;
        }
        self.open_all(wanted).await;
    }

    /// Opens a log that could not be opened before, or was let go of, by the settings of now.
    pub(super) async fn open_again(&self, topic: &Arc<Topic>, index: PartitionIndex) {
        let Some(found) = topic.partition(index) else { return };
        let _opening = Opening::begin(&self.opening);
        let (settings, epoch) = (self.settings_of(topic), found.leader_epoch);
        let topic = Arc::clone(topic);
        let partition = TopicPartition { topic_id: topic.id, partition: index };
        self.open_all(vec![Wanted { topic, index, settings, epoch }]).await;
        // They may have changed while it was opened, when there was no log to tell.
        if let Some(topic) = self.image().topic_by_id(partition.topic_id)
            && let Some(driver) = self.partitions.borrow().get(&partition)
        {
            give_settings(driver, &self.settings_of(topic));
        }
    }

    /// What is to be opened of a topic on this core; what is open already is told of new settings.
    fn wanted_of(&self, topic: &Arc<Topic>) -> Vec<Wanted> {
        let settings = self.settings_of(topic);
        let mut wanted = Vec::new();
        for (index, found) in topic.indexed() {
            if found.shard(self.state.shard_count) != self.index() {
                continue;
            }
            let partition = TopicPartition { topic_id: topic.id, partition: index };
            match self.partitions.borrow().get(&partition) {
                Some(driver) => give_settings(driver, &settings),
                // What is offline is not tried again here: what can come back by itself does (resuming.rs).
                None if self.offline.borrow().contains_key(&partition) => {}
                None => {
                    let (topic, epoch) = (Arc::clone(topic), found.leader_epoch);
                    wanted.push(Wanted { topic, index, settings, epoch });
                }
            }
        }
        wanted
    }

    /// Opens logs, several at a time: each waits for the disk far more than for the core.
    async fn open_all(&self, wanted: Vec<Wanted>) {
        self.prepare(&wanted).await;
        let next = RefCell::new(wanted.iter());
        // Each takes the next one as soon as it has opened its last: no log waits for the slowest of those before it.
        let open_in_turn = || async {
            while !self.opening.is_closed.get() {
                let Some(wanted) = next.borrow_mut().next() else { return };
                self.open_one(wanted).await;
            }
        };
        let opening = (0..OPENS_MAX.min(wanted.len())).map(|_| {
            let open: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(open_in_turn());
            open
        });
        join(opening.collect()).await;
    }

    /// Makes the directories of new logs, many together.
    async fn prepare(&self, wanted: &[Wanted]) {
        let identity = |wanted: &Wanted| identity_of(&wanted.topic, wanted.index);
        let identities: Vec<LogIdentity> = wanted.iter().map(identity).collect();
        if let Err(error) = self.store.prepare(identities.iter()).await {
            // Opening each says which of them it is, and why.
            tracing::warn!(%error, "directories of new logs not made together");
        }
    }

    async fn open_one(&self, wanted: &Wanted) {
        let Wanted { topic, index, .. } = wanted;
        let partition = TopicPartition { topic_id: topic.id, partition: *index };
        match self.open_partition(wanted).await {
            Ok(driver) => {
                self.offline.borrow_mut().remove(&partition);
                self.partitions.borrow_mut().insert(partition, driver);
            }
            Err(error) => {
                let (detail, is_passing) = (error.to_string(), error.is_passing());
                let offline = Offline { log: identity_of(topic, *index), detail, is_passing };
                let before = self.offline.borrow_mut().insert(partition, offline.clone());
                // Tried again every second: said once.
                if before.is_none_or(|before| before.detail != offline.detail) {
                    let detail = offline.detail;
                    tracing::error!(topic = %topic.name, partition = index.0, "offline: {detail}");
                }
            }
        }
    }

    pub(super) fn settings_of(&self, topic: &Topic) -> TopicSettings {
        let (image, state) = (self.image.borrow(), &self.state);
        image.topic_settings(state.node_id, topic, &state.broker_configs)
    }

    async fn open_partition(&self, wanted: &Wanted) -> Result<Rc<PartitionDriver<P>>, OpenError> {
        let Wanted { topic, index, settings, epoch } = wanted;
        let remembered = ProducersOptions {
            producers_max: self.state.config.producer_count_max,
            expiration_ms: self.settings.get().producer_id_expiration_ms,
            mutant: self.state.mutant.leader,
        };
        let producers = Rc::new(RefCell::new(Producers::new(remembered)));
        let identity = identity_of(topic, *index);
        let fold = Rc::clone(&producers);
        let (log, report) = self
            .store
            .open_log_under(*epoch, identity, log_options(settings), fold, self.platform.now())
            .await?;
        if self.state.mutant.lacks(Rule::WindowSurvivesRestart) {
            *producers.borrow_mut() = Producers::new(remembered);
        }
        let name: Rc<str> = format!("{}-{index}", topic.name).into();
        report_recovery(&name, &report);
        Ok(PartitionDriver::lead(PartitionParts {
            platform: self.platform.clone(),
            partition: TopicPartition { topic_id: topic.id, partition: *index },
            name,
            log,
            producers,
            epoch: *epoch,
            rules: BatchRules::of(settings),
            workspaces: self.workspaces.clone(),
            watched: Rc::clone(&self.watched),
            mutant: self.state.mutant,
        }))
    }

    /// Deletes the logs of a topic. One at a time, each looked for anew: what is served may stop meanwhile and be offline, and what
    /// is let go of may be served again.
    pub(super) async fn delete_topic(&self, topic_id: TopicId) {
        loop {
            let served = first_of(&mut self.partitions.borrow_mut(), topic_id);
            if let Some(driver) = served {
                self.delete_served(&driver).await;
                continue;
            }
            let offline = first_of(&mut self.offline.borrow_mut(), topic_id);
            let Some(offline) = offline else { return };
            self.delete_offline(&offline.log).await;
        }
    }

    async fn delete_served(&self, driver: &PartitionDriver<P>) {
        driver.end(EndReason::Deleted);
        let deleted = self.store.delete_log(driver.log().clone()).await;
        if let Err(error) = deleted {
            // The name stays taken on disk; the next start moves the directory to stray/.
            tracing::error!(partition = driver.name(), %error, "the files of a deleted partition stay");
        }
    }

    /// Deletes what could not be opened: where the disk was full, its files are the space that a deletion is to give back.
    async fn delete_offline(&self, log: &LogIdentity) {
        if let Err(error) = self.store.delete_unopened(log).await {
            tracing::error!(partition = %log, %error, "the files of a deleted partition stay until the next start");
        }
    }

    /// Ends every leadership and closes the logs, so that the next start finds everything in order. Order: after
    /// [`Shard::drain`] of every core. Where a log is not as its checkpoint says the next start must recover.
    pub(super) async fn stop(&self) -> CoreStop {
        self.stopping().raise();
        // A log that is opened after the others were closed would be closed by nobody, and called clean.
        self.opening.close().await;
        let drivers: Vec<_> =
            std::mem::take(&mut *self.partitions.borrow_mut()).into_values().collect();
        for driver in &drivers {
            driver.end(EndReason::ShuttingDown);
        }
        let closed = self.store.close(self.platform.now()).await.inspect_err(|error| {
            tracing::error!(%error, "logs not closed in order; the next start recovers");
        });
        self.ended.raise();
        CoreStop { unclosed: self.store.unclosed(), error: closed.err() }
    }
}

/// Takes the first partition of a topic out.
fn first_of<T>(map: &mut BTreeMap<TopicPartition, T>, topic_id: TopicId) -> Option<T> {
    let lowest = TopicPartition { topic_id, partition: PartitionIndex(i32::MIN) };
    let (first, _) = map.range(lowest..).next()?;
    let first = Some(*first).filter(|partition| partition.topic_id == topic_id)?;
    map.remove(&first)
}

fn identity_of(topic: &Topic, index: PartitionIndex) -> LogIdentity {
    LogIdentity { topic: Rc::from(&*topic.name), topic_id: topic.id, partition: index }
}

fn give_settings<P: Platform>(driver: &PartitionDriver<P>, settings: &TopicSettings) {
    driver.log().set_options(log_options(settings));
    driver.set_rules(BatchRules::of(settings));
}

fn log_options(settings: &TopicSettings) -> LogOptions {
    LogOptions {
        segment_bytes: settings.segment_bytes,
        segment_ms: settings.segment_ms,
        segment_jitter_ms: settings.segment_jitter_ms,
        index_interval_bytes: settings.index_interval_bytes,
        safe_end: if settings.write_caching { SafeEnd::Written } else { SafeEnd::Durable },
    }
}
