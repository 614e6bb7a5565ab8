//! Many seeds on all cores, and the hunt for mutants.
//!
//! Owns threads, and nothing of a world: each seed is a world of its own on one thread, so that figures and failures do not
//! depend on how seeds are shared out. A panic inside a world is a failure of that seed.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::log_world::{Outcome, WorldMutant, WorldStats, run_seed};
use crate::panics::{self, Loudness, Watched};
use crate::trace::{Keep, Trace};

/// Failures kept of one run: the first are enough, and a broken rule would otherwise keep thousands.
const FAILURES_MAX: usize = 20;

/// A seed whose world broke a property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Steps until then.
    pub step: u64,
    /// The rule that was off, by the name that replays it.
    pub mutant: Option<&'static str>,
    /// The property and the facts.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, mutant, what } = self;
        writeln!(formatter, "seed {seed}, step {step}: {what}")?;
        match mutant {
            None => write!(formatter, "  replay: cargo run -p sim -- replay {seed}"),
            Some(name) => write!(
                formatter,
                "  replay: cargo run -p sim --features mutants -- replay {seed} --mutant {name}"
            ),
        }
    }
}

/// What a run of many seeds came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Seeds run.
    pub seeds: u64,
    /// All worlds' figures.
    pub stats: WorldStats,
    /// Failures, lowest seed first, at most twenty.
    pub failures: Vec<Failure>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, stats, failures } = self;
        write!(
            formatter,
            "seeds={seeds} lives={} crashes={} clean_stops={} sectors_torn={} errors={} refused={} batches={} \
             acked_records_checked={} reads={} lookups={} duplicates={} bits_rotten={} damage_isolated={} \
             indexes_spoiled={} small_files_spoiled={} failures={}",
            stats.lives,
            stats.disk.crashes,
            stats.clean_stops,
            stats.disk.sectors_torn,
            stats.disk.errors,
            stats.disk.refused,
            stats.batches,
            stats.acked_records_checked,
            stats.reads,
            stats.lookups,
            stats.duplicates,
            stats.bits_rotten,
            stats.damage_isolated,
            stats.indexes_spoiled,
            stats.small_files_spoiled,
            failures.len(),
        )
    }
}

/// Which seeds, and on how many threads.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// Threads; at least one.
    pub threads: usize,
}

/// When to stop before the last seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Never: every seed counts.
    AtEnd,
    /// At the first failure: one is enough to catch a mutant.
    AtFailure,
}

/// Runs one seed; a panic becomes its failure.
///
/// Order   with the lines kept, a panic prints the trace so far before it unwinds or aborts: nothing could afterwards.
#[must_use]
pub fn run_one(seed: u64, mutant: WorldMutant, keep: Keep) -> (Option<Outcome>, Option<Failure>) {
    let trace = Rc::new(Trace::new(keep));
    let is_hunt = mutant != WorldMutant::default() && keep == Keep::Hash;
    let loudness = if is_hunt { Loudness::Silent } else { Loudness::Loud };
    let name = name_of(mutant);
    let watched = Watched { seed, mutant: name, trace: Rc::clone(&trace), loudness };
    match panics::watch(&watched, || run_seed(seed, mutant, trace)) {
        Ok(outcome) => {
            let failure = outcome.failure.as_ref().map(|(step, violation)| Failure {
                seed,
                step: *step,
                mutant: name,
                what: violation.to_string(),
            });
            (Some(outcome), failure)
        }
        Err(failure) => (None, Some(failure)),
    }
}

#[cfg(feature = "mutants")]
fn name_of(mutant: WorldMutant) -> Option<&'static str> {
    crate::mutants::all().into_iter().find(|one| one.mutant == mutant).map(|one| one.name)
}

#[cfg(not(feature = "mutants"))]
fn name_of(_: WorldMutant) -> Option<&'static str> {
    None
}

/// Runs the seeds of `range`; `progress` is told after each how many are done, and how it failed if it did.
pub fn run_many(
    range: Range,
    mutant: WorldMutant,
    stop: Stop,
    progress: impl Fn(u64, Option<&Failure>) + Sync,
) -> Report {
    let report = Mutex::new(Report::default());
    let next = AtomicU64::new(0);
    let is_stopped = AtomicBool::new(false);
    let work = || {
        while !is_stopped.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= range.seeds {
                break;
            }
            let (outcome, failure) = run_one(range.from + index, mutant, Keep::Hash);
            let has_failed = failure.is_some();
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.seeds += 1;
            if let Some(outcome) = outcome {
                report.stats.add(&outcome.stats);
            }
            progress(report.seeds, failure.as_ref());
            report.failures.extend(failure);
            if has_failed && stop == Stop::AtFailure {
                is_stopped.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..range.threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.failures.sort();
    report.failures.truncate(FAILURES_MAX);
    report
}
