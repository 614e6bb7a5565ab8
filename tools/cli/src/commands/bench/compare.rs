//! `corelog bench compare`: two saved results side by side, with their ratios.
//!
//! Owns the reading of saved results, the rows, and what may not be compared: runs that promised different things when they
//! acknowledged, and runs of different kinds. It judges nothing else: a ratio of two runs is no proof, and says so in the help.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use load::{Durability, Job, LatencySummary, ProcessUse, RESULT_FORMAT, RunResult, Unsound};
use serde::Serialize;
use serde_json::Value;

use crate::OutputArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, Show, Table};

const EXAMPLES: &str = "\
Examples:
  corelog bench compare before.json after.json
  corelog bench compare kafka.json corelog.json -o json

The files are those that --save of a bench wrote. Each ratio is that of B to A. One run of each
says little: run them in turn, A B B A, and compare several. A difference in what was asked of the
two is told, and so is one in the topics' options. Runs of different durability have no ratios:
D0 acknowledges before a record is on disk, D1 once it is; --across-classes shows them all the
same. A run that is not sound, and two that cannot be compared, end this with 1.";

/// The largest file that is read: a week of seconds takes a part of it.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// The result that is compared with
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The result that is compared
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Show ratios of runs whose acknowledgements promise different things
    #[arg(long)]
    across_classes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Two results side by side.
#[derive(Debug, Serialize)]
struct Comparison {
    a: Run,
    b: Run,
    /// Why there is no ratio, where there is none.
    refusal: Option<Refusal>,
    /// Whether the same was asked of both, and the topics' options that both tell are alike.
    is_same_work: bool,
    /// What was asked of one run and not of the other.
    differences: Vec<Difference>,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Run {
    file: String,
    topic: String,
    started_ms: i64,
    durability: Durability,
    is_sound: bool,
    unsound_because: Vec<Unsound>,
}

/// Why two runs cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Refusal {
    /// One sent and the other read.
    Kind,
    /// Their acknowledgements promise different things.
    Durability,
}

impl Refusal {
    /// In words.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Kind => {
                "one run sent and the other read: no figure of one is a figure of the other"
            }
            Self::Durability => {
                "one run was acknowledged once records were on disk, the other before: its speed is bought with records"
            }
        }
    }
}

#[derive(Debug, PartialEq, Serialize)]
struct Difference {
    what: String,
    a: Value,
    b: Value,
}

/// A figure of both, absent where a run has none.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    better: Better,
    a: Option<f64>,
    b: Option<f64>,
    ratio: Option<f64>,
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Better {
    Higher,
    Lower,
}

/// Runs it.
pub(super) fn run(args: &CompareArgs) -> Outcome {
    let (first, second) = (read(&args.first)?, read(&args.second)?);
    let described = |path: &Path, result: &RunResult| Run {
        file: path.display().to_string(),
        topic: result.topic.clone(),
        started_ms: result.started_ms,
        durability: result.durability,
        is_sound: result.is_sound(),
        unsound_because: result.reasons(),
    };
    let differences = differences(&first, &second)?;
    let refusal = refusal(&first, &second)
        .filter(|refusal| *refusal != Refusal::Durability || !args.across_classes);
    let comparison = Comparison {
        a: described(&args.first, &first),
        b: described(&args.second, &second),
        refusal,
        is_same_work: differences.is_empty(),
        differences,
        rows: rows(&first, &second, refusal),
    };
    let shown = Output::new(args.output.output).offer(&comparison);
    judge(&comparison).and(shown)
}

/// A comparison that says nothing is a failure.
fn judge(comparison: &Comparison) -> Outcome {
    let failed = |fact: String, next: &str| Err(Failure::new(Exit::Refused, fact).advise(next));
    for run in [&comparison.a, &comparison.b] {
        if let Some(reason) = run.unsound_because.first() {
            let fact = format!("{}: {}", run.file, reason.text());
            return failed(fact, "run it again: its figures are of no use");
        }
    }
    match comparison.refusal {
        None => Ok(()),
        Some(refusal @ Refusal::Kind) => {
            failed(refusal.text().to_owned(), "compare runs of the same kind")
        }
        Some(refusal @ Refusal::Durability) => failed(
            refusal.text().to_owned(),
            "run both with the same promise, or say --across-classes to see the ratios all the same",
        ),
    }
}

