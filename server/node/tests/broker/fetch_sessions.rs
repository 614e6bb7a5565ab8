//! Fetch sessions (KIP-227, FE-5): a consumer says and is told what is different, and nothing else.

use std::time::{Duration, Instant};

use record::{PartitionIndex, TopicId};
use wire::ErrorCode;
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::fetch::{FetchRequest, FetchResponse, ForgottenTopic};

use crate::support::{Client, Frame, Node, Topic, batch, fetch_of, plain, values_of};

/// A wait that no test sits through.
const LONG_MS: i32 = 20_000;
const LONG: Duration = Duration::from_millis(LONG_MS as u64);

/// What an answer says of one partition: index, error, values of its records.
type Told = (i32, ErrorCode, Vec<String>);

fn told(frame: &Frame) -> Vec<Told> {
    let answer: FetchResponse<'_> = frame.read();
    assert_eq!(answer.error_code, ErrorCode::None);
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let told = partitions
        .map(|data| (data.partition_index.0, data.error_code, values_of(data.records.inline())));
    told.collect()
}

fn fine(index: i32, values: &[&str]) -> Told {
    (index, ErrorCode::None, values.iter().map(|value| (*value).to_owned()).collect())
}

/// Error and session of an answer without a partition.
fn refusal(frame: &Frame) -> (ErrorCode, i32) {
    let answer: FetchResponse<'_> = frame.read();
    assert_eq!(answer.responses, []);
    (answer.error_code, answer.session_id)
}

/// A session as its client sees it.
struct Session {
    id: i32,
    epoch: i32,
    version: i16,
}

impl Session {
    /// Opens one with a full fetch, and gives what that was told.
    fn open(client: &mut Client, version: i16, request: FetchRequest<'_>) -> (Self, Frame) {
        let (session, frame) = Self::try_open(client, version, request);
        (session.expect("a session"), frame)
    }

    /// [`Session::open`] where there may be no room.
    fn try_open(
        client: &mut Client,
        version: i16,
        request: FetchRequest<'_>,
    ) -> (Option<Self>, Frame) {
        let frame = client.call(version, &FetchRequest { session_epoch: 0, ..request });
        let answer: FetchResponse<'_> = frame.read();
        assert_eq!(answer.error_code, ErrorCode::None);
        let id = answer.session_id;
        assert!(id >= 0);
        ((id != 0).then_some(Self { id, epoch: 1, version }), frame)
    }

    fn next<'a>(&mut self, request: FetchRequest<'a>) -> FetchRequest<'a> {
        let (session_id, session_epoch) = (self.id, self.epoch);
        self.epoch += 1;
        FetchRequest { session_id, session_epoch, ..request }
    }

    /// Goes on, and gives what is new.
    fn go_on(&mut self, client: &mut Client, request: FetchRequest<'_>) -> Vec<Told> {
        let request = self.next(request);
        let frame = client.call(self.version, &request);
        let told = told(&frame);
        assert_eq!(frame.read::<FetchResponse<'_>>().session_id, self.id);
        told
    }
}

/// An incremental fetch that says nothing new.
fn nothing() -> FetchRequest<'static> {
    FetchRequest { min_bytes: 1, max_bytes: 50 << 20, ..Default::default() }
}

fn forget<'a>(topic: &'a Topic, partitions: &[i32]) -> FetchRequest<'a> {
    let forgotten_topics_data = vec![ForgottenTopic {
        topic: topic.name.as_str().into(),
        topic_id: topic.id,
        partitions: partitions.iter().map(|index| PartitionIndex(*index)).collect(),
    }];
    FetchRequest { forgotten_topics_data, ..nothing() }
}

fn delete(client: &mut Client, topic: &Topic) {
    let state = DeleteTopicState { name: None, topic_id: topic.id };
    let request =
        DeleteTopicsRequest { topics: vec![state], timeout_ms: 30_000, ..Default::default() };
    let frame = client.call(6, &request);
    let answer: DeleteTopicsResponse<'_> = frame.read();
    assert_eq!(answer.responses[0].error_code, ErrorCode::None);
}

