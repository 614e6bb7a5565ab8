//! What every run of a bench has around it: CPUs, signals, progress, and what is shown, saved and said at the end.
//!
//! Owns the order at the end: the result is shown and saved before anything is said to have failed.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use load::{HdrLog, HdrLogError, Interval, LoadError, Observer, Outcome as Ran, Target, Until};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_timerslack;
use nix::unistd::Pid;
use node::{CorePlatform, StopSignal};

use super::options::{Cpus, ToldArgs};
use super::units::show_bytes;
use super::{interrupt, page, report};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, Output};

/// The least that Linux knows: 0 stands for its default.
const TIMER_SLACK_NS: u64 = 1;

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
    body: impl AsyncFnOnce(&CorePlatform, &mut Told<'_>, &StopSignal) -> Result<Ran, LoadError>,
) -> Outcome {
    if let Some(cpus) = session.cpus {
        keep_to(cpus)?;
    }
    // Linux wakes sleepers 50 us late to save power: at a fixed rate every latency would have that on top. Where it is refused
    // "sent late by" tells.
    let _ = set_timerslack(TIMER_SLACK_NS);
    let stop = interrupt::watch()?;
    let save = session.told.save.as_deref().map(Save::open).transpose()?;
    let page = session.told.page.as_deref().map(page::PageFile::open).transpose()?;
    let mut told = Told::new(session.told)?;
    let ran = crate::commands::run(Path::new("."), async |platform| {
        body(&platform, &mut told, &stop).await.map_err(Failure::from)
    })?;
    let told = told.finish();
    let saved = save.map_or(Ok(()), |save| save.write(&ran));
    let drawn = page.map_or(Ok(()), |page| page.write(&[(ran.result.topic.clone(), &ran.result)]));
    Output::new(session.format).show(&report::Report(&ran.result))?;
    say_what_is_left(&ran);
    told.and(saved).and(drawn)?;
    judge(ran)
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

/// Where the result goes. It is opened before the run: a path that is wrong is told then, and an older result stays until
/// there is another.
struct Save<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Save<'a> {
    fn open(path: &'a Path) -> Outcome<Self> {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| Failure::io(path.display(), &error))?;
        Ok(Self { path, file })
    }

    fn write(self, ran: &Ran) -> Outcome {
        let failed = |error| Failure::io(self.path.display(), &error);
        self.file.set_len(0).map_err(failed)?;
        let mut sink = BufWriter::new(&self.file);
        serde_json::to_writer_pretty(&mut sink, &ran.result)
            .map_err(|error| failed(error.into()))?;
        sink.write_all(b"\n").and_then(|()| sink.flush()).map_err(failed)
    }
}

fn say_what_is_left(ran: &Ran) {
    let Some(topic) = &ran.topic_left else { return };
    match &ran.deletion {
        Some(error) => eprintln!("corelog: topic {topic} could not be deleted: {error}"),
        None => eprintln!("corelog: topic {topic} is still there"),
    }
}

/// How the command ends.
fn judge(ran: Ran) -> Outcome {
    let Ran { result, failure, .. } = ran;
    let audit = &result.audit;
    // Records that are lost come first, whatever else went wrong; that they could not be read is the failure's own doing.
    if audit.has_contradicted() || (!audit.has_passed && failure.is_none()) {
        let count = audit.acked_batches.max(audit.matched_batches);
        let fact =
            format!("the audit failed: {} findings over {count} batches", audit.finding_count);
        let next =
            "look at the findings above; corelog log verify DIR checks the files of a stopped node";
        return Err(Failure::new(Exit::Damaged, fact).advise(next));
    }
    if let Some(failure) = failure {
        let failure = Failure::from(failure);
        let fact = format!("the run failed: {}", failure.fact);
        return Err(Failure { fact, ..failure });
    }
    if result.unanswered > 0 {
        let fact = format!("{} requests were never answered", result.unanswered);
        let next = "see whether the node is busy or stopped: figures of such a run are of no use";
        return Err(Failure::new(Exit::TimedOut, fact).advise(next));
    }
    if let Some(error) = result.errors.first() {
        let batches: u64 = result.errors.iter().map(|error| error.count).sum();
        let fact = format!("{batches} batches were refused, most with {}", error.name);
        return Err(Failure::new(Exit::Refused, fact)
            .advise("figures of a run with errors are of no use: see the node's log"));
    }
    Ok(())
}

