//! A run that reads: consumers beside each other, each with a connection to every leader and one request at a time on it.
//!
//! ```text
//!   topic found, or made and filled ─ leaders, offsets ─ connections ─ warm-up ─ measuring ─ stop ─ result ─ topic deleted
//!   reader   fetch ─ answer ─ each partition: whole batches, one behind the other ─ next fetch ─┬─ its answer, stamped when it is there
//!                                                                                              └─ checksums of the last answer
//! ```
//!
//! Owns the reading. The next request leaves before the records of the last answer are looked at, as with consumers that work on
//! what they have meanwhile; that work gives way after each batch, so that it is no part of the next answer's latency. Records are copied out of the socket, as any consumer's are: what that costs stands with the client, not
//! with the broker.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use broker::sync::{OnceReceiver, once};
use commitlog::TaskClass;
use futures_lite::future::{or, zip};
use record::PartitionIndex;
use wire::fetch::FetchResponse;
use wire::{ApiKey, ErrorCode};

use super::fetching::{EMPTY_MAX, FETCH_VERSION_MAX, FetchLimits, Session};
use super::run_core::{HEAD_START, Plan, RunCore, Spans};
use super::{
    Observer, Outcome, ProduceOptions, Silent, Target, TopicChoice, addresses, is_of_leadership,
    leave, produce,
};
use crate::address::Address;
use crate::audit::{AuditReport, FindingKind};
use crate::client::{
    Admin, Answer, Asked, Connection, LogPlace, PartitionLeader, TopicOrigin, in_time, place,
};
use crate::error::LoadError;
use crate::process::Sample;
use crate::read_load::{Check, ReadFrom, ReadLoad};
use crate::recorder::{Sums, Times};
use crate::result::{Job, RESULT_FORMAT, RunEnd, RunResult};
use crate::stream::{self, Stream};
use crate::topic_facts::Durability;
use crate::workload::{CONNECTIONS_MAX, Workload};

/// What a run needs to know beside what it reads.
#[derive(Debug, Clone)]
pub struct ConsumeOptions {
    /// What to read.
    pub load: ReadLoad,
    /// Whom to ask first.
    pub bootstrap: Vec<Address>,
    /// What to read it from; a topic that is made is filled first.
    pub topic: TopicChoice,
    /// What a topic that is made is filled with.
    pub fill: Workload,
    /// How long one request may take.
    pub timeout: Duration,
    /// The broker's process, where it runs on this machine and its cost is wanted.
    pub broker_pid: Option<u32>,
}