fn client_and_topic(partitions: i32) -> (Client, Topic) {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, partitions);
    (client, topic)
}

#[test]
fn a_session_tells_all_once_and_then_what_is_new() {
    for version in [7, 9, 11, 12, 13, 15, 16, 18] {
        let (mut client, topic) = client_and_topic(3);
        client.append(&topic, 1, &batch(&["a"]));
        let full = fetch_of(&topic, &[(0, 0), (1, 0), (2, 0)]);
        let (mut session, frame) = Session::open(&mut client, version, full);
        assert_eq!(told(&frame), [fine(0, &[]), fine(1, &["a"]), fine(2, &[])], "v{version}");
        // The client has it now, and says so.
        let read_on = session.go_on(&mut client, fetch_of(&topic, &[(1, 1)]));
        assert_eq!(read_on, [], "v{version}");
        assert_eq!(session.go_on(&mut client, nothing()), [], "v{version}");
        client.append(&topic, 2, &batch(&["b"]));
        let found = session.go_on(&mut client, nothing());
        assert_eq!(found, [fine(2, &["b"])], "v{version}");
        // Not said to be read: it comes again, and so does what is new.
        client.append(&topic, 0, &batch(&["c"]));
        let found = session.go_on(&mut client, nothing());
        assert_eq!(found, [fine(0, &["c"]), fine(2, &["b"])], "v{version}");
        let found = session.go_on(&mut client, fetch_of(&topic, &[(0, 1), (2, 1)]));
        assert_eq!(found, [], "v{version}");
    }
}

#[test]
fn an_answer_names_the_topic_as_its_version_does() {
    let (mut client, topic) = client_and_topic(1);
    let other = Topic::create(&mut client, 1);
    for (version, by_id) in [(7, false), (12, false), (13, true), (18, true)] {
        let mut full = fetch_of(&topic, &[(0, 0)]);
        full.topics.extend(fetch_of(&other, &[(0, 0)]).topics);
        let (mut session, _) = Session::open(&mut client, version, full);
        client.append(&topic, 0, &batch(&["x"]));
        client.append(&other, 0, &batch(&["y"]));
        let request = session.next(nothing());
        let frame = client.call(version, &request);
        let answer: FetchResponse<'_> = frame.read();
        let named: Vec<_> = answer
            .responses
            .iter()
            .map(|named| (named.topic.to_string(), named.topic_id, named.partitions.len()))
            .collect();
        let expected = [&topic, &other].map(|topic| match by_id {
            true => (String::new(), topic.id, 1),
            false => (topic.name.clone(), TopicId::default(), 1),
        });
        assert_eq!(named, expected, "v{version}");
    }
}

#[test]
fn new_ends_are_told_without_records_and_who_gave_records_is_read_last() {
    let (mut client, topic) = client_and_topic(2);
    let (mut session, _) = Session::open(&mut client, 12, fetch_of(&topic, &[(0, 0), (1, 0)]));
    client.append(&topic, 0, &batch(&["first"]));
    client.append(&topic, 1, &batch(&["second"]));
    // Room for one batch: the other partition has a new high watermark to tell.
    let narrow = || FetchRequest { max_bytes: 1, ..nothing() };
    assert_eq!(session.go_on(&mut client, narrow()), [fine(0, &["first"]), fine(1, &[])]);
    // Its turn. The first says nothing, though it has records: there is no room, and its ends are known.
    assert_eq!(session.go_on(&mut client, narrow()), [fine(1, &["second"])]);
    assert_eq!(session.go_on(&mut client, narrow()), [fine(0, &["first"])]);
}

