//! The life of a node: open the directory, replay metadata, open the cores, listen, serve.
//!
//! Owns the order, which is the point of it:
//!
//! ```text
//! start  meta.properties · clean-stop marker consumed · checkpoints read · metadata snapshot read, the rest replayed
//!        all bind · node registered · unknown directories moved aside · all cores open their logs · all accept · ready
//! stop   see `stopping`
//! ```
//!
//! Nothing is served before everything is recovered (P15).

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Advertise, Bounds, LeaderEpochs, NodeRegistration};
use commitlog::checkpoint;
use commitlog::directory::{
    self, COORDINATOR_DIRECTORY, DataDirectory, DirectoryError, METADATA_SNAPSHOT_FILE,
};
use commitlog::{
    CheckpointMap, DiskError, JournalReport, LogFailure, OpenError, RoomAhead, STATES_BYTES,
    StartKind, Store, StoreError, StoreOptions, TaskClass,
};
use record::{NodeId, Offset, PartitionIndex, ShardIndex, TopicId, TopicPartition};

use crate::accept::accept_each;
use crate::admin::{self, Guests};
use crate::calls::{ListenAt, Reply, Request};
use crate::config::Config;
use crate::control::pages::AdminPages;
use crate::control::resuming::{open_log, replay};
use crate::control::stopping::Stopped;
use crate::control::{
    Asides, Changes, Control, Readiness, Standing, ask_all, changes, receive, serve_asides,
    serve_changes, snapshot,
};
use crate::drivers::recovery::report_recovery;
use crate::log_pace::LogPace;
use crate::mesh_call::{Caller, Message};
use crate::metrics::Replayed;
use crate::mutant::{Mutant, Rule};
use crate::node_state::NodeState;
use crate::platform::{Listener, Mesh, Platform};
use crate::sync::{Flag, beside, contained};

/// Memory for caches of the metadata log, which is read once.
const METADATA_CACHE_BYTES: usize = 1 << 20;
/// Segments of the metadata log that stay open.
const METADATA_FILES_MAX: usize = 16;
/// How often the metadata log's checkpoint is looked at.
const TICK: Duration = Duration::from_secs(1);
/// At most one line in this time about connections that the admin server cannot accept.
const ADMIN_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// What the control executor is started with.
#[derive(Debug)]
pub struct ControlOptions {
    /// The node's configuration.
    pub config: Arc<Config>,
    /// How many data cores there are.
    pub shard_count: u16,
    /// Segment files that the whole node may keep open: half of what the process may.
    pub open_files_max: usize,
    /// Client connections that open files allow the whole node; `max.connections` may be less.
    pub connections_max: usize,
    /// Monotonic time when the program began, for the `ready` line.
    pub started: Duration,
    /// The rule that is off, if any: only a simulator names one.
    pub mutant: Mutant,
}

/// The node serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its id.
    pub node_id: NodeId,
    /// Where clients connect: the first listener.
    pub kafka: SocketAddr,
    /// Every listener's address on core 0, in the order of the configuration.
    pub listeners: Vec<SocketAddr>,
    /// Where the admin server listens, if it does.
    pub admin: Option<SocketAddr>,
    /// Since the program began.
    pub elapsed: Duration,
}

/// Why a node does not serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartRefusal {
    /// The data directory is not what it must be.
    #[error("{0}")]
    Data(String),
    /// There is no room on disk for what a start or a stop notes.
    #[error("{0}: its file system is full; nothing is lost: free some space and start again")]
    DiskFull(String),
    /// An address cannot be bound.
    #[error("{0}")]
    Address(String),
    /// A core cannot serve.
    #[error("core {core}: {detail}")]
    Core {
        /// Which.
        core: u16,
        /// Why.
        detail: String,
    },
}

impl From<StoreError> for StartRefusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { path, error: DiskError::NoSpace } => Self::DiskFull(path),
            error => Self::Data(error.to_string()),
        }
    }
}

impl From<DirectoryError> for StartRefusal {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Store(error) => error.into(),
            error => Self::Data(error.to_string()),
        }
    }
}

