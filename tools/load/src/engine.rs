//! A run of produce from its first request to its audit.
//!
//! ```text
//!   topic made or found ─ leaders ─ ends before ─ templates, frames ─ connections
//!     ─ warm-up ─ measuring, a tick a second ─ stop sending ─ wait for what is under way
//!     ─ ends after ─ read back and compare ─ topic deleted ─ result
//! ```
//!
//! Owns that order, and that every run which sent something is audited, however it ended. The work of a connection is
//! `lane`'s, that of reading back `read_back`'s; time is `run_core`'s, for runs that only read as well.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use hdrhistogram::Histogram;
use record::{PartitionIndex, Timestamp};
use wire::{ApiKey, ErrorCode};

use crate::address::Address;
use crate::audit::AuditReport;
use crate::client::{Admin, Connection, LogPlace, NewTopic, PartitionLeader, TopicOrigin};
use crate::device::{Device, DeviceError};
use crate::error::LoadError;
use crate::flushes::{Demand, Watch};
use crate::frame::{FrameOptions, FrameSet};
use crate::ledger::Ledger;
use crate::process::Sample;
use crate::result::{Interval, Job, RESULT_FORMAT, RunEnd, RunResult};
use crate::template::{self, Template};
use crate::topic_facts::Durability;
use crate::workload::{CONNECTIONS_MAX, Pace, Until, Workload};

mod consume;
mod fetching;
mod idle;
mod lane;
mod mixed;
mod read_back;
mod run_core;
mod tail;

pub use consume::{ConsumeOptions, consume};
pub use mixed::mixed;
use run_core::{HEAD_START, Plan, RunCore, Spans};
use tail::Tail;

/// Of Produce: the last that names topics, so that a frame needs no topic id.
const PRODUCE_VERSION_MAX: i16 = 12;
/// Batches that are remembered for the audit: half a gigabyte of memory.
const LEDGER_BATCHES_MAX: usize = 64 << 20;

/// Which topic is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicChoice {
    /// One that is there, and stays. Nobody else may write to it meanwhile: what others append is not acknowledged to us.
    Given {
        /// Its name.
        name: String,
    },
    /// One of its own.
    Made {
        /// How many partitions.
        partitions: i32,
        /// Replicas of each; -1 for the cluster's default.
        replication_factor: i16,
        /// Its options.
        configs: Vec<(String, String)>,
        /// Whether it is left behind.
        is_kept: bool,
    },
}

/// What a run needs to know beside its workload.
#[derive(Debug, Clone)]
pub struct ProduceOptions {
    /// What to send.
    pub workload: Workload,
    /// Whom to ask first.
    pub bootstrap: Vec<Address>,
    /// Where to send it.
    pub topic: TopicChoice,
    /// How long one request of the preparation, and one of the run, may take.
    pub timeout: Duration,
    /// The broker's process, where it runs on this machine and its cost is wanted.
    pub broker_pid: Option<u32>,
    /// A directory of its log, where the device under it is not found by the files that the process has open.
    pub broker_dir: Option<PathBuf>,
    /// The run is not sound unless the device was flushed as often as acknowledgements must have waited for it, whatever the topic's
    /// options promise.
    pub require_flushes: bool,
}

impl ProduceOptions {
    /// The device under the broker's files; `None` where nobody has said where they are.
    fn device(&self) -> Option<Result<Device, DeviceError>> {
        match (&self.broker_dir, self.broker_pid) {
            (Some(directory), _) => Some(Device::of_path(directory)),
            (None, Some(pid)) => Some(Device::of_process(pid)),
            (None, None) => None,
        }
    }

    /// What its flushes must show.
    fn demand(&self, durability: Durability) -> Demand {
        match (self.require_flushes, durability) {
            (true, _) => Demand::Required,
            (false, Durability::D1) => Demand::Durable,
            (false, Durability::D0 | Durability::Unknown) => Demand::None,
        }
    }
}

