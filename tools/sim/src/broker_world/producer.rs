//! Producers: they pipeline up to five requests on a connection, and ask again what they were not answered.
//!
//! Owns the batches of each producer and what is known of them; it outlives connections and the process. An idempotent one
//! sends the batches of a partition in their order and has at most five of them open, as Kafka's clients do. A plain one
//! sends again or gives up. Which core a request comes to has nothing to do with who owns its partitions.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use record::{
    BatchBuilder, BatchHeader, Codec, NewRecord, PartitionIndex, Producer, ProducerEpoch,
    ProducerId, Timestamp,
};
use wire::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData,
};
use wire::{ErrorCode, Records};

use super::connection::{Answered, Connection, read};
use super::history::{BatchId, Guarantee, NewBatch, Place};
use super::{LifePlan, World};
use crate::platform::{EPOCH_MS, SimMachine};
use crate::prng::{OneIn, Prng};
use crate::verdict::{Verdict, broken};

/// Batches of one partition that an idempotent producer may have open: what the broker remembers.
const OPEN_MAX: usize = 5;
/// Requests under way on one connection.
const PIPELINE_MAX: u64 = 5;
/// Partitions in one request.
const PARTITIONS_MAX: u64 = 4;
/// How often a producer ends its connection of its own accord.
const CUT_ODDS: OneIn = OneIn(40);
/// How long a producer goes on while the node is at fault.
const PERSEVERANCE: Duration = Duration::from_secs(20);
/// How long it may take to be served while nothing is at fault.
const PATIENCE: Duration = Duration::from_secs(300);
/// Timestamps tell partitions apart: they are equal modulo this only within one.
pub(super) const RESIDUES: i64 = 16;

/// How a producer works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Idempotent,
    /// With so many acks.
    Plain(i16),
}

impl Kind {
    /// The first is idempotent, the others are what comes.
    pub(super) fn draw(prng: &mut Prng, index: usize) -> Self {
        if index == 0 || prng.coin() {
            return Self::Idempotent;
        }
        Self::Plain(*prng.pick(&[-1, -1, 1, 0]))
    }
}

/// A batch that is not acknowledged yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    id: BatchId,
    is_under_way: bool,
}

/// The batches of one producer for one partition.
#[derive(Debug, Default)]
struct Lane {
    next_number: u64,
    next_sequence: i32,
    open: VecDeque<Open>,
}

/// A producer, in all lives.
#[derive(Debug)]
pub(super) struct ProducerState {
    kind: Kind,
    identity: Option<(ProducerId, ProducerEpoch)>,
    lanes: BTreeMap<Place, Lane>,
}

impl ProducerState {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, identity: None, lanes: BTreeMap::new() }
    }

    fn has_open(&self) -> bool {
        self.lanes.values().any(|lane| !lane.open.is_empty())
    }

    /// The connection is gone: nobody knows what became of what was under way on it.
    fn lose_connection(&mut self, world: &World) {
        for lane in self.lanes.values_mut() {
            let is_plain = self.kind != Kind::Idempotent;
            let is_given_up =
                |open: &Open| is_plain && open.is_under_way && world.chance(Prng::coin);
            lane.open.retain(|open| !is_given_up(open));
            lane.open.iter_mut().for_each(|open| open.is_under_way = false);
        }
    }

    /// The first batch of the lane that waits to be sent.
    fn waiting(&self, place: Place) -> Option<BatchId> {
        let open = &self.lanes.get(&place)?.open;
        open.iter().find(|open| !open.is_under_way).map(|open| open.id)
    }

    fn open_count(&self, place: Place) -> usize {
        self.lanes.get(&place).map_or(0, |lane| lane.open.len())
    }

    fn set_under_way(&mut self, place: Place, id: BatchId, is_under_way: bool) {
        let open = self.lanes.entry(place).or_default().open.iter_mut();
        open.filter(|open| open.id == id).for_each(|open| open.is_under_way = is_under_way);
    }

    fn close(&mut self, place: Place, id: BatchId) {
        self.lanes.entry(place).or_default().open.retain(|open| open.id != id);
    }

    fn is_first_open(&self, place: Place, id: BatchId) -> bool {
        let lane = self.lanes.get(&place);
        lane.and_then(|lane| lane.open.front()).is_some_and(|open| open.id == id)
    }
}

/// What a request under way carries.
struct UnderWay {
    version: i16,
    acks: i16,
    parts: Vec<(Place, BatchId)>,
}

/// A producer at work in one life.
struct Work {
    world: Rc<World>,
    plan: LifePlan,
    index: usize,
    /// Batches that are still to be made.
    left: u64,
    under_way: VecDeque<UnderWay>,
    /// The last offset that a plain producer was told on this connection, by partition.
    last_told: BTreeMap<Place, i64>,
}

