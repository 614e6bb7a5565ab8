//! What happened between two answers of a node: rates, times by stage, and what waits now.
//!
//! Owns the arithmetic and the tables. Counts that went back belong to another life of the node: nothing can be said of them.

use std::io::{self, Write};

use serde::Serialize;

use super::numbers::{Buckets, Core, Numbers, Partition, STAGES};
use crate::output::{Show, Table};

/// One interval of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct View {
    version: String,
    uptime_seconds: f64,
    /// What the rates are over.
    interval_seconds: f64,
    resident_bytes: f64,
    disk_free_bytes: f64,
    cores: Vec<CoreView>,
    /// Of all cores together.
    stages: Vec<StageView>,
    partitions: Vec<PartitionView>,
}

/// One core; rates are a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct CoreView {
    core: usize,
    /// 0 to 1.
    busy: f64,
    requests: f64,
    received_bytes: f64,
    sent_bytes: f64,
    forwarded: f64,
    syncs: f64,
    disk_written_bytes: f64,
    disk_read_bytes: f64,
    /// From here on as it is at the end.
    connections: f64,
    partitions: f64,
    produces_waiting: f64,
    unsynced_bytes: f64,
    fetches_parked: f64,
    mesh_calls: f64,
    memory_waiters: f64,
    stages: Vec<StageView>,
}

/// The time that requests spent in a stage. Quantiles are estimates within a factor of two, as the buckets are.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct StageView {
    stage: &'static str,
    per_second: f64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
}

/// One partition; rates are a second. `None`: it was not among the busiest before.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct PartitionView {
    topic: String,
    partition: String,
    core: String,
    appended_bytes: Option<f64>,
    appends: Option<f64>,
    fetched_bytes: Option<f64>,
    fetches: Option<f64>,
    end_offset: f64,
    size_bytes: f64,
}

impl View {
    /// What happened from one answer to the next; `None` where they are of two lives of the node.
    pub(super) fn between(before: &Numbers, now: &Numbers, partitions_max: usize) -> Option<Self> {
        let seconds = now.at.saturating_sub(before.at).as_secs_f64();
        let is_one_life = now.uptime >= before.uptime && now.cores.len() == before.cores.len();
        if seconds <= 0.0 || !is_one_life {
            return None;
        }
        let pairs = || {
            let paired = |(index, core)| Some((index, before.cores.get(index)?, core));
            now.cores.iter().filter_map(paired)
        };
        let mut all: [Buckets; STAGES.len()] = Default::default();
        for (_, old, new) in pairs() {
            for (sum, (old, new)) in all.iter_mut().zip(old.stages.iter().zip(&new.stages)) {
                add(sum, &difference(old, new));
            }
        }
        let cores = pairs().map(|(index, old, new)| core_view(*index, old, new, seconds)).collect();
        let partitions = now.partitions.iter().take(partitions_max);
        let partitions = partitions.map(|new| {
            let is_same = |old: &&Partition| {
                old.topic == new.topic && old.partition == new.partition && old.core == new.core
            };
            partition_view(before.partitions.iter().find(is_same), new, seconds)
        });
        Some(Self {
            version: now.version.clone(),
            uptime_seconds: now.uptime,
            interval_seconds: seconds,
            resident_bytes: now.resident,
            disk_free_bytes: now.disk_free,
            cores,
            stages: stage_views(&all, seconds),
            partitions: partitions.collect(),
        })
    }
}

fn core_view(core: usize, old: &Core, new: &Core, seconds: f64) -> CoreView {
    let rate = |field: fn(&Core) -> f64| rounded((field(new) - field(old)).max(0.0) / seconds);
    // The core's own clock: it says how long it ran between the two moments at which it was asked.
    let ran = new.running - old.running;
    let busy = if ran > 0.0 { rounded(((new.busy - old.busy) / ran).clamp(0.0, 1.0)) } else { 0.0 };
    let stages = old.stages.iter().zip(&new.stages).map(|(old, new)| difference(old, new));
    let stages: Vec<Buckets> = stages.collect();
    CoreView {
        core,
        busy,
        requests: rate(|core| core.requests),
        received_bytes: rate(|core| core.received),
        sent_bytes: rate(|core| core.sent),
        forwarded: rate(|core| core.forwarded),
        syncs: rate(|core| core.syncs),
        disk_written_bytes: rate(|core| core.written),
        disk_read_bytes: rate(|core| core.read),
        connections: new.connections,
        partitions: new.partitions,
        produces_waiting: new.produces_waiting,
        unsynced_bytes: new.unsynced,
        fetches_parked: new.fetches_parked,
        mesh_calls: new.mesh_calls,
        memory_waiters: new.memory_waiters,
        stages: stage_views(&stages, seconds),
    }
}

