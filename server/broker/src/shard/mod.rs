//! One data core: its partitions, its connections, its place in the node.
//!
//! Owns the drivers of the partitions that live here, the image this core goes by, and the counters. Nothing else touches them:
//! other cores ask through the mesh. It never decides who leads or what exists; images say so.

mod disk_floor;
mod epoch_ends;
mod fetching;
mod forwarding;
mod handover;
mod lines;
mod listening;
mod log_sizes;
mod logs;
mod node_settings;
mod offsets;
mod partition_traffic;
mod producer_ids;
mod producers;
mod producing;
mod resuming;
mod run;
mod scrubbing;
mod serving;
mod topics;
mod trimming;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Image, Topic, excerpt};
use commitlog::{LocalTask, Store, TaskClass};
use futures_lite::future::or;
use record::{ProducerId, ShardIndex, TopicId, TopicPartition};
use wire::{BufferPool, FrameLimits};

pub use fetching::FetchPlan;
pub(crate) use listening::Arrival;
pub use log_sizes::Cores;
pub use producing::ProduceUnderWay;
pub use run::run_data_core;

use crate::context::RequestContext;
use crate::drivers::admission::Workspaces;
use crate::drivers::partition::PartitionDriver;
use crate::drivers::watched::Watched;
use crate::fetch_sessions::FetchSessions;
use crate::log_pace::LogPace;
use crate::memory::MemoryBudget;
use crate::mesh_call::{Caller, Message};
use crate::metrics::{CoreMetrics, Snapshot};
use crate::node_state::NodeState;
use crate::platform::{Mesh, MeshIndex, Platform};
use crate::shard::producer_ids::ProducerIds;
use crate::sync::{Flag, contained};

/// How often a core looks at its deadlines and checkpoints.
const TICK: Duration = Duration::from_millis(100);
/// How often idle producers are looked for.
const PRODUCER_SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How often silent connections are: the shortest time that one may be silent.
const CONNECTION_SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// At most one line in this time about clients that need a coordinator: they ask several times a second.
const NO_COORDINATOR_LOG_INTERVAL: Duration = Duration::from_secs(600);
/// At most one line about bad input in this time; the rest is counted.
const BAD_INPUT_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A data core.
pub struct Shard<P: Platform, M: Mesh<Message>> {
    platform: P,
    caller: Caller<P, M>,
    state: Arc<NodeState>,
    image: RefCell<Arc<Image>>,
    settings: Cell<node_settings::NodeSettings>,
    store: Store<P::Disk, P>,
    partitions: RefCell<BTreeMap<TopicPartition, Rc<PartitionDriver<P>>>>,
    /// Partitions of this core that cannot be served, and why.
    offline: RefCell<BTreeMap<TopicPartition, resuming::Offline>>,
    /// Partitions in which something waits.
    watched: Rc<Watched>,
    producer_ids: Rc<ProducerIds>,
    buffers: RefCell<BufferPool>,
    request_memory: Rc<MemoryBudget>,
    fetch_memory: Rc<MemoryBudget>,
    /// For lists of producers.
    listing_memory: Rc<MemoryBudget>,
    /// Large answers to requests of a few bytes, until they have left.
    answer_memory: Rc<MemoryBudget>,
    fetch_sessions: RefCell<FetchSessions>,
    workspaces: Workspaces,
    /// Where forwarded appends to a partition wait for those before them.
    append_lines: Rc<lines::Lines<TopicPartition>>,
    /// Where batches from another core wait to be checked.
    check_lines: Rc<lines::Lines<MeshIndex>>,
    metrics: CoreMetrics,
    opening: logs::Openings,
    stopping: Flag,
    /// Raised when the logs are closed: nothing is left to look after.
    ended: Flag,
    listening: listening::Listening<P>,
    disk_space: disk_floor::DiskSpace,
    /// Monotonic time of the last look for idle producers.
    producers_swept_at: Cell<Duration>,
    /// Monotonic time of the last look for silent connections.
    connections_swept_at: Cell<Duration>,
    handover_pace: handover::HandoverPace,
    bad_input: RefCell<BTreeMap<BadInputKind, LogPace>>,
    no_coordinator_pace: LogPace,
    checkpoint_pace: LogPace,
    scrub_pace: LogPace,
}

