//! Many seeds on all cores, and the hunt for mutants.
//!
//! Owns threads, and nothing of a world: each seed is a world of its own on one thread, so that figures and failures do not
//! depend on how seeds are shared out. A panic inside a world is a failure of that seed.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::panics::{self, Loudness, Watched};
use crate::trace::{Keep, Trace};
use crate::verdict::Violation;

/// Failures kept of one run: the first are enough, and a broken rule would otherwise keep thousands.
const FAILURES_MAX: usize = 20;

/// Which world a seed is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorldName {
    /// The logs of one node, without a broker.
    Log,
    /// The whole broker and its clients.
    Broker,
}

impl WorldName {
    /// How the command line is told of it.
    fn option(self) -> &'static str {
        match self {
            Self::Log => "",
            Self::Broker => "--world broker ",
        }
    }
}

/// How a seed ended.
#[derive(Debug, Clone)]
pub struct Outcome<Stats> {
    /// Hash of the trace: equal for equal seeds and builds.
    pub hash: u64,
    /// What happened.
    pub stats: Stats,
    /// The property that did not hold, and the step.
    pub failure: Option<(u64, Violation)>,
    /// The trace, if it was asked for.
    pub lines: Vec<String>,
}

/// A world of seeds.
pub trait World {
    /// A rule that can be off.
    type Mutant: Copy + Default + PartialEq + Send + Sync;
    /// What its seeds do, in figures.
    type Stats: Clone + Default + Send + fmt::Display;
    /// Which it is.
    const NAME: WorldName;

    /// Runs one seed to its verdict, noting in a fresh `trace` what happens.
    fn run(seed: u64, mutant: Self::Mutant, trace: Rc<Trace>) -> Outcome<Self::Stats>;

    /// Adds another seed's figures.
    fn add(total: &mut Self::Stats, other: &Self::Stats);

    /// What these seeds should have done and never did, if there is such a thing.
    fn missed(stats: &Self::Stats) -> Option<&'static str>;

    /// Every mutant that its oracle must notice.
    #[cfg(feature = "mutants")]
    fn mutants() -> Vec<crate::mutants::Named<Self::Mutant>>;
}

/// A seed whose world broke a property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Steps until then.
    pub step: u64,
    /// Of which world.
    pub world: WorldName,
    /// The rule that was off, by the name that replays it.
    pub mutant: Option<&'static str>,
    /// The property and the facts.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, world, mutant, what } = self;
        let world = world.option();
        writeln!(formatter, "seed {seed}, step {step}: {what}")?;
        match mutant {
            None => write!(formatter, "  replay: cargo run -p sim -- replay {world}{seed}"),
            Some(name) => write!(
                formatter,
                "  replay: cargo run -p sim --features mutants -- replay {world}{seed} --mutant {name}"
            ),
        }
    }
}

/// What a run of many seeds came to.
#[derive(Debug, Clone, Default)]
pub struct Report<Stats> {
    /// Seeds run.
    pub seeds: u64,
    /// All worlds' figures.
    pub stats: Stats,
    /// Failures, lowest seed first, at most twenty.
    pub failures: Vec<Failure>,
}

impl<Stats: fmt::Display> fmt::Display for Report<Stats> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, stats, failures } = self;
        write!(formatter, "seeds={seeds} {stats} failures={}", failures.len())
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
pub fn run_one<W: World>(
    seed: u64,
    mutant: W::Mutant,
    keep: Keep,
) -> (Option<Outcome<W::Stats>>, Option<Failure>) {
    let trace = Rc::new(Trace::new(keep));
    let is_hunt = mutant != W::Mutant::default() && keep == Keep::Hash;
    let loudness = if is_hunt { Loudness::Silent } else { Loudness::Loud };
    let name = name_of::<W>(mutant);
    let watched =
        Watched { world: W::NAME, seed, mutant: name, trace: Rc::clone(&trace), loudness };
    match panics::watch(&watched, || W::run(seed, mutant, trace)) {
        Ok(outcome) => {
            let failure = outcome.failure.as_ref().map(|(step, violation)| Failure {
                seed,
                step: *step,
                world: W::NAME,
                mutant: name,
                what: violation.to_string(),
            });
            (Some(outcome), failure)
        }
        Err(failure) => (None, Some(failure)),
    }
}

#[cfg(feature = "mutants")]
fn name_of<W: World>(mutant: W::Mutant) -> Option<&'static str> {
    W::mutants().into_iter().find(|one| one.mutant == mutant).map(|one| one.name)
}

#[cfg(not(feature = "mutants"))]
fn name_of<W: World>(_: W::Mutant) -> Option<&'static str> {
    None
}

/// Runs the seeds of `range`; `progress` is told after each how many are done, and how it failed if it did.
pub fn run_many<W: World>(
    range: Range,
    mutant: W::Mutant,
    stop: Stop,
    progress: impl Fn(u64, Option<&Failure>) + Sync,
) -> Report<W::Stats> {
    let report = Mutex::new(Report::default());
    let next = AtomicU64::new(0);
    let is_stopped = AtomicBool::new(false);
    let work = || {
        while !is_stopped.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= range.seeds {
                break;
            }
            let (outcome, failure) = run_one::<W>(range.from + index, mutant, Keep::Hash);
            let has_failed = failure.is_some();
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.seeds += 1;
            if let Some(outcome) = outcome {
                W::add(&mut report.stats, &outcome.stats);
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
