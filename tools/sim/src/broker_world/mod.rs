//! The world of the whole broker: clients that speak the protocol to a node of several cores, with every fault, life after
//! life.
//!
//! Owns the plan of a seed and its verdict. A *life* is one run of the process: start, read everything back and compare it
//! with what clients were told, serve clients under faults, end by a crash, a kill or a clean stop. Clients outlive the
//! process: what they were not answered they ask again. The last life is free of faults, and all of them must get on.
//!
//! ```text
//! seed ─► config ─► life 0 ─crash─► life 1 ─crash at once─► life 2 ─clean─► … ─► last life, no faults ─► verdict
//!                     │ read all back, then producers, consumers, admins who delete topics and records, old segments that go,
//!                     │ slow cores, a failing disk at the same time
//! ```

mod altering;
mod connection;
mod consumer;
mod faults;
mod history;
mod life;
mod metrics;
mod passing;
mod producer;
mod topics;
mod trimming;
mod verify;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use broker::config::JournalConfig;
use broker::mutant::Mutant;
use broker::sync::Flag;
use commitlog::BLOCK_BYTES;

use crate::disk::{DiskStats, SimDisk};
use crate::executor::{CoreIndex, RunEnd, RunLimits, SimExecutor};
use crate::platform::NetworkPace;
use crate::prng::{OneIn, Prng};
use crate::runner::{Outcome, WorldName};
use crate::trace::Trace;
use crate::verdict::{Verdict, Violation, broken};
use history::History;
use passing::PassingTopics;
use producer::ProducerState;

/// Polls one life may take: many times what the busiest seed needs.
const LIFE_STEPS_MAX: u64 = 4_000_000;

/// The world, as the runner sees it.
#[derive(Debug, Clone, Copy)]
pub struct BrokerWorld;

impl crate::runner::World for BrokerWorld {
    type Mutant = Mutant;
    type Stats = BrokerStats;
    const NAME: WorldName = WorldName::Broker;

    fn run(seed: u64, mutant: Mutant, trace: Rc<Trace>) -> Outcome<BrokerStats> {
        run_seed(seed, mutant, trace)
    }

    fn add(total: &mut BrokerStats, other: &BrokerStats) {
        total.add(other);
    }

    fn missed(stats: &BrokerStats) -> Option<&'static str> {
        let expected = [
            (stats.journal_sets, "no entry set went to a journal"),
            (stats.groups_replayed, "no start replayed a journal"),
        ];
        expected.into_iter().find(|(count, _)| *count == 0).map(|(_, missed)| missed)
    }

    #[cfg(feature = "mutants")]
    fn mutants() -> Vec<crate::mutants::Named<Mutant>> {
        crate::mutants::of_broker_world()
    }
}

/// What a world did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BrokerStats {
    /// Runs of the process.
    pub lives: u64,
    /// What the disk saw.
    pub disk: DiskStats,
    /// Clean stops.
    pub clean_stops: u64,
    /// Connections that clients made.
    pub connections: u64,
    /// Of them, those that the client ended with requests under way or within a frame.
    pub cut_connections: u64,
    /// Produce requests sent.
    pub produces: u64,
    /// Batches sent again.
    pub retries: u64,
    /// Batches acknowledged.
    pub acked_batches: u64,
    /// Fetch requests answered.
    pub fetches: u64,
    /// Batches that consumers were shown.
    pub fetched_batches: u64,
    /// Batches read back and compared after a start.
    pub verified_batches: u64,
    /// Offsets looked up and compared.
    pub lookups: u64,
    /// Clients that stopped reading.
    pub sluggards: u64,
    /// Times that a core stood still.
    pub still_cores: u64,
    /// Topics created and deleted beside the others.
    pub passing_topics: u64,
    /// Connections that one core handed to another.
    pub moved_connections: u64,
    /// Log starts that deletions moved.
    pub deletions: u64,
    /// Times that a reader asked for what was gone.
    pub gone: u64,
    /// Settings of topics that were changed.
    pub alterations: u64,
    /// Entry sets written to journals, in lives that were not cut short.
    pub journal_sets: u64,
    /// Groups that starts brought from journals into segments.
    pub groups_replayed: u64,
}

