//! The shards by measurement: which numbers and ways to advertise them are tried, and what each gives.
//!
//! Owns the candidates and the loads. Every candidate gets the same two: as fast as it goes, and a fixed rate for the latency.
//! The client runs on the same CPUs as the node, so that the figures compare candidates, and promise nothing.

use std::time::Duration;

use load::{
    Acks, Pace, ProduceOptions, RecordSize, RunResult, Silent, TopicChoice, Unsound, Until,
    Workload,
};
use node::{CorePlatform, StopSignal};
use serde::Serialize;

use super::child::{Child, Scratch};
use crate::commands::top::http;
use crate::commands::top::scrape::Page;
use crate::exit::{Exit, Failure, Outcome};

/// Numbers of shards that are tried at most: powers of two, and all CPUs.
const SHARD_COUNTS_MAX: usize = 8;
/// Partitions of the topic, and of one request of the fast load: enough for every core to have some.
const PARTITIONS: u32 = 16;
/// Bytes that one fast run appends at most.
const RUN_BYTES_MAX: u64 = 2_000_000_000;
/// What of it is read back and compared.
const AUDIT_BYTES: u64 = 64 << 20;
/// The rate of the latency load, in bytes of batches a second.
const LATENCY_RATE: u64 = 10_000_000;
/// Times that a load is put on a node, each twice as long as the one before, until it can be measured.
const ATTEMPTS_MAX: u32 = 4;
/// With so many acknowledged the last of them ends, however long they take: 32 MiB of the fast load, seconds of the steady one.
const LAST_ATTEMPT_RECORDS: u64 = 32_768;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How clients find a node's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Advertise {
    /// One broker a node; requests for other cores are forwarded.
    Node,
    /// One broker a core.
    Core,
}

impl Advertise {
    /// The option's value.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Core => "core",
        }
    }
}

/// A configuration to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Candidate {
    /// Data cores.
    pub(super) shards: usize,
    /// See there.
    pub(super) advertise: Advertise,
    /// Options beside these, by key.
    pub(super) settings: Vec<(&'static str, String)>,
}

/// What a candidate gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Point {
    /// Which.
    #[serde(flatten)]
    pub(super) candidate: Candidate,
    /// Millions of bytes of batches acknowledged a second, as fast as it goes.
    pub(super) mb_per_second: f64,
    /// CPU time of the node for each 10^9 bytes of it.
    pub(super) cpu_seconds_per_gb: Option<f64>,
    /// Sub-requests that went to another core, for each request that was answered.
    pub(super) forwarded_per_request: f64,
    /// Of acknowledgements at a fixed rate, from when each request was due.
    pub(super) p50_ms: f64,
    /// See there.
    pub(super) p999_ms: f64,
    /// Whether that rate was kept; where it was not, the times are less than they would have been.
    pub(super) rate_kept: bool,
}

/// How long each load runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Before anything counts.
    pub(super) warm_up: Duration,
    /// After that.
    pub(super) measure: Duration,
}

/// The candidates for so many CPUs: powers of two and all of them, each as one broker and as one a core.
pub(super) fn candidates(cpus: usize) -> Vec<Candidate> {
    let mut counts: Vec<usize> =
        (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count < cpus).collect();
    // Of many, the largest: nobody buys a hundred CPUs for one core.
    let left_out = counts.len().saturating_sub(SHARD_COUNTS_MAX - 1);
    counts.drain(..left_out);
    counts.push(cpus.max(1));
    let both = |shards| {
        // With one core both are the same.
        let ways: &[Advertise] =
            if shards == 1 { &[Advertise::Node] } else { &[Advertise::Node, Advertise::Core] };
        ways.iter().map(move |way| Candidate { shards, advertise: *way, settings: Vec::new() })
    };
    counts.into_iter().flat_map(both).collect()
}

/// Starts a node of that candidate and puts both loads on it.
pub(super) async fn measure(
    platform: &CorePlatform,
    scratch: &Scratch,
    (candidate, times): (&Candidate, Times),
    stop: &StopSignal,
) -> Outcome<Point> {
    let measured = measure_running(platform, scratch, (candidate, times), stop).await;
    // Whatever failed then, failed because of it.
    if stop.is_requested() { Err(super::interrupted()) } else { measured }
}

async fn measure_running(
    platform: &CorePlatform,
    scratch: &Scratch,
    (candidate, times): (&Candidate, Times),
    stop: &StopSignal,
) -> Outcome<Point> {
    let child = Child::start(scratch, candidate, stop)?;
    let fast = run(platform, &child, fast_load(candidate, times), stop).await?;
    let forwarded_per_request = forwarded(platform, &child).await?;
    let steady = run(platform, &child, steady_load(times), stop).await?;
    Ok(Point {
        candidate: candidate.clone(),
        mb_per_second: fast.measured.mb_per_second,
        cpu_seconds_per_gb: fast.broker.and_then(|used| used.cpu_seconds_per_gb),
        forwarded_per_request,
        p50_ms: steady.latency.p50_ms,
        p999_ms: steady.latency.p999_ms,
        rate_kept: steady.is_sound(),
    })
}

/// A batch of 64 KiB for each partition in every request, on a few connections for each core.
fn fast_load(candidate: &Candidate, times: Times) -> Workload {
    Workload {
        batch_bytes: 64 << 10,
        partitions_per_request: PARTITIONS,
        connections: u32::try_from(2 * candidate.shards).unwrap_or(u32::MAX).min(256),
        in_flight: 4,
        warm_up: times.warm_up,
        until: Until {
            duration: Some(times.measure),
            bytes: Some(RUN_BYTES_MAX),
            ..Until::default()
        },
        ..of_all()
    }
}

