//! `corelog bench produce`: one run, its progress, and what it leaves.
//!
//! Owns the order at the end: the result is shown and saved before anything is said to have failed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use load::{HdrLog, HdrLogError, Interval, LoadError, Observer, Outcome as Ran, RunEnd, Target};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_timerslack;
use nix::unistd::Pid;

use super::options::{Cpus, ProduceArgs, ToldArgs};
use super::units::show_bytes;
use super::{interrupt, report};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// The least that Linux knows: 0 stands for its default.
const TIMER_SLACK_NS: u64 = 1;

/// Runs it.
pub(super) fn run(args: &ProduceArgs) -> Outcome {
    let options = args.options()?;
    if let Some(cpus) = args.cpus() {
        keep_to(cpus)?;
    }
    // Linux wakes sleepers 50 us late to save power: at a fixed rate every latency would have that on top. Where it is refused
    // "sent late by" tells.
    let _ = set_timerslack(TIMER_SLACK_NS);
    let stop = interrupt::watch()?;
    let mut told = Told::new(args.told())?;
    let ran = crate::commands::run(Path::new("."), async |platform| {
        let stopped = async { stop.requested().await };
        load::produce(&platform, &options, &mut told, stopped).await.map_err(Failure::from)
    })?;
    let told = told.finish();
    let saved = args.told().save.as_deref().map_or(Ok(()), |path| save(path, &ran));
    Output::new(args.output.output).show(&report::Report(&ran.result))?;
    say_what_is_left(&ran);
    told.and(saved)?;
    judge(&ran)
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

fn save(path: &Path, ran: &Ran) -> Outcome {
    let failed = |error| Failure::io(path.display(), &error);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    serde_json::to_writer_pretty(&mut file, &ran.result).map_err(|error| failed(error.into()))?;
    file.write_all(b"\n").and_then(|()| file.flush()).map_err(failed)
}

fn say_what_is_left(ran: &Ran) {
    let Some(topic) = &ran.topic_left else { return };
    match &ran.deletion {
        Some(error) => eprintln!("corelog: topic {topic} could not be deleted: {error}"),
        None => eprintln!("corelog: topic {topic} is still there"),
    }
}

/// How the command ends.
fn judge(ran: &Ran) -> Outcome {
    let result = &ran.result;
    let audit = &result.audit;
    if let RunEnd::Failed { reason } = &result.end {
        return Err(Failure::new(Exit::Refused, format!("the run failed: {reason}")));
    }
    if !audit.has_passed {
        let fact = format!(
            "the audit failed: {} findings over {} acknowledged batches",
            audit.finding_count, audit.acked_batches
        );
        let next =
            "look at the findings above; corelog log verify DIR checks the files of a stopped node";
        return Err(Failure::new(Exit::Damaged, fact).advise(next));
    }
    if result.unanswered > 0 {
        let fact = format!("{} requests were never answered", result.unanswered);
        return Err(Failure::new(Exit::TimedOut, fact));
    }
    if let Some(error) = result.errors.first() {
        let batches: u64 = result.errors.iter().map(|error| error.count).sum();
        let fact = format!("{batches} batches were refused, the first with {}", error.name);
        return Err(Failure::new(Exit::Refused, fact)
            .advise("figures of a run with errors are of no use: see the node's log"));
    }
    Ok(())
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let exit = match &error {
            LoadError::Workload(_) => Exit::Usage,
            LoadError::TimedOut { .. } => Exit::TimedOut,
            LoadError::Process(_) => Exit::Io,
            LoadError::Refused { .. }
            | LoadError::LeaderMoved { .. }
            | LoadError::OnlyErrors { .. }
            | LoadError::Unsendable { .. } => Exit::Refused,
            _ => Exit::Unreachable,
        };
        let next = match &error {
            LoadError::Unreachable { .. } => {
                Some("start a node (corelog serve), or name one with -b HOST:PORT")
            }
            LoadError::Frame { .. } | LoadError::Broken { .. } => {
                Some("name Kafka's port with -b HOST:PORT; corelog doctor explains what is there")
            }
            LoadError::Refused { .. } => Some("corelog topic list shows what is there"),
            LoadError::Process(_) => Some("correct --broker-pid: a process of this machine"),
            _ => None,
        };
        let failure = Self::new(exit, error.to_string());
        match next {
            Some(next) => failure.advise(next),
            None => failure,
        }
    }
}

/// Tells how it goes: lines on standard error, and the interval log.
struct Told<'a> {
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
        let comment = format!("corelog bench produce {}", env!("CARGO_PKG_VERSION"));
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
    use load::AuditReport;

    use super::*;
    use crate::commands::bench::report::testing;

    fn exit_of(change: impl FnOnce(&mut load::RunResult)) -> Option<Exit> {
        let mut result = testing::result();
        change(&mut result);
        let ran = Ran { result, topic_left: None, deletion: None };
        judge(&ran).err().map(|failure| failure.exit)
    }

    #[test]
    fn a_run_that_cannot_be_believed_fails() {
        assert_eq!(exit_of(|_| {}), None);
        assert_eq!(exit_of(|r| r.end = RunEnd::Interrupted), None);
        assert_eq!(exit_of(|r| r.audit = AuditReport::default()), Some(Exit::Damaged));
        assert_eq!(exit_of(|r| r.unanswered = 1), Some(Exit::TimedOut));
        assert_eq!(exit_of(|r| r.errors = testing::errors()), Some(Exit::Refused));
        let failed = RunEnd::Failed { reason: "gone".to_owned() };
        assert_eq!(exit_of(|r| r.end = failed), Some(Exit::Refused));
    }
}
