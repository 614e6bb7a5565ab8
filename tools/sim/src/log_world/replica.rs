//! One log with its leader, driven as the broker drives them, and the clients that speak to it.
//!
//! Owns the order that the broker owes: decide, append and wait in one turn; every progress of the log reaches the leader
//! before anything else; an acknowledgement is what the leader says, never what the log says.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;

use commitlog::{AppendError, Ends, IoStage, Log, LogFailure, LogListener, SafeEnd};
use partition::{
    Acks, AppendDecision, Attempt, Effect, EndReason, InSync, Input, Leader, LeaderStart,
    LogProgress, ProduceOutcome, ProduceWaiter, Producers, WaiterToken, Written,
};
use record::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::batches::{self, Draft, Sender, Shape};
use super::model::LogModel;
use super::{World, WorldLog};
use crate::disk::SimDisk;
use crate::executor::SimExecutor;
use crate::prng::OneIn;
use crate::verdict::{Verdict, broken};

pub(super) type SimLog = Log<SimDisk, SimExecutor>;

/// Waiters of one life never time out by virtual time: what is not acknowledged is still waiting.
const NEVER: Duration = Duration::from_secs(1 << 40);

/// How often a producer sends one of its last batches again.
const RETRY_ODDS: OneIn = OneIn(5);

/// A led log.
pub(super) struct Replica {
    world: Rc<World>,
    /// Index into the world's logs.
    pub(super) index: usize,
    pub(super) log: SimLog,
    epoch: LeaderEpoch,
    leader: RefCell<Leader>,
    producers: Rc<RefCell<Producers>>,
    /// What each waiting token waits for.
    waiting: RefCell<BTreeMap<u64, Offset>>,
    token_last: Cell<u64>,
    pub(super) failure: Cell<Option<LogFailure>>,
    /// What was safe when write caching began or ended last: all below it was promised for a killed process only.
    cached_until: Cell<Offset>,
    /// What acknowledgements were told to wait for: the log is not asked what it made of that.
    pub(super) safe_end: Cell<SafeEnd>,
    /// Offsets that reads of this life refused as damaged: each must be listed for the operator.
    pub(super) refused: RefCell<Vec<Range<Offset>>>,
}

/// What became of an attempt to produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Produced {
    /// Appended, or met its original.
    Taken,
    /// Bounded memory: try again later.
    Later,
    /// The log takes nothing more in this life.
    Refused,
}

struct Listener(Weak<Replica>);

impl LogListener for Listener {
    fn progressed(&self, ends: Ends) {
        if let Some(replica) = self.0.upgrade() {
            replica.of().model.borrow_mut().became_durable(ends.durable().0);
            replica.step(Input::Log(progress(ends)));
            // Here and not where it was asked for: a crash may come before the asker goes on.
            let moved = replica.of().model.borrow_mut().start_moved(ends.log_start().0);
            if let Err(violation) = moved {
                replica.world.report(violation);
            }
        }
    }

    fn failed(&self, failure: LogFailure) {
        let Some(replica) = self.0.upgrade() else { return };
        replica.failure.set(Some(failure));
        if matches!(failure, LogFailure::Io { stage: IoStage::Sync, .. }) {
            replica.of().model.borrow_mut().power_failed();
        }
        let reason = match failure {
            LogFailure::NoSpace => EndReason::DiskFull,
            LogFailure::Io { .. } | LogFailure::Refused { .. } => EndReason::LogFailed,
            LogFailure::Closed => EndReason::ShuttingDown,
        };
        replica.step(Input::End(reason));
    }
}

fn progress(ends: Ends) -> LogProgress {
    ends.check();
    LogProgress {
        log_start: ends.log_start(),
        durable: ends.durable(),
        safe_end: ends.safe_end(),
        written: ends.written(),
        accepted: ends.accepted(),
    }
}

