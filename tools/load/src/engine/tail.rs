//! Consumers beside a run of produce: they wait for what is appended, and tell when they have it.
//!
//! ```text
//!   reader   fetch ─ wait ─ answer ─ each batch: arrived(place, offset, now) ─ fetch …      until all that was acknowledged is there
//! ```
//!
//! Owns the reading until the last acknowledged batch has come, and that what is not right about it fails the audit. Which
//! latency that makes is `delivery`'s.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use broker::sync::{Event, Flag, OnceReceiver, once};
use commitlog::TaskClass;
use futures_lite::future::or;
use record::PartitionIndex;
use wire::fetch::FetchResponse;
use wire::{ApiKey, ErrorCode};

use super::fetching::{FETCH_VERSION_MAX, FetchLimits, Session};
use super::{Shared, addresses, is_of_leadership};
use crate::audit::{AuditReport, FindingKind};
use crate::client::{Connection, PartitionLeader, in_time, place};
use crate::delivery::Deliveries;
use crate::error::LoadError;
use crate::lag::Lag;
use crate::recorder::{Recorder, Sums};
use crate::result::ReadBeside;
use crate::stream::Stream;
use crate::workload::{CONNECTIONS_MAX, Workload};

/// Batches that wait for their acknowledgement, or for a consumer: some hundred megabytes.
const OPEN_MAX: usize = 1 << 20;
/// How long the last batches are waited for.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(30);
/// More than the time that a broker may wait with an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// A broker that has nothing waits longer than this before it says so. One that does not is not asked again at once: it would be
/// asked as fast as it answers.
const SOON: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(5);
/// As consumers have it by default.
const LIMITS: FetchLimits = FetchLimits { bytes: 50 << 20, partition_bytes: 1 << 20 };

/// What the consumers of a run share.
pub(super) struct Tail {
    deliveries: RefCell<Deliveries>,
    /// How far they may read, where they are to stay behind; nothing is delivered in time then.
    lag: RefCell<Option<Lag>>,
    /// A batch was acknowledged, or has come.
    changed: Rc<Event>,
    /// Raised when nothing more is to be read.
    enough: Flag,
    report: RefCell<AuditReport>,
}

impl Tail {
    /// The consumers of a workload, which read partitions from `starts` on.
    pub(super) fn new(workload: &Workload, starts: &[i64]) -> Self {
        let consumers = workload.consumers;
        let is_behind = !workload.consumer_lag.is_zero();
        let lag = is_behind.then(|| Lag::new(starts, workload.consumer_lag));
        Self {
            lag: RefCell::new(lag),
            deliveries: RefCell::new(Deliveries::new(consumers, OPEN_MAX)),
            changed: Event::new(),
            enough: Flag::default(),
            report: RefCell::default(),
        }
    }

    /// Whether consumers read what is appended as it comes, so that its way to them can be told.
    pub(super) fn is_close(&self) -> bool {
        self.lag.borrow().is_none()
    }

    fn step(&self) -> Duration {
        self.lag.borrow().as_ref().map_or(PAUSE, Lag::step)
    }

    /// What the consumers have read.
    pub(super) fn read(&self) -> ReadBeside {
        let report = self.report.borrow();
        ReadBeside {
            batches: report.matched_batches,
            bytes: report.bytes,
            skipped_offsets: report.skipped_offsets,
        }
    }

    /// Batches whose way to the consumers was not followed, or only in part.
    pub(super) fn uncounted(&self) -> u64 {
        self.deliveries.borrow().untaken()
    }

    /// A batch that was due then is acknowledged.
    pub(super) fn acked(
        &self,
        place: usize,
        offset: i64,
        (due, now): (Duration, Duration),
        recorder: &RefCell<Recorder>,
    ) {
        if let Some(lag) = &mut *self.lag.borrow_mut() {
            lag.acked(place, offset, now);
            return;
        }
        let mut recorder = recorder.borrow_mut();
        let record = |due, arrival| recorder.delivered(due, arrival);
        self.deliveries.borrow_mut().acked(place, offset, due, record);
        self.changed.notify();
    }
}

/// One consumer's reading from one leader.
pub(super) struct Reader<P: Platform> {
    run: Rc<Shared<P>>,
    tail: Rc<Tail>,
    connection: Connection<P>,
    session: Session,
    /// Of Fetch.
    version: i16,
    /// Ascending by partition.
    streams: Vec<Stream>,
    /// Where they stand in the run.
    places: Vec<usize>,
}

