//! The driver of one partition: feeds the leader core and the log, and obeys the core's effects in order.
//!
//! Owns the pairing of a log with its leader, and the waiters' mail boxes. It decides nothing about safety: the core does. It
//! never holds a borrow of the core over an await, and between a decision to append and the append nothing else touches the
//! partition.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use commitlog::{
    AppendError, Appended, AtLeastOneBatch, Ends, Log, LogFailure, LogListener, ReadRequest,
    RecordSlice, abort_on_panic,
};
use futures_lite::future::or;
use partition::{
    ActiveProducer, AppendDecision, Effect, EndReason, FetchWaiter, InSync, Input, Isolation,
    Leader, LeaderStart, LogProgress, ProduceOutcome, ProduceWaiter, Producers, ReadView,
    WaiterToken, Written,
};
use record::{LeaderEpoch, Offset, ProducerId, Timestamp, TopicPartition};

use crate::calls::{FetchEntry, Fetched, Produced};
use crate::drivers::admission::{self, Admitted, BatchRules, Workspaces};
use crate::drivers::stall::{StallChange, StallWatch};
use crate::drivers::traffic::Traffic;
use crate::drivers::watched::Watched;
use crate::mutant::{Mutant, Rule};
use crate::platform::Platform;
use crate::refusal::{FetchRefusal, ProduceRefusal};
use crate::sync::{Event, OnceReceiver, OnceSender, once};

/// What a driver is made of.
pub struct PartitionParts<P: Platform> {
    /// The platform of this core.
    pub platform: P,
    /// Which partition.
    pub partition: TopicPartition,
    /// Its name for people: `orders-7`.
    pub name: Rc<str>,
    /// Its log, open and recovered.
    pub log: Log<P::Disk, P>,
    /// The producers that the log folded while it recovered.
    pub producers: Rc<RefCell<Producers>>,
    /// The epoch of this leadership.
    pub epoch: LeaderEpoch,
    /// What batches must obey.
    pub rules: BatchRules,
    /// Memory for decompression.
    pub workspaces: Workspaces,
    /// Where it says that something waits.
    pub watched: Rc<Watched>,
    /// The rule that is off, if any.
    pub mutant: Mutant,
}

/// One partition that this core leads.
pub struct PartitionDriver<P: Platform> {
    platform: P,
    partition: TopicPartition,
    name: Rc<str>,
    log: Log<P::Disk, P>,
    leader: RefCell<Leader>,
    producers: Rc<RefCell<Producers>>,
    rules: Cell<BatchRules>,
    workspaces: Workspaces,
    mutant: Mutant,
    next_token: Cell<u64>,
    acks: RefCell<BTreeMap<WaiterToken, OnceSender<ProduceOutcome>>>,
    parked: RefCell<BTreeMap<WaiterToken, Rc<Event>>>,
    /// What the core said to the last attempt to park.
    refused_parking: Cell<bool>,
    stall: StallWatch,
    watched: Rc<Watched>,
    is_watched: Cell<bool>,
    traffic: Traffic,
}

impl<P: Platform> std::fmt::Debug for PartitionDriver<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PartitionDriver").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Tells the driver what its log reports, for as long as the driver lives.
struct Listener<P: Platform>(Weak<PartitionDriver<P>>);

impl<P: Platform> LogListener for Listener<P> {
    fn progressed(&self, ends: Ends) {
        if let Some(driver) = self.0.upgrade() {
            driver.step(Input::Log(progress_of(&ends)));
        }
    }

    fn failed(&self, failure: LogFailure) {
        if let Some(driver) = self.0.upgrade() {
            tracing::error!(partition = %driver.name, %failure, "the log takes no more records");
            driver.step(Input::End(end_reason_of(&failure)));
        }
    }
}

fn end_reason_of(failure: &LogFailure) -> EndReason {
    match failure {
        LogFailure::NoSpace => EndReason::DiskFull,
        LogFailure::Io { .. } | LogFailure::Refused { .. } | LogFailure::Closed => {
            EndReason::LogFailed
        }
    }
}

fn progress_of(ends: &Ends) -> LogProgress {
    LogProgress {
        log_start: ends.log_start(),
        durable: ends.durable(),
        safe_end: ends.safe_end(),
        written: ends.written(),
        accepted: ends.accepted(),
    }
}