/// What a partition is on this core.
pub enum Owned<P: Platform> {
    /// Led here.
    Here(Rc<PartitionDriver<P>>),
    /// Belongs here and cannot be served, because.
    Offline(String),
    /// Not of this core: the image has moved on, or has not arrived.
    NotHere,
}

/// A topic as a request names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// By name.
    Name(&'a str),
    /// By id.
    Id(TopicId),
}

impl<'a> TopicRef<'a> {
    /// The field that counts in this version of the request.
    pub fn of(by_id: bool, name: &'a str, id: TopicId) -> Self {
        if by_id { Self::Id(id) } else { Self::Name(name) }
    }

    /// The topic, if it exists.
    pub fn find<'i>(&self, image: &'i Image) -> Option<&'i Arc<Topic>> {
        match self {
            Self::Name(name) => image.topic(name),
            Self::Id(id) => image.topic_by_id(*id),
        }
    }
}

impl From<ShardIndex> for MeshIndex {
    fn from(shard: ShardIndex) -> Self {
        Self(shard.0)
    }
}

/// What is wrong with the bytes of a connection: each kind is logged for itself, so that one does not hide the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BadInputKind {
    /// A TLS handshake.
    Tls,
    /// An HTTP request.
    Http,
    /// A size out of bounds.
    Frame,
    /// A header that is none, or names what is not served.
    Header,
    /// A body that is not what its header says.
    Body,
}

impl<P: Platform, M: Mesh<Message>> Shard<P, M> {
    /// This core.
    pub fn index(&self) -> ShardIndex {
        ShardIndex(self.caller.index().0)
    }

    /// The machine as this core sees it.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The way to other cores.
    pub fn caller(&self) -> &Caller<P, M> {
        &self.caller
    }

    /// The node.
    pub fn state(&self) -> &NodeState {
        &self.state
    }

    /// The image this core goes by.
    pub fn image(&self) -> Arc<Image> {
        Arc::clone(&self.image.borrow())
    }

    /// The counters of this core.
    pub fn metrics(&self) -> &CoreMetrics {
        &self.metrics
    }

    /// Raised when this core finishes what is under way and takes nothing new.
    pub fn stopping(&self) -> &Flag {
        &self.stopping
    }

    /// Read buffers of this core's connections.
    pub fn buffers(&self) -> &RefCell<BufferPool> {
        &self.buffers
    }

    /// Memory of large requests of this core's connections.
    pub(crate) fn request_memory(&self) -> &Rc<MemoryBudget> {
        &self.request_memory
    }

    pub(crate) fn answer_memory(&self) -> &Rc<MemoryBudget> {
        &self.answer_memory
    }

    /// The fetch sessions that were opened here.
    pub(crate) fn fetch_sessions(&self) -> &RefCell<FetchSessions> {
        &self.fetch_sessions
    }

    /// What a connection may send.
    pub fn frame_limits(&self) -> FrameLimits {
        FrameLimits {
            frame_bytes_max: usize::try_from(self.state.config.request_bytes_max)
                .unwrap_or(usize::MAX),
        }
    }

    /// At most so many bytes in one Fetch.
    pub fn fetch_bytes_max(&self) -> usize {
        usize::try_from(self.state.config.fetch_bytes_max).unwrap_or(usize::MAX)
    }

    /// The core that owns a partition; `None` where there is no such partition.
    pub fn owner_of(&self, partition: TopicPartition) -> Option<ShardIndex> {
        let image = self.image.borrow();
        let topic = image.topic_by_id(partition.topic_id)?;
        Some(topic.partition(partition.partition)?.shard(self.state.shard_count))
    }

    /// What a partition is on this core.
    pub fn owned(&self, partition: TopicPartition) -> Owned<P> {
        if let Some(driver) = self.partitions.borrow().get(&partition) {
            return Owned::Here(Rc::clone(driver));
        }
        match self.offline.borrow().get(&partition) {
            Some(offline) => Owned::Offline(offline.detail.clone()),
            None => Owned::NotHere,
        }
    }