fn partition_view(old: Option<&Partition>, new: &Partition, seconds: f64) -> PartitionView {
    // Deleted and made anew under its name, it counts from 0.
    let old = old.filter(|old| old.counts.iter().zip(new.counts).all(|(old, new)| *old <= new));
    let rates = old.map(|old| {
        let mut rates = new.counts;
        for (rate, old) in rates.iter_mut().zip(old.counts) {
            *rate = rounded((*rate - old) / seconds);
        }
        rates
    });
    let [appended_bytes, appends, fetched_bytes, fetches] = match rates {
        Some(rates) => rates.map(Some),
        None => [None; 4],
    };
    PartitionView {
        topic: new.topic.clone(),
        partition: new.partition.clone(),
        core: new.core.clone(),
        appended_bytes,
        appends,
        fetched_bytes,
        fetches,
        end_offset: new.end_offset,
        size_bytes: new.bytes,
    }
}

/// What came between two states of a histogram.
fn difference(old: &Buckets, new: &Buckets) -> Buckets {
    let before = |at: usize| old.counts.get(at).map_or(0.0, |(_, count)| *count);
    let counts = new.counts.iter().enumerate();
    let counts = counts.map(|(at, (bound, count))| (*bound, (count - before(at)).max(0.0)));
    Buckets { counts: counts.collect(), sum: (new.sum - old.sum).max(0.0) }
}

fn add(sum: &mut Buckets, other: &Buckets) {
    if sum.counts.is_empty() {
        sum.counts = other.counts.iter().map(|(bound, _)| (*bound, 0.0)).collect();
    }
    for ((_, count), (_, others)) in sum.counts.iter_mut().zip(&other.counts) {
        *count += others;
    }
    sum.sum += other.sum;
}

fn stage_views(stages: &[Buckets], seconds: f64) -> Vec<StageView> {
    let views = STAGES.iter().zip(stages).map(|(stage, buckets)| {
        let count = buckets.counts.last().map_or(0.0, |(_, count)| *count);
        StageView {
            stage,
            per_second: rounded(count / seconds),
            mean_us: (count > 0.0).then(|| rounded(buckets.sum / count * 1e6)),
            p50_us: quantile(buckets, 0.5).map(|seconds| rounded(seconds * 1e6)),
            p99_us: quantile(buckets, 0.99).map(|seconds| rounded(seconds * 1e6)),
            p999_us: quantile(buckets, 0.999).map(|seconds| rounded(seconds * 1e6)),
        }
    });
    views.collect()
}

/// The time that this share of all did not pass, in seconds: within its bucket counted as if they were spread evenly. Beyond the
/// last bound it is that bound.
fn quantile(buckets: &Buckets, share: f64) -> Option<f64> {
    let count = buckets.counts.last().map_or(0.0, |(_, count)| *count);
    let wanted = share * count;
    let (mut low, mut below) = (0.0, 0.0);
    for (bound, count) in &buckets.counts {
        if *count >= wanted && *count > 0.0 {
            if bound.is_infinite() || *count <= below {
                return Some(low);
            }
            return Some(low + (bound - low) * ((wanted - below) / (count - below)).max(0.0));
        }
        (low, below) = (*bound, *count);
    }
    None
}

impl Show for View {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        writeln!(sink, "{}", self.head())?;
        for table in self.tables() {
            writeln!(sink)?;
            table.write(sink)?;
        }
        Ok(())
    }
}

impl View {
    /// The line above the tables.
    pub(super) fn head(&self) -> String {
        format!(
            "corelog {}, up {}, {} resident, {} free on its disk",
            self.version,
            span(self.uptime_seconds),
            bytes(self.resident_bytes),
            bytes(self.disk_free_bytes)
        )
    }

