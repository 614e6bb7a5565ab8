//! The world of one node's logs: seeded work over `commitlog` on the simulated disk, with every fault, life after life.
//!
//! Owns the plan of a seed and its verdict. A *life* is one run of the process: start, recover, check everything, work, end
//! by a crash, a kill or a clean stop. Between lives indexes are tampered with and bits rot. The last life is free of faults
//! and must bring every log back to work: safety first, then liveness.
//!
//! ```text
//! seed ─► config ─► life 0 ─crash─► tamper ─► life 1 ─crash at once─► life 2 ─clean─► … ─► last life, no faults ─► verdict
//!                     │ recover, compare with the model, then writers, readers, seekers, checkpoints at the same time
//! ```

mod batches;
mod life;
mod model;
mod replica;
mod scrub;
mod start;
mod tamper;
mod trim;
mod verify;
mod work;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use commitlog::mutant::Mutant as LogMutant;
use commitlog::{BLOCK_BYTES, JournalOptions, RetentionPolicy, RoomAhead, SafeEnd};
use partition::Mutant as LeaderMutant;
use record::{PartitionIndex, Timestamp, TopicId, TopicPartition};

use crate::disk::{DiskStats, SimDisk};
use crate::executor::{RunEnd, RunLimits, SimExecutor};
use crate::prng::{OneIn, Prng};
use crate::runner::{Outcome, WorldName};
use crate::trace::Trace;
use crate::verdict::{Violation, broken};

use model::LogModel;

/// Polls one life may take: twenty times what the busiest seed needs.
const LIFE_STEPS_MAX: u64 = 400_000;

/// When virtual time begins, Unix milliseconds.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// The one rule that is switched off, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorldMutant {
    /// In the log.
    pub log: LogMutant,
    /// In the leader.
    pub leader: LeaderMutant,
}

/// What a world did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorldStats {
    /// Runs of the process.
    pub lives: u64,
    /// What the disk saw.
    pub disk: DiskStats,
    /// Batches accepted.
    pub batches: u64,
    /// Records acknowledged and then read back after a restart, counted once a restart.
    pub acked_records_checked: u64,
    /// Bits flipped below the checkpoint.
    pub bits_rotten: u64,
    /// Index files deleted, zeroed, cut, extended or filled with chance.
    pub indexes_spoiled: u64,
    /// Epoch files, producer snapshots and checkpoint copies damaged in the same ways.
    pub small_files_spoiled: u64,
    /// Retries answered with the original offsets.
    pub duplicates: u64,
    /// Damaged batches that a read reported, exactly.
    pub damage_isolated: u64,
    /// Reads compared.
    pub reads: u64,
    /// Look-ups by time compared.
    pub lookups: u64,
    /// Log starts that were answered to whoever asked for them.
    pub starts_moved: u64,
    /// Segments removed.
    pub segments_removed: u64,
    /// Segments scrubbed.
    pub scrubbed: u64,
    /// Stops that were cut off.
    pub stops_cut_off: u64,
    /// Logs that failed on a full disk and took records again when space was back.
    pub resumed: u64,
    /// Entry sets written to journals.
    pub journal_sets: u64,
    /// Groups that starts brought from journals into segments.
    pub groups_replayed: u64,
    /// Sets of journals behind one that a power cut took.
    pub sets_dropped: u64,
    /// Clean stops.
    pub clean_stops: u64,
    /// Records that were acknowledged under write caching and that a power cut took.
    pub cached_records_lost: u64,
}

impl WorldStats {
    /// Adds another world's figures.
    pub fn add(&mut self, other: &Self) {
        self.disk.add(&other.disk);
        self.lives += other.lives;
        self.batches += other.batches;
        self.acked_records_checked += other.acked_records_checked;
        self.bits_rotten += other.bits_rotten;
        self.indexes_spoiled += other.indexes_spoiled;
        self.small_files_spoiled += other.small_files_spoiled;
        self.duplicates += other.duplicates;
        self.damage_isolated += other.damage_isolated;
        self.reads += other.reads;
        self.lookups += other.lookups;
        self.resumed += other.resumed;
        self.starts_moved += other.starts_moved;
        self.segments_removed += other.segments_removed;
        self.scrubbed += other.scrubbed;
        self.stops_cut_off += other.stops_cut_off;
        self.journal_sets += other.journal_sets;
        self.groups_replayed += other.groups_replayed;
        self.sets_dropped += other.sets_dropped;
        self.clean_stops += other.clean_stops;
        self.cached_records_lost += other.cached_records_lost;
    }
}

