//! What a node has counted at one moment, out of its admin pages.
//!
//! Owns the names of the metrics that are shown. What a node does not tell counts as 0.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Platform;

use super::http::{AdminAddress, get};
use super::scrape::{Page, Series};
use crate::exit::Outcome;

/// The stages of a request, in their order.
pub(super) const STAGES: [&str; 6] = ["read", "queue", "decode", "append", "sync", "send"];

/// Cores that are looked at: a node has no more.
const CORES_MAX: usize = 1_025;

/// A histogram: how many were at most each bound, in seconds and ascending; the last bound is infinite.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Buckets {
    /// Bounds and counts.
    pub(super) counts: Vec<(f64, f64)>,
    /// Sum of all times, in seconds.
    pub(super) sum: f64,
}

/// The counts of one core.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Core {
    /// Seconds of work, and since the start.
    pub(super) busy: f64,
    /// See `busy`.
    pub(super) running: f64,
    /// Requests answered.
    pub(super) requests: f64,
    /// Bytes from clients.
    pub(super) received: f64,
    /// Bytes to clients.
    pub(super) sent: f64,
    /// Sub-requests sent to other cores.
    pub(super) forwarded: f64,
    /// Syncs of log files.
    pub(super) syncs: f64,
    /// Bytes written to log files.
    pub(super) written: f64,
    /// Bytes read from them.
    pub(super) read: f64,
    /// Open now, and so the rest below.
    pub(super) connections: f64,
    /// Partitions owned.
    pub(super) partitions: f64,
    /// Batches that wait for their acknowledgement.
    pub(super) produces_waiting: f64,
    /// Bytes taken in and not on stable storage.
    pub(super) unsynced: f64,
    /// Fetches that wait for records.
    pub(super) fetches_parked: f64,
    /// Calls to other cores without an answer.
    pub(super) mesh_calls: f64,
    /// Connections that wait for memory.
    pub(super) memory_waiters: f64,
    /// By stage, in the order of [`STAGES`].
    pub(super) stages: [Buckets; STAGES.len()],
}

/// The counts of one partition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Partition {
    /// Its topic.
    pub(super) topic: String,
    /// Its number.
    pub(super) partition: String,
    /// The core that owns it.
    pub(super) core: String,
    /// Bytes and batches appended, bytes and reads by consumers.
    pub(super) counts: [f64; 4],
    /// Size of the log.
    pub(super) bytes: f64,
    /// Its end.
    pub(super) end_offset: f64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Numbers {
    /// When it was asked for.
    pub(super) at: Duration,
    /// The node's version.
    pub(super) version: String,
    /// Seconds since it started.
    pub(super) uptime: f64,
    /// Resident memory.
    pub(super) resident: f64,
    /// Free space of its disk.
    pub(super) disk_free: f64,
    /// By their names.
    pub(super) cores: BTreeMap<usize, Core>,
    /// The busiest first.
    pub(super) partitions: Vec<Partition>,
}

impl Numbers {
    /// Asks the node.
    pub(super) async fn ask<P: Platform>(platform: &P, address: &AdminAddress) -> Outcome<Self> {
        let at = platform.monotonic();
        let node = Page::parse(&get(platform, address, "/metrics").await?);
        let partitions = Page::parse(&get(platform, address, "/metrics/partitions").await?);
        Ok(Self::of(at, &node, &partitions))
    }

    /// Reads the two pages.
    pub(super) fn of(at: Duration, node: &Page, partitions: &Page) -> Self {
        let value = |name| node.value(name).unwrap_or(0.0);
        let builds = node.series("corelog_build_info");
        Self {
            at,
            version: builds.first().map_or("", |build| build.label("version")).to_owned(),
            uptime: value("corelog_uptime_seconds"),
            resident: value("corelog_resident_bytes"),
            disk_free: value("corelog_disk_free_bytes"),
            cores: cores_of(node),
            partitions: partitions_of(partitions),
        }
    }
}

fn cores_of(page: &Page) -> BTreeMap<usize, Core> {
    type Field = fn(&mut Core) -> &mut f64;
    let fields: [(&str, Field); 16] = [
        ("corelog_core_busy_seconds_total", |core| &mut core.busy),
        ("corelog_core_running_seconds_total", |core| &mut core.running),
        ("corelog_core_requests_total", |core| &mut core.requests),
        ("corelog_received_bytes_total", |core| &mut core.received),
        ("corelog_sent_bytes_total", |core| &mut core.sent),
        ("corelog_forwarded_requests_total", |core| &mut core.forwarded),
        ("corelog_syncs_total", |core| &mut core.syncs),
        ("corelog_disk_written_bytes_total", |core| &mut core.written),
        ("corelog_disk_read_bytes_total", |core| &mut core.read),
        ("corelog_connections", |core| &mut core.connections),
        ("corelog_partitions", |core| &mut core.partitions),
        ("corelog_produces_waiting", |core| &mut core.produces_waiting),
        ("corelog_unsynced_bytes", |core| &mut core.unsynced),
        ("corelog_fetches_parked", |core| &mut core.fetches_parked),
        ("corelog_mesh_calls", |core| &mut core.mesh_calls),
        ("corelog_request_memory_waiters", |core| &mut core.memory_waiters),
    ];
    let mut cores: BTreeMap<usize, Core> = BTreeMap::new();
    for (name, field) in fields {
        for series in page.series(name) {
            if let Some(core) = core_of(&mut cores, series) {
                *field(core) = series.value;
            }
        }
    }
    for series in page.series("corelog_stage_seconds_bucket") {
        let bound = match series.label("le") {
            "+Inf" => f64::INFINITY,
            bound => bound.parse().unwrap_or(f64::INFINITY),
        };
        if let Some(buckets) = stage_of(&mut cores, series) {
            buckets.counts.push((bound, series.value));
        }
    }
    for series in page.series("corelog_stage_seconds_sum") {
        if let Some(buckets) = stage_of(&mut cores, series) {
            buckets.sum = series.value;
        }
    }
    cores
}

fn core_of<'a>(cores: &'a mut BTreeMap<usize, Core>, series: &Series) -> Option<&'a mut Core> {
    let index = series.label("core").parse().ok().filter(|index| *index < CORES_MAX)?;
    Some(cores.entry(index).or_default())
}

fn stage_of<'a>(cores: &'a mut BTreeMap<usize, Core>, series: &Series) -> Option<&'a mut Buckets> {
    let stage = STAGES.iter().position(|stage| *stage == series.label("stage"))?;
    core_of(cores, series)?.stages.get_mut(stage)
}

fn partitions_of(page: &Page) -> Vec<Partition> {
    let named =
        |series: &Series| ["topic", "partition"].map(|label| series.label(label).to_owned());
    let by_name = |metric: &str| -> BTreeMap<[String; 2], f64> {
        let series = page.series(&format!("corelog_partition_{metric}"));
        series.iter().map(|series| (named(series), series.value)).collect()
    };
    let counts = ["appended_bytes_total", "appends_total", "fetched_bytes_total", "fetches_total"];
    let counts = counts.map(by_name);
    let ends = by_name("log_end_offset");
    // The order of the page says which are the busiest.
    let sizes = page.series("corelog_partition_bytes").iter();
    let partitions = sizes.map(|series| {
        let name = named(series);
        let of = |values: &BTreeMap<[String; 2], f64>| values.get(&name).copied().unwrap_or(0.0);
        let (counts, end_offset) = (counts.each_ref().map(of), of(&ends));
        let [topic, partition] = name;
        let core = series.label("core").to_owned();
        Partition { topic, partition, core, counts, bytes: series.value, end_offset }
    });
    partitions.collect()
}
