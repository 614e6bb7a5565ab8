//! Writes snapshots as Prometheus text, version 0.0.4.
//!
//! Owns the format: families ascending by name, each with HELP and TYPE, series ascending by labels, escapes. Equal
//! snapshots give equal text.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    Histogram, LATENCY, Merge, Metric, MetricKind, MetricUnit, REQUESTS, RequestKey, SCALARS,
    Snapshot, Stage, stages::STAGES,
};

/// What only the node as a whole knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// The program's version.
    pub version: &'static str,
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// Free space on the disk of the data directory.
    pub disk_free_bytes: u64,
    /// Time since the process started.
    pub uptime: Duration,
    /// What this start brought from journals into segments.
    pub replayed: Replayed,
}

/// What a start found in the cores' journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Groups of records that their segments did not hold.
    pub groups: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first look at the journals until all of it was on stable storage.
    pub time: Duration,
}

/// Names of APIs and errors, which `wire` owns. A number without a name is told as a number.
#[derive(Debug, Clone, Copy)]
pub struct SeriesNames {
    /// The name of an API key.
    pub api: fn(i16) -> Option<&'static str>,
    /// The name of an error code.
    pub error: fn(i16) -> Option<&'static str>,
}

/// The metrics of the node as a whole.
pub(crate) const NODE_METRICS: [Metric; 7] = [
    Metric {
        name: "corelog_build_info",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        labels: &["version"],
        help: "1, with the version as a label.",
    },
    Metric {
        name: "corelog_disk_free_bytes",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Bytes,
        labels: &[],
        help: "Free space on the disk of the data directory.",
    },
    Metric {
        name: "corelog_journal_replay_seconds",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        labels: &[],
        help: "Time that the last start took for the cores' journals, before it opened any log; next to nothing after a clean stop.",
    },
    Metric {
        name: "corelog_journal_replayed_bytes",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Bytes,
        labels: &[],
        help: "Record bytes that the last start brought from the journals into the segments.",
    },
    Metric {
        name: "corelog_journal_replayed_groups",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        labels: &[],
        help: "Groups of records that the last start brought from the journals into the segments.",
    },
    Metric {
        name: "corelog_resident_bytes",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Bytes,
        labels: &[],
        help: "Resident memory of the process.",
    },
    Metric {
        name: "corelog_uptime_seconds",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        labels: &[],
        help: "Time since the process started.",
    },
];

/// One family: its declaration and its lines, by labels.
pub(super) struct Family {
    pub(super) metric: Metric,
    pub(super) lines: Vec<String>,
}

/// The page that `/metrics` answers.
#[must_use]
pub fn render(snapshots: &[Snapshot], facts: &NodeFacts, names: SeriesNames) -> String {
    let mut families: Vec<Family> = Vec::new();
    for (index, (metric, merge)) in SCALARS.iter().enumerate() {
        let values = snapshots.iter().map(|snapshot| {
            (snapshot.core.as_str(), snapshot.values.get(index).copied().unwrap_or_default())
        });
        families.push(Family { metric: *metric, lines: scalar_lines(metric, *merge, values) });
    }
    families.push(Family { metric: REQUESTS, lines: request_lines(snapshots, names) });
    families.push(Family { metric: LATENCY, lines: latency_lines(snapshots, names) });
    families.push(Family { metric: STAGES, lines: stage_lines(snapshots) });
    families.extend(node_families(facts));
    page_of(families)
}

/// The families in their order, each with its head.
pub(super) fn page_of(mut families: Vec<Family>) -> String {
    families.sort_by_key(|family| family.metric.name);
    let mut page = String::with_capacity(16 << 10);
    for Family { metric, lines } in families {
        let (name, help, kind) = (metric.name, escaped_help(metric.help), metric.kind.name());
        page.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for line in lines {
            page.push_str(&line);
            page.push('\n');
        }
    }
    page
}

fn scalar_lines<'a>(
    metric: &Metric,
    merge: Merge,
    values: impl Iterator<Item = (&'a str, u64)>,
) -> Vec<String> {
    match merge {
        Merge::Sum => {
            let sum = values.fold(0_u64, |sum, (_, value)| sum.wrapping_add(value));
            vec![line(metric.name, &[], &number(metric.unit, sum))]
        }
        Merge::PerCore => values
            .map(|(core, value)| line(metric.name, &[("core", core)], &number(metric.unit, value)))
            .collect(),
    }
}

