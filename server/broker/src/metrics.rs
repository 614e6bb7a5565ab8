//! What a node counts: plain cells on each core, merged and written as Prometheus text on the control executor.
//!
//! Owns every metric, each declared once ([`CoreMetrics`]), and the text format. A core's cells are its own: counting is an
//! addition, without an atomic. A [`Snapshot`] is what crosses to the control executor.
//!
//! ```text
//! core 0: CoreMetrics ─ snapshot ─┐
//! core 1: CoreMetrics ─ snapshot ─┴─► render(&[Snapshot], …) ─► /metrics
//! ```

pub mod docs;
mod histogram;
pub mod partitions;
mod render;
mod stages;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

pub use histogram::{BUCKET_BOUNDS_US, Histogram};
pub use render::{NodeFacts, Replayed, SeriesNames, render};
pub use stages::{STAGE_BOUNDS_COUNT, Stage, StageTimes};

/// Series of requests that one core keeps; more are counted together as "other".
pub const REQUEST_SERIES_MAX: usize = 4_096;
/// APIs whose latency one core keeps; Kafka has not a hundred.
const LATENCY_SERIES_MAX: usize = 256;

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl MetricKind {
    /// Prometheus's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a metric's number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds; kept as nanoseconds.
    Seconds,
}

impl MetricUnit {
    /// For tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
        }
    }
}

/// How the cores' numbers become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Added up.
    Sum,
    /// One series a core, with the label `core`.
    PerCore,
}