#[test]
fn partitions_join_and_leave_a_session() {
    for version in [7, 12, 13, 18] {
        let (mut client, topic) = client_and_topic(3);
        let (mut session, _) =
            Session::open(&mut client, version, fetch_of(&topic, &[(0, 0), (1, 0)]));
        for partition in 0..3 {
            client.append(&topic, partition, &batch(&["x"]));
        }
        let joined = session.go_on(&mut client, fetch_of(&topic, &[(2, 0)]));
        assert_eq!(joined, [fine(0, &["x"]), fine(1, &["x"]), fine(2, &["x"])], "v{version}");
        // Forgotten is forgotten, whatever comes (P54); what was never there is no mistake.
        let left = session.go_on(&mut client, forget(&topic, &[0, 2, 7]));
        assert_eq!(left, [fine(1, &["x"])], "v{version}");
        client.append(&topic, 0, &batch(&["y"]));
        let left = session.go_on(&mut client, fetch_of(&topic, &[(1, 1)]));
        assert_eq!(left, [], "v{version}");
        // In both lists: forgotten.
        let both =
            FetchRequest { topics: fetch_of(&topic, &[(0, 0)]).topics, ..forget(&topic, &[0]) };
        assert_eq!(session.go_on(&mut client, both), [], "v{version}");
        // And back as a new one.
        let back = session.go_on(&mut client, fetch_of(&topic, &[(0, 1)]));
        assert_eq!(back, [fine(0, &["y"])], "v{version}");
        // Without a partition there is no session.
        let request = session.next(forget(&topic, &[0, 1]));
        let frame = client.call(version, &request);
        assert_eq!(refusal(&frame), (ErrorCode::None, 0), "v{version}");
        let request = session.next(nothing());
        let frame = client.call(version, &request);
        assert_eq!(refusal(&frame), (ErrorCode::FetchSessionIdNotFound, 0), "v{version}");
    }
}

#[test]
fn an_epoch_that_is_not_the_next_or_a_session_that_is_not_here_is_refused() {
    let (mut client, topic) = client_and_topic(1);
    for version in [7, 12, 17] {
        let (mut session, _) = Session::open(&mut client, version, fetch_of(&topic, &[(0, 0)]));
        let mut check = |id, epoch, expected| {
            let request = FetchRequest { session_id: id, session_epoch: epoch, ..nothing() };
            let frame = client.call(version, &request);
            assert_eq!(refusal(&frame), (expected, 0), "v{version} epoch {epoch}");
        };
        for epoch in [2, i32::MAX, i32::MIN, -2] {
            check(session.id, epoch, ErrorCode::InvalidFetchSessionEpoch);
        }
        for (id, epoch) in [(session.id ^ 1, 1), (0, 1), (-1, 1), (i32::MIN, i32::MAX)] {
            check(id, epoch, ErrorCode::FetchSessionIdNotFound);
        }
        // Refused requests change nothing.
        assert_eq!(session.go_on(&mut client, nothing()), [], "v{version}");
        let repeated = FetchRequest { session_id: session.id, session_epoch: 1, ..nothing() };
        let frame = client.call(version, &repeated);
        assert_eq!(refusal(&frame), (ErrorCode::InvalidFetchSessionEpoch, 0), "v{version}");
    }
}

#[test]
fn a_session_does_not_mix_names_and_ids() {
    let (mut client, topic) = client_and_topic(1);
    for (opened, other) in [(12, 13), (7, 18), (13, 12), (18, 7)] {
        let (mut session, _) = Session::open(&mut client, opened, fetch_of(&topic, &[(0, 0)]));
        let request = FetchRequest { session_id: session.id, session_epoch: 1, ..nothing() };
        let frame = client.call(other, &request);
        let expected = (ErrorCode::FetchSessionTopicIdError, 0);
        assert_eq!(refusal(&frame), expected, "v{opened} v{other}");
        assert_eq!(session.go_on(&mut client, nothing()), [], "v{opened} v{other}");
    }
}