/// Whether to go on with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Reconnect,
    Done,
}

/// Produces until all that is to be sent in this life is acknowledged or, while the node is at fault, for long enough.
pub(super) async fn produce(
    world: Rc<World>,
    machine: SimMachine,
    plan: LifePlan,
    index: usize,
) -> Verdict {
    let left = world.chance(|prng| prng.below(world.config.batches_per_life + 1));
    let (under_way, last_told) = (VecDeque::new(), BTreeMap::new());
    let mut work = Work { world: Rc::clone(&world), plan, index, left, under_way, last_told };
    // The last life may have ended with a crash.
    work.state(|state| state.lose_connection(&world));
    let started = world.executor.now();
    loop {
        let elapsed = world.executor.now() - started;
        if plan.is_last && elapsed > PATIENCE {
            return broken("producers get on", format!("producer {index} waits for its batches"));
        }
        if !plan.is_last && elapsed > PERSEVERANCE {
            return Ok(());
        }
        let Some(connection) = Connection::open(&world, &machine, plan) else {
            world.executor.sleep(Duration::from_millis(50)).await;
            continue;
        };
        let next = work.serve(connection, started).await?;
        work.under_way.clear();
        work.last_told.clear();
        work.state(|state| state.lose_connection(&world));
        if next == Next::Done {
            return Ok(());
        }
        world.pause((1, 100)).await;
    }
}

impl Work {
    fn state<T>(&self, act: impl FnOnce(&mut ProducerState) -> T) -> T {
        act(&mut self.world.producers[self.index].borrow_mut())
    }

    fn kind(&self) -> Kind {
        self.state(|state| state.kind)
    }

    /// One connection, until it ends or there is nothing left to do.
    async fn serve(&mut self, mut connection: Connection, started: Duration) -> Verdict<Next> {
        if self.kind() == Kind::Idempotent
            && self.state(|state| state.identity).is_none()
            && !self.ask_identity(&mut connection).await?
        {
            return Ok(Next::Reconnect);
        }
        let depth = self.world.chance(|prng| prng.between(1, PIPELINE_MAX));
        let limit = if self.plan.is_last { PATIENCE } else { PERSEVERANCE };
        loop {
            if self.world.executor.now() - started > limit {
                return Ok(Next::Reconnect);
            }
            while connection.under_way() < usize::try_from(depth).expect("five")
                && let Some(parts) = self.choose()
            {
                self.send(&mut connection, parts);
            }
            if connection.under_way() == 0 {
                let is_done = self.left == 0 && !self.state(|state| state.has_open());
                if is_done {
                    return Ok(Next::Done);
                }
                self.pause(20).await;
                continue;
            }
            if !self.plan.is_last && self.world.chance(|prng| prng.happens(CUT_ODDS)) {
                self.cut(connection);
                return Ok(Next::Reconnect);
            }
            let Some(frame) = connection.hear().await? else { return Ok(Next::Reconnect) };
            if self.take_answer(&frame)? == Next::Reconnect {
                self.pause(200).await;
            }
            if self.world.chance(|prng| prng.happens(OneIn(3))) {
                self.pause(3).await;
            }
        }
    }

    async fn pause(&self, ms_max: u64) {
        let pause = self.world.chance(|prng| prng.between(1, ms_max * 1000));
        self.world.executor.sleep(Duration::from_micros(pause)).await;
    }

    /// False where the connection ended, or there was no id to be had.
    async fn ask_identity(&mut self, connection: &mut Connection) -> Verdict<bool> {
        let request = InitProducerIdRequest { transaction_timeout_ms: 1000, ..Default::default() };
        let Some(frame) = connection.call(4, &request).await? else { return Ok(false) };
        let answer: InitProducerIdResponse = read(4, &frame)?;
        if answer.error_code != ErrorCode::None {
            return Ok(false);
        }
        let identity = (answer.producer_id, answer.producer_epoch);
        let is_taken = |other: &std::cell::RefCell<ProducerState>| {
            other.borrow().identity.is_some_and(|known| known.0 == identity.0)
        };
        if self.world.producers.iter().any(is_taken) {
            return broken("producer ids are given out once", format!("{identity:?}"));
        }
        self.state(|state| state.identity = Some(identity));
        Ok(true)
    }

    /// What the next request carries: what waits, and new batches; `None` where there is nothing to send.
    fn choose(&mut self) -> Option<Vec<(Place, BatchId)>> {
        let count = self.world.history.borrow().partitions.len();
        let mut places: Vec<Place> = (0..count).map(Place).collect();
        self.world.chance(|prng| prng.shuffle(&mut places));
        let most = self.world.chance(|prng| prng.between(1, PARTITIONS_MAX));
        let most = usize::try_from(most).expect("a few");
        let mut parts = Vec::new();
        for place in places {
            if parts.len() == most {
                break;
            }
            if let Some(id) = self.state(|state| state.waiting(place)) {
                parts.push((place, id));
            } else if self.left > 0 && self.state(|state| state.open_count(place)) < OPEN_MAX {
                self.left -= 1;
                parts.push((place, self.make(place)));
            }
        }
        (!parts.is_empty()).then_some(parts)
    }

