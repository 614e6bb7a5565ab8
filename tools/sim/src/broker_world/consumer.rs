//! Consumers: long polls, with and without fetch sessions.
//!
//! Owns the position of each consumer for one life. What it is shown is compared with the history; in the last life it must
//! be shown everything.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use broker::sync::Flag;
use record::{Offset, PartitionIndex};
use wire::ErrorCode;
use wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData};

use super::connection::{Connection, read};
use super::history::{Known, Place, Shown};
use super::{LifePlan, World, trimming};
use crate::platform::SimMachine;
use crate::prng::{OneIn, Prng};
use crate::verdict::{Verdict, broken};

/// How often a consumer leaves within a long poll.
const CUT_ODDS: OneIn = OneIn(60);
/// How long it may take to be shown everything once nothing is at fault and nothing more comes.
const PATIENCE: Duration = Duration::from_secs(300);

/// A fetch session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    id: i32,
    epoch: i32,
}

/// What a request asks of each partition.
pub(super) type Asked = BTreeMap<Place, Known>;

/// What an answer says of the partitions that it names.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// Where the reader goes on in each.
    pub(super) next: BTreeMap<Place, i64>,
    /// Those in which it asked for what is gone: it goes on where their logs begin.
    pub(super) gone: Vec<Place>,
}

/// How much a reader asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Appetite {
    pub(super) max_wait_ms: i32,
    pub(super) min_bytes: i32,
    pub(super) max_bytes: i32,
    pub(super) partition_max_bytes: i32,
}

struct Consumer {
    world: Rc<World>,
    plan: LifePlan,
    positions: BTreeMap<Place, i64>,
    /// Partitions whose position the session has not been told.
    untold: Vec<Place>,
    version: i16,
    wants_session: bool,
    session: Option<Session>,
}

/// Consumes until `is_over`, and in the last life until everything was shown.
pub(super) async fn consume(
    world: Rc<World>,
    machine: SimMachine,
    plan: LifePlan,
    is_over: Flag,
) -> Verdict {
    let mut consumer = Consumer::draw(&world, plan);
    let mut over_since = None;
    loop {
        if is_over.is_raised() {
            let since = *over_since.get_or_insert(world.executor.now());
            if !plan.is_last || consumer.has_everything() {
                return Ok(());
            }
            if world.executor.now() - since > PATIENCE {
                let detail = format!("{:?}", consumer.positions);
                return broken("consumers are shown everything", detail);
            }
        }
        let Some(mut connection) = Connection::open(&world, &machine, plan) else {
            world.executor.sleep(Duration::from_millis(50)).await;
            continue;
        };
        consumer.session = None;
        loop {
            if is_over.is_raised() && (!plan.is_last || consumer.has_everything()) {
                return Ok(());
            }
            let asked = consumer.ask(&mut connection);
            if !plan.is_last && world.chance(|prng| prng.happens(CUT_ODDS)) {
                connection.cut();
                break;
            }
            let Some(frame) = connection.hear().await? else { break };
            let gone = consumer.take_answer(&asked, &frame)?;
            if !consumer.find_start(&mut connection, gone).await? {
                break;
            }
            let is_pausing = world.chance(|prng| prng.happens(OneIn(4)));
            if is_pausing || plan.is_last {
                world.pause((1, 20)).await;
            }
        }
    }
}

impl Consumer {
    fn draw(world: &Rc<World>, plan: LifePlan) -> Self {
        let history = world.history.borrow();
        let mut positions = BTreeMap::new();
        for place in (0..history.partitions.len()).map(Place) {
            if world.chance(|prng| prng.happens(OneIn(4))) && !positions.is_empty() {
                continue;
            }
            let known = history.partition(place).high_watermark;
            let from = if world.chance(Prng::coin) { 0 } else { known };
            positions.insert(place, from);
        }
        let version = world.chance(|prng| *prng.pick(&[11, 12, 13, 16]));
        let wants_session = world.chance(Prng::coin);
        let world = Rc::clone(world);
        Self { world, plan, positions, untold: Vec::new(), version, wants_session, session: None }
    }

    fn has_everything(&self) -> bool {
        let history = self.world.history.borrow();
        let mut positions = self.positions.iter();
        positions.all(|(place, at)| *at >= history.partition(*place).high_watermark)
    }

    /// Sends the next request; returns what it stands for, the partitions that a session leaves out included.
    fn ask(&mut self, connection: &mut Connection) -> Asked {
        let mut places: Vec<Place> = match self.session {
            Some(_) => std::mem::take(&mut self.untold),
            None => self.positions.keys().copied().collect(),
        };
        self.world.chance(|prng| prng.shuffle(&mut places));
        let appetite = self.world.chance(|prng| Appetite {
            max_wait_ms: *prng.pick(&[0, 5, 100, 500]),
            min_bytes: *prng.pick(&[0, 1, 1, 2_000]),
            max_bytes: *prng.pick(&[1, 6_000, 1 << 20]),
            partition_max_bytes: *prng.pick(&[1, 2_000, 1 << 20]),
        });
        let asked = asked_of(&self.world, &self.positions);
        let mut request = request_of(&self.world, &asked, &places, appetite);
        (request.session_id, request.session_epoch) = match (self.session, self.wants_session) {
            (Some(session), _) => (session.id, session.epoch),
            (None, true) => (0, 0),
            (None, false) => (0, -1),
        };
        connection.send(self.version, &request, super::connection::Answered::Yes);
        asked
    }