impl fmt::Display for WorldStats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disk, .. } = self;
        write!(
            formatter,
            "lives={} crashes={} clean_stops={} sectors_torn={} errors={} refused={} batches={} \
             acked_records_checked={} reads={} lookups={} duplicates={} bits_rotten={} damage_isolated={} \
             indexes_spoiled={} small_files_spoiled={} starts_moved={} segments_removed={} resumed={} \
             cached_records_lost={} scrubbed={} stops_cut_off={} journal_sets={} groups_replayed={} \
             sets_dropped={}",
            self.lives,
            disk.crashes,
            self.clean_stops,
            disk.sectors_torn,
            disk.errors,
            disk.refused,
            self.batches,
            self.acked_records_checked,
            self.reads,
            self.lookups,
            self.duplicates,
            self.bits_rotten,
            self.damage_isolated,
            self.indexes_spoiled,
            self.small_files_spoiled,
            self.starts_moved,
            self.segments_removed,
            self.resumed,
            self.cached_records_lost,
            self.scrubbed,
            self.stops_cut_off,
            self.journal_sets,
            self.groups_replayed,
            self.sets_dropped,
        )
    }
}

/// The world of one node's logs, as the runner sees it.
#[derive(Debug, Clone, Copy)]
pub struct LogWorld;

impl crate::runner::World for LogWorld {
    type Mutant = WorldMutant;
    type Stats = WorldStats;
    const NAME: WorldName = WorldName::Log;

    fn run(seed: u64, mutant: WorldMutant, trace: Rc<Trace>) -> Outcome<WorldStats> {
        run_seed(seed, mutant, trace)
    }

    fn add(total: &mut WorldStats, other: &WorldStats) {
        total.add(other);
    }

    fn missed(stats: &WorldStats) -> Option<&'static str> {
        let expected = [
            (stats.journal_sets, "no entry set went to a journal"),
            (stats.groups_replayed, "no start replayed a journal"),
        ];
        expected.into_iter().find(|(count, _)| *count == 0).map(|(_, missed)| missed)
    }

    #[cfg(feature = "mutants")]
    fn mutants() -> Vec<crate::mutants::Named<WorldMutant>> {
        crate::mutants::of_log_world()
    }
}

/// Choices that hold for all lives of a seed.
#[derive(Debug, Clone, Copy)]
struct Config {
    segment_bytes: u32,
    segment_ms: i64,
    segment_jitter_ms: i64,
    /// What records may go in this world, and how.
    trims: Trims,
    index_interval_bytes: u32,
    tail_cache_bytes: usize,
    read_cache_bytes: usize,
    open_files_max: usize,
    room_ahead: RoomAhead,
    states_bytes: u64,
    /// Half of the worlds have one; small, so that it is used again and again.
    journal: Option<JournalOptions>,
    /// One in so many turns of syncs happens: where they are rare, a crash meets much that is written and not synced.
    sync_turn_odds: OneIn,
    batches_per_life: u64,
}

impl Config {
    fn draw(prng: &mut Prng) -> Self {
        Self {
            segment_bytes: *prng.pick(&[6_000, 16_384, 40_000, 200_000, 4 << 20]),
            segment_ms: *prng.pick(&[40, 5_000, 604_800_000]),
            segment_jitter_ms: *prng.pick(&[0, 0, 1_000]),
            trims: Trims::draw(prng),
            index_interval_bytes: *prng.pick(&[0, 500, 4_096, 20_000]),
            tail_cache_bytes: *prng.pick(&[0, 8_192, 100_000, 4 << 20]),
            read_cache_bytes: *prng.pick(&[0, 300_000, 4 << 20]),
            open_files_max: *prng.pick(&[1, 4, 64]),
            room_ahead: RoomAhead {
                group_bytes_min: *prng.pick(&[1, 4096, 64 << 10]),
                step_bytes_min: *prng.pick(&[1, 4096]),
                step_bytes_max: *prng.pick(&[4096, 16 << 10, 64 << 10]),
                core_bytes_max: *prng.pick(&[0, 32 << 10, 1 << 20]),
                free_bytes_min: 0,
            },
            states_bytes: *prng.pick(&[1, 10_000, 200_000, u64::MAX]),
            journal: draw_journal(prng),
            sync_turn_odds: *prng.pick(&[OneIn(1), OneIn(3), OneIn(6), OneIn(20)]),
            batches_per_life: prng.between(1, 40),
        }
    }
}

fn draw_journal(prng: &mut Prng) -> Option<JournalOptions> {
    if prng.coin() {
        return None;
    }
    let block_bytes = BLOCK_BYTES as u64;
    Some(JournalOptions {
        file_bytes: block_bytes * *prng.pick(&[5, 9, 17, 65]),
        file_count: *prng.pick(&[2, 3, 4]),
        ring: prng.next_u64(),
        group_bytes_max: *prng.pick(&[1_000, 8_000, 65_536]),
        company_min: *prng.pick(&[1, 1, 1, 2]),
        cached_company_min: 1,
        sets_before: 0,
        settle_bytes: *prng.pick(&[0, 3_000, 65_536]),
        behind_bytes_max: *prng.pick(&[10_000, 100_000, 4 << 20]),
    })
}