/// What became of a batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landed {
    /// It was appended.
    Appended {
        /// Records in it.
        record_count: u32,
    },
    /// It is a retry of one that is here already.
    Duplicate,
}

/// An append that has happened and waits to be safe.
#[derive(Debug)]
pub struct PendingAck {
    produced: Produced,
    landed: Landed,
    /// `None` under acks=0: nobody waits.
    receiver: Option<OnceReceiver<ProduceOutcome>>,
    timeout: Duration,
}

impl PendingAck {
    /// What became of the batch.
    pub fn landed(&self) -> Landed {
        self.landed
    }

    /// Ends when the batch is as safe as its producer asked for, or it is known that it will not be in time.
    pub async fn outcome(self) -> Result<Produced, ProduceRefusal> {
        let Some(receiver) = self.receiver else { return Ok(self.produced) };
        match receiver.await {
            Some(ProduceOutcome::Acked) => Ok(self.produced),
            Some(ProduceOutcome::TimedOut | ProduceOutcome::WaitersFull) => {
                Err(ProduceRefusal::TimedOut { timeout: self.timeout })
            }
            Some(ProduceOutcome::NotEnoughReplicasAfterAppend { in_sync, minimum }) => {
                Err(ProduceRefusal::NotEnoughReplicasAfterAppend { in_sync, minimum })
            }
            Some(ProduceOutcome::Ended(reason)) => Err(ProduceRefusal::Ended(reason)),
            None => Err(ProduceRefusal::NotLeader),
        }
    }
}

impl<P: Platform> PartitionDriver<P> {
    /// Begins to lead. The log must not have been appended to since it was recovered.
    pub fn lead(parts: PartitionParts<P>) -> Rc<Self> {
        let PartitionParts { platform, partition, name, log, producers, epoch, rules, .. } = parts;
        let (workspaces, watched, mutant) = (parts.workspaces, parts.watched, parts.mutant);
        let leader = Leader::new(&LeaderStart {
            epoch,
            log: progress_of(&log.ends()),
            checkpointed_high_watermark: log.checkpointed_high_watermark(),
            in_sync: InSync::ALONE,
            mutant: mutant.leader,
        });
        let traffic = Traffic::new(platform.monotonic());
        let driver = Rc::new(Self {
            traffic,
            platform,
            partition,
            name,
            log,
            leader: RefCell::new(leader),
            producers,
            rules: Cell::new(rules),
            workspaces,
            mutant,
            next_token: Cell::new(0),
            acks: RefCell::default(),
            parked: RefCell::default(),
            refused_parking: Cell::new(false),
            stall: StallWatch::default(),
            watched,
            is_watched: Cell::new(false),
        });
        driver.log.begin_epoch(epoch);
        driver.log.set_high_watermark(driver.leader.borrow().high_watermark());
        driver.log.set_listener(Rc::new(Listener(Rc::downgrade(&driver))));
        driver
    }