impl BrokerStats {
    fn add(&mut self, other: &Self) {
        self.lives += other.lives;
        self.disk.add(&other.disk);
        self.clean_stops += other.clean_stops;
        self.connections += other.connections;
        self.cut_connections += other.cut_connections;
        self.produces += other.produces;
        self.retries += other.retries;
        self.acked_batches += other.acked_batches;
        self.fetches += other.fetches;
        self.fetched_batches += other.fetched_batches;
        self.verified_batches += other.verified_batches;
        self.lookups += other.lookups;
        self.sluggards += other.sluggards;
        self.still_cores += other.still_cores;
        self.passing_topics += other.passing_topics;
        self.moved_connections += other.moved_connections;
        self.deletions += other.deletions;
        self.gone += other.gone;
        self.alterations += other.alterations;
        self.journal_sets += other.journal_sets;
        self.groups_replayed += other.groups_replayed;
    }
}

impl fmt::Display for BrokerStats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "lives={} crashes={} clean_stops={} sectors_torn={} disk_errors={} disk_full={} connections={} \
             cut_connections={} produces={} retries={} acked_batches={} fetches={} fetched_batches={} \
             verified_batches={} lookups={} sluggards={} still_cores={} passing_topics={} moved_connections={} \
             deletions={} gone={} alterations={} journal_sets={} groups_replayed={}",
            self.lives,
            self.disk.crashes,
            self.clean_stops,
            self.disk.sectors_torn,
            self.disk.errors,
            self.disk.refused,
            self.connections,
            self.cut_connections,
            self.produces,
            self.retries,
            self.acked_batches,
            self.fetches,
            self.fetched_batches,
            self.verified_batches,
            self.lookups,
            self.sluggards,
            self.still_cores,
            self.passing_topics,
            self.moved_connections,
            self.deletions,
            self.gone,
            self.alterations,
            self.journal_sets,
            self.groups_replayed,
        )
    }
}

/// Which endpoints clients see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advertise {
    /// One for the node: a connection comes to any core.
    Node,
    /// One a core: the client chooses.
    Core,
}

/// Choices that hold for all lives of a seed.
#[derive(Debug, Clone)]
struct Config {
    cores_max: u16,
    advertise: Advertise,
    pace: NetworkPace,
    mesh_messages_max: usize,
    handover_requests: u32,
    segment_ms: i64,
    /// Acknowledgements do not wait for syncs. What was told must then outlive every kill: power does not fail in such a world.
    caches: bool,
    /// Whether an administrator deletes records.
    deletes: bool,
    /// What a partition may hold before old segments go; -1 for no bound.
    retention_bytes: i64,
    /// Half of the worlds have one; small, so that it is used again and again.
    journal: Option<JournalConfig>,
    batch_bytes_max: u64,
    batches_per_life: u64,
    consumers: u64,
}

impl Config {
    fn draw(prng: &mut Prng) -> Self {
        let unread_bytes_max = *prng.pick(&[1_500, 20_000, 300_000]);
        Self {
            cores_max: u16::try_from(prng.between(1, 3)).expect("a few"),
            advertise: *prng.pick(&[Advertise::Node, Advertise::Core, Advertise::Core]),
            pace: NetworkPace::Ragged { unread_bytes_max },
            mesh_messages_max: *prng.pick(&[1, 4, 64]),
            handover_requests: *prng.pick(&[1, 1, 2]),
            segment_ms: *prng.pick(&[1_000, 604_800_000]),
            caches: prng.below(8) == 0,
            deletes: prng.coin(),
            retention_bytes: *prng.pick(&[-1, -1, -1, 0, 20_000]),
            journal: draw_journal(prng),
            batch_bytes_max: *prng.pick(&[300, 3_000, 30_000]),
            batches_per_life: prng.between(3, 25),
            consumers: prng.between(1, 2),
        }
    }
}