    /// Cores, stages, partitions: columns that matter less stand further to the right.
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.core_table(), self.stage_table()];
        if !self.partitions.is_empty() {
            tables.push(self.partition_table());
        }
        tables
    }

    fn core_table(&self) -> Table {
        let headings = [
            "CORE", "BUSY", "REQ/S", "IN/S", "OUT/S", "SYNC/S", "SYNC P99", "UNSYNCED", "ACKS DUE",
            "POLLS", "CALLS", "MEM WAIT", "FWD/S", "CONNS", "PARTS", "WRITE/S", "READ/S",
        ];
        let mut table = Table::new(&headings);
        for core in &self.cores {
            let sync = core.stages.iter().find(|stage| stage.stage == "sync");
            table.row(vec![
                core.core.to_string(),
                format!("{:.0}%", core.busy * 100.0),
                count(core.requests),
                bytes(core.received_bytes),
                bytes(core.sent_bytes),
                count(core.syncs),
                micros(sync.and_then(|stage| stage.p99_us)),
                bytes(core.unsynced_bytes),
                count(core.produces_waiting),
                count(core.fetches_parked),
                count(core.mesh_calls),
                count(core.memory_waiters),
                count(core.forwarded),
                count(core.connections),
                count(core.partitions),
                bytes(core.disk_written_bytes),
                bytes(core.disk_read_bytes),
            ]);
        }
        table
    }

    fn stage_table(&self) -> Table {
        let mut table = Table::new(&["STAGE", "PER S", "MEAN", "P50", "P99", "P99.9"]);
        for stage in &self.stages {
            table.row(vec![
                stage.stage.to_owned(),
                count(stage.per_second),
                micros(stage.mean_us),
                micros(stage.p50_us),
                micros(stage.p99_us),
                micros(stage.p999_us),
            ]);
        }
        table
    }

    fn partition_table(&self) -> Table {
        let headings =
            ["PARTITION", "IN/S", "OUT/S", "APPENDS/S", "FETCHES/S", "END", "SIZE", "CORE"];
        let mut table = Table::new(&headings);
        let or_dash = |value: Option<f64>, show: fn(f64) -> String| {
            value.map_or_else(|| "-".to_owned(), show)
        };
        for one in &self.partitions {
            table.row(vec![
                format!("{}-{}", one.topic, one.partition),
                or_dash(one.appended_bytes, bytes),
                or_dash(one.fetched_bytes, bytes),
                or_dash(one.appends, count),
                or_dash(one.fetches, count),
                format!("{:.0}", one.end_offset),
                bytes(one.size_bytes),
                one.core.clone(),
            ]);
        }
        table
    }
}

/// To thousandths: more digits say nothing.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// `0`, `12`, `3.4k`, `5.6M`.
fn count(value: f64) -> String {
    scaled(value, "")
}

/// `0B`, `12B`, `3.4kB`, `5.6GB`.
fn bytes(value: f64) -> String {
    scaled(value, "B")
}

fn scaled(value: f64, unit: &str) -> String {
    let factors = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // What would be shown as 1000 is one of the next unit.
    let found = factors.into_iter().find(|(factor, _)| value >= factor * 0.9995);
    match found {
        None => format!("{value:.0}{unit}"),
        Some((factor, prefix)) => {
            let scaled = value / factor;
            let digits = if scaled < 99.95 { 1 } else { 0 };
            format!("{scaled:.digits$}{prefix}{unit}")
        }
    }
}

/// `-`, `12us`, `3.4ms`, `5.6s`.
fn micros(us: Option<f64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 999.5 => format!("{us:.0}us"),
        Some(us) if us < 999_500.0 => format!("{:.1}ms", us / 1e3),
        Some(us) => format!("{:.1}s", us / 1e6),
    }
}