fn request_lines(snapshots: &[Snapshot], names: SeriesNames) -> Vec<String> {
    let mut merged: BTreeMap<RequestKey, u64> = BTreeMap::new();
    for (key, count) in snapshots.iter().flat_map(|snapshot| &snapshot.requests) {
        *merged.entry(*key).or_default() += count;
    }
    merged
        .into_iter()
        .map(|(key, count)| {
            let api = name_of(key.api, names.api);
            let error = name_of(key.error, names.error);
            let version = name_of(key.version, |_| None);
            let labels = [("api", &*api), ("version", &*version), ("error", &*error)];
            line(REQUESTS.name, &labels, &count.to_string())
        })
        .collect()
}

fn latency_lines(snapshots: &[Snapshot], names: SeriesNames) -> Vec<String> {
    let mut merged: BTreeMap<i16, Histogram> = BTreeMap::new();
    for (api, histogram) in snapshots.iter().flat_map(|snapshot| &snapshot.latencies) {
        merged.entry(*api).or_default().merge(histogram);
    }
    let name = LATENCY.name;
    let mut lines = Vec::new();
    for (api, histogram) in merged {
        let api = name_of(api, names.api);
        let bucket = |bound: &str, count: u64| {
            let labels = [("api", &*api), ("le", bound)];
            line(&format!("{name}_bucket"), &labels, &count.to_string())
        };
        for (bound_us, count) in histogram.cumulative() {
            lines.push(bucket(&number(MetricUnit::Seconds, bound_us * 1_000), count));
        }
        lines.push(bucket("+Inf", histogram.count()));
        let labels = [("api", &*api)];
        let total_ns = u64::try_from(histogram.total().as_nanos()).unwrap_or(u64::MAX);
        let sum = number(MetricUnit::Seconds, total_ns);
        lines.push(line(&format!("{name}_sum"), &labels, &sum));
        lines.push(line(&format!("{name}_count"), &labels, &histogram.count().to_string()));
    }
    lines
}

fn stage_lines(snapshots: &[Snapshot]) -> Vec<String> {
    let name = STAGES.name;
    let mut lines = Vec::new();
    for (snapshot, stage) in
        snapshots.iter().flat_map(|snapshot| Stage::ALL.map(|stage| (snapshot, stage)))
    {
        let (core, times) = (snapshot.core.as_str(), &snapshot.stages);
        let bucket = |bound: &str, count: u64| {
            let labels = [("core", core), ("stage", stage.name()), ("le", bound)];
            line(&format!("{name}_bucket"), &labels, &count.to_string())
        };
        for (bound_us, count) in times.cumulative(stage) {
            lines.push(bucket(&number(MetricUnit::Seconds, bound_us * 1_000), count));
        }
        let count = times.count(stage);
        lines.push(bucket("+Inf", count));
        let labels = [("core", core), ("stage", stage.name())];
        let sum = number(MetricUnit::Seconds, times.total_ns(stage));
        lines.push(line(&format!("{name}_sum"), &labels, &sum));
        lines.push(line(&format!("{name}_count"), &labels, &count.to_string()));
    }
    lines
}

fn node_families(facts: &NodeFacts) -> impl Iterator<Item = Family> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let version = facts.version;
    let Replayed { groups, bytes, time } = facts.replayed;
    // As they are declared.
    let values = [
        1,
        facts.disk_free_bytes,
        nanos(time),
        bytes,
        groups,
        facts.resident_bytes,
        nanos(facts.uptime),
    ];
    NODE_METRICS.into_iter().zip(values).map(move |(metric, value)| {
        let labels: Vec<(&str, &str)> =
            metric.labels.iter().map(|label| (*label, version)).collect();
        Family { metric, lines: vec![line(metric.name, &labels, &number(metric.unit, value))] }
    })
}

fn name_of(number: i16, name: impl Fn(i16) -> Option<&'static str>) -> String {
    // The series that are counted together have no number of their own.
    if number < 0 && name(number).is_none() {
        return "other".to_owned();
    }
    name(number).map_or_else(|| number.to_string(), str::to_owned)
}

pub(super) fn line(name: &str, labels: &[(&str, &str)], value: &str) -> String {
    if labels.is_empty() {
        return format!("{name} {value}");
    }
    let labels: Vec<String> =
        labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped_label(text))).collect();
    format!("{name}{{{}}} {value}", labels.join(","))
}

/// Whole numbers as they are; seconds from nanoseconds, without the zeros at the end.
fn number(unit: MetricUnit, value: u64) -> String {
    const NANOSECONDS: u64 = 1_000_000_000;
    match unit {
        MetricUnit::Count | MetricUnit::Bytes => value.to_string(),
        MetricUnit::Seconds => {
            let text = format!("{}.{:09}", value / NANOSECONDS, value % NANOSECONDS);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

fn escaped_label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn escaped_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}