fn draw_journal(prng: &mut Prng) -> Option<JournalConfig> {
    if prng.coin() {
        return None;
    }
    // In four files.
    let file_bytes = BLOCK_BYTES as u64 * *prng.pick(&[4, 5, 9, 33]);
    Some(JournalConfig {
        bytes: 4 * file_bytes,
        group_bytes_max: *prng.pick(&[1_000, 8_000, 65_536]),
        groups_min: *prng.pick(&[1, 1, 1, 2]),
        sets_before: 0,
    })
}

/// Everything that outlives a process.
struct World {
    config: Config,
    mutant: Mutant,
    /// Where clients run.
    executor: SimExecutor,
    trace: Rc<Trace>,
    prng: RefCell<Prng>,
    history: RefCell<History>,
    passing: RefCell<PassingTopics>,
    producers: Vec<RefCell<ProducerState>>,
    stats: Cell<BrokerStats>,
    violation: RefCell<Option<Violation>>,
    /// Raised with the violation: the life ends.
    is_broken: RefCell<Flag>,
}

impl World {
    fn new(seed: u64, mutant: Mutant, trace: Rc<Trace>) -> (Rc<Self>, SimDisk) {
        let mut prng = Prng::new(seed);
        let executor = SimExecutor::new(prng.fork(), Rc::clone(&trace));
        let executor = executor.on_core(CoreIndex::OUTSIDE);
        let disk = SimDisk::new(&executor, prng.fork(), Rc::clone(&trace));
        let config = Config::draw(&mut prng);
        let history = History::draw(&mut prng, config.retention_bytes >= 0);
        let history = RefCell::new(history);
        let count = usize::try_from(prng.between(2, 4)).expect("a few");
        let producers = (0..count).map(|index| {
            let kind = producer::Kind::draw(&mut prng, index);
            RefCell::new(ProducerState::new(kind))
        });
        let producers = producers.collect();
        let world = Self {
            config,
            mutant,
            executor,
            trace,
            prng: RefCell::new(prng),
            history,
            passing: RefCell::default(),
            producers,
            stats: Cell::default(),
            violation: RefCell::default(),
            is_broken: RefCell::default(),
        };
        (Rc::new(world), disk)
    }

    fn chance<T>(&self, draw: impl FnOnce(&mut Prng) -> T) -> T {
        draw(&mut self.prng.borrow_mut())
    }

    /// Lets some time pass: between so many milliseconds.
    async fn pause(&self, (ms_min, ms_max): (u64, u64)) {
        let ms = self.chance(|prng| prng.between(ms_min, ms_max));
        self.executor.sleep(Duration::from_millis(ms)).await;
    }

    fn count(&self, change: impl FnOnce(&mut BrokerStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Keeps the first violation and ends the life.
    fn report(&self, violation: Violation) {
        self.trace.note("violation", violation.property, [0, 0]);
        self.violation.borrow_mut().get_or_insert(violation);
        self.is_broken.borrow().raise();
    }
}

/// How a life ends, by plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Power fails before this step.
    Crash { at: u64 },
    /// The process is killed before this step; the machine goes on.
    Kill { at: u64 },
    /// Stop in order.
    Clean,
}

/// What goes wrong with the disk while a life serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskPlan {
    Good,
    Slow,
    Stalled,
    Reads,
    Writes,
    Syncs,
    Names,
    Full,
}

impl DiskPlan {
    /// Whether a change of metadata may be refused: nobody knows then what became of it.
    fn may_refuse_changes(self) -> bool {
        !matches!(self, Self::Good | Self::Slow | Self::Stalled)
    }
}

/// What one life is like.
#[derive(Debug, Clone, Copy)]
struct LifePlan {
    cores: u16,
    /// Sometimes it is switched off: the start brings what it holds into the segments all the same.
    journal: Option<JournalConfig>,
    ending: Ending,
    disk: DiskPlan,
    has_still_cores: bool,
    is_last: bool,
}

