//! Starting and stopping the process: the order that the broker keeps, without the broker.
//!
//! Owns that order. A start that is refused is told apart from one that broke a property: only a failing disk may refuse.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use commitlog::checkpoint::remove_vanished;
use commitlog::directory::{self, NewIds};
use commitlog::{
    CheckpointMap, JournalOptions, LogIdentity, LogOptions, SafeEnd, StartKind, Store, StoreError,
    StoreOptions,
};
use partition::{Producers, ProducersOptions};
use record::{LeaderEpoch, NodeId, Offset, Slot, TopicId, TopicPartition};

use super::replica::Replica;
use super::{LifePlan, World};
use crate::disk::{Faults, SimDisk};
use crate::executor::SimExecutor;
use crate::prng::{OneIn, Prng};
use crate::verdict::{Verdict, Violation, broken};

pub(super) type SimStore = Store<SimDisk, SimExecutor>;

/// A running process.
pub(super) struct Node {
    pub(super) stores: Vec<SimStore>,
    pub(super) replicas: Vec<Rc<Replica>>,
    /// How the last life left the directory, as this one found it.
    pub(super) start: StartKind,
}

/// Why a process did not come up.
#[derive(Debug)]
pub(super) enum StartError {
    /// The disk, in words.
    Refused(String),
    /// A property.
    Broken(Violation),
}

impl From<Violation> for StartError {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

fn refused(error: impl std::fmt::Display) -> StartError {
    StartError::Refused(error.to_string())
}

impl Node {
    /// The logs of one shard.
    pub(super) fn replicas_of(&self, world: &World, shard: usize) -> Vec<Rc<Replica>> {
        let count = self.stores.len();
        let is_here = |one: &&Rc<Replica>| world.shard_of(one.index, count) == shard;
        self.replicas.iter().filter(is_here).cloned().collect()
    }

    /// What the operator is told of a log's damage.
    pub(super) fn damage_of(&self, replica: &Replica) -> Vec<Range<Offset>> {
        let id = replica.of().id;
        let reports = self.stores.iter().flat_map(Store::damage);
        let own = reports
            .filter(|report| (report.topic_id, report.partition) == (id.topic_id, id.partition));
        own.map(|report| report.offsets).collect()
    }
}

impl World {
    /// Which of so many shards a log lives on.
    pub(super) fn shard_of(&self, index: usize, shards: usize) -> usize {
        let shards = u16::try_from(shards).expect("two shards");
        usize::from(Slot(self.logs[index].slot).shard(shards).0)
    }

    /// How a log behaves.
    pub(super) fn log_options(&self, safe_end: SafeEnd) -> LogOptions {
        LogOptions {
            segment_bytes: self.config.segment_bytes,
            segment_ms: self.config.segment_ms,
            index_interval_bytes: self.config.index_interval_bytes,
            segment_jitter_ms: self.config.segment_jitter_ms,
            safe_end,
        }
    }

    /// How the journal of a core is made in this life.
    fn journal_options(&self) -> Option<JournalOptions> {
        let ring = self.chance(Prng::next_u64);
        self.config.journal.map(|options| JournalOptions { ring, ..options })
    }