/// Where a run goes, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The topic.
    pub topic: String,
    /// Its partitions.
    pub partitions: usize,
    /// The addresses of their leaders.
    pub leaders: Vec<Address>,
    /// Connections to them.
    pub connections: usize,
    /// When the warm-up is over and measuring begins: what intervals count from.
    pub measured_from: Timestamp,
}

impl Target {
    /// Of a run that begins with a warm-up of so long.
    fn new(
        topic: &str,
        leaders: &[PartitionLeader],
        connections: usize,
        (now, warm_up): (Timestamp, Duration),
    ) -> Self {
        let until_measured = i64::try_from((HEAD_START + warm_up).as_millis());
        Self {
            topic: topic.to_owned(),
            partitions: leaders.len(),
            leaders: addresses(leaders),
            connections,
            measured_from: Timestamp(now.0.saturating_add(until_measured.unwrap_or(0))),
        }
    }
}

/// Who is told how a run goes.
pub trait Observer {
    /// A topic is made and filled with so much, before the run begins.
    fn filling(&mut self, until: &Until);
    /// It begins.
    fn started(&mut self, target: &Target);
    /// A second has passed, of which these are the sums and the latencies. The histogram may be taken, if an empty one is left in its
    /// place. The thread that sends waits for the end of this call: it must not take long, and not wait for anything.
    fn interval(&mut self, interval: &Interval, latencies: &mut Histogram<u64>);
    /// Measuring is over, and so is what was under way: the latencies of what was due before and answered since, or never.
    fn drained(&mut self, interval: &Interval, latencies: &mut Histogram<u64>);
    /// Measuring is over; so many bytes are read back now.
    fn audit_started(&mut self, bytes: u64);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn filling(&mut self, _until: &Until) {}
    fn started(&mut self, _target: &Target) {}
    fn interval(&mut self, _interval: &Interval, _latencies: &mut Histogram<u64>) {}
    fn drained(&mut self, _interval: &Interval, _latencies: &mut Histogram<u64>) {}
    fn audit_started(&mut self, _bytes: u64) {}
}

/// What a run leaves.
#[derive(Debug)]
pub struct Outcome {
    /// What it found.
    pub result: RunResult,
    /// Why it could not go on, where it could not.
    pub failure: Option<LoadError>,
    /// The topic that is still there: asked for, or worth a look since the audit failed, or not to be deleted.
    pub topic_left: Option<String>,
    /// Why it could not be deleted, where it should have been.
    pub deletion: Option<LoadError>,
}