impl LifePlan {
    fn draw(prng: &mut Prng, config: &Config, is_last: bool) -> Self {
        let ending = match prng.below(10) {
            // A restart in a row: the crash hits start-up and recovery themselves.
            0..2 => Ending::Crash { at: prng.between(1, 2_000) },
            2..6 => Ending::Crash { at: prng.between(1_500, 40_000) },
            6 => Ending::Kill { at: prng.between(1_500, 40_000) },
            _ => Ending::Clean,
        };
        let disk = match prng.below(16) {
            0..6 => DiskPlan::Good,
            6..9 => DiskPlan::Slow,
            9 => DiskPlan::Stalled,
            10 => DiskPlan::Reads,
            11 => DiskPlan::Writes,
            12..14 => DiskPlan::Syncs,
            14 => DiskPlan::Names,
            _ => DiskPlan::Full,
        };
        let cores = u16::try_from(prng.between(1, u64::from(config.cores_max))).expect("a few");
        let has_still_cores = prng.coin();
        let journal = config.journal.filter(|_| !prng.happens(OneIn(6)));
        if is_last {
            let (ending, disk) = (Ending::Clean, DiskPlan::Good);
            return Self { cores, journal, ending, disk, has_still_cores: false, is_last };
        }
        let plan = Self { cores, journal, ending, disk, has_still_cores, is_last };
        if config.caches { plan.without_power_cuts() } else { plan }
    }

    /// The same where all that was written reaches the device in the end.
    fn without_power_cuts(self) -> Self {
        let ending = match self.ending {
            Ending::Crash { at } => Ending::Kill { at },
            other => other,
        };
        let disk = if self.disk == DiskPlan::Syncs { DiskPlan::Writes } else { self.disk };
        Self { ending, disk, ..self }
    }
}

/// Runs one seed to its verdict, noting in a fresh `trace` what happens.
#[must_use]
pub fn run_seed(seed: u64, mutant: Mutant, trace: Rc<Trace>) -> Outcome<BrokerStats> {
    let (world, disk) = World::new(seed, mutant, trace);
    let failure = live_all(&world, disk);
    let failure = failure.err().map(|violation| (world.trace.step(), violation));
    // Tasks hold the world, and the world its tasks.
    world.executor.drop_tasks();
    Outcome {
        hash: world.trace.hash(),
        stats: world.stats.get(),
        failure,
        lines: world.trace.take_lines(),
    }
}

fn live_all(world: &Rc<World>, mut disk: SimDisk) -> Verdict {
    let lives = world.chance(|prng| prng.between(2, 5));
    for index in 1..=lives {
        let plan = world.chance(|prng| LifePlan::draw(prng, &world.config, index == lives));
        world.trace.note("life", "", [u64::from(plan.cores), plan.disk as u64]);
        world.count(|stats| stats.lives += 1);
        let has_crashed = live_once(world, &disk, plan)?;
        disk = if has_crashed { disk.crash() } else { disk.restart() };
        world.executor.drop_tasks();
        let seen = disk.stats();
        world.count(|stats| stats.disk = seen);
    }
    Ok(())
}

/// True if power failed.
fn live_once(world: &Rc<World>, disk: &SimDisk, plan: LifePlan) -> Verdict<bool> {
    let crash_at = match plan.ending {
        Ending::Crash { at } | Ending::Kill { at } => Some(at),
        Ending::Clean => None,
    };
    let limits = RunLimits { steps_max: LIFE_STEPS_MAX, crash_at };
    world.is_broken.replace(Flag::default());
    let end = world.executor.run(life::live(Rc::clone(world), disk.clone(), plan), limits);
    if let Some(violation) = world.violation.borrow_mut().take() {
        return Err(violation);
    }
    let has_crashed = matches!(plan.ending, Ending::Crash { .. });
    match end {
        RunEnd::Done(result) => result.map(|()| has_crashed),
        RunEnd::Crashed => Ok(has_crashed),
        RunEnd::Deadlock { tasks } => broken("progress", format!("{tasks} tasks wait for ever")),
        RunEnd::OutOfSteps => broken("progress", "a loop without end"),
    }
}