/// How records go in a world, if they do.
#[derive(Debug, Clone, Copy)]
struct Trims {
    /// By request.
    deletes: bool,
    /// By age and size.
    policy: RetentionPolicy,
}

impl Trims {
    fn draw(prng: &mut Prng) -> Self {
        if prng.below(3) == 0 {
            return Self { deletes: false, policy: RetentionPolicy::default() };
        }
        let policy = RetentionPolicy {
            age_ms_max: *prng.pick(&[None, Some(30), Some(2_000)]),
            bytes_max: *prng.pick(&[None, Some(0), Some(30_000)]),
        };
        Self { deletes: prng.coin(), policy }
    }

    /// Whether any record may go.
    fn any(&self) -> bool {
        self.deletes || self.policy != RetentionPolicy::default()
    }
}

/// One log of the world, in all its lives.
struct WorldLog {
    topic: Rc<str>,
    id: TopicPartition,
    slot: u16,
    /// Whether it begins its lives under write caching.
    caches: bool,
    model: RefCell<LogModel>,
}

/// Everything that outlives a process.
struct World {
    config: Config,
    mutant: WorldMutant,
    executor: SimExecutor,
    trace: Rc<Trace>,
    prng: RefCell<Prng>,
    logs: Vec<WorldLog>,
    stats: Cell<WorldStats>,
    violation: RefCell<Option<Violation>>,
    /// The last life stopped in order and nobody has touched a file since.
    is_untouched: Cell<bool>,
    /// The start of this life came to its end.
    is_up: Cell<bool>,
    /// Errors of the disk that no start may be refused for: what met them is done in another way.
    excused_errors: Cell<u64>,
    /// A copy of a checkpoint was damaged, in a world where segments are removed.
    is_checkpoint_spoiled: Cell<bool>,
}

impl World {
    fn new(seed: u64, mutant: WorldMutant, trace: Rc<Trace>) -> (Rc<Self>, SimDisk) {
        let mut prng = Prng::new(seed);
        let executor = SimExecutor::new(prng.fork(), Rc::clone(&trace));
        let disk = SimDisk::new(&executor, prng.fork(), Rc::clone(&trace));
        let mut config = Config::draw(&mut prng);
        let mut logs: Vec<WorldLog> =
            (0..prng.between(1, 3)).map(|index| WorldLog::draw(&mut prng, index)).collect();
        if config.journal.is_some() && prng.happens(OneIn(3)) {
            // Nobody's acknowledgement has the journal synced, and no want of files: a crash takes more of it than the last set.
            logs.iter_mut().for_each(|log| log.caches = true);
            config.open_files_max = 64;
            config.sync_turn_odds = OneIn(8);
        }
        let world = Self {
            config,
            mutant,
            executor,
            trace,
            prng: RefCell::new(prng),
            logs,
            stats: Cell::default(),
            violation: RefCell::default(),
            is_untouched: Cell::new(false),
            is_up: Cell::new(false),
            excused_errors: Cell::new(0),
            is_checkpoint_spoiled: Cell::new(false),
        };
        (Rc::new(world), disk)
    }