#[test]
fn a_full_fetch_closes_the_session_that_it_names() {
    let (mut client, topic) = client_and_topic(1);
    client.append(&topic, 0, &batch(&["full"]));
    for epoch in [0, -1] {
        let (mut session, _) = Session::open(&mut client, 12, fetch_of(&topic, &[(0, 0)]));
        let request = FetchRequest {
            session_id: session.id,
            session_epoch: epoch,
            ..fetch_of(&topic, &[(0, 0)])
        };
        let frame = client.call(12, &request);
        assert_eq!(told(&frame), [fine(0, &["full"])], "epoch {epoch}");
        let answer: FetchResponse<'_> = frame.read();
        // Epoch 0 asks for another in its place, -1 for none.
        assert_eq!(answer.session_id != 0, epoch == 0);
        assert_ne!(answer.session_id, session.id);
        let request = session.next(nothing());
        let frame = client.call(12, &request);
        assert_eq!(refusal(&frame), (ErrorCode::FetchSessionIdNotFound, 0), "epoch {epoch}");
    }
}

#[test]
fn an_error_is_told_each_time_and_its_end_is_news() {
    let (mut client, topic) = client_and_topic(2);
    let full = fetch_of(&topic, &[(0, 5), (1, 0)]);
    let (mut session, frame) = Session::open(&mut client, 12, full);
    let out_of_range = (0, ErrorCode::OffsetOutOfRange, Vec::new());
    assert_eq!(told(&frame), [out_of_range.clone(), fine(1, &[])]);
    for _ in 0..2 {
        assert_eq!(session.go_on(&mut client, nothing()), std::slice::from_ref(&out_of_range));
    }
    // The ends are what they were: it is the error that is over.
    let mended = session.go_on(&mut client, fetch_of(&topic, &[(0, 0)]));
    assert_eq!(mended, [fine(0, &[])]);
    assert_eq!(session.go_on(&mut client, nothing()), []);
}

#[test]
fn a_session_waits_for_any_of_its_partitions() {
    let (mut writer, topic) = client_and_topic(2);
    let mut reader = Node::shared().connect();
    for version in [12, 13] {
        let from = [writer.end_of(&topic, 0), writer.end_of(&topic, 1)];
        let full = fetch_of(&topic, &[(0, from[0]), (1, from[1])]);
        let (mut session, _) = Session::open(&mut reader, version, full);
        let started = Instant::now();
        let request = session.next(FetchRequest { max_wait_ms: 150, ..nothing() });
        let frame = reader.call(version, &request);
        assert_eq!(told(&frame), []);
        assert!(started.elapsed() >= Duration::from_millis(150));
        let request = session.next(FetchRequest { max_wait_ms: LONG_MS, ..nothing() });
        reader.send(version, &request);
        for _ in 0..3 {
            writer.expect_alive();
        }
        writer.append(&topic, 1, &batch(&["wake"]));
        let frame = reader.receive(version).unwrap();
        assert_eq!(told(&frame), [fine(1, &["wake"])]);
        assert!(started.elapsed() < LONG);
    }
}

#[test]
fn an_unknown_id_stays_in_the_session_and_is_told_without_a_hot_loop() {
    let (mut writer, topic) = client_and_topic(1);
    let mut reader = Node::shared().connect();
    let unknown = Topic { name: String::new(), id: TopicId([9; 16]) };
    let (mut session, _) = Session::open(&mut reader, 13, fetch_of(&topic, &[(0, 0)]));
    let unknown_id = (0, ErrorCode::UnknownTopicId, Vec::new());
    // News does not wait.
    let started = Instant::now();
    let joins = FetchRequest { max_wait_ms: LONG_MS, ..fetch_of(&unknown, &[(0, 0)]) };
    assert_eq!(session.go_on(&mut reader, joins), std::slice::from_ref(&unknown_id));
    assert!(started.elapsed() < LONG);
    // Old news does, and the others are served.
    let started = Instant::now();
    let waits = || FetchRequest { max_wait_ms: 150, ..nothing() };
    assert_eq!(session.go_on(&mut reader, waits()), std::slice::from_ref(&unknown_id));
    assert!(started.elapsed() >= Duration::from_millis(150));
    writer.append(&topic, 0, &batch(&["served"]));
    let mut found = session.go_on(&mut reader, waits());
    found.sort_by_key(|(_, error, _)| error.code());
    let expected = [fine(0, &["served"]), unknown_id];
    assert_eq!(found, expected);
}

