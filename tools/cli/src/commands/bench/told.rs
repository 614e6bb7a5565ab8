//! How a run goes, told while it goes: lines on standard error, and the interval log.
//!
//! Owns what is handed to which thread. The thread that sends makes no text and writes to nothing: it hands over numbers, and the
//! histogram as it is, for which it gets an empty one.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hdrhistogram::Histogram;
use load::{HdrLog, HdrLogError, Interval, Observer, Target, Until, new_histogram};
use record::Timestamp;

use super::aside::Aside;
use super::options::ToldArgs;
use super::report;
use super::units::show_bytes;
use crate::exit::{Exit, Failure, Outcome};

/// Lines that wait for a terminal; more are dropped, and the drop is told.
const LINES_MAX: usize = 64;
/// Intervals that wait for the file of the log: minutes. A disk that stands still for longer has lost some.
const INTERVALS_MAX: usize = 256;
/// How long a terminal is waited for at the end of a run, before the result is shown without it.
const TERMINAL_TIME_MAX: Duration = Duration::from_secs(2);
/// How long the file of the log is.
const LOG_TIME_MAX: Duration = Duration::from_secs(60);

/// Something to say.
#[derive(Debug)]
enum Line {
    Text(String),
    Progress(Interval),
}

/// One interval of the log.
#[derive(Debug)]
struct Latencies {
    begin: Duration,
    length: Duration,
    histogram: Histogram<u64>,
}

/// Tells how it goes.
pub(super) struct Told {
    lines: Option<Aside<Line, ()>>,
    lines_dropped: u64,
    log: Option<Log>,
}

/// The interval log, and the thread that writes it.
struct Log {
    path: PathBuf,
    /// Until the run begins.
    file: Option<File>,
    writer: Option<Aside<Latencies, Result<(), HdrLogError>>>,
    /// Histograms that were written, empty again.
    spares: Option<Receiver<Histogram<u64>>>,
    lost: u64,
}

impl Told {
    /// Opens the log now: a path that is wrong is told before the run, not after it.
    pub(super) fn new(args: &ToldArgs) -> Outcome<Self> {
        let log = args.hdr_log.as_deref().map(Log::open).transpose()?;
        let say = || Aside::start("progress", LINES_MAX, |lines| lines.for_each(|line| say(&line)));
        let lines = (!args.quiet).then(say).transpose()?;
        Ok(Self { lines, lines_dropped: 0, log })
    }

    fn say(&mut self, line: Line) {
        let Some(lines) = &self.lines else { return };
        self.lines_dropped += u64::from(lines.give(line).is_err());
    }

    fn log(&mut self, interval: &Interval, latencies: &mut Histogram<u64>) {
        if let Some(log) = &mut self.log {
            log.write(interval, latencies);
        }
    }

    /// Says the last of it, and ends the log. A terminal that takes nothing is not waited for.
    pub(super) fn finish(mut self) -> Outcome {
        if self.lines_dropped > 0 {
            let dropped = self.lines_dropped;
            self.say(Line::Text(format!(
                "corelog: {dropped} lines of progress were not shown: the terminal did not take them"
            )));
        }
        if let Some(lines) = self.lines.take() {
            // Who cannot be told cannot be told that either.
            let _ = lines.finish(TERMINAL_TIME_MAX);
        }
        self.log.map_or(Ok(()), Log::finish)
    }
}

fn say(line: &Line) {
    let text = match line {
        Line::Text(text) => text,
        Line::Progress(interval) => &report::progress_line(interval),
    };
    // In one piece, and without a panic where nobody listens any more.
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

impl Log {
    fn open(path: &Path) -> Outcome<Self> {
        let file = File::create(path).map_err(|error| Failure::io(path.display(), &error))?;
        let path = path.to_owned();
        Ok(Self { path, file: Some(file), writer: None, spares: None, lost: 0 })
    }

    fn begin(&mut self, start: Timestamp) {
        let Some(file) = self.file.take() else { return };
        let (give_back, spares) = channel();
        let write = move |intervals: &mut dyn Iterator<Item = Latencies>| {
            let comment = format!("corelog bench {}", env!("CARGO_PKG_VERSION"));
            let mut log = HdrLog::begin(BufWriter::new(file), start, &comment)?;
            for Latencies { begin, length, mut histogram } in intervals {
                log.interval(begin, length, &histogram)?;
                histogram.reset();
                // Nobody takes it where the run is over.
                let _ = give_back.send(histogram);
            }
            log.finish().map(drop)
        };
        self.writer = Aside::start("hdr-log", INTERVALS_MAX, write).ok();
        self.spares = Some(spares);
    }

    fn write(&mut self, interval: &Interval, latencies: &mut Histogram<u64>) {
        let Some(writer) = &self.writer else {
            self.lost += 1;
            return;
        };
        let spare = self.spares.as_ref().and_then(|spares| spares.try_recv().ok());
        let histogram = mem::replace(latencies, spare.unwrap_or_else(new_histogram));
        let begin = Duration::from_secs_f64(interval.begin);
        let length = Duration::from_secs_f64(interval.seconds);
        self.lost += u64::from(writer.give(Latencies { begin, length, histogram }).is_err());
    }

    fn finish(self) -> Outcome {
        let failed = |fact: String| {
            Failure::new(Exit::Io, format!("{}: {fact}", self.path.display()))
                .advise("write the log to a disk that takes it")
        };
        match self.writer.map(|writer| writer.finish(LOG_TIME_MAX)) {
            None | Some(Ok(Ok(()))) if self.lost > 0 => {
                Err(failed(format!("{} intervals of latencies were not taken", self.lost)))
            }
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(failed(error.to_string())),
            Some(Err(_)) => {
                let seconds = LOG_TIME_MAX.as_secs();
                Err(failed(format!("latencies were not written within {seconds} s")))
            }
        }
    }
}

impl Observer for Told {
    fn filling(&mut self, until: &Until) {
        let bytes = until.bytes.map(show_bytes).unwrap_or_default();
        self.say(Line::Text(format!("corelog: filling a topic first: {bytes}")));
    }

    fn started(&mut self, target: &Target) {
        let count = |count: usize, noun: &str| {
            format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
        };
        self.say(Line::Text(format!(
            "corelog: topic {}, {}, {}, {}",
            target.topic,
            count(target.partitions, "partition"),
            count(target.leaders.len(), "leader"),
            count(target.connections, "connection"),
        )));
        if let Some(log) = &mut self.log {
            log.begin(target.measured_from);
        }
    }

    fn interval(&mut self, interval: &Interval, latencies: &mut Histogram<u64>) {
        self.say(Line::Progress(*interval));
        self.log(interval, latencies);
    }

    fn drained(&mut self, interval: &Interval, latencies: &mut Histogram<u64>) {
        self.log(interval, latencies);
    }

    fn audit_started(&mut self, bytes: u64) {
        self.say(Line::Text(format!("corelog: reading back {}", show_bytes(bytes))));
    }
}