    /// Which partition.
    pub fn partition(&self) -> TopicPartition {
        self.partition
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What went in and out.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Its log.
    pub fn log(&self) -> &Log<P::Disk, P> {
        &self.log
    }

    /// What batches must obey from now on.
    pub fn set_rules(&self, rules: BatchRules) {
        self.rules.set(rules);
    }

    /// How long producers are remembered from now on.
    pub fn set_producer_expiration_ms(&self, expiration_ms: i64) {
        self.producers.borrow_mut().set_expiration_ms(expiration_ms);
    }

    /// The epoch of this leadership.
    pub fn epoch(&self) -> LeaderEpoch {
        self.leader.borrow().epoch()
    }

    /// Batches that wait for their acknowledgement.
    pub fn produce_waiter_count(&self) -> usize {
        self.leader.borrow().produce_waiter_count()
    }

    /// Idempotent producers remembered.
    pub fn producer_count(&self) -> usize {
        self.producers.borrow().len()
    }

    /// What is known of the first `count_max` of them behind `after`, ascending by id.
    pub fn active_producers(
        &self,
        after: Option<ProducerId>,
        count_max: usize,
    ) -> Vec<ActiveProducer> {
        self.producers.borrow().active(after).take(count_max).collect()
    }

    /// What may be seen.
    pub fn read_view(&self, isolation: Isolation) -> ReadView {
        self.leader.borrow().read_view(isolation)
    }

    /// Whether the client speaks to the leadership it believes in.
    pub fn check_epoch(&self, asked: LeaderEpoch) -> Result<(), FetchRefusal> {
        Ok(self.leader.borrow().check_epoch(asked)?)
    }

    /// Validates one batch: what [`PartitionDriver::append`] takes. It looks at the rules of the topic and not at the log.
    ///
    /// Order   `before_wait` is called before it waits for the batches of others, if it does.
    /// Errors  `Overdue`: it still waited for them at the request's deadline.
    pub async fn admit(
        &self,
        records: &Bytes,
        terms: &admission::Terms,
        before_wait: impl FnOnce(),
    ) -> Result<Admitted, ProduceRefusal> {
        self.leader.borrow().admit(terms.acks)?;
        let (rules, now) = (self.rules.get(), self.platform.now());
        let (platform, workspaces) = (&self.platform, &self.workspaces);
        let turn = async || {
            before_wait();
            let window = async { Ok(workspaces.large_window().await) };
            or(window, terms.overdue(platform)).await
        };
        admission::admit(platform, workspaces, records, terms, &rules, now, turn).await
    }

    /// Appends one batch; on return it has its place in the log.
    ///
    /// Order   calls of one task append in the order they are made; the log may be full until the disk has caught up.
    /// Errors  `Overdue`: it was full until the request's deadline, and nothing was appended.
    pub async fn append(
        &self,
        admitted: &Admitted,
        terms: &admission::Terms,
    ) -> Result<PendingAck, ProduceRefusal> {
        loop {
            let decision = abort_on_panic(|| {
                let producers = self.producers.borrow();
                self.leader.borrow().decide(&producers, &admitted.attempt(), terms.acks)
            });
            match decision {
                AppendDecision::Refuse(refusal) => return Err(refusal.into()),
                AppendDecision::Duplicate(original) => {
                    let time = self.rules.get().append_time(original.timestamp);
                    let produced = self.produced(original.base_offset, time);
                    return Ok(self.pend(produced, original.last_offset, Landed::Duplicate, terms));
                }
                AppendDecision::Append => {}
            }
            match self.append_now(admitted) {
                Ok((appended, time)) => {
                    self.traffic.count_in(admitted.batch.len());
                    let produced = self.produced(appended.base_offset, time);
                    let delta = admitted.header.last_offset_delta;
                    let record_count = u32::try_from(delta).unwrap_or(0).saturating_add(1);
                    let landed = Landed::Appended { record_count };
                    return Ok(self.pend(produced, appended.last_offset, landed, terms));
                }
                Err(AppendError::Full { .. }) => self.room(terms).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The log bounds what waits for the disk: a client that sends faster is simply not read any further. Errors: there is no
    /// room until the deadline.
    async fn room(&self, terms: &admission::Terms) -> Result<(), ProduceRefusal> {
        let room = async {
            self.log.room().await;
            Ok(())
        };
        or(room, terms.overdue(&self.platform)).await
    }

    /// Appends, and says what the records were stamped with, if the broker stamps them: here and not at admission, so that times
    /// rise with offsets as the clock does.
    fn append_now(
        &self,
        admitted: &Admitted,
    ) -> Result<(Appended, Option<Timestamp>), AppendError> {
        let now = self.platform.now();
        let time = self.rules.get().append_time(now);
        let header = time.map_or(admitted.header, |time| admitted.stamped(time));
        self.watch();
        let appended =
            abort_on_panic(|| self.log.append(now, self.epoch(), &header, &admitted.batch))?;
        Ok((appended, time))
    }

    fn produced(&self, base_offset: Offset, append_time: Option<Timestamp>) -> Produced {
        Produced {
            base_offset,
            log_append_time: append_time.unwrap_or(Timestamp::NONE),
            log_start: self.log.ends().log_start(),
        }
    }

    fn pend(
        &self,
        produced: Produced,
        last_offset: Offset,
        landed: Landed,
        terms: &admission::Terms,
    ) -> PendingAck {
        let timeout = terms.timeout;
        let Some(acks) = terms.acks else {
            return PendingAck { produced, landed, receiver: None, timeout };
        };
        let written = match landed {
            Landed::Appended { .. } => Written::Now,
            Landed::Duplicate => Written::Before,
        };
        self.watch();
        let token = self.token();
        let (sender, receiver) = once();
        self.acks.borrow_mut().insert(token, sender);
        let deadline = terms.deadline;
        self.step(Input::Wait(ProduceWaiter { token, acks, written, last_offset, deadline }));
        PendingAck { produced, landed, receiver: Some(receiver), timeout }
    }

    /// Reads what is there for one entry of a Fetch request; never waits for more to arrive.
    pub async fn fetch(
        &self,
        entry: &FetchEntry,
        isolation: Isolation,
        bytes_max: usize,
        minimum: AtLeastOneBatch,
    ) -> Result<Fetched<RecordSlice<P::Disk>>, FetchRefusal> {
        let (view, diverging) = self.view_for(entry, isolation)?;
        let mut fetched = Fetched {
            high_watermark: view.high_watermark,
            last_stable_offset: view.last_stable_offset,
            log_start: view.log_start,
            diverging,
            records: Vec::new(),
            bytes: 0,
            available_bytes: 0,
        };
        let nothing_wanted = bytes_max == 0 && minimum == AtLeastOneBatch::No;
        if fetched.diverging.is_some()
            || entry.offset >= self.visible_end(view.end)
            || nothing_wanted
        {
            return Ok(fetched);
        }
        let end = self.visible_end(view.end);
        let request = ReadRequest { from: entry.offset, end, bytes_max, minimum };
        let read = match self.log.try_read_hot(&request) {
            Some(read) => read,
            None => self.log.read(request).await,
        };
        match read {
            Ok(batches) => {
                self.traffic.count_out(batches.bytes);
                let is_cut = batches.next_offset < end;
                fetched.bytes = batches.bytes;
                fetched.available_bytes =
                    if is_cut { batches.bytes.max(bytes_max) } else { batches.bytes };
                fetched.records = batches.slices;
                Ok(fetched)
            }
            Err(error) => Err(FetchRefusal::of_read(error, &self.name)),
        }
    }

    /// What the reader of `entry` may see, and where its history leaves ours, if it does: it has records then that were lost, and
    /// is told so even where it stands past the end (FE-8).
    fn view_for(
        &self,
        entry: &FetchEntry,
        isolation: Isolation,
    ) -> Result<(ReadView, Option<(LeaderEpoch, Offset)>), FetchRefusal> {
        let leader = self.leader.borrow();
        leader.check_epoch(entry.current_leader_epoch)?;
        let diverging = self.divergence(entry)?;
        let view = match diverging {
            Some(_) => leader.read_view(isolation),
            None => leader.admit_fetch(entry.current_leader_epoch, entry.offset, isolation)?,
        };
        Ok((view, diverging))
    }

    /// Where reading ends: at what the leader lets be seen.
    fn visible_end(&self, end: Offset) -> Offset {
        if self.mutant.lacks(Rule::FetchBelowHighWatermark) {
            return self.log.ends().accepted();
        }
        end
    }

    /// Where the reader's history leaves ours (FE-8); out of range where it read an epoch that is newer than all there are here.
    fn divergence(
        &self,
        entry: &FetchEntry,
    ) -> Result<Option<(LeaderEpoch, Offset)>, FetchRefusal> {
        let asked = entry.last_fetched_epoch;
        let ends = self.log.ends();
        if asked == LeaderEpoch::NONE || entry.offset < ends.log_start() {
            return Ok(None);
        }
        let end = self.log.end_offset_for(asked).ok_or(FetchRefusal::OutOfRange {
            offset: entry.offset,
            start: ends.log_start(),
            end: ends.accepted(),
        })?;
        let diverges = end.epoch < asked || end.end_offset < entry.offset;
        Ok(diverges.then_some((end.epoch, end.end_offset)))
    }

    /// Notifies `event` once there is more to see than `seen_end`; until the guard is dropped. `None` where too many are parked
    /// already: answer with what is there.
    pub fn park(
        self: &Rc<Self>,
        isolation: Isolation,
        seen_end: Offset,
        event: &Rc<Event>,
    ) -> Option<Parked<P>> {
        let token = self.token();
        self.parked.borrow_mut().insert(token, Rc::clone(event));
        self.refused_parking.set(false);
        self.step(Input::WaitFetch(FetchWaiter { token, isolation, seen_end }));
        if self.refused_parking.take() {
            return None;
        }
        Some(Parked { driver: Rc::clone(self), token })
    }

    /// Something may wait here: time has to pass.
    fn watch(&self) {
        if !self.is_watched.replace(true) {
            self.watched.note(self.partition);
        }
    }

    /// Lets time pass: answers produce requests whose time is over. Where nothing waits it need not be called again before
    /// something does, which the set of watched partitions says.
    pub fn tick(&self, now: Duration) {
        let is_due = self.leader.borrow().next_deadline().is_some_and(|deadline| deadline <= now);
        if is_due {
            self.step(Input::Time);
        }
        self.look_for_stall(now);
        let ends = self.log.ends();
        let is_settled = ends.safe_end() == ends.accepted() || self.log.failure().is_some();
        if is_settled && !self.is_stalled() && self.produce_waiter_count() == 0 {
            self.is_watched.set(false);
            self.watched.forget(self.partition);
        }
    }

    /// Whether records wait for a disk that stands still.
    pub fn is_stalled(&self) -> bool {
        self.stall.is_stalled()
    }

    fn look_for_stall(&self, now: Duration) {
        let log = self.log.failure().is_none().then(|| progress_of(&self.log.ends()));
        let partition = &*self.name;
        match self.stall.look(log, now) {
            None => {}
            Some(StallChange::Began(waited)) => {
                let pending_bytes = self.log.status().pending_bytes;
                tracing::error!(
                    partition,
                    pending_bytes,
                    seconds = waited.as_secs(),
                    "the disk stands still: records wait for it, their producers time out"
                );
            }
            Some(StallChange::Ended(waited)) => {
                tracing::info!(partition, seconds = waited.as_secs(), "the disk goes on");
            }
        }
    }

    /// Ends this leadership: fails who waits, with the reason. What the log reports afterwards is nobody's business any more.
    pub fn end(&self, reason: EndReason) {
        self.log.clear_listener();
        self.step(Input::End(reason));
    }

    /// Forgets producers that have been idle for too long (ID-6).
    pub fn expire_producers(&self, now: Timestamp) {
        self.producers.borrow_mut().expire(now);
    }

    fn token(&self) -> WaiterToken {
        let token = self.next_token.get();
        self.next_token.set(token + 1);
        WaiterToken(token)
    }

    fn step(&self, input: Input) {
        let mut effects = Vec::new();
        abort_on_panic(|| {
            let now = self.platform.monotonic();
            self.leader.borrow_mut().step(now, input, &mut effects);
        });
        for effect in effects {
            self.obey(effect);
        }
    }

    fn obey(&self, effect: Effect) {
        match effect {
            Effect::HighWatermark(offset) => self.log.set_high_watermark(offset),
            Effect::CompleteProduce { token, outcome } => {
                let sender = self.acks.borrow_mut().remove(&token);
                if let Some(sender) = sender {
                    sender.send(outcome);
                }
            }
            Effect::AnswerFetch { token } => {
                self.parked.borrow_mut().remove(&token);
                self.refused_parking.set(true);
            }
            Effect::WakeFetches { tokens } => {
                for token in tokens {
                    let event = self.parked.borrow_mut().remove(&token);
                    if let Some(event) = event {
                        event.notify();
                    }
                }
            }
        }
    }
}

/// A fetch that waits on one partition; dropping it ends the wait.
pub struct Parked<P: Platform> {
    driver: Rc<PartitionDriver<P>>,
    token: WaiterToken,
}

impl<P: Platform> Drop for Parked<P> {
    fn drop(&mut self) {
        let waits = self.driver.parked.borrow_mut().remove(&self.token).is_some();
        if waits {
            self.driver.step(Input::CancelFetch(self.token));
        }
    }
}