impl From<OpenError> for StartRefusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Io { path, error: DiskError::NoSpace } => Self::DiskFull(path),
            // It is no topic's, and no topic is known without it.
            OpenError::Missing { path } => Self::Data(format!(
                "{path}: the metadata log was there before and is missing now; restore {COORDINATOR_DIRECTORY}/ from a copy: \
                 without it no topic is known"
            )),
            error => Self::Data(error.to_string()),
        }
    }
}

/// What was found in the data directory.
struct Recovered {
    directory: DataDirectory,
    checkpoints: Arc<CheckpointMap>,
}

/// Runs the node from start to stop. `stop` ends when the node shall; `ready` is told once, when it serves.
pub async fn run_control<P: Platform, M: Mesh<Message>>(
    platform: P,
    mesh: M,
    options: ControlOptions,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(&Ready),
) -> Result<Stopped, StartRefusal> {
    let caller = Caller::new(platform.clone(), mesh.clone());
    let (changes, asides) = (Changes::default(), Asides::default());
    let asked = (Rc::clone(&changes), Rc::clone(&asides));
    let receiving = receive(caller.clone(), mesh, asked);
    platform.spawn(TaskClass::Foreground, Box::pin(receiving));
    let watching = caller.clone();
    platform.spawn(TaskClass::Background, Box::pin(async move { watching.watch().await }));

    let begun = platform.monotonic();
    let since = |begun: Duration| millis(platform.monotonic().saturating_sub(begun));
    let (control, recovered) = match recover(&platform, &caller, &options).await {
        Ok(found) => found,
        Err(refusal) => {
            // The data cores wait for word from here, and the process for the data cores.
            ask_all(&caller, options.shard_count, || Request::Stop).await;
            return Err(refusal);
        }
    };
    control.report_recovered(&recovered, since(begun));
    let changing = serve_changes(Rc::clone(&control), Rc::clone(&changes));
    platform.spawn(TaskClass::Foreground, Box::pin(changing));
    let serving = serve_asides(Rc::clone(&control), Rc::clone(&asides));
    platform.spawn(TaskClass::Foreground, Box::pin(serving));
    let resuming = keep_resuming(Rc::clone(&control), Rc::clone(&changes));
    platform.spawn(TaskClass::Background, Box::pin(resuming));
    let served = serve_node(&control, &options, recovered, stop, ready).await;
    let stopped = control.stop(&changes, &asides).await;
    served?;
    stopped
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Opens the data directory and replays the metadata in it. Errors: nothing was changed, and nothing can be served.
async fn recover<P: Platform, M: Mesh<Message>>(
    platform: &P,
    caller: &Caller<P, M>,
    options: &ControlOptions,
) -> Result<(Rc<Control<P, M>>, Recovered), StartRefusal> {
    let directory = open_directory(platform, &options.config).await?;
    let (checkpoints, damaged) = CheckpointMap::load(&platform.disk()).await?;
    for copy in damaged {
        let consequence = if copy.has_other {
            "the other copy counts"
        } else {
            "no copy can be read: its logs are scanned from their beginning"
        };
        tracing::warn!("{}: {}; {consequence}", copy.path, copy.damage);
    }
    if checkpoints.is_empty() && !directory.is_new {
        tracing::warn!(
            "no checkpoint is there: every log is scanned from its beginning, and a topic's missing directory is not missed"
        );
    }
    let recovered = Recovered { directory, checkpoints: Arc::new(checkpoints) };
    let control = open_metadata(platform, caller.clone(), options, &recovered).await?;
    control.recover_journals(options, &recovered.checkpoints).await?;
    Ok((control, recovered))
}

async fn open_directory<P: Platform>(
    platform: &P,
    config: &Config,
) -> Result<DataDirectory, StartRefusal> {
    let new_id = || {
        let mut bytes = [0; 16];
        platform.random(&mut bytes);
        TopicId(bytes)
    };
    let new_ids = || directory::NewIds {
        cluster_id: new_id(),
        node_id: config.node_id,
        directory_id: new_id(),
    };
    Ok(directory::open_or_create(&platform.disk(), config.node_id, new_ids).await?)
}

/// Checkpoints of this start count over those of all starts before it.
fn sequence_base(directory: &DataDirectory) -> u64 {
    u64::from(directory.start_count) << 32
}

async fn open_metadata<P: Platform, M: Mesh<Message>>(
    platform: &P,
    caller: Caller<P, M>,
    options: &ControlOptions,
    recovered: &Recovered,
) -> Result<Rc<Control<P, M>>, StartRefusal> {
    let store = Store::open(
        platform.disk(),
        platform.clone(),
        StoreOptions {
            name: COORDINATOR_DIRECTORY.to_owned(),
            checkpoints: Arc::clone(&recovered.checkpoints),
            start: recovered.directory.start,
            sequence_base: sequence_base(&recovered.directory),
            tail_cache_bytes: METADATA_CACHE_BYTES,
            read_cache_bytes: METADATA_CACHE_BYTES,
            open_files_max: METADATA_FILES_MAX,
            room_ahead: RoomAhead::default(),
            states_bytes: STATES_BYTES,
            journal: None,
            mutant: options.mutant.log,
        },
    )
    .await?;
    let (log, report) = open_log::<P>(&store, platform.now()).await?;
    report_recovery("the metadata log", &report);
    if let Some(lost) = report.lost {
        // Without them topics that exist would be unknown, and producer ids would be given out twice.
        return Err(StartRefusal::Data(format!(
            "{COORDINATOR_DIRECTORY}/: acknowledged metadata records {} are gone from disk; restore the directory \
             from a copy, or, to serve without them, remove checkpoints/coordinator.a and .b and \
             {COORDINATOR_DIRECTORY}/{METADATA_SNAPSHOT_FILE}: what no record names is then moved to stray/",
            Bounds(lost.start, Offset(lost.end.0 - 1))
        )));
    }
    let loaded = snapshot::load(&platform.disk(), &log).await;
    let snapshot::Loaded { mut image, passed_by } =
        loaded.map_err(|misfit| StartRefusal::Data(misfit.refusal()))?;
    let snapshot_at = image.next_offset();
    if snapshot_at == Offset::ZERO || !options.mutant.lacks(Rule::ReplayBehindSnapshot) {
        let replayed = replay(&log, &mut image).await;
        replayed.map_err(|error| {
            StartRefusal::Data(snapshot::refusal_of(&error, image.next_offset(), passed_by))
        })?;
    }
    Ok(Rc::new(Control {
        platform: platform.clone(),
        caller,
        node_id: options.config.node_id,
        shard_count: options.shard_count,
        store,
        log: RefCell::new(log),
        is_released: Cell::new(false),
        is_resuming: Cell::new(false),
        image: RefCell::new(Arc::new(image)),
        deciding: Rc::default(),
        snapshot: snapshot::Written::found(snapshot_at),
        defaults: changes::Defaults {
            create: options.config.create_defaults,
            deletion: options.config.topic_deletion,
            broker: Arc::new(options.config.broker_configs()),
        },
        readiness: Standing::new(Readiness::Starting("opening logs")),
        changes_ended: Flag::default(),
        started: options.started,
        replayed: Cell::default(),
    }))
}

/// From recovered metadata to the end of service.
async fn serve_node<P: Platform, M: Mesh<Message>>(
    control: &Rc<Control<P, M>>,
    options: &ControlOptions,
    recovered: Recovered,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(&Ready),
) -> Result<(), StartRefusal> {
    let platform = &control.platform;
    let admin = match options.config.admin_listen {
        Some(address) => Some(serve_admin(control, address).await?),
        None => None,
    };
    let bound = control.listen(&options.config).await?;
    control.register(options, &recovered.directory, &bound).await?;
    sweep(control, &recovered.checkpoints).await;
    control.open_cores(options, recovered).await?;
    control.ask_all(|| Request::Accept).await;
    control.readiness.set(Readiness::Ready);
    let kafka = bound.first().copied();
    let kafka = kafka.ok_or_else(|| StartRefusal::Address("no listener is configured".into()))?;
    let elapsed = platform.monotonic().saturating_sub(options.started);
    tracing::info!(ms = millis(elapsed), "ready: clients are served");
    ready(&Ready { node_id: control.node_id, kafka, listeners: bound, admin, elapsed });
    let checkpoints = write_checkpoints(Rc::clone(control));
    platform.spawn(TaskClass::Background, Box::pin(checkpoints));
    // Beside: a core whose disk stands still just now must not keep the node from being stopped.
    beside(stop, control.forget_moved()).await;
    Ok(())
}

/// Moves aside what no topic owns, and finishes deletions that a crash interrupted.
async fn sweep<P: Platform, M: Mesh<Message>>(
    control: &Control<P, M>,
    checkpoints: &CheckpointMap,
) {
    let image = control.image();
    let owner_of = |directory: &str| {
        let (name, index) = directory.rsplit_once('-')?;
        let topic = image.topic(name)?;
        let partition = PartitionIndex(index.parse().ok()?);
        topic.partition(partition)?;
        Some(TopicPartition { topic_id: topic.id, partition })
    };
    match directory::sweep_unknown(&control.platform.disk(), checkpoints, owner_of).await {
        Ok(strays) => {
            for stray in strays {
                tracing::warn!("{}: no topic owns it, kept as {}", stray.from, stray.to);
            }
        }
        Err(error) => tracing::warn!(%error, "unknown directories not moved aside"),
    }
    let disk = control.platform.disk();
    let removing = async move {
        if let Err(error) = directory::sweep_deleted(&disk).await {
            tracing::warn!(%error, "deleted topics not removed, the next start tries again");
        }
    };
    control.platform.spawn(TaskClass::Background, Box::pin(removing));
}

async fn serve_admin<P: Platform, M: Mesh<Message>>(
    control: &Rc<Control<P, M>>,
    address: SocketAddr,
) -> Result<SocketAddr, StartRefusal> {
    let listener = control
        .platform
        .listen(address)
        .await
        .map_err(|error| StartRefusal::Address(format!("admin.listen: {address}: {error}")))?;
    let bound = listener.local_address();
    let serving = Rc::clone(control);
    let accepting = async move {
        let guests = Rc::<Guests>::default();
        let pages = Rc::new(AdminPages::new(&serving));
        let pace = LogPace::new(ADMIN_LOG_INTERVAL);
        let failed = |error: &io::Error| {
            if let Some(unlogged) = pace.due(serving.platform.monotonic()) {
                tracing::warn!(%error, unlogged, "the admin server cannot accept, trying again");
            }
        };
        let taken = |reader, writer| {
            // Dropping both halves closes the connection.
            let Some(guest) = guests.admit() else { return };
            let (platform, pages) = (serving.platform.clone(), Rc::clone(&pages));
            let serve = async move {
                admin::serve(&platform, (reader, writer), &*pages, &guest).await;
                drop(guest);
            };
            serving.platform.spawn(TaskClass::Foreground, Box::pin(serve));
        };
        accept_each(&serving.platform, listener, failed, taken).await;
    };
    control.platform.spawn(TaskClass::Foreground, Box::pin(accepting));
    Ok(bound)
}

impl<P: Platform, M: Mesh<Message>> Control<P, M> {
    /// Brings what the cores' journals hold into the segments, before any log of a topic opens, and says to other builds whether this
    /// start may leave some there.
    async fn recover_journals(
        &self,
        options: &ControlOptions,
        checkpoints: &CheckpointMap,
    ) -> Result<(), StartRefusal> {
        let (platform, disk, mutant) = (&self.platform, self.platform.disk(), options.mutant.log);
        let begun = platform.monotonic();
        let image = self.image();
        let is_known = |log: &TopicPartition| {
            let topic = image.topic_by_id(log.topic_id);
            topic.is_some_and(|topic| topic.partition(log.partition).is_some())
        };
        let report =
            commitlog::recover_journals(&disk, platform, checkpoints, is_known, mutant).await?;
        let time = platform.monotonic().saturating_sub(begun);
        let JournalReport { rings, sets, groups, bytes, .. } = report;
        if rings > 0 {
            let JournalReport { settled_groups, gone_groups, refused_groups, .. } = report;
            let ms = millis(time);
            tracing::info!(
                rings,
                sets,
                groups,
                bytes,
                settled_groups,
                gone_groups,
                refused_groups,
                ms,
                "journals replayed"
            );
        }
        self.replayed.set(Replayed { groups, bytes, time });
        let may_write = options.config.journal.is_some();
        let format =
            if may_write { directory::Format::WithJournal } else { directory::Format::Plain };
        directory::set_format(&disk, format).await?;
        Ok(())
    }

    async fn open_cores(
        &self,
        options: &ControlOptions,
        recovered: Recovered,
    ) -> Result<(), StartRefusal> {
        let Recovered { directory, checkpoints } = recovered;
        let disk_bytes = self.platform.disk_bytes().await;
        let state = Arc::new(NodeState {
            node_id: self.node_id,
            shard_count: self.shard_count,
            config: Arc::clone(&options.config),
            image: self.image(),
            checkpoints,
            start: directory.start,
            sequence_base: sequence_base(&directory),
            broker_configs: Arc::clone(&self.defaults.broker),
            open_files_max: options.open_files_max / usize::from(self.shard_count),
            connections_max: options.connections_max,
            mutant: options.mutant,
            connections: Arc::default(),
            disk_floor_bytes: options.config.disk_floor.bytes(disk_bytes),
        });
        let (begun, mut opened) = (self.platform.monotonic(), 0);
        for (core, reply) in self.ask_all(|| Request::Open(Arc::clone(&state))).await {
            let core = core.0;
            match reply {
                Some(Reply::Opened(Ok(count))) => {
                    tracing::debug!(core, count, "logs opened");
                    opened += count;
                }
                Some(Reply::Opened(Err(detail))) => {
                    return Err(StartRefusal::Core { core, detail });
                }
                _ => {
                    let detail = "ended while it opened its logs".to_owned();
                    return Err(StartRefusal::Core { core, detail });
                }
            }
        }
        let offline = self.image().partition_count().saturating_sub(opened);
        let ms = millis(self.platform.monotonic().saturating_sub(begun));
        tracing::info!(partitions = opened, offline, ms, "logs recovered");
        Ok(())
    }

    /// What the node finds itself to be, before it opens the logs of its partitions.
    fn report_recovered(&self, recovered: &Recovered, ms: u64) {
        let DataDirectory { cluster_id, start, is_new, .. } = &recovered.directory;
        let (image, node) = (self.image(), self.node_id);
        let (topics, partitions) = (image.topics().count(), image.partition_count());
        let last_stop = match (is_new, start) {
            (true, _) => "none, the directory is new",
            (false, StartKind::Clean) => "clean",
            (false, StartKind::Unclean) => "unclean: what follows the checkpoints is checked",
        };
        tracing::info!(%node, cluster = %cluster_id, last_stop, topics, partitions, ms, "metadata recovered");
    }

    /// Binds every listener on every core; the first core settles which port a port 0 becomes.
    async fn listen(&self, config: &Config) -> Result<Vec<SocketAddr>, StartRefusal> {
        let mut addresses: Vec<SocketAddr> =
            config.listeners.iter().map(|listener| listener.bind).collect();
        for core in (0..self.shard_count).map(ShardIndex) {
            let mut at = Vec::with_capacity(addresses.len());
            for (listener, address) in config.listeners.iter().zip(&addresses) {
                let mut address = *address;
                if listener.advertise == Advertise::Core {
                    address.set_port(port_of_core(address.port(), core, &listener.name)?);
                }
                at.push(ListenAt { name: listener.name.clone(), address });
            }
            match self.caller.ask(core.into(), Request::Listen(at)).await {
                Ok(Reply::Listening(Ok(bound))) if core.0 == 0 => addresses = bound,
                Ok(Reply::Listening(Ok(_))) => {}
                Ok(Reply::Listening(Err(detail))) => return Err(StartRefusal::Address(detail)),
                _ => {
                    let detail = "ended while it bound its listeners".to_owned();
                    return Err(StartRefusal::Core { core: core.0, detail });
                }
            }
        }
        Ok(addresses)
    }

    /// Takes this node's place in the cluster. After an unclean stop every leadership begins a new epoch: offsets that were
    /// accepted and not safe may be given out again.
    async fn register(
        &self,
        options: &ControlOptions,
        directory: &DataDirectory,
        bound: &[SocketAddr],
    ) -> Result<(), StartRefusal> {
        let listeners = options.config.listeners.iter().zip(bound);
        let listeners = listeners.map(|(listener, bound)| {
            let endpoint = listener.endpoint(*bound);
            let (name, port, advertise) = (&*endpoint.name, endpoint.port, listener.advertise);
            let host = if endpoint.host.is_empty() { "as dialled" } else { &*endpoint.host };
            tracing::info!(name, %bound, advertised = host, port, brokers = ?advertise, "listening");
            endpoint
        });
        let registration = NodeRegistration {
            node: self.node_id,
            incarnation: self.random_id(),
            directory_id: directory.directory_id.0,
            shards: self.shard_count,
            rack: options.config.rack.as_deref().map(Into::into),
            listeners: listeners.collect(),
        };
        let epochs = match directory.start {
            StartKind::Clean => LeaderEpochs::Keep,
            StartKind::Unclean => LeaderEpochs::Bump,
        };
        let cluster_id: Arc<str> = directory.cluster_id.to_string().into();
        let placed = self.take_place(&cluster_id, &registration, epochs).await;
        placed.map_err(|detail| match self.log().failure() {
            Some(LogFailure::NoSpace) => StartRefusal::DiskFull(COORDINATOR_DIRECTORY.to_owned()),
            _ => StartRefusal::Data(detail),
        })
    }

    /// Forgets where logs were before they moved to another core, and removes checkpoints of cores that this start no longer has.
    /// Every core writes both copies of its own first: one alone could be lost, and what an earlier life left in the other knows
    /// nothing of what was removed since.
    async fn forget_moved(&self) {
        let settled = self.ask_all(|| Request::Settle).await;
        if !settled.iter().all(|(_, reply)| matches!(reply, Some(Reply::Done))) {
            return;
        }
        self.ask_all(|| Request::ForgetOthers).await;
        let cores = (0..self.shard_count).map(|core| core.to_string());
        let names: Vec<String> = cores.chain([COORDINATOR_DIRECTORY.to_owned()]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Err(error) = checkpoint::remove_vanished(&self.platform.disk(), &names).await {
            tracing::warn!(%error, "checkpoints of cores that are gone were not removed");
        }
    }
}

/// Writes checkpoints until the node stops, which writes the last. A task of its own: one that has begun is finished, however
/// long the disk takes, and the stop does not wait for it before its time.
async fn write_checkpoints<P: Platform, M: Mesh<Message>>(control: Rc<Control<P, M>>) {
    while !control.readiness.is_stopping() {
        control.platform.sleep(TICK).await;
        if control.snapshot_due() {
            let writing = Rc::clone(&control);
            let write = async move { writing.write_snapshot().await };
            contained(&control.platform, TaskClass::Background, write).await;
        }
        let now = control.platform.now();
        if !control.store.checkpoint_due(now) {
            continue;
        }
        let writing = Rc::clone(&control);
        let write = async move {
            if let Err(error) = writing.store.checkpoint(now).await {
                tracing::warn!(%error, "checkpoint of the metadata log not written");
            }
        };
        contained(&control.platform, TaskClass::Background, write).await;
    }
}

/// Looks whether the metadata log can go on, until the node stops.
async fn keep_resuming<P: Platform, M: Mesh<Message>>(
    control: Rc<Control<P, M>>,
    changes: Changes,
) {
    while !control.readiness.is_stopping() {
        control.platform.sleep(TICK).await;
        control.ask_to_resume(&changes);
    }
}

/// In `advertise = "core"` each core listens one port further on.
fn port_of_core(port: u16, core: ShardIndex, listener: &str) -> Result<u16, StartRefusal> {
    if port == 0 {
        // The first core takes what it gets; the others count up from it.
        return Ok(0);
    }
    port.checked_add(core.0).ok_or_else(|| {
        StartRefusal::Address(format!(
            "listener {listener}: port {port} + core {core} is above 65535; choose a lower port"
        ))
    })
}
