//! What a run found: the model that is printed, saved, and later compared.
//!
//! Owns the names. A saved result is read by later releases: fields are added, never renamed; `format` changes when an old
//! reader would misunderstand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::audit::AuditReport;
use crate::flushes::FlushReport;
use crate::latency::{CurvePoint, LatencySummary};
use crate::read_load::ReadLoad;
use crate::soundness::Unsound;
use crate::topic_facts::Durability;
use crate::trend::Trend;
use crate::workload::{Pace, Workload};

/// The format of a saved result.
pub const RESULT_FORMAT: u32 = 1;

/// Everything that is known of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`RESULT_FORMAT`] of the release that wrote it.
    pub format: u32,
    /// Whether its figures may be believed; [`RunResult::is_sound`] finds it anew.
    #[serde(default)]
    pub sound: bool,
    /// Why not, the gravest first.
    #[serde(default)]
    pub unsound_because: Vec<Unsound>,
    /// What was done.
    pub job: Job,
    /// The topic that was written to.
    pub topic: String,
    /// Its partitions.
    pub partitions: u32,
    /// Brokers that lead one of them.
    pub leaders: u32,
    /// What an acknowledgement says of the disk, by the topic's options.
    #[serde(default)]
    pub durability: Durability,
    /// What the broker says of the topic's options, those that matter to a run; empty where it does not say.
    #[serde(default)]
    pub topic_configs: BTreeMap<String, String>,
    /// Connections that there were.
    pub connections: u32,
    /// When measuring began, Unix milliseconds.
    pub started_ms: i64,
    /// How the run ended.
    pub end: RunEnd,
    /// What was acknowledged while measuring.
    pub measured: Measured,
    /// From when a request was due (open loop) or sent (closed loop) to its answer.
    pub latency: LatencySummary,
    /// Of these, how many had no answer, and count with the time that had passed at the end: less than their latency is.
    #[serde(default)]
    pub latency_lower_bounds: u64,
    /// The latencies again, as a curve from the smallest to the largest; empty where there were none, and in results of releases
    /// that did not write it.
    #[serde(default)]
    pub latency_curve: Vec<CurvePoint>,
    /// How late requests left although there was room for them: what the client itself adds in an open loop.
    pub send_delay: LatencySummary,
    /// From when a request was due (open loop) or sent (closed loop) to when a consumer beside the run had its batch; absent where
    /// there was none.
    pub delivery: Option<LatencySummary>,
    /// Of these, how many never came, and count with the time that had passed when they were waited for no longer.
    #[serde(default)]
    pub delivery_lower_bounds: u64,
    /// Batches whose way to consumers was not followed, since too many were under way at once: no figure of the deliveries has them.
    #[serde(default)]
    pub delivery_uncounted: u64,
    /// What the consumers beside the run have read of it, all of them together; absent where there were none.
    #[serde(default)]
    pub read_beside: Option<ReadBeside>,
    /// What was refused, the commonest first.
    pub errors: Vec<ErrorCount>,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Requests that were due while measuring; 0 in a closed loop, where nothing is due at any time.
    #[serde(default)]
    pub due: u64,
    /// Requests that were due before the end and never left, since all places in flight were taken. They count in the latencies as
    /// lower bounds.
    pub unsent: u64,
    /// Second by second.
    pub intervals: Vec<Interval>,
    /// The latencies of what was due while measuring and answered after the end, or never; no sums. They stand in no interval.
    #[serde(default)]
    pub drain: Option<Interval>,
    /// What the broker used while measuring, where its process was named.
    pub broker: Option<ProcessUse>,
    /// What this client used.
    pub client: Option<ProcessUse>,
    /// CPU time of the kernel's threads that work off writes, flushes and journals, of the whole machine over the measured time; absent
    /// where the broker's process was not named.
    #[serde(default)]
    pub kernel_worker_cpu_seconds: Option<f64>,
    /// What the device under the broker's files was asked to do; absent where nobody asked.
    #[serde(default)]
    pub flush: Option<FlushReport>,
    /// What connections cost that did nothing; absent where there were none.
    #[serde(default)]
    pub idle: Option<IdleUse>,
    /// Whether the run ended as it began; absent where nobody asked, and of a run that did not last.
    #[serde(default)]
    pub trend: Option<Trend>,
    /// The consumers that caught up beside a mixed run.
    #[serde(default)]
    pub beside: Option<Box<RunResult>>,
    /// Whether what was acknowledged is there, or whether all that was read is whole and in order.
    pub audit: AuditReport,
}