/// Ten records a request, at a rate that any disk keeps up with.
fn steady_load(times: Times) -> Workload {
    Workload {
        batch_records_max: 10,
        connections: 8,
        pace: Pace::Bytes { per_second: LATENCY_RATE },
        warm_up: times.warm_up,
        until: Until { duration: Some(times.measure), ..Until::default() },
        ..of_all()
    }
}

fn of_all() -> Workload {
    Workload {
        record_size: RecordSize::Fixed { bytes: 1_024 },
        acks: Acks::All,
        audit_bytes_max: Some(AUDIT_BYTES),
        ..Workload::default()
    }
}

async fn run(
    platform: &CorePlatform,
    child: &Child,
    workload: Workload,
    stop: &StopSignal,
) -> Outcome<RunResult> {
    let mut options = ProduceOptions {
        workload,
        bootstrap: vec![child.kafka.clone()],
        topic: TopicChoice::Made {
            partitions: i32::try_from(PARTITIONS).unwrap_or(i32::MAX),
            replication_factor: 1,
            configs: Vec::new(),
            is_kept: false,
        },
        timeout: REQUEST_TIMEOUT,
        broker_pid: Some(child.pid()),
        broker_dir: None,
        require_flushes: false,
    };
    let mut attempt = 1;
    loop {
        let ran = load::produce(platform, &options, &mut Silent, stop.requested()).await?;
        if let Some(failure) = ran.failure {
            return Err(failure.into());
        }
        match doubt(&ran.result) {
            None => return Ok(ran.result),
            // A disk that others keep busy may stand still for as long as a short run takes: a longer one says more.
            Some(failure)
                if failure.exit != Exit::Damaged
                    && attempt < ATTEMPTS_MAX
                    && !stop.is_requested() =>
            {
                attempt += 1;
                options.workload.until = longer(options.workload.until, attempt);
            }
            Some(failure) => return Err(failure),
        }
    }
}

/// When the next attempt ends. The last one waits for work instead of for a time: however busy the machine is, it is measured unless
/// its disk stands still for as long as a request may take.
fn longer(until: Until, attempt: u32) -> Until {
    if attempt < ATTEMPTS_MAX {
        return Until { duration: until.duration.map(|duration| duration * 2), ..until };
    }
    Until { duration: None, records: Some(LAST_ATTEMPT_RECORDS), ..until }
}

/// Why a run cannot be a point of the curve, if it cannot.
fn doubt(result: &RunResult) -> Option<Failure> {
    // A rate that was not kept is told with the point: a disk that does not keep up is what is to be found.
    let is_told = |reason: &Unsound| matches!(reason, Unsound::RateNotKept { .. });
    let reason = result.reasons().into_iter().find(|reason| !is_told(reason))?;
    let fact = format!("a node that was measured: {}", reason.text());
    let (exit, next) = match reason {
        Unsound::AuditFailed { .. } => {
            let next = "run corelog bench produce against a node here, and report what it finds";
            (Exit::Damaged, next)
        }
        _ => (Exit::Refused, "see that nothing else is busy here (top), and try again"),
    };
    Some(Failure::new(exit, fact).advise(next))
}

/// Sub-requests that were forwarded, for each request that the node has answered.
async fn forwarded(platform: &CorePlatform, child: &Child) -> Outcome<f64> {
    let address =
        child.admin.parse().map_err(|error: String| Failure::new(Exit::Unreachable, error))?;
    let page = Page::parse(&http::get(platform, &address, "/metrics").await?);
    let sum = |name: &str| page.series(name).iter().map(|series| series.value).sum::<f64>();
    let requests = sum("corelog_core_requests_total");
    let forwarded = sum("corelog_forwarded_requests_total");
    Ok(if requests > 0.0 { forwarded / requests } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_and_all_cpus_are_tried_in_both_ways() {
        let shown = |cpus| -> Vec<String> {
            let all = candidates(cpus).into_iter();
            all.map(|one| format!("{}{}", one.shards, &one.advertise.name()[..1])).collect()
        };
        assert_eq!(shown(0), ["1n"]);
        assert_eq!(shown(1), ["1n"]);
        assert_eq!(shown(2), ["1n", "2n", "2c"]);
        assert_eq!(shown(6), ["1n", "2n", "2c", "4n", "4c", "6n", "6c"]);
        assert_eq!(candidates(1_024).len(), 2 * SHARD_COUNTS_MAX);
    }

    #[test]
    fn attempts_grow_longer_and_the_last_ends_with_its_work() {
        let first = Until { duration: Some(Duration::from_secs(2)), bytes: Some(9), records: None };
        let seconds = |until: Until| until.duration.map(|duration| duration.as_secs());
        let second = longer(first, 2);
        let third = longer(second, 3);
        assert_eq!((seconds(second), second.records), (Some(4), None));
        assert_eq!((seconds(third), third.records), (Some(8), None));
        let last = longer(third, ATTEMPTS_MAX);
        assert_eq!((seconds(last), last.records), (None, Some(LAST_ATTEMPT_RECORDS)));
        assert_eq!(last.bytes, Some(9), "the disk is not to be filled");
        for load in [fast_load(&candidates(2)[1], TIMES), steady_load(TIMES)] {
            assert_eq!(Workload { until: last, ..load }.check(), Ok(()));
        }
    }

    const TIMES: Times =
        Times { warm_up: Duration::from_millis(1), measure: Duration::from_millis(1) };

    #[test]
    fn the_loads_can_be_run() {
        for candidate in candidates(512) {
            assert_eq!(fast_load(&candidate, TIMES).check(), Ok(()), "{candidate:?}");
        }
        assert_eq!(steady_load(TIMES).check(), Ok(()));
    }
}