#[test]
fn a_topic_made_again_is_another_by_id_and_the_same_by_name() {
    let (mut client, topic) = client_and_topic(1);
    client.append(&topic, 0, &batch(&["old"]));
    let full = || fetch_of(&topic, &[(0, 1)]);
    let (mut by_name, _) = Session::open(&mut client, 12, full());
    let (mut by_id, _) = Session::open(&mut client, 13, full());
    delete(&mut client, &topic);
    let gone = [(0, ErrorCode::UnknownTopicOrPartition, Vec::new())];
    assert_eq!(by_name.go_on(&mut client, nothing()), gone);
    assert_eq!(by_id.go_on(&mut client, nothing()), gone);
    let again = Topic::create_named(&mut client, &topic.name, 1, &[]);
    assert_ne!(again.id, topic.id);
    client.append(&again, 0, &batch(&["new", "newer"]));
    let inconsistent = [(0, ErrorCode::InconsistentTopicId, Vec::new())];
    assert_eq!(by_id.go_on(&mut client, nothing()), inconsistent);
    assert_eq!(by_name.go_on(&mut client, nothing()), [fine(0, &["new", "newer"])]);
    // The client finds out, forgets the old id and brings the new one: the session goes on.
    let mut request = forget(&topic, &[0]);
    request.topics = fetch_of(&again, &[(0, 0)]).topics;
    assert_eq!(by_id.go_on(&mut client, request), [fine(0, &["new", "newer"])]);
    // A full fetch knows of no names: to it the old id is unknown.
    let frame = client.call(13, &fetch_of(&topic, &[(0, 0)]));
    assert_eq!(told(&frame), [(0, ErrorCode::UnknownTopicId, Vec::new())]);
}

#[test]
fn a_session_goes_on_over_another_connection_and_a_request_that_is_overtaken_is_refused() {
    let (mut writer, topic) = client_and_topic(1);
    let (mut session, _) = Session::open(&mut writer, 12, fetch_of(&topic, &[(0, 0)]));
    let [mut first, mut second] = [(); 2].map(|()| Node::shared().connect());
    let request = session.next(FetchRequest { max_wait_ms: LONG_MS, ..nothing() });
    first.send(12, &request);
    Node::shared().wait_for_metric("corelog_fetches_parked", |parked| parked > 0);
    // The first may not have been read yet, though another fetch waits: then it is this one that comes too early.
    let begun = Instant::now();
    loop {
        let ahead = FetchRequest { session_id: session.id, session_epoch: 2, ..nothing() };
        let frame = second.call(12, &ahead);
        let answer: FetchResponse<'_> = frame.read();
        if answer.error_code == ErrorCode::None {
            break;
        }
        assert_eq!(answer.error_code, ErrorCode::InvalidFetchSessionEpoch);
        assert!(begun.elapsed() < LONG);
    }
    writer.append(&topic, 0, &batch(&["late"]));
    let frame = first.receive(12).unwrap();
    assert_eq!(refusal(&frame), (ErrorCode::InvalidFetchSessionEpoch, 0));
    session.epoch = 3;
    assert_eq!(session.go_on(&mut second, nothing()), [fine(0, &["late"])]);
}