/// `12s`, `3m4s`, `5h6m`, `7d8h`.
fn span(seconds: f64) -> String {
    let seconds = std::time::Duration::try_from_secs_f64(seconds).map_or(0, |span| span.as_secs());
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scrape::Page;
    use super::*;

    fn numbers(at_ms: u64, node: &str, partitions: &str) -> Numbers {
        let pages = [node, partitions].map(Page::parse);
        Numbers::of(Duration::from_millis(at_ms), &pages[0], &pages[1])
    }

    const BEFORE: &str = "corelog_uptime_seconds 10\ncorelog_build_info{version=\"1.2\"} 1\n\
        corelog_core_busy_seconds_total{core=\"0\"} 4\ncorelog_core_running_seconds_total{core=\"0\"} 10\n\
        corelog_core_requests_total{core=\"0\"} 100\ncorelog_received_bytes_total{core=\"0\"} 1000\n\
        corelog_stage_seconds_bucket{core=\"0\",stage=\"sync\",le=\"0.000064\"} 5\n\
        corelog_stage_seconds_bucket{core=\"0\",stage=\"sync\",le=\"0.000128\"} 5\n\
        corelog_stage_seconds_bucket{core=\"0\",stage=\"sync\",le=\"+Inf\"} 5\n\
        corelog_stage_seconds_sum{core=\"0\",stage=\"sync\"} 0.0001\n";
    const AFTER: &str = "corelog_uptime_seconds 12\ncorelog_build_info{version=\"1.2\"} 1\n\
        corelog_core_busy_seconds_total{core=\"0\"} 5\ncorelog_core_running_seconds_total{core=\"0\"} 12\n\
        corelog_core_requests_total{core=\"0\"} 300\ncorelog_received_bytes_total{core=\"0\"} 9001000\n\
        corelog_mesh_calls{core=\"0\"} 3\n\
        corelog_stage_seconds_bucket{core=\"0\",stage=\"sync\",le=\"0.000064\"} 55\n\
        corelog_stage_seconds_bucket{core=\"0\",stage=\"sync\",le=\"0.000128\"} 103\n\
        corelog_stage_seconds_bucket{core=\"0\",stage=\"sync\",le=\"+Inf\"} 105\n\
        corelog_stage_seconds_sum{core=\"0\",stage=\"sync\"} 0.0101\n";

    fn of_partition(name: &str, counts: [u64; 4]) -> String {
        let metrics =
            ["appended_bytes_total", "appends_total", "fetched_bytes_total", "fetches_total"];
        let labels = format!("{{topic=\"{name}\",partition=\"0\",core=\"0\"}}");
        let lines = metrics.iter().zip(counts);
        let lines =
            lines.map(|(metric, count)| format!("corelog_partition_{metric}{labels} {count}\n"));
        lines.collect::<String>() + &format!("corelog_partition_bytes{labels} 77\n")
    }

    #[test]
    fn rates_are_differences_over_the_interval() {
        let before = numbers(1_000, BEFORE, &of_partition("a", [100, 1, 0, 0]));
        let pages = of_partition("new", [9, 9, 9, 9]) + &of_partition("a", [500, 3, 40, 2]);
        let now = numbers(3_000, AFTER, &pages);
        let view = View::between(&before, &now, 10).unwrap();
        let core = &view.cores[0];
        assert_eq!((core.busy, core.requests, core.received_bytes), (0.5, 100.0, 4_500_000.0));
        assert_eq!((core.mesh_calls, core.syncs), (3.0, 0.0));
        let sync = &view.stages[4];
        assert_eq!((sync.stage, sync.per_second), ("sync", 50.0));
        assert!((sync.mean_us.unwrap() - 100.0).abs() < 1e-6);
        assert!((sync.p50_us.unwrap() - 64.0).abs() < 1e-6);
        let p99 = sync.p99_us.unwrap();
        assert!((p99 - 128.0).abs() < 1e-6, "the last bound that is one: {p99}");
        assert_eq!(view.stages[0].p50_us, None, "nothing was read");
        let rates = |one: &PartitionView| (one.appended_bytes, one.appends, one.fetched_bytes);
        assert_eq!(rates(&view.partitions[0]), (None, None, None));
        assert_eq!(rates(&view.partitions[1]), (Some(200.0), Some(1.0), Some(20.0)));
        assert_eq!(View::between(&before, &now, 1).unwrap().partitions.len(), 1);
    }

    #[test]
    fn nothing_is_said_of_counts_from_two_lives() {
        let (before, now) = (numbers(1_000, BEFORE, ""), numbers(3_000, AFTER, ""));
        assert_eq!(View::between(&now, &before, 10), None, "no time has passed");
        let restarted = numbers(5_000, BEFORE, "");
        assert_eq!(View::between(&now, &restarted, 10), None, "it started anew");
        let again = numbers(3_000, AFTER, &of_partition("a", [5, 1, 0, 0]));
        let deleted = numbers(1_000, BEFORE, &of_partition("a", [500, 1, 0, 0]));
        let view = View::between(&deleted, &again, 10).unwrap();
        assert_eq!(view.partitions[0].appended_bytes, None, "made anew under its name");
    }

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (12.4, "12"),
            (999.0, "999"),
            (999.6, "1.0k"),
            (1_234.0, "1.2k"),
            (99_960.0, "100k"),
            (1.5e6, "1.5M"),
            (2e12, "2.0T"),
        ] {
            assert_eq!(count(value), expected);
        }
        assert_eq!(bytes(5_600.0), "5.6kB");
        let shown = [None, Some(12.0), Some(3_400.0), Some(5_600_000.0)].map(micros);
        assert_eq!(shown, ["-", "12us", "3.4ms", "5.6s"]);
        assert_eq!([12.0, 184.0, 18_360.0, 6e5].map(span), ["12s", "3m4s", "5h6m", "6d22h"]);
    }

    #[test]
    fn every_table_has_its_rows() {
        let view = View::between(
            &numbers(1_000, BEFORE, ""),
            &numbers(3_000, AFTER, &of_partition("orders", [1, 1, 1, 1])),
            10,
        );
        let mut shown = Vec::new();
        view.unwrap().show_table(&mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.starts_with("corelog 1.2, up 12s,"), "{shown}");
        for expected in ["0     50%   100    4.5MB", "sync    50", "orders-0   -"] {
            assert!(shown.contains(expected), "{expected} in {shown}");
        }
        assert!(!shown.contains('\x1b'), "no escape codes but on a screen");
    }
}