    /// A new batch for a partition.
    fn make(&self, place: Place) -> BatchId {
        let world = &self.world;
        let (number, sequence, identity) = self.state(|state| {
            let lane = state.lanes.entry(place).or_default();
            (lane.next_number, lane.next_sequence, state.identity)
        });
        let producer = match identity {
            Some((id, epoch)) => Producer { id, epoch, base_sequence: sequence },
            None => Producer::NONE,
        };
        let records = world.chance(|prng| prng.between(1, 5));
        let residue = i64::try_from(place.0).expect("a few") % RESIDUES;
        let now = EPOCH_MS + i64::try_from(world.executor.now().as_millis()).expect("hours");
        let mut base_timestamp = now / RESIDUES * RESIDUES + residue;
        let codec =
            world.chance(|prng| if prng.coin() { Codec::None } else { *prng.pick(&Codec::ALL) });
        let (bytes, crc) = loop {
            let mut builder = BatchBuilder::new(codec).producer(producer);
            for record in 0..records {
                let value = self.value(place, number, record);
                let timestamp = Timestamp(base_timestamp);
                let value = Some(value.as_slice());
                builder.append(&NewRecord { timestamp, value, ..NewRecord::default() });
            }
            let bytes = builder.build();
            let header = BatchHeader::parse(&bytes).expect("a batch that was just built");
            if !world.history.borrow().knows(header.crc) {
                break (bytes, header.crc);
            }
            base_timestamp -= RESIDUES;
        };
        let kind = self.kind();
        let guarantee = match kind {
            Kind::Idempotent => Guarantee::Once,
            Kind::Plain(_) => Guarantee::AsOftenAsSent,
        };
        let producer = self.index;
        let records = i64::try_from(records).expect("a few");
        let new = NewBatch { producer, place, number, guarantee, bytes, records, base_timestamp };
        let id = world.history.borrow_mut().add(crc, new.into());
        self.state(|state| {
            let lane = state.lanes.entry(place).or_default();
            lane.next_number += 1;
            lane.next_sequence += i32::try_from(records).expect("a few");
            lane.open.push_back(Open { id, is_under_way: false });
        });
        id
    }

    /// Says whose it is, and then anything.
    fn value(&self, place: Place, number: u64, record: u64) -> Vec<u8> {
        let mut value = format!("{}/{}/{number}/{record}/", self.index, place.0).into_bytes();
        self.world.chance(|prng| {
            let bytes =
                usize::try_from(prng.below(self.world.config.batch_bytes_max)).expect("small");
            let from = value.len();
            value.resize(from + bytes / 4, 0);
            prng.fill(&mut value[from..]);
        });
        value
    }

    fn send(&mut self, connection: &mut Connection, parts: Vec<(Place, BatchId)>) {
        let version = self.world.chance(|prng| *prng.pick(&[7, 9, 11, 12, 13]));
        let acks = match self.kind() {
            Kind::Idempotent => -1,
            Kind::Plain(acks) => acks,
        };
        for (place, id) in &parts {
            let before = self.world.history.borrow_mut().sent(*id);
            self.world.count(|stats| stats.retries += u64::from(before > 0));
            self.state(|state| state.set_under_way(*place, *id, true));
        }
        self.world.count(|stats| stats.produces += 1);
        self.with_request(acks, &parts, |request| {
            let answered = if acks == 0 { Answered::No } else { Answered::Yes };
            connection.send(version, request, answered);
        });
        if acks == 0 {
            // Nobody will ever tell what became of it.
            parts.iter().for_each(|(place, id)| self.state(|state| state.close(*place, *id)));
            return;
        }
        self.under_way.push_back(UnderWay { version, acks, parts });
    }