/// Runs a workload, audits it, and deletes the topic that was made for it.
///
/// Order   `stop` ends the sending early; the run is audited all the same. A topic of the run's own is deleted unless the audit
///         failed.
/// Errors  [`LoadError`] where nothing was sent. Once something was, every failure stands in the result.
pub async fn produce<P: Platform>(
    platform: &P,
    options: &ProduceOptions,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome, LoadError> {
    options.workload.check()?;
    if let Some(pid) = options.broker_pid {
        Sample::of(pid)?;
    }
    let mut admin = Admin::open(platform, &options.bootstrap, options.timeout).await?;
    let (topic, origin) = open_topic(platform, options, &mut admin).await?;
    let ran = on_topic(platform, options, &topic, origin, (&mut admin, observer), stop).await;
    leave(&options.topic, topic, &mut admin, ran).await
}

/// Deletes the topic of a run that is over, if it is the run's own and the audit did not fail; what is left then.
async fn leave<P: Platform>(
    choice: &TopicChoice,
    topic: String,
    admin: &mut Admin<P>,
    ran: Result<(RunResult, Option<LoadError>), LoadError>,
) -> Result<Outcome, LoadError> {
    let has_passed = ran.as_ref().map_or(true, |(result, _)| result.audit.has_passed);
    let goes = has_passed && matches!(choice, TopicChoice::Made { is_kept: false, .. });
    let deletion = if goes { delete(admin, &topic).await.err() } else { None };
    let is_gone = goes && deletion.is_none();
    let topic_left = (!is_gone).then_some(topic);
    let (result, failure) = ran?;
    Ok(Outcome { result, failure, topic_left, deletion })
}

async fn delete<P: Platform>(admin: &mut Admin<P>, topic: &str) -> Result<(), LoadError> {
    admin.renew().await?;
    admin.delete(topic).await
}

/// Makes or names the topic.
async fn open_topic<P: Platform>(
    platform: &P,
    options: &ProduceOptions,
    admin: &mut Admin<P>,
) -> Result<(String, TopicOrigin), LoadError> {
    let (partitions, replication_factor, configs) = match &options.topic {
        TopicChoice::Given { name } => return Ok((name.clone(), TopicOrigin::Given)),
        TopicChoice::Made { partitions, replication_factor, configs, .. } => {
            (*partitions, *replication_factor, configs)
        }
    };
    let mut suffix = [0; 3];
    platform.random(&mut suffix);
    let [a, b, c] = suffix;
    let name = format!("corelog-bench-{}-{a:02x}{b:02x}{c:02x}", platform.now().0 / 1_000);
    let topic = NewTopic { name: &name, partitions, replication_factor, configs };
    admin.create(topic).await?;
    Ok((name, TopicOrigin::JustMade))
}

/// What all tasks of a run of produce share.
struct Shared<P: Platform> {
    core: RunCore<P>,
    topic: String,
    templates: Vec<Template>,
    in_flight: usize,
    ledger: RefCell<Ledger>,
    /// The consumers beside it, where there are some.
    tail: Option<Rc<Tail>>,
    /// Acknowledgements that came in another order than the batches were sent, with the first of them.
    out_of_order: Cell<(u64, Option<(PartitionIndex, i64)>)>,
    /// Batches that may be there without an acknowledgement: refused, or never answered.
    maybe_appended: Cell<u64>,
    unanswered: Cell<u64>,
    /// Requests that were due while measuring.
    due: Cell<u64>,
    unsent: Cell<u64>,
    refused_in_a_row: Cell<u64>,
    /// By leader, for each of its connections: acknowledged requests of which no two were under way at once.
    acked_apart: RefCell<BTreeMap<Address, Vec<u64>>>,
}

impl<P: Platform> Shared<P> {
    /// How often the device of one of the leaders must have been flushed at least: as often as the requests of its busiest connection
    /// followed each other. Leaders of one host are taken to share a device; of several hosts nobody knows which is watched.
    fn flushes_min(&self) -> u64 {
        let apart = self.acked_apart.borrow();
        let busiest = apart.iter().map(|(address, connections)| {
            (&address.host, connections.iter().max().copied().unwrap_or(0))
        });
        let mut hosts: BTreeMap<&String, u64> = BTreeMap::new();
        for (host, count) in busiest {
            let most = hosts.entry(host).or_default();
            *most = count.max(*most);
        }
        hosts.into_values().min().unwrap_or(0)
    }
}

/// A run once its topic is known.
async fn on_topic<P: Platform>(
    platform: &P,
    options: &ProduceOptions,
    topic: &str,
    origin: TopicOrigin,
    (admin, observer): (&mut Admin<P>, &mut dyn Observer),
    stop: impl Future<Output = ()>,
) -> Result<(RunResult, Option<LoadError>), LoadError> {
    let workload = &options.workload;
    let leaders = admin.leaders(topic, origin).await?;
    let starts = admin.offsets(topic, &leaders, LogPlace::End).await?;
    let configs = admin.configs(topic).await?;
    let templates = template::build(workload, platform.now());
    let shared = Rc::new(Shared {
        core: RunCore::new(platform, workload.until),
        topic: topic.to_owned(),
        templates,
        in_flight: workload.in_flight as usize,
        ledger: RefCell::new(Ledger::new(leaders.len(), LEDGER_BATCHES_MAX)),
        tail: (workload.consumers > 0).then(|| Rc::new(Tail::new(workload, &starts))),
        out_of_order: Cell::default(),
        maybe_appended: Cell::default(),
        unanswered: Cell::default(),
        due: Cell::default(),
        unsent: Cell::default(),
        refused_in_a_row: Cell::default(),
        acked_apart: RefCell::default(),
    });
    let lanes = open_lanes(&shared, options, &leaders).await?;
    let places = (leaders.as_slice(), starts.as_slice());
    let readers = tail::open(&shared, places, workload, options.timeout).await?;
    let target = Target::new(topic, &leaders, lanes.len(), (platform.now(), workload.warm_up));
    observer.started(&target);
    let idle = (workload.idle_connections, options.timeout);
    let idle = idle::open(platform, &target.leaders, idle, options.broker_pid).await?;
    let requests_per_second = requests_per_second(workload, &lanes, &shared.templates);
    let readers = tail::spawn(&shared, readers);
    let watch = options.device().map(Watch::begin);
    let start = platform.monotonic() + HEAD_START;
    if let (Some(_), Some(length)) = (workload.steady_percent, workload.until.duration) {
        shared.core.recorder.borrow_mut().watch(start + workload.warm_up, length);
    }
    let tasks = lane::spawn(&shared, lanes, (start, requests_per_second));
    let plan = Plan {
        start,
        warm_up: workload.warm_up,
        duration: workload.until.duration,
        broker_pid: options.broker_pid,
    };
    let spans = shared.core.measure(plan, observer, stop).await;
    shared.core.drain(tasks, observer).await;
    let demand = options.demand(Durability::of(&configs));
    let flush = watch.map(|watch| watch.end(demand, shared.flushes_min()));
    let idle = idle.map(|idle| idle.conclude());
    let mut audit = AuditReport { is_complete: true, ..AuditReport::default() };
    tail::finish(&shared, &leaders, readers, &mut audit).await;
    let log = read_back::Log { leaders: &leaders, starts: &starts, configs: &configs };
    read_back::audit(&shared, workload, (log, admin), observer, &mut audit).await;
    let (end, failure) = shared.core.end(&spans);
    let result = conclude(&shared, workload, (&target, configs), (&spans, end), audit);
    Ok((RunResult { flush, idle, ..result }.judged(), failure))
}

fn addresses(leaders: &[PartitionLeader]) -> Vec<Address> {
    let mut addresses: Vec<Address> = leaders.iter().map(|leader| leader.leader.clone()).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Opens the connections, spread over the leaders as evenly as they go, one to each at least.
async fn open_lanes<P: Platform>(
    shared: &Rc<Shared<P>>,
    options: &ProduceOptions,
    leaders: &[PartitionLeader],
) -> Result<Vec<lane::Plan<P>>, LoadError> {
    let addresses = addresses(leaders);
    if addresses.len() > CONNECTIONS_MAX as usize {
        let (topic, count) = (shared.topic.clone(), addresses.len());
        let count_max = CONNECTIONS_MAX as usize;
        return Err(LoadError::TooMany { topic, what: "leaders", count, count_max });
    }
    let count = (options.workload.connections as usize).max(addresses.len());
    let mut frames: BTreeMap<Address, Rc<lane::Route>> = BTreeMap::new();
    let mut lanes = Vec::with_capacity(count);
    for (number, address) in (0..count).zip(addresses.iter().cycle()) {
        let connection = Connection::open(&shared.core.platform, address, options.timeout).await?;
        let route = match frames.get(address) {
            Some(route) => Rc::clone(route),
            None => {
                let version = connection.version(ApiKey::Produce, PRODUCE_VERSION_MAX)?;
                let route = Rc::new(route(shared, options, leaders, address, version)?);
                frames.insert(address.clone(), Rc::clone(&route));
                route
            }
        };
        // Connections of one leader begin with different partitions.
        lanes.push(lane::Plan { connection, route, turn: number / addresses.len() });
    }
    Ok(lanes)
}

/// The requests to one leader.
fn route<P: Platform>(
    shared: &Shared<P>,
    options: &ProduceOptions,
    leaders: &[PartitionLeader],
    address: &Address,
    version: i16,
) -> Result<lane::Route, LoadError> {
    let workload = &options.workload;
    let led = leaders.iter().enumerate().filter(|(_, leader)| leader.leader == *address);
    let (places, partitions): (Vec<usize>, Vec<PartitionIndex>) =
        led.map(|(place, leader)| (place, leader.partition)).unzip();
    let frame_options = FrameOptions {
        topic: &shared.topic,
        version,
        acks: workload.acks,
        timeout_ms: i32::try_from(options.timeout.as_millis()).unwrap_or(i32::MAX),
    };
    let group_size = workload.partitions_per_request as usize;
    let frames = FrameSet::encode(frame_options, &partitions, group_size, &shared.templates)
        .map_err(|source| LoadError::Unsendable { api: ApiKey::Produce, source })?;
    Ok(lane::Route { frames, version, places })
}

/// The rate of all connections together; `None` in a closed loop.
#[expect(clippy::cast_precision_loss, reason = "bytes of requests are far below 2^53")]
fn requests_per_second<P: Platform>(
    workload: &Workload,
    lanes: &[lane::Plan<P>],
    templates: &[Template],
) -> Option<f64> {
    match workload.pace {
        Pace::Closed => None,
        Pace::Requests { per_second } => Some(per_second as f64),
        Pace::Bytes { per_second } => {
            let bytes: usize = templates.iter().map(|template| template.bytes.len()).sum();
            let batch_bytes = bytes as f64 / templates.len() as f64;
            // A leader with few partitions has smaller requests than were asked for.
            let batches: f64 = lanes.iter().map(|plan| plan.route.batches_per_request()).sum();
            Some(per_second as f64 / (batch_bytes * batches / lanes.len() as f64))
        }
    }
}

fn conclude<P: Platform>(
    shared: &Shared<P>,
    workload: &Workload,
    (target, topic_configs): (&Target, BTreeMap<String, String>),
    (spans, end): (&Spans, RunEnd),
    audit: AuditReport,
) -> RunResult {
    let mut recorder = shared.core.recorder.borrow_mut();
    let measured = recorder.measured();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let trend = workload.steady_percent.and_then(|percent| recorder.trend(percent));
    let close = shared.tail.as_ref().filter(|tail| tail.is_close());
    let uncounted = shared.tail.as_ref().map_or(0, |tail| tail.uncounted());
    RunResult {
        format: RESULT_FORMAT,
        sound: false,
        unsound_because: Vec::new(),
        job: Job::Produce(workload.clone()),
        topic: target.topic.clone(),
        partitions: count(target.partitions),
        leaders: count(target.leaders.len()),
        durability: Durability::of(&topic_configs),
        topic_configs,
        connections: count(target.connections),
        started_ms: spans.started.0,
        end,
        measured,
        latency: recorder.latency(),
        latency_curve: recorder.latency_curve(),
        latency_lower_bounds: recorder.lower_bounds(),
        send_delay: recorder.send_delay(),
        delivery: close.map(|_| recorder.delivery()),
        read_beside: shared.tail.as_ref().map(|tail| tail.read()),
        delivery_lower_bounds: recorder.delivery_lower_bounds(),
        delivery_uncounted: uncounted,
        errors: recorder.errors(),
        unanswered: shared.unanswered.get(),
        due: shared.due.get(),
        unsent: shared.unsent.get(),
        intervals: recorder.take_intervals(),
        drain: shared.core.drained.get(),
        broker: spans.broker_use(&measured),
        client: spans.client_use(&measured),
        kernel_worker_cpu_seconds: spans.kernel_use(),
        flush: None,
        idle: None,
        trend,
        beside: None,
        audit,
    }
}

/// Codes by which a broker says that it does not lead the partition (any more).
fn is_of_leadership(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
    )
}