    /// A producer id that nobody has.
    pub async fn next_producer_id(&self) -> Option<ProducerId> {
        self.producer_ids.next(&self.platform, &self.caller).await
    }

    /// Counts bytes that were no request, and says so in the log, but not for each.
    pub fn report_bad_input(&self, peer: SocketAddr, kind: BadInputKind, what: &str) {
        self.metrics.connections_violating.increment();
        let mut kinds = self.bad_input.borrow_mut();
        let pace = kinds.entry(kind).or_insert_with(|| LogPace::new(BAD_INPUT_LOG_INTERVAL));
        if let Some(unlogged) = pace.due(self.platform.monotonic()) {
            tracing::warn!(%peer, unlogged, "connection closed: {what}");
        }
    }

    /// Says in the log, but not for each, that somebody needs what is not built.
    pub(crate) fn report_no_coordinator(&self, context: &RequestContext, what: &str, key: &str) {
        if let Some(unlogged) = self.no_coordinator_pace.due(self.platform.monotonic()) {
            let (client, peer) = (context.client.as_deref().unwrap_or_default(), context.peer);
            let (client, key) = (excerpt(client), excerpt(key));
            tracing::warn!(%peer, client, key, unlogged, "{what} are not supported yet: the client is told that no coordinator is available, and goes on asking");
        }
    }

    /// The counters, with what is measured only when asked.
    pub(crate) fn metrics_snapshot(&self) -> Snapshot {
        let metrics = &self.metrics;
        let (busy, running) = self.platform.busy();
        metrics.busy.raise_to_time(busy);
        metrics.running.raise_to_time(running);
        metrics.connections.set(self.connection_count() as u64);
        metrics.partitions.set(self.partitions.borrow().len() as u64);
        let store = self.store.counters();
        metrics.request_memory_bytes.set(self.request_memory.taken_bytes() as u64);
        metrics.request_memory_waiters.set(self.request_memory.waiter_count() as u64);
        metrics.fetch_memory_bytes.set(self.fetch_memory.taken_bytes() as u64);
        let sessions = self.fetch_sessions.borrow();
        metrics.fetch_sessions.set(sessions.count() as u64);
        metrics.fetch_session_partitions.set(sessions.partition_count() as u64);
        metrics.fetch_session_evictions.raise_to(sessions.evictions());
        metrics.disk_reads.raise_to(store.reads);
        metrics.disk_read_bytes.raise_to(store.read_bytes);
        metrics.io_errors.raise_to(store.io_errors);
        metrics.disk_writes.raise_to(store.writes);
        metrics.disk_written_bytes.raise_to(store.written_bytes);
        metrics.syncs.raise_to(store.syncs);
        metrics.journal_behind_bytes.set(store.journal_behind_bytes);
        metrics.journal_groups.raise_to(store.journal_groups);
        metrics.journal_sets.raise_to(store.journal_sets);
        metrics.journal_settles.raise_to(store.journal_settles);
        metrics.journal_written_bytes.raise_to(store.journal_written_bytes);
        metrics.unsynced_bytes.set(store.unsynced_bytes);
        metrics.tail_cache_bytes.set(store.tail_cache_bytes as u64);
        metrics.read_cache_bytes.set(store.read_cache_bytes as u64);
        metrics.damaged_ranges.set(self.store.damage().len() as u64);
        let partitions = self.partitions.borrow();
        let failed = partitions.values().filter(|driver| driver.log().failure().is_some()).count();
        metrics.logs_failed.set((failed + self.offline.borrow().len()) as u64);
        let stalled = partitions.values().filter(|driver| driver.is_stalled()).count();
        metrics.logs_stalled.set(stalled as u64);
        let waiting: usize = partitions.values().map(|driver| driver.produce_waiter_count()).sum();
        metrics.produces_waiting.set(waiting as u64);
        let producers: usize = partitions.values().map(|driver| driver.producer_count()).sum();
        metrics.producers.set(producers as u64);
        metrics.mesh_calls.set(self.caller.work_under_way() as u64);
        metrics.mesh_full.raise_to(self.caller.full_count());
        metrics.panics.raise_to(self.platform.panic_count());
        metrics.snapshot(self.index().to_string())
    }