/// Reads a topic, checks what comes, and deletes the topic that was made for it.
///
/// Order   a topic that is made is filled, and the filling audited, before anything counts.
/// Errors  [`LoadError`] where nothing was read. Once something was, every failure stands in the result.
pub async fn consume<P: Platform>(
    platform: &P,
    options: &ConsumeOptions,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome, LoadError> {
    options.load.check()?;
    if let Some(pid) = options.broker_pid {
        Sample::of(pid)?;
    }
    let mut stop = pin!(stop);
    let topic = match &options.topic {
        TopicChoice::Given { name } => name.clone(),
        TopicChoice::Made { .. } => fill(platform, options, observer, stop.as_mut()).await?,
    };
    let mut admin = Admin::open(platform, &options.bootstrap, options.timeout).await?;
    let ran = on_topic(platform, options, &topic, (&mut admin, observer), stop).await;
    leave(&options.topic, topic, &mut admin, ran).await
}

/// Makes a topic and fills it; gives its name.
pub(super) async fn fill<P: Platform>(
    platform: &P,
    options: &ConsumeOptions,
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<String, LoadError> {
    let mut topic = options.topic.clone();
    if let TopicChoice::Made { is_kept, .. } = &mut topic {
        *is_kept = true;
    }
    let produce_options = ProduceOptions {
        workload: options.fill.clone(),
        bootstrap: options.bootstrap.clone(),
        topic,
        timeout: options.timeout,
        broker_pid: None,
        broker_dir: None,
        require_flushes: false,
    };
    observer.filling(&options.fill.until);
    let filled = produce(platform, &produce_options, &mut Silent, stop).await?;
    let name = filled.topic_left.unwrap_or_else(|| filled.result.topic.clone());
    if filled.result.is_sound() && filled.result.end == RunEnd::Complete {
        return Ok(name);
    }
    let mut admin = Admin::open(platform, &options.bootstrap, options.timeout).await?;
    // What it says itself matters more than whether it can be cleaned up.
    drop(admin.delete(&name).await);
    let reason = match filled.result.end {
        RunEnd::Failed { reason } => reason,
        RunEnd::Interrupted => "it was stopped".to_owned(),
        RunEnd::Complete => "its audit failed, or batches were refused".to_owned(),
    };
    Err(LoadError::Unfilled { topic: name, reason })
}

/// What all readers of a run share.
struct Shared<P: Platform> {
    core: RunCore<P>,
    topic: String,
    load: ReadLoad,
    timeout: Duration,
    report: RefCell<AuditReport>,
    /// Readers that have something left to read.
    readers_left: Cell<usize>,
}

async fn on_topic<P: Platform>(
    platform: &P,
    options: &ConsumeOptions,
    topic: &str,
    (admin, observer): (&mut Admin<P>, &mut dyn Observer),
    stop: impl Future<Output = ()>,
) -> Result<(RunResult, Option<LoadError>), LoadError> {
    let load = options.load;
    let leaders = admin.leaders(topic, TopicOrigin::Given).await?;
    let offsets = offsets(topic, &leaders, load.from, admin).await?;
    let shared = Rc::new(Shared {
        core: RunCore::new(platform, load.until),
        topic: topic.to_owned(),
        load,
        timeout: options.timeout,
        report: RefCell::new(AuditReport { is_complete: true, ..AuditReport::default() }),
        readers_left: Cell::new(0),
    });
    let configs = admin.configs(topic).await?;
    let readers = open_readers(&shared, &leaders, &offsets).await?;
    let target = Target::new(topic, &leaders, readers.len(), (platform.now(), load.warm_up));
    observer.started(&target);
    let tasks = spawn(&shared, readers);
    let plan = Plan {
        start: platform.monotonic() + HEAD_START,
        warm_up: load.warm_up,
        duration: load.until.duration,
        broker_pid: options.broker_pid,
    };
    let spans = shared.core.measure(plan, observer, stop).await;
    shared.core.drain(tasks, observer).await;
    let (end, failure) = shared.core.end(&spans);
    Ok((conclude(&shared, (&target, configs), (&spans, end)).judged(), failure))
}

/// Which offsets of each partition are read.
async fn offsets<P: Platform>(
    topic: &str,
    leaders: &[PartitionLeader],
    from: ReadFrom,
    admin: &mut Admin<P>,
) -> Result<Vec<Range<i64>>, LoadError> {
    let starts = admin.offsets(topic, leaders, LogPlace::Start).await?;
    let ends = admin.offsets(topic, leaders, LogPlace::End).await?;
    let first = |start: i64, end: i64| match from {
        ReadFrom::Beginning => start,
        ReadFrom::Tail { records } => {
            start.max(end.saturating_sub(i64::try_from(records).unwrap_or(i64::MAX)))
        }
    };
    let offsets: Vec<Range<i64>> =
        starts.into_iter().zip(ends).map(|(start, end)| first(start, end)..end).collect();
    if offsets.iter().all(Range::is_empty) {
        return Err(LoadError::NothingToRead { topic: topic.to_owned() });
    }
    Ok(offsets)
}

/// One consumer's reading from one leader.
struct Reader<P: Platform> {
    run: Rc<Shared<P>>,
    connection: Connection<P>,
    session: Session,
    /// Of Fetch.
    version: i16,
    /// Ascending by partition.
    streams: Vec<Stream>,
    /// Answers in a row that brought no stream further.
    empty_answers: u32,
}

/// Opens a connection to every leader of something for each consumer.
async fn open_readers<P: Platform>(
    shared: &Rc<Shared<P>>,
    leaders: &[PartitionLeader],
    offsets: &[Range<i64>],
) -> Result<Vec<Reader<P>>, LoadError> {
    let addresses = addresses(leaders);
    let count = (shared.load.consumers as usize).saturating_mul(addresses.len());
    let count_max = CONNECTIONS_MAX as usize;
    if count > count_max {
        let topic = shared.topic.clone();
        return Err(LoadError::TooMany { topic, what: "connections", count, count_max });
    }
    let mut readers = Vec::with_capacity(count);
    for _ in 0..shared.load.consumers {
        for address in &addresses {
            let led = leaders
                .iter()
                .zip(offsets)
                .filter(|(leader, offsets)| leader.leader == *address && !offsets.is_empty());
            let streams: Vec<Stream> = led
                .map(|(leader, offsets)| Stream::new(leader.partition, offsets.clone()))
                .collect();
            if streams.is_empty() {
                continue;
            }
            let platform = &shared.core.platform;
            let connection = Connection::open(platform, address, shared.timeout).await?;
            let version = connection.version(ApiKey::Fetch, FETCH_VERSION_MAX)?;
            let run = Rc::clone(shared);
            let session = Session::new(shared.load.fetches);
            readers.push(Reader { run, connection, session, version, streams, empty_answers: 0 });
        }
    }
    Ok(readers)
}

fn spawn<P: Platform>(shared: &Rc<Shared<P>>, readers: Vec<Reader<P>>) -> Vec<OnceReceiver<()>> {
    shared.readers_left.set(readers.len());
    let mut tasks = Vec::with_capacity(readers.len());
    for reader in readers {
        let (done, is_done) = once();
        let task = async move {
            reader.read_all().await;
            done.send(());
        };
        shared.core.platform.spawn(TaskClass::Foreground, Box::pin(task));
        tasks.push(is_done);
    }
    tasks
}

impl<P: Platform> Reader<P> {
    /// Reads until the run is stopped, or everything was read that is read once.
    async fn read_all(mut self) {
        let run = Rc::clone(&self.run);
        or(run.core.go.raised(), run.core.stop.raised()).await;
        let abandoned = async {
            run.core.abandon.raised().await;
            Ok(())
        };
        if let Err(error) = or(self.read_on(), abandoned).await {
            run.core.fail(error);
        }
        if run.load.from == ReadFrom::Beginning {
            let is_read = self.streams.iter().all(|stream| stream.next_offset().is_none());
            run.report.borrow_mut().is_complete &= is_read;
        }
        run.readers_left.set(run.readers_left.get().saturating_sub(1));
        if run.readers_left.get() == 0 {
            // All is read: the run is over, whatever time is left.
            run.core.stop.raise();
        }
    }

    /// Asks, takes the answer, asks on, and looks at the records meanwhile.
    async fn read_on(&mut self) -> Result<(), LoadError> {
        let run = Rc::clone(&self.run);
        let mut under_way = self.ask().await?;
        let mut last = None;
        while let Some((asked, sent)) = under_way {
            let Self { connection, streams, .. } = &mut *self;
            let address = connection.address().clone();
            let arriving = async {
                let answered = connection.answer_to(asked);
                let answer = in_time(&run.core.platform, run.timeout, answered).await;
                (answer, run.core.platform.monotonic())
            };
            let ((answer, now), ()) = zip(arriving, check(&run, streams, last.take())).await;
            let within = run.timeout;
            let timed_out = LoadError::TimedOut { address, api: ApiKey::Fetch, within };
            let answer = answer.unwrap_or(Err(timed_out))?;
            let times = Times { due: sent, free: sent, sent };
            let response: FetchResponse<'_> = answer.read()?;
            if !self.session.has_lapsed(&response) {
                for partition in self.take(&response, times, now)? {
                    self.skip(partition).await?;
                }
            }
            under_way = self.ask().await?;
            last = Some(answer);
        }
        check(&run, &self.streams, last).await;
        Ok(())
    }

    /// Goes on where the log begins by now: retention was faster than this consumer.
    async fn skip(&mut self, partition: PartitionIndex) -> Result<(), LoadError> {
        let run = Rc::clone(&self.run);
        let start = self.connection.log_start(&run.topic, partition, run.timeout).await?;
        let Some(stream) = reading(&mut self.streams, partition) else { return Ok(()) };
        let mut report = run.report.borrow_mut();
        if stream.skip_to(start, &mut report).is_empty() {
            let fact = format!("out of range, and the log begins at {start}");
            stream.give_up(&mut report, FindingKind::Missing, fact);
        }
        Ok(())
    }

    /// Asks for what comes next of every partition; `None` where nothing is to be read any more.
    async fn ask(&mut self) -> Result<Option<(Asked, Duration)>, LoadError> {
        if self.run.core.stop.is_raised() || !self.has_more() {
            return Ok(None);
        }
        let sent = self.run.core.platform.monotonic();
        let load = &self.run.load;
        let limits = FetchLimits { bytes: load.fetch_bytes, partition_bytes: load.partition_bytes };
        let next = self.streams.iter().map(|stream| (stream.partition(), stream.next_offset()));
        let request = self.session.request(&self.run.topic, next, limits);
        Ok(Some((self.connection.ask(self.version, &request).await?, sent)))
    }

    /// Whether there is something to ask for; what is read again and again begins anew when all of it was read.
    fn has_more(&mut self) -> bool {
        let is_over = self.streams.iter().all(|stream| stream.next_offset().is_none());
        if is_over && matches!(self.run.load.from, ReadFrom::Tail { .. }) {
            // Damage that was found once is found again each time: the first time is enough.
            if self.run.report.borrow().finding_count > 0 {
                return false;
            }
            self.streams.iter_mut().for_each(Stream::rewind);
            return true;
        }
        !is_over
    }

    /// Takes an answer that came at `now`: how far it brings each partition, and what it sums up to. Gives those whose next offset
    /// is out of range.
    fn take(
        &mut self,
        response: &FetchResponse<'_>,
        times: Times,
        now: Duration,
    ) -> Result<Vec<PartitionIndex>, LoadError> {
        let run = Rc::clone(&self.run);
        LoadError::check(|| run.topic.clone(), response.error_code, None)?;
        let mut out_of_range = Vec::new();
        let mut sums = Sums { requests: 1, ..Sums::default() };
        let mut report = run.report.borrow_mut();
        let mut recorder = run.core.recorder.borrow_mut();
        let mut progress = 0;
        for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
            let Some(stream) = reading(&mut self.streams, data.partition_index) else { continue };
            let code = data.error_code;
            if code.is_none() {
                progress += stream.take(data.records.inline(), &mut report, &mut sums);
                continue;
            }
            if is_of_leadership(code) {
                let place = place(&run.topic, data.partition_index);
                return Err(LoadError::LeaderMoved { place, code });
            }
            progress += 1;
            if code == ErrorCode::OffsetOutOfRange {
                out_of_range.push(data.partition_index);
                continue;
            }
            sums.errors += 1;
            recorder.refused(data.partition_index, code, None);
            stream.give_up(&mut report, FindingKind::Unreadable, code.to_string());
        }
        recorder.answered(now, times, sums);
        if recorder.has_enough() {
            run.core.stop.raise();
        }
        self.empty_answers = if progress == 0 { self.empty_answers + 1 } else { 0 };
        if self.empty_answers >= EMPTY_MAX {
            let fact = format!("{EMPTY_MAX} answers in a row brought nothing new");
            for stream in self.streams.iter_mut().filter(|stream| stream.next_offset().is_some()) {
                stream.give_up(&mut report, FindingKind::Unreadable, fact.clone());
            }
        }
        Ok(out_of_range)
    }
}

/// Looks at the checksums of an answer, if that is asked, and gives way between two batches.
async fn check<P: Platform>(run: &Shared<P>, streams: &[Stream], answer: Option<Answer>) {
    let Some(answer) = answer.filter(|_| run.load.check == Check::Crc) else { return };
    // It was read before: it can be read.
    let Ok(response) = answer.read::<FetchResponse<'_>>() else { return };
    for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
        let partition = data.partition_index;
        let Ok(place) = streams.binary_search_by_key(&partition, Stream::partition) else {
            continue;
        };
        for batch in
            streams.get(place).into_iter().flat_map(|stream| stream.batches(data.records.inline()))
        {
            stream::check(partition, &batch, &mut run.report.borrow_mut());
            run.core.platform.yield_if_needed().await;
        }
    }
}