#[test]
fn sessions_are_bounded_and_counted() {
    let mut node = Node::start(1, &["max.incremental.fetch.session.cache.slots=2"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 2);
    client.append(&topic, 0, &batch(&["x"]));
    let full = || fetch_of(&topic, &[(0, 0), (1, 0)]);
    let (mut first, _) = Session::open(&mut client, 12, full());
    let (mut second, _) = Session::open(&mut client, 12, full());
    assert_ne!(first.id, second.id);
    for _ in 0..1_000 {
        // No room for a third: served all the same, without one.
        let (session, frame) = Session::try_open(&mut client, 12, full());
        assert!(session.is_none());
        assert_eq!(told(&frame), [fine(0, &["x"]), fine(1, &[])]);
    }
    assert_eq!(node.metric("corelog_fetch_sessions"), 2);
    assert_eq!(node.metric("corelog_fetch_session_partitions"), 4);
    assert_eq!(node.metric("corelog_fetch_session_evictions_total"), 0);
    assert_eq!(node.metric("corelog_fetches_incremental_total"), 0);
    assert_eq!(first.go_on(&mut client, fetch_of(&topic, &[(0, 1)])), []);
    assert_eq!(second.go_on(&mut client, fetch_of(&topic, &[(0, 1)])), []);
    assert_eq!(node.metric("corelog_fetches_incremental_total"), 2);
    // One closes, and another finds room.
    let close = FetchRequest { session_id: first.id, session_epoch: -1, ..full() };
    client.call(12, &close);
    assert_eq!(node.metric("corelog_fetch_sessions"), 1);
    let (third, _) = Session::open(&mut client, 12, full());
    assert_ne!(third.id, first.id);
    // They end with the process: the client is told and begins again.
    node.stop();
    node.start_again();
    let mut client = node.connect();
    let request = second.next(nothing());
    let frame = client.call(12, &request);
    assert_eq!(refusal(&frame), (ErrorCode::FetchSessionIdNotFound, 0));
}

#[test]
fn no_slots_are_no_sessions() {
    let node = Node::start(1, &["max.incremental.fetch.session.cache.slots=0"]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let (session, frame) = Session::try_open(&mut client, 12, fetch_of(&topic, &[(0, 0)]));
    assert!(session.is_none());
    assert_eq!(told(&frame), [fine(0, &[])]);
}

#[test]
fn a_session_reads_from_every_core_and_lives_on_its_own() {
    let node = Node::shared_pair();
    let [mut client, mut elsewhere] = [0, 1].map(|core| node.connect_to_core(core));
    let topic = Topic::create(&mut client, 4);
    let full = fetch_of(&topic, &[(0, 0), (1, 0), (2, 0), (3, 0)]);
    let (mut session, _) = Session::open(&mut client, 12, full);
    for partition in 0..4 {
        let value = format!("p{partition}");
        elsewhere.append(&topic, partition, &batch(&[&value]));
        let wait = FetchRequest { max_wait_ms: LONG_MS, ..nothing() };
        assert_eq!(session.go_on(&mut client, wait), [fine(partition, &[&value])]);
        assert_eq!(session.go_on(&mut client, fetch_of(&topic, &[(partition, 1)])), []);
    }
    let request = session.next(nothing());
    let frame = elsewhere.call(12, &request);
    assert_eq!(refusal(&frame), (ErrorCode::FetchSessionIdNotFound, 0));
}

#[test]
fn every_partition_has_its_turn_while_the_budget_is_short() {
    let (mut client, topic) = client_and_topic(4);
    let records = plain(1_000);
    for partition in 0..4 {
        for _ in 0..4 {
            client.append(&topic, partition, &records);
        }
    }
    let narrow = |request| FetchRequest { max_bytes: 1, ..request };
    let mut from = [0; 4];
    let all = fetch_of(&topic, &[(0, 0), (1, 0), (2, 0), (3, 0)]);
    // The full fetch reads the first one; sessions order what comes after it.
    let (mut session, _) = Session::open(&mut client, 12, narrow(all));
    let mut turns = Vec::new();
    for _ in 0..12 {
        let positions: Vec<(i32, i64)> = (0..).zip(from).collect();
        let request = session.next(narrow(fetch_of(&topic, &positions)));
        let frame = client.call(12, &request);
        let answer: FetchResponse<'_> = frame.read();
        for data in &answer.responses[0].partitions {
            if !data.records.inline().is_empty() {
                turns.push(data.partition_index.0);
                from[usize::try_from(data.partition_index.0).unwrap()] += 1;
            }
        }
    }
    assert_eq!(turns, [0, 1, 2, 3].repeat(3));
    assert_eq!(from, [3; 4]);
}