/// Opens a connection to every leader for each consumer; they read from `starts` on.
pub(super) async fn open<P: Platform>(
    run: &Rc<Shared<P>>,
    (leaders, starts): (&[PartitionLeader], &[i64]),
    workload: &Workload,
    timeout: Duration,
) -> Result<Vec<Reader<P>>, LoadError> {
    let consumers = workload.consumers;
    let Some(tail) = &run.tail else { return Ok(Vec::new()) };
    let addresses = addresses(leaders);
    let count = (consumers as usize).saturating_mul(addresses.len());
    let count_max = CONNECTIONS_MAX as usize;
    if count > count_max {
        return Err(LoadError::TooMany {
            topic: run.topic.clone(),
            what: "connections",
            count,
            count_max,
        });
    }
    let mut readers = Vec::with_capacity(count);
    for _ in 0..consumers {
        for address in &addresses {
            let led = leaders.iter().zip(starts).enumerate();
            let led = led.filter(|(_, (leader, _))| leader.leader == *address);
            let (places, streams) = led
                .map(|(place, (leader, start))| {
                    (place, Stream::new(leader.partition, *start..i64::MAX))
                })
                .unzip();
            let connection = Connection::open(&run.core.platform, address, timeout).await?;
            let version = connection.version(ApiKey::Fetch, FETCH_VERSION_MAX)?;
            let (run, tail) = (Rc::clone(run), Rc::clone(tail));
            let session = Session::new(workload.fetches);
            readers.push(Reader { run, tail, connection, session, version, streams, places });
        }
    }
    Ok(readers)
}

/// Starts the task of each.
pub(super) fn spawn<P: Platform>(
    run: &Rc<Shared<P>>,
    readers: Vec<Reader<P>>,
) -> Vec<OnceReceiver<()>> {
    let mut tasks = Vec::with_capacity(readers.len());
    for mut reader in readers {
        let (done, is_done) = once();
        let task = async move {
            let tail = Rc::clone(&reader.tail);
            let enough = async {
                tail.enough.raised().await;
                Ok(())
            };
            if let Err(error) = or(enough, reader.read_on()).await {
                reader.run.core.fail(error);
            }
            done.send(());
        };
        run.core.platform.spawn(TaskClass::Foreground, Box::pin(task));
        tasks.push(is_done);
    }
    tasks
}

/// Once nothing more is sent: waits until all that was acknowledged has come, ends the reading, and adds to `report` what was
/// not right.
pub(super) async fn finish<P: Platform>(
    run: &Shared<P>,
    leaders: &[PartitionLeader],
    readers: Vec<OnceReceiver<()>>,
    report: &mut AuditReport,
) {
    let Some(tail) = &run.tail else { return };
    let settled = async {
        while !tail.deliveries.borrow().is_settled() {
            tail.changed.listen().await;
        }
        tail.enough.raise();
    };
    let late = async {
        // A run that has failed has readers that read no more.
        let patience = if run.core.has_failed() { Duration::ZERO } else { DELIVERY_TIME_MAX };
        run.core.platform.sleep(patience).await;
    };
    or(settled, late).await;
    tail.enough.raise();
    // Whoever failed did so by now: what comes after is the end of the waiting.
    let has_failed = run.core.has_failed();
    run.core.finish(readers).await;
    report.absorb(&tail.report.borrow());
    let deliveries = tail.deliveries.borrow();
    let (now, mut recorder) = (run.core.platform.monotonic(), run.core.recorder.borrow_mut());
    deliveries.unsettled().for_each(|(due, count)| recorder.never_delivered(due, now, count));
    let missing = deliveries.missing();
    match missing.and_then(|(place, offset, count)| Some((leaders.get(place)?, offset, count))) {
        // Nobody waited for what the consumers of such a run lack, and where too many batches were under way nobody knows who has
        // them: that says nothing of the broker.
        Some((_, _, count)) if has_failed || deliveries.untaken() > 0 => {
            report.undelivered_batches = count as u64;
        }
        Some((leader, offset, count)) => {
            let fact = format!(
                "{count} acknowledged batches are not with every consumer, this one the first"
            );
            report.find(FindingKind::Undelivered, leader.partition, offset, fact);
        }
        None => {}
    }
    report.is_complete &= deliveries.untaken() == 0 && report.undelivered_batches == 0;
}