impl Replica {
    /// Takes the lead of a recovered log.
    pub(super) fn lead(
        world: &Rc<World>,
        index: usize,
        log: SimLog,
        producers: Rc<RefCell<Producers>>,
        epoch: LeaderEpoch,
    ) -> Rc<Self> {
        let leader = Leader::new(&LeaderStart {
            epoch,
            log: progress(log.ends()),
            checkpointed_high_watermark: log.checkpointed_high_watermark(),
            in_sync: InSync::ALONE,
            mutant: world.mutant.leader,
        });
        let replica = Rc::new(Self {
            world: Rc::clone(world),
            index,
            log,
            epoch,
            leader: RefCell::new(leader),
            producers,
            waiting: RefCell::default(),
            token_last: Cell::new(0),
            failure: Cell::new(None),
            cached_until: Cell::new(Offset::ZERO),
            safe_end: Cell::new(world.logs[index].safe_end()),
            refused: RefCell::default(),
        });
        replica.log.begin_epoch(epoch);
        replica.log.set_high_watermark(replica.high_watermark());
        replica.log.set_listener(Rc::new(Listener(Rc::downgrade(&replica))));
        replica
    }

    pub(super) fn of(&self) -> &WorldLog {
        &self.world.logs[self.index]
    }

    pub(super) fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    pub(super) fn high_watermark(&self) -> Offset {
        self.leader.borrow().high_watermark()
    }

    /// How many producers still wait.
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Feeds the leader and obeys it.
    fn step(&self, input: Input) {
        let mut effects = Vec::new();
        let mut leader = self.leader.borrow_mut();
        leader.step(self.world.executor.now(), input, &mut effects);
        leader.check();
        drop(leader);
        for effect in effects {
            self.obey(&effect);
        }
    }

    fn obey(&self, effect: &Effect) {
        let mut model = self.of().model.borrow_mut();
        match effect {
            Effect::HighWatermark(offset) => {
                self.world.trace.note(
                    "visible",
                    &self.of().directory(),
                    [offset.0.unsigned_abs(), 0],
                );
                self.log.set_high_watermark(*offset);
                // What a reader may have seen must stay, as if it had been acknowledged to its producer.
                self.promise(&mut model, *offset);
            }
            Effect::CompleteProduce { token, outcome } => {
                let last_offset = self.waiting.borrow_mut().remove(&token.0);
                if let (Some(last_offset), ProduceOutcome::Acked) = (last_offset, outcome) {
                    self.world.trace.note(
                        "acked",
                        &self.of().directory(),
                        [last_offset.0.unsigned_abs(), token.0],
                    );
                    self.promise(&mut model, Offset(last_offset.0 + 1));
                }
            }
            Effect::AnswerFetch { .. } | Effect::WakeFetches { .. } => {}
        }
    }

    /// Someone was told that all below `end` is safe.
    fn promise(&self, model: &mut LogModel, end: Offset) {
        match self.safe_end.get() {
            SafeEnd::Durable if end > self.cached_until.get() => {
                model.acknowledge_durable(end.0 - 1);
            }
            _ => model.acknowledge(end.0 - 1),
        }
    }

    /// Write caching begins or ends.
    pub(super) fn set_safe_end(&self, safe_end: SafeEnd) {
        self.cached_until.set(self.cached_until.get().max(self.log.ends().safe_end()));
        self.safe_end.set(safe_end);
        self.log.set_options(self.world.log_options(safe_end));
    }

    /// One produce request: a new batch, or an old one again.
    pub(super) fn produce(&self) -> Verdict<Produced> {
        let sender = self.world.chance(|prng| prng.below(4));
        // What a damaged batch says of its producer may be gone with it: no promise is left to check.
        let has_rot = self.of().model.borrow().has_rot();
        let sender = if has_rot { 0 } else { sender };
        let sender = ProducerId(i64::try_from(sender).expect("below 4") - 1);
        if sender != ProducerId::NONE
            && self.world.chance(|prng| prng.happens(RETRY_ODDS))
            && let Some(produced) = self.retry(sender)?
        {
            return Ok(produced);
        }
        self.send_new(self.next_of(sender))
    }

    /// Where this producer goes on, by the model.
    fn next_of(&self, id: ProducerId) -> Sender {
        if id == ProducerId::NONE {
            return Sender::PLAIN;
        }
        let model = self.of().model.borrow();
        let last = model.batches.iter().rev().find(|batch| batch.draft.header.producer_id == id);
        let start = Sender { id, epoch: ProducerEpoch(0), sequence: 0 };
        last.map_or(start, |batch| {
            let header = &batch.draft.header;
            let sequence = header.last_sequence().checked_add(1).unwrap_or(0);
            Sender { id, epoch: header.producer_epoch, sequence }
        })
    }

