//! `corelog bench compare`: two saved results side by side, with their ratios.
//!
//! Owns the reading of saved results and the rows. It judges nothing: a ratio of two runs is no proof, and says so in the help.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use load::{LatencySummary, ProcessUse, RESULT_FORMAT, RunResult};
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
two is told; a run whose audit failed, or that had errors, ends this with 1.";

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
    #[command(flatten)]
    output: OutputArgs,
}

/// Two results side by side.
#[derive(Debug, Serialize)]
struct Comparison {
    a: Run,
    b: Run,
    /// What was asked of one run and not of the other.
    differences: Vec<Difference>,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Run {
    file: String,
    topic: String,
    started_ms: i64,
    is_sound: bool,
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
        is_sound: result.is_sound(),
    };
    let comparison = Comparison {
        a: described(&args.first, &first),
        b: described(&args.second, &second),
        differences: differences(&first, &second)?,
        rows: rows(&first, &second),
    };
    Output::new(args.output.output).show(&comparison)?;
    let unsound = [&comparison.a, &comparison.b].into_iter().find(|run| !run.is_sound);
    unsound.map_or(Ok(()), |run| {
        let fact = format!("{}: the run failed, had errors, or its audit did", run.file);
        Err(Failure::new(Exit::Refused, fact).advise("run it again: its figures are of no use"))
    })
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
    Ok(pairs.filter(|pair| pair.a != pair.b).collect())
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
    ("delivered p50", "ms", Better::Lower, |r| r.delivery.map(|d| d.p50_ms)),
    ("delivered p99", "ms", Better::Lower, |r| r.delivery.map(|d| d.p99_ms)),
    ("delivered p99.9", "ms", Better::Lower, |r| r.delivery.map(|d| d.p999_ms)),
    ("sent late by p99", "ms", Better::Lower, |r| {
        r.job.is_open_loop().then_some(r.send_delay.p99_ms)
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

fn rows(first: &RunResult, second: &RunResult) -> Vec<Row> {
    let row = |(name, unit, better, figure): (&'static str, &'static str, Better, Figure)| {
        let (a, b) = (figure(first), figure(second));
        let ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
        Row { name, unit, better, a, b, ratio }
    };
    FIGURES.into_iter().map(row).collect()
}

fn latency(result: &RunResult, figure: fn(&LatencySummary) -> f64) -> Option<f64> {
    (result.latency.count > 0).then(|| figure(&result.latency))
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
            writeln!(sink, "{name}  {}: topic {}{sound}", run.file, run.topic)?;
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
    use load::{Job, Workload};

    use super::*;
    use crate::commands::bench::report::testing;

    fn pair() -> (RunResult, RunResult) {
        let first = testing::result();
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
        let rows = rows(&first, &second);
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
            Run { file: file.to_owned(), topic, started_ms: 1, is_sound }
        };
        let comparison = Comparison {
            a: run("a.json", true),
            b: run("b.json", false),
            differences: differences(&first, &second).unwrap(),
            rows: rows(&first, &second),
        };
        let mut bytes = Vec::new();
        comparison.show_table(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let start = "A  a.json: topic t\nB  b.json: topic t  NOT SOUND\nasked of them: in_flight = 5 and 9\n\n";
        assert!(text.starts_with(start), "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        assert!(lines.contains(&"throughput MB/s 1.000 3.000 3.000".to_owned()), "{text}");
        assert!(lines.contains(&"broker CPU s/GB 0.250 - -".to_owned()), "{text}");
        assert!(!text.contains("client CPU"), "{text}");
    }
}