/// What a run does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Job {
    /// It sends.
    Produce(Workload),
    /// It reads.
    Consume(ReadLoad),
}

impl Job {
    /// Whether requests are due at times that the broker has no say in.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        matches!(self, Self::Produce(load) if load.pace != Pace::Closed)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunEnd {
    /// As planned.
    Complete,
    /// Somebody stopped it: the figures are those of a shorter run.
    Interrupted,
    /// It could not go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Sums over a time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// How long.
    pub seconds: f64,
    /// Requests answered without an error.
    pub requests: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes as they were sent.
    pub bytes: u64,
    /// Their bytes before compression.
    pub plain_bytes: u64,
    /// Millions of bytes a second.
    pub mb_per_second: f64,
    /// Records a second.
    pub records_per_second: f64,
    /// Requests a second.
    pub requests_per_second: f64,
}

/// One second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// When it began, in seconds since measuring did.
    pub begin: f64,
    /// How long it was.
    pub seconds: f64,
    /// Requests answered without an error.
    pub requests: u64,
    /// Records acknowledged.
    pub records: u64,
    /// Bytes of batches acknowledged.
    pub bytes: u64,
    /// Batches refused.
    pub errors: u64,
    /// Half of the latencies are within.
    pub p50_ms: f64,
    /// 99 of 100 are.
    pub p99_ms: f64,
    /// 999 of 1,000 are.
    pub p999_ms: f64,
    /// The largest.
    pub max_ms: f64,
    /// What the broker used in this second; absent where its process was not named, and in results of releases that did not look.
    #[serde(default)]
    pub broker: Option<IntervalUse>,
}

/// What a process used in one second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct IntervalUse {
    /// In its own code and in the kernel; resolution 10 ms.
    pub cpu_seconds: f64,
    /// Resident memory at the end of it.
    pub rss_bytes: u64,
}

/// An error code, how often, and what it first said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The number on the wire.
    pub code: i16,
    /// Its name.
    pub name: String,
    /// How many batches were refused with it.
    pub count: u64,
    /// The partition that it first came from.
    pub first_partition: i32,
    /// What came with it then.
    pub first_message: Option<String>,
}

/// What a process used over a time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProcessUse {
    /// In its own code; resolution 10 ms.
    pub cpu_user_seconds: f64,
    /// In the kernel.
    pub cpu_system_seconds: f64,
    /// Both, for each 10^9 bytes of batches acknowledged; absent where there were none.
    pub cpu_seconds_per_gb: Option<f64>,
    /// Both, for each request answered.
    pub cpu_us_per_request: Option<f64>,
    /// Resident memory at the end.
    pub rss_bytes: u64,
    /// The most there ever was.
    pub rss_bytes_peak: u64,
    /// Threads at the end.
    pub threads: u64,
    /// Times that a thread gave its CPU away.
    pub voluntary_context_switches: u64,
    /// Times that it was taken from one.
    pub involuntary_context_switches: u64,
    /// Of its CPU time, that of the kernel's workers for its io_uring, as far as they still lived at the end.
    #[serde(default)]
    pub io_worker_cpu_seconds: f64,
    /// Bytes that the device read for it; absent where the system does not let us see.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that went to the device for it.
    pub disk_written_bytes: Option<u64>,
}

/// Connections that did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct IdleUse {
    /// How many there were.
    pub connections: u32,
    /// Of them, those that the broker closed before the end.
    pub lost: u32,
    /// The broker's resident memory before the first of them.
    pub broker_rss_bytes_before: Option<u64>,
    /// The same with the last of them open.
    pub broker_rss_bytes_after: Option<u64>,
    /// The difference, for each; the kernel's memory for sockets is not in it.
    pub broker_bytes_per_connection: Option<f64>,
}

/// What consumers beside a run have read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReadBeside {
    /// Batches, each counted once for every consumer that read it.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Offsets that retention took before they were read.
    pub skipped_offsets: u64,
}