    fn identity(&self, index: usize) -> LogIdentity {
        let log = &self.logs[index];
        LogIdentity {
            topic: Rc::clone(&log.topic),
            topic_id: log.id.topic_id,
            partition: log.id.partition,
        }
    }
}

/// Brings the process up: directory, checkpoints, stores, logs, first checkpoint.
pub(super) async fn start(
    world: &Rc<World>,
    disk: &SimDisk,
    plan: LifePlan,
) -> Result<Node, StartError> {
    let ids = || NewIds {
        cluster_id: TopicId([1; 16]),
        node_id: NodeId(1),
        directory_id: TopicId([2; 16]),
    };
    let data = directory::open_or_create(disk, NodeId(1), ids).await.map_err(refused)?;
    let (map, _) = CheckpointMap::load_with(disk, world.mutant.log).await.map_err(refused)?;
    let map = Arc::new(map);
    recover_journals(world, disk, &map).await?;
    sweep(world, disk, &map).await?;
    let mut stores = Vec::new();
    for shard in 0..plan.shards {
        let options = StoreOptions {
            name: shard.to_string(),
            checkpoints: Arc::clone(&map),
            start: data.start,
            sequence_base: u64::from(data.start_count) << 32,
            tail_cache_bytes: world.config.tail_cache_bytes,
            read_cache_bytes: world.config.read_cache_bytes,
            open_files_max: world.config.open_files_max,
            room_ahead: world.config.room_ahead,
            states_bytes: world.config.states_bytes,
            journal: world.journal_options(),
            mutant: world.mutant.log,
        };
        let store = Store::open(disk.clone(), world.executor.clone(), options);
        stores.push(store.await.map_err(refused)?);
    }
    for (shard, store) in stores.iter().enumerate() {
        // Or each is made when it is opened.
        if world.chance(|prng| prng.coin()) {
            let here = |index: &usize| world.shard_of(*index, stores.len()) == shard;
            let logs: Vec<LogIdentity> =
                (0..world.logs.len()).filter(here).map(|index| world.identity(index)).collect();
            prepare(world, disk, store, &logs, plan).await;
        }
    }
    let mut replicas = Vec::new();
    for index in 0..world.logs.len() {
        let store = &stores[world.shard_of(index, stores.len())];
        replicas.push(open_log(world, store, index, plan).await?);
    }
    first_checkpoints(world, disk, &stores).await?;
    Ok(Node { stores, replicas, start: data.start })
}

/// As the broker does it: what cannot be made together is made by opening each log, whatever there is of it by now. Sometimes the
/// disk fails for just that time.
async fn prepare(
    world: &World,
    disk: &SimDisk,
    store: &SimStore,
    logs: &[LogIdentity],
    plan: LifePlan,
) {
    let faults = disk.faults();
    let is_struck = !plan.is_last && world.chance(|prng| prng.happens(OneIn(4)));
    if is_struck {
        let odds = world.chance(|prng| OneIn(*prng.pick(&[2, 5])));
        let (name_error, sync_error) = match world.chance(|prng| prng.coin()) {
            true => (odds, faults.sync_error),
            false => (faults.name_error, odds),
        };
        disk.set_faults(Faults { name_error, sync_error, aimed_at: "topics", ..faults });
    }
    let errors_before = disk.stats().errors;
    let prepared = store.prepare(logs.iter()).await;
    world.trace.note("prepared", "", [u64::from(prepared.is_ok()), logs.len() as u64]);
    if is_struck {
        disk.set_faults(faults);
        world.excused_errors.set(world.excused_errors.get() + disk.stats().errors - errors_before);
    }
}

/// Nothing in `topics/` is strange to this node, and nothing may be treated as if it were.
async fn sweep(
    world: &World,
    disk: &SimDisk,
    checkpoints: &CheckpointMap,
) -> Result<(), StartError> {
    let known = |name: &str| {
        let own = world.logs.iter().find(|log| log.directory().ends_with(&format!("/{name}")));
        own.map(|log| log.id)
    };
    let strays = directory::sweep_unknown(disk, checkpoints, known).await.map_err(refused)?;
    if !strays.is_empty() {
        return Ok(broken("known logs are not strays", format!("{strays:?}"))?);
    }
    directory::sweep_deleted(disk).await.map_err(refused)?;
    Ok(())
}

/// Space is back: lets go of every log that failed for want of it, and opens it again. Returns how many.
pub(super) async fn resume(world: &Rc<World>, node: &mut Node, plan: LifePlan) -> Verdict<usize> {
    let mut resumed = 0;
    for at in 0..node.replicas.len() {
        let replica = Rc::clone(&node.replicas[at]);
        if !replica.failure.get().is_some_and(|failure| failure.is_passing()) {
            continue;
        }
        let store = &node.stores[world.shard_of(replica.index, node.stores.len())];
        if let Err(error) = store.release_log(&replica.log).await {
            return broken("a log that failed for want of space is let go of", error.to_string());
        }
        node.replicas[at] = match open_log(world, store, replica.index, plan).await {
            Ok(again) => again,
            Err(StartError::Broken(violation)) => return Err(violation),
            Err(StartError::Refused(detail)) => return broken("logs resume", detail),
        };
        resumed += 1;
    }
    Ok(resumed)
}

/// Nobody damages a journal here: nothing of it may be missing.
async fn recover_journals(
    world: &World,
    disk: &SimDisk,
    map: &CheckpointMap,
) -> Result<(), StartError> {
    let is_known = |id: &TopicPartition| world.logs.iter().any(|log| log.id == *id);
    let (executor, mutant) = (&world.executor, world.mutant.log);
    let recovered = commitlog::recover_journals(disk, executor, map, is_known, mutant).await;
    let report = recovered.map_err(refused)?;
    world.trace.note("replayed", "", [report.groups, report.settled_groups]);
    world.count(|stats| {
        stats.groups_replayed += report.groups;
        stats.sets_dropped += report.dropped_sets;
    });
    if !report.strays.is_empty() {
        return Ok(broken("the journal is whole", format!("{report:?}"))?);
    }
    Ok(())
}

async fn open_log(
    world: &Rc<World>,
    store: &SimStore,
    index: usize,
    plan: LifePlan,
) -> Result<Rc<Replica>, StartError> {
    let log = &world.logs[index];
    let identity = world.identity(index);
    let options = world.log_options(log.safe_end());
    let remembered =
        ProducersOptions { mutant: world.mutant.leader, ..ProducersOptions::default() };
    let producers = Rc::new(RefCell::new(Producers::new(remembered)));
    // The metadata knows of no later leadership than this one, which has appended nothing yet.
    let newest = LeaderEpoch(plan.index);
    let opened =
        store.open_log_under(newest, identity, options, producers.clone(), world.now()).await;
    let (opened, report) = opened.map_err(refused)?;
    let end = opened.ends().accepted();
    world.trace.note("recovered", &log.directory(), [end.0.unsigned_abs(), report.bytes_read]);
    let mut model = log.model.borrow_mut();
    // Before what is held now counts as acknowledged.
    model.start_recovered(opened.ends().log_start().0)?;
    let lost = model.recovered(end.0)?;
    world.count(|stats| stats.cached_records_lost += lost);
    if let Some(lost) = report.lost {
        return Ok(broken("acknowledged records survive", format!("lost {lost:?}"))?);
    }
    drop(model);
    opened.check();
    Ok(Replica::lead(world, index, opened, producers, newest))
}

/// Every present shard says what it has; then the files of vanished shards go.
async fn first_checkpoints(
    world: &World,
    disk: &SimDisk,
    stores: &[SimStore],
) -> Result<(), StartError> {
    // A life may as well end before it comes to this.
    if world.chance(|prng| prng.coin()) {
        return Ok(());
    }
    for store in stores {
        store.checkpoint_both(world.now()).await.map_err(refused)?;
    }
    for (shard, store) in stores.iter().enumerate() {
        let owned = |id: &TopicPartition| {
            let index = world.logs.iter().position(|log| log.id == *id);
            index.is_some_and(|index| world.shard_of(index, stores.len()) == shard)
        };
        store.retain_entries(owned);
        store.checkpoint(world.now()).await.map_err(refused)?;
    }
    let names: Vec<String> = (0..stores.len()).map(|shard| shard.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    remove_vanished(disk, &names).await.map_err(refused)?;
    Ok(())
}

/// How a stop in order ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The next start takes the files as they are.
    Clean,
    /// It does not.
    NextRecovers,
}

/// Stops in order. Afterwards the checkpoints cover all that a healthy log holds.
pub(super) async fn stop(world: &World, disk: &SimDisk, node: &Node) -> Verdict<Stopped> {
    let mut owes_sync = false;
    for store in &node.stores {
        match store.close(world.now()).await {
            Ok(()) => {}
            // A log whose sync failed under write caching: as the broker does, the marker is not written.
            Err(StoreError::Unsettled { .. }) => owes_sync = true,
            Err(error) => return broken("a healthy disk closes", error.to_string()),
        }
    }
    if owes_sync {
        let has_failed = node.replicas.iter().any(|replica| replica.failure.get().is_some());
        let detail = "promised and not durable".to_owned();
        return if has_failed {
            Ok(Stopped::NextRecovers)
        } else {
            broken("a clean stop covers everything", detail)
        };
    }
    if let Err(error) = directory::write_clean_stop(disk).await {
        return broken("a healthy disk closes", error.to_string());
    }
    let covered = covered(world, disk).await;
    for replica in &node.replicas {
        let end = replica.of().model.borrow().end();
        if replica.failure.get().is_none() && covered[replica.index] != end {
            let detail = format!("checkpoint ends at {}, log at {end}", covered[replica.index]);
            return broken("a clean stop covers everything", detail);
        }
    }
    Ok(Stopped::Clean)
}

/// How far the checkpoints on disk cover each log; 0 where they cannot be read. One that is being made lasting counts as well.
pub(super) async fn covered(world: &World, disk: &SimDisk) -> Vec<i64> {
    let map = CheckpointMap::load(disk).await.map(|(map, _)| map).unwrap_or_default();
    world.logs.iter().map(|log| map.get(&log.id).map_or(0, |entry| entry.end.0)).collect()
}
