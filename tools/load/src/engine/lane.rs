//! One connection of a run: a task that sends, a task that receives, and what is between them.
//!
//! ```text
//!   sender    due? ─ room in flight? ─ under_way.push ─ sendmsg of the frame's parts
//!   receiver  frame ─ under_way.pop ─ numbered right? ─ each partition: ledger or error ─ room
//! ```
//!
//! Answers come in the order of the requests: that is the protocol's promise, and an answer with another number ends the run.
//! Owns nothing of the measurement: times and sums go to the recorder.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use broker::platform::ConnectionWriter;
use broker::sync::{Event, OnceReceiver, once};
use commitlog::TaskClass;
use futures_lite::future::or;
use wire::produce::{PartitionProduceResponse, ProduceResponse};
use wire::{ApiKey, ErrorCode, Message, ResponseHeader};

use super::{Shared, is_of_leadership};
use crate::client::{Connection, Frames, check_number, place};
use crate::error::LoadError;
use crate::frame::{FrameIndex, FrameSet};
use crate::ledger::OFFSET_MAX;
use crate::recorder::{Sums, Times};
use crate::schedule::Schedule;

/// So many batches refused in a row, without one acknowledged between them, end the run.
const REFUSED_IN_A_ROW_MAX: u64 = 1_000;

/// So many requests of a connection that never left are put into the latencies one by one; beyond, one stands for several.
const UNSENT_RECORDED_MAX: u64 = 100_000;

/// The requests to one leader, shared by its connections.
pub(super) struct Route {
    pub(super) frames: FrameSet,
    pub(super) version: i16,
    /// Where the partitions of `frames` stand in the run, in their order.
    pub(super) places: Vec<usize>,
}

impl Route {
    /// The mean over a turn of all groups.
    #[expect(clippy::cast_precision_loss, reason = "partitions are few")]
    pub(super) fn batches_per_request(&self) -> f64 {
        self.places.len() as f64 / self.frames.group_count() as f64
    }
}

/// A connection before it runs.
pub(super) struct Plan<P: Platform> {
    pub(super) connection: Connection<P>,
    pub(super) route: Rc<Route>,
    /// Which of its leader's connections it is.
    pub(super) turn: usize,
}

/// A request without an answer.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    correlation_id: i32,
    frame: FrameIndex,
    times: Times,
}

/// What both tasks of a connection share.
struct Lane<P: Platform> {
    run: Rc<Shared<P>>,
    route: Rc<Route>,
    turn: usize,
    schedule: Option<Schedule>,
    under_way: RefCell<VecDeque<UnderWay>>,
    /// An answer came, or none will come any more.
    answered: Rc<Event>,
    has_ended: Cell<bool>,
    /// When the last wait for room in flight was over: what was due before could not leave before.
    room_since: Cell<Duration>,
    /// Requests that were acknowledged whole.
    acked: Cell<u64>,
    /// The base offset last acknowledged, by the partition's place in the run.
    last_offsets: RefCell<BTreeMap<usize, i64>>,
    /// Which partitions of a request its answer has named so far; kept for the next answer.
    is_named: RefCell<Vec<bool>>,
}

/// Starts both tasks of each connection, whose first requests are due at `start`; each receiver is told when its task has ended.
pub(super) fn spawn<P: Platform>(
    run: &Rc<Shared<P>>,
    plans: Vec<Plan<P>>,
    (start, requests_per_second): (Duration, Option<f64>),
) -> Vec<OnceReceiver<()>> {
    let count = plans.len() as u64;
    let mut tasks = Vec::with_capacity(plans.len() * 2);
    for (number, plan) in (0_u64..).zip(plans) {
        let schedule = requests_per_second.map(|rate| Schedule::new(start, rate, number, count));
        let lane = Rc::new(Lane {
            run: Rc::clone(run),
            route: plan.route,
            turn: plan.turn,
            schedule,
            under_way: RefCell::default(),
            answered: Event::new(),
            has_ended: Cell::new(false),
            room_since: Cell::default(),
            acked: Cell::default(),
            last_offsets: RefCell::default(),
            is_named: RefCell::default(),
        });
        let (frames, writer, correlation_id) = plan.connection.into_halves();
        let (sent, sender) = once();
        let sending = Rc::clone(&lane);
        let task = async move {
            sending.send_all(writer, correlation_id, start).await;
            sent.send(());
        };
        run.core.platform.spawn(TaskClass::Foreground, Box::pin(task));
        let (received, receiver) = once();
        let task = async move {
            lane.receive_all(frames).await;
            received.send(());
        };
        run.core.platform.spawn(TaskClass::Foreground, Box::pin(task));
        tasks.extend([sender, receiver]);
    }
    tasks
}