/// Tells how it goes: lines on standard error, and the interval log.
pub(super) struct Told<'a> {
    args: &'a ToldArgs,
    file: Option<File>,
    log: Option<HdrLog<BufWriter<File>>>,
    failure: Option<Failure>,
}

impl<'a> Told<'a> {
    /// Opens the log now: a path that is wrong is told before the run, not after it.
    fn new(args: &'a ToldArgs) -> Outcome<Self> {
        let open = |path: &std::path::PathBuf| {
            File::create(path).map_err(|error| Failure::io(path.display(), &error))
        };
        let file = args.hdr_log.as_ref().map(open).transpose()?;
        Ok(Self { args, file, log: None, failure: None })
    }

    fn say(&self, line: &str) {
        if !self.args.quiet {
            eprintln!("{line}");
        }
    }

    fn fail(&mut self, error: &HdrLogError) {
        let place = self.args.hdr_log.as_deref().unwrap_or(Path::new("hdr-log"));
        self.failure = Some(Failure::new(Exit::Io, format!("{}: {error}", place.display())));
        self.log = None;
    }

    fn finish(mut self) -> Outcome {
        if let Some(log) = self.log.take()
            && let Err(error) = log.finish()
        {
            self.fail(&error);
        }
        self.failure.map_or(Ok(()), Err)
    }
}

impl Observer for Told<'_> {
    fn filling(&mut self, until: &Until) {
        let bytes = until.bytes.map(show_bytes).unwrap_or_default();
        self.say(&format!("corelog: filling a topic first: {bytes}"));
    }

    fn started(&mut self, target: &Target) {
        let count = |count: usize, noun: &str| {
            format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
        };
        self.say(&format!(
            "corelog: topic {}, {}, {}, {}",
            target.topic,
            count(target.partitions, "partition"),
            count(target.leaders.len(), "leader"),
            count(target.connections, "connection"),
        ));
        let Some(file) = self.file.take() else { return };
        let comment = format!("corelog bench {}", env!("CARGO_PKG_VERSION"));
        match HdrLog::begin(BufWriter::new(file), target.measured_from, &comment) {
            Ok(log) => self.log = Some(log),
            Err(error) => self.fail(&error),
        }
    }

    fn interval(&mut self, interval: &Interval, latencies: &hdrhistogram::Histogram<u64>) {
        self.say(&report::progress_line(interval));
        let Some(log) = &mut self.log else { return };
        let begin = Duration::from_secs_f64(interval.begin);
        let length = Duration::from_secs_f64(interval.seconds);
        if let Err(error) = log.interval(begin, length, latencies) {
            self.fail(&error);
        }
    }

    fn audit_started(&mut self, bytes: u64) {
        self.say(&format!("corelog: reading back {}", show_bytes(bytes)));
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
        assert_eq!(exit_of(|ran| ran.result.audit = audit(1, 1)), Some(Exit::Damaged));
        assert_eq!(exit_of(|ran| ran.result.unanswered = 1), Some(Exit::TimedOut));
        assert_eq!(exit_of(|ran| ran.result.errors = testing::errors()), Some(Exit::Refused));
    }

    #[test]
    fn records_that_are_lost_are_told_before_the_failure_that_the_run_met() {
        let failed = |audit: AuditReport| {
            exit_of(|ran| {
                ran.failure = Some(LoadError::Panicked);
                ran.result.audit = audit;
            })
        };
        assert_eq!(failed(audit(3, 2)), Some(Exit::Damaged));
        assert_eq!(failed(audit(2, 2)), Some(Exit::Unreachable));
        let passed = AuditReport { has_passed: true, ..AuditReport::default() };
        assert_eq!(failed(passed), Some(Exit::Unreachable));
    }
}