impl<P: Platform> Reader<P> {
    async fn read_on(&mut self) -> Result<(), LoadError> {
        let run = Rc::clone(&self.run);
        loop {
            let asked_at = run.core.platform.monotonic();
            let next = self.next(asked_at);
            if next.is_empty() {
                // All that it may read yet.
                run.core.platform.sleep(self.tail.step()).await;
                continue;
            }
            let request = self.session.request(&run.topic, next.into_iter(), LIMITS);
            let exchange = async {
                let asked = self.connection.ask(self.version, &request).await?;
                self.connection.answer_to(asked).await
            };
            let Some(answer) = in_time(&run.core.platform, ANSWER_TIME_MAX, exchange).await else {
                return Err(LoadError::TimedOut {
                    address: self.connection.address().clone(),
                    api: ApiKey::Fetch,
                    within: ANSWER_TIME_MAX,
                });
            };
            let now = run.core.platform.monotonic();
            let answer = answer?;
            let response: FetchResponse<'_> = answer.read()?;
            if self.session.has_lapsed(&response) {
                continue;
            }
            let (count, out_of_range) = self.take(&response, now)?;
            for found in out_of_range {
                self.skip(found).await?;
            }
            if count == 0 && now.saturating_sub(asked_at) < SOON {
                run.core.platform.sleep(PAUSE).await;
            }
        }
    }

    /// What it reads next at `now`: of partitions where that is old enough, if it is to stay behind.
    fn next(&self, now: Duration) -> Vec<(PartitionIndex, Option<i64>)> {
        let mut lag = self.tail.lag.borrow_mut();
        let streams = self.streams.iter().zip(&self.places);
        let next = streams.filter_map(|(stream, place)| {
            let next = stream.next_offset()?;
            let is_old = lag.as_mut().is_none_or(|lag| next < lag.limit(*place, now));
            is_old.then_some((stream.partition(), Some(next)))
        });
        next.collect()
    }

    /// Goes on where the log begins by now: retention was faster than this consumer.
    async fn skip(&mut self, found: usize) -> Result<(), LoadError> {
        let (Some(stream), Some(own)) = (self.streams.get_mut(found), self.places.get(found))
        else {
            return Ok(());
        };
        let (topic, partition) = (&self.run.topic, stream.partition());
        let start = self.connection.log_start(topic, partition, ANSWER_TIME_MAX).await?;
        let skipped = stream.skip_to(start, &mut self.tail.report.borrow_mut());
        if skipped.is_empty() {
            let code = ErrorCode::OffsetOutOfRange;
            return LoadError::check(|| place(topic, partition), code, None);
        }
        self.tail.deliveries.borrow_mut().skipped(*own, skipped);
        self.tail.changed.notify();
        Ok(())
    }

    /// Takes an answer that came at `now`; gives how many batches it brought, and which streams are out of range.
    fn take(
        &mut self,
        response: &FetchResponse<'_>,
        now: Duration,
    ) -> Result<(u64, Vec<usize>), LoadError> {
        let Self { run, tail, streams, places, .. } = self;
        LoadError::check(|| run.topic.clone(), response.error_code, None)?;
        let mut report = tail.report.borrow_mut();
        let mut deliveries = tail.deliveries.borrow_mut();
        let mut recorder = run.core.recorder.borrow_mut();
        let (mut count, mut out_of_range) = (0, Vec::new());
        for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
            let index = data.partition_index;
            let Ok(found) = streams.binary_search_by_key(&index, Stream::partition) else {
                continue;
            };
            let code = data.error_code;
            let place = || place(&run.topic, index);
            if is_of_leadership(code) {
                return Err(LoadError::LeaderMoved { place: place(), code });
            }
            if code == ErrorCode::OffsetOutOfRange {
                out_of_range.push(found);
                continue;
            }
            LoadError::check(place, code, None)?;
            let (Some(stream), Some(place)) = (streams.get_mut(found), places.get(found)) else {
                continue;
            };
            let records = data.records.inline();
            let mut sums = Sums::default();
            let is_close = tail.is_close();
            count += stream.take_each(records, &mut report, &mut sums, |header| {
                if !is_close {
                    return;
                }
                deliveries.arrived(*place, header.base_offset.0, now, |due, arrival| {
                    recorder.delivered(due, arrival);
                });
            });
            stream.check(records, &mut report);
        }
        drop(deliveries);
        tail.changed.notify();
        Ok((count, out_of_range))
    }
}
