//! The sessions against a model that scans where they look up, and the rules one by one.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of these tests are small"
)]

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use record::{LeaderEpoch, Offset, PartitionIndex, ShardIndex, TopicId};

use super::session::{PARTITION_BYTES, TOPIC_BYTES};
use super::*;
use crate::shard::TopicRef;

const ROOMY: SessionLimits = SessionLimits { slots: 3, bytes_max: 1 << 20 };

fn wanted(offset: i64) -> Wanted {
    Wanted {
        offset: Offset(offset),
        bytes_max: 1,
        current_leader_epoch: LeaderEpoch::NONE,
        last_fetched_epoch: LeaderEpoch::NONE,
    }
}

fn ends(high_watermark: i64, log_start: i64, bytes: usize) -> Read {
    let ends = Shown { high_watermark: Offset(high_watermark), log_start: Offset(log_start) };
    Read::Ends { ends, bytes, diverges: false }
}

fn id_of(topic: u8) -> TopicId {
    TopicId([topic; 16])
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A topic of the tests, in the words of a session.
fn topic_of(naming: Naming, topic: u8) -> TopicRef<'static> {
    match naming {
        Naming::Names => TopicRef::Name(NAMES[usize::from(topic) % NAMES.len()]),
        Naming::Ids => TopicRef::Id(id_of(topic)),
    }
}

/// A partition of the tests.
type Key = (u8, i32);

fn put_all(session: &mut FetchSession, keys: &[Key], offset: i64, shown: Shown) {
    let naming = session.naming();
    for (topic, index) in keys {
        let topic = topic_of(naming, *topic);
        session.put(topic, PartitionIndex(*index), wanted(offset), shown);
    }
}

