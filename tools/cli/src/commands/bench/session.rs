//! What every run of a bench has around it: CPUs, signals, progress, and what is shown, saved and said at the end.
//!
//! Owns the order at the end. The result is saved and shown before anything is said to have failed; everything that failed is said; and
//! the exit code is that of the first of these: what is wrong with the run, then the interval log, the saved result, the page, and
//! standard output. A full disk must not hide a failed audit.

use std::path::Path;

use load::{LoadError, Outcome as Ran, RunResult, Unsound};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use node::{CorePlatform, StopSignal};

use super::options::{Cpus, ToldArgs};
use super::told::Told;
use super::{page, report};
use crate::commands::signals::{self, Words};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Output, say};
use crate::replace;

/// The least that Linux knows: 0 stands for its default.
const TIMER_SLACK_NS: u64 = 1;

/// The first ends sending and reading, and the run is audited and told. Not SIGHUP: with its terminal nobody is left to be told.
const INTERRUPTING: [Signal; 2] = [Signal::SIGINT, Signal::SIGTERM];

/// What a run that is interrupted says.
const INTERRUPTED: Words = Words {
    first: Some(
        "stopping; the run is audited and told as far as it went. Another signal, half a second later or more, ends at once",
    ),
    second: Some("ended; a topic that was made for the run is still there"),
};

/// What a run is told on the command line beside what it does.
pub(super) struct Session<'a> {
    /// The CPUs that the client keeps to.
    pub(super) cpus: Option<&'a Cpus>,
    /// What is told.
    pub(super) told: &'a ToldArgs,
    /// How the result is printed.
    pub(super) format: Format,
}

/// Runs `body` on an executor, and tells what comes of it.
pub(super) fn run(
    session: &Session<'_>,
    body: impl AsyncFnOnce(&CorePlatform, &mut Told, &StopSignal) -> Result<Ran, LoadError>,
) -> Outcome {
    if let Some(cpus) = session.cpus {
        keep_to(cpus)?;
    }
    // Linux wakes sleepers 50 us late to save power: at a fixed rate every latency would have that on top. Where it is refused
    // "sent late by" tells.
    let _ = set_timerslack(TIMER_SLACK_NS);
    let stop = signals::watch(&INTERRUPTING, INTERRUPTED)?;
    let (save, page) = (session.told.save.as_deref(), session.told.page.as_deref());
    // A path that is wrong is told before the run.
    [save, page].into_iter().flatten().try_for_each(replace::check)?;
    let mut told = Told::new(session.told)?;
    let ran = crate::commands::run(Path::new("."), async |platform| {
        body(&platform, &mut told, &stop).await.map_err(Failure::from)
    })?;
    let saved = save.map_or(Ok(()), |path| save_result(path, &ran.result));
    let drawn = page.map_or(Ok(()), |path| page::write(path, &ran.result));
    let logged = told.finish();
    let shown = Output::new(session.format).offer(&report::Report(&ran.result));
    say_what_is_left(&ran);
    first_failure([judge(ran), logged, saved, drawn, shown])
}

/// The first failure ends the command; the others are said before.
fn first_failure<const N: usize>(outcomes: [Outcome; N]) -> Outcome {
    let mut failures = outcomes.into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else { return Ok(()) };
    failures.for_each(say);
    Err(first)
}

/// Keeps this thread, and those that it starts, to some CPUs.
fn keep_to(cpus: &Cpus) -> Outcome {
    let mut set = CpuSet::new();
    let pinned = cpus.0.iter().try_for_each(|cpu| set.set(*cpu));
    let pinned = pinned.and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.map_err(|errno| {
        Failure::new(Exit::Usage, format!("--cpus: {errno}"))
            .advise("name CPUs that this process may use: taskset -p $$ shows them")
    })
}

fn save_result(path: &Path, result: &RunResult) -> Outcome {
    let mut text = serde_json::to_vec_pretty(result)
        .map_err(|error| Failure::io(path.display(), &error.into()))?;
    text.push(b'\n');
    replace::replace(path, &text)
}

fn say_what_is_left(ran: &Ran) {
    let Some(topic) = &ran.topic_left else { return };
    match &ran.deletion {
        Some(error) => say(format_args!("topic {topic} could not be deleted: {error}")),
        None => say(format_args!("topic {topic} is still there")),
    }
}

/// How the command ends: by the gravest of what is wrong with the run.
fn judge(ran: Ran) -> Outcome {
    let Ran { result, failure, .. } = ran;
    let Some(reason) = result.reasons().into_iter().next() else { return Ok(()) };
    let fact = reason.text();
    match &reason {
        Unsound::AuditFailed { .. } => {
            let count = result.audit.acked_batches.max(result.audit.matched_batches);
            let next = "look at the findings above; corelog log verify DIR checks the files of a stopped node";
            let fact = format!("{fact} over {count} batches");
            Err(Failure::new(Exit::Damaged, fact).advise(next))
        }
        Unsound::RunFailed { .. } => {
            let own = failure.map(Failure::from);
            let own = own.unwrap_or_else(|| Failure::new(Exit::Refused, String::new()));
            Err(Failure { fact, ..own })
        }
        reason => {
            let (exit, next) = ending(reason);
            Err(Failure::new(exit, fact).advise(next))
        }
    }
}