/// Why two runs have no ratios, where they have none.
pub(super) fn refusal(first: &RunResult, second: &RunResult) -> Option<Refusal> {
    let is_same_kind = std::mem::discriminant(&first.job) == std::mem::discriminant(&second.job);
    if !is_same_kind {
        return Some(Refusal::Kind);
    }
    let is_produce = matches!(first.job, Job::Produce(_));
    let (a, b) = (first.durability, second.durability);
    let both_known = a != Durability::Unknown && b != Durability::Unknown;
    (is_produce && both_known && a != b).then_some(Refusal::Durability)
}

/// A saved result.
pub(super) fn read(path: &Path) -> Outcome<RunResult> {
    let failed = |error: io::Error| Failure::io(path.display(), &error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    let refused = |fact: String| {
        Failure::new(Exit::Refused, format!("{}: {fact}", path.display()))
            .advise("give files that --save of corelog bench wrote")
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused(format!("larger than {FILE_BYTES_MAX} bytes: no result of a bench")));
    }
    // The format first: what a later release wrote need not have the fields of this one.
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| refused(format!("not JSON: {error}")))?;
    let format = value.get("format").and_then(Value::as_u64);
    if let Some(format) = format.filter(|format| *format > u64::from(RESULT_FORMAT)) {
        let fact = format!("of format {format}, and this release knows {RESULT_FORMAT}");
        return Err(refused(fact).advise("use the release that wrote it, or a later one"));
    }
    serde_json::from_value(value).map_err(|error| refused(format!("no result of a bench: {error}")))
}

fn differences(first: &RunResult, second: &RunResult) -> Outcome<Vec<Difference>> {
    let configs = config_differences(first, second);
    let (first, second) = (flat(first)?, flat(second)?);
    let value = |fields: &[(String, Value)], what: &str| {
        let found = fields.iter().find(|(name, _)| name == what);
        found.map_or(Value::Null, |(_, value)| value.clone())
    };
    let mut names: Vec<&String> = first.iter().chain(&second).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let pairs = names.into_iter().map(|what| Difference {
        what: what.clone(),
        a: value(&first, what),
        b: value(&second, what),
    });
    Ok(pairs.filter(|pair| pair.a != pair.b).chain(configs).collect())
}

/// Options of the topics that both brokers tell, and tell differently.
fn config_differences(first: &RunResult, second: &RunResult) -> Vec<Difference> {
    let pairs = first.topic_configs.iter().filter_map(|(name, a)| {
        let b = second.topic_configs.get(name).filter(|b| *b != a)?;
        let (a, b) = (Value::from(a.as_str()), Value::from(b.as_str()));
        Some(Difference { what: format!("topic {name}"), a, b })
    });
    pairs.collect()
}

/// What was asked of a run, as names and values.
pub(super) fn flat(result: &RunResult) -> Outcome<Vec<(String, Value)>> {
    let job = serde_json::to_value(&result.job).map_err(|error| {
        Failure::new(Exit::Refused, format!("what the run did cannot be told: {error}"))
    })?;
    let mut fields = Vec::new();
    flatten("", &job, &mut fields);
    fields.push(("partitions".to_owned(), result.partitions.into()));
    fields.push(("connections opened".to_owned(), result.connections.into()));
    Ok(fields)
}

/// The fields of an object, those of objects in it by their path.
fn flatten(path: &str, value: &Value, fields: &mut Vec<(String, Value)>) {
    let Value::Object(object) = value else {
        fields.push((path.to_owned(), value.clone()));
        return;
    };
    for (name, value) in object {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        flatten(&path, value, fields);
    }
}

type Figure = fn(&RunResult) -> Option<f64>;