    /// Virtual time as clients and server see it.
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.executor.now().as_millis()).expect("minutes");
        Timestamp(EPOCH_MS + elapsed)
    }

    fn chance<T>(&self, draw: impl FnOnce(&mut Prng) -> T) -> T {
        draw(&mut self.prng.borrow_mut())
    }

    fn count(&self, change: impl FnOnce(&mut WorldStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Keeps the first violation; the life ends as soon as its main task looks.
    fn report(&self, violation: Violation) {
        self.trace.note("violation", violation.property, [0, 0]);
        self.violation.borrow_mut().get_or_insert(violation);
    }
}

impl WorldLog {
    fn draw(prng: &mut Prng, index: u64) -> Self {
        let mut topic_id = [0; 16];
        prng.fill(&mut topic_id);
        let partition = PartitionIndex(i32::try_from(index).expect("three logs"));
        let slot = u16::try_from(prng.below(8)).expect("below 8");
        let id = TopicPartition { topic_id: TopicId(topic_id), partition };
        let caches = prng.below(3) == 0;
        Self { topic: "orders".into(), id, slot, caches, model: RefCell::default() }
    }

    /// What acknowledgements wait for as a life begins.
    fn safe_end(&self) -> SafeEnd {
        if self.caches { SafeEnd::Written } else { SafeEnd::Durable }
    }

    fn directory(&self) -> String {
        format!("topics/{}-{}", self.topic, self.id.partition)
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

/// What one life is like.
#[derive(Debug, Clone, Copy)]
struct LifePlan {
    index: i32,
    shards: u16,
    ending: Ending,
    faults: FaultPlan,
    is_last: bool,
}

/// What goes wrong while a life works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultPlan {
    None,
    Slow,
    Reads,
    Writes,
    Syncs,
    Names,
    FullDisk,
    BitRot,
}

impl LifePlan {
    fn draw(prng: &mut Prng, index: i32, lives: i32) -> Self {
        let is_last = index + 1 == lives;
        let ending = match prng.below(10) {
            // A restart in a row: the crash hits start-up and recovery themselves.
            0..3 => Ending::Crash { at: prng.between(1, 250) },
            3..6 => Ending::Crash { at: prng.between(100, 3_000) },
            6 => Ending::Kill { at: prng.between(50, 3_000) },
            _ => Ending::Clean,
        };
        let faults = match prng.below(16) {
            0..6 => FaultPlan::None,
            6..8 => FaultPlan::Slow,
            8 => FaultPlan::Reads,
            9 => FaultPlan::Writes,
            10 => FaultPlan::Syncs,
            11 => FaultPlan::Names,
            12 => FaultPlan::FullDisk,
            _ => FaultPlan::BitRot,
        };
        let shards = u16::try_from(prng.between(1, 2)).expect("1 or 2");
        if is_last {
            return Self { index, shards, ending: Ending::Clean, faults: FaultPlan::None, is_last };
        }
        Self { index, shards, ending, faults, is_last }
    }
}

/// Runs one seed to its verdict, noting in a fresh `trace` what happens.
#[must_use]
pub fn run_seed(seed: u64, mutant: WorldMutant, trace: Rc<Trace>) -> Outcome<WorldStats> {
    let (world, disk) = World::new(seed, mutant, trace);
    let failure = live_all(&world, disk);
    let failure = failure.err().map(|violation| (world.trace.step(), violation));
    Outcome {
        hash: world.trace.hash(),
        stats: world.stats.get(),
        failure,
        lines: world.trace.take_lines(),
    }
}

fn live_all(world: &Rc<World>, mut disk: SimDisk) -> Result<(), Violation> {
    let lives = world.chance(|prng| prng.between(3, 7));
    let lives = i32::try_from(lives).expect("a few");
    for index in 0..lives {
        let plan = world.chance(|prng| LifePlan::draw(prng, index, lives));
        world.trace.note("life", "", [u64::from(plan.shards), plan.faults as u64]);
        world.count(|stats| stats.lives += 1);
        let has_crashed = live_once(world, &disk, plan)?;
        lose_unsynced_starts(world, &disk);
        if has_crashed {
            for log in &world.logs {
                log.model.borrow_mut().power_failed();
            }
        }
        disk = if has_crashed { disk.crash() } else { disk.restart() };
        world.executor.drop_tasks();
        let seen = disk.stats();
        world.count(|stats| stats.disk = seen);
        trim::names_are_kept(world, &disk)?;
        tamper::between_lives(world, &disk)?;
        disk = disk.restart();
        world.executor.drop_tasks();
    }
    Ok(())
}

/// A start that met a failed sync of a segment was refused, or cut off: the log was there for nobody yet, so it told nobody. What a
/// killed process had left in that file and no sync had covered may never reach the device, whoever asks later: of what was
/// acknowledged only what was durable was promised for that.
fn lose_unsynced_starts(world: &World, disk: &SimDisk) {
    let failed = disk.take_failed_syncs();
    if world.is_up.get() {
        // From there on each log said itself that a sync of it failed.
        return;
    }
    for path in failed.iter().filter(|path| path.ends_with(".log")) {
        let of_path = |log: &&WorldLog| path.starts_with(&format!("{}/", log.directory()));
        if let Some(log) = world.logs.iter().find(of_path) {
            log.model.borrow_mut().power_failed();
        }
    }
}

/// True if power failed.
fn live_once(world: &Rc<World>, disk: &SimDisk, plan: LifePlan) -> Result<bool, Violation> {
    let crash_at = match plan.ending {
        Ending::Crash { at } | Ending::Kill { at } => Some(at),
        Ending::Clean => None,
    };
    let limits = RunLimits { steps_max: LIFE_STEPS_MAX, crash_at };
    let is_crash = matches!(plan.ending, Ending::Crash { .. });
    world.is_up.set(false);
    let end = world.executor.run(life::live(Rc::clone(world), disk.clone(), plan), limits);
    if let Some(violation) = world.violation.borrow_mut().take() {
        return Err(violation);
    }
    match end {
        RunEnd::Done(result) => result.map(|()| is_crash),
        RunEnd::Crashed => Ok(is_crash),
        RunEnd::Deadlock { tasks } => broken("progress", format!("{tasks} tasks wait for ever")),
        RunEnd::OutOfSteps => broken("progress", "a loop without end"),
    }
}