/// What a session reads, in order.
fn order_of(session: &mut FetchSession) -> Vec<(Key, i64)> {
    let mut order = Vec::new();
    session.for_each(|position, topic, partition| {
        assert_eq!(position as usize, order.len());
        let topic = match &topic.name {
            Some(name) => NAMES.iter().position(|known| **known == **name).unwrap() as u8,
            None => topic.id.0[0],
        };
        order.push(((topic, partition.index.0), partition.wanted.offset.0));
    });
    order
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Opens a session of partitions `0..size` of topic 1.
fn open(sessions: &mut FetchSessions, now: Duration, size: i32, random: u32) -> Option<SessionId> {
    let keys: Vec<Key> = (0..size).map(|index| (1, index)).collect();
    sessions.create(
        now,
        (Naming::Ids, keys.len()),
        || random,
        |session| {
            put_all(session, &keys, 0, Shown::NOTHING);
        },
    )
}

fn resume(
    sessions: &mut FetchSessions,
    now: Duration,
    id: SessionId,
    epoch: i32,
) -> Result<Resumed, SessionRefusal> {
    let resumption = Resumption { id, epoch: SessionEpoch(epoch), naming: Naming::Ids };
    sessions.resume(now, resumption, |_| {})
}

#[test]
fn epochs_count_up_and_wrap_to_one() {
    for (epoch, next) in [(0, 1), (1, 2), (i32::MAX - 1, i32::MAX), (i32::MAX, 1), (-1, -1)] {
        assert_eq!(SessionEpoch(epoch).next(), SessionEpoch(next));
    }
    let mut sessions = FetchSessions::new(ROOMY);
    let id = open(&mut sessions, seconds(0), 1, 7).unwrap();
    sessions.sessions.get_mut(&id).unwrap().epoch = SessionEpoch(i32::MAX);
    assert_eq!(resume(&mut sessions, seconds(0), id, i32::MAX), Ok(Resumed::Open));
    assert!(sessions.answering(id, SessionEpoch(i32::MAX)).is_ok());
    assert_eq!(resume(&mut sessions, seconds(0), id, 1), Ok(Resumed::Open));
}

#[test]
fn every_random_number_makes_an_id_that_is_positive_and_free() {
    for random in [0, 1, i32::MAX as u32 - 1, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
        assert!(SessionId::of_random(random).0 > 0, "{random}");
    }
    let mut sessions = FetchSessions::new(ROOMY);
    let first = open(&mut sessions, seconds(0), 1, 5).unwrap();
    let mut numbers = [5, 5, 9].into_iter();
    let second = sessions.create(
        seconds(0),
        (Naming::Ids, 1),
        || numbers.next().unwrap(),
        |session| put_all(session, &[(1, 0)], 0, Shown::NOTHING),
    );
    assert_eq!((first, second), (SessionId(6), Some(SessionId(10))));
    // A generator that is stuck is no reason to wait for ever.
    assert_eq!(open(&mut sessions, seconds(0), 1, 5), None);
}

#[test]
fn each_epoch_is_taken_once_and_by_its_own_naming() {
    let mut sessions = FetchSessions::new(ROOMY);
    let id = open(&mut sessions, seconds(0), 1, 1).unwrap();
    let refused = |asked, current| {
        let (asked, current) = (SessionEpoch(asked), SessionEpoch(current));
        Err(SessionRefusal::WrongEpoch { asked, current })
    };
    assert_eq!(resume(&mut sessions, seconds(0), id, 2), refused(2, 1));
    assert_eq!(resume(&mut sessions, seconds(0), id, 1), Ok(Resumed::Open));
    assert_eq!(resume(&mut sessions, seconds(0), id, 1), refused(1, 2));
    let by_name = Resumption { id, epoch: SessionEpoch(2), naming: Naming::Names };
    let found = sessions.resume(seconds(0), by_name, |_| panic!("nothing changes"));
    assert_eq!(found, Err(SessionRefusal::OtherNaming(Naming::Ids)));
    // The request of epoch 1 that still waits is not answered once that of epoch 2 has begun.
    assert!(sessions.answering(id, SessionEpoch(1)).is_ok());
    assert_eq!(resume(&mut sessions, seconds(0), id, 2), Ok(Resumed::Open));
    assert!(sessions.answering(id, SessionEpoch(1)).is_err());
    let other = SessionId(id.0 + 1);
    assert_eq!(resume(&mut sessions, seconds(0), other, 1), Err(SessionRefusal::NotFound(other)));
    sessions.close(id);
    assert_eq!(resume(&mut sessions, seconds(0), id, 3), Err(SessionRefusal::NotFound(id)));
    assert_eq!((sessions.count(), sessions.partition_count(), sessions.bytes), (0, 0, 0));
}

#[test]
fn a_young_session_that_is_used_stays_whatever_comes() {
    let mut sessions = FetchSessions::new(ROOMY);
    let ids: Vec<_> =
        (1..=3).map(|size| open(&mut sessions, seconds(0), size, size as u32).unwrap()).collect();
    assert_eq!(open(&mut sessions, seconds(120), 100, 50), None);
    // Unused for more than 120 seconds: the first of them goes.
    for id in &ids[1..] {
        resume(&mut sessions, seconds(60), *id, 1).unwrap();
    }
    assert!(open(&mut sessions, seconds(121), 1, 50).is_some());
    assert_eq!(
        resume(&mut sessions, seconds(121), ids[0], 1),
        Err(SessionRefusal::NotFound(ids[0]))
    );
    assert_eq!((sessions.count(), sessions.evictions()), (3, 1));
}

#[test]
fn an_old_session_gives_way_to_a_larger_one_only() {
    let mut sessions = FetchSessions::new(ROOMY);
    let ids: Vec<_> =
        [5, 4, 6].map(|size| open(&mut sessions, seconds(0), size, size as u32).unwrap()).to_vec();
    for id in &ids {
        resume(&mut sessions, seconds(100), *id, 1).unwrap();
        // Old from now on.
        resume(&mut sessions, seconds(121), *id, 2).unwrap();
    }
    assert_eq!(open(&mut sessions, seconds(122), 4, 50), None);
    assert!(open(&mut sessions, seconds(122), 5, 50).is_some());
    assert!(resume(&mut sessions, seconds(122), ids[1], 3).is_err());
    assert!(resume(&mut sessions, seconds(122), ids[0], 3).is_ok());
}

#[test]
fn memory_is_bounded_over_all_sessions() {
    let bytes_max = 2 * TOPIC_BYTES + 10 * PARTITION_BYTES;
    let mut sessions = FetchSessions::new(SessionLimits { slots: 100, bytes_max });
    assert_eq!(open(&mut sessions, seconds(0), 12, 1), None);
    let id = open(&mut sessions, seconds(0), 6, 1).unwrap();
    assert_eq!(open(&mut sessions, seconds(0), 5, 2), None);
    assert!(open(&mut sessions, seconds(0), 4, 3).is_some());
    let grow = Resumption { id, epoch: SessionEpoch(1), naming: Naming::Ids };
    let grown = sessions.resume(seconds(0), grow, |session| {
        put_all(session, &[(1, 6)], 0, Shown::NOTHING);
    });
    assert_eq!(grown, Err(SessionRefusal::TooLarge));
    assert_eq!((sessions.count(), sessions.partition_count()), (1, 4));
    // A name counts as well: it may have 32 KiB.
    let name = "n".repeat(bytes_max);
    let created = sessions.create(
        seconds(0),
        (Naming::Names, 1),
        || 9,
        |session| {
            let index = PartitionIndex(0);
            session.put(TopicRef::Name(&name), index, wanted(0), Shown::NOTHING);
        },
    );
    assert_eq!(created, None);
    assert_eq!(sessions.evictions(), 0);
}

#[test]
fn no_slots_are_no_sessions_and_every_core_has_its_share() {
    let mut none = FetchSessions::new(SessionLimits::of_core(0, 4));
    assert_eq!(open(&mut none, seconds(0), 1, 1), None);
    for (slots, shards, share) in [(1000, 1, 1000), (1000, 3, 334), (1, 8, 1), (0, 8, 0)] {
        assert_eq!(SessionLimits::of_core(slots, shards).slots, share);
    }
}

#[test]
fn a_session_whose_last_partition_is_forgotten_is_closed() {
    let mut sessions = FetchSessions::new(ROOMY);
    let id = open(&mut sessions, seconds(0), 2, 1).unwrap();
    let forget = |sessions: &mut FetchSessions, epoch, index| {
        let resumption = Resumption { id, epoch: SessionEpoch(epoch), naming: Naming::Ids };
        sessions.resume(seconds(0), resumption, |session| {
            session.forget(TopicRef::Id(id_of(1)), PartitionIndex(index));
            // Never there: no mistake.
            session.forget(TopicRef::Id(id_of(1)), PartitionIndex(77));
            session.forget(TopicRef::Id(id_of(9)), PartitionIndex(0));
        })
    };
    assert_eq!(forget(&mut sessions, 1, 0), Ok(Resumed::Open));
    assert_eq!(sessions.partition_count(), 1);
    assert_eq!(forget(&mut sessions, 2, 1), Ok(Resumed::Emptied));
    assert_eq!((sessions.count(), sessions.partition_count(), sessions.bytes), (0, 0, 0));
}

#[test]
fn news_are_records_ends_errors_and_divergence() {
    let mut session = FetchSession::new(Naming::Names);
    put_all(&mut session, &[(0, 0)], 0, Shown::NOTHING);
    let diverging = |high_watermark| {
        let ends = Shown { high_watermark: Offset(high_watermark), log_start: Offset(0) };
        Read::Ends { ends, bytes: 0, diverges: true }
    };
    for (step, (read, is_news)) in [
        (ends(5, 0, 0), true),
        (ends(5, 0, 0), false),
        (ends(5, 0, 10), true),
        (ends(6, 0, 0), true),
        (ends(6, 2, 0), true),
        (ends(6, 2, 0), false),
        (Read::Refused, true),
        (Read::Refused, true),
        (ends(6, 2, 0), true),
        (ends(6, 2, 0), false),
        (diverging(6), true),
        (diverging(6), true),
        (ends(6, 0, 0), false),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(session.answer(0, read), is_news, "step {step}");
    }
    assert!(!session.answer(1, Read::Refused), "there is no such position");
}

#[test]
fn partitions_that_gave_records_are_read_last() {
    let mut session = FetchSession::new(Naming::Names);
    put_all(&mut session, &[(0, 0), (0, 1), (1, 0), (1, 1)], 0, Shown::NOTHING);
    for (position, read) in
        [ends(1, 0, 7), ends(1, 0, 0), ends(1, 0, 7), Read::Refused].into_iter().enumerate()
    {
        session.answer(position as u32, read);
    }
    session.settle();
    let order: Vec<Key> = order_of(&mut session).into_iter().map(|(key, _)| key).collect();
    assert_eq!(order, [(0, 1), (1, 1), (0, 0), (1, 0)]);
}

#[test]
fn places_are_remembered_until_the_metadata_is_another() {
    let mut session = FetchSession::new(Naming::Names);
    put_all(&mut session, &[(0, 0)], 0, Shown::NOTHING);
    let place = Some((ShardIndex(1), id_of(3)));
    let look = |session: &mut FetchSession| {
        let found = Cell::new(None);
        session.for_each(|_, _, partition| found.set(partition.place));
        found.get()
    };
    session.expect_places_of(Offset(1));
    session.for_each(|_, _, partition| partition.place = place);
    session.expect_places_of(Offset(1));
    assert_eq!(look(&mut session), place);
    session.expect_places_of(Offset(2));
    assert_eq!(look(&mut session), None);
}

/// One session of the model: a list that is searched.
#[derive(Debug, Clone)]
struct ModelSession {
    id: SessionId,
    naming: Naming,
    epoch: i32,
    created_at: u64,
    used_at: u64,
    /// Old when it was last used.
    was_old: bool,
    size: usize,
    partitions: Vec<ModelPartition>,
}

#[derive(Debug, Clone)]
struct ModelPartition {
    key: Key,
    offset: i64,
    shown: (i64, i64),
}

#[derive(Debug, Default)]
struct Model {
    sessions: Vec<ModelSession>,
    evictions: u64,
}

impl Model {
    /// Kafka's tryEvict: stale first, else the smallest old one that is smaller than the newcomer.
    fn make_room(&mut self, now: u64, size: usize) -> bool {
        if self.sessions.len() < ROOMY.slots {
            return true;
        }
        let stale = self.sessions.iter().min_by_key(|session| (session.used_at, session.id));
        let evictee = match stale {
            Some(session) if now - session.used_at > 120 => Some(session.id),
            _ => {
                let old = self.sessions.iter().filter(|session| session.was_old);
                let smallest = old.min_by_key(|session| (session.size, session.id));
                smallest.filter(|session| session.size < size).map(|session| session.id)
            }
        };
        let Some(evictee) = evictee else { return false };
        self.sessions.retain(|session| session.id != evictee);
        self.evictions += 1;
        true
    }
}

impl ModelSession {
    fn put(&mut self, key: Key, offset: i64, shown: (i64, i64)) {
        match self.partitions.iter_mut().find(|partition| partition.key == key) {
            Some(partition) => partition.offset = offset,
            None => self.partitions.push(ModelPartition { key, offset, shown }),
        }
    }

    /// Kafka's maybeUpdateResponseData and the move to the tail.
    fn answer(&mut self, reads: &[Read]) -> Vec<bool> {
        let mut news = Vec::new();
        let mut moving = Vec::new();
        for (partition, read) in self.partitions.iter_mut().zip(reads) {
            let mut is_news = false;
            match read {
                Read::Refused => {
                    is_news = true;
                    partition.shown.0 = -1;
                }
                Read::Ends { ends, bytes, diverges } => {
                    is_news |= *bytes > 0 || *diverges;
                    is_news |= partition.shown.0 != ends.high_watermark.0;
                    is_news |= partition.shown.1 != ends.log_start.0;
                    partition.shown = (ends.high_watermark.0, ends.log_start.0);
                    if *bytes > 0 {
                        moving.push(partition.key);
                    }
                }
            }
            news.push(is_news);
        }
        for key in moving {
            let at = self.partitions.iter().position(|partition| partition.key == key).unwrap();
            let partition = self.partitions.remove(at);
            self.partitions.push(partition);
        }
        news
    }
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Open {
        naming: Naming,
        keys: Vec<Key>,
    },
    Close {
        at: usize,
    },
    GoOn {
        at: usize,
        skew: i32,
        naming_differs: bool,
        put: Vec<Key>,
        forget: Vec<Key>,
        reads: Vec<Read>,
    },
}

fn keys(count: usize) -> impl Strategy<Value = Vec<Key>> {
    vec((0..3_u8, 0..4_i32), 0..count)
}

fn read() -> impl Strategy<Value = Read> {
    prop_oneof![
        1 => Just(Read::Refused),
        6 => (0..3_i64, 0..2_i64, 0..2_usize).prop_map(|(end, start, bytes)| ends(end, start, bytes)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let naming = prop_oneof![Just(Naming::Names), Just(Naming::Ids)];
    let go_on = (0..4_usize, 0..8_i32, 0..12_u8, keys(4), keys(4), vec(read(), 12)).prop_map(
        |(at, skew, differs, put, forget, reads)| Step::GoOn {
            at,
            // Mostly right.
            skew: if skew == 1 { 1 } else { 0 },
            naming_differs: differs == 0,
            put,
            forget,
            reads,
        },
    );
    prop_oneof![
        2 => (0..90_u64).prop_map(Step::Wait),
        3 => (naming, keys(12)).prop_map(|(naming, keys)| Step::Open { naming, keys }),
        1 => (0..4_usize).prop_map(|at| Step::Close { at }),
        8 => go_on,
    ]
}

/// Both sides of the comparison, and their clock.
struct Pair {
    real: FetchSessions,
    model: Model,
    now: u64,
    opened: u32,
}

impl Pair {
    fn step(&mut self, step: Step) {
        match step {
            Step::Wait(time) => self.now += time,
            Step::Open { naming, keys } => self.open(naming, &keys),
            Step::Close { at } => {
                if let Some(session) = self.model.sessions.get(at) {
                    self.real.close(session.id);
                    self.model.sessions.remove(at);
                }
            }
            Step::GoOn { at, skew, naming_differs, put, forget, reads } => {
                let differs = if naming_differs { Some(()) } else { None };
                self.go_on((at, skew, differs), (&put, &forget), &reads);
            }
        }
        assert_eq!(self.real.count(), self.model.sessions.len());
        let partitions = self.model.sessions.iter().map(|session| session.partitions.len());
        assert_eq!(self.real.partition_count(), partitions.sum::<usize>());
        assert_eq!(self.real.evictions(), self.model.evictions);
    }

    fn open(&mut self, naming: Naming, keys: &[Key]) {
        self.opened += 1;
        let mut session = ModelSession {
            id: SessionId::of_random(self.opened),
            naming,
            epoch: 1,
            created_at: self.now,
            used_at: self.now,
            was_old: false,
            size: 0,
            partitions: Vec::new(),
        };
        for key in keys {
            session.put(*key, 1, (-1, -1));
        }
        session.size = session.partitions.len();
        let kind = (naming, session.size);
        let opened = self.opened;
        let real = self.real.create(
            seconds(self.now),
            kind,
            || opened,
            |session| {
                put_all(session, keys, 1, Shown::NOTHING);
            },
        );
        let has_room = self.model.make_room(self.now, session.size);
        assert_eq!(real, has_room.then_some(session.id));
        if has_room {
            self.model.sessions.push(session);
        }
    }

    fn go_on(
        &mut self,
        (at, skew, differs): (usize, i32, Option<()>),
        (put, forget): (&[Key], &[Key]),
        reads: &[Read],
    ) {
        let Some(session) = self.model.sessions.get_mut(at) else { return };
        let naming = match (differs, session.naming) {
            (None, naming) => naming,
            (Some(()), Naming::Names) => Naming::Ids,
            (Some(()), Naming::Ids) => Naming::Names,
        };
        let (id, epoch) = (session.id, SessionEpoch(session.epoch + skew));
        let resumption = Resumption { id, epoch, naming };
        let resumed = self.real.resume(seconds(self.now), resumption, |session| {
            put_all(session, put, 2, Shown::NOTHING);
            for (topic, index) in forget {
                session.forget(topic_of(naming, *topic), PartitionIndex(*index));
            }
        });
        if skew != 0 {
            let current = SessionEpoch(session.epoch);
            assert_eq!(resumed, Err(SessionRefusal::WrongEpoch { asked: epoch, current }));
            return;
        }
        if differs.is_some() {
            assert_eq!(resumed, Err(SessionRefusal::OtherNaming(session.naming)));
            return;
        }
        for key in put {
            session.put(*key, 2, (-1, -1));
        }
        session.partitions.retain(|partition| !forget.contains(&partition.key));
        if session.partitions.is_empty() {
            assert_eq!(resumed, Ok(Resumed::Emptied));
            self.model.sessions.remove(at);
            return;
        }
        assert_eq!(resumed, Ok(Resumed::Open));
        session.epoch += 1;
        session.used_at = self.now;
        session.size = session.partitions.len();
        session.was_old = self.now - session.created_at > 120;
        let real = self.real.answering(id, epoch).unwrap();
        let expected: Vec<_> =
            session.partitions.iter().map(|partition| (partition.key, partition.offset)).collect();
        assert_eq!(order_of(real), expected);
        let count = session.partitions.len() as u32;
        let news = (0..count).zip(reads).map(|(position, read)| real.answer(position, *read));
        let news: Vec<bool> = news.collect();
        real.settle();
        assert_eq!(news, session.answer(reads));
        let expected: Vec<_> =
            session.partitions.iter().map(|partition| (partition.key, partition.offset)).collect();
        assert_eq!(order_of(real), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn sessions_do_as_the_model_does(steps in vec(step(), 1..60)) {
        let model = Model::default();
        let mut pair = Pair { real: FetchSessions::new(ROOMY), model, now: 0, opened: 0 };
        for step in steps {
            pair.step(step);
        }
    }
}