/// The figures that are compared: name, unit, which way is better, and where it stands.
const FIGURES: [(&str, &str, Better, Figure); 20] = [
    ("throughput", "MB/s", Better::Higher, |r| Some(r.measured.mb_per_second)),
    ("records", "1/s", Better::Higher, |r| Some(r.measured.records_per_second)),
    ("requests", "1/s", Better::Higher, |r| Some(r.measured.requests_per_second)),
    ("latency p50", "ms", Better::Lower, |r| latency(r, |l| l.p50_ms)),
    ("latency p90", "ms", Better::Lower, |r| latency(r, |l| l.p90_ms)),
    ("latency p99", "ms", Better::Lower, |r| latency(r, |l| l.p99_ms)),
    ("latency p99.9", "ms", Better::Lower, |r| latency(r, |l| l.p999_ms)),
    ("latency p99.99", "ms", Better::Lower, |r| latency(r, |l| l.p9999_ms)),
    ("latency max", "ms", Better::Lower, |r| latency(r, |l| l.max_ms)),
    ("delivered p50", "ms", Better::Lower, |r| delivery(r, |d| d.p50_ms)),
    ("delivered p99", "ms", Better::Lower, |r| delivery(r, |d| d.p99_ms)),
    ("delivered p99.9", "ms", Better::Lower, |r| delivery(r, |d| d.p999_ms)),
    ("sent late by p99", "ms", Better::Lower, |r| {
        let is_told = r.job.is_open_loop() && r.send_delay.count > 0;
        is_told.then_some(r.send_delay.p99_ms)
    }),
    ("never left", "requests", Better::Lower, |r| Some(count(r.unsent))),
    ("broker CPU", "s/GB", Better::Lower, |r| r.broker.and_then(|b| b.cpu_seconds_per_gb)),
    ("broker CPU", "us/request", Better::Lower, |r| r.broker.and_then(|b| b.cpu_us_per_request)),
    ("broker resident", "MB", Better::Lower, |r| r.broker.map(|b| count(b.rss_bytes) / 1e6)),
    ("broker switches", "1/request", Better::Lower, |r| r.broker.and_then(|b| switches(r, &b))),
    ("client CPU", "s/GB", Better::Lower, |r| r.client.and_then(|c| c.cpu_seconds_per_gb)),
    ("client CPU", "us/request", Better::Lower, |r| r.client.and_then(|c| c.cpu_us_per_request)),
];

/// The figures of one run, all of them in the same order for every run.
pub(super) fn figures(
    result: &RunResult,
) -> impl Iterator<Item = (&'static str, &'static str, Better, Option<f64>)> {
    FIGURES.into_iter().map(|(name, unit, better, figure)| (name, unit, better, figure(result)))
}

fn rows(first: &RunResult, second: &RunResult, refusal: Option<Refusal>) -> Vec<Row> {
    let row = |(name, unit, better, figure): (&'static str, &'static str, Better, Figure)| {
        let (a, b) = (figure(first), figure(second));
        let ratio = a.zip(b).filter(|(a, _)| *a > 0.0 && refusal.is_none()).map(|(a, b)| b / a);
        Row { name, unit, better, a, b, ratio }
    };
    FIGURES.into_iter().map(row).collect()
}

fn latency(result: &RunResult, figure: fn(&LatencySummary) -> f64) -> Option<f64> {
    (result.latency.count > 0).then(|| figure(&result.latency))
}

fn delivery(result: &RunResult, figure: fn(&LatencySummary) -> f64) -> Option<f64> {
    result.delivery.filter(|delivery| delivery.count > 0).map(|delivery| figure(&delivery))
}

fn switches(result: &RunResult, used: &ProcessUse) -> Option<f64> {
    let switches = used.voluntary_context_switches + used.involuntary_context_switches;
    let requests = result.measured.requests;
    (requests > 0).then(|| count(switches) / count(requests))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
fn count(count: u64) -> f64 {
    count as f64
}

impl Show for Comparison {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        for (name, run) in [("A", &self.a), ("B", &self.b)] {
            let sound = if run.is_sound { "" } else { "  NOT SOUND" };
            writeln!(
                sink,
                "{name}  {}: topic {}, {}{sound}",
                run.file,
                run.topic,
                run.durability.text()
            )?;
            for reason in &run.unsound_because {
                writeln!(sink, "   {}", reason.text())?;
            }
        }
        if let Some(refusal) = self.refusal {
            writeln!(sink, "NOT COMPARABLE: {}", refusal.text())?;
        } else if self.a.durability != self.b.durability {
            writeln!(sink, "DIFFERENT DURABILITY: the ratios are no ratios of speed")?;
        }
        if !self.is_same_work {
            writeln!(
                sink,
                "DIFFERENT WORK: the ratios say what the difference is worth, not which side is faster"
            )?;
        }
        for Difference { what, a, b } in &self.differences {
            writeln!(sink, "asked of them: {what} = {a} and {b}")?;
        }
        writeln!(sink)?;
        let mut table = Table::new(&["FIGURE", "UNIT", "A", "B", "B/A"]);
        let shown =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        for row in self.rows.iter().filter(|row| row.a.is_some() || row.b.is_some()) {
            table.row(vec![
                row.name.to_owned(),
                row.unit.to_owned(),
                shown(row.a),
                shown(row.b),
                shown(row.ratio),
            ]);
        }
        table.write(sink)
    }
}

#[cfg(test)]
mod tests {
    use load::Workload;

    use super::*;
    use crate::commands::bench::report::testing;

    fn pair() -> (RunResult, RunResult) {
        let mut first = testing::result();
        first.latency.count = 0;
        let mut second = testing::result();
        second.measured.mb_per_second = 3.0;
        second.latency.count = 1;
        second.job = Job::Produce(Workload { in_flight: 9, ..Workload::default() });
        second.broker = None;
        (first, second)
    }