/// The exit code of a reason, and what to do next.
fn ending(reason: &Unsound) -> (Exit, &'static str) {
    match reason {
        Unsound::AuditFailed { .. } => (Exit::Damaged, "look at the findings above"),
        Unsound::RunFailed { .. } => (Exit::Refused, "run it again"),
        Unsound::NotFlushed { .. } => (
            Exit::Damaged,
            "see whether the topic's options promise durability, and whether the disk is the broker's (--broker-dir)",
        ),
        Unsound::FlushesUnknown { .. } => (
            Exit::Unaudited,
            "name a directory of the broker's log on a disk that counts its flushes (--broker-dir)",
        ),
        Unsound::Unanswered { .. } => (
            Exit::TimedOut,
            "see whether the node is busy or stopped: figures of such a run are of no use",
        ),
        Unsound::Refused { .. } => {
            (Exit::Refused, "figures of a run with errors are of no use: see the node's log")
        }
        Unsound::NotAudited { .. } => (
            Exit::Unaudited,
            "the topic is still there: corelog consume shows whether it can be read; then run it again",
        ),
        Unsound::RateNotKept { .. } => (
            Exit::Unsound,
            "ask for a lower --rate, or allow more --in-flight and --connections, if it is not the broker that is slow",
        ),
        Unsound::DeliveriesUncounted { .. } => {
            (Exit::Unsound, "ask for a lower --rate, larger batches or fewer --consumers")
        }
        Unsound::NotSteady => (
            Exit::Unsound,
            "run it longer, and see in the intervals and the node's metrics what has grown",
        ),
        Unsound::NothingMeasured => (
            Exit::Unsound,
            "let it run longer, or without --warm-up, and see whether the node answers",
        ),
    }
}

#[cfg(test)]
mod tests {
    use load::{AuditReport, RunEnd};

    use super::*;
    use crate::commands::bench::report::testing;

    fn exit_of(change: impl FnOnce(&mut Ran)) -> Option<Exit> {
        let result = testing::result();
        let mut ran = Ran { result, failure: None, topic_left: None, deletion: None };
        change(&mut ran);
        judge(ran).err().map(|failure| failure.exit)
    }

    fn audit(finding_count: u64, unreadable_count: u64) -> AuditReport {
        AuditReport { finding_count, unreadable_count, ..AuditReport::default() }
    }

    #[test]
    fn a_run_that_cannot_be_believed_fails() {
        assert_eq!(exit_of(|_| {}), None);
        assert_eq!(exit_of(|ran| ran.result.end = RunEnd::Interrupted), None);
        assert_eq!(exit_of(|ran| ran.result.audit = audit(1, 0)), Some(Exit::Damaged));
        assert_eq!(exit_of(|ran| ran.result.audit = audit(1, 1)), Some(Exit::Unaudited));
        assert_eq!(exit_of(|ran| ran.result.unanswered = 1), Some(Exit::TimedOut));
        assert_eq!(exit_of(|ran| ran.result.errors = testing::errors()), Some(Exit::Refused));
        let behind =
            |due, unsent| exit_of(|ran| (ran.result.due, ran.result.unsent) = (due, unsent));
        assert_eq!((behind(100, 2), behind(100, 1)), (Some(Exit::Unsound), None));
        assert_eq!(exit_of(|ran| ran.result.delivery_uncounted = 1), Some(Exit::Unsound));
        let nothing = |ran: &mut Ran| {
            ran.result.measured.requests = 0;
            ran.result.latency.count = 0;
        };
        assert_eq!(exit_of(nothing), Some(Exit::Unsound));
    }

    #[test]
    fn records_that_are_lost_are_told_before_the_failure_that_the_run_met() {
        let failed = |audit: AuditReport| {
            exit_of(|ran| {
                ran.failure = Some(LoadError::Panicked);
                ran.result.end = RunEnd::Failed { reason: LoadError::Panicked.to_string() };
                ran.result.audit = audit;
            })
        };
        assert_eq!(failed(audit(3, 2)), Some(Exit::Damaged));
        assert_eq!(failed(audit(2, 2)), Some(Exit::Unreachable));
        let passed = AuditReport { has_passed: true, ..AuditReport::default() };
        assert_eq!(failed(passed), Some(Exit::Unreachable));
    }

    #[test]
    fn what_is_wrong_with_the_run_comes_before_what_could_not_be_written() {
        let failure = |exit| Err(Failure::new(exit, "x"));
        let first =
            |outcomes: [Outcome; 3]| first_failure(outcomes).err().map(|failure| failure.exit);
        assert_eq!(first([Ok(()), Ok(()), Ok(())]), None);
        assert_eq!(first([failure(Exit::Damaged), failure(Exit::Io), Ok(())]), Some(Exit::Damaged));
        assert_eq!(first([Ok(()), failure(Exit::Io), failure(Exit::Io)]), Some(Exit::Io));
    }
}