    /// Builds the request of these batches, topic by topic, and lends it out.
    fn with_request<T>(
        &self,
        acks: i16,
        parts: &[(Place, BatchId)],
        lend: impl FnOnce(&ProduceRequest<'_>) -> T,
    ) -> T {
        let history = self.world.history.borrow();
        let mut topic_data: Vec<TopicProduceData<'_>> = Vec::new();
        for (place, id) in parts {
            let partition = history.partition(*place);
            let topic = &history.topics[partition.topic];
            let data = PartitionProduceData {
                index: PartitionIndex(partition.index),
                records: Records::Inline(&history.batch(*id).bytes),
            };
            match topic_data.iter_mut().find(|one| *one.name == *topic.name) {
                Some(known) => known.partition_data.push(data),
                None => topic_data.push(TopicProduceData {
                    name: (&*topic.name).into(),
                    topic_id: topic.id.expect("known before producers start"),
                    partition_data: vec![data],
                }),
            }
        }
        let is_short = !self.plan.is_last && self.world.chance(|prng| prng.happens(OneIn(10)));
        let timeout_ms = if is_short { self.world.chance(|p| p.between(1, 60)) } else { 30_000 };
        let timeout_ms = i32::try_from(timeout_ms).expect("small");
        lend(&ProduceRequest { transactional_id: None, acks, timeout_ms, topic_data })
    }

    /// Ends the connection with requests under way, or within another.
    fn cut(&mut self, connection: Connection) {
        let parts = self.under_way.back().map(|under_way| under_way.parts.clone());
        let Some(parts) = parts.filter(|_| self.world.chance(Prng::coin)) else {
            return connection.cut();
        };
        // What does not arrive whole was not sent.
        let bytes = self.world.chance(|prng| prng.between(1, 500));
        let bytes = usize::try_from(bytes).expect("small");
        self.with_request(-1, &parts, |request| connection.cut_within(9, request, bytes));
    }

    /// [`Next::Reconnect`] where something was refused: the producer waits before it goes on.
    fn take_answer(&mut self, frame: &[u8]) -> Verdict<Next> {
        let Some(UnderWay { version, acks, mut parts }) = self.under_way.pop_front() else {
            return broken("nothing is answered that was not asked", "produce");
        };
        let answer: ProduceResponse<'_> = read(version, frame)?;
        let mut next = Next::GoOn;
        for topic in answer.responses {
            for found in topic.partition_responses {
                let place = self.place_of(version, &topic.name, topic.topic_id, found.index.0);
                let Some(at) = parts.iter().position(|(asked, _)| Some(*asked) == place) else {
                    let detail = format!("{}-{}", topic.name, found.index.0);
                    return broken("an answer names what was asked", detail);
                };
                let (place, id) = parts.remove(at);
                if self.take_outcome(place, id, acks, &found)? == Next::Reconnect {
                    next = Next::Reconnect;
                }
            }
        }
        if parts.is_empty() {
            return Ok(next);
        }
        broken("an answer names what was asked", format!("{parts:?} is left out"))
    }

    fn place_of(&self, version: i16, name: &str, id: record::TopicId, index: i32) -> Option<Place> {
        let history = self.world.history.borrow();
        let topic = history.topics.iter().position(|topic| match version {
            13.. => topic.id == Some(id),
            _ => *topic.name == *name,
        });
        history.place(topic?, index)
    }

    fn take_outcome(
        &mut self,
        place: Place,
        id: BatchId,
        acks: i16,
        found: &PartitionProduceResponse<'_>,
    ) -> Verdict<Next> {
        let base = found.base_offset.0;
        let code = i64::from(found.error_code.code());
        self.world.trace.note("produced", "", [id.0 as u64, (code << 32 | base).cast_unsigned()]);
        if found.error_code == ErrorCode::None {
            let mut history = self.world.history.borrow_mut();
            history.acknowledged(id, base, acks == -1)?;
            let words = history.words(id);
            drop(history);
            self.state(|state| state.close(place, id));
            self.world.count(|stats| stats.acked_batches += 1);
            if self.kind() != Kind::Idempotent {
                let before = self.last_told.insert(place, base);
                if before.is_some_and(|before| before >= base) {
                    let detail = format!("{words}: {base} after {before:?}");
                    return broken("pipelined requests are appended in their order", detail);
                }
            }
            return Ok(Next::GoOn);
        }
        self.check_refusal(place, id, found)?;
        self.state(|state| state.set_under_way(place, id, false));
        if self.kind() != Kind::Idempotent && self.world.chance(Prng::coin) {
            self.state(|state| state.close(place, id));
        }
        Ok(Next::Reconnect)
    }

    /// A refusal must be one that the faults explain.
    fn check_refusal(
        &self,
        place: Place,
        id: BatchId,
        found: &PartitionProduceResponse<'_>,
    ) -> Verdict {
        let words = self.world.history.borrow().words(id);
        let error = found.error_code;
        let detail = || format!("{words}: {error:?}, {:?}", found.error_message);
        let is_idempotent = self.kind() == Kind::Idempotent;
        let is_explained = match error {
            // One before it was refused, and will come again.
            ErrorCode::OutOfOrderSequenceNumber => {
                is_idempotent && !self.state(|state| state.is_first_open(place, id))
            }
            ErrorCode::RequestTimedOut
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::KafkaStorageError => !self.plan.is_last,
            _ => false,
        };
        if is_explained { Ok(()) } else { broken("refusals are explained by faults", detail()) }
    }
}