fn find(streams: &mut [Stream], partition: PartitionIndex) -> Option<&mut Stream> {
    let place = streams.binary_search_by_key(&partition, Stream::partition).ok()?;
    streams.get_mut(place)
}

/// The partition, where it was asked for.
fn reading(streams: &mut [Stream], partition: PartitionIndex) -> Option<&mut Stream> {
    find(streams, partition).filter(|stream| stream.next_offset().is_some())
}

fn conclude<P: Platform>(
    shared: &Shared<P>,
    (target, topic_configs): (&Target, BTreeMap<String, String>),
    (spans, end): (&Spans, RunEnd),
) -> RunResult {
    let mut recorder = shared.core.recorder.borrow_mut();
    let measured = recorder.measured();
    let mut audit = shared.report.borrow().clone();
    audit.seconds = measured.seconds;
    audit.conclude();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    RunResult {
        format: RESULT_FORMAT,
        sound: false,
        unsound_because: Vec::new(),
        job: Job::Consume(shared.load),
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
        delivery: None,
        read_beside: None,
        delivery_lower_bounds: 0,
        delivery_uncounted: 0,
        errors: recorder.errors(),
        unanswered: 0,
        due: 0,
        unsent: 0,
        intervals: recorder.take_intervals(),
        drain: shared.core.drained.get(),
        broker: spans.broker_use(&measured),
        client: spans.client_use(&measured),
        kernel_worker_cpu_seconds: spans.kernel_use(),
        flush: None,
        idle: None,
        trend: None,
        beside: None,
        audit,
    }
}