    fn ratio(rows: &[Row], name: &str) -> (Option<f64>, Option<f64>, Option<f64>) {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        (row.a, row.b, row.ratio)
    }

    #[test]
    fn ratios_are_of_the_second_to_the_first_where_both_have_a_figure() {
        let (first, second) = pair();
        let rows = rows(&first, &second, None);
        assert_eq!(ratio(&rows, "throughput"), (Some(1.0), Some(3.0), Some(3.0)));
        // The first has no latency, the second no broker; a ratio to nothing is none.
        assert_eq!(ratio(&rows, "latency p50"), (None, Some(1.5), None));
        assert_eq!(ratio(&rows, "broker CPU"), (Some(0.25), None, None));
        assert_eq!(ratio(&rows, "never left"), (Some(0.0), Some(0.0), None));
    }

    #[test]
    fn what_was_asked_of_one_only_is_told() {
        let (first, second) = pair();
        assert_eq!(differences(&first, &first).unwrap(), []);
        let expected =
            Difference { what: "in_flight".to_owned(), a: Value::from(5), b: Value::from(9) };
        assert_eq!(differences(&first, &second).unwrap(), [expected]);
        let mut reading = second;
        reading.job = Job::Consume(load::ReadLoad::default());
        let kinds = differences(&first, &reading).unwrap();
        let kind = kinds.iter().find(|difference| difference.what == "kind").unwrap();
        assert_eq!((kind.a.as_str(), kind.b.as_str()), (Some("produce"), Some("consume")));
    }

    #[test]
    fn the_table_names_both_runs_and_leaves_out_what_neither_has() {
        let (first, second) = pair();
        let run = |file: &str, is_sound| {
            let topic = "t".to_owned();
            let durability = Durability::D1;
            let unsound_because = Vec::new();
            Run {
                file: file.to_owned(),
                topic,
                started_ms: 1,
                durability,
                is_sound,
                unsound_because,
            }
        };
        let comparison = Comparison {
            a: run("a.json", true),
            b: run("b.json", false),
            refusal: None,
            is_same_work: false,
            differences: differences(&first, &second).unwrap(),
            rows: rows(&first, &second, None),
        };
        let mut bytes = Vec::new();
        comparison.show_table(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let start = "A  a.json: topic t, D1: acknowledged once it is on disk\n\
                     B  b.json: topic t, D1: acknowledged once it is on disk  NOT SOUND\n\
                     DIFFERENT WORK: ";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("asked of them: in_flight = 5 and 9\n\n"), "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        assert!(lines.contains(&"throughput MB/s 1.000 3.000 3.000".to_owned()), "{text}");
        assert!(lines.contains(&"broker CPU s/GB 0.250 - -".to_owned()), "{text}");
        assert!(!text.contains("client CPU"), "{text}");
    }

    #[test]
    fn what_promises_different_things_has_no_ratio() {
        let (first, mut second) = pair();
        assert_eq!(refusal(&first, &second), None);
        second.durability = Durability::Unknown;
        assert_eq!(refusal(&first, &second), None, "nothing is known to be different");
        second.durability = Durability::D0;
        assert_eq!(refusal(&first, &second), Some(Refusal::Durability));
        let without = rows(&first, &second, Some(Refusal::Durability));
        assert!(without.iter().all(|row| row.ratio.is_none()));
        assert_eq!(ratio(&without, "throughput"), (Some(1.0), Some(3.0), None));
        second.job = Job::Consume(load::ReadLoad::default());
        assert_eq!(refusal(&first, &second), Some(Refusal::Kind));
        let mut other = second.clone();
        other.durability = Durability::D1;
        assert_eq!(refusal(&second, &other), None, "reading promises nothing");
    }

    #[test]
    fn options_of_the_topics_that_both_tell_are_compared() {
        let (mut first, mut second) = (testing::result(), testing::result());
        let mut put = |name: &str, a: Option<&str>, b: Option<&str>| {
            for (result, value) in [(&mut first, a), (&mut second, b)] {
                result.topic_configs.extend(value.map(|value| (name.to_owned(), value.to_owned())));
            }
        };
        put("write.caching", Some("true"), None);
        put("segment.bytes", Some("1"), Some("1"));
        put("flush.messages", Some("1"), Some("9"));
        let expected = Difference {
            what: "topic flush.messages".to_owned(),
            a: Value::from("1"),
            b: Value::from("9"),
        };
        assert_eq!(differences(&first, &second).unwrap(), [expected]);
    }
}