/// The declaration of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name, with the unit, and `_total` for a counter.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// What it counts.
    pub unit: MetricUnit,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// That many more.
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get().wrapping_add(count));
    }

    /// That much longer, for a counter of seconds.
    pub fn add_time(&self, time: Duration) {
        self.add(nanoseconds(time));
    }

    /// Takes over a total that is counted elsewhere. It never goes back: a smaller total is ignored.
    pub fn raise_to(&self, total: u64) {
        self.0.set(self.0.get().max(total));
    }

    /// The same for a counter of seconds.
    pub fn raise_to_time(&self, total: Duration) {
        self.raise_to(nanoseconds(total));
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(Cell<u64>);

impl Gauge {
    /// Is now this.
    pub fn set(&self, value: u64) {
        self.0.set(value);
    }

    /// One more.
    pub fn increment(&self) {
        self.0.set(self.0.get().saturating_add(1));
    }

    /// One more for as long as the guard lives.
    pub fn hold(&self) -> Held<'_> {
        self.increment();
        Held(self)
    }

    /// One less, not below 0.
    pub fn decrement(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// See [`Gauge::hold`].
#[derive(Debug)]
pub struct Held<'a>(&'a Gauge);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Declares the metrics that are one number a core: the field, the row of the table and the snapshot in one place.
macro_rules! scalar_metrics {
    ($($kind:ident $field:ident = $name:literal, $unit:ident, $merge:ident, $help:literal;)*) => {
        /// What one core counts. Not shared: each core has its own.
        #[derive(Debug, Default)]
        pub struct CoreMetrics {
            $(#[doc = $help] pub $field: $kind,)*
            requests: RefCell<BTreeMap<RequestKey, u64>>,
            latencies: RefCell<BTreeMap<i16, Histogram>>,
            stages: RefCell<StageTimes>,
        }

        /// The metrics that are one number a core, in the order of a snapshot's values.
        pub(crate) const SCALARS: &[(Metric, Merge)] = &[$((
            Metric {
                name: $name,
                kind: MetricKind::$kind,
                unit: MetricUnit::$unit,
                labels: labels_of(Merge::$merge),
                help: $help,
            },
            Merge::$merge,
        ),)*];

        impl CoreMetrics {
            fn values(&self) -> Vec<u64> {
                vec![$(self.$field.get(),)*]
            }
        }
    };
}

const fn labels_of(merge: Merge) -> &'static [&'static str] {
    match merge {
        Merge::Sum => &[],
        Merge::PerCore => &["core"],
    }
}

scalar_metrics! {
    Counter appended_batches = "corelog_appended_batches_total", Count, PerCore, "Record batches appended.";
    Counter appended_bytes = "corelog_appended_bytes_total", Bytes, PerCore, "Bytes of record batches appended.";
    Counter appended_records = "corelog_appended_records_total", Count, Sum, "Records appended.";
    Counter connections_accepted = "corelog_connections_accepted_total", Count, Sum, "Connections accepted.";
    Gauge connections = "corelog_connections", Count, PerCore, "Connections open now.";
    Counter connections_handed_over = "corelog_connections_handed_over_total", Count, Sum, "Connections that moved to the core which all their requests concerned.";
    Counter connections_idle = "corelog_connections_idle_total", Count, Sum, "Connections closed because nothing had moved on them for connections.max.idle.ms.";
    Counter connections_refused = "corelog_connections_refused_total", Count, Sum, "Connections closed at once because max.connections, or what the limit of open files leaves for connections, was reached.";
    Counter connections_refused_per_address = "corelog_connections_refused_per_ip_total", Count, Sum, "Connections closed at once because their address had as many as max.connections.per.ip, or what max.connections.per.ip.overrides says of it.";
    Counter connections_stalled = "corelog_connections_stalled_total", Count, Sum, "Connections closed because the client did not take its answers within connections.send.timeout.ms, or within 30 seconds in all while others waited for the memory that it held.";
    Counter connections_violating = "corelog_connections_violating_total", Count, Sum, "Connections closed because their bytes are no request that is served here.";
    Counter busy = "corelog_core_busy_seconds_total", Seconds, PerCore, "Time that the core has spent working.";
    Counter core_requests = "corelog_core_requests_total", Count, PerCore, "Requests answered by the core; the same that corelog_requests_total tells apart by API, version and error.";
    Counter running = "corelog_core_running_seconds_total", Seconds, PerCore, "Time since the core started.";
    Gauge damaged_ranges = "corelog_damaged_ranges", Count, Sum, "Ranges of a log that are damaged below the checkpoint; a fetch inside one answers CORRUPT_MESSAGE.";
    Gauge disk_below_floor = "corelog_disk_below_floor", Count, PerCore, "1 while free disk space is below disk.floor.bytes and produce requests are refused.";
    Counter duplicate_batches = "corelog_duplicate_batches_total", Count, Sum, "Batches of idempotent producers that were here already.";
    Counter fetch_copied_bytes = "corelog_fetch_copied_bytes_total", Bytes, Sum, "Record bytes that a core copied to answer for its own partitions; stays 0.";
    Counter fetch_forward_copied_bytes = "corelog_fetch_forward_copied_bytes_total", Bytes, Sum, "Record bytes copied so that another core could answer for this one's partitions.";
    Gauge fetch_memory_bytes = "corelog_fetch_memory_bytes", Bytes, PerCore, "Record bytes of answers to Fetch that have not left.";
    Counter fetch_session_evictions = "corelog_fetch_session_evictions_total", Count, Sum, "Fetch sessions that were closed to make room for another; clients of such sessions start again with a full fetch.";
    Gauge fetch_session_partitions = "corelog_fetch_session_partitions", Count, PerCore, "Partitions of all fetch sessions.";
    Gauge fetch_sessions = "corelog_fetch_sessions", Count, PerCore, "Fetch sessions, see max.incremental.fetch.session.cache.slots.";
    Counter fetched_bytes = "corelog_fetched_bytes_total", Bytes, PerCore, "Bytes of record batches sent to consumers.";
    Counter fetches_incremental = "corelog_fetches_incremental_total", Count, Sum, "Fetch requests that went on in a session.";
    Gauge fetches_parked = "corelog_fetches_parked", Count, PerCore, "Fetch requests that wait for records.";
    Counter forwarded_requests = "corelog_forwarded_requests_total", Count, PerCore, "Sub-requests sent to the core that owns their partition.";
    Counter io_errors = "corelog_io_errors_total", Count, Sum, "Reads, writes and syncs of segments that the disk refused.";
    Gauge journal_behind_bytes = "corelog_journal_behind_bytes", Bytes, PerCore, "Memory of what is durable in the journal and not in its segment yet.";
    Counter journal_groups = "corelog_journal_groups_total", Count, Sum, "Groups of partitions that went to the journal; by corelog_journal_sets_total: how many one write and one sync made lasting.";
    Counter journal_sets = "corelog_journal_sets_total", Count, Sum, "Entry sets written to the journals, each one write. It is synced at once unless all of its partitions are under write caching.";
    Counter journal_settles = "corelog_journal_settles_total", Count, Sum, "Times that a segment took what the journal had of its log.";
    Counter journal_written_bytes = "corelog_journal_written_bytes_total", Bytes, Sum, "Bytes written to the journals.";
    Gauge logs_failed = "corelog_logs_failed", Count, Sum, "Logs that are read-only or offline after a disk error.";
    Counter logs_resumed = "corelog_logs_resumed_total", Count, Sum, "Logs that stopped for want of disk space or file descriptors and take records again.";
    Gauge logs_stalled = "corelog_logs_stalled", Count, Sum, "Logs whose records have waited for five seconds for a disk that stands still.";
    Gauge mesh_calls = "corelog_mesh_calls", Count, PerCore, "Calls of the core to other cores that have not been answered, waiting fetches left out.";
    Counter mesh_full = "corelog_mesh_full_total", Count, PerCore, "Messages that had to wait because a queue between two cores was full.";
    Counter panics = "corelog_panics_total", Count, Sum, "Panics that closed one connection or task.";
    Gauge partitions = "corelog_partitions", Count, PerCore, "Partitions that the core owns.";
    Gauge produces_waiting = "corelog_produces_waiting", Count, PerCore, "Produced batches that wait for their acknowledgement.";
    Gauge producers = "corelog_producers", Count, Sum, "Idempotent producers remembered, counted once a partition.";
    Gauge read_cache_bytes = "corelog_read_cache_bytes", Bytes, PerCore, "Memory of what was read from disk.";
    Counter disk_read_bytes = "corelog_disk_read_bytes_total", Bytes, PerCore, "Bytes read from log files.";
    Counter disk_reads = "corelog_disk_reads_total", Count, PerCore, "Reads of log files.";
    Counter received_bytes = "corelog_received_bytes_total", Bytes, PerCore, "Bytes received from clients.";
    Gauge request_memory_bytes = "corelog_request_memory_bytes", Bytes, PerCore, "Memory of requests above 16 KiB that are arriving or not answered, with what they may become.";
    Gauge request_memory_waiters = "corelog_request_memory_waiters", Count, PerCore, "Connections that are not read because there is no room for their next request.";
    Counter removed_bytes = "corelog_removed_bytes_total", Bytes, Sum, "Bytes of record batches in segments that were removed.";
    Counter scrub_failures = "corelog_scrub_failures_total", Count, Sum, "Segments that the scrubber could not read in whole, counted once a pass: sectors that the disk does not give, or a file that is gone.";
    Counter scrub_passes = "corelog_scrub_passes_total", Count, Sum, "Passes of the scrubber over all sealed segments of a core.";
    Counter scrubbed_bytes = "corelog_scrubbed_bytes_total", Bytes, Sum, "Bytes of sealed segments that the scrubber has read and checked.";
    Counter segments_removed_by_age = "corelog_segments_removed_by_age_total", Count, Sum, "Segments removed because their newest record was older than retention.ms.";
    Counter segments_removed_by_request = "corelog_segments_removed_by_request_total", Count, Sum, "Segments removed because they lay below a log start that DeleteRecords moved.";
    Counter segments_removed_by_size = "corelog_segments_removed_by_size_total", Count, Sum, "Segments removed because the log was larger than retention.bytes.";
    Counter sent_bytes = "corelog_sent_bytes_total", Bytes, PerCore, "Bytes sent to clients.";
    Counter slow_requests = "corelog_slow_requests_total", Count, Sum, "Connections closed because a request took half a minute to arrive, or came with less than 64 KiB/s, while others waited for its memory.";
    Counter syncs = "corelog_syncs_total", Count, PerCore, "Syncs of log files.";
    Gauge tail_cache_bytes = "corelog_tail_cache_bytes", Bytes, PerCore, "Memory of what was just written.";
    Gauge unsynced_bytes = "corelog_unsynced_bytes", Bytes, PerCore, "Bytes of record batches that were taken in and are not on stable storage yet: those that wait for their acknowledgement, and under write.caching those acknowledged since the last sync.";
    Counter disk_written_bytes = "corelog_disk_written_bytes_total", Bytes, PerCore, "Bytes written to log files, rewritten blocks included.";
    Counter disk_writes = "corelog_disk_writes_total", Count, PerCore, "Writes of log files.";
}

/// Requests by API, version and error.
pub(crate) const REQUESTS: Metric = Metric {
    name: "corelog_requests_total",
    kind: MetricKind::Counter,
    unit: MetricUnit::Count,
    labels: &["api", "version", "error"],
    help: "Requests answered, by the first error in the answer.",
};

/// Time of requests by API.
pub(crate) const LATENCY: Metric = Metric {
    name: "corelog_request_seconds",
    kind: MetricKind::Histogram,
    unit: MetricUnit::Seconds,
    labels: &["api"],
    help: "Time from when a request has been read to when its answer is ready to be sent; a parked fetch waits within it. Time in sockets is not part of it.",
};

/// What a request series is told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// The API's key; -1 for those counted together.
    pub api: i16,
    /// Its version.
    pub version: i16,
    /// The first error of the answer; 0 for none.
    pub error: i16,
}