    /// Looks at deadlines until the core has ended, also while it stops: what is under way then has its deadlines too. Waits for
    /// nothing, the disk least of all.
    async fn tick(self: Rc<Self>) {
        while !self.ended.is_raised() {
            self.platform.sleep(TICK).await;
            let look = Rc::clone(&self).look_at_deadlines();
            // Contained: after a bug in one look the next one comes.
            contained(&self.platform, TaskClass::Background, look).await;
        }
    }

    /// What it costs an idle core is three timers: partitions are looked at while something waits in them.
    async fn look_at_deadlines(self: Rc<Self>) {
        let now = self.platform.monotonic();
        if now.saturating_sub(self.connections_swept_at.get()) >= CONNECTION_SWEEP_INTERVAL {
            self.connections_swept_at.set(now);
            self.end_silent_connections(now).await;
        }
        self.hurry_long_polls().await;
        for partition in self.watched.all() {
            match self.owned(partition) {
                Owned::Here(driver) => driver.tick(now),
                Owned::Offline(_) | Owned::NotHere => self.watched.forget(partition),
            }
            self.platform.yield_if_needed().await;
        }
        if now.saturating_sub(self.producers_swept_at.get()) >= PRODUCER_SWEEP_INTERVAL {
            self.producers_swept_at.set(now);
            self.expire_producers().await;
        }
    }

    async fn expire_producers(&self) {
        let drivers: Vec<_> = self.partitions.borrow().values().cloned().collect();
        for driver in drivers {
            driver.expire_producers(self.platform.now());
            self.platform.yield_if_needed().await;
        }
    }

    /// Looks at the free space of the disk until the core has ended.
    async fn watch_disk_space(self: Rc<Self>) {
        while !self.ended.is_raised() {
            let looking = Rc::clone(&self);
            let look = async move { looking.look_at_disk_space().await };
            contained(&self.platform, TaskClass::Background, look).await;
            self.platform.sleep(disk_floor::LOOK_INTERVAL).await;
        }
    }

    /// Writes checkpoints until the core stops, which writes the last.
    async fn write_checkpoints(self: Rc<Self>) {
        while !self.stopping.is_raised() {
            self.platform.sleep(TICK).await;
            if self.store.checkpoint_due(self.platform.now()) {
                let writing = Rc::clone(&self);
                let write = async move { writing.write_checkpoint().await };
                contained(&self.platform, TaskClass::Background, write).await;
            }
        }
    }

    /// Syncs what was written to topics with write caching until the core has ended: a stop syncs the rest. Sleeps while there is
    /// none.
    async fn sync_written(self: Rc<Self>) {
        let interval = self.state.config.write_caching_flush;
        while !self.ended.is_raised() {
            or(self.store.has_unsynced(), self.ended.raised()).await;
            self.platform.sleep(interval).await;
            let store = self.store.clone();
            // Contained: after a bug in one turn the next one comes.
            contained(&self.platform, TaskClass::Background, async move { store.sync_written() })
                .await;
        }
    }

    fn spawn_clockwork(self: &Rc<Self>) {
        let caller = self.caller.clone();
        let tasks: [LocalTask; 8] = [
            Box::pin(Rc::clone(self).tick()),
            Box::pin(Rc::clone(self).watch_disk_space()),
            Box::pin(Rc::clone(self).write_checkpoints()),
            Box::pin(Rc::clone(self).sync_written()),
            Box::pin(Rc::clone(self).keep_retention()),
            Box::pin(Rc::clone(self).keep_resuming()),
            Box::pin(Rc::clone(self).keep_scrubbing()),
            Box::pin(async move { caller.watch().await }),
        ];
        for task in tasks {
            self.platform.spawn(TaskClass::Background, task);
        }
    }
}