    /// Goes on at the start of the logs in which it asked for what is gone; false at the end of the connection.
    async fn find_start(&mut self, connection: &mut Connection, gone: Vec<Place>) -> Verdict<bool> {
        if gone.is_empty() {
            return Ok(true);
        }
        let is_last = self.plan.is_last;
        let Some(starts) = trimming::starts(&self.world, connection, &gone, is_last).await? else {
            return Ok(false);
        };
        for (place, start) in starts {
            self.positions.insert(place, start);
            self.untold.push(place);
        }
        Ok(true)
    }

    /// Takes an answer in; gives the partitions in which it asked for what is gone.
    fn take_answer(&mut self, asked: &Asked, frame: &[u8]) -> Verdict<Vec<Place>> {
        let answer: FetchResponse<'_> = read(self.version, frame)?;
        self.world.count(|stats| stats.fetches += 1);
        match answer.error_code {
            ErrorCode::None => {}
            ErrorCode::FetchSessionIdNotFound | ErrorCode::InvalidFetchSessionEpoch
                if self.session.is_some() =>
            {
                self.session = None;
                return Ok(Vec::new());
            }
            other => {
                return broken("refusals are explained by faults", format!("fetch: {other:?}"));
            }
        }
        let was_in_session = self.session.is_some();
        self.session = match (answer.session_id, self.session) {
            (0, _) => None,
            (id, Some(session)) if session.id != id => {
                return broken("a session keeps its id", format!("{id}, {session:?}"));
            }
            (id, session) => {
                let epoch = session.map_or(1, |session| session.epoch.checked_add(1).unwrap_or(1));
                Some(Session { id, epoch })
            }
        };
        let answered =
            take_partitions(&self.world, self.version, asked, &answer, self.plan.is_last)?;
        if !was_in_session && answered.next.len() != asked.len() {
            let detail = format!("{} of {} partitions", answered.next.len(), asked.len());
            return broken("an answer names what was asked", detail);
        }
        for (place, next) in answered.next {
            let at = self.positions.entry(place).or_default();
            if *at != next {
                *at = next;
                self.untold.push(place);
            }
        }
        Ok(answered.gone)
    }
}

/// What a reader with these positions knows when it asks.
pub(super) fn asked_of(world: &World, positions: &BTreeMap<Place, i64>) -> Asked {
    let history = world.history.borrow();
    let asked = positions.iter().map(|(place, from)| {
        let partition = history.partition(*place);
        let (high_watermark, log_start) = (partition.high_watermark, partition.log_start);
        (*place, Known { from: *from, high_watermark, log_start })
    });
    asked.collect()
}

/// A Fetch of these partitions, in this order.
pub(super) fn request_of(
    world: &World,
    asked: &Asked,
    places: &[Place],
    appetite: Appetite,
) -> FetchRequest<'static> {
    let history = world.history.borrow();
    let mut topics: Vec<FetchTopic<'static>> = Vec::new();
    for place in places {
        let partition = history.partition(*place);
        let topic = &history.topics[partition.topic];
        let wanted = FetchPartition {
            partition: PartitionIndex(partition.index),
            fetch_offset: Offset(asked.get(place).map_or(0, |known| known.from)),
            partition_max_bytes: appetite.partition_max_bytes,
            ..Default::default()
        };
        match topics.iter_mut().find(|one| *one.topic == *topic.name) {
            Some(known) => known.partitions.push(wanted),
            None => topics.push(FetchTopic {
                topic: topic.name.to_string().into(),
                topic_id: topic.id.expect("known before consumers start"),
                partitions: vec![wanted],
            }),
        }
    }
    let Appetite { max_wait_ms, min_bytes, max_bytes, .. } = appetite;
    FetchRequest { max_wait_ms, min_bytes, max_bytes, topics, ..Default::default() }
}

/// Compares every partition of an answer.
pub(super) fn take_partitions(
    world: &World,
    version: i16,
    asked: &Asked,
    answer: &FetchResponse<'_>,
    is_last: bool,
) -> Verdict<Answered> {
    let mut answered = Answered::default();
    for topic in &answer.responses {
        for data in &topic.partitions {
            let mut history = world.history.borrow_mut();
            let known = history.topics.iter().position(|one| match version {
                13.. => one.id == Some(topic.topic_id),
                _ => *one.name == *topic.topic,
            });
            let place = known.and_then(|known| history.place(known, data.partition_index.0));
            let entry = place.and_then(|place| Some((place, *asked.get(&place)?)));
            let Some((place, known)) = entry else {
                let detail = format!("{}-{}", topic.topic, data.partition_index.0);
                return broken("an answer names what was asked", detail);
            };
            if data.error_code != ErrorCode::None {
                let is_out = data.error_code == ErrorCode::OffsetOutOfRange;
                if is_out && history.may_be_gone(place, known.from) {
                    answered.gone.push(place);
                    world.count(|stats| stats.gone += 1);
                } else {
                    check_refusal(&history.name(place), data, is_last)?;
                }
                answered.next.insert(place, known.from);
                continue;
            }
            let before = history.placed_count(place);
            let next = history.shown(&Shown {
                place,
                known,
                high_watermark: data.high_watermark,
                last_stable_offset: data.last_stable_offset,
                log_start: data.log_start_offset,
                bytes: data.records.inline(),
            })?;
            let new = history.placed_count(place) - before;
            drop(history);
            world.count(|stats| stats.fetched_batches += new);
            world.trace.note("shown", "", [place.0 as u64, next.unsigned_abs()]);
            if answered.next.insert(place, next).is_some() {
                return broken("an answer names what was asked", "a partition came twice");
            }
        }
    }
    Ok(answered)
}

fn check_refusal(name: &str, data: &PartitionData<'_>, is_last: bool) -> Verdict {
    let is_explained =
        matches!(data.error_code, ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError);
    if is_explained && !is_last {
        return Ok(());
    }
    broken("refusals are explained by faults", format!("{name}: fetch: {:?}", data.error_code))
}