impl RequestKey {
    /// Every series beyond the bound.
    pub const OTHER: Self = Self { api: -1, version: -1, error: -1 };
}

/// What one core has counted, as it crosses to the control executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The core's name in the label `core`: its index, or `control`.
    pub core: String,
    values: Vec<u64>,
    requests: Vec<(RequestKey, u64)>,
    latencies: Vec<(i16, Histogram)>,
    stages: StageTimes,
}

impl CoreMetrics {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One request was answered.
    pub fn request(&self, key: RequestKey, time: Duration) {
        let mut requests = self.requests.borrow_mut();
        let has_room = requests.len() < REQUEST_SERIES_MAX || requests.contains_key(&key);
        let key = if has_room { key } else { RequestKey::OTHER };
        *requests.entry(key).or_default() += 1;
        let mut latencies = self.latencies.borrow_mut();
        let has_room = latencies.len() < LATENCY_SERIES_MAX || latencies.contains_key(&key.api);
        if has_room {
            latencies.entry(key.api).or_default().record(time);
        }
    }

    /// A request, or an answer, has spent so long in a stage.
    pub fn stage(&self, stage: Stage, time: Duration) {
        self.stages.borrow_mut().record(stage, time);
    }

    /// What has been counted so far, by the core of that name.
    #[must_use]
    pub fn snapshot(&self, core: impl Into<String>) -> Snapshot {
        self.core_requests.raise_to(self.requests.borrow().values().sum());
        Snapshot {
            core: core.into(),
            values: self.values(),
            requests: self.requests.borrow().iter().map(|(key, count)| (*key, *count)).collect(),
            latencies: self
                .latencies
                .borrow()
                .iter()
                .map(|(api, histogram)| (*api, histogram.clone()))
                .collect(),
            stages: self.stages.borrow().clone(),
        }
    }
}

/// Every metric of the page `/metrics`, for tables.
pub fn all_metrics() -> impl Iterator<Item = Metric> {
    let labelled = [REQUESTS, LATENCY, stages::STAGES];
    SCALARS.iter().map(|(metric, _)| *metric).chain(labelled).chain(render::NODE_METRICS)
}

#[cfg(test)]
mod tests;