impl<P: Platform> Lane<P> {
    /// Sends until the run is stopped, waits for the last answer, and ends the connection.
    async fn send_all(&self, mut writer: P::Writer, first_correlation_id: i32, start: Duration) {
        self.pause_until(start).await;
        let mut correlation_id = first_correlation_id;
        let mut number = 0;
        while let Some(times) = self.next_turn(number).await {
            let frame = self.route.frames.nth(self.turn, number);
            let sent = UnderWay { correlation_id, frame, times };
            self.under_way.borrow_mut().push_back(sent);
            match self.send_unless_abandoned(&mut writer, sent).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    self.run.core.fail(error);
                    break;
                }
                None => break,
            }
            correlation_id = correlation_id.wrapping_add(1);
            number += 1;
        }
        self.count_unsent(number);
        or(self.idle(), self.run.core.abandon.raised()).await;
        // The receiver sees the end of the stream, and ends too.
        writer.shutdown().await;
    }

    /// Sending is over after so many requests: those that were due by then and did not leave are told, and count as long as they
    /// have waited. They were due whatever the broker did; a latency without them would be that of a lower rate.
    fn count_unsent(&self, number: u64) {
        let Some(schedule) = self.schedule else { return };
        let run = &self.run;
        let mut recorder = run.core.recorder.borrow_mut();
        let end = recorder.ended().unwrap_or_else(|| run.core.platform.monotonic());
        let due = schedule.count_before(end);
        let before = recorder.begun().map_or(0, |begin| schedule.count_before(begin));
        run.due.set(run.due.get() + due.saturating_sub(before));
        run.unsent.set(run.unsent.get() + due.saturating_sub(number));
        // A broker that stood still for hours at a high rate: one stands for many that were due beside it.
        let stride = (due.saturating_sub(number) / UNSENT_RECORDED_MAX).max(1);
        let mut next = number;
        while next < due {
            let count = stride.min(due - next);
            recorder.never_answered(schedule.due(next), end, count);
            next += count;
        }
    }

    /// `None` where the broker does not take the request, and the run does not wait for that any longer: half of it may have
    /// left, and the connection is of no use.
    async fn send_unless_abandoned(
        &self,
        writer: &mut P::Writer,
        sent: UnderWay,
    ) -> Option<Result<(), LoadError>> {
        let abandoned = async {
            self.run.core.abandon.raised().await;
            None
        };
        or(async { Some(self.send(writer, sent).await) }, abandoned).await
    }

    async fn send(&self, writer: &mut P::Writer, sent: UnderWay) -> Result<(), LoadError> {
        let number = sent.correlation_id.to_be_bytes();
        let template = self.run.templates.get(sent.frame.template);
        let batch = template.map_or(&[][..], |template| template.bytes.as_slice());
        let mut parts = Vec::new();
        self.route.frames.parts(sent.frame, &number, batch, &mut parts);
        let broken = |source: io::Error| LoadError::Sending { api: ApiKey::Produce, source };
        writer.send(&parts).await.map_err(broken)
    }

    /// When the next request is due and there is room for it; `None` when nothing more is to be sent.
    async fn next_turn(&self, number: u64) -> Option<Times> {
        let due = self.schedule.map(|schedule| schedule.due(number));
        if let Some(due) = due {
            self.pause_until(due).await;
        }
        while self.under_way.borrow().len() >= self.run.in_flight && !self.has_ended.get() {
            if self.run.core.stop.is_raised() {
                return None;
            }
            or(self.answered.listen(), self.run.core.stop.raised()).await;
            self.room_since.set(self.run.core.platform.monotonic());
        }
        if self.run.core.stop.is_raised() || self.has_ended.get() {
            return None;
        }
        let now = self.run.core.platform.monotonic();
        // Without a schedule a request is due when there is room.
        let due = due.unwrap_or(now);
        Some(Times { due, free: due.max(self.room_since.get()).min(now), sent: now })
    }

    /// Until then, or until the run is stopped; at once where that has passed.
    async fn pause_until(&self, instant: Duration) {
        let left = instant.saturating_sub(self.run.core.platform.monotonic());
        if !left.is_zero() {
            or(self.run.core.platform.sleep(left), self.run.core.stop.raised()).await;
        }
    }

    /// Ends when nothing is under way.
    async fn idle(&self) {
        while !self.under_way.borrow().is_empty() && !self.has_ended.get() {
            self.answered.listen().await;
        }
    }

    /// Takes answers until the connection ends.
    async fn receive_all(&self, mut frames: Frames<P>) {
        loop {
            let taken = match frames.next(ApiKey::Produce).await {
                Ok(Some(frame)) => self.take(&frames, &frame),
                Ok(None) => break self.ended(&frames),
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                // A connection that we gave up ourselves is no failure.
                if !self.run.core.abandon.is_raised() {
                    self.run.core.fail(error);
                }
                break;
            }
        }
        self.has_ended.set(true);
        // Each of these left after the one before it was answered: see `flushes`.
        let apart = self.acked.get() / (self.run.in_flight as u64).max(1);
        self.run.acked_apart.borrow_mut().entry(frames.address().clone()).or_default().push(apart);
        let lost = self.under_way.take();
        let now = self.run.core.platform.monotonic();
        let mut recorder = self.run.core.recorder.borrow_mut();
        lost.iter().for_each(|sent| recorder.never_answered(sent.times.due, now, 1));
        drop(recorder);
        let batches: usize =
            lost.iter().map(|sent| self.route.frames.partitions(sent.frame.group).len()).sum();
        self.run.unanswered.set(self.run.unanswered.get() + lost.len() as u64);
        self.run.maybe_appended.set(self.run.maybe_appended.get() + batches as u64);
        self.answered.notify();
    }

    /// The stream ended at a frame's border: right where all was answered.
    fn ended(&self, frames: &Frames<P>) {
        let is_expected = self.under_way.borrow().is_empty() && self.run.core.stop.is_raised();
        if !is_expected && !self.run.core.abandon.is_raised() {
            let source = io::ErrorKind::UnexpectedEof.into();
            self.run.core.fail(frames.broken(ApiKey::Produce, source));
        }
    }

    /// Takes one answer.
    fn take(&self, frames: &Frames<P>, frame: &[u8]) -> Result<(), LoadError> {
        let now = self.run.core.platform.monotonic();
        let address = frames.address();
        // It stays under way until its answer is understood: what is not may have been appended.
        let Some(sent) = self.under_way.borrow().front().copied() else {
            let source = io::Error::other("an answer that nobody asked for");
            return Err(frames.broken(ApiKey::Produce, source));
        };
        check_number(address, frame, sent.correlation_id)?;
        let version = self.route.version;
        let malformed = |source| LoadError::Malformed {
            address: address.clone(),
            api: ApiKey::Produce,
            source,
        };
        let (_, body) =
            ResponseHeader::decode(ApiKey::Produce, version, frame).map_err(malformed)?;
        let response = ProduceResponse::decode(version, body).map_err(malformed)?;
        let sums = self.sum_up(sent, &response)?;
        self.under_way.borrow_mut().pop_front();
        let mut recorder = self.run.core.recorder.borrow_mut();
        recorder.answered(now, sent.times, sums);
        if recorder.has_enough() {
            self.run.core.stop.raise();
        }
        drop(recorder);
        self.answered.notify();
        Ok(())
    }

    /// What the answer acknowledges: every partition of the request must be answered once, and no other.
    fn sum_up(&self, sent: UnderWay, response: &ProduceResponse<'_>) -> Result<Sums, LoadError> {
        let group = sent.frame.group;
        let expected = self.route.frames.partitions(group);
        let mut is_named = self.is_named.borrow_mut();
        is_named.clear();
        is_named.resize(expected.len(), false);
        let mut sums = Sums::default();
        let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        for answer in answers {
            let place = || place(&self.run.topic, answer.index);
            let within = expected.binary_search(&answer.index).ok();
            let named = within.and_then(|within| Some((within, is_named.get_mut(within)?)));
            let Some((within, is_named @ false)) = named else {
                return Err(LoadError::Unasked { place: place(), api: ApiKey::Produce });
            };
            *is_named = true;
            if !answer.error_code.is_none() {
                self.refused(answer);
                sums.errors += 1;
                continue;
            }
            if !(0..=OFFSET_MAX).contains(&answer.base_offset.0) {
                return Err(LoadError::Unplaced { place: place(), offset: answer.base_offset });
            }
            let position = self.route.frames.first_of(group) + within;
            let Some(place) = self.route.places.get(position).copied() else { continue };
            self.acknowledged(place, sent, answer, &mut sums);
        }
        let missing = expected.iter().zip(is_named.iter()).find(|(_, is_named)| !**is_named);
        if let Some((partition, _)) = missing {
            let place = place(&self.run.topic, *partition);
            return Err(LoadError::NotMentioned { place, api: ApiKey::Produce });
        }
        sums.requests = u64::from(sums.errors == 0);
        self.acked.set(self.acked.get() + sums.requests);
        Ok(sums)
    }

    fn acknowledged(
        &self,
        place: usize,
        sent: UnderWay,
        answer: &PartitionProduceResponse<'_>,
        sums: &mut Sums,
    ) {
        let template = sent.frame.template;
        let Some(batch) = self.run.templates.get(template) else { return };
        sums.batches += 1;
        sums.records += u64::from(batch.records);
        sums.bytes += batch.bytes.len() as u64;
        sums.plain_bytes += batch.plain_bytes;
        self.run.refused_in_a_row.set(0);
        self.run.ledger.borrow_mut().take(place, answer.base_offset, template);
        if let Some(tail) = &self.run.tail {
            let times = (sent.times.due, self.run.core.platform.monotonic());
            tail.acked(place, answer.base_offset.0, times, &self.run.core.recorder);
        }
        let offset = answer.base_offset.0;
        let before = self.last_offsets.borrow_mut().insert(place, offset);
        if before.is_some_and(|before| before >= offset) {
            let (count, first) = self.run.out_of_order.get();
            let first = first.or(Some((answer.index, offset)));
            self.run.out_of_order.set((count + 1, first));
        }
    }

    /// A batch was refused. What else the answer says still counts, whatever becomes of the run.
    fn refused(&self, answer: &PartitionProduceResponse<'_>) {
        let code = answer.error_code;
        let run = &self.run;
        run.core.recorder.borrow_mut().refused(answer.index, code, answer.error_message.as_deref());
        run.maybe_appended.set(run.maybe_appended.get() + 1);
        run.refused_in_a_row.set(run.refused_in_a_row.get() + 1);
        let count = run.refused_in_a_row.get();
        if is_of_leadership(code) {
            run.core.fail(LoadError::LeaderMoved { place: place(&run.topic, answer.index), code });
        } else if count >= REFUSED_IN_A_ROW_MAX || is_final(code) {
            run.core.fail(LoadError::OnlyErrors { count, code });
        }
    }
}

/// Codes that the same batch will get again and again.
fn is_final(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::MessageTooLarge
            | ErrorCode::RecordListTooLarge
            | ErrorCode::InvalidRecord
            | ErrorCode::CorruptMessage
            | ErrorCode::InvalidRequiredAcks
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::UnsupportedCompressionType
            | ErrorCode::PolicyViolation
    )
}