    fn send_new(&self, sender: Sender) -> Verdict<Produced> {
        let now = self.world.now();
        let block_fill =
            self.of().model.borrow().batches.iter().map(|batch| batch.bytes.len()).sum();
        let shape = Shape { block_fill, bytes_max: self.world.config.segment_bytes as usize, now };
        let draft = self.world.chance(|prng| batches::draw(prng, shape, sender));
        match self.decide(&draft) {
            AppendDecision::Append => self.append(draft, now),
            AppendDecision::Refuse(_) if self.failure.get().is_some() => Ok(Produced::Refused),
            other => broken("a batch that continues is taken", format!("{other:?}")),
        }
    }

    fn append(&self, draft: Draft, now: Timestamp) -> Verdict<Produced> {
        let result = self.log.append(now, self.epoch, &draft.header, &draft.bytes);
        match result {
            Ok(appended) => {
                if let Some(failure) = self.failure.get() {
                    return broken(
                        "a failed log refuses appends",
                        format!("{failure}, then {appended:?}"),
                    );
                }
                let (base, bytes) = (appended.base_offset, draft.bytes.len() as u64);
                self.world.trace.note(
                    "accepted",
                    &self.of().directory(),
                    [base.0.unsigned_abs(), bytes],
                );
                self.of().model.borrow_mut().accept(draft, base.0, self.epoch.0)?;
                self.world.count(|stats| stats.batches += 1);
                self.step(Input::Log(progress(self.log.ends())));
                self.wait(Written::Now, appended.last_offset);
                Ok(Produced::Taken)
            }
            Err(AppendError::Full { .. }) => Ok(Produced::Later),
            Err(AppendError::ReadOnly { .. } | AppendError::NoSpace) => match self.failure.get() {
                Some(_) => Ok(Produced::Refused),
                None => broken("a healthy log takes appends", format!("{result:?}")),
            },
            Err(error) => broken("a healthy log takes appends", format!("{error:?}")),
        }
    }

    /// Sends one of the producer's last five batches again; `None` if it has none.
    fn retry(&self, id: ProducerId) -> Verdict<Option<Produced>> {
        let model = self.of().model.borrow();
        let batches = model.batches.iter().rev();
        let own: Vec<_> =
            batches.filter(|batch| batch.draft.header.producer_id == id).take(5).cloned().collect();
        drop(model);
        if own.is_empty() {
            return Ok(None);
        }
        let original = self.world.chance(|prng| prng.pick(&own).clone());
        match self.decide(&original.draft) {
            AppendDecision::Duplicate(found) => {
                let range = (found.base_offset.0, found.last_offset.0);
                if range != (original.base, original.last) {
                    let detail = format!("{found:?} for {}..={}", original.base, original.last);
                    return broken("a retry is answered with the original offsets", detail);
                }
                self.wait(Written::Before, found.last_offset);
                self.world.count(|stats| stats.duplicates += 1);
                Ok(Some(Produced::Taken))
            }
            AppendDecision::Refuse(_) if self.failure.get().is_some() => {
                Ok(Some(Produced::Refused))
            }
            other => {
                let detail = format!("{other:?} for {}..={}", original.base, original.last);
                broken("one of the last five batches is known", detail)
            }
        }
    }

    fn decide(&self, draft: &Draft) -> AppendDecision {
        let header = &draft.header;
        let attempt = Attempt {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            last_offset_delta: header.last_offset_delta,
            is_transactional: false,
            is_control: false,
        };
        self.leader.borrow().decide(&self.producers.borrow(), &attempt, Some(Acks::InSync))
    }

    fn wait(&self, written: Written, last_offset: Offset) {
        let token = self.token_last.get() + 1;
        self.token_last.set(token);
        self.waiting.borrow_mut().insert(token, last_offset);
        let acks = if self.world.chance(|prng| prng.coin()) { Acks::Leader } else { Acks::InSync };
        let token = WaiterToken(token);
        let deadline = self.world.executor.now() + NEVER;
        self.step(Input::Wait(ProduceWaiter { token, acks, written, last_offset, deadline }));
    }

    pub(super) fn producers(&self) -> &RefCell<Producers> {
        &self.producers
    }
}
